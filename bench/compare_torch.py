#!/usr/bin/env python3
"""Saves one GPU state with what PyTorch users have and with dsckpt, in turn, and prints a table.

Three times a save, medians over the rounds:

  blocked   until the call returns (dsckpt: Save() and the fence of an update right behind it)
  captured  until the state may change: all of it has been read
  durable   until it is on storage, synced

The first round does not count: it pins memory, compiles and allocates. Every program writes to the
same directory, and nothing else may use the disk or the GPU meanwhile.

  compare_torch.py --bench build/portable/bench/dsckpt_bench --bytes 9G --dir /some/disk
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"compare_torch.py: {error}: python3 -m pip install torch safetensors numpy")

# As bench/tensors.cc.
WEIGHTS = (4096, 1, 1024, 1, 1024, 4, 256, 16, 64, 1)
DTYPES = ((torch.bfloat16, 2), (torch.float32, 4), (torch.int64, 8))


def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def mixed_tensors(total, count, device):
    """The sizes and dtypes. A tensor each: torch.save would store all of a buffer for each view."""
    weights = [WEIGHTS[i % len(WEIGHTS)] for i in range(count)]
    state = {}
    for i, weight in enumerate(weights):
        dtype, size = DTYPES[i % len(DTYPES)]
        elements = int(weight / sum(weights) * total) // size
        raw = torch.randint(0, 256, (elements * size,), dtype=torch.uint8, device=device)
        state[f"layers.{i:07}.weight"] = raw.view(dtype)
    return state


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def sync_file(path):
    """As a durable save has to: the data, then the directory's entry."""
    for each in (path, os.path.dirname(path) or "."):
        descriptor = os.open(each, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def blocking(save, path):
    """Times of a save that does everything before it returns, but for the sync."""
    start = time.perf_counter()
    save(path)
    returned = time.perf_counter() - start
    sync_file(path)
    return returned, returned, time.perf_counter() - start


def torch_save(state, path):
    return blocking(lambda to: torch.save(state, to), path)


def safetensors_save(state, path):
    from safetensors.torch import save_file

    return blocking(lambda to: save_file(state, to), path)


def async_save(state, path, stager=None):
    """torch.distributed.checkpoint.async_save, with its default staging or with `stager`."""
    import torch.distributed.checkpoint as dcp

    start = time.perf_counter()
    answer = dcp.async_save(
        state,
        storage_writer=dcp.FileSystemWriter(path),  # Syncs its files.
        async_stager=stager,
        no_dist=True,
    )
    captured = returned = time.perf_counter() - start
    if hasattr(answer, "staging_completion"):
        answer.staging_completion.result()
        captured = time.perf_counter() - start
        answer = answer.upload_completion
    answer.result()
    return returned, captured, time.perf_counter() - start


def staged_save(state, path, device):
    # One a save, outside of the time: PyTorch 2.11 empties a stager with its first use.
    stager = make_stager(device, sum(tensor.nbytes for tensor in state.values()))
    times = async_save(state, path, stager)
    stager.close()
    return times


def make_stager(device, total):
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    if device == "cuda":
        # The default is shared memory; more of it than there is would end the process.
        shared = shutil.disk_usage("/dev/shm").free > total + total // 10
        if not shared:
            print("compare_torch.py: /dev/shm is too small: staged elsewhere", file=sys.stderr)
        return DefaultStager(StagingOptions(use_shared_memory=shared))
    # Pinned memory and copies that do not block need a GPU.
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=False,
            use_async_staging=True,
            use_non_blocking_copy=False,
        )
    )


def dsckpt_save(bench, options):
    """One measured save, after one that the program makes by itself to warm up."""
    command = [bench, "gpu-save", "--only", "gpu", "--json", "--repeat", "1"]
    command += ["--bytes", str(options.bytes), "--tensors", str(options.tensors)]
    command += ["--dir", options.dir]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    seconds = {row["workload"]: row["seconds"] for row in rows}
    return (
        seconds["gpu return"] + seconds["gpu fence at once"],
        seconds["gpu capture"],
        seconds["gpu durable"],
    )


def settle(path):
    """Freeing a file's blocks must not count in what is measured next."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
    os.sync()


def measure(state, options):
    """Samples of each candidate that works, by name; names of those that do not."""
    ways = {
        "torch.save": lambda path: torch_save(state, path),
        "safetensors.torch.save_file": lambda path: safetensors_save(state, path),
        "DCP async_save": lambda path: async_save(state, path),
        "DCP async_save, DefaultStager": lambda path: staged_save(state, path, options.device),
    }
    if options.bench:
        ways["dsckpt"] = lambda path: dsckpt_save(options.bench, options)
    samples, failed = {}, set()
    path = os.path.join(options.dir, "compare_torch.tmp")
    for turn in range(options.repeat + 1):
        for name, save in ways.items():
            if name in failed:
                continue
            settle(path)
            synchronize(options.device)
            try:
                times = save(path)
            except Exception as error:  # What one cannot do must not hide the others.
                print(f"compare_torch.py: {name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed.add(name)
                continue
            finally:
                settle(path)
            # At once: a run that is stopped keeps what it has measured.
            print(f"round {turn}, {name}: " + ", ".join(f"{t:.4f}" for t in times), file=sys.stderr)
            if turn > 0:
                samples.setdefault(name, []).append(times)
    return samples, failed


def print_table(samples):
    print("| | blocked | captured | durable |")
    print("| --- | --- | --- | --- |")
    ours = samples.get("dsckpt")
    for name, times in samples.items():
        cells = []
        for i in range(3):
            median = statistics.median(each[i] for each in times)
            cell = f"{median * 1e3:,.1f} ms"
            if ours and times is not ours:
                cell += f" ({median / statistics.median(each[i] for each in ours):,.2f}x)"
            cells.append(cell)
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", help="dsckpt_bench built with CUDA; left out: PyTorch alone")
    parser.add_argument("--bytes", type=parse_bytes, default="9G")
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--dir", default=".", help="where the files go; a disk, not a tmpfs")
    parser.add_argument("--repeat", type=int, default=3, help="rounds that count")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try")
    options = parser.parse_args()
    options.dir = os.path.abspath(options.dir)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("compare_torch.py: PyTorch finds no GPU here")

    # DefaultStager keeps a file open for each tensor, more than the usual limit allows.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    state = mixed_tensors(options.bytes, options.tensors, options.device)
    samples, failed = measure(state, options)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    payload = sum(tensor.nbytes for tensor in state.values())
    print(f"{where}, PyTorch {torch.__version__}: {payload / 1e9:.2f} GB, {len(state)} tensors.")
    print(f"Medians of {options.repeat}; in brackets: times dsckpt's.\n")
    print_table(samples)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
