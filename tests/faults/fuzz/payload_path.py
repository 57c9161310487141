"""The way of a payload from an agent: read, understood in every dialect, made events of a session, answered.

Whatever the bytes are, nothing may come out of it but events that fold without a clash.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from holdfast.capture import registry
from holdfast.capture.interface import Answer, Heard
from holdfast.core import view
from holdfast.core.event import Event
from holdfast.core.fold import apply
from holdfast.core.state import State
from holdfast.core.vocabulary import TYPE_OF, Data, Project, SessionStarted
from holdfast.keeper.captures.belonging import is_work
from holdfast.keeper.captures.payloads import decoded
from holdfast.keeper.captures.telling import Ground, told
from holdfast.keeper.captures.telling_agents import Timed
from holdfast.keeper.recording import _prepared
from holdfast.machine.worktree import Place

_PAYLOADS = Path(__file__).parent.parent.parent / "capture" / "payloads"
_NOW = 1_794_000_000_000
# Nowhere: what a payload says of files is looked up, and not found.
_PLACE = Place(root="/nowhere/at/all", main="/nowhere/at/all", git=False, git_dir=None, common_dir=None)
_ANSWER = Answer(context="recorded facts", say="a sentence", notify=True, block=None)


def hear(raw: bytes) -> None:
    payload = decoded(raw)
    if payload is None:
        return
    for name in registry.NAMES:
        agent = registry.agent(name)
        heard = agent.heard(payload)
        if heard is None:
            continue
        assert heard.conversation
        is_work(heard)
        agent.reply(_ANSWER, heard.event)
        _told(heard)
    heard = registry.status("claude")(payload)
    if heard is not None:
        _told(heard)


def seeds() -> list[bytes]:
    """Every payload that the conformance suite knows."""
    found = []
    for path in sorted(_PAYLOADS.rglob("*.json")):
        sample = json.loads(path.read_bytes())
        found.append(json.dumps(sample.get("payload", sample)).encode())
    return found


def _told(heard: Heard) -> None:
    state = State(session="s")
    _fold(state, SessionStarted(goal="g", project=Project(id="p", name="p"), device="d"))
    # Twice: heard again, it meets what it did the first time.
    for _ in range(2):
        for data in told(state, heard, _NOW, Ground(_PLACE, None)):
            _fold(state, data.data if isinstance(data, Timed) else data)
    assert (state.clashes, state.not_applied) == ([], 0)
    view.session(state, now=_NOW)


def _fold(state: State, data: Data) -> None:
    """As the recorder does it: what cannot be stored is an error."""
    ready = _prepared(data)
    kind = TYPE_OF[type(ready)]
    seq = state.count + 1
    event = Event(
        v=kind.version, session="s", writer="0" * 32, seq=seq, clock=seq, at=_NOW, seen=(), key=None, actor="",
        type=kind.name, body="", prev=None, hash=f"{seq:064x}", data=msgspec.json.encode(ready), salt=b"",
    )  # fmt: skip
    apply(state, event, ready)
