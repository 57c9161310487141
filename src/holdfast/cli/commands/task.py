"""`holdfast task …`: the tasks of the plan."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.cli.call import Call
from holdfast.keeper.session import KeptSession


def _done(call: Call, session: KeptSession, task_id: str) -> None:
    document = session.document(at=call.at)
    task = next(one for one in reversed(document.tasks) if one.id == task_id)
    call.done(document, lambda paint: paint.join(paint.bold(task.id), "  ", task.status, "  ", task.text), task=task)


def _move(call: Call, verb: Callable[..., KeptSession]) -> None:
    words = call.parsed
    session, task_id = call.keeper.session(), words.need("id")
    verb(session, task_id, outcome=words.text("outcome"), artifacts=words.texts("artifacts"), at=call.at)
    _done(call, session, task_id)


def add(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    given = session.add_task(
        words.need("text"), task_id=words.text("id"), phase=words.text("phase"), agent=words.text("agent"), at=call.at
    )
    _done(call, session, given)


def start(call: Call) -> None:
    _move(call, KeptSession.start_task)


def done(call: Call) -> None:
    _move(call, KeptSession.finish_task)


def block(call: Call) -> None:
    _move(call, KeptSession.block_task)


def reopen(call: Call) -> None:
    _move(call, KeptSession.reopen_task)


def drop(call: Call) -> None:
    _move(call, KeptSession.drop_task)


def list_(call: Call) -> None:
    from holdfast.cli.describe import tasks_table

    found = call.keeper.session(at=call.at).document(at=call.at).tasks
    call.answer({"tasks": found}, lambda paint: tasks_table(paint, found))
