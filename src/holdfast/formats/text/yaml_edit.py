"""Edit a YAML text in place: only what differs is changed, and every comment stays.

The text is parsed for the position of each part, and parts that differ are replaced; indentation, quotes, blank lines
and the order of keys stay. The result is read again and compared. If the text cannot be edited in place, the document
is written as new text, with the comments before it.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.text.yaml import STEP, block, entry, inline, is_block, item

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

# Keys that identify an entry of a list: the first that it has.
_NAMES: Final = ("task_id", "phase_id", "feature_id", "id")


def edit_text(text: str, document: Json) -> str | None:
    """The text edited to match the document; None when it is not YAML that we can read."""
    before = _read(text)
    if before is None:
        return None
    if _same_data(before[0], document):
        return text
    before_comments = comments(text)
    made = _in_place(text, before[0], document)
    if made is None:
        made = "\n".join(block(document)) + "\n"
    lost = list((Counter(before_comments) - Counter(comments(made))).elements())
    lost_comments = [comment for comment in dict.fromkeys(before_comments) for _ in range(lost.count(comment))]
    return "".join(f"{comment}\n" for comment in lost_comments) + made


def comments(text: str) -> list[str]:
    """Every comment of a YAML text, in order."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    comments_read: list[str] = []
    end = 0
    try:
        for token in YAML(typ="safe", pure=True).scan(text):
            comments_read.extend(_in_gap(text[end : token.start_mark.index]))
            end = max(end, token.end_mark.index)
    except (YAMLError, ValueError, IndexError, AttributeError, AssertionError):
        return comments_read
    return [*comments_read, *_in_gap(text[end:])]


def _in_gap(gap: str) -> list[str]:
    return [line[line.index("#") :].rstrip() for line in gap.splitlines() if "#" in line]


def _read(text: str) -> tuple[Json] | None:
    from holdfast.formats.text.read import read_yaml

    try:
        return (read_yaml(text.encode(), "-").value,)
    except (Invalid, UnicodeEncodeError):
        return None


def _same_data(left: Json, right: Json) -> bool:
    """The same data in any order of keys, since people may reorder them."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same_data(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same_data, left, right))
    return type(left) is type(right) and left == right


def _in_place(text: str, before: Json, document: Json) -> str | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    plain = text.removeprefix("\ufeff")
    try:
        root = YAML(typ="safe", pure=True).compose(plain)
        if root is None or not isinstance(before, dict):
            return None
        edited = _Edit(plain).apply(root, before, document)
    except (YAMLError, ValueError, _NotEditable):
        return None
    reread = _read(edited)
    return edited if reread is not None and _same_data(reread[0], document) else None


class _NotEditable(Exception):
    """This text is not edited in place."""


class _Change(NamedTuple):
    start: int
    end: int
    text: str


class _Edit:
    """Collects changes to one text and applies them from its end to its start."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._changes: list[_Change] = []
        self._left_out: dict[int, int] = {}

    def apply(self, root: Node, before: Json, after: Json) -> str:
        self._note_left_out(root)
        self._value(root, before, after)
        made = self._text
        # At one position, insertions come first, in the order in which they were collected.
        order = sorted(enumerate(self._changes), key=lambda item: (item[1].start, item[1].end, item[0]), reverse=True)
        for _, change in order:
            made = made[: change.start] + change.text + made[change.end :]
        return made

    def _value(self, node: Node, before: Json, after: Json) -> None:
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        if _same_data(before, after):
            return
        in_lines = not getattr(node, "flow_style", False)
        if (
            isinstance(node, MappingNode)
            and isinstance(before, dict)
            and isinstance(after, dict)
            and after
            and in_lines
        ):
            self._mapping(node, before, after)
        elif (
            isinstance(node, SequenceNode)
            and isinstance(before, list)
            and isinstance(after, list)
            and after
            and in_lines
        ):
            self._sequence(node, before, after)
        else:
            self._replace(node, after)

    # ── where things are ─────────────────────────────────────────────────────────────────────────────────

    def _note_left_out(self, node: Node) -> None:
        """Note the position of omitted values: after the colon, although the parser reports the next part's."""
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            for key, value in node.value:
                if value.start_mark.index == value.end_mark.index:
                    self._left_out[id(value)] = self._text.index(":", key.end_mark.index) + 1
                self._note_left_out(value)
        elif isinstance(node, SequenceNode):
            for value in node.value:
                self._note_left_out(value)

    def _span(self, node: Node) -> tuple[int, int]:
        """Start and end of a part: a block ends with its last entry, not where the next part starts."""
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        start, end = node.start_mark.index, node.end_mark.index
        if isinstance(node, (MappingNode, SequenceNode)) and not node.flow_style and node.value:
            last = node.value[-1]
            return start, self._span(last[1] if isinstance(last, tuple) else last)[1]
        if id(node) in self._left_out:
            return self._left_out[id(node)], self._left_out[id(node)]
        return start, start + len(self._text[start:end].rstrip())

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────

    def _mapping(self, node: Node, before: dict[str, Json], after: dict[str, Json]) -> None:
        pairs = {key.value: (key, value) for key, value in node.value}
        if not pairs.keys() & after.keys() or len(pairs) != len(before):
            self._rewrite(node, after)
            return
        removed = [pairs[key] for key in pairs if key not in after]
        if any(not self._begins_line(key) for key, _ in removed):
            self._rewrite(node, after)
            return
        for key, value in removed:
            self._cut(key.start_mark.index, self._span(value)[1])
        column = node.start_mark.column
        last = None
        for key, new_value in after.items():
            if key in pairs:
                self._value(pairs[key][1], before[key], new_value)
                last = pairs[key][1]
            else:
                # After the key it follows in the document; keys before all others go to the end.
                place = self._span(node.value[-1][1] if last is None else last)[1]
                self._add_after(place, entry(key, new_value, column))

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────

    def _sequence(self, node: Node, before: list[Json], after: list[Json]) -> None:
        items, old, new = node.value, [_name(element) for element in before], [_name(element) for element in after]
        column = node.start_mark.column
        steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if len(items) != len(before) or all(step[0] != "equal" for step in steps) or steps[0][0] == "insert":
            self._rewrite(node, after)
            return
        for operation, first, last, new_first, new_last in steps:
            if operation == "equal":
                for number in range(last - first):
                    self._value(items[first + number], before[first + number], after[new_first + number])
                continue
            for old_item in items[first:last]:
                dash = self._text.rfind("-", 0, old_item.start_mark.index)
                if self._text[self._line_start(dash) : dash].strip():
                    raise _NotEditable
                self._cut(dash, self._span(old_item)[1])
            lines = [line for element in after[new_first:new_last] for line in item(element, column)]
            if lines:
                place = items[first - 1] if first else items[last - 1]
                self._add_after(self._span(place)[1], lines)

    # ── text ─────────────────────────────────────────────────────────────────────────────────────────────

    def _replace(self, node: Node, value: Json) -> None:
        """Replace a part: on its line, or on separate lines if it has nested entries."""
        start, end = self._span(node)
        if is_block(value) and _is_nested(value):
            self._rewrite(node, value)
            return
        gap = " " if start == end and self._text[start - 1 : start] not in (" ", "") else ""
        self._changes.append(_Change(start, end, gap + inline(value)))

    def _rewrite(self, node: Node, value: Json) -> None:
        """Rewrite a whole part in lines, with its inner comments above it."""
        start, end = self._span(node)
        begin = self._line_start(start)
        before = self._text[begin:start]
        inner_comments = comments(self._text[start:end])
        if not before.strip(" -"):  # it has separate lines, or follows the dash of a list
            column = node.start_mark.column
            lines = block(value, column)
            lines[0] = lines[0][column:]
        else:
            column = len(before) - len(before.lstrip(" -")) + STEP
            lines = ["", *block(value, column)] if is_block(value) else [inline(value)]
            start = len(self._text[:start].rstrip(" ")) if is_block(value) else start
        if inner_comments:
            space = " " * (len(before) - len(before.lstrip(" ")))
            self._changes.append(
                _Change(begin, begin, "".join(f"{space}{line}{self._line_end}" for line in inner_comments))
            )
        self._changes.append(_Change(start, end, self._line_end.join(lines)))

    def _cut(self, start: int, end: int) -> None:
        """Remove whole lines but keep their comments."""
        begin = self._line_start(start)
        stop = self._text.find("\n", end)
        stop = len(self._text) if stop < 0 else stop + 1
        space = self._text[begin:start]
        kept_comments = [*comments(self._text[start:end]), *_in_gap(self._text[end:stop])]
        self._changes.append(
            _Change(begin, stop, "".join(f"{space}{line}{self._line_end}" for line in kept_comments))
        )

    def _add_after(self, end: int, lines: list[str]) -> None:
        stop = self._text.find("\n", end)
        added = "".join(line + self._line_end for line in lines)
        if stop < 0:
            self._changes.append(_Change(len(self._text), len(self._text), self._line_end + added))
        else:
            self._changes.append(_Change(stop + 1, stop + 1, added))

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _begins_line(self, node: Node) -> bool:
        start = node.start_mark.index
        return not self._text[self._line_start(start) : start].strip()


def _name(value: Json) -> str:
    if isinstance(value, dict):
        known = next((value[name] for name in _NAMES if value.get(name) is not None), None)
        return "entry" if known is None else f"entry {inline(known)}"
    return inline(value)


def _is_nested(value: Json) -> bool:
    """Does it contain objects or lists? They are easier to read and compare on lines of their own."""
    if isinstance(value, dict):
        return True
    return isinstance(value, (list, tuple)) and any(isinstance(element, (dict, list, tuple)) for element in value)
