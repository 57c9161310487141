"""Whose the values of a conflict are, so that they can be told apart: two devices may have one name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from holdfast.core.registers import disputes

if TYPE_CHECKING:
    from holdfast.core.state import State

_SHOWN: Final = 6  # characters of what a device writes under


def names(state: State) -> dict[str, list[str]]:
    """By conflict, the device of each value; of several with one name, also the beginning of what it writes under."""
    found: dict[str, list[str]] = {}
    for dispute in disputes(state):
        devices = [state.devices.get(one.writer) or "unknown device" for one in dispute.writes]
        writers = {(name, one.writer) for name, one in zip(devices, dispute.writes, strict=True)}
        alike = Counter(name for name, _ in writers)
        found[dispute.id] = [
            f"{name} ({one.writer[:_SHOWN]})" if alike[name] > 1 and one.writer else name
            for name, one in zip(devices, dispute.writes, strict=True)
        ]
    return found
