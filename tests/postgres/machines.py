"""Machines that share a store on a server: each with a home and a work tree of its own, and the real hook script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.conversations.hooks import install
from holdfast.keeper import Keeper
from holdfast.machine import error_log
from holdfast.workspace import spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.keeper.change_feed import Changes

TIMEOUT = 60.0  # seconds for a process to end


class Machine:
    """One machine. `url` may be changed: the next process or keeper uses it."""

    def __init__(self, root: Path, url: str, name: str = "desk") -> None:
        self.name, self.url = name, url
        self.home, self.project = root / name / "home", root / name / "harbour"
        self.project.mkdir(parents=True)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        with self.open() as keeper:
            yield keeper

    def open(self) -> Keeper:
        return Keeper.open(
            str(self.project), home=str(self.home), store=self.url, actor=f"ada at the {self.name}", device=self.name
        )

    # ── agents ───────────────────────────────────────────────────────────────────────────────────────────

    def connect(self) -> None:
        """Install the hook scripts as `holdfast connect` does, but with a longer time limit: a machine that is busy
        with other tests must not look like an unreachable server.
        """
        with self.keeper() as keeper:
            keeper.home.prepare()
        install.note_store(str(self.home), self.url)
        install.install(str(self.home), system=sys.platform)
        script = self.home / "hooks" / "ask.py"
        made = script.read_text()
        patient = made.replace(
            "return hooking.main(", f"hooking.TIME_LIMIT_SECONDS = {TIMEOUT}\n        return hooking.main("
        )
        assert patient != made
        script.write_text(patient)

    def hook(
        self, mode: str, event: str, conversation: str = "talk-1", *, through: str = "user", **fields: Any
    ) -> str:
        """Run the script as an agent does, and return its answer. It never fails or hangs."""
        done = subprocess.run(
            ["/bin/sh", str(self.home / "hooks" / "hook"), "claude", mode, through],
            input=json.dumps(self._payload(event, conversation, fields)), capture_output=True, text=True,
            timeout=TIMEOUT, env=self.environ(), check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def report_command(self, number: int, conversation: str = "talk-1", *, through: str = "user") -> None:
        """A hook for a command that an agent ran; it waits for nothing."""
        fields = {"tool_name": "Bash", "tool_use_id": f"u{number}", "tool_input": {"command": f"make {number}"}}
        self.hook("tell", "PostToolUse", conversation, through=through, **fields)

    def drain(self) -> subprocess.Popen[str]:
        """A process that records the waiting payloads."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(self.home / "hooks" / "ask.py"), "drain", spool.FORMAT],
            env=self.environ(), text=True,
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        """As an agent's: without variables of Holdfast."""
        return {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}

    def _payload(self, event: str, conversation: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"session_id": conversation, "cwd": str(self.project), "hook_event_name": event, **fields}

    # ── results ────────────────────────────────────────────────────────────────────────────────────────

    def waiting(self) -> int:
        return len(spool.list_entries(str(self.home)))

    def unread(self) -> list[str]:
        return spool.list_unread(str(self.home))

    def errors(self) -> list[str]:
        return [str(line["message"]) for line in error_log.lines(str(self.home))]

    def commands(self) -> list[str]:
        """Every recorded command in the visible sessions, with repeats."""
        with self.keeper() as keeper:
            rows = keeper.history(limit=None, all_projects=True)
            events = [event for row in rows for event in keeper.events(row.id)]
        return sorted(
            str(json.loads(event.data)["command"]) for event in events if event.type == "command.ran" and event.data
        )


class Listener:
    """Collects what a change feed reports, and waits for an expected change."""

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self._condition = threading.Condition()

    def __call__(self, change: Changes) -> None:
        with self._condition:
            self.changes.append(change)
            self._condition.notify_all()

    def until(self, fits: Callable[[list[Changes]], bool]) -> list[Changes]:
        with self._condition:
            assert self._condition.wait_for(lambda: fits(self.changes), timeout=TIMEOUT), self.changes
            return list(self.changes)

    def of(self, session: str) -> list[Changes]:
        return self.until(lambda changes: any(session in change.sessions for change in changes))
