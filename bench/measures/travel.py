"""Measures sync: a first push against `zstd` and `age` on the same bytes; one new event in a large vault against an
empty one; ten devices at a real S3 server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import msgspec

from holdfast import Keeper
from holdfast.core.envelope import StreamHead, event_document
from holdfast.core.events import DecisionMade, EventData, MessageExchanged, NoteAdded, ProjectFacts, SessionStarted
from holdfast.sessions.start import new_id
from holdfast.store.interface import Draft
from holdfast.sync import devices, open_vault, remote_setup
from holdfast.sync.remotes import index
from holdfast.sync.remotes.base import ObjectInfo, RemoteStore
from holdfast.sync.sync import sync
from measures.append import text
from measures.figures import Figure, median

PUSHED = int(os.environ.get("HOLDFAST_BENCH_PUSHED", "100000"))
EVENTS = int(os.environ.get("HOLDFAST_BENCH_TRAVEL", "1000000"))
DEVICES = 10
SESSIONS = 1_000
ROUNDS = 15


def measure(scratch: Path) -> list[Figure]:
    return [*_first_push(scratch / "first"), *_one_event(scratch), *_many_devices(scratch / "meeting")]


# ── the first push ───────────────────────────────────────────────────────────────────────────────────────


def _first_push(scratch: Path) -> list[Figure]:
    scratch.mkdir()
    programs = [shutil.which(name) for name in ("zstd", "age")]
    if None in programs:
        return [Figure("travel: first push against zstd and age", 0.0, "", "zstd or age is not installed here")]
    home, remote = scratch / "home", scratch / "remote"
    with _device(scratch, "home") as keeper:
        for number in range(PUSHED // 1000):
            _session(keeper, number, 1000)
        lines = scratch / "events.jsonl"
        with lines.open("wb") as file:
            for session in keeper.store().sessions():
                for event in keeper.store().events(session):
                    file.write(msgspec.json.encode(event_document(event)) + b"\n")
        recipient = devices.public_keys(keeper).age
        remote_setup.add(keeper, "remote", f"folder:{remote}")
    holdfast = str(Path(sys.executable).parent / "holdfast")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["HOLDFAST_HOME"] = str(home)
    peer_seconds: list[float] = []
    sizes: list[float] = []
    for number in range(3):
        sealed = scratch / f"sealed-{number}.age"
        begin = time.perf_counter()
        with sealed.open("wb") as out:
            packing = subprocess.Popen(["zstd", "-q", "-c", str(lines)], stdout=subprocess.PIPE)
            subprocess.run(["age", "-r", recipient], stdin=packing.stdout, stdout=out, check=True)
            packing.wait()
        peer_seconds.append(time.perf_counter() - begin)
        sizes.append(sealed.stat().st_size)
    begin = time.perf_counter()
    subprocess.run([holdfast, "sync", "--quiet"], env=environment, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    ours = time.perf_counter() - begin
    stored = sum(path.stat().st_size for path in remote.rglob("*") if path.is_file())
    size = f"{PUSHED:,} events, {lines.stat().st_size / 1e6:.0f} MB"
    detail = f"{size}: {ours:.2f} s, zstd and age {median(peer_seconds):.2f} s"
    stored_detail = f"{stored / 1e6:.1f} MB, theirs {median(sizes) / 1e6:.1f} MB"
    return [
        Figure("travel: first push against zstd and age", ours / median(peer_seconds), "≤ 3", detail),
        Figure("travel: bytes stored against zstd and age", stored / median(sizes), "≤ 1.5", stored_detail),
    ]


# ── one more event ───────────────────────────────────────────────────────────────────────────────────────


def _one_event(scratch: Path) -> list[Figure]:
    small, idle_small, _ = _sync_times(scratch / "travel-empty", 0)
    large, idle_large, requests = _sync_times(scratch / "travel-large", EVENTS)
    many = f"{EVENTS:,} events of {DEVICES} devices"
    detail = f"{large * 1e3:.1f} ms among {many}, {small * 1e3:.1f} ms in an empty vault"
    return [
        Figure("travel: one new event in a large vault", large / small, "≤ 1.5", detail),
        Figure("travel: nothing new, requests to the remote", len(requests), "= 1", ", ".join(requests)),
        Figure("travel: nothing new in a large vault", idle_large / idle_small, "", f"{idle_large * 1e3:.1f} ms"),
    ]


def _sync_times(folder: Path, events: int) -> tuple[float, float, list[str]]:
    """Seconds of a sync with one new event, and of one with none, in a vault with so many; what the latter asks."""
    folder.mkdir()
    with _devices(folder, f"folder:{folder / 'remote'}", DEVICES) as fleet:
        for number, keeper in enumerate(fleet):
            for index in range(SESSIONS // DEVICES if events else 0):
                _session(keeper, number * 10_000 + index, events // SESSIONS)
            sync(keeper)
        first = fleet[0]
        sync(first)
        session = first.start("One more thing")
        sync(first)
        times, idle = [], []
        for number in range(ROUNDS):
            session.note(text(number))
            times.append(_timed(lambda: sync(first)))
            idle.append(_timed(lambda: sync(first)))
        return median(times), median(idle), _requests(first)


def _requests(keeper: Keeper) -> list[str]:
    """What a sync with nothing to do asks of its remote."""
    requests: list[str] = []
    open_remote = index.open_remote
    with patch.object(
        open_vault, "open_remote", lambda *words, **more: CountingRemote(open_remote(*words, **more), requests)
    ):
        sync(keeper)
    return requests


class CountingRemote:
    """A remote that writes down what is asked of it."""

    def __init__(self, remote: RemoteStore, asked: list[str]) -> None:
        self.url = remote.url
        self.bytes = 0
        self._remote = remote
        self._requests = asked

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        self._requests.append(f"list {prefix}")
        return self._remote.list(prefix)

    def get(self, name: str, limit: int) -> bytes:
        self._requests.append(f"get {name}")
        return self._remote.get(name, limit)

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        self._requests += [f"put {name}" for name, _ in objects] + [f"remove {name}" for name in remove]
        return self._remote.put(objects, remove=remove)

    def close(self) -> None:
        self._remote.close()


# ── many devices at a server ─────────────────────────────────────────────────────────────────────────────


def _many_devices(scratch: Path) -> list[Figure]:
    scratch.mkdir()
    if not (Path(sys.executable).parent / "weed").exists() and shutil.which("weed") is None:
        return [Figure("travel: ten devices at an S3 server (seconds)", 0.0, "", "SeaweedFS is not installed here")]
    # The tests' own way to start it: on loopback, ended with this process.
    sys.path.insert(0, str(Path(__file__).parents[2]))
    server = import_module("tests.sync.seaweed").seaweed()
    os.environ.update(server.environ)
    with _devices(scratch, server.url("bench"), DEVICES) as fleet:
        for number, keeper in enumerate(fleet):
            for session in range(100):
                _session(keeper, number * 10_000 + session, 20)
        begin = time.perf_counter()
        for _ in range(2):
            for keeper in fleet:
                sync(keeper)
        seconds = time.perf_counter() - begin
        states = {_stream_heads(keeper) for keeper in fleet}
    detail = f"{DEVICES} devices with 100 sessions each, {2 * DEVICES} syncs"
    return [
        Figure("travel: ten devices at an S3 server (seconds)", seconds, "", detail),
        Figure("travel: different states among them", len(states), "= 1"),
    ]


def _stream_heads(keeper: Keeper) -> frozenset[StreamHead]:
    """The heads of every stream this device has."""
    states = (keeper.store().state(session) for session in keeper.store().sessions())
    return frozenset(head for state in states if state is not None for head in state.heads.values())


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _device(scratch: Path, name: str) -> Iterator[Keeper]:
    project = scratch / f"{name}-project"
    project.mkdir(parents=True)
    with Keeper.open(str(project), home=str(scratch / name), device=name) as keeper:
        keeper.environ = dict(os.environ)
        yield keeper


@contextmanager
def _devices(scratch: Path, url: str, count: int) -> Iterator[list[Keeper]]:
    """Devices of one vault."""
    with ExitStack() as stack:
        fleet = [stack.enter_context(_device(scratch, f"device-{number}")) for number in range(count)]
        for keeper in fleet:
            # By hand alone: a sync of its own in between would be measured too.
            keeper.settings._values["sync.background"] = False  # noqa: SLF001
            remote_setup.add(keeper, "remote", url)
            if keeper is not fleet[0]:
                devices.approve(fleet[0], devices.public_keys(keeper).words)
            sync(keeper)
        yield fleet


def _session(keeper: Keeper, number: int, events: int) -> None:
    session = new_id()
    begin = keeper.now() - 10**9 + number * 1000
    project = ProjectFacts(id="bench", name="bench")
    with keeper.transaction() as transaction:
        for step in range(events):
            data: EventData = MessageExchanged()
            if step == 0:
                data = SessionStarted(goal=text(number), project=project, device=keeper.device())
            elif step % 7 == 0:
                data = NoteAdded(text=text(number * 31 + step))
            elif step % 31 == 0:
                data = DecisionMade(chosen=text(number + step))
            transaction.record(session, Draft(data, begin + step * 500, "bench"))


def _timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
