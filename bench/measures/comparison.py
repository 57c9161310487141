"""Measures the comparison of a work tree of 50,000 files at the end of a turn, against `git status` there.

Both take turns. In each turn a command changes a file, and every second change is committed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from holdfast import Keeper
from holdfast.sessions.changes.compare import compare_due
from holdfast.workspace import spool
from measures.figures import Figure, median

FILES = 50_000
_FILES_PER_DIRECTORY = 250
RUNS = 11


def measure(scratch: Path) -> list[Figure]:
    tree = scratch / "large"
    _make(tree)
    home = scratch / "large-home"
    status: list[float] = []
    compared: list[float] = []
    for number in range(RUNS):
        _spool_payload(home, tree, "UserPromptSubmit", number, prompt=f"Change number {number}")
        with Keeper.open(str(tree), home=str(home)) as keeper:
            keeper.collect()
            compare_due(keeper)
        (tree / "d7" / "f7.txt").write_text(f"changed {number}\n")
        if number % 2:
            _git(tree, "commit", "-qam", f"Change {number}")
        call = {"tool_name": "Bash", "tool_input": {"command": "sed -i f7"}, "tool_use_id": f"u{number}"}
        _spool_payload(home, tree, "PostToolUse", number, **call)
        _spool_payload(home, tree, "Stop", number, last_assistant_message=f"Done {number}")
        begin = time.perf_counter()
        _git(tree, "status", "--porcelain", "--untracked-files=all")
        status.append(time.perf_counter() - begin)
        with Keeper.open(str(tree), home=str(home)) as keeper:
            keeper.collect()
            begin = time.perf_counter()
            compare_due(keeper)
            compared.append(time.perf_counter() - begin)
    with Keeper.open(str(tree), home=str(home)) as keeper:
        document = keeper.session().document()
    changes = sum(change.by == "command" for change in document.files)
    detail = f"{median(compared) * 1000:.0f} ms against {median(status) * 1000:.0f} ms"
    return [
        Figure(f"comparing {FILES:,} files against git status", median(compared) / median(status), "≤ 2", detail),
        Figure("the slowest of them, seconds", max(compared), "≤ 1"),
        Figure("changes by commands that are on record", changes, f"= {RUNS}"),
        Figure("commits that are on record", len(document.commits), f"= {RUNS // 2}"),
    ]  # fmt: skip


def _make(tree: Path) -> None:
    for number in range(FILES // _FILES_PER_DIRECTORY):
        (tree / f"d{number}").mkdir(parents=True)
        for other in range(_FILES_PER_DIRECTORY):
            (tree / f"d{number}" / f"f{other}.txt").write_text(f"{number} {other}\n")
    _git(tree, "init", "-q")
    _git(tree, "add", ".")
    _git(tree, "commit", "-qm", "Begin")
    _git(tree, "status", "--porcelain")  # the index knows the files' times from now on


def _git(tree: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "gc.auto=0")
    subprocess.run(["git", *identity, *words], cwd=tree, check=True, capture_output=True)


def _spool_payload(home: Path, tree: Path, event: str, number: int, **fields: object) -> None:
    payload = {"session_id": "talk", "cwd": str(tree), "hook_event_name": event, "prompt_id": f"p{number}", **fields}
    spool.add_payload(str(home), "claude", "user", os.getpid(), json.dumps(payload).encode())
    time.sleep(0.02)
