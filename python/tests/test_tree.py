"""What a state may hold, and that it comes back as it was."""

from __future__ import annotations

import argparse
import collections
import enum
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch

import dsckpt
from dsckpt import rebuild, tree

Point = collections.namedtuple("Point", ["x", "y"])


class Typed(NamedTuple):
    name: str
    value: Any


class Colour(enum.IntEnum):
    RED = 3


class Text(str):
    pass


def again(state: Any, tmp_path: Path, **options: Any) -> Any:
    path = tmp_path / "state.dsckpt"
    dsckpt.save(state, path)
    return dsckpt.load(path, **options)


def same(a: Any, b: Any) -> bool:
    """Equal in type and value, containers and NaNs included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.new_empty(tensor.numel())
    flat.view(tensor.shape).copy_(tensor)
    return flat.view(torch.uint8).numpy().tobytes()


VALUES = {
    "none": None,
    "bools": [True, False],
    "ints": [0, -1, 2**63 - 1, -(2**63), 2**63, -(10**50)],
    "floats": [0.5, -0.0, math.inf, -math.inf, math.nan],
    "complex": 1.5 - 2j,
    "str": ["", "\0", "\u20ac\U0001f600", "\udc80 lone"],
    "bytes": [b"", b"\0\xff", bytearray(b"ab")],
    "containers": [{}, [], (), {"a": [1, (2, {"b": ()})]}],
    "int keys": {0: "int", "0": "str", -5: 1, 2**62: 2},
    "odd keys": {1.5: 1, None: 2, (1, "a"): 3, True: 4, b"k": 5, 2**70: 6, "a\0b": 7, "\udc80": 8},
    "ints beyond int64 as keys": [{2**63: 1}, {-(2**63) - 1: 2, "a": 3}],
    "bools as keys": {True: 1, False: 2},
    "ordered": collections.OrderedDict([("z", 1), ("a", [2])]),
    "ordered odd": collections.OrderedDict([(1.5, 1), ("a", 2)]),
    "defaultdict": [
        collections.defaultdict(list, {"a": [1]}),
        collections.defaultdict(None, {"b": 2}),
    ],
    "sets": [set(), {1, 2}, frozenset({"b", "a"}), {(1, 2), "mixed", 3}],
    "named tuples": [Point(1, [2]), Typed("n", {"k": 1})],
    "range, slice": [range(1, 10, 3), slice(None, 5, 2)],
    "torch types": [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda", 1), torch.Size([])],
    "numpy scalars": [
        np.float32(1.5),
        np.int64(-3),
        np.bool_(True),
        np.complex128(1j),
        np.datetime64("2024-01-02"),
        ml_dtypes.bfloat16(2.5),
        np.float64(0.1),
    ],
    "numpy dtypes": [np.dtype("float32"), np.dtype(ml_dtypes.bfloat16), np.dtype("M8[s]")],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    assert same(again({"v": value, "after": 1}, tmp_path), {"v": value, "after": 1})


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"a": 1},
        {0: torch.ones(1)},
        {1.5: torch.ones(2)},
        collections.OrderedDict([("w", torch.ones(2)), ("b", torch.zeros(1))]),
        [1, torch.ones(2)],
        (1, 2),
        torch.arange(3),
        "text",
        None,
        {"": {"": 1}},
    ],
    ids=repr,
)
def test_any_root(root: Any, tmp_path: Path) -> None:
    assert same(again(root, tmp_path), root)


def test_ordered_dict_keeps_its_own_order(tmp_path: Path) -> None:
    ordered = collections.OrderedDict([("a", 1), ("b", 2)])
    ordered.move_to_end("a")
    assert list(again({"o": ordered}, tmp_path)["o"].items()) == [("b", 2), ("a", 1)]


ARRAYS = {
    "reversed": np.arange(6)[::-1],
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10, dtype=np.int16)[::3],
    "0-d": np.array(2.5),
    "empty": np.empty((0, 3), np.float32),
    "bool": np.array([True, False]),
    "dates": np.array(["2024-01-01", "NaT"], "M8[D]"),
    "text": np.array(["ab", "c"]),
    "0-d text": np.array("ab"),
    "long double": np.array([1, 2], np.longdouble),
    "bf16": np.arange(3).astype(ml_dtypes.bfloat16),
    "f8": np.arange(3).astype(ml_dtypes.float8_e4m3fn),
    "f8 that the format lacks": np.arange(3).astype(ml_dtypes.float8_e3m4),
    "int4": np.arange(-8, 8).astype(ml_dtypes.int4),
    "uint4": np.arange(16).astype(ml_dtypes.uint4).reshape(4, 4),
    "float4": np.arange(4).astype(ml_dtypes.float4_e2m1fn),
    "float6": np.arange(8).astype(ml_dtypes.float6_e2m3fn),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    found = again({"a": array}, tmp_path)["a"]
    assert same(found, np.array(array, copy=True))
    assert found.flags.writeable


def test_foreign_byte_order_becomes_native(tmp_path: Path) -> None:
    found = again({"a": np.arange(3, dtype=">i4")}, tmp_path)["a"]
    assert (found.tolist(), found.dtype) == ([0, 1, 2], np.dtype("int32"))


def test_unaligned_array(tmp_path: Path) -> None:
    unaligned = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.uint8)[1:].view("f8")
    assert again({"a": unaligned}, tmp_path)["a"].tolist() == [0, 1, 2]


base = torch.arange(24.0)
TENSORS = {
    "0-d": torch.tensor(5),
    "strided": base[::3],
    "transposed": base.reshape(4, 6).T,
    "expanded": torch.ones(1).expand(3),
    "channels last": base.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "conjugated": torch.tensor([1 + 2j]).conj(),
    "negated": torch.tensor([1 + 2j]).conj().imag,
    "inference": torch.ones(2),
    "complex32": torch.arange(4, dtype=torch.int32).view(torch.complex32),
    "0-d complex32": torch.zeros(1, dtype=torch.int32).view(torch.complex32).reshape(()),
    "bits8": torch.arange(4, dtype=torch.uint8).view(torch.bits8),
    "0-d float4": torch.zeros(1, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(()),
    "strided float4": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)[::2],
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", TENSORS)
def test_tensors_come_back(name: str, tmp_path: Path) -> None:
    tensor = TENSORS[name]
    want = tensor.resolve_conj().resolve_neg()
    assert same(again({"t": tensor}, tmp_path)["t"], want)


def test_structure_of_torch(tmp_path: Path) -> None:
    value = torch.max(torch.tensor([[1.0, 3.0], [2.0, 0.0]]), dim=1)
    found = again({"m": value}, tmp_path)["m"]
    assert type(found) is type(value)
    assert (found.values.tolist(), found.indices.tolist()) == ([3, 2], [1, 0])


def test_tuple_class_that_is_not_there_gets_a_stand_in(tmp_path: Path) -> None:
    path = tmp_path / "state.dsckpt"
    dsckpt.save({"p": Point(1, torch.ones(1))}, path)
    code = (
        "import sys; from dsckpt import load; p = load(sys.argv[1])['p']; "
        "assert 'test_tree' not in sys.modules; "
        "print(type(p).__name__, p._fields, p.x, p.y.tolist())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "Point ('x', 'y') 1 [1.0]"


REFUSED = {
    "meta tensor": (torch.empty(2, device="meta"), r"state\['a'\]\[1\].*'meta' has no elements"),
    "lock": (sys.stdout, r"state\['a'\]\[1\] is a .*neither stored as it is nor pickled"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_place(name: str, tmp_path: Path) -> None:
    value, message = REFUSED[name]
    with pytest.raises(dsckpt.DsckptError, match=message) as caught:
        again({"a": [0, value]}, tmp_path)
    assert caught.value.code == "InvalidArgument"
    assert list(tmp_path.iterdir()) == []


PICKLED = {
    "namespace": (argparse.Namespace(lr=0.1), "argparse.Namespace"),
    "enum": (Colour.RED, f"{__name__}.Colour"),
    "str subclass": (Text("x"), f"{__name__}.Text"),
    "counter": (collections.Counter("aab"), "collections.Counter"),
    "factory": (collections.defaultdict(Text), "collections.defaultdict"),
    "objects": (np.array([None, "a"], object), "numpy.ndarray"),
    "sparse": (torch.ones(2).to_sparse(), "torch.Tensor"),
}


@pytest.mark.parametrize("name", PICKLED)
def test_all_else_is_pickled(name: str) -> None:
    value, cls = PICKLED[name]
    kind, media_type, payload, tag = tree.classify(value, ["v"])
    assert (kind, media_type, tag) == (
        "object",
        "application/x-python-pickle",
        f"py.pickle:{cls}",
    )
    assert payload[:2] == b"\x80\x04"


def test_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    code = (
        "import sys, dsckpt; "
        "dsckpt.save({'s': {'a', 'b', 'c', 'd', 'e'}, 'm': {1, 'x', (2,)}}, sys.argv[1])"
    )
    files = []
    for seed in ("1", "2"):
        path = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
        files.append(path.read_bytes())
    assert files[0] == files[1]


NAMES = {
    ("a", "b"): "a/b",
    ("a/b",): "a~1b",
    ("0",): "~s0",
    (0,): "0",
    ("-1",): "~s-1",
    ("007",): "007",
    ("-0",): "-0",
    ("9223372036854775808",): "9223372036854775808",
    ("~s",): "~0s",
    ("a", ""): "a/",
    ("l", 3, "x"): "l/3/x",
}


@pytest.mark.parametrize("path", NAMES)
def test_names_of_items(path: tuple[str | int, ...], tmp_path: Path) -> None:
    assert tree.item_name(path) == NAMES[path]
    state: Any = torch.ones(1)
    for key in reversed(path):
        state = {key: state}
    dsckpt.save(state, tmp_path / "s")
    assert list(dsckpt.open(tmp_path / "s")) == [NAMES[path]]


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("py.set", [[]]),
        ("py.range", "x"),
        ("py.slice", (1, 2, 3, 4, 5)),
        ("py.defaultdict:eval", {}),
        ("py.pairs", [1]),
        ("py.pairs:no.such", []),
        ("py.namedtuple:os.system", {"not a name!": 1}),
        ("torch.device", "nowhere"),
        ("torch.dtype", "nn"),
        ("numpy.scalar:f4", b"ab"),
        ("numpy.scalar:O", b"12345678"),
        ("numpy.dtype", "no such"),
        ("py.bytearray", 1 << 40),
        ("py.set", torch.ones(3)),
        ("py.OrderedDict", [range(1 << 40)]),
        ("py.pairs", [range(1 << 40)]),
        ("py.pairs:py.set", []),
        ("py.namedtuple:a.b", {"class": 1}),
        ("torch.dtype", 5),
    ],
)
def test_tags_that_do_not_fit_are_errors(tag: str, value: Any) -> None:
    with pytest.raises(dsckpt.DsckptError, match=r"state\['k'\]"):
        rebuild.rebuild(tag, value, ["k"])


def test_unknown_tags_change_nothing() -> None:
    assert rebuild.rebuild("acme.thing:x", [1], []) == [1]


def test_a_tag_names_no_function_to_call() -> None:
    found = rebuild.rebuild("py.namedtuple:os.system", {"command": "exit 1"}, [])
    assert (type(found).__name__, found.command) == ("system", "exit 1")


def test_a_file_has_no_module_imported(tmp_path: Path) -> None:
    code = """
import sys, torch
from dsckpt import rebuild
for tag, value in ("torch.dtype", "onnx"), ("torch.view:onnx", torch.ones(2, 1)):
    try:
        rebuild.rebuild(tag, value, [])
    except Exception as error:
        print(error.code)
print("torch.onnx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Unsupported", "Unsupported", "False"]


def test_stand_in_with_fields_that_were_renamed() -> None:
    found = rebuild.rebuild("py.namedtuple:a.Row", {"x": 1, "_1": 2}, [])
    assert (found._fields, found) == (("x", "_1"), (1, 2))


def test_set_of_tensors(tmp_path: Path) -> None:
    found = again({"s": {torch.ones(2), torch.ones(3)}}, tmp_path)["s"]
    assert sorted(tensor.numel() for tensor in found) == [2, 3]


class Slow:
    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def __reduce__(self) -> tuple[Any, ...]:
        self.meanwhile()
        return int, ()


def test_containers_that_change_while_they_are_saved(tmp_path: Path) -> None:
    by_key: dict[str, Any] = {"a": Slow(lambda: by_key.update(b=1))}
    in_order: list[Any] = [Slow(lambda: in_order.append(1))]
    for state in by_key, in_order:
        with pytest.raises(dsckpt.DsckptError, match="changed its size while it was saved"):
            dsckpt.save({"s": state}, tmp_path / "s")
