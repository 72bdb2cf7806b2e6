"""What a file says besides its items: the digest of its content, vendor data."""

from pathlib import Path
from typing import Any

import pytest
import torch

import dsckpt


def test_equal_state_has_equal_content(tmp_path: Path) -> None:
    for name, step, encoding in (("a", 1, "raw"), ("b", 2, "zstd")):
        state = {"w": torch.ones(5000), "layers": [1, "x"]}
        dsckpt.save(state, tmp_path / name, attributes={"step": step}, encoding=encoding)  # type: ignore[arg-type]
    dsckpt.save({"w": torch.zeros(5000), "layers": [1, "x"]}, tmp_path / "c")
    dsckpt.save_safetensors({"w": torch.ones(5)}, tmp_path / "plain")
    digests = {
        name: dsckpt.open(tmp_path / name).content_digest for name in ("a", "b", "c", "plain")
    }
    assert digests["a"] == digests["b"] != digests["c"]
    assert len(digests["a"] or "") == 32
    assert digests["plain"] is None


def test_vendor_data_comes_back(tmp_path: Path) -> None:
    vendor = {"com.example.b": b"\0\xff", "a": b""}
    dsckpt.save({}, tmp_path / "file", vendor=vendor)
    assert dsckpt.open(tmp_path / "file").vendor == vendor
    with dsckpt.AsyncWriter() as writer:
        writer.save({}, tmp_path / "again", vendor=vendor).durable()
    assert dsckpt.open(tmp_path / "again").vendor == vendor
    with dsckpt.Run(tmp_path / "run") as run:
        run.save(1, {"w": torch.ones(1)}, vendor=vendor).durable()
        shard = next(Path(run.latest().path).glob("*.dsckpt"))  # type: ignore[union-attr]
    assert dsckpt.open(shard).vendor == vendor
    assert dsckpt.open(tmp_path / "file").native.format_version == "1.1"


@pytest.mark.parametrize(
    ("vendor", "code"),
    [
        ({"": b""}, "InvalidArgument"),
        ({"a\n": b""}, "InvalidArgument"),
        ({"a": "text"}, "InvalidArgument"),
        ({1: b""}, "InvalidArgument"),
        ({"\ud800": b""}, "InvalidArgument"),
        ([], "InvalidArgument"),
        ({str(i): b"" for i in range(33)}, "LimitExceeded"),
    ],
)
def test_vendor_data_without_a_place_is_refused(vendor: Any, code: str, tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError) as caught:
        dsckpt.save({}, tmp_path / "file", vendor=vendor)
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []
