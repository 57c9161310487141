"""What happens to an agent's payload: decoded, parsed by every adapter, turned into events, answered.

Whatever the bytes are, it only yields events that fold without a clash.
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
# Does not exist: files that a payload names are looked up there.
_PLACE = WorkTree(root="/nowhere/at/all", main="/nowhere/at/all", git=False, git_dir=None, common_dir=None)
_ANSWER = HookAnswer(context="recorded facts", say="a sentence", notify=True, block=None)


def process_payload(raw: bytes) -> None:
    payload = decoded(raw)
    if payload is None:
        return
    for name in index.NAMES:
        agent = index.load_adapter(name)
        hook_event = agent.parse(payload)
        if hook_event is None:
            continue
        assert hook_event.conversation
        is_work(hook_event)
        agent.reply(_ANSWER, hook_event.event)
        _ingest(hook_event)
    hook_event = index.load_status_parser("claude")(payload)
    if hook_event is not None:
        _ingest(hook_event)


def seeds() -> list[bytes]:
    """Every payload of the conformance suite."""
    payloads = []
    for path in sorted(_PAYLOADS.rglob("*.json")):
        sample = json.loads(path.read_bytes())
        payloads.append(json.dumps(sample.get("payload", sample)).encode())
    return payloads


def _ingest(hook_event: HookEvent) -> None:
    state = State(session="s")
    _fold(state, SessionStarted(goal="g", project=ProjectFacts(id="p", name="p"), device="d"))
    # Twice: the second time it is applied to its own result.
    for _ in range(2):
        for data in events_of(state, hook_event, _NOW, IngestContext(_PLACE, None)):
            _fold(state, data.data if isinstance(data, Timed) else data)
    assert (state.clashes, state.not_applied) == ([], 0)
    view.session(state, now=_NOW)


def _fold(state: State, data: EventData) -> None:
    """As the recorder does it: data that cannot be stored is an error."""
    ready = _prepared(data)
    kind = TYPE_OF[type(ready)]
    seq = state.count + 1
    event = Event(
        v=kind.version, session="s", writer="0" * 32, seq=seq, clock=seq, at=_NOW, seen=(), key=None, actor="",
        type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=msgspec.json.encode(ready), salt=b"",
    )  # fmt: skip
    apply(state, event, ready)
