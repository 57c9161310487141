"""Signs of activity and pauses as the fold records them, from which `worktime` computes working time.

Signs arrive in any order and are kept as spans, so that a session of months stays small.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final

from holdfast.core.envelope import Event
from holdfast.core.state import ActivitySpan, AgentRun, PauseMark, State, TimeState
from holdfast.core.times import MINUTE

STOPPING_KINDS: Final = frozenset({"manual", "timeout"})  # of marks that pause the session


def add_activity(time: TimeState, at: int) -> None:
    """Add a sign of activity: usually the newest, but a late one may fall anywhere."""
    idle, active = time.timer.idle, time.active
    if active and active[-1].since <= at:
        last = active[-1]
        end = end_of(last)
        if at <= end:
            return
        if at - end <= idle:
            last.until = at
        else:
            active.append(AgentRun(at, at))
        return
    place = bisect_right(active, at, key=lambda run: run.since)
    before = active[place - 1] if place else None
    if before is not None and at <= end_of(before):
        return
    active.insert(place, AgentRun(at, at))
    for left in (place, place - 1):  # join the neighbours it connects
        if left >= 0 and left + 1 < len(active):
            earlier, later = active[left], active[left + 1]
            if later.since - end_of(earlier) <= idle:
                earlier.until = max(end_of(earlier), end_of(later))
                del active[left + 1]


def add_watched_span(time: TimeState, since: int, until: int) -> None:
    """Add a span of activity that another program observed, without gaps."""
    add_activity(time, since)
    add_activity(time, until)
    idle, active = max(time.timer.idle, 0), time.active
    first = bisect_left(active, since - idle, key=end_of)
    beyond = bisect_right(active, until + idle, key=_since)
    active[first:beyond] = [AgentRun(min(since, active[first].since), max(until, end_of(active[beyond - 1])))]


def last_activity(time: TimeState, otherwise: int) -> int:
    """The time of the last sign of activity: spans do not overlap, so the last one ends last."""
    return end_of(time.active[-1]) if time.active else otherwise


def last_message(time: TimeState) -> int | None:
    """When the person wrote last, or a little earlier where a `resume` soon after hides the exact time."""
    resumed = {mark.at for mark in time.marks if mark.kind == "resumed"}
    moments = (moment for run in reversed(time.attended) for moment in (end_of(run), run.since))
    return next((moment for moment in moments if moment not in resumed), None)


def add_attended(time: TimeState, since: int, until: int) -> None:
    """Record that the person was at work from `since` to `until`, whatever agent ran.

    Spans no further apart than the task threshold are joined, since the time between them is working time. They stay
    separate where another program recorded the beginning of an agent's pause, which counts however short it is.
    """
    attended = time.attended
    if not attended or end_of(attended[-1]) <= since:
        if attended and _are_joined(time, end_of(attended[-1]), since):
            attended[-1].until = until
        else:
            attended.append(AgentRun(since, until))
        return
    place = bisect_right(attended, since, key=_since)
    if place and _are_joined(time, end_of(attended[place - 1]), since):
        place -= 1
        since, until = attended[place].since, max(until, end_of(attended[place]))
    beyond = place
    while beyond < len(attended) and _are_joined(time, until, attended[beyond].since):
        until = max(until, end_of(attended[beyond]))
        beyond += 1
    attended[place:beyond] = [AgentRun(since, until)]


def _are_joined(time: TimeState, end: int, since: int) -> bool:
    if since <= end:
        return True
    begins = time.task_begins
    place = bisect_left(begins, end)
    return since - end <= time.timer.task and not (place < len(begins) and begins[place] < since)


def add_mark(time: TimeState, mark: PauseMark) -> None:
    """Record what opens, ends or corrects a pause."""
    if mark.kind in STOPPING_KINDS:
        insort(time.pauses.setdefault(mark.writer, []), (mark.seq, len(time.marks)))
    if mark.pause == "task" and mark.until == mark.at:
        insort(time.task_begins, mark.at)
    time.marks.append(mark)


def add_writer_activity(time: TimeState, event: Event, since: int, until: int) -> None:
    """Record whose sign it was. Signs within one minute are kept as one, unless a pause lies between."""
    own = time.signs.setdefault(event.writer, [])
    last = own[-1] if own else None
    near = min(MINUTE, time.timer.idle)
    if (
        last is not None
        and last.marks == len(time.marks)
        and last.last <= event.seq
        and last.until <= since
        and until - last.since <= near
    ):
        last.last, last.until = event.seq, until
    else:
        own.append(ActivitySpan(event.seq, event.seq, since, until, len(time.marks)))


def pause_mark(state: State, event: Event, kind: str, reason: str | None) -> PauseMark:
    """A pause, with what its writer had seen, and the writers that claim to have seen it already."""
    learned = {
        writer: (0, event.at) for writer, known in state.seen.items() if known.get(event.writer, 0) >= event.seq
    }
    saw = dict(state.seen.get(event.writer, {}))
    return PauseMark(event.at, kind, reason, writer=event.writer, seq=event.seq, saw=saw, learned=learned)


def note_seen_pauses(time: TimeState, event: Event, other: str, before: int, now: int) -> None:
    """Record which pauses of another writer the writer of this event has learned of.

    It had seen the other's stream up to `before`, and has seen it up to `now`.
    """
    pauses = time.pauses.get(other, ())
    for place in range(bisect_right(pauses, before, key=_first), bisect_right(pauses, now, key=_first)):
        mark = time.marks[pauses[place][1]]
        if event.writer not in mark.learned:
            mark.learned[event.writer] = (event.seq, event.at)
            own = time.signs.get(event.writer)
            if own:
                own[-1].marks = -1  # later signs must not join those from before it knew


def _since(run: AgentRun) -> int:
    return run.since


def end_of(run: AgentRun) -> int:
    return run.since if run.until is None else run.until


def _first(pair: tuple[int, int]) -> int:
    return pair[0]
