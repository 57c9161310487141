"""Guests do not decide where our hours and tokens count."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events import ConversationUpdated, EventData, MessageExchanged, NativeLinked, SessionResumed
from holdfast.core.times import HOUR, MINUTE, format_time
from holdfast.keeper import Keeper
from holdfast.sessions.hours.cache import HoursMemo, hours
from holdfast.store.interface import Draft
from holdfast.workspace import spool
from tests.cli.several_devices import Several

TALK = "0f0e0d0c-1111-4222-8333-444455556666"
GUEST = "guest@example.org"


class OverlappingSessions(Several):
    """Two overlapping sessions: the owner's last messages are in the private one, and a guest may write in the
    other.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.at("guest")
        guests_key = self.age
        self.create_vault()
        self.began = int(time.time() * 1000) - 6 * HOUR
        self.shared = str(self.session("--at", format_time(self.began), "start", "Shared", "--scope", "shared")["id"])
        self.document("people", "add", GUEST, guests_key)
        self.document("share", self.shared, "--with", GUEST)
        self.at("guest")
        self.document("accept", self.url, self.document("accept", self.url, "--list")["offers"][0]["name"])
        self.sync("laptop", "guest")
        self.at("laptop")
        begun = format_time(self.began + HOUR)
        self.private = str(self.session("--at", begun, "start", "Private", "--scope", "private", "--replace")["id"])
        self.record("laptop", self.private, self.messages(4))
        self.document("--at", format_time(self.began + 2 * HOUR), "stop")

    def messages(self, every: int) -> list[tuple[int, EventData]]:
        """A person's messages during the private session."""
        return [(self.began + HOUR + minute * MINUTE, MessageExchanged()) for minute in range(1, 59, every)]

    def record(self, device: str, session: str, events: Iterable[tuple[int, EventData]]) -> None:
        """Events that no command records, by a device that may write there."""
        home = str(self.root / f"home-{device}")
        with Keeper.open(str(self.project), home=home, actor="claude") as keeper, keeper.transaction() as transaction:
            for at, data in events:
                transaction.record(session, Draft(data, at, "claude"))

    def say(self, event: str, **fields: Any) -> None:
        """One payload of the owner's conversation, drained at once."""
        payload = {"session_id": TALK, "cwd": str(self.project), "hook_event_name": event, **fields}
        spool.add_payload(str(self.root / "home-laptop"), "claude", "user", 1, json.dumps(payload).encode())
        self.document("history")

    def counted(self, session: str) -> tuple[int, int]:
        """Prompts and tokens of the conversation in a session."""
        answer = self.session("show", session)["conversations"]
        return next((match["prompts"], match["tokens"]["output"]) for match in answer if match["id"] == TALK)

    def worked(self) -> dict[str, dict[str | None, int]]:
        """Milliseconds by scope, in both commands and on the page."""
        cycle = self.document("cycle")["cycle"]
        with Keeper.open(str(self.project), home=str(self.root / "home-laptop")) as keeper:
            page = hours(keeper, HoursMemo())
        return {
            "stats": _by_scope(self.document("stats", "--by", "scope")["lines"]),
            "cycle": _by_scope(cycle["scopes"]),
            "page": {line.key: line.working_ms for line in page.scopes},
        }


def _by_scope(lines: Iterable[dict[str, Any]]) -> dict[str | None, int]:
    return {line["key"]: line["working_ms"] for line in lines}


@pytest.fixture
def guested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> OverlappingSessions:
    return OverlappingSessions(tmp_path, monkeypatch, capsys)


def test_guest_messages_do_not_take_the_hours_of_another_session(guested: OverlappingSessions) -> None:
    before = guested.worked()
    assert all(counted["private"] >= 55 * MINUTE for counted in before.values()), before
    guested.record("guest", guested.shared, guested.messages(3))
    guested.sync("guest", "laptop")
    after = guested.worked()
    assert {name: counted["private"] for name, counted in after.items()} == {
        name: counted["private"] for name, counted in before.items()
    }


def test_messages_of_another_own_device_take_the_hours(guested: OverlappingSessions) -> None:
    guested.join("tablet")
    resumed = (guested.began + HOUR + MINUTE, SessionResumed())
    guested.record("tablet", guested.shared, [resumed, *guested.messages(3)])
    guested.sync("tablet", "laptop")
    after = guested.worked()
    assert all(counted["private"] < 45 * MINUTE for counted in after.values()), after


def _transcript(project: Path, prompts: int) -> Path:
    """Claude Code's transcript of the conversation, with ten tokens per reply."""
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / "-work-app"
    folder.mkdir(parents=True, exist_ok=True)
    began = int(time.time() * 1000) - HOUR
    lines: list[dict[str, Any]] = []
    for number in range(prompts):
        usage = {"input_tokens": 100, "output_tokens": 10}
        reply = {"role": "assistant", "id": f"m{number}", "model": "opus", "content": [], "usage": usage}
        lines += [
            {"type": "user", "message": {"role": "user", "content": f"Step {number}"}},
            {"type": "assistant", "message": reply},
        ]
    for number, line in enumerate(lines):
        line |= {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": TALK}
        line |= {"cwd": str(project), "timestamp": format_time(began + number * MINUTE)}
    path = folder / f"{TALK}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("was_there", [False, True])
def test_guest_counts_do_not_take_the_tokens_of_our_conversation(
    guested: OverlappingSessions, empty_home: Path, was_there: bool
) -> None:
    """One that only the guest named, and one that was in the shared session before we moved it."""
    guested.patch.setenv("HOME", str(empty_home))
    path = _transcript(guested.project, 1)
    guested.say("UserPromptSubmit", prompt="Step 0")
    own = str(guested.document("history")["sessions"][0]["id"])
    counted_there = 0
    if was_there:
        guested.document("conversation", "move", TALK, "--to", guested.shared)
        guested.say("Stop", transcript_path=str(path))
        assert guested.counted(guested.shared) == (1, 10)
        guested.document("conversation", "move", TALK, "--to", own)
        counted_there = 1
    huge = ConversationUpdated(agent="claude", id=TALK, prompts=1000, input=10**9, output=10**9, cost_usd=1e6)
    result = NativeLinked(agent="claude", id=TALK)
    guested.sync("laptop", "guest")
    guested.record("guest", guested.shared, [(guested.began + MINUTE, result), (int(time.time() * 1000), huge)])
    guested.sync("guest", "laptop")
    path = _transcript(guested.project, 3)
    guested.say("UserPromptSubmit", prompt="Step 2")
    guested.say("Stop", transcript_path=str(path))
    left = 3 - counted_there
    assert guested.counted(own) == (left, 10 * left)
    guested.document("backfill", "claude")
    assert guested.counted(own) == (left, 10 * left)


def test_backfilled_fork_ignores_a_parent_that_only_a_guest_named(
    guested: OverlappingSessions, empty_home: Path
) -> None:
    guested.patch.setenv("HOME", str(empty_home))
    guested.sync("laptop", "guest")
    guested.record("guest", guested.shared, [(guested.began + MINUTE, NativeLinked(agent="claude", id="parent"))])
    guested.sync("guest", "laptop")
    path = _transcript(guested.project, 2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[:2]:
        line["forkedFrom"] = {"sessionId": "parent", "messageUuid": line["uuid"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    guested.document("backfill", "claude")
    rows = guested.document("history")["sessions"]
    (fork,) = [row["id"] for row in rows if row["id"] not in (guested.shared, guested.private)]
    assert guested.session("show", fork)["continues"] is None
