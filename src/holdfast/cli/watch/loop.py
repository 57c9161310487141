"""The event loop of `holdfast watch`: keys, changes and redrawing.

What keys do to a session runs in a thread, so that keys are handled meanwhile.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.cli.paint import Paint, Painted
from holdfast.cli.watch.data import WatchData
from holdfast.cli.watch.keys import KeyReader
from holdfast.cli.watch.scene import ActionResult, KeyAction, Scene, handle_key, is_clock_running
from holdfast.cli.watch.view import frame
from holdfast.core.errors import HoldfastError, Interrupted, Unreachable
from holdfast.core.wording import count, open_pause
from holdfast.keeper.change_feed import ChangeFeed, Changes
from holdfast.machine.command import signal_name
from holdfast.machine.terminal import Terminal, own_terminal
from holdfast.machine.wall import monotonic
from holdfast.sessions.work_trees import workspace_of_session
from holdfast.workspace.unit import explain_outage

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import SessionHandle


class Screen:
    """The lines on the screen. Only those that changed are written, so nothing flickers and little is sent."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._size = os.terminal_size((0, 0))
        self._lines: list[Painted] = []
        self._cursor: tuple[int, int] | None = None

    def forget(self) -> None:
        """After another program wrote on the screen: the next drawing writes every line."""
        self._lines, self._size = [], os.terminal_size((0, 0))

    def draw(self, lines: Sequence[Painted], cursor: tuple[int, int] | None, size: os.terminal_size) -> str:
        """The text that brings the screen to these lines and this cursor (row and cell); empty if it is there."""
        parts: list[str] = []
        if size != self._size:
            # A terminal that was resized has moved its lines about.
            parts.append("\x1b[0m\x1b[2J")
            self._size, self._lines = size, [Painted("")] * size.lines
        new_lines = [self._paint.cut(line, size.columns) for line in lines[: size.lines]]
        new_lines += [Painted("")] * (size.lines - len(new_lines))
        for row, (line, old_line) in enumerate(zip(new_lines, self._lines, strict=True), start=1):
            if line != old_line:
                # After a full line there is nothing to erase, and erasing would remove its last character.
                erase = "" if self._paint.width_of(line) >= size.columns else "\x1b[K"
                parts.append(f"\x1b[{row};1H{line}\x1b[0m{erase}")
        self._lines = new_lines
        if parts or cursor != self._cursor:
            parts.append("\x1b[?25l" if cursor is None else f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h")
        self._cursor = cursor
        # Hidden while lines are written, or it would be seen to jump.
        return ("\x1b[?25l" if len(parts) > 1 else "") + "".join(parts)


_ESCAPE_TIMEOUT: Final = 0.05  # seconds after which Escape is a key and not the beginning of one
_FULL_REFRESH_INTERVAL: Final = 30.0  # seconds: ages grow, and processes end, without any change in the store
_RETRY_DELAY: Final = 1.0  # seconds until a store that could not be read is tried again
_MESSAGE_DELAY: Final = 0.3  # seconds after which a message says that an action takes a while
_WAITING: Final = ActionResult("Waiting for the store…")
_SYNCING: Final = ActionResult("Syncing with other devices…")


def watch(
    open_keeper: Callable[[], Keeper], paint: Paint, *, only: str | None, prepare: Callable[[Keeper], None]
) -> None:
    """Show every unfinished session, or one, until the person leaves."""
    terminal = own_terminal()
    pending = _PendingChanges(terminal.wake)
    with open_keeper() as keeper, ChangeFeed(open_keeper, pending.add):
        keeper.collect_mode = "each"  # this process runs for long
        keeper.patience = 0.05  # `ChangeFeed` drains the spool, and has time for it
        loop = _Loop(
            WatchData(keeper, only),
            terminal,
            paint,
            pending,
            lambda action: BackgroundCall(open_keeper, action, prepare, terminal.wake),
        )
        loop.refresh()  # raises for an unreadable store before anything is drawn
        with terminal:
            loop.run()


class _ChangedSessions(NamedTuple):
    """Whose events arrived, and whether something changed that may concern every session."""

    sessions: frozenset[str]
    other_changes: bool


class _PendingChanges:
    """What arrived since the last `take`; written in one thread, read in another."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock = wake, threading.Lock()
        self._pending: _ChangedSessions | None = None

    def add(self, change: Changes) -> None:
        with self._lock:
            before = self._pending or _ChangedSessions(frozenset(), other_changes=False)
            self._pending = _ChangedSessions(
                change.sessions | before.sessions, change.other_changes or before.other_changes
            )
        self._wake()

    def take(self) -> _ChangedSessions | None:
        """None: nothing changed."""
        with self._lock:
            pending, self._pending = self._pending, None
        return pending


class _Loop:
    def __init__(
        self,
        data: WatchData,
        terminal: Terminal,
        paint: Paint,
        pending: _PendingChanges,
        start: Callable[[KeyAction], BackgroundCall],
    ) -> None:
        self._data, self._terminal, self._paint, self._pending_changes = data, terminal, paint, pending
        self._start = start
        # The action under way, its message, and whether the person wants to leave nevertheless.
        self._running: BackgroundCall | None = None
        self._wait_message, self._leaving = _WAITING, False
        self._keys, self._screen = KeyReader(), Screen(paint)
        self._failure: ActionResult | None = None
        self._typed_at = 0.0
        self._page = 10
        self._draw_seconds = 0.0  # seconds that the last drawing took: a session may hold very much
        self._shown: str | None = None
        self._scene = Scene(only=data.only)
        # Monotonic times of the next full refresh, and of the next read after a change.
        self._full_refresh_at = self._next_read_at = 0.0
        # Sessions with new events, for the next read of the list and its order.
        self._changed: frozenset[str] = frozenset()
        self._tick_at: float | None = None

    def run(self) -> None:
        while True:
            self._draw()
            signals = self._terminal.wait(self._timeout())
            if signals.stop is not None:
                if signals.stop == signal.SIGINT:
                    raise KeyboardInterrupt
                raise Interrupted(f"ended by {signal_name(signals.stop)}")
            if signals.redraw:
                self._screen.forget()
            if self._running is not None and self._running.ended():
                self._finish(self._running)
            if not self._handle_keys(signals.typed):
                return
            self._refresh_or_show_error()

    def _handle_keys(self, typed: bytes) -> bool:
        """Handle typed keys; False when the person leaves."""
        now = monotonic()
        keys = self._keys.feed(typed) if typed else []
        if typed:
            self._typed_at = now
        elif now - self._typed_at >= _ESCAPE_TIMEOUT:
            keys = self._keys.settle_escape()
        for key in keys:
            if key.name == "ctrl-l":
                self._screen.forget()  # another program has written on it
            self._scene, action = handle_key(self._scene, key, self._page)
            if action is None:
                self._leaving = False
            elif action.verb != "quit":
                self._run_action(action)
            elif self._running is None or self._leaving:
                return False
            else:
                self._leaving = True
                self._show_message(
                    ActionResult(
                        "The last action is still running.", "Press q again to leave without waiting.", is_error=True
                    )
                )
        return True

    def _run_action(self, action: KeyAction) -> None:
        """Start the action; most end before another key could be pressed."""
        if self._running is not None:
            self._show_message(
                ActionResult("The last action is still running.", "Wait until it ends.", is_error=True)
            )
            return
        try:
            self._data.reopen()  # events must go to the store that is shown
        except HoldfastError as error:
            self._show_message(_failed(error))
            return
        self._running, self._wait_message = self._start(action), _WAITING
        if _syncs_first(self._data.keeper, action):
            self._wait_message = _SYNCING
            self._show_message(_SYNCING)
            self._draw()
        if self._running.ended(_MESSAGE_DELAY):
            self._finish(self._running)
        else:
            self._show_message(self._wait_message)

    def _finish(self, call: BackgroundCall) -> None:
        """Show the result or the error; after an error, the typed text stays."""
        self._running, self._leaving = None, False
        prompt, action = self._scene.prompt, call.action
        try:
            self._show_message(ActionResult(call.result()))
            if prompt is not None and (prompt.verb, prompt.session, prompt.line.text) == action:
                self._scene = self._scene._replace(prompt=None)
        except HoldfastError as error:
            self._show_message(_failed(error))
        self._full_refresh_at = 0.0

    def _show_message(self, message: ActionResult) -> None:
        self._scene = self._scene._replace(message=message)

    def _refresh_or_show_error(self) -> None:
        """Read again if it is time to. If the store cannot be read, show the error and keep the last known state."""
        try:
            self.refresh()
        except HoldfastError as error:
            self._failure = _failed(error)
            self._show_message(self._failure)
            self._full_refresh_at = self._next_read_at = monotonic() + _RETRY_DELAY
            self._tick_at = None

    def refresh(self) -> None:
        now, changes = monotonic(), self._pending_changes.take()
        if changes is not None:
            self._changed |= changes.sessions
            if changes.other_changes:
                self._full_refresh_at = min(self._full_refresh_at, self._next_read_at)
        full = now >= self._full_refresh_at
        if full or (self._changed and now >= self._next_read_at):
            if full:
                self._scene = self._data.read_all(self._scene)
                self._full_refresh_at = now + _FULL_REFRESH_INTERVAL
            else:
                self._scene = self._data.read_changed(self._scene, self._changed)
            self._changed = frozenset()
            busy_seconds = monotonic() - now + self._draw_seconds
            # However much changes, most of the time is left to other programs.
            self._next_read_at = now + busy_seconds + min(9 * busy_seconds, 1.0)
            if self._failure is not None and self._scene.message is self._failure:
                self._scene = self._scene._replace(message=None)
            self._failure = None
        elif changes is not None and changes.sessions:
            # Among hundreds, the rest and the order can wait.
            self._scene = self._data.read_some(self._scene, changes.sessions)
        elif self._scene.chosen != self._shown or (self._tick_at is not None and now >= self._tick_at):
            self._scene = self._data.read_some(self._scene, (self._scene.chosen,))
        else:
            return
        self._shown = self._scene.chosen
        self._tick_at = self._next_tick(now)

    def _next_tick(self, began: float) -> float | None:
        card = self._scene.card
        if card is None or not is_clock_running(card):
            return None
        now = monotonic()
        time = card.session.time
        growing_ms = time.working_ms if open_pause(card.session) is None else time.paused_ms
        second: float = 1.0 - growing_ms % 1000 / 1000
        return now + max(second + 0.005, 20 * (now - began + self._draw_seconds))

    def _timeout(self) -> float:
        now = monotonic()
        deadlines = [self._full_refresh_at if not self._changed else min(self._full_refresh_at, self._next_read_at)]
        if self._tick_at is not None:
            deadlines.append(self._tick_at)
        if self._keys.is_ambiguous:
            deadlines.append(self._typed_at + _ESCAPE_TIMEOUT)
        return max(min(deadlines) - now, 0.0)

    def _draw(self) -> None:
        began, size = monotonic(), self._terminal.size()
        if self._running is not None and self._scene.message is None:
            self._show_message(self._wait_message)
        watch_frame = frame(self._paint, self._scene, size)
        self._scene, self._page = self._scene._replace(scroll=watch_frame.scroll), watch_frame.page
        changed = self._screen.draw(watch_frame.lines, watch_frame.cursor, size)
        self._draw_seconds = monotonic() - began
        if changed:
            self._terminal.write(changed)


def _act(keeper: Keeper, action: KeyAction, prepare: Callable[[Keeper], None]) -> str:
    """Run the action and return sentences to show. `prepare` sets what only the surface knows."""
    keeper = workspace_of_session(keeper, action.session)
    prepare(keeper)
    sentences = _run_verb(keeper.session(action.session), action)
    return " ".join([*sentences, *keeper.take_notices()])


def _syncs_first(keeper: Keeper, action: KeyAction) -> bool:
    """Whether the action takes a while, because it syncs with other devices first."""
    return action.verb == "resume" and os.path.lexists(keeper.home.remotes)


def _run_verb(session: SessionHandle, action: KeyAction) -> list[str]:
    name = session.id[:8]
    if action.verb == "note":
        session.note(action.text)
        return [f"Noted in {name}."]
    if action.verb == "pause":
        session.pause(action.text.strip() or None)
        return [f"Paused {name}."]
    return _resume(session, name)


def _resume(session: SessionHandle, name: str) -> list[str]:
    sync_notes = session.keeper.sync_first()
    resumed = session.resume()
    lost = len(resumed.interrupted)
    sentences = [f"Resumed {name}" + (f"; {count(lost, 'agent was', 'agents were')} interrupted." if lost else ".")]
    sentences += [f"This work tree differs: {difference.detail}." for difference in resumed.differences]
    return [*sentences, *sync_notes]


class BackgroundCall:
    """An action that runs in a thread; calls `wake` when it ends."""

    def __init__(
        self,
        open_keeper: Callable[[], Keeper],
        action: KeyAction,
        prepare: Callable[[Keeper], None],
        wake: Callable[[], None],
    ) -> None:
        self.action = action
        self._open, self._prepare, self._wake = open_keeper, prepare, wake
        self._result = ""
        self._error: BaseException | None = None
        self._ended = threading.Event()
        # A daemon thread, so that the person can leave: the store records an action as a whole or not at all.
        threading.Thread(target=self._run, name="action", daemon=True).start()

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has ended; waits at most this long."""
        return self._ended.wait(seconds)

    def result(self) -> str:
        """The sentences to show; raises the error of an action that failed."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            with self._open() as keeper:
                try:
                    self._result = _act(keeper, self.action, self._prepare)
                except Unreachable as error:
                    raise explain_outage(keeper, error) from None
        except BaseException as error:  # noqa: BLE001 (raised by `result`, where it can be shown)
            self._error = error
        self._ended.set()
        self._wake()


def _failed(error: HoldfastError) -> ActionResult:
    return ActionResult(f"{error.message[:1].upper()}{error.message[1:]}.", error.hint or "", is_error=True)
