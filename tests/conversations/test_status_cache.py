"""Glances: what a status line reads is what the store would say, at every later moment, and follows every change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations import status_cache, status_cache_writer
from holdfast.core import view
from holdfast.core.events import AgentStarted, AwayRecorded, MessageExchanged, SessionPaused
from holdfast.core.reminders import LimitRule, counted_time
from holdfast.core.state import State
from holdfast.core.wording import PAUSES
from tests.support.agents_speaking import BEGAN, Speaking
from tests.support.histories import MINUTE, NOON, History, histories, started

_STEPS = (0, 1, 999, MINUTE, 5 * MINUTE - 1, 5 * MINUTE, 5 * MINUTE + 1, 10 * MINUTE, 10 * MINUTE + 1, 10**8, 10**13)
_STRONGEST = ("manual", "timeout", "task", "idle")


@pytest.fixture
def speaking(tmp_path: Path) -> Speaking:
    return Speaking(tmp_path)


def shown(speaking: Speaking, talk: str = "talk-1") -> status_cache.Fields | None:
    """What a status line finds in the files alone."""
    status = status_cache.find(str(speaking.home), f"claude:{talk}", str(speaking.project), "")
    assert status is not None
    return status.fields


def ask(speaking: Speaking, talk: str = "talk-1") -> status_cache.Fields | None:
    with speaking.keeper() as keeper:
        return status_cache_writer.cache_conversation(keeper, f"claude:{talk}", str(speaking.project), store="")


# ── working time ─────────────────────────────────────────────────────────────────────────────────────────


def agree(state: State, made: int, now: int) -> None:
    """The glance made at one moment says at another what the rules of working time say."""
    for rule in (LimitRule(), LimitRule(pauses=True)):
        seen = json.loads(json.dumps(status_cache_writer.status_fields(state, made, rule)))
        assert status_cache._at(seen, now)[3] == counted_time(state, now, rule).working
    work = view.worktime(state, now)
    lasting = [] if view.ended_at(state) is not None else [rest for rest in work.pauses if rest.until is None]
    if not lasting:
        assert status_cache.work_at(seen, now) == (work.working, "", 0)
        return
    pause = min(lasting, key=lambda rest: _STRONGEST.index(rest.kind))
    assert status_cache.work_at(seen, now) == (work.working, PAUSES[pause.kind], pause.length)


@given(histories(hostile=True), st.sampled_from(_STEPS), st.lists(st.sampled_from(_STEPS), min_size=1, max_size=4))
def test_status_has_future_working_time(history: History, made: int, later: list[int]) -> None:
    """Whatever happened, and however long after: exactly what would be computed from the log."""
    for state in (device.state() for device in history.devices):
        moment = state.updated_at + made
        now = moment
        for step in later:
            now += step
            agree(state, moment, now)


@given(histories(hostile=False), st.integers(0, 30 * MINUTE), st.integers(0, 90 * MINUTE))
def test_status_equals_store_at_any_moment(history: History, made: int, later: int) -> None:
    """Not only at the moments where something turns."""
    state = history.devices[0].state()
    agree(state, state.updated_at + made, state.updated_at + made + later)


@given(histories(hostile=True), st.integers(-(10**13), 10**13), st.integers(0, 10**8))
def test_status_equals_store_within_recorded_time(history: History, made: int, later: int) -> None:
    """A log may hold moments that are still to come: an end entered ahead, another device's clock."""
    state = history.devices[0].state()
    agree(state, NOON + made, NOON + made + later)


def test_gap_becomes_idle_pause() -> None:
    """After five minutes without a sign the working time falls back to the last one, and stands."""
    device = started()
    device.wait(3 * MINUTE)
    device.record(MessageExchanged())
    seen = status_cache_writer.status_fields(device.state(), device.now, LimitRule())
    assert status_cache.work_at(seen, NOON + 8 * MINUTE) == (8 * MINUTE, "", 0)
    assert status_cache.work_at(seen, NOON + 8 * MINUTE + 1) == (3 * MINUTE, "idle", 5 * MINUTE + 1)
    assert status_cache.work_at(seen, NOON + 500 * MINUTE) == (3 * MINUTE, "idle", 497 * MINUTE)


def test_long_agent_run_becomes_pause() -> None:
    device = started()
    device.record(AgentStarted(id="a1", type="coder"))
    seen = status_cache_writer.status_fields(device.state(), device.now, LimitRule())
    assert seen["agents"] == 1
    assert status_cache.work_at(seen, NOON + 10 * MINUTE) == (10 * MINUTE, "", 0)
    assert status_cache.work_at(seen, NOON + 11 * MINUTE) == (0, "agent at work", 11 * MINUTE)


def test_status_has_few_pieces() -> None:
    """A long history leaves no trace in them: only what can still change is told."""
    device = started()
    for _ in range(300):
        device.wait(7 * MINUTE)
        device.record(MessageExchanged())
    device.record(AwayRecorded(since=NOON + MINUTE, until=NOON + 2 * MINUTE))
    assert len(status_cache_writer.work_pieces(device.state(), device.now, LimitRule())) <= 4
    device.record(SessionPaused(reason="lunch"))
    assert [piece[2:4] for piece in status_cache_writer.work_pieces(device.state(), device.now, LimitRule())] == [
        (0, "paused")
    ]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_written_unless_asked(speaking: Speaking) -> None:
    speaking.prompt()
    assert speaking.session().goal
    assert not (speaking.home / "glances").exists()


def test_conversation_without_session_shows_work_tree_session(speaking: Speaking) -> None:
    """Until its first prompt, and as that tree's session changes."""
    with speaking.keeper() as keeper:
        session = keeper.start("Tidy up")
    assert ask(speaking, "new") == shown(speaking, "new")
    with speaking.keeper() as keeper:
        keeper.session(session.id).edit(goal="Tidy up more")
    status = shown(speaking, "new")
    assert status is not None
    assert status["goal"] == "Tidy up more"
    with speaking.keeper() as keeper:
        keeper.session(session.id).complete()
    assert shown(speaking, "new") is None
    with speaking.keeper() as keeper:
        keeper.start("Something else")
    status = shown(speaking, "new")
    assert status is not None
    assert status["goal"] == "Something else"


def test_conversation_shows_own_session_after_first_prompt(speaking: Speaking) -> None:
    assert ask(speaking) is None
    assert shown(speaking) is None
    speaking.prompt("Add OAuth with PKCE")
    session = speaking.session()
    status = shown(speaking)
    assert status is not None
    assert status["session"] == session.id
    assert status_cache.work_at(status, BEGAN) == (0, "", 0)


def test_conversation_keeps_session_when_work_tree_changes(speaking: Speaking) -> None:
    speaking.prompt()
    own = speaking.session().id
    ask(speaking)
    with speaking.keeper() as keeper:
        keeper.start("Something urgent", replace=True)
    status = shown(speaking)
    assert status is not None
    assert status["session"] == own
    assert status_cache.work_at(status, speaking.now)[1] == "paused"


def test_change_from_other_work_tree_is_shown(speaking: Speaking, tmp_path: Path) -> None:
    """A person may act on a session from anywhere."""
    speaking.prompt()
    session = speaking.session().id
    ask(speaking)
    (tmp_path / "elsewhere").mkdir()
    with speaking.keeper(tmp_path / "elsewhere") as keeper:
        keeper.session(session).edit(goal="From elsewhere")
    status = shown(speaking)
    assert status is not None
    assert status["goal"] == "From elsewhere"


def test_deleted_session_is_removed_from_cache(speaking: Speaking) -> None:
    speaking.prompt("Zanzibar and its harbours")
    session = speaking.session().id
    assert ask(speaking) is not None
    with speaking.keeper() as keeper:
        keeper.delete(session, force=True)
    assert not any("Zanzibar" in path.read_text() for path in (speaking.home / "glances").iterdir())
    assert ask(speaking) is None


def test_restored_backup_is_looked_up_again(speaking: Speaking, tmp_path: Path) -> None:
    """What it changed is not known one by one, so everything is asked for again."""
    speaking.prompt()
    speaking.session()
    with speaking.keeper() as keeper:
        keeper.backup(str(tmp_path / "backup.db"))
    other = Speaking(tmp_path / "other")
    with other.keeper() as keeper:
        keeper.start("Here")
    ask(other)
    with other.keeper() as keeper:
        assert keeper.restore(str(tmp_path / "backup.db")).events
    assert status_cache.find(str(other.home), "claude:talk-1", str(other.project), "") is None


def test_other_directory_or_store_is_looked_up_again(speaking: Speaking) -> None:
    ask(speaking)
    home, name, where = str(speaking.home), "claude:talk-1", str(speaking.project)
    assert status_cache.find(home, name, where, "") is not None
    assert status_cache.find(home, name, where + "/below", "") is None
    assert status_cache.find(home, name, where, "sqlite:///elsewhere.db") is None
    assert status_cache.find(home, "claude:talk-2", where, "") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"v":99}', b"\xff\xfe", b"[" * 100_000])
def test_damaged_file_is_ignored(speaking: Speaking, damage: bytes) -> None:
    """It is found anew from the store, whichever it is."""
    speaking.prompt()
    speaking.session()
    before = ask(speaking)
    for path in list((speaking.home / "glances").iterdir()):
        kept = path.read_bytes()
        path.write_bytes(damage)
        if path.name[:2] in ("c-", "s-"):
            assert status_cache.find(str(speaking.home), "claude:talk-1", str(speaking.project), "") is None
        path.write_bytes(kept)
    assert shown(speaking) == before


def test_unwritable_cache_stops_nothing(speaking: Speaking) -> None:
    """The session goes on, and the error log says what was wrong."""
    speaking.prompt()
    session = speaking.session().id
    ask(speaking)
    path = Path(status_cache.session_path(str(speaking.home), session))
    path.unlink()
    path.mkdir()
    with speaking.keeper() as keeper:
        keeper.session(session).note("goes on")
    assert speaking.session().notes[-1].text == "goes on"
    assert [line["where"] for line in speaking.errors()] == ["status cache"]


@pytest.mark.parametrize(
    "name", ["claude:..", "claude:a/b", "claude:A", "claude:" + "x" * 5000, "dir:/a b", "c:\udcff"]
)
def test_names_stay_in_directory(name: str, tmp_path: Path) -> None:
    """And names that differ only in case have different files, on every system."""
    for path in (
        status_cache.conversation_path(str(tmp_path), name),
        status_cache.input_path(str(tmp_path), name),
    ):
        assert Path(path).parent == tmp_path / "glances"
        assert len(Path(path).name) < 100
        assert Path(path).name.islower()
    assert status_cache.conversation_path("h", "claude:A") != status_cache.conversation_path("h", "claude:a")
