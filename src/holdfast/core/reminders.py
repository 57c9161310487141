"""Limits of working time: which of the three limits (break, warning, timeout) have been crossed.

Where a limit pauses the session, as the timer format specifies, the whole working time of the session counts, and
each limit is crossed once per session. Otherwise limits only remind: working time since the last break counts, and
each limit is crossed once after each break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, get_args

from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.state import State
from holdfast.core.worktime import WorkTime

Limit = Literal["break_40", "warning_60", "timeout_90"]
LIMITS: Final[tuple[Limit, ...]] = get_args(Limit)
ANNOUNCED: Final = ".reminded"  # in a session's `extra`: the crossings that were announced
NEVER: Final = MAX_SAFE_INTEGER  # ms: a limit that is never reached


class LimitRule(NamedTuple):
    """The person's settings: whether the last limit pauses the session, which limits are off, and whether only
    `resume` ends the pause.
    """

    pauses: bool = False
    off: frozenset[str] = frozenset()
    only_resume: bool = False


class CountedTime(NamedTuple):
    """The working time that counts towards the limits, and since when: the last break's end, or the start."""

    since: int
    working: int


# Called only when a limit can have been crossed: it may have to read files.
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
    for pause in work.pauses:
        if pause.since > ended:
            paused, begun = paused + ended - begun, pause.since
        ended = max(ended, pause.since + pause.length)
        if ended - begun >= idle:
            since, paused, begun = ended, 0, ended
    return CountedTime(since, stop - since - paused - (ended - begun))


def due_limits(state: State, at: int, get_rule: GetLimitRule) -> list[Limit]:
    """Lines crossed as of `at` whose crossing has not been recorded, in order."""
    if _is_unreachable(state, at):
        return []
    rule = get_rule()
    count = counted_time(state, at, rule)
    return [
        limit
        for limit in LIMITS
        if limit not in rule.off
        and count.working >= limit_ms(state, limit)
        and not is_recorded(state, limit, rule, count.since)
    ]


def is_recorded(state: State, limit: str, rule: LimitRule, since: int) -> bool:
    """Whether the crossing is recorded: ever, or since the last break, which ended at `since`."""
    return limit in state.time.reached and (rule.pauses or state.time.crossed.get(limit, 0) >= since)


def crossed_limit(state: State, at: int, get_rule: GetLimitRule) -> Limit | None:
    """The last limit that is crossed at this moment; None during and after a break."""
    if not state.time.reached and _is_unreachable(state, at):
        return None
    rule = get_rule()
    count = counted_time(state, at, rule)
    crossed = [
        limit
        for limit in LIMITS
        if limit not in rule.off
        and (count.working >= limit_ms(state, limit) or is_recorded(state, limit, rule, count.since))
    ]
    return crossed[-1] if crossed else None


def limit_ms(state: State, limit: Limit) -> int:
    timer = state.time.timer
    return {"break_40": timer.break_40, "warning_60": timer.warning_60, "timeout_90": timer.timeout_90}[limit]


def _is_unreachable(state: State, at: int) -> bool:
    """Whether no limit can be crossed yet, since working time never exceeds elapsed time."""
    return at - state.time.start < min(limit_ms(state, limit) for limit in LIMITS)


def announced_marks(state: State) -> list[str]:
    """Marks of what was announced to the person: crossings of limits, and an ended pause."""
    known = state.extra.get(ANNOUNCED)
    return [mark for mark in known if isinstance(mark, str)] if isinstance(known, list) else []


def announcement_mark(state: State, limit: str) -> str:
    return f"{limit} {state.time.crossed.get(limit, 0)}"


def was_announced(state: State, limit: str) -> bool:
    """Whether the limit's latest crossing was announced. Earlier versions recorded only the limit, once."""
    announced, time = announced_marks(state), state.time
    return announcement_mark(state, limit) in announced or (
        limit in announced and time.crossed.get(limit) == time.reached.get(limit)
    )
