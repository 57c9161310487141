"""A model of a person's days, minute by minute, written from the rules without any code of the program.

From what a person and agents do in several sessions it computes for every minute whether it was work, which limits
were crossed, which session owns the minute, and its date. It is slow, and simple enough to read.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

IDLE, TASK = 5, 10
LIMITS = {"break_40": 8, "warning_60": 12, "timeout_90": 20}


class Run(NamedTuple):
    """A foreground agent's run; `until` is None where no end was recorded."""

    agent: str
    since: int
    until: int | None


class Crossing(NamedTuple):
    minute: int
    what: str


class SessionModel:
    """One session. Minutes count from the first day's beginning."""

    def __init__(self, name: str, minute: int, *, pauses: bool, off: frozenset[str]) -> None:
        self.name = name
        self.start = minute
        self.end: int | None = None
        self._limit_pauses = pauses
        self._off = off
        self.status = "in_progress"
        self.signs = {minute}
        self.messages: list[int] = []
        self._cuts: list[int] = []
        # Pauses of the person or of a limit: from when to when.
        self._pauses: list[tuple[int, int | None]] = []
        self.runs: list[Run] = []
        # When an agent without a recorded end was concluded to have ended.
        self._concluded: dict[str, int] = {}
        # Corrections in the order in which they were entered.
        self._corrections: list[tuple[str, int, int]] = []
        self.crossings: list[Crossing] = []

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────

    def message(self, minute: int) -> None:
        """The person writes, which resumes a paused session."""
        if self.status == "paused":
            self.resume(minute)
        self.messages.append(minute)
        self._cuts.append(minute)
        self._sign(minute)

    def reply(self, minute: int) -> None:
        self._sign(minute)

    def pause(self, minute: int) -> None:
        self._leave(minute)
        self.status = "paused"
        self._pauses.append((minute, None))
        self._sign(minute)

    def resume(self, minute: int) -> None:
        since, _ = self._pauses.pop()
        self._pauses.append((since, minute))
        self.status = "in_progress"
        self._cuts.append(minute)
        self._sign(minute)

    def begin_agent(self, agent: str, minute: int, *, background: bool) -> None:
        if not background:
            self.runs.append(Run(agent, minute, None))
        self._sign(minute)

    def end_agent(self, agent: str, minute: int) -> None:
        """An agent reports its end: it ran until now, unless the person has worked since its end was concluded."""
        concluded = self._concluded.pop(agent, None)
        if concluded is None or all(cut < concluded for cut in self._cuts):
            self.runs = [run._replace(until=minute) if run.agent == agent else run for run in self.runs]
        self._sign(minute)

    def lose_agent(self, agent: str, seen: int, minute: int) -> None:
        """An agent ended without a report: it ran until it was last seen, which is not activity."""
        self._concluded[agent] = minute
        self.runs = [run._replace(until=seen) if run.agent == agent else run for run in self.runs]

    def correct(self, what: str, since: int, until: int, minute: int) -> None:
        self._corrections.append((what, since, until))

    def complete(self, minute: int, at_work: list[str]) -> None:
        for agent in at_work:  # they end with their session
            self.end_agent(agent, minute)
        if self.status == "in_progress":
            self._leave(minute)
        self.status, self.end = "completed", minute

    def _sign(self, minute: int) -> None:
        """A sign of activity ends gaps and triggers limits."""
        if self.end is not None:
            return
        self.signs.add(minute)
        if self.status != "in_progress":
            return
        for line in self._due(minute):
            self.crossings.append(Crossing(minute, line))
            if line == "timeout_90" and self._limit_pauses:
                self.crossings.append(Crossing(minute, "pause"))
                self.status = "paused"
                self._pauses.append((minute, None))

    def _leave(self, minute: int) -> None:
        """Records the limits crossed so far, though they pause nothing any more."""
        self.crossings += [Crossing(minute, line) for line in self._due(minute)]

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────

    def _due(self, minute: int) -> list[str]:
        worked = self.minutes(minute)
        since = self.start
        if not self._limit_pauses:
            since += self._last_break(worked)
        count = sum(worked[since - self.start :])
        known = {crossing.what for crossing in self.crossings if self._limit_pauses or crossing.minute >= since}
        return [
            line for line, limit in LIMITS.items() if line not in self._off and count >= limit and line not in known
        ]

    @staticmethod
    def _last_break(worked: list[bool]) -> int:
        """Minutes from the start to the end of the last break, which is as long as the idle threshold or longer."""
        last = rest = 0
        for number, is_work in enumerate(worked, start=1):
            rest = 0 if is_work else rest + 1
            last = number if rest >= IDLE else last
        return last

    # ── every minute ─────────────────────────────────────────────────────────────────────────────────────

    def minutes(self, now: int) -> list[bool]:
        """For every minute from the start to `now` or the end: was it work?"""
        stop = now if self.end is None else min(now, self.end)
        return [self._is_work(minute, stop) for minute in range(self.start, stop)]

    def _is_work(self, minute: int, stop: int) -> bool:
        for what, since, until in reversed(self._corrections):
            if since <= minute < until:
                return what == "worked"
        if any(since <= minute and (until is None or minute < until) for since, until in self._pauses):
            return False
        runs = [run for run in self.runs if run.since <= minute < self._until(run, stop)]
        if runs:
            return all(self._piece(run, minute, stop) <= TASK for run in runs)
        # The distance to the next sign or run on either side, up to the idle threshold.
        low, high = minute, minute + 1
        while high - low <= IDLE and low > self.start and low not in self.signs and not self._runs_in(low - 1, stop):
            low -= 1
        while high - low <= IDLE and high < stop and high not in self.signs and not self._runs_in(high, stop):
            high += 1
        return high - low <= IDLE

    @staticmethod
    def _until(run: Run, stop: int) -> int:
        return stop if run.until is None else min(run.until, stop)

    def _runs_in(self, minute: int, stop: int) -> bool:
        return any(run.since <= minute < self._until(run, stop) for run in self.runs)

    def _piece(self, run: Run, minute: int, stop: int) -> int:
        """The length of the piece of a run that contains this minute; the person's messages and resumes cut runs."""
        until = self._until(run, stop)
        edges = [run.since, *(cut for cut in self._cuts if run.since < cut < until), until]
        return min(edge for edge in edges if edge > minute) - max(edge for edge in edges if edge <= minute)


def owners(sessions: dict[str, SessionModel], now: int) -> dict[int, str]:
    """The session that owns each worked minute: that of the person's latest message."""
    best: dict[int, tuple[int, str]] = {}
    for session_id, session in sessions.items():
        latest = session.start
        for minute, is_work in enumerate(session.minutes(now), start=session.start):
            latest = minute if minute in session.messages else latest
            if is_work:
                best[minute] = max(best.get(minute, (-1, "")), (latest, session_id))
    return {minute: session_id for minute, (_, session_id) in best.items()}


def day(began: int, minute: int, zone: ZoneInfo) -> str:
    """The local date of that minute."""
    return datetime.fromtimestamp(began / 1000 + minute * 60, zone).date().isoformat()
