"""Ids of machine, boot and user, on the real system and with their sources missing."""

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


def test_machine_id_is_the_same_in_every_process() -> None:
    """32 hex digits, independent of the environment."""
    ids = host.machine_id()
    assert len(ids) == 32
    assert set(ids) <= set("0123456789abcdef")
    assert in_another_process("host.machine_id()") == ids


def test_boot_id_is_the_same_in_every_process() -> None:
    assert host.boot_id()
    assert in_another_process("host.boot_id()") == host.boot_id()


@linux
def test_machine_id_is_a_hash_of_the_systems() -> None:
    """/etc/machine-id identifies a computer everywhere."""
    raw = host._system_id()
    assert raw == "" or raw not in host.machine_id()


def with_lines(monkeypatch: pytest.MonkeyPatch, lines: dict[str, str]) -> None:
    monkeypatch.setattr(host, "_first_line", lambda path: lines.get(path, ""))


ONE, TWO = "1" * 32, "2" * 32


@linux
@pytest.mark.parametrize("useless", ["", "uninitialized", "0" * 32, "12", "g" * 32])
def test_useless_machine_id_is_skipped(monkeypatch: pytest.MonkeyPatch, useless: str) -> None:
    """Images ship without a real one; then the other file counts."""
    with_lines(monkeypatch, {"/etc/machine-id": useless, "/var/lib/dbus/machine-id": TWO})
    assert host._system_id() == TWO


@linux
def test_machine_id_differs_with_the_systems_id(monkeypatch: pytest.MonkeyPatch) -> None:
    with_lines(monkeypatch, {"/etc/machine-id": ONE})
    first = host.machine_id()
    with_lines(monkeypatch, {"/etc/machine-id": TWO})
    assert host.machine_id() != first


@linux
def test_machine_id_is_made_from_host_and_network_card_without_a_system_id(monkeypatch: pytest.MonkeyPatch) -> None:
    with_lines(monkeypatch, {})
    seen = set()
    for name, card in (("one", 0x0242AC110002), ("two", 0x0242AC110002), ("one", 0x0242AC110003)):
        monkeypatch.setattr(host, "_host_name", lambda name=name: name)
        monkeypatch.setattr("uuid.getnode", lambda card=card: card)
        seen.add(host.machine_id())
    assert len(seen) == 3


@linux
def test_random_network_card_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a card Python invents a number in each process."""
    with_lines(monkeypatch, {})
    monkeypatch.setattr("uuid.getnode", lambda: 0x010000000001)
    first = host.machine_id()
    monkeypatch.setattr("uuid.getnode", lambda: 0x010000000002)
    assert host.machine_id() == first


@linux
def test_boot_id_comes_from_the_clock_when_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked as such, since a clock can be set; without psutil it is empty."""
    with_lines(monkeypatch, {})
    stand_in = types.ModuleType("psutil")
    monkeypatch.setattr(stand_in, "boot_time", lambda: 1_800_000_029.0, raising=False)
    monkeypatch.setitem(sys.modules, "psutil", stand_in)
    assert host.boot_id() == "time:30000000"
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert host.boot_id() == ""


@linux
def test_pid_namespace_is_the_one_in_proc() -> None:
    """The same in child processes."""
    assert host.pid_namespace() == os.readlink("/proc/self/ns/pid")
    assert in_another_process("host.pid_namespace()") == host.pid_namespace()


def test_pid_namespace_is_empty_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_device_name_is_the_host_name_without_domain(monkeypatch: pytest.MonkeyPatch, full: str, short: str) -> None:
    """Never empty; an address is kept whole."""
    monkeypatch.setattr(host, "_host_name", lambda: full)
    assert host.device_name() == short


def test_user_name_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the environment."""
    import pwd

    for name in ("USER", "LOGNAME", "USERNAME", "LNAME"):
        monkeypatch.setenv(name, "somebody-else")
    try:
        expected = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        expected = str(os.geteuid())
    assert host.user_name() == expected


def test_user_name_is_the_number_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers."""

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert host.user_name() == str(os.geteuid())


def test_user_name_comes_from_python_without_pwd(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows; if that fails too, it is still not empty."""
    monkeypatch.setitem(sys.modules, "pwd", None)
    monkeypatch.setattr("getpass.getuser", lambda: "anna")
    assert host.user_name() == "anna"

    def unknown() -> str:
        raise OSError("no user")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert host.user_name() == "user"


def test_inode_identifies_the_directory(tmp_path: Path) -> None:
    """The same after a rename, another for a copy; it fits SQLite's integers."""
    (tmp_path / "a").mkdir()
    first = host.inode(str(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    assert host.inode(str(tmp_path / "b")) != first
    os.rename(tmp_path / "a", tmp_path / "c")
    assert host.inode(str(tmp_path / "c")) == first
    assert 0 <= first < 2**63


def test_inode_of_a_missing_path_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        host.inode(str(tmp_path / "missing"))


def test_unreadable_sources_are_empty(tmp_path: Path) -> None:
    """Missing files, directories and binary data."""
    (tmp_path / "file").write_bytes(b"\xff\xfe  one \ntwo")
    assert host._first_line(str(tmp_path / "missing")) == ""
    assert host._first_line(str(tmp_path)) == ""
    assert host._first_line(str(tmp_path / "file")).endswith("one")
    assert host._sysctl("kern.nothing.of.that.name") == ""
