"""`resume` and `continue` hear what other devices did before they go on, and are never held up by a remote."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Unreachable
from holdfast.sync import background, open_vault
from tests.cli.several_devices import Several


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    """Two devices of one vault; we sit at the laptop, where a session has begun."""
    devices = Several(tmp_path, monkeypatch, capsys)
    devices.create_vault()
    devices.join("desktop")
    devices.at("laptop")
    devices.session("start", "Ship it")
    return devices


def test_stop_here_go_on_there(several: Several) -> None:
    """What was done and synced on one device is gone on with on another by saying `resume` there, no more."""
    several.document("note", "half way")
    several.document("pause")
    several.document("sync")
    several.at("desktop")
    session = several.session("resume")
    assert (session["goal"], session["status"]) == ("Ship it", "in_progress")
    assert [match["text"] for match in session["notes"]] == ["half way"]
    assert sorted(session["devices"]) == ["desktop", "laptop"]


@pytest.mark.parametrize("words", [["continue"], ["resume", "--device", "laptop"]])
def test_other_ways_to_go_on(several: Several, words: list[str]) -> None:
    """`continue` and `resume --device` ask the remote too."""
    several.document("pause")
    several.document("sync")
    several.at("desktop")
    assert several.session(*words)["goal"] == "Ship it"


def test_without_a_sync_only_what_is_here_counts(several: Several) -> None:
    """`--no-sync` asks nobody: what is not here yet is not gone on with."""
    several.document("sync")
    several.at("desktop")
    assert several("resume", "--no-sync").code == 3
    assert several("resume").code == 0


def test_without_a_remote_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device without remotes goes on as ever, and says nothing of remotes."""
    alone = Several(tmp_path, monkeypatch, capsys)
    alone.session("start", "Ship it")
    monkeypatch.setattr(background, "catch_up", lambda _: pytest.fail("nobody was to be asked"))
    assert alone("resume").err == ""


def test_offline_it_goes_on_with_what_is_here(several: Several) -> None:
    """A remote out of reach is worth a note, not a failure; scripts hear nothing of it on stderr."""
    several.away()
    done = several("resume")
    assert done.code == 0
    assert done.err == "Could not reach home; continuing with what is here.\n"
    assert several.session("resume")["sync"]["status"] == "error"


def test_remote_that_never_answers_is_not_waited_for(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the person goes on, whatever the remote does; the sync it was at ends with the process."""
    answers = threading.Event()

    def hanging(*_: object, **__: object) -> object:
        answers.wait(60)
        raise Unreachable("gone")

    monkeypatch.setattr(open_vault, "open_remote", hanging)
    with Keeper.open(str(several.project), home=str(several.root / "home-laptop")) as keeper:
        result = background.catch_up(keeper, seconds=0.2)
        assert result == ["Could not reach home in time; continuing with what is here."]
        keeper.session("@").note("the store is free meanwhile")
        answers.set()
        for thread in threading.enumerate():
            if thread.name == "sync":
                thread.join(30)


def test_whatever_goes_wrong_in_it_is_a_note(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that breaks is noted for the doctor, and nobody sees a traceback."""

    def broken(*_: object, **__: object) -> object:
        raise KeyError

    monkeypatch.setattr(open_vault, "open_remote", broken)
    done = several("resume")
    assert done.code == 0
    assert done.err == "Not synced: the sync failed unexpectedly (KeyError). Continuing with what is here.\n"
    assert "KeyError" in (several.root / "home-laptop" / "errors.log").read_text()


def test_what_was_turned_away_is_noted(several: Several) -> None:
    """Something at the remote that cannot be trusted is said, and the work goes on."""
    several.document("sync")
    several.at("desktop")
    several.document("resume")
    several.document("sync")
    for pack in (several.folder / "p").rglob("*"):
        if pack.is_file():
            pack.write_bytes(b"\0" * pack.stat().st_size)
    several.at("laptop")
    done = several("resume")
    assert done.code == 0
    assert "not accepted" in done.err
    assert "holdfast doctor" in done.err


def test_damaged_list_of_remotes(several: Several) -> None:
    """Even then the session that is here is gone on with."""
    (several.root / "home-laptop" / "remotes.json").write_text("{")
    done = several("resume")
    assert done.code == 0
    assert "list of remotes is damaged" in done.err
    assert several.session("status")["sync"]["error"] == "the list of remotes is damaged"
    assert several("status").code == 0
    assert several.document("export", "--format", "craft")["document"]["teleportation"]["enabled"] is False
