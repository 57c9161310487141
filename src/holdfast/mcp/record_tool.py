"""The tool `record`: everything that happened since the last call is recorded, or nothing is.

Each entry is typed and bounded, and knows its verb of the keeper.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final, Literal

from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Invalid, Unreachable
from holdfast.core.text import MAX_PATH_LENGTH
from holdfast.core.times import parse_time
from holdfast.core.wording import count
from holdfast.keeper.session import SessionHandle
from holdfast.mcp.answers import Recorded, result
from holdfast.mcp.context import McpContext
from holdfast.mcp.results import collect_notes, short_context
from holdfast.mcp.tool import MAX_ENTRIES, Count, Fraction, Name, Project, Reference, Text, make_tool

Apply = Callable[[], object]
File = Annotated[str, Field(max_length=MAX_PATH_LENGTH)]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Kind = Annotated[str, Field(max_length=100)]

# Per event of an agent, the fields that go with it.
_AGENT_FIELDS: Final = {
    "added": ("type", "task", "blocking_on"),
    "started": ("type", "task", "blocking_on", "background"), "progressed": ("progress",),
    "completed": ("summary", "tokens"), "failed": ("category", "message"), "aborted": ("message",),
}  # fmt: skip


class _RecordEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def kind(self) -> str:
        """What the entry is about, for errors."""
        return ""

    def fields_used(self) -> tuple[str, ...] | None:
        """The fields that mean something for it; None for all."""
        return None

    def check(self) -> None:
        """Refuse fields that would be lost."""
        used = self.fields_used()
        if used is None:
            return
        for name, field in type(self).model_fields.items():
            if name not in used and getattr(self, name) != field.get_default():
                raise Invalid(
                    f"`{name}` does not belong to {self.kind()}",
                    hint=f"It takes {', '.join(used)}." if used else "It takes no other fields.",
                )


class AgentEntry(_RecordEntry):
    id: Id
    event: Literal["added", "started", "progressed", "completed", "failed", "retried", "paused", "resumed", "aborted"]
    type: Annotated[Kind, Field(description="added, started: its kind, for instance backend-architect")] = ""
    task: Annotated[Text, Field(description="added, started: what it does")] = ""
    blocking_on: Annotated[Name, Field(description="added, started: the agent it waits for")] = ""
    background: Annotated[bool, Field(description="started: the person does not wait for it")] = False
    progress: Annotated[Fraction | None, Field(description="progressed: 0 to 1")] = None
    summary: Annotated[Text, Field(description="completed: what it did")] = ""
    tokens: Annotated[Count | None, Field(description="completed: tokens used")] = None
    category: Annotated[
        Literal["transient", "resource", "configuration", "logical", "permanent"], Field(description="failed")
    ] = "logical"
    message: Annotated[Text, Field(description="failed: what went wrong; aborted: why")] = ""

    def kind(self) -> str:
        return f"event {self.event}"

    def fields_used(self) -> tuple[str, ...]:
        return ("id", "event", *_AGENT_FIELDS.get(self.event, ()))

    def apply(self, session: SessionHandle) -> None:
        if self.event == "added":
            session.add_agent(
                self.id, type=self.type or "agent", task=self.task or None, blocking_on=self.blocking_on or None
            )
            return
        if self.event == "started":
            session.agent(
                self.id, type=self.type or "agent", task=self.task or None, blocking_on=self.blocking_on or None,
                background=self.background, pid=None,
            )  # fmt: skip
            return
        agent = session.find_agent(self.id)
        if self.event == "progressed":
            if self.progress is None:
                raise Invalid("`progress` is missing", hint="Give `progress`, 0 to 1.")
            agent.progress(self.progress)
        elif self.event == "completed":
            agent.done(summary=self.summary or None, tokens=self.tokens)
        elif self.event == "failed":
            agent.fail(self.message, category=self.category)
        elif self.event == "aborted":
            agent.abort(self.message or None)
        else:
            {"retried": agent.retry, "paused": agent.pause, "resumed": agent.resume}[self.event]()


class TaskEntry(_RecordEntry):
    event: Literal["added", "started", "completed", "blocked", "reopened", "dropped"]
    id: Annotated[Kind, Field(description="added: only to choose it yourself; otherwise: which task")] = ""
    text: Annotated[Text, Field(description="added: what is to be done")] = ""
    phase: Annotated[Name, Field(description="added: the phase of the plan")] = ""
    agent: Annotated[Name, Field(description="added: the agent that does it")] = ""
    outcome: Annotated[Text, Field(description="its result")] = ""
    artifacts: Annotated[list[File], Field(description="files it made", max_length=MAX_ENTRIES)] = []

    def kind(self) -> str:
        return f"event {self.event}"

    def fields_used(self) -> tuple[str, ...]:
        own = ("text", "phase", "agent") if self.event == "added" else ("outcome", "artifacts")
        return ("id", "event", *own)

    def check(self) -> None:
        super().check()
        if self.event != "added" and not self.id:
            raise Invalid("the task's `id` is missing", hint="Give its `id`; get_status shows them.")

    def apply(self, session: SessionHandle) -> str | None:
        """Returns the id of an added task."""
        if self.event == "added":
            return session.add_task(
                self.text, task_id=self.id or None, phase=self.phase or None, agent=self.agent or None
            )
        verbs = {
            "started": session.start_task, "completed": session.finish_task, "blocked": session.block_task,
            "reopened": session.reopen_task, "dropped": session.drop_task,
        }  # fmt: skip
        paths = [relative_path(path, session.keeper.place.root) for path in self.artifacts]
        verbs[self.event](self.id, outcome=self.outcome or None, artifacts=paths)
        return None


class DecisionEntry(_RecordEntry):
    chosen: Annotated[Text, Field(min_length=1)]
    context: Annotated[Text, Field(description="what it was about")] = ""
    options: Annotated[list[Text], Field(description="what could have been chosen", max_length=20)] = []
    why: Text = ""

    def apply(self, session: SessionHandle) -> None:
        session.decide(self.chosen, context=self.context or None, options=self.options, why=self.why or None)


class FileEntry(_RecordEntry):
    path: Annotated[File, Field(description="relative to the project, or absolute within it")]
    action: Literal["created", "modified", "deleted"] = "modified"
    agent: Annotated[Name, Field(description="who did it")] = ""

    def apply(self, session: SessionHandle) -> None:
        path = relative_path(self.path, session.keeper.place.root)
        session.changed(path, self.action, agent=self.agent or None)


class ContextEntry(_RecordEntry):
    tokens: Annotated[Count | None, Field(description="tokens in use, or left by compressing")] = None
    window: Annotated[Count | None, Field(description="size of the window", ge=1)] = None
    agent: Annotated[Name, Field(description="of this agent alone")] = ""
    compressed: Annotated[bool, Field(description="the context was compacted")] = False

    def kind(self) -> str:
        return "`compressed`"

    def fields_used(self) -> tuple[str, ...] | None:
        return ("compressed", "tokens") if self.compressed else None

    def apply(self, session: SessionHandle) -> None:
        if self.compressed:
            session.compress(self.tokens)
        elif self.tokens is None:
            raise Invalid("`tokens` is missing", hint="Give `tokens`, or `compressed`.")
        else:
            session.measure_context(self.tokens, window=self.window, agent=self.agent or None)


class EditEntry(_RecordEntry):
    goal: Annotated[Text, Field(description="what is to be achieved")] = ""
    scope: Annotated[Name, Field(description="the part of the project it belongs to")] = ""
    mode: Annotated[Literal["", "debug", "default", "optimize", "release"], Field(description="how agents work")] = ""
    model: Annotated[Name, Field(description="the model in use")] = ""
    tags: Annotated[list[Name], Field(description="tags to add", max_length=20)] = []

    def apply(self, session: SessionHandle) -> None:
        if not (self.goal or self.scope or self.mode or self.model or self.tags):
            raise Invalid("nothing to change", hint="Give goal, scope, mode, model or tags.")
        session.edit(
            goal=self.goal or None, scope=self.scope or None, mode=self.mode or None, model=self.model or None,
            tags=self.tags,
        )  # fmt: skip


class AwayEntry(_RecordEntry):
    since: Annotated[Name, Field(description="when it began, RFC 3339")]
    until: Annotated[Name, Field(description="when it ended, RFC 3339")]
    reason: Text = ""

    def apply(self, session: SessionHandle) -> None:
        session.away(parse_time(self.since), parse_time(self.until), self.reason or None)


class Report(BaseModel):
    """All entries of one call, in the order they are recorded."""

    agents: list[AgentEntry]
    tasks: list[TaskEntry]
    decisions: list[DecisionEntry]
    files: list[FileEntry]
    notes: list[str]
    context: list[ContextEntry]
    progress: float | None
    summary: str
    edit: list[EditEntry]  # one or none
    away: list[AwayEntry]

    def steps(self, session: SessionHandle) -> Iterator[tuple[str, Apply]]:
        """What to do, each with the argument it comes from. Raises if part of an entry would be lost."""
        for name in ("edit", "agents", "tasks", "decisions", "files", "context", "away"):
            for number, item in enumerate(getattr(self, name)):
                argument = name if name == "edit" else f"{name}[{number}]"
                try:
                    item.check()
                except Invalid as error:
                    error.message = f"nothing of this call was recorded: {argument}: {error.message}"
                    raise
                yield argument, partial(item.apply, session)
        for number, text in enumerate(self.notes):
            yield f"notes[{number}]", partial(session.note, text)
        if self.progress is not None or self.summary:
            yield "progress", partial(session.edit, progress=self.progress, summary=self.summary or None)


def relative_path(path: str, root: str) -> str:
    """The path relative to the project, as the keeper wants it: agents often pass absolute paths."""
    if not os.path.isabs(path) or "\0" in path:
        return path
    full = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    relative = os.path.relpath(full, root)
    outside = relative.split(os.sep)[0] == os.pardir or os.path.isabs(relative)
    return path if outside else relative.replace(os.sep, "/")  # the keeper refuses paths outside the project by name


_ENTRIES: Final = Field(max_length=MAX_ENTRIES)


class RecordTool:
    def __init__(self, context: McpContext) -> None:
        self._context = context

    async def record(
        self,
        agents: Annotated[list[AgentEntry], _ENTRIES] = [],  # noqa: B006 (pydantic copies these)
        tasks: Annotated[list[TaskEntry], _ENTRIES] = [],  # noqa: B006
        decisions: Annotated[list[DecisionEntry], _ENTRIES] = [],  # noqa: B006
        files: Annotated[list[FileEntry], _ENTRIES] = [],  # noqa: B006
        notes: Annotated[list[Text], _ENTRIES] = [],  # noqa: B006
        context: Annotated[list[ContextEntry], _ENTRIES] = [],  # noqa: B006
        progress: Annotated[
            Fraction | None, Field(description="How far the session is, 0 to 1.", allow_inf_nan=False)
        ] = None,
        summary: Annotated[Text, Field(description="One line on what was done so far.")] = "",
        edit: Annotated[
            EditEntry | None, Field(description="What the session is about, where that has changed.")
        ] = None,
        away: Annotated[list[AwayEntry], Field(description="Pauses to add afterwards.", max_length=20)] = [],  # noqa: B006
        session: Reference = "",
        project: Project = "",
    ) -> CallToolResult:
        report = Report.model_construct(
            agents=agents, tasks=tasks, decisions=decisions, files=files, notes=notes, context=context,
            progress=progress, summary=summary, edit=[] if edit is None else [edit], away=away,
        )  # fmt: skip
        return await self._context.run(
            project, lambda keeper: _record(self._context.session_for(keeper, session), report)
        )


def _record(session: SessionHandle, report: Report) -> CallToolResult:
    steps = list(report.steps(session))
    if not steps:
        raise Invalid("nothing to record", hint='For instance notes: ["…"], or progress: 0.5.')
    added: list[str] = []
    current_entry = ""  # the current entry; the store may fail before the first and after the last
    with collect_notes(session.keeper) as notes:
        try:
            with session.keeper.batch():
                for argument, apply in steps:
                    current_entry = f"{argument}: "
                    task_id = apply()
                    if argument.startswith("tasks") and isinstance(task_id, str):
                        added.append(task_id)
                current_entry = ""
        except Unreachable:
            raise  # it says whether this was recorded
        except HoldfastError as error:
            error.message = f"nothing of this call was recorded: {current_entry}{error.message}"
            raise
    state = session.state()  # not the whole document: this runs after every step
    context, left_out = short_context(view.context_of(state))
    if context.level == "compress":
        notes.append("The context is nearly full: compress now.")
    answer = Recorded(
        id=session.id, status=view.status_of(state), progress=view.progress_of(state), recorded=len(steps),
        tasks=added, context=context, notes=notes, left_out=left_out,
    )  # fmt: skip
    sentences = [f"Recorded {count(len(steps), 'entry', 'entries')} in {session.id[:8]}."]
    if added:
        sentences.append(f"Tasks added: {', '.join(added)}.")
    return result(answer, " ".join([*sentences, *notes]))


def record_tool(context: McpContext) -> Tool:
    return make_tool(
        RecordTool(context).record, Recorded, title="Record what happened",
        description="Write down what happened in the session: agents (started, progressed, completed, failed…), "
        "tasks of the plan, decisions with their reasons, files changed, notes, context used, progress, a "
        "changed goal or scope (edit), pauses after the fact (away). Several at once in one call, which is "
        "recorded whole or, if anything in it is refused, not at all: then correct that entry and send everything "
        "again. Call it after each step that the next person or agent needs to know.",
    )  # fmt: skip
