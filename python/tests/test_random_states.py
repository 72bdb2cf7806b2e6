"""States made at random, of every type that the documentation names.

Each comes back as it was, or the save refuses it: none is saved and cannot be read, none changes.
"""

from __future__ import annotations

import collections
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import test_types as kinds
import torch
from test_types import bare

import dsckpt

pytestmark = kinds.pytestmark

Point = collections.namedtuple("Point", ["x", "y"])


class Maker:
    """Makes values. Everything comes from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tensors = torch.Generator().manual_seed(seed)
        self.leaves: list[Callable[[], Any]] = [
            self.integer,
            self.floating,
            self.text,
            self.data,
            self.scalar,
            self.number,
            self.of_torch,
            self.tensor,
            self.tensor,
            self.array,
            self.array,
            self.odd,
        ]

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def state(self) -> Any:
        """A root: mostly a dict, sometimes anything."""
        if self.random.random() < 0.15:
            return self.value(3)
        return {
            self.text() if self.random.random() < 0.9 else self.key(): self.value(3)
            for _ in range(self.random.randrange(5))
        }

    def value(self, depth: int) -> Any:
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice(self.leaves)()
        return self.pick(
            self.mapping, self.mapping, self.sequence, self.collection, self.tupled, self.tied
        )(depth - 1)

    def mapping(self, depth: int) -> Any:
        items = [(self.key(), self.value(depth)) for _ in range(self.random.randrange(4))]
        kind = self.pick(dict, dict, collections.OrderedDict, collections.defaultdict)
        if kind is collections.defaultdict:
            return collections.defaultdict(self.pick(None, int, list, dict, str), items)
        made: Any = kind(items)
        if kind is collections.OrderedDict and self.random.random() < 0.3:
            made._metadata = collections.OrderedDict({self.text(): {"version": self.integer()}})
        return made

    def sequence(self, depth: int) -> Any:
        values = [self.value(depth) for _ in range(self.random.randrange(4))]
        return self.pick(list, tuple)(values)

    def collection(self, _: int) -> Any:
        return self.pick(set, frozenset)(self.key() for _ in range(self.random.randrange(4)))

    def tupled(self, depth: int) -> Any:
        if self.random.random() < 0.2:
            return torch.max(torch.rand(2, 3, generator=self.tensors), 1)
        made = Point(self.value(depth), self.value(depth))
        return made

    def tied(self, depth: int) -> Any:
        one = self.tensor()
        return [one, one, self.value(depth)]

    def key(self) -> Any:
        return self.pick(
            self.text,
            self.text,
            self.integer,
            self.floating,
            self.data,
            lambda: self.pick(None, True, False, (), (1, "a"), frozenset({1}), torch.int8),
            lambda: np.int64(self.random.randrange(9)),
            lambda: (self.integer(), self.text()),
        )()

    def integer(self) -> int:
        edge = self.pick(0, 1, 1 << 31, 1 << 53, 1 << 63, 1 << 64, 10**40)
        return self.pick(-1, 1) * (edge + self.pick(-1, 0, 1))

    def floating(self) -> float:
        bits: float = struct.unpack("<d", self.random.randbytes(8))[0]
        return self.pick(bits, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.5)

    def text(self) -> str:
        letters = [
            "",
            "a",
            "b/c",
            "~s",
            "0",
            "-1",
            "7",
            "\0",
            "\u00e9",
            "\U0001f600",
            "\udc80",
            "__dict__",
        ]
        return "".join(self.random.choices(letters, k=self.random.randrange(4)))

    def data(self) -> bytes:
        return self.random.randbytes(self.random.randrange(5))

    def scalar(self) -> Any:
        return self.pick(
            None,
            True,
            False,
            complex(self.floating(), self.floating()),
            bytearray(self.data()),
            range(self.integer(), self.integer(), self.pick(1, -3)),
            slice(None, self.integer(), None),
        )

    def number(self) -> Any:
        kind = self.pick(*"?bBhHiIlLefdFDgG", "M8[s]", "m8[D]", "S", "U", "V")
        if kind == "S":
            return np.bytes_(self.data() + b"\0")
        if kind == "U":
            return np.str_(self.text() + "\0")
        if kind == "V":
            return np.void(b"a" + self.data())
        dtype = np.dtype(kind)
        if kind in "gG":
            return dtype.type(self.pick(0.1, -1, 3))
        return np.frombuffer(self.random.randbytes(dtype.itemsize), dtype)[0]

    def of_torch(self) -> Any:
        return self.pick(
            torch.Size(self.shape()),
            torch.float32,
            torch.uint3,
            torch.device("cuda", 1),
            torch.device("cpu"),
            np.dtype(">f4"),
            np.dtype("S3"),
            np.dtype(ml_dtypes.bfloat16),
        )

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.choices([0, 1, 2, 3, 5], k=self.random.randrange(4)))

    def tensor(self) -> torch.Tensor:
        dtype = self.random.choice(DTYPES)
        shape = self.shape()
        count = math.prod(shape) * dtype.itemsize
        flat = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=self.tensors)
        if dtype == torch.bool:
            flat &= 1
        made = flat.view(dtype).view(shape)
        if len(shape) > 1 and dtype != torch.float4_e2m1fn_x2:
            made = self.pick(made, made.transpose(0, 1), made[::2], made[:, 1:])
        if dtype.is_complex and dtype != getattr(torch, "bcomplex32", None):
            made = self.pick(made, made.conj(), made.conj().imag)
        if dtype.is_floating_point and dtype.itemsize > 1 and self.random.random() < 0.2:
            made = torch.nn.Parameter(made)
        return made

    def array(self) -> np.ndarray[Any, Any]:
        dtype = np.dtype(self.random.choice(ARRAYS))
        shape = self.shape()
        raw = self.random.randbytes(math.prod(shape) * dtype.itemsize)
        if dtype.kind in "Ub":
            raw = bytes(len(raw))
        made = np.frombuffer(bytearray(raw), dtype, math.prod(shape)).reshape(shape)
        if dtype.type in (ml_dtypes.int4, ml_dtypes.uint4):
            made = np.zeros(shape, dtype)
        return self.pick(
            made, made.T, made[::-1] if shape else made, made[..., :1] if shape else made
        )

    def odd(self) -> Any:
        value, _ = self.random.choice(list(kinds.ALLOWED.values()))
        if self.random.random() < 0.1:
            return self.random.choice(list(kinds.REFUSED.values()))[0]
        return self.random.choice([value, kinds.Settings(self.floating(), value)])


DTYPES = sorted(
    {
        dtype
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.bit"))
    },
    key=str,
)
ARRAYS: list[Any] = [
    *"?bBhHiIlLqQefdgFDG",
    *("M8[s]", "M8[25m]", "m8[D]", "S3", "U2", "V5", ">i4", ">f8", ">M8[s]"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e3m4, ml_dtypes.int4),
]


def plain(value: Any) -> Any:
    """What a value is documented to come back as: parameters as tensors, native byte order."""
    if isinstance(value, torch.nn.Parameter):
        return value.detach()
    if type(value) is np.ndarray and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    if type(value) in (dict, collections.OrderedDict, collections.defaultdict):
        made = value.copy() if type(value) is not dict else {}
        vars(made).update(vars(value)) if hasattr(made, "__dict__") else None
        for key, each in value.items():
            made[key] = plain(each)
        return made
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is Point:
        return Point(*map(plain, value))
    return value


def check(seed: int, path: Path) -> str:
    """Saves and loads the state of a seed; returns what became of it."""
    state = Maker(seed).state()
    error = raised(lambda: dsckpt.save(state, path))
    if error is not None:
        assert error.code in ("InvalidArgument", "Unsupported"), (seed, str(error))
        assert "state" in str(error), (seed, str(error))
        return "refused"
    want = bare(plain(state))
    error = raised(lambda: dsckpt.load(path))
    if error is None:
        assert bare(dsckpt.load(path)) == want, f"seed {seed}"
        return "stored"
    assert isinstance(error, dsckpt.PickleRefused), (seed, str(error))
    assert error.never == (), (seed, str(error))
    assert bare(dsckpt.load(path, allow=error.classes)) == want, f"seed {seed}"
    return "pickled"


def raised(call: Callable[[], object]) -> Any:
    try:
        call()
    except dsckpt.DsckptError as error:
        return error
    return None


def check_all(seeds: range, path: Path) -> dict[str, int]:
    counts = collections.Counter(check(seed, path / "s") for seed in seeds)
    assert counts["stored"] > len(seeds) // 4
    return dict(counts)


def test_states_come_back(tmp_path: Path) -> None:
    check_all(range(300), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_states_come_back(tmp_path: Path) -> None:
    check_all(range(300, 5300), tmp_path)
