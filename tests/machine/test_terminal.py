"""The terminal is taken over, read, and restored whatever ends the drawing."""

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


class TerminalPair:
    """Both ends of a pseudo-terminal, the person's and the program's."""

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
        output = b""
        while select.select([self.person], [], [], 0.05)[0]:
            output += os.read(self.person, 65_536)
        return output.decode()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.person, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.fixture
def pair() -> Iterator[TerminalPair]:
    opened = TerminalPair()
    yield opened
    opened.close()


def screen_on(pair: TerminalPair) -> terminal._Posix:
    return terminal._Posix(pair.program, pair.program)


def test_terminal_is_restored_after_the_block(pair: TerminalPair) -> None:
    """Within the block: another screen, no echo, no cursor."""
    before, handlers = pair.mode(), [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with screen_on(pair) as screen:
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


def test_terminal_is_restored_before_an_error_propagates(pair: TerminalPair) -> None:
    before = pair.mode()
    with pytest.raises(ZeroDivisionError), screen_on(pair):
        raise ZeroDivisionError
    assert pair.mode() == before
    assert "\x1b[?1049l" in pair.seen()


def test_terminal_wait_returns_typed_text_at_once(pair: TerminalPair) -> None:
    """Single keys without Enter, and Enter itself; nothing after the timeout."""
    with screen_on(pair) as screen:
        assert screen.wait(0) == WaitResult()
        os.write(pair.person, b"j\r\x1b[A")
        assert screen.wait(5) == WaitResult(typed=b"j\r\x1b[A")


def test_terminal_wait_is_ended_by_another_thread(pair: TerminalPair) -> None:
    """Waking before or after the wait, or a thousand times, does no harm."""
    screen = screen_on(pair)
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


def test_terminal_wait_reports_signals_without_acting_on_them(pair: TerminalPair) -> None:
    """A resize, a signal to stop, and Ctrl-C."""
    with screen_on(pair) as screen:
        pair.resize(100, 30)
        signal.raise_signal(signal.SIGWINCH)
        assert screen.wait(5) == WaitResult(redraw=True)
        assert screen.size() == (100, 30)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.raise_signal(number)
            assert screen.wait(5) == WaitResult(stop=number)


def test_terminal_is_taken_over_again_when_the_program_continues(pair: TerminalPair) -> None:
    """After a stop that could not be noticed."""
    before = pair.mode()
    with screen_on(pair) as screen:
        pair.seen()
        termios.tcsetattr(pair.program, termios.TCSANOW, before)
        signal.raise_signal(signal.SIGCONT)
        assert screen.wait(5) == WaitResult(redraw=True)
        assert not pair.mode()[3] & termios.ECHO
        assert "\x1b[?1049h" in pair.seen()
    assert pair.mode() == before


def test_terminal_that_closes_ends_the_wait(pair: TerminalPair) -> None:
    """Restoring it afterwards is no error."""
    with screen_on(pair) as screen:
        pair.hang_up()
        assert screen.wait(5).stop == signal.SIGHUP


def test_ignored_hangup_stays_ignored(pair: TerminalPair) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with screen_on(pair) as screen:
            signal.raise_signal(signal.SIGHUP)
            assert screen.wait(0) == WaitResult()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_pipe_is_refused_as_a_terminal() -> None:
    """The signal handlers stay unchanged."""
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
def test_drawing_needs_a_capable_terminal_at_both_ends(
    monkeypatch: pytest.MonkeyPatch, ends: bool, term: str, can: bool
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: ends)
    assert can_draw({"TERM": term}) is can
