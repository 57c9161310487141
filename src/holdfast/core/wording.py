"""Words that briefings, reports and the screen share: how long ago, how much, in which state; control characters
removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.model import Commit, FileChange, Pause, Session, Time
from holdfast.core.modes import limits
from holdfast.core.times import DAY, HOUR, MINUTE, format_duration

if TYPE_CHECKING:
    from holdfast.core.state import FileState

STATUS = {
    "created": "not started", "in_progress": "in progress", "paused": "paused", "completed": "completed",
    "error": "stopped by an error", "aborted": "given up",
}  # fmt: skip
# A pause as long as a night: nobody was at the session at all.
ABSENCE = 8 * HOUR
PAUSES = {"manual": "paused", "idle": "idle", "task": "agent at work", "timeout": "time limit"}

# Why a session is paused whose mirrored file another program deleted.
FILE_DELETED = "its timer file was deleted"
_REMINDERS = {
    "break_40": "{} minutes of work: a good moment for a break.",
    "warning_60": "{} minutes of work: a break is due.",
    "timeout_90": "{} minutes of work without a break: stop for a while.",
}
# The same for whoever looks, while it is so.
CROSSED = {
    "break_40": "a break would do good", "warning_60": "a break is due",
    "timeout_90": "the working-time limit was reached",
}  # fmt: skip
_PAUSED_BY_LIMIT = "{} minutes of work: the session is paused. "

_JOINERS = "\u200c\u200d"
# Printable by category, nothing to the eye; with them text can be hidden inside text.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")


def reminder(line: str, limit: int, pauses: bool, only_resume: bool) -> str:
    """That working time has crossed a line (milliseconds), in a sentence for the person.

    `pauses`: the session is paused by it; `only_resume`: the person's next message does not end that pause.
    """
    if pauses:
        way_on = "holdfast resume goes on." if only_resume else "Your next message goes on, or holdfast resume."
        return (_PAUSED_BY_LIMIT + way_on).format(f"{limit / MINUTE:g}")
    return _REMINDERS[line].format(f"{limit / MINUTE:g}")


def visible(text: str, *, lines: bool = False) -> str:
    """The text with everything spelled out that is not plainly to be seen; line breaks stay if `lines`.

    Control and escape characters, marks that reorder text, blanks of no width, selectors that carry hidden
    data. Joiners stay where emoji and scripts need them.
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
    """Stored text on one line, harmless."""
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
    """`60%`; only what is complete is 100 %, and only nothing is 0 %."""
    whole = round(fraction * 100)
    if 0 < fraction < 1:
        whole = min(max(whole, 1), 99)
    return f"{whole}%"


def pause_words(kind: str, reason: str | None, length: int = 0) -> str:
    """`paused (lunch)`, `idle`, or `away` if that long; what an agent's run or the limit is called by itself."""
    if kind == "idle" and length >= ABSENCE:
        return "away"
    why = one_line(reason) if reason else ""
    if why and kind in ("task", "timeout"):
        return why
    return PAUSES.get(kind, kind) + (f" ({why})" if why else "")


def paused_and_away(time: Time) -> tuple[int, int]:
    """What was paused, and what was away: who leaves a session for a night or a year did not pause it."""
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
    """The pause that lasts, if one does; of two that begin and end together, the one somebody set."""
    lasting = [pause for pause in session.time.pauses if pause.ended_at is None]
    if session.ended_at is not None or not lasting:
        return None
    return min(lasting, key=lambda pause: ("manual", "timeout", "task", "idle").index(pause.kind))


def limit_words(mode: str) -> str:
    """What a mode allows: `2 agents at once, compress at 70%, 3 retries`."""
    allowed = limits(mode)
    return (
        f"{count(allowed.agents, 'agent')} at once, compress at {allowed.compress_at}%, "
        f"{count(allowed.retries, 'retry', 'retries')}"
    )


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 agent`, `3 agents`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def changed_by(change: FileChange | FileState) -> str:
    """Who changed a file: the agent, how it was changed, and what is uncertain of it."""
    if change.by == "unknown":
        return f"unknown ({' or '.join(change.among)})" if change.among else "unknown"
    return ", ".join(part for part in (change.agent, change.by) if part)


def made_by(commit: Commit) -> str:
    """Who made a commit, and how sure that is."""
    if commit.conversation is not None:
        return commit.conversation if commit.certainty == "certain" else f"{commit.certainty} {commit.conversation}"
    return f"uncertain ({' or '.join(commit.among)})" if commit.certainty != "certain" else "a person"
