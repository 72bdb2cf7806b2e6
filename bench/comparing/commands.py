"""Runs a command of dsckpt and says what it took."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Took:
    """What a command took.

    Attributes:
        seconds: From its start to its end.
        processor: Seconds of all its threads, user and system.
        memory: The most that was resident, in bytes, where it was watched; else 0.
        descriptors: The most that were seen open, likewise.
        answer: What it printed as JSON.
    """

    seconds: float
    processor: float
    memory: int
    descriptors: int
    answer: dict[str, Any]


class Failed(Exception):
    """The command ended with an error, which is the text."""


def run(*arguments: str, watch: bool = False) -> Took:
    """Runs a command with --json.

    Args:
        arguments: The command's name and what follows it.
        watch: Whether memory and descriptors are looked at, a thousand times a second.

    Raises:
        Failed: The exit code is neither 0 nor 1, or what was printed is no JSON.
    """
    from dsckpt.tools import program

    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        child = subprocess.Popen([program(), *arguments, "--json"], stdout=printed, stderr=said)
        memory = descriptors = pid = 0
        while watch and pid == 0:
            memory = max(memory, _resident(child.pid))
            descriptors = max(descriptors, _open_in(child.pid))
            time.sleep(0.001)
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if not watch:
            _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        said.seek(0)
        try:
            answer = json.load(printed)
        except ValueError:
            raise Failed(f"dsckpt {arguments[0]}: {said.read().decode().strip()}") from None
        if child.returncode not in (0, 1):
            raise Failed(f"dsckpt {arguments[0]}: {answer.get('message', answer)}")
    return Took(seconds, used.ru_utime + used.ru_stime, memory, descriptors, answer)


def _resident(pid: int) -> int:
    """The most so far: the usage that wait4() tells begins with that of this process."""
    try:
        with open(f"/proc/{pid}/status") as status:
            found = [line.split()[1] for line in status if line.startswith("VmHWM:")]
    except OSError:  # It has ended.
        return 0
    return int(found[0]) * 1024 if found else 0


def _open_in(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # It has ended.
        return 0
