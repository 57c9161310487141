"""`holdfast start GOAL`: begin a session."""

from __future__ import annotations

from holdfast.cli.call import Call


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
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Started "), paint.bold(session.id[:8]), "  ", document.goal,
            paint.dim(f"  on {document.branch}") if document.branch else "",
        ),
    )  # fmt: skip
