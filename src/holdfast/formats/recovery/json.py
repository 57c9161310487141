"""A JSON parser for damaged text: it keeps what is complete and closes what is open.

It has its own stack, so that no depth can exhaust the program's, and it goes on where that is safe: after a missing
comma or quote, comments, single quotes, a line break within text. It notes every repair. Positions are characters of
the text; `recover` turns them into bytes and lines.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.formats.base import Place
from holdfast.formats.entries import is_same
from holdfast.formats.recovery.json_scalars import QUOTED, NotJson, Remark, Scalars, TextEnds
from holdfast.formats.text import nodes

# Where parsing can resume after something unreadable.
_NEXT: Final = re.compile(r'[,\]}{\["\n]')
# Unterminated text goes to the end, or every quote in it would be tried again.
STEP: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
# Not where entries begin at the margin, as documents do.
_OPENING: Final = re.compile(r'\{(?!\s*\n")\s{0,99}"[^"\\\n]{1,100}"')
_TO_THE_QUOTE: Final = re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_MAX_SHOWN_LENGTH: Final = 60

Container = dict[str, Json] | list[Json]


class RepairedJson(NamedTuple):
    """`end` is where the value ends and something else may begin; `whole` when it was closed there."""

    value: Json
    end: int
    whole: bool
    remarks: list[Remark]
    # The first character that is lost, if any is.
    lost_from: int | None
    # Something complete was read.
    has_content: bool


def repair_json(text: str, start: int, end: int, previous_opening: str | None = None) -> RepairedJson:
    """The value that begins at `start`, as far as it is complete.

    `previous_opening` is the `document_opening` of the document before it, if any: the next will begin like it.
    """
    repair = _JsonRepair(text, end)
    repair.after_another = previous_opening is not None
    return repair.document(start, previous_opening)


def document_opening(text: str, start: int) -> str | None:
    """The first characters of a document, by which the start of another one is recognised."""
    match = _OPENING.match(text, start)
    return match[0] if match else None


def add_rest(text: str, start: int, end: int, root: Container) -> RepairedJson:
    """Add to `root` the entries of its level from a text that begins somewhere within its document.

    Nested parts are left out, since it is unknown what they belonged to. Whether the text begins within quotes is
    unknown too, so both are tried.
    """
    attempts = [_tail(text, start, end, root, quoted=quoted) for quoted in (False, True)]
    return max(attempts, key=lambda attempt: (attempt.whole, attempt.has_content, -len(attempt.remarks)))


def _tail(text: str, start: int, end: int, root: Container, *, quoted: bool) -> RepairedJson:
    empty = RepairedJson(root, end, whole=False, remarks=[], lost_from=start, has_content=False)
    position = start
    if quoted:
        closing = _TO_THE_QUOTE.match(text, start, end)
        if closing is None:
            return empty
        position = closing.end()
    level: list[str] = []
    closers: list[tuple[str, int]] = []
    for match in STEP.finditer(text, position, end):
        step = match[0]
        if step in "[{":
            level.append("]" if step == "[" else "}")
        elif step in "]}":
            if not level:
                closers.append((step, match.end()))
            elif level.pop() != step:
                return empty
    if not closers or level or closers[-1][0] != ("}" if isinstance(root, dict) else "]"):
        return empty
    inner = closers[-2][1] if len(closers) > 1 else None
    return _JsonRepair(text, end).entries(root.copy(), position if inner is None else inner, midway=inner is None)


class _Frame:
    """A list or object being read, and the key whose value comes next."""

    __slots__ = ("container", "key", "key_start", "opened")

    def __init__(self, container: Container, opened: int) -> None:
        self.container = container
        self.opened = opened
        self.key: str | None = None
        self.key_start = opened  # the position of that key


class _JsonRepair(Scalars):
    def __init__(self, text: str, end: int) -> None:
        super().__init__(text, end)
        self.stack: list[_Frame] = []
        self.opening: str | None = None
        self.after_another = False
        self.parts_left = nodes.MAX_PARTS
        self.has_content = False
        # The last complete entry: its object, its start and its end.
        self.last_frame: _Frame | None = None
        self.last_began = self.complete_until = 0
        self.searched_until = 0  # for the next document

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def document(self, start: int, previous_opening: str | None) -> RepairedJson:
        self.complete_until = self.last_began = position = self.space(start)
        self.opening = previous_opening or document_opening(self.text, position)
        try:
            value, end = self._value(position)
            if self.stack:
                value, end = self.stack[0].container, self._read_entries(end)
            else:
                self.has_content = True
        except NotJson:
            self.lose(position)
            return self._result(None, position, whole=False)
        except TextEnds as cut:
            self.lose(cut.lost)
            return self._result(self._close_all(), cut.at, whole=False)
        return self._result(value, end, whole=True)

    def entries(self, root: Container, start: int, *, midway: bool) -> RepairedJson:
        """Continue within a root that began elsewhere, `midway` through an unknown entry."""
        self.stack = [_Frame(root, start)]
        self.complete_until = self.last_began = start
        before = len(root)
        is_whole = False
        try:
            end = self._read_entries(self._skip(start, start) if midway else start)
            is_whole = True
        except TextEnds as cut:
            self.lose(cut.lost)
            end = cut.at
        self.has_content = False
        return self._result(self._close_all(), end, whole=is_whole)._replace(has_content=len(root) > before)

    def _result(self, value: Json, end: int, *, whole: bool) -> RepairedJson:
        if self.left_out:
            self.remarks.append(
                Remark((), self.complete_until, f"and {self.left_out:,} more such places", lost=False)
            )
        return RepairedJson(value, end, whole, self.remarks, self.lost_from, self.has_content)

    def _close_all(self) -> Json:
        """The root with everything closed that is still open; open and empty parts are dropped."""
        while len(self.stack) > 1:
            frame = self.stack.pop()
            if frame.container:
                self._put(self.stack[-1], frame.container)
        return self.stack[0].container if self.stack else None

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────

    def _read_entries(self, position: int) -> int:
        """Read entries until the root is closed; gives the position after it."""
        while True:
            position = self.space(position)
            if position >= self.end:
                raise TextEnds(self.end, self.end)
            frame = self.stack[-1]
            char = self.text[position]
            if char == ",":
                position = self._comma(position, frame)
            elif char in "]}":
                position += 1
                if self._close(char, position - 1):
                    return position
            elif isinstance(frame.container, dict):
                position = self._pair(position, frame)
            else:
                position = self._entry(position, frame, position)

    def _comma(self, position: int, frame: _Frame) -> int:
        following = self.space(position + 1)
        if following < self.end and self.text[following] in "]},":
            self.note(position, "an extra comma")
        frame.key = None
        return position + 1

    def _close(self, char: str, position: int) -> bool:
        """Close what this bracket closes; True if that was the root."""
        kind = dict if char == "}" else list
        if not any(isinstance(frame.container, kind) for frame in self.stack):
            self.note(position, f"an unmatched {char}")
            return False
        while not isinstance(self.stack[-1].container, kind):
            frame = self.stack.pop()
            self.note(position, "a closing bracket is missing")
            self._put(self.stack[-1], frame.container)
        if len(self.stack) == 1:
            self.has_content = True
            return True
        frame = self.stack.pop()
        self._put(self.stack[-1], frame.container)
        self.last_frame, self.last_began, self.complete_until = self.stack[-1], frame.opened, position + 1
        return False

    def _pair(self, began: int, frame: _Frame) -> int:
        key, position = self.key(began)
        if key is None:
            return self._skip(began, position)
        following = self.space(position)
        if following >= self.end:
            raise TextEnds(self.end, began)
        if self.text[following] != ":":
            return self._skip(began, following)
        self._expect_comma(began, frame)
        frame.key, frame.key_start = key, began
        at = self.space(following + 1)
        if at < self.end and self.text[at] in ",}":
            self.note(began, "a value is missing", lost=True)
            frame.key = None
            return at
        return self._entry(at, frame, began)

    def _entry(self, position: int, frame: _Frame, began: int) -> int:
        if isinstance(frame.container, list):
            self._expect_comma(position, frame)
        try:
            value, end = self._value(position)
        except NotJson as unreadable:
            return self._skip(began, max(unreadable.at, position), unreadable.why)
        except TextEnds as cut:
            raise TextEnds(cut.at, min(cut.lost, began)) from None
        if self.stack[-1] is frame:
            self._put(frame, value)
            self.last_frame, self.last_began, self.complete_until = frame, began, end
        return end

    def _expect_comma(self, position: int, frame: _Frame) -> None:
        if frame.container and not self.text[self.complete_until : position].strip(" \t\r\n"):
            self.note(position, "a comma is missing")

    def _value(self, position: int) -> tuple[Json, int]:
        """A value and its end; a list or object is only opened here, the loop reads its entries."""
        if position >= self.end:
            raise TextEnds(self.end, self.end)
        self.parts_left -= 1
        if self.parts_left < 0:
            self.note(position, f"it has more than {nodes.MAX_PARTS:,} parts", lost=True)
            raise TextEnds(self.end, position)
        char = self.text[position]
        if char not in "{[":
            return self.scalar(position, within=bool(self.stack))
        if self.stack and self.next_document(position):
            raise TextEnds(position, position)
        if len(self.stack) >= nodes.MAX_LEVELS:
            self.note(position, "it is nested too deeply", lost=True)
            return None, self._skip_container(position)
        container: Container = {} if char == "{" else []
        self.stack.append(_Frame(container, position))
        return container, position + 1

    def _skip_container(self, position: int) -> int:
        """The position after a list or object, whatever is in it."""
        depth = 0
        for match in STEP.finditer(self.text, position, self.end):
            depth += (match[0] in "[{") - (match[0] in "]}")
            if not depth:
                return match.end()
        raise TextEnds(self.end, position)

    # ── resuming ─────────────────────────────────────────────────────────────────────────────────────────

    def next_document(self, position: int) -> bool:
        """Whether another document starts here as the first did. Before the second: only at the start of a line."""
        if self.opening is None or not self.stack:
            return False
        margin = self.after_another or self.text[position - 1 : position] == "\n"
        return margin and self.text.startswith(self.opening, position)

    def _skip(self, began: int, noticed: int, why: str = "this is not JSON") -> int:
        """Skip something unreadable up to where the next entry can begin; never into another document."""
        self._stop_at_another(noticed)
        self.note(began, why, lost=True)
        frame = self.stack[-1]
        frame.key = None
        at = began
        while True:
            next_sign = _NEXT.search(self.text, at, self.end)
            if next_sign is None or self.patience < 0:
                raise TextEnds(self.end, began)
            at = next_sign.start()
            match next_sign[0]:
                case '"':
                    quoted = QUOTED.match(self.text, at, self.end)
                    if quoted is None or "\n" in quoted[1]:
                        self.patience -= (self.end if quoted is None else quoted.end()) - at
                        at += 1
                    elif at > began and isinstance(frame.container, dict) and self.followed(quoted.end(), "key"):
                        return at
                    else:
                        at = quoted.end()
                case "\n":
                    at += 1
                    if self.next_document(at):
                        raise TextEnds(at, began)
                case "{" | "[":
                    if self.next_document(at):
                        raise TextEnds(at, began)
                    at = self._skip_container(at)
                case _:
                    return at

    def _stop_at_another(self, noticed: int) -> None:
        """Stop where the next document is glued to this one in the middle of a line: the text between reads as part
        of this one until its quotes no longer match.
        """
        if self.opening is None:
            return
        first = max(self.complete_until - len(self.opening), self.stack[0].opened + 1, self.searched_until)
        next_start = self.text.find(self.opening, first, noticed + len(self.opening))
        self.searched_until = noticed
        if next_start < 0:
            return
        if (
            next_start < self.complete_until and self.last_frame is not None
        ):  # the last entry belongs half to the next document
            made = self.last_frame.container
            made.pop() if isinstance(made, list) else made.popitem()
            raise TextEnds(next_start, self.last_began)
        raise TextEnds(next_start, self.complete_until)

    # ── storing ──────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, frame: _Frame, value: Json) -> None:
        self.has_content = True
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.key is not None:
            if frame.key in frame.container:
                # The last value takes the last position.
                self._dropped(frame.container.pop(frame.key), value, frame)
            frame.container[frame.key] = value
            frame.key = None

    def _dropped(self, first: Json, last: Json, frame: _Frame) -> None:
        """Note a duplicate key: its last value counts; a different earlier one is lost."""
        if is_same(first, last):
            self.note(frame.key_start, "duplicate key with the same value")
            return
        shown = shorten(json.dumps(first, ensure_ascii=False), _MAX_SHOWN_LENGTH)
        self.note(frame.key_start, f"duplicate key; the last value counts, and {shown} is dropped", lost=True)

    def place(self) -> Place:
        steps = (frame.key if isinstance(frame.container, dict) else len(frame.container) for frame in self.stack)
        return tuple(step for step in steps if step is not None)
