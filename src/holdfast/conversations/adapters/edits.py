"""What an edit did to a file, as far as an agent's own words make it sure: SHA-256 before and after, lines added and
removed, the files a patch names. Nothing is looked up on the disk; what is not certain is not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Literal, NamedTuple

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.fields import number, parts
from holdfast.conversations.signals import Edited
from holdfast.core.canonical import Json

COMPARED = 200  # lines on either side; comparing takes the square of it
MOST_FILES = 1000  # in one patch

_BEGIN = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE = re.compile(r"^\*\*\* Move to: (.+)$")
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NOWHERE = "/dev/null"


class LineCounts(NamedTuple):
    added: int | None = None
    removed: int | None = None


def digest(text: str | None) -> str | None:
    """The SHA-256 of a file with this content; none where characters were lost on the way to us."""
    if text is None or "\ufffd" in text:
        return None
    try:
        return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        return None


def counted(before: str, after: str) -> LineCounts:
    """How many lines differ; unknown where finding out would take long."""
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
    if len(old) > COMPARED or len(new) > COMPARED:
        return LineCounts()
    from difflib import SequenceMatcher

    same = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return LineCounts(len(new) - same, len(old) - same)


def patch_lines(response: Payload) -> LineCounts:
    """Lines by the patch that Claude Code puts beside a change."""
    added = removed = 0
    seen = False
    for hunk in parts(response, "structuredPatch", "structured_patch"):
        lines = hunk.get("lines")
        if type(lines) is not list:
            return LineCounts()
        seen = True
        added += sum(1 for line in lines if type(line) is str and line.startswith("+"))
        removed += sum(1 for line in lines if type(line) is str and line.startswith("-"))
    return LineCounts(added, removed) if seen else LineCounts()


def growth(response: Payload) -> int | None:
    """By how many lines the patch beside a change says the file grew."""
    grown = 0
    seen = False
    for hunk in parts(response, "structuredPatch", "structured_patch"):
        old, new = number(hunk, "oldLines"), number(hunk, "newLines")
        if old is None or new is None:
            return None
        seen = True
        grown += new - old
    return grown if seen else None


def exchanged(content: str, old: str, new: str, *, every: bool = False, grown: int | None = None) -> str | None:
    """The content after `old` was exchanged for `new`, if there is only one way to understand that.

    Deleting the text of a whole line may or may not take its line end along; `grown` decides which it was.
    """
    if not old:
        return new if not content else None
    found = content.count(old)
    if not found or (found > 1 and not every):
        return None
    result = content.replace(old, new)
    if new or old.endswith("\n") or f"{old}\n" not in content:
        return result
    shorter = content.replace(f"{old}\n", "")
    if grown is None:
        return None
    fits = [name for name in (result, shorter) if name.count("\n") - content.count("\n") == grown]
    return fits[0] if len(fits) == 1 else None


def in_turn(content: str, exchanges: Sequence[tuple[str, str, bool]]) -> str | None:
    """The content after several exchanges, one after the other."""
    now: str | None = content
    for old, new, every in exchanges:
        if now is None:
            return None
        now = exchanged(now, old, new, every=every)
    return now


def exact(path: str, content: str | None) -> bool:
    """Whether a file's content as an agent shows it is likely that of the file to the byte.

    Claude Code shows every line end as one character. Files with others are rare, except on Windows.
    """
    return content is None or "\n" not in content or not ("\\" in path or path[1:2] == ":")


def written(path: str, content: str, before: str | None, *, new: bool | None, agent: str | None) -> Edited:
    """A file that was written as a whole; `new` is unknown where the agent does not say."""
    created = new is True
    lines = counted("", content) if created else counted(before, content) if before is not None else LineCounts()
    return Edited(
        agent=agent,
        path=path,
        action="created" if created else "modified",
        before=digest(before) if not created and exact(path, before) else None,
        after=digest(content),
        lines_added=lines.added,
        lines_removed=lines.removed,
    )


def patched(text: str, *, agent: str | None = None) -> tuple[Edited, ...]:
    """The changes of a patch: in the form of `apply_patch` (`*** Update File: …`), or a unified diff."""
    told = _envelope(text, agent) if _has_envelope(text) else _unified(text, agent)
    return tuple(islice(told, MOST_FILES))


def patch_of(value: Json) -> str | None:
    """The patch in a value: the text itself, or the command line that hands it to `apply_patch`."""
    if type(value) is str:
        return value if _has_envelope(value) or "\n@@" in value else None
    if type(value) is list:
        return next((item for item in value if type(item) is str and _has_envelope(item)), None)
    return None


def _has_envelope(text: str) -> bool:
    return "*** Begin Patch" in text or text.startswith(("*** Add File: ", "*** Update File: ", "*** Delete File: "))


def _envelope(text: str, agent: str | None) -> Iterator[Edited]:
    path, kind, moved = "", "", ""
    added: list[str] = []
    removed = 0

    def told() -> Iterator[Edited]:
        if not path:
            return
        if kind == "Add":
            # The form knows only whole lines, each with its end.
            content = "".join(f"{line}\n" for line in added)
            yield Edited(
                agent=agent,
                path=path,
                action="created",
                after=digest(content),
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
            yield from told()
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
    yield from told()


def _unified(text: str, agent: str | None) -> Iterator[Edited]:
    old = new = ""
    added = removed = 0
    left = [0, 0]  # lines of this hunk still to come, on either side: in them, `---` is content

    def told() -> Iterator[Edited]:
        if not old or not new:
            return
        action: Literal["created", "modified", "deleted"] = (
            "created" if old == _NOWHERE else "deleted" if new == _NOWHERE else "modified"
        )
        path = old if action == "deleted" else new
        if path != _NOWHERE:
            yield Edited(agent=agent, path=path, action=action, lines_added=added, lines_removed=removed)

    for line in _lines(text):
        if left[0] > 0 or left[1] > 0:
            sign = line[:1]
            added += sign == "+"
            removed += sign == "-"
            left[0] -= sign not in ("+", "\\")
            left[1] -= sign not in ("-", "\\")
        elif line.startswith("--- "):
            yield from told()
            old, new, added, removed = _name(line, "a/"), "", 0, 0
        elif line.startswith("+++ "):
            new = _name(line, "b/")
        elif hunk := _HUNK.match(line):
            left = [_size(hunk[1]), _size(hunk[2])]
    yield from told()


def _lines(text: str) -> list[str]:
    # Not `splitlines`: that also parts lines at characters which in a file are content.
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _size(text: str | None) -> int:
    return 1 if text is None else int(text) if len(text) < 10 else 0


def _name(line: str, prefix: str) -> str:
    name = line[4:].split("\t", 1)[0].strip()
    return name.removeprefix(prefix)
