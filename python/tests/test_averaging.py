"""Averages of checkpoints, inner products and principal components, against NumPy and fsum."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsckpt

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

FLOATS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}


def _state(step: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(7, 33, generator=generator, dtype=torch.float64).to(dtype)
        for name, dtype in FLOATS.items()
    } | {"count": torch.tensor([step])}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Five checkpoints, in a run of dsckpt files."""
    (tmp_path / "run").mkdir()
    for step in range(5):
        dsckpt.save(_state(step), tmp_path / f"run/step{step}", attributes={"step": step})
    return tmp_path / "run"


def _average(states: list[dict[str, Any]], weights: list[float], name: str) -> Any:
    """The weighted mean of each element without any rounding but the last one to double."""
    numbers = [state[name].double().flatten().tolist() for state in states]
    sums = [math.fsum(weight * x for weight, x in zip(weights, column)) for column in zip(*numbers)]
    return torch.tensor([x / math.fsum(weights) for x in sums], dtype=torch.float64)


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, [1.0] * 5),
        ({"last": 3}, [0, 0, 1.0, 1.0, 1.0]),
        ({"weights": [0.5, 0.3, 0.2, -0.25, 0.25]}, [0.5, 0.3, 0.2, -0.25, 0.25]),
        ({"ema": 0.75}, [0.75**4] + [0.25 * 0.75 ** (4 - k) for k in range(1, 5)]),
    ],
)
def test_averages_are_rounded_once_from_exact_sums(
    run: Path, tmp_path: Path, options: dict[str, Any], weights: list[float]
) -> None:
    report = dsckpt.average(run, tmp_path / "out.dsckpt", **options)
    assert report.averaged == len(FLOATS)
    assert report.copied == ("count",)
    assert report.nonfinite == {}
    assert report.path == str(tmp_path / "out.dsckpt")
    total = sum(weights)
    found = [weight for _, _, weight in report.checkpoints]
    assert found == pytest.approx([w / total for w in weights if w != 0 or len(found) == 5])
    # The stock loader of safetensors reads it.
    loaded = safetensors_torch.load_file(tmp_path / "out.dsckpt")
    states = [_state(step) for step in range(5)]
    assert loaded["count"].tolist() == [4]
    for name, dtype in FLOATS.items():
        assert loaded[name].dtype == dtype
        expected = _average(states, weights, name)
        difference = (loaded[name].double().flatten() - expected).abs()
        # Half a step of the dtype at the greatest number, and nothing for doubles.
        step = 0.0 if dtype == torch.float64 else torch.finfo(dtype).eps / 2
        smallest = 0.0 if dtype == torch.float64 else torch.finfo(dtype).smallest_normal
        allowed = expected.abs() * (step + 1e-12) + smallest * step + 1e-15
        assert (difference <= allowed).all(), name


def test_a_moving_average_is_that_of_a_loop(run: Path, tmp_path: Path) -> None:
    dsckpt.average(run, tmp_path / "ema", ema=0.9, dtype="F64", filter="f32")
    moving = _state(0)["f32"].double()
    for step in range(1, 5):
        moving = 0.9 * moving + 0.1 * _state(step)["f32"].double()
    loaded = safetensors_torch.load_file(tmp_path / "ema")
    assert (loaded["f32"] - moving).abs().max() < 1e-15
    assert "bf16" not in loaded


def test_weights_count_in_the_order_of_the_paths(run: Path, tmp_path: Path) -> None:
    paths = [run / "step4", f"{run}@1"]
    report = dsckpt.average(paths, tmp_path / "out", weights=[3, 1])
    assert report.checkpoints == (
        (str(run / "step4"), 4, 0.75),
        (str(run / "step1"), 1, 0.25),
    )
    with dsckpt.open(tmp_path / "out") as file:
        assert file.attributes["step"] == 1
        listed = json.loads(file.attributes["averaged_from"])
    assert [each["step"] for each in listed] == [4, 1]
    assert [each["weight"] for each in listed] == [0.75, 0.25]


def test_plain_safetensors_in_and_out(tmp_path: Path) -> None:
    for step in (1, 2):
        safetensors_torch.save_file(
            {"w": torch.full((3,), float(step))}, tmp_path / f"step{step}.safetensors"
        )
    run = dsckpt.Trajectory(str(tmp_path / "step*.safetensors"))
    seen: list[tuple[int, int]] = []
    report = run.average(
        tmp_path / "out.safetensors", format="safetensors", progress=lambda *p: seen.append(p)
    )
    assert report.bytes == 12
    assert report.read_bytes == 24
    loaded = safetensors_torch.load_file(tmp_path / "out.safetensors")
    assert list(loaded) == ["w"]
    assert loaded["w"].tolist() == [1.5] * 3


def test_what_is_not_finite_is_named(tmp_path: Path) -> None:
    for step, value in enumerate([1.0, math.nan]):
        state = {"x": np.array([value, 2.0]), "y": np.array([math.inf])}
        dsckpt.save(state, tmp_path / f"step{step}", attributes={"step": step})
    run = dsckpt.Trajectory([tmp_path / "step0", tmp_path / "step1"])
    report = run.average(tmp_path / "out")
    assert report.nonfinite == {"x": (1, 0), "y": (0, 1)}
    with pytest.warns(UserWarning, match="3 elements are NaN or infinite"):
        products = run.gram()
    assert products.tolist() == [[5.0, 4.0], [4.0, 4.0]]


def test_errors(run: Path, tmp_path: Path) -> None:
    def fails(code: str, **options: Any) -> str:
        with pytest.raises(dsckpt.DsckptError) as caught:
            dsckpt.average(run, tmp_path / "out", **options)
        assert caught.value.code == code
        assert not (tmp_path / "out").exists()
        return str(caught.value)

    assert "2 numbers for 5" in fails("InvalidArgument", weights=[1, 2])
    fails("InvalidArgument", weights=[1, 1, 1, -3, 0])
    fails("InvalidArgument", ema=1.0)
    fails("InvalidArgument", ema=0.5, weights=[1] * 5)
    fails("InvalidArgument", last=0)
    fails("InvalidArgument", dtype="I8")
    fails("InvalidArgument", format="pt")
    fails("InvalidArgument", filter="none")
    dsckpt.save({"other": np.zeros(2)}, run / "step9", attributes={"step": 9})
    message = fails("Mismatch")
    assert f"'bf16' is not in {run}@9; " in message
    assert "and 3 more" in message
    (tmp_path / "there").write_text("")
    with pytest.raises(dsckpt.DsckptError, match="force=True") as caught:
        dsckpt.average(run, tmp_path / "there", last=1)
    assert caught.value.code == "AlreadyExists"
    dsckpt.average(run, tmp_path / "there", last=1, force=True)


def test_products_of_all_checkpoints(run: Path) -> None:
    trajectory = dsckpt.Trajectory(run)
    vectors = [
        np.concatenate([_state(step)[name].double().flatten().numpy() for name in sorted(FLOATS)])
        for step in range(5)
    ]
    expected = [[math.fsum(a * b) for b in vectors] for a in vectors]
    found = trajectory.gram("{f64,f32,bf16,f16,e4m3,e5m2}")
    assert found.shape == (5, 5)
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    for threads in (1, 2, 7):
        again = trajectory.gram("{f64,f32,bf16,f16,e4m3,e5m2}", threads=threads, memory=1)
        assert again.tobytes() == found.tobytes()
    assert (trajectory.gram("none") == 0).all()


def test_products_leave_out_what_differs_in_form(tmp_path: Path) -> None:
    dsckpt.save({"x": np.ones(2), "y": np.ones(2)}, tmp_path / "step0")
    dsckpt.save({"x": np.ones(2), "y": np.ones(3)}, tmp_path / "step1")
    run = dsckpt.Trajectory([tmp_path / "step0", tmp_path / "step1"])
    with pytest.warns(UserWarning, match="1 tensors left out, 'y' among them: it is F64"):
        assert (run.gram() == 2).all()


def test_principal_components_are_those_of_a_singular_value_decomposition() -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((6, 40)) @ np.diag(1 / np.arange(1, 41)) + 3
    found = dsckpt.principal_components(vectors @ vectors.T)
    centred = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    assert found.coordinates.shape == (6, 5)
    expected = (left * sizes)[:, :5]
    signs = np.sign((expected * found.coordinates).sum(axis=0))
    assert np.abs(found.coordinates - expected * signs).max() < 1e-12
    assert np.abs(found.explained - (sizes**2 / (sizes**2).sum())[:5]).max() < 1e-12
    assert found.coordinates[np.abs(found.coordinates).argmax(axis=0), range(5)].min() > 0
    two = dsckpt.principal_components(vectors @ vectors.T, 2)
    assert (two.coordinates == found.coordinates[:, :2]).all()
    assert two.explained.tolist() == found.explained[:2].tolist()


def test_principal_components_of_a_run_that_stands_still_and_of_nonsense() -> None:
    still = dsckpt.principal_components(np.full((3, 3), 7.0))
    assert (still.coordinates == 0).all()
    assert (still.explained == 0).all()
    for wrong in (np.zeros((2, 3)), np.zeros((0, 0)), np.full((2, 2), math.nan)):
        with pytest.raises(dsckpt.DsckptError, match="square matrix"):
            dsckpt.principal_components(wrong)
