"""What the command `dsckpt` of an installed package does with Python: conversions.

`dsckpt_command` calls it.
"""

from __future__ import annotations

import os
import sys

from .errors import DsckptError
from .tools import program


def main() -> None:
    """Replaces this process by the program, with the same arguments; conversions that take Python
    are done here."""
    if sys.argv[1:2] == ["convert"]:
        from .convert import command

        status = command.run(sys.argv[2:])
        if status is not None:
            sys.exit(status)
    try:
        found = program(search_path=False)  # This command itself may be what the PATH finds.
        os.execv(found, [found, *sys.argv[1:]])
    except (DsckptError, OSError) as error:
        print(f"dsckpt: {error}", file=sys.stderr)
        sys.exit(2)
