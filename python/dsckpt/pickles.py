"""Objects of classes that the native tree lacks: pickled into bytes, loaded only when allowed."""

from __future__ import annotations

import enum
import io
import pickle
import pickletools
import re
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import dtypes
from .errors import DsckptError, PickleRefused, place

if TYPE_CHECKING:
    import torch

MEDIA_TYPE = "application/x-python-pickle"
TAG = "py.pickle:"
_PROTOCOL = 4

# What instances of allowed classes are commonly made of. Calling these runs no foreign code, so
# nobody has to list them; an object that *is* one of them still needs to be allowed by name.
_PARTS = frozenset(
    {
        "dsckpt.pickles.make_tensor",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.frozenset",
        "builtins.range",
        "builtins.set",
        "builtins.slice",
        "collections.OrderedDict",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy._core.numeric._frombuffer",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.core.numeric._frombuffer",
        "numpy.dtype",
        "numpy.ndarray",
        "torch.Size",
        "torch.device",
    }
)


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
    return [named[1]] if named else []


class Permission:
    """What a load may unpickle.

    Args:
        allow_pickle: Anything. Loading may then run code that the file's author chose.
        allow: Classes or their "module.QualName".
        file: Path of the file, for errors.
    """

    def __init__(
        self, allow_pickle: bool = False, allow: Iterable[type | str] = (), file: str = ""
    ) -> None:
        self.everything = allow_pickle
        if isinstance(allow, (str, type)):  # One alone; a str would count as its characters.
            allow = [allow]
        self.names = frozenset(name_of(a) if isinstance(a, type) else str(a) for a in allow)
        self.file = file

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
        cls = tag.removeprefix(TAG) if tag.startswith(TAG) else "unknown"
        if not self.everything and cls not in self.names:
            raise self._refusal(payload, cls, path)
        try:
            return _Unpickler(io.BytesIO(payload), self._may_use).load()
        except _NotAllowed:
            raise self._refusal(payload, cls, path) from None
        except Exception as error:
            raise DsckptError(
                f"{self.file}: the {cls} at {place(path)} could not be unpickled: "
                f"{type(error).__name__}: {error}",
                "Corrupt",
                self.file,
            ) from error

    def _may_use(self, name: str) -> bool:
        return self.everything or name in self.names or name in _PARTS or _is_torch_dtype(name)

    def _refusal(self, payload: bytes, cls: str, path: Sequence[object]) -> PickleRefused:
        needed = {name for name in globals_of(payload) if not self._may_use(name)}
        if cls not in self.names:
            needed.add(cls)
        classes = sorted(needed)
        return PickleRefused(
            f"{self.file}: {place(path)} is a pickled {cls}, and loading it may run code. If you "
            f"trust the file, pass allow={classes!r} or allow_pickle=True",
            self.file,
            classes,
        )


def _is_torch_dtype(name: str) -> bool:
    module, _, attribute = name.partition(".")
    if module != "torch" or not dtypes.have_torch():
        return False
    import torch

    # Not getattr(): names such as "onnx" would be imported.
    return isinstance(vars(torch).get(attribute), torch.dtype)


class _NotAllowed(Exception):
    pass


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):  # Some versions of Python name `getattr` here.
            return type(value), (value.value,)
        # torch pickles a tensor's whole storage, by a function that unpickles anything.
        torch = sys.modules.get("torch")
        if torch is None or type(value).__name__ not in ("Tensor", "Parameter"):
            return NotImplemented
        from . import memory

        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return NotImplemented
        if not memory.is_plain_strided(value) or dtypes.torch_name(value.dtype) is None:
            return NotImplemented
        flat = torch.empty(value.numel(), dtype=value.dtype)
        flat.view(value.shape).copy_(value.detach())
        elements = flat.view(torch.uint8).numpy().tobytes()
        name = str(value.dtype).removeprefix("torch.")
        trained = value.requires_grad if type(value) is torch.nn.Parameter else None
        return make_tensor, (name, tuple(value.shape), elements, trained)


def make_tensor(
    dtype: str, shape: tuple[int, ...], elements: bytes, trained: bool | None
) -> torch.Tensor:
    """Rebuilds a tensor that lies inside a pickled object.

    Args:
        dtype: Name in torch, e.g. "float32".
        shape: In elements.
        elements: Row-major bytes.
        trained: requires_grad of a Parameter; None: a plain tensor.
    """
    import torch

    kind = vars(torch).get(dtype)
    if not isinstance(kind, torch.dtype):
        raise DsckptError(f"torch {torch.__version__} has no dtype {dtype}", "Unsupported")
    if elements:
        tensor = torch.frombuffer(bytearray(elements), dtype=kind).reshape(shape)
    else:
        tensor = torch.empty(0, dtype=kind).reshape(shape)
    return tensor if trained is None else torch.nn.Parameter(tensor, requires_grad=trained)


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, may_use: Callable[[str], bool]) -> None:
        super().__init__(source)
        self._may_use = may_use

    def find_class(self, module: str, name: str) -> Any:
        if not self._may_use(f"{module}.{name}"):
            raise _NotAllowed
        return super().find_class(module, name)


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
