"""Tools that begin: a new session, or one that was left."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import Field

from holdfast.core.errors import Invalid, NotFound
from holdfast.core.wording import one_line
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.mcp.answers import Receipt, Standing
from holdfast.mcp.context import McpContext, at_its_place
from holdfast.mcp.results import named_files, receipt, remarks, where_it_stands
from holdfast.mcp.tool import Name, Project, Reference, Text, offer
from holdfast.sessions import work_trees

Mode = Literal["debug", "default", "optimize", "release"]
LATEST = "latest"


class Beginning:
    def __init__(self, ground: McpContext) -> None:
        self._ground = ground

    async def start_session(
        self,
        goal: Annotated[Text, Field(description="What is to be achieved, in a sentence.")],
        scope: Annotated[Name, Field(description="The part of the project it belongs to.")] = "",
        task: Annotated[Name, Field(description="The task in two to four words.")] = "",
        mode: Annotated[Mode, Field(description="How agents work.")] = "default",
        model: Annotated[Name, Field(description="The model in use.")] = "",
        tags: Annotated[list[Name], Field(max_length=20)] = [],  # noqa: B006 (pydantic copies it)
        continues: Annotated[Name, Field(description="The id of the session this one goes on from.")] = "",
        replace: Annotated[bool, Field(description="Put the current session away first; it can be resumed.")] = False,
        project: Project = "",
    ) -> CallToolResult:
        if self._ground.stands_nowhere(project):
            raise Invalid(
                "the server was started outside of any project",
                hint="Say which project the session is about: the argument `project`, an absolute directory.",
            )

        def work(keeper: Keeper) -> CallToolResult:
            with remarks(keeper) as notes:
                session = keeper.start(
                    goal, scope=scope or None, task=task or None, mode=mode, model=model or None, tags=tags,
                    continues=continues or None, replace=replace, gathers=False,
                )  # fmt: skip
            self._ground.mine.took(session)
            return receipt(session, [*notes, *named_files(keeper, at_work=True)], "Started")

        return await self._ground.ask(project, work)

    async def resume_session(
        self,
        session: Annotated[
            Reference,
            Field(
                description="Its id, a prefix of it, an alias, or `latest`. Default: the current, else the latest."
            ),
        ] = "",
        force: Annotated[bool, Field(description="Go on even if the files here differ from what was left.")] = False,
        max_chars: Annotated[int, Field(description="Length of the briefing.", ge=500, le=50_000)] = 10_000,
        project: Project = "",
    ) -> CallToolResult:
        def work(keeper: Keeper) -> CallToolResult:
            heard = _caught_up(keeper)
            found = _asked(keeper, session, anywhere=self._ground.stands_nowhere(project))
            with remarks(found.keeper) as notes:
                notes.extend(heard)
                found, resumed, continued = found.take_up(force=force, gathers=False)
                notes.extend([] if continued is None else [continued])
                self._ground.mine.took(found)
                if found.keeper.place.root != keeper.place.root:
                    notes.append(_apart(found))
                notes.extend(
                    f"This place differs: {difference.detail}." + (f" {difference.fix}" if difference.fix else "")
                    for difference in resumed.ground
                )
            notes += named_files(found.keeper, at_work=True)
            return where_it_stands(found, notes, max_chars)

        return await self._ground.apart(project, work)


def _asked(keeper: Keeper, reference: str, *, anywhere: bool) -> SessionHandle:
    """`anywhere`: the server stands in no project, so that the session is gone on with where it was worked on."""
    if reference not in ("", LATEST):
        named = keeper.session(reference)
        # One of another project does not become current in this one.
        away = anywhere or not work_trees.belongs_here(keeper, named.id)
        return at_its_place(keeper, named) if away else named
    found = (keeper.current() if reference == "" else None) or keeper.latest_unfinished()
    if found is None:
        files = [] if anywhere else named_files(keeper, at_work=False, foreign=True)
        hint = "\n".join(["Start one: holdfast start GOAL", *files])
        raise NotFound("there is no unfinished session in this project", hint=hint)
    return found


def _apart(found: SessionHandle) -> str:
    return (
        f"It belongs to another project and goes on there, in {one_line(found.keeper.place.root)}: pass "
        f"session {found.id[:8]} with every call about it."
    )


def _caught_up(keeper: Keeper) -> list[str]:
    """Hear what other devices did first, where there is a remote to ask."""
    if not os.path.lexists(keeper.home.remotes):
        return []
    from holdfast.sync.background import catch_up

    return catch_up(keeper)


def tools(ground: McpContext) -> list[Tool]:
    verbs = Beginning(ground)
    return [
        offer(
            verbs.start_session, Receipt, title="Start a session",
            description="Begin a session for a new piece of work and make it the project's current one. Refused "
            "while another one is unfinished: go on with that (resume_session), finish it, or pass replace.",
        ),
        offer(
            verbs.resume_session, Standing, title="Go on with a session",
            description="Take up an unfinished session again: ends its pause, settles what a crash left behind, "
            "makes it current here, and returns the briefing that says where it stopped. Of one that has ended, "
            "begins a session that continues it with its open tasks. Call it before going on with earlier work.",
        ),
    ]  # fmt: skip
