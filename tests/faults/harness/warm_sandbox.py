"""A home and a project in memory to inject faults into, restored to any prepared state in a moment."""

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
    """A command's exit code and output; a negative code is the signal that killed it."""

    code: int
    out: str
    err: str
    trace: list[str]


class WarmProcess:
    """Starts the warm process on first use, and has a directory for the output of its children."""

    def __init__(self, place: str | None = None) -> None:
        self.output_dir = tempfile.mkdtemp(prefix="holdfast-side-", dir=place or _memory())
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
        shutil.rmtree(self.output_dir)

    def run(self, argv: Sequence[str], *, strace: Sequence[str] = (), **more: Any) -> Answer:
        """Run a command in a child; `strace` are options that select what to watch and to inject."""
        trace = os.path.join(self.output_dir, "trace")
        request: dict[str, Any] = {
            "argv": list(argv), "stdout": os.path.join(self.output_dir, "out"),
            "stderr": os.path.join(self.output_dir, "err"),
            **more,
        }  # fmt: skip
        if strace:
            request.update(strace=["-y", "-s", "64", *strace], trace=trace)
        response = self._ask(request)
        if strace and response["strace"]:
            message = f"strace said: {response['strace']}"
            raise RuntimeError(message)
        lines = _read(trace).splitlines() if strace else []
        answer = Answer(int(response["code"]), _read(request["stdout"]), _read(request["stderr"]), lines)
        if response["late"]:
            message = f"{request.get('call', argv)} ran longer than {request['seconds']} seconds: {answer.err}"
            raise TimeoutError(message)
        return answer

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, WARM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.output_dir
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        answer: dict[str, Any] = json.loads(_line(self._worker.stdout))
        return answer


class WarmSandbox:
    def __init__(self, place: str | None = None) -> None:
        """In memory unless a directory is given, so that the speed of a disk plays no role."""
        place = place or _memory()
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-faults-", dir=place))
        self.home = os.path.join(self.root, "home")
        self.project = os.path.join(self.root, "project")
        self.store = os.path.join(self.home, "store.db")
        self._warm = WarmProcess(place)
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
        """Run a command in a child of the warm process."""
        request = {"cwd": self.project, "environ": self.environ} | more
        return self._warm.run(self._expanded(argv), **request)

    def write_until_killed(self, after: float, **work: Any) -> list[str]:
        """Let a process write, kill it after so many seconds, and return what it had acknowledged."""
        acks = os.path.join(self._warm.output_dir, "acks")
        if os.path.exists(acks):
            os.unlink(acks)
        self.run((), acks=acks, kill_after=after, **work)
        return _read(acks).splitlines()

    def start_process(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """The command as users start it: a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *self._expanded(argv)],
            cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _expanded(self, argv: Sequence[str]) -> list[str]:
        """URLs need the absolute path of a file in the project."""
        return [word.replace("{project}", self.project) if "://" in word else word for word in argv]

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, steps: Iterable[Sequence[str]]) -> None:
        """Run these commands once, and restore their result afterwards."""
        wanted = tuple(tuple(step) for step in steps)
        if wanted not in self._templates:
            self.put({})
            for step in wanted:
                self._step(step)
            self._templates[wanted] = self.take()
        self.put(self._templates[wanted])

    def _step(self, step: tuple[str, ...]) -> None:
        """A command of Holdfast, or of `git`, `write FILE TEXT` or `remove DIRECTORY` relative to the project, or
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
        """Every file of the sandbox."""
        return read_tree(self.root)

    def put(self, tree: Tree) -> None:
        """Restore exactly these files, and bind the writer to the home: it counts as the same home, not as a copy."""
        empty(self.root)
        write_tree(self.root, {"project": None, **tree})
        bind(self.home)


def read_tree(root: str) -> Tree:
    tree: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            tree[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    tree[os.path.relpath(path, root)] = file.read()
    return tree


def write_tree(root: str, tree: Tree) -> None:
    for name in sorted(tree, key=lambda entry: (entry.count(os.sep), entry)):
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
    """A directory in memory, if there is one."""
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
