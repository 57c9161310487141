"""A proxy between a client and a PostgreSQL server that fails like a network: at any moment, or at a chosen one.

`with FailingProxy(server) as line:` and `line.url(...)` instead of `server.url(...)`. Data passes unchanged until the
proxy is told to fail. Directions are the client's: `SENT` goes to the server, `ANSWERED` comes from it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from tests.support.postgres.server import ROLE, Server

SENT: Final = "sent"
ANSWERED: Final = "answered"
Predicate = Callable[[str, bytes], bool]
_PORT: Final = 5432
_MUCH: Final = 1 << 16


def committing(direction: str, data: bytes) -> bool:
    """For `cut_when`: the client sends a commit."""
    return direction == SENT and b"COMMIT" in data.upper()


class _Trigger(NamedTuple):
    """What is waited for, and what happens then."""

    predicate: Predicate
    after: bool
    once: bool
    freezes: bool


class _Pair:
    """One connection: the client's socket, and ours to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.mute = False  # nothing is forwarded to the client any more
        self.running = 2

    def close(self) -> None:
        """Close both sockets; each reader notices and ends."""
        self.mute = True
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Close the client's side; the server may still read what it was sent, and its answer is dropped."""
        with contextlib.suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_WR)


class FailingProxy:
    """Listens where a server would: on a socket, or with `tcp` on 127.0.0.1."""

    def __init__(self, server: Server, *, tcp: bool = False) -> None:
        self._server = server
        self._tcp = tcp
        self._folder = tempfile.mkdtemp(prefix="holdfast-cut-")
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._threads: set[threading.Thread] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = self._closing = False
        self._trigger: _Trigger | None = None
        self.triggered = threading.Event()  # set once the trigger has fired
        self._listener = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        self._listener.bind(("127.0.0.1", 0) if tcp else os.path.join(self._folder, f".s.PGSQL.{_PORT}"))
        self._listener.listen(64)
        self._where = self._listener.getsockname()
        self._spawn(self._admit)

    # -- used by tests ---

    def url(self, database: str = ROLE, user: str = ROLE, *, password: str | None = None) -> str:
        who = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        if self._tcp:
            return f"postgresql://{who}@127.0.0.1:{self._where[1]}/{quote(database, safe='')}"
        return f"postgresql://{who}@/{quote(database, safe='')}?host={quote(self._folder)}"

    @property
    def connections(self) -> int:
        with self._lock:
            return sum(not pair.mute for pair in self._pairs)

    def cut(self) -> None:
        """Close all connections; new ones are let through."""
        with self._lock:
            for pair in self._pairs:
                pair.close()

    def refuse(self) -> None:
        """Close all connections, and every new one immediately."""
        with self._lock:
            self._refusing = True
        self.cut()

    def accept(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._refusing = False

    def cut_when(self, predicate: Predicate, *, after: bool = True, once: bool = True) -> None:
        """Cut a connection when the predicate, given a direction and data, returns true; then `triggered` is set.

        After: the data still arrives, and nothing is answered. Otherwise it does not arrive. Once: only the first
        time. Data may come in pieces, and several messages in one. Another predicate replaces this one.
        """
        self._set(_Trigger(predicate, after, once, freezes=False))

    def freeze_when(self, predicate: Predicate, *, after: bool = True) -> None:
        """Freeze everything instead, once. Not after: the data arrives after `thaw`."""
        self._set(_Trigger(predicate, after, once=True, freezes=True))

    def clear_trigger(self) -> None:
        """Remove the predicate."""
        self._set(None)

    def freeze(self) -> None:
        """Keep all connections, and forward nothing, as when a cable is pulled. New ones are accepted, and wait."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Forward again, including what was sent meanwhile."""
        self._flowing.set()

    def close(self) -> None:
        """Close both sockets; each reader notices and ends."""
        self._closing = True
        self.cut()
        self.thaw()
        with contextlib.suppress(OSError), socket.socket(self._listener.family) as last:
            last.connect(self._where)  # to wake up `accept`
        for thread in list(self._threads):
            thread.join(30)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- run in its threads ---

    def _set(self, trigger: _Trigger | None) -> None:
        with self._lock:
            self.triggered.clear()
            self._trigger = trigger

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="cutter", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _admit(self) -> None:
        while True:
            client, _ = self._listener.accept()
            self._flowing.wait()
            with self._lock:
                refused = self._refusing or self._closing
            server = None if refused else self._connect_to_server()
            if server is not None:
                self._join(_Pair(client, server))
            else:
                client.close()
            if self._closing:
                return

    def _connect_to_server(self) -> socket.socket | None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server.socket)
        except OSError:
            server.close()
            return None
        return server

    def _join(self, pair: _Pair) -> None:
        with self._lock:
            self._pairs.add(pair)
            if self._refusing or self._closing:
                pair.close()
        self._spawn(lambda: self._forward(pair, SENT, pair.client, pair.server))
        self._spawn(lambda: self._forward(pair, ANSWERED, pair.server, pair.client))

    def _forward(self, pair: _Pair, direction: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_MUCH):
                self._pass(pair, direction, data, target)
        with contextlib.suppress(OSError):  # also after a reset: close the other side too
            if not pair.mute:
                target.shutdown(socket.SHUT_WR)
        with self._lock:
            pair.running -= 1
            if pair.running:
                return
            self._pairs.discard(pair)
        pair.client.close()
        pair.server.close()

    def _pass(self, pair: _Pair, direction: str, data: bytes, target: socket.socket) -> None:
        self._flowing.wait()
        with self._lock:
            trigger = (
                self._trigger
                if not pair.mute and self._trigger and self._trigger.predicate(direction, data)
                else None
            )
            if trigger is not None and trigger.once:
                self._trigger = None
            if trigger is not None and trigger.freezes:
                self._flowing.clear()
            elif trigger is not None:
                pair.mute = True
        if trigger is None:
            if direction == SENT or not pair.mute:
                target.sendall(data)
            return
        if trigger.freezes:
            if trigger.after:
                target.sendall(data)
            self.triggered.set()
            if not trigger.after:
                self._flowing.wait()
                target.sendall(data)
            return
        if trigger.after and direction == SENT:
            target.sendall(data)
            pair.hang_up()
        elif trigger.after:
            target.sendall(data)
            pair.close()
        else:
            pair.close()
        self.triggered.set()
