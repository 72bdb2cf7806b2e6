"""The command `dsckpt` of an installed package: becomes the bundled program.

It is no part of the package `dsckpt`, because importing that takes longer than most commands do,
and a shell that completes a word waits for it.
"""

from __future__ import annotations

import os
import sys


def _program() -> str | None:
    """The program, where it is as `dsckpt.tools.program` looks for it first."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for candidate in (
        os.environ.get("DSCKPT_PROGRAM"),
        os.path.join(beside, "dsckpt", "_bin", "dsckpt"),
    ):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    return None


def main() -> None:
    """Replaces this process by the program, with the same arguments.

    Conversions that take Python, and the complaint that the program is missing, are the package's.
    """
    found = None if sys.argv[1:2] == ["convert"] else _program()
    if found is not None:
        try:
            os.execv(found, [found, *sys.argv[1:]])
        except OSError as error:
            print(f"dsckpt: {found}: {error}", file=sys.stderr)
            sys.exit(2)
    from dsckpt._cli import main as main_of_package

    main_of_package()
