"""`redact` shows what would leave this device, before it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.core.events import NoteAdded
from holdfast.store.interface import Draft
from tests.support.command_line import Calling

TOKEN = "ghp_" + "c4n4ry0" * 5 + "x"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    result = Calling(tmp_path, monkeypatch, capsys)
    result("config", "set", "device.name", "laptop")
    result("config", "set", "sync.background", "false")
    return result


def shown(cli: Calling, session: str = "@") -> dict[str, Any]:
    out = cli("redact", session, "--json")
    assert (out.code, out.err) == (0, "")
    document: dict[str, Any] = json.loads(out.out)
    return document


def plant(cli: Calling, session: str, text: str) -> None:
    """A note with a secret of a kind that was unknown when it was recorded."""
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper, keeper.store().transaction() as transaction:
        transaction.record(session, Draft(NoteAdded(text=text), keeper.now(), "ada"))
        transaction.remember("arrivals/rules", b"0")


def test_redact_without_a_remote_lists_every_text(cli: Calling) -> None:
    """With its kind; nothing was sent, and nothing is to be removed. What is never recorded is named."""
    session = cli.session("start", "Add search", "--scope", "backend")
    cli("decide", "SQLite", "--why", "no server")
    cli("file", "src/a.py", "--action", "modified")
    result = shown(cli)
    assert set(result) == {"holdfast", "session", "events", "texts", "found", "never"}
    assert (result["holdfast"], result["session"], result["events"], result["found"]) == (1, session["id"], 3, [])
    texts = {(match["where"], match["text"]) for match in result["texts"]}
    assert texts >= {
        ("goal", "Add search"), ("session.scope", "backend"), ("decisions", "SQLite"), ("decisions.why", "no server"),
        ("files", "src/a.py"), ("project.name", "project"), ("project.path", str(cli.project)), ("device", "laptop"),
    }  # fmt: skip
    assert not any(match["sent"] for match in result["texts"])
    assert "file contents" in result["never"]


def test_redact_separates_sent_from_new_texts(cli: Calling, tmp_path: Path) -> None:
    """After a sync nothing is new; a later note is."""
    cli("remote", "add", "shelf", f"folder:{tmp_path / 'shelf'}")
    cli("start", "Add search")
    assert cli("sync").code == 0
    result = shown(cli)
    assert result["events"] == 0
    assert all(match["sent"] for match in result["texts"])
    assert "Nothing new would leave" in cli("redact", "@").out
    cli("note", "one more thing")
    result = shown(cli)
    assert [match["text"] for match in result["texts"] if not match["sent"]] == ["one more thing"]
    outcome = cli("redact", "@")
    assert "1 event would leave this device with the next sync, with 1 new text." in outcome.out
    assert "new   one more thing" in outcome.out


def test_redact_names_secrets_by_kind_and_place(cli: Calling) -> None:
    """Texts are shown as they would be sent; a sync removes the secret and says so."""
    session = cli.session("start", "Deploy")["id"]
    plant(cli, session, f"The key is {TOKEN}")
    before = [event["hash"] for event in json.loads(cli("log", "--json").out)["events"]]
    result = shown(cli)
    assert result["found"] == [{"kind": "github_token", "where": "notes"}]
    assert TOKEN not in json.dumps(result)
    outcome = cli("redact", session)
    assert "Would be removed first: 1 github_token in notes" in outcome.out
    assert TOKEN not in outcome.out + outcome.err
    assert [event["hash"] for event in json.loads(cli("log", "--json").out)["events"]] == before
    cli("remote", "add", "shelf", f"folder:{cli.project.parent / 'shelf'}")
    assert "Removed 1 secret from older events before sending: 1 github_token." in cli("sync").err
    assert shown(cli)["found"] == []
    assert "The key is [redacted:github_token]" in cli("redact", "@").out


def test_redact_shortens_many_texts_for_people_only(cli: Calling) -> None:
    """--json has all of them in full."""
    cli("start", "Add search")
    for number in range(25):
        cli("note", f"note {number} " + "long " * 100)
    assert "and 5 more (--json has all)" in cli("redact", "@").out
    notes = [item["text"] for item in shown(cli)["texts"] if item["where"] == "notes"]
    assert len(notes) == 25
    assert all(len(note) > 500 for note in notes)


def test_redact_reports_a_session_that_is_not_sent(cli: Calling, tmp_path: Path) -> None:
    """The remote is for another project."""
    session = cli.session("start", "Add search")["id"]
    other = tmp_path / "other"
    other.mkdir()
    cli.patch.chdir(other)
    cli("remote", "add", "shelf", f"folder:{tmp_path / 'shelf'}", "--this-project")
    out = cli("redact", session)
    assert out.code == 0
    assert "Nothing new would leave" in out.out
    assert "None of it is sent to shelf: only other projects are sent there." in out.err


def test_redact_of_an_unknown_session_is_not_found(cli: Calling) -> None:
    """Exit 3, and 2 without an id."""
    assert cli("redact", "nobody").code == 3
    assert cli("redact").code == 2


def test_commands_without_a_remote_load_no_redaction(tmp_path: Path) -> None:
    code = (
        "import sys; from holdfast import Keeper; keeper = Keeper.open('.', home=sys.argv[1]); keeper.start('x');"
        "names = [name for name in sys.modules if name != 'holdfast.sync.follower'];"
        "print([name for name in names if 'holdfast.sync.' in name])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "home"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"
