"""Agents that report through hooks: payloads in the spool of a home, each at its own time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core.model import Session
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace import spool

BEGAN = 1_794_000_000_000


class AgentHooks:
    """A home, a project, and agents at work in it. `minute` is the time of the next payload, from the beginning."""

    def __init__(self, where: Path) -> None:
        self.home = where / "home"
        self.project = where / "project"
        self.project.mkdir(parents=True)
        self.minute = 0.0
        self._count = 0

    @property
    def now(self) -> int:
        return BEGAN + round(self.minute * 60_000)

    def say(
        self, event: str, talk: str = "talk-1", *, agent: str = "claude", through: str = "user", **fields: Any
    ) -> Path:
        """One payload in Claude's dialect."""
        payload = {"session_id": talk, "cwd": str(self.project), "hook_event_name": event, **fields}
        return self.hand_over(json.dumps(payload).encode(), agent=agent, through=through)

    def hand_over(self, payload: bytes, *, agent: str = "claude", through: str = "user") -> Path:
        self._count += 1
        path = Path(spool.add_payload(str(self.home), agent, through, 1, payload))
        target = path.with_name(f"{agent}.{through}.1.{2**30 + self._count}")
        path.rename(target)
        moment = self.now * 1_000_000
        os.utime(target, ns=(moment, moment))
        return target

    def prompt(self, text: str = "Add OAuth with PKCE", talk: str = "talk-1", **fields: Any) -> Path:
        return self.say("UserPromptSubmit", talk, prompt=text, **fields)

    @contextmanager
    def keeper(self, project: Path | None = None) -> Iterator[Keeper]:
        wall = Wall(lambda: self.now * 1_000_000)
        with Keeper.open(str(project or self.project), home=str(self.home), actor="anna", wall=wall) as keeper:
            yield keeper

    def session(self, project: Path | None = None) -> Session:
        """The current session of a work tree, after draining the spool."""
        with self.keeper(project) as keeper:
            return keeper.session().document()

    def sessions(self) -> list[Session]:
        """All sessions, oldest first."""
        with self.keeper() as keeper:
            rows = keeper.history(limit=None, all_projects=True)
            return [keeper.session(row.id).document() for row in reversed(rows)]

    def types(self, session: str = "@") -> list[str]:
        with self.keeper() as keeper:
            return [event.type for event in keeper.events(keeper.session(session).id)]

    def waiting(self) -> list[str]:
        return [entry.name for entry in spool.list_entries(str(self.home))]

    def errors(self) -> list[dict[str, Any]]:
        from holdfast.machine import error_log

        return error_log.lines(str(self.home))
