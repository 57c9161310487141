"""That a server is away is known for a moment, to those who would not have waited longer, and noted once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.capture import absence
from holdfast.machine import errorlog

if TYPE_CHECKING:
    from pathlib import Path

URL = "postgresql://ada:hunter2@db.example/team"


def test_others_need_not_ask(tmp_path: Path) -> None:
    """Of this server, for some seconds; the password is kept nowhere, and the log says it once."""
    home = str(tmp_path)
    assert not absence.is_away(home, URL)
    for _ in range(3):
        absence.noticed(home, "hook", URL, "the server does not answer")
    assert absence.is_away(home, URL)
    assert not absence.is_away(home, URL + "2")
    assert not absence.is_away(home, "sqlite:////x.db")
    assert not absence.is_away(home, None)
    assert [one["message"] for one in errorlog.lines(home)] == ["the server does not answer"]
    assert not any(b"hunter2" in one.read_bytes() for one in tmp_path.iterdir())
    path = tmp_path / absence.NAME
    assert path.stat().st_mode & 0o777 == 0o600
    old = path.stat().st_mtime - 2 * absence.LASTS
    os.utime(path, (old, old))
    assert not absence.is_away(home, URL)


def test_who_has_more_time_asks(tmp_path: Path) -> None:
    """A server may be slow; when one who waited long heard nothing, nobody asks."""
    home = str(tmp_path)
    absence.noticed(home, "hook", URL, "slow", absence.HURRY)
    assert not absence.is_away(home, URL, absence.LEISURE)
    absence.noticed(home, "hook", URL, "slow", absence.LEISURE)
    assert absence.is_away(home, URL, absence.LEISURE)
    assert absence.is_away(home, URL)


def test_it_is_over_when_it_was_heard(tmp_path: Path) -> None:
    """Then the next absence is news; what somebody put in place of the mark is no mark."""
    home = str(tmp_path)
    absence.noticed(home, "hook", URL, "away")
    absence.is_over(home)
    absence.is_over(home)
    assert not absence.is_away(home, URL)
    absence.noticed(home, "hook", URL, "away again")
    assert [one["message"] for one in errorlog.lines(home)] == ["away", "away again"]
    (tmp_path / absence.NAME).write_bytes(b"\xff what?")
    assert not absence.is_away(home, URL)
    (tmp_path / absence.NAME).unlink()
    (tmp_path / absence.NAME).symlink_to(tmp_path / "elsewhere")
    absence.noticed(home, "hook", URL, "still")
    assert not (tmp_path / "elsewhere").exists()
