"""Reserve standard input and output for the protocol. Loaded before anything that might print.

The protocol gets separate descriptors. Whatever prints later (a library, a child process) writes to standard error,
and whatever reads finds the end of input.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class Descriptors(NamedTuple):
    """The descriptors of the protocol."""

    reads: int
    writes: int


def take_over_standard_streams() -> Descriptors:
    """Take standard input and output, and put harmless ones in their place."""
    sys.stdout.flush()
    descriptors = Descriptors(_above_standard(0), _above_standard(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return descriptors


def _above_standard(descriptor: int) -> int:
    """A duplicate above the standard numbers, which no child inherits."""
    standard: list[int] = []
    try:
        while (copy := os.dup(descriptor)) <= 2:
            standard.append(copy)
    finally:
        for number in standard:
            os.close(number)
    return copy
