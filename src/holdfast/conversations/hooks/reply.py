"""Answer an agent that waits: a briefing on the unfinished session when the agent opens, reminders after."""

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
    LIMITS,
    Limit,
    LimitRule,
    announced_marks,
    announcement_mark,
    counted_time,
    is_recorded,
    limit_ms,
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


def answer(ws: Workspace, event: HookEvent, *, room: int) -> HookAnswer:
    """The answer to an event; `ws` is the workspace of its work tree, and the event is recorded already."""
    match event.occasion:
        case "start" if ws.settings["capture.briefing"]:
            return _brief(ws, event, room)
        case "prompt":
            return _remind(ws, event)
        case "compact":
            session = _own_session(ws, event)
            return (
                HookAnswer()
                if session is None
                else HookAnswer(context=brief(ws, session, max_chars=_BEFORE_COMPRESSION))
            )
    return HookAnswer()


def _brief(ws: Workspace, event: HookEvent, room: int) -> HookAnswer:
    session = _own_session(ws, event) or current_session(ws) or _unfinished(ws)
    if session is None or not ws.state(session).count:
        return HookAnswer()
    return HookAnswer(context=brief(ws, session, reader="agent", max_chars=room))


def _unfinished(ws: Workspace) -> str | None:
    """The project's unfinished session, unless it is archived."""
    session = latest_unfinished(ws)
    return None if session is None or ws.state(session).archived else session


def _own_session(ws: Workspace, event: HookEvent) -> str | None:
    """The session of this conversation, while it is unfinished."""
    state = session_of(ws, view.native_name(event.agent, event.conversation))
    return None if state is None or view.status_of(state) in FINISHED else state.session


def _remind(ws: Workspace, event: HookEvent) -> HookAnswer:
    """Remind of the latest limit of working time that was crossed and not announced yet."""
    session = _own_session(ws, event)
    if session is None:
        return HookAnswer()
    state = ws.state(session)
    block = None if _is_own_command(event) else _block_reason(ws, state)
    rule = ws.limit_rule()
    since = counted_time(state, ws.now(), rule).since
    announced = announced_marks(state)
    crossed = [line for line in LIMITS if line not in rule.off and is_recorded(state, line, rule, since)]
    due = [line for line in crossed if not was_announced(state, line)]
    ended = _ended_pause(ws, state)
    resumed = [f"resumed {ended.at}"] if ended is not None and f"resumed {ended.at}" not in announced else []
    if not (due or resumed) or ws.is_read_only(session):
        return HookAnswer(block=block)
    resume_marks = resumed or [mark for mark in announced if mark.startswith("resumed ")]
    limits = [announcement_mark(state, line) for line in LIMITS if line in due or was_announced(state, line)]
    ws.recorder.record(session, lambda _: [ExtraKept(name=ANNOUNCED, value=[*limits, *resume_marks])])
    sentences = (
        [f"Working time is counted again: the session was paused for {format_duration(ended.length)}."]
        if ended and resumed
        else []
    )
    sentences += [_sentence(state, due[-1], rule)] if due else []
    return HookAnswer(say=" ".join(sentences), notify=bool(due and ws.settings["capture.notify"]), block=block)


class _EndedPause(NamedTuple):
    at: int
    length: int


def _ended_pause(ws: Workspace, state: State) -> _EndedPause | None:
    """The pause that this prompt has ended, if it was one that somebody set."""
    marks = [mark for mark in state.time.marks if mark.kind not in ("away", "worked")]
    if len(marks) < 2 or marks[-1].kind != "resumed" or ws.now() - marks[-1].at > MINUTE:
        return None
    return _EndedPause(marks[-1].at, max(marks[-1].at - marks[-2].at, 0))


def _sentence(state: State, line: Limit, rule: LimitRule) -> str:
    # The person's message may have ended the pause again by now.
    paused = line == "timeout_90" and view.status_of(state) == "paused" and _is_limits_pause(state)
    return reminder(line, limit_ms(state, line), paused, rule.only_resume)


def _is_limits_pause(state: State) -> bool:
    mark = view.latest_mark(state)
    return mark is not None and mark.kind == "timeout"


def _is_own_command(event: HookEvent) -> bool:
    """Whether the prompt is a command of Holdfast's own: blocking these would leave no way on within the agent."""
    prompt = next((signal.text for signal in event.signals if isinstance(signal, Prompted)), "")
    return _OWN_COMMAND.match(prompt) is not None


def _block_reason(ws: Workspace, state: State) -> str | None:
    """Why the prompt is blocked: only where the person chose that the limit's pause blocks prompts."""
    if not ws.settings["capture.block_at_timeout"] or view.status_of(state) != "paused":
        return None
    return _sentence(state, "timeout_90", ws.limit_rule()) if _is_limits_pause(state) else None
