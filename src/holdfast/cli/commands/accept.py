"""`holdfast accept [URL] [OFFER]`: see who shares which session with you, and take part in it."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted
from holdfast.core.errors import Invalid, Refused
from holdfast.core.times import format_time
from holdfast.core.wording import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Session
    from holdfast.sync.offers import Offer
    from holdfast.sync.shares import Accepted, Offers

_NAME = 16  # characters of an offer's name that are shown to programs


def run(call: Call) -> None:
    from holdfast.keeper.session import SessionHandle
    from holdfast.sync import shares

    file = call.parsed.text("identity")
    keys = [] if file is None else shares.identities(file)
    url, name = _arguments(call)
    if call.parsed.flag("list"):
        _list(call, shares.offers(call.keeper, url=url, keys=keys))
        return
    if name is None and call.asks():
        name = _chosen(call, shares.offers(call.keeper, url=url, keys=keys))
    done = shares.accept(call.keeper, url=url, keys=keys, name=name)
    # By the whole id: what somebody chose for one may be the beginning of another.
    found = [(accepted, SessionHandle(call.keeper, accepted.session).document()) for accepted in done]
    call.answer(
        {"sessions": [
            {"id": accepted.session, "goal": document.goal, "status": document.status, "remote": accepted.remote,
             "writes": accepted.writes, "admitted": accepted.admitted}
            for accepted, document in found
        ]},
        lambda paint: _painted(paint, found),
    )  # fmt: skip
    if any(accepted.writes and not accepted.admitted for accepted in done):
        call.note("What you write reaches the others once a device of theirs has synced, and yours after it.")
    if any(not accepted.writes for accepted in done):
        call.note("What may only be read stays as the others write it; to go on with it: holdfast fork ID")


def _arguments(call: Call) -> tuple[str | None, str | None]:
    """The address, which has a scheme, and the offer's name, in either order."""
    given = [word for word in (call.parsed.text("url"), call.parsed.text("offer")) if word is not None]
    urls = [word for word in given if ":" in word]
    names = [word for word in given if ":" not in word]
    if len(urls) > 1 or len(names) > 1:
        raise Invalid(
            "accept takes one address and one offer", hint="holdfast accept --list shows the offers' names."
        )
    return next(iter(urls), None), next(iter(names), None)


def _list(call: Call, offers: Offers) -> None:
    clock = Clock(call.keeper.now())
    call.answer(
        {"offers": [
            {"name": offer.name[:_NAME], "from": offer.sender, "fingerprint": offer.fingerprint, "known": offer.known,
             "revoked": offer.revoked, "session": offer.session, "goal": offer.goal, "writes": offer.writes,
             "expires": None if offer.expires is None else format_time(offer.expires), "taken": offer.taken}
            for offer in offers
        ]},
        lambda paint: _listed(paint, offers, clock),
    )  # fmt: skip
    _note_unread(call, offers)


def _note_unread(call: Call, offers: Offers) -> None:
    if offers.unread:
        call.note(
            f"{count(offers.unread, 'more offer')} here, by nobody you know, not looked at."
            " Take the one you expect by its name: holdfast accept NAME"
        )


def _chosen(call: Call, offers: Offers) -> str | None:
    """On a terminal a person says which; with one offer, whether."""
    if not offers:
        return None  # what was accepted before is looked at again
    call.note(_listed(call.paint, offers, Clock(call.keeper.now())))
    _note_unread(call, offers)
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
    for offer in offers:
        how = "to read and write" if offer.writes else "to read"
        until = "" if offer.expires is None else f", until {clock.at(offer.expires)}"
        lines.append(
            paint.join(
                paint.bold(offer.name[:8]), "  ", offer.goal or offer.session[:8], paint.dim(f"  {how}{until}")
            )
        )
        who = (
            paint.green(offer.sender) if offer.known else paint.join(paint.yellow("not known: "), repr(offer.sender))
        )
        lines.append(paint.join("  from ", who))
        lines.append(paint.join("  ", paint.dim(offer.fingerprint)))
        if offer.revoked:
            lines.append(paint.join("  ", paint.yellow("You took something back from them.")))
        if offer.taken:
            lines.append(paint.join("  ", paint.yellow("You have a session of this id: it cannot be taken.")))
    return Painted("\n".join(lines))


def _painted(paint: Paint, found: Sequence[tuple[Accepted, Session]]) -> Painted:
    lines: list[str] = []
    for accepted, document in found:
        how = "to read and write" if accepted.writes else "to read"
        lines.append(paint.join(paint.bold(accepted.session[:8]), "  ", document.goal or "", paint.dim(f"  {how}")))
        lines.append(
            paint.join("  ", paint.cyan(f"holdfast {'resume' if accepted.writes else 'show'} {accepted.session[:8]}"))
        )
    return Painted("\n".join(lines))
