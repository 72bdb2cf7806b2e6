"""Many checkpoints of a run as one thing."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsckpt
from dsckpt import tools


def _weights(step: int) -> dict[str, Any]:
    return {
        "layers": [
            {"up": np.full((3, 4), step, np.float32), "down": np.full(6, 7, np.float32)},
            {"up": np.arange(4).astype(ml_dtypes.bfloat16) + step},
        ]
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in (20, 0, 10):
        path = tmp_path / "run" / f"step{step}.dsckpt"
        path.parent.mkdir(exist_ok=True)
        dsckpt.save(_weights(step), path, attributes={"step": step, "loss": 1 / (step + 1)})
    return tmp_path / "run"


def _digest(path: Path, name: str) -> str:
    with dsckpt.open(path) as file:
        found = file.digest(name)
    assert found is not None
    return found


def test_what_indexes_say(run: Path) -> None:
    trajectory = dsckpt.Trajectory(run)
    assert trajectory.steps == [0, 10, 20]
    assert trajectory.paths[1] == str(run / "step10.dsckpt")
    assert trajectory.names == ["layers/0/down", "layers/0/up", "layers/1/up"]
    assert trajectory.attributes[2] == {"step": 20, "loss": 1 / 21}
    assert trajectory.skipped == []
    sizes = sum(path.stat().st_size for path in run.iterdir())
    assert 0 < trajectory.index_bytes <= sizes
    assert "layers/0/up" in trajectory
    assert "layers/9/up" not in trajectory
    with pytest.raises(KeyError):
        trajectory["layers/9/up"]


def test_digests_are_an_array(run: Path) -> None:
    trajectory = dsckpt.Trajectory(run)
    digests = trajectory.digests("layers/0/*")
    assert trajectory.matching("layers/0/*") == ["layers/0/down", "layers/0/up"]
    assert digests.shape == (3, 2)
    assert digests.dtype == np.dtype("V16")
    assert (digests[:, 0] == digests[0, 0]).all()
    assert len(set(digests[:, 1].tolist())) == 3
    assert digests[1, 1].tobytes().hex() == _digest(run / "step10.dsckpt", "layers/0/up")
    tree = subprocess.run(
        [tools.program(), "hash", "--tree", run / "step10.dsckpt"], capture_output=True, text=True
    )
    assert trajectory.tree_digests[1] == tree.stdout[:32]


def test_a_tensor_over_the_steps(run: Path) -> None:
    up = dsckpt.Trajectory(run)["layers/0/up"]
    assert len(up) == 3
    assert up.shape == (3, 4)
    assert up.dtype == "F32"
    assert up.forms == 1
    assert up[1].tolist() == [[10.0] * 4] * 3
    assert up[-1][0, 0] == 20
    assert up[2, 1:, 0].tolist() == [20, 20]
    assert up[:, 0, :2].tolist() == [[0, 0], [10, 10], [20, 20]]
    assert up.at(step=20)[0, 0] == 20
    assert [(step, float(x[0, 0])) for step, x in up] == [(0, 0), (10, 10), (20, 20)]
    assert not up[0].flags.owndata
    assert not up[0].flags.writeable
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            up[wrong]
    with pytest.raises(KeyError):
        up.at(step=5)
    small = dsckpt.Trajectory(run)["layers/1/up"]
    assert small[1].dtype == ml_dtypes.bfloat16
    assert small[1].tolist() == [10, 11, 12, 13]


def test_views_outlive_the_trajectory(run: Path) -> None:
    values = dsckpt.Trajectory(run, max_open_files=1)["layers/0/up"][2]
    (run / "step20.dsckpt").unlink()
    assert (values == 20).all()


def test_lists_patterns_and_steps(run: Path, tmp_path: Path) -> None:
    assert dsckpt.Trajectory(f"{run}/step[12]*.dsckpt").steps == [10, 20]
    assert dsckpt.Trajectory([f"{run}@20", f"{run}@-3"]).steps == [0, 20]
    given = dsckpt.Trajectory({7: run / "step0.dsckpt", 3: run / "step20.dsckpt"})
    assert given.steps == [3, 7]
    assert given["layers/0/up"][0][0, 0] == 20
    with pytest.raises(dsckpt.DsckptError, match="no path matches"):
        dsckpt.Trajectory(f"{tmp_path}/nothing*")
    with pytest.raises(dsckpt.DsckptError, match="next to it are 10 and 20"):
        dsckpt.Trajectory([f"{run}@15"])


def test_plain_safetensors_have_no_digests(run: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for step in (1, 2):
        dsckpt.save_safetensors({"x": np.full(3, step)}, plain / f"model-step{step}.safetensors")
    trajectory = dsckpt.Trajectory(plain)
    assert trajectory.steps == [1, 2]
    assert trajectory.tree_digests == [None, None]
    assert not np.frombuffer(trajectory.digests().tobytes(), np.uint8).any()
    assert [x.tolist() for _, x in trajectory["x"]] == [[1] * 3, [2] * 3]


def test_a_tensor_that_some_lack(run: Path) -> None:
    dsckpt.save({"more": np.zeros(2)}, run / "step30.dsckpt", attributes={"step": 30})
    trajectory = dsckpt.Trajectory(run)
    assert [step for step, _ in trajectory["more"]] == [30]
    with pytest.raises(KeyError, match="has no tensor 'more'"):
        trajectory["more"][0]
    kinds = [(event.kind, event.step, event.name) for event in trajectory.events()]
    assert ("added", 30, "more") in kinds
    assert ("removed", 30, "layers/0/up") in kinds


def test_events_and_the_document_of_trace(run: Path) -> None:
    events = dsckpt.Trajectory(run).events()
    assert [(event.kind, event.name) for event in events] == [("frozen", "layers/0/down")]
    document = dsckpt.trace(run, exclude="*/down")
    assert document["events"] == []
    assert [row["name"] for row in document["rows"]] == ["layers/0/up"] * 3 + ["layers/1/up"] * 3
    assert document["steps"][1]["changed"] == 2


def test_functions_take_checkpoints_of_a_run(run: Path, tmp_path: Path) -> None:
    assert dsckpt.inspect(f"{run}@10")["path"] == str(run / "step10.dsckpt")
    assert dsckpt.verify(f"{run}@-1").ok
    dsckpt.merge(f"{run}@latest", tmp_path / "one.dsckpt")
    with dsckpt.open(tmp_path / "one.dsckpt") as file:
        assert file["layers/0/up"].numpy()[0, 0] == 20


@pytest.fixture
def moving(tmp_path: Path) -> tuple[Path, dict[str, list[np.ndarray[Any, Any]]]]:
    """A run, and what its tensors are in each of its checkpoints."""
    random = np.random.default_rng(1)
    seen: dict[str, list[np.ndarray[Any, Any]]] = {}
    weights = {name: random.standard_normal((40, 30)) for name in ("l.0.up", "l.1.up", "l.1.down")}
    for k, step in enumerate((0, 10, 30, 35)):
        state: dict[str, Any] = {"frozen": np.arange(5.0)}
        for name, values in weights.items():
            weights[name] = values + 0.01 * random.standard_normal(values.shape)
            state[name] = weights[name].astype(np.float32)
        state["l.0.up"] = state["l.0.up"].astype(ml_dtypes.bfloat16)
        if k >= 2:
            state["l.1.up"][3, 4] = np.nan
        for name, values in state.items():
            seen.setdefault(name, []).append(values.copy())
        path = tmp_path / "moving" / f"step{step}.dsckpt"
        path.parent.mkdir(exist_ok=True)
        dsckpt.save(state, path, attributes={"step": step})
    return tmp_path / "moving", seen


def _finite(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = values.astype(np.float64).ravel()
    return wide[np.isfinite(wide)]


def test_stats_are_those_of_numpy(moving: Any) -> None:
    path, seen = moving
    table = dsckpt.Trajectory(path).stats()
    assert table.names[:8] == ["step", "name", "group", "layer", "dtype", "n", "n_finite", "nan"]
    assert "upd_norm" not in table
    assert table["name"].tolist() == [name for name in sorted(seen) for _ in range(4)]
    assert table["step"].tolist() == [0, 10, 30, 35] * 4
    assert table["layer"].tolist() == [None] * 4 + [0] * 4 + [1] * 8
    assert (
        table["group"].tolist()
        == ["frozen"] * 4 + ["l.#.up"] * 4 + ["l.#.down"] * 4 + ["l.#.up"] * 4
    )
    values = [seen[name][t] for name in sorted(seen) for t in range(4)]
    assert table["nan"].tolist() == [np.isnan(x.astype(float)).sum() for x in values]
    finite = [_finite(x) for x in values]
    assert table["max"].tolist() == [x.max() for x in finite]
    np.testing.assert_allclose(table["mean"], [x.mean() for x in finite], rtol=1e-12)
    np.testing.assert_allclose(table["std"], [x.std() for x in finite], rtol=1e-12)
    np.testing.assert_allclose(table["norm"], [np.linalg.norm(x) for x in finite], rtol=1e-12)


def _expected_update(before: Any, after: Any) -> tuple[float, float, float]:
    """The norm of the update, 1 - cos of the angle, the share of changed elements."""
    a, b = before.astype(np.float64).ravel(), after.astype(np.float64).ravel()
    both = np.isfinite(a) & np.isfinite(b)
    changed = float((before.view(f"u{before.itemsize}") != after.view(f"u{after.itemsize}")).mean())
    a, b = a[both], b[both]
    angle = 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    return float(np.linalg.norm(b - a)), float(angle), changed


def test_updates_are_those_of_numpy(moving: Any) -> None:
    path, seen = moving
    table = dsckpt.Trajectory(path).updates("l.*")
    assert table["prev_step"].tolist() == [None, 0, 10, 30] * 3
    for i, name in enumerate(("l.0.up", "l.1.down", "l.1.up")):
        rows = {key: table[key][4 * i : 4 * i + 4] for key in table}
        assert math.isnan(rows["upd_norm"][0])
        assert rows["dist_init"][0] == 0
        for t, gap in ((1, 10), (2, 20), (3, 5)):
            norm, angle, changed = _expected_update(*seen[name][t - 1 : t + 1])
            before = np.linalg.norm(_finite(seen[name][t - 1]))
            assert rows["upd_norm"][t] == pytest.approx(norm, rel=1e-12)
            assert rows["upd_per_step"][t] == pytest.approx(norm / gap, rel=1e-12)
            assert rows["upd_ratio"][t] == pytest.approx(norm / before, rel=1e-3)
            assert rows["angle_prev"][t] == pytest.approx(angle, rel=1e-6)
            assert rows["changed"][t] == pytest.approx(changed)
        moves = np.diff(np.stack(seen[name]).astype(np.float64), axis=0).reshape(3, -1)
        moves = moves[:, np.isfinite(moves).all(axis=0)]
        cosine = moves[1] @ moves[0] / np.linalg.norm(moves[1]) / np.linalg.norm(moves[0])
        assert rows["cos_prev"][2] == pytest.approx(cosine, rel=1e-9)
        assert np.isnan(rows["cos_prev"][:2]).all()
    assert table["flags"].tolist() == [0] * 12
    frozen = dsckpt.Trajectory(path).updates("frozen")
    assert frozen["flags"].tolist() == [0, 4, 4, 4]
    assert frozen["same_as_step"].tolist() == [None, 0, 0, 0]
    assert len(set(frozen["digest"].tolist())) == 1


def test_groups_are_sums(moving: Any) -> None:
    path, _ = moving
    run = dsckpt.Trajectory(path)
    layers = run.updates(by="layer")
    assert layers["name"].tolist() == ["frozen"] * 4 + ["l.0"] * 4 + ["l.1"] * 4
    assert layers["layer"].tolist() == [None] * 4 + [0] * 4 + [1] * 4
    single = run.updates("l.1.*")
    for column in ("norm", "upd_norm", "dist_init"):
        squares = single[column].reshape(2, 4) ** 2
        np.testing.assert_allclose(layers[column][8:], np.sqrt(squares.sum(axis=0)), rtol=1e-12)
    assert layers["n"][8:].tolist() == [2400] * 4
    assert np.isnan(layers["cos_prev"][8:10]).all()
    assert run.stats(by="all")["dtype"].tolist() == ["mixed"] * 4
    assert run.stats(by="dtype")["name"].tolist() == ["BF16"] * 4 + ["F32"] * 4 + ["F64"] * 4
    assert run.stats(by="pattern")["name"].tolist()[4:] == ["l.#.down"] * 4 + ["l.#.up"] * 4
    assert run.stats(by="module")["name"].tolist()[4:] == ["l.#"] * 4
    with pytest.raises(dsckpt.DsckptError, match="by is one of tensor, pattern"):
        run.stats(by="layers")


def test_against_another_checkpoint(moving: Any) -> None:
    path, _ = moving
    run = dsckpt.Trajectory(path)
    first = run.updates("l.1.down", against="init")
    assert first["prev_step"].tolist()[1:] == [0, 0, 0]
    np.testing.assert_array_equal(first["upd_norm"][1:], first["dist_init"][1:])
    assert run.updates("l.1.down", against=0) == first
    assert run.updates(against="final") == run.updates(against=35)
    with pytest.raises(KeyError, match="no checkpoint of step 7"):
        run.updates(against=7)
    with pytest.raises(dsckpt.DsckptError, match="'prev', 'init', 'final' or a step"):
        run.updates(against="first")


def test_parts_have_the_bits_of_one_process(moving: Any, monkeypatch: Any) -> None:
    path, _ = moving
    monkeypatch.chdir(path.parent)
    run = dsckpt.Trajectory("moving")
    whole = run.updates(threads=2)
    for n in (1, 3, 9):
        parts = pickle.loads(pickle.dumps(run.parts(n)))
        assert len(parts) == n
        assert sorted(name for part in parts for name in part.names) == run.names
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            tables = [dsckpt.trace_part(part) for part in reversed(parts)]
        combined = dsckpt.combine(pickle.loads(pickle.dumps(tables)))
        assert combined == whole
        assert pickle.dumps(combined) == pickle.dumps(whole)
    some = run.parts(2, "l.1.*", against="init")
    assert dsckpt.combine([dsckpt.trace_part(part) for part in some]) == run.updates(
        "l.1.*", against="init"
    )
    assert all(len(dsckpt.trace_part(part)) == 0 for part in run.parts(2, "nothing"))


def test_a_part_of_a_run_that_has_changed(moving: Any) -> None:
    path, _ = moving
    part = dsckpt.Trajectory(path).parts(1)[0]
    assert part.steps == (0, 10, 30, 35)
    with pytest.raises(dsckpt.DsckptError, match="not those of the part"):
        dsckpt.trace_part(dataclasses.replace(part, steps=(0, 10, 30, None)))
    with pytest.raises(KeyError, match="no tensor 'x'"):
        dsckpt.trace_part(dataclasses.replace(part, names=("x",)))
    (path / "step35.dsckpt").unlink()
    with pytest.raises(dsckpt.DsckptError):
        dsckpt.trace_part(part)


def test_parts_of_a_run_without_steps(tmp_path: Path) -> None:
    for name in "ba":
        dsckpt.save({"x": np.array([1.0, ord(name)])}, tmp_path / f"{name}.dsckpt")
    run = dsckpt.Trajectory([tmp_path / "b.dsckpt", tmp_path / "a.dsckpt"])
    assert run.steps == [None, None]
    tables = [dsckpt.trace_part(part) for part in run.parts(2)]
    assert dsckpt.combine(tables) == run.updates()
    assert tables[0]["step"].mask.all()


def test_a_cache_is_read_instead_of_tensors(moving: Any, tmp_path: Path) -> None:
    path, _ = moving
    run = dsckpt.Trajectory(path)
    whole = run.updates(cache=tmp_path / "cache")
    size = (tmp_path / "cache").stat().st_size
    assert size > 0
    assert run.updates(cache=tmp_path / "cache") == run.updates() == whole
    assert run.stats(cache=tmp_path / "cache") == run.stats()
    assert (tmp_path / "cache").stat().st_size == size
    subprocess.run([tools.program(), "trace", path, "--cache", tmp_path / "b", "-q"], check=True)
    size = (tmp_path / "b").stat().st_size
    assert run.updates(cache=tmp_path / "b") == whole
    assert (tmp_path / "b").stat().st_size == size
    (tmp_path / "cache").write_text("nothing of the kind\n")
    with pytest.raises(dsckpt.DsckptError, match="cache"):
        run.updates(cache=tmp_path / "cache")


def test_events_from_elements(moving: Any) -> None:
    path, _ = moving
    run = dsckpt.Trajectory(path)
    assert [event.kind for event in run.events()] == ["frozen"]
    found = {event.kind: event for event in run.events(read=True)}
    assert set(found) == {"frozen", "nan"}
    assert found["nan"].name == "l.1.up"
    assert found["nan"].step == 30
    assert found["nan"].value == 1
    assert found["nan"].element == 3 * 30 + 4
    assert run.events("l.0.*", read=True) == []


def test_packed_dtypes_have_rows_without_numbers(tmp_path: Path) -> None:
    for step in (1, 2):
        state = {"a": np.ones(4), "p": np.arange(4, dtype=np.uint8).astype(ml_dtypes.int4)}
        dsckpt.save(state, tmp_path / f"step{step}.dsckpt", attributes={"step": step})
    run = dsckpt.Trajectory(tmp_path)
    if run["p"].dtype != "I4":
        pytest.skip(f"int4 is kept as {run['p'].dtype}")
    table = run.updates()
    assert table["name"].tolist() == ["a", "a", "p", "p"]
    assert table["nan"].tolist() == [0, 0, None, None]
    assert np.isnan(table["norm"][2:]).all()
    assert table["changed"].tolist()[3] == 0
    assert run.updates(by="all")["n"].tolist() == [4, 4]


@pytest.mark.parametrize("by", ["tensor", "pattern", "layer", "module", "dtype", "all"])
def test_the_command_writes_the_same_table(moving: Any, tmp_path: Path, by: str) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path, _ = moving
    out = tmp_path / "trace.arrow"
    subprocess.run([tools.program(), "trace", path, "--by", by, "-o", out], check=True)
    with pyarrow.ipc.open_file(out) as reader:
        written = reader.read_all()
    table = pyarrow.table(dsckpt.Trajectory(path).updates(by=by))
    assert written.schema.equals(table.schema)
    assert written.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("against", ["init", "final", 10])
def test_the_command_compares_with_the_same(moving: Any, against: str | int) -> None:
    path, _ = moving
    command = [tools.program(), "trace", path, "--against", str(against), "--format", "jsonl"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    table = dsckpt.Trajectory(path).updates(against=against)
    columns = [
        [None if isinstance(x, float) and math.isnan(x) else x for x in table[name].tolist()]
        for name in table
    ]
    rows = [dict(zip(table, row)) for row in zip(*columns)]
    assert [json.loads(line) for line in found.stdout.splitlines()] == rows
