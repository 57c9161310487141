"""Tell quickly whether a JSON text satisfies a schema: msgspec decodes it into a type made from the schema.

The type has every rule of the schema, so the verdict is the same as that of `schema.py`, which explains it.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.formats.schema import FORMATS, Rules, in_python, load_schema

# Keywords that a type can express, or that say nothing about values.
_KNOWN: Final = frozenset((
    *("$schema", "$defs", "$ref", "$comment", "title", "description", "examples"),
    *("type", "enum", "const", "anyOf", "format", "pattern", "minLength", "minimum", "maximum"),
    *("required", "properties", "additionalProperties", "items"),
))  # fmt: skip
_SCALARS: Final = {"integer": int, "number": float, "boolean": bool, "null": None}
_special: Final[Any] = typing  # types that are made at run time


def decoded(raw: bytes, name: str) -> dict[str, Json] | None:
    """The document in a JSON text, with the keys that the schema names; None if it does not satisfy the schema."""
    try:
        return typing.cast("dict[str, Json]", _decoder(name).decode(raw))
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    """Built on first use: describing the types costs a millisecond."""
    rules = load_schema(name)
    return msgspec.json.Decoder(decodable(_type(rules, rules, name)), dec_hook=_checked)


def _type(rules: Rules, root: Rules, name: str) -> Any:
    """What satisfies the rules, as a type. Objects are TypedDicts, so that other rules can read what was decoded."""
    assert rules.keys() <= _KNOWN, f"no type can express {', '.join(sorted(rules.keys() - _KNOWN))}"
    types: list[Any]
    match rules:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            types = [_type(_of(root, "$defs", name), root, name)]
        case {"anyOf": [*options]}:
            types = [_type(option, root, name) for option in options if isinstance(option, dict)]
        case {"enum": [*values]}:
            types = [_special.Literal[tuple(values)]]
        case {"const": value}:
            types = [_special.Literal[value]]
        case {"type": [*kinds]}:
            types = [_type_of_kind(str(kind), rules, root, name) for kind in kinds]
        case _:
            types = [_type_of_kind(str(rules["type"]), rules, root, name)]
    return _special.Union[tuple(types)]


def _type_of_kind(kind: str, rules: Rules, root: Rules, name: str) -> Any:
    match kind:
        case "object" if "properties" in rules:
            assert "additionalProperties" not in rules
            required = rules.get("required", [])
            assert isinstance(required, list)
            types = {key: _type(_of(rules, "properties", key), root, key) for key in _of(rules, "properties")}
            return _special.TypedDict(
                name, {key: type_ if key in required else _special.NotRequired[type_] for key, type_ in types.items()}
            )
        case "object":
            inner = _type(_of(rules, "additionalProperties"), root, name) if "additionalProperties" in rules else Any
            return _special.Dict[str, inner]
        case "array":
            return _special.List[_type(_of(rules, "items"), root, name)]
        case "string" if "format" in rules:
            return _checked_text(str(rules["format"]), str(rules.get("pattern", "")))
        case "string":
            pattern, shortest = rules.get("pattern"), rules.get("minLength")
            meta = msgspec.Meta(
                pattern=None if pattern is None else f"(?a){in_python(str(pattern))}",
                min_length=shortest if isinstance(shortest, int) else None,
            )
            return Annotated[str, meta]
    limits = {"ge": rules.get("minimum"), "le": rules.get("maximum")}
    if kind == "null" or not any(isinstance(limit, int) for limit in limits.values()):
        return _SCALARS[kind]
    return Annotated[_SCALARS[kind], msgspec.Meta(**limits)]  # type: ignore[arg-type]


class _CheckedText(str):
    """Text that a pattern alone cannot check."""

    __slots__ = ()
    holds: Callable[[str], bool]


@cache
def _checked_text(format_name: str, pattern: str) -> type[_CheckedText]:
    matches, (is_format, _) = re.compile(in_python(pattern), re.ASCII).search, FORMATS[format_name]

    class _Text(_CheckedText):
        @staticmethod
        def holds(text: str) -> bool:
            return matches(text) is not None and is_format(text)

    return _Text


def _checked(type_: type[_CheckedText], value: object) -> _CheckedText:
    if isinstance(value, str) and type_.holds(value):
        return type_(value)
    raise ValueError(value)


def _of(rules: Rules, *keys: str) -> Rules:
    for key in keys:
        inner = rules[key]
        assert isinstance(inner, dict)
        rules = inner
    return rules
