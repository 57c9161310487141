"""The terminal is taken, listened to and given back as it was, whatever ends the drawing."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.errors import Failed
from holdfast.machine import terminal
from holdfast.machine.terminal import WaitResult, can_draw

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are POSIX", allow_module_level=True)

import fcntl
import pty
import struct
import termios


class Pair:
    """Both ends of a pseudo-terminal: what a person has, and what a program has."""

    def __init__(self) -> None:
        self.person, self.program = pty.openpty()

    def hang_up(self) -> None:
        os.close(self.person)
        self.person = -1

    def close(self) -> None:
        for end in (self.person, self.program):
            if end >= 0:
                os.close(end)

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self.program)

    def seen(self) -> str:
        found = b""
        while select.select([self.person], [], [], 0.05)[0]:
            found += os.read(self.person, 65_536)
        return found.decode()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.person, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.fixture
def pair() -> Iterator[Pair]:
    opened = Pair()
    yield opened
    opened.close()


def drawn_on(pair: Pair) -> terminal._Posix:
    return terminal._Posix(pair.program, pair.program)


def test_it_is_given_back_as_it_was(pair: Pair) -> None:
    """Within the block: another screen, no echo, no cursor. After it: mode, screen and handlers as before."""
    before, handlers = pair.mode(), [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with drawn_on(pair) as screen:
        local = pair.mode()[3]
        assert not local & (termios.ECHO | termios.ICANON)
        assert local & termios.ISIG
        screen.write("drawn")
        assert "\x1b[?1049h" in (shown := pair.seen())
        assert shown.endswith("drawn")
        assert signal.getsignal(signal.SIGTERM) is not handlers[1]
    left = pair.seen()
    for sequence in ("\x1b[0m", "\x1b[?25h", "\x1b[?7h", "\x1b[?2004l", "\x1b[?1049l"):
        assert sequence in left
    assert pair.mode() == before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_an_error_gives_it_back_too(pair: Pair) -> None:
    """Whatever leaves the block, the terminal is restored first, and the error goes on."""
    before = pair.mode()
    with pytest.raises(ZeroDivisionError), drawn_on(pair):
        raise ZeroDivisionError
    assert pair.mode() == before
    assert "\x1b[?1049l" in pair.seen()


def test_terminal_wait_returns_typed_text_at_once(pair: Pair) -> None:
    """Single keys without Enter, and Enter as it was pressed; nothing within the time is nothing."""
    with drawn_on(pair) as screen:
        assert screen.wait(0) == WaitResult()
        os.write(pair.person, b"j\r\x1b[A")
        assert screen.wait(5) == WaitResult(typed=b"j\r\x1b[A")


def test_a_thread_ends_the_wait(pair: Pair) -> None:
    """News wakes the one who waits; before and after, and a thousand times, it does no harm."""
    screen = drawn_on(pair)
    screen.wake()
    with screen:
        thread = threading.Timer(0.05, screen.wake)
        thread.start()
        assert screen.wait(30) == WaitResult()
        thread.join()
        for _ in range(100_000):
            screen.wake()
        assert screen.wait(30) == WaitResult()
    screen.wake()


def test_terminal_wait_reports_signals_without_acting_on_them(pair: Pair) -> None:
    """A resize asks for a new drawing, a signal to stop is named; Ctrl-C is one, from the keyboard too."""
    with drawn_on(pair) as screen:
        pair.resize(100, 30)
        signal.raise_signal(signal.SIGWINCH)
        assert screen.wait(5) == WaitResult(redraw=True)
        assert screen.size() == (100, 30)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.raise_signal(number)
            assert screen.wait(5) == WaitResult(stop=number)


def test_a_continued_program_draws_anew(pair: Pair) -> None:
    """After a stop that nobody could hear of, the mode and the screen are taken again."""
    before = pair.mode()
    with drawn_on(pair) as screen:
        pair.seen()
        termios.tcsetattr(pair.program, termios.TCSANOW, before)
        signal.raise_signal(signal.SIGCONT)
        assert screen.wait(5) == WaitResult(redraw=True)
        assert not pair.mode()[3] & termios.ECHO
        assert "\x1b[?1049h" in pair.seen()
    assert pair.mode() == before


def test_a_terminal_that_goes_away_ends_it(pair: Pair) -> None:
    """When the other end is closed, that is a hang-up, and giving back what is gone is no error."""
    with drawn_on(pair) as screen:
        pair.hang_up()
        assert screen.wait(5).stop == signal.SIGHUP


def test_what_is_ignored_stays_ignored(pair: Pair) -> None:
    """Under nohup, the hang-up is nothing to us."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with drawn_on(pair) as screen:
            signal.raise_signal(signal.SIGHUP)
            assert screen.wait(0) == WaitResult()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_no_terminal_is_refused() -> None:
    """A pipe cannot be drawn on: that is said, and the handlers are as they were."""
    ends, handler = os.pipe(), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Failed, match="cannot be drawn on"), terminal._Posix(*ends):
            pass
    finally:
        for end in ends:
            os.close(end)
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize(
    ("ends", "term", "can"),
    [(True, "xterm", True), (True, "dumb", False), (True, "", False), (False, "xterm", False)],
)
def test_where_to_draw(monkeypatch: pytest.MonkeyPatch, ends: bool, term: str, can: bool) -> None:
    """Both ends must be a terminal, and one that can do more than print."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: ends)
    assert can_draw({"TERM": term}) is can
