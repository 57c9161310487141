"""`resume` and `continue` sync first, and never wait long for a remote."""

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
    """Two devices of one vault; the laptop is current, and has a session."""
    devices = Several(tmp_path, monkeypatch, capsys)
    devices.create_vault()
    devices.join("desktop")
    devices.at("laptop")
    devices.session("start", "Ship it")
    return devices


def test_resume_continues_what_another_device_synced(several: Several) -> None:
    """Without any other command."""
    several.document("note", "half way")
    several.document("pause")
    several.document("sync")
    several.at("desktop")
    session = several.session("resume")
    assert (session["goal"], session["status"]) == ("Ship it", "in_progress")
    assert [match["text"] for match in session["notes"]] == ["half way"]
    assert sorted(session["devices"]) == ["desktop", "laptop"]


@pytest.mark.parametrize("words", [["continue"], ["resume", "--device", "laptop"]])
def test_continue_and_resume_device_sync_first(several: Several, words: list[str]) -> None:
    several.document("pause")
    several.document("sync")
    several.at("desktop")
    assert several.session(*words)["goal"] == "Ship it"


def test_resume_no_sync_uses_only_local_sessions(several: Several) -> None:
    several.document("sync")
    several.at("desktop")
    assert several("resume", "--no-sync").code == 3
    assert several("resume").code == 0


def test_resume_without_a_remote_does_not_mention_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = Several(tmp_path, monkeypatch, capsys)
    alone.session("start", "Ship it")
    monkeypatch.setattr(background, "catch_up", lambda _: pytest.fail("nobody was to be asked"))
    assert alone("resume").err == ""


def test_resume_continues_offline_with_a_note(several: Several) -> None:
    """Scripts see nothing on stderr."""
    several.away()
    done = several("resume")
    assert done.code == 0
    assert done.err == "Could not reach home; continuing with the local data.\n"
    assert several.session("resume")["sync"]["status"] == "error"


def test_resume_does_not_wait_for_a_remote_that_never_answers(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pending sync ends with the process."""
    answers = threading.Event()

    def hanging(*_: object, **__: object) -> object:
        answers.wait(60)
        raise Unreachable("gone")

    monkeypatch.setattr(open_vault, "open_remote", hanging)
    with Keeper.open(str(several.project), home=str(several.root / "home-laptop")) as keeper:
        result = background.catch_up(keeper, seconds=0.2)
        assert result == ["Could not reach home in time; continuing with the local data."]
        keeper.session("@").note("the store is free meanwhile")
        answers.set()
        for thread in threading.enumerate():
            if thread.name == "sync":
                thread.join(30)


def test_resume_reports_a_crashed_sync_as_a_note(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged for the doctor, without a traceback."""

    def broken(*_: object, **__: object) -> object:
        raise KeyError

    monkeypatch.setattr(open_vault, "open_remote", broken)
    done = several("resume")
    assert done.code == 0
    assert done.err == "Not synced: the sync failed unexpectedly (KeyError). Continuing with the local data.\n"
    assert "KeyError" in (several.root / "home-laptop" / "errors.log").read_text()


def test_resume_reports_rejected_objects_and_continues(several: Several) -> None:
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


def test_resume_continues_with_a_damaged_list_of_remotes(several: Several) -> None:
    (several.root / "home-laptop" / "remotes.json").write_text("{")
    done = several("resume")
    assert done.code == 0
    assert "list of remotes is damaged" in done.err
    assert several.session("status")["sync"]["error"] == "the list of remotes is damaged"
    assert several("status").code == 0
    assert several.document("export", "--format", "craft")["document"]["teleportation"]["enabled"] is False
