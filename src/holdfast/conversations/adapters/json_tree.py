"""Parse JSON as people keep it in settings, with comments and trailing commas, into a tree of positions.

`connect.json_edit` uses the tree to change single places and leave everything else as it is.
"""

from __future__ import annotations

import json
import re
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.machine.os_errors import display_path

MAX_DEPTH: Final = 100
_BLANK: Final = re.compile(r"[ \t\r\n]*+")
_COMMENT: Final = re.compile(r"//[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_SCALAR: Final = re.compile(
    r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)", re.ASCII
)
_MARK: Final = "\ufeff"


class JsonNode:
    """A value and its position, text[start:end]."""

    __slots__ = ("end", "members", "start", "tail", "tail_is_line", "value")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        # The members of a list or an object.
        self.members: list[JsonMember] | None = None
        # Of a list or an object: where its last token (opening bracket, value, comma, comment) ends, and whether that
        # is a comment until the end of its line.
        self.tail = start
        self.tail_is_line = False
        # The value of anything else.
        self.value: Json = None

    def child(self, key: str) -> JsonMember | None:
        """The member of an object with this key: if there are several, the last, as programs do."""
        return next((member for member in reversed(self.members or ()) if member.key == key), None)


class JsonMember:
    """A member of a list (`key` is None) or an object."""

    __slots__ = ("after_line", "before", "comma", "key", "node", "start")

    def __init__(self, key: str | None, start: int, before: int, node: JsonNode, *, after_line: bool) -> None:
        self.key = key
        self.start = start
        # Where the token before it ends, comments included, and whether that is a comment until the end of its line.
        self.before = before
        self.after_line = after_line
        self.node = node
        # The position of the comma after it, if there is one.
        self.comma: int | None = None


class JsonText:
    """A text and its tree; the root is None when the text has only blanks and comments."""

    __slots__ = ("_at", "_file", "_line_comment", "_token_end", "root", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self._file = file
        self._at = 1 if text.startswith(_MARK) else 0
        self._token_end = self._at
        self._line_comment = False
        self.root: JsonNode | None = None
        self._skip()
        if self._at < len(text):
            self.root = self._value(1)
            self._skip()
            if self._at < len(text):
                raise self._error("unexpected text after the end")

    def plain(self, node: JsonNode) -> Json:
        """The value as data."""
        if node.members is None:
            return node.value
        if self.text[node.start] == "[":
            return [self.plain(member.node) for member in node.members]
        return {member.key or "": self.plain(member.node) for member in node.members}

    def line(self, position: int) -> int:
        return len(re.findall(r"\r\n|\r|\n", self.text[:position])) + 1

    def is_object(self, node: JsonNode) -> bool:
        return self.text[node.start] == "{"

    def is_list(self, node: JsonNode) -> bool:
        return self.text[node.start] == "["

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def _error(self, reason: str, position: int | None = None) -> Invalid:
        line = self.line(self._at if position is None else position)
        return Invalid(
            f"{display_path(self._file)} is not JSON: {reason} (line {line})",
            hint="Fix that line, then try again; nothing was changed.",
            file=self._file,
        )

    def _skip(self) -> None:
        """Skip blanks and comments, and note where the last comment ended."""
        while True:
            blank = _BLANK.match(self.text, self._at)
            self._at = blank.end() if blank else self._at
            if not self.text.startswith("/", self._at):
                return
            comment = _COMMENT.match(self.text, self._at)
            if comment is None:
                raise self._error("a comment is not closed")
            self._line_comment = comment.group().startswith("//")
            self._at = self._token_end = comment.end()

    def _step(self, end: int) -> None:
        self._at = self._token_end = end
        self._line_comment = False

    def _value(self, depth: int) -> JsonNode:
        node = JsonNode(self._at)
        first = self.text[self._at : self._at + 1]
        if first in ("{", "["):
            if depth > MAX_DEPTH:
                raise self._error("it is nested too deeply")
            self._container(node, first, depth)
        elif first == '"':
            node.value = self._string()
        else:
            scalar = _SCALAR.match(self.text, self._at)
            if scalar is None:
                raise self._error("expected a value" if first in ("", "]", "}", ",", ":") else "unexpected character")
            node.value = _number_or_word(scalar.group())
            self._step(scalar.end())
        node.end = self._at
        return node

    def _string(self) -> str:
        match = _STRING.match(self.text, self._at)
        if match is None:
            raise self._error("a string is not closed on its line, or has a character that is not allowed in it")
        self._step(match.end())
        return str(json.loads(match.group()))

    def _container(self, node: JsonNode, opening: str, depth: int) -> None:
        closing = "}" if opening == "{" else "]"
        members: list[JsonMember] = []
        node.members = members
        self._step(self._at + 1)
        while True:
            self._skip()
            if self.text.startswith(closing, self._at):
                node.tail, node.tail_is_line = self._token_end, self._line_comment
                self._step(self._at + 1)
                return
            if members and members[-1].comma is None:
                raise self._error(f"expected a comma or {closing}")
            before, after_line, start, key = self._token_end, self._line_comment, self._at, None
            if opening == "{":
                if not self.text.startswith('"', self._at):
                    raise self._error(f"expected a key in double quotes or {closing}")
                key = self._string()
                self._skip()
                if not self.text.startswith(":", self._at):
                    raise self._error("expected a colon")
                self._step(self._at + 1)
                self._skip()
            member = JsonMember(key, start, before, self._value(depth + 1), after_line=after_line)
            members.append(member)
            self._skip()
            if self.text.startswith(",", self._at):
                member.comma = self._at
                self._step(self._at + 1)


def _number_or_word(written: str) -> Json:
    try:
        value: Json = json.loads(written)
    except ValueError:  # more digits than Python takes; nothing of ours is like that
        return written
    return value


def decoded(data: bytes, file: str, *, kind: str = "JSON") -> str:
    """The text of a settings file, from which exactly these bytes can be had again."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Invalid(
            f"{display_path(file)} is not {kind}: it is not UTF-8 (line {line})",
            hint="Save it as UTF-8, then try again; nothing was changed.",
            file=file,
        ) from None
