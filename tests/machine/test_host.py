"""Which machine, boot and user this is, on the real system and with its sources missing."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest

from holdfast.core.errors import NotFound
from holdfast.machine import host

if TYPE_CHECKING:
    from pathlib import Path

linux = pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux tells it")


def in_another_process(expression: str) -> str:
    script = f"from holdfast.machine import host; print({expression})"
    bare = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=bare
    ).stdout.strip()


def test_a_machine_has_one_id() -> None:
    """Every process of this machine computes the same 32 hex digits, without the environment's help."""
    found = host.machine_id()
    assert len(found) == 32
    assert set(found) <= set("0123456789abcdef")
    assert in_another_process("host.machine_id()") == found


def test_a_boot_has_one_id() -> None:
    """Every process since the last start of the machine computes the same."""
    assert host.boot_id()
    assert in_another_process("host.boot_id()") == host.boot_id()


@linux
def test_the_machines_own_id_does_not_leave() -> None:
    """What /etc/machine-id says is hashed: it identifies a computer everywhere."""
    raw = host._system_id()
    assert raw == "" or raw not in host.machine_id()


def with_lines(monkeypatch: pytest.MonkeyPatch, lines: dict[str, str]) -> None:
    monkeypatch.setattr(host, "_first_line", lambda path: lines.get(path, ""))


ONE, TWO = "1" * 32, "2" * 32


@linux
@pytest.mark.parametrize("useless", ["", "uninitialized", "0" * 32, "12", "g" * 32])
def test_a_useless_machine_id_is_passed_over(monkeypatch: pytest.MonkeyPatch, useless: str) -> None:
    """Images ship without a real one; then the other place counts."""
    with_lines(monkeypatch, {"/etc/machine-id": useless, "/var/lib/dbus/machine-id": TWO})
    assert host._system_id() == TWO


@linux
def test_machines_with_other_ids_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine-id gives another id."""
    with_lines(monkeypatch, {"/etc/machine-id": ONE})
    first = host.machine_id()
    with_lines(monkeypatch, {"/etc/machine-id": TWO})
    assert host.machine_id() != first


@linux
def test_without_any_machine_id_host_and_card_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host name or another network card is another machine."""
    with_lines(monkeypatch, {})
    seen = set()
    for name, card in (("one", 0x0242AC110002), ("two", 0x0242AC110002), ("one", 0x0242AC110003)):
        monkeypatch.setattr(host, "_host_name", lambda name=name: name)
        monkeypatch.setattr("uuid.getnode", lambda card=card: card)
        seen.add(host.machine_id())
    assert len(seen) == 3


@linux
def test_a_made_up_network_card_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a card Python invents a number, another one in each process: it must not change the id."""
    with_lines(monkeypatch, {})
    monkeypatch.setattr("uuid.getnode", lambda: 0x010000000001)
    first = host.machine_id()
    monkeypatch.setattr("uuid.getnode", lambda: 0x010000000002)
    assert host.machine_id() == first


@linux
def test_boot_id_comes_from_the_clock_when_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is marked as such, because a clock can be set; without psutil it stays empty."""
    with_lines(monkeypatch, {})
    stand_in = types.ModuleType("psutil")
    monkeypatch.setattr(stand_in, "boot_time", lambda: 1_800_000_029.0, raising=False)
    monkeypatch.setitem(sys.modules, "psutil", stand_in)
    assert host.boot_id() == "time:30000000"
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert host.boot_id() == ""


@linux
def test_the_pid_namespace_is_that_of_proc() -> None:
    """Ours is the one the kernel shows, also for our children."""
    assert host.pid_namespace() == os.readlink("/proc/self/ns/pid")
    assert in_another_process("host.pid_namespace()") == host.pid_namespace()


def test_without_namespaces_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, all processes share the empty one."""

    def missing(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", missing)
    assert host.pid_namespace() == ""


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("laptop", "laptop"),
        ("laptop.example.org", "laptop"),
        ("Annas-MacBook.local", "Annas-MacBook"),
        ("192.168.1.7", "192.168.1.7"),
        ("", "device"),
        (".local", "device"),
    ],
)
def test_a_device_is_named_by_its_host_without_domain(monkeypatch: pytest.MonkeyPatch, full: str, short: str) -> None:
    """Short, never empty, and an address stays whole."""
    monkeypatch.setattr(host, "_host_name", lambda: full)
    assert host.device_name() == short


def test_the_user_is_who_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment can say anything and is not asked."""
    import pwd

    for name in ("USER", "LOGNAME", "USERNAME", "LNAME"):
        monkeypatch.setenv(name, "somebody-else")
    try:
        expected = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        expected = str(os.geteuid())
    assert host.user_name() == expected


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that no list knows."""

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert host.user_name() == str(os.geteuid())


def test_without_a_user_list_python_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no pwd; and should nobody know, there is still a word."""
    monkeypatch.setitem(sys.modules, "pwd", None)
    monkeypatch.setattr("getpass.getuser", lambda: "anna")
    assert host.user_name() == "anna"

    def unknown() -> str:
        raise OSError("no user")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert host.user_name() == "user"


def test_an_inode_names_the_directory_itself(tmp_path: Path) -> None:
    """The same after a rename, another for a copy, and it fits SQLite's integers."""
    (tmp_path / "a").mkdir()
    first = host.inode(str(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    assert host.inode(str(tmp_path / "b")) != first
    os.rename(tmp_path / "a", tmp_path / "c")
    assert host.inode(str(tmp_path / "c")) == first
    assert 0 <= first < 2**63


def test_a_missing_path_has_no_inode(tmp_path: Path) -> None:
    """That is a typed error."""
    with pytest.raises(NotFound):
        host.inode(str(tmp_path / "missing"))


def test_unreadable_sources_are_empty(tmp_path: Path) -> None:
    """Missing files, directories and binary rubbish never fail."""
    (tmp_path / "file").write_bytes(b"\xff\xfe  one \ntwo")
    assert host._first_line(str(tmp_path / "missing")) == ""
    assert host._first_line(str(tmp_path)) == ""
    assert host._first_line(str(tmp_path / "file")).endswith("one")
    assert host._sysctl("kern.nothing.of.that.name") == ""
