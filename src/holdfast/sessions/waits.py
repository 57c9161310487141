"""What agents wait for the person for: the names it is kept under, and when its cause is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.canonical import digest

if TYPE_CHECKING:
    from holdfast.core.model import Waiting
    from holdfast.core.state import State


def wait_name(agent: str, conversation: str, subagent: str | None) -> str:
    """The name of what a conversation, or a subagent of it, waits for."""
    return _of_conversation(agent, conversation) + _short(subagent or "")


def waits_of(state: State, agent: str, conversation: str) -> list[str]:
    """What a conversation waits for."""
    return [name for name in state.waiting if name.startswith(_of_conversation(agent, conversation))]


def still_waiting(state: State, shown: list[Waiting]) -> list[Waiting]:
    """Of what an unfinished session waits for, as it is shown: without that of programs that are no longer there."""
    from holdfast.sessions.resume import broken

    ended = {name for item in broken(state) for name in waits_of(state, item.agent, item.id)}
    return [wait for name, wait in zip(state.waiting, shown, strict=True) if name not in ended]


def _of_conversation(agent: str, conversation: str) -> str:
    return f"{agent}-{_short(conversation)}-"


def _short(words: str) -> str:
    return digest(words.encode(errors="surrogatepass"))[:8]
