"""An owner and a guest who may write in one of the owner's sessions: two homes, that session, and an older private
one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events import EventData
from holdfast.keeper import Keeper
from holdfast.store.interface import Draft
from holdfast.workspace import spool
from tests.cli.several_devices import Several

TALK = "0f0e0d0c-1111-4222-8333-444455556666"
OWNER, GUEST = "owner@example.org", "guest@example.org"


class GuestSession(Several):
    """A conversation works in a session that a guest may write in; an older session of the owner is not shared."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.at("guest")
        self.guests_key = self.age
        self.at("laptop")
        self.owners_key = self.age
        self.create_vault()
        self.private = str(self.session("start", "Private")["id"])
        self.shared = str(self.session("start", "Shared", "--replace")["id"])
        self.prompt("Build it")
        self.document("people", "add", GUEST, self.guests_key)
        self.share(self.shared)

    def say(self, event: str, talk: str = TALK, *, device: str = "laptop", **fields: Any) -> None:
        """One payload of a conversation, by default the owner's, as hooks report it; it is drained at once."""
        payload = {"session_id": talk, "cwd": str(self.project), "hook_event_name": event, **fields}
        spool.add_payload(str(self.root / f"home-{device}"), "claude", "user", 1, json.dumps(payload).encode())
        self.document("history")

    def prompt(self, words: str) -> None:
        self.say("UserPromptSubmit", prompt=words)

    def run_make(self, number: int = 1) -> None:
        self.say("PostToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input={"command": "make"})

    def record(self, device: str, session: str, data: EventData) -> None:
        """An event that no command records, by a device that may write there; the laptop receives it."""
        with Keeper.open(str(self.project), home=str(self.root / f"home-{device}"), actor="guest") as keeper:
            keeper.recorder.record(session, lambda _: [data])
        self.sync(device, "laptop")

    def force(
        self, sessions: Iterable[str], *events: EventData, ahead: int = 0, by: str = "guest", to: str = "laptop"
    ) -> None:
        """Records this in each of the sessions without any check, dated `ahead` ms; another device receives it and
        becomes the current one.
        """
        home = str(self.root / f"home-{by}")
        with Keeper.open(str(self.project), home=home, actor=by) as keeper, keeper.transaction() as transaction:
            for session in sessions:
                for data in events:
                    transaction.record(session, Draft(data, keeper.now() + ahead, by))
        self.sync(by, to)

    def share(self, session: str) -> None:
        """Lets the guest write in another session."""
        self.document("share", session, "--with", GUEST)
        self.at("guest")
        offers = self.document("accept", self.url, "--list")["offers"]
        self.document("accept", self.url, next(offer["name"] for offer in offers if offer["session"] == session))
        self.sync("laptop", "guest")
        self.at("laptop")

    def commands(self, session: str) -> int:
        return int(self.session("show", session)["commands"]["total"])

    def note_inside(self, words: str) -> str:
        """The session that receives a note of the conversation."""
        self.patch.setenv("CLAUDE_CODE_SESSION_ID", TALK)
        session = str(self.session("note", words)["id"])
        assert self.session("status")["id"] == session
        self.patch.delenv("CLAUDE_CODE_SESSION_ID")
        return session
