"""Recognise a recorded process: whether it is still the same one, and still running.

A pid alone identifies nothing: systems reuse pids, containers have their own, and reboots start over. Only pid, start
time, boot, namespace and machine together identify a process.
"""

from __future__ import annotations

import os
import sys
from typing import Final, Literal, NamedTuple

from holdfast.machine import host

_MAX_ANCESTORS: Final = 64
_MAX_COMMAND_LINE_SIZE: Final = 64 << 10  # bytes of a command line
_DEAD: Final = frozenset("ZXx")  # it ended, but its parent has not waited for it


class ProcessIdentity(NamedTuple):
    """One process. `started` is empty where the system does not report it."""

    pid: int
    started: str
    boot: str
    namespace: str
    machine: str


class _Entry(NamedTuple):
    started: str
    dead: bool


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of process `pid`; None if there is none."""
    entry = _entry(pid)
    if entry is None:
        return None
    return ProcessIdentity(pid, entry.started, host.boot_id(), host.pid_namespace(), host.machine_id())


def name_of(pid: int) -> str:
    """The name of a process's program; empty if it cannot be read."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                return file.read(100).strip()
        except OSError:
            return ""
    from importlib import import_module

    try:
        psutil = import_module("psutil")
    except ImportError:
        return ""
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""


def command_line_of(pid: int) -> list[str]:
    """The command line of a process; empty if it cannot be read."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return [
                    word.decode(errors="replace") for word in file.read(_MAX_COMMAND_LINE_SIZE).split(b"\0") if word
                ]
        except OSError:
            return []
    from importlib import import_module

    try:
        psutil = import_module("psutil")
    except ImportError:
        return []
    try:
        return [str(word) for word in psutil.Process(pid).cmdline()]
    except psutil.Error:
        return []


def liveness(identity: ProcessIdentity) -> Literal["alive", "dead", "unknown"]:
    """Whether a process is alive, as far as can be known: unknown on another machine or in another namespace."""
    boot = host.boot_id()
    # Boot ids are random: the same boot implies the same machine, whose id need not be read.
    same_boot = identity.boot == boot and boot != "" and not boot.startswith("time:")
    if not same_boot and identity.machine != host.machine_id():
        return "unknown"
    # Boot first: no process outlives one, and namespaces are renumbered. A boot derived from the clock proves
    # nothing, because the clock may have been set; then the start time decides.
    if identity.boot and boot and identity.boot != boot and not boot.startswith("time:"):
        return "dead"
    if identity.namespace != host.pid_namespace():
        return "unknown"
    entry = _entry(identity.pid)
    if entry is None or entry.dead:
        return "dead"
    if not entry.started or not identity.started:
        return "unknown"
    return "alive" if entry.started == identity.started else "dead"


def _entry(pid: int) -> _Entry | None:
    if not 0 < pid < 2**31:
        return None
    if sys.platform == "linux":
        return _from_proc(pid) if _proc_is_ours() else _by_signal(pid)
    return _from_psutil(pid)


def _proc_is_ours() -> bool:
    """Whether /proc belongs to our pid namespace: a new one may still see the old /proc."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _from_proc(pid: int) -> _Entry | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return _by_signal(pid)  # hidden (hidepid), not dead
    # The second field is the name in parentheses, which may itself contain spaces and parentheses.
    fields = line[line.rfind(b")") + 1 :].split()
    if len(fields) < 20:
        return _by_signal(pid)
    return _Entry(started=fields[19].decode("ascii"), dead=fields[0].decode("ascii") in _DEAD)


def _by_signal(pid: int) -> _Entry | None:
    """Without /proc, only whether the pid exists. Not for Windows, where `os.kill` kills."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # another user's: it exists
    return _Entry(started="", dead=False)


def _from_psutil(pid: int) -> _Entry | None:
    from importlib import import_module

    try:
        psutil = import_module("psutil")
    except ImportError:
        return _Entry(started="", dead=False) if os.name == "nt" else _by_signal(pid)
    try:
        process = psutil.Process(pid)
        return _Entry(f"{process.create_time():.2f}", process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return _Entry(started="", dead=False)


def ancestors(pid: int) -> list[ProcessIdentity]:
    """The ancestors of a process, nearest first, as far as they are known."""
    identities: list[ProcessIdentity] = []
    parent = _parent(pid)
    while parent > 1 and len(identities) < _MAX_ANCESTORS and all(identity.pid != parent for identity in identities):
        identity = identify(parent)
        if identity is None:
            break
        identities.append(identity)
        parent = _parent(parent)
    return identities


def _parent(pid: int) -> int:
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                line = file.read()
            return int(line[line.rfind(b")") + 1 :].split()[1])
        except (OSError, ValueError, IndexError):
            return 0
    if pid == os.getpid():
        return os.getppid()
    from importlib import import_module

    try:
        psutil = import_module("psutil")
    except ImportError:
        return 0
    try:
        return int(psutil.Process(pid).ppid())
    except psutil.Error:
        return 0
