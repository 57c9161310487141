"""The names of the timer format, and its file as typed data: times in milliseconds, pauses one by one.

`read_values` takes any document of the right shape, `read_quickly` only text that is sound beyond doubt. Both give
the same `TimerValues`, which the rules check and the events are made from.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time

# The reason of a pause forced by the limit of working time, as in the specification's example.
TIMEOUT: Final = "Timeout enforced at 90 min working time"
# The flags of the file, with the reminder and the minutes of working time they stand for.
REMINDERS: Final = (
    ("break40min", "break_40", 40),
    ("warning60min", "warning_60", 60),
    ("timeout90min", "timeout_90", 90),
)

_ID: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})-.+\Z")


def is_id(name: str) -> bool:
    """A date that exists, a dash, and a name."""
    match = _ID.match(name)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


# ── typed data ───────────────────────────────────────────────────────────────────────────────────────────

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


class _Document(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """What the rules check; the schema checks the rest."""

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


class _SoundDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
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


class TimerPause(NamedTuple):
    """One pause in the file. `until` is None while it is open; `length` is `durationMs`."""

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
    pauses: tuple[TimerPause, ...]
    task: str | None
    summary: str | None
    # In the order of `REMINDERS`; None without valid flags.
    reminders: tuple[bool, ...] | None

    @property
    def last(self) -> int:
        """The time of the last event: a message, or a pause's start or end."""
        return max(
            self.start, self.message, *(pause.since if pause.until is None else pause.until for pause in self.pauses)
        )

    @property
    def open_pause(self) -> TimerPause | None:
        """The pause that has not ended."""
        return next((pause for pause in reversed(self.pauses) if pause.until is None), None)


def read_values(document: Json) -> TimerValues | None:
    """The document as typed data; None when its shape is wrong."""
    try:
        timed = msgspec.convert(document, decodable(_Document))
        flags = timed.reminders or {}
        reminders = tuple(flags.get(name) for name, _, _ in REMINDERS)
        return TimerValues(
            timed.session_id, timed.branch_name, timed.status, parse_time(timed.start_time),
            parse_time(timed.last_message_time), timed.actual_working_ms, timed.total_paused_ms,
            tuple(
                TimerPause(
                    pause.type, pause.reason, parse_time(pause.start_time),
                    None if pause.end_time is None else parse_time(pause.end_time), pause.duration_ms,
                )
                for pause in timed.pauses
            ),
            timed.task, timed.summary,
            tuple(flag is True for flag in reminders) if all(type(flag) is bool for flag in reminders) else None,
        )  # fmt: skip
    except (msgspec.ValidationError, Invalid):
        return None


_decoders: list[msgspec.json.Decoder[_SoundDocument]] = []


def read_quickly(raw: bytes) -> TimerValues | None:
    """JSON text as typed data if it fits the schema and all times are in UTC; else None."""
    if not _decoders:  # built on first use: describing the type costs a millisecond
        _decoders.append(msgspec.json.Decoder(decodable(_SoundDocument)))
    try:
        document = _decoders[0].decode(raw)
        flags = document.reminders
        return TimerValues(
            document.session_id, document.branch_name, document.status, parse_time(document.start_time),
            parse_time(document.last_message_time), document.actual_working_ms, document.total_paused_ms,
            tuple(
                TimerPause(
                    pause.type, pause.reason, parse_time(pause.start_time),
                    None if pause.end_time is None else parse_time(pause.end_time),
                    None if pause.duration_ms is msgspec.UNSET else pause.duration_ms,
                )
                for pause in document.pauses
            ),
            document.task, document.summary, (flags.break40min, flags.warning60min, flags.timeout90min),
        )  # fmt: skip
    except (msgspec.MsgspecError, Invalid, RecursionError, UnicodeDecodeError):
        return None
