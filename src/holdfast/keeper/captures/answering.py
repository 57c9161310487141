"""What Holdfast says to an agent that waits for an answer: where the unfinished session stands as the agent is
opened, that a break is due as a prompt is submitted, what must not be forgotten before the context is compressed.
Facts, never orders.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.capture.interface import Answer, Heard
from holdfast.capture.signals import Prompted
from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.reminders import (
    LINES,
    SAID,
    Line,
    Rule,
    counted,
    is_recorded,
    limit_of,
    said_before,
    said_mark,
    was_said,
)
from holdfast.core.state import State
from holdfast.core.times import MINUTE, span
from holdfast.core.vocabulary import ExtraKept
from holdfast.keeper.captures.links import session_of
from holdfast.keeper.wording import reminder

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import KeptSession

_BEFORE_COMPRESSION = 4_000  # characters
_OWN_COMMAND = re.compile(r"\s*/(?:holdfast:[a-z]|(?:session|orchestrate)(?:\s|$))")


def answer(keeper: Keeper, heard: Heard, *, room: int) -> Answer:
    """What to say; `keeper` is that of the conversation's work tree, and what was heard is recorded already."""
    match heard.occasion:
        case "start" if keeper.settings["capture.briefing"]:
            return _briefed(keeper, heard, room)
        case "prompt":
            return _reminded(keeper, heard)
        case "compact":
            session = _own(keeper, heard)
            return Answer() if session is None else Answer(context=session.briefing(max_chars=_BEFORE_COMPRESSION))
    return Answer()


def _briefed(keeper: Keeper, heard: Heard, room: int) -> Answer:
    session = _own(keeper, heard) or keeper.current() or _unfinished(keeper)
    if session is None or not session.state().count:
        return Answer()
    return Answer(context=session.briefing(reader="agent", max_chars=room))


def _unfinished(keeper: Keeper) -> KeptSession | None:
    """The project's unfinished session, unless it was put away."""
    found = keeper.latest_unfinished()
    return None if found is None or found.state().archived else found


def _own(keeper: Keeper, heard: Heard) -> KeptSession | None:
    """The session of this conversation, while it is unfinished."""
    from holdfast.keeper.session import KeptSession

    state = session_of(keeper, view.native_name(heard.agent, heard.conversation))
    return None if state is None or view.status_of(state) in FINISHED else KeptSession(keeper, state.session)


def _reminded(keeper: Keeper, heard: Heard) -> Answer:
    """The latest line of working time that was crossed and that nobody was told of yet."""
    session = _own(keeper, heard)
    if session is None:
        return Answer()
    state = session.state()
    block = None if _is_own_command(heard) else _held_back(keeper, state)
    rule = keeper.limit_rule()
    since = counted(state, keeper.now(), rule).since
    told = said_before(state)
    crossed = [line for line in LINES if line not in rule.off and is_recorded(state, line, rule, since)]
    due = [line for line in crossed if not was_said(state, line)]
    ended = _ended_pause(keeper, state)
    resumed = [f"resumed {ended.at}"] if ended is not None and f"resumed {ended.at}" not in told else []
    if not (due or resumed) or keeper.upkeep.reads_only(session.id):
        return Answer(block=block)
    kept = resumed or [mark for mark in told if mark.startswith("resumed ")]
    said_now = [said_mark(state, line) for line in LINES if line in due or was_said(state, line)]
    keeper.recorder.record(session.id, lambda _: [ExtraKept(name=SAID, value=[*said_now, *kept])])
    said = [f"The clock runs again: the session was paused for {span(ended.length)}."] if ended and resumed else []
    said += [_sentence(state, due[-1], rule)] if due else []
    return Answer(say=" ".join(said), notify=bool(due and keeper.settings["capture.notify"]), block=block)


class _Ended(NamedTuple):
    at: int
    length: int


def _ended_pause(keeper: Keeper, state: State) -> _Ended | None:
    """The pause that this prompt has ended, if it was one that somebody set."""
    marks = [mark for mark in state.time.marks if mark.kind not in ("away", "worked")]
    if len(marks) < 2 or marks[-1].kind != "resumed" or keeper.now() - marks[-1].at > MINUTE:
        return None
    return _Ended(marks[-1].at, max(marks[-1].at - marks[-2].at, 0))


def _sentence(state: State, line: Line, rule: Rule) -> str:
    # The person's message may have ended the pause again by now.
    paused = line == "timeout_90" and view.status_of(state) == "paused" and _is_limits_pause(state)
    return reminder(line, limit_of(state, line), paused, rule.only_resume)


def _is_limits_pause(state: State) -> bool:
    mark = view.latest_mark(state)
    return mark is not None and mark.kind == "timeout"


def _is_own_command(heard: Heard) -> bool:
    """Whether the prompt is a command of Holdfast's own: without these, nobody could go on from within the agent."""
    asked = next((one.text for one in heard.signals if isinstance(one, Prompted)), "")
    return _OWN_COMMAND.match(asked) is not None


def _held_back(keeper: Keeper, state: State) -> str | None:
    """Why the prompt must wait: only where the person chose that the limit's pause is a real one."""
    if not keeper.settings["capture.block_at_timeout"] or view.status_of(state) != "paused":
        return None
    return _sentence(state, "timeout_90", keeper.limit_rule()) if _is_limits_pause(state) else None
