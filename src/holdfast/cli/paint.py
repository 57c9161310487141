"""Render tables, bars and styles; plain text where colour is off.

Everything `Paint` returns is `Painted`: safe to print as it is. Every plain `str` that it gets is made safe first,
so no stored text reaches the terminal as a control sequence, even if a caller forgets.
"""

from __future__ import annotations

import os

from holdfast.cli.cells import cut, head, safe, width_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TextIO, TypeAlias

    Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan"]

__all__ = ["Column", "Paint", "Painted", "cut", "paint_for", "safe", "width_of", "wrap"]

_CODES: dict[str, tuple[str, str]] = {
    "bold": ("\x1b[1m", "\x1b[22m"),
    "dim": ("\x1b[2m", "\x1b[22m"),
    "red": ("\x1b[31m", "\x1b[39m"),
    "green": ("\x1b[32m", "\x1b[39m"),
    "yellow": ("\x1b[33m", "\x1b[39m"),
    "blue": ("\x1b[34m", "\x1b[39m"),
    "magenta": ("\x1b[35m", "\x1b[39m"),
    "cyan": ("\x1b[36m", "\x1b[39m"),
}
_RESET = "\x1b[0m"
_LEVELS: dict[str, Style] = {"normal": "green", "shown": "cyan", "warning": "yellow", "compress": "red"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GAP = 2


class Painted(str):
    """Text that is safe to print and may carry our own colours.

    Added to a `str` it becomes plain again and its colours get spelled out when painted: a mistake is ugly,
    never dangerous. `Paint.join` puts parts together.
    """

    __slots__ = ()


class Column:
    """A column of a table. One with a `weight` is cut when the table is too wide, down to `min_width`."""

    __slots__ = ("align", "max_width", "min_width", "style", "title", "weight")

    def __init__(
        self,
        title: str,
        align: Literal["left", "right"] = "left",
        *,
        weight: int = 0,
        min_width: int = 4,
        max_width: int = 0,
        style: Style = "",
    ) -> None:
        self.title = title
        self.align = align
        self.weight = weight
        self.min_width = min_width
        self.max_width = max_width
        self.style = style


class Paint:
    """The look of one output stream. `tty` says whether it is a terminal: only there is anything drawn."""

    __slots__ = ("ascii_only", "colour", "tty", "width")

    def __init__(self, width: int = 80, colour: bool = False, *, ascii_only: bool = False, tty: bool = False) -> None:
        self.width = width
        self.colour = colour
        self.ascii_only = ascii_only
        self.tty = tty

    # Words

    def plain(self, text: str, *, lines: bool = False) -> Painted:
        """The text as this stream can show it: safe, and in ASCII if it can do no better."""
        if isinstance(text, Painted):
            return text
        text = safe(text, lines=lines)
        if self.ascii_only and not text.isascii():
            text = text.replace("…", "...").encode("ascii", "backslashreplace").decode("ascii")
        return Painted(text)

    def join(self, *parts: str, sep: str = "") -> Painted:
        """Painted and plain parts as one."""
        return Painted(self.plain(sep).join([self.plain(part) for part in parts]))

    def style(self, text: str, name: Style) -> Painted:
        text = self.plain(text)
        if not (self.colour and name and text):
            return text
        on, off = _CODES[name]
        # Where a nested style ends, this one starts again.
        return Painted(on + text.replace(off, off + on) + off)

    def bold(self, text: str) -> Painted:
        return self.style(text, "bold")

    def dim(self, text: str) -> Painted:
        return self.style(text, "dim")

    def red(self, text: str) -> Painted:
        return self.style(text, "red")

    def green(self, text: str) -> Painted:
        return self.style(text, "green")

    def yellow(self, text: str) -> Painted:
        return self.style(text, "yellow")

    def blue(self, text: str) -> Painted:
        return self.style(text, "blue")

    def magenta(self, text: str) -> Painted:
        return self.style(text, "magenta")

    def cyan(self, text: str) -> Painted:
        return self.style(text, "cyan")

    def width_of(self, text: str) -> int:
        """Cells the text takes on this stream, colours not counted."""
        return sum(width_of(words) for _, words in _spans(self.plain(text)))

    def cut(self, text: str, cells: int) -> Painted:
        """As `cells.cut`, with colours kept and closed."""
        text = self.plain(text)
        ellipsis = "..." if self.ascii_only else "…"
        if "\x1b" not in text:
            return Painted(cut(text, cells, ellipsis))
        if self.width_of(text) <= cells:
            return text
        ellipsis = head(ellipsis, cells)
        room = cells - len(ellipsis)
        parts: list[str] = []
        for code, words in _spans(text):
            fitting = head(words, room)
            room -= width_of(fitting)
            parts += [code, fitting]
            if fitting != words:
                break
        return Painted("".join(parts) + ellipsis + _RESET)

    # Shapes

    def bar(self, fraction: float, cells: int, level: str = "") -> Painted:
        """A bar of exactly `cells`. The smallest progress shows, and only what is complete looks complete."""
        share = min(fraction, 1.0) if fraction > 0 else 0.0  # NaN is not more than 0
        if self.ascii_only:
            full = max(int(share * cells), 1 if share and cells > 0 else 0)
            return Painted("#" * full + "." * (cells - full))
        full, part = divmod(max(int(share * cells * 8), 1 if share and cells > 0 else 0), 8)
        filled = _EIGHTHS[8] * full + (_EIGHTHS[part] if part else "")
        return self.join(self.style(filled, _LEVELS.get(level, "")), self.dim("·" * (cells - len(filled))))

    def heading(self, text: str, remark: str = "") -> Painted:
        """A title, followed by a dim remark."""
        return self.cut(self.join(self.bold(text), "  " if remark else "", self.dim(remark)), self.width)

    def pairs(self, items: Sequence[tuple[str, str]], *, indent: int = 0) -> Painted:
        """Labels in one column, values in the next; a long value continues on the next lines."""
        label_width = min(max((self.width_of(label) for label, _ in items), default=0), self.width // 2)
        start = indent + label_width + _GAP
        lines: list[str] = []
        for label, value in items:
            name = self.cut(label, label_width)
            first = " " * indent + self.dim(name) + " " * (label_width - self.width_of(name) + _GAP)
            if isinstance(value, Painted):
                rows: list[str] = [self.cut(value, self.width - start)]
            else:
                rows = wrap(self.plain(value, lines=True), self.width - start)
            lines.append((first + rows[0]).rstrip() if rows else first.rstrip())
            lines += [(" " * start + row).rstrip() for row in rows[1:]]
        return Painted("\n".join(lines))

    def table(self, rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> Painted:
        """Rows under thin-lined titles, no line wider than the terminal. Without titles there is no head."""
        cells = [[self.plain(cell if isinstance(cell, Painted) else cell.strip()) for cell in row] for row in rows]
        titles = [self.plain(column.title) for column in columns]
        widths = self._fit([[self.width_of(cell) for cell in row] for row in [titles, *cells]], columns)
        lines = []
        if any(titles):
            lines.append(self._row([self.bold(title) for title in titles], widths, columns))
            rule = "-" if self.ascii_only else "─"
            lines.append(self._row([self.dim(rule * width) for width in widths], widths, columns))
        for row in cells:
            styled = [self.style(cell, column.style) for cell, column in zip(row, columns, strict=True)]
            lines.append(self._row(styled, widths, columns))
        return Painted("\n".join(lines))

    def _row(self, cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
        parts = []
        for cell, width, column in zip(cells, widths, columns, strict=True):
            fitted = self.cut(cell, width)
            blank = " " * (width - self.width_of(fitted))
            parts.append(blank + fitted if column.align == "right" else fitted + blank)
        return self.cut(Painted((" " * _GAP).join(parts).rstrip()), self.width)

    def _fit(self, measured: Sequence[Sequence[int]], columns: Sequence[Column]) -> list[int]:
        """Column widths whose sum fits: columns with a weight are cut first, then, if necessary, all."""
        room = self.width - _GAP * (len(columns) - 1)
        widths = []
        for index, column in enumerate(columns):
            natural = max(row[index] for row in measured)
            widths.append(min(natural, column.max_width or natural, max(room, 1)))
        flexible = [(column.weight, column.min_width) for column in columns]
        for shares in (flexible, [(1, 4)] * len(columns), [(1, 1)] * len(columns)):
            while sum(widths) > room:
                # Cut the column that is widest for its weight.
                cuttable = [
                    index for index, (weight, min_width) in enumerate(shares) if weight and widths[index] > min_width
                ]
                if not cuttable:
                    break
                widths[max(cuttable, key=lambda n: widths[n] / shares[n][0])] -= 1
        return widths


def paint_for(stream: TextIO | None, *, no_color: bool = False, environ: Mapping[str, str]) -> Paint:
    """The paint of a stream, from what it is and what the environment asks for.

    First `--no-color` and `NO_COLOR`, then `FORCE_COLOR`, then whether it is a terminal.
    """
    tty = _is_tty(stream)
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    return Paint(
        _width(stream, environ),
        _colour(environ, tty=tty) and not no_color,
        ascii_only=not encoding.startswith("utf"),
        tty=tty,
    )


def _colour(environ: Mapping[str, str], *, tty: bool) -> bool:
    force = environ.get("FORCE_COLOR")
    if environ.get("NO_COLOR") or force == "0":
        return False
    if force or environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return tty and environ.get("TERM") != "dumb" and environ.get("CLICOLOR") != "0"


def _is_tty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    columns = 0
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
    except (OSError, ValueError):  # no terminal, no file, or closed
        columns = 0
    if columns <= 0:
        text = environ.get("COLUMNS", "")
        columns = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return min(max(columns or 80, 40), 200)


def _spans(text: str) -> list[tuple[str, str]]:
    """Painted text as pairs of colour code and the words after it."""
    first, *others = text.split("\x1b[")
    spans = [("", first)]
    for other in others:
        code, _, words = other.partition("m")
        spans.append((f"\x1b[{code}m", words))
    return spans
