"""`holdfast task …`: the tasks of the plan."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.cli import ambiguous_ids
from holdfast.cli.call import Call
from holdfast.core import duplicates, tasks
from holdfast.core.short_names import id_of, readable, task_names
from holdfast.keeper.session import SessionHandle


def _done(call: Call, session: SessionHandle, task_id: str, event: str | None = None) -> None:
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    names = task_names(state.tasks.values())
    place = ambiguous_ids.place_of(state.tasks.values(), id_of(names, task_id), session.moved)
    task = document.tasks[place]
    name = names.get(task.id, task.id)
    call.done(document, lambda paint: paint.join(paint.bold(name), "  ", task.status, "  ", task.text), task=task)
    if event is not None:
        ambiguous_ids.tell(call, state, state.tasks.values(), place, event, tasks.status_of)


def _move(call: Call, verb: Callable[..., SessionHandle], event: str) -> None:
    words = call.parsed
    session, task_id = call.keeper.session(), words.need("id")
    verb(session, task_id, outcome=words.text("outcome"), artifacts=words.texts("artifacts"), at=call.at)
    _done(call, session, task_id, event)


def add(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    given = session.add_task(
        words.need("text"), task_id=words.text("id"), phase=words.text("phase"), agent=words.text("agent"), at=call.at
    )
    _done(call, session, given)


def start(call: Call) -> None:
    _move(call, SessionHandle.start_task, "task.started")


def done(call: Call) -> None:
    _move(call, SessionHandle.finish_task, "task.completed")


def block(call: Call) -> None:
    _move(call, SessionHandle.block_task, "task.blocked")


def reopen(call: Call) -> None:
    _move(call, SessionHandle.reopen_task, "task.reopened")


def drop(call: Call) -> None:
    _move(call, SessionHandle.drop_task, "task.dropped")


def list_(call: Call) -> None:
    from holdfast.cli.session_parts import tasks_table

    session = call.session_to_read()
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    apart = duplicates.disambiguating_labels(state, state.tasks.values())
    call.answer({"tasks": document.tasks}, lambda paint: tasks_table(paint, readable(document).tasks, apart))
