"""Every type: it comes back as it was, or is pickled and says so, or is refused with its place."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import random
import re
import sys
import time
import types
import uuid
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import dsckpt

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:.*prototype stage"),
    pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta"),
]


class Tagged(torch.Tensor):
    """A subclass with an attribute of its own, as a bounding box has its canvas."""


class Grid(np.ndarray):
    pass


class Whole(int):
    pass


class Part(float):
    pass


class Word(str):
    pass


class Row(list[Any]):
    pass


class Table(dict[str, Any]):
    pass


class Pair(tuple[Any, ...]):
    pass


class Keyword(tuple[Any, ...]):
    _fields = ("class",)


class Real(np.float64):
    pass


class Odd(enum.Enum):
    NAN = float("nan")
    THING = object()
    LIST = [1]  # noqa: RUF012
    TUPLE = (1, 2)


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Settings:
    rate: float
    weights: Any = None


def bare(value: Any) -> Any:
    """What two equal values have in common, to any depth: types, bytes, layout, members."""
    if isinstance(value, torch.Tensor):
        return (type(value), value.dtype, tuple(value.shape), value.layout, _elements(value))
    if isinstance(value, (torch.UntypedStorage, torch.storage.TypedStorage)):
        kind = getattr(value, "dtype", None)
        return (type(value), kind, bytes(value.tolist() if kind is None else b""), value.tolist())
    if isinstance(value, np.ma.MaskedArray):
        parts = (np.asarray(value.data), np.asarray(value.mask), value.fill_value)
        return (type(value), *map(bare, parts))
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        return (type(value), value.dtype, value.dtype.metadata, value.shape, content)
    if isinstance(value, np.generic):
        return (type(value), value.dtype, bytes(value) if type(value) is np.bytes_ else _raw(value))
    if isinstance(value, dict):
        items = [(bare(key), bare(each)) for key, each in value.items()]
        more = getattr(value, "__dict__", {}), getattr(value, "default_factory", None)
        return (type(value), items, more)
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(map(repr, map(bare, value))))
    if isinstance(value, (list, tuple, collections.deque)):
        return (type(value), list(map(bare, value)), getattr(value, "maxlen", None))
    if isinstance(value, float):
        return (type(value), np.float64(value).tobytes())
    if isinstance(value, complex):
        return (type(value), np.complex128(value).tobytes())
    if isinstance(value, slice):
        return (slice, bare((value.start, value.stop, value.step)))
    if isinstance(value, enum.Enum):
        return id(value)
    if isinstance(value, Settings):
        return (Settings, bare(vars(value)))
    if isinstance(value, BaseException):
        return (type(value), value.args)
    if isinstance(value, random.Random):
        return (type(value), value.getstate())
    if isinstance(value, torch.Generator):
        return bare(value.get_state())
    return (type(value), value)


def _raw(value: np.generic) -> Any:
    return value.encode("utf-8", "replace") if type(value) is np.str_ else value.tobytes()


def _elements(tensor: torch.Tensor) -> Any:
    if tensor.is_quantized:
        channels = tensor.qscheme() == torch.per_channel_affine
        scales = tensor.q_per_channel_scales() if channels else tensor.q_scale()
        return (tensor.qscheme(), bare(tensor.int_repr()), bare(scales))
    if tensor.layout == torch.sparse_coo:
        indices, values = tensor._indices(), tensor._values()
        return (tensor.is_coalesced(), bare(indices), bare(values))
    if tensor.layout != torch.strided:
        return bare(tensor.to_dense())
    plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = whole.get(plain.element_size(), plain.dtype)
    flat = torch.empty(plain.numel(), dtype=kind)
    flat.view(plain.shape).copy_(plain.view(kind))
    content = flat.view(torch.uint8).numpy().tobytes()
    return (content, getattr(tensor, "note", None))


def tagged() -> torch.Tensor:
    tensor: Any = torch.arange(3.0).as_subclass(Tagged)
    tensor.note = "of 3"
    return tensor


def narrow(dtype: str) -> torch.Tensor:
    return torch.arange(8, dtype=torch.uint8).view(vars(torch)[dtype])


NARROW = [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)]
SIGNALLING = np.uint64(0x7FF0_0000_0000_0ABC).view(np.float64)

STORED: dict[str, Any] = {
    **{dtype: narrow(dtype) for dtype in NARROW},
    "int4, strided": narrow("int4")[::2],
    "int4, 0-d": narrow("int4")[0],
    **(
        {"bcomplex32": torch.arange(4, dtype=torch.int32).view(torch.bcomplex32)}
        if hasattr(torch, "bcomplex32")
        else {}
    ),
    "bytes with zeros at the end": np.bytes_(b"a\0\0"),
    "text with zeros at the end": np.str_("a\0"),
    "text of NumPy with a surrogate": np.str_("\udc80"),
    "empty text of NumPy": [np.str_(""), np.bytes_(b"")],
    "dates": [np.datetime64("2020-01-01", "25s"), np.timedelta64(5, "M"), np.datetime64("NaT")],
    "long double": [np.longdouble(1) / 3, np.clongdouble(1j) / 3],
    "void": np.void(b"a\0"),
    "ml_dtypes": [ml_dtypes.int4(-3), ml_dtypes.float8_e8m0fnu(2)],
    "NaN with a payload": [float(SIGNALLING), -float("nan"), complex(float("nan"), -0.0)],
    "arrays of NaNs": np.array([SIGNALLING, -SIGNALLING]),
    "keys": {True: 1, 2: 2, "a": 3, (1, None): 4, None: 5, 1.5: 6, np.int64(9): 7, b"": 8},
    "keys that are tensors' sizes": {torch.Size([2]): 1, frozenset({1}): 2},
    "dtypes": [np.dtype(">i4"), np.dtype("S3"), np.dtype("V2"), np.dtype("M8[25s]"), torch.int4],
    "huge int": [1 << 100_000, -(10**400)],
    "range": range(10**30, -(10**30), -7),
    "slice": slice(torch.ones(1), None, "x"),
    "metadata": torch.nn.BatchNorm1d(2).state_dict(),
    "nested metadata": {"model": torch.nn.Linear(1, 1).state_dict()},
    "names of the container": {"x": {"__metadata__": torch.ones(1), "__dsckpt__": [1]}},
}


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_comes_back(name: str, tmp_path: Path) -> None:
    for state in ({"x": STORED[name]}, STORED[name]):
        dsckpt.save(state, tmp_path / "s")
        assert bare(dsckpt.load(tmp_path / "s")) == bare(state)


SPARSE = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
ALLOWED: dict[str, tuple[Any, list[str]]] = {
    "masked": (np.ma.masked_array([1, 2], [0, 1], fill_value=7), ["numpy.ma.MaskedArray"]),
    "matrix": (np.matrix([[1, 2]]), ["numpy.matrix"]),
    "array subclass": (np.arange(3).view(Grid), [f"{__name__}.Grid"]),
    "records": (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), ["numpy.ndarray"]),
    "record": (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])[0], ["numpy.void"]),
    "objects": (np.array([None, "a"], object), ["numpy.ndarray"]),
    "untyped storage": (torch.arange(3.0).untyped_storage(), ["torch.storage.UntypedStorage"]),
    "typed storage": (torch.arange(3.0).storage(), ["torch.storage.TypedStorage"]),
    "coo": (SPARSE.to_sparse(), ["torch.Tensor"]),
    "coo, not coalesced": (
        torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,)),
        ["torch.Tensor"],
    ),
    "csr": (SPARSE.to_sparse_csr(), ["torch.Tensor"]),
    "csc": (SPARSE.to_sparse_csc(), ["torch.Tensor"]),
    "bsr": (torch.eye(4).to_sparse_bsr((2, 2)), ["torch.Tensor"]),
    "bsc": (torch.eye(4).to_sparse_bsc((2, 2)), ["torch.Tensor"]),
    "quantized": (
        torch.quantize_per_tensor(torch.randn(4), 0.1, 2, torch.quint8),
        ["torch.Tensor"],
    ),
    "quantized by channels": (
        torch.quantize_per_channel(
            torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8
        ),
        ["torch.Tensor"],
    ),
    "tensor subclass": (tagged(), [f"{__name__}.Tagged"]),
    "narrow inside": (Settings(0.1, narrow("uint3")[::2]), [f"{__name__}.Settings"]),
    "sparse inside": (Settings(0.1, SPARSE.to_sparse()), [f"{__name__}.Settings"]),
    "layout": (torch.sparse_coo, ["torch.layout"]),
    "memory format": (torch.channels_last, ["torch.memory_format"]),
    "generator": (torch.Generator().manual_seed(3), ["torch._C.Generator"]),
    **{f"enum {member}": (member, [f"{__name__}.Odd"]) for member in Odd},
    "flags": (Mode.READ | Mode.WRITE, [f"{__name__}.Mode"]),
    "no flags": (Mode(0), [f"{__name__}.Mode"]),
    "int subclass": (Whole(3), [f"{__name__}.Whole"]),
    "float subclass": (Part(3), [f"{__name__}.Part"]),
    "str subclass": (Word("a\0"), [f"{__name__}.Word"]),
    "list subclass": (Row([1]), [f"{__name__}.Row"]),
    "dict subclass": (Table(a=1), [f"{__name__}.Table"]),
    "tuple subclass": (Pair((1,)), [f"{__name__}.Pair"]),
    "fields that no class can have": (Keyword((1,)), [f"{__name__}.Keyword"]),
    "counter": (collections.Counter("aab"), ["collections.Counter"]),
    "deque": (collections.deque([1, 2], 3), ["collections.deque"]),
    "dataclass": (Settings(0.5, torch.ones(2)), [f"{__name__}.Settings"]),
    "dates": (datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), ["datetime.datetime"]),
    "decimal": (decimal.Decimal("1.50"), ["decimal.Decimal"]),
    "uuid": (uuid.UUID(int=7), ["uuid.UUID"]),
    "path": (pathlib.PurePosixPath("a"), ["pathlib.PurePosixPath"]),
    "local time": (time.gmtime(0), ["time.struct_time"]),
    "array": (array.array("d", [1, 2]), ["array.array"]),
    "pattern": (re.compile("a+"), ["re.Pattern"]),
    "random": (random.Random(3), ["random.Random"]),
    "namespace": (types.SimpleNamespace(a=1), ["types.SimpleNamespace"]),
    "error": (ValueError("x", 1), ["builtins.ValueError"]),
    "ellipsis": (..., ["builtins.ellipsis"]),
    "class": (int, ["builtins.int"]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_pickled_comes_back_where_it_is_allowed(name: str, tmp_path: Path) -> None:
    value, classes = ALLOWED[name]
    dsckpt.save({"x": [value]}, tmp_path / "s")
    with pytest.raises(dsckpt.PickleRefused, match=r"state\['x'\]\[0\] is a pickled") as caught:
        dsckpt.load(tmp_path / "s")
    assert caught.value.never == ()
    assert set(classes) <= set(caught.value.classes)
    found = dsckpt.load(tmp_path / "s", allow=caught.value.classes)
    assert bare(found) == bare({"x": [value]})


ONLY_WITH_EVERYTHING = {
    "function": torch.nn.functional.relu,
    "partial": functools.partial(int, "3"),
    "method": "a".join,
    "strings of any length": np.array(["a"], np.dtypes.StringDType()),
}


@pytest.mark.parametrize("name", ONLY_WITH_EVERYTHING)
def test_what_names_code_needs_everything_allowed(name: str, tmp_path: Path) -> None:
    value = ONLY_WITH_EVERYTHING[name]
    dsckpt.save({"x": value}, tmp_path / "s")
    with pytest.raises(dsckpt.PickleRefused, match=r"no allow=.*allow_pickle=True") as caught:
        dsckpt.load(tmp_path / "s")
    assert caught.value.never
    found = dsckpt.load(tmp_path / "s", allow_pickle=True)["x"]
    assert type(found) is type(value)


def freed() -> torch.Tensor:
    tensor = torch.ones(1 << 20)
    view = tensor[5:]
    tensor.untyped_storage().resize_(0)
    return view


def in_itself() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": [value]})
    return value


REFUSED = {
    "meta": (torch.empty(2, device="meta"), "'meta' has no elements"),
    "meta inside": (Settings(0.1, torch.empty(2, device="meta")), "'meta' has no elements"),
    "no shape yet": (torch.nn.UninitializedParameter(), "has no elements"),
    "freed": (freed(), "storage has been freed"),
    "freed inside": (Settings(0.1, freed()), "storage has been freed"),
    "masked tensor": (
        torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])),
        "neither stored as it is nor pickled",
    ),
    "a structure that Python alone makes": (sys.float_info, "nor pickled"),
    "factory": (collections.defaultdict(lambda: 1), "nor pickled"),
    "memory": (memoryview(b"a"), "nor pickled"),
    "module of Python": (sys, "nor pickled"),
    "number subclass": (Real(2.5), "NumPy pickles it as a float64"),
    "in itself": (in_itself(), "holds itself"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_its_place(name: str, tmp_path: Path) -> None:
    value, reason = REFUSED[name]
    with pytest.raises(dsckpt.DsckptError, match=r"state\['x'\]\[0\].*" + reason) as caught:
        dsckpt.save({"x": [value]}, tmp_path / "s")
    assert caught.value.code in ("InvalidArgument", "Unsupported")
    assert list(tmp_path.iterdir()) == []


def test_parameters_come_back_as_tensors(tmp_path: Path) -> None:
    class Frozen(torch.nn.Parameter):
        pass

    state = {
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "buffer": torch.nn.Buffer(torch.ones(3)),
        "own": Frozen(torch.ones(4)),
    }
    dsckpt.save(state, tmp_path / "s")
    found = dsckpt.load(tmp_path / "s")
    assert {k: (type(v), v.shape[0], v.requires_grad) for k, v in found.items()} == {
        "parameter": (torch.Tensor, 2, False),
        "buffer": (torch.Tensor, 3, False),
        "own": (torch.Tensor, 4, False),
    }


def test_metadata_of_a_state_dict_is_what_a_module_takes(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    want = module.state_dict()
    for state in (want, {"model": want}):
        dsckpt.save(state, tmp_path / "s")
        found = dsckpt.load(tmp_path / "s")
        found = found.get("model", found)
        assert found._metadata == want._metadata
        assert list(found) == list(want)
    assert set(dsckpt.open(tmp_path / "s")) == {f"model/{name}" for name in want}
    other = collections.OrderedDict(a=1)
    other.note, other.hook = [1], print  # type: ignore[attr-defined]
    dsckpt.save({"__dict__": 3, "o": other}, tmp_path / "s")
    found = dsckpt.load(tmp_path / "s")
    assert (found["__dict__"], vars(found["o"])) == (3, {"note": [1]})


def test_a_dict_with_the_key_of_attributes(tmp_path: Path) -> None:
    ordered: Any = collections.OrderedDict([("__dict__", 1), (1.5, 2)])
    ordered.note = "n"
    dsckpt.save(ordered, tmp_path / "s")
    found = dsckpt.load(tmp_path / "s")
    assert (dict(found), found.note) == ({"__dict__": 1, 1.5: 2}, "n")


def test_a_whole_module_is_saved_with_a_warning(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    with pytest.warns(dsckpt.PickledWarning, match=r"state\['model'\] is a .*Linear.*state_dict"):
        dsckpt.save({"model": module}, tmp_path / "s")
    with pytest.raises(dsckpt.PickleRefused) as caught:
        dsckpt.load(tmp_path / "s")
    found = dsckpt.load(tmp_path / "s", allow=caught.value.classes)["model"]
    assert torch.equal(found.weight, module.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dsckpt.save({"model": module.state_dict()}, tmp_path / "s")
        with pytest.raises(dsckpt.PickledWarning):
            dsckpt.save({"model": module}, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_the_root_is_not_to_be_lied_about(tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError, match=r"'py\.root' is kept for this package"):
        dsckpt.save({"": {"a": 1}}, tmp_path / "s", attributes={"py.root": "value"})


def test_metadata_may_say_its_format(tmp_path: Path) -> None:
    for kind in ("pt", "np"):
        dsckpt.save({"w": torch.ones(1)}, tmp_path / "s", metadata={"a": "b", "format": kind})
        found = dsckpt.open(tmp_path / "s").metadata
        assert (found["format"], found["a"]) == (kind, "b")
    dsckpt.save({"w": torch.ones(1)}, tmp_path / "s", metadata={"a": "b"})
    assert dsckpt.open(tmp_path / "s").metadata["format"] == "pt"
    with pytest.raises(dsckpt.DsckptError, match=r"'dsckpt\.x'.*kept for this library"):
        dsckpt.save({"w": torch.ones(1)}, tmp_path / "s", metadata={"dsckpt.x": "1"})


def test_values_are_not_changed_by_a_save(tmp_path: Path) -> None:
    state = {"x": [value for value, _ in ALLOWED.values()], "y": list(STORED.values())}
    before = bare(copy.copy(state))
    dsckpt.save(state, tmp_path / "s")
    assert bare(state) == before
