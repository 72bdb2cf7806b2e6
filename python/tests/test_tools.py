"""verify(), inspect(), merge() and the program that inspect() runs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dsckpt
from dsckpt import tools
from dsckpt.run import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "state.dsckpt"
    dsckpt.save({"a": {"w": torch.arange(3000.0)}, "z": [1, None]}, file, attributes={"step": 3})
    return file


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with dsckpt.AsyncWriter(4 << 20) as writer, Run(tmp_path / "run", writer) as run:
        for step in (1, 2):
            run.save(step, {"w": torch.ones(3000) * step, "step": step}).durable()
    return tmp_path / "run"


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_verify_a_good_file(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = tools.verify(
        path, decode=True, progress=lambda done, total: seen.append((done, total))
    )
    assert report
    assert report == tools.Report(str(path), True, path.stat().st_size, ())
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_verify_names_what_is_wrong(encoding: Any, tmp_path: Path) -> None:
    path = tmp_path / "s"
    dsckpt.save({"a": {"w": torch.randn(3000)}}, path, encoding=encoding)
    offset = dsckpt.open(path).native.find_tensor("a/w")[4]
    flip(path, offset)
    report = tools.verify(path)
    assert not report
    (problem,) = report.problems
    assert (problem.path, problem.item, problem.kind, problem.offset) == (
        str(path),
        "a/w",
        "checksum",
        offset,
    )
    assert problem.expected != problem.found


def test_verify_truncation(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)
    assert [p.kind for p in tools.verify(path).problems] == ["truncated"]


def test_verify_directories(run: Path) -> None:
    sizes = [shard.stat().st_size for shard in run.glob("*/*.dsckpt")]
    assert tools.verify(run) == tools.Report(str(run), True, sum(sizes), ())
    shard = run / "step-0000000002" / "shard-00000.dsckpt"
    flip(shard, dsckpt.open(shard).native.find_tensor("w")[4])
    report = tools.verify(run)
    assert not report.ok
    assert [(p.path, p.item, p.kind) for p in report.problems] == [(str(shard), "w", "checksum")]
    shard.unlink()
    report = tools.verify(run / "step-0000000002")
    assert not report.ok
    assert [(p.path, p.kind) for p in report.problems] == [(str(shard), "Incomplete")]
    assert "is missing" in report.problems[0].found


def test_verify_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").write_bytes(b"junk" * 99)
    for name, code in (("nothing", "NotFound"), ("junk", "NotCheckpoint")):
        with pytest.raises(dsckpt.DsckptError) as caught:
            tools.verify(tmp_path / name)
        assert caught.value.code == code
        assert name in str(caught.value)
    assert [p.kind for p in tools.verify(tmp_path / "empty").problems] == ["Incomplete"]


def test_inspect(path: Path, run: Path) -> None:
    found = tools.inspect(path)
    assert found["schema"].startswith("dsckpt.inspect/")
    assert [(t["name"], t["dtype"], t["shape"]) for t in found["tensors"]] == [
        ("a/w", "F32", [3000])
    ]
    assert found["attributes"]["step"] == 3
    assert tools.inspect(run)["latest"] == "step-0000000002"
    assert tools.inspect(run / "step-0000000001")["step"] == 1
    with pytest.raises(dsckpt.DsckptError) as caught:
        tools.inspect(path.with_name("nothing"))
    assert (caught.value.code, caught.value.path) == ("NotFound", str(path.with_name("nothing")))


def test_merge(run: Path, path: Path, tmp_path: Path) -> None:
    output = tmp_path / "whole"
    done = tools.merge(run / "step-0000000002", output, dry_run=True)
    assert done["tensors"] == 1
    assert not output.exists()
    tools.merge(run / "step-0000000002", output)
    assert dsckpt.load(output)["w"].tolist() == [2.0] * 3000
    with pytest.raises(dsckpt.DsckptError, match="force=True") as caught:
        tools.merge(path, output)
    assert caught.value.code == "AlreadyExists"
    tools.merge([path], output, force=True)
    assert dsckpt.load(output)["z"] == [1, None]
    tools.merge(path, tmp_path / "hf", max_shard_size="1MB", format="safetensors")
    assert (tmp_path / "hf" / "model.safetensors.index.json").exists()


def test_merge_says_what_is_missing(run: Path, tmp_path: Path) -> None:
    (run / "step-0000000002" / "shard-00000.dsckpt").unlink()
    with pytest.raises(dsckpt.DsckptError, match="shard-00000") as caught:
        tools.merge(run / "step-0000000002", tmp_path / "whole")
    assert caught.value.code == "Incomplete"
    assert not (tmp_path / "whole").exists()


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.usefixtures("no_processes")
def test_merging_and_verifying_start_no_process(run: Path, path: Path, tmp_path: Path) -> None:
    done = tools.merge(run, tmp_path / "whole", shards=1)
    assert (done["schema"], done["output"]) == ("dsckpt.merge/1", str(tmp_path / "whole"))
    assert (done["shards"], done["pieces"], done["tensors"], done["bytes"]) == (1, 1, 1, 12000)
    assert done["files"] == [{"tensors": 1, "bytes": 12000}]
    assert tools.verify(tmp_path / "whole").ok
    assert tools.verify(run).ok
    assert tools.verify(path).ok


def test_merge_selects_renames_and_casts(path: Path, tmp_path: Path) -> None:
    done = tools.merge(
        path,
        tmp_path / "out",
        filter="a/*",
        strip_prefix="a/",
        rename=["s/w/weight/"],
        dtype="bfloat16",
        format="safetensors",
    )
    assert (done["cast"], done["bytes"], done["dropped_objects"]) == (1, 6000, 0)
    merged = dsckpt.load(tmp_path / "out")
    assert list(merged) == ["weight"]
    assert torch.equal(merged["weight"], torch.arange(3000.0).bfloat16())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "onnx"}, "neither dsckpt nor safetensors"),
        ({"dtype": "I8"}, "I8 is none of BF16"),
        ({"max_shard_size": "5 apples"}, "is no size"),
        ({"max_shard_size": "99999999999GB"}, "too large"),
        ({"shards": 0}, "between 1 and"),
        ({"shards": 2, "max_shard_size": 5}, "give one"),
        ({"filter": "nothing"}, "filter nothing: no tensor"),
    ],
)
def test_merge_refuses(options: dict[str, Any], said: str, path: Path, tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError, match=said) as caught:
        tools.merge(path, tmp_path / "out", **options)
    assert caught.value.code == "InvalidArgument"
    assert not (tmp_path / "out").exists()


def test_sizes() -> None:
    assert tools._bytes_of("5GB") == tools._bytes_of("5 gib") == 5 << 30
    assert (tools._bytes_of("512MiB"), tools._bytes_of(7), tools._bytes_of("8k")) == (
        512 << 20,
        7,
        8192,
    )


def test_merge_tells_how_far_it_is(tmp_path: Path) -> None:
    dsckpt.save({"w": torch.zeros(32 << 20)}, tmp_path / "in")  # 128 MiB
    seen: list[tuple[int, int]] = []
    tools.merge(
        tmp_path / "in", tmp_path / "out", progress=lambda done, total: seen.append((done, total))
    )
    # None where all is written before the first look at it.
    assert all(done <= total == 128 << 20 for done, total in seen)
    assert seen == sorted(seen)


def test_an_interrupt_ends_a_merge_and_leaves_nothing(tmp_path: Path) -> None:
    dsckpt.save({"w": torch.zeros(64 << 20)}, tmp_path / "big")  # 256 MiB
    code = (
        "import signal, sys, dsckpt\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "def interrupt(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "try:\n"
        "    while True: dsckpt.merge(sys.argv[1], sys.argv[2], force=True)\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "big", tmp_path / "out"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout == b"stopped\n", ran.stderr
    assert {each.name for each in tmp_path.iterdir()} <= {"big", "out"}


def program_that(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_program_named_by_the_environment(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = program_that(tmp_path / "fake", 'printf \'{"schema": "x", "got": "%s"}\' "$*"')
    monkeypatch.setenv("DSCKPT_PROGRAM", fake)
    assert tools.program() == fake
    assert tools.inspect(path)["got"] == f"inspect --json {path}"
    monkeypatch.setenv("DSCKPT_PROGRAM", program_that(tmp_path / "bad", "echo oh >&2; exit 2"))
    with pytest.raises(dsckpt.DsckptError, match="ended with status 2: oh"):
        tools.inspect(path)


def test_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DSCKPT_PROGRAM", raising=False)
    monkeypatch.setattr(tools, "__file__", str(tmp_path / "tools.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dsckpt.DsckptError, match="DSCKPT_PROGRAM") as caught:
        tools.program()
    assert caught.value.code == "NotFound"
    found = program_that(tmp_path / "dsckpt", "exit 0")
    assert tools.program() == found
    with pytest.raises(dsckpt.DsckptError):
        tools.program(search_path=False)


def test_the_command_becomes_the_program(path: Path) -> None:
    code = "import sys; from dsckpt_command import main; sys.argv[0] = 'dsckpt'; main()"
    environment = {**os.environ, "DSCKPT_PROGRAM": tools.program()}
    for arguments, status in ((["inspect", "--json", str(path)], 0), (["verify", "nothing"], 2)):
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, env=environment
        )
        assert ran.returncode == status, ran.stderr
    ran = subprocess.run(
        [sys.executable, "-c", code, "inspect", "--json", str(path)],
        capture_output=True,
        env=environment,
        check=True,
    )
    assert json.loads(ran.stdout) == tools.inspect(path)


def test_the_command_starts_without_the_package(tmp_path: Path) -> None:
    program_that(tmp_path / "program", 'echo "ran $*"')
    code = (
        "import os, sys; from dsckpt_command import main; os.execv = lambda path, arguments:"
        "print(arguments[1:], any(name.split('.')[0] in ('dsckpt', 'torch', 'numpy') for name in"
        " sys.modules)) or sys.exit(7); main()"
    )
    environment = {**os.environ, "DSCKPT_PROGRAM": str(tmp_path / "program")}
    ran = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, env=environment, text=True
    )
    assert ran.returncode == 7, ran.stderr
    assert ran.stdout == "['--version'] False\n"


def test_paths_that_are_not_utf8_come_back(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")
    dsckpt.save({"w": torch.ones(3)}, name, attributes={"name": b"\xfe"})
    found = tools.inspect(name)
    assert found["path"] == name
    assert found["attributes"]["name"] == {"$bytes": "/g=="}
    assert tools.merge(name, name + "b")["output"] == name + "b"
    with pytest.raises(dsckpt.DsckptError) as caught:
        tools.inspect(name + "c")
    assert caught.value.path == name + "c"


def test_plain_safetensors_are_verified_as_far_as_they_can_be(tmp_path: Path, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"w": torch.ones(3)}, tmp_path / "w")
    assert tools.verify(tmp_path / "w").ok
    assert not tools.verify(tmp_path / "w").checksums
    assert tools.verify(path).checksums


def test_digests_by_name(tmp_path: Path, run: Path) -> None:
    from safetensors.torch import save_file

    tensor = torch.arange(3000.0)
    save_file({"x": tensor}, tmp_path / "plain")
    dsckpt.save({"a": {"x": tensor, "y": tensor}}, tmp_path / "a")
    digest = dsckpt.open(tmp_path / "a").digest("a/x")
    assert digest is not None
    assert len(digest) == 32
    assert dsckpt.open(tmp_path / "a").digest("a/y") == digest
    plain = dsckpt.open(tmp_path / "plain")
    assert plain.digest("x") is None
    assert plain.digest("x", compute=True) == digest
    listed = tools.inspect(tmp_path / "a")["tensors"]
    assert {row["digest"] for row in listed} == {digest}
    checkpoint = dsckpt.Checkpoint(run / "step-0000000002")
    expected = dsckpt.open(run / "step-0000000002" / "shard-00000.dsckpt").digest("w")
    assert checkpoint.digest("w") == expected
    assert checkpoint.digest("w", compute=True) == expected
    assert dsckpt.Checkpoint(tmp_path / "plain").digest("x") is None
    assert dsckpt.Checkpoint(tmp_path / "plain").digest("x", compute=True) == digest
    for it in (plain, checkpoint):
        with pytest.raises(KeyError, match="nothing"):
            it.digest("nothing")
