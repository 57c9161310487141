"""`holdfast project list|reconnect`: the projects that there are sessions of, and one that was moved."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Column
from holdfast.core.wording import count
from holdfast.machine import files


def list_(call: Call) -> None:
    from holdfast.workspace import projects

    store = call.keeper.existing_store()
    found = [] if store is None else projects.list_projects(store)
    rows = [
        (
            project.name,
            str(project.sessions),
            ", ".join(map(files.display_path, project.paths)) or "on another device",
        )
        for project in found
    ]
    columns = [Column("Project", least=12), Column("Sessions", "right"), Column("Where", weight=1)]
    call.answer(
        {"projects": [project._asdict() for project in found]},
        lambda paint: paint.table(rows, columns) if rows else paint.dim("There are no sessions yet."),
    )


def reconnect(call: Call) -> None:
    from holdfast.workspace import projects

    found = projects.reconnect(call.keeper, call.parsed.need("old_path"))
    number = count(sum(project.sessions for project in found), "session")
    here = files.display_path(call.keeper.place.main)
    call.answer(
        {"projects": [project._asdict() for project in found], "path": call.keeper.place.main},
        lambda paint: "" if call.quiet else paint.plain(f"Reconnected: {number} of this project, now at {here}"),
    )
