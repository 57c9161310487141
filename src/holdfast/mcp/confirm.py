"""Ask the person to confirm: a share leaves this device for somebody else, so an argument is not enough.

The client puts the question to them (elicitation). One that cannot do so gets the command to run instead. The answer
counts for the very words that were asked: another session, another person, other rights are another question.
"""

from __future__ import annotations

import shlex
from contextvars import ContextVar

from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from pydantic import BaseModel, Field

from holdfast.core.errors import Refused
from holdfast.core.text import shorten
from holdfast.core.wording import one_line


class Confirmation(BaseModel):
    share: bool = Field(description="Really share it", title="Share it", strict=True)


class Once:
    """Answers that came with a call, each good for one share.

    What is sealed carries no name that a tool could see, so the seal itself is remembered.
    """

    def __init__(self) -> None:
        self._inner = RequestStateSecurity.ephemeral().codec
        self._spent: set[str] = set()

    def seal(self, payload: bytes) -> str:
        return self._inner.seal(payload)

    def unseal(self, token: str) -> bytes:
        opened = self._inner.unseal(token)
        _answering.set((self, token))
        return opened

    def spend(self, token: str) -> bool:
        """Whether it is the first time."""
        fresh = token not in self._spent
        self._spent.add(token)
        return fresh


# What the call in hand answers: every call has a context of its own.
_answering: ContextVar[tuple[Once, str] | None] = ContextVar("answering", default=None)


def security() -> RequestStateSecurity:
    """How questions travel to the client and back: sealed, and good for one answer."""
    return RequestStateSecurity(codec=Once())


def refuse_answered_before() -> None:
    """Raise where the person's answer was used already."""
    found = _answering.get()
    if found is not None and not found[0].spend(found[1]):
        raise Refused(
            "this answer of the person was used already; nothing more was shared",
            hint="Call share_session anew: the person is asked again.",
        )


def nobody_asked() -> Refused:
    return Refused(
        "the client did not put the question to the person; nothing was shared",
        hint="Tell the person that they can share it themselves: holdfast share ID --with EMAIL",
    )


def refuse_unless_asked(context: Context, command: str) -> None:
    """Raise where the client cannot ask a person."""
    capabilities = context.client_capabilities
    can = None if capabilities is None else capabilities.elicitation
    if can is None or (can.form is None and can.url is not None):
        raise Refused(
            "sharing needs the person's word, and this client cannot ask them; nothing was shared",
            hint=f"Tell the person to run this themselves: {command}",
        )


def command(session: str, email: str, *, read_only: bool, days: int | None, remote: str) -> str:
    """What the person types to do the same."""
    words = ["holdfast", "share", session[:8], "--with", email]
    words += ["--read-only"] if read_only else []
    words += ["--expires", f"{days}d"] if days is not None else []
    words += ["--remote", remote] if remote else []
    return shlex.join(words)


def question(goal: str, session: str, email: str, *, read_only: bool, days: int | None) -> str:
    """Stored text is quoted and harmless: it must not be able to word the question."""
    rights = "read it" if read_only else "read it and write in it"
    until = "" if days is None else f", for {days} day{'' if days == 1 else 's'}"
    return (
        f"Share a session with {one_line(email)}? They could {rights}{until}. "
        f"Session {session[:8]}, whose goal is: “{shorten(one_line(goal), 200)}”. "
        "What they have read by then cannot be taken back."
    )
