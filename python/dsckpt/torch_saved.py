"""Loads files of torch.save() with torch.load(), as far as no code of theirs is run unasked."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Iterable
from typing import Any

import torch

from . import pickle_rules
from .errors import DsckptError, PickleRefused
from .pickles import name_of, refused_by_torch


def load(
    path: str,
    allow_pickle: bool,
    allow: Iterable[type | str],
    *,
    map_location: Any = "cpu",
    mmap: bool = True,
) -> Any:
    """torch.load(), by default to the CPU, and mapped where the file is of the kind that can be.

    Raises:
        PickleRefused: It names classes that are not allowed.
        DsckptError: Corrupt, NotFound.
    """
    mapped = mmap and zipfile.is_zipfile(path)
    try:
        with torch.serialization.safe_globals([_class(each) for each in allow]):
            return torch.load(
                path, map_location=map_location, mmap=mapped or None, weights_only=not allow_pickle
            )
    except FileNotFoundError as error:
        raise DsckptError(str(error), "NotFound", path) from error
    except Exception as error:
        refused = refusal(path, path, error)
        if refused is not None:
            raise refused from error
        raise DsckptError(
            f"{path} cannot be read by torch.load: {type(error).__name__}: {error}",
            "Corrupt",
            path,
        ) from error


def refusal(what: str, path: str, error: Exception) -> PickleRefused | None:
    """The error to raise where torch.load(weights_only=True) has found a class, else None."""
    named = refused_by_torch(error)
    if not named:
        return None
    classes, never = pickle_rules.split(named)
    if never:
        advice = "No allow=[...] loads that: if you trust whoever wrote the file, pass "
    else:
        advice = f"If you trust the file, pass allow={named!r} or "
    return PickleRefused(
        f"{what} names {', '.join(named)}, and loading it may run code. {advice}allow_pickle=True",
        path,
        classes,
        never,
    )


def _class(named: type | str) -> Any:
    if isinstance(named, str):
        given: list[Any] = []
        if not pickle_rules.may_be_listed(named):
            raise _no_data(named)
        module, _, name = named.rpartition(".")
        found: Any = getattr(importlib.import_module(module), name)
    else:
        given, found = [named], named
    label = named if isinstance(named, str) else name_of(named)
    if not pickle_rules.is_data(label, found, given):
        raise _no_data(label)
    return found


def _no_data(name: str) -> DsckptError:
    return DsckptError(
        f"allow names {name}, which can run any code: allow takes classes of data only. If you "
        "trust whoever wrote the file, pass allow_pickle=True",
        "InvalidArgument",
    )
