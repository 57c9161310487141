"""Words that every surface shares: statuses, pauses, counts and ages, events on one line, and errors as documents.

Text from the log goes through `visible` or `one_line`: no control character may reach a terminal or hide text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import is_too_deep, with_json_numbers
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.model import Commit, FileChange, Pause, Session, Time
from holdfast.core.modes import limits
from holdfast.core.times import DAY, HOUR, MINUTE, format_duration, format_time
from holdfast.core.worktime import PAUSE_ORDER

if TYPE_CHECKING:
    from holdfast.core.envelope import Event
    from holdfast.core.state import FileState

STATUS = {
    "created": "not started", "in_progress": "in progress", "paused": "paused", "completed": "completed",
    "error": "stopped by an error", "aborted": "aborted",
}  # fmt: skip
# A pause this long is an absence: a night.
ABSENCE = 8 * HOUR
PAUSES = {"manual": "paused", "idle": "idle", "task": "agent at work", "timeout": "time limit"}

# The reason of a pause when another program deleted the mirrored file.
FILE_DELETED = "its timer file was deleted"
_REMINDERS = {
    "break_40": "{} minutes of work: a good moment for a break.",
    "warning_60": "{} minutes of work: a break is due.",
    "timeout_90": "{} minutes of work without a break: stop for a while.",
}
# What surfaces show while the limit is exceeded.
CROSSED = {
    "break_40": "time for a break", "warning_60": "a break is due",
    "timeout_90": "the working-time limit was reached",
}  # fmt: skip
_PAUSED_BY_LIMIT = "{} minutes of work: the session is paused. "

# The fields that describe an event on its line, in this order. Its data has the others.
_DESCRIBED_FIELDS: Final = (
    "id", "goal", "text", "chosen", "path", "command", "sha", "message", "line", "scope", "position", "progress",
    "action", "by", "tokens", "task", "type", "role", "for", "reason", "summary", "outcome", "category", "why",
    "field", "agent", "device", "resume", "name",
)  # fmt: skip

_JOINERS = "\u200c\u200d"
# Printable by category but invisible: they could hide text inside text.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")


def reminder(line: str, limit: int, pauses: bool, only_resume: bool) -> str:
    """The sentence for the person when working time has reached a limit (in milliseconds).

    `pauses`: the limit paused the session; `only_resume`: the person's next message does not end that pause.
    """
    if pauses:
        advice = "To continue: holdfast resume" if only_resume else "To continue: write a message, or holdfast resume"
        return (_PAUSED_BY_LIMIT + advice).format(f"{limit / MINUTE:g}")
    return _REMINDERS[line].format(f"{limit / MINUTE:g}")


def visible(text: str, *, lines: bool = False) -> str:
    """The text with invisible characters escaped; line breaks stay if `lines`.

    These are control and escape characters, marks that reorder text, zero-width blanks, and selectors that can carry
    hidden data. Joiners stay where emoji and scripts need them.
    """
    if text.isprintable() and text.isascii():
        return text
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    out: list[str] = []
    for index, char in enumerate(text):
        if char == "\n":
            out.append(char if lines else " ")
        elif char in _JOINERS or char == "\ufe0f":
            before, after = text[index - 1 : index] or " ", text[index + 1 : index + 2] or " "
            needed = before >= "\u00a9" and before not in _JOINERS and (char == "\ufe0f" or after >= "\u0300")
            out.append(char if needed else _escaped(char))
        elif char >= "\xa0" and char.isspace() and char not in "\u2028\u2029":
            out.append(" ")
        elif not char.isprintable() or char in _BLANK or "\ufe00" <= char <= "\ufe0e" or char >= "\U000e0000":
            out.append(_escaped(char))
        else:
            out.append(char)
    return "".join(out)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Stored text on one line, with invisible characters escaped."""
    return " ".join(visible(text).split())


def ago(ms: int) -> str:
    """How long ago, in words: `just now`, `5 minutes ago`, `2 hours ago`, `3 days ago`."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        count = ms // unit
        if count >= (2 if unit == DAY else 1):
            return f"{count:,} {name}{'' if count == 1 else 's'} ago"
    return "just now"


def age(ms: int) -> str:
    """The same for a narrow column: `now`, `5 min`, `2 h`, `3 d`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        count = ms // unit
        if count >= (2 if unit == DAY else 1):
            return f"{count:,} {name}"
    return "now"


def percent(fraction: float) -> str:
    """`60%`; 100% only when complete, and 0% only for nothing."""
    rounded = round(fraction * 100)
    if 0 < fraction < 1:
        rounded = min(max(rounded, 1), 99)
    return f"{rounded}%"


def pause_words(kind: str, reason: str | None, length: int = 0) -> str:
    """`paused (lunch)`, `idle`, or `away` for a long pause; of an agent's run or a limit, its reason alone."""
    if kind == "idle" and length >= ABSENCE:
        return "away"
    note = one_line(reason) if reason else ""
    if note and kind in ("task", "timeout"):
        return note
    return PAUSES.get(kind, kind) + (f" ({note})" if note else "")


def paused_and_away(time: Time) -> tuple[int, int]:
    """Milliseconds paused, and milliseconds away: leaving a session for a night or a year is no pause."""
    away = sum(pause.duration_ms for pause in time.pauses if pause.duration_ms >= ABSENCE)
    return time.paused_ms - away, away


def time_words(time: Time) -> str:
    """`23 min worked, 12 min paused, 377 d away`."""
    paused, away = paused_and_away(time)
    parts = [
        f"{format_duration(time.working_ms)} worked",
        f"{format_duration(paused)} paused" if paused or not away else "",
    ]
    return ", ".join([*filter(None, parts), *([f"{format_duration(away)} away"] if away else [])])


def open_pause(session: Session) -> Pause | None:
    """The pause that has not ended, if there is one; of several, the one that a person set."""
    open_pauses = [pause for pause in session.time.pauses if pause.ended_at is None]
    if session.ended_at is not None or not open_pauses:
        return None
    return min(open_pauses, key=lambda pause: PAUSE_ORDER.index(pause.kind))


def limit_words(mode: str) -> str:
    """The limits of a mode: `2 agents at once, compress at 70%, 3 retries`."""
    allowed = limits(mode)
    return (
        f"{count(allowed.agents, 'agent')} at once, compress at {allowed.compress_at}%, "
        f"{count(allowed.retries, 'retry', 'retries')}"
    )


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 agent`, `3 agents`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def changed_by(change: FileChange | FileState) -> str:
    """Who changed a file and how, as far as that is known."""
    if change.by == "unknown":
        return f"unknown ({' or '.join(change.among)})" if change.among else "unknown"
    return ", ".join(part for part in (change.agent, change.by) if part)


def made_by(commit: Commit) -> str:
    """Who made a commit, and how certain that is."""
    if commit.conversation is not None:
        return commit.conversation if commit.certainty == "certain" else f"{commit.certainty} {commit.conversation}"
    return f"uncertain ({' or '.join(commit.among)})" if commit.certainty != "certain" else "a person"


# ── events and errors ────────────────────────────────────────────────────────────────────────────────────


def describe_event(event: Event) -> str:
    """What an event says, on one line."""
    if event.data is None:
        return "(erased)"
    if is_too_deep(event.data):
        return "(unreadable)"
    try:
        data = with_json_numbers(msgspec.json.decode(event.data))
    except (msgspec.MsgspecError, UnicodeDecodeError, Invalid):
        return "(unreadable)"  # doctor compares the hash, and reports damage
    if not isinstance(data, dict):
        return ""
    names = ("branch", "commit") if event.type == "ground.noted" else _DESCRIBED_FIELDS
    parts = [_field_text(name, data[name]) for name in names if data.get(name) is not None]
    return "  ".join(part for part in parts if part)


def _field_text(name: str, value: object) -> str:
    if name == "progress" and isinstance(value, (int, float)):
        return f"{value:.0%}"
    if name in ("tokens", "position"):
        return f"{name} {value:,}" if isinstance(value, int) else ""
    if name in ("commit", "sha") and isinstance(value, str):
        return value[:12]
    return " ".join(value.split()) if isinstance(value, str) else ""


def error_document(error: HoldfastError, operation: str | None, now: int) -> dict[str, object]:
    """An error as programs read it. `operation` is the one asked for, where the error names none."""
    return {
        "kind": error.kind, "message": error.message, "hint": error.hint,
        "operation": error.operation or operation, "file": error.file, "session": error.session,
        "feature_id": error.feature_id, "details": error.details or error.message,
        "timestamp": format_time(error.timestamp or now),
    }  # fmt: skip
