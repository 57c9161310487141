"""`holdfast fork [ID]`: a session of one's own that goes on from another, which stays as it is."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    origin = call.keeper.session(call.parsed.text("id") or "@")
    session = origin.fork(at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Forked "), paint.bold(session.id[:8]), "  ", document.goal,
            paint.dim(f"  from {origin.id[:8]}"),
        ),
    )  # fmt: skip
