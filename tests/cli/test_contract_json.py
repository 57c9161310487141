"""The contract: every JSON document, key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling, at

KINDS = ("pause", "save", "note x", "message", "edit --progress 0.5", "decide x", "hill s 1", "task add x",
         "file f --action deleted", "context --tokens 1", "compress", "resume", "continue", "archive @",
         "unarchive @", "fail x", "abort")  # fmt: skip

SESSION: dict[str, Any] = {
    "id": "", "aliases": {"orchestrator": "", "timer": "", "contract": "", "craft": ""},
    "project": {"name": "", "path": "", "git_branch": "", "git_commit": "", "remote": ""},
    "goal": "", "summary": "", "mode": "", "model": "", "status": "", "over": "", "progress": "", "scope": "",
    "task": "", "feature": "", "branch": "", "tags": [], "continues": "", "created_at": "", "updated_at": "",
    "started_at": "", "ended_at": "", "device": "", "devices": [], "cost_usd": "",
    "waiting": [{"at": "", "for": "", "text": ""}],
    "native": [{"agent": "", "id": "", "resume": ""}],
    "conversations": [{
        "id": "", "agent": "", "title": "", "model": "", "started_at": "", "ended_at": "", "prompts": "",
        "kept": "", "resume": "", "cost_usd": "",
        "tokens": {"input": "", "output": "", "cache_read": "", "cache_write": ""},
    }],
    "commits": [{
        "sha": "", "at": "", "subject": "", "conversation": "", "branch": "", "certainty": "", "among": [],
        "replaces": "",
    }],
    "agents": [{
        "id": "", "type": "", "task": "", "status": "", "progress": "", "started_at": "", "completed_at": "",
        "duration_ms": "", "result": "", "summary": "", "blocking_on": "", "tokens": "", "retries": "", "pid": "",
        "background": "", "error": {"category": "", "message": "", "retry_count": "", "last_retry_at": ""},
        "files": {"created": [], "modified": [], "deleted": []},
    }],
    "phases": [{"id": "", "name": ""}],
    "tasks": [{
        "id": "", "text": "", "phase": "", "agent": "", "status": "", "outcome": "", "artifacts": [],
        "created_at": "", "started_at": "", "completed_at": "",
    }],
    "decisions": [{"at": "", "chosen": "", "context": "", "options": [], "why": ""}],
    "files": [{
        "path": "", "action": "", "agent": "", "at": "", "lines_added": "", "lines_removed": "", "hash_before": "",
        "hash_after": "", "by": "", "among": [],
    }],
    "context": {
        "tokens": "", "window": "", "percent": "", "level": "", "compressions": "", "last_compression": "",
        "by_agent": "",
    },
    "time": {
        "elapsed_ms": "", "working_ms": "", "paused_ms": "", "idle_since": "",
        "pauses": [{"kind": "", "reason": "", "started_at": "", "ended_at": "", "duration_ms": ""}],
        "reminders": {"break_40": "", "warning_60": "", "timeout_90": ""}, "reminder": "",
    },
    "notes": [{"at": "", "text": ""}],
    "errors": [{"at": "", "message": "", "category": "", "agent": ""}],
    "conflicts": [{"id": "", "field": "", "values": [{"value": "", "device": "", "at": ""}], "chosen": ""}],
    "commands": {"total": "", "failed": "", "last": ""},
    "sync": {"remote": "", "status": "", "last_sync": "", "error": "", "shared_with": []},
    "extra": "",
}  # fmt: skip
EVENT = {"v", "session", "writer", "seq", "clock", "at", "seen", "key", "actor", "type", "body", "prev", "hash",
         "data", "salt"}  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def assert_same_keys(actual: Any, like: Any, where: str = "session") -> None:
    """The same keys at every level, none missing and none more; an absent value is null."""
    if isinstance(like, dict):
        if actual is None and where.endswith(".error"):
            return
        assert isinstance(actual, dict), where
        assert list(actual) == list(like), where
        for name, part in like.items():
            assert_same_keys(actual[name], part, f"{where}.{name}")
    elif isinstance(like, list):
        assert isinstance(actual, list), where
        for index, match in enumerate(actual):
            if like:
                assert_same_keys(match, like[0], f"{where}[{index}]")
    elif where.endswith((".extra", ".by_agent")):
        assert isinstance(actual, dict), where


def full(cli: Calling) -> str:
    """A session with every kind of fact."""
    cli.repository()
    session = cli.session(
        "start", "G", "--scope", "s", "--task", "t", "--mode", "debug", "--feature", "f", "--tag", "x",
        "--model", "m",
        "--branch", "--at", at(0),
    )["id"]  # fmt: skip
    for minute, words in enumerate((
        "agent start a --type t --task x", "agent fail a --category logical --message m", "agent retry a",
        "agent start b --type t --blocking-on a --background", "agent done b --summary s --tokens 5",
        "task add x --phase p --agent a", "task done t1 --outcome o --artifact f",
        "decide c --context c --option o --why w",
        "file README.md --action modified --agent a", "context --tokens 90000", "context --tokens 5 --agent a",
        "compress --to 5", "note n", "edit --summary s --progress 0.4", "hill s 4", "pause r", "resume",
        "fail broken",
    )):  # fmt: skip
        cli.session(*words.split(), "--at", at(minute))
    return str(session)


def test_session_document_has_exactly_its_keys(cli: Calling) -> None:
    """Empty or full, in the order of the contract, at every level."""
    bare = cli.session("start", "G")
    assert_same_keys(bare, SESSION)
    cli.session("stop")
    session = full(cli)
    for words in (["status"], ["show", session], ["show", session, "--at", at(5)]):
        assert_same_keys(cli.session(*words), SESSION)


def test_empty_session_has_null_for_unknown_values(cli: Calling) -> None:
    """Lists are empty, counts zero."""
    session = cli.session("start", "G", "--at", at(0))
    nothing = [name for name, value in session.items() if value is None]
    assert nothing == [
        "summary", "model", "scope", "task", "feature", "branch", "continues", "ended_at", "cost_usd",
    ]  # fmt: skip
    assert session["aliases"] == dict.fromkeys(("orchestrator", "timer", "contract", "craft"))
    assert session["context"] == {
        "tokens": None, "window": 128_000, "percent": None, "level": "normal", "compressions": 0,
        "last_compression": None, "by_agent": {},
    }  # fmt: skip
    assert session["time"] == {
        "elapsed_ms": 0, "working_ms": 0, "paused_ms": 0, "idle_since": None, "pauses": [],
        "reminders": {"break_40": False, "warning_60": False, "timeout_90": False}, "reminder": None,
    }  # fmt: skip
    assert session["commands"] == {"total": 0, "failed": 0, "last": None}
    assert session["sync"] == {
        "remote": None, "status": "none", "last_sync": None, "error": None, "shared_with": [],
    }  # fmt: skip
    assert session["extra"] == {}
    assert session["devices"] == [session["device"]]


def test_every_writing_verb_answers_with_the_session(cli: Calling) -> None:
    """One document, with times that add up."""
    cli.session("start", "G", "--at", at(0))
    for minute, words in enumerate(KINDS, start=1):
        if words == "fail x":
            cli.session("resume", "--at", at(minute * 10 - 1))
        assert_same_keys(cli.session(*words.split(), "--at", at(minute * 10)), SESSION)


def test_status_without_a_session_is_null(cli: Calling) -> None:
    """Exit 0, also without a store; none is created."""
    assert cli.document("status") == {"holdfast": 1, "session": None}
    assert not cli.home.exists()


def test_history_rows_have_exactly_their_keys(cli: Calling) -> None:
    full(cli)
    rows = cli.document("history")["sessions"]
    assert [list(row) for row in rows] == [
        [
            "id",
            "goal",
            "status",
            "progress",
            "project",
            "device",
            "created_at",
            "updated_at",
            "working_ms",
            "archived",
            "over",
            "aliases",
        ]
    ]


def test_log_has_every_field_of_the_event(cli: Calling) -> None:
    """Numbered from 1, each with the hash of the one before."""
    session = full(cli)
    events = cli.document("log", session)["events"]
    assert all(set(event) == EVENT for event in events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["prev"] for event in events] == [None, *(event["hash"] for event in events[:-1])]
    assert {event["session"] for event in events} == {session}
    assert len(cli.document("log", session, "--limit", "3")["events"]) == 3
    assert {event["type"] for event in cli.document("log", session, "--type", "note.added")["events"]} == {
        "note.added"
    }


def test_config_documents_have_name_value_and_description(cli: Calling) -> None:
    assert cli.document("config", "get", "history.limit") == {"holdfast": 1, "name": "history.limit", "value": 20}
    assert cli.document("config", "set", "history.limit", "7")["value"] == 7
    assert cli.document("config", "get", "history.limit")["value"] == 7
    listed = cli.document("config", "list")["settings"]
    limit = next(item for item in listed if item["name"] == "history.limit")
    assert (limit["value"], limit["default"]) == (7, 20)
    assert limit["about"]


def test_help_version_and_completion_print_one_document(cli: Calling) -> None:
    """With `--json`."""
    from holdfast import __version__

    assert cli.document("--version") == {"holdfast": 1, "version": __version__}
    assert "start" in cli.document("--help")["help"]
    assert "--replace" in cli.document("start", "--help")["help"]
    for shell in ("bash", "zsh", "fish"):
        assert cli.document("completion", shell)["script"] == cli("completion", shell).out


def test_backup_and_restore_documents_have_path_size_and_counts(cli: Calling, tmp_path: Path) -> None:
    cli.session("start", "G")
    copy = tmp_path / "copy.db"
    document = cli.document("backup", str(copy))
    assert (document["file"], document["bytes"]) == (str(copy), copy.stat().st_size)
    assert cli.document("restore", str(copy))["restored"] == 0


def test_error_document_has_all_seven_keys(cli: Calling) -> None:
    """With operation and session, where known."""
    session = cli.session("start", "G")["id"]
    cli.session("pause")
    error = cli.refused(1, "pause")
    assert (error["operation"], error["session"], error["file"]) == ("pause", session, None)
    error = cli.refused(3, "restore", "/nonexistent/file")
    assert (error["operation"], error["file"]) == ("restore", "/nonexistent/file")
    assert cli.refused(2, "agent", "bogus")["operation"] == "agent"
    assert cli.refused(2, "bogus")["operation"] is None
