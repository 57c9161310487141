"""What may be asked of the API: the parameters of each address. They are read by these, and described by these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time
from holdfast.machine.wall import midnight

T = TypeVar("T", bound="Parameters")
V = TypeVar("V")

Status = Literal["created", "in_progress", "paused", "completed", "error", "aborted"]
_MOMENT: Final[dict[str, Any]] = {"format": "date-time"}
_DAY: Final[dict[str, Any]] = {"anyOf": [{"format": "date"}, {"format": "date-time"}]}
_AT = Annotated[str, Meta(description="As it was at this moment.", extra_json_schema=_MOMENT)]
_PROJECT = Annotated[str, Meta(description="Only projects of this name.", max_length=1000)]
_SINCE = Annotated[str, Meta(description="Only from this day or moment on.", extra_json_schema=_DAY)]


class Parameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Nothing, unless an address says otherwise."""


class At(Parameters, kw_only=True):
    at: _AT | UnsetType = UNSET


class SessionsParameters(Parameters, kw_only=True):
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=1000)] = 20
    search: Annotated[str, Meta(description="Words that the session holds.", max_length=1000)] | UnsetType = UNSET
    status: Annotated[Status, Meta(description="Only sessions of this status.")] | UnsetType = UNSET
    since: _SINCE | UnsetType = UNSET
    all_projects: Annotated[bool, Meta(description="Of all projects, or only of where `holdfast ui` runs.")] = True
    project: _PROJECT | UnsetType = UNSET
    unfinished: Annotated[bool, Meta(description="Only what is not finished.")] = False
    archived: Annotated[bool, Meta(description="Only what is archived, or only what is not.")] | UnsetType = UNSET
    cursor: (
        Annotated[str, Meta(description="`next` of the answer before: what follows it.", max_length=64)] | UnsetType
    ) = UNSET
    at: _AT | UnsetType = UNSET


class Events(Parameters, kw_only=True):
    type: Annotated[str, Meta(description="Only events of this type.", max_length=100)] | UnsetType = UNSET
    limit: (
        Annotated[
            int, Meta(description="The last so many; with `after`, the first so many after it.", ge=1, le=100_000)
        ]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[str, Meta(description="The hash of an event: what follows it in the log.", max_length=64)]
        | UnsetType
    ) = UNSET
    at: _AT | UnsetType = UNSET


class Briefing(Parameters, kw_only=True):
    for_: Annotated[Literal["person", "agent"], Meta(description="Who reads it.")] = msgspec.field(
        default="person", name="for"
    )
    max_chars: Annotated[int, Meta(description="How long at most.", ge=200, le=1_000_000)] = 10_000
    at: _AT | UnsetType = UNSET


class HoursParameters(Parameters, kw_only=True):
    by: Annotated[Literal["scope", "day", "project", "agent"], Meta(description="What is added up in one line.")] = (
        "scope"
    )
    project: _PROJECT | UnsetType = UNSET
    since: _SINCE | UnsetType = UNSET


def read(kind: type[T], given: Iterable[tuple[str, str]]) -> T:
    """The words of an address as the struct has them."""
    words: dict[str, str] = {}
    for name, value in given:
        if name in words:
            raise Invalid(f"{name[:40]!a} is given twice")
        words[name] = value
    try:
        return msgspec.convert(words, decodable(kind), strict=False)
    except msgspec.ValidationError as error:
        takes = ", ".join(kind.__struct_encode_fields__) or "nothing"
        raise Invalid(f"that cannot be asked: {error}", hint=f"This address takes {takes}.") from None


def moment(written: str | UnsetType) -> int | None:
    """RFC 3339, or a day: then its first moment here."""
    if written is UNSET:
        return None
    return midnight(written) if len(written) == 10 else parse_time(written)


def given(written: V | UnsetType) -> V | None:
    return None if written is UNSET else written
