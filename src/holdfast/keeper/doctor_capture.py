"""The doctor's look at what agents tell: whether their hooks are heard, and whether what they said was understood."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.capture import script, spool
from holdfast.core.errors import HoldfastError
from holdfast.core.times import DAY, HOUR, text
from holdfast.keeper.doctor_checks import Check
from holdfast.keeper.wording import count, one_line
from holdfast.machine import errorlog

if TYPE_CHECKING:
    from holdfast.keeper.captures.connections import Connection
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store

_SHOWN = 3


def hooks(keeper: Keeper, _: Store | None) -> Check:
    """Connected agents: their entries, the script these call, and what keeps agents from calling it."""
    from holdfast.keeper.captures.connecting import stands
    from holdfast.keeper.captures.connections import Connections

    remembered = Connections(keeper.home.path).all()
    standing = [one for one in remembered if stands(keeper.home.path, one)]
    names = sorted({one.agent for one in standing})
    lost = [one for one in remembered if one not in standing and _could_stand(one)]
    if lost:
        gone = ", ".join(sorted({one.agent for one in lost}))
        return Check("hooks", "warning", f"connected once, but the hooks are gone from its settings: {gone}",
                     _fix(lost) + "; or holdfast disconnect, if that is meant")  # fmt: skip
    if standing:
        wrong = _script(keeper)
        if wrong is not None:
            return Check("hooks", "warning", wrong, _fix(standing))
    left, hindered = _around(keeper)
    if left:
        return Check("hooks", "warning", "; ".join(left[:_SHOWN]),
                     "They do nothing; holdfast disconnect AGENT takes them out.")  # fmt: skip
    if hindered:
        return Check(
            "hooks", "warning", " ".join(hindered[:_SHOWN]), "holdfast agents shows all that stands in the way"
        )
    if not names:
        return Check("hooks", "ok", "no agent is connected")
    return Check("hooks", "ok", f"{', '.join(names)} can be heard")


def _could_stand(connection: Connection) -> bool:
    """Whether the place of a connection is still there: a project that was deleted misses nothing."""
    return connection.project is None or os.path.isdir(connection.project)


def _fix(connections: list[Connection]) -> str:
    names = " ".join(sorted({one.agent for one in connections}))
    return f"holdfast connect {names}" + (" --scope project" if all(one.project for one in connections) else "")


def _script(keeper: Keeper) -> str | None:
    """What is wrong with the script that hooks call."""
    import sys

    from holdfast.keeper.captures import installing

    home = keeper.home.path
    name = script.WINDOWS_SCRIPT if sys.platform == "win32" else script.SCRIPT
    path = os.path.join(home, script.DIRECTORY, name)
    if not os.path.isfile(path):
        return f"the hooks call {path}, which is gone: nothing is heard"
    if not installing.is_current(home, system=sys.platform):
        return f"{path} was made for another Python or another version of Holdfast than this one"
    return None


def _around(keeper: Keeper) -> tuple[list[str], list[str]]:
    """Hooks of a Holdfast that is not this one, and what stands in the way: as far as we know where to look."""
    from holdfast.capture.registry import NAMES
    from holdfast.keeper.captures import found

    left: list[str] = []
    hindered: list[str] = []
    if keeper.places is None:
        return left, hindered
    for name in NAMES:
        try:
            one = found.look(keeper, keeper.places, name)
        except (HoldfastError, ImportError):
            continue
        left += [
            f"{other.path} has hooks of a Holdfast that is gone ({other.home})"
            for other in one.leftovers
            if other.gone
        ]
        if one.connected is not None:
            hindered += one.obstacles
    return list(dict.fromkeys(left)), list(dict.fromkeys(hindered))


def waiting(keeper: Keeper, _: Store | None) -> Check:
    """Payloads that wait for somebody to take them in, or that nobody understood."""
    home = keeper.home.path
    unread = spool.unread(home)
    if unread:
        place = os.path.join(home, spool.DIRECTORY, spool.UNREAD)
        return Check("spool", "warning", f"nothing could be made of {count(len(unread), 'payload')} of agents",
                     f"Please report what is in {place}, then delete it.")  # fmt: skip
    found = spool.waiting(home)
    old = [one for one in found if keeper.now() - one.at // 1_000_000 > HOUR]
    if old:
        return Check("spool", "warning", f"{count(len(old), 'payload')} of agents waited for more than an hour",
                     "holdfast status takes them in; look at the check named capture if they stay.")  # fmt: skip
    if found:
        return Check("spool", "ok", f"{count(len(found), 'payload')} of agents will be taken in next")
    return Check("spool", "ok", "everything agents told is recorded")


def troubles(keeper: Keeper, _: Store | None) -> Check:
    """What went wrong in hooks, where nobody could be told."""
    lines = errorlog.lines(keeper.home.path, keeper.now() - 7 * DAY)
    if not lines:
        return Check("capture", "ok", "no hook had any trouble in the last seven days")
    told = "; ".join(_told(line) for line in lines[-_SHOWN:])
    more = f" (the last of {len(lines):,})" if len(lines) > _SHOWN else ""
    path = os.path.join(keeper.home.path, errorlog.NAME)
    return Check("capture", "warning", f"{told}{more}", f"All of it is in {path}; please report what stays.")


def _told(line: dict[str, object]) -> str:
    at = line.get("at")
    when = f"{text(at)[:16]}Z " if isinstance(at, int) and 0 <= at < 253402300800000 else ""
    return f"{when}{one_line(str(line.get('where', '')))}: {one_line(str(line.get('message', '')))}"
