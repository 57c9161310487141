"""What programs import from `holdfast`: complete, loaded when it is used, and equal to what is stored."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
import typing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import (
    AgentHandle,
    AgentStatus,
    ErrorCategory,
    FileAction,
    Keeper,
    Notice,
    SessionHandle,
    SessionMode,
    SessionStatus,
    TaskStatus,
    Wall,
)
from holdfast.cli import table
from holdfast.core import errors, failures, lifecycle, modes
from holdfast.sessions import work
from holdfast.sessions.work import Work

NOON = 1_800_000_000_000  # in ms


@pytest.fixture
def keeper(tmp_path: Path) -> typing.Iterator[Keeper]:
    clock = Wall(lambda: NOON * 1_000_000)
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), wall=clock, actor="ada") as opened:
        yield opened


def test_public_names_exist_and_are_listed() -> None:
    """Each name of `__all__` can be imported, `dir` shows it, and every error is among them."""
    assert {name for name in holdfast.__all__ if getattr(holdfast, name, None) is None} == set()
    assert set(holdfast.__all__) <= set(dir(holdfast))
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined <= set(holdfast.__all__)
    assert holdfast.Conflict is errors.Conflict
    with pytest.raises(AttributeError, match="nothing_like_this"):
        holdfast.nothing_like_this  # noqa: B018


def test_public_names_load_nothing_until_they_are_used() -> None:
    """The package, its version and its errors are there without the store."""
    code = "import holdfast, sys; holdfast.__version__; holdfast.NotFound; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.startswith("holdfast")} == {
        "holdfast", "holdfast.core", "holdfast.core.errors",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("enum", "words"),
    [
        (SessionStatus, table.STATUSES), (SessionMode, modes.MODES), (ErrorCategory, failures.CATEGORIES),
        (FileAction, work.ACTIONS),
        (AgentStatus, lifecycle.FINAL["agent"] | set(lifecycle.AGENT)),
        (TaskStatus, lifecycle.FINAL["task"] | set(lifecycle.TASK)),
    ],
)  # fmt: skip
def test_enum_has_every_word_that_documents_use(enum: type[str], words: typing.Iterable[str]) -> None:
    """And no other; a member is equal to its word."""
    assert set(enum) == set(words)  # type: ignore[call-overload]


def test_enums_are_stored_as_their_words(keeper: Keeper) -> None:
    """Given as arguments, they leave the same events as strings."""
    session = keeper.start("G", mode=SessionMode.DEBUG)
    session.changed("f", FileAction.DELETED)
    session.agent("a", type="t", pid=None).fail("no", category=ErrorCategory.TRANSIENT)
    keeper.close()
    document = session.document()
    values = (document.mode, document.files[0].action, document.agents[0].status)
    assert values == ("debug", "deleted", AgentStatus.ERROR)
    assert {type(value) for value in values} == {str}
    assert [row.status for row in keeper.history(status=SessionStatus.IN_PROGRESS)] == ["in_progress"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_time_is_the_same_however_it_is_given(keeper: Keeper, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds, a datetime of any zone, or one without a zone, which is local time."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        aware = datetime.fromtimestamp(NOON / 1000, UTC) - timedelta(minutes=5)
        local = aware.astimezone().replace(tzinfo=None)
        for moment in (NOON - 300_000, aware, aware.astimezone(), local):
            session = keeper.start("G", at=moment)
            session.note("n", at=moment).agent("a", type="t", pid=None, at=moment).done(at=moment)
            assert {event.at for event in keeper.events(session.id)} == {NOON - 300_000}
            assert session.document(at=moment).notes == session.document(at=NOON - 300_000).notes
            assert keeper.session(at=moment).id in {row.id for row in keeper.history(since=moment, at=moment)}
            session.away(moment, aware + timedelta(minutes=1))
            assert session.document().time.pauses[0].duration_ms == 60_000
            session.stop()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("handle", [Keeper, SessionHandle, AgentHandle])
def test_every_time_may_be_a_datetime(handle: type) -> None:
    """No verb takes milliseconds only."""
    verbs = {name: verb for name, verb in inspect.getmembers(handle, inspect.isfunction) if name in vars(handle)}
    assert not [
        f"{name}({parameter.name})"
        for name, verb in {**vars(Work), **verbs}.items()
        if callable(verb) and not name.startswith("_")
        for parameter in inspect.signature(verb).parameters.values()
        if parameter.name in ("at", "since", "until", "expires") and "Moment" not in str(parameter.annotation)
    ]


def test_a_time_of_another_type_is_refused(keeper: Keeper) -> None:
    """Seconds with a fraction, or text, would be a time that nobody meant."""
    session = keeper.start("G")
    for moment in (time.monotonic(), "2026-11-15"):
        with pytest.raises(TypeError, match="expected a datetime"):
            session.note("n", at=moment)  # type: ignore[arg-type]


def test_repr_is_short_and_says_what_it_is(keeper: Keeper) -> None:
    """The beginning of the id, the goal and the status, on one line without control characters."""
    session = keeper.start("Sort the\x1b[1m invoices\nby " + "x" * 500)
    agent = session.agent("load-1", type="t", task="Load them", pid=None)
    session.add_task("Write the tests")
    document = session.document()
    assert repr(agent) == "<AgentHandle load-1 'Load them' running>"
    assert repr(document.agents) == "[<Agent load-1 'Load them' running>]"
    assert repr(document.tasks) == "[<Task t1 'Write the tests' pending>]"
    for shown in (session, document, keeper.history()[0]):
        assert repr(shown).startswith(f"<{type(shown).__name__} {session.id[:8]} 'Sort the\\x1b[1m invoices by xxx")
        assert repr(shown).endswith(" in_progress>")
        assert len(repr(shown)) < 120


def test_repr_opens_nothing_when_the_keeper_is_closed(tmp_path: Path) -> None:
    """Neither before the store is used nor after it was closed; what is not known is left out."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        assert repr(keeper).startswith(f"<Keeper of {str(tmp_path)!r}, store 'sqlite:///")
        assert not (tmp_path / "home").exists()
        session = keeper.start("G")
        agent = session.find_agent("nobody")
        assert repr(agent) == "<AgentHandle nobody>"
    assert (repr(session), repr(agent)) == (f"<SessionHandle {session.id[:8]}>", "<AgentHandle nobody>")
    (tmp_path / "home" / "store.db").unlink()
    assert repr(session) == f"<SessionHandle {session.id[:8]}>"


def test_notices_are_sentences_with_a_kind(keeper: Keeper) -> None:
    """So a program can tell a removed secret from a mirror that failed."""
    keeper.start("Use ghp_" + "c4n4ry0" * 5 + "x")
    keeper.notices.append("Another sentence.")
    notices = keeper.take_notices()
    assert [(notice, notice.kind) for notice in notices] == [
        ("Another sentence.", "other"), ("Removed secrets before storing: 1 github_token.", "secrets"),
    ]  # fmt: skip
    assert all(isinstance(notice, Notice) for notice in notices)
