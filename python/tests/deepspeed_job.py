"""One rank of a small DeepSpeed job on the CPU. The tests start it; it is no test itself.

Usage: python deepspeed_job.py ACTION DIRECTORY CASE...

A case names how the state is laid out ("zero1", "zero2", "zero3", "offload", "large", "pipe",
"plain"), and a precision where it is not fp32 ("zero2-bf16"); what follows a "+" only names a
directory. ACTION is a function below. Each writes what it saw to `DIRECTORY/ACTION-CASE-RANK.json`.
"""

from __future__ import annotations

import functools
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from deepspeed_models import Experts, Job, Net

STEPS = 6
SAVE_AT = 3
UNIVERSAL_INFO = "universal_checkpoint_info"


def report(action: str, job: Job, folder: Path, **more: Any) -> None:
    """Writes what this rank saw."""
    name = f"{action}-{job.case}-{deepspeed.comm.get_rank()}.json"
    (folder / name).write_text(json.dumps({"losses": job.losses, **more}))


def wait_for(path: Path, seconds: float = 60.0) -> None:
    """Waits until a file stands."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.01)


def weights(job: Job) -> dict[str, torch.Tensor]:
    """Parameters and Adam's first moments in full, copied. Asks all ranks."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    found = {}
    for name, parameter in job.engine.module.named_parameters():
        if parameter.requires_grad:
            found[f"fp32/{name}"] = safe_get_full_fp32_param(parameter).clone()
            moment = safe_get_full_optimizer_state(parameter, "exp_avg")
            found[f"exp_avg/{name}"] = moment.clone()
    return found


def local(job: Job) -> list[torch.Tensor]:
    """This rank's parameters, their fp32 copies and optimizer state, copied."""
    optimizer = job.engine.optimizer
    found = list(job.engine.module.parameters())
    for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"):
        found += getattr(optimizer, name, [])
    for state in getattr(optimizer, "optimizer", optimizer).state.values():
        found += state.values()
    return [tensor.detach().clone() for tensor in found if isinstance(tensor, torch.Tensor)]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """Whether two results of local() agree in every bit."""
    return len(a) == len(b) and all(torch.equal(bits(x), bits(y)) for x, y in zip(a, b))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor. DeepSpeed pads partitions with memory as it was, which may be NaN."""
    return tensor.reshape(-1).view(torch.uint8)


def latest(folder: Path) -> str | None:
    """What `latest` says."""
    path = folder / "latest"
    return path.read_text().strip() if path.exists() else None


def behave(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """What a trainer may do besides saving and going on. Ends without a further step."""
    import datastates

    for case in cases:
        job, home = Job(case, extra), folder / case
        engine, facts = job.engine, {}
        job.step()
        whole, before = weights(job), local(job)
        job.backward()
        engine.save_checkpoint(str(home), client_state=job.client_state())
        engine.step()  # At once: what has not been read by now is about to change.
        job.step()
        facts["trained"] = not same(before, local(job))
        _, client = engine.load_checkpoint(str(home))
        facts["of the call"] = same(before, local(job)) and client["position"] == 2
        facts["latest"] = latest(home)
        job.step()
        facts["pieces"] = pieces_agree(home / str(facts["latest"]), whole)

        engine.save_checkpoint(str(home), tag="aside", save_latest=False)
        datastates.drain()
        facts["aside"] = (home / "aside" / "dsckpt.manifest").exists()
        facts["latest without save_latest"] = latest(home)
        engine.global_steps = 0
        engine.save_checkpoint(str(home), tag="gone back")
        facts["loaded at once"] = Path(engine.load_checkpoint(str(home))[0]).parent.name
        facts["loaded by tag"] = engine.load_checkpoint(str(home), tag="aside")[0] is not None
        facts["latest goes back"] = latest(home)
        saved = local(job)[0]
        job.step()
        found, _ = engine.load_checkpoint(str(home), load_optimizer_states=False)
        facts["weights alone"] = found is not None and torch.equal(saved, local(job)[0])

        odd = {"odd": lambda: None} if deepspeed.comm.get_rank() == 0 else {}
        facts["failure"] = failure_of(functools.partial(fail, engine, home, odd))
        facts["latest after failure"] = latest(home)
        facts["16 bit"] = exported(engine, home)
        for _ in range(2):
            engine.save_checkpoint(str(home), tag="last")
        engine.destroy()
        engine.destroy()
        facts["after destroy"] = latest(home)
        facts["saved twice"] = pieces_agree(home / "last", {})
        report("behave", job, folder, facts=facts)
    job = Job(cases[0], extra)
    job.step()
    job.engine.save_checkpoint(str(folder / "exit"), tag="exit")
    torch.distributed.destroy_process_group()


def fail_at_exit(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Ends before it is known that the last checkpoint cannot be published."""
    job = Job(cases[0], extra)
    job.step()
    if deepspeed.comm.get_rank() == 0:
        obstacle = folder / "exit" / "exit" / "mp_rank_00_model_states.pt" / "in the way"
        obstacle.mkdir(parents=True)
    job.engine.save_checkpoint(str(folder / "exit"), tag="exit")


def pieces_agree(checkpoint: Path, expected: dict[str, torch.Tensor]) -> bool:
    """Whether whole tensors come out of a checkpoint as they were."""
    from dsckpt.checkpoint import Checkpoint

    whole = Checkpoint(checkpoint)
    return all(torch.equal(whole.read(name), value) for name, value in expected.items())


def fail(engine: Any, home: Path, state: dict[str, Any]) -> None:
    """A save that rank 0 cannot do."""
    import datastates

    engine.save_checkpoint(str(home), tag="failed", client_state=state)
    datastates.drain()


def failure_of(call: Callable[[], None]) -> str:
    """The error a call ends with."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def exported(engine: Any, home: Path) -> list[str]:
    """Names in the file that save_16bit_model writes, as torch reads it."""
    engine.save_16bit_model(str(home), "model.bin")
    deepspeed.comm.barrier()
    if engine.zero_optimization_stage() == 3:
        return []
    return sorted(torch.load(home / "model.bin", weights_only=True))


def whole_state(job: Job) -> dict[str, torch.Tensor]:
    """What the model holds, in float32 where it is floating point. Asks all ranks."""
    module, stage = job.engine.module, job.engine.zero_optimization_stage()
    parameters = [p for p in module.parameters() if hasattr(p, "ds_id")]
    with deepspeed.zero.GatheredParameters(parameters, enabled=bool(parameters)):
        state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    if isinstance(module, Experts):
        state = numbered(state)
    elif stage != 0:
        state |= {n.partition("/")[2]: v for n, v in weights(job).items() if n.startswith("fp32/")}
        if "tied.weight" in state:  # named_parameters() has only the first of its names.
            state["tied.weight"] = state["middle.weight"]
    return {name: value.float() for name, value in state.items()}


def numbered(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The state of both ranks' experts, which have numbers of their own on each rank."""
    found: list[Any] = [None, None]
    torch.distributed.all_gather_object(found, state)
    merged = {}
    for rank, part in enumerate(found):
        for name, value in part.items():
            number = re.search(r"deepspeed_experts\.(\d+)", name)
            new = f"deepspeed_experts.{2 * rank + int(number[1])}" if number else ""
            merged[name.replace(number[0], new) if number else name] = value
    return merged


def hold_commits() -> list[Any]:
    """From here on no checkpoint is published before rank 0 waits for it. Returns who waited."""
    from dsckpt.coordinators import StoreCoordinator
    from dsckpt.deepspeed.pending_save import PendingSave
    from dsckpt.deepspeed.service import Service

    awaited, waits = threading.Event(), []
    gather, start, wait = StoreCoordinator.gather, Service.start, PendingSave.wait

    def held_gather(self: Any, key: str, mine: bytes, timeout_seconds: float) -> list[bytes]:
        if self.rank() == 0:
            awaited.wait(60)
        return gather(self, key, mine, timeout_seconds)

    def noted_start(self: Any, request: Any) -> None:
        awaited.clear()
        start(self, request)

    def noted_wait(self: Any) -> None:
        awaited.set()
        waits.append(self)
        wait(self)

    StoreCoordinator.gather = held_gather  # type: ignore[method-assign]
    Service.start = noted_start  # type: ignore[method-assign]
    PendingSave.wait = noted_wait  # type: ignore[method-assign]
    return waits


def agree(found: Any, expected: dict[str, torch.Tensor]) -> bool | str:
    """Whether two state dicts are equal in names, dtypes and every bit; else what is not."""
    if deepspeed.comm.get_rank() != 0:  # A buffer is saved as rank 0 has it.
        found, expected = ({k: v for k, v in d.items() if k != "mean"} for d in (found, expected))
    if set(found) != set(expected):
        return f"names differ: {sorted(set(found) ^ set(expected))}"
    wrong = [
        name
        for name, value in expected.items()
        if found[name].dtype != value.dtype or not torch.equal(found[name], value)
    ]
    return f"other values: {wrong}" if wrong else True


def consolidate(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Saves and reads the weights by every way there is, at once, on rank 0 alone too."""
    from deepspeed.utils import zero_to_fp32 as stock

    import dsckpt

    hold_commits()
    for case in cases:
        job, home = Job(case, extra), folder / case
        engine, facts = job.engine, {}
        for _ in range(2):  # The second time there is a checkpoint before.
            job.step()
            expected = whole_state(job)
            engine.save_checkpoint(str(home))
            facts["all ranks"] = agree(get_fp32(str(home)), expected)
            facts["names"] = list(get_fp32(str(home)))
            job.step()
            expected = whole_state(job)
            engine.save_checkpoint(str(home), tag="again")
            if deepspeed.comm.get_rank() == 0:
                facts["rank 0"] = agree(get_fp32(str(home)), expected)
            job.step()
            expected = whole_state(job)
            engine.save_checkpoint(str(home), tag="again")
            if deepspeed.comm.get_rank() == 0:
                stock.convert_zero_checkpoint_to_fp32_state_dict(
                    str(home), str(folder / f"{case}-out"), max_shard_size=None
                )
                out = folder / f"{case}-out" / "pytorch_model.bin"
                facts["converted"] = agree(torch.load(out, weights_only=True), expected)
            deepspeed.comm.barrier()
            engine.save_checkpoint(str(home), tag="again")
            fresh = Net()
            stock.load_state_dict_from_zero_checkpoint(fresh, str(home))
            facts["loaded"] = agree(
                {name: value.float() for name, value in fresh.state_dict().items()}, expected
            )
            engine.save_checkpoint(str(home), tag="again", client_state={"mark": len(job.losses)})
            name = engine._get_ckpt_name(str(home), "again")
            facts["torch.load"] = torch.load(name, weights_only=False)["mark"] == len(job.losses)
            for key, look in file_looks(home, name):
                deepspeed.comm.barrier()
                if deepspeed.comm.get_rank() == 0:
                    shutil.rmtree(home / "again", ignore_errors=True)
                    (home / "latest").unlink()
                deepspeed.comm.barrier()
                engine.save_checkpoint(str(home), tag="again")
                facts[key] = look()
            engine.save_checkpoint(str(home), tag="again", client_state={"mark": -1})
            facts["dsckpt.load"] = dsckpt.load(name, allow=dsckpt_allowed())["mark"] == -1
            engine.save_checkpoint(str(home), tag="again", client_state={"mark": -2})
            run = dsckpt.Run(home).latest()
            facts["dsckpt.Run"] = run is not None and Path(run.path).name == "again"
            engine.save_checkpoint(str(home), tag=f"first {len(job.losses)}")
            whole = dsckpt.Checkpoint(home / f"first {len(job.losses)}")
            facts["dsckpt.Checkpoint"] = whole.step == engine.global_steps
        job.step()
        expected = whole_state(job)
        engine.save_checkpoint(str(home), tag="again", client_state={UNIVERSAL_INFO: {}})
        if deepspeed.comm.get_rank() == 0 and engine.zero_optimization():
            facts["universal"] = agree(universal(home / "again"), expected)
        without = dsckpt.deepspeed.fp32_state_dict(home, exclude_frozen=True)
        facts["frozen left out"] = set(expected) - set(without) == {"scale"}
        report("consolidate", job, folder, facts=facts)


def keep_weights(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """What zero_to_fp32 and the model itself say after a few steps, right after the save."""
    for case in cases:
        job = Job(case, extra)
        for _ in range(4):
            job.step()
        facts = {"model": whole_state(job)}
        job.engine.save_checkpoint(str(folder / case))
        for key, options in (("all", {}), ("trained", {"exclude_frozen_parameters": True})):
            try:
                found = get_fp32_state_dict_from_zero_checkpoint(str(folder / case), **options)
                facts[key] = dict(found)
            except Exception as error:
                facts[key] = f"{type(error).__name__}: {error}"
        torch.save(facts, folder / f"{case}-{deepspeed.comm.get_rank()}.weights")
        deepspeed.comm.barrier()


def universal(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The weights in what ds_to_universal makes of a checkpoint, and those it does not take."""
    from argparse import Namespace

    from deepspeed.checkpoint import ds_to_universal

    out = checkpoint.with_name("universal")
    options = {
        "input_folder": str(checkpoint),
        "output_folder": str(out),
        "num_extract_workers": 2,
        "num_merge_workers": 2,
        "keep_temp_folder": False,
        "strict": True,
        "inject_missing_state": True,
    }
    ds_to_universal.main(Namespace(**options))
    found = get_fp32(str(checkpoint.parent))
    for file in (out / "zero").glob("*/fp32.pt"):
        state = torch.load(file, weights_only=False)
        value = state["param"] if isinstance(state, dict) else state
        found[file.parent.name] = value.reshape(found[file.parent.name].shape)
    return found


def file_looks(home: Path, name: str) -> list[tuple[str, Callable[[], bool]]]:
    """Ways to look at the files of a checkpoint without reading it."""
    file, folder = Path(name).name, os.path.dirname(name)
    return [
        ("getsize", lambda: os.path.getsize(name) > 0),
        ("exists", lambda: Path(name).exists()),
        ("listdir", lambda: file in os.listdir(folder)),
        ("walk", lambda: any(file in files for _, _, files in os.walk(home))),
        ("glob", lambda: any(path.name == file for path in Path(folder).glob("*.pt"))),
        ("open", lambda: len(Path(name).read_bytes()) > 0),
        ("latest", lambda: (home / "latest").read_text().strip() == "again"),
        ("latest exists", lambda: os.path.isfile(home / "latest")),
    ]


def get_fp32(home: str) -> Any:
    """As a script does that has imported the function before DeepSpeed was set up."""
    return get_fp32_state_dict_from_zero_checkpoint(home)


def dsckpt_allowed() -> tuple[str, ...]:
    """Classes that the files of DeepSpeed hold objects of."""
    from dsckpt.deepspeed.pickle_allowlist import ALLOWED

    return ALLOWED


def leave(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Saves and ends, in a child of multiprocessing, before anything is published."""
    waits = hold_commits()
    for case in cases:
        job = Job(case, extra)
        job.step()
        home = folder / case
        job.engine.save_checkpoint(str(home), tag="first")
        os.makedirs(home / "first", exist_ok=True)  # What is there already is not waited for.
        (home / "notes.txt").write_text(str(os.listdir(home)))
        job.engine.save_checkpoint(str(home), tag="last")
        report("leave", job, folder, waits=len(waits))


def own_tags(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Every rank has a tag of its own, more than once; then they share one again."""
    import datastates

    rank = deepspeed.comm.get_rank()
    for case in cases:
        job, home = Job(case, extra), folder / case
        engine, facts = job.engine, {}
        for turn in range(2):
            job.step()
            tag, mark = f"rank-{rank}-{turn}", {"mark": (rank, turn)}
            try:
                engine.save_checkpoint(str(home), tag=tag, client_state=mark)
            except AssertionError:
                facts[f"turn {turn}"] = "refused"
                continue
            # As torch's engine: `latest` names the tag of rank 0.
            datastates.drain()
            file = next((home / str(latest(home))).glob("*mp_rank_00_model_states.pt"))
            found = torch.load(file, weights_only=False)
            facts[f"turn {turn}"] = found["mark"] == (0, turn)
        job.step()
        before = local(job)
        engine.save_checkpoint(str(home), tag="shared")
        job.step()
        found, _ = engine.load_checkpoint(str(home))
        facts["shared"] = found is not None and same(before, local(job))
        facts["latest"] = latest(home)
        engine.destroy()
        report("own_tags", job, folder, facts=facts)


def train(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Trains through, saving on the way; the processes are killed at the end."""
    for case in cases:
        job = Job(case, extra)
        for _ in range(SAVE_AT):
            job.step()
        job.engine.save_checkpoint(str(folder / case), client_state=job.client_state())
        while len(job.losses) < STEPS:
            job.step()
        report("train", job, folder)
        wait_for(folder / case / "latest")
    deepspeed.comm.barrier()
    os.kill(os.getpid(), signal.SIGKILL)


def resume(cases: list[str], folder: Path, extra: dict[str, Any]) -> None:
    """Continues from what `train` saved."""
    for case in cases:
        job = Job(case, extra)
        path, client = job.engine.load_checkpoint(str(folder / case))
        assert path is not None, "nothing was loaded"
        for _ in range(STEPS - SAVE_AT):
            job.step()
        report("resume", job, folder, position=client["position"], note=client["note"])


def main() -> None:
    """Runs one action."""
    # Built by a compiler at first use, and not needed for two ranks.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    action, directory, *cases = sys.argv[1:]
    extra = json.loads(os.environ.get("JOB_CONFIG", "{}"))
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    torch.set_num_threads(1)
    globals()[action](cases, Path(directory), extra)


if __name__ == "__main__":
    if sys.argv[1] == "leave":
        child = multiprocessing.get_context("spawn").Process(target=main)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    main()
