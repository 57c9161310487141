"""Commands that record work in a session: agents, tasks, the plan, decisions, notes, files and the context."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core import agents, tasks
from holdfast.core.display_names import disambiguating_labels, id_of, task_names, with_readable_names
from holdfast.core.errors import Invalid
from holdfast.core.lifecycle import TABLES, allows
from holdfast.core.model import Agent, Context, Phase, Task
from holdfast.core.modes import limits
from holdfast.core.state import AgentState, State, TaskState
from holdfast.core.text import shorten
from holdfast.keeper.session import SessionHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.sessions.agents import AgentHandle

# ── agent ──────────────────────────────────────────────────────────────────────────────────────────────


def _find_agent(call: Call) -> AgentHandle:
    return call.keeper.session().find_agent(call.parsed.need("id"))


def _report_agent(call: Call, agent_: AgentHandle, event: str | None = None) -> None:
    session = agent_.session
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    index = index_of(state.agents.values(), agent_.id, agent_.ref)
    agent = document.agents[index]
    name = with_readable_names(document).agents[index].id
    call.done(document, lambda paint: paint.join(paint.bold(name), "  ", _agent_status(agent)), agent=agent)
    if event is not None:
        _note_ambiguous_id(call, state, state.agents.values(), index, event, agents.status_of)


def _agent_status(agent: Agent) -> str:
    return agent.status if agent.progress is None else f"{agent.status} {agent.progress:.0%}"


def agent_add(call: Call) -> None:
    words = call.parsed
    agent = call.keeper.session().add_agent(
        words.need("id"), type=words.need("type"), task=words.text("task"), blocking_on=words.text("blocking_on"),
        at=call.at,
    )  # fmt: skip
    _report_agent(call, agent)


def agent_start(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    agent = session.agent(
        words.need("id"),
        type=words.need("type"),
        task=words.text("task"),
        blocking_on=words.text("blocking_on"),
        background=words.flag("background"),
        pid=words.integer("pid"),
        at=call.at,
    )
    _report_agent(call, agent)
    document = session.document(at=call.at)
    running = sum(agent.status == "running" for agent in document.agents)
    allowed = limits(document.mode).agents
    if running > allowed:
        call.note(f"{running} agents are running; mode {document.mode} is meant for {allowed}.")


def agent_progress(call: Call) -> None:
    _report_agent(
        call, _find_agent(call).progress(call.parsed.number("fraction") or 0.0, at=call.at), "agent.progressed"
    )


def agent_done(call: Call) -> None:
    words = call.parsed
    _report_agent(
        call,
        _find_agent(call).done(summary=words.text("summary"), tokens=words.integer("tokens"), at=call.at),
        "agent.completed",
    )


def agent_fail(call: Call) -> None:
    words = call.parsed
    _report_agent(
        call,
        _find_agent(call).fail(words.need("message"), category=words.need("category"), at=call.at),
        "agent.failed",
    )


def agent_retry(call: Call) -> None:
    _report_agent(call, _find_agent(call).retry(pid=call.parsed.integer("pid"), at=call.at), "agent.retried")


def agent_pause(call: Call) -> None:
    _report_agent(call, _find_agent(call).pause(at=call.at), "agent.paused")


def agent_resume(call: Call) -> None:
    _report_agent(call, _find_agent(call).resume(pid=call.parsed.integer("pid"), at=call.at), "agent.resumed")


def agent_abort(call: Call) -> None:
    _report_agent(call, _find_agent(call).abort(at=call.at), "agent.aborted")


def agent_list(call: Call) -> None:
    from holdfast.cli.session_parts import agents_table

    session = call.session_to_read()
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    labels = disambiguating_labels(state, state.agents.values())
    call.answer(
        {"agents": document.agents}, lambda paint: agents_table(paint, with_readable_names(document).agents, labels)
    )


# ── ambiguous_ids ──────────────────────────────────────────────────────────────────────────────────────


_Entry = TypeVar("_Entry", AgentState, TaskState)


def index_of(entries: Iterable[_Entry], id_: str, ref: str | None) -> int:
    """The index of an entry in the document, which has the same order: by `ref`, else the newest of its id."""
    matches = [(index, entry) for index, entry in enumerate(entries) if entry.id == id_]
    return next((index for index, entry in matches if entry.ref == ref), matches[-1][0])


def _note_ambiguous_id(
    call: Call, state: State, entries: Iterable[_Entry], index: int, event: str, status_of: Callable[[_Entry], str]
) -> None:
    """Print which one was meant, if the same command would now mean another."""
    all_entries = list(entries)
    entry, kind = all_entries[index], event.partition(".")[0]
    others = [item for item in all_entries if item.id == entry.id and item is not entry]
    if any(allows(TABLES[kind], status_of(other), event) for other in others):
        device = disambiguating_labels(state, all_entries)[index]
        call.note(
            f"There are {len(others) + 1} {kind}s {entry.id}. This was {device}'s "
            f"({shorten(str(entry.made.value), 60)}); run the command again for the next one."
        )


# ── task ───────────────────────────────────────────────────────────────────────────────────────────────


def _report_task(call: Call, session: SessionHandle, task_id: str, event: str | None = None) -> None:
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    names = task_names(state.tasks.values())
    index = index_of(state.tasks.values(), id_of(names, task_id), session.moved)
    task = document.tasks[index]
    name = names.get(task.id, task.id)
    call.done(document, lambda paint: paint.join(paint.bold(name), "  ", task.status, "  ", task.text), task=task)
    if event is not None:
        _note_ambiguous_id(call, state, state.tasks.values(), index, event, tasks.status_of)


def _move_task(call: Call, verb: Callable[..., SessionHandle], event: str) -> None:
    words = call.parsed
    session, task_id = call.keeper.session(), words.need("id")
    verb(session, task_id, outcome=words.text("outcome"), artifacts=words.texts("artifacts"), at=call.at)
    _report_task(call, session, task_id, event)


def task_add(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    task_id = session.add_task(
        words.need("text"), task_id=words.text("id"), phase=words.text("phase"), agent=words.text("agent"), at=call.at
    )
    _report_task(call, session, task_id)


def task_start(call: Call) -> None:
    _move_task(call, SessionHandle.start_task, "task.started")


def task_done(call: Call) -> None:
    _move_task(call, SessionHandle.finish_task, "task.completed")


def task_block(call: Call) -> None:
    _move_task(call, SessionHandle.block_task, "task.blocked")


def task_reopen(call: Call) -> None:
    _move_task(call, SessionHandle.reopen_task, "task.reopened")


def task_drop(call: Call) -> None:
    _move_task(call, SessionHandle.drop_task, "task.dropped")


def task_list(call: Call) -> None:
    from holdfast.cli.session_parts import tasks_table

    session = call.session_to_read()
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    labels = disambiguating_labels(state, state.tasks.values())
    call.answer(
        {"tasks": document.tasks}, lambda paint: tasks_table(paint, with_readable_names(document).tasks, labels)
    )


# ── plan ───────────────────────────────────────────────────────────────────────────────────────────────


_TASK_MARKS = {"completed": "[x]", "in_progress": "[>]", "blocked": "[!]", "dropped": "[-]"}


def plan_import(call: Call) -> None:
    from holdfast.formats import plan_import

    plan = plan_import.read(call.parsed.need("file"))
    session = call.keeper.session()
    before = session.document()
    session.import_plan(plan, at=call.at)
    document = session.document(at=call.at)
    phases = len(document.phases) - len(before.phases)
    tasks = len(document.tasks) - len(before.tasks)
    earlier = {task.id: task.status for task in before.tasks}
    moved = sum(task.id in earlier and earlier[task.id] != task.status for task in document.tasks)
    added = [
        f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((phases, "phase"), (tasks, "task")) if count
    ]
    line = f"Added {' and '.join(added)}" if added else "Nothing new in the plan"
    if moved:
        line += f", {moved} moved on"
    call.done(document, lambda paint: paint.plain(line), added={"phases": phases, "tasks": tasks}, moved=moved)


def plan_show(call: Call) -> None:
    document = call.session_to_read().document(at=call.at)
    call.answer(
        {"phases": document.phases, "tasks": document.tasks},
        lambda paint: _paint_plan(paint, document.phases, with_readable_names(document).tasks),
    )


def _paint_plan(paint: Paint, phases: Sequence[Phase], tasks: Sequence[Task]) -> Painted:
    if not tasks and not phases:
        return paint.dim("There is no plan yet: holdfast task add TEXT, or holdfast plan import FILE")
    names: dict[str | None, str] = {None: "Tasks"}
    names.update({phase.id: phase.name for phase in phases})
    groups: dict[str | None, list[Task]] = {phase.id: [] for phase in phases}
    for task in tasks:
        groups.setdefault(task.phase, []).append(task)
    blocks = [
        _paint_phase(paint, names.get(phase) or phase or "", phase_tasks) for phase, phase_tasks in groups.items()
    ]
    return Painted("\n\n".join(blocks))


def _paint_phase(paint: Paint, name: str, tasks: Sequence[Task]) -> Painted:
    done = sum(task.status == "completed" for task in tasks)
    counted = sum(task.status != "dropped" for task in tasks)
    lines = [paint.heading(name, f"{done} of {counted}")]
    id_width = min(max((paint.width_of(task.id) for task in tasks), default=0), 24)
    for task in tasks:
        id_ = paint.cut(task.id, id_width)
        outcome = f"  ({task.outcome})" if task.outcome and task.status == "blocked" else ""
        line = paint.join(
            "  ", _task_mark(paint, task.status), " ", paint.dim(id_), " " * (id_width - paint.width_of(id_)), "  ",
            task.text, paint.dim(outcome),
        )  # fmt: skip
        lines.append(paint.cut(line, paint.width))
    return Painted("\n".join(lines))


def _task_mark(paint: Paint, status: str) -> Painted:
    mark = _TASK_MARKS.get(status, "[ ]")
    match status:
        case "completed":
            return paint.green(mark)
        case "in_progress":
            return paint.cyan(mark)
        case "blocked":
            return paint.red(mark)
        case _:
            return paint.dim(mark)


# ── decide ─────────────────────────────────────────────────────────────────────────────────────────────


def decide(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.decide(
        words.need("chosen"),
        context=words.text("context"),
        options=words.texts("options"),
        why=words.text("why"),
        at=call.at,
    )
    document = session.document(at=call.at)
    decision = document.decisions[-1]
    call.done(
        document, lambda paint: paint.join(paint.green("Decided "), paint.bold(decision.chosen)), decision=decision
    )


# ── note ───────────────────────────────────────────────────────────────────────────────────────────────


def note(call: Call) -> None:
    session = call.keeper.session()
    session.note(call.parsed.need("text"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.green("Noted "), paint.cut(document.notes[-1].text, 60)))


# ── message ────────────────────────────────────────────────────────────────────────────────────────────


def message(call: Call) -> None:
    session = call.keeper.session()
    session.message(call.parsed.text("role") or "user", at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda _: "")


# ── file ───────────────────────────────────────────────────────────────────────────────────────────────


def file(call: Call) -> None:
    words = call.parsed
    root = call.keeper.place.root
    session = call.keeper.session()
    session.changed(
        relative_path(words.need("path"), root), words.need("action"), agent=words.text("agent"), at=call.at
    )
    document = session.document(at=call.at)
    change = document.files[-1]
    call.done(document, lambda paint: paint.join(change.action, " ", paint.bold(change.path)), file=change)


def relative_path(path: str, root: str) -> str:
    """The path relative to the project: people give paths relative to their working directory."""
    if not os.path.isabs(path) and not os.path.lexists(path) and not _is_deleted_file(path, root):
        return path  # as a program names it: relative to the project
    full = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    relative = os.path.relpath(full, root)
    if relative.split(os.sep)[0] == os.pardir or os.path.isabs(relative):
        raise Invalid(f"{path[:80]!a} is outside the project", hint="Only files of the project are recorded.")
    return relative.replace(os.sep, "/")


def _is_deleted_file(path: str, root: str) -> bool:
    """Whether a file that is not here is meant to have been here: deleted, and not there in the project either."""
    try:
        directory = os.path.realpath(os.curdir)
    except FileNotFoundError:  # the working directory was removed
        return False
    in_project = directory == root or directory.startswith(root + os.sep)
    return in_project and not os.path.lexists(os.path.join(root, path))


# ── context ────────────────────────────────────────────────────────────────────────────────────────────


def context(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.measure_context(
        words.integer("tokens") or 0, window=words.integer("window"), agent=words.text("agent"), at=call.at
    )
    document = session.document(at=call.at)
    call.done(document, lambda paint: _paint_context(paint, document.context))
    if document.context.level == "compress":
        call.note("The context is nearly full: compress now.")


def _paint_context(paint: Paint, context: Context) -> Painted:
    percent = context.percent or 0
    bar = paint.bar(percent / 100, 20, context.level) if paint.tty else ""
    return paint.join(bar, " " if bar else "", f"{context.tokens or 0:,} of {context.window:,} tokens ({percent:g}%)")


# ── compress ───────────────────────────────────────────────────────────────────────────────────────────


def compress(call: Call) -> None:
    session = call.keeper.session()
    session.compress(call.parsed.integer("to"), at=call.at)
    document = session.document(at=call.at)
    from holdfast.core.wording import count

    call.done(
        document, lambda paint: paint.plain(f"Compressed, {count(document.context.compressions, 'time')} so far")
    )


# ── hill ───────────────────────────────────────────────────────────────────────────────────────────────


def hill(call: Call) -> None:
    words = call.parsed
    from holdfast.core.secrets.patterns import redact

    position = words.integer("position") or 0
    session = call.keeper.session()
    session.hill(words.need("scope"), position, at=call.at)
    document = session.document(at=call.at)
    scope = redact(words.need("scope")).text  # as it was stored
    call.done(document, lambda paint: paint.join(paint.bold(scope), f"  {position} of 10"))
