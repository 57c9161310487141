"""`holdfast backfill` as a person calls it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.cli.commands.conversations import _BackfillBar
from holdfast.cli.paint import Paint
from tests.support.command_line import Calling


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], empty_home: Path
) -> Calling:
    monkeypatch.setenv("HOME", str(empty_home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return Calling(tmp_path, monkeypatch, capsys)


def write(talk: str, *lines: str, minute: int = 0) -> Path:
    """A transcript of prompts, a minute apart."""
    directory = Path(os.environ["HOME"]) / ".claude" / "projects" / "-work-app"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{talk}.jsonl"
    records = [
        {
            "type": "user", "uuid": f"{talk}-{minute + number}", "sessionId": talk, "cwd": "/work/app",
            "timestamp": f"2026-02-03T10:{minute + number:02d}:00.000Z", "message": {"role": "user", "content": line},
        }
        for number, line in enumerate(lines)
    ]  # fmt: skip
    with path.open("a") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_backfill_records_transcripts_once(call: Calling) -> None:
    """The second call reports nothing new."""
    write("talk-1", "Fix the login", "And the logout")
    write("talk-2", "Write the docs", "In English")
    first = call("backfill")
    assert first.code == 0
    assert "2 sessions recorded" in first.out
    assert "claude" in first.out
    assert "Fix the login" in call("history", "--all-projects").out
    again = call("backfill", "claude")
    assert "Nothing new." in again.out


def test_backfill_json_has_an_entry_per_agent(call: Calling) -> None:
    """With what was read and what could not be."""
    path = write("talk-1", "Fix the login", "And the logout")
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    out = call("backfill", "--json")
    assert out.code == 0
    assert out.err == ""
    entries = {entry["agent"]: entry for entry in json.loads(out.out)["backfill"]}
    claude = entries["claude"]
    assert (claude["sources"], claude["read"], claude["sessions"]) == (1, 1, 1)
    assert claude["events"] > 2
    assert claude["problems"] == [f"{path}: line 3 is not JSON"]
    assert all(
        {"agent", "sources", "read", "sessions", "events", "problems"} <= set(entry) for entry in entries.values()
    )


def test_backfill_reports_unreadable_files_and_exits_0(call: Calling) -> None:
    """On standard error."""
    path = write("talk-1", "Fix the login")
    path.write_bytes(b"\0\0\0\n{{{\n")
    out = call("backfill")
    assert out.code == 0
    assert "talk-1.jsonl: line 2 is not JSON" in out.err
    assert "Nothing new." in out.out


def test_backfill_since_skips_earlier_conversations(call: Calling) -> None:
    """An unknown agent is refused before anything is read."""
    write("talk-1", "Fix the login", "And the logout")
    assert "Nothing new." in call("backfill", "--since", "2026-03-01").out
    assert call("backfill", "nobody").code in (2, 4)
    assert "1 session recorded" in call("backfill", "--since", "2026-02-01").out


def test_backfill_says_when_there_is_nothing_to_read(call: Calling) -> None:
    """Without a progress bar outside a terminal."""
    out = call("backfill")
    assert (out.code, out.err) == (0, "")
    assert "No agent has past conversations here." in out.out
    assert call("backfill", "--quiet").out == ""


def test_progress_bar_is_drawn_only_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """On one line of standard error, redrawn per percent and removed at the end."""
    bar = _BackfillBar.__new__(_BackfillBar)
    bar._paint, bar._enabled, bar._shown = Paint(width=60, tty=True), True, ""
    for done in range(1001):
        bar.draw(done, 1000, "/work/\x1b[31m/talk.jsonl")
    bar.clear()
    err = capsys.readouterr().err
    assert err.count("\r") == 102
    assert "100%" in err
    assert "\x1b[31m" not in err
    assert err.endswith("\r\x1b[2K")
    bar._enabled, bar._shown = False, ""
    bar.draw(1, 2, "x")
    bar.clear()
    assert capsys.readouterr().err == ""
