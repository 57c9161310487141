"""The contract: beginning, pausing, resuming and ending sessions, and how they are named."""

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


def test_start_records_everything_it_is_reported(cli: Calling) -> None:
    """Each option of `start` is a field of the document."""
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


def test_start_alone_uses_the_defaults(cli: Calling) -> None:
    """What was not told is null, and the mode is `default`."""
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
def test_start_refuses_and_leaves_nothing_current(cli: Calling, code: int, words: list[str]) -> None:
    """A wrong call has its code, and no session comes of it."""
    cli.refused(code, *words)
    cli.refused(3, "note", "x")


def test_start_twice_is_a_conflict_that_names_the_session(cli: Calling) -> None:
    """A second start is exit 5 and changes nothing."""
    first = cli.session("start", "One")["id"]
    error = cli.refused(5, "start", "Two")
    assert error["session"] == first
    assert "One" in error["message"]
    assert "--replace" in error["hint"]
    assert cli.session("note", "still here")["id"] == first


def test_replace_puts_the_old_one_away_resumable(cli: Calling) -> None:
    """`--replace` pauses and archives the current session and never overwrites it."""
    old = cli.session("start", "One")["id"]
    new = cli.session("start", "Two", "--replace")["id"]
    assert new != old
    rows = {row["id"]: row for row in cli.document("history")["sessions"]}
    assert (rows[old]["status"], rows[old]["archived"]) == ("paused", True)
    assert (rows[new]["status"], rows[new]["archived"]) == ("in_progress", False)
    resumed = cli.session("resume", old)
    assert (resumed["id"], resumed["status"]) == (old, "in_progress")
    assert resumed["time"]["pauses"][0]["reason"] == "Replaced by another session"


def test_replace_of_a_paused_or_failed_session_keeps_its_status(cli: Calling) -> None:
    """Only a running session has to be paused before it is put away."""
    for verb, status in ((["pause", "lunch"], "paused"), (["fail", "broken"], "error")):
        old = cli.session("start", "Old", "--replace")["id"]
        cli.session(*verb)
        cli.session("start", "New", "--replace")
        rows = {row["id"]: row for row in cli.document("history")["sessions"]}
        assert (rows[old]["status"], rows[old]["archived"]) == (status, True)


def test_replace_with_nothing_current_is_a_start(cli: Calling) -> None:
    """`--replace` does not need something to replace."""
    assert cli.session("start", "One", "--replace")["status"] == "in_progress"


def test_resuming_what_was_put_away_takes_it_out(cli: Calling) -> None:
    """A session that is worked on is not archived."""
    old = cli.session("start", "One")["id"]
    cli.session("start", "Two", "--replace")
    cli.session("resume", old)
    rows = {row["id"]: row for row in cli.document("history")["sessions"]}
    assert rows[old]["archived"] is False


def test_continues_names_the_whole_id(cli: Calling) -> None:
    """`--continues` takes a prefix and records the UUID."""
    old = cli.session("start", "One")["id"]
    cli.session("stop")
    assert cli.session("start", "Two", "--continues", old[:8])["continues"] == old


# ── the lifecycle ────────────────────────────────────────────────────────────────────────────────────────


def test_way_of_a_session(cli: Calling) -> None:
    """in_progress to paused and back, failed and resumed, completed."""
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
def test_what_the_state_does_not_allow_is_refused(cli: Calling, before: list[str], verb: list[str]) -> None:
    """Exit 1, and the session stays as it was."""
    cli.session("start", "G")
    if before:
        cli.session(*before)
    status = cli.session("status")["status"]
    events = len(cli.document("log")["events"])
    assert cli.refused(1, *verb)["kind"] == "refused"
    assert cli.session("status")["status"] == status
    assert len(cli.document("log")["events"]) == events


@pytest.mark.parametrize("end", [["stop"], ["abort", "no"]])
def test_after_the_end_nothing_follows(cli: Calling, end: list[str]) -> None:
    """An ended session is not current any more, and stays as it is: resuming it begins one that continues it."""
    session = cli.session("start", "G")["id"]
    ended = cli.session(*end)["status"]
    for verb in (["pause"], ["note", "x"], ["stop"], ["abort"], ["fail", "x"], ["save"], ["message"]):
        assert cli.refused(3, *verb)["hint"]
    assert cli.document("status")["session"] is None
    assert cli.session("resume", session)["continues"] == session
    assert cli.session("show", session)["status"] == ended


@pytest.mark.parametrize("before", [[], ["pause"], ["fail", "x"]])
def test_everything_unfinished_can_be_aborted(cli: Calling, before: list[str]) -> None:
    """`abort` ends a session from every unfinished status."""
    cli.session("start", "G")
    if before:
        cli.session(*before)
    assert cli.session("abort", "wrong idea")["status"] == "aborted"


def test_stop_completes_a_paused_session(cli: Calling) -> None:
    """A pause need not be ended before the session is."""
    cli.session("start", "G", "--at", at(0))
    cli.session("pause", "--at", at(3))
    session = cli.session("stop", "--at", at(10))
    assert session["status"] == "completed"
    assert (session["time"]["working_ms"], session["time"]["paused_ms"]) == (180_000, 420_000)
    assert session["time"]["pauses"][0]["ended_at"] == at(10)


def test_keep_and_discard_exclude_each_other(cli: Calling) -> None:
    """That is a wrong command line, exit 2."""
    cli.session("start", "G")
    cli.refused(2, "stop", "--keep", "--discard")


# ── resume, continue ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [[], ["pause"], ["fail", "x"]])
def test_resume_goes_on_with_everything_unfinished(cli: Calling, before: list[str]) -> None:
    """In progress (after a crash), paused or failed: afterwards it is in progress and current here."""
    session = cli.session("start", "G")["id"]
    if before:
        cli.session(*before)
    assert cli.session("resume", session)["status"] == "in_progress"
    assert cli.session("note", "x")["id"] == session


def test_resume_and_continue_without_anything(cli: Calling) -> None:
    """Nothing to go on with is exit 3."""
    cli.refused(3, "resume")
    cli.refused(3, "continue")
    cli.session("start", "G")
    cli.session("stop")
    cli.refused(3, "resume")
    cli.refused(3, "continue")


def test_resume_elsewhere_makes_it_current_there(cli: Calling, tmp_path: Path) -> None:
    """A session of one directory can be gone on with in another."""
    session = cli.session("start", "G")["id"]
    other = tmp_path / "other"
    other.mkdir()
    cli.refused(3, "note", "x", "--project", str(other))
    assert cli.session("resume", session, "--project", str(other))["id"] == session
    assert cli.session("note", "x", "--project", str(other))["id"] == session


def test_continue_takes_the_one_worked_on_last(cli: Calling) -> None:
    """`continue` is `resume` of the latest unfinished session, whichever is current."""
    one = cli.session("start", "One", "--at", at(0))["id"]
    two = cli.session("start", "Two", "--replace", "--at", at(1))["id"]
    cli.session("pause", "--at", at(2))
    assert cli.session("continue", "--at", at(3))["id"] == two
    cli.session("stop", "--at", at(4))
    assert cli.session("continue", "--at", at(5))["id"] == one
    assert cli.session("status")["id"] == one


def test_resume_takes_its_options(cli: Calling) -> None:
    """`--no-sync`, `--force` and `--device` are part of the contract."""
    cli.session("start", "G")
    assert cli.session("resume", "--no-sync", "--force")["status"] == "in_progress"


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────


def test_edit_changes_only_what_is_named(cli: Calling) -> None:
    """Each option of `edit` changes its field; tags are added."""
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
def test_edit_refuses_what_is_no_fact(cli: Calling, words: list[str]) -> None:
    """Invalid values are exit 4 and change nothing."""
    cli.session("start", "G")
    cli.refused(4, "edit", *words)
    assert cli.session("status")["goal"] == "G"


def test_notes_and_messages(cli: Calling) -> None:
    """A note is kept, a message is only a sign of activity."""
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
    """All four ways lead to the same session, in every command that takes one."""
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
    """Exit 3, with a hint where to look."""
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
    """Three characters name nothing, even if only one session begins with them."""
    session = cli.session("start", "G")["id"]
    cli.refused(3, "show", session[:3])
    assert cli.session("show", session[:4])["id"] == session


def test_ambiguous_name_lists_the_candidates(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions with one beginning are told apart by nobody but the person."""
    ids = iter(["abcd0000-0000-4000-8000-000000000001", "abcd0000-0000-4000-8000-000000000002"])
    monkeypatch.setattr("holdfast.sessions.start.new_id", lambda: next(ids))
    cli.session("start", "One")
    cli.session("start", "Two", "--replace")
    error = cli.refused(4, "show", "abcd")
    assert "abcd0000-0000-4000-8000-000000000001" in error["message"]
    assert "abcd0000-0000-4000-8000-000000000002" in error["message"]
    assert cli.session("show", "abcd0000-0000-4000-8000-000000000002")["goal"] == "Two"


@pytest.mark.parametrize("own", [False, True])
def test_whole_id_is_ambiguous_when_it_is_of_others_and_begins_another_id(
    cli: Calling, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """Whoever begins a session chooses its id; one of our own is meant by its whole id, whatever begins so."""
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


def test_one_alias_of_two_sessions_is_ambiguous(cli: Calling) -> None:
    """An alias names its session only while it is the only one."""
    cli.repository()
    alias = cli.session("start", "Same", "--branch", "--at", at(0))["aliases"]["timer"]
    first = cli.session("stop", "--discard", "--reason", "again", "--at", at(1))["id"]
    second = cli.session("start", "Same", "--branch", "--at", at(2))["id"]
    error = cli.refused(4, "show", alias)
    assert first in error["message"]
    assert second in error["message"]


# ── putting away, deleting ───────────────────────────────────────────────────────────────────────────────


def test_archive_and_unarchive(cli: Calling) -> None:
    """Explicit, reversible, and a conflict when it is so already."""
    session = cli.session("start", "G")["id"]
    cli.refused(5, "unarchive", session)
    cli.session("archive", session)
    cli.refused(5, "archive", session)
    assert cli.document("history")["sessions"][0]["archived"] is True
    cli.session("unarchive", session)
    assert cli.document("history")["sessions"][0]["archived"] is False
    cli.refused(2, "archive")


def test_ended_session_can_still_be_archived(cli: Calling) -> None:
    """Putting away is not work on the session."""
    session = cli.session("start", "G")["id"]
    cli.session("stop")
    assert cli.session("archive", session)["status"] == "completed"


def test_delete_needs_confirmation_and_leaves_nothing(cli: Calling) -> None:
    """Without `--confirm` nothing happens; with it, no byte of the text is left and nothing is current."""
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


def test_feature_is_free_when_only_the_id_of_a_session_begins_with_its_name(cli: Calling) -> None:
    """`--feature add` is a name, and `add` may begin the id of another session."""
    begun = cli.session("start", "First")["id"]
    cli.session("stop")
    assert cli.session("start", "Second", "--feature", begun[:4])["feature"] == begun[:4]
