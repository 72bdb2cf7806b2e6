"""Functions of DeepSpeed and torch that read checkpoints: they wait for saves, and know our files.

Each takes the original and returns the replacement (`patches` puts it in place).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dsckpt import _native, loading, pending
from dsckpt.errors import DsckptError

from .consolidate import fp32_state_dict
from .pickle_allowlist import ALLOWED

Function = Callable[..., Any]


def fp32_of_zero_checkpoint(original: Function) -> Function:
    """get_fp32_state_dict_from_zero_checkpoint(), of both kinds of checkpoints."""

    def get_fp32_state_dict_from_zero_checkpoint(
        checkpoint_dir: str,
        tag: str | None = None,
        exclude_frozen_parameters: bool = False,
        lazy_mode: bool = False,
    ) -> Any:
        found = fp32_state_dict(checkpoint_dir, tag, exclude_frozen_parameters)
        if found is not None:
            return found
        return original(checkpoint_dir, tag, exclude_frozen_parameters, lazy_mode)

    return get_fp32_state_dict_from_zero_checkpoint


def universal(original: Function) -> Function:
    """main() of ds_to_universal: waits for what it converts."""

    def main(args: Any) -> Any:
        pending.settle(args.input_folder)
        return original(args)

    return main


def files_of(original: Function) -> Function:
    """A function that looks for files of a checkpoint: waits for it."""

    def found(checkpoint_dir: Any, *args: Any, **options: Any) -> Any:
        pending.settle(checkpoint_dir)
        return original(checkpoint_dir, *args, **options)

    return found


def made_of(original: Function) -> Function:
    """A constructor whose first argument is a checkpoint's directory: waits for it."""

    def made(self: Any, dir: Any, *args: Any, **options: Any) -> Any:
        pending.settle(dir)
        return original(self, dir, *args, **options)

    return made


def torch_load(original: Function) -> Function:
    """torch.load(), of files of dsckpt as well: DeepSpeed's tools read everything with it."""

    def load(f: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
        if not isinstance(f, (str, os.PathLike)):
            return original(f, map_location, *args, **options)
        pending.settle(f)
        if not is_ours(f):
            return original(f, map_location, *args, **options)
        return loading.load(
            f,
            map_location,
            bool(options.get("mmap")),
            allow_pickle=options.get("weights_only") is False,
            allow=ALLOWED,
        )

    return load


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a shard of dsckpt, not of torch.save, safetensors or another program."""
    try:
        with open(path, "rb") as file:
            if file.read(9)[8:] != b"{":
                return False
        return _native.File(os.fsdecode(path), map=False).format == "dsckpt"
    except (OSError, DsckptError):
        return False
