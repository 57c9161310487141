"""The data of the view, read from the keeper as rarely as possible."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from holdfast.cli.watch.scene import ActionResult, EventLine, Scene
from holdfast.core.clock import log_position
from holdfast.core.errors import Failed, NotFound
from holdfast.core.wording import describe_event
from holdfast.sessions import overview

if TYPE_CHECKING:
    from holdfast.core.envelope import Position
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.overview import SessionCard

_MAX_EVENTS: Final = 200


class WatchData:
    """Reads every unfinished session, or one, through one keeper."""

    def __init__(self, keeper: Keeper, only: str | None) -> None:
        self.keeper = keeper
        self._only = only
        self._inode: int | None = None
        # Of one session at a time: the events read so far, and where in the log they end.
        self._session: str | None = None
        self._events: deque[EventLine] = deque(maxlen=_MAX_EVENTS)
        self._last: Position | None = None

    @property
    def only(self) -> bool:
        """Whether one session was asked for."""
        return self._only is not None

    def read_all(self, scene: Scene) -> Scene:
        """All sessions as they are now."""
        self.reopen()
        cards = overview.current_cards(self.keeper) if self._only is None else self._card_if_any(self._only)
        return self._with_events(self._with_cards(scene, cards))

    def read_changed(self, scene: Scene, sessions: Collection[str]) -> Scene:
        """The sessions there are now, in their order; only `sessions` and those that differ are read."""
        self.reopen()
        if self._only is not None:
            return self._with_events(self._with_cards(scene, self._card_if_any(self._only)))
        known = {card.session.id: card for card in scene.cards if card.session.id not in sessions}
        cards: list[SessionCard] = []
        for row in overview.unfinished(self.keeper):
            before = known.get(row.id)
            if before is not None and before.session.updated_at == row.updated_at:
                cards.append(before)
            else:
                cards += self._card_if_any(row.id)
        return self._with_events(self._with_cards(scene, sorted(cards, key=lambda card: not card.attention)))

    def read_some(self, scene: Scene, sessions: Collection[str | None]) -> Scene:
        """These sessions as they are now, the others as they were."""
        self.reopen()
        return self._with_events(
            scene._replace(
                cards=[self._reload(card) if card.session.id in sessions else card for card in scene.cards]
            )
        )

    def _reload(self, card: SessionCard) -> SessionCard:
        try:
            return overview.session_card(self.keeper, card.session.id)
        except NotFound:
            return card  # it has just been deleted: the next full refresh is without it

    def _card_if_any(self, session: str) -> list[SessionCard]:
        try:
            return [overview.session_card(self.keeper, session)]
        except NotFound:
            return []

    def _with_cards(self, scene: Scene, cards: list[SessionCard]) -> Scene:
        """Choose another session, with a message about it, if the chosen one is no longer unfinished."""
        chosen_before = scene.chosen
        if chosen_before is None or any(card.session.id == chosen_before for card in cards):
            return scene._replace(cards=cards).settled()
        place = min(scene.place, len(cards) - 1)
        chosen = cards[place].session.id if cards else None
        page = "list" if scene.page == "detail" else scene.page
        message = scene.message if scene.prompt is not None else ActionResult(self._status_sentence(chosen_before))
        return scene._replace(cards=cards, chosen=chosen, page=page, scroll=0, message=message)

    def _status_sentence(self, session: str) -> str:
        try:
            status = overview.session_card(self.keeper, session).session.status
        except NotFound:
            return f"{session[:8]} was deleted."
        return f"{session[:8]} is {status.replace('_', ' ')}."

    def _with_events(self, scene: Scene) -> Scene:
        if scene.chosen is not None:
            self._read_new_events(scene.chosen)
        events = tuple(self._events) if scene.chosen is not None else ()
        return scene._replace(now=self.keeper.now(), events=events)

    def _read_new_events(self, session: str) -> None:
        """Read what was added to the end of the log; events that arrive late and belong further up are not shown."""
        if session != self._session:
            self._session, self._last = session, None
            self._events.clear()
        store = self.keeper.existing_store()
        if store is None:
            return
        events = store.events(session, since=self._last[0] if self._last else 0)
        state = store.state(session)
        clocks = state.moved if state is not None else {}
        for event in events:
            position = log_position(event, clocks)
            if self._last is None or position > self._last:
                self._last = position
                self._events.append(EventLine(event.at, event.type, describe_event(event)))

    def reopen(self) -> None:
        """Open the store again if a repair or a restore replaced its file. If the file is missing, fail: the last
        known state stays on the screen.
        """
        path = self.keeper.address.path
        if path is None:
            return  # the store itself notices what a server does
        inode: int | None = None
        try:
            inode = os.stat(path).st_ino
        except OSError as error:
            if self._inode is not None or not isinstance(error, FileNotFoundError | NotADirectoryError):
                reason = (error.strerror or "the system gave no reason").lower()
                raise Failed(
                    f"the store cannot be read ({reason})",
                    hint="Showing the last known state; updates resume when the store can be read.",
                    file=path,
                ) from None
        if inode != self._inode:
            self.keeper.close()
            self._inode, self._session = inode, None
