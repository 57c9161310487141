"""The ids of a session in the formats are shown and accepted, and archives that cannot be read are listed as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import spec_examples
from tests.support.command_line import Calling

ALIAS = "2025-12-27-abc123"
ARCHIVES = ".claude/orchestrator-history"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    calling = Calling(tmp_path, monkeypatch, capsys)
    archives = calling.project / ARCHIVES
    archives.mkdir(parents=True)
    (archives / f"{ALIAS}.json").write_bytes(spec_examples.ORCHESTRATOR)
    return calling


def test_resume_shows_the_alias(call: Calling) -> None:
    call("import", f"{ARCHIVES}/{ALIAS}.json")
    shown = call("resume", ALIAS)
    (line,) = [line for line in shown.out.splitlines() if line.startswith("Session ID:")]
    assert ALIAS in line
    assert call.session("status")["id"] in line


def test_history_shows_the_alias(call: Calling) -> None:
    """In the table and in the rows of the document, only for sessions that have one."""
    call("import", f"{ARCHIVES}/{ALIAS}.json")
    call("start", "Ours")
    assert ALIAS in call("history").out
    ours, theirs = call.document("history")["sessions"]
    assert theirs["aliases"] == {"orchestrator": ALIAS, "timer": None, "contract": None, "craft": None}
    assert set(ours["aliases"].values()) == {None}
    assert (ours["over"], theirs["over"]) == (False, False)


def test_history_finds_a_session_by_its_alias(call: Calling) -> None:
    (session,) = call.document("import", f"{ARCHIVES}/{ALIAS}.json")["sessions"]
    call("start", "Another of 2025-12-27")
    (row,) = call.document("history", "--search", ALIAS)["sessions"]
    assert row["id"] == session
    assert call.document("history", "--search", "2025-12-27-abc124")["sessions"] == []


@pytest.mark.parametrize("mirror", ["off", "on"])
def test_unreadable_archive_is_listed_as_unreadable(call: Calling, mirror: str) -> None:
    """Other archives are shown, mirrored or not."""
    if mirror == "on":
        call("mirror", "on", "orchestrator")
    else:
        call("import", f"{ARCHIVES}/{ALIAS}.json")
    torn = call.project / ARCHIVES / "2024-01-01-aaaaaa.json"
    torn.write_bytes(spec_examples.ORCHESTRATOR[:700])
    document = call.document("history")
    assert [row["aliases"]["orchestrator"] for row in document["sessions"]] == [ALIAS]
    (unreadable,) = document["unreadable"]
    assert unreadable["path"] == f"{ARCHIVES}/{torn.name}"
    assert unreadable["reason"]
    shown = call("history")
    assert f"unreadable  {ARCHIVES}/{torn.name}" in shown.out
    assert ALIAS in shown.out
    assert call("recover", unreadable["path"]).code == 0
    assert torn.read_bytes() == spec_examples.ORCHESTRATOR[:700]


def test_history_lists_archives_that_are_not_in_the_log(call: Calling) -> None:
    output = call("history").err
    assert f"holdfast import {ARCHIVES}" in output
    assert call("import", ARCHIVES).code == 0
    assert ARCHIVES not in call("history").err
