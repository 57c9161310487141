"""A JSON parser for text that is damaged: it keeps what is complete and closes what is open.

It has a stack of its own, so no depth can exhaust the program's, and it reads on where that is safe: a comma or a
quote left out, comments, single quotes, a line break within text. Every liberty it takes is told. Positions are of
characters in the text; `recovering` turns them into bytes and lines.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.formats.base import Place
from holdfast.formats.entries import same
from holdfast.formats.recovery.json_scalars import QUOTED, NotJson, Remark, Scalars, TextEnds
from holdfast.formats.text import yaml_nodes

# Where reading can go on after something unreadable.
_NEXT: Final = re.compile(r'[,\]}{\["\n]')
# Text without an end goes to the end, or every quote in it would be tried again.
STEP: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
# Not where entries begin at the margin, as documents do.
_OPENING: Final = re.compile(r'\{(?!\s*\n")\s{0,99}"[^"\\\n]{1,100}"')
_TO_THE_QUOTE: Final = re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LONGEST_SHOWN: Final = 60

Container = dict[str, Json] | list[Json]


class Mended(NamedTuple):
    """`end` is where the value ends and something else may begin; `whole` when it was closed there."""

    value: Json
    end: int
    whole: bool
    remarks: list[Remark]
    # The first character that is lost, if any is.
    lost_from: int | None
    # The value is worth having: something complete was found.
    found: bool


def mended(text: str, start: int, end: int, alike: str | None = None) -> Mended:
    """The value that begins at `start`, as far as it is complete.

    `alike` is how the document before it begins (`opening`), where there is one: the next will begin so as well.
    """
    mender = _Mender(text, end)
    mender.alike = alike is not None
    return mender.document(start, alike)


def opening(text: str, start: int) -> str | None:
    """How a document begins: the same words again are another one."""
    found = _OPENING.match(text, start)
    return found[0] if found else None


def rest_of(text: str, start: int, end: int, root: Container) -> Mended:
    """What still belongs to `root` in a text that begins somewhere within its document: entries of its own level.

    Nobody knows what nested parts belonged to, so they are left out; nor whether the text begins within quotes, so
    both are tried.
    """
    tried = [_tail(text, start, end, root, quoted=quoted) for quoted in (False, True)]
    return max(tried, key=lambda one: (one.whole, one.found, -len(one.remarks)))


def _tail(text: str, start: int, end: int, root: Container, *, quoted: bool) -> Mended:
    nothing = Mended(root, end, whole=False, remarks=[], lost_from=start, found=False)
    position = start
    if quoted:
        closing = _TO_THE_QUOTE.match(text, start, end)
        if closing is None:
            return nothing
        position = closing.end()
    level: list[str] = []
    closers: list[tuple[str, int]] = []
    for found in STEP.finditer(text, position, end):
        step = found[0]
        if step in "[{":
            level.append("]" if step == "[" else "}")
        elif step in "]}":
            if not level:
                closers.append((step, found.end()))
            elif level.pop() != step:
                return nothing
    if not closers or level or closers[-1][0] != ("}" if isinstance(root, dict) else "]"):
        return nothing
    inner = closers[-2][1] if len(closers) > 1 else None
    return _Mender(text, end).entries(root.copy(), position if inner is None else inner, midway=inner is None)


class _Frame:
    """A list or object that is being read, and the key whose value comes next."""

    __slots__ = ("began", "key", "made", "opened")

    def __init__(self, made: Container, opened: int) -> None:
        self.made = made
        self.opened = opened
        self.key: str | None = None
        self.began = opened  # where that key stands


class _Mender(Scalars):
    def __init__(self, text: str, end: int) -> None:
        super().__init__(text, end)
        self.stack: list[_Frame] = []
        self.opening: str | None = None
        self.alike = False
        self.left = yaml_nodes.MOST_PARTS
        self.kept = False
        # The last entry that was complete: its object, where it began and where it ended.
        self.last: _Frame | None = None
        self.last_began = self.good = 0
        self.looked = 0  # for another document, up to here

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def document(self, start: int, alike: str | None) -> Mended:
        self.good = self.last_began = position = self.space(start)
        self.opening = alike or opening(self.text, position)
        try:
            value, end = self._value(position)
            if self.stack:
                value, end = self.stack[0].made, self._run(end)
            else:
                self.kept = True
        except NotJson:
            self.lose(position)
            return self._result(None, position, whole=False)
        except TextEnds as cut:
            self.lose(cut.lost)
            return self._result(self._closed(), cut.at, whole=False)
        return self._result(value, end, whole=True)

    def entries(self, root: Container, start: int, *, midway: bool) -> Mended:
        """Go on within a root whose beginning is elsewhere, `midway` through an entry that nobody knows."""
        self.stack = [_Frame(root, start)]
        self.good = self.last_began = start
        before = len(root)
        whole = False
        try:
            end = self._run(self._skip(start, start) if midway else start)
            whole = True
        except TextEnds as cut:
            self.lose(cut.lost)
            end = cut.at
        self.kept = False
        return self._result(self._closed(), end, whole=whole)._replace(found=len(root) > before)

    def _result(self, value: Json, end: int, *, whole: bool) -> Mended:
        if self.left_out:
            self.remarks.append(Remark((), self.good, f"and {self.left_out:,} more such places", lost=False))
        return Mended(value, end, whole, self.remarks, self.lost_from, self.kept)

    def _closed(self) -> Json:
        """The root, with everything that is still open closed; what is open and empty was never there."""
        while len(self.stack) > 1:
            frame = self.stack.pop()
            if frame.made:
                self._put(self.stack[-1], frame.made)
        return self.stack[0].made if self.stack else None

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, position: int) -> int:
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
            elif isinstance(frame.made, dict):
                position = self._pair(position, frame)
            else:
                position = self._entry(position, frame, position)

    def _comma(self, position: int, frame: _Frame) -> int:
        following = self.space(position + 1)
        if following < self.end and self.text[following] in "]},":
            self.say(position, "a comma too many")
        frame.key = None
        return position + 1

    def _close(self, char: str, position: int) -> bool:
        """Close what this bracket closes; True when that was the root."""
        kind = dict if char == "}" else list
        if not any(isinstance(frame.made, kind) for frame in self.stack):
            self.say(position, f"a {char} that closes nothing")
            return False
        while not isinstance(self.stack[-1].made, kind):
            frame = self.stack.pop()
            self.say(position, "a closing bracket is missing")
            self._put(self.stack[-1], frame.made)
        if len(self.stack) == 1:
            self.kept = True
            return True
        frame = self.stack.pop()
        self._put(self.stack[-1], frame.made)
        self.last, self.last_began, self.good = self.stack[-1], frame.opened, position + 1
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
        frame.key, frame.began = key, began
        at = self.space(following + 1)
        if at < self.end and self.text[at] in ",}":
            self.say(began, "a value is missing", lost=True)
            frame.key = None
            return at
        return self._entry(at, frame, began)

    def _entry(self, position: int, frame: _Frame, began: int) -> int:
        if isinstance(frame.made, list):
            self._expect_comma(position, frame)
        try:
            value, end = self._value(position)
        except NotJson as unreadable:
            return self._skip(began, max(unreadable.at, position), unreadable.why)
        except TextEnds as cut:
            raise TextEnds(cut.at, min(cut.lost, began)) from None
        if self.stack[-1] is frame:
            self._put(frame, value)
            self.last, self.last_began, self.good = frame, began, end
        return end

    def _expect_comma(self, position: int, frame: _Frame) -> None:
        if frame.made and not self.text[self.good : position].strip(" \t\r\n"):
            self.say(position, "a comma is missing")

    def _value(self, position: int) -> tuple[Json, int]:
        """A value and its end; a list or object is only opened here, the loop reads its entries."""
        if position >= self.end:
            raise TextEnds(self.end, self.end)
        self.left -= 1
        if self.left < 0:
            self.say(position, f"it has more than {yaml_nodes.MOST_PARTS:,} parts", lost=True)
            raise TextEnds(self.end, position)
        char = self.text[position]
        if char not in "{[":
            return self.scalar(position, within=bool(self.stack))
        if self.stack and self.another(position):
            raise TextEnds(position, position)
        if len(self.stack) >= yaml_nodes.DEEPEST:
            self.say(position, "it is nested too deeply", lost=True)
            return None, self._past(position)
        made: Container = {} if char == "{" else []
        self.stack.append(_Frame(made, position))
        return made, position + 1

    def _past(self, position: int) -> int:
        """The position after a list or object, whatever is in it."""
        depth = 0
        for found in STEP.finditer(self.text, position, self.end):
            depth += (found[0] in "[{") - (found[0] in "]}")
            if not depth:
                return found.end()
        raise TextEnds(self.end, position)

    # ── going on ─────────────────────────────────────────────────────────────────────────────────────────

    def another(self, position: int) -> bool:
        """Does a document like this one begin here? Of the first one we know it only at the beginning of a line."""
        if self.opening is None or not self.stack:
            return False
        margin = self.alike or self.text[position - 1 : position] == "\n"
        return margin and self.text.startswith(self.opening, position)

    def _skip(self, began: int, noticed: int, why: str = "what stands here is not JSON") -> int:
        """Past something unreadable, to where the next entry can begin; never into another document."""
        self._stop_at_another(noticed)
        self.say(began, why, lost=True)
        frame = self.stack[-1]
        frame.key = None
        at = began
        while True:
            found = _NEXT.search(self.text, at, self.end)
            if found is None or self.patience < 0:
                raise TextEnds(self.end, began)
            at = found.start()
            match found[0]:
                case '"':
                    quoted = QUOTED.match(self.text, at, self.end)
                    if quoted is None or "\n" in quoted[1]:
                        self.patience -= (self.end if quoted is None else quoted.end()) - at
                        at += 1
                    elif at > began and isinstance(frame.made, dict) and self.followed(quoted.end(), "key"):
                        return at
                    else:
                        at = quoted.end()
                case "\n":
                    at += 1
                    if self.another(at):
                        raise TextEnds(at, began)
                case "{" | "[":
                    if self.another(at):
                        raise TextEnds(at, began)
                    at = self._past(at)
                case _:
                    return at

    def _stop_at_another(self, noticed: int) -> None:
        """A record that breaks off in the middle of a line, and the next one glued to it: the text between reads
        as one of ours until its quotes no longer fit.
        """
        if self.opening is None:
            return
        first = max(self.good - len(self.opening), self.stack[0].opened + 1, self.looked)
        found = self.text.find(self.opening, first, noticed + len(self.opening))
        self.looked = noticed
        if found < 0:
            return
        if found < self.good and self.last is not None:  # what was read last is half ours, half theirs
            made = self.last.made
            made.pop() if isinstance(made, list) else made.popitem()
            raise TextEnds(found, self.last_began)
        raise TextEnds(found, self.good)

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, frame: _Frame, value: Json) -> None:
        self.kept = True
        if isinstance(frame.made, list):
            frame.made.append(value)
        elif frame.key is not None:
            if frame.key in frame.made:
                # So that what was put last stands last.
                self._dropped(frame.made.pop(frame.key), value, frame)
            frame.made[frame.key] = value
            frame.key = None

    def _dropped(self, first: Json, last: Json, frame: _Frame) -> None:
        """Of a key that stands twice only the last value is kept; one that says something else is lost by that."""
        if same(first, last):
            self.say(frame.began, "the key stands there twice, with the same value")
            return
        told = shorten(json.dumps(first, ensure_ascii=False), _LONGEST_SHOWN)
        self.say(frame.began, f"the key stands there twice; the last one counts, and {told} is dropped", lost=True)

    def place(self) -> Place:
        steps = (frame.key if isinstance(frame.made, dict) else len(frame.made) for frame in self.stack)
        return tuple(step for step in steps if step is not None)
