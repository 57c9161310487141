"""Asking the person: a share leaves this device for somebody else, so it is theirs to confirm, never an argument's.

The client puts the question to them (elicitation). One that cannot do so gets the command to run instead. The answer
counts for the very words that were asked: another session, another person, other rights are another question.
"""

from __future__ import annotations

import shlex

from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

from holdfast.core.errors import Refused
from holdfast.core.text import shorten
from holdfast.keeper.wording import one_line


class Confirmation(BaseModel):
    share: bool = Field(description="Really share it", title="Share it")


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
