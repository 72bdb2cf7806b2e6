"""Arguments that callers give: taken where they mean something, else named in the error."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dsckpt

MIB = 1 << 20
LONE = "\ud800"
STATE = {"a": 1}


def save(path: Path, **options: Any) -> None:
    dsckpt.save(STATE, path, **options)


def save_async(path: Path, **options: Any) -> None:
    with dsckpt.AsyncWriter(MIB) as writer:
        writer.save(STATE, path, **options).durable()


def save_run(path: Path, step: Any = 1, **options: Any) -> None:
    with dsckpt.AsyncWriter(MIB) as writer, dsckpt.Run(path, writer) as run:
        run.save(step, STATE, **options).durable()


SAVES = [save, save_async, save_run]
REFUSED = [
    ("metadata", {"a": LONE}),
    ("metadata", {LONE: "a"}),
    ("metadata", {"a": 1}),
    ("metadata", "x"),
    ("metadata", 5),
    ("attributes", {LONE: 1}),
    ("attributes", {"a": LONE}),
    ("attributes", "x"),
    ("attributes", [1]),
    ("encoding", 5),
    ("encoding", LONE),
]


@pytest.mark.parametrize("how", SAVES)
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_what_cannot_be_saved_is_named(how: Any, name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError, match=f"^{name}.*: ") as caught:
        how(tmp_path / "x", **{name: value})
    assert caught.value.code == "InvalidArgument"
    assert "surrogates" in str(caught.value) or LONE not in repr(value)


@pytest.mark.parametrize("how", [save, save_async])
def test_any_mapping_is_metadata(how: Any, tmp_path: Path) -> None:
    how(tmp_path / "x", metadata=types.MappingProxyType({"k": "v"}), attributes=None)
    assert dsckpt.open(tmp_path / "x").metadata["k"] == "v"
    with pytest.raises(dsckpt.DsckptError, match="path is") as caught:
        how(LONE + "x")
    assert caught.value.code == "InvalidArgument"


@pytest.mark.parametrize("step", [np.int64(5), np.uint8(5), torch.tensor(5), 5])
def test_steps_of_any_integral_type(step: Any, tmp_path: Path) -> None:
    save_run(tmp_path, step, attributes={"step": np.float64(5)})
    found = dsckpt.Run(tmp_path).latest()
    assert found is not None
    assert (found.step, found.attributes) == (5, {"step": 5})
    assert type(found.attributes["step"]) is int
    assert dsckpt.Run(tmp_path).by_step(step).step == 5
    assert dsckpt.Run(tmp_path).roll_back(step).step == 5
    assert found.load(np.int64(0)) == STATE
    assert found.load_into({"a": 0}, np.int64(0)) == STATE


@pytest.mark.parametrize("step", [1 << 63, -(1 << 63) - 1, 1.5, 1.0, "7", None])
def test_steps_that_are_none(step: Any, tmp_path: Path) -> None:
    run = dsckpt.Run(tmp_path)
    for call in (lambda: run.save(step, STATE), lambda: run.by_step(step)):
        with pytest.raises(dsckpt.DsckptError, match=r"^step is .*: give a whole number") as caught:
            call()
        assert caught.value.code == "InvalidArgument"
    with pytest.raises(dsckpt.DsckptError, match=r"^step is "):
        run.roll_back(step)


@pytest.mark.parametrize("name", [LONE, 5, None, b"x"])
def test_names_that_are_none(name: Any, tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError, match=r"^name is ") as caught:
        save_run(tmp_path / "run", name=name)
    assert caught.value.code == "InvalidArgument"


OPTIONS: list[tuple[Callable[..., Any], str, Any]] = [
    (dsckpt.Run, "keep_last", 1.5),
    (dsckpt.Run, "keep_last", 1 << 64),
    (dsckpt.Run, "keep_every", "x"),
    (dsckpt.Run, "keep", 3),
    (dsckpt.Run, "keep", [1.5]),
    (dsckpt.Run, "timeout_seconds", "x"),
    (dsckpt.Run, "timeout_seconds", float("nan")),
    (dsckpt.Run, "timeout_seconds", -1),
    (dsckpt.AsyncWriter, "max_in_flight", 1.5),
    (dsckpt.AsyncWriter, "when_busy", 5),
]


@pytest.mark.parametrize(("make", "name", "value"), OPTIONS)
def test_options_that_are_none(make: Any, name: str, value: Any) -> None:
    with pytest.raises(dsckpt.DsckptError, match=f"^{name} is ") as caught:
        make(MIB if make is dsckpt.AsyncWriter else "run", **{name: value})
    assert caught.value.code == "InvalidArgument"


@pytest.mark.parametrize("rank", [1.5, "0", -1, 1 << 70])
def test_ranks_that_are_none(rank: Any, tmp_path: Path) -> None:
    save_run(tmp_path)
    found = dsckpt.Run(tmp_path).latest()
    assert found is not None
    with pytest.raises(dsckpt.DsckptError, match=r"^rank is "):
        found.load_into({"a": 0}, rank)
    with pytest.raises(dsckpt.DsckptError, match=r"^rank is "):
        dsckpt.Checkpoint(found.path, rank=rank)


@pytest.mark.parametrize("allow", [[3], 3, None, [None], [b"x"], [object()]])
def test_what_cannot_be_allowed_is_named(allow: Any, tmp_path: Path) -> None:
    dsckpt.save({"c": collections.Counter("a")}, tmp_path / "x")
    for call in (
        lambda: dsckpt.load(tmp_path / "x", allow=allow),
        lambda: dsckpt.load_into({"c": 0}, tmp_path / "x", allow=allow),
        lambda: dsckpt.Checkpoint(tmp_path / "x").load(allow=allow),
    ):
        with pytest.raises(dsckpt.DsckptError, match=r"allow holds .*: give classes") as caught:
            call()
        assert caught.value.code == "InvalidArgument"
    counts = dsckpt.load(tmp_path / "x", allow=collections.Counter)["c"]  # type: ignore[arg-type]
    assert counts == {"a": 1}
