"""Between DeepSpeed's own checkpoints (files of torch.save) and those that `datastates` writes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dsckpt import _native
from dsckpt.checkpoint import MANIFEST, Checkpoint
from dsckpt.deepspeed import shards, torch_files
from dsckpt.deepspeed.latest import Pointer
from dsckpt.deepspeed.pickle_allowlist import ALLOWED
from dsckpt.deepspeed.pieces import MAIN
from dsckpt.deepspeed.stored_layout import layouts
from dsckpt.errors import DsckptError
from dsckpt.loading import load
from dsckpt.pickles import name_of
from dsckpt.writer import AsyncWriter

__all__ = ["from_deepspeed", "to_deepspeed"]

StrPath = str | os.PathLike[str]


def to_deepspeed(
    checkpoint: StrPath,
    output: StrPath,
    *,
    allow_pickle: bool = False,
    allow: Iterable[type | str] = (),
) -> Path:
    """Writes a checkpoint of `datastates` as DeepSpeed with its own engine would have.

    zero_to_fp32, ds_to_universal and DeepSpeed without dsckpt read the result. One file's state is
    mapped at a time, not held in memory.

    Args:
        checkpoint: Directory of one checkpoint, `save_dir/tag`, with its manifest.
        output: What becomes the `save_dir`; the tag and `latest` are written into it.
        allow_pickle: Unpickle whatever the files hold, running code their author chose.
        allow: Classes, or their "module.Class", that may be unpickled beside DeepSpeed's own.

    Returns:
        The directory written, `output/tag`.

    Raises:
        DsckptError: Incomplete or damaged, or the output exists.
        PickleRefused: A class is not allowed.
    """
    source = Path(checkpoint)
    whole = Checkpoint(source)
    names = [name for name, _, _ in whole.shards]
    target = _new(Path(output) / source.resolve().name)
    made = _native.OutputDirectory(str(target))
    part = Path(made.path)
    try:
        permitted = (*ALLOWED, *allow)
        for at, name in enumerate(names):
            whole.native.open_shard(at)  # Is it the one that the manifest means?
            state = load(source / name, allow_pickle=allow_pickle, allow=permitted, verify=True)
            torch_files.export(state, str(part / name))
            del state
        _copy_others(source, part, {*names, MANIFEST})
        made.publish()
    finally:
        made.drop()
    Pointer(str(output), target.name).write()
    return target


def from_deepspeed(
    checkpoint: StrPath,
    output: StrPath,
    *,
    allow_pickle: bool = False,
    allow: Iterable[type | str] = (),
) -> Path:
    """Writes a checkpoint of DeepSpeed's own engine as `datastates` would have.

    The result can be merged, read for any number of ranks, and loaded by DeepSpeed with dsckpt.

    Args:
        checkpoint: Directory of one checkpoint, `save_dir/tag`, with files of torch.save.
        output: What becomes the `save_dir`; the tag and `latest` are written into it.
        allow_pickle: Unpickle whatever the files hold, running code their author chose.
        allow: Classes, or their "module.Class", that may be unpickled beside DeepSpeed's own.

    Returns:
        The directory written, `output/tag`.

    Raises:
        DsckptError: No DeepSpeed checkpoint, or the output exists.
        PickleRefused: A class is not allowed.
    """
    source = Path(checkpoint)
    files = sorted(source.glob("*.pt"))
    names = [path.name for path in files if torch_files.is_torch_file(str(path))]
    if not names:
        raise DsckptError(
            f"{source} holds no .pt files of torch.save", "NotCheckpoint", str(source)
        )
    permitted = (*ALLOWED, *(a if isinstance(a, str) else name_of(a) for a in allow))
    states = {
        name: torch_files.load(str(source / name), "cpu", allow_pickle, permitted, mmap=True)
        for name in names
    }
    target = _new(Path(output) / source.resolve().name)
    _write(target, states, _step(states))
    _copy_others(source, target, set(names))
    Pointer(str(output), target.name).write()
    return target


def _write(target: Path, states: dict[str, Any], step: int) -> None:
    found = layouts(states)
    prepared = shards.prepare(states, found.__getitem__, {"step": step}, None)
    with AsyncWriter(max_in_flight=len(states)) as writer:
        group = _native.CheckpointWriter(writer.native, str(target.parent), standalone=True)
        handle = writer.submit(
            prepared,
            lambda: group.save(
                step,
                prepared.shards,
                name=target.name,
                on_captured=prepared.before_publish,
            ),
        )
        handle.durable()
        group.close()


def _step(states: dict[str, Any]) -> int:
    for name, state in states.items():
        if MAIN.fullmatch(name) and isinstance(state, dict):
            return int(state.get("global_steps", 0))
    return 0


def _new(path: Path) -> Path:
    if path.exists():
        raise DsckptError(
            f"{path} exists already: remove it, or name another output", "AlreadyExists", str(path)
        )
    return path


def _copy_others(source: Path, target: Path, done: set[str]) -> None:
    """Files of others, such as optimizer state that DeepSpeed has swapped to NVMe."""
    for path in _others(source, done):
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name)


def _others(source: Path, done: set[str]) -> Iterator[Path]:
    part = f"{MANIFEST}."
    return (
        p for p in source.iterdir() if p.name not in done and not p.name.startswith((".", part))
    )
