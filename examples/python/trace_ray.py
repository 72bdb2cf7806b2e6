#!/usr/bin/env python3
"""Measures how the tensors of a run move, with workers of Ray, and writes Parquet.

    python3 trace_ray.py runs/a -o updates.parquet                        processes on this machine
    python3 trace_ray.py runs/a -o updates.parquet --address auto --workers 64

Each worker opens the run and reads its own tensors, so that each byte is read once. The table has
the bits of `dsckpt.Trajectory("runs/a").updates()`, whatever the number of workers is.
"""

from __future__ import annotations

import argparse

import pyarrow
import pyarrow.parquet
import ray

import dsckpt


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures a run with workers of Ray.")
    parser.add_argument("run", help="a run; all workers see it under this path")
    parser.add_argument("-o", "--output", default="updates.parquet")
    parser.add_argument("--filter", default="*", help="only tensors whose names match")
    parser.add_argument("--address", help="of a cluster")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    given = parser.parse_args()

    run = dsckpt.Trajectory(given.run)
    if given.address:
        ray.init(address=given.address)
    else:
        ray.init(num_cpus=given.workers, include_dashboard=False)
    trace_part = ray.remote(num_cpus=1)(dsckpt.trace_part)
    tables = ray.get([trace_part.remote(part) for part in run.parts(given.workers, given.filter)])
    ray.shutdown()
    table = dsckpt.combine(tables)
    pyarrow.parquet.write_table(pyarrow.table(table), given.output)
    print(f"{len(table)} rows of {len(run.steps)} checkpoints in {given.output}")


if __name__ == "__main__":
    main()
