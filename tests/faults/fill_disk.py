"""Run inside a mount namespace: small file systems, filled completely, and how the program behaves on them.

Prints one line of JSON per trial: its name, and everything that was wrong. `test_full_disk` reads them.
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


class SmallDisk:
    """A home on a file system of its own, and the program run as from a user's shell."""

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
        """To the last block that SQLite and the shell have left."""
        with (self.disk / "fill").open("ab", buffering=0) as file:
            for size in (1 << 16, CHUNK, 256, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def notes(self) -> list[str] | None:
        """The notes, after checking that every view works; None when there is no session yet."""
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


def run_until_full(small_disk: SmallDisk, write: Callable[[str], int], relieve: Callable[[], None]) -> None:
    """Write until it fails; then nothing has changed, reading works, and with free space writing works again."""
    acknowledged: list[str] = []
    started, _ = small_disk.run("start", "Build the shop")
    small_disk.expect(started in (0, 1), "start")
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
        small_disk.wrong.append("no command failed: the trial tests nothing")
    before = small_disk.notes()
    small_disk.expect(
        before == (None if started else acknowledged), "a failed command changed something, or one was lost"
    )
    if not started:
        write("again")
        small_disk.expect(small_disk.notes() == before, "the second failure changed something")
    relieve()
    if started:
        code, _ = small_disk.run("start", "Build the shop")
        small_disk.expect(code == 0, "start does not work again")
    code, _ = small_disk.run("note", "after")
    small_disk.expect(code == 0, "writing does not work again")
    small_disk.expect(small_disk.notes() == [*acknowledged, "after"], "the notes shown are not those acknowledged")
    code, report = small_disk.run("doctor")
    failing = [line for line in report.get("checks", ()) if line["status"] == "failed" and line["name"] != "space"]
    small_disk.expect(not failing, f"doctor: {failing}")
    left = [name for name in os.listdir(small_disk.disk / "home") if name.endswith(".tmp")]
    small_disk.expect(not left, f"left behind: {left}")


def on_full_disk(place: Path, size: int) -> SmallDisk:
    small_disk = SmallDisk(place, f"size={size}")

    def write(text: str) -> int:
        if len(text) > 4000:
            small_disk.fill()
        return small_disk.run("note", text)[0]

    def relieve() -> None:
        small_disk.grow("size=16m")

    run_until_full(small_disk, write, relieve)
    return small_disk


def on_disk_without_inodes(place: Path, count: int) -> SmallDisk:
    """Enough blocks, but no inodes: no file can be created."""
    small_disk = SmallDisk(place, f"size=16m,nr_inodes={count}")

    def write(text: str) -> int:
        if len(text) > 4000:
            for number in range(100):
                try:
                    (small_disk.disk / f"fill{number}").touch()
                except OSError:
                    break
        return small_disk.run("note", text)[0]

    def relieve() -> None:
        small_disk.grow("size=16m,nr_inodes=1000")

    run_until_full(small_disk, write, relieve)
    return small_disk


def with_file_size_limit(place: Path, limit: int) -> SmallDisk:
    """A limit on the size of files, as `ulimit -f` sets it."""
    small_disk = SmallDisk(place, "size=16m")
    small_disk.run("start", "Build the shop")
    before = small_disk.notes()
    code, _ = small_disk.run("note", "x" * 50_000, limit=limit)
    if code:
        small_disk.expect(small_disk.notes() == before, "a failed command changed something")
    code, _ = small_disk.run("status", limit=limit)
    small_disk.expect(code == 0, "status does not work under the limit")
    code, _ = small_disk.run("note", "after")
    small_disk.expect(code == 0, "writing does not work again")
    notes = small_disk.notes()
    small_disk.expect(notes is not None and notes[-1] == "after", "the note is not there")
    code, report = small_disk.run("doctor")
    small_disk.expect(code == 0, f"doctor: {report}")
    return small_disk


TRIALS: dict[str, Callable[[Path, int], SmallDisk]] = {
    "full": on_full_disk,
    "no names": on_disk_without_inodes,
    "limited": with_file_size_limit,
}


class Trial(Protocol):
    wrong: list[str]

    def close(self) -> None: ...


def main(trials: Mapping[str, Callable[[Path, int], Trial]]) -> None:
    """Run the trials that the command line names, each as KIND:SIZE, and print what was wrong."""
    place = Path(sys.argv[1])
    for number, line in enumerate(sys.argv[2:]):
        kind, _, size = line.partition(":")
        directory = place / str(number)
        directory.mkdir()
        small_disk = trials[kind](directory, int(size))
        print(json.dumps({"trial": line, "wrong": small_disk.wrong}), flush=True)
        small_disk.close()


if __name__ == "__main__":
    main(TRIALS)
