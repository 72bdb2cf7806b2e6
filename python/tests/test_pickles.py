"""Objects of other classes: nothing of a pickle runs unless somebody allowed it."""

from __future__ import annotations

import argparse
import collections
import enum
import io
import os
import pathlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dsckpt
from dsckpt import pickle_makers, pickles, tools

HERE = __name__


class Config:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Level(enum.Enum):
    HIGH = "h"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Outer:
    class Inner:
        value = 3


class Evil:
    """Pickles to os.system("touch ...")."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    def save(state: Any) -> Path:
        path = tmp_path / "state.dsckpt"
        dsckpt.save(state, path)
        return path

    return save


@pytest.fixture
def evil(tmp_path: Path, saved: Callable[[Any], Path]) -> tuple[Path, Path]:
    touched = tmp_path / "touched"
    return saved({"a": {"b": [Evil(touched), torch.ones(2)]}}), touched


def loads(path: Path, **options: Any) -> Any:
    return dsckpt.load(path, **options)


def loads_into(path: Path, **options: Any) -> Any:
    return dsckpt.load_into({"a": {"b": [None, torch.zeros(2)]}}, path, **options)


@pytest.mark.parametrize("load", [loads, loads_into])
@pytest.mark.parametrize("allow", [(), (Evil,), ("os.system",), (Evil, Config)])
def test_c47_nothing_runs_without_permission(
    load: Callable[..., Any], allow: tuple[Any, ...], evil: tuple[Path, Path]
) -> None:
    path, touched = evil
    with pytest.raises(dsckpt.PickleRefused) as caught:
        load(path, allow=allow)
    assert not touched.exists()
    assert caught.value.code == "PickleRefused"
    assert caught.value.path == str(path)
    message = str(caught.value)
    assert "state['a']['b'][0]" in message
    assert f"{HERE}.Evil" in message
    assert "posix.system" not in caught.value.classes
    assert caught.value.never == ("posix.system",)
    assert "allow_pickle=True" in message


def test_c47_it_runs_where_it_is_allowed(evil: tuple[Path, Path]) -> None:
    path, touched = evil
    assert loads(path, allow_pickle=True)["a"]["b"][0] == 0
    assert touched.exists()


def test_c47_looking_checking_and_merging_run_nothing(
    evil: tuple[Path, Path], tmp_path: Path
) -> None:
    path, touched = evil
    with dsckpt.open(path) as file:
        file.tree()
        pickled = next(iter(file.objects.values())).read()
    assert pickled[:2] == b"\x80\x04"
    assert tools.verify(path).ok
    tools.inspect(path)
    merged = tmp_path / "merged"
    tools.merge(path, merged)
    with pytest.raises(dsckpt.PickleRefused):
        dsckpt.load(merged)
    assert not touched.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_c47_every_protocol_is_looked_through(protocol: int, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    payload = pickle.dumps(Evil(touched), protocol)
    permission = pickles.Permission(allow=[Evil], file="f")
    with pytest.raises(dsckpt.PickleRefused) as caught:
        permission.loads(payload, f"py.pickle:{HERE}.Evil", [])
    assert (caught.value.classes, caught.value.never) == ((), ("posix.system",))
    assert not touched.exists()


def test_c47_a_lying_tag_does_not_help(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    permission = pickles.Permission(allow=[Config], file="f")
    with pytest.raises(dsckpt.PickleRefused):
        permission.loads(pickle.dumps(Evil(touched)), f"py.pickle:{HERE}.Config", [])
    assert not touched.exists()


ALLOWED = {
    "plain": (Config(lr=0.1, steps=[1, 2], s={1}, d=collections.OrderedDict(a=1)), [Config]),
    "by name": (Config(lr=0.1), [f"{HERE}.Config"]),
    "namespace": (argparse.Namespace(a=1, b="x"), [argparse.Namespace]),
    "nested objects": (
        Config(inner=argparse.Namespace(a=1)),
        [Config, argparse.Namespace],
    ),
    "numpy inside": (Config(scalar=np.float32(2), size=np.dtype("f4")), [Config]),
    "torch inside": (Config(d=torch.float32, s=torch.Size([1]), v=torch.device("cpu")), [Config]),
    "path": (pathlib.PurePosixPath("a/b"), [pathlib.PurePosixPath]),
    "enum": (Level.HIGH, [Level]),
    "flags": (Access.READ | Access.WRITE, [Access]),
    "class": (Outer.Inner, [Outer.Inner]),
    "counter": (collections.Counter("aab"), [collections.Counter]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_classes_come_back(name: str, saved: Callable[[Any], Path]) -> None:
    value, allow = ALLOWED[name]
    path = saved({"x": value})
    with pytest.raises(dsckpt.PickleRefused) as caught:
        dsckpt.load(path)
    found = dsckpt.load(path, allow=allow)["x"]
    assert (type(found), found) == (type(value), value)
    # The error says exactly what has to be allowed.
    assert dsckpt.load(path, allow=caught.value.classes)["x"] == value


def test_one_class_may_be_given_alone(saved: Callable[[Any], Path]) -> None:
    path = saved({"x": Level.HIGH})
    assert dsckpt.load(path, allow=pickles.name_of(Level))["x"] is Level.HIGH
    assert dsckpt.load(path, allow=Level)["x"] is Level.HIGH  # type: ignore[arg-type]


def test_an_object_that_is_the_whole_state_is_called_so(saved: Callable[[Any], Path]) -> None:
    for state, where in ((Level.HIGH, "state"), ([1, Level.HIGH], r"state\[1\]")):
        with pytest.raises(dsckpt.PickleRefused, match=f": {where} is a pickled"):
            dsckpt.load(saved(state))


def test_tensors_inside_objects(saved: Callable[[Any], Path]) -> None:
    base = torch.arange(1_000_000.0)
    value = Config(
        view=base[:10:3], f8=torch.ones(2).to(torch.float8_e4m3fn), empty=torch.empty(0, 3)
    )
    value.again = value.view
    value.parameter = torch.nn.Parameter(torch.ones(2))
    path = saved({"x": value})
    assert path.stat().st_size < 16_384  # The view's elements, not its storage.
    found = dsckpt.load(path, allow=[Config])["x"]
    assert found.view.tolist() == [0, 3, 6, 9]
    assert found.again is found.view
    assert found.f8.dtype == torch.float8_e4m3fn
    assert found.empty.shape == (0, 3)
    assert type(found.parameter) is torch.nn.Parameter
    found.view.add_(1)
    assert found.view[0] == 1


def test_an_object_array_needs_its_own_permission(saved: Callable[[Any], Path]) -> None:
    path = saved({"x": np.array([None, "a"], object)})
    with pytest.raises(dsckpt.PickleRefused) as caught:
        dsckpt.load(path)
    assert caught.value.classes == ("numpy.ndarray",)
    assert dsckpt.load(path, allow=[np.ndarray])["x"].tolist() == [None, "a"]


def test_sparse_tensor(saved: Callable[[Any], Path]) -> None:
    path = saved({"x": torch.tensor([0.0, 3.0]).to_sparse()})
    with pytest.raises(dsckpt.PickleRefused, match=r"torch\.Tensor"):
        dsckpt.load(path)
    found = dsckpt.load(path, allow_pickle=True)["x"]
    assert (found.layout, found.to_dense().tolist()) == (torch.sparse_coo, [0, 3])


def test_objects_share_nothing_with_their_neighbours(saved: Callable[[Any], Path]) -> None:
    shared = Config(a=1)
    found = dsckpt.load(saved({"x": shared, "y": shared}), allow=[Config])
    assert found["x"] == found["y"]


def test_a_class_that_is_gone_is_an_error(tmp_path: Path) -> None:
    payload = pickle.dumps(Config(), 4).replace(b"Config", b"Vanish")
    with pytest.raises(dsckpt.DsckptError, match=r"state\['x'\] could not be unpickled") as caught:
        pickles.Permission(allow_pickle=True, file="f").loads(payload, "py.pickle:c", ["x"])
    assert caught.value.code == "Corrupt"


@pytest.mark.parametrize("value", [Config(a=1), argparse.Namespace(), {1: Evil(Path("x"))}])
def test_names_in_a_pickle(value: Any) -> None:
    seen = set()

    class Anything:
        def __init__(self, *_: Any) -> None:
            pass

    class Watching(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            seen.add(f"{module}.{name}")
            return Anything

    payload = pickles.dumps(value, [])
    Watching(io.BytesIO(payload)).load()
    assert pickles.globals_of(payload) == seen
    assert pickles.globals_of(payload[:-4]) <= seen


def test_errors_survive_pickling() -> None:
    refused = dsckpt.PickleRefused("m", "p", ["a.B"])
    again = pickle.loads(pickle.dumps(refused))
    assert (str(again), again.path, again.classes) == ("m", "p", ("a.B",))
    error = pickle.loads(pickle.dumps(dsckpt.DsckptError("m", "Corrupt", "p", 7, 5)))
    assert (str(error), error.code, error.path, error.offset, error.errno) == (
        "m",
        "Corrupt",
        "p",
        7,
        5,
    )


def naming(name: str) -> bytes:
    """A pickle that calls what it names with one string."""
    module, _, attribute = name.rpartition(".")
    if name.startswith(HERE):  # Attributes of attributes too.
        module, attribute = HERE, name.removeprefix(HERE + ".")

    def text(value: str) -> bytes:
        return b"\x8c" + bytes([len(value)]) + value.encode()

    return b"\x80\x04" + text(module) + text(attribute) + b"\x93" + text("x") + b"\x85R."


RUNS_CODE = [
    "torch.storage._load_from_bytes",
    "builtins.eval",
    "builtins.exec",
    "builtins.getattr",
    "builtins.open",
    "builtins.__import__",
    "builtins.type",
    "builtins.map",
    "__builtin__.eval",
    "os.system",
    "posix.system",
    "nt.system",
    "subprocess.Popen",
    "commands.getoutput",
    "functools.partial",
    "functools.reduce",
    "operator.attrgetter",
    "operator.methodcaller",
    "importlib.import_module",
    "runpy.run_path",
    "pickle.loads",
    "marshal.loads",
    "types.FunctionType",
    "types.CodeType",
    "ctypes.CDLL",
    "logging.FileHandler",
    "shutil.rmtree",
    "argparse.FileType",
    "code.InteractiveInterpreter",
    "timeit.timeit",
    "threading.Thread",
    "torch.load",
    "torch.hub.load",
    "torch.jit.load",
    "torch.fx.graph_module.reduce_graph_module",
    "torch.utils.cpp_extension.load_inline",
    "torch.nn.functional.relu",
    "torch.os.system",
    "torch.nn.modules.module.functools.partial",
    "numpy.load",
    "numpy.memmap",
    "numpy.ma.core.builtins.eval",
    "numpy.testing.rundocs",
    "dsckpt.load",
    "dsckpt.pickles.io.FileIO",
    "joblib.load",
    "cloudpickle.loads",
    f"{HERE}.os.system",
    f"{HERE}.pickle.loads",
    f"{HERE}.naming",
    f"{HERE}.io",
]


@pytest.mark.parametrize("name", RUNS_CODE)
def test_no_allow_list_loads_what_runs_code(name: str) -> None:
    payload, tag = naming(name), f"py.pickle:{name}"
    for allow in ((), [name], [name, "builtins.str"]):
        with pytest.raises(dsckpt.PickleRefused) as caught:
            pickles.Permission(allow=allow, file="f").loads(payload, tag, ["x"])
        assert caught.value.classes == ()
        assert caught.value.never == (name,)
        assert "allow=[...] loads" in str(caught.value)
        assert "pass allow_pickle=True" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["not_imported_here.Popen", f"{HERE}.Alias", f"{HERE}.Config.__init__.__globals__"]
)
def test_a_name_is_judged_by_what_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was suggested while nobody knew, the object itself decides."""
    import subprocess
    import sys
    import types

    hidden: Any = types.ModuleType("not_imported_here")
    hidden.Popen = subprocess.Popen
    payload = naming(name)
    with pytest.raises(dsckpt.PickleRefused):
        pickles.Permission(file="f").loads(payload, f"py.pickle:{name}", [])
    monkeypatch.setitem(sys.modules, "not_imported_here", hidden)
    monkeypatch.setitem(globals(), "Alias", subprocess.Popen)
    with pytest.raises(dsckpt.PickleRefused) as caught:
        pickles.Permission(allow=[name], file="f").loads(payload, f"py.pickle:{name}", [])
    assert caught.value.never


@pytest.mark.parametrize("given", [eval, os.system, "torch.storage._load_from_bytes", pickle.loads])
def test_given_itself_it_is_no_better(given: Any) -> None:
    name = given if isinstance(given, str) else f"{given.__module__}.{given.__qualname__}"
    with pytest.raises(dsckpt.PickleRefused):
        pickles.Permission(allow=[given], file="f").loads(naming(name), f"py.pickle:{name}", [])


def doubled(text: str) -> str:
    return text * 2


def test_a_function_of_ones_own_is_given_itself(saved: Callable[[Any], Path]) -> None:
    path = saved({"x": doubled})
    for allow in ([], [f"{HERE}.doubled"]):
        with pytest.raises(dsckpt.PickleRefused) as caught:
            dsckpt.load(path, allow=allow)
        assert caught.value.never == (f"{HERE}.doubled",)
    assert dsckpt.load(path, allow=[doubled])["x"] is doubled


def test_all_that_is_refused_is_named_at_once(saved: Callable[[Any], Path]) -> None:
    state = {
        "config": Config(a=1, level=Level.HIGH),
        "many": [Access.READ] * 12,
        "plain": torch.ones(1),
    }
    path = saved(state)
    with pytest.raises(dsckpt.PickleRefused) as caught:
        dsckpt.load(path)
    assert set(caught.value.classes) == {f"{HERE}.{name}" for name in ("Config", "Level", "Access")}
    message = str(caught.value)
    assert "13 objects are pickled" in message
    assert f"state['config'] ({HERE}.Config), state['many'][0] ({HERE}.Access)" in message
    assert message.count("state['many']") == 9
    assert "and 3 more" in message
    assert f"allow={list(caught.value.classes)!r}" in message
    assert dsckpt.load(path, allow=caught.value.classes)["many"] == [Access.READ] * 12


def test_hostile_makers_are_checked() -> None:
    sparse = torch.tensor([0.0, 1.0]).to_sparse()
    payload = pickles.dumps(sparse, [])
    assert b"_load_from_bytes" not in payload
    wild = pickle_makers.make_sparse
    with pytest.raises(RuntimeError):
        wild("sparse_coo", torch.tensor([[1 << 40]]), torch.ones(1), (2,), False)
    with pytest.raises(RuntimeError):
        wild(
            "sparse_csr",
            (torch.tensor([0, 9]), torch.tensor([5])),
            torch.ones(1),
            (1, 2),
            False,
        )
    with pytest.raises(ValueError, match="no layout"):
        wild("nn", None, torch.ones(1), (1,), False)
    with pytest.raises(TypeError, match="no enum"):
        pickle_makers.make_member(Config, "__init__")
    with pytest.raises(TypeError, match="no class of tensors"):
        pickle_makers.make_subclass(Config, torch.ones(1), {})
