"""The API's answers: the documents of the public contract, as types the OpenAPI description is made from."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.core.canonical import Json
from holdfast.core.model import Row, Session
from holdfast.sessions.hours.table import AgentLine, Line


class Document(msgspec.Struct, kw_only=True):
    holdfast: Literal[1] = 1


class OneSession(Document, kw_only=True):
    session: Session


class SessionList(Document, kw_only=True):
    sessions: list[Row]
    # The `cursor` of the next request; null at the end.
    next: str | None


class LoggedEvent(msgspec.Struct, kw_only=True):
    """An event with every field (`core.envelope.event_document`)."""

    v: int
    session: str
    writer: str
    seq: int
    clock: int
    at: str
    seen: list[list[str | int]]
    key: str | None
    actor: str
    type: str
    body: str
    prev: str | None
    hash: str
    data: Json
    salt: str | None


class EventList(Document, kw_only=True):
    events: list[LoggedEvent]


class BriefingText(Document, kw_only=True):
    briefing: str
    for_: str = msgspec.field(name="for")
    id: str


class Unfinished(msgspec.Struct, kw_only=True):
    """A session, and what waits for the person in it, the most urgent first."""

    session: Session
    attention: list[str]
    # Agents recorded as running whose process no longer exists.
    gone: list[str]
    # The work trees where it is current, and whether its project is on this machine.
    places: list[str]
    here: bool
    # The command that resumes it.
    resume: str


class NowList(Document, kw_only=True):
    now: list[Unfinished]


class HoursTable(Document, kw_only=True):
    by: Literal["scope", "day", "project"]
    lines: list[Line]
    total: Line


class AgentTable(Document, kw_only=True):
    by: Literal["agent"]
    lines: list[AgentLine]
    total: AgentLine


class HillPlace(msgspec.Struct, kw_only=True):
    project: str
    scope: str
    # 0: not started, 5: the crest, 10: done.
    position: Annotated[int, Meta(ge=0, le=10)]
    moved_at: str | None
    session: str


class HillList(Document, kw_only=True):
    hills: list[HillPlace]


class VaultMet(msgspec.Struct, kw_only=True):
    remote: str
    id: str
    words: str
    status: str
    confirmed: bool
    last_sync: str | None
    error: str | None
    held: int


class ThisDevice(msgspec.Struct, kw_only=True):
    """Keys are null where this device has none yet: they are made when they are first needed."""

    name: str
    fingerprint: str | None
    age: str | None
    signing: str | None
    vaults: list[VaultMet]


class OneDevice(Document, kw_only=True):
    device: ThisDevice


class ErrorFacts(msgspec.Struct, kw_only=True):
    kind: str
    message: str
    hint: str | None
    operation: str | None
    file: str | None
    session: str | None
    feature_id: str | None
    details: str
    timestamp: str


class ErrorDocument(Document, kw_only=True):
    error: ErrorFacts
