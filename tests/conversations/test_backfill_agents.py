"""Subagents of a backfilled conversation: each has its own id in the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.transcript import TimedSignal, Transcript
from holdfast.conversations.backfill.events import TranscriptPart, Window, make_part
from holdfast.conversations.backfill.placement import TranscriptRecorder
from holdfast.conversations.signals import AgentBegan, AgentEnded, Ran
from holdfast.core import view
from holdfast.core.events import AgentCompleted, AgentStarted, TimerRules
from holdfast.core.times import DAY, MINUTE
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from tests.support.agent_hooks import BEGAN

NOW = BEGAN + 3 * DAY
Signals = list[AgentBegan | AgentEnded]


def began(agent: str | None) -> AgentBegan:
    return AgentBegan(agent=agent, type="Plan")


def ended(agent: str | None, took: int = 0) -> AgentEnded:
    return AgentEnded(agent=agent, took_ms=took, summary="done")


def transcript_of(signals: Sequence[AgentBegan | AgentEnded | Ran]) -> Transcript:
    signals_in_time = [
        TimedSignal(BEGAN + place * MINUTE, signal, f"m{place}") for place, signal in enumerate(signals)
    ]
    last = BEGAN + len(signals_in_time) * MINUTE
    return Transcript(
        agent="claude", conversation="talk", began=BEGAN, ended=last, signals=signals_in_time, signs=[BEGAN, last]
    )


def part_of(signals: Signals, window: Window | None = None) -> TranscriptPart | None:
    return make_part(transcript_of(signals), window or Window(), roots=(), timer=TimerRules(), now=NOW)


def started(recorded: TranscriptPart | None) -> list[str]:
    return [event.data.id for event in recorded.events if isinstance(event.data, AgentStarted)] if recorded else []


CASES: list[tuple[Signals, list[tuple[str, str]]]] = [
    # Its start was not reported, and its end twice.
    ([ended("a"), ended("a")], [("a", "completed")]),
    ([ended(None), ended(None)], [("agent", "completed")]),
    ([ended("a"), began("a"), ended("a")], [("a", "completed"), ("a-2", "completed")]),
    ([began("a"), ended("a"), began("a")], [("a", "completed"), ("a-2", "interrupted")]),
    # The second run would have the id of another agent.
    ([began("a"), began("a"), began("a-2"), ended("a-2")],
     [("a", "interrupted"), ("a-2", "interrupted"), ("a-2-2", "completed")]),
]  # fmt: skip


@pytest.mark.parametrize(("signals", "agents"), CASES)
def test_no_subagent_is_in_conflict_with_itself(
    tmp_path: Path, signals: Signals, agents: list[tuple[str, str]]
) -> None:
    """Two runs under one id would be a conflict of this device with itself."""
    wall = Wall(lambda: NOW * 1_000_000)
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), actor="anna", wall=wall) as keeper:
        recorder = TranscriptRecorder(keeper)
        for expected in (True, False):
            with keeper.store().transaction() as transaction:
                assert bool(recorder.record(transaction, transcript_of(signals)).events) is expected
        (row,) = keeper.history(limit=None, all_projects=True)
        session = view.session(keeper.state(row.id), NOW)
    assert session.conflicts == []
    assert [(agent.id, agent.status) for agent in session.agents] == agents


def test_work_belongs_to_the_run_it_was_done_in() -> None:
    """An agent known only by its end has the work since its last end; other runs have their own."""
    ran = Ran(command="make", code=0, agent="a")
    recorded = make_part(
        transcript_of([ended("a"), ran, began("a"), ran, ended("a")]), Window(), roots=(), timer=TimerRules(), now=NOW
    )
    assert recorded is not None
    assert [getattr(event.data, "agent", None) for event in recorded.events if event.mark in ("m1", "m3")] == [
        "a",
        "a-2",
    ]


def test_end_in_a_later_part_has_the_id_of_its_run() -> None:
    """A continuing session uses the run's earlier id."""
    recorded = part_of([began("a"), ended("a"), began("a"), ended("a")], Window(after=BEGAN + 2 * MINUTE))
    assert started(recorded) == ["a-2"]
    assert recorded is not None
    assert [event.data.id for event in recorded.events if isinstance(event.data, AgentCompleted)] == ["a-2"]


NAMES = st.sampled_from([None, "a", "a-2", "a-2-2", "Plan", "agent", "agent-2", "x" * 100, "x" * 90 + "-2"])
ANY = st.lists(st.builds(began, NAMES) | st.builds(ended, NAMES, st.integers(0, 10 * MINUTE)), max_size=12)


@given(ANY, st.integers(-1, 12), st.integers(-1, 13))
def test_subagent_ids_of_a_part_are_unique(signals: Signals, after: int, before: int) -> None:
    """For any signals, in any part."""
    ids = started(part_of(signals, Window(BEGAN + after * MINUTE, BEGAN + before * MINUTE)))
    assert len(ids) == len(set(ids))


@given(ANY, st.integers(0, 12))
def test_growing_transcript_renames_no_subagent(signals: Signals, known: int) -> None:
    assert set(started(part_of(signals[:known]))) <= set(started(part_of(signals)))
