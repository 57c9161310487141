"""Models a disk that loses power: which states a recorded workload could leave behind at any moment.

The model is harsher than any one file system, and no harsher than what POSIX allows:

Data. Until a file is synced, each of its 512-byte sectors has, independently, any of the contents it had since the
last sync: writes are lost, kept, torn at sectors and reordered. Its length is any length it had since then; what lies
within it and was never written is zeros (a length that reached the disk before its data). A sector is written as a
whole or not at all. Truncation is atomic and ordered: nothing written later survives without it. After fsync or
fdatasync returned, content and length are as they were.

Names. Creating, renaming, linking and unlinking change a directory, and are durable once that directory was synced;
syncing the file does not make its name durable. Until then the directory is in any of the states it went through, in
order (ext4, XFS), or, harsher, each name is in any of the states it went through. A rename is atomic. Names and data
are independent: a name may survive whose file is empty, and the other way round. A lost directory loses its contents.

Memory. Files ending in -shm are shared memory, lost after a reboot; they are not part of any state. Not modelled:
decaying sectors, drives that lie about fsync, failing syncs (test_errno has those).
"""

from __future__ import annotations

import bisect
import os
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.faults.harness.recording import Op

SECTOR: Final = 512
PAGE: Final = 4096
Directory = dict[str, int]  # name -> number of a file or directory


class Content(NamedTuple):
    """One possible state of a file: its certain bytes, and the alternatives of each sector and of the length.

    A file that was truncated since the last sync has several of these: before and after each truncation.
    """

    certain: bytes
    sectors: dict[int, list[bytes]]
    lengths: list[int]
    writes: list[list[int]]  # for each change since the sync, the sectors it touched


class Change(NamedTuple):
    """One change of a directory: names and what they now refer to."""

    at: int
    names: dict[str, int | None]


class Disk:
    """The recorded history of a disk, and the states that a power cut could leave at any moment."""

    def __init__(self, ops: list[Op], root: str) -> None:
        self.ops = ops
        self.root = root
        self.length = len(ops)
        self._writes: dict[int, list[tuple[int, Op]]] = {}  # file -> its changes
        self._syncs: dict[int, list[int]] = {}  # file or directory -> when it was synced
        self._synced: dict[tuple[int, int], bytes] = {}  # (file, when) -> its content then
        self._changes: dict[int, list[Change]] = {}  # directory -> its changes
        self._folders: set[int] = set()
        self._files: set[int] = set()
        self._contents: dict[tuple[int, int, int], list[Content]] = {}
        self.acks: list[tuple[int, Mapping[str, Any]]] = []
        self._replay()
        self._times = {number: [at for at, _ in self._writes.get(number, [])] for number in self._files}

    # ── the history ─────────────────────────────────────────────────────────────────────────────────────

    def _replay(self) -> None:
        names = {self.root: 0, os.path.join(self.root, "project"): 1}
        content: dict[int, bytearray] = {}
        self._folders = {0, 1}
        for at, op in enumerate(self.ops):
            match op.kind:
                case "ack":
                    self.acks.append((at, op.promise))
                case "create" | "mkdir":
                    number = len(names) + at + 2  # new each time
                    names[op.path] = number
                    if op.kind == "mkdir":
                        self._folders.add(number)
                    else:
                        content[number] = bytearray()
                        self._files.add(number)
                    self._change(at, names, {op.path: number})
                case "unlink":
                    self._change(at, names, {op.path: None})
                    del names[op.path]
                case "link":
                    names[op.other] = names[op.path]
                    self._change(at, names, {op.other: names[op.path]})
                case "rename":
                    names[op.other] = names.pop(op.path)
                    self._change(at, names, {op.path: None, op.other: names[op.other]})
                case "write" | "size":
                    number = names[op.path]
                    _do(content[number], op)
                    self._writes.setdefault(number, []).append((at, op))
                case "sync":
                    number = names[op.path]
                    self._syncs.setdefault(number, []).append(at)
                    if number in content:
                        self._synced[number, at] = bytes(content[number])

    def _change(self, at: int, names: dict[str, int], paths: dict[str, int | None]) -> None:
        folders = {os.path.dirname(path) for path in paths}
        assert len(folders) == 1, "moving between directories is not modelled"
        change = Change(at, {os.path.basename(path): number for path, number in paths.items()})
        self._changes.setdefault(names[folders.pop()], []).append(change)

    # ── possible states ──────────────────────────────────────────────────────────────────────────────────

    def _last_sync(self, number: int, moment: int) -> int:
        times = self._syncs.get(number, [])
        index = bisect.bisect_left(times, moment)
        return times[index - 1] if index else -1

    def content(self, number: int, moment: int) -> list[Content]:
        """What a file may contain if the power fails just before operation `moment`."""
        begin = self._last_sync(number, moment)
        times = self._times[number]
        low, high = bisect.bisect_right(times, begin), bisect.bisect_left(times, moment)
        # Changes of other files do not matter: the cache key is this file's range of changes.
        contents = self._contents.get((number, low, high))
        if contents is None:
            if len(self._contents) > 2048:
                self._contents.clear()
            changes = [op for _, op in self._writes.get(number, [])[low:high]]
            contents = _contents(self._synced.get((number, begin), b""), changes)
            self._contents[number, low, high] = contents
        return contents

    def random_state(self, moment: int, rng: random.Random) -> dict[str, bytes | None]:
        """One possible state of the disk: path below the root -> content, or None for a directory."""
        state: dict[str, bytes | None] = {"project": None}
        self._fill(state, 0, "", moment, rng)
        return state

    def _fill(self, state: dict[str, bytes | None], folder: int, path: str, moment: int, rng: random.Random) -> None:
        for name, number in self._entries(folder, moment, rng).items():
            inner = os.path.join(path, name)
            if number in self._folders:
                state[inner] = None
                self._fill(state, number, inner, moment, rng)
            else:
                state[inner] = random_content(self.content(number, moment), rng)

    def _entries(self, folder: int, moment: int, rng: random.Random) -> Directory:
        begin = self._last_sync(folder, moment)
        entries: Directory = {}
        unsure: list[Change] = []
        for change in self._changes.get(folder, []):
            if change.at < begin:
                _apply(entries, change)
            elif change.at < moment:
                unsure.append(change)
        for change in _surviving(unsure, rng):
            _apply(entries, change)
        return entries

    def uncertain(self, moment: int) -> int:
        """How many changes are not synced at this moment."""
        files = 0
        for number, times in self._times.items():
            files += bisect.bisect_left(times, moment) - bisect.bisect_right(times, self._last_sync(number, moment))
        names = sum(
            sum(1 for change in changes if self._last_sync(folder, moment) < change.at < moment)
            for folder, changes in self._changes.items()
        )
        return files + names


def _apply(entries: Directory, change: Change) -> None:
    for name, number in change.names.items():
        if number is None:
            entries.pop(name, None)
        else:
            entries[name] = number


def _surviving(unsure: list[Change], rng: random.Random) -> list[Change]:
    how = rng.random()
    if how < 0.4 or not unsure:
        return unsure
    if how < 0.55:
        return []
    if how < 0.8:
        return unsure[: rng.randrange(len(unsure) + 1)]
    # Each name independently: a lost change also loses later changes of the same names.
    lost: set[str] = set()
    kept = []
    for change in unsure:
        if lost & change.names.keys() or rng.random() < 0.3:
            lost |= change.names.keys()
        else:
            kept.append(change)
    return kept


def _do(content: bytearray, op: Op) -> None:
    if op.kind == "size":
        del content[op.offset :]
        content.extend(bytes(op.offset - len(content)))
        return
    if len(content) < op.offset:
        content.extend(bytes(op.offset - len(content)))
    content[op.offset : op.offset + len(op.data)] = op.data


def _contents(certain: bytes, changes: list[Op]) -> list[Content]:
    working = bytearray(certain)
    contents = [Content(certain, {}, [len(certain)], [])]
    for op in changes:
        before = len(working)
        _do(working, op)
        if len(working) < before:
            contents.append(_cut_short(contents[-1], len(working)))
            continue
        low = min(before, op.offset) if op.kind == "size" else op.offset
        high = op.offset if op.kind == "size" else op.offset + len(op.data)
        touched = list(range(low // SECTOR, -(-high // SECTOR)))
        current = contents[-1]
        for sector in touched:
            data = bytes(working[sector * SECTOR : (sector + 1) * SECTOR])
            current.sectors.setdefault(sector, []).append(data + bytes(SECTOR - len(data)))
        current.lengths.append(len(working))
        current.writes.append(touched)
    return contents


def _cut_short(content: Content, length: int) -> Content:
    """The possibilities after truncation; a sector that is cut keeps its beginning."""
    sectors: dict[int, list[bytes]] = {}
    for sector, versions in content.sectors.items():
        rest = length - sector * SECTOR
        if rest > 0:
            sectors[sector] = [(data[:rest] + bytes(SECTOR))[:SECTOR] for data in versions]
    kept = [[sector for sector in touched if sector in sectors] for touched in content.writes]
    writes = [touched for touched in kept if touched]
    return Content(content.certain[:length], sectors, [length] * (len(writes) + 1), writes)


# ── one possible content of a file ───────────────────────────────────────────────────────────────────────


def random_content(contents: list[Content], rng: random.Random) -> bytes:
    content = contents[-1] if len(contents) == 1 or rng.random() < 0.6 else rng.choice(contents)
    if not content.writes:
        return content.certain
    how = rng.random()
    if how < 0.12:
        return _made(
            content, {sector: len(versions) for sector, versions in content.sectors.items()}, content.lengths[-1]
        )
    if how < 0.24:
        return content.certain
    if how < 0.45:
        return _cut(content, rng)
    picks = _picks(content, rng)
    return _made(content, picks, _length(content, rng))


def _cut(content: Content, rng: random.Random) -> bytes:
    """In order up to some write, of which only the first sectors arrived."""
    count = rng.randrange(len(content.writes) + 1)
    picks: dict[int, int] = {}
    for touched in content.writes[:count]:
        for sector in touched:
            picks[sector] = picks.get(sector, 0) + 1
    length = content.lengths[count]
    if count < len(content.writes) and rng.random() < 0.7:
        touched = content.writes[count]
        torn = touched[: rng.randrange(len(touched) + 1)]
        for sector in torn:
            picks[sector] = picks.get(sector, 0) + 1
        length = rng.choice((length, content.lengths[count + 1]))
    return _made(content, picks, length)


def _picks(content: Content, rng: random.Random) -> dict[int, int]:
    """Which version each sector has: 0 is the certain one, n the one after the nth write."""
    how = rng.choice(("pages", "sectors", "one lost", "one kept"))
    if how == "pages":
        rate = rng.random()
        pages: dict[int, float] = {}
        for sector in content.sectors:
            pages.setdefault(sector * SECTOR // PAGE, rng.random())
        return {
            sector: (len(versions) if pages[sector * SECTOR // PAGE] < rate else 0)
            for sector, versions in content.sectors.items()
        }
    if how == "sectors":
        return {sector: rng.randrange(len(versions) + 1) for sector, versions in content.sectors.items()}
    touched = set(rng.choice(content.writes))
    if how == "one lost":
        return {sector: 0 if sector in touched else len(versions) for sector, versions in content.sectors.items()}
    return {sector: len(versions) if sector in touched else 0 for sector, versions in content.sectors.items()}


def _length(content: Content, rng: random.Random) -> int:
    if rng.random() < 0.5:
        return content.lengths[-1]
    return rng.choice(content.lengths)


def _made(content: Content, picks: dict[int, int], length: int) -> bytes:
    made = bytearray(content.certain)
    for sector, pick in picks.items():
        if pick:
            start = sector * SECTOR
            if len(made) < start:
                made.extend(bytes(start - len(made)))
            made[start : start + SECTOR] = content.sectors[sector][pick - 1]
    del made[length:]
    made.extend(bytes(length - len(made)))
    return bytes(made)


# ── sampling ────────────────────────────────────────────────────────────────────────────────────────────


class State(NamedTuple):
    moment: int
    files: dict[str, bytes | None]


def states(disk: Disk, count: int, seed: int) -> Iterator[State]:
    """Up to `count` different states, from every moment of the workload."""
    rng = random.Random(seed)
    moments = range(disk.length + 1)
    weights = [1 + disk.uncertain(moment) for moment in moments]
    seen: set[int] = set()
    tries = 0
    for moment in moments:  # each at least once, if `count` allows
        if len(seen) >= count:
            break
        if rng.random() < count / disk.length:
            yield from _new(disk, moment, rng, seen)
    while len(seen) < count and tries < 20 * count:
        for moment in rng.choices(moments, weights, k=256):
            tries += 1
            if len(seen) < count:
                yield from _new(disk, moment, rng, seen)


def _new(disk: Disk, moment: int, rng: random.Random, seen: set[int]) -> Iterator[State]:
    files = disk.random_state(moment, rng)
    # Acknowledgements are part of a state: the same bytes before and after one are two cases.
    key = hash((sum(1 for at, _ in disk.acks if at < moment), tuple(sorted(files.items(), key=_name))))
    if key not in seen:
        seen.add(key)
        yield State(moment, files)


def _name(entry: tuple[str, bytes | None]) -> str:
    return entry[0]
