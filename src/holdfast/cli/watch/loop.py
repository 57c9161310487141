"""Lines on a screen: only those that changed are written, so nothing flickers and little is sent. Pure."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.paint import Paint, Painted
from holdfast.cli.watch.actions import BackgroundCall, asks_others
from holdfast.cli.watch.data import WatchData
from holdfast.cli.watch.keys import KeyReader
from holdfast.cli.watch.scene import ActionResult, KeyAction, Scene, press, ticks
from holdfast.cli.watch.view import frame
from holdfast.core.errors import HoldfastError, Interrupted
from holdfast.core.wording import open_pause
from holdfast.keeper.change_feed import ChangeFeed, Changes
from holdfast.machine.command import signal_name
from holdfast.machine.terminal import Terminal, own_terminal
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Screen:
    """What stands on the screen, as far as we know."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._size = os.terminal_size((0, 0))
        self._lines: list[Painted] = []
        self._cursor: tuple[int, int] | None = None

    def forget(self) -> None:
        """Somebody else wrote on it: the next drawing writes every line."""
        self._lines, self._size = [], os.terminal_size((0, 0))

    def draw(self, lines: Sequence[Painted], cursor: tuple[int, int] | None, size: os.terminal_size) -> str:
        """What makes these lines stand there, and the cursor in its row and cell (or nowhere); empty: they do."""
        out: list[str] = []
        if size != self._size:
            # A terminal that was resized has moved its lines about.
            out.append("\x1b[0m\x1b[2J")
            self._size, self._lines = size, [Painted("")] * size.lines
        wanted = [self._paint.cut(line, size.columns) for line in lines[: size.lines]]
        wanted += [Painted("")] * (size.lines - len(wanted))
        for row, (line, there) in enumerate(zip(wanted, self._lines, strict=True), start=1):
            if line != there:
                # A full line leaves nothing behind itself, and erasing there would take its last character.
                rest = "" if self._paint.width_of(line) >= size.columns else "\x1b[K"
                out.append(f"\x1b[{row};1H{line}\x1b[0m{rest}")
        self._lines = wanted
        if out or cursor != self._cursor:
            out.append("\x1b[?25l" if cursor is None else f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h")
        self._cursor = cursor
        # While lines are written the cursor would be seen to jump.
        return ("\x1b[?25l" if len(out) > 1 else "") + "".join(out)


_ESCAPE: Final = 0.05  # seconds after which Escape is a key and not the beginning of one
_WHOLE: Final = 30.0  # seconds after which everything is looked at again: ages grow, and processes end, without news
_AGAIN: Final = 1.0  # seconds until what could not be read is tried again
_SOON: Final = 0.3  # seconds after which a message says that something takes a while
_WAITING: Final = ActionResult("Waiting for the store…")
_SYNCING: Final = ActionResult("Syncing with other devices…")


def watch(
    open_keeper: Callable[[], Keeper], look: Paint, *, only: str | None, prepare: Callable[[Keeper], None]
) -> None:
    """Show every unfinished session, or one, until the person leaves."""
    terminal = own_terminal()
    news = _News(terminal.wake)
    with open_keeper() as keeper, ChangeFeed(open_keeper, news.hear):
        keeper.collects = "each"  # this goes on for long
        keeper.patience = 0.05  # what hooks left is taken in by `ChangeFeed`, which has time
        loop = _Loop(
            WatchData(keeper, only),
            terminal,
            look,
            news,
            lambda action: BackgroundCall(open_keeper, action, prepare, terminal.wake),
        )
        loop.look()  # raises for an unreadable store before anything is drawn
        with terminal:
            loop.run()


class _Arrivals(NamedTuple):
    """Whose events arrived, and whether something changed that may concern every session."""

    sessions: frozenset[str]
    beyond: bool


class _News:
    """What arrived since the last `take`; written in one thread, read in another."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock = wake, threading.Lock()
        self._arrivals: _Arrivals | None = None

    def hear(self, change: Changes) -> None:
        with self._lock:
            before = self._arrivals or _Arrivals(frozenset(), beyond=False)
            self._arrivals = _Arrivals(change.sessions | before.sessions, change.beyond or before.beyond)
        self._wake()

    def take(self) -> _Arrivals | None:
        """None: nothing changed."""
        with self._lock:
            arrivals, self._arrivals = self._arrivals, None
        return arrivals


class _Loop:
    def __init__(
        self,
        looking: WatchData,
        terminal: Terminal,
        look: Paint,
        news: _News,
        begin: Callable[[KeyAction], BackgroundCall],
    ) -> None:
        self._looking, self._terminal, self._paint, self._news = looking, terminal, look, news
        self._begin = begin
        # The action under way, its message, and whether the person wants to leave nevertheless.
        self._doing: BackgroundCall | None = None
        self._meanwhile, self._leaving = _WAITING, False
        self._keys, self._screen = KeyReader(), Screen(look)
        self._failure: ActionResult | None = None
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
            signals = self._terminal.wait(self._patience())
            if signals.stop is not None:
                if signals.stop == signal.SIGINT:
                    raise KeyboardInterrupt
                raise Interrupted(f"ended by {signal_name(signals.stop)}")
            if signals.redraw:
                self._screen.forget()
            if self._doing is not None and self._doing.over():
                self._done(self._doing)
            if not self._pressed(signals.typed):
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
            self._scene, action = press(self._scene, key, self._page)
            if action is None:
                self._leaving = False
            elif action.verb != "quit":
                self._do(action)
            elif self._doing is None or self._leaving:
                return False
            else:
                self._leaving = True
                self._say(ActionResult("That is not done yet.", "q again leaves without waiting for it.", wrong=True))
        return True

    def _do(self, action: KeyAction) -> None:
        """Begin it; most deeds are done before anybody could press another key."""
        if self._doing is not None:
            self._say(
                ActionResult("What you asked for before is not done yet.", "One thing after the other.", wrong=True)
            )
            return
        try:
            self._looking.reopen()  # what is recorded must be recorded where we look
        except HoldfastError as error:
            self._say(_failed(error))
            return
        self._doing, self._meanwhile = self._begin(action), _WAITING
        if asks_others(self._looking.keeper, action):
            self._meanwhile = _SYNCING
            self._say(_SYNCING)
            self._draw()
        if self._doing.over(_SOON):
            self._done(self._doing)
        else:
            self._say(self._meanwhile)

    def _done(self, doing: BackgroundCall) -> None:
        """Show the result or the error; after an error, the typed text stays."""
        self._doing, self._leaving = None, False
        prompt, action = self._scene.prompt, doing.action
        try:
            self._say(ActionResult(doing.result()))
            if prompt is not None and (prompt.verb, prompt.session, prompt.line.text) == action:
                self._scene = self._scene._replace(prompt=None)
        except HoldfastError as error:
            self._say(_failed(error))
        self._whole_at = 0.0

    def _say(self, message: ActionResult) -> None:
        self._scene = self._scene._replace(message=message)

    def _refresh(self) -> None:
        """Look again if it is time to. If the store cannot be read, show the error and keep what was there."""
        try:
            self.look()
        except HoldfastError as error:
            self._failure = _failed(error)
            self._say(self._failure)
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
            if self._failure is not None and self._scene.message is self._failure:
                self._scene = self._scene._replace(message=None)
            self._failure = None
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
        card = self._scene.card
        if card is None or not ticks(card):
            return None
        now = monotonic()
        spent = card.session.time
        moving = spent.working_ms if open_pause(card.session) is None else spent.paused_ms
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
        if self._doing is not None and self._scene.message is None:
            self._say(self._meanwhile)
        drawn = frame(self._paint, self._scene, size)
        self._scene, self._page = self._scene._replace(scroll=drawn.scroll), drawn.page
        changed = self._screen.draw(drawn.lines, drawn.cursor, size)
        self._drew = monotonic() - began
        if changed:
            self._terminal.write(changed)


def _failed(error: HoldfastError) -> ActionResult:
    return ActionResult(f"{error.message[:1].upper()}{error.message[1:]}.", error.hint or "", wrong=True)
