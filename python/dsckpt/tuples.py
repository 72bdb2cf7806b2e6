"""Classes of named tuples, by their names. Nothing is imported for them."""

from __future__ import annotations

import collections
import functools
import sys
from typing import Any


def name_of(cls: type) -> str:
    """The "module.QualName" of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def fields_of(cls: type) -> tuple[str, ...] | None:
    """Field names of a namedtuple or of a structure such as torch.return_types.max."""
    if _is_structure(cls):
        whole = cls.n_sequence_fields == cls.n_fields and not cls.n_unnamed_fields  # type: ignore[attr-defined]
        return tuple(getattr(cls, "__match_args__", ())) if whole else None
    fields = getattr(cls, "_fields", None)
    if isinstance(fields, tuple) and all(isinstance(field, str) for field in fields):
        return fields
    return None


def _is_structure(cls: type) -> bool:
    return hasattr(cls, "n_sequence_fields") and hasattr(cls, "n_fields")


def fields_to_store(value: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The fields of a tuple that make() gives back from its class's name and its values; None:
    it does not."""
    cls = type(value)
    fields = fields_of(cls)
    if fields is None or len(fields) != len(value) or getattr(value, "__dict__", None):
        return None
    found = _loaded(name_of(cls))
    if found is not cls and (found is not None or _is_structure(cls)):
        return None  # The name is another class's, or nobody's: sys.float_info.
    try:
        _stand_in(name_of(cls), fields)
        if _is_structure(cls):
            cls(value)
    except (TypeError, ValueError):
        return None
    return fields


def make(name: str, values: dict[str, Any]) -> Any:
    """A tuple of the class of that name, or, where nobody has imported it, of one that looks alike.

    Raises:
        ValueError: The fields are none that a class can have.
    """
    fields = tuple(values)
    cls = _loaded(name)
    if cls is None or fields_of(cls) != fields:
        cls = _stand_in(name, fields)
    if _is_structure(cls):
        return cls(values.values())
    return tuple.__new__(cls, values.values())


def _loaded(name: str) -> Any:
    """The tuple class of that name, if its module has been imported by somebody else."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is None:
            continue
        found: Any = module
        for part in parts[cut:]:
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        return found if isinstance(found, type) and issubclass(found, tuple) else None
    return None


@functools.lru_cache(maxsize=256)
def _stand_in(name: str, fields: tuple[str, ...]) -> type:
    module, _, bare = name.rpartition(".")
    # `rename`: for the names that it gives, which are refused otherwise.
    make: Any = collections.namedtuple
    made: Any = make(bare, fields, rename=True, module=module)
    if made._fields != fields:
        raise ValueError(f"its fields are {fields}")
    found: type = made
    return found
