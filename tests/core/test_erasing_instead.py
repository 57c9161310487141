"""An event whose secret was found later: its data is erased, and the rest of what it said still counts."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json, canonical_json
from holdfast.core.envelope import Event
from holdfast.core.event_data import collect_erasures
from holdfast.core.events import (
    TYPE_OF,
    AgentEdited,
    AgentStarted,
    EventData,
    EventErased,
    NoteAdded,
    SessionEdited,
    SessionPaused,
    TaskAdded,
)
from holdfast.core.fold import fold, in_log_order, read_data
from tests.support.histories import NOON, POOL, Device, erased, histories, joined, started, together


def plain(data: EventData) -> dict[str, Json]:
    found: dict[str, Json] = msgspec.to_builtins(data)
    return found


def noted(events: list[Event]) -> list[str]:
    return [note.text for note in fold(events).notes]


def with_data(event: Event, data: Json) -> Event:
    """The same event as if it had said this all along; its hash is the erased event's own."""
    return msgspec.structs.replace(event, data=msgspec.json.encode(data))


@given(histories(), st.data())
def test_erased_data_with_a_replacement_folds_like_the_replacement(history: object, data: st.DataObject) -> None:
    """Any history, any of its events replaced by others of their type: erased and replaced is replaced."""
    events = list(history.events)  # type: ignore[attr-defined]
    chosen = data.draw(st.lists(st.sampled_from(events), unique_by=lambda event: event.hash))
    instead: dict[str, Json] = {}
    for event in chosen:
        same = [plain(data) for data in POOL if TYPE_OF[type(data)].name == event.type]
        if same:
            instead[event.hash] = data.draw(st.sampled_from(same))
    last = Device("w9", now=NOON)
    if data.draw(st.booleans()):  # otherwise it may stand before what it erases, as no honest device would have it
        last.known.update({event.hash: event for event in events})
    erasure = last.record(EventErased(hashes=tuple(instead), instead=instead))
    cut = [erased(event) if event.hash in instead else event for event in events]
    due = [with_data(event, instead[event.hash]) if event.hash in instead else event for event in events]
    readable = {event.hash for event in due if event.hash in instead and read_data(event) is not None}
    due = [event if event.hash not in instead or event.hash in readable else erased(event) for event in due]
    state = fold([*cut, erasure])
    assert state == fold([*due, erasure])
    for order in (data.draw(st.permutations([*cut, erasure])), [erasure, *cut], [*cut, erasure, *cut]):
        assert fold(order) == state


def test_rest_of_replaced_data_keeps_its_place_in_the_log() -> None:
    """A later value written since is not overwritten: the replacement counts where the erased event stood."""
    device = started()
    secret = device.record(SessionEdited(goal="token abc", summary="kept"))
    device.record(SessionEdited(goal="Another"))
    device.record(
        EventErased(hashes=(secret.hash,), instead={secret.hash: {"goal": "[cut]", "summary": "kept"}})
    )  # fmt: skip
    state = fold([erased(event) if event.hash == secret.hash else event for event in device.known.values()])
    assert [register.value for register in state.registers["goal"]] == ["Another"]
    assert [(register.value, register.hash) for register in state.registers["summary"]] == [("kept", secret.hash)]
    assert state.not_applied == 0


def test_agents_and_tasks_stay_the_ones_that_others_refer_to() -> None:
    """What was created by the erased event is known by that event's hash, so later events still find it."""
    device = started()
    agent = device.record(AgentStarted(id="a1", type="coder", task="secret"))
    task = device.record(TaskAdded(id="t1", text="secret"))
    device.record(AgentEdited(id="a1", ref=agent.hash, summary="done so far"))
    device.record(
        EventErased(
            hashes=(agent.hash, task.hash),
            instead={agent.hash: {"id": "a1", "type": "coder"}, task.hash: {"id": "t1", "text": "[cut]"}},
        )
    )
    gone = {agent.hash, task.hash}
    state = fold([erased(event) if event.hash in gone else event for event in device.known.values()])
    assert [(agent.ref, agent.summary, agent.task) for agent in state.agents.values()] == [
        (agent.hash, "done so far", None)
    ]
    assert [(task.ref, task.text) for task in state.tasks.values()] == [(task.hash, "[cut]")]


def test_of_several_the_earliest_counts_and_nothing_at_all_is_stricter() -> None:
    """Two erasures with different words: the first in the log. One without any: the event is gone."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    first = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}))
    second = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "two"}}))
    third = device.record(EventErased(hashes=(secret.hash,)))
    events = [erased(event) if event.hash == secret.hash else event for event in device.known.values()]
    without = {item.hash: [event for event in events if event.hash != item.hash] for item in (first, second, third)}
    assert noted(without[third.hash]) == noted(without[third.hash][::-1]) == ["one"]
    assert noted([event for event in without[first.hash] if event.hash != third.hash]) == ["two"]
    assert noted(events) == noted(without[first.hash]) == []
    assert fold(events).not_applied == 1


def test_only_erasures_that_count_apply() -> None:
    """One whose key an earlier event has says nothing; nor does one that names no such hash."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    device.record(NoteAdded(text="heard"), key="k")
    device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}), key="k")
    device.record(EventErased(hashes=("00" * 32,), instead={secret.hash: {"text": "two"}}))
    events = [erased(event) if event.hash == secret.hash else event for event in device.known.values()]
    assert noted(events) == ["heard"]
    assert collect_erasures(in_log_order(events)).hashes == {"00" * 32}


def test_what_cannot_be_read_leaves_what_the_envelope_says() -> None:
    """Data of another shape is no data: a pause still pauses, a note is gone."""
    device = started()
    pause = device.record(SessionPaused(reason="secret"))
    secret = device.record(NoteAdded(text="secret"))
    odd: dict[str, Json] = {pause.hash: {"reason": 7}, secret.hash: "text"}
    device.record(EventErased(hashes=(pause.hash, secret.hash), instead=odd))
    events = [erased(event) if event.hash in odd else event for event in device.known.values()]
    state = fold(events)
    assert [register.value for register in state.registers["status"]] == ["paused"]
    assert (state.notes, state.not_applied) == ([], 1)


def test_data_that_is_still_there_is_not_replaced() -> None:
    """The fold replaces what is gone; that data goes is the store's to see to."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}))
    assert noted(list(device.known.values())) == ["secret"]


def test_an_erasure_may_itself_be_erased() -> None:
    """A secret found in what stood instead: a later erasure says the earlier one again, without it."""
    device = started()
    secret = device.record(NoteAdded(text="two secrets"))
    first = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one secret"}}))
    again: Json = {"hashes": [secret.hash], "instead": {secret.hash: {"text": "no secret"}}}
    device.record(EventErased(hashes=(first.hash,), instead={first.hash: again}))
    events = [erased(event) if event.hash in (secret.hash, first.hash) else event for event in device.known.values()]
    assert noted(events) == ["no secret"]
    assert collect_erasures(in_log_order(events)).hashes == {secret.hash, first.hash}


def test_two_devices_that_erase_at_once_agree() -> None:
    """Each cuts the same event in its own words: everybody takes those of the first in log order."""
    one = started()
    secret = one.record(NoteAdded(text="secret"))
    two = joined(one)
    for device, word in ((one, "by one"), (two, "by two")):
        device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": word}}))
    events = [erased(event) if event.hash == secret.hash else event for event in together(one, two)]
    found = [event.writer for event in in_log_order(events) if event.type == "event.erased"]
    assert noted(events) == noted(events[::-1]) == [f"by {'one' if found[0] == one.writer else 'two'}"]


def test_the_field_is_left_out_where_it_says_nothing() -> None:
    """Erasures of the past have the bytes, and so the hashes, that they had."""
    assert canonical_json(plain(EventErased(hashes=("ab",)))) == b'{"hashes":["ab"]}'
