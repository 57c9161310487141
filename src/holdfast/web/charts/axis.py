"""The time axis that charts share: where a moment is between left (0) and right (100 per cent).

Places are percentages of the width, so a chart fits a phone and a wide screen with letters of one size. Long
stretches in which nothing happened (a night, a weekend) are folded to a few per cent, so that an hour's work next to
them stays visible. Drawings change only in steps (`Period.of`), not with every second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from holdfast.core.times import DAY, EARLIEST, HOUR, LATEST, MINUTE, SECOND
from holdfast.core.wording import age

Span = tuple[int, int]
Offset = Callable[[int], timedelta]

_FOLD_WIDTH: Final = 3.5  # per cent that a folded stretch takes
_MAX_FOLDS: Final = 8
_MIN_FOLD_SHARE: Final = 0.2  # of the whole: shorter ones are not folded
_ALWAYS_FOLDED: Final = 4 * HOUR  # longer ones are
_MIN_FOLD: Final = 2 * HOUR  # to be folded at all
_STEPS: Final = (
    SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
    30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY,
    364 * DAY, 3640 * DAY, 36400 * DAY, 364000 * DAY,
)  # fmt: skip
_MAX_TICKS: Final = 9  # at most, on a wide screen
_LABEL_GAP: Final = 9.0  # per cent between two labels there
_LABEL_GAP_NARROW: Final = 30.0  # and on a phone


def step_for(length: int, max_steps: int) -> int:
    """The smallest round step of which a length has at most `max_steps`."""
    return next((step for step in _STEPS if length <= step * max_steps), _STEPS[-1])


class Period(NamedTuple):
    """What a chart spans. `now` is where the present is in it; None if it is not."""

    since: int
    until: int
    now: int | None

    @classmethod
    def of(cls, since: int, until: int, *, live: bool) -> Period:
        """A period; while it lasts, with some room after the present, which moves in steps."""
        length = max(until - since, SECOND)
        if not live:
            return cls(since, since + length, None)
        small, large = step_for(length, 400), step_for(length, 20)
        now = since - (-length // small) * small
        return cls(since, max(since - (-(now - since) // large) * large, now + small), now)

    @property
    def end(self) -> int:
        """Until when there is something to draw."""
        return self.until if self.now is None else self.now


class Tick(NamedTuple):
    place: float
    label: str
    # Whether its label fits on a phone too.
    major: bool


class Axis:
    """Places of moments. `quiet` are stretches that may be folded."""

    def __init__(self, period: Period, quiet: Iterable[Span] = ()) -> None:
        self.period = period
        self.folds = _folds(period, quiet)
        self._unfolded_ms = max(period.until - period.since - sum(end - begin for begin, end in self.folds), 1)
        self._unfolded_width = 100 - _FOLD_WIDTH * len(self.folds)

    def x(self, moment: int) -> float:
        """Per cent from the left, within 0 and 100."""
        moment = min(max(moment, self.period.since), self.period.until)
        hidden, passed = 0, 0.0
        for begin, end in self.folds:
            inside = min(max(moment - begin, 0), end - begin)
            hidden += inside
            passed += _FOLD_WIDTH * inside / (end - begin)
        return round(
            min(
                max((moment - self.period.since - hidden) / self._unfolded_ms * self._unfolded_width + passed, 0), 100
            ),
            2,
        )

    def edges(self, since: int, until: int, min_width: float = 0.4) -> tuple[float, float]:
        """Left edge and width of a stretch: wide enough to be visible, and within the chart."""
        left, right = self.x(since), self.x(max(since, until))
        if right - left < min_width:
            left = min(left, 100 - min_width)
            right = left + min_width
        return round(left, 2), round(right - left, 2)

    def ticks(self, offset: Offset) -> list[Tick]:
        """Round times of the local clock, as many as have room for a label."""
        since, until = self.period.since, self.period.until
        shift = offset(since) // timedelta(milliseconds=1)
        step = step_for(self._unfolded_ms, _MAX_TICKS)
        ticks: list[Tick] = []
        day, last = "", -_LABEL_GAP_NARROW
        moment = -(-(since + shift) // step) * step - shift
        while moment <= until and len(ticks) <= 2 * _MAX_TICKS:
            fold = next((end for begin, end in self.folds if begin < moment < end), None)
            if fold is not None:
                moment = -(-(fold + shift) // step) * step - shift
                continue
            place = self.x(moment)
            date_time = _local(moment, shift)
            today = f"{date_time:%a} {date_time.day} {date_time:%b}"
            label = f"{today} {date_time:%Y}" if step >= 28 * DAY else today
            if step < DAY and (today == day or not ticks):
                label = f"{date_time:%H:%M:%S}" if step < MINUTE else f"{date_time:%H:%M}"
            day = today
            if not ticks or place - ticks[-1].place >= _LABEL_GAP:
                major = place - last >= _LABEL_GAP_NARROW and place <= 90
                last = place if major else last
                ticks.append(Tick(place, label, major))
            moment += step
        return ticks

    def draw_grid(self, height: int, offset: Offset, *, labels: bool = True) -> Markup:
        """Grid, folded stretches and labels; the labels take the first 18 units of the height."""
        top = 18 if labels else 0
        parts: list[Markup] = []
        for begin, end in self.folds:
            left, width = self.edges(begin, end)
            parts.append(
                Markup('<rect class="fold" x="{}%" y="{}" width="{}%" height="{}"><title>{}</title></rect>').format(
                    left, top, width, height - top, f"{age(end - begin)} without activity"
                )
            )
            if labels:
                parts.append(
                    Markup('<text class="folded" x="{}%" y="12" text-anchor="middle">⋯</text>').format(
                        round(left + width / 2, 2)
                    )
                )
        for tick in self.ticks(offset):
            parts.append(
                Markup('<line class="grid" x1="{}%" y1="{}" x2="{}%" y2="{}"/>').format(
                    tick.place, top, tick.place, height
                )
            )
            if labels and not any(self.x(begin) - 3 < tick.place < self.x(end) + 3 for begin, end in self.folds):
                anchor = "start" if tick.place < 3 else "end" if tick.place > 96 else "middle"
                parts.append(
                    Markup('<text class="tick{}" x="{}%" y="12" text-anchor="{}">{}</text>').format(
                        "" if tick.major else " minor", tick.place, anchor, tick.label
                    )
                )
        return Markup("").join(parts)

    def now_line(self, height: int, *, top: int = 0) -> Markup:
        """A line at the present."""
        if self.period.now is None:
            return Markup("")
        place = self.x(self.period.now)
        return Markup('<line class="now-line" x1="{}%" y1="{}" x2="{}%" y2="{}"><title>now</title></line>').format(
            place, top, place, height
        )


def quiet(pauses: Sequence[Span], busy: Iterable[Span]) -> list[Span]:
    """The parts of the pauses in which no agent was running."""
    stretches: list[Span] = []
    work = sorted(busy)
    for since, until in pauses:
        start = since
        for begin, end in work:
            if start >= until or begin >= until:
                break
            if begin > start:
                stretches.append((start, min(begin, until)))
            start = max(start, end)
        if start < until:
            stretches.append((start, until))
    return stretches


def _folds(period: Period, quiet: Iterable[Span]) -> list[Span]:
    length = period.end - period.since
    min_length = max(min(int(length * _MIN_FOLD_SHARE), _ALWAYS_FOLDED), _MIN_FOLD)
    clipped = [(max(begin, period.since), min(end, period.end)) for begin, end in quiet]
    long_enough = [(begin, end) for begin, end in clipped if end - begin > min_length]
    longest = sorted(long_enough, key=lambda stretch: stretch[0] - stretch[1])[:_MAX_FOLDS]
    folds: list[Span] = []
    for begin, end in sorted(longest):
        if not folds or begin >= folds[-1][1]:
            folds.append((begin, end))
    # Something must be left to see.
    return folds if length - sum(end - begin for begin, end in folds) >= MINUTE else []


def _local(moment: int, shift: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=min(max(moment + shift, EARLIEST), LATEST))
