"""Measures whether an append stays fast in a store of a million events in ten thousand sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from holdfast import Keeper
from holdfast.core.events import AgentStarted, DecisionMade, EventData, MessageExchanged, NoteAdded, SessionStarted
from holdfast.sessions.start import new_id
from holdfast.store.interface import Draft
from measures.append import text
from measures.figures import Figure, median, micros, timed

EVENTS = int(os.environ.get("HOLDFAST_BENCH_EVENTS", "1000000"))
SESSIONS = max(EVENTS // 100, 1)


class LargeStore(NamedTuple):
    project: Path
    home: Path
    figures: list[Figure]


def build(scratch: Path) -> LargeStore:
    project, home = scratch / "large-project", scratch / "large-home"
    project.mkdir()
    with Keeper.open(str(project), home=str(home)) as keeper:
        first_session = keeper.start("The session that is there from the beginning")
        first = timed(lambda _: first_session.message(), range(1_000))
        first_session.complete()
        project_data = first_session.state().project
        assert project_data is not None
        for number in range(SESSIONS - 2):
            _session(keeper, number, SessionStarted(goal=goal(number), project=project_data, device="bench"))
        last_session = keeper.start("The session that comes when the store is large")
        for number in range(20):
            last_session.note(text(number))
        last = timed(lambda _: last_session.message(), range(1_000))
        last_session.agent("arch-1", type="architect", task="Design the flow").progress(0.4)
    ratio = median(last) / median(first)
    detail = f"first 1,000: {micros(median(first))}, last 1,000 of {EVENTS:,}: {micros(median(last))}"
    return LargeStore(project, home, [Figure("growth: append when the store is large", ratio, "≤ 1.5", detail)])


def goal(number: int) -> str:
    return f"Goal {number}: {text(number)}"


def _session(keeper: Keeper, number: int, started: SessionStarted) -> None:
    session = new_id()
    begin = keeper.now() - 10**9 + number * 1000
    events: list[EventData] = [started, AgentStarted(id="a-1", type="architect", task=text(number))]
    for step in range(98):
        if step % 7 == 0:
            events.append(NoteAdded(text=text(number * 31 + step)))
        elif step % 31 == 0:
            events.append(DecisionMade(chosen=text(number + step)))
        else:
            events.append(MessageExchanged())
    with keeper.store().transaction() as transaction:
        for place, data in enumerate(events):
            transaction.record(session, Draft(data, begin + place * 500, "bench"))
