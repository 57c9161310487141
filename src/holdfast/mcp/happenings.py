"""What an agent reports in one call of `record`: typed, bounded, each with the verb of the keeper it stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.errors import Invalid
from holdfast.core.text import LONGEST_PATH
from holdfast.keeper.session import KeptSession
from holdfast.mcp.offering import MOST_ENTRIES, Name, Text

Apply = Callable[[], object]
File = Annotated[str, Field(max_length=LONGEST_PATH)]
Id = Annotated[str, Field(min_length=1, max_length=100)]


class _Happening(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class AgentNews(_Happening):
    id: Id
    event: Literal["started", "progressed", "completed", "failed", "retried", "paused", "resumed", "aborted"]
    type: Annotated[Name, Field(description="started: what kind of agent, for instance backend-architect")] = ""
    task: Annotated[Text, Field(description="started: what it does")] = ""
    blocking_on: Annotated[Name, Field(description="started: the agent it waits for")] = ""
    background: Annotated[bool, Field(description="started: it does not hold the person up")] = False
    progress: Annotated[float | None, Field(description="progressed: 0 to 1", ge=0, le=1)] = None
    summary: Annotated[Text, Field(description="completed: what it did")] = ""
    tokens: Annotated[int | None, Field(description="completed: tokens used", ge=0, le=10**12)] = None
    category: Annotated[
        Literal["transient", "resource", "configuration", "logical", "permanent"], Field(description="failed")
    ] = "logical"
    message: Annotated[Text, Field(description="failed: what went wrong; aborted: why")] = ""

    def apply(self, session: KeptSession) -> None:
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
    id: Annotated[Name, Field(description="added: if you want to choose it; else which task")] = ""
    text: Annotated[Text, Field(description="added: what is to be done")] = ""
    phase: Annotated[Name, Field(description="added: the phase of the plan")] = ""
    agent: Annotated[Name, Field(description="added: the agent that does it")] = ""
    outcome: Annotated[Text, Field(description="what came of it")] = ""
    artifacts: Annotated[list[File], Field(description="files it made", max_length=MOST_ENTRIES)] = []

    def apply(self, session: KeptSession) -> str | None:
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

    def apply(self, session: KeptSession) -> None:
        session.decide(self.chosen, context=self.context or None, options=self.options, why=self.why or None)


class FileNews(_Happening):
    path: Annotated[File, Field(description="relative to the project, or absolute within it")]
    action: Literal["created", "modified", "deleted"] = "modified"
    agent: Annotated[Name, Field(description="who did it")] = ""

    def apply(self, session: KeptSession) -> None:
        path = inside(self.path, session.keeper.place.root)
        session.changed(path, self.action, agent=self.agent or None)


class ContextNews(_Happening):
    tokens: Annotated[int | None, Field(description="tokens in use, or left by compressing", ge=0, le=10**12)] = None
    window: Annotated[int | None, Field(description="size of the window", ge=1, le=10**12)] = None
    agent: Annotated[Name, Field(description="of this agent alone")] = ""
    compressed: Annotated[bool, Field(description="the context was compacted")] = False

    def apply(self, session: KeptSession) -> None:
        if self.compressed:
            session.compress(self.tokens)
        elif self.tokens is None:
            raise Invalid("the number of tokens is missing", hint="Give `tokens`, or `compressed`.")
        else:
            session.measure_context(self.tokens, window=self.window, agent=self.agent or None)


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

    def steps(self, session: KeptSession) -> Iterator[tuple[str, Apply]]:
        """What is to be done, each with the argument it comes from."""
        for name in ("agents", "tasks", "decisions", "files", "context"):
            for at, one in enumerate(getattr(self, name)):
                yield f"{name}[{at}]", partial(one.apply, session)
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
