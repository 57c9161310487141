"""The tool that records: whatever happened since the last call, all of it or nothing."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import Field

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Invalid, Unreachable
from holdfast.core.wording import count
from holdfast.keeper.session import SessionHandle
from holdfast.mcp.answers import Recorded, result
from holdfast.mcp.context import McpContext
from holdfast.mcp.record_input import (
    AgentNews,
    AwayNews,
    ContextNews,
    DecisionNews,
    EditNews,
    FileNews,
    Report,
    TaskNews,
)
from holdfast.mcp.results import remarks, short_context
from holdfast.mcp.tool import MOST_ENTRIES, Fraction, Project, Reference, Text, offer

_MANY = Field(max_length=MOST_ENTRIES)


class Recording:
    def __init__(self, ground: McpContext) -> None:
        self._ground = ground

    async def record(
        self,
        agents: Annotated[list[AgentNews], _MANY] = [],  # noqa: B006 (pydantic copies these)
        tasks: Annotated[list[TaskNews], _MANY] = [],  # noqa: B006
        decisions: Annotated[list[DecisionNews], _MANY] = [],  # noqa: B006
        files: Annotated[list[FileNews], _MANY] = [],  # noqa: B006
        notes: Annotated[list[Text], _MANY] = [],  # noqa: B006
        context: Annotated[list[ContextNews], _MANY] = [],  # noqa: B006
        progress: Annotated[
            Fraction | None, Field(description="How far the session is, 0 to 1.", allow_inf_nan=False)
        ] = None,
        summary: Annotated[Text, Field(description="One line on what was done so far.")] = "",
        edit: Annotated[
            EditNews | None, Field(description="What the session is about, where that has changed.")
        ] = None,
        away: Annotated[list[AwayNews], Field(description="Pauses nobody recorded in time.", max_length=20)] = [],  # noqa: B006
        session: Reference = "",
        project: Project = "",
    ) -> CallToolResult:
        report = Report.model_construct(
            agents=agents, tasks=tasks, decisions=decisions, files=files, notes=notes, context=context,
            progress=progress, summary=summary, edit=[] if edit is None else [edit], away=away,
        )  # fmt: skip
        return await self._ground.ask(project, lambda keeper: _record(self._ground.meant(keeper, session), report))


def _record(session: SessionHandle, report: Report) -> CallToolResult:
    steps = list(report.steps(session))
    if not steps:
        raise Invalid("nothing was given to record", hint='For instance notes: ["…"], or progress: 0.5.')
    added: list[str] = []
    at = ""  # the entry in hand; the store may fail before the first and after the last
    with remarks(session.keeper) as notes:
        try:
            with session.keeper.batch():
                for where, apply in steps:
                    at = f"{where}: "
                    given = apply()
                    if where.startswith("tasks") and isinstance(given, str):
                        added.append(given)
                at = ""
        except Unreachable:
            raise  # whether it was recorded is told with it
        except HoldfastError as error:
            error.message = f"nothing of this call was recorded: {at}{error.message}"
            raise
    state = session.state()  # not the whole document: this is called after every step
    context, left = short_context(view.context_of(state))
    if context.level == "compress":
        notes.append("The context is nearly full: compress now.")
    done = Recorded(
        id=session.id, status=view.status_of(state), progress=view.progress_of(state), recorded=len(steps),
        tasks=added, context=context, notes=notes, left_out=left,
    )  # fmt: skip
    words = [f"Recorded {count(len(steps), 'entry', 'entries')} in {session.id[:8]}."]
    if added:
        words.append(f"Tasks added: {', '.join(added)}.")
    return result(done, " ".join([*words, *notes]))


def tools(ground: McpContext) -> list[Tool]:
    return [
        offer(
            Recording(ground).record, Recorded, title="Record what happened",
            description="Write down what happened in the session: agents (started, progressed, completed, failed…), "
            "tasks of the plan, decisions with their reasons, files changed, notes, context used, progress, a "
            "changed goal or scope (edit), pauses after the fact (away). Several at once in one call, which is "
            "recorded whole or, if anything in it is refused, not at all: then mend that entry and send everything "
            "again. Call it after each step that whoever goes on needs to know of.",
        )
    ]  # fmt: skip
