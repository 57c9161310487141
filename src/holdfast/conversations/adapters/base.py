"""The interface of an adapter: how an agent's hooks are read and answered.

Every `Adapter` passes `holdfast.conversations.conformance`. A new agent is one new package and its record in
`core.agent_programs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from holdfast.conversations.signals import AnySignal
from holdfast.core.canonical import Json

Payload = Mapping[str, Json]
# When an agent waits for an answer: as a conversation opens, as a prompt is submitted, before a compression.
Occasion = Literal["start", "prompt", "compact"]
Scope = Literal["user", "project"]


class HookEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one payload of a hook says."""

    # The agent program it comes from: usually the one asked for, but programs read each other's settings.
    agent: str
    # The program's own id of the conversation.
    conversation: str
    # The program's own name of the event.
    event: str
    signals: tuple[AnySignal, ...] = ()
    # Where the conversation is, as the payload says.
    cwd: str | None = None
    # Equal for the same event reported through two configurations. Empty: the whole payload identifies the event, and
    # an equal one some seconds later is another event.
    mark: str = ""
    occasion: Occasion | None = None
    # The command that reopens the conversation.
    resume: str | None = None
    # Unknown fields, kept for later versions.
    rest: dict[str, Json] = {}


class HookAnswer(NamedTuple):
    """Holdfast's answer to an agent or its person, before it is put into the agent's own form."""

    # For the agent: recorded facts.
    context: str | None = None
    # For the person: one sentence.
    say: str | None = None
    # Whether the person is to be notified outside of the terminal's text.
    notify: bool = False
    # Why the prompt is blocked; only when the person chose so.
    block: str | None = None


class Reply(NamedTuple):
    """What the hook prints, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0


class Adapter(Protocol):
    """One agent program: how its hooks are read and answered. Pure: no file is read here."""

    name: str  # the word of the command line
    room: int  # characters of context it takes whole
    notifies: bool  # whether its reply can notify the person outside of the terminal's text

    def parse(self, payload: Payload) -> HookEvent | None:
        """What a payload says; None when it belongs to no conversation. Never raises, whatever is in it."""

    def reply(self, answer: HookAnswer, event: str) -> Reply:
        """The answer in the form this agent documents; an empty answer is an empty reply with code 0."""
