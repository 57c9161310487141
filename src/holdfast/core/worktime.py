"""Working time, computed from events and never accumulated: working + paused = elapsed, exactly, always.

A pause is manual (ended by resuming, as a message of the person does), the timeout, a foreground agent's run longer
than its threshold, or a gap between two signs of activity longer than the idle threshold. Messages of the person and
`resume` cut an agent's run, and each piece is judged by the threshold alone: an agent whose end nobody recorded
neither stops the clock for ever nor makes a night working time. Where another program counted working time, no
agent's run is a pause either. Where causes overlap the order is manual or timeout, then task, then idle; what one
cause covers is taken out of the next, so pauses never overlap.

Another program may have said that a pause had begun and not known its end. Such a word is an `away` of no length:
of kind task, the agent's run that begins there is a pause however short; of kind idle, the person was away from
there, or from the end of the idle pause that begins there, until the next sign.

A pause stops the clock only as far as others knew of it. What a writer did that had not heard of the pause, and that
whoever paused had not heard of, is work: from its first such sign within the pause to its last, less the gaps longer
than the idle threshold.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from holdfast.core.envelope import Event
from holdfast.core.model import PauseKind
from holdfast.core.state import ActivitySpan, AgentRun, PauseMark, State, TimeState
from holdfast.core.times import MINUTE

Span = tuple[int, int]

_KINDS: dict[str, PauseKind] = {"manual": "manual", "idle": "idle", "task": "task", "timeout": "timeout"}
_PAUSED: Final[dict[str, PauseKind]] = {"manual": "manual", "timeout": "timeout"}
_STOPPING_KINDS: Final = frozenset(_PAUSED)


class ForegroundRun(NamedTuple):
    """One foreground run of an agent, what to call it, and whose agent it is."""

    since: int
    until: int | None
    reason: str
    writer: str = ""


class WorkPause(NamedTuple):
    """One pause. `until` is None while it lasts; `length` counts what has passed."""

    kind: PauseKind
    reason: str | None
    since: int
    until: int | None
    length: int


class WorkTime(NamedTuple):
    elapsed: int
    working: int
    paused: int
    idle_since: int | None
    pauses: tuple[WorkPause, ...]


def add_activity(time: TimeState, at: int) -> None:
    """Note a sign of activity: usually the newest, but a late one may fall anywhere."""
    idle, active = time.timer.idle, time.active
    if active and active[-1].since <= at:
        last = active[-1]
        end = _end(last)
        if at <= end:
            return
        if at - end <= idle:
            last.until = at
        else:
            active.append(AgentRun(at, at))
        return
    place = bisect_right(active, at, key=lambda run: run.since)
    before = active[place - 1] if place else None
    if before is not None and at <= _end(before):
        return
    active.insert(place, AgentRun(at, at))
    for left in (place, place - 1):  # join with the neighbours it now reaches
        if left >= 0 and left + 1 < len(active):
            one, two = active[left], active[left + 1]
            if two.since - _end(one) <= idle:
                one.until = max(_end(one), _end(two))
                del active[left + 1]


def add_watched_span(time: TimeState, since: int, until: int) -> None:
    """Note a stretch of activity that another program watched: there is no gap in it."""
    add_activity(time, since)
    add_activity(time, until)
    idle, active = max(time.timer.idle, 0), time.active
    first = bisect_left(active, since - idle, key=_end)
    beyond = bisect_right(active, until + idle, key=_since)
    active[first:beyond] = [AgentRun(min(since, active[first].since), max(until, _end(active[beyond - 1])))]


def last_activity(time: TimeState, otherwise: int) -> int:
    """When the last sign of activity was: the stretches are apart from each other, and the last one ends last."""
    return _end(time.active[-1]) if time.active else otherwise


def last_message(time: TimeState) -> int | None:
    """When the person wrote last, or earlier where a `resume` soon after hides the exact moment."""
    resumed = {mark.at for mark in time.marks if mark.kind == "resumed"}
    moments = (moment for run in reversed(time.attended) for moment in (_end(run), run.since))
    return next((moment for moment in moments if moment not in resumed), None)


def add_attended(time: TimeState, since: int, until: int) -> None:
    """Note that the person was at work from `since` to `until`, whatever agent ran: no piece of its run is there.

    Moments no further apart than the task threshold are joined, since the pieces between them are working time. They
    stay apart where another program said that an agent's pause had begun: that one counts however short it is.
    """
    attended = time.attended
    if not attended or _end(attended[-1]) <= since:
        if attended and _are_joined(time, _end(attended[-1]), since):
            attended[-1].until = until
        else:
            attended.append(AgentRun(since, until))
        return
    place = bisect_right(attended, since, key=_since)
    if place and _are_joined(time, _end(attended[place - 1]), since):
        place -= 1
        since, until = attended[place].since, max(until, _end(attended[place]))
    beyond = place
    while beyond < len(attended) and _are_joined(time, until, attended[beyond].since):
        until = max(until, _end(attended[beyond]))
        beyond += 1
    attended[place:beyond] = [AgentRun(since, until)]


def _are_joined(time: TimeState, end: int, since: int) -> bool:
    if since <= end:
        return True
    begins = time.task_begins
    place = bisect_left(begins, end)
    return since - end <= time.timer.task and not (place < len(begins) and begins[place] < since)


def add_mark(time: TimeState, mark: PauseMark) -> None:
    """Note what opens, ends or corrects a pause."""
    if mark.kind in _STOPPING_KINDS:
        insort(time.pauses.setdefault(mark.writer, []), (mark.seq, len(time.marks)))
    if mark.pause == "task" and mark.until == mark.at:
        insort(time.task_begins, mark.at)
    time.marks.append(mark)


def add_writer_activity(time: TimeState, event: Event, since: int, until: int) -> None:
    """Note whose sign it was. What falls into one minute is kept as one, unless a pause lies between."""
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
    """A pause, with what its writer had seen; who claims to have seen it before it was there knew of it always."""
    learned = {
        writer: (0, event.at) for writer, known in state.seen.items() if known.get(event.writer, 0) >= event.seq
    }
    saw = dict(state.seen.get(event.writer, {}))
    return PauseMark(event.at, kind, reason, writer=event.writer, seq=event.seq, saw=saw, learned=learned)


def note_seen_pauses(time: TimeState, event: Event, other: str, before: int, now: int) -> None:
    """The writer of this event has heard of another's pauses: what it does from here on, it does knowing of them.

    How far it had seen the other's stream `before`, and how far `now`: of pauses up to `before`, it has heard.
    """
    pauses = time.pauses.get(other, ())
    for place in range(bisect_right(pauses, before, key=_first), bisect_right(pauses, now, key=_first)):
        mark = time.marks[pauses[place][1]]
        if event.writer not in mark.learned:
            mark.learned[event.writer] = (event.seq, event.at)
            own = time.signs.get(event.writer)
            if own:
                own[-1].marks = -1  # nothing is added to what it did before it knew


def _since(run: AgentRun) -> int:
    return run.since


def _end(run: AgentRun) -> int:
    return run.since if run.until is None else run.until


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _second(pair: tuple[int, int]) -> int:
    return pair[1]


def measure(time: TimeState, stretches: Iterable[ForegroundRun], *, end: int | None, now: int) -> WorkTime:
    """Work time of a session as of `now`; `end` is when it was completed or aborted."""
    start = time.start
    stop = max(start, now if end is None else end)
    live = end is None
    begun = _begun(time, "task")
    runs = [
        run
        for run in stretches
        if (run.since < stop and (run.until is None or run.until > start))
        or (run.since == stop and run.until is None and run.since in begun)
    ]

    pauses: list[WorkPause] = []
    covered: list[Span] = []
    is_open = False

    def take(kind: PauseKind, reason: str | None, since: int, until: int | None) -> None:
        """Add what of this pause no stronger one covers."""
        nonlocal is_open
        lasts = until is None and live and not is_open
        low, high = max(since, start), stop if until is None else min(until, stop)
        if lasts and low == high:  # it begins this very moment, and has no length yet
            pauses.append(WorkPause(kind, reason, low, None, 0))
            is_open = True
        for a, b in _without((low, high), covered):
            pauses.append(WorkPause(kind, reason, a, None if lasts and b == stop else b, b - a))
            is_open = is_open or (lasts and b == stop)

    for kind, reason, since, until in _marked(time, runs):
        take(kind, reason, since, until)
        _cover(covered, (max(since, start), stop if until is None else min(until, stop)))
    cuts = [(run.since, _end(run)) for run in time.attended]
    following = list(range(len(cuts) + 1))
    for run in runs:
        for low, high, lasts in _pieces(cuts, following, run, stop):
            if high - low > time.timer.task or (low == run.since and low in begun):
                take("task", begun.get(run.since) or run.reason, low, None if lasts else high)
                _cover(covered, (max(low, start), high))
    foreground = _union((max(r.since, start), stop if r.until is None else min(r.until, stop)) for r in runs)
    away = _begun(time, "idle")
    for a, b, lasts in _gaps(time, start, stop, away):
        for c, d in [(a, b)] if a == b else _without((a, b), foreground):
            if d - c > time.timer.idle or c in away:
                take("idle", away.get(c), c, None if lasts and d == stop else d)

    corrections = _corrections(time)
    pauses = [rest for pause in pauses for rest in _corrected(corrections, pause, stop)]
    pauses.sort(key=lambda rest: (rest.since, rest.length))
    paused = sum(rest.length for rest in pauses)
    idle_since = next((rest.since for rest in pauses if rest.kind == "idle" and rest.until is None), None)
    return WorkTime(stop - start, stop - start - paused, paused, idle_since, tuple(pauses))


def _corrections(time: TimeState) -> list[Span]:
    """Where somebody said later that it was work; of two corrections the later one counts."""
    worked: list[Span] = []
    later: list[Span] = []
    for mark in reversed(time.marks):
        if mark.kind == "away":
            _cover(later, (mark.at, mark.until or mark.at))
        elif mark.kind == "worked" and mark.until is not None:
            for span in _without((mark.at, mark.until), later):
                _cover(worked, span)
    return worked


def _corrected(worked: list[Span], rest: WorkPause, stop: int) -> Iterable[WorkPause]:
    """What is left of a pause after corrections."""
    if not worked or not rest.length:
        yield rest
        return
    lasts = False
    for low, high in _without((rest.since, rest.since + rest.length), worked):
        lasts = rest.until is None and high == stop
        yield WorkPause(rest.kind, rest.reason, low, None if lasts else high, high - low)
    # What somebody paused stays paused after the work that they entered, also at the very moment that it ends.
    if rest.until is None and rest.kind != "idle" and not lasts:
        yield WorkPause(rest.kind, rest.reason, stop, None, 0)


def _marked(
    time: TimeState, stretches: Sequence[ForegroundRun]
) -> Iterable[tuple[PauseKind, str | None, int, int | None]]:
    """Pauses that somebody or the limit set: opened by a mark, ended by the next `resumed` in log order.

    Log order, because two devices' clocks may differ: who resumed had seen the pause, whatever the time said. (Or
    had not, and then the session goes on as its status says.) The latest comes first, so that an open pause is never
    hidden; what was entered afterwards comes last.
    """
    found: list[tuple[list[PauseMark], int | None]] = []
    is_open = False
    for mark in time.marks:
        if mark.kind == "resumed" and is_open:
            paused, _ = found.pop()
            found.append((paused, max(mark.at, paused[0].at)))
            is_open = False
        elif mark.kind in _STOPPING_KINDS and is_open:  # two devices paused at once: it is one pause
            found[-1][0].append(mark)
        elif mark.kind in _STOPPING_KINDS:
            found.append(([mark], None))
            is_open = True
    for paused, until in reversed(found):
        yield from _held(time, paused, until, stretches)
    away, last = _begun(time, "idle"), _end(time.active[-1]) if time.active else time.start
    entered: dict[tuple[str, int], tuple[str | None, int]] = {}
    for mark in time.marks:
        if mark.kind == "away" and mark.until is not None:
            # Entered again from the same moment, it is the same pause, and may have become longer.
            _, until = entered.get((mark.pause, mark.at), (None, mark.at + 1))
            if mark.until >= until:
                entered[mark.pause, mark.at] = mark.reason, mark.until
    for (pause, since), (reason, until) in entered.items():
        goes_on = pause == "idle" and since in away and last <= until
        yield (_KINDS.get(pause, "manual"), reason, since, None if goes_on else until)


def _held(
    time: TimeState, paused: Sequence[PauseMark], until: int | None, stretches: Sequence[ForegroundRun]
) -> Iterable[tuple[PauseKind, str | None, int, int | None]]:
    """What of one pause holds: where at least one of those who paused stopped the clock of everybody at work."""
    begin = paused[0].at
    worked = [_unaware(time, mark, stretches) for mark in paused]
    if not worked[0]:
        yield _PAUSED[paused[0].kind], paused[0].reason, begin, until
        return
    end = until if until is not None else 1 + max(high for spans in worked for _, high in [(begin, begin), *spans])
    held: list[Span] = []
    for mark, spans in zip(paused, worked, strict=True):
        for span in _without((max(mark.at, begin), end), spans):
            _cover(held, span)
    for low, high in reversed(held):
        mark = max((mark for mark in paused if mark.at <= low), key=lambda mark: mark.at)
        yield _PAUSED[mark.kind], mark.reason, low, None if until is None and high == end else high


def _unaware(time: TimeState, mark: PauseMark, stretches: Sequence[ForegroundRun]) -> list[Span]:
    """Where others were at work after this pause began, neither they nor who paused knowing of the other."""
    found: list[Span] = []
    for writer, signs in time.signs.items():
        if writer == mark.writer or not mark.writer:
            continue
        number, when = mark.learned.get(writer, (None, None))
        own: list[Span] = []
        for place in range(bisect_right(signs, mark.saw.get(writer, 0), key=lambda one: one.last), len(signs)):
            one = signs[place]
            if number is not None and one.first >= number:
                break
            if one.until >= mark.at:
                own.append((max(one.since, mark.at), one.until))
        if not own:
            continue
        low, high = min(own)[0], max(until for _, until in own)
        for run in stretches:  # while its agent ran, nobody was idle there
            if run.writer == writer and run.since <= high:
                ended = high if run.until is None else run.until
                own.append((max(run.since, low), ended if when is None else min(ended, max(high, when))))
        found += own
    joined: list[Span] = []
    for low, high in sorted(span for span in found if span[0] <= span[1]):
        if joined and low - joined[-1][1] <= time.timer.idle:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return [(low, high) for low, high in joined if low < high]


def _pieces(
    cuts: Sequence[Span], following: list[int], run: ForegroundRun, stop: int
) -> Iterable[tuple[int, int, bool]]:
    """An agent's run, cut wherever the person was at work meanwhile; and whether the piece lasts.

    The whole piece between two cuts is the same of every run, and comes once: `following` has for each cut the next
    one, itself included, before which it has not come yet.
    """
    high = stop if run.until is None else min(run.until, stop)
    if run.since == high:
        yield run.since, high, run.until is None
    place = bisect_right(cuts, stop, key=_first)
    is_cut = place > 0 and cuts[place - 1][1] >= stop and cuts[place - 1][1] > run.since
    low = run.since
    first = bisect_right(cuts, low, key=_second)
    beyond = bisect_left(cuts, high, key=_first)
    if first < beyond:
        if low < cuts[first][0]:
            yield low, cuts[first][0], False
        place = _next(following, first + 1)
        while place < beyond:
            yield cuts[place - 1][1], cuts[place][0], False
            following[place] = place + 1
            place = _next(following, place)
        low = cuts[beyond - 1][1]
    if low < high:
        yield low, high, run.until is None and high == stop and not is_cut


def _next(following: list[int], place: int) -> int:
    while following[place] != place:
        following[place] = place = following[following[place]]
    return place


def _begun(time: TimeState, pause: PauseKind) -> dict[int, str | None]:
    """Where another program said that a pause had begun, with its reason, and has not told its end since."""
    found: dict[int, str | None] = {}
    for mark in time.marks:
        if mark.kind == "resumed" and pause == "idle":
            found.clear()
        elif mark.kind == "away" and mark.pause == pause:
            if mark.until == mark.at:
                found[mark.at] = mark.reason
            else:
                found.pop(mark.at, None)
    return found


def _gaps(time: TimeState, start: int, stop: int, away: Container[int]) -> Iterable[tuple[int, int, bool]]:
    """Gaps between signs of activity longer than the threshold, and whether one lasts. The start is a sign.

    The last one counts however short, when it is known that the person was away from there.
    """
    idle, previous = time.timer.idle, start
    for run in time.active:
        edge = min(run.since, stop)
        if edge - previous > idle:
            yield (previous, edge, run.since > stop)
        previous = max(previous, _end(run))
        if previous > stop:
            return
    if stop - previous > max(idle, 0) or previous in away:
        yield (previous, stop, True)


def _union(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in sorted(spans):
        _cover(joined, span)
    return joined


def _cover(covered: list[Span], span: Span) -> None:
    """Add a span to a sorted list of disjoint ones."""
    low, high = span
    if low >= high:
        return
    first = bisect_left(covered, low, key=_second)
    beyond = bisect_right(covered, high, key=_first)
    if first < beyond:
        low, high = min(low, covered[first][0]), max(high, covered[beyond - 1][1])
    covered[first:beyond] = [(low, high)]


def _without(span: Span, covered: Sequence[Span]) -> list[Span]:
    """The parts of a span that lie outside the covered ones: a sorted list of disjoint ones."""
    low, high = span
    left: list[Span] = []
    for place in range(bisect_right(covered, low, key=_second), len(covered)):
        a, b = covered[place]
        if a >= high:
            break
        if a > low:
            left.append((low, a))
        low = max(low, b)
    if low < high:
        left.append((low, high))
    return left
