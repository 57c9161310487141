"""`holdfast start GOAL`: begin a session."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.formats import project_files


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.start(
        words.need("goal"),
        scope=words.text("scope"),
        task=words.text("task"),
        mode=words.text("mode") or "default",
        feature=words.text("feature"),
        branch=words.flag("branch"),
        tags=words.texts("tags"),
        model=words.text("model"),
        replace=words.flag("replace"),
        continues=words.text("continues"),
        at=call.at,
    )
    document = session.document(at=call.at)
    notes = project_files.notes(call.keeper, at_work=True)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Started "), paint.bold(session.id[:8]), "  ", document.goal,
            paint.dim(f"  on {document.branch}") if document.branch else "",
        ),
        **({"notes": notes} if notes else {}),
    )  # fmt: skip
    for sentence in notes:
        call.note(sentence)
