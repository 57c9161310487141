"""A hostile remote and a hostile device, for the adversary tests.

`Window` decides what one device sees of a shelf; `Insider` writes what no Holdfast program would, with the keys of an
enrolled device. Other attacks change the bytes on the shelf directly.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.envelope import Event, make_event
from holdfast.core.errors import Unreachable
from holdfast.sync.protocol import entries, heads, packs, sealing
from holdfast.sync.protocol.entries import MembershipEntry
from holdfast.sync.protocol.heads import IndexedPack
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.protocol.wraps import KeyWrap, wrap
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge
from holdfast.sync.sync_report import SyncReport
from holdfast.workspace.keys.device_keys import STREAM, DeviceKeys
from tests.support.vault_devices import Device, Shelf, join, settle


class Window:
    """A shelf as the remote chooses to show it to one device."""

    url = "memory:window"

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.hidden: Callable[[str], bool] = lambda _: False
        self.instead: dict[str, bytes] = {}
        self.listed: list[ObjectInfo] = []
        # An earlier state, shown instead of the current one; writes still go to the shelf.
        self.old: dict[str, bytes] | None = None

    @property
    def _objects(self) -> dict[str, bytes]:
        return self.shelf.objects if self.old is None else self.old

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        shown = [ObjectInfo(name, len(data)) for name, data in sorted(self._objects.items()) if not self.hidden(name)]
        return [item for item in [*shown, *self.listed] if item.name.startswith(prefix)]

    def get(self, name: str, limit: int) -> bytes:
        data = self.instead.get(name, self._objects.get(name))
        if data is None or self.hidden(name):
            raise Missing("there is no such object")
        if len(data) > limit:
            raise ObjectTooLarge("the object is too large")
        return data

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        return self.shelf.put(objects, remove=remove)

    def close(self) -> None:
        pass


class RecordingWindow(Window):
    """A window that records which objects were requested."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.asked: list[str] = []

    def get(self, name: str, limit: int) -> bytes:
        self.asked.append(name)
        return super().get(name, limit)


class EndlessWindow(Window):
    """Every object is endless: a read without a small limit would never return."""

    def get(self, name: str, limit: int) -> bytes:
        assert limit < 1 << 30
        raise ObjectTooLarge("the object is too large")


class Faulty:
    """A remote behind a bad network: `dice` decides which fault hits each call."""

    url = "memory:faulty"

    def __init__(self, shelf: Shelf, dice: Callable[[str], str]) -> None:
        self.shelf = shelf
        self.dice = dice
        self.before: dict[str, bytes] = {}

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        fault = self._roll("list")
        listed = self.shelf.list(prefix)
        if fault == "stale":
            return [
                ObjectInfo(name, len(data)) for name, data in sorted(self.before.items()) if name.startswith(prefix)
            ]
        return [item for number, item in enumerate(listed) if number % 2] if fault == "partial" else listed

    def get(self, name: str, limit: int) -> bytes:
        if self._roll("get") == "stale" and name not in self.before:
            raise Missing("there is no such object yet")
        return self.shelf.get(name, limit)

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        self.before = dict(self.shelf.objects)
        fault = self._roll("put")
        if fault == "half":
            self.shelf.put(objects[: len(objects) // 2])
            raise Unreachable("the connection was lost")
        done = self.shelf.put(objects, remove=remove)
        if fault == "applied":
            raise Unreachable("the server answered with an error", hint="It was done nevertheless.")
        return done

    def close(self) -> None:
        pass

    def _roll(self, call: str) -> str:
        fault = self.dice(call)
        if fault == "drop":
            raise Unreachable("the connection was lost")
        return fault


# ── a hostile enrolled device ────────────────────────────────────────────────────────────────────────────


class Insider:
    """An attacker who has the keys of an enrolled device."""

    def __init__(self, device: Device, shelf: Shelf) -> None:
        self.device = device
        self.shelf = shelf
        self.vault = device.vault()
        self.key = self.vault.sealing_key() or b""
        self.own = self.vault.memory.own(device.writer)
        self.counter = self.own.counter

    def sealed(self, kind: str, name: str, plain: bytes, *, key: bytes | None = None, level: int = 3) -> str:
        self.shelf.objects[name] = sealing.seal(key or self.key, kind, self.vault.id, name, plain, level=level)
        return name

    def pack(self, plain: bytes, *, level: int = 3) -> IndexedPack:
        """A pack with these bytes, as a head references it."""
        short = os.urandom(20).hex()
        name = self.sealed("pack", f"p/{self.vault.tag}/{short}", plain, level=level)
        data = self.shelf.objects[name]
        push = self.own.pushes + 1
        return IndexedPack(short, push, push, len(data), hashlib.sha256(data).digest())

    def head(
        self, *new: IndexedPack, writer: str | None = None, keys: DeviceKeys | None = None, **fields: Any
    ) -> str:
        """A head of this device with any content; replaces the previous one."""
        writer = writer or self.device.writer
        self.counter = fields.pop("counter", self.counter + 1)
        content: dict[str, Any] = {
            "v": 1, "vault": self.vault.id, "device": self.vault.me, "writer": writer, "counter": self.counter,
            "at": self.device.time, "packs": (*self.own.packs, *new), "seen": (),
            "tips": tuple(sorted(self.vault.membership.tips)), "wanting": (),
        } | fields  # fmt: skip
        payload = msgspec.msgpack.encode(content)
        signed = msgspec.msgpack.encode((payload, (keys or self.device.keys).sign(b"holdfast head 1\n", payload)))
        return self.sealed("head", heads.name_of(self.vault.id, writer, self.counter), signed)

    def entry(self, kind: type[MembershipEntry], *, keys: DeviceKeys | None = None, **fields: Any) -> str:
        """Publish a membership entry, authorized or not; return its hash."""
        content: dict[str, Any] = {
            "vault": self.vault.id, "parents": tuple(sorted(self.vault.membership.tips)), "by": self.vault.me,
            "at": self.device.time,
        } | fields  # fmt: skip
        signed = entries.sign(keys or self.device.keys, kind(**content))
        own = entries.hash_of(signed.payload)
        self.sealed("entry", f"m/{self.vault.tag}/{sealing.entry_name(self.vault.id, own)}", entries.pack(signed))
        return own

    def publish(self, stretches: Iterable[Stretch], **fields: Any) -> str:
        return self.head(self.pack(packs.pack(stretches)), **fields)

    def stretch(
        self, session: str, writer: str, words: Iterable[str], *, first: int = 1, prev: str | None = None,
        vault: str | None = None, **fields: Any,
    ) -> Stretch:  # fmt: skip
        """Notes in a stream, signed by this device."""
        made: list[Event] = []
        for seq, word in enumerate(words, first):
            made.append(
                make_event(
                    session=session, writer=writer, seq=seq, prev=made[-1].hash if made else prev,
                    clock=(self.device.time + seq) * 1000, at=self.device.time * 1000, actor="someone",
                    type="note.added", version=1, data=msgspec.json.encode({"text": word}), salt=os.urandom(16),
                    **fields,
                )
            )  # fmt: skip
        last = made[-1]
        words_ = packs.stream_message(vault or self.vault.id, session, writer, last.seq, last.hash)
        return Stretch(session, writer, self.vault.me, self.device.keys.sign(STREAM, words_), made)

    def plant_key(self, recipient: str, keys: list[bytes], *, box: str | None = None, name: str | None = None) -> str:
        founding = self.vault.founding()
        assert founding is not None
        blob = wrap(recipient, KeyWrap(vault=self.vault.id, founding=entries.pack(founding), keys=keys, box=box))
        where = name or f"k/{sealing.recipient_tag(recipient)}-{os.urandom(8).hex()}"
        self.shelf.objects[where] = blob
        return where


# ── three honest devices ─────────────────────────────────────────────────────────────────────────────────


class Three:
    """Anna (founder), Ben and Cleo; each sees the shelf through its own window."""

    def __init__(self, directory: str) -> None:
        self.shelf = Shelf()
        self.windows = {name: Window(self.shelf) for name in ("anna", "ben", "cleo")}
        self.anna, self.ben, self.cleo = (Device(directory, name, window) for name, window in self.windows.items())
        self.everybody = [self.anna, self.ben, self.cleo]
        self.anna.create_vault()
        join(self.anna, self.ben, self.cleo)
        self.written: list[str] = []
        self.anna.start("s1")
        for device in self.everybody:
            device.sync()
            self.note(device, f"by {device.name}")
        settle(self.everybody, 2)

    def note(self, device: Device, words: str) -> None:
        device.note("s1", words)
        self.written.append(words)

    def show_everything(self) -> None:
        """Make the remote behave again."""
        for window in self.windows.values():
            window.hidden, window.instead, window.listed, window.old = (lambda _: False), {}, [], None

    def head_of(self, device: Device) -> str:
        """Name of the device's newest head."""
        vault = device.vault()
        tag = f"h/{vault.tag}.{sealing.life_tag(vault.id, device.writer)}-"
        return max(name for name in self.shelf.objects if name.startswith(tag))

    def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.shelf.objects if name.startswith(prefix))

    def assert_sync_works(self) -> None:
        """New notes of every device reach all devices, and nothing is lost."""
        for device in self.everybody:
            self.note(device, f"later, by {device.name} {os.urandom(3).hex()}")
        settle(self.everybody, 2)
        self.assert_complete()

    def assert_complete(self) -> None:
        expected = sorted(self.written)
        for device in self.everybody:
            assert sorted(device.notes("s1")) == expected, device.name
            assert list(device.store.check()) == [], device.name

    def close(self) -> None:
        for device in self.everybody:
            device.close()


def reasons(report: SyncReport) -> str:
    return "\n".join(f"{refused.device}: {refused.reason}" for refused in report.rejected)


def rejection_reasons(device: Device) -> str:
    """The reasons that `doctor` would report."""
    return "\n".join(item.reason for item in device.vault().memory.rejections())


def assert_others_sync(three: Three) -> None:
    """Anna and Cleo sync normally."""
    for device in (three.anna, three.cleo):
        three.note(device, f"later, by {device.name}")
    settle([three.anna, three.cleo])
    for device in (three.anna, three.cleo):
        assert sorted(device.notes("s1")) == sorted(three.written), device.name
        assert list(device.store.check()) == [], device.name
