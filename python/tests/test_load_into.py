"""load_into(): in place, all or nothing."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dsckpt


def trained(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def flat(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    values = state.values() if isinstance(state, dict) else state
    return [t for v in values if isinstance(v, (dict, list, torch.Tensor)) for t in flat(v)]


def test_a_module_and_its_optimizer(tmp_path: Path) -> None:
    model, optimizer = trained(1)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 9}
    dsckpt.save(saved, tmp_path / "s")
    want = [t.clone() for t in flat(saved)]
    other, its = trained(2)
    state = {"model": other.state_dict(), "optimizer": its.state_dict(), "step": 0}
    addresses = [t.data_ptr() for t in flat(state)]
    versions = [t._version for t in other.parameters()]
    assert dsckpt.load_into(state, tmp_path / "s") is state
    assert state["step"] == 9
    assert [t.data_ptr() for t in flat(state)] == addresses
    for name, parameter in model.named_parameters():
        assert torch.equal(dict(other.named_parameters())[name], parameter), name
    assert all(torch.equal(a, b) for a, b in zip(flat(state), want))
    assert all(p._version > v for p, v in zip(other.parameters(), versions))


def test_every_kind_of_destination(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    saved = {
        "transposed": base,
        "channels last": base.reshape(1, 3, 2, 2),
        "0-d": torch.tensor(3),
        "view": base[0],
        "conjugated": torch.tensor([1 + 2j, 3 - 1j]),
        "list": [base[1], {"k": base[2]}],
        "tuple": (base[0], 5),
        "array": np.arange(6).reshape(2, 3),
        "reversed": np.arange(3),
        "big-endian": np.arange(3, dtype="i4"),
        "dates": np.array(["2024-01-01"], "M8[D]"),
        "torch to numpy": torch.arange(3),
        "numpy to torch": np.arange(3.0),
        "f4": torch.arange(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    }
    dsckpt.save(saved, tmp_path / "s")
    whole = torch.zeros(2, 4)
    state = {
        "transposed": torch.zeros(4, 3).T,
        "channels last": torch.zeros(1, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        "0-d": torch.tensor(0),
        "view": whole[1],
        "conjugated": torch.zeros(2, dtype=torch.complex64).conj(),
        "list": [torch.zeros(4), {"k": torch.zeros(4, requires_grad=True)}],
        "tuple": (torch.zeros(4), 0),
        "array": np.zeros((3, 2), int).T,
        "reversed": np.zeros(3, int)[::-1],
        "big-endian": np.zeros(3, ">i4"),
        "dates": np.array(["1999-01-01"], "M8[D]"),
        "torch to numpy": np.zeros(3, int),
        "numpy to torch": torch.zeros(3).double(),
        "f4": torch.zeros(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)[::2],
    }
    before = dict(state)
    dsckpt.load_into(state, tmp_path / "s")
    assert all(state[k] is before[k] for k in state if k != "tuple")
    assert torch.equal(state["transposed"], base)
    assert torch.equal(state["channels last"], base.reshape(1, 3, 2, 2))
    assert whole.tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]
    assert state["conjugated"].tolist() == [1 + 2j, 3 - 1j]
    assert (state["list"][0].tolist(), state["list"][1]["k"].tolist()) == (
        base[1].tolist(),
        base[2].tolist(),
    )
    assert state["tuple"][0] is before["tuple"][0]
    assert (state["tuple"][0].tolist(), state["tuple"][1]) == ([0, 1, 2, 3], 5)
    assert state["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert state["reversed"].tolist() == state["big-endian"].tolist() == [0, 1, 2]
    assert str(state["dates"][0]) == "2024-01-01"
    assert state["torch to numpy"].tolist() == state["numpy to torch"].tolist() == [0, 1, 2]
    assert state["0-d"] == 3
    assert state["f4"].view(torch.uint8).tolist() == [0, 1, 2, 3]


def test_values_are_replaced(tmp_path: Path) -> None:
    Pair = collections.namedtuple("Pair", "a b")
    saved = {
        "losses": [1.0, 2.0, 3.0],
        "config": {"lr": 0.5, "sched": {"steps": (1, 2)}},
        "seen": {1, 2},
        "pair": Pair(torch.ones(1), 2),
        "none": None,
        "ordered": collections.OrderedDict(a=1),
    }
    dsckpt.save(saved, tmp_path / "s")
    losses: list[float] = []
    state = {
        "losses": losses,
        "config": {"lr": 0.1, "sched": {"steps": ()}},
        "seen": set(),
        "pair": Pair(torch.zeros(1), 0),
        "none": 4,
        "ordered": collections.OrderedDict(a=0),
    }
    config = state["config"]
    dsckpt.load_into(state, tmp_path / "s")
    assert state == saved
    assert state["config"] is config
    assert type(state["pair"]) is Pair


DIFFERENCES: dict[str, tuple[Any, str]] = {
    "shape": ({"w": torch.zeros(2, 3), "n": [1]}, r"\['w'\]: F32 \[2, 3\] in the state, F32 \[3"),
    "dtype": ({"w": torch.zeros(3, 2).double(), "n": [1]}, r"F64 \[3, 2\] in the state, F32"),
    "missing": ({"w": torch.zeros(3, 2)}, r"\['n'\]: in the file only"),
    "more": ({"w": torch.zeros(3, 2), "n": [1], "x": {"y": 1}}, r"\['x'\]\['y'\]: in the state o"),
    "more tensors": (
        {"w": torch.zeros(3, 2), "n": [1], "x": torch.ones(1)},
        r"\['x'\]: in the state only",
    ),
    "value for tensor": ({"w": 1, "n": [1]}, r"\['w'\]: a int in the state, a tensor in the file"),
    "tensor for value": (
        {"w": torch.zeros(3, 2), "n": [torch.ones(1)]},
        r"\['n'\]\[0\]: a tensor in the state, a int in the file",
    ),
    "list length": (
        {"w": torch.zeros(3, 2), "n": [1, torch.ones(1)]},
        r"\['n'\]: a list of 2 in the state, a list of 1",
    ),
    "expanded": ({"w": torch.zeros(3, 1).expand(3, 2), "n": [1]}, "elements share memory"),
    "meta": ({"w": torch.zeros(3, 2, device="meta"), "n": [1]}, "'meta' has no elements"),
    "read-only": ({"w": np.frombuffer(bytes(24), "f4").reshape(3, 2), "n": [1]}, "read-only array"),
    "carried dtype": (
        {"w": torch.zeros(3, 2).to(torch.complex32), "n": [1]},
        r"U8 \[3, 2, 4\] in the state",
    ),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences_are_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    state, message = DIFFERENCES[name]
    dsckpt.save({"w": torch.ones(3, 2), "n": [1]}, tmp_path / "s")
    with pytest.raises(dsckpt.DsckptError, match=message) as caught:
        dsckpt.load_into(state, tmp_path / "s")
    assert caught.value.code == "Mismatch"
    if isinstance(state["w"], torch.Tensor) and state["w"].device.type == "cpu":
        assert not state["w"].any()


def test_a_module_is_no_state(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    dsckpt.save({"model": module.state_dict()}, tmp_path / "a")
    with pytest.raises(dsckpt.DsckptError, match=r"\['model'\]: a Linear .* its state_dict\(\)"):
        dsckpt.load_into({"model": module}, tmp_path / "a")


def test_all_differences_are_named_at_once(tmp_path: Path) -> None:
    dsckpt.save({f"w{i}": torch.ones(1) for i in range(30)}, tmp_path / "s")
    with pytest.raises(dsckpt.DsckptError) as caught:
        dsckpt.load_into({f"w{i}": torch.ones(2) for i in range(30)}, tmp_path / "s")
    lines = str(caught.value).splitlines()
    assert len(lines) == 22
    assert lines[1] == "  state['w0']: F32 [2] in the state, F32 [1] in the file"
    assert lines[-1] == "  and 10 more"


def test_not_strict(tmp_path: Path) -> None:
    dsckpt.save({"a": torch.ones(1), "b": 2, "d": {"x": torch.ones(1)}}, tmp_path / "s")
    state = {"a": torch.zeros(1), "c": torch.zeros(1), "e": 5, "d": {}}
    dsckpt.load_into(state, tmp_path / "s", strict=False)
    assert (state["a"].item(), state["c"].item(), state["e"], state["d"]) == (1, 0, 5, {})
    with pytest.raises(dsckpt.DsckptError, match="F32"):
        dsckpt.load_into({"a": torch.zeros(2)}, tmp_path / "s", strict=False)


def test_tied_tensors(tmp_path: Path) -> None:
    weight = torch.arange(3.0)
    dsckpt.save({"a": weight, "b": weight}, tmp_path / "tied")
    dsckpt.save({"a": weight, "b": weight.clone()}, tmp_path / "equal")
    dsckpt.save({"a": weight, "b": weight + 1}, tmp_path / "different")
    one = torch.zeros(3)
    for name in ("tied", "equal"):
        one.zero_()
        dsckpt.load_into({"a": one, "b": one}, tmp_path / name)
        assert one.tolist() == [0, 1, 2]
        two = {"a": torch.zeros(3), "b": torch.zeros(3)}
        dsckpt.load_into(two, tmp_path / name)
        assert two["a"].tolist() == two["b"].tolist() == [0, 1, 2]
    one.zero_()
    with pytest.raises(dsckpt.DsckptError, match=r"\['b'\]: shares memory"):
        dsckpt.load_into({"a": one, "b": one}, tmp_path / "different")
    assert not one.any()


Pieces = Callable[[torch.Tensor], tuple[Any, Any]]
SHARING: dict[str, tuple[Pieces, bool]] = {
    "two parts": (lambda z: (z[:4], z[2:6]), False),
    "inside": (lambda z: (z, z[2:4]), False),
    "one element": (lambda z: (z[:4], z[3:4]), False),
    "reshaped": (lambda z: (z, z.view(2, 4)), False),
    "side by side": (lambda z: (z[:4], z[4:]), True),
    "interleaved": (lambda z: (z[::2], z[1::2]), True),
    "columns": (lambda z: (z.view(4, 2)[:, :1], z.view(4, 2)[:, 1:]), True),
    "columns that share one": (lambda z: (z.view(2, 4)[:, :3], z.view(2, 4)[:, 2:]), False),
    "arrays": (lambda z: (z.numpy()[:4], z.numpy()[2:]), False),
}


@pytest.mark.parametrize("directory", [False, True])
@pytest.mark.parametrize("name", SHARING)
def test_tensors_that_share_memory(name: str, directory: bool, tmp_path: Path) -> None:
    pieces, fits = SHARING[name]

    def load(target: dict[str, Any], saved: dict[str, Any]) -> None:
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        if directory:
            with dsckpt.AsyncWriter(1 << 20) as writer:
                dsckpt.Run(path, writer).save(1, saved).durable()
        else:
            dsckpt.save(saved, path)
        dsckpt.load_into(target, path)

    memory = torch.zeros(8)
    a, b = pieces(memory)
    ones, twos = torch.ones(a.shape), torch.full(b.shape, 2.0)
    as_is = (lambda t: t.numpy()) if name == "arrays" else (lambda t: t)
    if fits:
        load({"a": a, "b": b}, {"a": ones, "b": twos})
        assert torch.equal(a, ones)
        assert torch.equal(b, twos)
    else:
        with pytest.raises(dsckpt.DsckptError, match=r"state\['.'\]: shares memory .*\['.'\], but"):
            load({"a": a, "b": b}, {"a": as_is(ones), "b": as_is(twos)})
        assert not memory.any()
    if name == "columns that share one":
        return  # What views with gaps share is not compared.
    a, b = pieces(torch.arange(8.0))  # What the file has agrees.
    saved = {"a": as_is(torch.as_tensor(a).clone()), "b": as_is(torch.as_tensor(b).clone())}
    a, b = pieces(memory.zero_())
    load({"a": a, "b": b}, saved)
    assert bool((torch.as_tensor(a) == torch.as_tensor(saved["a"])).all())
    assert bool((torch.as_tensor(b) == torch.as_tensor(saved["b"])).all())


def test_other_roots(tmp_path: Path) -> None:
    dsckpt.save([torch.ones(1), 2], tmp_path / "list")
    state = [torch.zeros(1), 0]
    assert dsckpt.load_into(state, tmp_path / "list") is state
    assert (state[0].item(), state[1]) == (1, 2)
    dsckpt.save((torch.ones(1), 2), tmp_path / "tuple")
    tensor = torch.zeros(1)
    assert dsckpt.load_into((tensor, 0), tmp_path / "tuple") == (tensor, 2)
    assert tensor.item() == 1
    dsckpt.save(torch.ones(2), tmp_path / "tensor")
    tensor = torch.zeros(2)
    assert dsckpt.load_into(tensor, tmp_path / "tensor") is tensor
    assert tensor.tolist() == [1, 1]


def test_corruption_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s"
    dsckpt.save({"w": torch.ones(2000)}, path)
    offset = dsckpt.open(path).native.find_tensor("w")[4]
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    for load in (dsckpt.load_into, lambda state, path: dsckpt.Checkpoint(path).load_into(state)):
        with pytest.raises(dsckpt.DsckptError, match=r"'w'.* may hold a mixture of old") as caught:
            load({"w": torch.zeros(2000)}, path)
        assert (caught.value.code, caught.value.path) == ("Corrupt", str(path))
    dsckpt.load_into({"w": torch.zeros(2000)}, path, verify=False)


def test_saves_under_way_are_fenced(tmp_path: Path) -> None:
    dsckpt.save({"w": torch.full((1 << 20,), 2.0)}, tmp_path / "old")
    with dsckpt.AsyncWriter(4 << 20) as writer:
        weight = torch.full((1 << 20,), 1.0)
        handle = writer.save({"w": weight}, tmp_path / "new", capture="until_fence")
        dsckpt.load_into({"w": weight}, tmp_path / "old")
        handle.durable()
    assert dsckpt.load(tmp_path / "new")["w"].unique().tolist() == [1]
    assert weight.unique().tolist() == [2]


class Odd(torch.nn.Module):
    """Holds what is no plain tensor, and what a state_dict() has copies of."""

    def __init__(self, indices: list[int], extra: Any, scale: float = 0.5) -> None:
        super().__init__()
        self.extra = extra
        values = torch.ones(len(indices))
        sparse = torch.sparse_coo_tensor(torch.tensor([indices]), values, (8,)).coalesce()
        self.register_buffer("sparse", sparse)
        dense = torch.zeros(2, 3)
        dense[0, indices[: len(indices)]] = 1
        self.register_buffer("rows", dense.to_sparse_csr())
        whole = torch.quantize_per_tensor(torch.tensor([float(indices[0])]), scale, 0, torch.qint8)
        self.register_buffer("quantized", whole)
        self.weight = torch.nn.Parameter(torch.full((2,), float(indices[0])))

    def get_extra_state(self) -> Any:
        return self.extra

    def set_extra_state(self, state: Any) -> None:
        self.extra = state


def odd(*args: Any) -> Odd:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Odd(*args)


def test_buffers_of_every_layout_are_filled_in_the_module(tmp_path: Path) -> None:
    saved, module = odd([0, 2], {"a": 1}), odd([1, 2], {"a": 1})
    dsckpt.save(saved.state_dict(), tmp_path / "s")
    dsckpt.load_into(module.state_dict(), tmp_path / "s", allow=["torch.Tensor"])
    assert module.sparse.to_dense().tolist() == saved.sparse.to_dense().tolist()
    assert module.rows.to_dense().tolist() == saved.rows.to_dense().tolist()
    assert module.quantized.dequantize().tolist() == [0]
    assert module.weight.tolist() == [0, 0]


NOT_IN_PLACE: dict[str, tuple[Any, str]] = {
    "sparse of another size": (([0, 1, 2], {"a": 1}), r"\['sparse'\]: .* with 3 elements in the"),
    "another scale": (([1, 2], {"a": 1}, 0.25), r"\['quantized'\]: .*load_state_dict\(\)"),
    "extra state": (([1, 2], {"a": 2}), r"\['_extra_state'\]\['a'\]: 2 in the state, 1 in the"),
    "extra state, longer": (([1, 2], {"a": 1, "b": 2}), r"\['b'\]: in the state only"),
}


@pytest.mark.parametrize("name", NOT_IN_PLACE)
def test_what_cannot_be_filled_in_the_module_is_named(name: str, tmp_path: Path) -> None:
    args, message = NOT_IN_PLACE[name]
    dsckpt.save(odd([0, 2], {"a": 1}).state_dict(), tmp_path / "s")
    module = odd(*args)
    with pytest.raises(dsckpt.DsckptError, match=message) as caught:
        dsckpt.load_into(module.state_dict(), tmp_path / "s", allow=["torch.Tensor"])
    assert caught.value.code == "Mismatch"
    assert module.weight.tolist() == [args[0][0]] * 2


def test_extra_state_that_is_a_tensor_is_named(tmp_path: Path) -> None:
    dsckpt.save(odd([0, 2], torch.ones(1)).state_dict(), tmp_path / "s")
    with pytest.raises(dsckpt.DsckptError, match=r"\['_extra_state'\]: extra state, of which"):
        dsckpt.load_into(
            odd([1, 2], torch.zeros(1)).state_dict(), tmp_path / "s", allow=["torch.Tensor"]
        )


def test_arrays_of_every_kind_are_filled(tmp_path: Path) -> None:
    saved = {
        "masked": np.ma.masked_array([1, 2], [0, 1]),
        "records": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        "objects": np.array([None, "a"], object),
    }
    dsckpt.save(saved, tmp_path / "s")
    allow = ["numpy.ma.MaskedArray", "numpy.ndarray"]
    state = {
        "masked": np.ma.masked_array([0, 0], [0, 0]),
        "records": np.zeros(1, [("a", "i4"), ("b", "f8")]),
        "objects": np.array([1, 2], object),
    }
    arrays = dict(state)
    dsckpt.load_into(state, tmp_path / "s", allow=allow)
    assert all(state[name] is arrays[name] for name in arrays)
    assert (state["masked"].tolist(), state["records"].tolist()) == ([1, None], [(1, 2.0)])
    assert state["objects"].tolist() == [None, "a"]
    state["records"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
    with pytest.raises(dsckpt.DsckptError, match=r"\['records'\]: a ndarray .* \[2\] in the state"):
        dsckpt.load_into(state, tmp_path / "s", allow=allow)


def test_tensor_subclasses_are_filled(tmp_path: Path) -> None:
    class Named(torch.Tensor):
        pass

    globals()["Named"] = Named
    Named.__qualname__ = "Named"
    dsckpt.save({"x": torch.ones(2).as_subclass(Named)}, tmp_path / "s")
    state = {"x": torch.zeros(2).as_subclass(Named)}
    tensor = state["x"]
    dsckpt.load_into(state, tmp_path / "s", allow=[Named])
    assert state["x"] is tensor
    assert tensor.tolist() == [1, 1]
    with pytest.raises(dsckpt.DsckptError, match="a Tensor of float32"):
        dsckpt.load_into({"x": torch.zeros(2)}, tmp_path / "s", allow=[Named])


def saved_by(kind: str, state: Any, tmp_path: Path) -> Path:
    if kind == "file":
        dsckpt.save(state, tmp_path / "s")
        return tmp_path / "s"
    with dsckpt.AsyncWriter(4 << 20) as writer, dsckpt.Run(tmp_path / "run", writer) as run:
        run.save(1, state)
    return tmp_path / "run"


@pytest.mark.parametrize("kind", ["file", "run"])
def test_an_optimizer_that_has_not_stepped_is_named(kind: str, tmp_path: Path) -> None:
    model, optimizer = trained(1)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    path = saved_by(kind, saved, tmp_path)
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    before = other[0].weight.detach().clone()
    fresh = torch.optim.AdamW(other.parameters())
    state = {"model": other.state_dict(), "optimizer": fresh.state_dict()}
    with pytest.raises(
        dsckpt.DsckptError, match=r"\['state'\]: empty in the state, 4 in the file: .*load_state_"
    ):
        dsckpt.load_into(state, path)
    assert torch.equal(other[0].weight, before)


@pytest.mark.parametrize("kind", ["file", "run"])
def test_what_only_the_checkpoint_has_is_named(kind: str, tmp_path: Path) -> None:
    path = saved_by(kind, {"a": torch.ones(1), "b": {"c": torch.ones(1)}}, tmp_path)
    state = {"a": torch.zeros(1)}
    with pytest.raises(dsckpt.DsckptError, match=r"state\['b'\]: in the file only"):
        dsckpt.load_into(state, path)
    assert state["a"].item() == 0
    dsckpt.load_into(state, path, strict=False)
    assert state["a"].item() == 1


def test_a_learning_rate_that_only_a_copy_would_get_is_named(tmp_path: Path) -> None:
    _, optimizer = trained(1)
    dsckpt.save({"optimizer": optimizer.state_dict()}, tmp_path / "s")
    _, other = trained(2)
    other.param_groups[0]["lr"] = 0.5
    other.param_groups[0]["betas"] = (0.5, 0.5)
    with pytest.raises(
        dsckpt.DsckptError, match=r"\['lr'\]: 0.5 in the state, 0.001 in the file: an optimizer's"
    ) as caught:
        dsckpt.load_into({"optimizer": other.state_dict()}, tmp_path / "s")
    assert "['betas'][0]: 0.5 in the state, 0.9 in the file" in str(caught.value)
    state = {"optimizer": other.state_dict()}
    dsckpt.load_into(state, tmp_path / "s", strict=False)
    other.load_state_dict(state["optimizer"])
    assert other.param_groups[0]["lr"] == 0.001
