"""A room to break things in: a home and a project on a disk that costs nothing, put back as they were in a moment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple, Self

WARM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm.py")
BINDING = "writer.json"
Tree = dict[str, bytes | None]  # None: a directory


class Answer(NamedTuple):
    """What a command said and how it ended; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str
    trace: list[str]


class Warm:
    """The warm process, started when it is first needed, and a directory for what its children say."""

    def __init__(self, place: str | None = None) -> None:
        self.side = tempfile.mkdtemp(prefix="holdfast-side-", dir=place or _memory())
        self._worker: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            assert self._worker.stdin is not None
            assert self._worker.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._worker.stdin.close()
            self._worker.wait()
            self._worker.stdout.close()
        shutil.rmtree(self.side)

    def run(self, argv: Sequence[str], *, strace: Sequence[str] = (), **more: Any) -> Answer:
        """A command in a child; `strace` are options that say what to watch and to break."""
        trace = os.path.join(self.side, "trace")
        request: dict[str, Any] = {
            "argv": list(argv), "stdout": os.path.join(self.side, "out"), "stderr": os.path.join(self.side, "err"),
            **more,
        }  # fmt: skip
        if strace:
            request.update(strace=["-y", "-s", "64", *strace], trace=trace)
        said = self._ask(request)
        if strace and said["strace"]:
            message = f"strace said: {said['strace']}"
            raise RuntimeError(message)
        lines = _read(trace).splitlines() if strace else []
        answer = Answer(int(said["code"]), _read(request["stdout"]), _read(request["stderr"]), lines)
        if said["late"]:
            message = f"{request.get('call', argv)} ran longer than {request['seconds']} seconds: {answer.err}"
            raise TimeoutError(message)
        return answer

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, WARM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.side
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        answer: dict[str, Any] = json.loads(_line(self._worker.stdout))
        return answer


class Room:
    def __init__(self, place: str | None = None) -> None:
        """In memory unless a place is given: a fault of ours is then no fault of the disk's speed."""
        place = place or _memory()
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-faults-", dir=place))
        self.home = os.path.join(self.root, "home")
        self.project = os.path.join(self.root, "project")
        self.store = os.path.join(self.home, "store.db")
        self._warm = Warm(place)
        self._templates: dict[tuple[tuple[str, ...], ...], Tree] = {}
        os.mkdir(self.project, 0o700)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._warm.close()
        shutil.rmtree(self.root)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOLDFAST_HOME": self.home, "HOLDFAST_ACTOR": "tester", "HOME": self.root, "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
            "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
        }  # fmt: skip

    def run(self, argv: Sequence[str], **more: Any) -> Answer:
        """A command in a child of the warm process."""
        request = {"cwd": self.project, "environ": self.environ} | more
        return self._warm.run(self._words(argv), **request)

    def write_until_killed(self, after: float, **work: Any) -> list[str]:
        """Let a process write, kill it after so many seconds, and say what it had acknowledged."""
        acks = os.path.join(self._warm.side, "acks")
        if os.path.exists(acks):
            os.unlink(acks)
        self.run((), acks=acks, kill_after=after, **work)
        return _read(acks).splitlines()

    def cold(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """The command as people start it: a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *self._words(argv)],
            cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _words(self, argv: Sequence[str]) -> list[str]:
        """A URL needs the whole path of a file in the project."""
        return [word.replace("{project}", self.project) if "://" in word else word for word in argv]

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, steps: Iterable[Sequence[str]]) -> None:
        """Bring the room to where these commands lead, made once and put back afterwards."""
        wanted = tuple(tuple(step) for step in steps)
        if wanted not in self._templates:
            self.put({})
            for step in wanted:
                self._step(step)
            self._templates[wanted] = self.take()
        self.put(self._templates[wanted])

    def _step(self, step: tuple[str, ...]) -> None:
        """A command of Holdfast, or of `git`, `write FILE TEXT` or `remove DIRECTORY` from the project on, or
        `lose` the home.
        """
        if step[0] == "git":
            subprocess.run(step, cwd=self.project, env=self.environ, check=True, capture_output=True)
        elif step[0] == "write":
            path = os.path.normpath(os.path.join(self.project, step[1]))
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(step[2])
        elif step[0] == "remove":
            shutil.rmtree(os.path.join(self.project, step[1]))
        elif step[0] == "lose":
            shutil.rmtree(self.home)
        else:
            answer = self.run(step)
            assert answer.code == 0, f"preparing, {step} ended with {answer.code}: {answer.err}"

    def take(self) -> Tree:
        """Every file of the room."""
        return read_tree(self.root)

    def put(self, tree: Tree) -> None:
        """Make the room hold exactly this, and the writer's binding fit: the same home, not a copied one."""
        empty(self.root)
        write_tree(self.root, {"project": None, **tree})
        bind(self.home)


def read_tree(root: str) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, root)] = file.read()
    return found


def write_tree(root: str, tree: Tree) -> None:
    for name in sorted(tree, key=lambda one: (one.count(os.sep), one)):
        content = tree[name]
        path = os.path.join(root, name)
        if content is None:
            os.makedirs(path, 0o700, exist_ok=True)
            continue
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)


def empty(root: str) -> None:
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def bind(home: str) -> None:
    path = os.path.join(home, BINDING)
    if os.path.exists(path):
        with open(path, "r+b") as file:
            bound = json.load(file)
            bound["home"] = os.stat(home).st_ino
            bound["store"] = os.stat(os.path.join(home, "store.db")).st_ino
            file.seek(0)
            file.truncate()
            file.write(json.dumps(bound).encode())


def _memory() -> str | None:
    """A directory in memory, where there is one."""
    path = "/dev/shm"
    return path if os.path.isdir(path) and os.access(path, os.W_OK) else None


def _line(stream: IO[str]) -> str:
    line = stream.readline()
    if not line:
        message = "the warm process ended"
        raise RuntimeError(message)
    return line


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
