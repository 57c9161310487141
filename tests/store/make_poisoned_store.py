"""Makes `poisoned_store.db.xz`. Run it with a version that does not limit clocks: later ones cannot make such a
store.

A guest's event with the largest clock reached a shared session. What the owner recorded afterwards got that clock
too, also in a private session that the guest never saw, on both of the owner's devices: edits and pauses had no
effect.
"""

from __future__ import annotations

import lzma
import sys
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json, canonical_json
from holdfast.core.envelope import make_event
from holdfast.core.events import EventData, NoteAdded, ProjectFacts, SessionEdited, SessionPaused, SessionStarted
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore

LAPTOP, DESKTOP, GUEST = "5" * 20, "a" * 20, "f" * 20
SHARED, PRIVATE = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
START = 1_800_000_000_000
PROJECT = ProjectFacts(id="project-1", name="shop", path="/home/me/shop")


def make(path: Path) -> None:
    ticking, salts = count(START * 1000, 1000), count(1)
    store = SqliteStore(
        str(path), writer=lambda: LAPTOP, wall=lambda: next(ticking), salt=lambda: next(salts).to_bytes(16, "big")
    )

    def put(session: str, *drafts: EventData) -> None:
        with store.transaction() as transaction:
            for data in drafts:
                transaction.record(session, Draft(data, next(ticking) // 1000, "anna", None))

    for session, goal in ((SHARED, "Shared"), (PRIVATE, "Private")):
        put(session, SessionStarted(project=PROJECT, device="laptop", goal=goal))
        put(session, *(NoteAdded(text=f"note {number}") for number in range(40)))
    put(PRIVATE, SessionPaused())

    def receive(session: str, writer: str, seq: int, clock: int, prev: str | None, kind: str, data: Json) -> str:
        state = store.state(session)
        assert state is not None
        seen = tuple(head for head in state.heads.values() if head.writer != writer)
        event = make_event(
            session=session,
            writer=writer,
            seq=seq,
            prev=prev,
            clock=clock,
            at=START + 5_000 + seq,
            actor="ben",
            type=kind,
            version=1,
            data=canonical_json(data),
            salt=bytes(16),
            seen=seen,
        )
        with store.transaction() as transaction:
            transaction.receive([event])
        return event.hash

    joined = receive(SHARED, GUEST, 1, START * 1000 + 5_000_000, None, "device.joined", {"device": "guest"})
    receive(SHARED, GUEST, 2, MAX_SAFE_INTEGER, joined, "session.edited", {"goal": "Guest's goal"})
    put(SHARED, NoteAdded(text="after the guest"))
    put(SHARED, SessionEdited(goal="Shared, edited"))
    put(SHARED, SessionPaused(reason="lunch"))
    put(PRIVATE, NoteAdded(text="after the guest"))
    joined = receive(PRIVATE, DESKTOP, 1, MAX_SAFE_INTEGER, None, "device.joined", {"device": "desktop"})
    resumed = receive(PRIVATE, DESKTOP, 2, MAX_SAFE_INTEGER, joined, "session.resumed", {})
    receive(PRIVATE, DESKTOP, 3, MAX_SAFE_INTEGER, resumed, "session.edited", {"goal": "Private, from the desktop"})
    put(PRIVATE, SessionEdited(goal="Private, edited"))
    put(PRIVATE, SessionPaused(reason="lunch"))
    for session in (SHARED, PRIVATE):
        state = store.state(session)
        assert state is not None
        print(session, *([register.value for register in state.registers[name]] for name in ("goal", "status")))
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=DELETE; VACUUM")
    connection.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        make(Path(folder) / "store.db")
        Path(sys.argv[1]).write_bytes(lzma.compress((Path(folder) / "store.db").read_bytes(), preset=9))
