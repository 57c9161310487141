"""Limits of working time: which of the three lines (break, warning, timeout) are crossed, and by which count.

Where a limit pauses the session, as the timer's text has it, the session's whole working time counts, and each line
once per session. Everywhere else the lines only remind: working time since the last break counts, each line once
after each break. Every surface asks here, so that all of them say the same at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, get_args

from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.state import State
from holdfast.core.worktime import WorkTime

Line = Literal["break_40", "warning_60", "timeout_90"]
LINES: Final[tuple[Line, ...]] = get_args(Line)
ANNOUNCED: Final = ".reminded"  # in a session's `extra`: what the person was told of
NEVER: Final = MAX_SAFE_INTEGER  # ms: a line that nobody crosses, also not by the count of an earlier version


class LimitRule(NamedTuple):
    """What the person chose: whether the last line pauses the session, which lines are switched off by now, and
    whether only `resume` ends the pause.
    """

    pauses: bool = False
    off: frozenset[str] = frozenset()
    only_resume: bool = False


class CountedTime(NamedTuple):
    """The working time that counts towards the lines, and since when: the end of the last break, or the start."""

    since: int
    working: int


# Asked only once a line can be crossed at all: it may have to be looked up in files.
GetLimitRule = Callable[[], LimitRule]


def counted_time(state: State, at: int, rule: LimitRule) -> CountedTime:
    work = view.worktime(state, at)
    start = view.counted_from(state)
    return CountedTime(start, work.working) if rule.pauses else _since_break(work, start, state.time.timer.idle)


def _since_break(work: WorkTime, start: int, idle: int) -> CountedTime:
    """A break is a pause of any kind, or several in a row, at least as long as the idle threshold."""
    stop = start + work.elapsed
    since, paused = start, 0  # paused since then, but for the pauses that are looked at
    begun = ended = start
    for rest in work.pauses:
        if rest.since > ended:
            paused, begun = paused + ended - begun, rest.since
        ended = max(ended, rest.since + rest.length)
        if ended - begun >= idle:
            since, paused, begun = ended, 0, ended
    return CountedTime(since, stop - since - paused - (ended - begun))


def due_lines(state: State, at: int, chosen: GetLimitRule) -> list[Line]:
    """Lines that are crossed as of `at`, and whose crossing is still to be recorded; in order."""
    if _is_out_of_reach(state, at):
        return []
    rule = chosen()
    count = counted_time(state, at, rule)
    return [
        line
        for line in LINES
        if line not in rule.off
        and count.working >= limit_of(state, line)
        and not is_recorded(state, line, rule, count.since)
    ]


def is_recorded(state: State, line: str, rule: LimitRule, since: int) -> bool:
    """Whether it is on record that the line was crossed: ever, or after the last break, which ended then."""
    return line in state.time.reached and (rule.pauses or state.time.crossed.get(line, 0) >= since)


def crossed_limits(state: State, at: int, chosen: GetLimitRule) -> Line | None:
    """The farthest line that is crossed at this moment, for whoever looks; None during and after a break."""
    if not state.time.reached and _is_out_of_reach(state, at):
        return None
    rule = chosen()
    count = counted_time(state, at, rule)
    crossed = [
        line
        for line in LINES
        if line not in rule.off
        and (count.working >= limit_of(state, line) or is_recorded(state, line, rule, count.since))
    ]
    return crossed[-1] if crossed else None


def limit_of(state: State, line: Line) -> int:
    timer = state.time.timer
    return {"break_40": timer.break_40, "warning_60": timer.warning_60, "timeout_90": timer.timeout_90}[line]


def _is_out_of_reach(state: State, at: int) -> bool:
    """Working time never exceeds elapsed time: most events need no computation at all."""
    return at - state.time.start < min(limit_of(state, line) for line in LINES)


def announced_marks(state: State) -> list[str]:
    """Marks of what the person was told of: crossings of limits, and an ended pause."""
    known = state.extra.get(ANNOUNCED)
    return [mark for mark in known if isinstance(mark, str)] if isinstance(known, list) else []


def announcement_mark(state: State, line: str) -> str:
    return f"{line} {state.time.crossed.get(line, 0)}"


def was_announced(state: State, line: str) -> bool:
    """Whether the person was told of the line's latest crossing. Earlier versions noted the line alone, once."""
    told, time = announced_marks(state), state.time
    return announcement_mark(state, line) in told or (
        line in told and time.crossed.get(line) == time.reached.get(line)
    )


def message_ends_pause(state: State, *, message_resumes: bool, limit_holds: bool) -> bool:
    """Whether the person's message ends the pause that lasts: not the limit's own where that must hold."""
    mark = view.latest_mark(state)
    return message_resumes and not (limit_holds and mark is not None and mark.kind == "timeout")
