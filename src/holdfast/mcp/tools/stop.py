"""Tools that stop the clock: for a while, or for good."""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import Field

from holdfast.core.errors import Invalid
from holdfast.keeper.keeper import Keeper
from holdfast.mcp.answers import Receipt
from holdfast.mcp.context import McpContext
from holdfast.mcp.results import receipt, remarks
from holdfast.mcp.tool import Project, Reference, Text, offer

Outcome = Literal["completed", "aborted", "failed"]


class StopTools:
    def __init__(self, ground: McpContext) -> None:
        self._ground = ground

    async def pause_session(
        self,
        reason: Annotated[Text, Field(description="Why, in a few words.")] = "",
        session: Reference = "",
        project: Project = "",
    ) -> CallToolResult:
        def work(keeper: Keeper) -> CallToolResult:
            found = self._ground.meant(keeper, session)
            with remarks(found.keeper) as notes:
                found.pause(reason or None)
            return receipt(found, notes, "Paused")

        return await self._ground.ask(project, work)

    async def finish_session(
        self,
        outcome: Annotated[
            Outcome,
            Field(description="completed: the goal is reached. aborted: given up. failed: it cannot go on as it is."),
        ] = "completed",
        summary: Annotated[Text, Field(description="What was achieved, in a line or two.")] = "",
        reason: Annotated[Text, Field(description="Why it was given up, or what went wrong.")] = "",
        session: Reference = "",
        project: Project = "",
    ) -> CallToolResult:
        if outcome == "failed" and not reason.strip():
            raise Invalid("a session that failed needs a reason", hint="Say what went wrong: the argument `reason`.")

        def work(keeper: Keeper) -> CallToolResult:
            found = self._ground.meant(keeper, session)
            with remarks(found.keeper) as notes:
                with found.keeper.batch():
                    if summary and outcome != "completed":
                        found.edit(summary=summary)
                    if outcome == "completed":
                        found.complete(summary=summary or None, reason=reason or None)
                    elif outcome == "aborted":
                        found.abort(reason or None)
                    else:
                        found.fail(reason)
                branch = found.document().branch
                if branch is not None and outcome == "completed":
                    notes.append(f"Its branch {branch} is still there: merging or deleting it is for the person.")
            if outcome != "failed":  # which can be resumed
                self._ground.mine.finished(found)
            return receipt(found, notes, "Finished")

        return await self._ground.ask(project, work)


def tools(ground: McpContext) -> list[Tool]:
    verbs = StopTools(ground)
    return [
        offer(
            verbs.pause_session, Receipt, title="Pause the session", repeatable=True,
            description="Stop the clock because work stops for now, for instance when the person leaves. "
            "resume_session goes on with it.",
        ),
        offer(
            verbs.finish_session, Receipt, title="Finish the session", destroys=True, repeatable=True,
            description="End the session for good when the work is done (completed), given up (aborted) or cannot go "
            "on (failed). Agents still recorded as at work end with it. Ask the person first if you are not sure; "
            "pause_session is for a break.",
        ),
    ]  # fmt: skip
