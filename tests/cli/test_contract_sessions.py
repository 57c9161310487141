"""The contract: starting, pausing, resuming and ending sessions, and how they are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.keeper import Keeper
from holdfast.store import origin
from tests.support.command_line import Calling, at

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


# ── start ────────────────────────────────────────────────────────────────────────────────────────────────


def test_start_records_every_option(cli: Calling) -> None:
    session = cli.session(
        "start", "Add OAuth", "--scope", "auth", "--task", "Token exchange", "--mode", "optimize",
        "--feature", "add-oauth", "--tag", "one", "--tag", "two", "--tag", "one", "--model", "opus",
    )  # fmt: skip
    assert UUID4.match(session["id"])
    entries = {
        name: session[name] for name in ("goal", "scope", "task", "mode", "feature", "tags", "model", "status")
    }
    assert entries == {
        "goal": "Add OAuth", "scope": "auth", "task": "Token exchange", "mode": "optimize", "feature": "add-oauth",
        "tags": ["one", "two"], "model": "opus", "status": "in_progress",
    }  # fmt: skip
    assert session["project"]["path"] == str(cli.project)
    assert session["branch"] is None
    assert session["continues"] is None


def test_start_without_options_uses_the_defaults(cli: Calling) -> None:
    """Null for what was not given, and the mode `default`."""
    session = cli.session("start", "G")
    assert session["mode"] == "default"
    assert [session[name] for name in ("scope", "task", "feature", "model", "summary", "ended_at")] == [None] * 6
    assert session["tags"] == []
    assert session["progress"] == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ["start"]),
        (2, ["start", "a", "b"]),
        (2, ["start", "a", "--bogus"]),
        (2, ["strat", "a"]),
        (4, ["start", ""]),
        (4, ["start", "   "]),
        (4, ["start", "a", "--mode", "fast"]),
        (4, ["start", "a", "--feature", "Not A Slug"]),
        (4, ["start", "a", "--tag", ""]),
        (4, ["start", "a", "--tag", "x" * 201]),
        (4, ["start", "a", "--at", "yesterday"]),
        (4, ["start", "a", "--at", "2026-02-30T10:00:00Z"]),
        (4, ["start", "a", "--at", "9998-01-01T00:00:00Z"]),
        (3, ["start", "a", "--continues", "abcd1234"]),
    ],
)
def test_invalid_start_creates_no_session(cli: Calling, code: int, words: list[str]) -> None:
    """Each error has its code."""
    cli.refused(code, *words)
    cli.refused(3, "note", "x")


def test_start_twice_is_a_conflict_that_names_the_session(cli: Calling) -> None:
    """Exit 5, and nothing changes."""
    first = cli.session("start", "One")["id"]
    error = cli.refused(5, "start", "Two")
    assert error["session"] == first
    assert "One" in error["message"]
    assert "--replace" in error["hint"]
    assert cli.session("note", "still here")["id"] == first


def test_start_replace_archives_the_old_session_resumably(cli: Calling) -> None:
    """It pauses and archives it, and never overwrites it."""
    old = cli.session("start", "One")["id"]
    new = cli.session("start", "Two", "--replace")["id"]
    assert new != old
    rows = {row["id"]: row for row in cli.document("history")["sessions"]}
    assert (rows[old]["status"], rows[old]["archived"]) == ("paused", True)
    assert (rows[new]["status"], rows[new]["archived"]) == ("in_progress", False)
    resumed = cli.session("resume", old)
    assert (resumed["id"], resumed["status"]) == (old, "in_progress")
    assert resumed["time"]["pauses"][0]["reason"] == "Replaced by another session"


def test_start_replace_keeps_the_status_of_a_paused_or_failed_session(cli: Calling) -> None:
    for verb, status in ((["pause", "lunch"], "paused"), (["fail", "broken"], "error")):
        old = cli.session("start", "Old", "--replace")["id"]
        cli.session(*verb)
        cli.session("start", "New", "--replace")
        rows = {row["id"]: row for row in cli.document("history")["sessions"]}
        assert (rows[old]["status"], rows[old]["archived"]) == (status, True)


def test_start_replace_without_a_current_session_just_starts(cli: Calling) -> None:
    assert cli.session("start", "One", "--replace")["status"] == "in_progress"


def test_resuming_an_archived_session_unarchives_it(cli: Calling) -> None:
    old = cli.session("start", "One")["id"]
    cli.session("start", "Two", "--replace")
    cli.session("resume", old)
    rows = {row["id"]: row for row in cli.document("history")["sessions"]}
    assert rows[old]["archived"] is False


def test_continues_records_the_whole_id(cli: Calling) -> None:
    """It accepts a prefix."""
    old = cli.session("start", "One")["id"]
    cli.session("stop")
    assert cli.session("start", "Two", "--continues", old[:8])["continues"] == old


# ── the lifecycle ────────────────────────────────────────────────────────────────────────────────────────


def test_session_runs_through_its_lifecycle(cli: Calling) -> None:
    """Paused and resumed, failed and resumed, completed."""
    cli.session("start", "G")
    assert cli.session("pause", "lunch")["status"] == "paused"
    assert cli.session("resume")["status"] == "in_progress"
    failed = cli.session("fail", "the disk is gone")
    assert failed["status"] == "error"
    assert failed["errors"][-1]["message"] == "the disk is gone"
    assert cli.session("resume")["status"] == "in_progress"
    saved = cli.session("save")
    assert saved["status"] == "in_progress"
    done = cli.session("stop")
    assert done["status"] == "completed"
    assert done["ended_at"] is not None


@pytest.mark.parametrize(
    ("before", "verb"),
    [
        (["pause"], ["pause"]),
        (["fail", "x"], ["pause"]),
        (["fail", "x"], ["fail", "again"]),
        (["fail", "x"], ["stop"]),
        (["fail", "x"], ["stop", "--keep"]),
        ([], ["stop", "--keep"]),
        ([], ["stop", "--discard", "--reason", "r"]),
    ],
)
def test_forbidden_transition_is_refused(cli: Calling, before: list[str], verb: list[str]) -> None:
    """Exit 1, and nothing changes."""
    cli.session("start", "G")
    if before:
        cli.session(*before)
    status = cli.session("status")["status"]
    events = len(cli.document("log")["events"])
    assert cli.refused(1, *verb)["kind"] == "refused"
    assert cli.session("status")["status"] == status
    assert len(cli.document("log")["events"]) == events


@pytest.mark.parametrize("end", [["stop"], ["abort", "no"]])
def test_ended_session_accepts_no_more_work(cli: Calling, end: list[str]) -> None:
    """It is not current any more; resuming starts a new session that continues it."""
    session = cli.session("start", "G")["id"]
    ended = cli.session(*end)["status"]
    for verb in (["pause"], ["note", "x"], ["stop"], ["abort"], ["fail", "x"], ["save"], ["message"]):
        assert cli.refused(3, *verb)["hint"]
    assert cli.document("status")["session"] is None
    assert cli.session("resume", session)["continues"] == session
    assert cli.session("show", session)["status"] == ended


@pytest.mark.parametrize("before", [[], ["pause"], ["fail", "x"]])
def test_unfinished_session_can_be_aborted(cli: Calling, before: list[str]) -> None:
    cli.session("start", "G")
    if before:
        cli.session(*before)
    assert cli.session("abort", "wrong idea")["status"] == "aborted"


def test_stop_completes_a_paused_session(cli: Calling) -> None:
    """The pause need not be ended first."""
    cli.session("start", "G", "--at", at(0))
    cli.session("pause", "--at", at(3))
    session = cli.session("stop", "--at", at(10))
    assert session["status"] == "completed"
    assert (session["time"]["working_ms"], session["time"]["paused_ms"]) == (180_000, 420_000)
    assert session["time"]["pauses"][0]["ended_at"] == at(10)


def test_keep_and_discard_exclude_each_other(cli: Calling) -> None:
    """Exit 2."""
    cli.session("start", "G")
    cli.refused(2, "stop", "--keep", "--discard")


# ── resume, continue ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [[], ["pause"], ["fail", "x"]])
def test_resume_continues_any_unfinished_session(cli: Calling, before: list[str]) -> None:
    """In progress (after a crash), paused or failed: it is in progress and current."""
    session = cli.session("start", "G")["id"]
    if before:
        cli.session(*before)
    assert cli.session("resume", session)["status"] == "in_progress"
    assert cli.session("note", "x")["id"] == session


def test_resume_and_continue_find_nothing_without_a_session(cli: Calling) -> None:
    cli.refused(3, "resume")
    cli.refused(3, "continue")
    cli.session("start", "G")
    cli.session("stop")
    cli.refused(3, "resume")
    cli.refused(3, "continue")


def test_resume_in_another_directory_makes_it_current_there(cli: Calling, tmp_path: Path) -> None:
    session = cli.session("start", "G")["id"]
    other = tmp_path / "other"
    other.mkdir()
    cli.refused(3, "note", "x", "--project", str(other))
    assert cli.session("resume", session, "--project", str(other))["id"] == session
    assert cli.session("note", "x", "--project", str(other))["id"] == session


def test_continue_resumes_the_latest_unfinished_session(cli: Calling) -> None:
    """Whichever is current."""
    one = cli.session("start", "One", "--at", at(0))["id"]
    two = cli.session("start", "Two", "--replace", "--at", at(1))["id"]
    cli.session("pause", "--at", at(2))
    assert cli.session("continue", "--at", at(3))["id"] == two
    cli.session("stop", "--at", at(4))
    assert cli.session("continue", "--at", at(5))["id"] == one
    assert cli.session("status")["id"] == one


def test_resume_accepts_its_options(cli: Calling) -> None:
    """`--no-sync`, `--force` and `--device`."""
    cli.session("start", "G")
    assert cli.session("resume", "--no-sync", "--force")["status"] == "in_progress"


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────


def test_edit_changes_only_the_given_fields(cli: Calling) -> None:
    """Tags are added."""
    cli.session("start", "G", "--tag", "a")
    session = cli.session(
        "edit", "--goal", "H", "--mode", "debug", "--progress", "0.65", "--scope", "s", "--summary", "sum",
        "--tag", "b", "--tag", "a",
    )  # fmt: skip
    entries = [session[name] for name in ("goal", "mode", "progress", "scope", "summary", "tags")]
    assert entries == ["H", "debug", 0.65, "s", "sum", ["a", "b"]]
    again = cli.session("edit", "--progress", "0")
    assert (again["progress"], again["goal"]) == (0, "H")


@pytest.mark.parametrize("words", [
    [], ["--progress", "1.01"], ["--progress", "-0.1"], ["--progress", "nan"], ["--progress", "inf"],
    ["--progress", "half"], ["--mode", "x"], ["--goal", ""], ["--tag", " "],
])  # fmt: skip
def test_edit_refuses_invalid_values(cli: Calling, words: list[str]) -> None:
    """Exit 4, and nothing changes."""
    cli.session("start", "G")
    cli.refused(4, "edit", *words)
    assert cli.session("status")["goal"] == "G"


def test_note_is_kept_and_message_is_only_activity(cli: Calling) -> None:
    cli.session("start", "G")
    assert [note["text"] for note in cli.session("note", "  remember this ")["notes"]] == ["  remember this "]
    for role in ([], ["--role", "user"], ["--role", "assistant"]):
        cli.session("message", *role)
    cli.refused(4, "message", "--role", "system")
    cli.refused(4, "note", "")
    cli.refused(2, "note")
    kinds = [event["type"] for event in cli.document("log")["events"]]
    assert kinds == ["session.started", "note.added", *["message.exchanged"] * 3]


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────


def test_session_is_named_by_uuid_prefix_alias_or_at(cli: Calling) -> None:
    """In every command that takes a session."""
    cli.repository()
    session = cli.session("start", "Add OAuth with PKCE", "--scope", "auth", "--branch", "--at", at(0))
    alias = session["aliases"]["timer"]
    assert alias == "20260105-auth-add-oauth-with-pkce"
    assert session["branch"] == f"session/{alias}"
    full = session["id"]
    for name in (full, full.upper(), full[:4], full[:13], alias, "@"):
        for verb in ("status", "show", "resume"):
            assert cli.session(verb, name)["id"] == full
        assert cli.document("briefing", name)["holdfast"] == 1
        assert cli.document("log", name)["events"]
        cli.session("archive", name)
        cli.session("unarchive", name)


@pytest.mark.parametrize(
    "name", ["zzzz", "00000000-0000-4000-8000-000000000000", "no-such-alias", "%", "_", "*", "'"]
)
def test_unknown_session_is_not_found(cli: Calling, name: str) -> None:
    """Exit 3; the hint says where to look."""
    cli.session("start", "G")
    for verb in (
        ["show"],
        ["resume"],
        ["archive"],
        ["unarchive"],
        ["delete", "--confirm", "--force"],
        ["status"],
        ["log"],
    ):
        assert cli.refused(3, *verb, name)["hint"]


def test_fewer_than_four_characters_are_no_prefix(cli: Calling) -> None:
    """Even if only one session begins with them."""
    session = cli.session("start", "G")["id"]
    cli.refused(3, "show", session[:3])
    assert cli.session("show", session[:4])["id"] == session


def test_ambiguous_name_lists_the_candidates(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["abcd0000-0000-4000-8000-000000000001", "abcd0000-0000-4000-8000-000000000002"])
    monkeypatch.setattr("holdfast.sessions.start.new_id", lambda: next(ids))
    cli.session("start", "One")
    cli.session("start", "Two", "--replace")
    error = cli.refused(4, "show", "abcd")
    assert "abcd0000-0000-4000-8000-000000000001" in error["message"]
    assert "abcd0000-0000-4000-8000-000000000002" in error["message"]
    assert cli.session("show", "abcd0000-0000-4000-8000-000000000002")["goal"] == "Two"


@pytest.mark.parametrize("own", [False, True])
def test_whole_id_of_another_person_is_ambiguous_when_it_begins_another_id(
    cli: Calling, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """Others choose the ids of their sessions; a whole id of our own is always unambiguous."""
    ids = iter(["abcd0000-0000-4000-8000-000000000001", "abcd0000"])
    monkeypatch.setattr("holdfast.sessions.start.new_id", lambda: next(ids))
    long = cli.session("start", "One")["id"]
    short = cli.session("start", "Two", "--replace")["id"]
    if own:
        assert cli.session("show", short)["goal"] == "Two"
    else:
        with Keeper.open(str(cli.project), home=str(cli.home)) as keeper, keeper.transaction() as transaction:
            origin.record_share(transaction, short, "f" * 64)
        assert long in cli.refused(4, "show", short)["message"]
    assert cli.session("show", long)["goal"] == "One"


def test_alias_of_two_sessions_is_ambiguous(cli: Calling) -> None:
    cli.repository()
    alias = cli.session("start", "Same", "--branch", "--at", at(0))["aliases"]["timer"]
    first = cli.session("stop", "--discard", "--reason", "again", "--at", at(1))["id"]
    second = cli.session("start", "Same", "--branch", "--at", at(2))["id"]
    error = cli.refused(4, "show", alias)
    assert first in error["message"]
    assert second in error["message"]


# ── archiving, deleting ──────────────────────────────────────────────────────────────────────────────────


def test_archive_is_reversible_and_a_repetition_conflicts(cli: Calling) -> None:
    session = cli.session("start", "G")["id"]
    cli.refused(5, "unarchive", session)
    cli.session("archive", session)
    cli.refused(5, "archive", session)
    assert cli.document("history")["sessions"][0]["archived"] is True
    cli.session("unarchive", session)
    assert cli.document("history")["sessions"][0]["archived"] is False
    cli.refused(2, "archive")


def test_ended_session_can_still_be_archived(cli: Calling) -> None:
    """Archiving is not work."""
    session = cli.session("start", "G")["id"]
    cli.session("stop")
    assert cli.session("archive", session)["status"] == "completed"


def test_delete_needs_confirmation_and_leaves_nothing(cli: Calling) -> None:
    """With `--confirm` no byte of the text is left, and nothing is current."""
    session = cli.session("start", "Something quite unmistakable")["id"]
    cli.session("note", "another xylophone")
    cli.refused(1, "delete", session)
    assert cli.session("status")["id"] == session
    assert cli.document("delete", session, "--confirm", "--force")["deleted"] == session
    cli.refused(3, "show", session)
    assert cli.document("status")["session"] is None
    assert cli.document("history")["sessions"] == []
    raw = b"".join(path.read_bytes() for path in cli.home.rglob("*") if path.is_file())
    assert b"unmistakable" not in raw
    assert b"xylophone" not in raw


def test_feature_name_is_free_when_only_an_id_begins_with_it(cli: Calling) -> None:
    """`--feature add`, while an id begins with `add`."""
    begun = cli.session("start", "First")["id"]
    cli.session("stop")
    assert cli.session("start", "Second", "--feature", begun[:4])["feature"] == begun[:4]
