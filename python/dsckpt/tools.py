"""Checking, merging and looking into checkpoints: what the program `dsckpt` does, from Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _native, pending
from .errors import DsckptError

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file.

    Attributes:
        path: The file.
        item: An item's name, or a region: "header", "index", "footer", "padding", "file".
        kind: "checksum", "header-mismatch", "padding", "truncated", "trailing-bytes", "structure",
            "decode", "unsupported"; of a directory also an error's code, such as "Incomplete", of
            which `found` is the message.
        offset: Byte offset in the file, or None.
        expected: What should be there.
        found: What is.
    """

    path: str
    item: str
    kind: str
    offset: int | None
    expected: str
    found: str


@dataclass(frozen=True)
class Report:
    """What verify() found. True in a condition when all is good.

    Attributes:
        path: What was checked.
        ok: Whether nothing is wrong.
        checked_bytes: How much was read.
        problems: What is wrong, in file order.
    """

    path: str
    ok: bool
    checked_bytes: int
    problems: tuple[Problem, ...]

    def __bool__(self) -> bool:
        return self.ok


def verify(
    path: StrPath,
    *,
    decode: bool = False,
    threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Reads every byte and checks it against checksums. Runs nothing of pickled objects.

    Args:
        path: A file, or a checkpoint or run directory (then also: missing files, gaps, copies that
            differ).
        decode: Also decode compressed items and check the outcome.
        threads: 0: one a core, at most 8.
        progress: progress(done bytes, total bytes) from other threads; for a file only.

    Returns:
        A report; bad content is no exception.

    Raises:
        DsckptError: It cannot be opened or read, or is no checkpoint at all.
    """
    pending.settle(path)
    name = os.fsdecode(path)
    if not os.path.isdir(name):
        ok, checked, found = _native.verify(name, decode=decode, threads=threads, progress=progress)
        return Report(name, ok, checked, tuple(Problem(name, *problem) for problem in found))
    arguments = ["--threads", str(threads), *(["--decode"] if decode else [])]
    answer = _run("verify", [*arguments, _argument(name)])
    files = answer["files"]
    for file in files:
        if len(files) == 1 and "error" in file:
            raise _error(file["error"], file["path"])
    problems = [problem for file in files for problem in _problems(file)]
    problems += [_as_problem(found) for found in answer.get("checkpoint_problems", ())]
    checked = sum(file["checked_bytes"] for file in files)
    return Report(name, bool(answer["ok"]), checked, tuple(problems))


def _problems(file: dict[str, Any]) -> list[Problem]:
    found = [Problem(file["path"], **problem) for problem in file["problems"]]
    if "error" in file:
        found.append(_as_problem({"path": file["path"], **file["error"]}))
    return found


def _as_problem(error: dict[str, Any]) -> Problem:
    return Problem(error["path"], "file", error["code"], error["offset"], "", error["message"])


def inspect(path: StrPath) -> dict[str, Any]:
    """What a file, a checkpoint directory or a run directory holds.

    Args:
        path: Any of those. Runs nothing of pickled objects.

    Returns:
        The document of `dsckpt inspect --json`; its "schema" says which: "dsckpt.inspect/1" (a
        file), "dsckpt.checkpoint/1" or "dsckpt.run/1". Values that JSON lacks are dicts with one
        key, such as {"$float": "nan"}.

    Raises:
        DsckptError: NotFound, NotCheckpoint, Corrupt, ...
    """
    pending.settle(path)
    return _run("inspect", [_argument(path)])


def merge(
    path: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    max_shard_size: str | int | None = None,
    shards: int | None = None,
    format: Literal["dsckpt", "safetensors"] = "dsckpt",
    verify: bool = True,
    dry_run: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Makes one file, or a directory of files, of a sharded checkpoint. Inputs never change.

    Tensors are put together from the parts that the shards declare; copies are compared.

    Args:
        path: A checkpoint directory, or shards in rank order.
        output: What to write.
        max_shard_size: Write a directory of files up to this size: bytes, or "5GB", "512MiB".
        shards: Write a directory of about this many files.
        format: "safetensors": as Hugging Face tools load it.
        verify: Check the inputs' checksums.
        dry_run: Check only.
        force: Replace an existing output.

    Returns:
        The document of `dsckpt merge --json`: counts of "tensors", "bytes", "files", ...

    Raises:
        DsckptError: Incomplete, Mismatch, Corrupt, AlreadyExists, ...; nothing was written.
    """
    inputs = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for each in inputs:
        pending.settle(each)
    arguments = [*map(_argument, inputs), "-o", _argument(output), "--format", format]
    if max_shard_size is not None:
        arguments += ["--max-shard-size", str(max_shard_size)]
    if shards is not None:
        arguments += ["--shards", str(shards)]
    flags = {"--no-verify": not verify, "--dry-run": dry_run, "--force": force}
    return _run("merge", arguments + [flag for flag, given in flags.items() if given])


def program(search_path: bool = True) -> str:
    """Where the program `dsckpt` is: DSCKPT_PROGRAM, or with this package, or on the PATH.

    Args:
        search_path: Whether the PATH counts.

    Raises:
        DsckptError: NotFound.
    """
    bundled = os.path.join(os.path.dirname(__file__), "_bin", "dsckpt")
    named = os.environ.get("DSCKPT_PROGRAM")
    for candidate in filter(
        None, (named, bundled, shutil.which("dsckpt") if search_path else None)
    ):
        if os.access(candidate, os.X_OK):
            return candidate
    raise DsckptError(
        f"the program dsckpt is missing: {bundled} belongs to this package, so install it again "
        "or set DSCKPT_PROGRAM",
        "NotFound",
        bundled,
    )


def _argument(path: StrPath) -> str:
    name = os.fsdecode(path)
    return os.path.join(".", name) if name.startswith("-") else name  # Else taken for an option.


def _run(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(
        [program(), command, "--json", *arguments], capture_output=True, check=False
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="backslashreplace").strip()
        raise DsckptError(
            f"dsckpt {command} ended with status {done.returncode}: {said}",
            "InvalidArgument" if done.returncode == 2 else "Internal",
        ) from None
    if answer.get("schema", "").startswith("dsckpt.error/"):
        raise _error(answer, answer["path"])
    return answer


def _error(found: dict[str, Any], path: str) -> DsckptError:
    message = found["message"].replace("--force replaces it", "force=True replaces it")
    return DsckptError(message, found["code"], path, found["offset"])
