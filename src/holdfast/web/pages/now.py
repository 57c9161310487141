"""Now: every unfinished session of all projects, those that wait for the person first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.times import parse_time
from holdfast.formats import project_files
from holdfast.sessions import overview
from holdfast.web.charts.strip import small_strip
from holdfast.web.pages import Page, PageContent, PageRequest
from holdfast.web.render import render

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.overview import SessionCard

# Unfinished sessions pile up: only the latest are read, and only some of those get a card.
MAX_READ: Final = 60
MAX_CARDS: Final = 24
MAX_OTHERS: Final = 100


def computed_at(session: Session) -> int:
    """The moment its times were computed for, to the millisecond: what grows is counted on from there."""
    return parse_time(session.started_at or session.created_at) + session.time.elapsed_ms


class Now:
    name = "now"
    title = "Now"

    def __init__(self) -> None:
        self._memo = overview.SessionCards()
        # Cards that were drawn, with what they were drawn from.
        self._drawn: dict[str, tuple[SessionCard, str]] = {}

    def content(self, keeper: Keeper, _: PageRequest, /) -> PageContent:
        rows = overview.unfinished(keeper)
        all_cards = overview.current_cards(keeper, rows[:MAX_READ], memo=self._memo)
        cards = {f"card-{card.session.id}": self._card(card) for card in all_cards[:MAX_CARDS]}
        self._drawn = {card.session.id: (card, cards[f"card-{card.session.id}"]) for card in all_cards[:MAX_CARDS]}
        waiting = sum(bool(card.attention) for card in all_cards)
        shown = {card.session.id for card in all_cards[:MAX_CARDS]}
        others = [row for row in rows if row.id not in shown]
        files = project_files.notes(keeper, at_work=keeper.current() is not None)
        return PageContent(
            {
                "now-heading": render("now-heading.html", total=len(rows), waiting=waiting, files=files),
                **cards,
                "others": render(
                    "now-others.html", others=others[:MAX_OTHERS], left=max(len(others) - MAX_OTHERS, 0)
                ),
            },
            {"cards": tuple(cards)},
        )

    def _card(self, card: SessionCard) -> str:
        known = self._drawn.get(card.session.id)
        if known is not None and known[0] is card:
            return known[1]
        return render("card.html", card=card, now=computed_at(card.session), strip=small_strip(card.session))

    def concerns(self, _: Changes, __: PageRequest, /) -> bool:
        return True

    def extras(self, _: Keeper, __: PageRequest, /) -> dict[str, object]:
        return {}


NOW: Final[Page] = Now()
