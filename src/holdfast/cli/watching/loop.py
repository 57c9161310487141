"""The loop: wait for a key, a change or the next second; look again; draw what became different.

Nothing is asked of the keeper while nothing happens: changes are told by `Following`, and the clock ticks only while
someone works.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.paint import Paint
from holdfast.cli.watching.acting import asks_others
from holdfast.cli.watching.doing import Doing
from holdfast.cli.watching.keys import Keys
from holdfast.cli.watching.looking import Looking
from holdfast.cli.watching.pressing import Deed, press
from holdfast.cli.watching.scene import Said, Scene, ticks
from holdfast.cli.watching.screen import Screen
from holdfast.cli.watching.view import frame
from holdfast.core.errors import HoldfastError, Interrupted
from holdfast.keeper.following import Change, Following
from holdfast.keeper.wording import open_pause
from holdfast.machine.signals import name_of
from holdfast.machine.terminal import Terminal, own_terminal
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_ESCAPE: Final = 0.05  # seconds after which Escape is a key and not the beginning of one
_WHOLE: Final = 30.0  # seconds after which everything is looked at again: ages grow, and processes end, without news
_AGAIN: Final = 1.0  # seconds until what could not be read is tried again
_SOON: Final = 0.3  # seconds after which it is said that something takes its time
_WAITING: Final = Said("Waiting for the store…")
_HEARING: Final = Said("Hearing what other devices did…")


def watch(
    open_keeper: Callable[[], Keeper], look: Paint, *, only: str | None, prepare: Callable[[Keeper], None]
) -> None:
    """Show every unfinished session, or one, until the person leaves."""
    terminal = own_terminal()
    news = _News(terminal.wake)
    with open_keeper() as keeper, Following(open_keeper, news.hear):
        keeper.looks_once = False  # this goes on for long
        keeper.patience = 0.05  # what hooks left is taken in by `Following`, which has time
        loop = _Loop(
            Looking(keeper, only), terminal, look, news, lambda deed: Doing(open_keeper, deed, prepare, terminal.wake)
        )
        loop.look()  # where nothing can be read at all, that is said before anything is drawn
        with terminal:
            loop.run()


class _Heard(NamedTuple):
    """Whose events arrived, and whether something changed that may concern every session."""

    sessions: frozenset[str]
    beyond: bool


class _News:
    """What arrived since somebody asked; told in one thread, asked for in another."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock = wake, threading.Lock()
        self._heard: _Heard | None = None

    def hear(self, change: Change) -> None:
        with self._lock:
            before = self._heard or _Heard(frozenset(), beyond=False)
            self._heard = _Heard(change.sessions | before.sessions, change.beyond or before.beyond)
        self._wake()

    def take(self) -> _Heard | None:
        """None: nothing changed."""
        with self._lock:
            heard, self._heard = self._heard, None
        return heard


class _Loop:
    def __init__(
        self,
        looking: Looking,
        terminal: Terminal,
        look: Paint,
        news: _News,
        begin: Callable[[Deed], Doing],
    ) -> None:
        self._looking, self._terminal, self._paint, self._news = looking, terminal, look, news
        self._begin = begin
        # What is under way, what is said meanwhile, and whether the person wants to leave nevertheless.
        self._doing: Doing | None = None
        self._meanwhile, self._leaving = _WAITING, False
        self._keys, self._screen = Keys(), Screen(look)
        self._trouble: Said | None = None
        self._typed_at = 0.0
        self._page = 10
        self._drew = 0.0  # seconds that the last drawing took: a session may hold very much
        self._shown: str | None = None
        self._scene = Scene(only=looking.only)
        # When to look at all of it again; not before, even if there is news; and at the one whose time passes.
        self._whole_at = self._rested_at = 0.0
        # Sessions with news, for the next look at which there are and in which order.
        self._changed: frozenset[str] = frozenset()
        self._tick_at: float | None = None

    def run(self) -> None:
        while True:
            self._draw()
            heard = self._terminal.wait(self._patience())
            if heard.stop is not None:
                if heard.stop == signal.SIGINT:
                    raise KeyboardInterrupt
                raise Interrupted(f"ended by {name_of(heard.stop)}")
            if heard.redraw:
                self._screen.forget()
            if self._doing is not None and self._doing.over():
                self._done(self._doing)
            if not self._pressed(heard.typed):
                return
            self._refresh()

    def _pressed(self, typed: bytes) -> bool:
        """Do what was typed; False when the person leaves."""
        now = monotonic()
        keys = self._keys.feed(typed) if typed else []
        if typed:
            self._typed_at = now
        elif now - self._typed_at >= _ESCAPE:
            keys = self._keys.settle()
        for key in keys:
            if key.name == "ctrl-l":
                self._screen.forget()  # something else has written on it
            self._scene, deed = press(self._scene, key, self._page)
            if deed is None:
                self._leaving = False
            elif deed.verb != "quit":
                self._do(deed)
            elif self._doing is None or self._leaving:
                return False
            else:
                self._leaving = True
                self._say(Said("That is not done yet.", "q again leaves without waiting for it.", wrong=True))
        return True

    def _do(self, deed: Deed) -> None:
        """Begin it; most deeds are done before anybody could press another key."""
        if self._doing is not None:
            self._say(Said("What you asked for before is not done yet.", "One thing after the other.", wrong=True))
            return
        try:
            self._looking.reopen()  # what is recorded must be recorded where we look
        except HoldfastError as error:
            self._say(_sorry(error))
            return
        self._doing, self._meanwhile = self._begin(deed), _WAITING
        if asks_others(self._looking.keeper, deed):
            self._meanwhile = _HEARING
            self._say(_HEARING)
            self._draw()
        if self._doing.over(_SOON):
            self._done(self._doing)
        else:
            self._say(self._meanwhile)

    def _done(self, doing: Doing) -> None:
        """What cannot be done is said, and what was written stays to be sent again."""
        self._doing, self._leaving = None, False
        asking, deed = self._scene.asking, doing.deed
        try:
            self._say(Said(doing.told()))
            if asking is not None and (asking.verb, asking.session, asking.line.text) == deed:
                self._scene = self._scene._replace(asking=None)
        except HoldfastError as error:
            self._say(_sorry(error))
        self._whole_at = 0.0

    def _say(self, said: Said) -> None:
        self._scene = self._scene._replace(said=said)

    def _refresh(self) -> None:
        """Look again if it is time to. What cannot be read just now is said, and what was there stays."""
        try:
            self.look()
        except HoldfastError as error:
            self._trouble = _sorry(error)
            self._say(self._trouble)
            self._whole_at = self._rested_at = monotonic() + _AGAIN
            self._tick_at = None

    def look(self) -> None:
        now, news = monotonic(), self._news.take()
        if news is not None:
            self._changed |= news.sessions
            if news.beyond:
                self._whole_at = min(self._whole_at, self._rested_at)
        whole = now >= self._whole_at
        if whole or (self._changed and now >= self._rested_at):
            if whole:
                self._scene = self._looking.everything(self._scene)
                self._whole_at = now + _WHOLE
            else:
                self._scene = self._looking.changed(self._scene, self._changed)
            self._changed = frozenset()
            took = monotonic() - now + self._drew
            # Whatever is going on, most of the time is left to others.
            self._rested_at = now + took + min(9 * took, 1.0)
            if self._trouble is not None and self._scene.said is self._trouble:
                self._scene = self._scene._replace(said=None)
            self._trouble = None
        elif news is not None and news.sessions:
            # Among hundreds, the rest and the order can wait.
            self._scene = self._looking.some(self._scene, news.sessions)
        elif self._scene.chosen != self._shown or (self._tick_at is not None and now >= self._tick_at):
            self._scene = self._looking.some(self._scene, (self._scene.chosen,))
        else:
            return
        self._shown = self._scene.chosen
        self._tick_at = self._next_tick(now)

    def _next_tick(self, began: float) -> float | None:
        glance = self._scene.glance
        if glance is None or not ticks(glance):
            return None
        now = monotonic()
        spent = glance.session.time
        moving = spent.working_ms if open_pause(glance.session) is None else spent.paused_ms
        second: float = 1.0 - moving % 1000 / 1000
        return now + max(second + 0.005, 20 * (now - began + self._drew))

    def _patience(self) -> float:
        now = monotonic()
        until = [self._whole_at if not self._changed else min(self._whole_at, self._rested_at)]
        if self._tick_at is not None:
            until.append(self._tick_at)
        if self._keys.unsettled:
            until.append(self._typed_at + _ESCAPE)
        return max(min(until) - now, 0.0)

    def _draw(self) -> None:
        began, size = monotonic(), self._terminal.size()
        if self._doing is not None and self._scene.said is None:
            self._say(self._meanwhile)
        drawn = frame(self._paint, self._scene, size)
        self._scene, self._page = self._scene._replace(scroll=drawn.scroll), drawn.page
        changed = self._screen.draw(drawn.lines, drawn.cursor, size)
        self._drew = monotonic() - began
        if changed:
            self._terminal.write(changed)


def _sorry(error: HoldfastError) -> Said:
    return Said(f"{error.message[:1].upper()}{error.message[1:]}.", error.hint or "", wrong=True)
