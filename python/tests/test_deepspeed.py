"""Two ranks of a DeepSpeed job on the CPU: train, save, kill, resume, and what is in between."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dsckpt.checkpoint import Checkpoint
from dsckpt.convert.deepspeed import from_deepspeed, to_deepspeed
from dsckpt.deepspeed import fp32_state_dict

torch = pytest.importorskip("torch")

# Importing it takes seconds and writes to the terminal: left to the tests that need it.
pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed")

JOB = Path(__file__).with_name("deepspeed_job.py")
RANKS = 2
STEP = "global_step3"
OURS = {"datastates_ckpt": {"host_cache_size": 0.125}}
TIGHT = {"datastates_ckpt": {"host_cache_size": 0.004}}
CASES = ("zero1", "zero2", "zero3", "offload", "pipe")
MORE_CASES = (
    "zero0-bf16",
    "zero1-bf16",
    "zero2-bf16",
    "zero3-bf16",
    "offload-bf16",
    "zero2-fp16",
    "plain",
)


def run(action: str, folder: Path, *cases: str, config: dict[str, Any]) -> list[int]:
    """Runs one action on all ranks; their exit statuses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "JOB_CONFIG": json.dumps(config),
    }
    command = [sys.executable, str(JOB), action, str(folder), *cases]
    ranks = []
    for rank in range(RANKS):
        env = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with open(folder / f"{action}-{rank}.log", "w") as log:
            ranks.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
    try:
        return [rank.wait(timeout=240) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def log_of(action: str, folder: Path) -> str:
    """What the ranks said, for a failed assertion."""
    logs = [folder / f"{action}-{rank}.log" for rank in range(RANKS)]
    return "\n".join(log.read_text()[-3000:] for log in logs)


def saw(action: str, folder: Path, case: str, rank: int) -> dict[str, Any]:
    """What a rank wrote."""
    found: dict[str, Any] = json.loads((folder / f"{action}-{case}-{rank}.json").read_text())
    return found


def train_and_resume(folder: Path, cases: tuple[str, ...], config: dict[str, Any]) -> None:
    """Trains and is killed, then continues, from converted copies as well."""
    assert run("train", folder, *cases, config=config) == [-9, -9], log_of("train", folder)
    copies = [convert(folder, case) for case in cases if case in ("zero2", "zero3")]
    both = sorted((*cases, *copies), key=lambda case: case.startswith("pipe"))  # It has to be last.
    assert run("resume", folder, *both, config=config) == [0, 0], log_of("resume", folder)


def convert(folder: Path, case: str) -> str:
    """A copy in DeepSpeed's own format, as a case."""
    to_deepspeed(folder / case / STEP, folder / f"{case}+stock")
    return f"{case}+stock"


def same_losses(folder: Path, case: str) -> bool:
    """Whether the job that went on and the one that was resumed saw the same losses."""
    whole = case.partition("+")[0]
    return all(
        saw("train", folder, whole, rank)["losses"][3:]
        == saw("resume", folder, case, rank)["losses"]
        for rank in range(RANKS)
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of every case, killed and resumed."""
    folder = tmp_path_factory.mktemp("trained")
    train_and_resume(folder, CASES, OURS)
    return folder


@pytest.mark.parametrize("case", [*CASES, "zero2+stock", "zero3+stock"])
def test_resumed_job_sees_the_same_losses(trained: Path, case: str) -> None:
    assert same_losses(trained, case)
    for rank in range(RANKS):
        found = saw("resume", trained, case, rank)
        assert (found["position"], found["note"]) == (3, ["a", None])


@pytest.mark.parametrize("case", CASES)
def test_checkpoint_has_a_manifest_of_all_ranks(trained: Path, case: str) -> None:
    checkpoint = Checkpoint(trained / case / STEP)
    assert (checkpoint.step, checkpoint.ranks) == (3, RANKS)
    assert {rank for _, rank, _ in checkpoint.shards} == {0, 1}
    assert (trained / case / "latest").read_text() == STEP + "\n"


@pytest.mark.parametrize("case", CASES)
def test_every_logical_tensor_is_covered(trained: Path, case: str) -> None:
    checkpoint = Checkpoint(trained / case / STEP)
    for at, name in enumerate(checkpoint.tensors):
        checkpoint.native.check_coverage(at)
        checkpoint.native.compare_copies(at)
        assert checkpoint.read(name).shape == checkpoint.tensors[name].shape


def test_pipeline_layers_have_the_names_of_their_parameters(trained: Path) -> None:
    tensors = Checkpoint(trained / "pipe" / STEP).tensors
    for name in ("1.weight", "3.bias", "tied_modules.ends.weight"):
        assert f"fp32/{name}" in tensors
        assert f"exp_avg_sq/{name}" in tensors
    assert tensors["module/1.weight"].shape == (9, 7)


@pytest.mark.parametrize("case", ["zero1", "zero2", "zero3", "offload"])
def test_stock_copy_consolidates_as_the_checkpoint_does(trained: Path, case: str) -> None:
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    stock = trained / f"{case}+stock"
    if not stock.exists():
        convert(trained, case)
    theirs = getattr(
        get_fp32_state_dict_from_zero_checkpoint,
        "_dsckpt_original",
        get_fp32_state_dict_from_zero_checkpoint,
    )(str(stock))
    ours = fp32_state_dict(trained / case)
    assert ours is not None
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("case", ["zero1", "zero2", "zero3"])
def test_there_and_back_keeps_every_logical_tensor(
    trained: Path, case: str, tmp_path: Path
) -> None:
    to_deepspeed(trained / case / STEP, tmp_path / "stock")
    back = Checkpoint(from_deepspeed(tmp_path / "stock" / STEP, tmp_path / "back"))
    before = Checkpoint(trained / case / STEP)
    assert back.tensors == before.tensors
    assert back.step == 3
    for name in before.tensors:
        assert torch.equal(back.read(name), before.read(name)), name


@pytest.mark.parametrize("case", ["zero2", "zero3"])
def test_stock_copy_becomes_a_universal_checkpoint(
    trained: Path, case: str, tmp_path: Path
) -> None:
    from argparse import Namespace

    from deepspeed.checkpoint import ds_to_universal

    out = tmp_path / "universal"
    ds_to_universal.main(
        Namespace(
            input_folder=str(trained / f"{case}+stock" / STEP),
            output_folder=str(out),
            num_extract_workers=1,
            num_merge_workers=1,
            keep_temp_folder=False,
            strict=True,
            inject_missing_state=True,
        )
    )
    whole = Checkpoint(trained / case / STEP)
    for kind in ("fp32", "exp_avg", "exp_avg_sq"):
        state = torch.load(out / "zero" / "middle.weight" / f"{kind}.pt", weights_only=False)
        merged = state["param"] if isinstance(state, dict) else state
        assert torch.equal(merged.reshape(11, 11), whole.read(f"{kind}/middle.weight"))


@pytest.fixture(scope="module")
def behaved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the jobs saw that did all that a trainer may do."""
    folder = tmp_path_factory.mktemp("behaved")
    cases = ("large", "zero2", "zero3")
    assert run("behave", folder, *cases, config=TIGHT) == [0, 0], log_of("behave", folder)
    return folder


@pytest.mark.parametrize("case", ["large", "zero2", "zero3"])
@pytest.mark.parametrize("rank", range(RANKS))
def test_trainer_finds_what_it_saved(behaved: Path, case: str, rank: int) -> None:
    facts = saw("behave", behaved, case, rank)["facts"]
    failure = facts.pop("failure")
    exported = facts.pop("16 bit")
    assert facts == {
        "trained": True,
        "of the call": True,
        "latest": "global_step1",
        "pieces": True,
        "aside": True,
        "latest without save_latest": "global_step1",
        "loaded at once": "gone back",
        "loaded by tag": True,
        "latest goes back": "gone back",
        "weights alone": True,
        "latest after failure": "gone back",
        "after destroy": "last",
        "saved twice": True,
    }
    assert "state['odd'] is a function" in failure
    assert exported == [] or {"inner.weight", "tied.weight"} < set(exported)


def test_exit_without_a_further_step_loses_nothing(behaved: Path) -> None:
    assert (behaved / "exit" / "latest").read_text() == "exit\n"
    checkpoint = Checkpoint(behaved / "exit" / "exit")
    assert all(
        checkpoint.read(name).shape == info.shape for name, info in checkpoint.tensors.items()
    )
    assert "has no attribute" not in log_of("behave", behaved)
    assert "Exception ignored" not in log_of("behave", behaved)


@pytest.mark.slow
def test_checkpoint_that_fails_at_the_end_fails_the_process(tmp_path: Path) -> None:
    """C17"""
    assert run("fail_at_exit", tmp_path, "zero1", config=OURS) == [1, 1]
    assert "checkpoint" in log_of("fail_at_exit", tmp_path)
    assert not (tmp_path / "exit" / "latest").exists()


@pytest.mark.slow
def test_other_precisions_resume_with_the_same_losses(tmp_path: Path) -> None:
    train_and_resume(tmp_path, MORE_CASES, OURS)
    assert [case for case in MORE_CASES if not same_losses(tmp_path, case)] == []


@pytest.mark.slow
def test_deepspeed_without_dsckpt_resumes_from_a_stock_copy(tmp_path: Path) -> None:
    cases = ("zero1", "zero2", "zero3", "pipe")
    assert run("train", tmp_path, *cases, config=OURS) == [-9, -9], log_of("train", tmp_path)
    copies = [convert(tmp_path, case) for case in cases]
    assert run("resume", tmp_path, *copies, config={}) == [0, 0], log_of("resume", tmp_path)
    assert [case for case in copies if not same_losses(tmp_path, case)] == []
