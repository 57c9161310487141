"""Show conflicts, the values that devices recorded without knowing of each other, and record a person's choice.

Nothing is lost: the choice is an event, the other values stay in the log, and a choice can be changed. Two people who
choose differently at once make a new conflict, the same on every device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import agents, model, view
from holdfast.core.display_names import device_names, value_devices
from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.events import ConflictResolved, EventData
from holdfast.core.fold import fold
from holdfast.core.registers import Dispute, disputes
from holdfast.core.state import State, Write
from holdfast.core.text import shorten
from holdfast.sessions import history
from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_SHORTEST: Final = 4  # characters of a conflict's id


class Side(NamedTuple):
    """The session as one device knew it when it wrote its value, before it received the others."""

    progress: float
    # Agents that were running there.
    agents: tuple[str, ...]


class ShownConflict(NamedTuple):
    """A conflict to be shown: its values, and what is known of the session on each side."""

    conflict: model.Conflict
    # The number of the value in force, counting from 1.
    stands: int
    sides: tuple[Side | None, ...]
    # The device of each value, by a distinct name.
    devices: tuple[str, ...]


def session_with_conflicts(ws: Workspace, reference: str | None, *, at: int | None = None) -> str:
    """The session whose conflicts are asked for: by default this work tree's current or last one.

    A session completed on another device is no longer current, but its conflicts still need a decision.
    """
    if reference is not None or at is not None:
        return history.find(ws, reference or "@", at=at)
    current = history.current_session(ws)
    if current is not None:
        return current
    last = latest_session_here(ws)
    if last is not None:
        return last.session
    others = sessions_with_conflicts(ws)
    raise NotFound(
        "there is no current session here",
        hint=f"Conflicts are open in: {', '.join(other[:8] for other in others)}" if others
        else "Name one: holdfast history lists them.",
    )  # fmt: skip


def latest_session_here(ws: Workspace) -> State | None:
    """The current or last session of this work tree, finished or not."""
    store = ws.existing_store()
    last = store.current(ws.place.root) if store else None
    state = store.state(last) if store and last else None
    return None if state is None or state.deleted else state


def sessions_with_conflicts(ws: Workspace) -> list[str]:
    """The sessions of this project with open conflicts, newest first."""
    rows = history.history(ws, limit=None, aliases=False)
    states = history.states_of(ws, rows)
    return [state.session for state in states if any(conflict.chosen is None for conflict in view.conflicts(state))]


def list_conflicts(ws: Workspace, session: str, *, at: int | None = None) -> list[ShownConflict]:
    """Every conflict of a session, open ones first."""
    state = ws.state(session, at=at)
    guests = origin.guests(ws.store(), session)
    ordered = sorted(disputes(state), key=lambda dispute: dispute.chosen is not None)
    if not ordered:
        return []
    events = [event for event in ws.events(session) if at is None or event.at <= at]
    return [
        ShownConflict(
            view.conflict(state, dispute),
            dispute.stands,
            tuple(_side(events, dispute, write, session) for write in dispute.writes),
            value_devices(state, dispute, guests),
        )
        for dispute in ordered
    ]


def _side(events: Sequence[Event], dispute: Dispute, write: Write, session: str) -> Side | None:
    """The state as the writer of a value knew it, until it received one of the other values."""
    others = {item.writer: item.seq for item in dispute.writes if item.writer not in ("", write.writer)}
    seen: dict[str, int] = {}
    known: dict[str, int] = {}
    for event in sorted((event for event in events if event.writer == write.writer), key=lambda event: event.seq):
        for head in event.seen:
            seen[head.writer] = max(seen.get(head.writer, 0), head.seq)
        if event.seq > write.seq and any(seen.get(writer, 0) >= seq for writer, seq in others.items()):
            break
        known = {**seen, write.writer: event.seq}
    if not known:
        return None
    state = fold((event for event in events if event.seq <= known.get(event.writer, 0)), session)
    return Side(view.progress_of(state), tuple(agent.id for agent in agents.running(state)))


def resolve(ws: Workspace, session: str, name: str, take: int, *, at: int | None = None) -> model.Conflict:
    """Choose one value of a conflict, by its number in `list_conflicts`; returns the conflict after that."""
    chosen: list[Dispute] = []

    def build(state: State) -> list[EventData]:
        dispute = find_dispute(state, name)
        if not 1 <= take <= len(dispute.writes):
            raise Invalid(
                f"the conflict has values 1 to {len(dispute.writes)}, and no value {take}",
                hint="holdfast conflicts lists the values with their numbers.",
                session=session,
            )
        if dispute.chosen == take:
            raise Conflict(
                f"value {take} of {dispute.field} is already chosen",
                hint="There is nothing to do; you can still choose another value.",
                session=session,
            )
        chosen.append(dispute)
        return [choice_event(dispute, take)]

    state = ws.recorder.record(session, build, at=at)
    dispute = chosen[0]
    resolved = next(
        (item for item in reversed(disputes(state)) if item.id == dispute.id), dispute._replace(chosen=take)
    )
    return view.conflict(state, resolved)


def find_dispute(state: State, name: str) -> Dispute:
    """The conflict with this id or unique prefix of an id."""
    prefix = name.strip().lower()
    all_disputes = disputes(state)
    matches = [dispute for dispute in all_disputes if dispute.id == prefix]
    if not matches and len(prefix) >= _SHORTEST:
        matches = [dispute for dispute in all_disputes if dispute.id.startswith(prefix)]
    if not matches:
        raise NotFound(
            f"the session has no conflict {shorten(name, 40)!a}",
            hint="holdfast conflicts shows them.",
            session=state.session,
        )
    if len({dispute.id for dispute in matches}) > 1:
        ids = ", ".join(dispute.id for dispute in matches[:10])
        raise Invalid(
            f"{shorten(name, 40)!a} matches {len(matches)} conflicts: {ids}",
            hint="Give more of the id.",
            session=state.session,
        )
    return next((dispute for dispute in matches if dispute.chosen is None), matches[-1])


def choice_event(dispute: Dispute, take: int) -> ConflictResolved:
    """The event that chooses the value with this number, counting from 1."""
    chosen = dispute.writes[take - 1]
    value = chosen.value
    return ConflictResolved(
        field=dispute.field,
        chosen=chosen.hash,
        overruled=tuple(write.hash for number, write in enumerate(dispute.writes, start=1) if number != take),
        value=float(value) if isinstance(value, (int, float)) else value if isinstance(value, str) else None,
    )


def choices_for_device(state: State, device: str, guests: Collection[str]) -> list[ConflictResolved]:
    """The choices in favour of this device, for every open conflict that it takes part in."""
    names = device_names(state, guests)
    choices = []
    for dispute in disputes(state):
        own = [
            number
            for number, write in enumerate(dispute.writes, start=1)
            if write.writer and names.get(write.writer) == device
        ]
        if dispute.chosen is None and own:
            choices.append(choice_event(dispute, own[-1]))
    return choices
