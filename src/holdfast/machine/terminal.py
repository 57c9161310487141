"""Draw on the terminal: read keys as they are pressed, know its size, and restore everything afterwards.

No other module changes the mode of the terminal. However the drawing ends (by the person, an error, a signal,
Ctrl-Z), mode, cursor and screen are restored. A signal that arrives is only queued, so that it interrupts nothing
half done; `wait` reports it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol, Self

from holdfast.core.errors import Failed
from holdfast.machine.wall import monotonic

if sys.platform == "win32":
    import ctypes
    import msvcrt
else:
    import select
    import termios

# Another screen, no cursor, pasted text marked as such; a line that is too long is cut and does not wrap.
_ENTERING: Final = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?7l\x1b[0m\x1b[2J\x1b[H"
_LEAVING: Final = "\x1b[0m\x1b[?7h\x1b[?2004l\x1b[?25h\x1b[?1049l"
_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
_POLL_SECONDS: Final = 0.05  # seconds between two polls where waiting is impossible
_UNKNOWN: Final = os.terminal_size((80, 24))

_Handler = Callable[[int, FrameType | None], object] | int | None


class WaitResult(NamedTuple):
    """What a wait ended with; nothing of it when the time was over."""

    typed: bytes = b""
    # The screen is not what was drawn last: it was resized, or we come back from somewhere else.
    redraw: bool = False
    # The signal that wants us to end.
    stop: int | None = None


class Terminal(Protocol):
    """Drawn on while the block lasts."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def size(self) -> os.terminal_size: ...

    def write(self, text: str) -> None: ...

    def wait(self, seconds: float | None) -> WaitResult:
        """Until something is typed, `wake` is called, a signal comes, or the time is over."""

    def wake(self) -> None:
        """End the wait, from any thread. Harmless at any time."""


def can_draw(environ: Mapping[str, str]) -> bool:
    """Whether input and output are a terminal that can do more than print lines."""
    try:
        on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    except ValueError:  # closed
        return False
    if sys.platform == "win32":
        return on_terminal and _console_mode(_OUTPUT) is not None
    return on_terminal and environ.get("TERM", "") not in ("", "dumb", "unknown")


def own_terminal() -> Terminal:
    """The terminal this program was started in."""
    sys.stdout.flush()
    if sys.platform == "win32":
        return _Windows()
    else:  # noqa: RET505 (so that the type checker sees one of the two)
        return _Posix(sys.stdin.fileno(), sys.stdout.fileno())


def _stops() -> list[int]:
    """The signals that mean the end. What is ignored (nohup) stays ignored."""
    known = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    return [number for number in known if signal.getsignal(number) not in (None, signal.SIG_IGN)]


if sys.platform != "win32":

    class _Posix:
        def __init__(self, source: int, target: int) -> None:
            self._in, self._out = source, target
            self._lock = threading.Lock()
            self._pipe: tuple[int, int] | None = None
            self._pipe_before = -1
            self._handlers: dict[int, _Handler] = {}
            self._stops: list[int] = []
            self._before: list[Any] | None = None
            self._drawing = False

        def __enter__(self) -> Self:
            try:
                self._listen()
                stop = self._begin()
                if stop is not None:
                    self._queue_signal(stop)
            except (OSError, termios.error) as error:
                self.__exit__()
                raise Failed(
                    f"the terminal cannot be drawn on: {error.args[-1]}", hint="holdfast status shows the same, once."
                ) from None
            except BaseException:
                self.__exit__()
                raise
            return self

        def __exit__(self, *_: object) -> None:
            self._end()
            for number, before in self._handlers.items():
                signal.signal(number, before)
            self._handlers.clear()
            with self._lock:
                pipe, self._pipe = self._pipe, None
            if pipe is not None:
                signal.set_wakeup_fd(self._pipe_before)
                os.close(pipe[0])
                os.close(pipe[1])

        def size(self) -> os.terminal_size:
            try:
                size = os.get_terminal_size(self._out)
            except OSError:
                return _UNKNOWN
            return size if size.columns > 0 and size.lines > 0 else _UNKNOWN

        def write(self, text: str) -> None:
            remaining = memoryview(text.encode("utf-8", "backslashreplace"))
            while remaining:
                try:
                    remaining = remaining[os.write(self._out, remaining) :]
                except BlockingIOError:  # another process made it non-blocking
                    select.select([], [self._out], [], 1)

        def wake(self) -> None:
            with self._lock:
                if self._pipe is not None:
                    with contextlib.suppress(BlockingIOError):  # a full pipe wakes it as well
                        os.write(self._pipe[1], b"\0")

        def wait(self, seconds: float | None) -> WaitResult:
            assert self._pipe is not None
            ready, _, _ = select.select([self._in, self._pipe[0]], [], [], seconds)
            redraw, stop = False, None
            if self._pipe[0] in ready:
                redraw, stop = self._handle(self._read_signals())
            if self._in not in ready or stop is not None:
                return WaitResult(redraw=redraw, stop=stop)
            try:
                typed = os.read(self._in, 65_536)
            except BlockingIOError:
                return WaitResult(redraw=redraw)
            except OSError:
                typed = b""
            # Readable without data: the terminal was closed.
            return WaitResult(typed, redraw, None if typed else int(signal.SIGHUP))

        def _listen(self) -> None:
            """Have Python write the number of each signal into the pipe; the handlers themselves do nothing."""
            if threading.current_thread() is not threading.main_thread():
                raise Failed("only the main thread can draw on a terminal")
            self._pipe = os.pipe()
            for end in self._pipe:
                os.set_blocking(end, False)
            self._pipe_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            self._stops = _stops()
            for number in (*self._stops, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, _ignore)

        def _queue_signal(self, number: int) -> None:
            assert self._pipe is not None
            os.write(self._pipe[1], bytes([number]))

        def _read_signals(self) -> bytes:
            assert self._pipe is not None
            try:
                return os.read(self._pipe[0], 65_536)
            except BlockingIOError:
                return b""

        def _handle(self, received: bytes) -> tuple[bool, int | None]:
            """Whether the signals ask to redraw the screen, and whether to end."""
            stop = next((number for number in received if number in self._stops), None)
            if stop is not None:
                return False, stop
            if signal.SIGTSTP in received:
                return True, self._suspend()
            if signal.SIGCONT in received:  # stopped by a signal that cannot be handled; the shell took the terminal
                return True, self._begin()
            return signal.SIGWINCH in received, None

        def _suspend(self) -> int | None:
            """Stop like any program, and continue when the person brings it back."""
            self._end()
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTSTP)  # stopped here until the person types `fg`
            signal.signal(signal.SIGTSTP, handler)
            stop = next((number for number in self._read_signals() if number in self._stops), None)
            if stop is not None:
                return stop
            self._before = None  # read it again: the person may have changed it meanwhile
            return self._begin()

        def _begin(self) -> int | None:
            """Take the terminal; returns the stop signal if one came instead."""
            while not self._is_foreground():
                signal.raise_signal(
                    signal.SIGTTOU
                )  # in the background: stop until the shell brings us to the foreground
                stop = next((number for number in self._read_signals() if number in self._stops), None)
                if stop is not None:
                    return stop
                time.sleep(_POLL_SECONDS)
            if self._before is None:
                self._before = termios.tcgetattr(self._in)
            mode = [*self._before]
            mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.ISTRIP)
            # ISIG stays set: the system still handles Ctrl-C and Ctrl-Z.
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            mode[6] = [*mode[6]]
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            self._drawing = True
            termios.tcsetattr(self._in, termios.TCSADRAIN, mode)
            self.write(_ENTERING)
            return None

        def _end(self) -> None:
            """Restore the terminal, unless this process is in the background or the terminal was closed."""
            drawing, self._drawing = self._drawing, False
            if not drawing or self._before is None or not self._is_foreground():
                return
            with contextlib.suppress(OSError):
                self.write(_LEAVING)
            with contextlib.suppress(termios.error):
                # Discard pending input: it was typed for this program, not for the shell.
                termios.tcsetattr(self._in, termios.TCSAFLUSH, self._before)

        def _is_foreground(self) -> bool:
            try:
                return os.tcgetpgrp(self._in) == os.getpgrp()
            except OSError:  # no job control here
                return True


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal is in the pipe."""


if sys.platform == "win32":
    _INPUT: Final = -10
    _OUTPUT: Final = -11
    _LINES_AND_ECHO: Final = 0x0002 | 0x0004
    _SEQUENCES_IN: Final = 0x0200
    _SEQUENCES_OUT: Final = 0x0004

    def _console_mode(handle: int) -> int | None:
        mode = ctypes.c_ulong()
        kernel = ctypes.windll.kernel32
        return mode.value if kernel.GetConsoleMode(kernel.GetStdHandle(handle), ctypes.byref(mode)) else None

    def _set_console_mode(handle: int, mode: int) -> bool:
        kernel = ctypes.windll.kernel32
        return bool(kernel.SetConsoleMode(kernel.GetStdHandle(handle), mode))

    class _Windows:
        """The console of Windows 10 and later, which understands the same sequences when it is asked to."""

        def __init__(self) -> None:
            self._woken = threading.Event()
            self._stop: int | None = None
            self._handlers: dict[int, _Handler] = {}
            self._modes: dict[int, int] = {}
            self._seen = _UNKNOWN

        def __enter__(self) -> Self:
            modes = {handle: _console_mode(handle) for handle in (_INPUT, _OUTPUT)}
            source, target = modes[_INPUT], modes[_OUTPUT]
            if source is None or target is None:
                raise Failed("this console cannot be drawn on", hint="holdfast status shows the same, once.")
            self._modes = {_INPUT: source, _OUTPUT: target}
            for number in _stops():
                self._handlers[number] = signal.signal(number, self._on_signal)
            able = _set_console_mode(_OUTPUT, target | _SEQUENCES_OUT)
            if not able or not _set_console_mode(_INPUT, source & ~_LINES_AND_ECHO | _SEQUENCES_IN):
                self.__exit__()
                raise Failed("this console cannot be drawn on", hint="holdfast status shows the same, once.")
            self.write(_ENTERING)
            self._seen = self.size()
            return self

        def __exit__(self, *_: object) -> None:
            with contextlib.suppress(OSError):
                self.write(_LEAVING)
            for handle, mode in self._modes.items():
                _set_console_mode(handle, mode)
            for number, before in self._handlers.items():
                signal.signal(number, before)

        def _on_signal(self, number: int, _frame: FrameType | None) -> None:
            self._stop = number
            self._woken.set()

        def size(self) -> os.terminal_size:
            try:
                return os.get_terminal_size(sys.stdout.fileno())
            except (OSError, ValueError):
                return _UNKNOWN

        def write(self, text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()

        def wake(self) -> None:
            self._woken.set()

        def wait(self, seconds: float | None) -> WaitResult:
            until = None if seconds is None else monotonic() + seconds
            while True:
                units = b""
                while msvcrt.kbhit():
                    units += msvcrt.getwch().encode("utf-16-le", "surrogatepass")
                redraw = self.size() != self._seen
                self._seen = self.size()
                woken = self._woken.is_set()
                self._woken.clear()
                over = until is not None and monotonic() >= until
                if units or redraw or woken or over or self._stop is not None:
                    return WaitResult(units.decode("utf-16-le", "replace").encode(), redraw, self._stop)
                self._woken.wait(_POLL_SECONDS)
