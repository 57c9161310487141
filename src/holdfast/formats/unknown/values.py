"""Values in hand-made session files: which shape they have, and what entries, times and shares are read from them.

Entries may be text, objects or lines of one text, and a status may be a word, a tick or the beginning of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import LONGEST_NAME, LONGEST_TEXT, relative_path
from holdfast.core.times import millis
from holdfast.formats.interface import Ground, Place
from holdfast.formats.moments import read

_BULLET: Final = re.compile(
    r"\s*(?:[-*+•◯]\s+|\d+[.)]\s+)?(?:\[(?P<tick>[ xX✓-])\]\s*|(?P<sign>[✅✓✔☑❌☐⬜⏳])\ufe0f?\s*)?(?P<text>.*\S)"
)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_THIS_CENTURY: Final = 946_684_800_000
_DONE_SIGNS: Final = "xX✓✔✅☑"

_NONE: Final = re.compile(
    r"(?:none|null|nil|nothing|n/?a|na|unknown|undefined|tbd|tba|todo|empty|not set|no|-+|—|\?+|\.+)"
    r"(?: (?:yet|so far|currently|known|at this time))?[.!]?|(?:none|n/a|nil)\s*[(;:,.–—-].*"
    r"|no (?:known |current |open )?blockers?\b.*"
    r"|\[[^\]]*\]|<[^>]*>",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:#[0-9a-f]{3,8}|[#~≈+-]?\d[\d.,:/ ]*(?:%|/\d+)?)\s*(?:\([^()]*\))?", re.IGNORECASE)
_VERSION: Final = re.compile(r"v?\d+(?:\.\d+)+(?:[-+][\w.]+)?|v\d+", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}[./]\d{1,2}[./]\d{4}")
_FILE: Final = re.compile(
    r"(?:[A-Za-z]:|\.{1,2}|~|[\w@.*{}()\[\]-]+)?(?:[\\/][\w@.*{}()\[\]+-]*)*(?:[\\/]|\.[a-z]\w{0,5})"
    r"|(?:[A-Za-z]:|\.{1,2}|~)?(?:[\\/][\w@.*{}()\[\]+-]*)+|[\w@.-]+(?:/[\w@.*-]+){2,}"
)
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://\S*|\S+@\S+\.\S+", re.IGNORECASE)
_HASH: Final = re.compile(r"[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_COMMIT: Final = re.compile(r"(?=[0-9a-f]*\d)(?P<hash>[0-9a-f]{7,40})(?![\w-])", re.IGNORECASE)
_BRANCH: Final = re.compile(r"(?P<name>[^\s~^:?*\[\\]+)(?: \(.*\))?")
_ID: Final = re.compile(r"[\w][\w.:#/-]{2,99}")
_LONGEST_SHAPE: Final = 2000  # characters: no name or list of names is longer
_WORD: Final = re.compile(r"[^\W\d_]+")


def _words(meaning: str, said: str) -> dict[str, str]:
    return {word.replace("_", " "): meaning for word in said.split()}


STATUSES: Final[Mapping[str, str]] = {
    **_words("done", "done complete completed finished closed success successful passed merged shipped resolved "
             "fixed implemented built delivered verified true yes"),
    **_words("doing", "in_progress inprogress active doing started starting wip ongoing current running "
             "partial partially_complete needs_review in_review review reviewing testing"),
    **_words("to do", "pending todo to_do open not_started planned planning queued new false no next ready idle "
             "upcoming exploring proposed draft deferred incomplete waiting_for_approval backlog"),
    **_words("blocked", "blocked waiting stuck on_hold"),
    **_words("dropped", "dropped cancelled canceled skipped abandoned removed wontfix reverted rejected"),
}  # fmt: skip
# Without the key's help, only these say that something is work: servers are "running" and checks "passed" too.
_OF_WORK: Final = frozenset(
    ["done", "complete", "completed", "finished", "pending", "todo", "blocked"]
) | {"in progress", "not started", "to do"}  # fmt: skip

# Where the words of an entry are, best first; and other things an entry says.
_TEXT: Final = (
    "text", "task", "title", "name", "content", "description", "subject", "step", "item", "what", "decision",
    "chosen", "choice", "action", "activity", "milestone", "issue", "blocker", "question", "lesson", "message",
    "note", "error", "summary", "goal", "objective", "focus", "primary", "feature", "work", "label", "point",
    "change", "id",
)  # fmt: skip
_PARTS: Final = ("tasks", "steps", "subtasks", "items")
_ENDINGS: Final = ("_task", "_name", "_title", "_description", "_text")
# What is said of one thing, and is none itself.
_ATTRIBUTES: Final = frozenset(
    ["priority", "branch", "severity", "owner", "assignee", "type", "category", "level", "worktree", "id", "date"]
)
_STATUS: Final = ("status", "state", "done", "completed", "complete", "checked", "passes", "passed")


class Item(NamedTuple):
    """One entry of a list of things: its text, where it stands, and everything else said of it."""

    text: str
    status: str | None
    more: Mapping[str, Json]
    place: Place


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def text_of(value: Json) -> str | None:
    """Text that can be stored; None of anything else, or of nothing."""
    if not isinstance(value, str):
        return None
    return _UNSTORABLE.sub("", value).strip()[: LONGEST_TEXT - 1] or None


def says_something(text: str) -> bool:
    """Whether a text says something: "none", a number, a version, a date, a path or a hash by itself does not."""
    plain = text.strip().strip("`'\"")
    if not any(letter.isalpha() for letter in plain):
        return False
    if len(plain) > _LONGEST_SHAPE:
        return True
    if any(shape.fullmatch(plain) for shape in (_NONE, _NUMBER, _VERSION, _DATE, _URL)):
        return False
    if _HASH.fullmatch(plain) and any(letter.isdigit() for letter in plain):
        return False
    return not all(_FILE.fullmatch(part.strip()) for part in re.split(r"[,;\n]", plain) if part.strip())


def is_prose(text: str) -> bool:
    """Several words, or a script that needs no spaces between them."""
    return len(_WORD.findall(text)) > 1 or not text.isascii()


def goal_of(value: Json) -> str | None:
    """The goal that a text, an object or a list states."""
    if isinstance(value, list):
        return next((text for entry in value if (text := goal_of(entry))), None)
    text = (
        _text_in({_plain(key): entry for key, entry in value.items()}) if isinstance(value, dict) else text_of(value)
    )
    return text if text and says_something(text) and status_word(text, whole=True) is None else None


def status_word(value: Json, *, whole: bool = False) -> str | None:
    """What a status means. Unless it is to be the `whole` text, it may begin a sentence: `DONE: live since May`."""
    if isinstance(value, bool):
        return "done" if value else "to do"
    if not isinstance(value, str):
        return None
    said = [word.lower() for word in _WORD.findall(value[:LONGEST_NAME].replace("_", " "))]
    tries = [said] if whole else [said, said[:2], said[:1], *([said[-2:], said[-1:]] if len(said) < 4 else [])]
    return next((found for part in tries if (found := STATUSES.get(" ".join(part)))), None)


def commit_of(value: Json) -> str | None:
    """The hash that a text begins with, or that an object names."""
    if isinstance(value, dict):
        plain = {_plain(key): entry for key, entry in value.items()}
        return next((found for key in ("hash", "sha", "commit", "id") if (found := commit_of(plain.get(key)))), None)
    begins = _COMMIT.match(value.strip()) if isinstance(value, str) else None
    return begins["hash"].lower() if begins else None


def branch_of(value: Json) -> str | None:
    """A branch by its name, or by an object that has one."""
    if isinstance(value, dict):
        plain = {_plain(key): entry for key, entry in value.items()}
        return next((found for key in ("name", "current", "branch") if (found := branch_of(plain.get(key)))), None)
    named = _BRANCH.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if named is None or _NONE.fullmatch(named["name"]) else text_of(named["name"][:LONGEST_NAME])


def moment(value: Json, ground: Ground) -> int | None:
    """A time as text, or as a number of seconds or milliseconds since 1970, of this century."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next((int(value * by) for by in (1, 1000) if _THIS_CENTURY <= value * by <= ground.now), None)
    try:
        return read(value, ground).ms if isinstance(value, str) else None
    except Invalid:
        return None


def assumed(value: Json, ground: Ground) -> str | None:
    """What had to be assumed to read a time, if anything."""
    try:
        return read(value, ground).assumed if isinstance(value, str) else None
    except Invalid:
        return None


def share(value: Json) -> float | None:
    """`0.6`, `60`, `"60%"`, `"60% (beta)"` and `"3/5"` are progress."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = re.match(r"\s*(\d+(?:\.\d+)?)\s*(%|/\s*(\d+(?:\.\d+)?))?\s*(?:\(.*\)\s*)?\Z", value)
        if found is None or (found[3] is not None and not float(found[3])):
            return None
        value = float(found[1]) / (float(found[3]) if found[3] else 100 if found[2] else 1)
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 (NaN is the number unlike itself)
        return None
    part = value / 100 if 1 < value <= 100 else value
    return float(part) if 0 <= part <= 1 else None


def path_of(named: str, ground: Ground) -> str | None:
    """A path in the project; None when it points elsewhere, or is no path. What is said after a dash is left out."""
    inside = re.split(r" [-–—(]", named, maxsplit=1)[0].strip()
    root = (ground.project.path or "").rstrip("/\\")
    if root and inside.startswith(root + "/"):
        inside = inside[len(root) + 1 :]
    try:
        return relative_path(inside)
    except Invalid:
        return None


# ── entries ──────────────────────────────────────────────────────────────────────────────────────────────


def items(value: Json, place: Place, noun: str = "") -> Iterator[Item]:
    """The entries of whatever holds several: a list, an object, or the lines of a text.

    `noun` is what a bare number in a list counts: `completed_phases: [1, 2]`.
    """
    if isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            if isinstance(entry, str):
                counted = f"{noun} {entry}" if noun and entry.strip().isdecimal() else entry
                yield from _line(" ".join(counted.split()), None, {}, (*place, position))
            elif isinstance(entry, int) and not isinstance(entry, bool) and noun:
                yield from _line(f"{noun} {entry}", None, {}, (*place, position))
            elif (
                not isinstance(entry, dict)
                or is_item(entry)
                or all(isinstance(part, list) for part in entry.values())
            ):
                yield from items(entry, (*place, position), noun)
            else:  # an object with no text of its own: the first sentence in it
                said = (text for part in entry.values() if (text := text_of(part)) and is_prose(text))
                yield from _entry(entry, (*place, position), named=next(said, ""))
    elif isinstance(value, dict):
        yield from _entry(value, place) if is_item(value) else _named_entries(value, place, noun)
    elif isinstance(value, str):
        for line in value.splitlines():
            yield from _line(line, None, {}, place)


def _entry(entry: Mapping[str, Json], place: Place, named: str = "") -> Iterator[Item]:
    plain = {_plain(key): value for key, value in entry.items()}
    text = text_of(plain.get("title")) or text_of(plain.get("name")) if named else _text_in(plain)
    text = text or named
    status = next((word for key in _STATUS if (word := status_word(plain.get(key))) is not None), None)
    parts = next(((key, part) for key, part in entry.items() if _plain(key) in _PARTS), None)
    if status is None and parts is not None and is_list_of_statuses(parts[1]):
        yield from items(parts[1], (*place, parts[0]))  # it is as far as its parts are
    elif text:
        yield from _line(" ".join(text.split()), status, plain, place)


def _named_entries(value: Mapping[str, Json], place: Place, noun: str) -> Iterator[Item]:
    statuses = is_map_of_statuses(dict(value))
    for key, entry in value.items():
        here = (*place, key)
        said = text_of(entry)
        if _plain(key) in _STATUS or _plain(key).rpartition("_")[2] in _ATTRIBUTES:
            continue  # said of the whole
        if isinstance(entry, bool):
            yield from _line(key, status_word(entry), {}, here)
        elif said is not None:
            status = status_word(said)
            if status is not None and (statuses or status_word(said, whole=True)):
                yield from _line(key, status, {"outcome": said} if is_prose(said) else {}, here)
            elif says_something(said):
                yield from _line(f"{key}: {' '.join(said.split())}", None, {}, here)
        elif isinstance(entry, dict) and any(_plain(inner) in _STATUS for inner in entry):
            yield from _entry(entry, here, named=key)
        else:
            yield from items(entry, here, noun)


def _line(written: str, status: str | None, more: Mapping[str, Json], place: Place) -> Iterator[Item]:
    found = _BULLET.match(written)
    text = text_of(found["text"]) if found else None
    if found is None or text is None or not says_something(text):
        return
    sign = found["tick"] or found["sign"]
    if status is None and sign:
        status = "done" if sign in _DONE_SIGNS else "to do"
    yield Item(text, status, more, place)


def _text_in(plain: Mapping[str, Json]) -> str | None:
    """By the names such things have, alone or as the end of a longer one (`taskName`, `task_description`)."""
    named = [key for key in _TEXT if key in plain]
    longer = [key for key in plain if key.count("_") == 1 and key.endswith(_ENDINGS)]
    return next((text for key in (*named, *longer) if (text := text_of(plain[key])) and says_something(text)), None)


def is_item(value: Mapping[str, Json]) -> bool:
    """Whether an object is one thing with a text of its own, rather than a holder of several."""
    return _text_in({_plain(key): entry for key, entry in value.items()}) is not None


def _plain(key: str) -> str:
    return "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", key[:LONGEST_NAME]).lower().split())


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────


def is_anything(value: Json) -> bool:  # noqa: ARG001 (a shape is asked of a value)
    return True


def is_list(value: Json) -> bool:
    return isinstance(value, list)


def is_name(value: Json) -> bool:
    """A short text on one line that is not a path."""
    text = text_of(value)
    return text is not None and len(text) <= LONGEST_NAME and "\n" not in text and says_something(text)


def is_id(value: Json) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value.strip()) is not None and not _NONE.fullmatch(value.strip())


def is_branch(value: Json) -> bool:
    return branch_of(value) is not None


def is_commit(value: Json) -> bool:
    return commit_of(value) is not None


def is_moment(value: Json) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value >= _THIS_CENTURY // 1000
    try:
        return isinstance(value, str) and (_DATE.fullmatch(value.strip()) is not None or millis(value.strip()) > 0)
    except Invalid:
        return False


def is_share(value: Json) -> bool:
    return share(value) is not None


def is_goal(value: Json) -> bool:
    return goal_of(value) is not None


def is_one(value: Json) -> bool:
    """One thing that reads as a goal, rather than a list."""
    return not isinstance(value, list) and is_goal(value)


def is_text(value: Json) -> bool:
    return not isinstance(value, dict) and is_remark(value)


def is_work(value: Json) -> bool:
    """Something in it reads as a piece of work; an object may hold lists of it under names of their own."""
    if isinstance(value, dict):
        return any(isinstance(entry, (list, dict, str, bool)) for entry in value.values())
    return next(items(value, (), "task"), None) is not None


def is_several(value: Json) -> bool:
    """A list, or an object of one kind of entry: lists, statuses, or texts by name."""
    if isinstance(value, dict):
        kinds = {
            list if isinstance(entry, list) else str if isinstance(entry, (str, bool)) else dict
            for key, entry in value.items()
            if _plain(key) not in _STATUS
        }
        return kinds in ({list}, {str}) or is_list_of_statuses(value)
    return is_list_of_text(value)


def is_remark(value: Json) -> bool:
    return next(items(value, ()), None) is not None


def is_list_of_text(value: Json) -> bool:
    return isinstance(value, list) and is_remark(value)


def is_list_of_paths(value: Json) -> bool:
    """A list of which every entry is a path, or an object that names one."""
    entries = value if isinstance(value, list) else []
    return bool(entries) and all(path_in(entry) is not None for entry in entries)


def path_in(entry: Json) -> str | None:
    """The path that an entry of a list is, or names."""
    if isinstance(entry, dict):
        plain = {_plain(key): value for key, value in entry.items()}
        return next((text for key in ("path", "file", "name") if (text := text_of(plain.get(key)))), None)
    text = text_of(entry) or ""
    head = re.split(r" [-–—(]", text, maxsplit=1)[0].strip()
    looks = bool(head) and " " not in head and ("." in head or "/" in head or (head == text and len(text) > 1))
    return text if looks else None


def is_list_of_statuses(value: Json) -> bool:
    """Several things, most of which say where they stand."""
    several = isinstance(value, list) or (isinstance(value, dict) and not is_item(value))
    found = list(items(value, ())) if several else []
    whole = max(len(found), len(value) if isinstance(value, dict) else 0)
    return bool(found) and 2 * sum(item.status is not None for item in found) > whole


def is_map_of_statuses(value: Json) -> bool:
    """An object that says of most names where they stand, at least half of the time in words said of work alone."""
    if not isinstance(value, dict) or len(value) < 2:
        return False
    said = [entry.get("status") if isinstance(entry, dict) else entry for entry in value.values()]
    statuses = [status for status in said if isinstance(status, str) and status_word(status) is not None]
    return 3 * len(statuses) > 2 * len(said) and 2 * sum(map(_is_of_work, statuses)) >= len(said)


def _is_of_work(text: str) -> bool:
    said = [word.lower() for word in _WORD.findall(text[:LONGEST_NAME].replace("_", " "))]
    return any(" ".join(said[:length]) in _OF_WORK for length in (1, 2))
