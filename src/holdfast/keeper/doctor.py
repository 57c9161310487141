"""The doctor: everything that can be wrong with a home, looked at and named; and what can be put right by itself.

Looking changes nothing and never fails: a check that cannot be made says so and why. Repairing sets damage aside,
rebuilds from the log, and says what could not be saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import agents
from holdfast.core.decoding import decodable
from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.times import DAY
from holdfast.keeper import doctor_capture, doctor_mirrors, doctor_store, doctor_teleport, settings
from holdfast.keeper.doctor_checks import NOTHING, REPAIR, SHOWN, UNOPENED, Check
from holdfast.keeper.home import Binding
from holdfast.keeper.starting import ANNOUNCED
from holdfast.keeper.wording import count
from holdfast.machine import disk, files, host
from holdfast.machine.process import Identity, fate
from holdfast.store.interface import Filter, Store

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

MIB = 1 << 20
_LINES = 6
_ENDINGS = ("", "-wal", "-shm", "-journal")


Look = Callable[["Keeper", Store | None], Check]

# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def examine(keeper: Keeper) -> list[Check]:
    """Every check, each once, in a fixed order."""
    store, opened = doctor_store.opened(keeper)
    checks = [_guarded("home", _home, keeper, None), opened]
    if keeper.address.path is not None:
        checks.append(_guarded("sqlite", doctor_store.sqlite, keeper, store))
    else:
        checks += doctor_store.server(store)
    checks += doctor_store.within(keeper, store, opened)
    unopened = store is None and opened.status == "failed"
    for name, look in _LOOKS:
        blind = unopened and look in _IN_THE_STORE
        checks.append(Check(name, "warning", UNOPENED) if blind else _guarded(name, look, keeper, store, opened))
    checks += doctor_teleport.remotes(keeper, store)
    return checks


def _guarded(name: str, look: Look, keeper: Keeper, store: Store | None, opened: Check | None = None) -> Check:
    try:
        return look(keeper, store)
    except Unreachable:
        if store is None:
            return Check(name, "warning", UNOPENED)
        return Check(name, "failed", "not checked: the server went away")
    except HoldfastError as error:
        if store is None and opened is not None and error.message in opened.detail:
            return Check(name, "warning", UNOPENED)  # the check of the store has told why
        return Check(name, "failed", error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (a doctor that falls over helps nobody)
        return Check(name, "failed", f"it could not be checked ({doctor_store.unexpected(keeper, error)})", None)


def _home(keeper: Keeper, _: Store | None) -> Check:
    path = keeper.home.path
    if not os.path.lexists(path):
        return Check("home", "ok", NOTHING)
    if not os.path.isdir(path):
        return Check("home", "failed", f"{path} is not a directory", "Move it away, or set HOLDFAST_HOME.")
    wrong = disk.unsuitable(path)
    if wrong is not None:
        return Check("home", "warning", wrong, "Move it to a local disk and set HOLDFAST_HOME.")
    return Check("home", "ok", path)


# ── the rest of the home ─────────────────────────────────────────────────────────────────────────────────


def _modes(keeper: Keeper, _: Store | None) -> Check:
    wide = files.modes(_ours(keeper))
    if not wide:
        return Check("modes", "ok", "only you can read what Holdfast keeps")
    told = "; ".join(f"{one.path} is {one.mode:04o}" for one in wide[:SHOWN])
    more = f"; and {len(wide) - SHOWN} more" if len(wide) > SHOWN else ""
    return Check("modes", "warning", f"others can open what should be yours alone: {told}{more}", REPAIR)


def _ours(keeper: Keeper) -> list[str]:
    """Everything in the home, and the store with what lies beside it; links are somebody's choice."""
    found: list[str] = []
    if os.path.isdir(keeper.home.path) and not os.path.islink(keeper.home.path):
        found.append(keeper.home.path)
        for place, directories, names in os.walk(keeper.home.path):
            found += [os.path.join(place, name) for name in (*directories, *names)]
    store = keeper.address.path
    if store is not None:
        beside = os.path.join(os.path.dirname(store), "aside")
        found += [store + ending for ending in _ENDINGS]
        if os.path.isdir(beside):
            found += [beside, *(os.path.join(beside, name) for name in os.listdir(beside))]
    return sorted({path for path in found if os.path.lexists(path) and not os.path.islink(path)})


def _starts(keeper: Keeper, _: Store | None) -> Check:
    home = keeper.home.path
    left = [name for name in (os.listdir(home) if os.path.isdir(home) else ()) if name.startswith(ANNOUNCED)]
    if not left:
        return Check("starts", "ok", "no start was interrupted")
    said = (
        "starts on a branch of their own were interrupted" if len(left) > 1 else "a start on a branch was interrupted"
    )
    return Check(
        "starts", "warning", f"{said} ({', '.join(sorted(left)[:5])})", "The next holdfast start there undoes it."
    )


def _temporaries(keeper: Keeper, _: Store | None) -> Check:
    left = _leftovers(keeper)
    if not left:
        return Check("temporaries", "ok", "no process left anything behind")
    names = ", ".join(os.path.basename(path) for path in left[:SHOWN])
    return Check(
        "temporaries", "warning", f"{count(len(left), 'file')} of processes that were killed: {names}", REPAIR
    )


def _leftovers(keeper: Keeper) -> list[str]:
    return [path for place in keeper.home.places() for path in files.abandoned(place, keeper.now())]


def _clock(keeper: Keeper, _: Store | None) -> Check:
    wrong = keeper.wall.trouble()
    if wrong is None:
        return Check("clock", "ok", "the clock of this machine is plausible")
    return Check("clock", "warning", wrong, "Set the clock of this machine.")


def _space(keeper: Keeper, _: Store | None) -> Check:
    # With a store on a server, what hooks hand over waits here all the same.
    free = disk.free_space(keeper.address.path or keeper.home.path)
    if free is None:
        return Check("space", "ok", "the system does not say how much room is left")
    said = f"{free / MIB:,.0f} MiB are free" if free >= MIB else f"{free // 1024} KiB are free"
    if free >= 100 * MIB:
        return Check("space", "ok", said)
    return Check("space", "warning" if free >= 10 * MIB else "failed", said, f"Free some space at {keeper.home.path}")


def _writer(keeper: Keeper, store: Store | None) -> Check:
    path = keeper.home.binding(keeper.address.key)
    if store is None or not os.path.lexists(path):
        return Check("writer", "ok", "none yet: the first event makes one")
    try:
        bound = msgspec.json.decode(
            files.read_limited(path, 4096, what="the writer's binding"), type=decodable(Binding)
        )
    except msgspec.MsgspecError:
        return Check("writer", "warning", f"{path} cannot be read: a new writer begins with the next event", None)
    file = keeper.address.path
    here = (host.machine_id(), host.inode(keeper.home.path), 0 if file is None else host.inode(file))
    if (bound.machine, bound.home, bound.store) == here:
        return Check("writer", "ok", f"writer {bound.writer[:8]} belongs to this machine and this home")
    return Check(
        "writer",
        "warning",
        "this home or its store was copied, moved or restored: a new writer begins with the next event",
    )


def _settings(keeper: Keeper, _: Store | None) -> Check:
    problems = settings.load(keeper.home.config, keeper.place.root).problems
    if not problems:
        return Check("settings", "ok", "all settings can be read")
    own = any(error.file == keeper.home.config for error in problems)
    told = "; ".join(settings.described(error) for error in problems[:SHOWN])
    return Check("settings", "failed" if own else "warning", told, problems[0].hint)


def _errors(keeper: Keeper, _: Store | None) -> Check:
    path = os.path.join(keeper.home.path, "errors.log")
    if not os.path.lexists(path) or not os.path.getsize(path):
        return Check("errors", "ok", "nothing unexpected happened")
    lines = files.read_limited(path, 64 * MIB, what="the error log").decode(errors="backslashreplace").split("\n")
    ours = [line for line in lines if line and not line.startswith("{")]  # the others are told by `doctor_capture`
    if not ours:
        return Check("errors", "ok", "nothing unexpected happened")
    last = " · ".join(ours[-_LINES:])
    old = keeper.now() - os.lstat(path).st_mtime_ns // 1_000_000 > 7 * DAY
    return Check(
        "errors", "ok" if old else "warning", f"{path} ends with: {last}", f"Please report it; then delete {path}"
    )


def _agents(_: Keeper, store: Store | None) -> Check:
    if store is None:
        return Check("agents", "ok", NOTHING)
    gone: list[str] = []
    for row in store.rows(Filter()):
        state = None if row.status in FINISHED else store.state(row.id)
        for agent in state.agents.values() if state is not None else ():
            process = agent.process
            if process is None or agents.status_of(agent) != "running":
                continue
            who = Identity(process.pid, process.started, process.boot, process.namespace, process.machine)
            if fate(who) == "gone":
                gone.append(f"{agent.id} (session {row.id[:8]})")
    if not gone:
        return Check("agents", "ok", "every agent at work has its process")
    return Check("agents", "warning", f"recorded as running, but gone: {', '.join(gone[:10])}", "holdfast resume")


def _git(keeper: Keeper, _: Store | None) -> Check:
    from shutil import which

    from holdfast.keeper.projects import observe

    found = which("git")
    if found is None:
        return Check("git", "warning", "there is no git: branches and projects are known by their path alone",
                     "Install git.")  # fmt: skip
    notices: list[str] = []
    observe(keeper.place, "", notices)
    if notices:
        return Check("git", "warning", notices[0], None)
    return Check("git", "ok", found)


_LOOKS: tuple[tuple[str, Look], ...] = (
    ("modes", _modes),
    ("temporaries", _temporaries),
    ("starts", _starts),
    ("clock", _clock),
    ("space", _space),
    ("writer", _writer),
    ("settings", _settings),
    ("errors", _errors),
    ("agents", _agents),
    ("git", _git),
    ("mirrors", doctor_mirrors.mirrors),
    ("contract", doctor_mirrors.contract),
    ("hooks", doctor_capture.hooks),
    ("spool", doctor_capture.waiting),
    ("capture", doctor_capture.troubles),
    ("keys", doctor_teleport.keys),
)
_IN_THE_STORE = (_writer, _agents)

# ── repairing ────────────────────────────────────────────────────────────────────────────────────────────


def repair(keeper: Keeper) -> list[str]:
    """Put right what can be; sentences say what was done and what could not be saved."""
    said = [*doctor_store.repair(keeper)]
    for step in (
        _close_modes,
        _remove_leftovers,
        doctor_mirrors.restore_contract,
        doctor_mirrors.settle_mirrors,
    ):
        try:
            said += step(keeper)
        except (HoldfastError, OSError) as error:
            said.append(f"Not everything could be tidied up: {error}.")
    return said


def _close_modes(keeper: Keeper) -> Iterator[str]:
    for one in files.modes(_ours(keeper)):
        os.chmod(one.path, one.mode & one.wanted)
        yield f"{one.path} was open to others ({one.mode:04o}) and is yours alone now ({one.mode & one.wanted:04o})."


def _remove_leftovers(keeper: Keeper) -> Iterator[str]:
    left = _leftovers(keeper)
    for path in left:
        os.unlink(path)
    if left:
        yield f"{count(len(left), 'temporary file')} that killed processes left behind: removed."
