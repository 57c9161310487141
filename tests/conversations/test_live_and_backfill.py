"""Conversations recorded by hooks and by backfill of the same transcripts give the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.conversations import details
from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.backfill.run import backfill
from holdfast.core import limits
from holdfast.core.model import Conversation, Session
from holdfast.core.times import DAY
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs
from tests.conversations import test_cline_transcripts as cline
from tests.conversations import test_copilot_transcripts as copilot
from tests.conversations import test_cursor_transcripts as cursor
from tests.conversations import test_gemini_transcripts as gemini
from tests.conversations import test_goose_transcripts as goose
from tests.conversations import test_opencode_transcripts as opencode
from tests.support import claude_transcripts, codex_rollouts

NOW = 1_795_500_000_000  # days later than everything in the transcripts
PAYLOADS = Path(__file__).parent / "payloads"
# By agent: the payloads of a prompt, of the end of a turn, and of the end of the conversation.
PAYLOAD_NAMES = {
    "claude": ("prompt", "stop", "session_end"),
    "codex": ("prompt", "stop", "session_end"),
    "gemini": ("before_agent", "after_agent", "session_end"),
    "copilot": ("prompt", "stop", "session-end"),
    "cursor": ("before_submit_prompt", "stop", "session_end"),
    "cline": ("prompt", "complete", "shutdown"),
    "goose": ("prompt", "stop", "session_end"),
    "opencode": ("prompt", "idle", "closed"),
}


def _claude(home: Path) -> str:
    past = claude_transcripts.Past(home)
    usage = {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    past.write(
        past.prompt("Add OAuth with PKCE"),
        past.answer({"type": "text", "text": "So."}, name="m1", usage=usage | {"output_tokens": 1}),
        past.answer({"type": "text", "text": "Done."}, name="m1", usage=usage),
        past.prompt("And tests"),
        past.answer({"type": "text", "text": "Done."}),
        {"type": "ai-title", "aiTitle": "OAuth with PKCE", "sessionId": claude_transcripts.TALK},
        {"type": "cost-state", "totalCostUSD": 1.25, "sessionId": claude_transcripts.TALK},
    )
    return claude_transcripts.TALK


def _codex(home: Path) -> str:
    name = f"rollout-2026-11-15T09-00-00-{codex_rollouts.ID}.jsonl"
    codex_rollouts.tell(home / ".codex" / "sessions" / "2026" / "11" / "15" / name, codex_rollouts.WHOLE)
    return codex_rollouts.ID


def _gemini(home: Path) -> str:
    gemini.store(home)
    return gemini.ID


def _cursor(home: Path) -> str:
    cursor.store(home)
    return cursor.ID


def _copilot(home: Path) -> str:
    directory = home / ".copilot" / "session-state" / copilot.NAME
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(copilot.text(copilot.EVENTS))
    return copilot.NAME


def _cline(home: Path) -> str:
    directory = home / ".cline" / "data" / "sessions" / cline.NAME
    directory.mkdir(parents=True)
    (directory / f"{cline.NAME}.json").write_text(json.dumps(cline.MANIFEST))
    (directory / f"{cline.NAME}.messages.json").write_text(json.dumps({"version": 1, "messages": cline.MESSAGES}))
    return cline.NAME


def _goose(home: Path) -> str:
    directory = home / ".local" / "share" / "goose" / "sessions"
    directory.mkdir(parents=True)
    with closing(apsw.Connection(str(directory / "sessions.db"))) as database:
        database.execute(goose.SCHEMA)
        goose.fill(database)
        goose.session(database, "20261115_2", name="Another one")
        goose.says(database, "20261115_2", goose.AT, "user", goose.text("Something else"))
    return "20261115_1"


def _opencode(home: Path) -> str:
    opencode.database(home / ".local" / "share" / "opencode" / "opencode.db")
    return "ses_1"


WRITTEN: dict[str, Callable[[Path], str]] = {
    "claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot, "cursor": _cursor, "cline": _cline,
    "goose": _goose, "opencode": _opencode,
}  # fmt: skip


def _open(where: Path, name: str) -> Keeper:
    project = where / "project"
    project.mkdir(exist_ok=True)
    return Keeper.open(str(project), home=str(where / name), actor="anna", wall=Wall(lambda: NOW * 1_000_000))


def _payload(agent: str, name: str, conversation: str, where: Path) -> bytes:
    """A payload as the program sends it, for this conversation and project."""
    sample = json.loads((PAYLOADS / agent / f"{name}.json").read_text())
    payload = sample["payload"]
    context = payload.get("sessionContext") or {}
    own = context.get("rootSessionId") or payload.get("conversation_id") or payload.get("session_id")
    text = json.dumps(payload).replace(own or payload.get("taskId", ""), conversation)
    return text.replace("/home/anna/shop", str(where / "project")).encode()


def _hand_over(where: Path, agent: str, payload: bytes, number: int) -> None:
    path = Path(spool.add_payload(str(where / "live"), agent, "user", 1, payload))
    target = path.with_name(f"{agent}.user.1.{2**30 + number}")
    path.rename(target)
    moment = (NOW - DAY + number * 1_000) * 1_000_000
    os.utime(target, ns=(moment, moment))


def _sessions(keeper: Keeper) -> list[Session]:
    return [keeper.session(row.id).document() for row in keeper.history(limit=None, all_projects=True)]


def _conversation(sessions: list[Session], name: str) -> Conversation:
    (match,) = [
        conversation for session in sessions for conversation in session.conversations if conversation.id == name
    ]
    return match


def _recorded(where: Path, agent: str, conversation: str, *payloads: str) -> list[Session]:
    for number, name in enumerate(payloads):
        _hand_over(where, agent, _payload(agent, name, conversation, where), number)
    with _open(where, "live") as keeper:
        keeper.agent_dirs = AgentDirs(str(where / "person"), str(where / "project"))
        keeper.compare()
        return _sessions(keeper)


@pytest.mark.parametrize("agent", NAMES)
def test_conversation_is_the_same_when_recorded_live_and_by_backfill(tmp_path: Path, agent: str) -> None:
    """Title, model, tokens, cost, prompts and times are those of the transcript."""
    person = tmp_path / "person"
    person.mkdir()
    name = WRITTEN[agent](person)
    live = _conversation(_recorded(tmp_path, agent, name, *PAYLOAD_NAMES[agent]), name)
    with _open(tmp_path, "backfilled") as keeper:
        backfill(keeper, AgentDirs(str(person), str(tmp_path / "project")), [agent])
        past = _conversation(_sessions(keeper), name)
    assert (live.title, live.prompts) == (past.title, past.prompts)
    assert live.title
    assert live.prompts
    compared: dict[str, Any] = {}
    for conversation in (live, past):
        compared.setdefault("tokens", conversation.tokens)
        compared.setdefault("cost", conversation.cost_usd)
        assert (conversation.tokens, conversation.cost_usd) == (compared["tokens"], compared["cost"])
    assert (live.started_at, live.resume, live.kept) == (past.started_at, past.resume, False)
    if agent != "cursor":  # its transcripts have no model, tokens or end
        assert live.model == past.model is not None
        assert live.ended_at == past.ended_at is not None
        assert live.tokens.output


def test_headless_conversation_has_its_cost_when_no_status_line_was_shown(tmp_path: Path) -> None:
    """The cost of `claude -p` is only in its transcript."""
    name = _claude(tmp_path / "person")
    (session,) = _recorded(tmp_path, "claude", name, "prompt", "stop")
    assert (session.cost_usd, session.conversations[0].cost_usd) == (1.25, 1.25)
    assert session.conversations[0].ended_at is None
    assert (session.model, session.context.window) == ("claude-opus-5-5", 200_000)


def test_transcript_is_read_again_when_a_line_comes_after_the_end(tmp_path: Path) -> None:
    """Some programs write the cost after reporting the end."""
    name = _claude(tmp_path / "person")
    (path,) = (tmp_path / "person").rglob("*.jsonl")
    closing_payload = json.loads(_payload("claude", "session_end", name, tmp_path)) | {"transcript_path": str(path)}
    _hand_over(tmp_path, "claude", _payload("claude", "prompt", name, tmp_path), 0)
    _hand_over(tmp_path, "claude", json.dumps(closing_payload).encode(), 1)
    _recorded(tmp_path, "claude", name)
    with path.open("a") as file:
        file.write(json.dumps({"type": "cost-state", "totalCostUSD": 2.5, "sessionId": name}) + "\n")
    (session,) = _recorded(tmp_path, "claude", name)
    assert session.cost_usd == 2.5


def test_conversation_is_counted_once_when_it_continues_in_another_session(tmp_path: Path) -> None:
    """After `stop`, its next prompt starts a session that continues the first: each has its own part."""
    name = _claude(tmp_path / "person")
    (path,) = (tmp_path / "person").rglob("*.jsonl")
    _recorded(tmp_path, "claude", name, "prompt", "stop")
    with _open(tmp_path, "live") as keeper:
        keeper.session().stop()
    with path.open("a") as file:
        past = claude_transcripts.Past(tmp_path / "elsewhere")
        more = past.answer({"type": "text", "text": "More."}, name="m9") | {"uuid": "later"}
        file.write(json.dumps(more) + "\n")
        file.write(json.dumps({"type": "cost-state", "totalCostUSD": 2.0, "sessionId": name}) + "\n")
    for number, payload_name in enumerate(("prompt", "stop"), start=10):
        later = json.loads(_payload("claude", payload_name, name, tmp_path)) | {
            "prompt": "And more tests",
            "prompt_id": "p2",
        }
        _hand_over(tmp_path, "claude", json.dumps(later).encode(), number)
    second, first = _recorded(tmp_path, "claude", name)
    assert second.continues == first.id
    assert (first.cost_usd, second.cost_usd) == (1.25, 0.75)
    outputs = [session.conversations[0].tokens.output for session in (first, second)]
    assert outputs == [14, 5]


def test_transcript_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """The session stays as it was."""
    name = _claude(tmp_path / "person")
    _hand_over(tmp_path, "claude", _payload("claude", "prompt", name, tmp_path), 0)
    for number, path in enumerate(("/dev/zero", "relative", "\0", "//host/share", str(tmp_path)), start=1):
        payload = json.loads(_payload("claude", "stop", name, tmp_path)) | {"transcript_path": path}
        _hand_over(tmp_path, "claude", json.dumps(payload).encode(), number)
        (session,) = _recorded(tmp_path, "claude", name)
        assert session.conversations[0].id == name


def test_deleted_session_leaves_no_transcript_path_behind(tmp_path: Path) -> None:
    name = _claude(tmp_path / "person")
    (session,) = _recorded(tmp_path, "claude", name, "prompt", "stop")
    with _open(tmp_path, "live") as keeper:
        assert keeper.store().remembered_under("transcript:")
        keeper.delete(session.id, force=True)
        assert not keeper.store().remembered_under("transcript:")


def test_backfill_completes_a_conversation_that_hooks_reported_without_a_transcript(tmp_path: Path) -> None:
    """Of an earlier version, or with a transcript elsewhere."""
    name = _claude(tmp_path / "person")
    _hand_over(tmp_path, "claude", _payload("claude", "prompt", name, tmp_path), 0)
    with _open(tmp_path, "live") as keeper:
        (session,) = _sessions(keeper)
        assert session.conversations[0].title is None
        for _ in range(2):
            backfill(keeper, AgentDirs(str(tmp_path / "person"), str(tmp_path / "project")), ["claude"])
        (match,) = [item for item in _sessions(keeper) if item.id == session.id]
        types = [event.type for event in keeper.events(session.id)]
    assert match.conversations[0].title == "OAuth with PKCE"
    assert types.count("conversation.updated") == 1


@pytest.mark.parametrize("largest", [10, 1 << 30])
def test_transcript_is_read_once_after_the_conversation_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Even a too large one: later drains write nothing."""
    monkeypatch.setattr(limits, "MAX_TRANSCRIPT_SIZE", largest)
    name = _claude(tmp_path / "person")
    (path,) = (tmp_path / "person").rglob("*.jsonl")
    ending = json.loads(_payload("claude", "session_end", name, tmp_path)) | {"transcript_path": str(path)}
    _hand_over(tmp_path, "claude", _payload("claude", "prompt", name, tmp_path), 0)
    _hand_over(tmp_path, "claude", json.dumps(ending).encode(), 1)
    (session,) = _recorded(tmp_path, "claude", name)
    assert (session.conversations[0].title is None) == (largest == 10)
    with _open(tmp_path, "live") as keeper:
        before = keeper.store().remembered_under("transcript:")
        read: list[Path] = []
        monkeypatch.setattr(details, "_update", lambda *_: read.append(path))
        keeper.agent_dirs = AgentDirs(str(tmp_path / "person"), str(tmp_path / "project"))
        keeper.compare()
        assert keeper.store().remembered_under("transcript:") == before
    assert not read


def _title_by_hooks(tmp_path: Path, name: str, path: Path) -> str | None:
    """The conversation's title after a turn whose payload names this transcript."""
    ending = json.loads(_payload("claude", "stop", name, tmp_path)) | {"transcript_path": str(path)}
    _hand_over(tmp_path, "claude", _payload("claude", "prompt", name, tmp_path), 0)
    _hand_over(tmp_path, "claude", json.dumps(ending).encode(), 1)
    (session,) = _recorded(tmp_path, "claude", name)
    return session.conversations[0].title


def test_transcript_is_not_read_through_a_link(tmp_path: Path) -> None:
    """Its target may be of any size, and anybody's."""
    name = _claude(tmp_path / "elsewhere")
    (path,) = (tmp_path / "elsewhere").rglob("*.jsonl")
    link = tmp_path / "person" / f"{name}.jsonl"
    link.parent.mkdir()
    link.symlink_to(path)
    assert _title_by_hooks(tmp_path, name, link) is None


@pytest.mark.parametrize(
    ("limit", "value", "read"),
    [
        ("MAX_TRANSCRIPT_READ", 1 << 20, False), ("MAX_TRANSCRIPT_READ", 1 << 30, True),
        ("MAX_TRANSCRIPT_FILES", 15, False), ("MAX_TRANSCRIPT_FILES", 150, True),
    ],
)  # fmt: skip
def test_transcript_is_left_to_backfill_when_its_directory_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, *, read: bool
) -> None:
    """One that starts in the middle of a conversation is compared with the others of its directory."""
    name = _claude(tmp_path / "person")
    (path,) = (tmp_path / "person").rglob("*.jsonl")
    first, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps(json.loads(first) | {"parentUuid": "u-0"}) + "\n" + rest)
    for number in range(10):
        other = {"type": "user", "uuid": f"z-{number}", "timestamp": "2020-01-01T00:00:00Z"}
        (path.parent / f"other-{number}.jsonl").write_text(json.dumps(other) + "\n")
    os.truncate(path.parent / "other-5.jsonl", 4 << 20)
    monkeypatch.setattr(limits, limit, value)
    assert (_title_by_hooks(tmp_path, name, path) is not None) == read
