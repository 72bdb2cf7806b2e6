"""Checking, merging and looking into checkpoints.

verify() and merge() are calls of the library; inspect() reads what the program `dsckpt` prints.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _native, paths
from .errors import DsckptError, from_status

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
        checksums: Whether all files have checksums. Of plain safetensors, which have none, only the
            header was checked.
    """

    path: str
    ok: bool
    checked_bytes: int
    problems: tuple[Problem, ...]
    checksums: bool = True

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
        path: A file; a checkpoint or run directory (then also: missing files, gaps, copies that
            differ); or the directory or index of a model.
        decode: Also decode compressed items and check the outcome.
        threads: 0: one a core, at most 8.
        progress: progress(done bytes, total bytes) from other threads; for a file only.

    Returns:
        A report; bad content is no exception.

    Raises:
        DsckptError: It cannot be opened or read, or is no checkpoint at all.
    """
    name = paths.resolve(path)
    single = not os.path.isdir(name) and not name.endswith(".json")
    ok, checked, files, beyond = _native.verify(
        name, decode=decode, threads=threads, progress=progress if single else None
    )
    problems = []
    for file, error, _, found in files:
        if error is not None and len(files) == 1:
            raise _as_error(error)
        problems += [Problem(file, *problem) for problem in found]
        problems += [] if error is None else [_as_problem(error, file)]
    problems += [_as_problem(error, name) for error in beyond]
    sums = all(has_checksums for _, _, has_checksums, _ in files)
    return Report(name, ok, checked, tuple(problems), sums)


_Error = tuple[str, str, str, int | None, int]  # code, message, path, offset, errno


def _as_error(error: _Error) -> DsckptError:
    code, message, path, offset, number = error
    return from_status(code, message, path or None, offset, number)


def _as_problem(error: _Error, checked: str) -> Problem:
    told = _as_error(error)
    return Problem(told.path or checked, "file", told.code, told.offset, "", str(told))


def inspect(path: StrPath) -> dict[str, Any]:
    """What a file, a checkpoint directory, a run directory or a model's directory holds.

    Args:
        path: Any of those, or a model's index. Runs nothing of pickled objects.

    Returns:
        The document of `dsckpt inspect --json`; its "schema" says which: "dsckpt.inspect/1" (a
        file), "dsckpt.checkpoint/1" or "dsckpt.run/1". Values that JSON lacks are dicts with one
        key, such as {"$float": "nan"}.

    Raises:
        DsckptError: NotFound, NotCheckpoint, Corrupt, ...
    """
    paths.settle(path)
    return run("inspect", [argument(path)])


def trace(
    path: StrPath | Sequence[StrPath],
    *,
    filter: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    quick: bool = True,
) -> dict[str, Any]:
    """What happened in a run: steps, a row for each tensor and step, and events.

    Trajectory has the same as objects.

    Args:
        path: A run, a checkpoint, or several of them.
        filter: Only names that one of these patterns matches.
        exclude: Not those that one of these matches.
        quick: Read indexes only, no tensor data: what elements are is then known where checkpoints
            were saved with `statistics`, and how tensors move is not.

    Returns:
        The document of `dsckpt trace --json`, schema "dsckpt.trace/1".

    Raises:
        DsckptError: NotFound, NotCheckpoint, Corrupt, ...; also where no name is left.
    """
    operands = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for each in operands:
        paths.settle(each)
    options = ["--quick"] if quick else []
    for option, patterns in (("--filter", filter), ("--exclude", exclude)):
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            options.append(f"{option}={pattern}")
    return run("trace", [*options, *map(argument, operands)])


def merge(
    path: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    max_shard_size: str | int | None = None,
    shards: int | None = None,
    format: Literal["dsckpt", "safetensors"] = "dsckpt",
    verify: bool = True,
    ignore_header: bool = False,
    dry_run: bool = False,
    force: bool = False,
    filter: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    strip_prefix: str | None = None,
    rename: str | Sequence[str] = (),
    dtype: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Makes one file, or a directory of files, of a sharded checkpoint. Inputs never change.

    Tensors are put together from the parts that the shards declare; copies are compared.

    Args:
        path: A checkpoint, run or model directory, a model's index, or shards in rank order.
        output: What to write.
        max_shard_size: Write a directory of files up to this size: bytes, or "5GB", "512MiB".
        shards: Write a directory of about this many files.
        format: "safetensors": as Hugging Face tools load it.
        verify: Check the inputs' checksums.
        ignore_header: Take what the index says where the JSON header differs or is damaged.
        dry_run: Check only.
        force: Replace an existing output.
        filter: Take only tensors whose names match one of these patterns.
        exclude: Not those whose names match one of these.
        strip_prefix: Names lose this beginning: "model/".
        rename: Replacements in names, "s/RE/NEW/", one after the other.
        dtype: Cast floating-point tensors: "BF16", "F16", "F32" or "F64".
        progress: progress(done bytes, total bytes) from another thread, now and then.

    Returns:
        The document of `dsckpt merge --json`: counts of "tensors", "bytes", "files", ...; and in
        "conflicting_metadata" what the inputs say differently in `__metadata__`.

    Raises:
        DsckptError: Incomplete, Mismatch, Corrupt, AlreadyExists, ...; nothing was written.
    """
    inputs = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for each in inputs:
        paths.settle(each)
    if not force and not dry_run:
        refuse_existing(os.fsdecode(output), "force=True replaces it")
    if format not in ("dsckpt", "safetensors"):
        raise _invalid(f"format {format!r} is neither dsckpt nor safetensors")
    report = _native.merge(
        inputs,
        output,
        safetensors=format == "safetensors",
        max_shard_bytes=_bytes_of(max_shard_size),
        shards=_count_of(shards),
        verify=verify,
        ignore_header=ignore_header,
        dry_run=dry_run,
        replace=force,
        filters=_texts(filter),
        excludes=_texts(exclude),
        strip_prefix=strip_prefix or "",
        renames=_texts(rename),
        dtype=None if dtype is None else _cast_dtype(dtype),
        progress=progress,
    )
    head = {"schema": "dsckpt.merge/1", "output": os.fsdecode(output), "dry_run": dry_run}
    return head | report


def _invalid(message: str) -> DsckptError:
    return DsckptError(message, "InvalidArgument")


def _texts(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    prefix + end: 1024**power for power, prefix in enumerate("kmgtpe", 1) for end in ("", "b", "ib")
}


def _bytes_of(size: str | int | None) -> int:
    """Bytes of a size as the program takes it; 0 for None. K, KB and KiB are all 1,024."""
    found = re.fullmatch(r"\s*([0-9]+)\s*([A-Za-z]*)\s*", str(0 if size is None else size))
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise _invalid(f"max_shard_size {size!r} is no size, such as 1000, '5GB' or '512MiB'")
    if int(found[1]) * unit >= 1 << 64:
        raise _invalid(f"max_shard_size {size!r} is too large")
    return int(found[1]) * unit


def _count_of(shards: int | None) -> int:
    if shards is not None and not 1 <= shards <= 100000:
        raise _invalid(f"shards is {shards}, and has to be between 1 and 100,000")
    return shards or 0


def _cast_dtype(name: str) -> int:
    short = name.upper().replace("BFLOAT", "BF").replace("FLOAT", "F")
    codes = {known: code for code, known, _, _, _ in _native.dtypes()}
    if short not in ("BF16", "F16", "F32", "F64"):
        raise _invalid(f"dtype: {name} is none of BF16, F16, F32, F64")
    return codes[short]


def selection(
    filter: str | Sequence[str],
    exclude: str | Sequence[str],
    strip_prefix: str | None,
    rename: str | Sequence[str],
    dtype: str | None,
) -> list[str]:
    """The options of the program for a selection of tensors."""
    arguments: list[str] = []
    for option, given in (("--filter", filter), ("--exclude", exclude), ("--rename", rename)):
        for each in [given] if isinstance(given, str) else given:
            arguments.append(f"{option}={each}")
    if strip_prefix:
        arguments.append(f"--strip-prefix={strip_prefix}")
    if dtype is not None:
        arguments.append(f"--dtype={dtype}")
    return arguments


def refuse_existing(output: str, remedy: str) -> None:
    """Raises AlreadyExists, with the words of who was called, where something stands there."""
    if os.path.lexists(output):
        raise DsckptError(f"{output} exists: {remedy}", "AlreadyExists", output)


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


def argument(path: StrPath) -> str:
    """A path as the program takes it."""
    name = os.fsdecode(path)
    return os.path.join(".", name) if name.startswith("-") else name  # Else taken for an option.


def run(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The document that a command of the program prints. Raises what it reports."""
    done = subprocess.run(
        [program(), command, "--json", *arguments], capture_output=True, check=False
    )
    try:
        answer: dict[str, Any] = _with_paths(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.decode(errors="backslashreplace").strip()
        raise DsckptError(
            f"dsckpt {command} ended with status {done.returncode}: {said}",
            "InvalidArgument" if done.returncode == 2 else "Internal",
        ) from None
    if answer.get("schema", "").startswith("dsckpt.error/"):
        raise _error(answer, answer["path"])
    return answer


_PATHS = {"path", "name", "input", "output", "file", "latest"}
_VALUES = {"attributes", "metadata", "tree"}


def _with_paths(found: Any) -> Any:
    """Paths that are not UTF-8, {"$bytes": base64} in JSON, as os.fsdecode() has them."""
    if isinstance(found, list):
        return [_with_paths(each) for each in found]
    if not isinstance(found, dict):
        return found
    out = {}
    for key, value in found.items():
        if key in _PATHS and isinstance(value, dict) and value.keys() == {"$bytes"}:
            out[key] = os.fsdecode(base64.b64decode(value["$bytes"]))
        else:
            out[key] = value if key in _VALUES else _with_paths(value)
    return out


def _error(found: dict[str, Any], path: str) -> DsckptError:
    return DsckptError(found["message"], found["code"], path, found["offset"])
