"""Conversion of checkpoints of other systems, and to them.

| from | to |
| --- | --- |
| .pt, .pth, .bin of torch.save; several with an index | dsckpt, safetensors |
| a directory of torch.distributed.checkpoint | dsckpt, safetensors |
| safetensors; several with an index | dsckpt, or other sizes of safetensors |
| a DeepSpeed checkpoint (`save_dir/tag`) | dsckpt, as `datastates` writes it |
| a dsckpt file, checkpoint or run directory | safetensors, or one dsckpt file |
| a checkpoint of `datastates` | what DeepSpeed reads without dsckpt |

Instead of files of safetensors or torch.save, the directory of a model as Hugging Face tools write
it: Transformers, Diffusers, adapters.

`dsckpt convert` on the command line does those between dsckpt and safetensors, without Python.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from .. import paths, tools
from ..errors import DsckptError
from .recognize import Found, Kind, recognize

__all__ = ["convert"]

Format = Literal["dsckpt", "safetensors", "deepspeed"]


def convert(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    format: Format | None = None,
    max_shard_size: int | str | None = None,
    allow_pickle: bool = False,
    allow: Iterable[type | str] = (),
    verify: bool = True,
    overwrite: bool = False,
    filter: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    strip_prefix: str | None = None,
    rename: str | Sequence[str] = (),
    dtype: str | None = None,
) -> Path:
    """Converts a checkpoint. Memory stays bounded, whatever its size: data is mapped or streamed.

    Nested states stay nested in dsckpt; in safetensors their tensors are named by their paths, and
    objects and plain values are left out. A checkpoint of many ranks is put together to whole
    tensors. The destination appears when it is complete. Members of the safetensors `__metadata__`
    are kept; where inputs differ in one, it is left out with a warning.

    The weights of a training state {"model": .., "optimizer": ..}, as Transformers load them:

        convert("run", "model.safetensors", filter="model/*", strip_prefix="model/")

    Args:
        source: A file, a directory, or an index: see the table of this module.
        destination: The file to write; with `max_shard_size` a directory with an index; for
            DeepSpeed, both ways, what becomes the `save_dir`.
        format: Of the destination. None: safetensors of dsckpt, dsckpt of everything else.
        max_shard_size: Write safetensors files of up to that size: bytes, or "5GB", "512MiB".
        allow_pickle: Unpickle whatever a source of torch.save, DCP or DeepSpeed holds, running code
            that its author chose.
        allow: Classes, or their "module.QualName", that may be unpickled beside tensors and plain
            values.
        verify: Check the checksums of a dsckpt source.
        overwrite: Replace an existing destination. Never for DeepSpeed.
        filter: Take only tensors whose names match one of these patterns: "*" any text, "{a,b}"
            either. With this and the three next ones objects and plain values are left out.
        exclude: Not those whose names match one of these.
        strip_prefix: Names lose this beginning.
        rename: Replacements in names, "s/RE/NEW/", one after the other.
        dtype: Cast floating-point tensors: "BF16", "F16", "F32" or "F64".

    Returns:
        What was written.

    Raises:
        DsckptError: NotCheckpoint (nothing that is known), AlreadyExists, Unsupported (no such
            conversion), Corrupt, ...
        PickleRefused: A class is not allowed; nothing was unpickled.
    """
    found = recognize(paths.resolve(source))
    wanted = format or ("safetensors" if found.kind is Kind.DSCKPT else "dsckpt")
    target = Path(os.fsdecode(destination))
    changes = tools.selection(filter, exclude, strip_prefix, rename, dtype)
    if max_shard_size is not None:
        changes += ["--max-shard-size", str(max_shard_size)]
    if _of_deepspeed(found, wanted):
        if changes:
            raise DsckptError(
                f"{found.path}: nothing is selected, cast or split on the way from and to "
                "DeepSpeed",
                "Unsupported",
                found.path,
            )
        return _convert_deepspeed(found, target, wanted, allow_pickle, allow)
    if not overwrite:
        tools.refuse_existing(str(target), "give another destination, or overwrite=True")
    if wanted == "deepspeed":
        raise DsckptError(
            f"{found.path} is {found.kind.value}: it cannot be converted to deepspeed",
            "Unsupported",
            found.path,
        )
    if found.kind in (Kind.DSCKPT, Kind.SAFETENSORS):
        _run_program(found.path, target, wanted, changes, verify, overwrite)
    elif wanted == "dsckpt" and not changes:
        _read(found, target, allow_pickle, allow)
    else:
        # Beside the target, where there has to be room for as much.
        with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".convert-") as room:
            whole = Path(room) / "whole.dsckpt"
            _read(found, whole, allow_pickle, allow)
            _run_program(str(whole), target, wanted, changes, False, overwrite)
    return target


def _of_deepspeed(found: Found, wanted: str) -> bool:
    if found.kind is Kind.DEEPSPEED and wanted == "safetensors":
        raise DsckptError(
            f"{found.path} is {found.kind.value}: it cannot be converted to safetensors; convert "
            "it to dsckpt first, and that with a selection of its weights",
            "Unsupported",
            found.path,
        )
    return (found.kind is Kind.DEEPSPEED and wanted == "dsckpt") or (
        found.kind is Kind.DSCKPT and wanted == "deepspeed"
    )


def _convert_deepspeed(
    found: Found,
    target: Path,
    wanted: str,
    allow_pickle: bool,
    allow: Iterable[type | str],
) -> Path:
    from .deepspeed import from_deepspeed, to_deepspeed

    way = from_deepspeed if wanted == "dsckpt" else to_deepspeed
    return way(found.path, target, allow_pickle=allow_pickle, allow=allow)


def _read(found: Found, target: Path, allow_pickle: bool, allow: Iterable[type | str]) -> None:
    """One dsckpt file of what takes Python to read."""
    if found.kind is Kind.DCP:
        from .dcp import from_dcp

        from_dcp(found.path, target, allow_pickle, allow)
    else:
        from .torch_saved import from_torch

        from_torch(found.path, target, allow_pickle, allow)


def _run_program(
    source: str, target: Path, wanted: str, changes: list[str], verify: bool, overwrite: bool
) -> None:
    arguments = [
        tools.argument(source),
        "-o",
        tools.argument(target),
        "--format",
        wanted,
        *changes,
        *([] if verify else ["--no-verify"]),
        *(["--force"] if overwrite else []),
    ]
    answer = tools.run("convert", arguments)
    for conflict in answer.get("conflicting_metadata", ()):
        values = ", ".join(f"{each['value']!r} in {each['file']}" for each in conflict["values"])
        warnings.warn(
            f"the inputs differ in the metadata {conflict['key']!r}, which is left out: {values}",
            stacklevel=3,
        )
