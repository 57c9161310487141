"""That a server is away is known for a moment, to those who would not have waited longer, and noted once."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from holdfast.machine import error_log
from holdfast.store import postgres
from holdfast.workspace import server_outage

URL = "postgresql://ada:hunter2@db.example/team"


def test_others_need_not_ask(tmp_path: Path) -> None:
    """Of this server, for some seconds; the password is kept nowhere, and the log says it once."""
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


def test_who_has_more_time_asks(tmp_path: Path) -> None:
    """A server may be slow; when one who waited long heard nothing, nobody asks."""
    home = str(tmp_path)
    server_outage.note_outage(home, "hook", URL, "slow", server_outage.HOOK_PATIENCE)
    assert not server_outage.is_away(home, URL, server_outage.BACKGROUND_PATIENCE)
    server_outage.note_outage(home, "hook", URL, "slow", server_outage.BACKGROUND_PATIENCE)
    assert server_outage.is_away(home, URL, server_outage.BACKGROUND_PATIENCE)
    assert server_outage.is_away(home, URL)


def test_it_is_over_when_it_was_heard(tmp_path: Path) -> None:
    """Then the next absence is news; what somebody put in place of the mark is no mark."""
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
