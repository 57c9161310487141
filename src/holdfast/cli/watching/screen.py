"""Lines on a screen: only those that changed are written, so nothing flickers and little is sent. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from holdfast.cli.paint import Paint, Painted


class Screen:
    """What stands on the screen, as far as we know."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._size = os.terminal_size((0, 0))
        self._lines: list[Painted] = []
        self._cursor: tuple[int, int] | None = None

    def forget(self) -> None:
        """Somebody else wrote on it: the next drawing writes every line."""
        self._lines, self._size = [], os.terminal_size((0, 0))

    def draw(self, lines: Sequence[Painted], cursor: tuple[int, int] | None, size: os.terminal_size) -> str:
        """What makes these lines stand there, and the cursor in its row and cell (or nowhere); empty: they do."""
        out: list[str] = []
        if size != self._size:
            # A terminal that was resized has moved its lines about.
            out.append("\x1b[0m\x1b[2J")
            self._size, self._lines = size, [Painted("")] * size.lines
        wanted = [self._paint.cut(line, size.columns) for line in lines[: size.lines]]
        wanted += [Painted("")] * (size.lines - len(wanted))
        for row, (line, there) in enumerate(zip(wanted, self._lines, strict=True), start=1):
            if line != there:
                # A full line leaves nothing behind itself, and erasing there would take its last character.
                rest = "" if self._paint.width_of(line) >= size.columns else "\x1b[K"
                out.append(f"\x1b[{row};1H{line}\x1b[0m{rest}")
        self._lines = wanted
        if out or cursor != self._cursor:
            out.append("\x1b[?25l" if cursor is None else f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h")
        self._cursor = cursor
        # While lines are written the cursor would be seen to jump.
        return ("\x1b[?25l" if len(out) > 1 else "") + "".join(out)
