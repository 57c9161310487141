"""The order of what a state contains follows from its events alone."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from holdfast.core.registers import _add_clash
from holdfast.core.state import FieldConflict, State, Write
state = State("0")
_add_clash(state, FieldConflict("status", [Write("completed", "w", n, f"hash {n}", 0) for n in range(9)]))
print(list(state.clash_places))
"""


def test_places_of_conflicts_have_one_order_in_every_process() -> None:
    """Sets of texts have another order in each: a copy was called damaged for it."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": str(seed)}, capture_output=True, check=True
        ).stdout
        for seed in range(4)
    }
    assert len(outputs) == 1
