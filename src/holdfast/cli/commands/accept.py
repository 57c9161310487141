"""`holdfast accept [URL]`: take part in the sessions that somebody shared with you."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Session
    from holdfast.keeper.teleports.sharing import Accepted


def run(call: Call) -> None:
    from holdfast.keeper.teleports import sharing

    file = call.parsed.text("identity")
    keys = [] if file is None else sharing.identities(file)
    done = sharing.accept(call.keeper, url=call.parsed.text("url"), keys=keys)
    found = [(one, call.keeper.session(one.session).document()) for one in done]
    call.answer(
        {"sessions": [
            {"id": one.session, "goal": document.goal, "status": document.status, "remote": one.remote,
             "writes": one.writes, "admitted": one.admitted}
            for one, document in found
        ]},
        lambda paint: _painted(paint, found),
    )  # fmt: skip
    if any(one.writes and not one.admitted for one in done):
        call.note("What you write reaches the others once a device of theirs has synced, and yours after it.")
    if any(not one.writes for one in done):
        call.note("What may only be read stays as the others write it; to go on with it: holdfast fork ID")


def _painted(paint: Paint, found: Sequence[tuple[Accepted, Session]]) -> Painted:
    lines: list[str] = []
    for one, document in found:
        how = "to read and write" if one.writes else "to read"
        lines.append(paint.join(paint.bold(one.session[:8]), "  ", document.goal or "", paint.dim(f"  {how}")))
        lines.append(paint.join("  ", paint.cyan(f"holdfast {'resume' if one.writes else 'show'} {one.session[:8]}")))
    return Painted("\n".join(lines))
