"""The person's time as one strip: worked, and the kinds of pause. Together they are all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from holdfast.core.model import Session
from holdfast.core.times import MINUTE, format_duration, parse_time
from holdfast.core.wording import count, pause_words
from holdfast.web.charts.axis import Axis, Offset, Period, quiet

HEIGHT: Final = 52
MAX_DRAWN: Final = 200  # pauses that are drawn, the longest ones
_MAX_ON_CARD: Final = 40  # on a card
KINDS: Final = ("manual", "idle", "task", "timeout")
_PATTERNS: Final = {"manual": "hatch", "task": "dots", "timeout": "stripes"}


class StripPause(NamedTuple):
    """A pause; without an end while it lasts."""

    kind: str
    reason: str | None
    since: int
    until: int | None


def drawn_pauses(pauses: Sequence[StripPause], max_drawn: int = MAX_DRAWN) -> Sequence[StripPause]:
    """The pauses that are drawn, in order: the longest, and one that lasts."""
    if len(pauses) <= max_drawn:
        return pauses

    def by_length(pause: StripPause) -> tuple[bool, int]:
        return pause.until is not None, pause.since - (pause.until or pause.since)

    return sorted(sorted(pauses, key=by_length)[:max_drawn], key=lambda pause: pause.since)


def pauses_of(session: Session) -> list[StripPause]:
    return [
        StripPause(
            pause.kind,
            pause.reason,
            parse_time(pause.started_at),
            None if pause.ended_at is None else parse_time(pause.ended_at),
        )
        for pause in session.time.pauses
    ]


def small_strip(session: Session) -> Markup:
    """The strip alone, for a card: long quiet stretches folded, the rest to scale."""
    since = parse_time(session.started_at or session.created_at)
    period = Period.of(since, since + session.time.elapsed_ms, live=session.ended_at is None)
    pauses = pauses_of(session)
    axis = Axis(
        period._replace(until=period.end), quiet([(pause.since, pause.until or period.end) for pause in pauses], ())
    )
    left, width = axis.edges(since, period.end)
    parts = [Markup('<rect class="worked" x="{}%" width="{}%" height="8"/>').format(left, width)]
    for pause in drawn_pauses(pauses, _MAX_ON_CARD):
        left, width = axis.edges(pause.since, period.end if pause.until is None else pause.until, min_width=0.5)
        kind = pause.kind if pause.kind in KINDS else "idle"
        parts.append(
            Markup('<g class="pause-{}"><rect x="{}%" width="{}%" height="8"/></g>').format(kind, left, width)
        )
    named = (
        f"Worked {format_duration(session.time.working_ms // MINUTE * MINUTE)}, with {count(len(pauses), 'pause')}"
    )
    return Markup('<svg class="small-strip" width="100%" height="8" role="img" aria-label="{}">{}</svg>').format(
        named, Markup("").join(parts)
    )


def chart(pauses: Sequence[StripPause], axis: Axis, offset: Offset) -> Markup:
    """The strip, with the axis above it."""
    period = axis.period
    left, width = axis.edges(period.since, period.end)
    parts = [
        axis.draw_grid(HEIGHT, offset),
        Markup('<rect class="worked" x="{}%" y="24" width="{}%" height="22"><title>worked</title></rect>').format(
            left, width
        ),
    ]
    for pause in drawn_pauses(pauses):
        until = period.end if pause.until is None else min(pause.until, period.end)
        if pause.until is not None and until <= pause.since:
            continue
        left, width = axis.edges(pause.since, until, min_width=0.15)
        title = pause_words(pause.kind, pause.reason, until - pause.since) + (
            "" if pause.until is None else f", {format_duration(until - pause.since)}"
        )
        position = Markup('x="{}%" y="24" width="{}%" height="22"').format(left, width)
        pattern_id = _PATTERNS.get(pause.kind)
        parts.append(
            Markup('<g class="pause-{}"><title>{}</title><rect {}/>{}</g>').format(
                pause.kind if pause.kind in KINDS else "idle", title, position,
                Markup('<rect {} fill="url(#{})" class="over"/>').format(position, pattern_id) if pattern_id else "",
            )
        )  # fmt: skip
    parts.append(axis.now_line(HEIGHT, top=14))
    named = (
        f"Work time: worked, with {len(pauses):,} pauses" if len(pauses) != 1 else "Work time: worked, with 1 pause"
    )
    return Markup('<svg class="plot" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        HEIGHT, named, Markup("").join(parts)
    )
