"""What the doctor says of one thing."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Status = Literal["ok", "warning", "failed"]
NOTHING: Final = "nothing kept yet"
UNOPENED: Final = "not checked: the store cannot be opened"
SHOWN: Final = 3  # of what is wrong: more helps nobody
REPAIR: Final = "holdfast doctor --repair"
COPIED: Final = (
    "Nothing is lost, and nothing has to be done about it. If two machines use copies of one home: on one of them"
    " move device.json and remotes.json out of the home, and add the remote anew."
)


class Check(msgspec.Struct, frozen=True, gc=False):
    name: str
    status: Status
    detail: str
    fix: str | None = None
