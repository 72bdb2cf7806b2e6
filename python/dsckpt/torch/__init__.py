"""The old name of `dsckpt.dcp`, deprecated: new programs import that.

Its modules are those of `dsckpt.dcp`, so that what was pickled or imported by the old names is
found.
"""

from __future__ import annotations

import sys

from .. import dcp
from ..dcp import DcpReader, DcpWriter

__all__ = ["DcpReader", "DcpWriter"]

for _name in ("group", "items", "metadata", "reader", "reading", "staging", "writer"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = getattr(dcp, _name)
del _name
