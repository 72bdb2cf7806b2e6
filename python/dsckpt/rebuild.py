"""Makes Python values again from what tree.classify() stored under a tag.

Nothing here imports a module that a file names, or calls what it names.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, memory, own, tree, tuples
from .errors import DsckptError, place, text_of

if TYPE_CHECKING:
    import numpy


ROOT_ATTRIBUTE = "py.root"
"""The attribute that says what the root was, where it was no plain dict."""


def state(
    native: _native.File,
    tensors: Sequence[Any],
    make_object: Callable[[int, str, list[Any]], Any],
    make_tagged: Callable[[str, Any, list[Any]], Any],
    shared_only: bool = False,
) -> Any:
    """The whole state of a file, with its root as it was saved.

    Args:
        native: The file.
        tensors: What stands for each tensor, by ordinal.
        make_object: As for _native.File.build().
        make_tagged: As for _native.File.build().
        shared_only: As for _native.File.build().
    """

    def wanted(name: str) -> bool:
        return not shared_only or not native.is_rank_own(name)

    if not native.has_tree():
        infos = native.tensors()
        flat = {info[0]: tensor for info, tensor in zip(infos, tensors) if wanted(info[0])}
        flat.update((name, tensors[i]) for name, i in native.aliases() if wanted(name))
        for ordinal, info in enumerate(native.objects()):
            if wanted(info[0]):
                flat[info[0]] = make_object(ordinal, "", [info[0]])
        return flat
    with text_of(native.path):
        built = native.build(tensors, make_object, make_tagged, shared_only=shared_only)
    return unwrap(built, attributes_of(native))


def attributes_of(native: _native.File) -> dict[str, Any]:
    """All attributes of a file."""
    with text_of(native.path):
        return native.attributes()


def visible(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes without those that this package keeps for itself."""
    return {name: value for name, value in attributes.items() if name != ROOT_ATTRIBUTE}


def wrap(state: Any) -> tuple[dict[Any, Any], dict[str, str]]:
    """The root dict to store for a state, and the attributes that say what it was."""
    if own.marked(state):
        inner = state.value if isinstance(state, own.RankOwn) else dict(state)
        root, attributes = wrap(inner)
        return {key: own.rank_own(value) for key, value in root.items()}, attributes
    if type(state) is dict and _native.plain_keys(state):
        return state, {}
    if type(state) is collections.OrderedDict and _native.plain_keys(state):
        key, attributes = tree.attributes_of(state)
        if key is None:
            return dict(state), {ROOT_ATTRIBUTE: "OrderedDict"}
        return {**state, key: attributes}, {ROOT_ATTRIBUTE: f"OrderedDict:{key}"}
    return {"": state}, {ROOT_ATTRIBUTE: "value"}


def unwrap(root: dict[Any, Any], attributes: dict[str, Any]) -> Any:
    """Undoes wrap()."""
    kind = attributes.get(ROOT_ATTRIBUTE)
    if isinstance(kind, str) and kind.partition(":")[0] == "OrderedDict":
        return rebuild(f"py.{kind}", root, [])
    return root.get("", root) if kind == "value" else root


def rebuild(tag: str, value: Any, path: Sequence[object]) -> Any:
    """The value that a tagged node stands for.

    Args:
        tag: As stored. Unknown ones change nothing.
        value: The node's own value, with children made already.
        path: Its place in the state, for errors.

    Raises:
        DsckptError: Corrupt, when the value is none that the tag can stand on; Unsupported, when
            this torch or NumPy lacks the type.
    """
    kind, _, detail = tag.partition(":")
    if kind not in _MAKERS:
        return value
    try:
        return _make(kind, detail, value)
    except DsckptError as error:
        raise DsckptError(f"{place(path)}: {error}", error.code) from None
    except Exception as error:
        raise DsckptError(
            f"{place(path)} is tagged {tag!r}, which does not fit its value: {error}", "Corrupt"
        ) from error


def _make(kind: str, detail: str, value: Any) -> Any:
    taken, make = _MAKERS[kind]
    if taken is not None and type(value) is not taken:
        raise TypeError(f"it is of type {type(value).__name__}")
    return make(detail, value)


def _pairs(detail: str, value: list[Any]) -> Any:
    # Else a range could stand for a pair, and dict() would count to its end.
    if any(type(pair) is not tuple or len(pair) != 2 for pair in value):
        raise TypeError("not all are pairs")
    kind, _, rest = detail.partition(":")
    return _make(kind, rest, dict(value)) if detail else dict(value)


def _ordered_dict(detail: str, value: dict[Any, Any]) -> Any:
    made = collections.OrderedDict(value)
    if detail:
        attributes = made.pop(detail)
        if type(attributes) is not dict:
            raise TypeError("its attributes are no dict")
        vars(made).update(attributes)
    return made


def _default_dict(detail: str, value: dict[Any, Any]) -> Any:
    return collections.defaultdict(tree.FACTORIES[detail] if detail else None, value)


def _torch_size(_: str, value: tuple[int, ...]) -> Any:
    if not dtypes.have_torch():
        return value
    import torch

    return torch.Size(value)


def _torch_dtype(_: str, value: str) -> Any:
    if not dtypes.have_torch():
        return value
    import torch

    found = vars(torch).get(value)
    if not isinstance(found, torch.dtype):
        raise DsckptError(f"torch {torch.__version__} has no dtype {value}", "Unsupported")
    return found


def _torch_device(_: str, value: str) -> Any:
    if not dtypes.have_torch():
        return value
    import torch

    return torch.device(value)


def _torch_version(_: str, value: str) -> Any:
    if not dtypes.have_torch():
        return value
    import torch

    return torch.torch_version.TorchVersion(value)


def _torch_view(detail: str, value: Any) -> Any:
    return memory.restore_view(detail, value) if dtypes.have_torch() else value


def _array(detail: str, value: Any) -> numpy.ndarray[Any, Any]:
    return memory.restore_array(detail, memory.as_array(value))


def _numpy_scalar(detail: str, value: bytes) -> Any:
    import numpy

    if detail == "S":
        return numpy.bytes_(value)
    if detail == "U":
        return numpy.str_(value.decode("utf-8", "surrogatepass"))
    return numpy.frombuffer(value, dtypes.named_numpy_dtype(detail))[0]


def _numpy_dtype(_: str, value: str) -> Any:
    return dtypes.named_numpy_dtype(value)


# Type of the nodes that a tag may stand on, and what makes its value. Given others the same calls
# may not end (`set` of a tensor) or take any amount of memory (`bytearray` of an int).
_MAKERS: dict[str, tuple[type | None, Callable[[str, Any], Any]]] = {
    "py.OrderedDict": (dict, _ordered_dict),
    "py.defaultdict": (dict, _default_dict),
    "py.pairs": (list, _pairs),
    "py.set": (list, lambda _, value: set(value)),
    "py.frozenset": (list, lambda _, value: frozenset(value)),
    "py.bytearray": (bytes, lambda _, value: bytearray(value)),
    "py.range": (tuple, lambda _, value: range(*value)),
    "py.slice": (tuple, lambda _, value: slice(*value)),
    "py.str": (bytes, lambda _, value: value.decode("utf-8", "surrogatepass")),
    "py.namedtuple": (dict, tuples.make),
    "torch.Size": (tuple, _torch_size),
    "torch.dtype": (str, _torch_dtype),
    "torch.device": (str, _torch_device),
    "torch.version": (str, _torch_version),
    "torch.view": (None, _torch_view),
    "numpy.ndarray": (None, _array),
    "numpy.scalar": (bytes, _numpy_scalar),
    "numpy.dtype": (str, _numpy_dtype),
}
