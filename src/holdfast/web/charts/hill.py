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
_STEP: Final = 24  # from one dot of a stack to the next
_RADIUS: Final = 11
_UNDER: Final = 40  # for the text below the hill
_OVER: Final = 8
_CHAR: Final = 6.6  # approximate width of a letter
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


class Land(NamedTuple):
    """The measures of a drawing."""

    width: int
    left: int
    pitch: int
    rise: int
    columns: int  # of a stack, side by side
    named: bool
    prefix: str


WIDE: Final = Land(width=760, left=40, pitch=68, rise=150, columns=2, named=True, prefix="dot")
NARROW: Final = Land(width=360, left=20, pitch=32, rise=90, columns=1, named=False, prefix="small")


class Placed(NamedTuple):
    dot: Dot
    x: float
    y: float
    label: str
    label_x: float  # from the dot
    anchor: str


def height_at(position: float, rise: float) -> float:
    """The height of the hill there; hill.js computes the same."""
    return rise * (1 - math.cos(2 * math.pi * position / LAST)) / 2


def drawing(dots: Sequence[Dot], land: Land = WIDE, label: str = "Hill") -> Markup:
    stacks = _stacks(dots)
    base = _OVER + max([land.rise + 2 * _RADIUS, *(_tall(at, len(stack), land) for at, stack in stacks.items())])
    total = base + _UNDER
    # In the order of their numbers, which is the order of the keyboard.
    placed = sorted(_placed(stacks, land, base), key=lambda item: item.dot.number)
    if land.named:
        placed = _named(placed, land)
    stems = Markup("").join(
        _stem(at, [item for item in placed if item.dot.position == at], land, base) for at in stacks
    )
    return Markup(
        '<svg class="hill {kind}" viewBox="0 0 {width} {total}" role="group" aria-label="{label}" data-left="{left}" '
        'data-pitch="{pitch}" data-base="{base}" data-rise="{rise}" data-words="{words}">{land}{stems}{dots}</svg>'
    ).format(
        kind="wide" if land.named else "narrow", width=land.width, total=_short(total), label=label, left=land.left,
        pitch=land.pitch, base=_short(base), rise=land.rise, words="|".join(WORDS), land=_hillside(land, base),
        stems=stems,
        dots=Markup("").join(_drawn(item, land, alone=len(stacks[item.dot.position]) == 1) for item in placed),
    )  # fmt: skip


# ── where things stand ───────────────────────────────────────────────────────────────────────────────────


def _stacks(dots: Sequence[Dot]) -> dict[int, list[Dot]]:
    stacks: dict[int, list[Dot]] = defaultdict(list)
    for dot in dots:
        stacks[dot.position].append(dot)
    return stacks


def _columns(count: int, land: Land) -> int:
    return min(land.columns, -(-count // 4))


def _tall(position: int, count: int, land: Land) -> float:
    """How high the stack at a position reaches."""
    rows = -(-count // _columns(count, land))
    return height_at(position, land.rise) + (rows - 1) * _STEP + _RADIUS


def _placed(stacks: dict[int, list[Dot]], land: Land, base: float) -> Iterator[Placed]:
    for position, stack in stacks.items():
        columns = _columns(len(stack), land)
        for index, dot in enumerate(stack):
            row, column = divmod(index, columns)
            x = land.left + position * land.pitch + (column - (columns - 1) / 2) * _STEP
            y = base - height_at(position, land.rise) - row * _STEP
            yield Placed(dot, x, y, "", 0, "start")


_Box = tuple[float, float, float, float]


def _named(placed: list[Placed], land: Land) -> list[Placed]:
    """The dots with as much of their names as fits without covering a dot or another name."""
    if len(placed) > _MAX_NAMED:
        return placed
    taken: list[_Box] = [(item.x - _RADIUS, item.y - _RADIUS, item.x + _RADIUS, item.y + _RADIUS) for item in placed]
    labelled_dots: list[Placed] = []
    for item in placed:
        labelled, box = _label(item, taken, land)
        labelled_dots.append(labelled)
        if box is not None:
            taken.append(box)
    return labelled_dots


def _label(dot_at: Placed, taken: list[_Box], land: Land) -> tuple[Placed, _Box | None]:
    name = one_line(dot_at.dot.name)
    for longest in range(min(len(name), _MAX_LABEL), 0, -1):
        if longest < min(len(name), _MIN_LABEL):
            break
        text = name if longest == len(name) else name[: longest - 1].rstrip() + "…"
        wide = _wide(text)
        gap = _RADIUS + 5
        # Outwards first: the slope leaves more room there.
        for side in (-1, 1) if dot_at.dot.position <= LAST // 2 else (1, -1):
            start = dot_at.x + gap if side > 0 else dot_at.x - gap - wide
            box = (start, dot_at.y - 8, start + wide, dot_at.y + 8)
            if start >= 2 and box[2] <= land.width - 2 and not any(_meet(box, other) for other in taken):
                return dot_at._replace(label=text, label_x=side * gap, anchor="start" if side > 0 else "end"), box
    return dot_at, None


def _wide(text: str) -> float:
    return sum(_CHAR * (2 if unicodedata.east_asian_width(char) in "WF" else 1) for char in text)


def _meet(box: _Box, other: _Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


# ── how they look ────────────────────────────────────────────────────────────────────────────────────────


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _hillside(land: Land, base: float) -> Markup:
    points = " ".join(
        f"{_short(land.left + at * land.pitch / 4)},{_short(base - height_at(at / 4, land.rise))}"
        for at in range(4 * LAST + 1)
    )
    middle, right = land.left + LAST / 2 * land.pitch, land.left + LAST * land.pitch
    ticks = Markup("").join(
        Markup('<line class="tick" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
            land.left + at * land.pitch, _short(base), _short(base + 4)
        )
        for at in range(LAST + 1)
    )
    return Markup(
        '<polygon class="earth" points="{left},{base} {points} {right},{base}"/><polyline class="slope" '
        'points="{points}"/><line class="crest" x1="{middle}" x2="{middle}" y1="{top}" y2="{base}"/>{ticks}'
        '<text x="{up}" y="{under}" text-anchor="middle">Figuring out</text>'
        '<text x="{down}" y="{under}" text-anchor="middle">Making it happen</text>'
    ).format(
        left=land.left, right=_short(right), base=_short(base), points=points, middle=_short(middle),
        top=_short(base - land.rise), ticks=ticks, up=_short((land.left + middle) / 2),
        down=_short((right + middle) / 2), under=_short(base + 24),
    )  # fmt: skip


def _stem(position: int, stack: Sequence[Placed], land: Land, base: float) -> Markup:
    """A line from the hill to a stack that partly floats above it."""
    if len(stack) < 2:
        return Markup("")
    return Markup('<line class="stem" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
        land.left + position * land.pitch, _short(base - height_at(position, land.rise)),
        _short(min(placed.y for placed in stack)),
    )  # fmt: skip


def _drawn(placed: Placed, land: Land, *, alone: bool) -> Markup:
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
        done=" done" if dot.position == LAST else "", prefix=land.prefix, key=dot.key, x=_short(placed.x),
        y=_short(placed.y), name=one_line(dot.name), last=LAST, at=dot.position, words=WORDS[dot.position],
        scope=quote(dot.name, safe="", errors="replace"), session=dot.session, radius=_RADIUS, number=dot.number,
        label=label, reach=20 if alone else _STEP // 2,
    )  # fmt: skip
