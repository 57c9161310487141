"""Standard input and output, taken for the protocol alone. Loaded before anything that might print.

The protocol gets descriptors of its own; whatever prints from then on (a library, a child process) writes to standard
error, and whatever reads finds the end.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class Wires(NamedTuple):
    """The descriptors of the protocol."""

    reads: int
    writes: int


def take() -> Wires:
    """Take standard input and output, and leave harmless ones in their place."""
    sys.stdout.flush()
    wires = Wires(_above_standard(0), _above_standard(1))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return wires


def _above_standard(descriptor: int) -> int:
    """A duplicate that no child inherits and that takes no standard number."""
    low: list[int] = []
    try:
        while (found := os.dup(descriptor)) <= 2:
            low.append(found)
    finally:
        for number in low:
            os.close(number)
    return found
