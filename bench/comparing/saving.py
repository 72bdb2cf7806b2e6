"""Ways to save one state. Each returns seconds: blocked, captured, durable."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import limit
from .state import as_parameters, payload_bytes, sync_file

Times = tuple[float, float, float]
Way = Callable[[str], Times]
State = dict[str, torch.Tensor]


def ways(state: State, options: Any) -> dict[str, Way]:
    """All candidates by name, in the order of the table."""
    warnings.filterwarnings("ignore", message="torch.distributed is")
    found: dict[str, Way] = {
        "torch.save + fsync": lambda path: _torch_save(state, path),
        "safetensors.torch.save_file + fsync": lambda path: _safetensors_save(state, path),
        "DCP save": lambda path: _dcp_save(state, path),
        "DCP async_save": lambda path: _dcp_async_save(state, path),
        "DCP async_save, DefaultStager": lambda path: _staged_save(state, path, options.device),
    }
    found.update(_own(state, options))
    if options.bench and options.device == "cuda":
        found["dsckpt in C++ (dsckpt_bench)"] = lambda path: _bench_save(options)
    found[limit.NAME] = lambda path: limit.write(path, payload_bytes(state))
    return {name: way for name, way in found.items() if options.only in name}


def _blocking(save: Callable[[str], object], path: str) -> Times:
    """A save that does everything before it returns, but for the sync."""
    start = time.perf_counter()
    save(path)
    returned = time.perf_counter() - start
    sync_file(path)
    return returned, returned, time.perf_counter() - start


def _torch_save(state: State, path: str) -> Times:
    return _blocking(lambda to: torch.save(state, to), path)


def _safetensors_save(state: State, path: str) -> Times:
    from safetensors.torch import save_file

    return _blocking(lambda to: save_file(state, to), path)


def _dcp_save(state: State, path: str, writer: Any = None) -> Times:
    import torch.distributed.checkpoint as dcp

    start = time.perf_counter()
    writer = writer or dcp.FileSystemWriter(path)  # Syncs its files.
    dcp.save(state, storage_writer=writer, checkpoint_id=path, no_dist=True)
    done = time.perf_counter() - start
    return done, done, done


def _dcp_async_save(state: State, path: str, stager: Any = None) -> Times:
    import torch.distributed.checkpoint as dcp

    start = time.perf_counter()
    answer: Any = dcp.async_save(
        state, storage_writer=dcp.FileSystemWriter(path), async_stager=stager, no_dist=True
    )
    captured = returned = time.perf_counter() - start
    if hasattr(answer, "staging_completion"):
        answer.staging_completion.result()
        captured = time.perf_counter() - start
        answer = answer.upload_completion
    answer.result()
    return returned, captured, time.perf_counter() - start


def _staged_save(state: State, path: str, device: str) -> Times:
    # One a save, outside of the time: PyTorch 2.11 empties a stager with its first use.
    stager = _make_stager(device, payload_bytes(state))
    times = _dcp_async_save(state, path, stager)
    stager.close()
    return times


def _make_stager(device: str, total: int) -> Any:
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    if device == "cuda":
        # The default is shared memory; more of it than there is would end the process.
        shared = shutil.disk_usage("/dev/shm").free > total + total // 10
        if not shared:
            print("compare.py: /dev/shm is too small: staged elsewhere", file=sys.stderr)
        return DefaultStager(StagingOptions(use_shared_memory=shared))
    # Pinned memory and copies that do not block need a GPU.
    return DefaultStager(StagingOptions(False, False, True, False))


def _own(state: State, options: Any) -> dict[str, Way]:
    import dsckpt

    writers: dict[str, dsckpt.AsyncWriter] = {}
    model = as_parameters(state.values())

    def writer(key: str, **more: Any) -> dsckpt.AsyncWriter:
        if key not in writers:  # One a process, as programs have it: its pool is pinned once.
            writers[key] = dsckpt.AsyncWriter(pool_bytes=options.pool, **more)
            writers[key].watch(model)
        return writers[key]

    def blocking(path: str) -> Times:
        start = time.perf_counter()
        dsckpt.save(state, path)
        done = time.perf_counter() - start
        return done, done, done

    def behind(path: str) -> Times:
        own = writer("lazy", lazy_cpu=True)
        start = time.perf_counter()
        handle = own.save(state, path)
        own.fence()  # Of an update right behind it; a real one comes after a forward and backward.
        blocked = time.perf_counter() - start
        handle.captured()
        captured = time.perf_counter() - start
        handle.durable()
        return blocked, captured, time.perf_counter() - start

    def planned(path: str) -> Times:
        from dsckpt.dcp import DcpWriter

        return _dcp_save(state, path, DcpWriter(writer=writer("dcp")))

    def planned_behind(path: str) -> Times:
        return _own_async(state, path, writer("dcp"))

    return {
        "dsckpt.save": blocking,
        "dsckpt.AsyncWriter": behind,
        "dsckpt DCP save": planned,
        "dsckpt DCP async_save": planned_behind,
    }


def _own_async(state: State, path: str, engine: Any) -> Times:
    import torch.distributed.checkpoint as dcp

    from dsckpt.dcp import DcpWriter

    own = DcpWriter(writer=engine)
    start = time.perf_counter()
    future: Any = dcp.async_save(state, storage_writer=own, checkpoint_id=path, no_dist=True)
    own.fence()
    blocked = time.perf_counter() - start
    own.wait_captured()
    captured = time.perf_counter() - start
    future.result()
    return blocked, captured, time.perf_counter() - start


def _bench_save(options: Any) -> Times:
    """One measured save, after one that the program makes by itself to warm up."""
    command = [options.bench, "gpu-save", "--only", "gpu", "--json", "--repeat", "1"]
    command += ["--bytes", str(options.bytes), "--tensors", str(options.tensors)]
    command += ["--dir", options.dir]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    seconds = {row["workload"]: row["seconds"] for row in rows}
    blocked = seconds["gpu return"] + seconds["gpu fence at once"]
    return blocked, seconds["gpu capture"], seconds["gpu durable"]
