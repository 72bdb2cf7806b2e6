"""`dsckpt convert` where a conversion needs Python: files of torch.save, DCP, DeepSpeed.

All others are the bundled program's; it takes the same arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence

from .. import tools
from ..errors import DsckptError, PickleRefused
from . import convert
from .recognize import Kind, recognize

_IN_PYTHON = (Kind.TORCH, Kind.DCP, Kind.DEEPSPEED)


def run(arguments: Sequence[str]) -> int | None:
    """Converts, if it takes Python.

    Args:
        arguments: Those after "convert".

    Returns:
        The exit status; None where the bundled program is to do it.
    """
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if options.help or options.source is None or not _takes_python(options):
        return None
    if others:
        parser.error(f"not for this kind of checkpoint, or unknown: {' '.join(others)}")
    if options.output is None:
        parser.error("give the destination with -o")
    try:
        if not options.force and not _is_save_dir(options):
            tools.refuse_existing(options.output, "give another destination, or --force")
        with warnings.catch_warnings(record=True) as notes:
            written = convert(
                options.source,
                options.output,
                format=options.format,
                max_shard_size=options.max_shard_size,
                allow_pickle=options.allow_pickle,
                allow=options.allow,
                verify=not options.no_verify,
                overwrite=options.force,
                filter=options.filter,
                exclude=options.exclude,
                strip_prefix=options.strip_prefix,
                rename=options.rename,
                dtype=options.dtype,
            )
    except PickleRefused as error:
        print(f"dsckpt: {_refusal(error)}", file=sys.stderr)
        return 2
    except (DsckptError, OSError) as error:
        print(f"dsckpt: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"dsckpt: this conversion takes PyTorch: {error}", file=sys.stderr)
        return 2
    for note in notes:
        print(f"dsckpt: {note.message}", file=sys.stderr)
    if options.json:
        print(json.dumps({"schema": "dsckpt.convert/1", "output": str(written)}))
    else:
        print(f"wrote {written}")
    return 0


def _refusal(error: PickleRefused) -> str:
    """The message, with the options of this command for advice."""
    named = " ".join(f"--allow {name}" for name in error.classes)
    return (
        f"{error.path} holds objects of {', '.join(error.classes)}, and loading them may run code. "
        f"If you trust the file, pass {named} or --allow-pickle"
    )


def _is_save_dir(options: argparse.Namespace) -> bool:
    """Whether the destination is a directory of DeepSpeed, into which a checkpoint is added."""
    if options.format == "deepspeed":
        return True
    return os.path.isdir(options.source) and recognize(options.source).kind is Kind.DEEPSPEED


def _takes_python(options: argparse.Namespace) -> bool:
    if options.format == "deepspeed":
        return True
    try:
        return recognize(options.source).kind in _IN_PYTHON
    except (DsckptError, OSError):
        # Of files the program says what is wrong; of directories it knows its own only.
        return os.path.isdir(options.source)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("dsckpt convert", add_help=False, allow_abbrev=False)
    parser.add_argument("source", nargs="?")
    parser.add_argument("-o", "--output")
    parser.add_argument("--format", choices=["dsckpt", "safetensors", "deepspeed"])
    parser.add_argument("--max-shard-size")
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("-x", "--exclude", action="append", default=[])
    parser.add_argument("--strip-prefix")
    parser.add_argument("--rename", action="append", default=[])
    parser.add_argument("--dtype")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--allow-pickle", action="store_true")
    parser.add_argument("--allow", action="append", default=[], metavar="MODULE.CLASS")
    parser.add_argument("-h", "--help", action="store_true")
    return parser
