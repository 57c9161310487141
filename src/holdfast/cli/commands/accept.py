"""`holdfast accept [URL] [OFFER]`: see who shares which session with you, and take part in it."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted
from holdfast.core.errors import Invalid, Refused
from holdfast.core.times import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Session
    from holdfast.keeper.teleports.offers import Offer
    from holdfast.keeper.teleports.sharing import Accepted

_NAME = 16  # characters of an offer's name that are shown to programs


def run(call: Call) -> None:
    from holdfast.keeper.teleports import sharing

    file = call.parsed.text("identity")
    keys = [] if file is None else sharing.identities(file)
    url, name = _arguments(call)
    if call.parsed.flag("list"):
        _list(call, sharing.offers(call.keeper, url=url, keys=keys))
        return
    if name is None and call.asks():
        name = _chosen(call, sharing.offers(call.keeper, url=url, keys=keys))
    done = sharing.accept(call.keeper, url=url, keys=keys, name=name)
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


def _arguments(call: Call) -> tuple[str | None, str | None]:
    """The address, which has a scheme, and the offer's name, in either order."""
    given = [one for one in (call.parsed.text("url"), call.parsed.text("offer")) if one is not None]
    urls = [one for one in given if ":" in one]
    names = [one for one in given if ":" not in one]
    if len(urls) > 1 or len(names) > 1:
        raise Invalid(
            "accept takes one address and one offer", hint="holdfast accept --list shows the offers' names."
        )
    return next(iter(urls), None), next(iter(names), None)


def _list(call: Call, offers: Sequence[Offer]) -> None:
    clock = Clock(call.keeper.now())
    call.answer(
        {"offers": [
            {"name": one.name[:_NAME], "from": one.sender, "fingerprint": one.fingerprint, "known": one.known,
             "revoked": one.revoked, "session": one.session, "goal": one.goal, "writes": one.writes,
             "expires": None if one.expires is None else text(one.expires), "taken": one.taken}
            for one in offers
        ]},
        lambda paint: _listed(paint, offers, clock),
    )  # fmt: skip


def _chosen(call: Call, offers: Sequence[Offer]) -> str | None:
    """On a terminal a person says which; with one offer, whether."""
    if not offers:
        return None  # what was accepted before is looked at again
    call.note(str(_listed(call.paint, offers, Clock(call.keeper.now()))))
    if call.parsed.globals.yes:
        if len(offers) == 1:
            return offers[0].name
        raise Refused("there are several offers", hint="Take one by its name: holdfast accept NAME")
    if len(offers) == 1:
        answer = call.ask("Take part in it? [y/N]")
        if (answer or "").lower() in ("y", "yes"):
            return offers[0].name
    else:
        answer = call.ask("Which one? Its name, or nothing:")
        if answer:
            return answer
    raise Refused("nothing was accepted", hint="Take one by its name: holdfast accept NAME")


def _listed(paint: Paint, offers: Sequence[Offer], clock: Clock) -> Painted:
    if not offers:
        return paint.dim("Nobody offers you a session here.")
    lines: list[str] = []
    for one in offers:
        how = "to read and write" if one.writes else "to read"
        until = "" if one.expires is None else f", until {clock.at(one.expires)}"
        lines.append(
            paint.join(paint.bold(one.name[:8]), "  ", one.goal or one.session[:8], paint.dim(f"  {how}{until}"))
        )
        who = paint.green(one.sender) if one.known else paint.join(paint.yellow("not known: "), repr(one.sender))
        lines.append(paint.join("  from ", who))
        lines.append(paint.join("  ", paint.dim(one.fingerprint)))
        if one.revoked:
            lines.append(paint.join("  ", paint.yellow("You took something back from them.")))
        if one.taken:
            lines.append(paint.join("  ", paint.yellow("You have a session of this id: it cannot be taken.")))
    return Painted("\n".join(lines))


def _painted(paint: Paint, found: Sequence[tuple[Accepted, Session]]) -> Painted:
    lines: list[str] = []
    for one, document in found:
        how = "to read and write" if one.writes else "to read"
        lines.append(paint.join(paint.bold(one.session[:8]), "  ", document.goal or "", paint.dim(f"  {how}")))
        lines.append(paint.join("  ", paint.cyan(f"holdfast {'resume' if one.writes else 'show'} {one.session[:8]}")))
    return Painted("\n".join(lines))
