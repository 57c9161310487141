"""The names of this format: what is an id, the reminders' flags, and the limit's own words. No types, no schema:
rendering needs nothing more.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

# How the text's example marks the pause that the limit of working time forces.
TIMEOUT: Final = "Timeout enforced at 90 min working time"
# The flags of the file, and the lines of working time they stand for, in minutes.
REMINDERS: Final = (
    ("break40min", "break_40", 40),
    ("warning60min", "warning_60", 60),
    ("timeout90min", "timeout_90", 90),
)

_ID: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})-.+\Z")


def is_id(name: str) -> bool:
    """A day that the calendar has, a dash, and something more."""
    match = _ID.match(name)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True
