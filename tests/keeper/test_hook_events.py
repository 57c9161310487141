"""Events from hooks are as strict as a person's, at their own time, and each is recorded once.

Also: finding the version of a session that a copy was made from.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core import view
from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.core.events import (
    AgentStarted,
    DecisionMade,
    EventData,
    ExtraKept,
    MessageExchanged,
    NoteAdded,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    TaskAdded,
    WorkRecorded,
)
from holdfast.core.state import State, freeze
from holdfast.core.times import MINUTE
from holdfast.formats import registry
from holdfast.formats.base import Document, TimedEvent
from holdfast.formats.merge import distance
from holdfast.formats.mirror import base_version
from holdfast.formats.remainder import remainder_event, render_with_remainder
from holdfast.keeper.session import SessionHandle
from holdfast.workspace.settings import change, find_setting

HOUR = 60 * MINUTE


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def session(keeper: Keeper) -> SessionHandle:
    """Begun two hours ago."""
    return keeper.start("Add login", at=keeper.now() - 2 * HOUR)


def record(keeper: Keeper, session: str, *events: TimedEvent, keys: Iterator[str] | None = None) -> State:
    with keeper.store().transaction() as transaction:
        return keeper.recorder.append_reported(transaction, session, events, keys=keys)


def kinds(keeper: Keeper, session: str) -> list[str]:
    return [event.type for event in keeper.store().events(session)]


def test_each_event_of_a_hook_is_recorded_at_its_own_time(keeper: Keeper, session: SessionHandle) -> None:
    start = session.state().time.start
    record(
        keeper,
        session.id,
        *(TimedEvent(start + minutes * MINUTE, NoteAdded(text=str(minutes))) for minutes in (3, 1, 2)),
    )
    assert [(note.at - start, note.text) for note in session.state().notes] == [
        (3 * MINUTE, "3"), (MINUTE, "1"), (2 * MINUTE, "2"),
    ]  # fmt: skip


def test_times_of_hook_events_stay_between_session_start_and_now(keeper: Keeper, session: SessionHandle) -> None:
    """The clock of a payload may be wrong."""
    start = session.state().time.start
    record(keeper, session.id, TimedEvent(0, NoteAdded(text="early")), TimedEvent(10**15, NoteAdded(text="late")))
    early, late = session.state().notes
    assert early.at == start
    assert start < late.at <= keeper.now()


@pytest.mark.parametrize(
    "impossible", [SessionCompleted(), SessionPaused(), NoteAdded(text="x" * (1 << 21)), NoteAdded(text="\ud800")]
)
def test_events_of_a_hook_are_recorded_all_or_none(
    keeper: Keeper, session: SessionHandle, impossible: EventData
) -> None:
    session.pause()
    if isinstance(impossible, SessionCompleted):
        session.complete()
    before = freeze(session.state())
    with pytest.raises((Refused, Invalid)):
        record(
            keeper,
            session.id,
            TimedEvent(keeper.now(), ExtraKept(name="x", value="1")),
            TimedEvent(keeper.now(), impossible),
        )
    assert freeze(session.state()) == before


def test_hook_events_are_refused_in_the_same_words_as_verbs(keeper: Keeper, session: SessionHandle) -> None:
    session.complete()
    with pytest.raises(Refused) as by_verb:
        session.note("too late")
    with pytest.raises(Refused) as by_hook:
        record(keeper, session.id, TimedEvent(keeper.now(), NoteAdded(text="too late")))
    assert (by_hook.value.message, by_hook.value.hint) == (by_verb.value.message, by_verb.value.hint)


def test_hook_events_for_an_unknown_or_deleted_session_are_refused(keeper: Keeper, session: SessionHandle) -> None:
    note = TimedEvent(keeper.now(), NoteAdded(text="hello"))
    with pytest.raises(NotFound):
        record(keeper, "7" * 36, note)
    keeper.delete(session.id, force=True)
    with pytest.raises(NotFound):
        record(keeper, session.id, note)


def test_edit_recorded_twice_with_one_key_counts_once(keeper: Keeper, session: SessionHandle) -> None:
    edit = [
        TimedEvent(keeper.now(), NoteAdded(text="one")),
        TimedEvent(keeper.now(), TaskAdded(id="t1", text="Test it")),
    ]
    for _ in range(2):
        record(keeper, session.id, *edit, keys=(f"file:{number}" for number in itertools.count()))
    state = session.state()
    assert [note.text for note in state.notes] == ["one"]
    assert [task.text for task in state.tasks.values()] == ["Test it"]
    assert state.clashes == []


def test_events_without_keys_are_recorded_each_time(keeper: Keeper, session: SessionHandle) -> None:
    for _ in range(2):
        record(keeper, session.id, TimedEvent(keeper.now(), NoteAdded(text="one")))
    assert len(session.state().notes) == 2


def test_secrets_in_hook_events_are_removed_and_counted(keeper: Keeper, session: SessionHandle) -> None:
    chance = random.Random(1)
    secret = "gh" + "p_" + "".join(chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789", k=36))
    record(
        keeper, session.id, TimedEvent(keeper.now(), DecisionMade(chosen=f"Use {secret}", options=(secret, "none")))
    )
    (decision,) = session.state().decisions
    assert secret not in decision.chosen + "".join(decision.options)
    assert decision.options[1] == "none"
    assert sum(session.state().redacted.values()) == sum(keeper.recorder.tally.redacted.values()) == 2


def test_device_joins_with_its_first_hook_event(keeper: Keeper, session: SessionHandle, tmp_path: Path) -> None:
    events = list(keeper.store().events(session.id))
    (tmp_path / "elsewhere").mkdir()
    with Keeper.open(str(tmp_path / "elsewhere"), home=str(tmp_path / "second-home")) as other:
        with other.store().transaction() as transaction:
            transaction.receive(events)
        record(other, session.id, TimedEvent(other.now(), NoteAdded(text="hello")))
        assert kinds(other, session.id)[-2:] == ["device.joined", "note.added"]
        record(other, session.id, TimedEvent(other.now(), NoteAdded(text="again")))
        assert kinds(other, session.id)[-1] == "note.added"


# ── limits of working time ───────────────────────────────────────────────────────────────────────────────


def test_limit_reached_within_a_batch_does_not_interrupt_it(keeper: Keeper, session: SessionHandle) -> None:
    """A hundred minutes of work, then a pause and its end: all are recorded, without a timeout between them."""
    start = session.state().time.start
    events: list[EventData] = [NoteAdded(text="still here"), SessionPaused(reason="lunch"), SessionResumed()]
    record(
        keeper, session.id, TimedEvent(start + 100 * MINUTE, WorkRecorded(since=start, until=start + 100 * MINUTE)),
        *(TimedEvent(start + (101 + minutes) * MINUTE, line) for minutes, line in enumerate(events)),
    )  # fmt: skip
    recorded = kinds(keeper, session.id)
    assert recorded.index("note.added") < recorded.index("session.paused") < recorded.index("session.resumed")
    assert "session.timed_out" not in recorded[: recorded.index("session.resumed")]


def test_crossed_limits_are_recorded_at_the_end(keeper: Keeper, session: SessionHandle) -> None:
    start = session.state().time.start
    record(keeper, session.id, TimedEvent(start + 70 * MINUTE, WorkRecorded(since=start, until=start + 70 * MINUTE)))
    assert set(session.state().time.reached) == {"break_40", "warning_60"}
    assert [crossed.name for crossed in keeper.recorder.tally.reached] == list(session.state().time.reached)
    assert view.status_of(session.state()) == "in_progress"


def test_last_limit_pauses_the_session_when_the_setting_asks_for_it(keeper: Keeper, session: SessionHandle) -> None:
    change(keeper.home.config, find_setting("timer.timeout_action"), "pause")
    start = session.state().time.start
    with Keeper.open(keeper.place.root, home=keeper.home.path) as chosen:
        record(
            chosen, session.id, TimedEvent(start + 95 * MINUTE, WorkRecorded(since=start, until=start + 95 * MINUTE))
        )
    assert kinds(keeper, session.id)[-1] == "session.timed_out"
    assert view.status_of(session.state()) == "paused"


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────


def work(keeper: Keeper, session: SessionHandle, steps: int) -> None:
    """An event of every kind, a minute apart."""
    start = session.state().time.start
    for number in range(steps):
        data: EventData = (
            NoteAdded(text=f"Note {number}"), AgentStarted(id=f"a{number}", type="coder", task=f"Part {number}"),
            TaskAdded(id=f"t{number}", text=f"Task {number}"), SessionEdited(goal=f"Goal {number}"),
            DecisionMade(chosen=f"Choice {number}"), MessageExchanged(),
        )[number % 6]  # fmt: skip
        record(keeper, session.id, TimedEvent(start + (number + 1) * 10_000, data))


def shown(keeper: Keeper, session: SessionHandle, name: str) -> list[Document]:
    """What a mirror showed after each event."""
    from holdfast.core.fold import fold

    events = list(keeper.store().events(session.id))
    return [
        render_with_remainder(fold(events[:count]), registry.format_named(name))
        for count in range(1, len(events) + 1)
    ]


@pytest.mark.parametrize("name", registry.NAMES)
def test_base_version_of_an_edited_copy_is_determined(keeper: Keeper, session: SessionHandle, name: str) -> None:
    work(keeper, session, 24)
    rules = registry.format_named(name)
    events = list(keeper.store().events(session.id))
    random.Random(4).shuffle(events)
    for version in shown(keeper, session, name):
        edited: Document = {**version, "x-own": {"note": "mine"}}
        assert base_version.nearest_version(events, rules, edited) == version
        assert base_version.nearest_version(events, rules, version) == version


def test_latest_of_equally_near_versions_counts(keeper: Keeper, session: SessionHandle) -> None:
    """The edit must not undo what happened between them."""
    rules = registry.format_named("timer")
    work(keeper, session, 3)
    nearest = base_version.nearest_version(list(keeper.store().events(session.id)), rules, {})
    assert nearest is not None
    near = [
        version for version in shown(keeper, session, "timer")
        if distance(version, {}, rules) == distance(nearest, {}, rules)
    ]  # fmt: skip
    assert nearest == near[-1]


def test_base_version_is_searched_among_the_last_versions_only(
    keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_version, "MAX_VERSIONS", 5)
    work(keeper, session, 24)
    rules = registry.format_named("orchestrator")
    every = shown(keeper, session, "orchestrator")
    events = list(keeper.store().events(session.id))
    assert base_version.nearest_version(events, rules, every[-5]) == every[-5]
    assert base_version.nearest_version(events, rules, every[2]) in every[-5:]


def test_versions_include_the_stored_remainder(keeper: Keeper, session: SessionHandle) -> None:
    """A copy made before a remainder was stored differs from one made after."""
    rules = registry.format_named("orchestrator")
    before = render_with_remainder(session.state(), rules)
    kept = remainder_event(session.state(), rules, {**before, "x-own": "kept"})
    assert kept is not None
    record(keeper, session.id, TimedEvent(session.state().updated_at, kept))
    events = list(keeper.store().events(session.id))
    assert base_version.nearest_version(events, rules, {**before, "x-own": "kept", "new": 1}) == {
        **before,
        "x-own": "kept",
    }
    assert base_version.nearest_version(events, rules, {**before, "new": 1}) == before


def test_base_version_is_none_without_events() -> None:
    assert base_version.nearest_version([], registry.format_named("timer"), {}) is None
