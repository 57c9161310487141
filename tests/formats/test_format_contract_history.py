"""History of the contract: what Holdfast writes into it, and that the session can be had from it again."""

from __future__ import annotations

import copy
import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event, make_event
from holdfast.core.events import (
    TYPE_OF,
    AgentCompleted,
    AgentFailed,
    AgentStarted,
    CommandRan,
    ErrorNoted,
    EventData,
    ProjectFacts,
    SessionEdited,
    SessionStarted,
    TaskAdded,
    TaskStarted,
)
from holdfast.core.fold import apply
from holdfast.core.state import State
from holdfast.formats.base import Document
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.fields import HISTORY
from holdfast.formats.contract.history import event_of, events_of, history_line, restore_session
from tests.formats.contract_documents import lines

FOREIGN: Document = {
    "timestamp": "2025-01-09T10:00:00Z", "command": "plan", "arguments": "", "model": "gemini", "agent": "agent-1",
    "task_id": None, "status": "success", "duration_ms": 5234,
}  # fmt: skip


class Log:
    """Real events of one session, each with the line it would leave."""

    def __init__(self) -> None:
        self.state = State(session="7d444840-9dc0-41d1-b245-5ffdce74fad2")
        self.events: list[Event] = []
        self.lines: list[Json] = []
        self.record(SessionStarted(goal="Do it", project=ProjectFacts(id="p", name="n"), device="d", model="opus"))

    def record(self, data: EventData) -> Document:
        kind = TYPE_OF[type(data)]
        number = len(self.events) + 1
        event = make_event(
            session=self.state.session, writer="w", seq=number, prev=self.events[-1].hash if self.events else None,
            clock=number, at=1_736_416_800_000 + number * 1500, actor="me", type=kind.name, version=kind.version,
            data=msgspec.json.encode(data, order="sorted"), salt=bytes([number] * 16),
        )  # fmt: skip
        apply(self.state, event, data)
        self.events.append(event)
        made = history_line(event, data, self.state)
        self.lines.append(json.loads(json.dumps(made)))  # as it would be read from the file
        return made


def recorded_log() -> Log:
    log = Log()
    log.record(TaskAdded(id="t1", text="é \u2028"))
    log.record(TaskStarted(id="t1"))
    log.record(AgentStarted(id="a1", type="writer"))
    log.record(SessionEdited(progress=0.25))
    log.record(AgentFailed(id="a1", category="logical", message="no way"))
    log.record(CommandRan(command="make", code=2, duration_ms=70))
    log.record(ErrorNoted(message="odd"))
    return log


def test_lines_show_events_in_fields_of_the_contract() -> None:
    log = recorded_log()
    assert all(FORMAT.problems(item, HISTORY) == [] for item in log.lines)
    shown = [{key: value for key, value in item.items() if key != "x-holdfast"} for item in log.lines]  # type: ignore[union-attr]
    assert shown[0] == {
        "timestamp": "2025-01-09T10:00:01Z", "command": "session.started", "arguments": "Do it", "model": "opus",
        "agent": "me", "task_id": None, "status": "success", "duration_ms": 0,
    }  # fmt: skip
    assert shown[5] == {
        "timestamp": "2025-01-09T10:00:09Z", "command": "agent.failed", "arguments": "a1: no way", "model": "opus",
        "agent": "a1", "task_id": "t1", "status": "failure", "duration_ms": 3000, "error": "no way",
    }  # fmt: skip
    assert (shown[6]["status"], shown[6]["error"], shown[6]["duration_ms"]) == ("failure", "exit code 2", 70)
    assert shown[7]["error"] == "odd"
    completed = Log()
    completed.record(AgentStarted(id="a", type="x"))
    assert completed.record(AgentCompleted(id="a", summary="well"))["duration_ms"] == 1500


def test_session_is_restored_from_its_history_alone() -> None:
    log = recorded_log()
    mixed = [FOREIGN, *reversed(log.lines), log.lines[2], "nonsense", None]
    assert events_of(mixed) == log.events
    again = restore_session(mixed)
    assert again == log.state
    assert again is not None
    assert FORMAT.render(again) == FORMAT.render(log.state)


@given(st.data())
def test_line_that_was_changed_is_not_believed(data: st.DataObject) -> None:
    log = recorded_log()
    number = data.draw(st.integers(0, len(log.lines) - 1))
    changed_line = copy.deepcopy(log.lines[number])
    whole = changed_line["x-holdfast"]  # type: ignore[index,call-overload]
    assert isinstance(whole, dict)
    key = data.draw(st.sampled_from(sorted(whole)))
    values: list[Json] = [None, "", "x", 7, [], {}, {"goal": "other"}, "ff" * 16]
    odd = data.draw(st.sampled_from(values))
    if odd == whole[key]:
        return
    whole[key] = odd
    verified = event_of(changed_line)
    # Salt and data may be taken away, never changed: that is what erasing does.
    assert verified is None or (verified.hash == log.events[number].hash and verified.data is None)


def test_event_that_was_erased_is_had_without_its_data() -> None:
    log = recorded_log()
    bare = msgspec.structs.replace(log.events[1], data=None, salt=None)
    made = history_line(bare, None, log.state)
    assert FORMAT.problems(made, HISTORY) == []
    assert event_of(made) == bare


def test_data_that_no_program_of_ours_wrote_is_carried_to_the_letter() -> None:
    data = b'{ "text": "x" }'
    event = make_event(
        session="s", writer="w", seq=1, prev=None, clock=1, at=0, actor="", type="note.added", version=1, data=data,
        salt=bytes(16),
    )  # fmt: skip
    assert event_of(json.loads(json.dumps(history_line(event, None, State(session="s"))))) == event


@given(lines())
def test_line_without_a_valid_event_is_ignored(one: Document) -> None:
    assert event_of(one) is None
    assert restore_session([one]) is None
