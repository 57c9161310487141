"""Where a torn document and a whole one were written one after the other without a break: the place between them.

The text of both reads as one document until its quotes or brackets no longer fit, which may be far behind that place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from holdfast.formats.recovery.mending_json import STEP, opening

_MOST_TRIED: Final = 32
_NEAR: Final = 1000
_DECODER: Final = json.JSONDecoder()
# Text that ends where an object begins with its first key.
_INTO_AN_OBJECT: Final = re.compile(r'\{\s{0,99}"\Z')


class Gluing:
    """Whole documents that follow a torn one without a break, looked for in one file.

    In sound JSON no text ends in front of a key, and no object stands where a key or a comma must. Where one seems
    to, it is the next document.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_TRIED

    def at(self, start: int, end: int) -> int | None:
        """Where one begins in what was taken for a single document; None when none does."""
        alike = opening(self._text, start)
        first = True
        for at in self._out_of_place(start, end):
            if self._left <= 0:
                return None
            if first or (alike is not None and self._text.startswith(alike, at)):
                self._left -= 1
                if _is_whole(self._text, at):
                    return at
            first = False
        return None

    def _out_of_place(self, start: int, end: int) -> Iterator[int]:
        """Where an object begins and none can."""
        level: list[str] = []
        for found in STEP.finditer(self._text, start, end):
            step = found[0]
            if step[0] == '"':
                begins = _INTO_AN_OBJECT.search(step)
                if begins is not None:
                    yield found.start() + begins.start()
            elif step in "]}":
                if level:
                    level.pop()
            else:
                before = self._before(found.start(), start)
                if level and step == "{" and (before not in ",:[" or (before == "," and level[-1] == "{")):
                    yield found.start()
                level.append(step)

    def _before(self, at: int, start: int) -> str:
        """The last character before a place that says something."""
        at -= 1
        while at > start and self._text[at] in " \t\r\n":
            at -= 1
        return self._text[at]


def _is_whole(text: str, at: int) -> bool:
    """Does a whole object stand here, and after it nothing or another one?"""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return bool(value) and text[end : end + _NEAR].lstrip("\0 \t\r\n")[:1] in ("", "{")
