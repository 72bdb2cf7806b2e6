"""Conversion of checkpoints of other systems, and to them.

| from | to |
| --- | --- |
| .pt, .pth, .bin of torch.save; several with an index | dsckpt |
| a directory of torch.distributed.checkpoint | dsckpt |
| safetensors; several with an index | dsckpt, or other sizes of safetensors |
| a DeepSpeed checkpoint (`save_dir/tag`) | dsckpt, as `datastates` writes it |
| a dsckpt file or checkpoint directory | safetensors, or one dsckpt file |
| a checkpoint of `datastates` | what DeepSpeed reads without dsckpt |

`dsckpt convert` on the command line does those between dsckpt and safetensors, without Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from .. import pending, tools
from ..errors import DsckptError
from .recognize import Kind, recognize

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
) -> Path:
    """Converts a checkpoint. Memory stays bounded, whatever its size: data is mapped or streamed.

    Nested states stay nested in dsckpt; in safetensors their tensors are named by their paths, and
    objects and plain values are left out. A checkpoint of many ranks is put together to whole
    tensors. The destination appears when it is complete.

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

    Returns:
        What was written.

    Raises:
        DsckptError: NotCheckpoint (nothing that is known), AlreadyExists, Unsupported (no such
            conversion), Corrupt, ...
        PickleRefused: A class is not allowed; nothing was unpickled.
    """
    pending.settle(source)
    found = recognize(os.fspath(source))
    wanted = format or ("safetensors" if found.kind is Kind.DSCKPT else "dsckpt")
    target = Path(destination)
    if found.kind is Kind.DEEPSPEED and wanted == "dsckpt":
        from .deepspeed import from_deepspeed

        return from_deepspeed(found.path, target, allow_pickle=allow_pickle, allow=allow)
    if found.kind is Kind.DSCKPT and wanted == "deepspeed":
        from .deepspeed import to_deepspeed

        return to_deepspeed(found.path, target, allow_pickle=allow_pickle, allow=allow)
    if not overwrite and os.path.lexists(target):
        raise DsckptError(
            f"{target} exists: give another destination, or overwrite=True",
            "AlreadyExists",
            str(target),
        )
    if found.kind in (Kind.DSCKPT, Kind.SAFETENSORS) and wanted != "deepspeed":
        _run_program(found.path, target, wanted, max_shard_size, verify, overwrite)
        return target
    if found.kind is Kind.DEEPSPEED or wanted != "dsckpt" or max_shard_size is not None:
        sizes = "" if max_shard_size is None else ", in several files"
        raise DsckptError(
            f"{found.path} is {found.kind.value}: it cannot be converted to {wanted}{sizes}; "
            "convert it to one dsckpt file first",
            "Unsupported",
            found.path,
        )
    if found.kind is Kind.DCP:
        from .dcp import from_dcp

        from_dcp(found.path, target, allow_pickle, allow)
    else:
        from .torch_saved import from_torch

        from_torch(found.path, target, allow_pickle, allow)
    return target


def _run_program(
    source: str,
    target: Path,
    wanted: str,
    max_shard_size: int | str | None,
    verify: bool,
    overwrite: bool,
) -> None:
    arguments = [source, "-o", str(target), "--format", wanted]
    if max_shard_size is not None:
        arguments += ["--max-shard-size", str(max_shard_size)]
    if not verify:
        arguments.append("--no-verify")
    if overwrite:
        arguments.append("--force")
    tools._run("convert", arguments)
