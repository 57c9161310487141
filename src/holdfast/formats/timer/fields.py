"""The timer's file as typed data: its times as milliseconds, its pauses one by one.

`reading` takes any document of the right shape, `quickly` only text that is beyond doubt; both give the same
`Reading`, which the rules judge and the events are made from.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time
from holdfast.formats.timer.names import REMINDERS

Status = Literal["IN_PROGRESS", "PAUSED"]
PauseType = Literal["AUTO_TASK", "AUTO_IDLE", "MANUAL"]

_Utc = Annotated[
    str,
    msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z\Z"),
]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Pause(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: PauseType
    reason: str
    start_time: str
    end_time: str | None = None
    duration_ms: _Count | None = None


class _Timed(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """What the rules look at. The rest may be missing: that is the schema's business."""

    session_id: str
    branch_name: str
    status: Status
    start_time: str
    last_message_time: str
    actual_working_ms: _Count
    total_paused_ms: _Count
    pauses: list[_Pause]
    task: str | None = None
    summary: str | None = None
    reminders: dict[str, Json] | None = None


class _UtcPause(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: PauseType
    reason: str
    start_time: _Utc
    end_time: _Utc | None = None
    duration_ms: _Count | msgspec.UnsetType = msgspec.UNSET


class _Reminders(msgspec.Struct, frozen=True, gc=False):
    break40min: bool
    warning60min: bool
    timeout90min: bool


class _Whole(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    session_id: str
    scope: str
    task: str
    branch_name: str
    status: Status
    start_time: _Utc
    last_message_time: _Utc
    actual_working_ms: _Count
    total_paused_ms: _Count
    pauses: list[_UtcPause]
    reminders: _Reminders
    summary: str


class Stop(NamedTuple):
    """One pause as the file tells it. `until` is None while it lasts; `length` is what `durationMs` says."""

    type: PauseType
    reason: str
    since: int
    until: int | None
    length: int | None


class TimerValues(NamedTuple):
    session: str
    branch: str
    status: Status
    start: int
    message: int
    working: int
    paused: int
    pauses: tuple[Stop, ...]
    task: str | None
    summary: str | None
    # In the order of `REMINDERS`; None when the file has no proper flags.
    reminders: tuple[bool, ...] | None

    @property
    def last(self) -> int:
        """When anything last happened: a message, or the beginning or end of a pause."""
        return max(
            self.start, self.message, *(stop.since if stop.until is None else stop.until for stop in self.pauses)
        )

    @property
    def lasting(self) -> Stop | None:
        """The pause that has not ended."""
        return next((stop for stop in reversed(self.pauses) if stop.until is None), None)


def reading(document: Json) -> TimerValues | None:
    """The document as data; None when its shape does not allow it."""
    try:
        timed = msgspec.convert(document, decodable(_Timed))
        flags = timed.reminders or {}
        reminders = tuple(flags.get(name) for name, _, _ in REMINDERS)
        return TimerValues(
            timed.session_id, timed.branch_name, timed.status, parse_time(timed.start_time),
            parse_time(timed.last_message_time), timed.actual_working_ms, timed.total_paused_ms,
            tuple(
                Stop(
                    pause.type, pause.reason, parse_time(pause.start_time),
                    None if pause.end_time is None else parse_time(pause.end_time), pause.duration_ms,
                )
                for pause in timed.pauses
            ),
            timed.task, timed.summary,
            tuple(flag is True for flag in reminders) if all(isinstance(f, bool) for f in reminders) else None,
        )  # fmt: skip
    except (msgspec.ValidationError, Invalid):
        return None


_decoders: list[msgspec.json.Decoder[_Whole]] = []


def quickly(raw: bytes) -> TimerValues | None:
    """JSON text as data, when it has the shape of the schema and all its times are in UTC; else None."""
    if not _decoders:  # built on first use: describing the type costs a millisecond
        _decoders.append(msgspec.json.Decoder(decodable(_Whole)))
    try:
        whole = _decoders[0].decode(raw)
        flags = whole.reminders
        return TimerValues(
            whole.session_id, whole.branch_name, whole.status, parse_time(whole.start_time),
            parse_time(whole.last_message_time), whole.actual_working_ms, whole.total_paused_ms,
            tuple(
                Stop(
                    pause.type, pause.reason, parse_time(pause.start_time),
                    None if pause.end_time is None else parse_time(pause.end_time),
                    None if pause.duration_ms is msgspec.UNSET else pause.duration_ms,
                )
                for pause in whole.pauses
            ),
            whole.task, whole.summary, (flags.break40min, flags.warning60min, flags.timeout90min),
        )  # fmt: skip
    except (msgspec.MsgspecError, Invalid, RecursionError, UnicodeDecodeError):
        return None
