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
_FEW: Final = 40  # on a card
KINDS: Final = ("manual", "idle", "task", "timeout")
_FILLS: Final = {"manual": "hatch", "task": "dots", "timeout": "stripes"}


class StripPause(NamedTuple):
    """A pause; without an end while it lasts."""

    kind: str
    reason: str | None
    since: int
    until: int | None


def drawn(pauses: Sequence[StripPause], most: int = MAX_DRAWN) -> Sequence[StripPause]:
    """The pauses that are drawn, in order: the longest, and one that lasts."""
    if len(pauses) <= most:
        return pauses

    def by_length(pause: StripPause) -> tuple[bool, int]:
        return pause.until is not None, pause.since - (pause.until or pause.since)

    return sorted(sorted(pauses, key=by_length)[:most], key=lambda pause: pause.since)


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


def small(session: Session) -> Markup:
    """The strip alone, for a card: long quiet stretches folded, the rest to scale."""
    since = parse_time(session.started_at or session.created_at)
    period = Period.of(since, since + session.time.elapsed_ms, live=session.ended_at is None)
    pauses = pauses_of(session)
    axis = Axis(
        period._replace(until=period.end), quiet([(pause.since, pause.until or period.end) for pause in pauses], ())
    )
    left, wide = axis.stretch(since, period.end)
    parts = [Markup('<rect class="worked" x="{}%" width="{}%" height="8"/>').format(left, wide)]
    for pause in drawn(pauses, _FEW):
        left, wide = axis.stretch(pause.since, period.end if pause.until is None else pause.until, least=0.5)
        kind = pause.kind if pause.kind in KINDS else "idle"
        parts.append(
            Markup('<g class="pause-{}"><rect x="{}%" width="{}%" height="8"/></g>').format(kind, left, wide)
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
    left, wide = axis.stretch(period.since, period.end)
    parts = [
        axis.drawn(HEIGHT, offset),
        Markup('<rect class="worked" x="{}%" y="24" width="{}%" height="22"><title>worked</title></rect>').format(
            left, wide
        ),
    ]
    for pause in drawn(pauses):
        until = period.end if pause.until is None else min(pause.until, period.end)
        if pause.until is not None and until <= pause.since:
            continue
        left, wide = axis.stretch(pause.since, until, least=0.15)
        title = pause_words(pause.kind, pause.reason, until - pause.since) + (
            "" if pause.until is None else f", {format_duration(until - pause.since)}"
        )
        where = Markup('x="{}%" y="24" width="{}%" height="22"').format(left, wide)
        over = _FILLS.get(pause.kind)
        parts.append(
            Markup('<g class="pause-{}"><title>{}</title><rect {}/>{}</g>').format(
                pause.kind if pause.kind in KINDS else "idle", title, where,
                Markup('<rect {} fill="url(#{})" class="over"/>').format(where, over) if over else "",
            )
        )  # fmt: skip
    parts.append(axis.now_line(HEIGHT, top=14))
    named = (
        f"Work time: worked, with {len(pauses):,} pauses" if len(pauses) != 1 else "Work time: worked, with 1 pause"
    )
    return Markup('<svg class="plot" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        HEIGHT, named, Markup("").join(parts)
    )
