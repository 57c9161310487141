"""Run inside a mount namespace of its own: a remote, or a home, on a small disk that is filled to the brim.

Each trial is one line of JSON on stdout: what it was, and everything that was wrong. `test_travel_disk` reads them.
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

    def run(self, device: str, *words: str, may: tuple[int, ...] = (0,)) -> dict[str, Any]:
        done = subprocess.run(
            [*HOLDFAST, *words, "--json", "--project", str(self.project)],
            env={**os.environ, "HOLDFAST_HOME": str(self.places[device])}, check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if done.returncode not in may or not answer or "unexpected" in str(answer.get("error")):
            said = answer.get("error", done.stderr[-400:])
            self.wrong.append(f"{device}: {' '.join(words)[:60]}: exit {done.returncode}, {said}")
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
        """With room again all goes on: both have the same, and everything that was said."""
        for device in ("a", "b", "a", "b"):
            told = self.run(device, "sync")
            if told.get("rejected"):
                self.wrong.append(f"{device} took something for an attack: {told['rejected']}")
        found = []
        for device in ("a", "b"):
            sessions = self.run(device, "history", "--all-projects")["sessions"]
            found.append(sorted(json.dumps(self.run(device, "log", session["id"])["events"]) for session in sessions))
            failing = [item for item in self.run(device, "doctor")["checks"] if item["status"] == "failed"]
            if failing:
                self.wrong.append(f"{device}: doctor: {failing}")
        if found[0] != found[1]:
            self.wrong.append("they do not have the same")
        for device in ("a", "b"):
            if not any(f"said by {device}" in name for name in found[0]):
                self.wrong.append(f"what {device} said is lost")
        left = [str(path) for place in self.places.values() for path in place.glob(".holdfast-*")]
        if left:
            self.wrong.append(f"left behind: {left}")


def full_remote(place: Path, size: int) -> Devices:
    """The folder's disk is full: sending fails in words, hearing works, and nothing is half there."""
    devices = Devices(place, "remote", f"size={size}")
    devices.join()
    devices.run("b", "note", "said by b")
    devices.run("b", "sync")
    devices.fill()
    devices.run("a", "note", "said by a " + os.urandom(40_000).hex())
    told = devices.run("a", "sync", may=(1,))
    if told.get("error", {}).get("kind") != "failed":
        devices.wrong.append(f"not told that there is no room: {told}")
    if "said by b" not in json.dumps(devices.run("a", "show", _of(devices, "b"))):
        devices.wrong.append("what could be heard was not")
    devices.run("a", "device", "recovery-code", may=(1,))
    devices.run("b", "sync", may=(0, 1))
    devices.run("a", "status")
    devices.relieve()
    devices.same()
    return devices


def full_home(place: Path, size: int) -> Devices:
    """The device's own disk is full: it hears nothing new, keeps what it had, and catches up with room again."""
    devices = Devices(place, "b", f"size={size}")
    devices.join()
    devices.run("b", "note", "said by b")
    devices.fill()
    devices.run("a", "note", "said by a " + os.urandom(40_000).hex())
    devices.run("a", "sync")
    devices.run("b", "sync", may=(1,))
    devices.run("b", "device", "rename", "else", may=(1,))
    devices.run("b", "people", "add", "x@example.org", KEY, may=(1,))
    devices.run("b", "remote", "list", may=(0, 1))
    devices.run("b", "status")
    devices.relieve()
    devices.same()
    return devices


def no_names(place: Path, count: int) -> Devices:
    """Blocks enough at the folder, but no inode for one more object."""
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
    devices.run("a", "sync", may=(1,))
    devices.relieve()
    devices.same()
    return devices


def _of(devices: Devices, device: str) -> str:
    return str(devices.run(device, "show", "@")["session"]["id"])


TRIALS: dict[str, Callable[[Path, int], Devices]] = {
    "full remote": full_remote, "full home": full_home, "no names": no_names,
}  # fmt: skip


if __name__ == "__main__":
    main(TRIALS)
