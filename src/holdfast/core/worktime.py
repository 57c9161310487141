"""Working time, computed from events and never accumulated: working + paused = elapsed, exactly, always.

A pause is manual (a message of the person or `resume` ends it), the timeout, a foreground agent's run longer than the
task threshold, or a gap between two signs of activity longer than the idle threshold. Messages of the person and
`resume` cut an agent's run, and each piece is compared with the threshold by itself: an agent whose end nobody
recorded neither stops the clock for ever nor turns a night into working time. Where another program counted working
time, no agent's run is a pause either. Where causes overlap, manual and timeout come first, then task, then idle;
each covers only what no earlier cause covers, so pauses never overlap.

Another program may have recorded the beginning of a pause without its end, as an `away` of no length. For kind task,
the agent's run that begins there is a pause however short. For kind idle, the person was away from there, or from the
end of the idle pause that begins there, until the next sign.

A pause applies only to writers that had seen it. Where another writer and the one who paused did not know of
each other's events, the other's activity within the pause is work: from its first sign to its last, less gaps longer
than the idle threshold.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.core.activity import STOPPING_KINDS, end_of
from holdfast.core.model import PauseKind
from holdfast.core.state import PauseMark, State, TimeState

Span = tuple[int, int]

# Of several open pauses, the kind that comes first here is shown.
PAUSE_ORDER: Final[tuple[PauseKind, ...]] = ("manual", "timeout", "task", "idle")
_KINDS: Final[dict[str, PauseKind]] = {kind: kind for kind in PAUSE_ORDER}
_PAUSED: Final[dict[str, PauseKind]] = {"manual": "manual", "timeout": "timeout"}


class ForegroundRun(NamedTuple):
    """One foreground run of an agent, the reason to show for it, and its writer."""

    since: int
    until: int | None
    reason: str
    writer: str = ""


class WorkPause(NamedTuple):
    """One pause. `until` is None while it lasts; `length` is how long it has lasted."""

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


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _second(pair: tuple[int, int]) -> int:
    return pair[1]


def measure(time: TimeState, foreground_runs: Iterable[ForegroundRun], *, end: int | None, now: int) -> WorkTime:
    """Work time of a session as of `now`; `end` is when it was completed or aborted."""
    start = time.start
    stop = max(start, now if end is None else end)
    live = end is None
    foreground_runs = list(foreground_runs)
    if _is_unbroken(time, foreground_runs, stop):
        return WorkTime(stop - start, stop - start, 0, None, ())
    task_begins = _unended_pauses(time, "task")
    runs = [
        run
        for run in foreground_runs
        if (run.since < stop and (run.until is None or run.until > start))
        or (run.since == stop and run.until is None and run.since in task_begins)
    ]

    pauses: list[WorkPause] = []
    covered: list[Span] = []
    is_open = False

    def add_pause(kind: PauseKind, reason: str | None, since: int, until: int | None) -> None:
        """Add the parts of this pause that no earlier cause covers."""
        nonlocal is_open
        lasts = until is None and live and not is_open
        low, high = max(since, start), stop if until is None else min(until, stop)
        if lasts and low == high:  # it begins right now and has no length yet
            pauses.append(WorkPause(kind, reason, low, None, 0))
            is_open = True
        for left, right in _subtract((low, high), covered):
            pauses.append(WorkPause(kind, reason, left, None if lasts and right == stop else right, right - left))
            is_open = is_open or (lasts and right == stop)

    for kind, reason, since, until in _explicit_pauses(time, runs):
        add_pause(kind, reason, since, until)
        _add_span(covered, (max(since, start), stop if until is None else min(until, stop)))
    cuts = [(run.since, end_of(run)) for run in time.attended]
    following = list(range(len(cuts) + 1))
    for run in runs:
        for low, high, lasts in _split_at_cuts(cuts, following, run, stop):
            if high - low > time.timer.task or (low == run.since and low in task_begins):
                add_pause("task", task_begins.get(run.since) or run.reason, low, None if lasts else high)
                _add_span(covered, (max(low, start), high))
    foreground = _merge_spans(
        (max(run.since, start), stop if run.until is None else min(run.until, stop)) for run in runs
    )
    away = _unended_pauses(time, "idle")
    for since, until, lasts in _idle_gaps(time, start, stop, away):
        for low, high in [(since, until)] if since == until else _subtract((since, until), foreground):
            if high - low > time.timer.idle or low in away:
                add_pause("idle", away.get(low), low, None if lasts and high == stop else high)

    corrections = _corrected_spans(time)
    pauses = [remaining for pause in pauses for remaining in _apply_corrections(corrections, pause, stop)]
    pauses.sort(key=lambda remaining: (remaining.since, remaining.length))
    paused = sum(remaining.length for remaining in pauses)
    idle_since = next(
        (remaining.since for remaining in pauses if remaining.kind == "idle" and remaining.until is None), None
    )
    return WorkTime(stop - start, stop - start - paused, paused, idle_since, tuple(pauses))


def _is_unbroken(time: TimeState, foreground_runs: Iterable[ForegroundRun], stop: int) -> bool:
    """Whether there is no pause of any kind: true of most sessions, and cheap to decide."""
    if time.marks or len(time.active) != 1:
        return False
    only, idle = time.active[0], time.timer.idle
    if only.since - time.start > idle or stop - end_of(only) > idle:
        return False
    return all((stop if run.until is None else run.until) - run.since <= time.timer.task for run in foreground_runs)


def _corrected_spans(time: TimeState) -> list[Span]:
    """The spans that were corrected to work; of two corrections the later one counts."""
    worked: list[Span] = []
    later: list[Span] = []
    for mark in reversed(time.marks):
        if mark.kind == "away":
            _add_span(later, (mark.at, mark.until or mark.at))
        elif mark.kind == "worked" and mark.until is not None:
            for span in _subtract((mark.at, mark.until), later):
                _add_span(worked, span)
    return worked


def _apply_corrections(worked: list[Span], pause: WorkPause, stop: int) -> Iterable[WorkPause]:
    """The parts of a pause that remain after corrections."""
    if not worked or not pause.length:
        yield pause
        return
    lasts = False
    for low, high in _subtract((pause.since, pause.since + pause.length), worked):
        lasts = pause.until is None and high == stop
        yield WorkPause(pause.kind, pause.reason, low, None if lasts else high, high - low)
    # After entered work, an explicit pause continues, even at the moment at which the work ends.
    if pause.until is None and pause.kind != "idle" and not lasts:
        yield WorkPause(pause.kind, pause.reason, stop, None, 0)


def _explicit_pauses(
    time: TimeState, foreground_runs: Sequence[ForegroundRun]
) -> Iterable[tuple[PauseKind, str | None, int, int | None]]:
    """Explicit pauses and those of the limit: opened by a mark, ended by the next `resumed` in log order.

    Log order and not time, because devices' clocks differ: the one that resumed had seen the pause. (Or had not; then
    the session continues, as its status says.) The latest comes first, so that an open pause is never hidden; pauses
    that were entered afterwards come last.
    """
    pauses: list[tuple[list[PauseMark], int | None]] = []
    is_open = False
    for mark in time.marks:
        if mark.kind == "resumed" and is_open:
            paused, _ = pauses.pop()
            pauses.append((paused, max(mark.at, paused[0].at)))
            is_open = False
        elif mark.kind in STOPPING_KINDS and is_open:  # two devices paused at once: one pause
            pauses[-1][0].append(mark)
        elif mark.kind in STOPPING_KINDS:
            pauses.append(([mark], None))
            is_open = True
    for paused, until in reversed(pauses):
        yield from _effective_parts(time, paused, until, foreground_runs)
    away, last = _unended_pauses(time, "idle"), end_of(time.active[-1]) if time.active else time.start
    entered: dict[tuple[str, int], tuple[str | None, int]] = {}
    for mark in time.marks:
        if mark.kind == "away" and mark.until is not None:
            # Entered again with the same beginning, it is the same pause, perhaps with a later end.
            _, until = entered.get((mark.pause, mark.at), (None, mark.at + 1))
            if mark.until >= until:
                entered[mark.pause, mark.at] = mark.reason, mark.until
    for (pause, since), (reason, until) in entered.items():
        goes_on = pause == "idle" and since in away and last <= until
        yield (_KINDS.get(pause, "manual"), reason, since, None if goes_on else until)


def _effective_parts(
    time: TimeState, paused: Sequence[PauseMark], until: int | None, foreground_runs: Sequence[ForegroundRun]
) -> Iterable[tuple[PauseKind, str | None, int, int | None]]:
    """The parts of one pause during which at least one of those who paused stopped everybody's clock."""
    begin = paused[0].at
    worked = [_unaware_work(time, mark, foreground_runs) for mark in paused]
    if not worked[0]:
        yield _PAUSED[paused[0].kind], paused[0].reason, begin, until
        return
    end = until if until is not None else 1 + max(high for spans in worked for _, high in [(begin, begin), *spans])
    paused_spans: list[Span] = []
    for mark, spans in zip(paused, worked, strict=True):
        for span in _subtract((max(mark.at, begin), end), spans):
            _add_span(paused_spans, span)
    for low, high in reversed(paused_spans):
        mark = max((mark for mark in paused if mark.at <= low), key=lambda mark: mark.at)
        yield _PAUSED[mark.kind], mark.reason, low, None if until is None and high == end else high


def _unaware_work(time: TimeState, mark: PauseMark, foreground_runs: Sequence[ForegroundRun]) -> list[Span]:
    """Where others worked after this pause began: they did not know of it, nor did who paused know of their work."""
    unaware: list[Span] = []
    for writer, signs in time.signs.items():
        if writer == mark.writer or not mark.writer:
            continue
        number, learned_at = mark.learned.get(writer, (None, None))
        own: list[Span] = []
        first_unseen = bisect_right(signs, mark.saw.get(writer, 0), key=lambda activity: activity.last)
        for index in range(first_unseen, len(signs)):
            activity = signs[index]
            if number is not None and activity.first >= number:
                break
            if activity.until >= mark.at:
                own.append((max(activity.since, mark.at), activity.until))
        if not own:
            continue
        low, high = min(own)[0], max(until for _, until in own)
        for run in foreground_runs:  # while its agent ran, that writer was not idle
            if run.writer == writer and run.since <= high:
                ended = high if run.until is None else run.until
                own.append((max(run.since, low), ended if learned_at is None else min(ended, max(high, learned_at))))
        unaware += own
    joined = join_spans(sorted(span for span in unaware if span[0] <= span[1]), time.timer.idle)
    return [(low, high) for low, high in joined if low < high]


def _split_at_cuts(
    cuts: Sequence[Span], following: list[int], run: ForegroundRun, stop: int
) -> Iterable[tuple[int, int, bool]]:
    """An agent's run, cut wherever the person was at work meanwhile, and whether each piece lasts.

    The piece between two cuts is the same for every run, and is yielded once: `following` maps each cut to the first
    one, itself included, before which the piece has not been yielded yet.
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
        place = _find_next(following, first + 1)
        while place < beyond:
            yield cuts[place - 1][1], cuts[place][0], False
            following[place] = place + 1
            place = _find_next(following, place)
        low = cuts[beyond - 1][1]
    if low < high:
        yield low, high, run.until is None and high == stop and not is_cut


def _find_next(following: list[int], place: int) -> int:
    while following[place] != place:
        following[place] = place = following[following[place]]
    return place


def _unended_pauses(time: TimeState, pause: PauseKind) -> dict[int, str | None]:
    """Where another program recorded the beginning of a pause, with its reason, and no end since."""
    begun: dict[int, str | None] = {}
    for mark in time.marks:
        if mark.kind == "resumed" and pause == "idle":
            begun.clear()
        elif mark.kind == "away" and mark.pause == pause:
            if mark.until == mark.at:
                begun[mark.at] = mark.reason
            else:
                begun.pop(mark.at, None)
    return begun


def _idle_gaps(time: TimeState, start: int, stop: int, away: Container[int]) -> Iterable[tuple[int, int, bool]]:
    """Gaps between signs of activity longer than the threshold, and whether each lasts. The start is a sign.

    The last gap counts, however short, if the person is known to have been away since its start.
    """
    idle, previous = time.timer.idle, start
    for run in time.active:
        edge = min(run.since, stop)
        if edge - previous > idle:
            yield (previous, edge, run.since > stop)
        previous = max(previous, end_of(run))
        if previous > stop:
            return
    if stop - previous > max(idle, 0) or previous in away:
        yield (previous, stop, True)


def join_spans(spans: Iterable[Span], idle: int) -> list[Span]:
    """Join sorted spans where no gap between them is longer than the threshold."""
    joined: list[Span] = []
    for low, high in spans:
        if joined and low - joined[-1][1] <= idle:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def turning_points(state: State) -> Iterator[int]:
    """Every moment at which working time may change its course; it may also do so one millisecond later."""
    time = state.time
    idle, task = time.timer.idle, time.timer.task
    yield from (time.start, time.start + idle, state.updated_at, state.updated_at + idle)
    for mark in time.marks:
        yield from (mark.at, mark.at + idle, mark.at if mark.until is None else mark.until)
    for run in time.active:
        yield from (run.since, end_of(run), end_of(run) + idle)
    if len(time.signs) > 1:  # others who did not know of a pause may have worked in it
        yield from (at for own in time.signs.values() for signs in own for at in (signs.since, signs.until))
    for run in time.attended:
        yield from (run.since, end_of(run), end_of(run) + idle, end_of(run) + task)
    for agent in state.agents.values():
        for run in agent.runs:
            yield from (run.since, run.since + task, run.since + idle)
            if run.until is not None:
                yield from (run.until, run.until + idle)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in sorted(spans):
        _add_span(joined, span)
    return joined


def _add_span(covered: list[Span], span: Span) -> None:
    """Add a span to a sorted list of disjoint ones."""
    low, high = span
    if low >= high:
        return
    first = bisect_left(covered, low, key=_second)
    beyond = bisect_right(covered, high, key=_first)
    if first < beyond:
        low, high = min(low, covered[first][0]), max(high, covered[beyond - 1][1])
    covered[first:beyond] = [(low, high)]


def _subtract(span: Span, covered: Sequence[Span]) -> list[Span]:
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
