"""What a DeepSpeed configuration may say of checkpoints, and what it means."""

from __future__ import annotations

import logging

import pytest

from dsckpt.deepspeed import config

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
