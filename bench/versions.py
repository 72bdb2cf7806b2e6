"""Two builds of dsckpt_bench against each other: is a workload slower than it was?

Both run every workload in turn, several times, so that what else happens on the machine meets
both. A row says the median of each, the ratio, and the noise: how far the runs of one build lie
apart, as a share of their median. Exits with 1 where a ratio is above 1 by more than the noise.

    bench/versions.py old/dsckpt_bench new/dsckpt_bench -- save --bytes 4G -- return -- open
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict

Runs = dict[str, list[float]]  # seconds by row


def measure(program: str, workload: list[str], runs: Runs) -> None:
    command = [program, *workload, "--json"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in output.splitlines():
        row = json.loads(line)
        runs[row["workload"]].append(row["seconds"])


def noise(seconds: list[float]) -> float:
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def split(arguments: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "--":
            parts.append([])
        else:
            parts[-1].append(argument)
    return [part for part in parts if part]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="a dsckpt_bench")
    parser.add_argument("new", help="another one")
    parser.add_argument("--runs", type=int, default=3, help="of each build and workload (3)")
    own, workloads = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, workloads = own[:at], split(own[at:])
    options = parser.parse_args(own)
    if not workloads:
        parser.error("no workload: give one or more, each behind --")

    slower = 0
    print("| workload | old, s | new, s | new / old | noise |")
    print("| --- | --- | --- | --- | --- |")
    for workload in workloads:
        old: Runs = defaultdict(list)
        new: Runs = defaultdict(list)
        for _ in range(options.runs):
            measure(options.old, workload, old)
            measure(options.new, workload, new)
        for row, seconds in new.items():
            before, after = statistics.median(old[row]), statistics.median(seconds)
            ratio, apart = after / before, max(noise(old[row]), noise(seconds))
            slower += ratio > 1 + apart
            print(f"| {row} | {before:.6f} | {after:.6f} | {ratio:.3f} | {apart:.3f} |", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
