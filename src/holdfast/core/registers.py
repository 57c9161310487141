"""Registers: facts with one value at a time, and conflicts between writers that set one at once.

A register keeps every write that no later write has seen. Usually that is one. Several mean that writers acted
without knowing of each other: the later in log order counts (for a status, an ending counts before ongoing work), all
of them are shown as a conflict, and a person can choose another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from holdfast.core.canonical import Json, digest
from holdfast.core.envelope import Event
from holdfast.core.events import ConflictDetected, ConflictResolved
from holdfast.core.lifecycle import FINAL, FINISHED, MOVES, TABLES, allows
from holdfast.core.state import AgentState, FieldConflict, State, TaskState, Write

_Entry = TypeVar("_Entry", AgentState, TaskState)


def has_seen(state: State, event: Event, earlier: Write) -> bool:
    """Whether the writer of this event had seen that write."""
    if event.writer == earlier.writer:
        return event.seq > earlier.seq
    return state.seen.get(event.writer, {}).get(earlier.writer, 0) >= earlier.seq


def write_register(state: State, name: str, value: Json, event: Event) -> None:
    before = state.registers.get(name, [])
    unseen = [earlier for earlier in before if not has_seen(state, event, earlier)]
    state.registers[name] = [*unseen, Write(value, event.writer, event.seq, event.hash, event.at)]


def current_value(writes: Sequence[Write]) -> Json:
    return writes[-1].value if writes else None


def current_write(table: str, writes: Sequence[Write]) -> Write | None:
    """The write that counts: an ending wins over concurrent work, otherwise the later write."""
    final = [item for item in writes if item.value in FINAL[table]]
    ranked = final or writes
    return ranked[-1] if ranked else None


def write_status(state: State, table: str, writes: list[Write], field: str, event: Event) -> bool:
    """Change a status as the event says; False if the event changes nothing because the table refuses it."""
    after = MOVES[event.type].status
    blocking = blocking_write(state, table, writes, event)
    if blocking is not None:
        add_contradiction(state, field, blocking, after, event)
        return False
    unseen = [earlier for earlier in writes if not has_seen(state, event, earlier)]
    if table == "session" and after in FINISHED:
        for work in state.worked.values():
            if not has_seen(state, event, work):
                _add_concurrent_work(unseen, work)
    writes[:] = [*unseen, Write(after, event.writer, event.seq, event.hash, event.at)]
    return current_write(table, writes) is writes[-1]


def record_work(state: State, event: Event) -> None:
    """Record that a person was at work. If the session had ended on another device, both become a conflict."""
    if event.type.startswith(_NOT_WORK):
        return
    work = state.worked[event.writer] = Write("in_progress", event.writer, event.seq, event.hash, event.at)
    writes = state.registers.get("status")
    current = current_write("session", writes) if writes else None
    if writes and current is not None and current.value in FINISHED and not has_seen(state, event, current):
        _add_concurrent_work(writes, work)


def _add_concurrent_work(writes: list[Write], work: Write) -> None:
    """Keep work next to an ending: only each writer's first, so that the values to choose from do not change."""
    if all(item.writer != work.writer for item in writes):
        writes.append(work)


def blocking_write(state: State, table: str, writes: Sequence[Write], event: Event) -> Write | None:
    """The status that forbids this event although its writer knew it: only a damaged or foreign program records that.

    A write that its writer had not seen may have replaced that status. Then only an ending forbids anything, because
    nothing replaces an ending.
    """
    seen_writes = [earlier for earlier in writes if has_seen(state, event, earlier)]
    current = current_write(table, seen_writes)
    if current is None or allows(TABLES[table], str(current.value), event.type):
        return None
    return current if len(seen_writes) == len(writes) or current.value in FINAL[table] else None


def add_contradiction(state: State, field: str, first: Write, other: Json, event: Event) -> None:
    """Record two values that cannot both be true; the first counts."""
    _add_clash(state, FieldConflict(field, [first, Write(other, event.writer, event.seq, event.hash, event.at)]))


def _add_clash(state: State, clash: FieldConflict) -> None:
    hashes = {item.hash for item in clash.writes}
    # In one order: states of the same events are compared.
    for name in (*(_clash_key(clash.field, item) for item in sorted(hashes)), _exact_clash_key(clash.field, hashes)):
        state.clash_places[name] = len(state.clashes)
    state.clashes.append(clash)


def _clash_key(field: str, event: str) -> str:
    return repr((field, event))  # unambiguous, although others may have written both


def _exact_clash_key(field: str, events: set[str]) -> str:
    return repr((field, sorted(events)))


def _last_clash(state: State, names: Iterable[str]) -> FieldConflict | None:
    position = max((state.clash_places.get(name, -1) for name in names), default=-1)
    return None if position < 0 else state.clashes[position]


def status_registers(state: State) -> dict[str, tuple[str | None, list[Write]]]:
    """Every register by its public name, with the lifecycle table of those that are a status."""
    registers: dict[str, tuple[str | None, list[Write]]] = {
        name: ("session" if name == "status" else None, writes) for name, writes in state.registers.items()
    }
    for table, entries in _entries(state):
        same_id = Counter(entry.id for entry in entries.values())
        for entry in entries.values():
            name = entry.id if same_id[entry.id] == 1 else entry.ref
            registers[f"{table}s.{name}.status"] = (table, entry.status)
    return registers


def _entries(state: State) -> tuple[tuple[str, Mapping[str, AgentState | TaskState]], ...]:
    return (("agent", state.agents), ("task", state.tasks))


def _resolve_field(state: State, field: str) -> tuple[set[str], list[list[Write]]]:
    """All names of a field, and every register it can mean: whoever chose may not have known of the others."""
    if field in state.registers:
        return {field}, [state.registers[field]]
    names, registers = {field}, []
    for entry in entries_of_field(state, field):
        table = "agent" if isinstance(entry, AgentState) else "task"
        names |= {f"{table}s.{entry.id}.status", f"{table}s.{entry.ref}.status"}
        registers.append(entry.status)
    return names, registers[::-1]


def entries_of_field(state: State, field: str) -> Iterator[AgentState | TaskState]:
    """The agents or tasks whose status a field means, by id or by the event that created one; the latest first."""
    table, _, rest = field.partition(".")
    name = rest.removesuffix(".status")
    if name == rest or table not in ("agents", "tasks"):
        return
    entries, refs = (state.agents, state.agent_refs) if table == "agents" else (state.tasks, state.task_refs)
    for ref in reversed(refs.get(name, ())):
        yield entries[ref]
    if name in entries:  # an id that equals its hash was chosen later
        yield entries[name]


def is_disputed(writes: Sequence[Write]) -> bool:
    return len(writes) > 1 and any(item.value != writes[0].value for item in writes)


_NOT_WORK: Final = ("session.", "conflict.")  # handled by rules of their own


class Dispute(NamedTuple):
    """Values of one field that cannot all be true. `chosen` and `stands` count from 1, in the order of the values."""

    field: str
    writes: tuple[Write, ...]
    # The one a person chose; None while the dispute is open.
    chosen: int | None
    # The one that counts, by choice or until there is one.
    stands: int

    @property
    def id(self) -> str:
        """Short, and the same on every device, before and after a choice."""
        return digest(self.field.encode(), *sorted(item.hash.encode() for item in self.writes))[:8]


def disputes(state: State) -> list[Dispute]:
    """All disputes, settled ones too: the same on every device."""
    open_disputes = []
    for name, (table, writes) in status_registers(state).items():
        if is_disputed(writes):
            current = writes[-1] if table is None else current_write(table, writes)
            position = next(number for number, item in enumerate(writes, start=1) if item is current)
            open_disputes.append(Dispute(name, tuple(writes), None, position))
    open_disputes += [
        Dispute(clash.field, tuple(clash.writes), clash.chosen, clash.chosen or 1) for clash in state.clashes
    ]
    return open_disputes


def resolve(state: State, event: Event, choice: ConflictResolved) -> None:
    """Apply a person's choice: the chosen value counts as if written now, the overruled ones are settled."""
    names, registers = _resolve_field(state, choice.field)
    settled = {choice.chosen, *choice.overruled}
    # The conflict may be recorded already: as a contradiction, or because somebody chose in it before.
    known = _last_clash(state, (_clash_key(name, choice.chosen) for name in names))
    exact = _last_clash(state, (_exact_clash_key(name, settled) for name in names))
    for writes in registers if exact is None else ():
        candidates = [item for item in writes if item.hash in settled]
        position = _position_of(candidates, choice.chosen)
        if position is not None:
            _add_clash(state, FieldConflict(choice.field, candidates, position + 1))
            _choose(state, writes, candidates[position], event, settled)
            return
    if known is not None:
        _resolve_values(state, event, choice, exact or known, registers)
    elif choice.value is not None and choice.field in state.registers and choice.field != "status":
        _choose(state, registers[0], Write(choice.value, "", 0, "", event.at), event, settled)
    else:
        state.not_applied += 1


def _resolve_values(
    state: State, event: Event, choice: ConflictResolved, clash: FieldConflict, registers: Sequence[list[Write]]
) -> None:
    position = _position_of(clash.writes, choice.chosen)
    assert position is not None
    chosen = clash.writes[position]
    settled = {choice.chosen, *choice.overruled}
    # Several entries can share an id: take the register that the values belong to.
    writes = next((register for register in registers if any(write.hash in settled for write in register)), None)
    if writes is None and registers:
        writes = registers[0]
    if writes is not None and _is_valid_value(choice.field, writes, chosen.value):
        is_only_value = _choose(state, writes, chosen, event, settled)
        if not is_only_value and clash.chosen is not None:
            return  # another device chose meanwhile: both choices are shown as separate conflicts
    clash.chosen = position + 1


def add_dispute(state: State, event: Event, data: ConflictDetected) -> None:
    """Keep a value that was written without knowledge of the current one, next to that."""
    entry = next(entries_of_field(state, data.field), None)
    register = state.registers.get(data.field) if entry is None else entry.status
    claimed = Write(data.value, event.writer, event.seq, event.hash, event.at)
    if register is not None and len(register) < _MAX_VALUES and _is_valid_value(data.field, register, data.value):
        # Next to the current value and not in its place: its writer had not seen that.
        register.insert(max(len(register) - 1, 0), claimed)
    else:
        current = Write(current_value(register) if register is not None else data.stood, "", 0, "", event.at)
        _add_clash(state, FieldConflict(data.field, [current, claimed]))


_MAX_VALUES: Final = 32  # many events scan all values; further ones are kept as separate conflicts
_TABLE_OF: Final = {"status": "session", "agents": "agent", "tasks": "task"}
_STATUSES: Final = {
    name: {*table, *(move.status for move in MOVES.values() if move.table == name)} for name, table in TABLES.items()
}


def _is_valid_value(field: str, writes: Sequence[Write], value: Json) -> bool:
    """Whether a register's own events could have written the value: files and other programs write anything."""
    table = _TABLE_OF.get(field.partition(".")[0])
    if table is not None:
        return isinstance(value, str) and value in _STATUSES[table]
    if isinstance(current_value(writes), str):
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _position_of(writes: Sequence[Write], chosen: str) -> int | None:
    return next((position for position, item in enumerate(writes) if item.hash == chosen), None)


def _choose(state: State, writes: list[Write], chosen: Write, event: Event, settled: set[str]) -> bool:
    """Write the chosen value; False if values remain that the person who chose had not seen."""
    rest = [item for item in writes if item.hash not in settled and not has_seen(state, event, item)]
    # A session that ended did so at the time of that event, not of the choice.
    ended = writes is state.registers.get("status") and chosen.value in FINISHED
    at = chosen.at if ended else event.at
    writes[:] = [*rest, Write(chosen.value, event.writer, event.seq, event.hash, at)]
    return not rest


def find_target(
    entries: Iterable[_Entry], id_: str, event: str, status_of: Callable[[_Entry], str], ref: str | None = None
) -> _Entry | None:
    """The agent or task that an event means: by `ref`, else the newest of that id which allows it, else the newest.

    Several devices can give one id at once; the entries stay separate, and `ref` tells them apart.
    """
    same_id = [entry for entry in entries if entry.id == id_]
    exact = next((entry for entry in same_id if entry.ref == ref), None)
    if exact is not None:
        return exact
    table = TABLES[event.partition(".")[0]]
    allowing = [entry for entry in same_id if allows(table, status_of(entry), event)]
    return next(reversed(allowing or same_id), None)
