"""Small changes to settings files of other programs: only what is added changes, all else stays as it is, byte for
byte. New text follows the indentation and line ends of the file. `jsonremoval` takes it out again, with the receipt
that is given here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.capture.jsontree import Document, Member, Node
from holdfast.capture.wiring import Entry
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.machine.trouble import shown

Path = tuple[str, ...]
_BREAK: Final = re.compile(r"\r\n|\r|\n")
_INDENT: Final = re.compile(r"[ \t]*+")
_USUAL: Final = "  "


class Gap(msgspec.Struct, frozen=True):
    """What stood between the brackets of a list or object that was empty; at the root, the whole text."""

    at: Path
    text: str


class Value(msgspec.Struct, frozen=True):
    at: Path
    value: Json


class Receipt(msgspec.Struct):
    """What has to be known to take additions out again without a trace."""

    created: list[Path] = []
    gaps: list[Gap] = []
    values: list[Value] = []

    def add(self, other: Receipt) -> None:
        self.created += [one for one in other.created if one not in self.created]
        known = {gap.at for gap in self.gaps} | set(self.created)
        self.gaps += [gap for gap in other.gaps if gap.at not in known or gap.at == ()]
        places = {value.at for value in self.values}
        self.values += [value for value in other.values if value.at not in places]


class Layout:
    """How a text is laid out: its line ends, one step of its indentation, whether it has a line for each thing."""

    __slots__ = ("airy", "colon", "comma", "line_end", "step")

    def __init__(self, document: Document) -> None:
        text, root = document.text, document.root
        found = _BREAK.search(text)
        self.line_end = found.group() if found else "\n"
        self.step = _USUAL
        self.airy = True
        self.comma, self.colon = ", ", ": "
        if root is not None and root.members:
            first = root.members[0]
            self.airy = _BREAK.search(text, root.start, first.start) is not None
            if self.airy:
                base = indent_at(text, root.start)
                self.step = indent_at(text, first.start).removeprefix(base)
            elif first.key is not None and text[first.node.start - 1] == ":":
                self.comma, self.colon = ",", ":"

    def written(self, value: Json, indent: str | None) -> str:
        """A value as it stands in this text: on one line, or with its lines indented like this."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        lines = json.dumps(value, ensure_ascii=False, indent=self.step)
        return lines.replace("\n", self.line_end + indent)


def indent_at(text: str, position: int) -> str:
    """The blanks at the beginning of the line in which something stands."""
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    found = _INDENT.match(text, start, position)
    return found.group() if found else ""


def insert(text: str, entries: Iterable[Entry], file: str) -> tuple[str, Receipt]:
    """The text with these entries in it, each once. What is there already stays as it is."""
    receipt = Receipt()
    for entry in entries:
        text, one = _insert(Document(text, file), entry, file)
        receipt.add(one)
    return text, receipt


def _insert(document: Document, entry: Entry, file: str) -> tuple[str, Receipt]:
    node = document.root
    if node is None:
        return _anew(document, entry)
    for depth, key in enumerate(entry.at):
        if not document.is_object(node):
            raise _unfit(document, node, entry.at[:depth], "an object", file)
        found = node.child(key)
        if found is None:
            receipt = _receipt(entry, depth)
            return _added(document, node, entry.at[:depth], key, _nested(entry, depth), receipt), receipt
        node = found.node
    if entry.only:
        return document.text, Receipt()
    if not document.is_list(node):
        raise _unfit(document, node, entry.at, "a list", file)
    if any(document.plain(one.node) == entry.value for one in node.members or ()):
        return document.text, Receipt()
    receipt = Receipt()
    return _added(document, node, entry.at, None, entry.value, receipt), receipt


def _receipt(entry: Entry, depth: int) -> Receipt:
    """Of an entry whose path is there down to `depth`."""
    made = len(entry.at) - 1 if entry.only else len(entry.at)
    return Receipt(
        created=[entry.at[: end + 1] for end in range(depth, made)],
        values=[Value(entry.at, entry.value)] if entry.only else [],
    )


def _nested(entry: Entry, depth: int) -> Json:
    """The value of the key at `depth`, with everything below it that has to be made."""
    value: Json = entry.value if entry.only else [entry.value]
    for key in reversed(entry.at[depth + 1 :]):
        value = {key: value}
    return value


def _anew(document: Document, entry: Entry) -> tuple[str, Receipt]:
    layout = Layout(document)
    text = document.text
    receipt = _receipt(entry, 0)
    receipt.created.insert(0, ())
    receipt.gaps.append(Gap((), text))
    apart = layout.line_end if text.strip("\ufeff") and not text.endswith(("\n", "\r")) else ""
    value = {entry.at[0]: _nested(entry, 0)}
    return text + apart + layout.written(value, "") + layout.line_end, receipt


def _added(document: Document, node: Node, at: Path, key: str | None, value: Json, receipt: Receipt) -> str:
    """The text with one more thing at the end of a list or object."""
    text, layout = document.text, Layout(document)
    members: list[Member] = node.members or []
    if members:
        airy = node.tail_is_line or _BREAK.search(text, node.start, members[0].start) is not None
        indent = indent_at(text, members[0].start)
    else:
        airy = node.tail_is_line or layout.airy
        indent = indent_at(text, node.start) + layout.step
        receipt.gaps.append(Gap(at, text[node.start + 1 : node.end - 1]))
    written = layout.written(value, indent if airy else None)
    if key is not None:
        written = json.dumps(key, ensure_ascii=False) + layout.colon + written
    if airy:
        written = layout.line_end + indent + written
    elif members or node.tail > node.start + 1:
        written = layout.comma[1:] + written
    if members and members[-1].comma is not None:
        written += ","
    if not members and airy and _BREAK.search(text, node.tail, node.end) is None:
        written += layout.line_end + indent_at(text, node.start)
    apart = members[-1].node.end if members and members[-1].comma is None else None
    head = text[: node.tail] if apart is None else text[:apart] + "," + text[apart : node.tail]
    return head + written + text[node.tail :]


def _unfit(document: Document, node: Node, at: Path, wanted: str, file: str) -> Invalid:
    what = ".".join(at) or "the whole"
    return Invalid(
        f"in {shown(file)}, {shown(what)} is not {wanted} (line {document.line(node.start)})",
        hint="Put that right, then try again; nothing was changed.",
        file=file,
    )
