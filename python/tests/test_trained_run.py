"""What a run that was really trained shows, and that nothing is found that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trained_run import EVERY, STEPS, Model, loss_of, train

import dsckpt

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
    assert document["skipped"] == []
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


def test_the_average_of_the_last_three_is_a_model(trained: Path, losses: list[float]) -> None:
    run = dsckpt.Trajectory(trained)
    state = {}
    for name in run.matching("model/*"):
        values = torch.from_numpy(run[name][-3:].copy())
        state[name.removeprefix("model/")] = values.double().mean(0).to(values.dtype)
    with torch.no_grad():
        averaged = loss_of(_loaded(state)).item()
    assert averaged < 1.2 * max(losses[-3:])


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
