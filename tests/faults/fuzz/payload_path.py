"""The way of a payload from an agent: read, understood in every dialect, made events of a session, answered.

Whatever the bytes are, nothing may come out of it but events that fold without a clash.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.ingest.events import IngestContext, events_of
from holdfast.conversations.ingest.payload import decoded
from holdfast.conversations.ingest.routing import is_work
from holdfast.conversations.ingest.subagents import Timed
from holdfast.core import view
from holdfast.core.envelope import Event
from holdfast.core.events import TYPE_OF, EventData, ProjectFacts, SessionStarted
from holdfast.core.fold import apply
from holdfast.core.state import State
from holdfast.machine.git.worktree import WorkTree
from holdfast.workspace.recorder import _prepared

_PAYLOADS = Path(__file__).parent.parent.parent / "conversations" / "payloads"
_NOW = 1_794_000_000_000
# Nowhere: what a payload says of files is looked up, and not found.
_PLACE = WorkTree(root="/nowhere/at/all", main="/nowhere/at/all", git=False, git_dir=None, common_dir=None)
_ANSWER = HookAnswer(context="recorded facts", say="a sentence", notify=True, block=None)


def hear(raw: bytes) -> None:
    payload = decoded(raw)
    if payload is None:
        return
    for name in index.NAMES:
        agent = index.load_adapter(name)
        heard = agent.parse(payload)
        if heard is None:
            continue
        assert heard.conversation
        is_work(heard)
        agent.reply(_ANSWER, heard.event)
        _told(heard)
    heard = index.load_status_parser("claude")(payload)
    if heard is not None:
        _told(heard)


def seeds() -> list[bytes]:
    """Every payload that the conformance suite knows."""
    found = []
    for path in sorted(_PAYLOADS.rglob("*.json")):
        sample = json.loads(path.read_bytes())
        found.append(json.dumps(sample.get("payload", sample)).encode())
    return found


def _told(heard: HookEvent) -> None:
    state = State(session="s")
    _fold(state, SessionStarted(goal="g", project=ProjectFacts(id="p", name="p"), device="d"))
    # Twice: heard again, it meets what it did the first time.
    for _ in range(2):
        for data in events_of(state, heard, _NOW, IngestContext(_PLACE, None)):
            _fold(state, data.data if isinstance(data, Timed) else data)
    assert (state.clashes, state.not_applied) == ([], 0)
    view.session(state, now=_NOW)


def _fold(state: State, data: EventData) -> None:
    """As the recorder does it: what cannot be stored is an error."""
    ready = _prepared(data)
    kind = TYPE_OF[type(ready)]
    seq = state.count + 1
    event = Event(
        v=kind.version, session="s", writer="0" * 32, seq=seq, clock=seq, at=_NOW, seen=(), key=None, actor="",
        type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=msgspec.json.encode(ready), salt=b"",
    )  # fmt: skip
    apply(state, event, ready)
