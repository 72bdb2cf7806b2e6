"""`dsckpt convert` where a conversion needs Python: files of torch.save, DCP, DeepSpeed.

All others are the bundled program's; it takes the same arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

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
        written = convert(
            options.source,
            options.output,
            format=options.format,
            allow_pickle=options.allow_pickle,
            allow=options.allow,
            overwrite=options.force,
        )
    except (DsckptError, OSError) as error:
        print(f"dsckpt: {_as_options(error)}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"dsckpt: this conversion takes PyTorch: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"schema": "dsckpt.convert/1", "output": str(written)}))
    else:
        print(f"wrote {written}")
    return 0


def _as_options(error: Exception) -> str:
    """The message, with the options of this command in the place of the function's arguments."""
    text = str(error).replace("overwrite=True", "--force")
    if isinstance(error, PickleRefused):
        named = " ".join(f"--allow {name}" for name in error.classes)
        text = text.replace(f"allow={list(error.classes)!r}", named)
        text = text.replace("allow_pickle=True", "--allow-pickle")
    return text


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
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--allow-pickle", action="store_true")
    parser.add_argument("--allow", action="append", default=[], metavar="MODULE.CLASS")
    parser.add_argument("-h", "--help", action="store_true")
    return parser
