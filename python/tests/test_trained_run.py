"""What a run that was really trained shows, and that nothing is found that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trained_run import EVERY, STEPS, Model, loss_of, train

import dsckpt
from dsckpt import tools

WEIGHTS = 14
"""Of the model: matrices and the scales of norms, of which embedding and output layer are one."""


@pytest.fixture(scope="session")
def losses(trained: Path) -> list[float]:
    found = [each["loss"] for each in dsckpt.Trajectory(trained).attributes]
    assert len(found) == STEPS // EVERY
    return found


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trained") / "run"
    train(directory)
    return directory


def _loaded(state: dict[str, Any]) -> Model:
    model = Model()
    model.load_state_dict(state)
    return model


def test_it_learns(losses: list[float]) -> None:
    assert losses[0] > 2
    assert losses[-1] < 0.05
    assert losses[-1] == min(losses)


def test_indexes_find_nothing_wrong(trained: Path) -> None:
    document = dsckpt.trace(trained)
    assert document["events"] == []
    assert document["left_out"] == []
    assert [step["step"] for step in document["steps"]] == list(range(EVERY, STEPS + 1, EVERY))
    # Every tensor moves between checkpoints, but for the mask of the attention.
    names = len(dsckpt.Trajectory(trained).names)
    assert {step["changed"] for step in document["steps"][1:]} == {names - 1}


def test_no_two_steps_hold_the_same(trained: Path) -> None:
    run = dsckpt.Trajectory(trained)
    assert len(set(run.tree_digests)) == STEPS // EVERY
    digests = run.digests()
    for name, column in zip(run.names, digests.T):
        contents = {each.tobytes() for each in column}
        assert len(contents) == (1 if name == "model/mask" else STEPS // EVERY), name


def test_numbers_are_those_of_torch(trained: Path) -> None:
    state = dsckpt.load(f"{trained}@100")
    rows = {row.name: row for row in dsckpt.stats(f"{trained}@100", filter="model/*.weight")}
    assert len(rows) == WEIGHTS
    for name, row in rows.items():
        values = state["model"][name.removeprefix("model/")].double()
        assert row.mean == pytest.approx(values.mean().item(), rel=1e-9, abs=1e-12)
        assert row.std == pytest.approx(values.std(correction=0).item(), rel=1e-9)
        assert row.norm == pytest.approx(values.norm().item(), rel=1e-9)


def test_steps_get_smaller_as_it_settles(trained: Path) -> None:
    def moved(step: int) -> float:
        before, after = f"{trained}@{step - EVERY}", f"{trained}@{step}"
        rows = dsckpt.diff(before, after, filter="model/*.weight")
        found = [row.difference.norm or 0.0 for row in rows if row.difference]
        assert len(found) == WEIGHTS
        return float(np.linalg.norm(found))

    assert moved(STEPS) < 0.2 * moved(4 * EVERY)


def test_elements_find_nothing_wrong_either(trained: Path) -> None:
    document = dsckpt.trace(trained, quick=False)
    assert document["events"] == []
    assert document["skipped"]["tensors"] == 0
    # Nothing that is equal to the step before is read again: that is the mask alone.
    tensors = dsckpt.Checkpoint(f"{trained}@latest").tensors
    each = sum(info.nbytes for info in tensors.values())
    mask = tensors["model/mask"].nbytes
    there = each + (STEPS // EVERY - 1) * (each - mask)
    assert document["read_bytes"] == there
    rows = [row for row in document["rows"] if row["name"] == "model/embedding.weight"]
    moved = [row["dist_init"] for row in rows]
    # It goes the same way all the time, in shorter and shorter steps.
    assert moved == sorted(moved)
    assert min(row["cos_prev"] for row in rows[2:]) > 0.9
    lengths = [row["upd_norm"] for row in rows[1:]]
    assert lengths == sorted(lengths, reverse=True)


def test_the_average_of_the_last_three_is_a_model(
    trained: Path, losses: list[float], tmp_path: Path
) -> None:
    out = tmp_path / "average.dsckpt"
    tools.run("average", [str(trained), "--last", "3", "-o", str(out)])
    state = dsckpt.load(out)
    last = dsckpt.Trajectory(trained)["model/layers.1.linear1.weight"][-3:]
    expected = last.astype(np.float64).mean(0).astype(np.float32)
    np.testing.assert_array_equal(state["model"]["layers.1.linear1.weight"].numpy(), expected)
    with torch.no_grad():
        assert loss_of(_loaded(state["model"])).item() < max(losses[-3:])


def test_a_checkpoint_of_the_run_goes_on(trained: Path) -> None:
    state = dsckpt.load(f"{trained}@latest")
    model = _loaded(state["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer.load_state_dict(state["optimizer"])
    loss = loss_of(model)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    with torch.no_grad():
        assert loss_of(model) < loss.item()
