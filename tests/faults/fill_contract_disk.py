"""Run inside a mount namespace: an `.ai-session/` on a small file system that is filled completely.

Prints as JSON what each attempt reported and everything that was wrong. `test_contract_disk` reads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.core.errors import Failed, HoldfastError
from holdfast.formats.mirror.contract import acknowledgment, feature_dirs, feature_files, history, layout, registry
from holdfast.formats.mirror.contract.check import check_directory
from holdfast.formats.mirror.contract.restore import restore

FIRST, SECOND = "first-2026-11-15", "second-2026-11-15"


def document(name: str, minute: int = 0, words: str = "") -> dict[str, Any]:
    at = f"2026-11-15T10:{minute:02d}:00Z"
    return {
        "state": {
            "version": "1.0", "feature_id": name,
            "current_state": {
                "active_task": None, "model_in_use": "opus", "started_at": "2026-11-15T10:00:00Z",
                "last_updated": at,
            },
        },
        "plan": {
            "feature": {"id": name, "name": "N", "description": words or "D", "created_at": "2026-11-15T10:00:00Z"},
            "phases": [],
        },
        "entry": {
            "feature_id": name, "started_at": "2026-11-15T10:00:00Z", "last_active": at, "status": "active",
        },
    }  # fmt: skip


def fill(disk: Path) -> None:
    with (disk / "fill").open("ab", buffering=0) as file:
        for size in (1 << 16, 4096, 256, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


def visible(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def attempts(root: str, spec: str) -> dict[str, Callable[[], object]]:
    line: dict[str, Any] = {"timestamp": "2026-11-15T10:01:00Z", "command": "x" * 5000,
            "x-holdfast": {"hash": "h", "writer": "w", "seq": 1}}  # fmt: skip
    return {
        "create": lambda: feature_dirs.create(root, document(SECOND)),
        "update": lambda: feature_files.update(root, document(FIRST, 1, "y" * 9000), [line]),
        "register": lambda: registry.put(root, {**document(FIRST, 1)["entry"], "note": "z" * 9000}),
        "acknowledge": lambda: acknowledgment.acknowledge(root, spec, "agent", now=0),
    }


def main() -> None:
    place, options, relief = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)
    spec = place / "spec.md"
    spec.write_text("# Rules\n")
    root = disk / ".ai-session"
    feature_dirs.create(str(root), document(FIRST))
    fill(disk)
    for number in range(1000):
        try:
            (disk / f"fill{number}").touch()
        except OSError:
            break
    before = visible(root)
    reported: dict[str, str] = {}
    wrong: list[str] = []
    for name, attempt in attempts(str(root), str(spec)).items():
        try:
            attempt()
            wrong.append(f"{name} succeeded: the trial tests nothing")
        except HoldfastError as error:
            reported[name] = f"{type(error).__name__} {error.operation} {error.file is not None}"
            if not isinstance(error, Failed):
                wrong.append(f"{name}: {type(error).__name__} {error.message}")
    after = visible(root)
    history_name = f"{FIRST}/history.jsonl"
    if not after.pop(history_name).startswith(before.pop(history_name)) or after != before:
        wrong.append(f"a failed attempt changed something: {sorted(after)}")
    if [name for name in os.listdir(root) if name.startswith(".creating-")]:
        wrong.append("a temporary directory is left")
    subprocess.run(["mount", "-o", f"remount,{relief}", str(disk)], check=True)
    feature_dirs.finish_interrupted(str(root))
    wrong += [finding.detail for finding in check_directory(str(root))]
    for attempt in attempts(str(root), str(spec)).values():
        attempt()
    wrong += restore(str(root), now=0)
    events = [item for _, item in history.read(layout.feature(str(root), FIRST).history) if isinstance(item, dict)]
    if len(events) != 1:
        wrong.append(f"{len(events)} lines in the history")
    print(json.dumps({"said": reported, "wrong": wrong}))


if __name__ == "__main__":
    main()
