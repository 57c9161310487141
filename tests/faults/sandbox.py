"""A home and a project for the program under test, called in this process or as a real one; and common assertions."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from holdfast import Keeper
from holdfast.cli.main import main
from holdfast.store.sqlite import SqliteStore
from tests.faults.harness.warm import without_privileges

CODES = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 130})


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.out.count("\n") == 1, self
        document: dict[str, Any] = json.loads(self.out)
        assert document["holdfast"] == 1
        return document


class Sandbox:
    """A home and a project of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir(exist_ok=True)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOLDFAST_HOME": str(self.home),
            "HOME": str(self.root),
            "PATH": os.environ.get("PATH", ""),
            "TZ": "UTC",
        }

    @property
    def store(self) -> Path:
        return self.home / "store.db"

    def keeper(self, project: Path | None = None) -> Keeper:
        return Keeper.open(str(project or self.project), home=str(self.home))

    def call(self, *words: str, project: Path | None = None) -> CommandResult:
        """In this process; fails on a traceback or an internal error."""
        out, err = io.StringIO(), io.StringIO()
        here = ["--project", str(project or self.project)]
        with (
            mock.patch.dict(os.environ, {"HOLDFAST_HOME": str(self.home)}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main([*here, *words])
        answer = CommandResult(code, out.getvalue(), err.getvalue())
        assert_well_formed(answer)
        return answer

    def run(self, *words: str | bytes, env: dict[str, str] | None = None, **more: Any) -> CommandResult:
        """As a real process."""
        how: dict[str, Any] = {"cwd": self.project, "stdin": subprocess.DEVNULL, "capture_output": True} | more
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words], env=self.environ | (env or {}), check=False, **how
        )
        return CommandResult(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())

    def assert_sound(self) -> None:
        """The store is sound: file, chains, states, listings, search."""
        assert_sound(self.store)


def assert_well_formed(answer: CommandResult) -> None:
    """A documented exit code, an error message for users, no traceback and no internal error."""
    assert answer.code in CODES, answer
    assert "Traceback" not in answer.out + answer.err, answer
    assert "unexpected happened" not in answer.out + answer.err, answer
    if answer.code:
        assert answer.err.startswith("holdfast: ") or '"error":' in answer.out, answer


def assert_sound(path: Path) -> None:
    store = SqliteStore(str(path), writer=lambda: "checker", wall=lambda: 1, create=False)
    try:
        assert list(store.check()) == []
    finally:
        store.close()


def assert_times_add_up(document: Any) -> None:
    """Working + paused = elapsed, nothing negative, pauses consistent, for a `Session` of the library."""
    time = document.time
    assert time.working_ms + time.paused_ms == time.elapsed_ms
    assert min(time.working_ms, time.paused_ms, time.elapsed_ms) >= 0
    assert sum(pause.duration_ms for pause in time.pauses) == time.paused_ms
    assert all(pause.duration_ms >= 0 for pause in time.pauses)
    assert all(agent.duration_ms is None or agent.duration_ms >= 0 for agent in document.agents)


def checks_permissions(probe: Path) -> bool:
    """Whether a child without privileges is really refused what a mode forbids."""
    probe.write_text("x")
    probe.chmod(0)
    done = subprocess.run(["cat", str(probe)], preexec_fn=without_privileges, capture_output=True, check=False)
    probe.chmod(0o600)
    probe.unlink()
    return done.returncode != 0


def tree(root: Path) -> dict[str, bytes | None]:
    """Everything below a directory; links are not followed."""
    contents: dict[str, bytes | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        contents[name] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return contents


def kill(process: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()


Preexec = Callable[[], None]
Words = Sequence[str]
