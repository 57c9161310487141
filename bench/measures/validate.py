"""Measures `validate DIR` of a thousand session files against a process that only reads and parses them.

Both start cold, read every file and decode it with msgspec; Holdfast also finds the files, checks every rule of the
format, and that no key occurs twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from measures.figures import Figure, median

FILES, RUNS = 1_000, 9
_PARSE = """
import os, sys, msgspec
for entry in os.scandir(sys.argv[1]):
    with open(entry.path, "rb") as file:
        msgspec.json.decode(file.read())
"""


def measure(scratch: Path) -> list[Figure]:
    project = scratch / "validated"
    folder = project / ".claude" / "orchestrator-history"
    folder.mkdir(parents=True)
    for number in range(FILES):
        document = session(number)
        (folder / f"{document['session_id']}.json").write_text(json.dumps(document, indent=2))
    commands = {
        "parse": [sys.executable, "-I", "-S", "-c", _without_site(), str(folder)],
        "validate": [str(Path(sys.executable).parent / "holdfast"), "validate", str(project)],
        "validate --json": [str(Path(sys.executable).parent / "holdfast"), "validate", str(project), "--json"],
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["HOLDFAST_HOME"] = str(scratch / "validating-home")
    seconds_by_name: dict[str, list[float]] = {name: [] for name in commands}
    for run in range(RUNS + 2):
        for name, command in commands.items():
            begin = time.perf_counter()
            process = subprocess.run(command, env=environment, capture_output=True, check=False)
            if run >= 2:  # the first ones fill caches, compiled modules among them
                seconds_by_name[name].append(time.perf_counter() - begin)
            if process.returncode:
                raise SystemExit(f"{name} failed: {process.stderr.decode()}{process.stdout.decode()[:500]}")
    parse = median(seconds_by_name["parse"])
    return [
        Figure(
            f"validate: {name} of {FILES:,} files against parsing them", median(seconds_by_name[name]) / parse, "≤ 3",
            f"{median(seconds_by_name[name]) * 1e3:.0f} ms, parsing {parse * 1e3:.0f} ms",
        )
        for name in ("validate", "validate --json")
    ]  # fmt: skip


def _without_site() -> str:
    """The parser's process skips what it does not need, but must find msgspec."""
    import msgspec

    return f"import sys; sys.path.append({str(Path(msgspec.__file__).parent.parent)!r})\n{_PARSE}"


def session(number: int) -> dict[str, object]:
    """A session as one looks after an afternoon's work."""
    day = f"2026-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    agents = [
        {
            "id": f"code-{index}", "type": "code", "task": f"Implement part {index} of the change",
            "status": "complete", "started": f"{day}T10:{index:02d}:00Z", "completed": f"{day}T11:{index:02d}:00Z",
            "result_summary": "Done, with tests", "context_tokens": 1500 + index,
        }
        for index in range(4)
    ]  # fmt: skip
    return {
        "schema_version": "1.0", "session_id": f"{day}-{number:06x}", "created": f"{day}T10:00:00Z",
        "updated": f"{day}T12:45:00Z",
        "project": {"name": "notes", "path": "/home/someone/notes", "git_branch": "dev"},
        "goal": "Add search to the notes", "mode": "default", "status": "in_progress", "agents": agents,
        "completed_work": [{"task": f"Part {n}", "outcome": "works", "files": [f"src/part{n}.py"]} for n in range(4)],
        "pending_tasks": ["Add unit tests", "Update documentation", "Ask for a review"],
        "decisions_made": [
            {"decision": f"Use index {n}", "rationale": "It is simpler", "timestamp": f"{day}T10:3{n}:00Z"}
            for n in range(3)
        ],
        "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": None}, "errors": [],
    }  # fmt: skip
