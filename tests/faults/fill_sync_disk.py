"""Run inside a mount namespace: a remote, or a home, on a small disk that is filled completely.

Prints one line of JSON per trial: its name, and everything that was wrong. `test_sync_full_disk` reads them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.fill_disk import CHUNK, HOLDFAST, main

KEY = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


class Devices:
    """Two devices and a folder; one of these is on a file system of its own."""

    def __init__(self, place: Path, small: str, options: str) -> None:
        self.disk, self.project = place / "disk", place / "project"
        self.disk.mkdir()
        self.project.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.disk)], check=True)
        self.places = {name: (self.disk if name == small else place) / name for name in ("a", "b", "remote")}
        self.wrong: list[str] = []
        for name in ("a", "b"):
            self.places[name].mkdir(mode=0o700)
            (self.places[name] / "config.toml").write_text(f'[device]\nname = "{name}"\n[sync]\nbackground = false\n')

    def close(self) -> None:
        subprocess.run(["umount", str(self.disk)], check=True)

    def fill(self) -> None:
        with (self.disk / "fill").open("ab", buffering=0) as file:
            for size in (1 << 16, CHUNK, 256, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def relieve(self) -> None:
        (self.disk / "fill").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000", str(self.disk)], check=True)

    def run(self, device: str, *words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        done = subprocess.run(
            [*HOLDFAST, *words, "--json", "--project", str(self.project)],
            env={**os.environ, "HOLDFAST_HOME": str(self.places[device])}, check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if done.returncode not in codes or not answer or "unexpected" in str(answer.get("error")):
            reason = answer.get("error", done.stderr[-400:])
            self.wrong.append(f"{device}: {' '.join(words)[:60]}: exit {done.returncode}, {reason}")
        return answer

    def join(self) -> None:
        for device in ("a", "b"):
            self.run(device, "start", f"the goal of {device}")
            self.run(device, "remote", "add", "home", f"folder:{self.places['remote']}")
        words = self.run("b", "device", "show")["device"]["fingerprint"]
        self.run("a", "device", "approve", words)
        self.run("b", "remote", "confirm", "home", self.run("a", "device", "show")["device"]["vaults"][0]["words"])
        for device in ("b", "a", "b"):
            self.run(device, "sync")

    def same(self) -> None:
        """With free space everything works again: both devices have the same log, with every note."""
        for device in ("a", "b", "a", "b"):
            answer = self.run(device, "sync")
            if answer.get("rejected"):
                self.wrong.append(f"{device} rejected something: {answer['rejected']}")
        logs = []
        for device in ("a", "b"):
            sessions = self.run(device, "history", "--all-projects")["sessions"]
            logs.append(sorted(json.dumps(self.run(device, "log", session["id"])["events"]) for session in sessions))
            failing = [item for item in self.run(device, "doctor")["checks"] if item["status"] == "failed"]
            if failing:
                self.wrong.append(f"{device}: doctor: {failing}")
        if logs[0] != logs[1]:
            self.wrong.append("they have different logs")
        for device in ("a", "b"):
            if not any(f"said by {device}" in name for name in logs[0]):
                self.wrong.append(f"the note of {device} is lost")
        left = [str(path) for place in self.places.values() for path in place.glob(".holdfast-*")]
        if left:
            self.wrong.append(f"left behind: {left}")


def full_remote(place: Path, size: int) -> Devices:
    """The folder's disk is full: sending fails with a message, receiving works, and no object is incomplete."""
    devices = Devices(place, "remote", f"size={size}")
    devices.join()
    devices.run("b", "note", "said by b")
    devices.run("b", "sync")
    devices.fill()
    devices.run("a", "note", "said by a " + os.urandom(40_000).hex())
    answer = devices.run("a", "sync", codes=(1,))
    if answer.get("error", {}).get("kind") != "failed":
        devices.wrong.append(f"the full disk is not reported: {answer}")
    if "said by b" not in json.dumps(devices.run("a", "show", _of(devices, "b"))):
        devices.wrong.append("a note that could be received was not")
    devices.run("a", "device", "recovery-code", codes=(1,))
    devices.run("b", "sync", codes=(0, 1))
    devices.run("a", "status")
    devices.relieve()
    devices.same()
    return devices


def full_home(place: Path, size: int) -> Devices:
    """The device's own disk is full: it receives nothing new, keeps what it had, and catches up later."""
    devices = Devices(place, "b", f"size={size}")
    devices.join()
    devices.run("b", "note", "said by b")
    devices.fill()
    devices.run("a", "note", "said by a " + os.urandom(40_000).hex())
    devices.run("a", "sync")
    devices.run("b", "sync", codes=(1,))
    devices.run("b", "device", "rename", "else", codes=(1,))
    devices.run("b", "people", "add", "x@example.org", KEY, codes=(1,))
    devices.run("b", "remote", "list", codes=(0, 1))
    devices.run("b", "status")
    devices.relieve()
    devices.same()
    return devices


def no_inodes(place: Path, count: int) -> Devices:
    """The folder has enough blocks, but no inode for another object."""
    devices = Devices(place, "remote", f"size=16m,nr_inodes={count}")
    devices.join()
    devices.run("b", "note", "said by b")
    devices.run("b", "sync")
    for number in range(10_000):
        try:
            (devices.disk / f"fill{number}").touch()
        except OSError:
            break
    devices.run("a", "note", "said by a")
    devices.run("a", "sync", codes=(1,))
    devices.relieve()
    devices.same()
    return devices


def _of(devices: Devices, device: str) -> str:
    return str(devices.run(device, "show", "@")["session"]["id"])


TRIALS: dict[str, Callable[[Path, int], Devices]] = {
    "full remote": full_remote, "full home": full_home, "no names": no_inodes,
}  # fmt: skip


if __name__ == "__main__":
    main(TRIALS)
