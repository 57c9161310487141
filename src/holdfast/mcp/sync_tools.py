"""Tools that reach beyond this machine: sync, and share once the person has agreed.

A share leaves this device for another person, so an argument is not enough: the client asks the person (elicitation),
and one that cannot gets the command to run instead. The answer is good for exactly what was asked: another session,
person or permission is another question.

No `from __future__ import annotations` here: the annotations name functions that know the server's context.
"""

import shlex
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Final, NamedTuple

from anyio import from_thread
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import RequestStateSecurity
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from holdfast.core.errors import Refused
from holdfast.core.text import shorten
from holdfast.core.times import DAY, format_time
from holdfast.core.wording import count, one_line
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import monotonic
from holdfast.mcp.answers import Exchanged, Gone, News, Reached, Rejected, Share, Shared, result
from holdfast.mcp.context import McpContext
from holdfast.mcp.tool import Name, Project, Reference, make_tool
from holdfast.sync import people, shares
from holdfast.sync.sync import SyncResult, sync

_PROGRESS_INTERVAL: Final = 0.5  # seconds
_MAX_LISTED: Final = 20  # of each list


class SyncTool:
    def __init__(self, mcp_context: McpContext) -> None:
        self._context = mcp_context

    async def sync(
        self,
        context: Context,
        remote: Annotated[Name, Field(description="Only this remote. Default: all of them.")] = "",
        project: Project = "",
    ) -> CallToolResult:
        def work(keeper: Keeper) -> CallToolResult:
            return _sync_result(sync(keeper, remote or None, progress=_progress(context)))

        return await self._context.run_with_own_keeper(project, work)


def _progress(context: Context) -> Callable[[int, int, str], None]:
    """Reports progress now and then to clients that asked for it: they wait longer while they get some."""
    next_report = monotonic() + _PROGRESS_INTERVAL

    def report(done: int, total: int, what: str) -> None:
        nonlocal next_report
        if monotonic() >= next_report:
            next_report = monotonic() + _PROGRESS_INTERVAL
            from_thread.run(context.report_progress, done, total or None, what)

    return report


def _sync_result(outcome: SyncResult) -> CallToolResult:
    if outcome.failed and not outcome.reached:
        name, error = next(iter(outcome.failed.items()))
        error.message = f"could not sync with {name}: {error.message}"
        raise error
    report = outcome.report
    remotes = [Reached(name=name, error=None) for name in outcome.reached]
    remotes += [Reached(name=name, error=error.message) for name, error in outcome.failed.items()]
    notes = [one_line(sentence) for sentence in report.notes[:_MAX_LISTED]]
    answer = Exchanged(
        pushed=report.pushed, pulled=report.pulled, conflicts=outcome.conflicts,
        rejected=[
            Rejected(pack=refused.pack, device=refused.device, reason=refused.reason)
            for refused in report.rejected[:_MAX_LISTED]
        ],
        notes=notes, remotes=remotes,
        sessions=[
            News(id=session.id, goal=session.goal, conflicts=session.conflicts)
            for session in outcome.sessions[:_MAX_LISTED]
        ],
        deleted=[Gone(session=deleted.session, device=deleted.device) for deleted in report.deleted[:_MAX_LISTED]],
    )  # fmt: skip
    sentences = [f"Sent {report.pushed:,}, received {report.pulled:,}."]
    sentences += [f"{name}: {one_line(error.message)}." for name, error in outcome.failed.items()]
    sentences += (
        [f"{count(len(report.rejected), 'pack')} not accepted: holdfast doctor has details."]
        if report.rejected
        else []
    )
    if outcome.conflicts:
        sentences.append(f"{count(outcome.conflicts, 'conflict')} for the person to resolve: holdfast conflicts.")
    if len(outcome.sessions) > _MAX_LISTED:
        sentences.append(f"{len(outcome.sessions):,} sessions changed; the latest {_MAX_LISTED} are listed.")
    return result(answer, " ".join([*sentences, *notes]))


def sync_tool(mcp_context: McpContext) -> Tool:
    return make_tool(
            SyncTool(mcp_context).sync, Exchanged, title="Sync with other devices", repeatable=True, outside=True,
            description="Exchange what is missing with the remotes the person has set up, encrypted end to end. It "
            "happens by itself after something was recorded; call it when the person is about to change to another "
            "device, or asks for the latest. It cannot set up remotes.",
        )  # fmt: skip


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


class Confirmation(BaseModel):
    share: bool = Field(description="Share it", title="Share it", strict=True)


class SingleUseCodec:
    """The person's answers, each good for one share.

    Sealed state carries no id a tool could see, so the sealed token itself is remembered.
    """

    def __init__(self) -> None:
        self._inner = RequestStateSecurity.ephemeral().codec
        self._used: set[str] = set()

    def seal(self, payload: bytes) -> str:
        return self._inner.seal(payload)

    def unseal(self, token: str) -> bytes:
        opened = self._inner.unseal(token)
        _person_answer.set((self, token))
        return opened

    def use_once(self, token: str) -> bool:
        """Whether this is its first use."""
        fresh = token not in self._used
        self._used.add(token)
        return fresh


# The answer that came with the current call: every call has a separate context.
_person_answer: ContextVar[tuple[SingleUseCodec, str] | None] = ContextVar("answering", default=None)


def request_security() -> RequestStateSecurity:
    """Questions travel to the client and back sealed, and are good for one answer."""
    return RequestStateSecurity(codec=SingleUseCodec())


def refuse_reused_answer() -> None:
    """Raise if the person's answer was used before."""
    answer = _person_answer.get()
    if answer is not None and not answer[0].use_once(answer[1]):
        raise Refused(
            "this answer was used before; nothing more was shared",
            hint="Call share_session again: the person will be asked again.",
        )


def not_asked_error() -> Refused:
    return Refused(
        "the client did not ask the person; nothing was shared",
        hint="Tell the person that they can share it themselves: holdfast share ID --with EMAIL",
    )


def refuse_without_elicitation(context: Context, command: str) -> None:
    """Raise if the client cannot ask the person."""
    capabilities = context.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        raise Refused(
            "sharing needs the person's agreement, and this client cannot ask for it; nothing was shared",
            hint=f"Tell the person to run this themselves: {command}",
        )


def share_command(session: str, email: str, *, read_only: bool, days: int | None, remote: str) -> str:
    """The command that does the same."""
    arguments = ["holdfast", "share", session[:8], "--with", email]
    arguments += ["--read-only"] if read_only else []
    arguments += ["--expires", f"{days}d"] if days is not None else []
    arguments += ["--remote", remote] if remote else []
    return shlex.join(arguments)


def question_text(goal: str, session: str, email: str, *, read_only: bool, days: int | None) -> str:
    """Stored text is quoted and cleaned: it must not be able to word the question."""
    rights = "read it" if read_only else "read and change it"
    until = "" if days is None else f", for {days} day{'' if days == 1 else 's'}"
    return (
        f"Share a session with {one_line(email)}? They will be able to {rights}{until}. "
        f"It is session {session[:8]}, with the goal “{shorten(one_line(goal), 200)}”. "
        "What they have read cannot be taken back."
    )


class _ShareRequest(NamedTuple):
    session: str
    goal: str
    email: str


def share_tool(mcp_context: McpContext) -> Tool:
    async def share_request(session: str, email: str, project: str) -> _ShareRequest:
        """What to share with whom. Refused before the person is asked, if either is unknown."""

        def work(keeper: Keeper) -> _ShareRequest:
            handle = mcp_context.session_for(keeper, session)
            return _ShareRequest(handle.id, handle.document().goal, people.find(keeper.home, email).email)

        return await mcp_context.read(project, work)

    async def ask_person(
        context: Context,
        request: Annotated[_ShareRequest, Resolve(share_request)],
        read_only: bool,
        days: int | None,
        remote: str,
    ) -> Elicit[Confirmation]:
        command_line = share_command(request.session, request.email, read_only=read_only, days=days, remote=remote)
        refuse_without_elicitation(context, command_line)
        question = question_text(request.goal, request.session, request.email, read_only=read_only, days=days)
        return Elicit(question, Confirmation)

    async def share_session(
        email: Annotated[Name, Field(description="Whom to share it with, as the person added them.")],  # noqa: ARG001
        request: Annotated[_ShareRequest, Resolve(share_request)],
        answer: Annotated[ElicitationResult[Confirmation], Resolve(ask_person)],
        session: Reference = "",  # noqa: ARG001 (`share_request` reads both)
        read_only: Annotated[bool, Field(description="They may read it, not change it.")] = False,
        days: Annotated[int | None, Field(description="The share ends after this many days.", ge=1, le=3650)] = None,
        remote: Annotated[Name, Field(description="Which remote to use, if there are several.")] = "",
        project: Project = "",
    ) -> CallToolResult:
        if not isinstance(answer, AcceptedElicitation) or not answer.data.share:
            raise Refused("the person did not agree; nothing was shared", hint="Ask again only if they bring it up.")
        refuse_reused_answer()

        def work(keeper: Keeper) -> CallToolResult:
            # The session the person was asked about, even if another one is current by now.
            expires = None if days is None else keeper.now() + days * DAY
            done = shares.share(
                keeper, request.session, request.email, write=not read_only, expires=expires, name=remote or None
            )
            share = Share(
                session=request.session, with_=done.email, remote=done.remote, url=done.url, write=done.write,
                expires=None if done.expires is None else format_time(done.expires),
            )  # fmt: skip
            return result(
                Shared(share=share),
                f"Shared {request.session[:8]} with {one_line(done.email)}."
                f" They accept it with: holdfast accept {done.url}",
            )

        return await mcp_context.run_with_own_keeper(project, work)

    return make_tool(
        share_session, Shared, title="Share a session with a person", destroys=True, outside=True,
        description="Let one person, whom the person here added with `holdfast people add`, read this session or "
        "continue it. The person here is asked to confirm, each time; where that is not possible nothing is "
        "shared, and the answer names the command they can run themselves.",
    )  # fmt: skip
