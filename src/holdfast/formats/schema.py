"""Check documents against their JSON Schemas and report every problem in plain words, with its place.

A schema follows from a format's table, or is a file in `schemas/`. They use the part of JSON Schema 2020-12 that our
formats need. Any other keyword is an error when the schema is loaded, so no rule is silently ignored. In one point
this is stricter than the standard: an integer must be written as one, so 60.0 is not an integer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, cast

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import Place, Problem
from holdfast.formats.text.json import render_json
from holdfast.formats.timestamps import is_time, is_utc

MAX_PROBLEMS: Final = 1_000
# The comment that marks a pattern of mere spelling: other spellings have a clear meaning, too.
_SPELLING: Final = "Other spellings are imported, too."
_FOLDER: Final = os.path.join(os.path.dirname(__file__), "schemas")
# The schemas that follow from tables; the others are files.
_IN_TABLES: Final = frozenset(
    {"contract-state", "contract-plan", "contract-registry", "contract-history", "craft", "craft-index"}
)
_NAME: Final = re.compile(r"[a-z]+(?:-[a-z]+)*\Z")
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)

Rules: TypeAlias = Mapping[str, Json]


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────


def schema_text(name: str) -> bytes:
    """The published text of a schema: from the format's table, or as a file."""
    if not _NAME.match(name):
        raise Invalid(f"there is no schema {shorten(name, 40)!a}")
    if name in _IN_TABLES:
        from holdfast.formats.table import document_schema, table_of

        return render_json(document_schema(table_of(name)))
    try:
        with open(os.path.join(_FOLDER, f"{name}.json"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise Invalid(f"there is no schema {name}") from None


def load_schema(name: str) -> dict[str, Json]:
    return _object(json.loads(schema_text(name)))


@cache
def _schema(name: str, spelling: bool) -> Checker:
    return Checker(load_schema(name), spelling=spelling)


def problems_by_schema(value: Json, name: str, *, spelling: bool = True) -> list[Problem]:
    """Everything in a document that its schema does not allow, in the order of the document; at most `MOST`.

    Without `spelling`, patterns marked as mere spelling are ignored.
    """
    return _schema(name, spelling).problems(value)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────

_TYPES: Final = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "null": "null", "array": "a list", "object": "an object",
}  # fmt: skip

FORMATS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "date-time": (
        lambda text: _RFC3339.match(text) is not None and is_time(text),
        "must be a time with a zone such as 2026-11-15T09:30:00Z",
    ),
    "utc-date-time": (is_utc, "must be a time in UTC such as 2026-11-15T09:30:00Z"),
}


def kind_of(value: Json) -> str:
    """The type of a value in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case dict():
            return "an object"
    return "a list"


def _is(value: Json, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, (list, tuple))
    return isinstance(value, dict)


def _same(left: Json, right: Json) -> bool:
    """Equal as JSON data: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


def _shown(value: Json) -> str:
    """A value for a message: short, and harmless on a terminal."""
    if isinstance(value, str):
        return json.dumps(shorten(value, 40))
    if isinstance(value, (dict, list, tuple)):
        return kind_of(value)
    return shorten(json.dumps(value), 40)


# Patterns of our schemas in words, since few people read regular expressions. The schema's own descriptions say what
# a field is for, not what it must look like.
_SHAPES: Final = {
    "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$":
        "must be a UUID of version 4 in lower case",
    "^[a-z0-9]+(-[a-z0-9]+)*-[0-9]{4}-[0-9]{2}-[0-9]{2}$": "must be a slug and a date such as add-search-2026-11-15",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9a-f]{6}$": "must be a date and six hexadecimal digits such as 2026-11-15-0a1b2c",
    "^[0-9]{8}-.+$": "must be date, scope and task such as 20261115-search-write-index",
    "^session/[0-9]{8}-.+$": "must be session/ and the session's id, such as session/20261115-search-write-index",
    "^[0-9a-f]{64}$": "must be a SHA-256: 64 hexadecimal digits in lower case",
    "^([0-9a-f]{40}|[0-9a-f]{64})$": "must be a commit: 40 or 64 hexadecimal digits in lower case",
    "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$":
        "must be a name of 1 to 100 letters, digits, '.', '_' or '-', not beginning with a dot or dash",
    "^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$": "must be a version such as 1.0.0",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$":
        "must be a time in UTC with milliseconds such as 2026-11-15T09:30:00.000Z",
    r"^[^@\s]+@[^@\s]+$": "must be an email address such as anna@example.org",
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$":
        "must be a version such as 1.23.0",
    r"^(/|[A-Za-z]:[\\/]|\\\\)": "must be an absolute path such as /home/me/project",
    r"^[^/\\]+\.json$": "must be the name of a .json file, without a directory",
}  # fmt: skip


def _expected_form(rules: Rules) -> str:
    """What text must look like: in our words, by an example, by the description, or else as a pattern."""
    pattern, examples = _text(rules["pattern"]), _list(rules.get("examples", []))
    if pattern in _SHAPES:
        return _SHAPES[pattern]
    if examples:
        return f"must look like {_shown(examples[0])}"
    description = _text(rules.get("description", "")).rstrip(".")
    return f"must be {description[0].lower()}{description[1:]}" if description else f"must look like {pattern}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────


def in_python(pattern: str) -> str:
    """A pattern of JSON Schema, where `$` is the very end."""
    return re.sub(r"(\\.|\[(?:\\.|[^\]\\])*\])|\$", lambda m: m[1] or r"\Z", pattern, flags=re.DOTALL)


class SchemaProblem(NamedTuple):
    """A problem relative to the value it was found in."""

    place: Place
    message: str


class Checker:
    """One schema, ready to check documents."""

    def __init__(self, root: Json, *, spelling: bool = True) -> None:
        self._root = root
        self._spelling = spelling
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._prepare(root)

    def problems(self, value: Json) -> list[Problem]:
        return [
            Problem(place, message) for place, message in islice(self._check(value, self._root, ()), MAX_PROBLEMS)
        ]

    def _prepare(self, schema: Json) -> None:
        """Refuse unknown keywords, and compile every pattern once."""
        if isinstance(schema, bool):
            return
        assert isinstance(schema, dict)
        unknown = schema.keys() - _KNOWN
        assert not unknown, f"this schema language has no {', '.join(sorted(unknown))}"
        for name in ("properties", "patternProperties", "$defs"):
            for key, inner in _object(schema.get(name, {})).items():
                if name == "patternProperties":
                    self._pattern(key)
                self._prepare(inner)
        for name in ("items", "additionalProperties"):
            if name in schema:
                self._prepare(schema[name])
        for inner in _list(schema.get("anyOf", [])):
            self._prepare(inner)
        if "pattern" in schema:
            self._pattern(_text(schema["pattern"]))
        if "$ref" in schema:
            self._referred(_text(schema["$ref"]))
        assert schema.get("format", "date-time") in FORMATS

    def _pattern(self, written: str) -> re.Pattern[str]:
        compiled = self._patterns.get(written)
        if compiled is None:
            # As in JSON Schema, `\d` is one of the ten digits.
            compiled = self._patterns[written] = re.compile(in_python(written), re.ASCII)
        return compiled

    def _referred(self, reference: str) -> Json:
        start, _, name = reference.rpartition("/")
        assert start == "#/$defs"
        return _object(_object(self._root)["$defs"])[name]

    def _check(self, value: Json, schema: Json, place: Place) -> Iterator[SchemaProblem]:
        if isinstance(schema, bool):
            if not schema:
                yield SchemaProblem(place, "must not be here")
            return
        rules = _object(schema)
        if "$ref" in rules:
            yield from self._check(value, self._referred(_text(rules["$ref"])), place)
        if "type" in rules:
            kinds = rules["type"] if isinstance(rules["type"], list) else [rules["type"]]
            if not any(_is(value, _text(kind)) for kind in kinds):
                # No other rule applies.
                yield SchemaProblem(
                    place, f"must be {_listed([_TYPES[_text(kind)] for kind in kinds])}, is {_description(value)}"
                )
                return
        yield from self._check_value(value, rules, place)
        if isinstance(value, str):
            yield from self._check_text(value, rules, place)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from _check_number(value, rules, place)
        elif isinstance(value, dict):
            yield from self._check_object(value, rules, place)
        elif isinstance(value, (list, tuple)):
            yield from self._check_list(value, rules, place)

    def _check_value(self, value: Json, rules: Rules, place: Place) -> Iterator[SchemaProblem]:
        if "const" in rules and not _same(value, rules["const"]):
            yield SchemaProblem(place, f"must be {_shown(rules['const'])}, is {_shown(value)}")
        if "enum" in rules:
            allowed = _list(rules["enum"])
            if not any(_same(value, item) for item in allowed):
                words = f"must be one of {', '.join(map(_shown, allowed))}"
                yield SchemaProblem(place, f"{words}, is {_shown(value)}")
        if "anyOf" in rules:
            yield from self._check_any(value, _list(rules["anyOf"]), place)

    def _check_any(self, value: Json, options: list[Json], place: Place) -> Iterator[SchemaProblem]:
        """The problems of the alternative most likely meant: the one for this type of value."""
        attempts = [list(islice(self._check(value, alternative, place), MAX_PROBLEMS)) for alternative in options]
        if not all(attempts):
            return
        if value is not None:
            fitting = [
                attempt
                for alternative, attempt in zip(options, attempts, strict=True)
                if self._fits(value, alternative)
            ]
            if len(fitting) == 1:
                yield from fitting[0]
                return
        heads = [attempt[0] for attempt in attempts if attempt[0].place == place]
        expected = [head.message.removeprefix("must be ").rpartition(", is ")[0] for head in heads]
        if (
            len(heads) == len(attempts)
            and all(head.message.startswith("must be ") for head in heads)
            and all(expected)
        ):
            yield SchemaProblem(place, f"must be {_listed(list(dict.fromkeys(expected)))}, is {_shown(value)}")
        else:
            yield from min(attempts, key=len)

    def _fits(self, value: Json, schema: Json) -> bool:
        """Could this value be meant for this schema, by its type alone?"""
        if isinstance(schema, bool):
            return schema
        rules = _object(schema)
        if "$ref" in rules:
            return self._fits(value, self._referred(_text(rules["$ref"])))
        if "type" in rules:
            kinds = rules["type"] if isinstance(rules["type"], list) else [rules["type"]]
            return any(_is(value, _text(kind)) for kind in kinds)
        allowed = [rules["const"]] if "const" in rules else _list(rules.get("enum", [value]))
        return any(kind_of(item) == kind_of(value) for item in allowed)

    def _check_text(self, value: str, rules: Rules, place: Place) -> Iterator[SchemaProblem]:
        if len(value) < _number(rules.get("minLength", 0)):
            least = _number(rules["minLength"])
            yield SchemaProblem(
                place, "must not be empty" if least == 1 else f"must have at least {least} characters"
            )
        if "maxLength" in rules and len(value) > _number(rules["maxLength"]):
            yield SchemaProblem(place, f"must have at most {rules['maxLength']} characters, has {len(value)}")
        has_pattern = "pattern" in rules and (self._spelling or rules.get("$comment") != _SPELLING)
        if has_pattern and not self._pattern(_text(rules["pattern"])).search(value):
            yield SchemaProblem(
                place, f"{_expected_form(rules)}, is {_shown(value)}" if value.strip() else "must not be blank"
            )
        elif "format" in rules:
            holds, words = FORMATS[_text(rules["format"])]
            if not holds(value):
                yield SchemaProblem(place, f"{words}, is {_shown(value)}")

    def _check_object(self, value: Mapping[str, Json], rules: Rules, place: Place) -> Iterator[SchemaProblem]:
        for name in _list(rules.get("required", [])):
            if name not in value:
                yield SchemaProblem((*place, _text(name)), "is missing")
        named = _object(rules.get("properties", {}))
        like = _object(rules.get("patternProperties", {}))
        additional = rules.get("additionalProperties", True)
        for key, inner in value.items():
            member_place = (*place, key)
            known = key in named
            if known:
                yield from self._check(inner, named[key], member_place)
            for pattern, schema in like.items():
                if self._pattern(pattern).search(key):
                    known = True
                    yield from self._check(inner, schema, member_place)
            if not known:
                yield from self._check(inner, additional, member_place)

    def _check_list(
        self, value: list[Json] | tuple[Json, ...], rules: Rules, place: Place
    ) -> Iterator[SchemaProblem]:
        if len(value) < _number(rules.get("minItems", 0)):
            least = _number(rules["minItems"])
            yield SchemaProblem(place, "must not be empty" if least == 1 else f"must have at least {least} entries")
        if "maxItems" in rules and len(value) > _number(rules["maxItems"]):
            yield SchemaProblem(place, f"must have at most {rules['maxItems']} entries, has {len(value)}")
        if "items" in rules:
            for index, inner in enumerate(value):
                yield from self._check(inner, rules["items"], (*place, index))


def _check_number(value: float, rules: Rules, place: Place) -> Iterator[SchemaProblem]:
    if "minimum" in rules and value < _number(rules["minimum"]):
        yield SchemaProblem(place, f"must be at least {_shown(rules['minimum'])}, is {_shown(value)}")
    if "maximum" in rules and value > _number(rules["maximum"]):
        yield SchemaProblem(place, f"must be at most {_shown(rules['maximum'])}, is {_shown(value)}")


def _description(value: Json) -> str:
    return kind_of(value) if not isinstance(value, float) else _shown(value)


# The schemas are ours: types of keyword values are asserted, not reported.

_KNOWN: Final = {
    "$schema", "$id", "$defs", "$ref", "$comment", "title", "description", "examples", "default",
    "type", "enum", "const", "anyOf", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "required", "properties", "patternProperties", "additionalProperties", "items", "minItems", "maxItems",
}  # fmt: skip


def _object(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


def _text(value: Json) -> str:
    assert isinstance(value, str)
    return value


def _number(value: Json) -> float:
    assert isinstance(value, (int, float))
    return cast("float", value)
