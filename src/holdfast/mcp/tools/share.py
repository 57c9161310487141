"""The tool that shares, once the person has said yes.

Annotations are read where they stand here, not later: they name functions that know the server's ground.
"""

from typing import Annotated, NamedTuple

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import Field

from holdfast.core.errors import Refused
from holdfast.core.times import DAY, format_time
from holdfast.core.wording import one_line
from holdfast.keeper.keeper import Keeper
from holdfast.mcp import confirm
from holdfast.mcp.answers import Share, Shared, result
from holdfast.mcp.confirm import Confirmation
from holdfast.mcp.context import McpContext
from holdfast.mcp.tool import Name, Project, Reference, offer
from holdfast.sync import people, shares


class _Wish(NamedTuple):
    session: str
    goal: str
    email: str


def tools(ground: McpContext) -> list[Tool]:
    async def wished(session: str, email: str, project: str) -> _Wish:
        """What would be shared with whom; refused where either is unknown, before anybody is asked."""

        def work(keeper: Keeper) -> _Wish:
            found = ground.meant(keeper, session)
            return _Wish(found.id, found.document().goal, people.named(keeper.home, email).email)

        return await ground.look(project, work)

    async def confirmed(
        context: Context,
        wish: Annotated[_Wish, Resolve(wished)],
        read_only: bool,
        days: int | None,
        remote: str,
    ) -> Elicit[Confirmation]:
        typed = confirm.command(wish.session, wish.email, read_only=read_only, days=days, remote=remote)
        confirm.refuse_unless_asked(context, typed)
        words = confirm.question(wish.goal, wish.session, wish.email, read_only=read_only, days=days)
        return Elicit(words, Confirmation)

    async def share_session(
        email: Annotated[Name, Field(description="Whom to share it with, as the person added them.")],  # noqa: ARG001
        wish: Annotated[_Wish, Resolve(wished)],
        answer: Annotated[ElicitationResult[Confirmation], Resolve(confirmed)],
        session: Reference = "",  # noqa: ARG001 (both are read by `wished`)
        read_only: Annotated[bool, Field(description="They may read it, not write in it.")] = False,
        days: Annotated[int | None, Field(description="It ends after so many days.", ge=1, le=3650)] = None,
        remote: Annotated[Name, Field(description="By which remote, where there are several.")] = "",
        project: Project = "",
    ) -> CallToolResult:
        if not isinstance(answer, AcceptedElicitation) or not answer.data.share:
            raise Refused("the person did not agree; nothing was shared", hint="Ask again only if they bring it up.")
        confirm.refuse_answered_before()

        def work(keeper: Keeper) -> CallToolResult:
            # What the person was asked about, though another session may be current by now.
            expires = None if days is None else keeper.now() + days * DAY
            done = shares.share(
                keeper, wish.session, wish.email, write=not read_only, expires=expires, name=remote or None
            )
            share = Share(
                session=wish.session, with_=done.email, remote=done.remote, url=done.url, write=done.write,
                expires=None if done.expires is None else format_time(done.expires),
            )  # fmt: skip
            return result(
                Shared(share=share),
                f"Shared {wish.session[:8]} with {one_line(done.email)}. There they run: holdfast accept {done.url}",
            )

        return await ground.apart(project, work)

    return [
        offer(
            share_session, Shared, title="Share a session with a person", destroys=True, outside=True,
            description="Let one person, whom the person here added with `holdfast people add`, read this session or "
            "go on with it. The person here is asked to confirm, each time; where that is not possible nothing is "
            "shared, and the answer names the command they can run themselves.",
        )
    ]  # fmt: skip
