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
from dsckpt.errors import DsckptError

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
    # It leaves frozen parameters out at stage 1.
    assert [name for name in ours if case != "zero1" or name != "scale"] == list(theirs)
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


READERS = (
    "all ranks",
    "rank 0",
    "converted",
    "loaded",
    "torch.load",
    "dsckpt.load",
    "dsckpt.Run",
    "dsckpt.Checkpoint",
    "universal",
    "frozen left out",
    "getsize",
    "exists",
    "listdir",
    "walk",
    "glob",
    "open",
    "latest",
    "latest exists",
)


def test_readers_in_the_process_wait_for_the_save_before_them(tmp_path: Path) -> None:
    """No checkpoint is published before somebody waits for it, on rank 0 alone too."""
    cases = ("zero0", "zero1", "zero3")
    assert run("consolidate", tmp_path, *cases, config=OURS) == [0, 0], log_of(
        "consolidate", tmp_path
    )
    for case in cases:
        facts = saw("consolidate", tmp_path, case, 0)["facts"]
        expected = [r for r in READERS if r != "universal" or case != "zero0"]
        assert facts == {**dict.fromkeys(expected, True), "names": facts["names"]}
        assert sorted(facts["names"]) == NAMES
        others = saw("consolidate", tmp_path, case, 1)["facts"]
        assert {value for key, value in others.items() if key != "names"} == {True}


NAMES = [
    "inner.bias",
    "inner.weight",
    "mean",
    "middle.weight",
    "norm.bias",
    "norm.weight",
    "outer.bias",
    "outer.weight",
    "scale",
    "tied.weight",
]
EVERY_WEIGHT = ("zero0", "zero1", "zero2", "zero3", "offload", "zero0-bf16", "zero2-bf16", "moe")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The weights that jobs with DeepSpeed's engine and with ours read after the same steps."""
    folders = {}
    for engine, config in (("theirs", {}), ("ours", OURS)):
        folder = folders[engine] = tmp_path_factory.mktemp(engine)
        cases = (*EVERY_WEIGHT, "pipe")  # It has to be last.
        assert run("keep_weights", folder, *cases, config=config) == [0, 0], log_of(
            "keep_weights", folder
        )
    return folders


@pytest.mark.parametrize("case", EVERY_WEIGHT)
def test_fp32_weights_are_all_of_the_model_as_deepspeed_gives_them(
    kept: dict[str, Path], case: str
) -> None:
    ours = torch.load(kept["ours"] / f"{case}-0.weights")
    theirs = torch.load(kept["theirs"] / f"{case}-0.weights")
    assert_equal(ours["all"], theirs["model"])
    assert_equal(ours["trained"], {n: v for n, v in theirs["model"].items() if n != "scale"})
    for key in ("all", "trained"):
        if isinstance(theirs[key], str):
            assert case.startswith(("zero0", "moe")), theirs[key]  # Which it cannot consolidate.
            continue
        same = {name: value.float() for name, value in theirs[key].items()}
        if case == "zero1" and key == "all":
            assert set(ours[key]) - set(same) == {"scale"}  # Which it leaves out.
            same["scale"] = ours[key]["scale"]
        assert_equal(ours[key], same)


def test_fp32_weights_of_a_pipeline_are_those_of_all_stages(kept: dict[str, Path]) -> None:
    found = torch.load(kept["ours"] / "pipe-0.weights")["all"]
    stages = [torch.load(kept["theirs"] / f"pipe-{rank}.weights")["model"] for rank in range(RANKS)]
    assert_equal(found, {**stages[1], **stages[0]})


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Names, dtypes, shapes and every bit."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype == torch.float32, name
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("validation", ["IGNORE", "WARN", "FAIL"])
def test_every_rank_may_have_a_tag_of_its_own(tmp_path: Path, validation: str) -> None:
    cases = ("zero0", "zero1", "zero3")
    config = {**OURS, "checkpoint": {"tag_validation": validation}}
    assert run("own_tags", tmp_path, *cases, config=config) == [0, 0], log_of("own_tags", tmp_path)
    turn = "refused" if validation == "FAIL" else True
    for case in cases:
        for rank in range(RANKS):
            facts = saw("own_tags", tmp_path, case, rank)["facts"]
            assert facts == {"turn 0": turn, "turn 1": turn, "shared": True, "latest": "shared"}
    if validation != "FAIL":
        assert Checkpoint(tmp_path / "zero1" / "rank-1-1").ranks == 1
        with pytest.raises(DsckptError, match="does not hold what the optimizers"):
            fp32_state_dict(tmp_path / "zero1", "rank-0-1")


def test_child_of_multiprocessing_publishes_what_it_saved(tmp_path: Path) -> None:
    assert run("leave", tmp_path, "zero1", config=OURS) == [0, 0], log_of("leave", tmp_path)
    assert saw("leave", tmp_path, "zero1", 0)["waits"] == 0
    assert (tmp_path / "zero1" / "latest").read_text() == "last\n"
    for tag in ("first", "last"):
        assert Checkpoint(tmp_path / "zero1" / tag).ranks == RANKS


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
@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_fp16_supported(), reason="needs a CPU that has fp16"
)
def test_fp16_resumes_with_the_same_losses(tmp_path: Path) -> None:
    train_and_resume(tmp_path, ("zero2-fp16",), OURS)
    assert same_losses(tmp_path, "zero2-fp16")


@pytest.mark.slow
def test_deepspeed_without_dsckpt_resumes_from_a_stock_copy(tmp_path: Path) -> None:
    cases = ("zero1", "zero2", "zero3", "pipe")
    assert run("train", tmp_path, *cases, config=OURS) == [-9, -9], log_of("train", tmp_path)
    copies = [convert(tmp_path, case) for case in cases]
    assert run("resume", tmp_path, *copies, config={}) == [0, 0], log_of("resume", tmp_path)
    assert [case for case in copies if not same_losses(tmp_path, case)] == []
