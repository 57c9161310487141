"""Limits of working time: which of the three lines (break, warning, timeout) have been crossed.

Where a limit pauses the session, as the timer format specifies, the whole working time of the session counts, and
each line is crossed once per session. Otherwise lines only remind: working time since the last break counts, and each
line is crossed once after each break. Every surface uses this module, so that all agree.
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
ANNOUNCED: Final = ".reminded"  # in a session's `extra`: the crossings that were announced
NEVER: Final = MAX_SAFE_INTEGER  # ms: a line that nobody crosses


class LimitRule(NamedTuple):
    """The person's settings: whether the last line pauses the session, which lines are off, and whether only `resume`
    ends the pause.
    """

    pauses: bool = False
    off: frozenset[str] = frozenset()
    only_resume: bool = False


class CountedTime(NamedTuple):
    """The working time that counts towards the lines, and since when: the last break's end, or the start."""

    since: int
    working: int


# Called only when a line can have been crossed: it may have to read files.
GetLimitRule = Callable[[], LimitRule]


def counted_time(state: State, at: int, rule: LimitRule) -> CountedTime:
    work = view.worktime(state, at)
    start = view.counted_from(state)
    return CountedTime(start, work.working) if rule.pauses else _since_break(work, start, state.time.timer.idle)


def _since_break(work: WorkTime, start: int, idle: int) -> CountedTime:
    """A break is a pause of any kind, or several in a row, at least as long as the idle threshold."""
    stop = start + work.elapsed
    since, paused = start, 0  # paused since then, before the current run of pauses
    begun = ended = start
    for rest in work.pauses:
        if rest.since > ended:
            paused, begun = paused + ended - begun, rest.since
        ended = max(ended, rest.since + rest.length)
        if ended - begun >= idle:
            since, paused, begun = ended, 0, ended
    return CountedTime(since, stop - since - paused - (ended - begun))


def due_lines(state: State, at: int, chosen: GetLimitRule) -> list[Line]:
    """Lines crossed as of `at` whose crossing has not been recorded, in order."""
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
    """Whether the crossing is recorded: ever, or since the last break, which ended at `since`."""
    return line in state.time.reached and (rule.pauses or state.time.crossed.get(line, 0) >= since)


def crossed_limits(state: State, at: int, chosen: GetLimitRule) -> Line | None:
    """The last line that is crossed at this moment; None during and after a break."""
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
    """Whether no line can be crossed yet, since working time never exceeds elapsed time."""
    return at - state.time.start < min(limit_of(state, line) for line in LINES)


def announced_marks(state: State) -> list[str]:
    """Marks of what was announced to the person: crossings of limits, and an ended pause."""
    known = state.extra.get(ANNOUNCED)
    return [mark for mark in known if isinstance(mark, str)] if isinstance(known, list) else []


def announcement_mark(state: State, line: str) -> str:
    return f"{line} {state.time.crossed.get(line, 0)}"


def was_announced(state: State, line: str) -> bool:
    """Whether the line's latest crossing was announced. Earlier versions recorded only the line, once."""
    announced, time = announced_marks(state), state.time
    return announcement_mark(state, line) in announced or (
        line in announced and time.crossed.get(line) == time.reached.get(line)
    )


def message_ends_pause(state: State, *, message_resumes: bool, limit_holds: bool) -> bool:
    """Whether a message of the person ends the current pause, which may be the limit's own."""
    mark = view.latest_mark(state)
    return message_resumes and not (limit_holds and mark is not None and mark.kind == "timeout")
