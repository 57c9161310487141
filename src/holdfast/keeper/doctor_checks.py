"""What the doctor says of one thing."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Status = Literal["ok", "warning", "failed"]
REPAIR: Final = "holdfast doctor --repair"


class Check(msgspec.Struct, frozen=True, gc=False):
    name: str
    status: Status
    detail: str
    fix: str | None = None
