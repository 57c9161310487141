"""`holdfast conflicts [ID]`: what devices said without knowing of each other, and which of it stands."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted
from holdfast.core.canonical import Json
from holdfast.core.wording import percent
from holdfast.sessions.conflicts import Disagreement, Side, disputed, worked_on

_MOST_TOLD = 3


def run(call: Call) -> None:
    reference = call.parsed.text("id")
    session = call.keeper.session(worked_on(call.keeper, reference, at=call.at))
    found = session.conflicts(at=call.at)
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    call.answer(
        {
            "session": session.id,
            "conflicts": [disagreement.conflict for disagreement in found],
            "sides": [
                {"conflict": disagreement.conflict.id, "stands": disagreement.stands,
                 "values": [None if side is None else side._asdict() for side in disagreement.sides]}
                for disagreement in found
            ],
        },
        lambda paint: _all(paint, found, clock) if found else paint.plain("No conflicts."),
    )  # fmt: skip
    left = next((disagreement.conflict.id for disagreement in found if disagreement.conflict.chosen is None), None)
    if left is not None:
        current = call.keeper.current(at=call.at) if reference is None else None
        which = "" if current is not None else f" {session.id[:8]}"
        call.note(f"Choose with: holdfast resolve {left} --take N{which}. To go on separately: holdfast fork{which}")
    elif reference is None and call.at is None and not call.json:
        others = [f"holdfast conflicts {name[:8]}" for name in disputed(call.keeper)[:_MOST_TOLD]]
        if others:
            call.note(f"Open in other sessions: {', '.join(others)}")


def _all(paint: Paint, found: Sequence[Disagreement], clock: Clock) -> Painted:
    return Painted("\n\n".join(str(_one(paint, disagreement, clock)) for disagreement in found))


def _one(paint: Paint, found: Disagreement, clock: Clock) -> Painted:
    conflict = found.conflict
    word = paint.red("open") if conflict.chosen is None else paint.green("settled")
    lines: list[str] = [paint.cut(paint.join(paint.bold(conflict.id), "  ", conflict.field, "  ", word), paint.width)]
    of_each = zip(conflict.values, found.sides, found.devices, strict=True)
    for number, (item, side, device) in enumerate(of_each, start=1):
        mark = ("stands" if conflict.chosen is None else "chosen") if number == found.stands else ""
        source = f"{device}, {clock.ago(item.at)}" + (_side(side) if side else "")
        lines.append(
            paint.cut(paint.join(f"  {number}. {spelled(item.value)}", paint.green(f"  {mark}" if mark else "")),
                      paint.width)
        )  # fmt: skip
        lines.append(paint.cut(paint.join("     ", paint.dim(source)), paint.width))
    return Painted("\n".join(lines))


def _side(side: Side) -> str:
    at_work = f", {', '.join(side.agents)} at work" if side.agents else ""
    return f", {percent(side.progress)} done there{at_work}"


def spelled(value: Json) -> str:
    """A value in a line."""
    return " ".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()
