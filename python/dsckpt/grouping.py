"""Tensors that are looked at together, by their names; the rules are those of `dsckpt trace`."""

from __future__ import annotations

import re

RULES = ("tensor", "pattern", "layer", "module", "dtype", "all")

_NUMBER = re.compile(r"(?<![^./])[0-9]+(?![^./])")
_INT32_MAX = 2**31 - 1


def pattern_of(name: str) -> str:
    """ "layers.#.weight": every part of a name, between dots and slashes, that is a number."""
    return _NUMBER.sub("#", name)


def layer_of(name: str) -> int | None:
    """The first part of a name that is a number."""
    found = _NUMBER.search(name)
    layer = int(found[0]) if found else None
    return layer if layer is None or layer <= _INT32_MAX else None


def group_of(by: str, name: str) -> str:
    """The group of a tensor. By "tensor" that is its pattern, which rows of tensors tell."""
    if by == "layer":
        found = _NUMBER.search(name)
        return name[: found.end()] if found else name
    if by == "all":
        return "all"
    pattern = pattern_of(name)
    if by == "module":
        return re.sub(r"[./][^./]*$", "", pattern)
    return pattern
