"""Now: every unfinished session across projects, what waits for the person first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.times import millis
from holdfast.keeper import overview
from holdfast.web.pages import Asked, Page, Shot
from holdfast.web.rendering import render

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.keeper.following import Change
    from holdfast.keeper.keeper import Keeper


def as_of(session: Session) -> int:
    """The moment for which its times were reckoned, to the millisecond: what runs is counted on from there."""
    return millis(session.started_at or session.created_at) + session.time.elapsed_ms


class Now:
    name = "now"
    title = "Now"

    def shot(self, keeper: Keeper, _: Asked, /) -> Shot:
        found = overview.now(keeper)
        cards = {f"card-{one.session.id}": render("card.html", one=one, now=as_of(one.session)) for one in found}
        waiting = sum(bool(one.attention) for one in found)
        heading = render("now-heading.html", total=len(found), waiting=waiting)
        return Shot({"now-heading": heading, **cards}, {"cards": tuple(cards)})

    def concerns(self, _: Change, __: Asked, /) -> bool:
        return True

    def extras(self, _: Keeper, __: Asked, /) -> dict[str, object]:
        return {}


NOW: Final[Page] = Now()
