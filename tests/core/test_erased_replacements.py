"""An erased event whose replacement keeps everything but the secret."""

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
    document: dict[str, Json] = msgspec.to_builtins(data)
    return document


def note_texts(events: list[Event]) -> list[str]:
    return [note.text for note in fold(events).notes]


def with_data(event: Event, data: Json) -> Event:
    """The same event as if it had contained this data from the start; its hash stays that of the erased event."""
    return msgspec.structs.replace(event, data=msgspec.json.encode(data))


@given(histories(), st.data())
def test_erased_data_with_a_replacement_folds_like_the_replacement(history: object, data: st.DataObject) -> None:
    """In any history, erasing an event with a replacement equals having written the replacement."""
    events = list(history.events)  # type: ignore[attr-defined]
    chosen = data.draw(st.lists(st.sampled_from(events), unique_by=lambda event: event.hash))
    instead: dict[str, Json] = {}
    for event in chosen:
        same = [plain(data) for data in POOL if TYPE_OF[type(data)].name == event.type]
        if same:
            instead[event.hash] = data.draw(st.sampled_from(same))
    last = Device("w9", now=NOON)
    if data.draw(st.booleans()):  # otherwise it may sort before what it erases, which no honest device writes
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


def test_replacement_counts_at_the_place_of_the_erased_event() -> None:
    """A value written since is not overwritten."""
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


def test_references_to_an_erased_creation_still_resolve() -> None:
    """Agents and tasks are known by the hash of the event that created them."""
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
    erased_hashes = {agent.hash, task.hash}
    state = fold([erased(event) if event.hash in erased_hashes else event for event in device.known.values()])
    assert [(agent.ref, agent.summary, agent.task) for agent in state.agents.values()] == [
        (agent.hash, "done so far", None)
    ]
    assert [(task.ref, task.text) for task in state.tasks.values()] == [(task.hash, "[cut]")]


def test_earliest_replacement_counts_and_plain_erasure_wins() -> None:
    """With two replacements the first in the log counts; an erasure without one removes the event."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    first = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}))
    second = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "two"}}))
    third = device.record(EventErased(hashes=(secret.hash,)))
    events = [erased(event) if event.hash == secret.hash else event for event in device.known.values()]
    without = {item.hash: [event for event in events if event.hash != item.hash] for item in (first, second, third)}
    assert note_texts(without[third.hash]) == note_texts(without[third.hash][::-1]) == ["one"]
    assert note_texts([event for event in without[first.hash] if event.hash != third.hash]) == ["two"]
    assert note_texts(events) == note_texts(without[first.hash]) == []
    assert fold(events).not_applied == 1


def test_erasure_without_effect_is_ignored() -> None:
    """One with the key of an earlier event, or without a matching hash."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    device.record(NoteAdded(text="heard"), key="k")
    device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}), key="k")
    device.record(EventErased(hashes=("00" * 32,), instead={secret.hash: {"text": "two"}}))
    events = [erased(event) if event.hash == secret.hash else event for event in device.known.values()]
    assert note_texts(events) == ["heard"]
    assert collect_erasures(in_log_order(events)).hashes == {"00" * 32}


def test_unreadable_replacement_leaves_the_envelope_in_force() -> None:
    """A pause still pauses; a note disappears."""
    device = started()
    pause = device.record(SessionPaused(reason="secret"))
    secret = device.record(NoteAdded(text="secret"))
    odd: dict[str, Json] = {pause.hash: {"reason": 7}, secret.hash: "text"}
    device.record(EventErased(hashes=(pause.hash, secret.hash), instead=odd))
    events = [erased(event) if event.hash in odd else event for event in device.known.values()]
    state = fold(events)
    assert [register.value for register in state.registers["status"]] == ["paused"]
    assert (state.notes, state.not_applied) == ([], 1)


def test_replacement_is_ignored_while_the_data_is_present() -> None:
    """Removing data is the store's task; the fold only replaces what was removed."""
    device = started()
    secret = device.record(NoteAdded(text="secret"))
    device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one"}}))
    assert note_texts(list(device.known.values())) == ["secret"]


def test_erasure_can_itself_be_erased_and_replaced() -> None:
    """The replacement contained a secret too."""
    device = started()
    secret = device.record(NoteAdded(text="two secrets"))
    first = device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "one secret"}}))
    again: Json = {"hashes": [secret.hash], "instead": {secret.hash: {"text": "no secret"}}}
    device.record(EventErased(hashes=(first.hash,), instead={first.hash: again}))
    events = [erased(event) if event.hash in (secret.hash, first.hash) else event for event in device.known.values()]
    assert note_texts(events) == ["no secret"]
    assert collect_erasures(in_log_order(events)).hashes == {secret.hash, first.hash}


def test_concurrent_erasures_converge_on_the_first_in_the_log() -> None:
    """Each device wrote a different replacement."""
    one = started()
    secret = one.record(NoteAdded(text="secret"))
    two = joined(one)
    for device, word in ((one, "by one"), (two, "by two")):
        device.record(EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": word}}))
    events = [erased(event) if event.hash == secret.hash else event for event in together(one, two)]
    texts = [event.writer for event in in_log_order(events) if event.type == "event.erased"]
    assert note_texts(events) == note_texts(events[::-1]) == [f"by {'one' if texts[0] == one.writer else 'two'}"]


def test_erasure_without_replacement_keeps_its_former_bytes() -> None:
    """Erasures of earlier versions keep their hashes."""
    assert canonical_json(plain(EventErased(hashes=("ab",)))) == b'{"hashes":["ab"]}'
