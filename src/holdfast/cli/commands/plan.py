"""`holdfast plan import FILE`, `holdfast plan show`: the phases and tasks of the session."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core.model import Phase, Task
from holdfast.core.short_names import readable

_MARKS = {"completed": "[x]", "in_progress": "[>]", "blocked": "[!]", "dropped": "[-]"}


def import_(call: Call) -> None:
    from holdfast.formats import plan_import

    found = plan_import.read(call.parsed.need("file"))
    session = call.keeper.session()
    before = session.document()
    session.import_plan(found, at=call.at)
    document = session.document(at=call.at)
    phases = len(document.phases) - len(before.phases)
    tasks = len(document.tasks) - len(before.tasks)
    earlier = {task.id: task.status for task in before.tasks}
    moved = sum(task.id in earlier and earlier[task.id] != task.status for task in document.tasks)
    said = [
        f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((phases, "phase"), (tasks, "task")) if count
    ]
    line = f"Added {' and '.join(said)}" if said else "Nothing new in the plan"
    if moved:
        line += f", {moved} moved on"
    call.done(document, lambda paint: paint.plain(line), added={"phases": phases, "tasks": tasks}, moved=moved)


def show(call: Call) -> None:
    document = call.session_to_read().document(at=call.at)
    call.answer(
        {"phases": document.phases, "tasks": document.tasks},
        lambda paint: _plan(paint, document.phases, readable(document).tasks),
    )


def _plan(paint: Paint, phases: Sequence[Phase], tasks: Sequence[Task]) -> Painted:
    if not tasks and not phases:
        return paint.dim("There is no plan yet: holdfast task add TEXT, or holdfast plan import FILE")
    names: dict[str | None, str] = {None: "Tasks"}
    names.update({phase.id: phase.name for phase in phases})
    groups: dict[str | None, list[Task]] = {phase.id: [] for phase in phases}
    for task in tasks:
        groups.setdefault(task.phase, []).append(task)
    blocks = [_phase(paint, names.get(phase) or phase or "", found) for phase, found in groups.items()]
    return Painted("\n\n".join(blocks))


def _phase(paint: Paint, name: str, tasks: Sequence[Task]) -> Painted:
    done = sum(task.status == "completed" for task in tasks)
    counted = sum(task.status != "dropped" for task in tasks)
    lines = [paint.heading(name, f"{done} of {counted}")]
    room = min(max((paint.width_of(task.id) for task in tasks), default=0), 24)
    for task in tasks:
        id_ = paint.cut(task.id, room)
        aside = f"  ({task.outcome})" if task.outcome and task.status == "blocked" else ""
        line = paint.join(
            "  ", _mark(paint, task.status), " ", paint.dim(id_), " " * (room - paint.width_of(id_)), "  ",
            task.text, paint.dim(aside),
        )  # fmt: skip
        lines.append(paint.cut(line, paint.width))
    return Painted("\n".join(lines))


def _mark(paint: Paint, status: str) -> Painted:
    mark = _MARKS.get(status, "[ ]")
    match status:
        case "completed":
            return paint.green(mark)
        case "in_progress":
            return paint.cyan(mark)
        case "blocked":
            return paint.red(mark)
        case _:
            return paint.dim(mark)
