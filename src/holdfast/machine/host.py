"""Identify the machine, the boot and the user: writers and processes are bound to them.

Ids are hashed before they leave this module, because a machine id identifies a person's computer everywhere and
belongs in no log. Nothing here fails: where a system has no such id, a weaker one is used.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from holdfast.machine.os_errors import explain

_HEX: Final = frozenset("0123456789abcdef")


def machine_id() -> str:
    """32 hex digits, the same on every start of this machine and different on every other."""
    import hashlib

    raw = _system_id() or _network_id()
    return hashlib.sha256(b"holdfast machine\0" + raw.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def boot_id() -> str:
    """An id of the current boot. One derived from the clock begins with `time:`, and may drift."""
    if sys.platform == "linux":
        boot = _first_line("/proc/sys/kernel/random/boot_id")
    elif sys.platform == "darwin":
        boot = _sysctl("kern.bootsessionuuid")
    else:
        boot = ""
    return boot.lower() or _boot_by_clock()


def pid_namespace() -> str:
    """The pid namespace of this process: pid 7 in a container is not pid 7 outside."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def device_name() -> str:
    """The host's name without its domain."""
    name = _host_name()
    short = name.partition(".")[0]
    # An IP address has no domain.
    return (name if short.isdecimal() else short) or "device"


def user_name() -> str:
    """The user by the system's records; on POSIX the environment, which can say anything, is not read."""
    try:
        import pwd
    except ImportError:
        import getpass

        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # depends on the version of Python
            return "user"
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())  # containers often run under ids without a name


def inode(path: str) -> int:
    """The inode of a file or directory: a copy or a restored backup has another."""
    try:
        number = os.stat(path).st_ino
    except (OSError, ValueError) as error:
        raise explain(error, "look at", path) from error
    return number & (2**63 - 1)  # ReFS has 128 bits, SQLite 64 with a sign


def _system_id() -> str:
    if sys.platform == "linux":
        for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
            machine = _first_line(path)
            if _is_id(machine):
                return machine
        return ""
    if sys.platform == "darwin":
        return _sysctl("kern.uuid")
    if sys.platform == "win32":
        return _machine_guid()
    return ""


def _is_id(text: str) -> bool:
    """Whether it is a real id: images contain an empty one, `uninitialized` or zeros until the first boot."""
    return len(text) == 32 and set(text) <= _HEX and set(text) != {"0"}


def _network_id() -> str:
    import uuid

    node = uuid.getnode()
    # Without a network card Python generates a random address each time, and marks it with this bit.
    made_up = node >> 40 & 1
    return _host_name() if made_up else f"{_host_name()}\0{node:012x}"


def _host_name() -> str:
    if sys.platform != "win32":
        return os.uname().nodename
    import socket

    try:
        return socket.gethostname()
    except OSError:
        return ""


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(256).decode("ascii", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    """A text value of the kernel (macOS)."""
    import ctypes

    try:
        library = ctypes.CDLL(None)
        buffer = ctypes.create_string_buffer(256)
        size = ctypes.c_size_t(len(buffer))
        failed = library.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError, TypeError):
        return ""
    return "" if failed else buffer.value.decode("ascii", "replace").strip()


def _machine_guid() -> str:
    if sys.platform == "win32":
        import winreg

        try:
            # The 64-bit view: a 32-bit Python would see another registry.
            flags = winreg.KEY_READ | winreg.KEY_WOW64_64KEY
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography", 0, flags) as key:
                return str(winreg.QueryValueEx(key, "MachineGuid")[0])
        except OSError:
            return ""
    return ""


def _boot_by_clock() -> str:
    # By name: on Linux, which does not need it, neither it nor its types are installed.
    from importlib import import_module

    try:
        psutil = import_module("psutil")
    except ImportError:
        return ""
    # To the minute: the clock is adjusted while the machine runs, and the difference moves with it.
    return f"time:{round(psutil.boot_time() / 60)}"
