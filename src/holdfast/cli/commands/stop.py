"""`holdfast stop`: complete the session, and keep or discard its branch."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.core.short_names import agent_names
from holdfast.core.wording import time_words


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
        branch={"branch": stopped.branch, "commit": stopped.commit, "tip": stopped.tip},
        at_work=list(stopped.at_work),
    )  # fmt: skip
    if stopped.at_work:
        names = agent_names(document.agents)
        running = ", ".join(names.get(id_, id_) for id_ in stopped.at_work)
        call.note(f"Still at work, and not stopped by this: {running}.")
    if stopped.commit is not None:
        call.note(f"Merged as {stopped.commit[:12]}; {stopped.branch} is deleted.")
    elif stopped.tip is not None:
        call.note(f"{stopped.branch} is deleted; git branch {stopped.branch} {stopped.tip[:12]} brings it back.")
