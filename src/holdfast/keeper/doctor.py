"""Check everything that can be wrong with a home, and repair what can be repaired.

Checking changes nothing and never fails: a check that cannot be made reports why. Repairing sets damage aside,
rebuilds from the log, and reports what could not be saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.conversations import checks as conversation_checks
from holdfast.core import agents
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.times import DAY
from holdfast.core.wording import count
from holdfast.formats.mirror import checks as mirror_checks
from holdfast.keeper import store_checks
from holdfast.machine import disk, files, host
from holdfast.machine.process import ProcessIdentity, liveness
from holdfast.sessions.start import ANNOUNCED
from holdfast.store.interface import Filter, Store
from holdfast.sync import checks as sync_checks
from holdfast.workspace import settings
from holdfast.workspace.followers import MAX_SHOWN, NOT_OPENED, NOTHING_STORED, REPAIR_COMMAND, Check
from holdfast.workspace.home import Binding

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

MIB = 1 << 20
_MAX_LINES = 6
_STORE_SUFFIXES = ("", "-wal", "-shm", "-journal")


CheckFunction = Callable[["Workspace", Store | None], Check]

# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────


def run_checks(ws: Workspace) -> list[Check]:
    """Every check, each once, in a fixed order."""
    store, opened = store_checks.check_opening(ws)
    checks = [_run_check("home", _check_home, ws, None), opened]
    if ws.address.path is not None:
        checks.append(_run_check("sqlite", store_checks.check_sqlite, ws, store))
    else:
        checks += store_checks.check_server(store)
    checks += store_checks.check_contents(ws, store, opened)
    unopened = store is None and opened.status == "failed"
    for name, run_check in _CHECKS:
        cannot_run = unopened and run_check in _NEED_STORE
        checks.append(
            Check(name, "warning", NOT_OPENED) if cannot_run else _run_check(name, run_check, ws, store, opened)
        )
    checks += sync_checks.remotes(ws, store)
    return checks


def _run_check(
    name: str, run_check: CheckFunction, ws: Workspace, store: Store | None, opened: Check | None = None
) -> Check:
    try:
        return run_check(ws, store)
    except Unreachable:
        if store is None:
            return Check(name, "warning", NOT_OPENED)
        return Check(name, "failed", "not checked: the server became unreachable")
    except HoldfastError as error:
        if store is None and opened is not None and error.message in opened.detail:
            return Check(name, "warning", NOT_OPENED)  # the check of the store reports why
        return Check(name, "failed", error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (the doctor must not crash)
        return Check(name, "failed", f"it could not be checked ({store_checks.unexpected(ws, error)})", None)


def _check_home(ws: Workspace, _: Store | None) -> Check:
    path = ws.home.path
    if not os.path.lexists(path):
        return Check("home", "ok", NOTHING_STORED)
    if not os.path.isdir(path):
        return Check("home", "failed", f"{path} is not a directory", "Move it away, or set HOLDFAST_HOME.")
    problem = disk.unsuitable_reason(path)
    if problem is not None:
        return Check("home", "warning", problem, "Move it to a local disk and set HOLDFAST_HOME.")
    return Check("home", "ok", path)


# ── the rest of the home ─────────────────────────────────────────────────────────────────────────────────


def _check_modes(ws: Workspace, _: Store | None) -> Check:
    loose = files.find_loose_modes(_own_paths(ws))
    if not loose:
        return Check("modes", "ok", "only you can read what Holdfast keeps")
    listed = "; ".join(f"{item.path} is {item.mode:04o}" for item in loose[:MAX_SHOWN])
    more = f"; and {len(loose) - MAX_SHOWN} more" if len(loose) > MAX_SHOWN else ""
    return Check("modes", "warning", f"other users can open private files: {listed}{more}", REPAIR_COMMAND)


def _own_paths(ws: Workspace) -> list[str]:
    """Everything in the home, and the store with what is next to it; links are left alone."""
    paths: list[str] = []
    if os.path.isdir(ws.home.path) and not os.path.islink(ws.home.path):
        paths.append(ws.home.path)
        for place, directories, names in os.walk(ws.home.path):
            paths += [os.path.join(place, name) for name in (*directories, *names)]
    store = ws.address.path
    if store is not None:
        quarantine = os.path.join(os.path.dirname(store), "aside")
        paths += [store + ending for ending in _STORE_SUFFIXES]
        if os.path.isdir(quarantine):
            paths += [quarantine, *(os.path.join(quarantine, name) for name in os.listdir(quarantine))]
    return sorted({path for path in paths if os.path.lexists(path) and not os.path.islink(path)})


def _check_starts(ws: Workspace, _: Store | None) -> Check:
    home = ws.home.path
    interrupted = [name for name in (os.listdir(home) if os.path.isdir(home) else ()) if name.startswith(ANNOUNCED)]
    if not interrupted:
        return Check("starts", "ok", "no interrupted start of a branch")
    detail = "several interrupted starts of a branch" if len(interrupted) > 1 else "an interrupted start of a branch"
    return Check(
        "starts",
        "warning",
        f"{detail} ({', '.join(sorted(interrupted)[:5])})",
        "The next holdfast start there undoes it.",
    )


def _check_temporaries(ws: Workspace, _: Store | None) -> Check:
    leftovers = _leftovers(ws)
    if not leftovers:
        return Check("temporaries", "ok", "no leftover temporary files")
    names = ", ".join(os.path.basename(path) for path in leftovers[:MAX_SHOWN])
    return Check(
        "temporaries",
        "warning",
        f"{count(len(leftovers), 'file')} of processes that were killed: {names}",
        REPAIR_COMMAND,
    )


def _leftovers(ws: Workspace) -> list[str]:
    return [path for place in ws.home.directories() for path in files.abandoned_temporaries(place, ws.now())]


def _check_clock(ws: Workspace, _: Store | None) -> Check:
    problem = ws.wall.problem()
    if problem is None:
        return Check("clock", "ok", "the clock of this machine is plausible")
    return Check("clock", "warning", problem, "Set the clock of this machine.")


def _check_space(ws: Workspace, _: Store | None) -> Check:
    # Even with a store on a server, the spool of hooks is here.
    free = disk.free_space(ws.address.path or ws.home.path)
    if free is None:
        return Check("space", "ok", "the system does not say how much space is left")
    detail = f"{free / MIB:,.0f} MiB are free" if free >= MIB else f"{free // 1024} KiB are free"
    if free >= 100 * MIB:
        return Check("space", "ok", detail)
    return Check("space", "warning" if free >= 10 * MIB else "failed", detail, f"Free some space at {ws.home.path}")


def _check_writer(ws: Workspace, store: Store | None) -> Check:
    path = ws.home.binding(ws.address.key)
    if store is None or not os.path.lexists(path):
        return Check("writer", "ok", "none yet: the first event creates one")
    try:
        bound = msgspec.json.decode(
            files.read_limited(path, 4096, subject="the writer's binding"), type=decodable(Binding)
        )
    except msgspec.MsgspecError:
        return Check("writer", "warning", f"{path} cannot be read: a new writer begins with the next event", None)
    file = ws.address.path
    current = (host.machine_id(), host.inode(ws.home.path), 0 if file is None else host.inode(file))
    if (bound.machine, bound.home, bound.store) == current:
        return Check("writer", "ok", f"writer {bound.writer[:8]} belongs to this machine and this home")
    return Check(
        "writer",
        "warning",
        "this home or its store was copied, moved or restored: a new writer begins with the next event",
    )


def _check_settings(ws: Workspace, _: Store | None) -> Check:
    problems = settings.load(ws.home.config, ws.place.root).problems
    if not problems:
        return Check("settings", "ok", "all settings can be read")
    own = any(error.file == ws.home.config for error in problems)
    detail = "; ".join(settings.describe_problem(error) for error in problems[:MAX_SHOWN])
    return Check("settings", "failed" if own else "warning", detail, problems[0].hint)


def _check_errors(ws: Workspace, _: Store | None) -> Check:
    path = os.path.join(ws.home.path, "errors.log")
    if not os.path.lexists(path) or not os.path.getsize(path):
        return Check("errors", "ok", "no unexpected errors")
    lines = files.read_limited(path, 64 * MIB, subject="the error log").decode(errors="backslashreplace").split("\n")
    # `check_hook_errors` reports the lines in JSON.
    plain_lines = [line for line in lines if line and not line.startswith("{")]
    if not plain_lines:
        return Check("errors", "ok", "no unexpected errors")
    last = " · ".join(plain_lines[-_MAX_LINES:])
    old = ws.now() - os.lstat(path).st_mtime_ns // 1_000_000 > 7 * DAY
    return Check(
        "errors", "ok" if old else "warning", f"{path} ends with: {last}", f"Please report it; then delete {path}"
    )


def _check_agents(_: Workspace, store: Store | None) -> Check:
    if store is None:
        return Check("agents", "ok", NOTHING_STORED)
    dead: list[str] = []
    for row in store.rows(Filter()):
        state = None if row.status in FINISHED else store.state(row.id)
        for agent in state.agents.values() if state is not None else ():
            process = agent.process
            if process is None or agents.status_of(agent) != "running":
                continue
            identity = ProcessIdentity(process.pid, process.started, process.boot, process.namespace, process.machine)
            if liveness(identity) == "dead":
                dead.append(f"{agent.id} (session {row.id[:8]})")
    if not dead:
        return Check("agents", "ok", "every running agent has a process")
    return Check(
        "agents",
        "warning",
        f"recorded as running, but ended without finishing: {', '.join(dead[:10])}",
        "holdfast resume",
    )


def _check_git(ws: Workspace, _: Store | None) -> Check:
    from shutil import which

    from holdfast.workspace.projects import observe

    program = which("git")
    if program is None:
        return Check("git", "warning", "git is not installed: projects are identified only by path",
                     "Install git.")  # fmt: skip
    notices: list[str] = []
    observe(ws.place, "", notices)
    if notices:
        return Check("git", "warning", notices[0], None)
    return Check("git", "ok", program)


_CHECKS: tuple[tuple[str, CheckFunction], ...] = (
    ("modes", _check_modes),
    ("temporaries", _check_temporaries),
    ("starts", _check_starts),
    ("clock", _check_clock),
    ("space", _check_space),
    ("writer", _check_writer),
    ("settings", _check_settings),
    ("errors", _check_errors),
    ("agents", _check_agents),
    ("git", _check_git),
    ("mirrors", mirror_checks.check_mirrors),
    ("contract", mirror_checks.check_contract),
    ("hooks", conversation_checks.check_hooks),
    ("spool", conversation_checks.check_spool),
    ("capture", conversation_checks.check_hook_errors),
    ("keys", sync_checks.keys),
)
_NEED_STORE = (_check_writer, _check_agents)

# ── repairing ────────────────────────────────────────────────────────────────────────────────────────────


def repair(ws: Workspace) -> list[str]:
    """Repair what can be; returns sentences about what was done and what could not be saved."""
    report = [*store_checks.repair(ws)]
    for step in (
        _tighten_modes,
        _remove_leftovers,
        mirror_checks.restore_contract,
        mirror_checks.settle_mirrors,
    ):
        try:
            report += step(ws)
        except (HoldfastError, OSError) as error:
            report.append(f"Not everything could be repaired: {error}.")
    return report


def _tighten_modes(ws: Workspace) -> Iterator[str]:
    for item in files.find_loose_modes(_own_paths(ws)):
        os.chmod(item.path, item.mode & item.expected)
        now = item.mode & item.expected
        yield f"Others could open {item.path} ({item.mode:04o}); now only you can ({now:04o})."


def _remove_leftovers(ws: Workspace) -> Iterator[str]:
    leftovers = _leftovers(ws)
    for path in leftovers:
        os.unlink(path)
    if leftovers:
        yield f"Removed {count(len(leftovers), 'temporary file')} that killed processes left behind."
