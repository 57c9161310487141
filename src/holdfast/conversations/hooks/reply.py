"""What Holdfast answers an agent that waits: where the unfinished session stands when the agent opens, reminders
after.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.signals import Prompted
from holdfast.core import view
from holdfast.core.events import ExtraKept
from holdfast.core.lifecycle import FINISHED
from holdfast.core.reminders import (
    ANNOUNCED,
    LINES,
    LimitRule,
    Line,
    announced_marks,
    announcement_mark,
    counted_time,
    is_recorded,
    limit_of,
    was_announced,
)
from holdfast.core.state import State
from holdfast.core.times import MINUTE, format_duration
from holdfast.core.wording import reminder
from holdfast.sessions.briefing import brief
from holdfast.sessions.history import current_session, latest_unfinished
from holdfast.sessions.ownership import session_of

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_BEFORE_COMPRESSION = 4_000  # characters
_OWN_COMMAND = re.compile(r"\s*/(?:holdfast:[a-z]|(?:session|orchestrate)(?:\s|$))")


def answer(ws: Workspace, heard: HookEvent, *, room: int) -> HookAnswer:
    """What to say; `keeper` is that of the conversation's work tree, and what was heard is recorded already."""
    match heard.occasion:
        case "start" if ws.settings["capture.briefing"]:
            return _briefed(ws, heard, room)
        case "prompt":
            return _reminded(ws, heard)
        case "compact":
            session = _own(ws, heard)
            return (
                HookAnswer()
                if session is None
                else HookAnswer(context=brief(ws, session, max_chars=_BEFORE_COMPRESSION))
            )
    return HookAnswer()


def _briefed(ws: Workspace, heard: HookEvent, room: int) -> HookAnswer:
    session = _own(ws, heard) or current_session(ws) or _unfinished(ws)
    if session is None or not ws.state(session).count:
        return HookAnswer()
    return HookAnswer(context=brief(ws, session, reader="agent", max_chars=room))


def _unfinished(ws: Workspace) -> str | None:
    """The project's unfinished session, unless it was put away."""
    found = latest_unfinished(ws)
    return None if found is None or ws.state(found).archived else found


def _own(ws: Workspace, heard: HookEvent) -> str | None:
    """The session of this conversation, while it is unfinished."""
    state = session_of(ws, view.native_name(heard.agent, heard.conversation))
    return None if state is None or view.status_of(state) in FINISHED else state.session


def _reminded(ws: Workspace, heard: HookEvent) -> HookAnswer:
    """The latest line of working time that was crossed and that nobody was told of yet."""
    session = _own(ws, heard)
    if session is None:
        return HookAnswer()
    state = ws.state(session)
    block = None if _is_own_command(heard) else _held_back(ws, state)
    rule = ws.limit_rule()
    since = counted_time(state, ws.now(), rule).since
    told = announced_marks(state)
    crossed = [line for line in LINES if line not in rule.off and is_recorded(state, line, rule, since)]
    due = [line for line in crossed if not was_announced(state, line)]
    ended = _ended_pause(ws, state)
    resumed = [f"resumed {ended.at}"] if ended is not None and f"resumed {ended.at}" not in told else []
    if not (due or resumed) or ws.is_read_only(session):
        return HookAnswer(block=block)
    kept = resumed or [mark for mark in told if mark.startswith("resumed ")]
    said_now = [announcement_mark(state, line) for line in LINES if line in due or was_announced(state, line)]
    ws.recorder.record(session, lambda _: [ExtraKept(name=ANNOUNCED, value=[*said_now, *kept])])
    said = (
        [f"The clock runs again: the session was paused for {format_duration(ended.length)}."]
        if ended and resumed
        else []
    )
    said += [_sentence(state, due[-1], rule)] if due else []
    return HookAnswer(say=" ".join(said), notify=bool(due and ws.settings["capture.notify"]), block=block)


class _Ended(NamedTuple):
    at: int
    length: int


def _ended_pause(ws: Workspace, state: State) -> _Ended | None:
    """The pause that this prompt has ended, if it was one that somebody set."""
    marks = [mark for mark in state.time.marks if mark.kind not in ("away", "worked")]
    if len(marks) < 2 or marks[-1].kind != "resumed" or ws.now() - marks[-1].at > MINUTE:
        return None
    return _Ended(marks[-1].at, max(marks[-1].at - marks[-2].at, 0))


def _sentence(state: State, line: Line, rule: LimitRule) -> str:
    # The person's message may have ended the pause again by now.
    paused = line == "timeout_90" and view.status_of(state) == "paused" and _is_limits_pause(state)
    return reminder(line, limit_of(state, line), paused, rule.only_resume)


def _is_limits_pause(state: State) -> bool:
    mark = view.latest_mark(state)
    return mark is not None and mark.kind == "timeout"


def _is_own_command(heard: HookEvent) -> bool:
    """Whether the prompt is a command of Holdfast's own: without these, nobody could go on from within the agent."""
    asked = next((signal.text for signal in heard.signals if isinstance(signal, Prompted)), "")
    return _OWN_COMMAND.match(asked) is not None


def _held_back(ws: Workspace, state: State) -> str | None:
    """Why the prompt must wait: only where the person chose that the limit's pause is a real one."""
    if not ws.settings["capture.block_at_timeout"] or view.status_of(state) != "paused":
        return None
    return _sentence(state, "timeout_90", ws.limit_rule()) if _is_limits_pause(state) else None
