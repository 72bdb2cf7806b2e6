"""The names that programs import, the old ones too."""

from __future__ import annotations

import importlib
import pickle

import pytest

import dsckpt


def test_the_package_has_what_it_says() -> None:
    assert [name for name in dsckpt.__all__ if not hasattr(dsckpt, name)] == []
    assert len(dsckpt.__all__) == len(set(dsckpt.__all__))


def test_the_old_name_of_dcp_is_the_new_one() -> None:
    pytest.importorskip("torch")
    new = importlib.import_module("dsckpt.dcp")
    old = importlib.import_module("dsckpt.torch")
    assert (old.DcpReader, old.DcpWriter) == (new.DcpReader, new.DcpWriter)
    for name in ("group", "items", "metadata", "reader", "reading", "staging", "writer"):
        assert importlib.import_module(f"dsckpt.torch.{name}") is getattr(new, name)


def test_what_was_pickled_under_the_old_name_comes_back() -> None:
    pytest.importorskip("torch")
    items = importlib.import_module("dsckpt.dcp.items")
    stored = items.Stored("shard-00000.dsckpt", "w")
    old = pickle.dumps(stored, protocol=0).replace(b"dsckpt.dcp.items", b"dsckpt.torch.items")
    assert pickle.loads(old) == stored
