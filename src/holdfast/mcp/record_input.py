"""What an agent reports in one call of `record`: typed, bounded, each with the verb of the keeper it stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.errors import Invalid
from holdfast.core.text import MAX_PATH_LENGTH
from holdfast.core.times import parse_time
from holdfast.keeper.session import SessionHandle
from holdfast.mcp.tool import MOST_ENTRIES, Count, Fraction, Name, Text

Apply = Callable[[], object]
File = Annotated[str, Field(max_length=MAX_PATH_LENGTH)]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Kind = Annotated[str, Field(max_length=100)]

# What may be said along with what happened to an agent.
_OF_AGENTS: Final = {
    "added": ("type", "task", "blocking_on"),
    "started": ("type", "task", "blocking_on", "background"), "progressed": ("progress",),
    "completed": ("summary", "tokens"), "failed": ("category", "message"), "aborted": ("message",),
}  # fmt: skip


class _Happening(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def kind(self) -> str:
        """What it tells of, in a word."""
        return ""

    def takes(self) -> tuple[str, ...] | None:
        """The fields that mean something with that; None for all."""
        return None

    def check(self) -> None:
        """Refuse what would be lost."""
        taken = self.takes()
        if taken is None:
            return
        for name, field in type(self).model_fields.items():
            if name not in taken and getattr(self, name) != field.get_default():
                raise Invalid(
                    f"`{name}` does not belong to {self.kind()}",
                    hint=f"That takes {', '.join(taken)}." if taken else "That takes nothing more.",
                )


class AgentNews(_Happening):
    id: Id
    event: Literal["added", "started", "progressed", "completed", "failed", "retried", "paused", "resumed", "aborted"]
    type: Annotated[Kind, Field(description="added, started: its kind, for instance backend-architect")] = ""
    task: Annotated[Text, Field(description="added, started: what it does")] = ""
    blocking_on: Annotated[Name, Field(description="added, started: the agent it waits for")] = ""
    background: Annotated[bool, Field(description="started: it does not hold the person up")] = False
    progress: Annotated[Fraction | None, Field(description="progressed: 0 to 1")] = None
    summary: Annotated[Text, Field(description="completed: what it did")] = ""
    tokens: Annotated[Count | None, Field(description="completed: tokens used")] = None
    category: Annotated[
        Literal["transient", "resource", "configuration", "logical", "permanent"], Field(description="failed")
    ] = "logical"
    message: Annotated[Text, Field(description="failed: what went wrong; aborted: why")] = ""

    def kind(self) -> str:
        return f"event {self.event}"

    def takes(self) -> tuple[str, ...]:
        return ("id", "event", *_OF_AGENTS.get(self.event, ()))

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
                raise Invalid("it progressed, but how far is missing", hint="Give `progress`, 0 to 1.")
            agent.progress(self.progress)
        elif self.event == "completed":
            agent.done(summary=self.summary or None, tokens=self.tokens)
        elif self.event == "failed":
            agent.fail(self.message, category=self.category)
        elif self.event == "aborted":
            agent.abort(self.message or None)
        else:
            {"retried": agent.retry, "paused": agent.pause, "resumed": agent.resume}[self.event]()


class TaskNews(_Happening):
    event: Literal["added", "started", "completed", "blocked", "reopened", "dropped"]
    id: Annotated[Kind, Field(description="added: if you want to choose it; else which task")] = ""
    text: Annotated[Text, Field(description="added: what is to be done")] = ""
    phase: Annotated[Name, Field(description="added: the phase of the plan")] = ""
    agent: Annotated[Name, Field(description="added: the agent that does it")] = ""
    outcome: Annotated[Text, Field(description="what came of it")] = ""
    artifacts: Annotated[list[File], Field(description="files it made", max_length=MOST_ENTRIES)] = []

    def kind(self) -> str:
        return f"event {self.event}"

    def takes(self) -> tuple[str, ...]:
        own = ("text", "phase", "agent") if self.event == "added" else ("outcome", "artifacts")
        return ("id", "event", *own)

    def check(self) -> None:
        super().check()
        if self.event != "added" and not self.id:
            raise Invalid("which task it is about is missing", hint="Give its `id`; get_status shows them.")

    def apply(self, session: SessionHandle) -> str | None:
        """Gives the id of a task that was added."""
        if self.event == "added":
            return session.add_task(
                self.text, task_id=self.id or None, phase=self.phase or None, agent=self.agent or None
            )
        verbs = {
            "started": session.start_task, "completed": session.finish_task, "blocked": session.block_task,
            "reopened": session.reopen_task, "dropped": session.drop_task,
        }  # fmt: skip
        paths = [inside(path, session.keeper.place.root) for path in self.artifacts]
        verbs[self.event](self.id, outcome=self.outcome or None, artifacts=paths)
        return None


class DecisionNews(_Happening):
    chosen: Annotated[Text, Field(min_length=1)]
    context: Annotated[Text, Field(description="what it was about")] = ""
    options: Annotated[list[Text], Field(description="what could have been chosen", max_length=20)] = []
    why: Text = ""

    def apply(self, session: SessionHandle) -> None:
        session.decide(self.chosen, context=self.context or None, options=self.options, why=self.why or None)


class FileNews(_Happening):
    path: Annotated[File, Field(description="relative to the project, or absolute within it")]
    action: Literal["created", "modified", "deleted"] = "modified"
    agent: Annotated[Name, Field(description="who did it")] = ""

    def apply(self, session: SessionHandle) -> None:
        path = inside(self.path, session.keeper.place.root)
        session.changed(path, self.action, agent=self.agent or None)


class ContextNews(_Happening):
    tokens: Annotated[Count | None, Field(description="tokens in use, or left by compressing")] = None
    window: Annotated[Count | None, Field(description="size of the window", ge=1)] = None
    agent: Annotated[Name, Field(description="of this agent alone")] = ""
    compressed: Annotated[bool, Field(description="the context was compacted")] = False

    def kind(self) -> str:
        return "`compressed`"

    def takes(self) -> tuple[str, ...] | None:
        return ("compressed", "tokens") if self.compressed else None

    def apply(self, session: SessionHandle) -> None:
        if self.compressed:
            session.compress(self.tokens)
        elif self.tokens is None:
            raise Invalid("the number of tokens is missing", hint="Give `tokens`, or `compressed`.")
        else:
            session.measure_context(self.tokens, window=self.window, agent=self.agent or None)


class EditNews(_Happening):
    goal: Annotated[Text, Field(description="what is to be achieved")] = ""
    scope: Annotated[Name, Field(description="the part of the project it belongs to")] = ""
    mode: Annotated[Literal["", "debug", "default", "optimize", "release"], Field(description="how agents work")] = ""
    model: Annotated[Name, Field(description="the model in use")] = ""
    tags: Annotated[list[Name], Field(description="tags to add", max_length=20)] = []

    def apply(self, session: SessionHandle) -> None:
        if not (self.goal or self.scope or self.mode or self.model or self.tags):
            raise Invalid("nothing was given to change", hint="Give goal, scope, mode, model or tags.")
        session.edit(
            goal=self.goal or None, scope=self.scope or None, mode=self.mode or None, model=self.model or None,
            tags=self.tags,
        )  # fmt: skip


class AwayNews(_Happening):
    since: Annotated[Name, Field(description="when it began, RFC 3339")]
    until: Annotated[Name, Field(description="when it ended, RFC 3339")]
    reason: Text = ""

    def apply(self, session: SessionHandle) -> None:
        session.away(parse_time(self.since), parse_time(self.until), self.reason or None)


class Report(BaseModel):
    """Everything of one call, in the order in which it is recorded."""

    agents: list[AgentNews]
    tasks: list[TaskNews]
    decisions: list[DecisionNews]
    files: list[FileNews]
    notes: list[str]
    context: list[ContextNews]
    progress: float | None
    summary: str
    edit: list[EditNews]  # one or none
    away: list[AwayNews]

    def steps(self, session: SessionHandle) -> Iterator[tuple[str, Apply]]:
        """What is to be done, each with the argument it comes from. Raises where a part of it would be lost."""
        for name in ("edit", "agents", "tasks", "decisions", "files", "context", "away"):
            for at, item in enumerate(getattr(self, name)):
                where = name if name == "edit" else f"{name}[{at}]"
                try:
                    item.check()
                except Invalid as error:
                    error.message = f"nothing of this call was recorded: {where}: {error.message}"
                    raise
                yield where, partial(item.apply, session)
        for at, words in enumerate(self.notes):
            yield f"notes[{at}]", partial(session.note, words)
        if self.progress is not None or self.summary:
            yield "progress", partial(session.edit, progress=self.progress, summary=self.summary or None)


def inside(path: str, root: str) -> str:
    """The path as the keeper wants it, relative to the project: agents often name files from the root of the disk."""
    if not os.path.isabs(path) or "\0" in path:
        return path
    full = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    relative = os.path.relpath(full, root)
    outside = relative.split(os.sep)[0] == os.pardir or os.path.isabs(relative)
    return path if outside else relative.replace(os.sep, "/")  # what lies outside is refused by its own name
