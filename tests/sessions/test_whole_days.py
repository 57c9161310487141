"""Whole days of a person: every minute, crossing and total equals that of an independent model."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core import view
from holdfast.core.events import AgentInterrupted, SessionResumed
from holdfast.core.times import MINUTE, parse_time
from holdfast.keeper.session import SessionHandle
from holdfast.machine.wall import Wall
from holdfast.sessions.hours import overlaps, table
from holdfast.workspace.settings import Settings
from tests.sessions.day_model import IDLE, LIMITS, TASK, Crossing, SessionModel, day, owners
from tests.support.scale import scale

NAMES = {
    "break_40": "timer.break_minutes",
    "warning_60": "timer.warning_minutes",
    "timeout_90": "timer.timeout_minutes",
}
# Before a midnight, and before a clock change of an hour back, an hour ahead or half an hour; or of none.
BEGINNINGS = (
    ("UTC", "2026-11-15T22:00:00.000Z"), ("Europe/Berlin", "2026-10-24T20:00:00.000Z"),
    ("America/New_York", "2026-03-08T03:30:00.000Z"), ("Asia/Kolkata", "2026-05-04T17:00:00.000Z"),
    ("Australia/Lord_Howe", "2026-04-04T12:00:00.000Z"),
)  # fmt: skip
ACTS = (
    "work", "work", "work", "message", "reply", "pause", "resume", "short pause", "agent", "background", "agent ends",
    "agent lost", "late end", "away", "worked", "complete",
)  # fmt: skip


class Step(NamedTuple):
    project: int
    wait: int
    act: str
    # Where in the session a correction begins and ends, in thousandths of its length.
    since: int
    until: int


class Day(NamedTuple):
    pauses: bool
    off: frozenset[str]
    zone: str
    began: int
    steps: list[Step]
    later: int


STEPS = st.lists(
    st.builds(
        Step, st.sampled_from((0, 0, 0, 1, 2)), st.sampled_from((0, 1, 2, 3, 4, 5, 5, 6, 10, 11, 90, 400)),
        st.sampled_from(ACTS), st.integers(0, 999), st.integers(1, 1000),
    ),
    min_size=4, max_size=30,
)  # fmt: skip
DAYS = st.builds(
    lambda pauses, off, where, steps, later: Day(pauses, off, where[0], parse_time(where[1]), steps, later),
    st.booleans(), st.frozensets(st.sampled_from(sorted(LIMITS)), max_size=1), st.sampled_from(BEGINNINGS), STEPS,
    st.sampled_from((0, 1, 5, 6, 30, 700)),
)  # fmt: skip


class Simulation:
    """Applies the same steps to the program, through its use cases and a store, and to the model."""

    def __init__(self, where: Path, day: Day) -> None:
        self.day = day
        self.minute = 0
        wall = Wall(lambda: self.at * 1_000_000)
        chosen: dict[str, int | float | str | bool] = {
            "timer.idle_minutes": IDLE, "timer.task_minutes": TASK,
            "timer.timeout_action": "pause" if day.pauses else "remind",
            **{NAMES[line]: "off" if line in day.off else limit for line, limit in LIMITS.items()},
        }  # fmt: skip
        self.keepers = []
        for number in range(3):
            (where / f"p{number}").mkdir()
            self.keepers.append(
                Keeper.open(
                    str(where / f"p{number}"), home=str(where / "home"), wall=wall, device="d", actor="anna",
                    settings=Settings(chosen),
                )
            )  # fmt: skip
        self.models: dict[str, SessionModel] = {}
        self.project: dict[str, str] = {}

    @property
    def at(self) -> int:
        return self.day.began + self.minute * MINUTE

    def run(self) -> None:
        for step in self.day.steps:
            self.minute += step.wait
            keeper = self.keepers[step.project]
            current = keeper.current()
            if current is None:
                session = keeper.start(f"Work {len(self.models)}", at=self.at)
                self.models[session.id] = SessionModel(
                    session.id, self.minute, pauses=self.day.pauses, off=self.day.off
                )
                self.project[session.id] = f"p{step.project}"
            else:
                self._apply(current, self.models[current.id], step)
        self.minute += self.day.later

    def _apply(self, session: SessionHandle, model: SessionModel, step: Step) -> None:
        minute, at = self.minute, self.at
        agents = session.document(at=at).agents
        running = [agent.id for agent in agents if agent.status == "running"]
        interrupted = [agent.id for agent in agents if agent.status == "interrupted"]
        status = view.status_of(session.state())
        match step.act:
            case "work":  # messages close together, as limits would hardly be crossed without
                for _ in range(1 + step.since % 4):
                    self.minute += 1 + step.until % 5
                    session.message(at=self.at)
                    model.message(self.minute)
            case "message":
                session.message(at=at)
                model.message(minute)
            case "reply":
                session.message("assistant", at=at)
                model.reply(minute)
            case "pause" if status == "in_progress":
                session.pause(at=at)
                model.pause(minute)
            case "short pause" if status == "in_progress":  # about as long as a break
                session.pause(at=at)
                model.pause(minute)
                self.minute += 4 + step.since % 3
                session.message(at=self.at)
                model.message(self.minute)
            case "resume" if status == "paused":
                session.keeper.recorder.record(session.id, lambda _: [SessionResumed()], at=at)
                model.resume(minute)
            case "agent" | "background":
                name, background = f"a{len(session.state().agents)}", step.act == "background"
                session.agent(name, type="t", background=background, pid=None, at=at)
                model.begin_agent(name, minute, background=background)
            case "agent ends" if running:
                session.find_agent(running[0]).done(at=at)
                model.end_agent(running[0], minute)
            case "agent lost" if running:  # it ended without a report, last seen a while ago
                agent = next(agent for agent in session.state().agents.values() if agent.id == running[0])
                length = minute - (agent.made.at - self.day.began) // MINUTE
                seen = minute - length + step.since * length // 1000
                lost = AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=self.day.began + seen * MINUTE)
                session.keeper.recorder.record(session.id, lambda _: [lost], at=at)
                model.lose_agent(agent.id, seen, minute)
            case "late end" if interrupted:
                session.find_agent(interrupted[0]).done(at=at)
                model.end_agent(interrupted[0], minute)
            case "away" | "worked":
                self._correct(session, model, step)
            case "complete":
                session.complete(at=at)
                model.complete(minute, running)

    def _correct(self, session: SessionHandle, model: SessionModel, step: Step) -> None:
        length = self.minute - model.start
        since, until = sorted((step.since * length // 1000, step.until * length // 1000))
        if since < until:
            low, high = model.start + since, model.start + until
            correct = session.worked if step.act == "worked" else session.away
            correct(self.day.began + low * MINUTE, self.day.began + high * MINUTE, at=self.at)
            model.correct(step.act, low, high, self.minute)

    def close(self) -> None:
        for keeper in self.keepers:
            keeper.close()

    # ── the program's results ────────────────────────────────────────────────────────────────────────────

    def minutes(self, session: str) -> list[bool]:
        work = view.worktime(self.keepers[0].state(session), self.at)
        assert work.working + work.paused == work.elapsed
        is_work = [True] * (work.elapsed // MINUTE)
        start = self.models[session].start
        for rest in work.pauses:
            first = (rest.since - self.day.began) // MINUTE - start
            for minute in range(first, first + rest.length // MINUTE):
                assert is_work[minute], "two pauses overlap"
                is_work[minute] = False
        return is_work

    def crossings(self, session: str) -> list[Crossing]:
        result = []
        for event in self.keepers[0].store().events(session):
            minute = (event.at - self.day.began) // MINUTE
            if event.type == "session.timed_out":
                result.append(Crossing(minute, "pause"))
            elif event.type == "reminder.reached":
                assert event.data is not None
                result.append(Crossing(minute, msgspec.json.decode(event.data)["line"]))
        return result

    def table(self, by: str) -> table.Table:
        store, zone = self.keepers[0].store(), ZoneInfo(self.day.zone)

        def offset(moment: int) -> timedelta:
            return datetime.fromtimestamp(moment / 1000, zone).utcoffset() or timedelta(0)

        return table.table(
            [self.keepers[0].state(session) for session in self.models], by, now=self.at, offset=offset, mixed=True,
            messages=overlaps.messages_in(self.keepers[0]), person=lambda session: overlaps.person_of(store, session),
        )  # fmt: skip


@settings(max_examples=scale(20, 300, 5000))
@given(DAYS)
def test_minutes_crossings_and_totals_equal_the_model(lived: Day) -> None:
    """With several sessions, pauses, limits, corrections, agents without an end, midnights and clock changes."""
    with tempfile.TemporaryDirectory() as where:
        simulation = Simulation(Path(where), lived)
        try:
            simulation.run()
            for session, model in simulation.models.items():
                assert simulation.minutes(session) == model.minutes(simulation.minute)
                assert simulation.crossings(session) == model.crossings
                assert view.status_of(simulation.keepers[0].state(session)) == model.status
            owned = owners(simulation.models, simulation.minute)
            zone = ZoneInfo(lived.zone)
            for by, key in (
                ("day", lambda minute, _: day(lived.began, minute, zone)),
                ("project", lambda _, session: simulation.project[session]),
            ):
                expected = Counter(key(minute, session) for minute, session in owned.items())
                actual = simulation.table(by)
                lines = [line for line in actual.lines if isinstance(line, table.Line)]
                assert {line.key: line.working_ms for line in lines if line.working_ms} == {
                    name: count * MINUTE for name, count in expected.items()
                }
                assert isinstance(actual.total, table.Line)
                assert actual.total.working_ms == len(owned) * MINUTE
                assert all(line.working_ms + line.paused_ms == line.elapsed_ms for line in [*lines, actual.total])
        finally:
            simulation.close()
