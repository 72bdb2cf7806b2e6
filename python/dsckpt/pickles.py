"""Objects of classes that the native tree lacks: pickled into bytes, loaded only when allowed."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import own, pickle_makers, pickle_rules
from .errors import DsckptError, PickleRefused, place

MEDIA_TYPE = "application/x-python-pickle"
TAG = "py.pickle:"
_PROTOCOL = 4

_SHOWN_OBJECTS = 10


def name_of(cls: type | types.FunctionType) -> str:
    """The "module.QualName" under which a class is allowed."""
    return f"{cls.__module__}.{cls.__qualname__}"


def tag_of(value: Any) -> str:
    """The tag of a pickled object: of its class, or of itself where it is a class or function."""
    named = isinstance(value, (type, types.FunctionType))
    return TAG + name_of(value if named else type(value))


def dumps(value: Any, path: Sequence[object]) -> bytes:
    """Pickles an object with all that it holds.

    Plain CPU and CUDA tensors inside are written with their own elements only, and come back on the
    CPU.

    Args:
        value: The object.
        path: Its place in the state, for the error.

    Raises:
        DsckptError: InvalidArgument, when it cannot be pickled.
    """
    out = io.BytesIO()
    try:
        _Pickler(out, _PROTOCOL).dump(value)
    except _Marked as error:
        raise DsckptError(
            f"{place(path)} is a {name_of(type(value))}, which is pickled as a whole, and {error} "
            "in it, whose mark as a rank's own would be lost: mark the object with rank_own(), and "
            "put the bare value (dict() of a state) into it, or save its parts in dicts and lists",
            "InvalidArgument",
        ) from None
    except Exception as error:
        raise DsckptError(
            f"{place(path)} is a {name_of(type(value)).removeprefix('builtins.')}, which can be "
            f"neither stored as it is nor pickled ({type(error).__name__}: {error}): save a plain "
            "value in its place",
            "InvalidArgument",
        ) from error
    return out.getvalue()


def refused_by_torch(error: Exception) -> list[str]:
    """The class that torch.load(weights_only=True) refused, as its error says; none: it says no."""
    named = re.search(r"GLOBAL (\S+)", str(error))
    if named is None:
        return []
    return [named[1] if "." in named[1] else f"builtins.{named[1]}"]


@dataclass
class Refusal:
    """Pickled objects that may not be loaded.

    Attributes:
        places: (place in the state, class) of each.
        names: What they name that is not allowed.
        never: What turned out to be no data, when it was imported.
    """

    places: list[tuple[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)

    def error(self, file: str) -> PickleRefused:
        """The error that says so, of all of them at once."""
        classes, never = pickle_rules.split(self.names)
        never = sorted({*never, *self.never})
        shown = [f"{where} ({cls})" for where, cls in self.places[:_SHOWN_OBJECTS]]
        more = len(self.places) - len(shown)
        if len(self.places) == 1:
            what = "{} is a pickled {}, and loading it may run code".format(*self.places[0])
        else:
            listed = ", ".join(shown) + (f" and {more} more" if more else "")
            what = (
                f"{len(self.places)} objects are pickled, and loading them may run code: {listed}"
            )
        if never:
            advice = (
                f"Named are {', '.join(never)}, which can run any code, so no allow=[...] loads "
                "them: if you trust whoever wrote the file, pass allow_pickle=True"
            )
        else:
            advice = f"If you trust the file, pass allow={classes!r} or allow_pickle=True"
        return PickleRefused(f"{file}: {what}. {advice}", file, classes, never)


def named_in_torch_file(payload: bytes) -> list[str]:
    """All that torch.load(weights_only=True) refuses in what torch.save() wrote; none: it does not
    say."""
    import torch

    try:
        find = torch.serialization.get_unsafe_globals_in_checkpoint
        return sorted(find(io.BytesIO(payload)))
    except Exception:  # Another kind of file, or an older torch.
        return []


class Permission:
    """What a load may unpickle.

    Args:
        allow_pickle: Anything. Loading may then run code that the file's author chose.
        allow: Classes or their "module.QualName", and functions, which are named by themselves
            only. What can run any code is refused all the same (pickle_rules).
        file: Path of the file, for errors.
    """

    def __init__(
        self,
        allow_pickle: bool = False,
        allow: Iterable[type | types.FunctionType | str] = (),
        file: str = "",
    ) -> None:
        self.everything = allow_pickle
        allow = _listed(allow)
        self._given = [each for each in allow if not isinstance(each, str)]
        self.names = frozenset(a if isinstance(a, str) else name_of(a) for a in allow)
        self.file = file

    def check(self, payload: bytes, tag: str, path: Sequence[object], refusal: Refusal) -> None:
        """Notes in `refusal` what of a pickle is not allowed, as far as that can be seen without
        unpickling it. Arguments else as for loads()."""
        if self.everything:
            return
        named = globals_of(payload)
        needed = {name for name in named if not pickle_rules.is_part(name)}
        if tag.startswith(TAG):
            needed.add(tag.removeprefix(TAG))
        elif not needed:
            needed = named  # Parts alone make an object too.
        names = {name for name in needed if not self._is_allowed(name)}
        if names:
            refusal.places.append((place(path), _class_in(tag)))
            refusal.names |= names

    def loads(self, payload: bytes, tag: str, path: Sequence[object]) -> Any:
        """Unpickles an object.

        Args:
            payload: The pickle.
            tag: "py.pickle:" and the name of its class.
            path: Its place in the state, for errors.

        Raises:
            PickleRefused: The class, or one that the pickle names, is not allowed.
            DsckptError: Corrupt, or what unpickling raised.
        """
        refusal = Refusal()
        self.check(payload, tag, path, refusal)
        if refusal.names:
            raise refusal.error(self.file)
        try:
            return _Unpickler(io.BytesIO(payload), self).load()
        except _NotAllowed as error:
            found = Refusal([(place(path), _class_in(tag))])
            (found.never if error.is_code else found.names).add(error.name)
            raise found.error(self.file) from None
        except Exception as error:
            raise DsckptError(
                f"{self.file}: the {_class_in(tag)} at {place(path)} could not be unpickled: "
                f"{type(error).__name__}: {error}",
                "Corrupt",
                self.file,
            ) from error

    def find(self, name: str, find: Callable[[], Any]) -> Any:
        """What a pickle names, if it is allowed: `find` imports it."""
        if self.everything:
            return find()
        if not self._may_use(name):
            raise _NotAllowed(name, False)
        found = find()
        if not pickle_rules.is_data(name, found, self._given):
            raise _NotAllowed(pickle_rules.home_of(found, name), True)
        return found

    def _may_use(self, name: str) -> bool:
        return pickle_rules.is_part(name) or self._is_allowed(name)

    def _is_allowed(self, name: str) -> bool:
        if name not in self.names:
            return False
        given = any(name_of(each) == name for each in self._given)
        return given or pickle_rules.may_be_listed(name)


def _listed(allow: Any) -> list[Any]:
    """What may be unpickled, as a list.

    Raises:
        DsckptError: InvalidArgument, when something in it has no name.
    """
    if isinstance(allow, (str, type, types.FunctionType)) or not isinstance(allow, Iterable):
        allow = [allow]  # One alone; a str would count as its characters.
    found = list(allow)
    for each in found:
        named = hasattr(each, "__module__") and hasattr(each, "__qualname__")
        if not isinstance(each, str) and not named:
            raise DsckptError(
                f"allow holds {each!r}: give classes, or their names as 'module.QualName'",
                "InvalidArgument",
            )
    return found


def _class_in(tag: str) -> str:
    return tag.removeprefix(TAG) if tag.startswith(TAG) else "object"


class _NotAllowed(Exception):
    def __init__(self, name: str, is_code: bool) -> None:
        super().__init__(name)
        self.name = name
        self.is_code = is_code


class _Marked(Exception):
    pass


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if own.marked(value):
            state = isinstance(value, own.OwnDict)
            raise _Marked("a state of dsckpt.random is" if state else "a rank_own() is")
        return pickle_makers.reduce(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, permission: Permission) -> None:
        super().__init__(source)
        self._permission = permission

    def find_class(self, module: str, name: str) -> Any:
        find = super().find_class
        return self._permission.find(f"{module}.{name}", lambda: find(module, name))


def globals_of(payload: bytes) -> set[str]:
    """The "module.QualName" of what a pickle names. Runs nothing.

    For messages: a stream that was not made by a pickler may name more than is found here.
    """
    names: set[str] = set()
    texts: list[str] = []
    memo: list[str] = []
    last = ""
    try:
        for code, argument, _ in pickletools.genops(payload):
            if code.name == "GLOBAL":
                names.add(str(argument).replace(" ", ".", 1))
            elif code.name == "STACK_GLOBAL":
                names.add(".".join(texts[-2:]))
            elif code.name == "MEMOIZE":
                memo.append(last)
            elif code.name in ("BINGET", "LONG_BINGET") and int(argument or 0) < len(memo):
                texts.append(memo[int(argument or 0)])
            last = argument if isinstance(argument, str) else ""
            if last:
                texts.append(last)
    except ValueError:
        pass  # No whole pickle: what was found so far has to do.
    return names
