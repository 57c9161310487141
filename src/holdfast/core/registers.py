"""Registers: facts that hold one value at a time, and what happens when two writers set one at once.

A register keeps every write that no later write has seen. Usually that is one. Several mean that writers acted
without knowing of each other: the later in log order stands (for a status, an ending stands before work that
goes on), all of them are shown as a conflict, and a person can choose another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.event import Event
from holdfast.core.lifecycle import FINAL, MOVES, TABLES, allows
from holdfast.core.state import AgentState, Clash, State, TaskState, Write
from holdfast.core.vocabulary import ConflictFound, ConflictResolved


def saw(state: State, event: Event, earlier: Write) -> bool:
    """Had the writer of this event seen that write?"""
    if event.writer == earlier.writer:
        return event.seq > earlier.seq
    return state.seen.get(event.writer, {}).get(earlier.writer, 0) >= earlier.seq


def write(state: State, name: str, value: Json, event: Event) -> None:
    before = state.registers.get(name, [])
    unseen = [earlier for earlier in before if not saw(state, event, earlier)]
    state.registers[name] = [*unseen, Write(value, event.writer, event.seq, event.hash, event.at)]


def value_of(writes: Sequence[Write]) -> Json:
    return writes[-1].value if writes else None


def standing(table: str, writes: Sequence[Write]) -> Write | None:
    """The status that stands: endings win over concurrent work, otherwise the later write."""
    final = [one for one in writes if one.value in FINAL[table]]
    ranked = final or writes
    return ranked[-1] if ranked else None


def write_status(state: State, table: str, writes: list[Write], field: str, event: Event) -> bool:
    """Move a status as the event says; False when the event changes nothing because the table refuses it."""
    after = MOVES[event.type].status
    stands = forbidding(state, table, writes, event)
    if stands is not None:
        notice(state, field, stands, after, event)
        return False
    unseen = [earlier for earlier in writes if not saw(state, event, earlier)]
    writes[:] = [*unseen, Write(after, event.writer, event.seq, event.hash, event.at)]
    return standing(table, writes) is writes[-1]


def forbidding(state: State, table: str, writes: Sequence[Write], event: Event) -> Write | None:
    """The status that forbids this event although its writer knew it: only a damaged or foreign program does that."""
    known = standing(table, [earlier for earlier in writes if saw(state, event, earlier)])
    if known is None or allows(TABLES[table], str(known.value), event.type):
        return None
    return known


def notice(state: State, field: str, stands: Write, other: Json, event: Event) -> None:
    """Record two things that cannot both be true; the first stands."""
    state.clashes.append(Clash(field, [stands, Write(other, event.writer, event.seq, event.hash, event.at)]))


def fields(state: State) -> dict[str, tuple[str | None, list[Write]]]:
    """Every register by its public name, with the lifecycle table that ranks it, if one does."""
    found: dict[str, tuple[str | None, list[Write]]] = {
        name: ("session" if name == "status" else None, writes) for name, writes in state.registers.items()
    }
    for table, entries in _entries(state):
        alike = Counter(entry.id for entry in entries.values())
        for entry in entries.values():
            name = entry.id if alike[entry.id] == 1 else entry.ref
            found[f"{table}s.{name}.status"] = (table, entry.status)
    return found


def _entries(state: State) -> tuple[tuple[str, Mapping[str, AgentState | TaskState]], ...]:
    return (("agent", state.agents), ("task", state.tasks))


def _meant(state: State, field: str) -> tuple[set[str], list[list[Write]]]:
    """The registers a field can mean, and all its names: whoever chose may not have known of a twin."""
    if field in state.registers:
        return {field}, [state.registers[field]]
    names, found = {field}, []
    for table, entries in _entries(state):
        for entry in entries.values():
            own = {f"{table}s.{entry.id}.status", f"{table}s.{entry.ref}.status"}
            if field in own:
                names |= own
                found.append(entry.status)
    return names, found


def disputed(writes: Sequence[Write]) -> bool:
    return len(writes) > 1 and any(one.value != writes[0].value for one in writes)


def resolve(state: State, event: Event, choice: ConflictResolved) -> None:
    """A person chose: the chosen value stands as if written now, the overruled ones are settled."""
    names, registers = _meant(state, choice.field)
    settled = {choice.chosen, *choice.overruled}
    for writes in registers:
        shown = [one for one in writes if one.hash in settled]
        place = _place(shown, choice.chosen)
        if place is not None:
            state.clashes.append(Clash(choice.field, shown, place + 1))
            _choose(state, writes, shown[place].value, event, settled)
            return
    for clash in reversed(state.clashes):  # noticed, or chosen before: by the same person, or by two at once
        place = _place(clash.writes, choice.chosen)
        if clash.field in names and place is not None:
            value = clash.writes[place].value
            stays = not registers or not _can_stand(choice.field, registers[0], value)
            if stays or _choose(state, registers[0], value, event, settled):
                clash.chosen = place + 1
            return
    if choice.value is not None and choice.field in state.registers and choice.field != "status":
        _choose(state, registers[0], choice.value, event, settled)
    else:
        state.not_applied += 1


def dispute(state: State, event: Event, found: ConflictFound) -> None:
    """Someone wrote a field without having seen what stands there: both values are kept side by side."""
    _, registers = _meant(state, found.field)
    written = Write(found.value, event.writer, event.seq, event.hash, event.at)
    if registers and _can_stand(found.field, registers[-1], found.value):
        # Beside what stands, not over it: whoever wrote it had not seen that.
        registers[-1].insert(max(len(registers[-1]) - 1, 0), written)
    else:
        stands = Write(value_of(registers[-1]) if registers else found.stood, "", 0, "", event.at)
        state.clashes.append(Clash(found.field, [stands, written]))


_OF: Final = {"status": "session", "agents": "agent", "tasks": "task"}
_STATUSES: Final = {
    name: {*table, *(move.status for move in MOVES.values() if move.table == name)} for name, table in TABLES.items()
}


def _can_stand(field: str, writes: Sequence[Write], value: Json) -> bool:
    """Files and other programs say anything; a register holds only what its own events could have written."""
    table = _OF.get(field.partition(".")[0])
    if table is not None:
        return isinstance(value, str) and value in _STATUSES[table]
    if isinstance(value_of(writes), str):
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _place(writes: Sequence[Write], chosen: str) -> int | None:
    return next((place for place, one in enumerate(writes) if one.hash == chosen), None)


def _choose(state: State, writes: list[Write], value: Json, event: Event, settled: set[str]) -> bool:
    """Write the chosen value; False when others remain that the person who chose had not seen."""
    rest = [one for one in writes if one.hash not in settled and not saw(state, event, one)]
    writes[:] = [*rest, Write(value, event.writer, event.seq, event.hash, event.at)]
    return not rest
