"""Registers: facts that hold one value at a time, and what happens when two writers set one at once.

A register keeps every write that no later write has seen. Usually that is one. Several mean that writers acted
without knowing of each other: the later in log order stands (for a status, an ending stands before work that
goes on), all of them are shown as a conflict, and a person can choose another.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.canonical import Json
from holdfast.core.event import Event
from holdfast.core.lifecycle import FINAL, MOVES, TABLES, allows
from holdfast.core.state import Clash, State, Write
from holdfast.core.vocabulary import ConflictResolved


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
    unseen = [earlier for earlier in writes if not saw(state, event, earlier)]
    now = standing(table, writes)
    if not unseen and now is not None and not allows(TABLES[table], str(now.value), event.type):
        # Its writer knew better and yet wrote it: only a damaged or foreign program does that.
        notice(state, field, now.value, after, event)
        return False
    writes[:] = [*unseen, Write(after, event.writer, event.seq, event.hash, event.at)]
    return standing(table, writes) is writes[-1]


def notice(state: State, field: str, standing_value: Json, other: Json, event: Event) -> None:
    """Record two things that cannot both be true; the first stands."""
    stands = Write(standing_value, event.writer, event.seq, event.hash, event.at)
    state.clashes.append(Clash(field, [stands, Write(other, event.writer, event.seq, event.hash, event.at)]))


def fields(state: State) -> dict[str, tuple[str | None, list[Write]]]:
    """Every register by its public name, with the lifecycle table that ranks it, if one does."""
    found: dict[str, tuple[str | None, list[Write]]] = {
        name: ("session" if name == "status" else None, writes) for name, writes in state.registers.items()
    }
    for agent in state.agents.values():
        found[f"agents.{agent.id}.status" if _alone(state, agent.id) else f"agents.{agent.ref}.status"] = (
            "agent",
            agent.status,
        )
    for task in state.tasks.values():
        found[f"tasks.{task.ref}.status"] = ("task", task.status)
    return found


def _alone(state: State, agent_id: str) -> bool:
    return sum(agent.id == agent_id for agent in state.agents.values()) == 1


def disputed(writes: Sequence[Write]) -> bool:
    return len(writes) > 1 and any(one.value != writes[0].value for one in writes)


def resolve(state: State, event: Event, choice: ConflictResolved) -> None:
    """A person chose: the chosen value stands as if written now, the overruled ones are settled."""
    entry = fields(state).get(choice.field)
    if entry is None:
        state.not_applied += 1
        return
    writes = entry[1]
    picked = next((one for one in writes if one.hash == choice.chosen), None)
    if picked is None:
        state.not_applied += 1
        return
    settled = {choice.chosen, *choice.overruled}
    shown = [one for one in writes if one.hash in settled]
    state.clashes.append(Clash(choice.field, shown, shown.index(picked) + 1))
    rest = [one for one in writes if one.hash not in settled]
    writes[:] = [*rest, Write(picked.value, event.writer, event.seq, event.hash, event.at)]
