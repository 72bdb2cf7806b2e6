"""The Python examples of the documentation: the tutorial and the README run, all others parse."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dsckpt

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def dsckpt_command(*arguments: str, check: bool = True) -> str:
    """What the command of this package prints.

    Args:
        check: Whether the answer has to be yes; else it may be no.
    """
    words = [sys.executable, "-c", "from dsckpt._cli import main; main()", *arguments]
    package = os.path.dirname(os.path.dirname(os.path.abspath(dsckpt.__file__)))
    environment = {**os.environ, "PYTHONPATH": package}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert done.returncode in ((0,) if check else (0, 1)), arguments
    return done.stdout


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, code, its first line) of the blocks of a page."""
    text = page.read_text()
    return [
        (found[1], found[2].replace("\\\n", " "), text.count("\n", 0, found.start()) + 2)
        for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def run(page: Path, names: dict[str, Any], commands: bool = False) -> None:
    """Runs the Python blocks of a page one after the other, and lines that begin with dsckpt."""
    for language, code, line in blocks(page):
        if language == "python":
            exec(compile("\n" * (line - 1) + code, page, "exec"), names)
        for command in re.findall(r"^dsckpt ([^#\n]*)", code, re.MULTILINE):
            if language == "sh" and commands:
                dsckpt_command(*command.split())


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(ROOT / "docs/tutorial/python.md", {}, commands=True)
    assert (tmp_path / "runs/a/latest").read_text() == "step-0000000040\n"


def test_the_tutorial_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its commands print is what the page shows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = ""
    shown = 0
    for language, code, line in blocks(ROOT / "docs/tutorial/trajectory.md"):
        if language == "python":
            exec(compile("\n" * (line - 1) + code, "trajectory.md", "exec"), names)
        if language == "sh":
            commands = [shlex.split(words) for words in re.findall(r"^dsckpt (.*)", code, re.M)]
            printed = "".join(dsckpt_command(*words, check=False) for words in commands)
        if language == "text":
            assert printed == code, f"line {line}"
            shown += 1
    assert shown >= 8
    assert (tmp_path / "runs/a/latest").read_text() == "step-0000008000\n"


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Embedding(100, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    names = {
        "state": {"model": {"embed": model.weight.detach().clone()}},
        "model": model,
        "optimizer": optimizer,
        "step": 7,
        "loss": model(torch.tensor([1, 2])).square().mean(),
    }
    run(ROOT / "README.md", names)
    assert names["rows"].shape == (10, 4)
    assert names["last"].step == 7
    names["run"].close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_others_parse(page: Path) -> None:
    for language, code, _ in blocks(page):
        if language == "python":
            ast.parse(code, page.name)


def test_the_commands_are_those_of_the_program() -> None:
    """Every `dsckpt COMMAND --option` of the pages is one that the command explains."""
    explained: dict[str, str] = {}
    wrong = []
    for page in PAGES:
        for language, code, _ in blocks(page):
            if language != "sh":
                continue
            for command, rest in re.findall(r"^dsckpt (\w+)([^#\n]*)", code, re.MULTILINE):
                if command not in explained:
                    explained[command] = dsckpt_command(command, "--help")
                for option in re.findall(r" (-{1,2}[a-z][a-z-]*)", rest):
                    if not re.search(rf"[ ,]{option}[ ,]", explained[command]):
                        wrong.append(f"{page.name}: dsckpt {command} {option}")
    assert wrong == []
    assert len(explained) >= 4
