"""A person's machine in a scratch directory: a home, a git project, a home of Holdfast, and real agent programs.

The programs run with a scripted model as their only peer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real import real_programs, scripted_model

_HOLDFAST: Final = os.path.join(os.path.dirname(sys.executable), "holdfast")
_PATIENCE: Final = 150  # seconds; a program that cannot reach its model tries again for a while


@dataclass
class RunResult:
    """The result of one run of a program."""

    code: int
    output: str
    model_requests: list[dict[str, Any]] = field(default_factory=list)

    def model_input(self) -> str:
        """Everything the program sent to the model, as text."""
        return "\n".join(json.dumps(entry["body"], ensure_ascii=False) for entry in self.model_requests)


class Machine:
    """One person's machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.project = root / "shop"
        self.kept = root / "kept"
        self._requests = root / "requests.jsonl"
        for made in (self.home, self.project):
            made.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        (self.project / "README.md").write_text("A shop.\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "HOLDFAST_HOME": str(self.kept), "LANG": "C.UTF-8",
            "TERM": "dumb", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CEILING_DIRECTORIES": str(self.root),
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org", **more,
        }  # fmt: skip

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.project, env=self.environment(), check=True, capture_output=True)

    def holdfast(self, *words: str, kept: Path | None = None) -> dict[str, Any]:
        """The JSON document of a command that must succeed."""
        done = subprocess.run(
            [_HOLDFAST, *words, "--json"], cwd=self.project, capture_output=True, text=True, check=False, timeout=60,
            env=self.environment(**({} if kept is None else {"HOLDFAST_HOME": str(kept)})),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def run(
        self, agent: str, *words: str, steps: list[scripted_model.Step] | None = None,
        errand: list[scripted_model.Step] | None = None, environ: dict[str, str] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> RunResult:  # fmt: skip
        """Run an agent offline with a scripted model (without steps: none), and kill it once `until` is true."""
        script, output = self.root / "script.json", self.root / "said.txt"
        self._requests.write_text("")
        if steps is not None:
            script.write_text(json.dumps({"steps": steps, "errand": errand or []}))
        command = [
            "unshare", "-rn", sys.executable, scripted_model.__file__, "-" if steps is None else str(script),
            str(self._requests), "--", *real_programs.command(agent), *words,
        ]  # fmt: skip
        with (
            output.open("wb") as out,
            subprocess.Popen(
                command, cwd=self.project, env=self.environment(**(environ or {})), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            ) as process,
        ):  # fmt: skip
            try:
                self._wait(process, until)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return RunResult(process.returncode, output.read_text(errors="replace"), self.model_requests())

    def _wait(self, process: subprocess.Popen[bytes], until: Callable[[], bool] | None) -> None:
        for _ in range(_PATIENCE):
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                if until is not None and until():
                    return
            else:
                return
        pytest.fail(f"after {_PATIENCE} seconds it is still running: {(self.root / 'said.txt').read_text()}")

    def model_requests(self) -> list[dict[str, Any]]:
        """The requests to the model so far."""
        return [json.loads(line) for line in self._requests.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def is_model_silent(self) -> bool:
        """Whether the model does not answer, so that the program waits in the middle of its work."""
        return any(entry["silent"] for entry in self.model_requests())

    # ── what Holdfast recorded ───────────────────────────────────────────────────────────────────────────────

    def session(self, which: str = "@", *, kept: Path | None = None) -> dict[str, Any]:
        session = self.holdfast("status", which, kept=kept)["session"]
        assert isinstance(session, dict)
        return session

    def sessions(self, *, kept: Path | None = None) -> list[dict[str, Any]]:
        return list(self.holdfast("history", "--all-projects", kept=kept)["sessions"])

    def events(self, which: str, *, kept: Path | None = None) -> list[dict[str, Any]]:
        return list(self.holdfast("log", which, kept=kept)["events"])
