"""A server outage is remembered for a moment, for those who would not wait longer, and logged once."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from holdfast.machine import error_log
from holdfast.store import postgres
from holdfast.workspace import server_outage

URL = "postgresql://ada:hunter2@db.example/team"


def test_outage_spares_others_the_wait_for_some_seconds(tmp_path: Path) -> None:
    """Of this server only; the password is not stored, and the log has one line."""
    home = str(tmp_path)
    assert not server_outage.is_away(home, URL)
    for _ in range(3):
        server_outage.note_outage(home, "hook", URL, "the server does not answer")
    assert server_outage.is_away(home, URL)
    assert not server_outage.is_away(home, URL + "2")
    assert not server_outage.is_away(home, "sqlite:////x.db")
    assert not server_outage.is_away(home, None)
    assert [line["message"] for line in error_log.lines(home)] == ["the server does not answer"]
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())
    path = tmp_path / server_outage.NAME
    assert path.stat().st_mode & 0o777 == 0o600
    old = path.stat().st_mtime - 2 * server_outage.OUTAGE_SECONDS
    os.utime(path, (old, old))
    assert not server_outage.is_away(home, URL)


def test_outage_does_not_stop_callers_with_more_patience(tmp_path: Path) -> None:
    """A server may be slow; nobody tries after a patient caller got no answer."""
    home = str(tmp_path)
    server_outage.note_outage(home, "hook", URL, "slow", server_outage.HOOK_PATIENCE)
    assert not server_outage.is_away(home, URL, server_outage.BACKGROUND_PATIENCE)
    server_outage.note_outage(home, "hook", URL, "slow", server_outage.BACKGROUND_PATIENCE)
    assert server_outage.is_away(home, URL, server_outage.BACKGROUND_PATIENCE)
    assert server_outage.is_away(home, URL)


def test_cleared_outage_is_reported_again_next_time(tmp_path: Path) -> None:
    """Anything else in place of the mark is ignored."""
    home = str(tmp_path)
    server_outage.note_outage(home, "hook", URL, "away")
    server_outage.clear_outage(home)
    server_outage.clear_outage(home)
    assert not server_outage.is_away(home, URL)
    server_outage.note_outage(home, "hook", URL, "away again")
    assert [line["message"] for line in error_log.lines(home)] == ["away", "away again"]
    (tmp_path / server_outage.NAME).write_bytes(b"\xff what?")
    assert not server_outage.is_away(home, URL)
    (tmp_path / server_outage.NAME).unlink()
    (tmp_path / server_outage.NAME).symlink_to(tmp_path / "elsewhere")
    server_outage.note_outage(home, "hook", URL, "still")
    assert not (tmp_path / "elsewhere").exists()


def test_outage_message_is_recognised_for_every_error_of_a_lost_server() -> None:
    """The error log holds sentences, and the doctor tells an outage from a fault by them."""
    source = Path(postgres.__file__).parent
    sentences = [
        call.args[0].value
        for path in (source / "transaction.py", source / "connections.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Unreachable"
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    ]
    assert len(sentences) >= 4
    assert [sentence for sentence in sentences if not server_outage.is_outage_message(sentence)] == []
    assert server_outage.is_outage_message("the server was cut off before saving; nothing was recorded")
