"""Add entries to a JSON settings file and remove them again: everything else stays, byte for byte. Entries of ours
are recognised by the command line in them; a receipt says what was added for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from holdfast.conversations.adapters.json_tree import JsonMember, JsonNode, JsonText
from holdfast.conversations.connect.agent_settings import SettingsEntry
from holdfast.conversations.connect.mcp_entry import call_of
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.machine.os_errors import display_path

# Matches where the rest of a line is not blank.
_LINE_GOES_ON: Final = re.compile(r"[ \t]*+[^ \t\r\n]")
Ours = Callable[[str], bool]


def holds(text: str, ours: Ours, file: str) -> bool:
    """Whether the text has anything of ours."""
    return any(ours(item) for item in texts(text, file))


def texts(text: str, file: str) -> Iterator[str]:
    """Every string value, and the call of each entry that starts something."""
    document = JsonText(text, file)
    waiting = [document.root] if document.root is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, str):
            yield node.value
        elif document.is_object(node) and node.child("command") is not None:
            yield call_of(document.plain(node))
        waiting += [member.node for member in node.members or ()]


def remove(text: str, ours: Ours, receipt: EditReceipt | None, file: str, *, whole: Iterable[Path] = ()) -> str:
    """The text without our entries, and without containers that were created for them.

    Without a receipt, containers that become empty count as created for them. At the paths of `whole`, an object with
    our command is removed as a whole, as in a list.
    """
    whole = {*whole, *(value.at for value in receipt.values)} if receipt is not None else set(whole)
    touched: set[Path] = set()
    while True:
        document = JsonText(text, file)
        spans = (
            list(_own_spans(document, document.root, (), ours, whole, touched)) if document.root is not None else []
        )
        if not spans:
            break
        text = _without(text, *spans)
    text = _without_values(text, receipt, file)
    text = _without_empty(text, set(receipt.created) if receipt is not None else None, touched, file)
    return _restore_gaps(text, receipt, file)


# ── what is ours ─────────────────────────────────────────────────────────────────────────────────────────


def _own_spans(
    document: JsonText, node: JsonNode, at: Path, ours: Ours, whole: set[Path], touched: set[Path]
) -> Iterator[tuple[JsonNode, int]]:
    """The items to remove, at most one per container: positions are computed again afterwards."""
    members = node.members or []
    own_indexes = [index for index, member in enumerate(members) if _is_ours(document, node, member, at, ours, whole)]
    if own_indexes:
        touched.add(at)
        yield node, own_indexes[-1]
    for index, member in enumerate(members):
        if index not in own_indexes:
            yield from _own_spans(document, member.node, _below(at, member), ours, whole, touched)


def _below(at: Path, member: JsonMember) -> Path:
    # Positions inside lists have no lasting name: nothing there is looked up again.
    return (*at, member.key if member.key is not None else "\0")


def _is_ours(
    document: JsonText, container: JsonNode, member: JsonMember, at: Path, ours: Ours, whole: set[Path]
) -> bool:
    node = member.node
    if node.members is None:
        return isinstance(node.value, str) and ours(node.value)
    if document.is_list(container):
        return _is_entry(document, node, ours)
    if _below(at, member) in whole:
        return _is_entry(document, node, ours) or ours(call_of(document.plain(node)))
    return False


def _is_entry(document: JsonText, node: JsonNode, ours: Ours) -> bool:
    """Whether an object only serves our command: it holds it, or a list of nothing else."""
    if not document.is_object(node):
        return False
    return any(
        (isinstance(member.node.value, str) and ours(member.node.value)) or _only_ours(document, member.node, ours)
        for member in node.members or ()
    )


def _only_ours(document: JsonText, node: JsonNode, ours: Ours) -> bool:
    if not node.members:
        return False
    if document.is_object(node):
        return False
    return all(
        (isinstance(member.node.value, str) and ours(member.node.value)) or _is_entry(document, member.node, ours)
        for member in node.members
    )


# ── taking out ───────────────────────────────────────────────────────────────────────────────────────────


def _without(text: str, *items: tuple[JsonNode, int]) -> str:
    """The text without these items, at most one per container."""
    for start, end in sorted((cut for node, index in items for cut in _cut_span(text, node, index)), reverse=True):
        text = text[:start] + text[end:]
    return text


def _cut_span(text: str, node: JsonNode, index: int) -> list[tuple[int, int]]:
    """The span of one item, with the blanks before it and the comma it needs."""
    members = node.members or []
    member = members[index]
    comma = member.comma
    if comma is None and index:
        comma = members[index - 1].comma
    start = member.before
    if member.after_line and _LINE_GOES_ON.match(text, member.node.end if member.comma is None else member.comma + 1):
        start = member.start  # what follows must not end up in the comment
    return [(start, member.node.end)] + ([] if comma is None else [(comma, comma + 1)])


def _member(document: JsonText, at: Path) -> tuple[JsonNode, int] | None:
    """The container of what a path leads to, and its position there."""
    node = document.root
    match: tuple[JsonNode, int] | None = None
    for key in at:
        if node is None or not document.is_object(node):
            return None
        member = node.child(key)
        if member is None or node.members is None:
            return None
        match, node = (node, node.members.index(member)), member.node
    return match


def _node(document: JsonText, at: Path) -> JsonNode | None:
    if not at:
        return document.root
    match = _member(document, at)
    return None if match is None else (match[0].members or [])[match[1]].node


def _is_bare(document: JsonText, node: JsonNode) -> bool:
    return node.members == [] and not document.text[node.start + 1 : node.end - 1].strip()


def _without_values(text: str, receipt: EditReceipt | None, file: str) -> str:
    """Remove our unchanged values, unless others use the container by now and may rely on them."""
    values = receipt.values if receipt is not None else []
    for value in values:
        document = JsonText(text, file)
        match = _member(document, value.at)
        if receipt is None or match is None:
            continue
        container, index = match
        members = container.members or []
        if document.plain(members[index].node) != value.value:
            continue
        set_here = {item.at[-1] for item in values if item.at[:-1] == value.at[:-1]}
        others = [member for member in members if member.key not in set_here]
        rest = [other for other in others if not _is_bare_created(document, other, value.at, receipt)]
        if rest and value.at[:-1] in receipt.created:
            continue
        text = _without(text, match)
    return text


def _is_bare_created(document: JsonText, member: JsonMember, also: Path, receipt: EditReceipt) -> bool:
    """Whether a neighbour is a container we created that holds nothing else."""
    at = (*also[:-1], member.key or "")
    if at not in receipt.created or member.node.members is None:
        return False
    return all(_is_bare_created(document, item, (*at, ""), receipt) for item in member.node.members)


def _without_empty(text: str, created: set[Path] | None, touched: set[Path], file: str) -> str:
    """Remove empty containers that were created for us, from the inside out."""
    waiting = set(created) if created is not None else {at for at in touched if "\0" not in at}
    while waiting:
        at = max(waiting, key=lambda path: (len(path), path))
        waiting.remove(at)
        if not at:
            continue
        document = JsonText(text, file)
        match, node = _member(document, at), _node(document, at)
        if match is None or node is None or not _is_bare(document, node):
            continue
        text = _without(text, match)
        if created is None:
            waiting.add(at[:-1])
    return text


def _restore_gaps(text: str, receipt: EditReceipt | None, file: str) -> str:
    """Restore the original text between brackets that are empty again."""
    for gap in reversed(receipt.gaps) if receipt is not None else ():
        document = JsonText(text, file)
        node = _node(document, gap.at)
        if node is None or node.members != []:
            continue
        if receipt is not None and gap.at == () and () in receipt.created:
            if _is_bare(document, node):  # we wrote the brackets as well
                rest = text[: node.start] + text[node.end :]
                text = gap.text if rest.strip() == gap.text.strip() else rest
        elif text[node.start + 1 : node.end - 1].strip() == gap.text.strip():
            text = text[: node.start + 1] + gap.text + text[node.end - 1 :]
    return text


Path = tuple[str, ...]
_BREAK: Final = re.compile(r"\r\n|\r|\n")
_INDENT: Final = re.compile(r"[ \t]*+")
_USUAL: Final = "  "


class InsertedText(msgspec.Struct, frozen=True):
    """The text that was between the brackets of an empty list or object; at the root, the whole text."""

    at: Path
    text: str


class Value(msgspec.Struct, frozen=True):
    at: Path
    value: Json


class EditReceipt(msgspec.Struct):
    """What is needed to remove additions without a trace."""

    created: list[Path] = []
    gaps: list[InsertedText] = []
    values: list[Value] = []

    def add(self, other: EditReceipt) -> None:
        self.created += [item for item in other.created if item not in self.created]
        known = {gap.at for gap in self.gaps} | set(self.created)
        self.gaps += [gap for gap in other.gaps if gap.at not in known or gap.at == ()]
        places = {value.at for value in self.values}
        self.values += [value for value in other.values if value.at not in places]


class TextLayout:
    """The layout of a text: its line ends, its indentation, whether each item has its own line."""

    __slots__ = ("airy", "colon", "comma", "line_end", "step")

    def __init__(self, document: JsonText) -> None:
        text, root = document.text, document.root
        match = _BREAK.search(text)
        self.line_end = match.group() if match else "\n"
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
        """A value in this layout: on one line, or with indented lines."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        lines = json.dumps(value, ensure_ascii=False, indent=self.step)
        return lines.replace("\n", self.line_end + indent)


def indent_at(text: str, position: int) -> str:
    """The indentation of the line at a position."""
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    match = _INDENT.match(text, start, position)
    return match.group() if match else ""


def insert(text: str, entries: Iterable[SettingsEntry], file: str) -> tuple[str, EditReceipt]:
    """The text with these entries, each once. Existing ones stay as they are."""
    receipt = EditReceipt()
    for entry in entries:
        text, part = _insert(JsonText(text, file), entry, file)
        receipt.add(part)
    return text, receipt


def _insert(document: JsonText, entry: SettingsEntry, file: str) -> tuple[str, EditReceipt]:
    node = document.root
    if node is None:
        return _new_document(document, entry)
    for depth, key in enumerate(entry.at):
        if not document.is_object(node):
            raise _wrong_type(document, node, entry.at[:depth], "an object", file)
        child = node.child(key)
        if child is None:
            receipt = _receipt(entry, depth)
            return _with_item(document, node, entry.at[:depth], key, _nested(entry, depth), receipt), receipt
        node = child.node
    if entry.only:
        return document.text, EditReceipt()
    if not document.is_list(node):
        raise _wrong_type(document, node, entry.at, "a list", file)
    if any(document.plain(member.node) == entry.value for member in node.members or ()):
        return document.text, EditReceipt()
    receipt = EditReceipt()
    return _with_item(document, node, entry.at, None, entry.value, receipt), receipt


def _receipt(entry: SettingsEntry, depth: int) -> EditReceipt:
    """Note an entry whose path existed down to `depth`."""
    made = len(entry.at) - 1 if entry.only else len(entry.at)
    return EditReceipt(
        created=[entry.at[: end + 1] for end in range(depth, made)],
        values=[Value(entry.at, entry.value)] if entry.only else [],
    )


def _nested(entry: SettingsEntry, depth: int) -> Json:
    """The value for the key at `depth`, with everything below it that has to be created."""
    value: Json = entry.value if entry.only else [entry.value]
    for key in reversed(entry.at[depth + 1 :]):
        value = {key: value}
    return value


def _new_document(document: JsonText, entry: SettingsEntry) -> tuple[str, EditReceipt]:
    layout = TextLayout(document)
    text = document.text
    receipt = _receipt(entry, 0)
    receipt.created.insert(0, ())
    receipt.gaps.append(InsertedText((), text))
    separator = layout.line_end if text.strip("\ufeff") and not text.endswith(("\n", "\r")) else ""
    value = {entry.at[0]: _nested(entry, 0)}
    return text + separator + layout.written(value, "") + layout.line_end, receipt


def _with_item(
    document: JsonText, node: JsonNode, at: Path, key: str | None, value: Json, receipt: EditReceipt
) -> str:
    """The text with one more item at the end of a list or object."""
    text, layout = document.text, TextLayout(document)
    members: list[JsonMember] = node.members or []
    if members:
        own_line = node.tail_is_line or _BREAK.search(text, node.start, members[0].start) is not None
        indent = indent_at(text, members[0].start)
    else:
        own_line = node.tail_is_line or layout.airy
        indent = indent_at(text, node.start) + layout.step
        receipt.gaps.append(InsertedText(at, text[node.start + 1 : node.end - 1]))
    written = layout.written(value, indent if own_line else None)
    if key is not None:
        written = json.dumps(key, ensure_ascii=False) + layout.colon + written
    if own_line:
        written = layout.line_end + indent + written
    elif members or node.tail > node.start + 1:
        written = layout.comma[1:] + written
    if members and members[-1].comma is not None:
        written += ","
    if not members and own_line and _BREAK.search(text, node.tail, node.end) is None:
        written += layout.line_end + indent_at(text, node.start)
    insert_at = members[-1].node.end if members and members[-1].comma is None else None
    head = text[: node.tail] if insert_at is None else text[:insert_at] + "," + text[insert_at : node.tail]
    return head + written + text[node.tail :]


def _wrong_type(document: JsonText, node: JsonNode, at: Path, expected: str, file: str) -> Invalid:
    name = ".".join(at) or "the whole"
    return Invalid(
        f"in {display_path(file)}, {display_path(name)} is not {expected} (line {document.line(node.start)})",
        hint="Fix that, then try again; nothing was changed.",
        file=file,
    )
