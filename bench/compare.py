#!/usr/bin/env python3
"""Saves and loads one state with what PyTorch users have and with dsckpt, in turn; prints tables.

Three times a save, medians over the runs:

  blocked   until the call returns (dsckpt: with the fence of an update right behind it)
  captured  until the state may change: all of it has been read
  durable   until it is on storage, synced

The first round does not count: it pins memory, compiles and allocates. Every candidate writes to
the same directory, and nothing else may use the disk, the cores or the GPU meanwhile. The bare
write loop is the limit: the same number of bytes, written from memory that is there.

  compare.py --bytes 4G --dir /some/disk --plot compare.png
  compare.py --device cuda --bytes 9G --bench build/portable/bench/dsckpt_bench
  compare.py --load --bytes 4G          loads instead, page cache warm
  compare.py --overhead                 what Python costs a tensor
  compare.py --analysis                 numbers about checkpoints, beside safetensors and NumPy

Needs torch, safetensors and the package dsckpt (installed, or python/ of a build in PYTHONPATH).
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from typing import Any

try:
    import torch
    from comparing import analysing, loading, many, overhead, report, saving, state

    import dsckpt
except ImportError as error:
    sys.exit(f"compare.py: {error}: install dsckpt and: python3 -m pip install torch safetensors")


def parse_bytes(text: str) -> int:
    """ "4G" and the like."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def compare_saves(tensors: dict[str, torch.Tensor], options: Any) -> tuple[report.Table, set[str]]:
    """Medians of each candidate that works, and the names of those that do not."""
    samples: dict[str, list[saving.Times]] = {}
    failed: set[str] = set()
    path = os.path.join(options.dir, "compare.tmp")
    ways = saving.ways(tensors, options)
    for turn in range(options.runs + 1):
        for name, save in ways.items():
            if name in failed:
                continue
            state.settle(path)
            state.synchronize(options.device)
            try:
                times = save(path)
            except Exception as error:  # What one cannot do must not hide the others.
                print(f"compare.py: {name}: {type(error).__name__}: {error}", file=sys.stderr)
                failed.add(name)
                continue
            finally:
                state.settle(path)
            # At once: a run that is stopped keeps what it has measured.
            print(f"run {turn}, {name}: " + ", ".join(f"{t:.4f}" for t in times), file=sys.stderr)
            if turn > 0:
                samples.setdefault(name, []).append(times)
    table = report.Table("Saving", ["blocked", "captured", "durable"])
    for name, each_run in samples.items():
        table.add(name, [state.median(run[i] for run in each_run) for i in range(3)])
    table.reference = "dsckpt.save" if options.device == "cpu" else "dsckpt.AsyncWriter"
    return table, failed


def parse_options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the state")
    parser.add_argument(
        "--bytes", type=parse_bytes, help="of the state (4G); with --analysis of a run (512M)"
    )
    parser.add_argument(
        "--equal-bytes", type=parse_bytes, default="4G", help="--analysis: of two equal checkpoints"
    )
    parser.add_argument("--tensors", type=int, default=400)
    parser.add_argument("--runs", type=int, default=3, help="rounds that count")
    parser.add_argument("--dir", default=".", help="where the files go; a disk, not a tmpfs")
    parser.add_argument(
        "--pool", type=parse_bytes, help="staging memory of dsckpt; default: 1G, cuda: the state's"
    )
    parser.add_argument("--only", default="", help="only candidates whose names contain this")
    parser.add_argument("--bench", help="dsckpt_bench built with CUDA: a row of C++ (cuda only)")
    parser.add_argument("--load", action="store_true", help="compare loads instead of saves")
    parser.add_argument("--overhead", action="store_true", help="time calls with little to copy")
    parser.add_argument("--analysis", action="store_true", help="compare numbers of checkpoints")
    parser.add_argument("--plot", metavar="PNG", help="draw the tables, with matplotlib")
    options = parser.parse_args()
    options.dir = os.path.abspath(options.dir)
    if options.bytes is None:
        options.bytes = 512 << 20 if options.analysis else 4 << 30
    if options.pool is None:
        options.pool = 1 << 30 if options.device == "cpu" else options.bytes + (64 << 20)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("compare.py: PyTorch finds no GPU here")
    return options


def main() -> int:
    options = parse_options()
    # DefaultStager keeps a file open for each tensor, more than the usual limit allows.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    failed: set[str] = set()
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{where}, PyTorch {torch.__version__}, dsckpt {dsckpt.__version__}", end="")
    if options.overhead:
        tables = overhead.compare(options)
        print(f". Medians of {options.runs}.\n")
    elif options.analysis:
        print(f": a run of {options.bytes / 1e6:.0f} MB, half of it BF16, page cache warm.")
        many.compare(options)
        tables = analysing.compare(options)
        print(f"Medians of {options.runs}; in brackets: times that of the command.\n")
    else:
        tensors = state.mixed_tensors(options.bytes, options.tensors, options.device)
        payload = state.payload_bytes(tensors)
        print(f": {payload / 1e9:.2f} GB in {len(tensors)} tensors.", end=" ", flush=True)
        if options.load:
            tables = loading.compare(tensors, options)
        else:
            table, failed = compare_saves(tensors, options)
            tables = [table]
        print(f"Medians of {options.runs}; in brackets: times that of {tables[0].reference}.\n")
    print("\n".join(table.markdown() for table in tables))
    if options.plot:
        report.plot(tables, options.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
