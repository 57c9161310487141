"""Whole commands as cold processes, on the large store, against a bare interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from measures.figures import Figure, median
from measures.growth import Large

RUNS = 25


def measure(large: Large) -> list[Figure]:
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
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for run in range(RUNS + 2):
        for name, command in commands.items():
            begin = time.perf_counter()
            done = subprocess.run(command, cwd=large.project, env=environment, capture_output=True, check=False)
            if run >= 2:  # the first ones fill caches, compiled modules among them
                taken[name].append(time.perf_counter() - begin)
            if done.returncode:
                raise SystemExit(f"{name} failed: {done.stderr.decode()}")
    bare = median(taken["bare"])
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
            f"cold: {name} against a bare interpreter", median(taken[name]) / bare, f"≤ {limit}",
            f"{median(taken[name]) * 1e3:.1f} ms, bare {bare * 1e3:.1f} ms",
        )
        for name, limit in limits.items()
    ]  # fmt: skip
