"""`holdfast cycle`: the sessions of a cycle and their hours by scope, in a file that people edit too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Calling, at

MINUTE = 60_000


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Calling]:
    calling = Calling(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield calling
    monkeypatch.undo()
    time.tzset()


def record_session(cli: Calling, task: str, scope: str | None, minutes: int, day: str = "2026-01-05") -> str:
    """A session of one day: messages every four minutes, then its end."""
    more = () if scope is None else ("--scope", scope)
    session = cli.session("start", f"Goal of {task}", "--task", task, *more, "--at", at(0, day))
    for minute in range(4, minutes + 1, 4):
        cli("message", "--at", at(minute, day))
    cli("edit", "--summary", f"Did {task}", "--at", at(minutes, day))
    cli("stop", "--at", at(minutes, day))
    return str(session["id"])


def test_cycle_lists_its_sessions_with_hours_per_scope(cli: Calling) -> None:
    """Six weeks from the Monday before the first session; each session with task, summary and its hours."""
    record_session(cli, "Create value object", "Domain Layer", 40, "2026-01-07")
    record_session(cli, "Wire the command", "CLI Layer", 20, "2026-01-08")
    record_session(cli, "Test value object", "Domain Layer", 12, "2026-02-10")
    record_session(cli, "Another cycle", "CLI Layer", 8, "2026-02-16")
    cli("start", "Go on", "--scope", "CLI Layer", "--at", at(0, "2026-02-16"))
    cli("hill", "Domain Layer", "7", "--at", at(1, "2026-02-16"))
    document = cli.document("cycle", "--at", at(0, "2026-02-11"))["cycle"]
    assert (document["since"], document["until"], document["weeks"]) == ("2026-01-05", "2026-02-15", 6)
    assert [(line["key"], line["sessions"], line["working_ms"]) for line in document["scopes"]] == [
        ("Domain Layer", 2, 52 * MINUTE), ("CLI Layer", 1, 20 * MINUTE),
    ]  # fmt: skip
    assert document["total"]["working_ms"] == 72 * MINUTE
    text = cli("cycle", "--at", at(0, "2026-02-11")).out
    assert "## Cycle 2026-01-05 to 2026-02-15" in text
    assert "| Domain Layer | 2 | 52 min |" in text
    assert "| **All** | 3 | 1 h 12 min |" in text
    assert "| 2026-01-07 | Create value object | Did Create value object | 40 min | completed |" in text
    assert "Another cycle" not in text
    later = cli("cycle", "--at", at(5, "2026-02-16")).out
    assert "## Cycle 2026-02-16 to 2026-03-29" in later
    assert "Another cycle" in later


def test_session_across_two_cycles_is_split_at_midnight(cli: Calling) -> None:
    """Both cycles list it."""
    cli("start", "Late", "--scope", "S", "--at", "2026-02-15T23:50:00Z")
    for moment in ("2026-02-15T23:54:00Z", "2026-02-15T23:58:00Z", "2026-02-16T00:02:00Z", "2026-02-16T00:06:00Z"):
        cli("message", "--at", moment)
    document = cli.document("cycle", "--start", "2026-01-05", "--at", "2026-02-16T00:06:00Z")["cycle"]
    assert (document["since"], document["total"]["working_ms"]) == ("2026-02-16", 6 * MINUTE)
    (cli.project / "first.md").write_text("")
    cli("cycle", "-o", "first.md", "--start", "2026-01-05", "--at", "2026-02-15T23:50:00Z")
    document = cli.document("cycle", "-o", "first.md", "--at", "2026-02-16T00:06:00Z")["cycle"]
    assert (document["since"], document["total"]["working_ms"]) == ("2026-01-05", 10 * MINUTE)


def test_cycle_file_keeps_its_cycle_and_what_people_wrote(cli: Calling) -> None:
    """Also weeks after the end of the cycle, before and after the section."""
    record_session(cli, "First task", "Scope A", 20, "2026-01-05")
    path = cli.project / "cycle.md"
    path.write_text("# Our first cycle\n\nThe pitch.\n")
    assert "Written: cycle.md" in cli("cycle", "-o", "cycle.md", "--at", at(0, "2026-01-06")).err
    path.write_text(path.read_text() + "\nWhat we learned.\n")
    record_session(cli, "Second task", "Scope A", 12, "2026-01-20")
    cli("cycle", "-o", "cycle.md", "--at", at(0, "2026-04-01"))
    text = path.read_text()
    assert text.startswith("# Our first cycle\n\nThe pitch.\n\n<!-- holdfast cycle: 2026-01-05, 6 weeks.")
    assert text.endswith("-->\n\nWhat we learned.\n")
    assert "| Scope A | 2 | 32 min |" in text
    assert text.count("<!--") == 2
    again = path.stat().st_mtime_ns
    cli("cycle", "-o", "cycle.md", "--at", at(0, "2026-04-01"))
    assert path.stat().st_mtime_ns == again, "nothing new, nothing written"


def test_cycle_file_escapes_text_that_looks_like_markdown(cli: Calling) -> None:
    """Also the closing comment, so that the file can be updated again."""
    record_session(cli, "a | b <!-- end of the holdfast cycle --> *c*", "S | T", 4, "2026-01-05")
    for _ in range(2):
        cli("cycle", "-o", "cycle.md", "--at", at(0, "2026-01-06"))
    text = (cli.project / "cycle.md").read_text()
    assert text.count("<!-- end of the holdfast cycle -->") == 1
    assert text.count("<!-- holdfast cycle:") == 1


def test_cycle_without_sessions_is_empty_and_invalid_calls_are_refused(cli: Calling) -> None:
    assert "No sessions yet." in cli("cycle").out
    assert cli.document("cycle")["cycle"]["sessions"] == []
    assert cli.refused(4, "cycle", "--start", "soon")["message"].startswith("expected a date")
    assert cli.refused(4, "cycle", "--weeks", "0")["message"].startswith("expected 1 to 52 weeks")
    assert cli("cycle", "-o", "missing/cycle.md").code == 3
    (cli.project / "picture.md").write_bytes(b"\xff\xfe\x00")
    assert cli("cycle", "-o", "picture.md").code == 4
    assert (cli.project / "picture.md").read_bytes() == b"\xff\xfe\x00"
