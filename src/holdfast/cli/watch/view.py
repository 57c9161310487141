"""Draw `holdfast watch`: a scene and the size of the screen give its lines. Pure, and everything is painted.

Narrow screens have the list above the chosen session, wide ones next to it. What does not fit is left out; what
waits for the person is left out last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.cells import wrap
from holdfast.cli.clock import Clock, stamp, with_seconds
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import (
    agents_short,
    agents_summary,
    indented,
    pause_line,
    progress,
    status_word,
    tasks_short,
    tasks_summary,
    title,
)
from holdfast.cli.session_view import full_view
from holdfast.cli.status_view import context_line
from holdfast.cli.watch.keys import visible_part
from holdfast.cli.watch.scene import EventLine, Scene
from holdfast.core.model import Session
from holdfast.core.modes import limits
from holdfast.core.wording import count, paused_and_away, percent
from holdfast.sessions.overview import with_names

if TYPE_CHECKING:
    from holdfast.sessions.overview import SessionCard

_ROOMY_LINES: Final = 12  # lines from which nothing is shortened
_MAX_ROWS: Final = 100  # rows of one block, however large the screen is

Block = tuple[
    Painted, int, Callable[[int], Painted]
]  # its heading, its number of rows, and a function that draws so many of them


def pane(paint: Paint, card: SessionCard, events: Sequence[EventLine], now: int, room: int) -> list[Painted]:
    """The session in at most so many lines."""
    card = with_names(card)
    session, clock, roomy = card.session, Clock(now), room >= _ROOMY_LINES
    lines = _split_lines(title(paint, session.goal, max_lines=2 if roomy else 1))
    lines.append(_status_line(paint, session))
    lines += attention(paint, card, 3 if roomy else 1)
    lines += _split_lines(paint.pairs(_facts(paint, session, clock)))
    lines = lines[:room]
    blocks = [
        (paint.heading("Agents", agents_summary(session.agents, limits(session.mode).agents, card.lost)),
         len(session.agents), lambda most: agents_short(paint, session.agents, most, card.lost)),
        (paint.heading("Plan", tasks_summary(session.tasks)),
         sum(task.status not in ("completed", "dropped") for task in session.tasks),
         lambda most: tasks_short(paint, session.tasks, most)),
        (paint.heading("Latest"), len(events), lambda most: _latest(paint, events[-most:], clock)),
    ]  # fmt: skip
    nonempty = [block for block, items in zip(blocks, (session.agents, session.tasks, events), strict=True) if items]
    return [*lines, *_stack_blocks(nonempty, room - len(lines), spaced=roomy)][:room]


def _stack_blocks(blocks: Sequence[Block], room: int, *, spaced: bool) -> list[Painted]:
    """Blocks one below the other: the room is dealt out row by row, and the first ones come first."""
    cost = 2 if spaced else 1  # the heading, and a blank line before it
    blocks = blocks[: max(room // (cost + 1), 0)]
    left = room - cost * len(blocks)
    row_counts = [0] * len(blocks)
    while left > 0 and any(row_counts[index] < min(block[1], _MAX_ROWS) for index, block in enumerate(blocks)):
        for index, block in enumerate(blocks):
            if left > 0 and row_counts[index] < min(block[1], _MAX_ROWS):
                row_counts[index], left = row_counts[index] + 1, left - 1
    lines: list[Painted] = []
    for (heading, _, draw), rows in zip(blocks, row_counts, strict=True):
        lines += [Painted("")] * (cost - 1) + [heading]
        lines += _split_lines(draw(rows)) if rows else []
    return lines


def detail(paint: Paint, card: SessionCard, events: Sequence[EventLine], now: int) -> list[Painted]:
    """Everything about the session, as long as it is."""
    clock = Clock(now)
    waits = attention(paint, card, 99)
    lines = [*_split_lines(paint.pairs([("Clock", _clock(paint, card.session))])), *waits]
    lines += [Painted(""), *_split_lines(full_view(paint, card.session, clock)), Painted("")]
    lines += _split_lines(paint.pairs([("Go on", card.resume)]))
    if events:
        lines += [Painted(""), paint.heading("Latest"), *_split_lines(_latest(paint, events, clock))]
    return lines


def attention(paint: Paint, card: SessionCard, max_lines: int) -> list[Painted]:
    """What waits for the person."""
    visible_part = card.attention if len(card.attention) <= max_lines else card.attention[: max(max_lines - 1, 1)]
    lines = [paint.cut(paint.yellow(paint.join("! ", " ".join(line.split()))), paint.width) for line in visible_part]
    left = len(card.attention) - len(visible_part)
    return [*lines, paint.dim(f"  and {left:,} more")] if left and max_lines > 1 else lines


def list_time(session: Session) -> str:
    """Working time for a narrow column: `1:05`, hours and minutes."""
    return with_seconds(session.time.working_ms).rpartition(":")[0]


def _status_line(paint: Paint, session: Session) -> Painted:
    details = [session.id[:8], session.project.name, f"scope {session.scope}" if session.scope else ""]
    line = paint.join(
        status_word(paint, session), "  ", progress(paint, session.progress, _bar(paint), "normal"), "  ",
        paint.dim(", ".join(part for part in details if part)),
    )  # fmt: skip
    return paint.cut(line, paint.width)


def _facts(paint: Paint, session: Session, clock: Clock) -> list[tuple[str, str]]:
    began = f"since {clock.at(session.started_at or session.created_at)}"
    facts: list[tuple[str, str]] = [("Time", paint.join(_clock(paint, session), paint.dim(f", {began}")))]
    pause = pause_line(paint, session, clock)
    if pause is not None:
        facts.append(("", pause))
    if session.context.tokens is not None:
        facts.append(("Context", context_line(paint, session, _bar(paint))))
    return facts


def _bar(paint: Paint) -> int:
    """Where there is little room, the numbers have it."""
    return 20 if paint.width >= 60 else 8


def _clock(paint: Paint, session: Session) -> Painted:
    time = session.time
    rest = "".join(
        f", {with_seconds(ms)} {word}"
        for ms, word in zip(paused_and_away(time), ("paused", "away"), strict=True)
        if ms
    )
    return paint.join(paint.bold(with_seconds(time.working_ms)), f" worked{rest}")


def _latest(paint: Paint, events: Sequence[EventLine], clock: Clock) -> Painted:
    if not events:
        return Painted("")
    today = stamp(clock.now)[:10]
    rows = []
    for event in events:
        when = stamp(event.at)
        rows.append([when[11:] if when[:10] == today else clock.at(event.at), event.type, event.summary])
    columns = [Column("", style="dim"), Column(""), Column("", weight=1, min_width=16)]
    return indented(paint, lambda inner: inner.table(rows, columns))


def _split_lines(drawn: Painted) -> list[Painted]:
    return [Painted(line) for line in drawn.split("\n")]


MIN_SIZE: Final = os.terminal_size((40, 10))
_WIDE_COLUMNS: Final = 120  # columns from which list and session stand side by side
_MAX_MESSAGE_LINES: Final = 3  # for the result of a key
_HELP: Final = (
    ("↑ ↓  j k", "up down j k", "the session above, below; in the detail, a line"),
    ("Enter →", "Enter, right", "everything about the session"),
    ("PgUp PgDn", "PgUp PgDn", "a page of it; g and G: its beginning and end"),
    ("Esc ←", "Esc, left", "back; while writing, cancel input"),
    ("p", "p", "pause, with a reason if you like"),
    ("r", "r", "resume"),
    ("n", "n", "write a note"),
    ("?", "?", "this help; Ctrl-L redraws the screen"),
    ("q", "q", "leave; Ctrl-C does too"),
)
_WRITING: Final = {"pause": "Reason (may be empty): ", "note": "Note: ", "resume": ""}


class WatchFrame(NamedTuple):
    lines: list[Painted]
    # Row and cell, from 0, while something is being written.
    cursor: tuple[int, int] | None = None
    # How far the detail is scrolled, its end considered, and how many of its lines are seen.
    scroll: int = 0
    page: int = 10


def frame(base: Paint, scene: Scene, size: os.terminal_size) -> WatchFrame:
    paint = Paint(size.columns, base.colour, ascii_only=base.ascii_only, tty=True)
    if size.columns < MIN_SIZE.columns or size.lines < MIN_SIZE.lines:
        return WatchFrame(_too_small(paint, size))
    footer, cursor = _footer(paint, scene)
    room = size.lines - 1 - len(footer)
    scroll, right = 0, ""
    if scene.page == "help":
        body = _help(paint)
    elif scene.card is None:
        body = _empty_page(paint, scene)
    elif scene.page == "detail":
        lines = detail(paint, scene.card, scene.events, scene.now)
        scroll = max(min(scene.scroll, len(lines) - room), 0)
        body = lines[scroll : scroll + room]
        right = f"lines {scroll + 1}-{scroll + len(body)} of {len(lines)}" if len(lines) > room else ""
    else:
        body = _overview(paint, scene, room)
        right = _position_text(scene)
    lines = [_header(paint, right), *body[:room]]
    lines += [Painted("")] * (size.lines - len(footer) - len(lines))
    at = None if cursor is None else (size.lines - 1, cursor)
    return WatchFrame([paint.cut(line, size.columns) for line in (*lines, *footer)], at, scroll, room)


def _header(paint: Paint, right: str) -> Painted:
    name = paint.bold("holdfast watch")
    fitting = paint.cut(right, paint.width - paint.width_of(name) - 2)
    return paint.join(name, " " * (paint.width - paint.width_of(name) - paint.width_of(fitting)), paint.dim(fitting))


def _position_text(scene: Scene) -> str:
    number = len(scene.cards)
    waiting = sum(bool(card.attention) for card in scene.cards)
    if scene.only:
        return ""
    where = f"{scene.place + 1} of {number} unfinished" if number > 1 else f"{number} unfinished"
    return where + (f", {count(waiting, 'waits', 'wait')} for you" if waiting else "")


def _overview(paint: Paint, scene: Scene, room: int) -> list[Painted]:
    card = scene.card
    assert card is not None
    if scene.only:
        return pane(paint, card, scene.events, scene.now, room)
    if paint.width >= _WIDE_COLUMNS:
        return _side_by_side(paint, scene, room)
    max_rows = min(len(scene.cards), max(room // 3, 2))
    listed = _list(paint, scene, max_rows)
    rule = paint.dim(("-" if paint.ascii_only else "─") * paint.width)
    return [*listed, rule, *pane(paint, card, scene.events, scene.now, room - len(listed) - 1)]


def _side_by_side(paint: Paint, scene: Scene, room: int) -> list[Painted]:
    assert scene.card is not None
    left = min(paint.width * 2 // 5, 80)
    column = _list(_narrowed(paint, left), scene, room)
    pane_lines = pane(_narrowed(paint, paint.width - left - 3), scene.card, scene.events, scene.now, room)
    bar = paint.dim(" | " if paint.ascii_only else " │ ")
    rows: list[Painted] = []
    for row in range(room):
        first = paint.cut(column[row], left) if row < len(column) else Painted("")
        second = pane_lines[row] if row < len(pane_lines) else Painted("")
        rows.append(paint.join(first, " " * (left - paint.width_of(first)), bar, second))
    return rows


def _narrowed(paint: Paint, width: int) -> Paint:
    return Paint(width, paint.colour, ascii_only=paint.ascii_only, tty=True)


def _list(paint: Paint, scene: Scene, max_rows: int) -> list[Painted]:
    """At most so many sessions, with the chosen one among them."""
    first = min(max(scene.place - max_rows // 2, 0), max(len(scene.cards) - max_rows, 0))
    columns = [
        Column(""), Column("", weight=4, min_width=12), Column(""), Column("", "right"), Column("", "right"),
        Column("", weight=1, min_width=6, max_width=20, style="dim"),
    ]  # fmt: skip
    rows: list[list[str]] = []
    for place, card in enumerate(scene.cards[first : first + max_rows], start=first):
        session = card.session
        goal = " ".join(session.goal.split())
        sign = paint.yellow("!") if card.attention else Painted(" ")
        chosen = place == scene.place
        rows.append([
            paint.join(paint.bold(">") if chosen else Painted(" "), sign), paint.bold(goal) if chosen else goal,
            status_word(paint, session), percent(session.progress), list_time(session), session.project.name,
        ])  # fmt: skip
    keep = [index for index in range(6) if paint.width >= 60 or index not in (4, 5)]
    table = paint.table([[row[index] for index in keep] for row in rows], [columns[index] for index in keep])
    return [Painted(line) for line in table.split("\n")]


def _footer(paint: Paint, scene: Scene) -> tuple[list[Painted], int | None]:
    """The result of the last key, then the line being written or the keys; and the cursor's cell in the last line."""
    lines: list[Painted] = []
    if scene.message is not None:
        text = " ".join(f"{scene.message.text} {scene.message.hint}".split())
        wrapped = wrap(paint.plain(text), paint.width)
        if len(wrapped) > _MAX_MESSAGE_LINES:
            wrapped = [
                *wrapped[: _MAX_MESSAGE_LINES - 1],
                " ".join(wrapped[_MAX_MESSAGE_LINES - 1 : _MAX_MESSAGE_LINES + 1]),
            ]
        style = paint.red if scene.message.is_error else paint.green
        lines = [style(paint.cut(Painted(line), paint.width)) for line in wrapped]
    if scene.prompt is None:
        return [*lines, _keys(paint, scene)], None
    if scene.message is None:
        lines = [paint.dim(paint.cut(f"For {scene.prompt.session[:8]}: Enter sends, Esc cancels.", paint.width))]
    prompt = paint.bold(_WRITING[scene.prompt.verb])
    written, cursor = visible_part(paint, scene.prompt.line, paint.width - paint.width_of(prompt))
    return [*lines, paint.join(prompt, written)], paint.width_of(prompt) + cursor


def _keys(paint: Paint, scene: Scene) -> Painted:
    enter = "enter" if paint.ascii_only else "↵"
    arrows = "j/k" if paint.ascii_only else "↑↓"
    act = [("p", "pause"), ("r", "resume"), ("n", "note")]
    pages = {
        "list": [*act, (arrows, "switch"), (enter, "detail")],
        "detail": [*act, (arrows, "scroll"), ("esc", "back")],
        "help": [("esc", "back")],
    }
    keys = [*pages[scene.page], ("?", "help"), ("q", "quit")]
    while len(keys) > 2 and sum(len(key) + len(word) + 3 for key, word in keys) - 2 > paint.width:
        del keys[-3]  # it is in the help; `?` and `q` stay
    return paint.join(*(paint.join(paint.bold(key), " ", paint.dim(word)) for key, word in keys), sep="  ")


def _help(paint: Paint) -> list[Painted]:
    rows = [(plain if paint.ascii_only else drawn, meaning) for drawn, plain, meaning in _HELP]
    table = paint.pairs(rows)
    return [Painted(""), *(Painted(line) for line in table.split("\n"))]


def _empty_page(paint: Paint, scene: Scene) -> list[Painted]:
    lines: Sequence[Painted] = (
        [paint.plain("This session no longer exists.")]
        if scene.only
        else [
            paint.plain("No unfinished sessions."),
            Painted(""),
            paint.plain("Start one in the directory of a project:"),
            paint.join("  ", paint.bold("holdfast start GOAL")),
            Painted(""),
            paint.dim("It is shown here as soon as it begins."),
            paint.dim("Past ones: holdfast history --all-projects"),
        ]
    )
    return [Painted(""), *lines]


def _too_small(paint: Paint, size: os.terminal_size) -> list[Painted]:
    sentence = f"Too small: {size.columns}x{size.lines}. Needs at least {MIN_SIZE.columns}x{MIN_SIZE.lines}. q quits."
    lines = [paint.cut(Painted(line), size.columns) for line in wrap(sentence, max(size.columns, 2))]
    return lines[: size.lines]
