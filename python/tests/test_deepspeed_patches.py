"""Repairs of DeepSpeed's functions and of torch.load()."""

from __future__ import annotations

import argparse
import logging
import pickle
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_deepspeed_files import Evil

import dsckpt
from dsckpt.deepspeed import patches, readers, torch_files

torch = pytest.importorskip("torch")


def stranger(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that patches can find."""
    module = ModuleType("stranger")
    module.Engine = type("Engine", (), {"step": lambda self, rate: ("old", rate)})  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "stranger", module)
    return module


def patch_of(name: str, *parameters: str) -> patches.Patch:
    """A patch of the stranger's engine."""

    def wrap(original: Any) -> Any:
        return lambda self, rate: ("new", original(self, rate))

    return patches.Patch("stranger", "Engine", name, parameters, wrap, "it breaks")


def test_patch_applies_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = stranger(monkeypatch).Engine
    for _ in range(2):
        assert patch_of("step", "self", "rate").apply() is None
    assert engine().step(1) == ("new", ("old", 1))


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (patch_of("step", "self", "lr"), "takes ('self', 'rate'), expected ('self', 'lr')"),
        (patch_of("leap", "self"), "stranger.Engine.leap is not there"),
    ],
)
def test_patch_that_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, patch: patches.Patch, words: str
) -> None:
    engine: Any = stranger(monkeypatch).Engine
    assert words in str(patch.apply())
    assert engine().step(1) == ("old", 1)


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed")
def test_engine_refuses_a_deepspeed_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger(monkeypatch)
    monkeypatch.setattr(patches, "PATCHES", (*patches.PATCHES, patch_of("leap", "self")))
    raw = SimpleNamespace(datastates_config=SimpleNamespace(config={}))
    from dsckpt.deepspeed import CheckpointEngine

    with pytest.raises(RuntimeError, match=r"leap is not there.*without the patch, it breaks"):
        CheckpointEngine(raw, 0)


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed")
def test_adapter_is_torn_down_twice() -> None:
    from deepspeed.runtime.checkpoint_engine import DataStatesCheckpointEngine

    import datastates  # noqa: F401

    raw = SimpleNamespace(datastates_config=SimpleNamespace(config={"host_cache_size": 0.01}))
    adapter = DataStatesCheckpointEngine(raw, 0)
    adapter.cleanup()
    adapter.cleanup()
    assert adapter.get_commit_info() is None


def test_patch_reaches_what_has_been_imported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module, script = stranger(monkeypatch), ModuleType("script")
    module.read = script.old_name = lambda path: ("old", path)  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "script", script)
    wrap = lambda original: lambda path: ("new", original(path))  # noqa: E731
    patch = patches.Patch("stranger", "", "read", ("path",), wrap, "it breaks")
    assert patch.apply() is None
    assert script.old_name("a") == ("new", ("old", "a"))
    assert module.read("a") == ("new", ("old", "a"))


def test_without_deepspeed_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patches.importlib.util, "find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING):
        assert patches.apply_all() == ["DeepSpeed is not installed"]
    assert len(caplog.records) == 1


def test_torch_load_reads_files_of_dsckpt_and_all_others_as_before(tmp_path: Path) -> None:
    original = getattr(torch.load, patches._MARK, torch.load)
    load = readers.torch_load(original)
    ours, theirs, plain = tmp_path / "ours.pt", tmp_path / "theirs.pt", tmp_path / "a.safetensors"
    state = {"w": torch.arange(3.0), "lr": 0.1}
    dsckpt.save(state, ours)
    torch.save(state, theirs)
    torch_files.export({"w": state["w"]}, str(plain))
    for path in (ours, str(ours), theirs, theirs.open("rb")):
        found = load(path, map_location="cpu")
        assert found["lr"] == 0.1
        assert torch.equal(found["w"], state["w"])
    try:
        expected = original(plain)  # A PyTorch that reads safetensors, or one that does not.
    except pickle.UnpicklingError:
        with pytest.raises(pickle.UnpicklingError):
            load(plain)
    else:
        assert torch.equal(load(plain)["w"], expected["w"])
    assert load(ours, lambda storage, _: storage, mmap=True, weights_only=False)["lr"] == 0.1
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.pt")


def test_torch_load_of_our_files_runs_no_code_by_default(tmp_path: Path) -> None:
    path, proof = tmp_path / "a.pt", tmp_path / "proof"
    dsckpt.save({"evil": Evil(str(proof)), "args": argparse.Namespace(lr=0.1)}, path)
    load = readers.torch_load(getattr(torch.load, patches._MARK, torch.load))
    for options in ({}, {"weights_only": True}):
        with pytest.raises(dsckpt.PickleRefused):
            load(path, **options)
    assert not proof.exists()
    assert load(path, weights_only=False)["args"].lr == 0.1
    assert proof.exists()
