"""Calls the program in this process, as a user's script would, and checks every answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.cli.main import main

ERROR_KEYS = {"kind", "message", "hint", "operation", "file", "session", "feature_id", "details", "timestamp"}
KINDS = {
    1: {"failed", "refused", "busy"},
    2: {"usage"},
    3: {"not_found"},
    4: {"invalid"},
    5: {"conflict"},
    6: {"damaged"},
    7: {"unreachable"},
}
DAY = "2026-01-05"


class Out(NamedTuple):
    code: int
    out: str
    err: str


def at(minutes: float, day: str = DAY) -> str:
    """A time on an invented working day: minutes after 08:00 UTC."""
    milliseconds = round(minutes * 60_000)
    hours, rest = divmod(milliseconds, 3_600_000)
    return f"{day}T{8 + hours:02d}:{rest // 60_000:02d}:{rest % 60_000 / 1000:06.3f}Z"


class Calling:
    """One home and one project; each call is one run of `holdfast`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir()
        self.patch = monkeypatch
        self._capsys = capsys
        for name in [name for name in os.environ if name.startswith(("HOLDFAST_", "GIT_", "CLAUDE_CODE_", "CODEX_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOLDFAST_HOME", str(self.home))
        for name, value in git_environment(root).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.project)

    def __call__(self, *words: str) -> Out:
        self._capsys.readouterr()
        code = main(list(words))
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        assert "unexpected happened" not in err, err
        return Out(code, out, err)

    def document(self, *words: str) -> dict[str, Any]:
        """The one JSON document of a call that must succeed."""
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, ""), out
        return checked(out)

    def session(self, *words: str) -> dict[str, Any]:
        document = self.document(*words)["session"]
        assert isinstance(document, dict)
        return document

    def refused(self, code: int, *words: str) -> dict[str, Any]:
        """The error of a call that must fail with this code: one JSON document, and a sentence for people."""
        as_text = self(*words)
        assert (as_text.code, as_text.out) == (code, ""), as_text
        assert as_text.err.startswith("holdfast: ")
        as_json = self(*words, "--json")
        assert (as_json.code, as_json.err) == (code, ""), as_json
        error = checked(as_json.out)["error"]
        assert set(error) == ERROR_KEYS
        assert error["kind"] in KINDS[code]
        assert error["message"]
        assert error["details"]
        assert error["timestamp"].endswith("Z")
        return dict(error)

    def git(self, *words: str, where: Path | None = None) -> str:
        return git(*words, where=where or self.project)

    def repository(self) -> None:
        """Make the project a git repository with one commit on `main`."""
        self.git("init", "-q", "-b", "main")
        (self.project / "README.md").write_text("hello\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")


def checked(out: str) -> dict[str, Any]:
    """Exactly one JSON document of this version; times of a session in it add up."""
    assert out.count("\n") == 1
    assert out.endswith("\n")
    document = json.loads(out)
    assert document["holdfast"] == 1
    session = document.get("session")
    if isinstance(session, dict):
        lawful(session["time"])
    return dict(document)


def lawful(time: dict[str, Any]) -> None:
    """Working + paused = elapsed, exactly; pauses add up and never overlap."""
    assert time["working_ms"] + time["paused_ms"] == time["elapsed_ms"]
    assert min(time["working_ms"], time["paused_ms"]) >= 0
    assert sum(pause["duration_ms"] for pause in time["pauses"]) == time["paused_ms"]
    end = ""
    for pause in time["pauses"]:
        assert pause["started_at"] >= end
        end = pause["ended_at"] or "9"


def pauses(session: dict[str, Any]) -> list[tuple[str, float]]:
    """Kind and minutes of each pause."""
    return [(pause["kind"], pause["duration_ms"] / 60_000) for pause in session["time"]["pauses"]]


def git_environment(root: Path) -> dict[str, str]:
    return {
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CEILING_DIRECTORIES": str(root),
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip


def git(*words: str, where: Path) -> str:
    done = subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def process(*words: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """A real process with only the given environment."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
