#!/usr/bin/env python3
"""Measures how the tensors of a run move, with workers of Dask, and writes Parquet.

    python3 trace_dask.py runs/a -o updates.parquet                       processes on this machine
    python3 trace_dask.py runs/a -o updates.parquet --scheduler tcp://head:8786

Each worker opens the run and reads its own tensors, so that each byte is read once. The table has
the bits of `dsckpt.Trajectory("runs/a").updates()`, whatever the number of workers is.
"""

from __future__ import annotations

import argparse

import dask.bag
import pyarrow
import pyarrow.parquet
from distributed import Client, LocalCluster

import dsckpt


def measure(client: Client, run: dsckpt.Trajectory, pattern: str) -> dsckpt.Table:
    """One part for each worker: opening the indexes is what a part costs besides reading."""
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    parts = run.parts(workers, pattern)
    bag = dask.bag.from_sequence(parts, npartitions=len(parts))
    return dsckpt.combine(bag.map(dsckpt.trace_part).compute(scheduler=client))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures a run with workers of Dask.")
    parser.add_argument("run", help="a run; all workers see it under this path")
    parser.add_argument("-o", "--output", default="updates.parquet")
    parser.add_argument("--filter", default="*", help="only tensors whose names match")
    parser.add_argument("--scheduler", help="the address of a cluster")
    parser.add_argument("--workers", type=int, default=2, help="without one: how many processes")
    given = parser.parse_args()

    run = dsckpt.Trajectory(given.run)
    cluster = given.scheduler or LocalCluster(
        n_workers=given.workers, threads_per_worker=1, dashboard_address=None
    )
    with Client(cluster) as client:
        table = measure(client, run, given.filter)
    if not given.scheduler:
        cluster.close()
    pyarrow.parquet.write_table(pyarrow.table(table), given.output)
    print(f"{len(table)} rows of {len(run.steps)} checkpoints in {given.output}")


if __name__ == "__main__":
    main()
