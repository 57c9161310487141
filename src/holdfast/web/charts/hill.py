"""A hill: up one side people figure things out, down the other they make them happen. Scopes are dots on it.

Dots at one position are stacked above it. Each has a number, which the list next to the drawing repeats; its name is
written next to it if that covers nothing else.
"""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from holdfast.core.wording import one_line

LAST: Final = 10
WORDS: Final = ("not started", *["figuring out"] * 4, "at the crest", *["making it happen"] * 4, "done")
_STACK_STEP: Final = 24  # from one dot of a stack to the next
_RADIUS: Final = 11
_TEXT_HEIGHT: Final = 40  # for the text below the hill
_TOP_MARGIN: Final = 8
_LETTER_WIDTH: Final = 6.6  # approximate width of a letter
_MAX_LABEL: Final = 28  # letters of a name in the drawing
_MIN_LABEL: Final = 4
_MAX_NAMED: Final = 16  # with more dots than this, names would only clutter


class Dot(NamedTuple):
    """A scope. `key` names its element; `name` goes back to the server unchanged."""

    key: str
    name: str
    position: int
    session: str
    number: int


class HillSize(NamedTuple):
    """The measures of a drawing."""

    width: int
    left: int
    pitch: int
    rise: int
    columns: int  # of a stack, side by side
    named: bool
    prefix: str


WIDE: Final = HillSize(width=760, left=40, pitch=68, rise=150, columns=2, named=True, prefix="dot")
NARROW: Final = HillSize(width=360, left=20, pitch=32, rise=90, columns=1, named=False, prefix="small")


class PlacedDot(NamedTuple):
    dot: Dot
    x: float
    y: float
    label: str
    label_x: float  # from the dot
    anchor: str


def height_at(position: float, rise: float) -> float:
    """The height of the hill there; hill.js computes the same."""
    return rise * (1 - math.cos(2 * math.pi * position / LAST)) / 2


def drawing(dots: Sequence[Dot], size: HillSize = WIDE, label: str = "Hill") -> Markup:
    stacks = _stacks(dots)
    base = _TOP_MARGIN + max(
        [size.rise + 2 * _RADIUS, *(_stack_height(position, len(stack), size) for position, stack in stacks.items())]
    )
    total = base + _TEXT_HEIGHT
    # In the order of their numbers, which is the order of the keyboard.
    placed = sorted(_placed(stacks, size, base), key=lambda item: item.dot.number)
    if size.named:
        placed = _with_labels(placed, size)
    stems = Markup("").join(
        _stem(position, [item for item in placed if item.dot.position == position], size, base) for position in stacks
    )
    return Markup(
        '<svg class="hill {kind}" viewBox="0 0 {width} {total}" role="group" aria-label="{label}" data-left="{left}" '
        'data-pitch="{pitch}" data-base="{base}" data-rise="{rise}" data-words="{words}">{land}{stems}{dots}</svg>'
    ).format(
        kind="wide" if size.named else "narrow", width=size.width, total=_number(total), label=label, left=size.left,
        pitch=size.pitch, base=_number(base), rise=size.rise, words="|".join(WORDS), land=_hillside(size, base),
        stems=stems,
        dots=Markup("").join(_draw_dot(item, size, alone=len(stacks[item.dot.position]) == 1) for item in placed),
    )  # fmt: skip


# ── positions of the dots ─────────────────────────────────────────────────────────────────────────────────


def _stacks(dots: Sequence[Dot]) -> dict[int, list[Dot]]:
    stacks: dict[int, list[Dot]] = defaultdict(list)
    for dot in dots:
        stacks[dot.position].append(dot)
    return stacks


def _columns(count: int, size: HillSize) -> int:
    return min(size.columns, -(-count // 4))


def _stack_height(position: int, count: int, size: HillSize) -> float:
    """How high the stack at a position reaches."""
    rows = -(-count // _columns(count, size))
    return height_at(position, size.rise) + (rows - 1) * _STACK_STEP + _RADIUS


def _placed(stacks: dict[int, list[Dot]], size: HillSize, base: float) -> Iterator[PlacedDot]:
    for position, stack in stacks.items():
        columns = _columns(len(stack), size)
        for index, dot in enumerate(stack):
            row, column = divmod(index, columns)
            x = size.left + position * size.pitch + (column - (columns - 1) / 2) * _STACK_STEP
            y = base - height_at(position, size.rise) - row * _STACK_STEP
            yield PlacedDot(dot, x, y, "", 0, "start")


_Box = tuple[float, float, float, float]


def _with_labels(placed: list[PlacedDot], size: HillSize) -> list[PlacedDot]:
    """The dots with as much of their names as fits without covering a dot or another name."""
    if len(placed) > _MAX_NAMED:
        return placed
    taken: list[_Box] = [(item.x - _RADIUS, item.y - _RADIUS, item.x + _RADIUS, item.y + _RADIUS) for item in placed]
    labelled_dots: list[PlacedDot] = []
    for item in placed:
        labelled, box = _label(item, taken, size)
        labelled_dots.append(labelled)
        if box is not None:
            taken.append(box)
    return labelled_dots


def _label(dot_at: PlacedDot, taken: list[_Box], size: HillSize) -> tuple[PlacedDot, _Box | None]:
    name = one_line(dot_at.dot.name)
    for length in range(min(len(name), _MAX_LABEL), 0, -1):
        if length < min(len(name), _MIN_LABEL):
            break
        text = name if length == len(name) else name[: length - 1].rstrip() + "…"
        width = _text_width(text)
        gap = _RADIUS + 5
        # Outwards first: the slope leaves more room there.
        for side in (-1, 1) if dot_at.dot.position <= LAST // 2 else (1, -1):
            start = dot_at.x + gap if side > 0 else dot_at.x - gap - width
            box = (start, dot_at.y - 8, start + width, dot_at.y + 8)
            if start >= 2 and box[2] <= size.width - 2 and not any(_overlap(box, other) for other in taken):
                return dot_at._replace(label=text, label_x=side * gap, anchor="start" if side > 0 else "end"), box
    return dot_at, None


def _text_width(text: str) -> float:
    return sum(_LETTER_WIDTH * (2 if unicodedata.east_asian_width(char) in "WF" else 1) for char in text)


def _overlap(box: _Box, other: _Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


# ── how they look ────────────────────────────────────────────────────────────────────────────────────────


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _hillside(size: HillSize, base: float) -> Markup:
    points = " ".join(
        f"{_number(size.left + step * size.pitch / 4)},{_number(base - height_at(step / 4, size.rise))}"
        for step in range(4 * LAST + 1)
    )
    middle, right = size.left + LAST / 2 * size.pitch, size.left + LAST * size.pitch
    ticks = Markup("").join(
        Markup('<line class="tick" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
            size.left + step * size.pitch, _number(base), _number(base + 4)
        )
        for step in range(LAST + 1)
    )
    return Markup(
        '<polygon class="earth" points="{left},{base} {points} {right},{base}"/><polyline class="slope" '
        'points="{points}"/><line class="crest" x1="{middle}" x2="{middle}" y1="{top}" y2="{base}"/>{ticks}'
        '<text x="{up}" y="{under}" text-anchor="middle">Figuring out</text>'
        '<text x="{down}" y="{under}" text-anchor="middle">Making it happen</text>'
    ).format(
        left=size.left, right=_number(right), base=_number(base), points=points, middle=_number(middle),
        top=_number(base - size.rise), ticks=ticks, up=_number((size.left + middle) / 2),
        down=_number((right + middle) / 2), under=_number(base + 24),
    )  # fmt: skip


def _stem(position: int, stack: Sequence[PlacedDot], size: HillSize, base: float) -> Markup:
    """A line from the hill to a stack that partly floats above it."""
    if len(stack) < 2:
        return Markup("")
    return Markup('<line class="stem" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
        size.left + position * size.pitch, _number(base - height_at(position, size.rise)),
        _number(min(placed.y for placed in stack)),
    )  # fmt: skip


def _draw_dot(placed: PlacedDot, size: HillSize, *, alone: bool) -> Markup:
    """A single dot has a large target; in a stack, each keeps to its own place."""
    dot = placed.dot
    label = Markup("")
    if placed.label:
        label = Markup('<text class="name" x="{}" y="4" text-anchor="{}">{}</text>').format(
            placed.label_x, placed.anchor, placed.label
        )
    return Markup(
        '<g class="dot{done}" id="{prefix}-{key}" transform="translate({x} {y})" role="slider" tabindex="0" '
        'aria-label="{name}" aria-valuemin="0" aria-valuemax="{last}" aria-valuenow="{at}" '
        'aria-valuetext="{at} of {last}, {words}" data-scope="{scope}" data-session="{session}">'
        '<title>{name}: {words}</title><circle class="reach" r="{reach}"/><circle class="face" r="{radius}"/>'
        '<text class="figure" y="4" text-anchor="middle">{number}</text>{label}</g>'
    ).format(
        done=" done" if dot.position == LAST else "", prefix=size.prefix, key=dot.key, x=_number(placed.x),
        y=_number(placed.y), name=one_line(dot.name), last=LAST, at=dot.position, words=WORDS[dot.position],
        scope=quote(dot.name, safe="", errors="replace"), session=dot.session, radius=_RADIUS, number=dot.number,
        label=label, reach=20 if alone else _STACK_STEP // 2,
    )  # fmt: skip
