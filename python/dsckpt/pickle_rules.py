"""What a pickle may name, whoever allows it: data, and nothing that runs code of a file's choosing.

To allow a class is to allow that a file makes an object of it, with any arguments. So what is
allowed has to be data. A name is judged twice: as text, which imports nothing, for what a refusal
may suggest; and as the object that it turned out to be, before that is used.
"""

from __future__ import annotations

import _compat_pickle
import builtins
import sys
import types
from collections.abc import Iterable
from typing import Any

from . import dtypes

PARTS = frozenset(
    {
        "dsckpt.pickle_makers.make_member",
        "dsckpt.pickle_makers.make_quantized",
        "dsckpt.pickle_makers.make_sparse",
        "dsckpt.pickle_makers.make_storage",
        "dsckpt.pickle_makers.make_subclass",
        "dsckpt.pickle_makers.make_tensor",
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
        "numpy.ma.core._mareconstruct",
        "numpy.ndarray",
        "torch.Size",
        "torch.device",
        "torch.serialization._get_layout",
    }
)
"""What instances of allowed classes are commonly made of. Calling these runs no foreign code, so
nobody has to list them; an object that *is* one of them still needs to be allowed by name."""

_FUNCTIONS = frozenset(
    {
        "_codecs.encode",
        "array._array_reconstructor",
        "copyreg._reconstructor",
        "numpy.random._pickle.__bit_generator_ctor",
        "numpy.random._pickle.__generator_ctor",
        "numpy.random._pickle.__randomstate_ctor",
        "re._compile",
    }
)
"""Functions that make data, looked at one by one. They call what they are given at most as far as
that is allowed itself."""

_STANDARD_DATA = {
    "argparse": "Namespace",
    "array": "array",
    "calendar": "Day Month",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Context Decimal",
    "enum": "Enum Flag IntEnum IntFlag",
    "fractions": "Fraction",
    "http": "HTTPStatus",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "random": "Random",
    "re": "Pattern RegexFlag",
    "signal": "Signals",
    "statistics": "NormalDist",
    "string": "Template",
    "time": "struct_time",
    "types": "SimpleNamespace",
    "uuid": "SafeUUID UUID",
    "builtins": "bool bytearray bytes complex dict float frozenset int list object range set slice "
    "str tuple ellipsis Ellipsis NotImplemented NotImplementedType NoneType",
}
_DATA = frozenset(
    f"{module}.{name}" for module, names in _STANDARD_DATA.items() for name in names.split()
) | frozenset(
    f"builtins.{name}"
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
"""Of the standard library: first module and name, wherever in its package that lies."""

_LIBRARIES: dict[str, tuple[str, ...]] = {
    "dsckpt": (),
    "numpy": (
        "numpy.dtypes.",
        "numpy.ma.",
        "numpy.random.",
        "numpy.rec.",
        "numpy.matrix",
        "numpy.ndarray",
        "numpy.dtype",
        "numpy.record",
        "numpy.recarray",
    ),
    "torch": (
        "torch.Tensor",
        "torch.Generator",
        "torch.Size",
        "torch._C.Generator",
        "torch.amp.",
        "torch.cuda.amp.",
        "torch.device",
        "torch.distributed._tensor.",
        "torch.distributed.checkpoint.filesystem._StorageInfo",
        "torch.distributed.checkpoint.metadata.",
        "torch.distributed.tensor.",
        "torch.distributions.",
        "torch.dtype",
        "torch.layout",
        "torch.memory_format",
        "torch.nested.",
        "torch.nn.",
        "torch.optim.",
        "torch.qscheme",
        "torch.return_types.",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch.torch_version.TorchVersion",
    ),
}
"""Of these packages, which run code by many names, only what begins so."""

_CODE = frozenset(
    {
        "IPython",
        "_pytest",
        "cffi",
        "cloudpickle",
        "dill",
        "distutils",
        "joblib",
        "pip",
        "pkg_resources",
        "pytest",
        "setuptools",
    }
)
"""Other packages that load or run code."""

_DOORS = frozenset({"builtins", "functools", "importlib", "io", "operator", "os", "posix", "sys"})
"""Modules that others import: what they hold is not these others'."""

_CONSTANTS = (Ellipsis, NotImplemented)

_STANDARD = frozenset(sys.stdlib_module_names) | {
    name.partition(".")[0] for name in _compat_pickle.IMPORT_MAPPING
}


def is_part(name: str) -> bool:
    """Whether a name needs no permission."""
    return name in PARTS or _is_torch_constant(name)


def may_be_listed(name: str) -> bool:
    """Whether "module.QualName" may be allowed, as far as that is known. Imports nothing."""
    return name in _FUNCTIONS or is_part(name) or (_reads_like_data(name) and not _is_code(name))


def split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names in those that may be allowed, and those that nothing but trust in everything loads."""
    listed = sorted(names)
    never = [name for name in listed if not may_be_listed(name)]
    return [name for name in listed if name not in never], never


def _reads_like_data(name: str) -> bool:
    top, _, rest = name.partition(".")
    *middle, last = rest.split(".")
    if not _DOORS.isdisjoint(middle) or any(_is_inner(part) for part in (*middle, last)):
        return False
    if top in _STANDARD:
        own = all(part.startswith("_") for part in middle)  # "pathlib._local.PosixPath"
        return name in _DATA or (own and f"{top}.{last}" in _DATA)
    if top in _LIBRARIES:
        return name.startswith(_LIBRARIES[top]) or _is_numpy_scalar(name)
    return top not in _CODE


def _is_inner(part: str) -> bool:
    return part.startswith("__") and part.endswith("__")


def is_data(name: str, found: Any, given: Iterable[object]) -> bool:
    """Whether what a name turned out to be may be used.

    Args:
        name: The name, allowed by somebody.
        found: The object.
        given: Objects that the caller allowed as themselves: functions among them may be used.
    """
    if is_part(name) or name in _FUNCTIONS:
        return True
    if not _reads_like_data(home_of(found, name)):
        return False
    if isinstance(found, type) or any(found is each for each in _CONSTANTS):
        return True
    # A file could also change what is no class: a dict of a module.
    return isinstance(found, types.FunctionType) and any(found is each for each in given)


def home_of(found: Any, name: str) -> str:
    """Where an object says that it was defined; `name` where it does not say."""
    module, own = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    return f"{module}.{own}" if isinstance(module, str) and isinstance(own, str) else name


def _is_code(name: str) -> bool:
    """Whether a name of a package that somebody has imported is no class or value there."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:cut]))
        if found is None:
            continue
        for part in parts[cut:]:
            # Not getattr(): a module's may import others.
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if isinstance(found, type):
            home = home_of(found, name)
            return not _reads_like_data(home)
        return found is not None and not any(found is each for each in _CONSTANTS)
    return False


def _is_torch_constant(name: str) -> bool:
    module, _, attribute = name.removeprefix("torch._utils.").partition(".")
    if module != "torch" or not dtypes.have_torch():
        return False
    import torch

    # Not getattr(): names such as "onnx" would be imported.
    kinds = (torch.dtype, torch.memory_format, torch.qscheme)
    return isinstance(vars(torch).get(attribute), kinds)


def _is_numpy_scalar(name: str) -> bool:
    numpy: Any = sys.modules.get("numpy")
    package, _, attribute = name.partition(".")
    if numpy is None or package != "numpy":
        return False
    found = vars(numpy).get(attribute)
    return isinstance(found, type) and issubclass(found, numpy.generic)
