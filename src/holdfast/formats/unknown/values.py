"""Read values of hand-made session files: their shapes, entries, times, statuses and shares.

Entries may be text, objects or lines of a text; a status may be a word, a tick or the start of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import MAX_NAME_LENGTH, MAX_TEXT_LENGTH, check_relative_path
from holdfast.core.times import HOUR, MINUTE, SECOND, parse_time
from holdfast.formats.base import ImportContext, Place
from holdfast.formats.timestamps import read_time

# Signs for the status of work.
_SIGNS: Final[Mapping[str, str]] = {
    **dict.fromkeys("✅✓✔☑xX", "done"), **dict.fromkeys("🚧🔄~/", "doing"),
    **dict.fromkeys("❌☐⬜⏳ -", "to do"), **dict.fromkeys("⛔🚫", "blocked"),
}  # fmt: skip
SIGNS: Final = "".join(sign for sign in _SIGNS if not sign.isascii())
_BULLET: Final = re.compile(
    rf"\s*(?:[-*+•◯]\s+|\d+[.)]\s+)?(?:\[(?P<tick>[ xX✓~/-])\]\s*)?(?:(?P<sign>[{SIGNS}])\ufe0f?\s*)?(?P<text>.*\S)"
)
_SIGN_AT_END: Final = re.compile(r"(?P<text>.*\w[)\]\"'`.!]?)\W*[✅✔☑]\ufe0f?\W*(?i:done|completed?|finished)?\W*")
_STRUCK: Final = re.compile(r"~~(?P<text>[^~]+)~~\W*")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_THIS_CENTURY: Final = 946_684_800_000
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = f"(?:{'|'.join(_MONTHS)})[a-z]{{0,6}}"
# A date as people write it: 2026-11-04, Nov 4, 2026 or 4 November 2026.
DAY: Final = (
    rf"(?i:\b\d{{4}}-\d\d-\d\d\b|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b"
    rf"|\b\d{{1,2}} {_MONTH}\.?,? \d{{4}}\b)"
)
_DAY: Final = re.compile(rf"(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},? )?(?P<day>{DAY})")
_AT_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?) ?(?:UTC|GMT)")
_REMARK: Final = re.compile(r"\s*\([^()]*\)\Z")
_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ms", "millisecond"), 1), **dict.fromkeys(("s", "sec", "second"), SECOND),
    **dict.fromkeys(("m", "min", "minute"), MINUTE), **dict.fromkeys(("h", "hr", "hour"), HOUR),
}  # fmt: skip
_DURATION: Final = re.compile(r"[~≈]?\s*((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)", re.IGNORECASE)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_MAX_DURATION: Final = 31 * 24 * HOUR

_NONE: Final = re.compile(
    r"(?:none|null|nil|nothing|n/?a|na|unknown|undefined|tbd|tba|todo|empty|not set|no|-+|—|\?+|\.+)"
    r"(?: (?:yet|so far|currently|known|at this time))?[.!]?|(?:none|n/a|nil)\s*[(;:,.–—-].*"
    r"|none (?:outstanding|open|remaining|found|identified|reported|from this session)[.!]?"
    r"|no (?:known |current |open )?blockers?\b.*"
    r"|\[[^\]]*\](?: \([^()]*\))?|<[^>]*>",
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
_ANY_HASH: Final = re.compile(r"[0-9a-f]{7,40}", re.IGNORECASE)
_COMMIT_KEYS: Final = ("hash", "sha", "commit", "commit_hash", "commit_sha", "id")
_BRANCH: Final = re.compile(r"(?P<name>[^\s~^:?*\[\\]+)(?: \(.*\))?")
_ID: Final = re.compile(r"[\w][\w.:#/-]{2,99}")
_MAX_SHAPE_LENGTH: Final = 2000  # names and lists of names are shorter
_WORD: Final = re.compile(r"[^\W\d_]+")


def _words(meaning: str, words: str) -> dict[str, str]:
    return {word.replace("_", " "): meaning for word in words.split()}


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
# Under a key that does not say that it is work, only these mark it: servers are "running" and checks "passed" too.
_WORK_STATUSES: Final = frozenset(
    ["done", "complete", "completed", "finished", "pending", "todo", "blocked"]
) | {"in progress", "not started", "to do"}  # fmt: skip

# Keys that may hold the text of an entry, best first.
_TEXT_KEYS: Final = (
    "text", "task", "title", "name", "content", "description", "subject", "step", "item", "what", "decision",
    "chosen", "choice", "action", "activity", "milestone", "issue", "blocker", "question", "lesson", "message",
    "note", "msg", "error", "summary", "goal", "objective", "focus", "primary", "feature", "work", "label", "point",
    "change", "id",
)  # fmt: skip
_PART_KEYS: Final = ("tasks", "steps", "subtasks", "items")
_TEXT_KEY_ENDINGS: Final = ("_task", "_name", "_title", "_description", "_text")
# Attributes of an entry, which are not entries.
_ATTRIBUTES: Final = frozenset(
    ["priority", "branch", "severity", "owner", "assignee", "type", "category", "level", "worktree", "id", "date"]
)
# Words for time or order: as keys, they are not part of the entry's text.
_TIME_WORDS: Final = frozenset([
    "at", "on", "by", "date", "time", "timestamp", "ts", "due", "deadline", "until", "since", "started", "start",
    "created", "updated", "modified", "ended", "end", "finished", "completed", "last", "eta", "target",
])  # fmt: skip
_ORDER_WORDS: Final = frozenset([
    "start", "begin", "with", "here", "then", "first", "second", "third", "next", "after", "that", "finally", "later",
    "now", "immediate", "immediately", "main", "primary", "step", "task", "action", "item", "description",
])  # fmt: skip
_STATUS_KEYS: Final = ("status", "state", "done", "completed", "complete", "checked", "passes", "passed")


class ListItem(NamedTuple):
    """One entry of a list: text, status, other fields, place."""

    text: str
    status: str | None
    more: Mapping[str, Json]
    place: Place


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def text_of(value: Json) -> str | None:
    """Text that can be stored; None for anything else and for blank text."""
    if not isinstance(value, str):
        return None
    return _UNSTORABLE.sub("", value).strip()[: MAX_TEXT_LENGTH - 1] or None


def has_content(text: str) -> bool:
    """Does a text have content? "none", a number, a version, a date, a path or a hash alone has none."""
    plain = text.strip().strip("`'\"")
    if not any(letter.isalpha() for letter in plain):
        return False
    if len(plain) > _MAX_SHAPE_LENGTH:
        return True
    if any(shape.fullmatch(plain) for shape in (_NONE, _NUMBER, _VERSION, _DATE, _DAY, _AT_UTC, _URL)):
        return False
    if _HASH.fullmatch(plain) and any(letter.isdigit() for letter in plain):
        return False
    return not all(_FILE.fullmatch(part.strip()) for part in re.split(r"[,;\n]", plain) if part.strip())


def is_prose(text: str) -> bool:
    """Several words, or a script without spaces."""
    return len(_WORD.findall(text)) > 1 or not text.isascii()


def goal_of(value: Json) -> str | None:
    """The goal that a text, an object or a list states."""
    if isinstance(value, list):
        return next((text for entry in value if (text := goal_of(entry))), None)
    text = (
        _text_in({_plain(key): entry for key, entry in value.items()}) if isinstance(value, dict) else text_of(value)
    )
    return text if text and has_content(text) and status_word(text, whole=True) is None else None


def status_word(value: Json, *, whole: bool = False) -> str | None:
    """The meaning of a status. Unless `whole`, it may start a sentence: `DONE: live since May`."""
    if isinstance(value, bool):
        return "done" if value else "to do"
    if not isinstance(value, str):
        return None
    words = [word.lower() for word in _WORD.findall(value[:MAX_NAME_LENGTH].replace("_", " "))]
    if not words and value.strip("\ufe0f "):
        return _SIGNS.get(value.strip("\ufe0f []"), None) if len(value) < 5 else None
    tries = [words] if whole else [words, words[:2], words[:1], *([words[-2:], words[-1:]] if len(words) < 4 else [])]
    return next((meaning for part in tries if (meaning := STATUSES.get(" ".join(part)))), None)


def commit_of(value: Json) -> str | None:
    """The hash at the start of a text or in an object."""
    if isinstance(value, dict):
        plain = {_plain(key): entry for key, entry in value.items()}
        return next((sha for key in _COMMIT_KEYS if (sha := _commit_under_key(plain.get(key)))), None)
    begins = _COMMIT.match(value.strip()) if isinstance(value, str) else None
    return begins["hash"].lower() if begins else None


def _commit_under_key(value: Json) -> str | None:
    """The hash under a key for hashes: it may have no digit."""
    text = value.strip() if isinstance(value, str) else ""
    return text.lower() if _ANY_HASH.fullmatch(text) else commit_of(text)


def branch_of(value: Json) -> str | None:
    """A branch by its name, or by an object that has one."""
    if isinstance(value, dict):
        plain = {_plain(key): entry for key, entry in value.items()}
        return next((name for key in ("name", "current", "branch") if (name := branch_of(plain.get(key)))), None)
    named = _BRANCH.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if named is None or _NONE.fullmatch(named["name"]) else text_of(named["name"][:MAX_NAME_LENGTH])


def time_of(value: Json, context: ImportContext) -> int | None:
    """A time as text, or as a number of seconds or milliseconds since 1970, of this century."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next((int(value * by) for by in (1, 1000) if _THIS_CENTURY <= value * by <= context.now), None)
    try:
        return read_time(with_numeric_date(value), context).ms if isinstance(value, str) else None
    except Invalid:
        return None


def with_numeric_date(text: str) -> str:
    """A time with its date in digits: `Nov 4, 2026` becomes 2026-11-04."""
    bare = _REMARK.sub("", text[:MAX_NAME_LENGTH].strip())
    utc = _AT_UTC.fullmatch(bare)
    if utc is not None:
        return f"{utc[1]}T{utc[2]}{':00' if len(utc[2]) < 6 else ''}Z"
    named = _DAY.fullmatch(bare)
    return bare if named is None else day_of(named["day"]) or bare


def day_of(text: str) -> str | None:
    """A date as `2026-11-04`."""
    figures, month = re.findall(r"\d+", text), re.search("[a-zA-Z]{3}", re.sub(r"\d(?:st|nd|rd|th)", "", text))
    if month is None:
        return text
    if month[0].lower() not in _MONTHS or len(figures) != 2:
        return None
    day, year = figures
    return f"{year}-{_MONTHS.index(month[0].lower()) + 1:02}-{int(day):02}"


def duration(value: Json, words: tuple[str, ...]) -> int | None:
    """A duration in milliseconds: `"1h 35m"`, or a number in the unit its key names."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value[:MAX_NAME_LENGTH].strip())
        parts = _PART.findall(match[1]) if match is not None else []
        units = [_UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s")) for _, unit in parts]
        if not parts or None in units:
            return None
        total = sum(float(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
    else:
        named_units = [_UNITS[word] for word in words if word in _UNITS]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or len(named_units) != 1:
            return None
        total = value * named_units[0]
    return int(total) if 0 < total <= _MAX_DURATION else None


def assumption_of(value: Json, context: ImportContext) -> str | None:
    """What had to be assumed to read a time, if anything."""
    try:
        return read_time(with_numeric_date(value), context).assumed if isinstance(value, str) else None
    except Invalid:
        return None


def fraction(value: Json) -> float | None:
    """`0.6`, `60`, `"60%"`, `"60% (beta)"` and `"3/5"` are progress."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        match = re.match(r"\s*(\d+(?:\.\d+)?)\s*(%|/\s*(\d+(?:\.\d+)?))?\s*(?:\(.*\)\s*)?\Z", value)
        if match is None or (match[3] is not None and not float(match[3])):
            return None
        value = float(match[1]) / (float(match[3]) if match[3] else 100 if match[2] else 1)
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 (NaN)
        return None
    part = value / 100 if 1 < value <= 100 else value
    return float(part) if 0 <= part <= 1 else None


def path_of(named: str, context: ImportContext) -> str | None:
    """A path in the project; None when it is outside or not a path. Text after a dash is ignored."""
    inside = re.split(r" [-–—(]", named, maxsplit=1)[0].strip()
    root = (context.project.path or "").rstrip("/\\")
    if root and inside.startswith(root + "/"):
        inside = inside[len(root) + 1 :]
    try:
        return check_relative_path(inside)
    except Invalid:
        return None


# ── entries ──────────────────────────────────────────────────────────────────────────────────────────────


def items(value: Json, place: Place, noun: str = "") -> Iterator[ListItem]:
    """The entries of a list, an object, or the lines of a text.

    `noun` is what a bare number in a list counts: `completed_phases: [1, 2]`.
    """
    if isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            if isinstance(entry, str):
                labelled = f"{noun} {entry}" if noun and entry.strip().isdecimal() else entry
                yield from _item_in_line(" ".join(labelled.split()), None, {}, (*place, position))
            elif isinstance(entry, int) and not isinstance(entry, bool) and noun:
                yield from _item_in_line(f"{noun} {entry}", None, {}, (*place, position))
            elif (
                not isinstance(entry, dict)
                or is_item(entry)
                or all(isinstance(part, list) for part in entry.values())
            ):
                yield from items(entry, (*place, position), noun)
            else:  # an object without a text key: the first sentence in it
                sentences = (text for part in entry.values() if (text := text_of(part)) and is_prose(text))
                yield from _items_in_entry(entry, (*place, position), named=next(sentences, ""))
    elif isinstance(value, dict):
        yield from _items_in_entry(value, place) if is_item(value) else _named_entries(value, place, noun)
    elif isinstance(value, str):
        for line in value.splitlines():
            yield from _item_in_line(line, None, {}, place)


def _items_in_entry(entry: Mapping[str, Json], place: Place, named: str = "") -> Iterator[ListItem]:
    plain = {_plain(key): value for key, value in entry.items()}
    text = text_of(plain.get("title")) or text_of(plain.get("name")) if named else _text_in(plain)
    text = text or named
    status = status_in(entry)
    parts = next(((key, part) for key, part in entry.items() if _plain(key) in _PART_KEYS), None)
    if status is None and parts is not None and is_list_of_statuses(parts[1]):
        yield from items(parts[1], (*place, parts[0]))  # its parts have the statuses
    elif text:
        yield from _item_in_line(" ".join(text.split()), status, plain, place)


def status_in(entry: Mapping[str, Json]) -> str | None:
    """The status of an entry, by its own fields."""
    plain = {_plain(key): value for key, value in entry.items()}
    return next((word for key in _STATUS_KEYS if (word := status_word(plain.get(key))) is not None), None)


def _named_entries(value: Mapping[str, Json], place: Place, noun: str) -> Iterator[ListItem]:
    statuses = is_map_of_statuses(dict(value))
    for key, entry in value.items():
        key_place = (*place, key)
        text = text_of(entry)
        if _plain(key) in _STATUS_KEYS or _plain(key).rpartition("_")[2] in _ATTRIBUTES:
            continue  # an attribute of the whole
        if isinstance(entry, bool):
            yield from _item_in_line(key, status_word(entry), {}, key_place)
        elif text is not None and is_time(text) and not _TIME_WORDS & set(_plain(key).split("_")):
            yield from _item_in_line(key, None, {"at": text}, key_place)  # a name with its time
        elif text is not None and set(_plain(key).split("_")) <= _ORDER_WORDS:
            yield from _item_in_line(text, None, {}, key_place)
        elif text is not None:
            status = status_word(text)
            if status is not None and (statuses or status_word(text, whole=True)):
                yield from _item_in_line(key, status, {"outcome": text} if is_prose(text) else {}, key_place)
            elif has_content(text):
                yield from _item_in_line(f"{key}: {' '.join(text.split())}", None, {}, key_place)
        elif isinstance(entry, dict) and any(_plain(inner) in _STATUS_KEYS for inner in entry):
            yield from _items_in_entry(entry, key_place, named=key)
        else:
            yield from items(entry, key_place, noun)


def _item_in_line(written: str, status: str | None, extra: Mapping[str, Json], place: Place) -> Iterator[ListItem]:
    match = _BULLET.match(written)
    text = text_of(match["text"]) if match else None
    if match is None or text is None:
        return
    marked = _SIGNS[sign] if (sign := match["tick"] or match["sign"]) else None
    struck, ended = _STRUCK.fullmatch(text), _SIGN_AT_END.fullmatch(text) if len(text) <= _MAX_SHAPE_LENGTH else None
    if struck is not None:  # crossed out: done if ticked, else dropped
        text, marked = struck["text"].strip(), marked if marked == "done" else "dropped"
    elif ended is not None and match["tick"] is None:
        text, marked = ended["text"].strip(), marked or "done"
    if has_content(text):
        yield ListItem(text, status or marked, extra, place)


def _text_in(plain: Mapping[str, Json]) -> str | None:
    """The text under a usual key, or one that ends like it (`taskName`, `task_description`)."""
    named = [key for key in _TEXT_KEYS if key in plain]
    longer = [key for key in plain if key.count("_") == 1 and key.endswith(_TEXT_KEY_ENDINGS)]
    return next((text for key in (*named, *longer) if (text := text_of(plain[key])) and has_content(text)), None)


def is_item(value: Mapping[str, Json]) -> bool:
    """Whether an object is one entry with a text, rather than a container."""
    return _text_in({_plain(key): entry for key, entry in value.items()}) is not None


def _plain(key: str) -> str:
    return "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", key[:MAX_NAME_LENGTH]).lower().split())


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────


def is_anything(value: Json) -> bool:  # noqa: ARG001 (shapes take a value)
    return True


def is_list(value: Json) -> bool:
    return isinstance(value, list)


def is_name(value: Json) -> bool:
    """A short text on one line that is not a path."""
    text = text_of(value)
    return text is not None and len(text) <= MAX_NAME_LENGTH and "\n" not in text and has_content(text)


def is_id(value: Json) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value.strip()) is not None and not _NONE.fullmatch(value.strip())


def is_branch(value: Json) -> bool:
    return branch_of(value) is not None


def is_commit(value: Json) -> bool:
    return commit_of(value) is not None


def is_time(value: Json) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value >= _THIS_CENTURY // 1000
    if not isinstance(value, str):
        return False
    text = with_numeric_date(value)
    try:
        return _DATE.fullmatch(text) is not None or parse_time(text) > 0
    except Invalid:
        return False


def is_duration(value: Json) -> bool:
    """A number, whose unit is in its key, or text such as `1h 35m`."""
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or duration(value, ()) is not None


def is_list_of_commits(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(commit_of(entry) is not None for entry in value)


def is_fraction(value: Json) -> bool:
    return fraction(value) is not None


def is_goal(value: Json) -> bool:
    return goal_of(value) is not None


def is_single_goal(value: Json) -> bool:
    """One goal, not a list."""
    return not isinstance(value, list) and is_goal(value)


def is_text(value: Json) -> bool:
    return not isinstance(value, dict) and is_remark(value)


def has_work(value: Json) -> bool:
    """Does it contain work? An object may contain lists of it under any name."""
    if isinstance(value, dict):
        return any(isinstance(entry, (list, dict, str, bool)) for entry in value.values())
    return next(items(value, (), "task"), None) is not None


def is_task_list(value: Json) -> bool:
    """A list, or an object of one kind of entry: lists, statuses, or texts by name."""
    if isinstance(value, dict):
        kinds = {
            list if isinstance(entry, list) else str if isinstance(entry, (str, bool)) else dict
            for key, entry in value.items()
            if _plain(key) not in _STATUS_KEYS
        }
        return kinds in ({list}, {str}) or is_list_of_statuses(value)
    return is_list_of_text(value)


def is_remark(value: Json) -> bool:
    return next(items(value, ()), None) is not None


def is_list_of_text(value: Json) -> bool:
    return isinstance(value, list) and is_remark(value)


def is_list_of_paths(value: Json) -> bool:
    """A list of paths or objects with a path."""
    entries = value if isinstance(value, list) else []
    return bool(entries) and all(path_in(entry) is not None for entry in entries)


def path_in(entry: Json) -> str | None:
    """The path in an entry of a list."""
    if isinstance(entry, dict):
        plain = {_plain(key): value for key, value in entry.items()}
        return next((text for key in ("path", "file", "name") if (text := text_of(plain.get(key)))), None)
    text = text_of(entry) or ""
    head = re.split(r" [-–—(]", text, maxsplit=1)[0].strip()
    looks = bool(head) and " " not in head and ("." in head or "/" in head or (head == text and len(text) > 1))
    return text if looks else None


def is_list_of_statuses(value: Json) -> bool:
    """Several entries, most with a status."""
    several = isinstance(value, list) or (isinstance(value, dict) and not is_item(value))
    entries = list(items(value, ())) if several else []
    total = max(len(entries), len(value) if isinstance(value, dict) else 0)
    return bool(entries) and 2 * sum(item.status is not None for item in entries) > total


def is_map_of_statuses(value: Json) -> bool:
    """An object with a status for most names, at least half of them words used for work only."""
    if not isinstance(value, dict) or len(value) < 2:
        return False
    stated = [entry.get("status") if isinstance(entry, dict) else entry for entry in value.values()]
    statuses = [status for status in stated if isinstance(status, str) and status_word(status) is not None]
    return 3 * len(statuses) > 2 * len(stated) and 2 * sum(map(_is_work_status, statuses)) >= len(stated)


def is_marked_work(value: Json) -> bool:
    """Work whatever its key: a map of statuses, a list of ticks, a table with a status column."""
    if not isinstance(value, list):
        return is_map_of_statuses(value)
    marked = 0
    for entry in value:
        if isinstance(entry, dict):
            marked += any(_plain(key) in _STATUS_KEYS and _is_status(stated) for key, stated in entry.items())
        elif isinstance(entry, str):
            match = _BULLET.match(entry)
            marked += match is not None and match["tick"] is not None
    return 2 * marked > len(value)


def _is_status(value: Json) -> bool:
    """A status in words used for work only, or a sign."""
    if not isinstance(value, str) or status_word(value) is None:
        return False
    return _is_work_status(value) or not any(letter.isalpha() for letter in value)


def _is_work_status(text: str) -> bool:
    words = [word.lower() for word in _WORD.findall(text[:MAX_NAME_LENGTH].replace("_", " "))]
    return any(" ".join(words[:length]) in _WORK_STATUSES for length in (1, 2))
