"""Signals that ask us to end, noted while we wait and while a command that we run handles them."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
_SLICE: Final = 0.1  # seconds: how soon a signal ends a wait


class SignalReceived(Exception):
    """Somebody wants us to end; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopSignals:
    """Notes every signal to stop, instead of ending at once.

    Python writes the number of a signal into a pipe before any handler runs, so we hear of those too that
    `run_command` passes on to its command. Only the main thread can listen; elsewhere nothing is heard.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self._sleep = sleep
        self._pipe: tuple[int, int] | None = None
        self._pipe_before = -1
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._number: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        if os.name == "posix":
            os.set_blocking(self._pipe[1], False)
        self._pipe_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for name in _STOPS:
            number = getattr(signal, name, None)
            # What is ignored (nohup, `&` in a script) stays ignored.
            if number is not None and signal.getsignal(number) not in (None, signal.SIG_IGN):
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._pipe is not None:
            signal.set_wakeup_fd(self._pipe_before)
            os.close(self._pipe[0])
            os.close(self._pipe[1])

    def received(self) -> int | None:
        """The first signal to stop that came, if one did."""
        if self._pipe is not None and self._number is None:
            os.write(self._pipe[1], b"\0")  # so that reading never blocks
            self._number = next((number for number in os.read(self._pipe[0], 4096) if number in self._before), None)
        return self._number

    def wait(self, seconds: float) -> None:
        """Sleep; a signal ends it with `Stopped`."""
        if self._sleep is not None and seconds > 0:
            self._sleep(seconds)
            seconds = 0
        until = monotonic() + seconds
        while True:
            number = self.received()
            if number is not None:
                raise SignalReceived(number)
            left = until - monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLICE))


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
