"""What people are shown as the name of a device. Anybody can call theirs as they like, also as another is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.registers import Dispute, disputes

if TYPE_CHECKING:
    from holdfast.core.model import Conflict, Session
    from holdfast.core.state import State

_SHOWN: Final = 6  # characters of a writer's id


def device_names(state: State, guests: Collection[str] = ()) -> dict[str, str]:
    """By writer, the name of its device; a guest's is marked as such. `guests` are the writers of these."""
    return {writer: f"{name} (guest)" if writer in guests else name for writer, name in state.devices.items()}


def value_devices(state: State, dispute: Dispute, guests: Collection[str] = ()) -> tuple[str, ...]:
    """The device of each value of a conflict; of several with one name, also the beginning of the writer's id."""
    names = device_names(state, guests)
    devices = [names.get(write.writer) or "unknown device" for write in dispute.writes]
    writers = {(name, write.writer) for name, write in zip(devices, dispute.writes, strict=True)}
    alike = Counter(name for name, _ in writers)
    return tuple(
        f"{name} ({write.writer[:_SHOWN]})" if alike[name] > 1 and write.writer else name
        for name, write in zip(devices, dispute.writes, strict=True)
    )


def with_device_labels(session: Session, state: State, guests: Collection[str]) -> Session:
    """The session as people are shown it, with names of devices that tell guests from the owner's devices."""

    def named(conflict: Conflict, dispute: Dispute) -> Conflict:
        devices = value_devices(state, dispute, guests)
        values = [replace(value, device=name) for value, name in zip(conflict.values, devices, strict=True)]
        return replace(conflict, values=values)

    return replace(
        session,
        devices=sorted(set(device_names(state, guests).values())),
        conflicts=[
            named(conflict, dispute) for conflict, dispute in zip(session.conflicts, disputes(state), strict=True)
        ],
    )
