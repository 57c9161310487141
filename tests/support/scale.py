"""How thorough the fault tests are: a fast sample, or with `make torture` the counts of docs/reliability.md."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "HOLDFAST_TORTURE"


def scale(sample: int, pr: int, night: int) -> int:
    """The count for this run: `sample` by default, `pr` or `night` as HOLDFAST_TORTURE says."""
    chosen = os.environ.get(VARIABLE, "")
    counts = {"": sample, "sample": sample, "pr": pr, "night": night}
    if chosen not in counts:
        message = f"{VARIABLE} is {chosen!r}: use pr, night, or leave it unset for the sample"
        raise ValueError(message)
    return counts[chosen]
