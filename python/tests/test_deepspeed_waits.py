"""What reads a checkpoint waits for its save; tags of several ranks."""

from __future__ import annotations

import builtins
import glob
import io
import os
import pathlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsckpt.deepspeed import file_calls
from dsckpt.deepspeed import tags as tags_module
from dsckpt.deepspeed.pending_save import PendingSave
from dsckpt.deepspeed.service import Service

torch = pytest.importorskip("torch")


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
