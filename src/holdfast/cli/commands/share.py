"""`holdfast share ID --with EMAIL`: one session for one person, to read or to go on with."""

from __future__ import annotations

import re

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.spelling import shown, value_of
from holdfast.core.errors import Invalid
from holdfast.core.times import LATEST, format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.sync.shares import ShareResult

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def run(call: Call) -> None:
    from holdfast.sync import shares

    session = call.keeper.session(call.parsed.need("id"))
    goal = session.document().goal
    done = shares.share(
        call.keeper, session.id, call.parsed.need("with_"), write=not call.parsed.flag("read_only"),
        expires=_expires(call), name=call.parsed.text("remote"),
    )  # fmt: skip
    clock = Clock(call.keeper.now())
    call.answer(
        {"share": {
            "session": session.id, "with": done.email, "remote": done.remote, "url": done.url, "write": done.write,
            "expires": None if done.expires is None else format_time(done.expires),
        }},
        lambda paint: "" if call.quiet else _painted(paint, done, goal or session.id[:8], clock),
    )  # fmt: skip
    call.note(
        f"There they run: holdfast accept {done.url}\n"
        "or just holdfast accept, if they have that remote; with --identity FILE if their key is an SSH key.\n"
        f"They are shown this device's words, to compare with you: {done.words}"
    )


def _painted(paint: Paint, done: ShareResult, goal: str, clock: Clock) -> Painted:
    how = "to read and write" if done.write else "to read"
    until = "" if done.expires is None else f", until {clock.at(done.expires)}"
    return paint.join(paint.green("Shared "), goal, " with ", paint.bold(done.email), f", {how}{until}")


def _expires(call: Call) -> int | None:
    """A length of time from now, a time, or a day: then until it is over here."""
    written = call.parsed.text("expires")
    if written is None:
        return None
    try:
        span = value_of("span", (), written, "--expires", "share")
        assert isinstance(span, int)
        moment = call.keeper.now() + span
    except Invalid:
        try:
            moment = _end_of_day(written) if _DAY.fullmatch(written) else call.moment(written) or 0
        except Invalid:
            raise Invalid(
                f"--expires: {shown(written)} is neither a length of time nor a time",
                hint="Write it as 7d, 12h, 30m or 2w, as a day such as 2027-01-31, or as RFC 3339.",
            ) from None
    if moment > LATEST:
        raise Invalid(f"--expires: {shown(written)} is too far away", hint="Leave it out for a share without end.")
    return moment


def _end_of_day(day: str) -> int:
    from holdfast.machine.wall import local_moment

    return local_moment(f"{day}T23:59:59.999")
