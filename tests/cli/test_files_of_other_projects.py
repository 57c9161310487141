"""The id of a session is not secret: a file in a repository must not reach a session of another project by it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import apsw
import pytest

from tests.support.command_line import Calling

CRAFT = ".craft/cache/orchestration-sessions"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def test_mirrored_file_with_the_id_of_another_projects_session_is_left_alone(cli: Calling, tmp_path: Path) -> None:
    """Neither is changed by the other."""
    cli.repository()
    session = cli.session("start", "Own work")["id"]
    cli.session("note", "precious")
    file = tmp_path / "copy.json"
    cli.document("export", session, "--format", "craft", "-o", str(file))
    document = json.loads(file.read_text())
    document |= {"goal": "Taken over", "status": "completed", "updated_at": "2099-01-01T00:00:00.000Z"}
    document["metadata"].pop("notes", None)
    evil = tmp_path / "evil"
    (evil / CRAFT).mkdir(parents=True)
    (evil / CRAFT / f"{session}.json").write_text(json.dumps(document))
    cli.patch.chdir(evil)
    cli.document("start", "Something here")
    cli("mirror", "on", "craft")
    cli("status")
    shown = cli.session("show", session)
    assert (shown["goal"], shown["status"]) == ("Own work", "in_progress")
    assert "precious" not in (evil / CRAFT / f"{session}.json").read_text()


@pytest.mark.parametrize("words", [("import",), ("recover", "--start")], ids=["import", "recover"])
@pytest.mark.parametrize("status", ["in_progress", "completed", "aborted"])
def test_imported_file_changes_no_session_of_another_project(
    cli: Calling, tmp_path: Path, words: tuple[str, ...], status: str
) -> None:
    """A repository may contain a file with any id; in the session's own project it is imported."""
    cli.repository()
    own = os.getcwd()
    session = cli.session("start", "Own work")["id"]
    file = tmp_path / "copy.json"
    cli.document("export", session, "--format", "craft", "-o", str(file))
    document = json.loads(file.read_text())
    document |= {"goal": "Taken over", "status": status, "updated_at": "2099-01-01T00:00:00.000Z"}
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "notes.json").write_text(json.dumps(document))
    cli.patch.chdir(evil)
    before = cli.document("log", session)["events"]
    refused = cli(words[0], "notes.json", *words[1:])
    assert refused.code != 0
    assert "session of another project" in refused.out + refused.err
    assert cli.document("log", session)["events"] == before
    assert cli("status", "--json").code == 0
    cli.patch.chdir(own)
    assert cli("import", str(evil / "notes.json")).code == 0
    assert cli.session("show", session)["goal"] == "Taken over"


@pytest.mark.parametrize("git", [True, False])
def test_imported_file_changes_no_session_of_another_devices_directory(
    cli: Calling, tmp_path: Path, *, git: bool
) -> None:
    """Of a directory without git, another device knows only the path, which may mean anything there."""
    own = tmp_path / "notes"
    own.mkdir()
    cli.patch.chdir(own)
    session = cli.session("start", "Own work")["id"]
    file = tmp_path / "copy.json"
    cli.document("export", session, "--format", "craft", "-o", str(file))
    document = json.loads(file.read_text()) | {"goal": "Taken over", "status": "aborted"}
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "copy.json").write_text(json.dumps(document | {"updated_at": "2099-01-01T00:00:00.000Z"}))
    # As on a device that received the session: the project is known without a directory.
    with contextlib.closing(apsw.Connection(os.path.join(os.environ["HOLDFAST_HOME"], "store.db"))) as line:
        line.execute("DELETE FROM evidence WHERE kind = 'path'")
    cli.patch.chdir(evil)
    if git:
        cli.git("init", "-q")
    refused = cli("import", "copy.json")
    assert (refused.code, "session of another project" in refused.err) == (1, True)
    shown = cli.session("show", session)
    assert (shown["goal"], shown["status"]) == ("Own work", "in_progress")
