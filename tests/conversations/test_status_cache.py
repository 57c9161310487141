"""The status cache: the files of a status line agree with the store at every later time, and follow every change."""

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
from tests.support.agent_hooks import BEGAN, AgentHooks
from tests.support.histories import MINUTE, NOON, History, histories, started

_STEPS = (0, 1, 999, MINUTE, 5 * MINUTE - 1, 5 * MINUTE, 5 * MINUTE + 1, 10 * MINUTE, 10 * MINUTE + 1, 10**8, 10**13)
_STRONGEST = ("manual", "timeout", "task", "idle")


@pytest.fixture
def with_hooks(tmp_path: Path) -> AgentHooks:
    return AgentHooks(tmp_path)


def shown(with_hooks: AgentHooks, talk: str = "talk-1") -> status_cache.Fields | None:
    """What a status line reads from the files alone."""
    status = status_cache.find(str(with_hooks.home), f"claude:{talk}", str(with_hooks.project), "")
    assert status is not None
    return status.fields


def ask(with_hooks: AgentHooks, talk: str = "talk-1") -> status_cache.Fields | None:
    with with_hooks.keeper() as keeper:
        return status_cache_writer.cache_conversation(keeper, f"claude:{talk}", str(with_hooks.project), store="")


# ── working time ─────────────────────────────────────────────────────────────────────────────────────────


def assert_agree(state: State, made: int, now: int) -> None:
    """The cache written at one time gives at another what the rules of working time give."""
    for rule in (LimitRule(), LimitRule(pauses=True)):
        seen = json.loads(json.dumps(status_cache_writer.status_fields(state, made, rule)))
        assert status_cache._times_at(seen, now)[3] == counted_time(state, now, rule).working
    work = view.worktime(state, now)
    lasting = [] if view.ended_at(state) is not None else [rest for rest in work.pauses if rest.until is None]
    if not lasting:
        assert status_cache.work_at(seen, now) == (work.working, "", 0)
        return
    pause = min(lasting, key=lambda rest: _STRONGEST.index(rest.kind))
    assert status_cache.work_at(seen, now) == (work.working, PAUSES[pause.kind], pause.length)


@given(histories(hostile=True), st.sampled_from(_STEPS), st.lists(st.sampled_from(_STEPS), min_size=1, max_size=4))
def test_status_has_future_working_time(history: History, made: int, later: list[int]) -> None:
    """Exactly what the log gives, however much later."""
    for state in (device.state() for device in history.devices):
        moment = state.updated_at + made
        now = moment
        for step in later:
            now += step
            assert_agree(state, moment, now)


@given(histories(hostile=False), st.integers(0, 30 * MINUTE), st.integers(0, 90 * MINUTE))
def test_status_equals_store_at_any_moment(history: History, made: int, later: int) -> None:
    """Not only where something changes."""
    state = history.devices[0].state()
    assert_agree(state, state.updated_at + made, state.updated_at + made + later)


@given(histories(hostile=True), st.integers(-(10**13), 10**13), st.integers(0, 10**8))
def test_status_equals_store_within_recorded_time(history: History, made: int, later: int) -> None:
    """A log may contain future times: an end entered ahead, another device's clock."""
    state = history.devices[0].state()
    assert_agree(state, NOON + made, NOON + made + later)


def test_gap_becomes_idle_pause() -> None:
    """After five minutes without a sign, working time falls back to the last sign."""
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
    """Only what can still change, however long the history."""
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


def test_nothing_is_written_unless_asked(with_hooks: AgentHooks) -> None:
    with_hooks.prompt()
    assert with_hooks.session().goal
    assert not (with_hooks.home / "glances").exists()


def test_conversation_without_session_shows_work_tree_session(with_hooks: AgentHooks) -> None:
    """Until its first prompt, even if that session changes."""
    with with_hooks.keeper() as keeper:
        session = keeper.start("Tidy up")
    assert ask(with_hooks, "new") == shown(with_hooks, "new")
    with with_hooks.keeper() as keeper:
        keeper.session(session.id).edit(goal="Tidy up more")
    status = shown(with_hooks, "new")
    assert status is not None
    assert status["goal"] == "Tidy up more"
    with with_hooks.keeper() as keeper:
        keeper.session(session.id).complete()
    assert shown(with_hooks, "new") is None
    with with_hooks.keeper() as keeper:
        keeper.start("Something else")
    status = shown(with_hooks, "new")
    assert status is not None
    assert status["goal"] == "Something else"


def test_conversation_shows_own_session_after_first_prompt(with_hooks: AgentHooks) -> None:
    assert ask(with_hooks) is None
    assert shown(with_hooks) is None
    with_hooks.prompt("Add OAuth with PKCE")
    session = with_hooks.session()
    status = shown(with_hooks)
    assert status is not None
    assert status["session"] == session.id
    assert status_cache.work_at(status, BEGAN) == (0, "", 0)


def test_conversation_keeps_session_when_work_tree_changes(with_hooks: AgentHooks) -> None:
    with_hooks.prompt()
    own = with_hooks.session().id
    ask(with_hooks)
    with with_hooks.keeper() as keeper:
        keeper.start("Something urgent", replace=True)
    status = shown(with_hooks)
    assert status is not None
    assert status["session"] == own
    assert status_cache.work_at(status, with_hooks.now)[1] == "paused"


def test_change_from_other_work_tree_is_shown(with_hooks: AgentHooks, tmp_path: Path) -> None:
    with_hooks.prompt()
    session = with_hooks.session().id
    ask(with_hooks)
    (tmp_path / "elsewhere").mkdir()
    with with_hooks.keeper(tmp_path / "elsewhere") as keeper:
        keeper.session(session).edit(goal="From elsewhere")
    status = shown(with_hooks)
    assert status is not None
    assert status["goal"] == "From elsewhere"


def test_deleted_session_is_removed_from_cache(with_hooks: AgentHooks) -> None:
    with_hooks.prompt("Zanzibar and its harbours")
    session = with_hooks.session().id
    assert ask(with_hooks) is not None
    with with_hooks.keeper() as keeper:
        keeper.delete(session, force=True)
    assert not any("Zanzibar" in path.read_text() for path in (with_hooks.home / "glances").iterdir())
    assert ask(with_hooks) is None


def test_restored_backup_is_looked_up_again(with_hooks: AgentHooks, tmp_path: Path) -> None:
    """Everything is read again, since its changes are not known one by one."""
    with_hooks.prompt()
    with_hooks.session()
    with with_hooks.keeper() as keeper:
        keeper.backup(str(tmp_path / "backup.db"))
    other = AgentHooks(tmp_path / "other")
    with other.keeper() as keeper:
        keeper.start("Here")
    ask(other)
    with other.keeper() as keeper:
        assert keeper.restore(str(tmp_path / "backup.db")).events
    assert status_cache.find(str(other.home), "claude:talk-1", str(other.project), "") is None


def test_other_directory_or_store_is_looked_up_again(with_hooks: AgentHooks) -> None:
    ask(with_hooks)
    home, name, where = str(with_hooks.home), "claude:talk-1", str(with_hooks.project)
    assert status_cache.find(home, name, where, "") is not None
    assert status_cache.find(home, name, where + "/below", "") is None
    assert status_cache.find(home, name, where, "sqlite:///elsewhere.db") is None
    assert status_cache.find(home, "claude:talk-2", where, "") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"v":99}', b"\xff\xfe", b"[" * 100_000])
def test_damaged_file_is_ignored(with_hooks: AgentHooks, damage: bytes) -> None:
    """It is rebuilt from the store."""
    with_hooks.prompt()
    with_hooks.session()
    before = ask(with_hooks)
    for path in list((with_hooks.home / "glances").iterdir()):
        kept = path.read_bytes()
        path.write_bytes(damage)
        if path.name[:2] in ("c-", "s-"):
            assert status_cache.find(str(with_hooks.home), "claude:talk-1", str(with_hooks.project), "") is None
        path.write_bytes(kept)
    assert shown(with_hooks) == before


def test_unwritable_cache_stops_nothing(with_hooks: AgentHooks) -> None:
    """The error log has the reason."""
    with_hooks.prompt()
    session = with_hooks.session().id
    ask(with_hooks)
    path = Path(status_cache.session_path(str(with_hooks.home), session))
    path.unlink()
    path.mkdir()
    with with_hooks.keeper() as keeper:
        keeper.session(session).note("goes on")
    assert with_hooks.session().notes[-1].text == "goes on"
    assert [line["where"] for line in with_hooks.errors()] == ["status cache"]


@pytest.mark.parametrize(
    "name", ["claude:..", "claude:a/b", "claude:A", "claude:" + "x" * 5000, "dir:/a b", "c:\udcff"]
)
def test_names_stay_in_directory(name: str, tmp_path: Path) -> None:
    """Names that differ only in case have different files."""
    for path in (
        status_cache.conversation_path(str(tmp_path), name),
        status_cache.input_path(str(tmp_path), name),
    ):
        assert Path(path).parent == tmp_path / "glances"
        assert len(Path(path).name) < 100
        assert Path(path).name.islower()
    assert status_cache.conversation_path("h", "claude:A") != status_cache.conversation_path("h", "claude:a")
