"""Describe a format's documents as tables of fields, one line each, from which follows all that is per field.

From a table follow the published JSON Schema, with it the strict rules of single fields and the quick verdict, and
the repairs of other programs' spellings, each with a note. What concerns several fields are plain functions, which
the table lists: `rules` report problems, `repairs` fix them. A value that cannot be used is kept under
`<key>_as_found`, or refused, as the table declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import ClassVar, Final, TypeAlias

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats import timestamps
from holdfast.formats.base import KEPT_SUFFIX, Document, ImportContext, Problem, RepairedDocument
from holdfast.formats.document_paths import format_place
from holdfast.formats.repair import Repair, text_of
from holdfast.formats.schema import problems_by_schema

_Schema: TypeAlias = dict[str, Json]
_NUMBER: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(%?)\s*\Z", re.ASCII)
_YES: Final = {"true": True, "yes": True, "false": False, "no": False}
# Numbers from here on are milliseconds since 1970, smaller ones seconds.
_MILLIS_FROM: Final = 100_000_000_000
_MILLIS: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
# The comment that marks a pattern of mere spelling: other spellings have a clear meaning, too.
_LENIENT: Final[_Schema] = {"$comment": "Other spellings are imported, too."}


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────


class Occurrence(msgspec.Struct, frozen=True):
    """May a field be absent, or null?"""

    required: bool
    nullable: bool


REQUIRED: Final = Occurrence(required=True, nullable=False)
OPTIONAL: Final = Occurrence(required=False, nullable=False)
NULLABLE: Final = Occurrence(required=False, nullable=True)
REQUIRED_OR_NULL: Final = Occurrence(required=True, nullable=True)


class Field(msgspec.Struct, frozen=True):
    """One field: its name, the kind of its value, and what it means, as the schema's readers see it."""

    name: str
    kind: Kind
    meaning: str = ""
    occurs: Occurrence = NULLABLE
    # Other programs' names for it, best first.
    also: tuple[str, ...] = ()
    # What a missing field is taken as, or the function that decides it.
    default: Json | Callable[[Repair], Json] | msgspec.UnsetType = msgspec.UNSET
    # What else is repaired in this field alone.
    repair: Callable[[Repair, str], None] | None = None

    def schema(self) -> _Schema:
        rules = self.kind.schema()
        if self.occurs.nullable and "type" in rules:
            rules["type"] = [rules["type"], "null"]
            if isinstance(words := rules.get("enum"), list):
                words.append(None)
        elif self.occurs.nullable:
            rules = {"anyOf": [{"type": "null"}, rules]}
        return ({"description": self.meaning} if self.meaning else {}) | rules


# A step of repairing an object: a field, fields whose other names are looked up together, or a function. A function
# that answers False leaves the object out.
Step: TypeAlias = "str | tuple[str, ...] | Callable[[Repair], bool | None]"


class Object(msgspec.Struct, frozen=True):
    """One kind of object: its fields, in the order of the schema, and what concerns several of them."""

    name: str
    meaning: str
    fields: tuple[Field, ...]
    # The title of the schema, if the object is a document.
    title: str = ""
    # Is it described where it is used, not among the definitions?
    inline: bool = False
    # Is the document's schema published with meanings last, and words without their type?
    terse: bool = False
    # Rules of a document, in the order of their problems; an import accepts violations of `soft_rules`.
    rules: tuple[Callable[[Document], Iterable[Problem]], ...] = ()
    soft_rules: tuple[Callable[[Document], Iterable[Problem]], ...] = ()
    # Repairs in the order of their notes; by default every field, in the order of the schema.
    repairs: tuple[Step, ...] = ()
    # Are values that cannot be used kept next to their place? If not, the document is refused.
    keeps_unusable: bool = True

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def schema(self) -> _Schema:
        required: list[Json] = [field.name for field in self.fields if field.occurs.required]
        return {
            "description": self.meaning,
            "type": "object",
            **({"required": required} if required else {}),
            "properties": {field.name: field.schema() for field in self.fields},
        }


def document_schema(table: Object) -> _Schema:
    """The JSON Schema 2020-12 of a document."""
    definitions: _Schema = {inner.name: inner.schema() for inner in _definitions(table)}
    rules: _Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": table.title,
        **table.schema(),
        **({"$defs": definitions} if definitions else {}),
    }
    return _with_parts(rules, _terse) if table.terse else rules


def _with_parts(rules: _Schema, change: Callable[[_Schema], _Schema]) -> _Schema:
    return {
        key: {name: change(part) for name, part in value.items() if isinstance(part, dict)}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else value
        for key, value in rules.items()
    }


def _terse(rules: _Schema) -> _Schema:
    """Words without their type; meanings after the type of what has parts, else last."""
    rules = _with_parts(rules, _terse)
    meaning = {"description": rules.pop("description")}
    if "enum" in rules or "const" in rules:
        del rules["type"]
    items = rules.get("items")
    if "properties" in rules or (isinstance(items, dict) and "$ref" in items):
        return {"type": rules.pop("type"), **meaning, **rules}
    return {**rules, **meaning}


def _definitions(table: Object) -> Iterator[Object]:
    for field in table.fields:
        if isinstance(field.kind, (Nested, Objects)):
            if not field.kind.table.inline:
                yield field.kind.table
            yield from _definitions(field.kind.table)


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


@cache
def table_of(kind: str) -> Object:
    """The table of a kind of document."""
    table = import_module(f"holdfast.formats.{kind.partition('-')[0]}.table").TABLES[kind]
    assert isinstance(table, Object)
    return table


def problems(value: Json, kind: str, *, spelling: bool = True) -> list[Problem]:
    """Everything wrong with a document; without `spelling`, only what has no clear meaning."""
    listed = problems_by_schema(value, kind, spelling=spelling)
    if isinstance(value, dict):
        table = table_of(kind)
        for rule in (*table.rules, *(table.soft_rules if spelling else ())):
            listed += rule(value)
    return listed


def is_sound(raw: bytes, kind: str) -> bool:
    """Would `problems` list nothing for a JSON text? No message is built for the schema's rules."""
    from holdfast.formats.quick_check import decoded

    document, table = decoded(raw, kind), table_of(kind)
    rules = (*table.rules, *table.soft_rules)
    return document is not None and not any(problem for rule in rules for problem in rule(document))


def repair_document(document: Document, kind: str, context: ImportContext) -> RepairedDocument:
    """The document with every deviation repaired. Raises `Invalid` where that is impossible."""

    def errors(document: Document) -> list[Problem]:
        return [problem for problem in problems(document, kind, spelling=False) if problem.severity == "error"]

    if not errors(document):
        return RepairedDocument(document, [])
    part = Repair(table_of(kind), document, context)
    part.repair_all()
    for problem in errors(part.data):
        raise Invalid(
            f"{format_place(problem.place)} {problem.message}",
            hint="Everything else could be read. Fix this and try again.",
        )
    return RepairedDocument(part.data, part.notes)


# ── kinds of value ───────────────────────────────────────────────────────────────────────────────────────


class Kind(msgspec.Struct, frozen=True):
    """What the value of a field may be: its part of the schema, and how other programs' spellings are read."""

    keywords: ClassVar[_Schema]

    def schema(self) -> _Schema:
        return dict(self.keywords)

    def repair(self, part: Repair, key: str) -> None:
        """Respell a value that has a clear meaning; null and absent fields are left alone."""
        raise NotImplementedError


class Text(Kind, frozen=True):
    pattern: str = ""
    # An import accepts texts that do not match the pattern.
    lenient: bool = False
    blank: bool = True
    empty: bool = True

    def schema(self) -> _Schema:
        pattern = self.pattern if self.pattern or self.blank else r"\S"
        return {
            "type": "string",
            **({"pattern": pattern} if pattern else {}),
            **({} if self.empty else {"minLength": 1}),
            **(_LENIENT if self.lenient else {}),
        }

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            part.replace(key, str(value), "is a number; taken as text")
        elif (value == "" and not self.empty) or (isinstance(value, str) and not self.blank and not value.strip()):
            part.set_aside(key, "is empty")
        elif value is not None and not isinstance(value, str):
            words = text_of(value)
            part.set_aside(key, "is not text")
            if words is not None:
                part.data[key] = words


class Exactly(Kind, frozen=True):
    """One value only."""

    value: str

    def schema(self) -> _Schema:
        return {"type": "string", "const": self.value}


class Word(Kind, frozen=True):
    """One of some words; `others` says what other words mean, in lower case with `_` between their parts."""

    words: tuple[str, ...]
    others: Mapping[str, str] = {}

    def schema(self) -> _Schema:
        return {"type": "string", "enum": [*self.words]}

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is None or (isinstance(value, str) and value in self.words):
            return
        plain = re.sub(r"[\s-]+", "_", str(value).strip().lower())
        word = next((word for word in self.words if word.replace("-", "_") == plain), self.others.get(plain))
        if word is None or not isinstance(value, str):
            part.set_aside(key, f"{shorten(str(value), 40)!a} is none of {', '.join(sorted(self.words))}")
        else:
            part.replace(key, word, f"{shorten(value, 40)!a} is taken as {word}")


class UtcTime(Kind, frozen=True):
    """A time in UTC, written with or without milliseconds."""

    millis: bool = True

    def schema(self) -> _Schema:
        rules: _Schema = {"type": "string", "format": "utc-date-time"}
        return {**rules, "pattern": _MILLIS, **_LENIENT} if self.millis else rules

    def _written(self, ms: int) -> str:
        return timestamps.in_millis(ms) if self.millis else timestamps.in_shortest_form(ms)

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is None or (isinstance(value, str) and timestamps.is_utc(value)):
            return
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
            milli = value >= _MILLIS_FROM
            repaired = self._written(int(value if milli else value * 1000))
            part.replace(key, repaired, f"is a number; taken as {'milli' * milli}seconds since 1970")
            return
        try:
            moment = timestamps.read_time(str(value), part.context)
        except Invalid:
            part.set_aside(key, "is not a time")
            return
        repaired = self._written(moment.ms)
        part.replace(key, repaired, moment.assumed or f"{shorten(str(value), 40)} is written in UTC: {repaired}")


class Count(Kind, frozen=True):
    """A whole number from 0."""

    keywords = {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is None or (type(value) is int and 0 <= value <= MAX_SAFE_INTEGER):
            return
        number = _number(value)
        if number is None or not 0 <= number <= MAX_SAFE_INTEGER or number != int(number):
            part.set_aside(key, "is not a count")
        else:
            part.replace(key, int(number), f"is taken as the whole number {int(number)}")


class Fraction(Kind, frozen=True):
    """A number from 0 to 1; a greater one is taken as percent."""

    keywords = {"type": "number", "minimum": 0, "maximum": 1}

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is None or (type(value) in (int, float) and 0 <= float(value) <= 1):  # type: ignore[arg-type]
            return
        number = _number(value)
        if number is None or not 0 <= number <= 100:
            part.set_aside(key, "is not a number from 0 to 1")
            return
        repaired = number / 100 if number > 1 or (isinstance(value, str) and "%" in value) else number
        part.replace(key, repaired, f"{shorten(str(value), 20)} is taken as {repaired:g}")


class Flag(Kind, frozen=True):
    keywords = {"type": "boolean"}

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is None or isinstance(value, bool):
            return
        flag = _YES.get(str(value).strip().lower())
        if flag is None:
            part.set_aside(key, "is neither true nor false")
        else:
            part.replace(key, flag, f"is taken as {str(flag).lower()}")


class Texts(Kind, frozen=True):
    """A list of texts; a single text becomes a list, an object its words."""

    of: Text = Text()

    def schema(self) -> _Schema:
        return {"type": "array", "items": self.of.schema()}

    def repair(self, part: Repair, key: str) -> None:
        entries = part.listed(key)
        if entries is None or all(isinstance(entry, str) for entry in entries):
            return
        repaired: list[Json] = []
        for index, entry in enumerate(entries):
            words = text_of(entry)
            if not isinstance(entry, str):
                taken = "left out" if words is None else f"taken as {shorten(words, 60)!a}"
                part.note((key, index), f"is not text; {taken}")
            if words is not None:
                repaired.append(words)
        earlier = part.data.get(f"{key}{KEPT_SUFFIX}")
        if isinstance(earlier, list):  # kept by an earlier repair
            entries = [
                *earlier, *(entry for entry in entries if not isinstance(entry, str) and entry not in earlier),
            ]  # fmt: skip
        part.data[f"{key}{KEPT_SUFFIX}"] = entries
        part.data[key] = repaired


class Nested(Kind, frozen=True):
    """An object; `plain` makes one of a value that is none, with a note, or returns the value."""

    table: Object
    plain: Callable[[Repair, str, Json], Json] | None = None

    def schema(self) -> _Schema:
        return _reference(self.table)

    def repair(self, part: Repair, key: str) -> None:
        value = part.data.get(key)
        if value is not None and not isinstance(value, dict) and self.plain is not None:
            value = self.plain(part, key, value)
        value = part.object(key, value)
        if value is not None:
            inner = part.inner(self.table, value, key)
            inner.repair_all()
            part.data[key] = inner.data


class Objects(Kind, frozen=True):
    """A list of objects.

    `plain` makes an object of an entry that is none, or says with a note that it is left out; `together` repairs what
    concerns several entries.
    """

    table: Object
    plain: Callable[[Repair, Json, int], Document | None] | None = None
    together: Callable[[Repair, list[Repair]], None] | None = None

    def schema(self) -> _Schema:
        return {"type": "array", "items": _reference(self.table)}

    def repair(self, part: Repair, key: str) -> None:
        entries = part.listed(key)
        if entries is None:
            return
        repaired: list[Repair] = []
        for index, entry in enumerate(entries):
            data = entry if isinstance(entry, dict) else self.plain and self.plain(part, entry, index)
            if data is not None:
                inner = part.inner(self.table, data, key, index, before=repaired)
                if inner.repair_all():
                    repaired.append(inner)
        if self.together is not None:
            self.together(part, repaired)
        part.data[key] = [inner.data for inner in repaired]


class Counts(Kind, frozen=True):
    """An object of counts by name."""

    def schema(self) -> _Schema:
        return {"type": "object", "additionalProperties": Count().schema()}

    def repair(self, part: Repair, key: str) -> None:
        value = part.object(key, part.data.get(key))
        if value is None:
            return
        counts = part.inner(part.table, value, key)
        for name in value:
            Count().repair(counts, name)
            if name in counts.data and counts.data[name] is None:
                del counts.data[name]
                counts.note(name, "is empty and is left out")
        unusable = {name: count for name, count in counts.data.items() if type(count) is not int}
        if unusable:
            part.data[f"{key}{KEPT_SUFFIX}"] = unusable
        part.data[key] = {name: count for name, count in counts.data.items() if name not in unusable}


def _reference(table: Object) -> _Schema:
    return table.schema() if table.inline else {"$ref": f"#/$defs/{table.name}"}


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        match = _NUMBER.match(value)
        return None if match is None else float(match[1])
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
