"""Parts of the DeepSpeed engine, without a job."""

from __future__ import annotations

import argparse
import builtins
import glob
import io
import logging
import os
import pathlib
import pickle
import threading
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dsckpt
from dsckpt.deepspeed import config, file_calls, latest, patches, readers, torch_files
from dsckpt.deepspeed import tags as tags_module
from dsckpt.deepspeed.consolidate import _Weights
from dsckpt.deepspeed.layout import Fragment, Layout
from dsckpt.deepspeed.pending_save import PendingSave
from dsckpt.deepspeed.pickle_allowlist import ALLOWED
from dsckpt.deepspeed.pieces import Names
from dsckpt.deepspeed.service import Service
from dsckpt.deepspeed.stored_layout import layouts

torch = pytest.importorskip("torch")

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "memory_bytes", lambda: 64 * GIB)
    monkeypatch.setattr(config, "local_ranks", lambda: 4)


@pytest.mark.parametrize(
    ("raw", "pool"),
    [
        ({"host_cache_size": 16}, 16 * GIB),
        ({"host_cache_size": 0.25}, GIB // 4),
        ({}, None),
        (None, None),
        (True, None),
    ],
)
def test_size_of_the_pool(raw: object, pool: int | None) -> None:
    assert config.parse(raw).pool_bytes == pool


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"host_cache_size": 17}, "17 GiB for each of 4 local rank"),
        ({"host_cache_size": 0}, "number of GiB"),
        ({"host_cache_size": -1}, "number of GiB"),
        ({"host_cache_size": True}, "number of GiB"),
        ({"host_cache_size": "16"}, "number of GiB"),
        ({"host_cache_size": float("nan")}, "number of GiB"),
        ({"allow_pickle": 1}, "true or false"),
        ({"file_calls_wait": 0}, "file_calls_wait must be true or false"),
        ({"allow": "argparse.Namespace"}, "a list"),
        ({"allow": [1]}, "a list"),
        ([16], "must be a dict"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(raw: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        config.parse(raw)


def test_unknown_keys_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config.parse({"host_cache_size": 1, "parser_threads": 8})
    assert "'parser_threads' is not known" in caplog.text


@pytest.mark.parametrize(
    ("state", "pool"), [(GIB, GIB), (100 * GIB, 4 * GIB), (10, config.SMALLEST_POOL)]
)
def test_pool_of_no_given_size(state: int, pool: int) -> None:
    assert config.default_pool_bytes(state) == pool


def rows(names: Names, path: list[Any], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Pieces as tuples."""
    return [
        (p.logical_name, p.logical_shape, p.box, p.flat, p.element_offset)
        for p in names.pieces(path, shape, "F32")
    ]


FLAT = Layout(
    stage=2,
    groups=(
        (
            Fragment(("a", "tied"), (3, 2), 4, 2, 0),
            Fragment(("b",), (5,), 0, 5, 2),
        ),
    ),
    sizes=(8,),
    scopes=("",),
)


@pytest.mark.parametrize(
    ("path", "shape", "expected"),
    [
        (
            ["optimizer_state_dict", "single_partition_of_fp32_groups", 0],
            (7,),
            [
                ("fp32/a", [3, 2], None, (4, 6), 0),
                ("fp32/tied", [3, 2], None, (4, 6), 0),
                ("fp32/b", [5], None, (0, 5), 2),
            ],
        ),
        (
            ["optimizer_state_dict", "base_optimizer_state", "state", 0, "exp_avg"],
            (8,),
            [("exp_avg/a", [3, 2], None, (4, 6), 0), ("exp_avg/b", [5], None, (0, 5), 2)],
        ),
        (  # Not a buffer: a number for each group.
            ["optimizer_state_dict", "base_optimizer_state", "state", 0, "step"],
            (),
            [("FILE/optimizer_state_dict/base_optimizer_state/state/0/step", [], [], None, 0)],
        ),
        (  # A buffer of another size than the live one.
            ["optimizer_state_dict", "single_partition_of_fp32_groups", 0],
            (9,),
            [
                (
                    "FILE/optimizer_state_dict/single_partition_of_fp32_groups/0",
                    [9],
                    [(0, 9)],
                    None,
                    0,
                )
            ],
        ),
    ],
)
def test_names_of_what_flat_buffers_hold(
    path: list[Any], shape: tuple[int, ...], expected: list[Any]
) -> None:
    file = "zero_pp_rank_0_mp_rank_00_optim_states"
    wanted = [(row[0].replace("FILE", file), *row[1:]) for row in expected]
    assert rows(Names(file + ".pt", FLAT), path, shape) == wanted


@pytest.mark.parametrize(
    ("file", "path", "shape", "stage", "expected"),
    [
        ("mp_rank_00_model_states.pt", ["module", "w"], (2,), 2, None),
        ("zero_pp_rank_0_mp_rank_00_model_states.pt", ["module", "mean"], (2,), 3, None),
        ("zero_pp_rank_0_mp_rank_00_model_states.pt", ["module", "w"], (0,), 3, "empty/F32/0"),
        (
            "zero_pp_rank_1_mp_rank_00_model_states.pt",
            ["module", "mean"],
            (2,),
            3,
            "zero_pp_rank_1_mp_rank_00_model_states/module/mean",
        ),
        ("layer_03-model_00-model_states.pt", ["weight"], (2,), 1, "module/3.weight"),
        ("layer_03-model_states.pt", ["weight"], (2,), 1, "module/3.weight"),
    ],
)
def test_names_of_whole_tensors(
    file: str, path: list[Any], shape: tuple[int, ...], stage: int, expected: str | None
) -> None:
    found = rows(Names(file, Layout(stage)), path, shape)
    assert [row[0] for row in found] == ([] if expected is None else [expected])


def test_layout_of_stored_flat_groups_skips_paddings() -> None:
    """Two ranks, buffers of 6: a has 4 elements and 1 of padding behind it, b has 5."""
    buffers = [torch.zeros(6), torch.zeros(4)]
    model = {
        "param_shapes": [{"a": torch.Size([2, 2]), "b": torch.Size([5])}],
        "shared_params": {"c": "a"},
    }
    states: dict[str, Any] = {"mp_rank_00_model_states.pt": model}
    for rank, buffer in enumerate(buffers):
        states[f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = {
            "optimizer_state_dict": {
                "zero_stage": 2,
                "single_partition_of_fp32_groups": [buffer],
                "param_alignment_paddings": [[1, 0]],
                "group_paddings": [6 - buffer.numel()],
            }
        }
    found = layouts(states)
    first = found["zero_pp_rank_0_mp_rank_00_optim_states.pt"].groups
    second = found["zero_pp_rank_1_mp_rank_00_optim_states.pt"].groups
    assert first == ((Fragment(("a", "c"), (2, 2), 0, 4, 0), Fragment(("b",), (5,), 0, 1, 5)),)
    assert second == ((Fragment(("b",), (5,), 1, 4, 0),),)


class Evil:
    """Unpickling it runs code."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_torch_files_run_no_code_unless_allowed(tmp_path: Path) -> None:
    """C47"""
    path, proof = str(tmp_path / "a.pt"), tmp_path / "proof"
    torch.save({"evil": Evil(str(proof))}, path)
    with pytest.raises(dsckpt.PickleRefused, match="allow_pickle"):
        torch_files.load(path, "cpu", False, ALLOWED)
    assert not proof.exists()
    torch_files.load(path, "cpu", True, ())
    assert proof.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_load_what_deepspeed_holds(tmp_path: Path, zipped: bool) -> None:
    path = str(tmp_path / "a.pt")
    state = {"args": argparse.Namespace(lr=0.1, dtype=torch.float16), "w": torch.arange(3)}
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    assert torch_files.is_torch_file(path)
    found = torch_files.load(path, "cpu", False, ALLOWED, mmap=True)
    assert found["args"] == state["args"]
    assert torch.equal(found["w"], state["w"])


def test_other_files_are_no_torch_files(tmp_path: Path) -> None:
    ours, plain = tmp_path / "ours", tmp_path / "plain"
    dsckpt.save({"w": torch.zeros(2)}, ours)
    plain.write_bytes((0x280).to_bytes(8, "little") + b"{" + b" " * 0x27F)
    assert not torch_files.is_torch_file(str(ours))
    assert not torch_files.is_torch_file(str(plain))


def test_export_of_safetensors_is_what_others_expect(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    torch_files.export({"w": torch.ones(2), "b": torch.zeros(1)}, str(tmp_path / "m.safetensors"))
    found = safetensors.load_file(tmp_path / "m.safetensors")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"w": [1, 1], "b": [0]}


def test_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    torch_files.export({"w": torch.ones(2)}, str(path))
    with pytest.raises(Exception, match="pickle"):
        torch_files.export({"w": lambda: None}, str(path))
    assert torch.equal(torch.load(path, weights_only=True)["w"], torch.ones(2))
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.bin"]


@pytest.mark.parametrize("what", ["export", "latest"])
def test_files_are_replaced_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / ("model.bin" if what == "export" else "latest")

    def write() -> None:
        if what == "export":
            torch_files.export({"w": torch.ones(2)}, str(path))
        else:
            latest.Pointer(str(tmp_path), "t").write()

    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        steps.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def noted_replace(source: str, target: str) -> None:
        name = os.path.basename(source)
        assert name.startswith(".")
        assert not any(mark in name for mark in (".incomplete-", ".removed-", ".replaced-"))
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write()
    assert steps == ["file", "replace", "directory"]
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as failing:
            failing.setattr(os, call, fails)
            with pytest.raises(OSError, match="No space"):
                write()
        assert os.listdir(tmp_path) == [path.name]
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("wanted", "by_commit", "by_hand"),
    [(False, True, False), (True, True, False), (True, False, True)],
)
def test_latest_is_written_by_hand_where_the_commit_does_not(
    tmp_path: Path, wanted: bool, by_commit: bool, by_hand: bool
) -> None:
    pointer = latest.pointer(str(tmp_path), "t", wanted, by_commit)
    assert (pointer is not None) == by_hand
    if pointer is not None:
        pointer.write()
        assert (tmp_path / "latest").read_text() == "t\n"


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


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("runs/a", True),
        ("runs", True),
        ("runs/a/step2", True),
        ("runs/a/step2/zero_pp_rank_0_mp_rank_00_optim_states.pt", True),
        ("runs/a/latest", True),
        ("link/step2", True),
        ("runs/a/step1", False),
        ("runs/a/step20", False),
        ("runs/b", False),
        ("runs/ab", False),
    ],
)
def test_readers_wait_for_what_they_read_only(tmp_path: Path, path: str, concerned: bool) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "a")
    request: Any = SimpleNamespace(save_dir=str(tmp_path / "link"), tag="step2", save_latest=True)
    group: Any = SimpleNamespace(rank=0, done=lambda: None)
    save = PendingSave(None, request, group, None, None)
    save.wait()
    assert save.concerns(os.path.realpath(tmp_path / path)) == concerned


@pytest.mark.parametrize(("tags", "differ"), [(("a", "a"), False), (("a", "b"), True)])
def test_tags_that_differ_are_noticed_by_all(
    monkeypatch: pytest.MonkeyPatch, tags: tuple[str, str], differ: bool
) -> None:
    store = torch.distributed.HashStore()
    numbers = iter([1, 1, 2, 2])
    monkeypatch.setattr(tags_module, "default_store", lambda: store)
    monkeypatch.setattr(tags_module, "next_number", lambda _store, _what: next(numbers))
    for _ in range(2):
        ranks = [tags_module.Tags() for _ in tags]
        for rank, tag in zip(ranks, tags):
            rank.say(tag)
        assert [rank.differ() for rank in ranks] == [differ, differ]
    assert store.check(["dsckpt/tag/2/first"])
    assert not store.check(["dsckpt/tag/1/first"])


def test_one_rank_needs_no_store_for_its_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags_module, "default_store", lambda: None)
    alone = tags_module.Tags()
    alone.say("a")
    assert not alone.differ()


@pytest.mark.parametrize(
    ("path", "listed", "waits"),
    [
        ("save/step2/mp_rank_00_model_states.pt", False, True),
        ("link/step2/mp_rank_00_model_states.pt", False, True),
        ("save/step2", True, True),
        ("save/latest", False, True),
        ("link/latest", False, True),
        ("save/step2", False, False),  # It is there already.
        ("save", True, False),
        ("save/step1/mp_rank_00_model_states.pt", False, False),
        ("save/step20/mp_rank_00_model_states.pt", False, False),
        ("save/trainer_state.json", False, False),
    ],
)
def test_file_calls_wait_for_files_of_the_checkpoint_only(
    tmp_path: Path, path: str, listed: bool, waits: bool
) -> None:
    (tmp_path / "save").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "save")
    published = threading.Event()
    request: Any = SimpleNamespace(save_dir=str(tmp_path / "link"), tag="step2", save_latest=True)
    handle: Any = SimpleNamespace(durable=published.wait)
    group: Any = SimpleNamespace(rank=0, done=lambda: None)
    save = PendingSave(handle, request, group, None, None)
    assert save.is_looked_at(str(tmp_path / path), listed) == waits
    published.set()
    save.wait()
    assert not save.is_looked_at(str(tmp_path / path), listed)


def always() -> bool:
    return True


def test_calls_ask_for_what_they_are_given(tmp_path: Path) -> None:
    asked: list[tuple[str, bool]] = []

    def awaits(path: str, listed: bool) -> None:
        asked.append((path, listed))
        assert os.path.exists(tmp_path)  # No call asks while another asks.

    stat = file_calls._Asking(os.stat, awaits, always, False)
    listdir = file_calls._Asking(os.listdir, awaits, always, True)
    opens = file_calls._Opening(open, awaits, always, False)
    stat(tmp_path)
    stat(0)
    listdir(os.fsencode(tmp_path))
    with opens(tmp_path / "new", "w") as file:
        stat(file.fileno())
    with opens(file=str(tmp_path / "new")) as file, opens(file.fileno(), closefd=False):
        pass
    with file_calls.exempt():
        stat(tmp_path)
    assert asked == [(str(tmp_path), False), (str(tmp_path), True), (str(tmp_path / "new"), False)]
    asked.clear()
    listdir()
    assert asked == [(os.getcwd(), True)]


def test_calls_do_not_ask_while_nothing_is_written(tmp_path: Path) -> None:
    published = threading.Event()
    request: Any = SimpleNamespace(save_dir=str(tmp_path), tag="a", save_latest=True)
    handle: Any = SimpleNamespace(durable=published.wait)
    group: Any = SimpleNamespace(rank=0, done=lambda: None)
    service = Service()
    asked: list[str] = []
    stat = file_calls._Asking(os.stat, lambda path, _: asked.append(path), service.is_writing, True)
    stat(tmp_path)
    save = PendingSave(handle, request, group, None, None)
    service._under_way.append(save)
    stat(str(tmp_path))
    published.set()
    save.wait()
    stat(tmp_path)
    assert asked == [str(tmp_path)]


def test_calls_that_pathlib_has_kept_ask_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Accessor:
        """As of Python 3.10."""

        stat, listdir, scandir, open = os.stat, os.listdir, os.scandir, io.open
        mkdir = os.mkdir

    class Globber:
        """As of Python 3.13."""

        lstat, scandir = staticmethod(os.lstat), staticmethod(os.scandir)

    for module, name in [(os, n) for n in ("stat", "lstat", "listdir", "scandir")] + [
        (io, "open"),
        (builtins, "open"),
    ]:
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(pathlib, "_NormalAccessor", Accessor, raising=False)
    monkeypatch.setattr(glob, "_StringGlobber", Globber, raising=False)
    monkeypatch.setattr(file_calls, "_installed", False)
    asked: list[tuple[str, bool]] = []
    file_calls.install(lambda path, listed: asked.append((path, listed)), always)
    accessor = Accessor()
    (tmp_path / "file").touch()
    asked.clear()
    accessor.stat(tmp_path, follow_symlinks=False)
    accessor.listdir(tmp_path)
    accessor.scandir(tmp_path).close()
    accessor.open(tmp_path / "file", "r", -1, None, None, None).close()
    here = str(tmp_path)
    assert asked == [(here, False), (here, True), (here, True), (f"{here}/file", False)]
    assert accessor.mkdir is os.mkdir
    assert not hasattr(Accessor, "lstat")
    asked.clear()
    Globber.lstat(tmp_path)
    Globber.scandir(tmp_path).close()
    assert asked == [(here, False), (here, True)]


class Holder:
    """Has calls as attributes, which must not become methods."""

    stat = file_calls._Asking(os.stat, lambda path, listed: None, always, False)


def test_calls_do_not_become_methods(tmp_path: Path) -> None:
    assert Holder().stat(tmp_path).st_ino == os.stat(tmp_path).st_ino
    assert Holder.stat.__name__ == "stat"


def test_a_frozen_layer_is_no_tied_one() -> None:
    tied = torch.tensor([1.5, float("nan")])
    stored = {
        "fp32/tied_modules.embed.weight": tied,
        "fp32/tied_modules.embed.bias": torch.ones(2),
        "fp32/1.weight": torch.ones(2),
        "module/0.weight": tied.bfloat16(),
        "module/0.bias": torch.zeros(2),  # Only the weight is tied.
        "module/0.buffer": torch.zeros(2),
        "module/1.weight": torch.ones(2).bfloat16(),
        "module/1.bias": torch.ones(2),  # Frozen.
        "module/2.weight": torch.tensor([3.0, 4.0]).bfloat16(),
        "module/3.weight": torch.ones(3),
        "module/4.bias": torch.zeros(2),
    }
    weights = object.__new__(_Weights)
    weights._whole = SimpleNamespace(tensors=stored, read=stored.__getitem__)  # type: ignore[assignment]
    owned = ["tied_modules.embed.weight", "tied_modules.embed.bias", "1.weight"]
    frozen = ["0.buffer", "1.bias", "2.weight", "3.weight", "4.bias"]
    assert weights._of_layers() == owned + frozen
