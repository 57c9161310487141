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

LONGEST = 60.0  # seconds for a process that is to end by itself


class Machine:
    """One machine. `url` may be changed: the next process or keeper is on another line."""

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

    # ── agents at work on it ─────────────────────────────────────────────────────────────────────────────

    def connect(self) -> None:
        """The scripts that agents call, as `holdfast connect` leaves them, with more time than an agent would give
        them: a machine that is busy with other tests must not look like a server that is away.
        """
        with self.keeper() as keeper:
            keeper.home.prepare()
        install.note_store(str(self.home), self.url)
        install.install(str(self.home), system=sys.platform)
        script = self.home / "hooks" / "ask.py"
        made = script.read_text()
        patient = made.replace(
            "return hooking.main(", f"hooking.TIME_LIMIT_SECONDS = {LONGEST}\n        return hooking.main("
        )
        assert patient != made
        script.write_text(patient)

    def hook(self, manner: str, event: str, talk: str = "talk-1", *, through: str = "user", **fields: Any) -> str:
        """Run the script as an agent does; what it answered. It never fails, and is never slow for ever."""
        done = subprocess.run(
            ["/bin/sh", str(self.home / "hooks" / "hook"), "claude", manner, through],
            input=json.dumps(self._payload(event, talk, fields)), capture_output=True, text=True, timeout=LONGEST,
            env=self.environ(), check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def ran(self, number: int, talk: str = "talk-1", *, through: str = "user") -> None:
        """An agent ran a command: a hook that waits for nothing."""
        fields = {"tool_name": "Bash", "tool_use_id": f"u{number}", "tool_input": {"command": f"make {number}"}}
        self.hook("tell", "PostToolUse", talk, through=through, **fields)

    def drain(self) -> subprocess.Popen[str]:
        """A process of its own that takes in what waits."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(self.home / "hooks" / "ask.py"), "drain", spool.FORMAT],
            env=self.environ(), text=True,
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        """As an agent has it: it knows nothing of Holdfast."""
        return {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}

    def _payload(self, event: str, talk: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"session_id": talk, "cwd": str(self.project), "hook_event_name": event, **fields}

    # ── what became of it ────────────────────────────────────────────────────────────────────────────────

    def waiting(self) -> int:
        return len(spool.list_entries(str(self.home)))

    def unread(self) -> list[str]:
        return spool.list_unread(str(self.home))

    def errors(self) -> list[str]:
        return [str(line["message"]) for line in error_log.lines(str(self.home))]

    def commands(self) -> list[str]:
        """Every command that is recorded in the sessions that can be seen here, each as often as it is."""
        with self.keeper() as keeper:
            rows = keeper.history(limit=None, all_projects=True)
            events = [event for row in rows for event in keeper.events(row.id)]
        return sorted(
            str(json.loads(event.data)["command"]) for event in events if event.type == "command.ran" and event.data
        )


class Listener:
    """Keeps what following tells, and waits for what a test expects."""

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self._condition = threading.Condition()

    def __call__(self, change: Changes) -> None:
        with self._condition:
            self.changes.append(change)
            self._condition.notify_all()

    def until(self, fits: Callable[[list[Changes]], bool]) -> list[Changes]:
        with self._condition:
            assert self._condition.wait_for(lambda: fits(self.changes), timeout=LONGEST), self.changes
            return list(self.changes)

    def of(self, session: str) -> list[Changes]:
        return self.until(lambda changes: any(session in change.sessions for change in changes))
