"""Background sync: triggered by important events, in its own process, silent, and never blocking commands."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.keeper import background_sync
from holdfast.machine.locks import locked
from holdfast.sync import background

LONG = 60.0  # seconds, for a busy machine; usually one is enough


def until(condition: Callable[[], Any]) -> Any:
    """Poll until there is a result; fail after a long wait."""
    end = time.monotonic() + LONG
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


class Device:
    """One home; every call is a process of its own."""

    def __init__(self, root: Path, name: str) -> None:
        self.home = root / name
        self.home.mkdir(mode=0o700)
        (self.home / "config.toml").write_text(f'[device]\nname = "{name}"\n')
        (self.home / "config.toml").chmod(0o600)
        self.project = root / "project"
        self.project.mkdir(exist_ok=True)

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "HOLDFAST_HOME": str(self.home), "GIT_CEILING_DIRECTORIES": str(self.home.parent)}
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words], cwd=self.project, env=env, input=stdin, capture_output=True,
            text=True, timeout=LONG, check=False,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        done = self(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)

    def sync(self) -> str:
        return str(self.json("show", "@")["session"]["sync"]["status"])

    @property
    def marked(self) -> bool:
        return (self.home / "sync.wanted").exists()

    def skip_wait(self) -> None:
        """Allow the next sync without the usual ten seconds since the previous one."""
        (self.home / "sync.last").unlink(missing_ok=True)

    def processes(self) -> list[str]:
        """Processes started for this home that still run."""
        processes = []
        for path in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
            try:
                words = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdecimal() else []
            except OSError:
                continue
            if str(self.home).encode() in words and any(b"holdfast.keeper" in word for word in words):
                processes.append(path.name)
        return processes


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Device]:
    """A device with a vault and a synced session."""
    device = Device(tmp_path, "laptop")
    device.json("start", "Ship it")
    device.json("remote", "add", "home", f"folder:{tmp_path / 'remote'}")
    device.json("sync")
    yield device
    until(lambda: not device.processes())  # nothing keeps running after a test


def test_decision_reaches_the_other_device_without_a_sync_command(laptop: Device, tmp_path: Path) -> None:
    desktop = Device(tmp_path, "desktop")
    desktop.json("remote", "add", "home", f"folder:{tmp_path / 'remote'}")
    laptop.json("device", "approve", desktop.json("device", "show")["device"]["fingerprint"])
    session = laptop.json("status")["session"]["id"]
    laptop.json("decide", "Hybrid")
    until(lambda: laptop.sync() == "synced")
    desktop.json("sync")
    assert [item["chosen"] for item in desktop.json("show", session)["session"]["decisions"]] == ["Hybrid"]
    until(lambda: not laptop.processes())
    assert not laptop.marked
    assert not (laptop.home / "errors.log").exists()


@pytest.mark.parametrize(
    "words", [["note", "by the way"], ["task", "add", "Deploy"], ["file", "a.py", "--action", "created"]]
)
def test_records_of_a_person_are_sent_automatically(laptop: Device, words: list[str]) -> None:
    laptop.json(*words)
    until(lambda: laptop.sync() == "synced")


def test_measurement_is_sent_with_the_next_record(laptop: Device) -> None:
    laptop.json("message")
    assert not laptop.marked
    assert laptop.sync() == "pending"
    laptop.json("note", "by the way")
    until(lambda: laptop.sync() == "synced")


@pytest.mark.parametrize("words", [["pause"], ["stop"], ["fail", "broken"], ["abort"]])
def test_end_and_pause_start_a_sync(laptop: Device, words: list[str]) -> None:
    """After closing the lid, another device shows the session as it was left."""
    session = laptop.json("status")["session"]["id"]
    laptop.json(*words)
    until(lambda: laptop.json("show", session)["session"]["sync"]["status"] == "synced")


def test_deletion_starts_a_sync(laptop: Device) -> None:
    """The deleted session disappears from the remote without a command."""
    session = laptop.json("status")["session"]["id"]
    laptop.json("delete", session, "--confirm", "--force")
    until((laptop.home / "sync.last").exists)


def test_sync_files_in_the_home_are_private(laptop: Device) -> None:
    laptop.json("decide", "Hybrid")
    until((laptop.home / "sync.last").exists)
    for name in ("sync.last", "sync.lock", "device.lock", "device.json", "remotes.json"):
        assert os.name == "nt" or stat.S_IMODE((laptop.home / name).stat().st_mode) == 0o600, name
    checks = {item["name"]: item["status"] for item in laptop.json("doctor")["checks"]}
    assert (checks["modes"], checks["temporaries"]) == ("ok", "ok")


def test_background_sync_does_not_delay_commands(laptop: Device) -> None:
    """Commands finish while another process syncs and waits; their own sync follows."""
    with locked(str(laptop.home / "sync.lock"), purpose="a very long sync"):
        laptop.json("decide", "Hybrid")
        laptop.json("decide", "Cookie")
        assert laptop.marked
        assert len(laptop.processes()) <= 1 or os.name == "nt"
    until(lambda: laptop.sync() == "synced")


def test_offline_sync_is_silent_and_catches_up(laptop: Device, tmp_path: Path) -> None:
    """Only `status` reports it; once the remote is back, reading starts a sync."""
    (tmp_path / "remote").rename(tmp_path / "unplugged")
    assert laptop("decide", "Hybrid").stderr == ""
    until(lambda: laptop.sync() == "error")
    assert not (laptop.home / "errors.log").exists()
    (tmp_path / "unplugged").rename(tmp_path / "remote")
    until(lambda: not laptop.processes())
    laptop.skip_wait()
    laptop.json("status")
    until(lambda: laptop.sync() == "synced")


def test_background_sync_can_be_switched_off(laptop: Device) -> None:
    laptop.json("config", "set", "sync.background", "false")
    laptop.json("decide", "Hybrid")
    assert not laptop.marked
    assert laptop.processes() == []
    assert laptop.sync() == "pending"


def test_no_process_is_started_without_a_remote(tmp_path: Path) -> None:
    """Nor is a mark left."""
    device = Device(tmp_path, "laptop")
    device.json("start", "Ship it")
    device.json("decide", "Hybrid")
    assert device.processes() == []
    assert not [name for name in os.listdir(device.home) if name.startswith("sync")]


def test_no_process_is_started_after_the_last_remote_was_removed(laptop: Device) -> None:
    laptop.json("remote", "remove", "home")
    laptop.json("decide", "Hybrid")
    assert laptop.processes() == []
    assert not laptop.marked
    assert not (laptop.home / "errors.log").exists()


def test_mark_of_a_dead_process_is_taken_over(laptop: Device) -> None:
    """A young mark belongs to a waiting process; an old one was left by a dead one."""
    mark = laptop.home / "sync.wanted"
    mark.touch(0o600)
    laptop.json("decide", "Hybrid")
    assert laptop.processes() == []
    assert laptop.sync() == "pending"
    long_ago = time.time() - 3600
    os.utime(mark, (long_ago, long_ago))
    laptop.json("decide", "Cookie")
    until(lambda: laptop.sync() == "synced")
    assert not mark.exists()


def test_drained_hook_payload_starts_a_sync(laptop: Device) -> None:
    """A started subagent is a reason to sync once its payload is drained."""
    for event, more in (("UserPromptSubmit", {"prompt": "Go on"}),
                        ("SubagentStart", {"agent_id": "helper", "agent_type": "Explore"})):  # fmt: skip
        payload = {"session_id": "talk-1", "cwd": str(laptop.project), "hook_event_name": event, **more}
        assert laptop("hook", "claude", stdin=json.dumps(payload)).returncode == 0
    laptop.json("show", "@")
    until(lambda: laptop.sync() == "synced")
    assert [item["type"] for item in laptop.json("show", "@")["session"]["agents"]] == ["Explore"]


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────


def test_syncs_are_ten_seconds_apart(laptop: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process waits for the rest of the ten seconds, and sends what is recorded meanwhile too."""
    laptop.json("config", "set", "sync.background", "false")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        laptop.json("decide", "meanwhile")

    monkeypatch.setattr(background_sync, "time", SimpleNamespace(sleep=sleep))
    background_sync.run(str(laptop.home))
    assert waited == []
    (laptop.home / "sync.wanted").touch(0o600)
    background_sync.run(str(laptop.home))
    (seconds,) = waited
    assert 0 < seconds <= background.INTERVAL
    assert not laptop.marked
    assert laptop.sync() == "synced"


def test_sync_does_not_wait_when_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark from the future counts as old."""
    file = tmp_path / "sync.last"
    file.touch()
    os.utime(file, (4_000_000_000, 4_000_000_000))
    slept: list[float] = []
    monkeypatch.setattr(background_sync, "time", SimpleNamespace(sleep=slept.append))
    background_sync.run(str(tmp_path))
    assert slept == []


def test_requesting_a_sync_raises_nothing_for_a_broken_remote_list(tmp_path: Path) -> None:
    """It costs the sync, not the command, and is logged for the doctor."""
    home = tmp_path / "home"
    with Keeper.open(str(tmp_path), home=str(home)) as keeper:
        session = keeper.start("Ship it")
        (home / "remotes.json").write_text("{")
        session.decide("Hybrid")
    assert "the list of remotes is damaged" in (home / "errors.log").read_text()
