"""Whether a process that was recorded once is still the same process, still running.

A number alone says nothing: the system gives it out again, another container has its own, and after a
reboot all start anew. Only number, start time, boot, namespace and machine together name one process.
"""

from __future__ import annotations

import os
import sys
from typing import Final, Literal, NamedTuple

from holdfast.machine import host

_MOST_ANCESTORS: Final = 64
_LONGEST_WORDS: Final = 64 << 10  # bytes of a command line
_DEAD: Final = frozenset("ZXx")  # it ended, and only its parent's attention is missing


class ProcessIdentity(NamedTuple):
    """One life of one process. An empty `started` means that this system would not say."""

    pid: int
    started: str
    boot: str
    namespace: str
    machine: str


class _Entry(NamedTuple):
    started: str
    dead: bool


def identify(pid: int) -> ProcessIdentity | None:
    """Who process `pid` is right now; None when there is none."""
    entry = _entry(pid)
    if entry is None:
        return None
    return ProcessIdentity(pid, entry.started, host.boot_id(), host.pid_namespace(), host.machine_id())


def name_of(pid: int) -> str:
    """What the program of a process is called; empty when that cannot be seen."""
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
    """The command line of a process; nothing when that cannot be seen."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return [word.decode(errors="replace") for word in file.read(_LONGEST_WORDS).split(b"\0") if word]
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


def fate(identity: ProcessIdentity) -> Literal["alive", "dead", "unknown"]:
    """What became of it, as far as can be known from here: elsewhere than where it ran, nothing can."""
    boot = host.boot_id()
    # The id of a boot is random: who shares it shares the machine, and the machine's own id need not be asked for.
    here = identity.boot == boot and boot != "" and not boot.startswith("time:")
    if not here and identity.machine != host.machine_id():
        return "unknown"
    # Boot first: namespaces are numbered anew with every boot, and nothing outlives one. A boot known only
    # by the clock proves nothing, because the clock may have been set; the start time decides then.
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
    """A new pid namespace may still see the old /proc, where our numbers mean other processes."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _from_proc(pid: int) -> _Entry | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return _by_signal(pid)  # hidden (hidepid) is not gone
    # The name comes second, in parentheses, and may itself hold spaces and parentheses.
    fields = line[line.rfind(b")") + 1 :].split()
    if len(fields) < 20:
        return _by_signal(pid)
    return _Entry(started=fields[19].decode("ascii"), dead=fields[0].decode("ascii") in _DEAD)


def _by_signal(pid: int) -> _Entry | None:
    """All that can be said without /proc: whether the number is taken. Never used on Windows, where it kills."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # somebody else's: it exists
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
    """The processes that a process was started by, the nearest first, as far as this system tells."""
    found: list[ProcessIdentity] = []
    above = _parent(pid)
    while above > 1 and len(found) < _MOST_ANCESTORS and all(identity.pid != above for identity in found):
        identity = identify(above)
        if identity is None:
            break
        found.append(identity)
        above = _parent(above)
    return found


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
