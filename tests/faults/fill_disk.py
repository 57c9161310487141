"""Run inside a mount namespace of its own: small file systems, filled to the brim, and what the program makes of it.

Each trial is one line of JSON on stdout: what it was, and everything that was wrong. `test_full_disk` reads them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

HOLDFAST = (sys.executable, "-m", "holdfast")
KINDS = {"failed"}
CHUNK = 4096


class Room:
    """A home on a file system of its own, and the program run in it as a person's shell would."""

    def __init__(self, place: Path, options: str) -> None:
        self.disk, self.project = place / "disk", place / "project"
        self.disk.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        self.wrong: list[str] = []
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.disk)], check=True)

    def close(self) -> None:
        subprocess.run(["umount", str(self.disk)], check=True)

    def grow(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.disk)], check=True)

    def run(self, *words: str, limit: int | None = None) -> tuple[int, dict[str, Any]]:
        def lower() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = subprocess.run(
            [*HOLDFAST, *words, "--json", "--project", str(self.project)],
            env={**os.environ, "HOLDFAST_HOME": str(self.disk / "home")},
            check=False, capture_output=True, text=True, preexec_fn=lower,
        )  # fmt: skip
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {}
            self.wrong.append(f"{words}: no JSON, exit {done.returncode}: {done.stdout[:200]} {done.stderr[-400:]}")
        if done.returncode and "checks" not in answer:
            error = answer.get("error", {})
            if done.returncode != 1 or error.get("kind") not in KINDS or "unexpected" in error.get("message", ""):
                self.wrong.append(f"{words}: exit {done.returncode}, {error}")
        return done.returncode, answer

    def fill(self) -> None:
        """To the last block, whatever SQLite and the shell have left."""
        with (self.disk / "fill").open("ab", buffering=0) as file:
            for size in (1 << 16, CHUNK, 256, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def notes(self) -> list[str] | None:
        """Everything can be looked at; None when there is no session yet."""
        code, status = self.run("status")
        self.expect(code == 0, "status does not work")
        code, history = self.run("history")
        self.expect(code == 0, "history does not work")
        code, _ = self.run("doctor")
        self.expect(code in (0, 6), "doctor does not work")
        session = status.get("session")
        if session is None:
            self.expect(history.get("sessions") == [], "a session is listed and not current")
            return None
        code, log = self.run("log")
        self.expect(code == 0, "log does not work")
        texts = [event["data"]["text"] for event in log.get("events", ()) if event["type"] == "note.added"]
        self.expect([item["text"] for item in session["notes"]] == texts, "the state is not what the log says")
        return texts

    def expect(self, condition: bool, what: str) -> None:
        if not condition:
            self.wrong.append(what)


def suffer(room: Room, write: Callable[[str], int], relieve: Callable[[], None]) -> None:
    """Write until it fails; then nothing has changed, reading works, and with room again writing goes on."""
    acknowledged: list[str] = []
    started, _ = room.run("start", "Build the shop")
    room.expect(started in (0, 1), "start")
    failed = False
    for number in range(40):
        if started:
            break
        text = f"{number} " + "x" * (number * 997 % 9000)
        if write(text):
            failed = True
            break
        acknowledged.append(text)
    if not started and not failed:
        room.wrong.append("it never failed: the trial tests nothing")
    before = room.notes()
    room.expect(before == (None if started else acknowledged), "a failed command changed something, or one was lost")
    if not started:
        write("again")
        room.expect(room.notes() == before, "the second failure changed something")
    relieve()
    if started:
        code, _ = room.run("start", "Build the shop")
        room.expect(code == 0, "start does not work again")
    code, _ = room.run("note", "after")
    room.expect(code == 0, "writing does not work again")
    room.expect(room.notes() == [*acknowledged, "after"], "what is shown afterwards is not what was acknowledged")
    code, told = room.run("doctor")
    failing = [line for line in told.get("checks", ()) if line["status"] == "failed" and line["name"] != "space"]
    room.expect(not failing, f"doctor: {failing}")
    left = [name for name in os.listdir(room.disk / "home") if name.endswith(".tmp")]
    room.expect(not left, f"left behind: {left}")


def full(place: Path, size: int) -> Room:
    room = Room(place, f"size={size}")

    def write(text: str) -> int:
        if len(text) > 4000:
            room.fill()
        return room.run("note", text)[0]

    def relieve() -> None:
        room.grow("size=16m")

    suffer(room, write, relieve)
    return room


def no_names(place: Path, count: int) -> Room:
    """Blocks enough, but no inodes: no new file can be made."""
    room = Room(place, f"size=16m,nr_inodes={count}")

    def write(text: str) -> int:
        if len(text) > 4000:
            for number in range(100):
                try:
                    (room.disk / f"fill{number}").touch()
                except OSError:
                    break
        return room.run("note", text)[0]

    def relieve() -> None:
        room.grow("size=16m,nr_inodes=1000")

    suffer(room, write, relieve)
    return room


def limited(place: Path, limit: int) -> Room:
    """A limit on the size of files, as `ulimit -f` sets it."""
    room = Room(place, "size=16m")
    room.run("start", "Build the shop")
    before = room.notes()
    code, _ = room.run("note", "x" * 50_000, limit=limit)
    if code:
        room.expect(room.notes() == before, "a failed command changed something")
    code, _ = room.run("status", limit=limit)
    room.expect(code == 0, "status does not work under the limit")
    code, _ = room.run("note", "after")
    room.expect(code == 0, "writing does not work again")
    notes = room.notes()
    room.expect(notes is not None and notes[-1] == "after", "the note is not there")
    code, told = room.run("doctor")
    room.expect(code == 0, f"doctor: {told}")
    return room


TRIALS: dict[str, Callable[[Path, int], Room]] = {"full": full, "no names": no_names, "limited": limited}


class Judged(Protocol):
    wrong: list[str]

    def close(self) -> None: ...


def main(trials: Mapping[str, Callable[[Path, int], Judged]]) -> None:
    """Run the trials that the command line names, each as KIND:SIZE, and tell what was wrong."""
    place = Path(sys.argv[1])
    for number, line in enumerate(sys.argv[2:]):
        kind, _, size = line.partition(":")
        ground = place / str(number)
        ground.mkdir()
        room = trials[kind](ground, int(size))
        print(json.dumps({"trial": line, "wrong": room.wrong}), flush=True)
        room.close()


if __name__ == "__main__":
    main(TRIALS)
