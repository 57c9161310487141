"""Appends the counts of a run of the fault tests, for the documentation, to the file that HOLDFAST_FIGURES names."""

from __future__ import annotations

import json
import os
from typing import Final

_PATH: Final = os.environ.get("HOLDFAST_FIGURES")  # read now: tests clear the environment


def record_figures(**figures: object) -> None:
    if _PATH:
        with open(_PATH, "a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
