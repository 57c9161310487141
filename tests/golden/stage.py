"""Where the golden story runs: an empty home, a frozen clock, and a record of all output."""

from __future__ import annotations

import ctypes
import fcntl
import glob
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FROZEN = Path(__file__).parent / "frozen_python.py"
# Always the same directory: lines wrap at the same columns, and names derived from hashes of paths stay the same.
ROOT = Path("/tmp/holdfast-golden")
TOOLS = (
    "cat",
    "cp",
    "git",
    "mkdir",
    "mv",
    "rm",
    "sh",
    "sleep",
)  # agent programs of this machine are not on the path
PATIENCE = 300  # seconds; this machine may be busy
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Stage:
    """Runs commands at given times, for several people, and records their output."""

    def __init__(self) -> None:
        self.chapters: dict[str, list[str]] = {}
        self._chapter = ""
        self.day = "2027-03-02"
        self.time = "09:00"
        self.who = "ada"
        self.directory = "shop"
        self._step = 0
        self._servers: set[int] = set()
        # One story at a time. Orphaned processes become our children, so that `settle` sees them.
        self._lock = open(f"{ROOT}.{os.getuid()}.lock", "a")  # noqa: SIM115
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        shutil.rmtree(ROOT, ignore_errors=True)
        for directory in (ROOT, ROOT / "bin", ROOT / "seeds", self.home()):
            directory.mkdir(mode=0o700)
        for name, words in (("python", ""), ("holdfast", "-m holdfast")):
            program = ROOT / "bin" / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FROZEN}" {words} "$@"\n')
            program.chmod(0o755)
        for name in TOOLS:
            (ROOT / "bin" / name).symlink_to(shutil.which(name) or name)

    def close(self) -> None:
        shutil.rmtree(ROOT, ignore_errors=True)
        self._lock.close()

    def chapter(self, name: str) -> None:
        self._chapter = name
        self.chapters[name] = []

    def write(self, text: str) -> None:
        self.chapters[self._chapter].append(text)

    # ── who, where and when ──────────────────────────────────────────────────────────────────────────────────

    def home(self) -> Path:
        return ROOT / self.who

    def place(self) -> Path:
        directory = self.home() / self.directory
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home()),
            "HOLDFAST_HOME": str(self.home() / "kept"),
            "HOLDFAST_ACTOR": self.who,
            "PATH": str(ROOT / "bin"),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
            "SHELL": "/bin/sh",
            "NO_COLOR": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": self.who,
            "GIT_AUTHOR_EMAIL": f"{self.who}@example.org",
            "GIT_COMMITTER_NAME": self.who,
            "GIT_COMMITTER_EMAIL": f"{self.who}@example.org",
            "GIT_AUTHOR_DATE": f"{self.day}T{self.time}:00Z",
            "GIT_COMMITTER_DATE": f"{self.day}T{self.time}:00Z",
            "GOLDEN_NOW": str(int(datetime.fromisoformat(f"{self.day}T{self.time}:00Z").timestamp()) * 10**9),
            "GOLDEN_STEP": str(self._step),
            "GOLDEN_SEEDS": str(ROOT / "seeds"),
            "GOLDEN_PYTHON": str(ROOT / "bin" / "python"),
        }

    # ── commands and requests ────────────────────────────────────────────────────────────────────────────────

    def run(self, line: str, given: str | None = None) -> None:
        """One line of shell, in the place and at the time; recorded with its output and exit code."""
        done = self.quietly(line, given)
        shown = [f"{self.who}:{self.directory} {self.day[5:]} {self.time} $ {line}"]
        shown += _marked("<", given or "") + _marked("|", done.stdout) + _marked("!", done.stderr)
        if done.returncode:
            shown.append(f"  = {done.returncode}")
        self.write("\n".join(shown) + "\n")

    def play(self, script: str) -> None:
        """Lines of shell. Some start with a time (`HH:MM`), others with a person (`bob:`)."""
        for line in filter(None, map(str.strip, script.splitlines())):
            command = line
            if match := re.match(r"(\d\d:\d\d) ", command):
                self.time, command = match[1], command[6:]
            if match := re.match(r"(ada|office|bob): ", command):
                self.who, command = match[1], command[match.end() :]
            self.run(command)

    def quietly(self, line: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        self._step += 1
        done = subprocess.run(
            ["sh", "-c", line],
            input=given or "",
            capture_output=True,
            text=True,
            errors="backslashreplace",
            cwd=self.place(),
            env=self.environment(),
            timeout=PATIENCE,
            check=False,
        )
        self.settle()
        return done

    def settle(self) -> None:
        """Wait until no background process of a command is running."""
        deadline = time.monotonic() + PATIENCE
        while working := _descendants() - self._servers:
            assert time.monotonic() < deadline, f"processes in the background do not end: {working}"
            time.sleep(0.01)

    def answer(self, *words: str) -> Any:
        """A command's JSON output, not recorded."""
        return json.loads(self.quietly(" ".join(("holdfast", *words, "--json"))).stdout)

    def serve(self, requests: list[dict[str, Any]]) -> None:
        """Talk to the MCP server: a request is sent once the previous one is answered. Questions get a yes."""
        with self._started(["holdfast", "mcp"]) as process:

            def say(message: dict[str, Any]) -> None:
                print(json.dumps({"jsonrpc": "2.0", **message}), file=process.stdin, flush=True)

            for request in requests:
                say(request)
                self.write(f"mcp > {json.dumps(request)}")
                answered = "id" not in request
                while not answered:
                    message = json.loads(process.stdout.readline())
                    if "id" not in message:
                        continue  # a notification; when it comes depends on the watched files
                    answered = "method" not in message
                    self.write(f"mcp < {pretty(message)}\n")
                    if not answered:
                        say({"id": message["id"], "result": {"action": "accept", "content": {"share": True}}})
                self.settle()

    def browse(self, requests: list[str]) -> None:
        """Pages, forms and API answers of the dashboard: `/path`, or `POST /path FORM`."""
        with self._started(["holdfast", "ui", "--json", "--no-open"]) as process:
            opened = _document(process.stdout)
            address = urllib.parse.urlsplit(opened["url"])
            connection = http.client.HTTPConnection("127.0.0.1", address.port or 80, timeout=PATIENCE)
            headers = {"Host": address.netloc, "Authorization": f"Bearer {opened['token']}"}
            for request in requests:
                method, path, form, *_ = *(request if " " in request else f"GET {request}").split(" "), "", ""
                kind = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
                connection.request(method, path, form or None, {**headers, **kind})
                answer = connection.getresponse()
                body = answer.read().decode()
                self.settle()
                with suppress(ValueError):
                    body = pretty(json.loads(body))
                shown = f"{request}\n= {answer.status} {answer.headers.get('content-type', '')}\n{body}\n"
                self.write(shown.replace(opened["token"], "<token>").replace(address.hostname or "", "<host>"))
            connection.close()

    @contextmanager
    def _started(self, words: list[str]) -> Iterator[Any]:
        self._step += 1
        process: Any = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.place(),
            env=self.environment(),
        )
        self._servers.add(process.pid)
        try:
            yield process
        finally:
            process.stdin.close()
            process.terminate()
            process.wait(PATIENCE)
            process.stdout.close()
            self._servers.remove(process.pid)

    def files(self, below: str, *, but: str = r"(?!)") -> None:
        """Names of all files below one of this person's directories, and the content of text files."""
        top = self.home() / below
        for path in sorted(top.rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_dir() or re.search(but, name) or not path.is_file():
                continue
            try:
                text = path.read_bytes().decode()
            except UnicodeDecodeError:
                text = "\0"
            content = ["  (not text)"] if "\0" in text else _marked(" ", text)
            self.write("\n".join([f"file {name}", *content]) + "\n")


def pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _marked(mark: str, text: str) -> list[str]:
    """Lines with a mark. A one-line JSON document is shown on many lines, marked with `j` too."""
    shown = []
    for line in text.splitlines():
        value = None
        if line.startswith('{"'):
            with suppress(ValueError):
                value = json.loads(line)
        compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        shown += (
            [f" j{mark} {part}" for part in pretty(value).splitlines()] if line == compact else [f"  {mark} {line}"]
        )
    return shown


def _document(stream: Any) -> Any:
    """The first JSON document of a stream that stays open."""
    read = ""
    while line := stream.readline():
        read += line
        with suppress(ValueError):
            return json.loads(read)
    raise AssertionError(f"no document: {read!r}")


def _descendants() -> set[int]:
    """Processes below this one that are still running."""
    children: dict[int, set[int]] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = Path(path).read_text(errors="replace").rpartition(")")
            state, parent = rest.split()[:2]
            if state != "Z":
                children.setdefault(int(parent), set()).add(int(name.split()[0]))
    descendants, left = set(), [os.getpid()]
    while left:
        below = children.get(left.pop(), set())
        descendants |= below
        left += below
    return descendants
