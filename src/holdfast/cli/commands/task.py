"""`holdfast task …`: the tasks of the plan."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.keeper.session import KeptSession


def _done(call: Call, session: KeptSession, task_id: str) -> None:
    document = session.document(at=call.at)
    task = next(one for one in reversed(document.tasks) if one.id == task_id)
    call.done(document, lambda paint: paint.join(paint.bold(task.id), "  ", task.status, "  ", task.text), task=task)


def _here(call: Call) -> tuple[KeptSession, str]:
    return call.keeper.session(), call.parsed.need("id")


def add(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    given = session.add_task(
        words.need("text"), task_id=words.text("id"), phase=words.text("phase"), agent=words.text("agent"), at=call.at
    )
    _done(call, session, given)


def start(call: Call) -> None:
    session, task_id = _here(call)
    _done(call, session.start_task(task_id, at=call.at), task_id)


def done(call: Call) -> None:
    session, task_id = _here(call)
    words = call.parsed
    session.finish_task(task_id, outcome=words.text("outcome"), artifacts=words.texts("artifacts"), at=call.at)
    _done(call, session, task_id)


def block(call: Call) -> None:
    session, task_id = _here(call)
    _done(call, session.block_task(task_id, outcome=call.parsed.text("outcome"), at=call.at), task_id)


def reopen(call: Call) -> None:
    session, task_id = _here(call)
    _done(call, session.reopen_task(task_id, at=call.at), task_id)


def drop(call: Call) -> None:
    session, task_id = _here(call)
    _done(call, session.drop_task(task_id, outcome=call.parsed.text("outcome"), at=call.at), task_id)


def list_(call: Call) -> None:
    from holdfast.cli.describe import tasks_table

    found = call.keeper.session().document(at=call.at).tasks
    call.answer({"tasks": found}, lambda paint: tasks_table(paint, found))
