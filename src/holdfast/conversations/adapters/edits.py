"""What an edit did to a file, as far as an agent's own words make it certain: SHA-256 before and after, lines added
and removed, the files of a patch. Nothing is read from the disk; what is not certain is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Literal, NamedTuple

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.fields import get_int, get_objects
from holdfast.conversations.signals import Edited
from holdfast.core.canonical import Json

MAX_COMPARED_LINES = 200  # on either side; comparing takes the square of it
MAX_PATCH_FILES = 1000  # in one patch

_BEGIN = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE = re.compile(r"^\*\*\* Move to: (.+)$")
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NOWHERE = "/dev/null"


class LineCounts(NamedTuple):
    added: int | None = None
    removed: int | None = None


def hash_content(text: str | None) -> str | None:
    """The SHA-256 of a file with this content; None where characters were lost on the way to us."""
    if text is None or "\ufffd" in text:
        return None
    try:
        return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        return None


def count_changed_lines(before: str, after: str) -> LineCounts:
    """How many lines differ; unknown where comparing would take long."""
    old, new = _lines(before), _lines(after)
    head = 0
    while head < len(old) and head < len(new) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old or not new:
        return LineCounts(len(new), len(old))
    if len(old) > MAX_COMPARED_LINES or len(new) > MAX_COMPARED_LINES:
        return LineCounts()
    from difflib import SequenceMatcher

    same = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return LineCounts(len(new) - same, len(old) - same)


def count_patch_lines(response: Payload) -> LineCounts:
    """Lines added and removed, by the patch that Claude Code adds to a change."""
    added = removed = 0
    has_patch = False
    for hunk in get_objects(response, "structuredPatch", "structured_patch"):
        lines = hunk.get("lines")
        if type(lines) is not list:
            return LineCounts()
        has_patch = True
        added += sum(1 for line in lines if type(line) is str and line.startswith("+"))
        removed += sum(1 for line in lines if type(line) is str and line.startswith("-"))
    return LineCounts(added, removed) if has_patch else LineCounts()


def line_growth(response: Payload) -> int | None:
    """By how many lines the file grew, by the patch that Claude Code adds to a change."""
    grown = 0
    has_patch = False
    for hunk in get_objects(response, "structuredPatch", "structured_patch"):
        old, new = get_int(hunk, "oldLines"), get_int(hunk, "newLines")
        if old is None or new is None:
            return None
        has_patch = True
        grown += new - old
    return grown if has_patch else None


def replace_text(content: str, old: str, new: str, *, every: bool = False, grown: int | None = None) -> str | None:
    """The content after `old` was replaced by `new`, if that can be understood in one way only.

    Deleting the text of a whole line may or may not delete its line end; `grown` decides which it was.
    """
    if not old:
        return new if not content else None
    count = content.count(old)
    if not count or (count > 1 and not every):
        return None
    result = content.replace(old, new)
    if new or old.endswith("\n") or f"{old}\n" not in content:
        return result
    shorter = content.replace(f"{old}\n", "")
    if grown is None:
        return None
    possible = [text for text in (result, shorter) if text.count("\n") - content.count("\n") == grown]
    return possible[0] if len(possible) == 1 else None


def replace_in_turn(content: str, replacements: Sequence[tuple[str, str, bool]]) -> str | None:
    """The content after several replacements, one after the other."""
    now: str | None = content
    for old, new, every in replacements:
        if now is None:
            return None
        now = replace_text(now, old, new, every=every)
    return now


def is_exact(path: str, content: str | None) -> bool:
    """Whether a file's content as an agent shows it is likely that of the file, byte by byte.

    Claude Code shows every line end as one character. Files with others are rare, except on Windows.
    """
    return content is None or "\n" not in content or not ("\\" in path or path[1:2] == ":")


def whole_file_edit(path: str, content: str, before: str | None, *, new: bool | None, agent: str | None) -> Edited:
    """A file that was written as a whole; `new` is unknown where the agent does not say."""
    created = new is True
    lines = (
        count_changed_lines("", content)
        if created
        else count_changed_lines(before, content)
        if before is not None
        else LineCounts()
    )
    return Edited(
        agent=agent,
        path=path,
        action="created" if created else "modified",
        before=hash_content(before) if not created and is_exact(path, before) else None,
        after=hash_content(content),
        lines_added=lines.added,
        lines_removed=lines.removed,
    )


def parse_patch(text: str, *, agent: str | None = None) -> tuple[Edited, ...]:
    """The changes of a patch: in the form of `apply_patch` (`*** Update File: …`), or a unified diff."""
    edits = _parse_envelope(text, agent) if _has_envelope(text) else _parse_unified(text, agent)
    return tuple(islice(edits, MAX_PATCH_FILES))


def find_patch(value: Json) -> str | None:
    """The patch in a value: the text itself, or the command line that hands it to `apply_patch`."""
    if type(value) is str:
        return value if _has_envelope(value) or "\n@@" in value else None
    if type(value) is list:
        return next((item for item in value if type(item) is str and _has_envelope(item)), None)
    return None


def _has_envelope(text: str) -> bool:
    return "*** Begin Patch" in text or text.startswith(("*** Add File: ", "*** Update File: ", "*** Delete File: "))


def _parse_envelope(text: str, agent: str | None) -> Iterator[Edited]:
    path, kind, moved = "", "", ""
    added: list[str] = []
    removed = 0

    def finish_file() -> Iterator[Edited]:
        if not path:
            return
        if kind == "Add":
            # The format knows only whole lines, each with its end.
            content = "".join(f"{line}\n" for line in added)
            yield Edited(
                agent=agent,
                path=path,
                action="created",
                after=hash_content(content),
                lines_added=len(added),
                lines_removed=0,
            )
        elif kind == "Delete":
            yield Edited(agent=agent, path=path, action="deleted")
        elif kind == "Update" and moved:
            yield Edited(agent=agent, path=path, action="deleted")
            yield Edited(agent=agent, path=moved, action="created")
        elif kind == "Update":
            yield Edited(agent=agent, path=path, lines_added=len(added), lines_removed=removed)

    for line in _lines(text):
        begin = _BEGIN.match(line)
        if begin or line.startswith("*** End Patch"):
            yield from finish_file()
            kind, path = (begin[1], begin[2].strip()) if begin else ("", "")
            moved, added, removed = "", [], 0
        elif kind:
            move = _MOVE.match(line)
            if move:
                moved = move[1].strip()
            elif line.startswith("+"):
                added.append(line[1:])
            elif line.startswith("-"):
                removed += 1
    yield from finish_file()


def _parse_unified(text: str, agent: str | None) -> Iterator[Edited]:
    old = new = ""
    added = removed = 0
    remaining = [0, 0]  # lines of this hunk still to come, on either side: in them, `---` is content

    def finish_file() -> Iterator[Edited]:
        if not old or not new:
            return
        action: Literal["created", "modified", "deleted"] = (
            "created" if old == _NOWHERE else "deleted" if new == _NOWHERE else "modified"
        )
        path = old if action == "deleted" else new
        if path != _NOWHERE:
            yield Edited(agent=agent, path=path, action=action, lines_added=added, lines_removed=removed)

    for line in _lines(text):
        if remaining[0] > 0 or remaining[1] > 0:
            sign = line[:1]
            added += sign == "+"
            removed += sign == "-"
            remaining[0] -= sign not in ("+", "\\")
            remaining[1] -= sign not in ("-", "\\")
        elif line.startswith("--- "):
            yield from finish_file()
            old, new, added, removed = _file_name(line, "a/"), "", 0, 0
        elif line.startswith("+++ "):
            new = _file_name(line, "b/")
        elif hunk := _HUNK.match(line):
            remaining = [_hunk_size(hunk[1]), _hunk_size(hunk[2])]
    yield from finish_file()


def _lines(text: str) -> list[str]:
    # Not `splitlines`: it also splits at characters that are content in a file.
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _hunk_size(text: str | None) -> int:
    return 1 if text is None else int(text) if len(text) < 10 else 0


def _file_name(line: str, prefix: str) -> str:
    name = line[4:].split("\t", 1)[0].strip()
    return name.removeprefix(prefix)
