"""`sync`: what it reports, and what a failing remote means for the others."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Keeper
from tests.cli.several_devices import Several
from tests.support.command_line import ERROR_KEYS, checked


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def test_sync_json_has_sent_received_conflicts_and_rejected(several: Several) -> None:
    several.session("start", "Build the shop")
    several.create_vault()
    document = several.document("sync")
    assert set(document) >= {"holdfast", "pushed", "pulled", "conflicts", "rejected"}
    assert (document["pushed"], document["pulled"], document["conflicts"], document["rejected"]) == (1, 0, 0, [])
    document = several.document("sync", "--remote", "home")
    assert (document["pushed"], document["pulled"]) == (0, 0)
    several.join("desk")
    assert several.sync()["pulled"] == 0


def test_sync_prints_one_line(several: Several) -> None:
    """Sent, received, or nothing new."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    assert several("sync").out == "Sent 1.\n"
    assert several("sync").out == "Nothing new.\n"
    assert several("sync", "--quiet").out == ""
    several.at("desk")
    several.document("remote", "add", "home", several.url)
    words = several.words
    several.at("laptop")
    several.document("device", "approve", words)
    several.at("desk")
    assert several("sync").out == f"Received 1.\n  {session[:8]}  Build the shop\n"
    several.session("resume", session)
    several.session("note", "one more")
    several.at("laptop")
    several.session("note", "and one here")
    several.sync("desk")
    several.at("laptop")
    assert re.fullmatch(rf"Sent \d+, received \d+\.\n  {session[:8]}  Build the shop\n", several("sync").out)


def test_sync_waiting_for_approval_exits_0(several: Several) -> None:
    """And says what it waits for."""
    several.create_vault()
    several.at("desk")
    several.document("remote", "add", "home", several.url)
    spoken = several("sync")
    assert spoken.code == 0
    assert several.words in spoken.err
    document = several.document("sync")
    assert document["pushed"] == document["pulled"] == 0
    assert len(document["notes"]) == 1


def test_sync_exit_codes_of_missing_and_unreachable_remotes(several: Several) -> None:
    """3 without the remote, 7 for an unreachable one; `status` still works."""
    several.refused(3, "sync")
    several.create_vault()
    several.refused(3, "sync", "--remote", "elsewhere")
    several.away()
    error = several.refused(7, "sync")
    assert error["message"].startswith("home: ")
    assert error["operation"] == "sync"
    assert several("status").code == 0
    several.back()
    several.sync()
    assert several.document("remote", "list")["remotes"][0]["error"] is None


def test_sync_continues_with_other_remotes_after_a_failure(several: Several) -> None:
    several.create_vault()
    several.document("remote", "add", "second", f"folder:{several.root}/second")
    several.session("start", "Build the shop")
    several.away()
    spoken = several("sync")
    assert (spoken.code, spoken.out) == (7, "Sent 1.\n")
    assert "home: " in spoken.err
    several.session("note", "one more")
    result = several("sync", "--json")
    assert (result.code, result.err) == (7, "")
    document = checked(result.out)
    assert set(document["error"]) == ERROR_KEYS
    assert (document["pushed"], document["pulled"], document["conflicts"], document["rejected"]) == (1, 0, 0, [])
    assert {item["name"]: item["error"] is None for item in document["remotes"]} == {"home": False, "second": True}
    assert several.document("sync", "--remote", "second")["pushed"] == 0
    several.back()
    assert several.sync()["pushed"] == 2


def test_sync_reports_new_conflicts(several: Several) -> None:
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    several.join("desk")
    several.session("resume", session)
    several.session("edit", "--goal", "Ship on Monday")
    several.at("laptop")
    several.session("edit", "--goal", "Ship on Friday")
    assert several.sync("desk", "laptop")["conflicts"] == 1
    several.at("desk")
    spoken = several("sync")
    assert f"1 conflict to look at: holdfast conflicts {session[:8]}" in spoken.err


def test_sync_names_the_latest_three_received_sessions(several: Several) -> None:
    """And how many more there are."""
    several.create_vault()
    several.join("desk")
    several.at("laptop")
    for number in range(5):
        several.session("start", f"Goal {number}", "--at", f"2026-01-0{number + 1}T08:00:00Z")
        several.session("stop", "--at", f"2026-01-0{number + 1}T09:00:00Z")
    several.sync()
    several.at("desk")
    output = several("sync").out.splitlines()
    assert [line.split("  ")[-1] for line in output[1:4]] == ["Goal 4", "Goal 3", "Goal 2"]
    assert output[4:] == ["  and 2 more sessions"]


def test_sync_names_a_session_deleted_elsewhere(several: Several) -> None:
    """`status` does so once, where it was current."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    several.join("desk")
    several.session("resume", session)
    several.at("laptop")
    several.sync()
    several.document("delete", session, "--confirm", "--force")
    several.sync("laptop", "laptop")
    several.at("desk")
    result = several("sync")
    assert f"Session {session[:8]}, Build the shop, was deleted on laptop." in result.err
    result = several("status")
    assert f"Session {session[:8]}, which was the current one here, was deleted on laptop." in result.err
    assert "deleted" not in several("status").err
    assert several.document("status") == {"holdfast": 1, "session": None}


def test_sync_and_status_json_name_a_deleted_session(several: Several) -> None:
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    several.join("desk")
    several.session("resume", session)
    several.at("laptop")
    several.sync()
    several.document("delete", session, "--confirm", "--force")
    several.sync()
    done = several.sync("desk")
    assert done["deleted"] == [{"session": session, "device": "laptop"}]
    assert done["notes"] == [f"Session {session[:8]}, Build the shop, was deleted on laptop."]
    assert len(several.document("status")["notes"]) == 1
    assert several.sync()["deleted"] == []


def test_sync_rejects_objects_changed_at_the_remote(several: Several) -> None:
    """Each is named with its reason; everything else is received."""
    several.session("start", "Build the shop")
    several.create_vault()
    several.sync()
    several.join("desk")
    several.at("laptop")
    several.session("note", "one")
    several.sync()
    newest = max(
        (path for path in several.folder.rglob("p/*/*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns
    )
    data = newest.read_bytes()
    newest.chmod(0o600)
    newest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    several.at("desk")
    spoken = several("sync")
    assert spoken.code == 0
    assert "Not accepted from laptop" in spoken.out
    (rejected,) = several.document("sync")["rejected"]
    assert set(rejected) == {"pack", "device", "reason"}
    assert rejected["device"] == "laptop"


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_long_sync_shows_progress_on_a_terminal(several: Several) -> None:
    """After a moment, and removed at the end."""
    several.session("start", "Build the shop")
    several.create_vault()
    for drawn_after, drawn in ((60.0, False), (-1.0, True)):
        several.session("note", "one more")
        screen = Screen()
        several.patch.setattr("holdfast.cli.commands.remotes._BAR_DELAY", drawn_after)
        with several.patch.context() as patch:
            patch.setattr("sys.stderr", screen)
            assert several("sync", "--no-color").code == 0
        assert ("events sent" in screen.getvalue()) is drawn
        assert not drawn or screen.getvalue().endswith("\r\x1b[2K")


def test_status_without_a_remote_loads_no_sync(several: Several) -> None:
    code = (
        "import sys; from holdfast.cli.main import main; main(['status']);"
        "sys.exit(any(name.startswith(('holdfast.sync.', 'cryptography', 'pyrage'))"
        " and name != 'holdfast.sync.follower' for name in sys.modules))"
    )
    several.session("start", "Build the shop")
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_library_sync_equals_the_command(several: Several) -> None:
    several.session("start", "Build the shop")
    several.create_vault()
    with Keeper.open(str(several.project), home=str(several.root / "home-laptop")) as keeper:
        done = keeper.sync()
        assert (done.report.pushed, done.reached, done.failed) == (1, ["home"], {})
        several.away()
        assert list(keeper.sync("home").failed) == ["home"]
