"""What callers gave, as the native library takes it, or an error that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from .errors import DsckptError


def integer(name: str, value: Any, least: int = -(1 << 63)) -> int:
    """A whole number of 64 bits, of any integral type.

    Raises:
        DsckptError: InvalidArgument.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found < 1 << 63:
        whole = "a whole number" if least < 0 else f"a whole number from {least} on"
        raise _refused(name, value, f"{whole} below 2**63")
    return found


def integers(name: str, values: Any) -> list[int]:
    """Several of them. Raises as integer()."""
    try:
        found = list(values)
    except TypeError:
        raise _refused(name, values, "a list of whole numbers") from None
    return [integer(name, each) for each in found]


def number(name: str, value: Any) -> float:
    """A number from 0 on. Raises as integer()."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = -1.0
    if not found >= 0:  # NaN is none.
        raise _refused(name, value, "a number from 0 on")
    return found


def destination(path: str | os.PathLike[str]) -> str:
    """The path of what is to be written. Raises as integer(), and TypeError for what is no path."""
    found = os.fspath(path)
    try:
        os.fsencode(found)
    except UnicodeEncodeError:
        raise _refused("path", found, "one that the file system can have") from None
    return found


def text(name: str, value: Any) -> str:
    """A str that has UTF-8. Raises as integer()."""
    if not isinstance(value, str) or not _is_unicode(value):
        raise _refused(name, value, "a str without lone surrogates")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False, not what Python takes for one of them. Raises as integer()."""
    if not isinstance(value, bool):
        raise _refused(name, value, "True or False")
    return value


def attributes(value: Any) -> dict[str, Any]:
    """Attributes of a save; None: none. Their values are looked at by who stores them.

    Raises:
        DsckptError: InvalidArgument.
    """
    return _texts("attributes", {} if value is None else value)


def metadata(value: Any) -> dict[str, str] | None:
    """Members of the safetensors metadata. Raises as attributes()."""
    return None if value is None else _texts("metadata", value)


def vendor(value: Any) -> dict[str, bytes] | None:
    """Vendor data. Raises as attributes()."""
    return None if value is None else _texts("vendor", value)


def _texts(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _refused(name, value, "a dict with keys of str")
    for key, each in value.items():
        for one in (key, each):
            if isinstance(one, str) and not _is_unicode(one):
                raise _refused(f"{name}[{key!r}]", each, "text without lone surrogates")
    return dict(value)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(name: str, value: Any, wanted: str) -> DsckptError:
    return DsckptError(f"{name} is {value!r}: give {wanted}", "InvalidArgument")
