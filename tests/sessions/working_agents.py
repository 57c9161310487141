"""Agents and people at work in a git repository: payloads in the spool, files and commits on the disk.

Everything happens in real time, since times of files are compared with those of payloads.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core.model import FileChange, Session
from holdfast.keeper import Keeper
from holdfast.sessions.changes.compare import compare_due
from holdfast.workspace import spool

_APART = 0.03  # seconds, as the clocks of file systems count in steps


class Workplace:
    def __init__(self, where: Path, *, git: bool = True) -> None:
        self.home = where / "home"
        self.project = where / "shop"
        self.project.mkdir(parents=True)
        if git:
            self.git("init", "-q", "-b", "main")
            self.git("config", "user.name", "Ada")
            self.git("config", "user.email", "ada@example.org")
            self.write("cart.py", "total = 1\n")
            self.write("README.md", "shop\n")
            self.git("add", ".")
            self.git("commit", "-qm", "Begin the shop")

    # ── what people and commands do ──────────────────────────────────────────────────────────────────────

    def git(self, *words: str, at: Path | None = None) -> str:
        around = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": ":"}
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.project,
            env=around,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.wait()
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        full = self.project / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        self.wait()

    def remove(self, path: str) -> None:
        (self.project / path).unlink()
        self.wait()

    def wait(self) -> None:
        time.sleep(_APART)

    # ── what agents report ───────────────────────────────────────────────────────────────────────────────

    def say(self, event: str, talk: str = "talk-1", *, cwd: Path | None = None, **fields: Any) -> None:
        payload = {"session_id": talk, "cwd": str(cwd or self.project), "hook_event_name": event, **fields}
        spool.add_payload(str(self.home), "claude", "user", 1, json.dumps(payload).encode())
        self.wait()

    def prompt(self, text: str = "Fix the cart", talk: str = "talk-1", **fields: Any) -> None:
        self.say("UserPromptSubmit", talk, prompt=text, **fields)
        self.compare()

    def ran(self, command: str, talk: str = "talk-1", **fields: Any) -> None:
        self.say(
            "PostToolUse", talk, tool_name="Bash", tool_input={"command": command}, tool_response={"stdout": ""},
            tool_use_id=f"u{time.time_ns()}", **fields,
        )  # fmt: skip

    def wrote(self, path: str, text: str, talk: str = "talk-1") -> None:
        """An edit by the agent's own tool, and its payload."""
        self.write(path, text)
        full = str(self.project / path)
        self.say(
            "PostToolUse", talk, tool_name="Write", tool_input={"file_path": full, "content": text},
            tool_response={"filePath": full, "type": "update"}, tool_use_id=f"u{time.time_ns()}",
        )  # fmt: skip

    def stop(self, talk: str = "talk-1", **fields: Any) -> None:
        self.say("Stop", talk, last_assistant_message=f"Done at {time.time_ns()}", **fields)
        self.compare()

    def close(self, talk: str = "talk-1") -> None:
        self.say("SessionEnd", talk, reason="exit")
        self.compare()

    # ── results ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def keeper(self, project: Path | None = None) -> Iterator[Keeper]:
        with Keeper.open(str(project or self.project), home=str(self.home), actor="ada") as keeper:
            yield keeper

    def compare(self) -> None:
        """As the process does that a hook starts."""
        with self.keeper() as keeper:
            keeper.collect()
            compare_due(keeper)
        self.wait()

    def session(self, project: Path | None = None) -> Session:
        with self.keeper(project) as keeper:
            return keeper.session().document()

    def sessions(self) -> list[Session]:
        """All of them, oldest first."""
        with self.keeper() as keeper:
            rows = keeper.history(limit=None, all_projects=True)
            return [keeper.session(row.id).document() for row in reversed(rows)]

    def files(self) -> list[FileChange]:
        return [change for session in self.sessions() for change in session.files]

    def changes(self) -> list[tuple[str, str, str | None]]:
        """Path, action and author, in order."""
        return [(change.path, change.action, change.by) for change in self.files()]

    def errors(self) -> list[str]:
        from holdfast.machine import error_log

        return [str(line["message"]) for line in error_log.lines(str(self.home))]
