"""Commands that share a session, accept what others share, and show what would be sent."""

from __future__ import annotations

import re
from collections import Counter

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.spelling import parse_value, quoted
from holdfast.core.errors import Invalid, Refused
from holdfast.core.times import LATEST, format_time
from holdfast.core.wording import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Session
    from holdfast.sync.offers import Offer
    from holdfast.sync.outgoing import OutgoingPreview, OutgoingText
    from holdfast.sync.shares import AcceptedShare, Offers, ShareResult

# ── share ──────────────────────────────────────────────────────────────────────────────────────────────


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def share(call: Call) -> None:

    session = call.keeper.session(call.parsed.need("id"))
    goal = session.document().goal
    result = session.share(
        call.parsed.need("with_"), write=not call.parsed.flag("read_only"),
        expires=_expires(call), remote=call.parsed.text("remote"),
    )  # fmt: skip
    clock = Clock(call.keeper.now())
    call.answer(
        {"share": {
            "session": session.id, "with": result.email, "remote": result.remote, "url": result.url,
            "write": result.write,
            "expires": None if result.expires is None else format_time(result.expires),
        }},
        lambda paint: "" if call.quiet else _paint_share(paint, result, goal or session.id[:8], clock),
    )  # fmt: skip
    call.note(
        f"They accept it on their device with: holdfast accept {result.url}\n"
        "or just holdfast accept, if they have that remote; with --identity FILE if their key is an SSH key.\n"
        f"They will see this device's words, and should compare them with you: {result.words}"
    )


def _paint_share(paint: Paint, result: ShareResult, goal: str, clock: Clock) -> Painted:
    how = "to read and write" if result.write else "to read"
    until = "" if result.expires is None else f", until {clock.at(result.expires)}"
    return paint.join(paint.green("Shared "), goal, " with ", paint.bold(result.email), f", {how}{until}")


def _expires(call: Call) -> int | None:
    """A length of time from now, a time, or a day: then until it is over here."""
    text = call.parsed.text("expires")
    if text is None:
        return None
    try:
        span = parse_value("span", (), text, "--expires", "share")
        assert isinstance(span, int)
        moment = call.keeper.now() + span
    except Invalid:
        try:
            moment = _end_of_day(text) if _DAY.fullmatch(text) else call.moment(text) or 0
        except Invalid:
            raise Invalid(
                f"--expires: expected a duration or a time, got {quoted(text)}",
                hint="Write it as 7d, 12h, 30m or 2w, as a day such as 2027-01-31, or as RFC 3339.",
            ) from None
    if moment > LATEST:
        raise Invalid(f"--expires: {quoted(text)} is too far away", hint="Leave it out for a share without end.")
    return moment


def _end_of_day(day: str) -> int:
    from holdfast.machine.wall import local_moment

    return local_moment(f"{day}T23:59:59.999")


# ── accept ─────────────────────────────────────────────────────────────────────────────────────────────


_NAME_LENGTH = 16  # characters of an offer's name that are shown to programs


def accept(call: Call) -> None:
    from holdfast.keeper.session import SessionHandle
    from holdfast.sync import shares

    file = call.parsed.text("identity")
    keys = [] if file is None else shares.identities(file)
    url, name = _url_and_name(call)
    if call.parsed.flag("list"):
        _list_offers(call, call.keeper.people.offers(url=url, keys=keys))
        return
    if name is None and call.can_ask():
        name = _choose_offer(call, call.keeper.people.offers(url=url, keys=keys))
    accepted_shares = call.keeper.people.accept(name, url=url, keys=keys)
    # By the whole id: the beginning of one may be that of another.
    accepted_sessions = [
        (accepted, SessionHandle(call.keeper, accepted.session).document()) for accepted in accepted_shares
    ]
    call.answer(
        {"sessions": [
            {"id": accepted.session, "goal": document.goal, "status": document.status, "remote": accepted.remote,
             "writes": accepted.writes, "admitted": accepted.admitted}
            for accepted, document in accepted_sessions
        ]},
        lambda paint: _paint_accepted(paint, accepted_sessions),
    )  # fmt: skip
    if any(accepted.writes and not accepted.admitted for accepted in accepted_shares):
        call.note("Others receive what you write once one of their devices has synced, and then yours.")
    if any(not accepted.writes for accepted in accepted_shares):
        call.note("To continue a read-only session in your own copy: holdfast fork ID")


def _url_and_name(call: Call) -> tuple[str | None, str | None]:
    """The address, which has a scheme, and the offer's name, in either order."""
    words = [word for word in (call.parsed.text("url"), call.parsed.text("offer")) if word is not None]
    urls = [word for word in words if ":" in word]
    names = [word for word in words if ":" not in word]
    if len(urls) > 1 or len(names) > 1:
        raise Invalid(
            "accept takes one address and one offer", hint="holdfast accept --list shows the offers' names."
        )
    return next(iter(urls), None), next(iter(names), None)


def _list_offers(call: Call, offers: Offers) -> None:
    clock = Clock(call.keeper.now())
    call.answer(
        {"offers": [
            {"name": offer.name[:_NAME_LENGTH], "from": offer.sender, "fingerprint": offer.fingerprint,
             "known": offer.known, "revoked": offer.revoked, "session": offer.session, "goal": offer.goal,
             "writes": offer.writes, "expires": None if offer.expires is None else format_time(offer.expires),
             "taken": offer.taken}
            for offer in offers
        ]},
        lambda paint: _paint_offers(paint, offers, clock),
    )  # fmt: skip
    _note_unread(call, offers)


def _note_unread(call: Call, offers: Offers) -> None:
    if offers.unread:
        call.note(
            f"{count(offers.unread, 'more offer')} from unknown people, not opened."
            " Accept the one you expect by its name: holdfast accept NAME"
        )


def _choose_offer(call: Call, offers: Offers) -> str | None:
    """On a terminal a person says which; with one offer, whether."""
    if not offers:
        return None  # what was accepted before is looked at again
    call.note(_paint_offers(call.paint, offers, Clock(call.keeper.now())))
    _note_unread(call, offers)
    if call.parsed.globals.yes:
        if len(offers) == 1:
            return offers[0].name
        raise Refused("there are several offers", hint="Accept one by its name: holdfast accept NAME")
    if len(offers) == 1:
        answer = call.ask("Accept it? [y/N]")
        if (answer or "").lower() in ("y", "yes"):
            return offers[0].name
    else:
        answer = call.ask("Which one? Its name, or nothing:")
        if answer:
            return answer
    raise Refused("nothing was accepted", hint="Accept one by its name: holdfast accept NAME")


def _paint_offers(paint: Paint, offers: Sequence[Offer], clock: Clock) -> Painted:
    if not offers:
        return paint.dim("No session is offered to you here.")
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
            lines.append(paint.join("  ", paint.yellow("You revoked a share with this sender earlier.")))
        if offer.taken:
            lines.append(paint.join("  ", paint.yellow("You have a session with this id: it cannot be accepted.")))
    return Painted("\n".join(lines))


def _paint_accepted(paint: Paint, accepted_sessions: Sequence[tuple[AcceptedShare, Session]]) -> Painted:
    lines: list[str] = []
    for accepted, document in accepted_sessions:
        how = "to read and write" if accepted.writes else "to read"
        lines.append(paint.join(paint.bold(accepted.session[:8]), "  ", document.goal or "", paint.dim(f"  {how}")))
        lines.append(
            paint.join("  ", paint.cyan(f"holdfast {'resume' if accepted.writes else 'show'} {accepted.session[:8]}"))
        )
    return Painted("\n".join(lines))


# ── revoke ─────────────────────────────────────────────────────────────────────────────────────────────


def revoke(call: Call) -> None:

    session, email = call.keeper.session(call.parsed.need("id")), call.parsed.need("from_").strip()
    remotes = session.revoke(email)
    call.answer(
        {"revoked": {"session": session.id, "from": email, "remotes": remotes}},
        lambda paint: "" if call.quiet else paint.join(
            "No longer shared with ", paint.bold(email), paint.dim(f" at {', '.join(remotes)}")
        ),
    )  # fmt: skip
    call.note("What they have already read cannot be taken back; they cannot read what is written from now on.")


# ── redact ─────────────────────────────────────────────────────────────────────────────────────────────


# In the order in which a person wants to see them; the rest follows.
_ORDER = (
    "goal", "session", "notes", "decisions", "tasks", "agents", "commands", "files", "project", "device", "actor",
    "native", "extra",
)  # fmt: skip
_MAX_TEXTS = 20  # of one kind; --json has all


def redact(call: Call) -> None:
    from holdfast.sync.outgoing import NEVER

    session = call.keeper.session(call.parsed.text("id") or "@")
    call.keeper.state(session.id)  # raises for a deleted session
    outgoing = session.preview_sync()
    call.answer(
        {
            "session": outgoing.session, "events": outgoing.events,
            "texts": [text._asdict() for text in outgoing.texts],
            "found": [secret._asdict() for secret in outgoing.secrets], "never": NEVER,
        },
        lambda paint: _paint_outgoing(paint, outgoing),
    )  # fmt: skip
    for remote, reason in outgoing.withheld.items():
        call.note(f"None of it is sent to {remote}: {reason}.")
    call.note(f"Also sent: times, numbers, ids, hashes of files. Never: {', '.join(NEVER)}.")


def _paint_outgoing(paint: Paint, outgoing: OutgoingPreview) -> Painted:
    new_texts = sum(not text.sent for text in outgoing.texts)
    lines = [
        paint.plain(
            f"{count(outgoing.events, 'event')} would leave this device with the next sync,"
            f" with {count(new_texts, 'new text')}."
            if outgoing.events
            else "Nothing new would leave this device with the next sync."
        )
    ]
    rows = [row for texts in _group_texts(outgoing.texts) for row in _text_rows(texts)]
    titles = ("What", "", "Text") if paint.tty else ("", "", "")
    columns = [Column(titles[0], style="dim"), Column(titles[1]), Column(titles[2], weight=1)]
    if rows:
        lines.append(paint.table(rows, columns))
    if outgoing.secrets:
        places = Counter(outgoing.secrets)
        counts = ", ".join(f"{number} {secret.kind} in {secret.where}" for secret, number in sorted(places.items()))
        lines.append(paint.join(paint.yellow("Would be removed first: "), counts))
    return Painted("\n".join(lines))


def _group_texts(texts: list[OutgoingText]) -> list[list[OutgoingText]]:
    groups: dict[str, list[OutgoingText]] = {name: [] for name in _ORDER}
    for outgoing in texts:
        groups.setdefault(outgoing.where.partition(".")[0], []).append(outgoing)
    return [group for group in groups.values() if group]


def _text_rows(texts: list[OutgoingText]) -> list[list[str]]:
    # New ones first: they are the reason to look.
    ordered = sorted(texts, key=lambda outgoing: outgoing.sent)
    rows = [
        [text.where, "sent" if text.sent else "new", " ".join(text.text.split())] for text in ordered[:_MAX_TEXTS]
    ]
    if len(ordered) > _MAX_TEXTS:
        rows.append(
            [ordered[-1].where.partition(".")[0], "", f"and {len(ordered) - _MAX_TEXTS:,} more (--json has all)"]
        )
    return rows
