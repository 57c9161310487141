"""Edit TOML settings of other programs, with the guarantees of `json_edit`: a table of our own is added at the end
and removed again, everything else stays byte for byte.

There is no tree with positions here. The text is changed, and the change counts only if a real parser then reads
exactly the same data, with or without our table: anything else is refused.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.conversations.connect.agent_settings import SettingsEntry
from holdfast.conversations.connect.json_edit import EditReceipt, InsertedText, Ours, Path, Value
from holdfast.conversations.connect.mcp_entry import call_of
from holdfast.core import toml_text
from holdfast.core.errors import Invalid
from holdfast.machine.os_errors import display_path

_MARK: Final = "\ufeff"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_TRIES: Final = 2000  # ends of a table that are tried

# A parsed file. Dates and times in it are only compared.
Table = dict[str, object]


class _Number(str):
    """A number as written: NaN as a float would not equal itself."""

    __slots__ = ()


def plain(text: str, file: str) -> Table:
    """The file as data."""
    try:
        return _read(text)
    except ValueError as error:
        raise Invalid(
            f"{display_path(file)} is not TOML: {error}",
            hint="Fix that, then try again; nothing was changed.",
            file=file,
        ) from None


def texts(text: str, file: str) -> Iterator[str]:
    """The call of each entry that starts something."""
    waiting: list[object] = [plain(text, file)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "command" in item:
                yield call_of(item)
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────


def insert(text: str, entries: Iterable[SettingsEntry], file: str) -> tuple[str, EditReceipt]:
    """The text with these tables at its end. Existing ones stay as they are."""
    receipt = EditReceipt()
    for entry in entries:
        before = plain(text, file)
        if _value_at(before, entry.at) is not None:
            continue
        added = _separator(text) + _written(entry, "\r\n" if "\r\n" in text else "\n")
        after = _read_or_none(text + added)
        if after is None or _value_at(after, entry.at) != entry.value or not _alike(before, after, entry.at):
            raise Invalid(
                f"in {display_path(file)}, {entry.at[0]} is written in a form that cannot be extended",
                hint=f"Write each in a table of its own, [{entry.at[0]}.NAME], or connect with --no-mcp; "
                "nothing was changed.",
                file=file,
            )
        text += added
        receipt.values.append(Value(entry.at, entry.value))
        receipt.gaps.append(InsertedText(entry.at, added))
    return text, receipt


def _separator(text: str) -> str:
    """The blank lines between a text and a table after it."""
    end = "\r\n" if "\r\n" in text else "\n"
    if not text.strip(_MARK):
        return ""
    return ("" if text.endswith("\n") else end) + end


def _written(entry: SettingsEntry, end: str) -> str:
    values: Table = {**entry.value} if isinstance(entry.value, dict) else {}
    return "".join(f"{line}{end}" for line in _lines(entry.at, values))


def _lines(at: Path, values: Table) -> Iterator[str]:
    """The lines of a table and its subtables: a person may have added some to our server."""
    yield f"[{'.'.join(_key(name) for name in at)}]"
    yield from (f"{_key(name)} = {_value(value)}" for name, value in values.items() if not isinstance(value, dict))
    for name, value in values.items():
        if isinstance(value, dict):
            yield ""
            yield from _lines((*at, name), value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())} }}"
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    # Strings, numbers and booleans are written as in JSON, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# ── taking out ───────────────────────────────────────────────────────────────────────────────────────────


def remove(text: str, ours: Ours, receipt: EditReceipt | None, file: str, *, whole: Iterable[Path] = ()) -> str:
    """The text without our tables and what was added to them, wherever somebody moved them."""
    known = [value.at for value in receipt.values] if receipt is not None else []
    for at in dict.fromkeys([*known, *whole]):
        if not ours(call_of(_value_at(plain(text, file), at))):
            continue
        exact = [gap.text for gap in receipt.gaps if gap.at == at] if receipt is not None else []
        rest = _as_added(text, at, exact)
        text = _wherever(text, at, file) if rest is None else rest
    return text


def _as_added(text: str, at: Path, exact: list[str]) -> str | None:
    for added in exact:
        rest = text.replace(added, "", 1)
        if text.count(added) == 1 and _is_sound(text, rest, at, done=True):
            return rest
    return None


def _wherever(text: str, at: Path, file: str) -> str:
    """Remove table by table: a server's subtables may be anywhere in the file."""
    mark, text = text[: text.startswith(_MARK)], text.removeprefix(_MARK)
    while _value_at(plain(text, file), at) is not None:
        rest = next((name for name in _without_one(text, at) if _is_sound(text, name, at)), None)
        if rest is None:
            raise Invalid(
                f"in {display_path(file)}, {'.'.join(at)} is written in a form from which it cannot be removed",
                hint=f"Remove {'.'.join(at)} by hand, then try again; nothing was changed.",
                file=file,
            )
        text = rest
    return mark + text


def _without_one(text: str, at: Path) -> Iterator[str]:
    """The text without one of the tables, for each possible end of it."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    heads = [number for number, line in enumerate(lines) if line.lstrip(" \t").startswith("[")]
    tries = 0
    for start in (head for head in heads if _is_head(lines[head], at)):
        for end in (*(head for head in heads if head > start), len(lines)):
            tries += 1
            if tries > _MAX_TRIES:
                return
            last = end
            # Comments before the next table belong to that one.
            while last > start + 1 and lines[last - 1].strip()[:1] in ("", "#"):
                last -= 1
            first = start - 1 if start and not lines[start - 1].strip() else start
            yield "".join((*lines[:first], *lines[last:]))
            if first != start:
                yield "".join((*lines[:start], *lines[last:]))


def _is_head(line: str, at: Path) -> bool:
    data = _read_or_none(line.strip())
    return data is not None and _value_at(data, at) is not None


# ── what a parser says ───────────────────────────────────────────────────────────────────────────────────


def _read(text: str) -> Table:
    return toml_text.loads(text.removeprefix(_MARK), parse_float=_Number)


def _read_or_none(text: str) -> Table | None:
    try:
        return _read(text)
    except ValueError:
        return None


def _is_sound(before: str, after: str, at: Path, *, done: bool = False) -> bool:
    """Whether nothing but (a part of) what is at a path was removed."""
    old, new = _read_or_none(before), _read_or_none(after)
    if old is None or new is None or not _alike(old, new, at):
        return False
    value = _value_at(new, at)
    return value is None if done else value != _value_at(old, at)


def _value_at(data: Table, at: Path) -> object:
    value: object = data
    for key in at:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def _alike(first: Table, second: Table, except_at: Path) -> bool:
    """Whether two files are equal except for what is at a path, and for tables that only hold it."""
    return _without(first, except_at) == _without(second, except_at)


def _without(data: Table, at: Path) -> Table:
    key, *rest = at
    if key not in data:
        return data
    others = {name: value for name, value in data.items() if name != key}
    if not rest:
        return others
    inside = data[key]
    if not isinstance(inside, dict):
        return data
    below = _without(inside, tuple(rest))
    return others | ({key: below} if below else {})
