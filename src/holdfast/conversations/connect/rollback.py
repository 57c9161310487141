"""Make connecting all or nothing, as far as a disk allows: obstacles are found first, and a failure is undone."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.conversations.connect import file_plan
from holdfast.conversations.connect.file_plan import FilePlan
from holdfast.conversations.connect.registry import AgentConnection, Connections
from holdfast.core.errors import Failed, HoldfastError
from holdfast.machine import files


class Begun(NamedTuple):
    """An agent whose files are being written: all of them, and what was remembered of it before."""

    connection: AgentConnection
    was: AgentConnection | None
    planned: list[FilePlan]


def refuse_unwritable(planned: Iterable[FilePlan]) -> None:
    """See to it that each file can be written, as far as that shows from outside."""
    for step in planned:
        if step.change != "unchanged":
            _refuse(step.kept.path, step.target)


def _refuse(path: str, target: str) -> None:
    try:
        info = os.stat(path)
    except FileNotFoundError:
        info = None
    except OSError as error:  # links in a circle, a file where a directory has to be
        raise files.explain(error, "write", path) from error
    above = os.path.dirname(target)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise _unwritable(path, f"{files.display_path(above)} is not a directory")
    if not os.access(above, os.W_OK | os.X_OK):
        raise _unwritable(path, f"nothing can be written in {files.display_path(above)}")
    if info is not None and _is_protected(path, info):
        raise _unwritable(path, "the system protects it against changes")


def _is_protected(path: str, info: os.stat_result) -> bool:
    """Whether a file refuses its owner though its mode does not. One that is merely read-only is replaced."""
    if sys.platform == "win32":
        return False
    may = os.geteuid() in (0, info.st_uid) and info.st_mode & stat.S_IWUSR
    return bool(may) and not os.access(path, os.W_OK)


def _unwritable(path: str, why: str) -> Failed:
    return Failed(
        f"cannot write {files.display_path(path)}: {why}",
        hint="Put that right, then try again; nothing was changed.",
        operation="write",
        file=path,
    )


def take_back(memory: Connections, begun: list[Begun], error: HoldfastError | OSError, *, now: int) -> HoldfastError:
    """Undo what was written until something failed; gives what failed, with what stands where."""
    told = error if isinstance(error, HoldfastError) else files.explain(error, "write", error.filename or "")
    left: list[str] = []
    agents: list[str] = []
    for item in reversed(begun):
        stuck = [step.kept.path for step in reversed(item.planned) if not _is_back(step, now)]
        left += stuck
        if stuck:
            agents.append(item.connection.agent)
            continue
        with contextlib.suppress(HoldfastError, OSError):
            if item.was is None:
                memory.forget(item.connection)
            else:
                memory.remember(item.was)
    if left:
        names = " ".join(reversed(agents))
        words = (
            f"What Holdfast wrote still stands in {', '.join(map(files.display_path, left))}: put this right, then "
            f"holdfast connect {names} finishes it, or holdfast disconnect {names} takes it out."
        )
    else:
        words = "Put that right, then connect again; what was written before is taken back, so nothing is changed."
    told.hint = words if told.hint is None else f"{told.hint} {words}"
    return told


def _is_back(step: FilePlan, now: int) -> bool:
    """Whether a file is (again) what it was, or holds nothing of ours."""
    if step.change == "unchanged":
        return True
    try:
        stands = file_plan.current(step.kept.path, step.project)
        if stands == step.before:
            file_plan.unmake(step.kept.made if stands is None else ())
            return True
        if stands != step.after:
            return stands is None or b"holdfast" not in stands.lower()  # somebody wrote there in the meantime
        back = step._replace(change="edited", before=step.after, after=step.before, executable=False)
        file_plan.carry_out(back, now=now)
    except (HoldfastError, OSError):
        return False
    return True
