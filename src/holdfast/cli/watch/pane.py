"""The chosen session: as much of it as there is room for, and everything about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.cli.clock import Clock, stamp, ticking
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import (
    agents_line,
    agents_summary,
    inset,
    progress,
    resting,
    status_word,
    tasks_line,
    tasks_summary,
    title,
)
from holdfast.cli.session_view import whole
from holdfast.cli.status_view import context_line
from holdfast.cli.watch.scene import Happening
from holdfast.core.model import Session
from holdfast.core.modes import limits
from holdfast.core.wording import paused_and_away
from holdfast.sessions.overview import with_names

if TYPE_CHECKING:
    from holdfast.sessions.overview import SessionCard

_ROOMY: Final = 12  # lines from which nothing need be brief
_MOST: Final = 100  # rows of one block, however large the screen is

Block = tuple[Painted, int, Callable[[int], Painted]]  # its heading, the rows it would like, so many of them drawn


def pane(paint: Paint, glance: SessionCard, events: Sequence[Happening], now: int, room: int) -> list[Painted]:
    """The session in at most so many lines."""
    glance = with_names(glance)
    session, clock, roomy = glance.session, Clock(now), room >= _ROOMY
    lines = _lines(title(paint, session.goal, most=2 if roomy else 1))
    lines.append(_standing(paint, session))
    lines += attention(paint, glance, 3 if roomy else 1)
    lines += _lines(paint.pairs(_facts(paint, session, clock)))
    lines = lines[:room]
    blocks = [
        (paint.heading("Agents", agents_summary(session.agents, limits(session.mode).agents, glance.gone)),
         len(session.agents), lambda most: agents_line(paint, session.agents, most, glance.gone)),
        (paint.heading("Plan", tasks_summary(session.tasks)),
         sum(task.status not in ("completed", "dropped") for task in session.tasks),
         lambda most: tasks_line(paint, session.tasks, most)),
        (paint.heading("Latest"), len(events), lambda most: _latest(paint, events[-most:], clock)),
    ]  # fmt: skip
    there = [block for block, some in zip(blocks, (session.agents, session.tasks, events), strict=True) if some]
    return [*lines, *_shared(there, room - len(lines), apart=roomy)][:room]


def _shared(blocks: Sequence[Block], room: int, *, apart: bool) -> list[Painted]:
    """Blocks one below the other: the room is dealt out row by row, and the first ones come first."""
    cost = 2 if apart else 1  # the heading, and a blank line before it
    blocks = blocks[: max(room // (cost + 1), 0)]
    left = room - cost * len(blocks)
    given = [0] * len(blocks)
    while left > 0 and any(given[n] < min(block[1], _MOST) for n, block in enumerate(blocks)):
        for n, block in enumerate(blocks):
            if left > 0 and given[n] < min(block[1], _MOST):
                given[n], left = given[n] + 1, left - 1
    lines: list[Painted] = []
    for (heading, _, draw), most in zip(blocks, given, strict=True):
        lines += [Painted("")] * (cost - 1) + [heading]
        lines += _lines(draw(most)) if most else []
    return lines


def detail(paint: Paint, glance: SessionCard, events: Sequence[Happening], now: int) -> list[Painted]:
    """Everything about the session, as long as it is."""
    clock = Clock(now)
    waits = attention(paint, glance, 99)
    lines = [*_lines(paint.pairs([("Clock", _clock(paint, glance.session))])), *waits]
    lines += [Painted(""), *_lines(whole(paint, glance.session, clock)), Painted("")]
    lines += _lines(paint.pairs([("Go on", glance.resume)]))
    if events:
        lines += [Painted(""), paint.heading("Latest"), *_lines(_latest(paint, events, clock))]
    return lines


def attention(paint: Paint, glance: SessionCard, most: int) -> list[Painted]:
    """What waits for the person."""
    told = glance.attention if len(glance.attention) <= most else glance.attention[: max(most - 1, 1)]
    lines = [paint.cut(paint.yellow(paint.join("! ", " ".join(line.split()))), paint.width) for line in told]
    left = len(glance.attention) - len(told)
    return [*lines, paint.dim(f"  and {left:,} more")] if left and most > 1 else lines


def list_time(session: Session) -> str:
    """Working time for a narrow column: `1:05`, hours and minutes."""
    return ticking(session.time.working_ms).rpartition(":")[0]


def _standing(paint: Paint, session: Session) -> Painted:
    where = [session.id[:8], session.project.name, f"scope {session.scope}" if session.scope else ""]
    line = paint.join(
        status_word(paint, session), "  ", progress(paint, session.progress, _bar(paint), "normal"), "  ",
        paint.dim(", ".join(part for part in where if part)),
    )  # fmt: skip
    return paint.cut(line, paint.width)


def _facts(paint: Paint, session: Session, clock: Clock) -> list[tuple[str, str]]:
    begun = f"since {clock.at(session.started_at or session.created_at)}"
    facts: list[tuple[str, str]] = [("Time", paint.join(_clock(paint, session), paint.dim(f", {begun}")))]
    rest = resting(paint, session, clock)
    if rest is not None:
        facts.append(("", rest))
    if session.context.tokens is not None:
        facts.append(("Context", context_line(paint, session, _bar(paint))))
    return facts


def _bar(paint: Paint) -> int:
    """Where there is little room, the numbers have it."""
    return 20 if paint.width >= 60 else 8


def _clock(paint: Paint, session: Session) -> Painted:
    time = session.time
    rest = "".join(
        f", {ticking(ms)} {word}" for ms, word in zip(paused_and_away(time), ("paused", "away"), strict=True) if ms
    )
    return paint.join(paint.bold(ticking(time.working_ms)), f" worked{rest}")


def _latest(paint: Paint, events: Sequence[Happening], clock: Clock) -> Painted:
    if not events:
        return Painted("")
    today = stamp(clock.now)[:10]
    rows = []
    for event in events:
        when = stamp(event.at)
        rows.append([when[11:] if when[:10] == today else clock.at(event.at), event.type, event.told])
    columns = [Column("", style="dim"), Column(""), Column("", weight=1, least=16)]
    return inset(paint, lambda inner: inner.table(rows, columns))


def _lines(drawn: Painted) -> list[Painted]:
    return [Painted(line) for line in drawn.split("\n")]
