"""That a server is away is known for a moment, to those who would not have waited longer, and noted once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.machine import error_log
from holdfast.workspace import server_outage

if TYPE_CHECKING:
    from pathlib import Path

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
