"""`holdfast stop`: complete the session, and keep or discard its branch."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.keeper.wording import time_words


def run(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    reason = words.text("reason")
    if words.flag("discard") and reason is None:
        reason = call.ask("Why is it discarded?")
    stopped = session.stop(keep=words.flag("keep"), discard=words.flag("discard"), reason=reason, at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Completed "), paint.bold(session.id[:8]), "  ", document.goal, "  ",
            paint.dim(time_words(document.time)),
        ),
        branch=stopped._asdict(),
    )  # fmt: skip
    if stopped.commit is not None:
        call.note(f"Merged as {stopped.commit[:12]}; {stopped.branch} is deleted.")
    elif stopped.tip is not None:
        call.note(f"{stopped.branch} is deleted; git branch {stopped.branch} {stopped.tip[:12]} brings it back.")
