"""Measures whole commands as cold processes, on the large store, against a bare interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from measures.figures import Figure, median
from measures.growth import LargeStore

RUNS = 25


def measure(large: LargeStore) -> list[Figure]:
    holdfast = str(Path(sys.executable).parent / "holdfast")
    commands = {
        "bare": [sys.executable, "-I", "-S", "-c", "pass"],
        "--version": [holdfast, "--version"],
        "--help": [holdfast, "--help"],
        "completion": [holdfast, "completion", "bash"],
        "status": [holdfast, "status"],
        "status --json": [holdfast, "status", "--json"],
        "history --search": [holdfast, "history", "--search", "retry snapshot module7"],
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["HOLDFAST_HOME"] = str(large.home)
    seconds_by_name: dict[str, list[float]] = {name: [] for name in commands}
    for run in range(RUNS + 2):
        for name, command in commands.items():
            begin = time.perf_counter()
            process = subprocess.run(command, cwd=large.project, env=environment, capture_output=True, check=False)
            if run >= 2:  # the first ones fill caches, compiled modules among them
                seconds_by_name[name].append(time.perf_counter() - begin)
            if process.returncode:
                raise SystemExit(f"{name} failed: {process.stderr.decode()}")
    bare = median(seconds_by_name["bare"])
    limits = {
        "--version": 3,
        "--help": 3.5,
        "completion": 3.5,
        "status": 8,
        "status --json": 8,
        "history --search": 10,
    }
    return [
        Figure(
            f"cold: {name} against a bare interpreter", median(seconds_by_name[name]) / bare, f"≤ {limit}",
            f"{median(seconds_by_name[name]) * 1e3:.1f} ms, bare {bare * 1e3:.1f} ms",
        )
        for name, limit in limits.items()
    ]  # fmt: skip
