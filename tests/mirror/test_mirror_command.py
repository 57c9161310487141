"""`holdfast mirror`, and what other commands do for mirrored files, as scripts see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.mirror_calls import Calls

ORCHESTRATOR = ".claude/orchestrator-session.json"
TIMER = ".claude/session-state.json"
KEYS = {"format", "paths", "last_written", "changed_outside", "rejected"}


@pytest.fixture
def hf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(tmp_path, monkeypatch, capsys)


def only(document: Any) -> dict[str, Any]:
    (one,) = document["mirrors"]
    assert set(one) >= KEYS
    return dict(one)


def test_status_without_mirrors_shows_all_off(hf: Calls) -> None:
    assert hf.json("mirror", "status") == {"holdfast": 1, "mirrors": []}
    code, out, err = hf("mirror", "status")
    assert (code, err) == (0, "")
    assert "holdfast mirror on" in out


def test_mirror_can_be_switched_on_and_off(hf: Calls) -> None:
    one = only(hf.json("mirror", "on", "orchestrator"))
    assert (one["format"], one["paths"], one["last_written"]) == ("orchestrator", [], None)
    hf.json("start", "Build the shop")
    one = only(hf.json("mirror", "status"))
    assert one["paths"] == [ORCHESTRATOR]
    assert one["last_written"].endswith("Z")
    assert (one["changed_outside"], one["rejected"]) == (False, [])
    code, out, _ = hf("mirror", "status")
    assert code == 0
    assert ORCHESTRATOR in out
    assert hf.json("mirror", "off", "orchestrator")["mirrors"] == []
    assert (hf.project / ORCHESTRATOR).exists()


def test_each_error_has_its_exit_code(hf: Calls) -> None:
    assert hf("mirror", "on", "nothing")[0] in (2, 4)
    assert hf.json("mirror", "off", "timer", code=5)["error"]["kind"] == "conflict"
    hf.json("mirror", "on", "timer")
    assert hf.json("mirror", "on", "timer", code=5)["error"]["kind"] == "conflict"


def test_handmade_file_gives_exit_code_5_and_is_untouched(hf: Calls) -> None:
    (hf.project / ".claude").mkdir()
    (hf.project / TIMER).write_text('{"working_on": "the shop"}\n')
    error = hf.json("mirror", "on", "timer", code=5)["error"]
    assert "salvage" in error["hint"]
    assert (hf.project / TIMER).read_text() == '{"working_on": "the shop"}\n'
    assert hf.json("mirror", "status")["mirrors"] == []


def test_edit_is_in_the_answer_of_the_command_that_notices_it(hf: Calls) -> None:
    """Even of a read-only command: edits are imported first."""
    hf.json("mirror", "on", "orchestrator")
    hf.json("start", "Build the shop")
    document = json.loads((hf.project / ORCHESTRATOR).read_text())
    (hf.project / ORCHESTRATOR).write_text(json.dumps({**document, "goal": "Sell the shop"}))
    assert hf.json("status")["session"]["goal"] == "Sell the shop"


def test_status_reports_changes_by_others(hf: Calls) -> None:
    hf.json("mirror", "on", "orchestrator")
    hf.json("start", "Build the shop")
    document = json.loads((hf.project / ORCHESTRATOR).read_text())
    (hf.project / ORCHESTRATOR).write_text(json.dumps({**document, "goal": "Sell the shop"}))
    assert only(hf.json("mirror", "status"))["changed_outside"] is True
    assert only(hf.json("mirror", "status"))["changed_outside"] is False
    assert hf.json("status")["session"]["goal"] == "Sell the shop"


def test_broken_file_is_reported_and_the_command_does_its_job(hf: Calls) -> None:
    hf.json("mirror", "on", "orchestrator")
    hf.json("start", "Build the shop")
    (hf.project / ORCHESTRATOR).write_text("{broken")
    code, _, err = hf("note", "all the same")
    assert code == 0
    assert "set aside" in err
    assert hf.json("status")["session"]["notes"][0]["text"] == "all the same"
    one = only(hf.json("mirror", "status"))
    (bad,) = one["rejected"]
    assert set(bad) == {"path", "aside", "reason", "at"}
    assert (hf.project / bad["aside"]).read_text() == "{broken"
    check = next(check for check in hf.json("doctor")["checks"] if check["name"] == "mirrors")
    assert (check["status"], bad["aside"] in check["detail"]) == ("warning", True)
    assert json.loads((hf.project / ORCHESTRATOR).read_text())["goal"] == "Build the shop"


def test_mirrored_file_equals_the_export(hf: Calls) -> None:
    for name in ("orchestrator", "timer", "craft", "contract"):
        hf.json("mirror", "on", name)
    hf.json("start", "Build the shop")
    hf.json("decide", "Brick", "--why", "It lasts")
    for name, path in (("orchestrator", ORCHESTRATOR), ("timer", TIMER)):
        hf("export", "--format", name, "-o", f"{name}.json")
        assert (hf.project / f"{name}.json").read_bytes() == (hf.project / path).read_bytes()
        (hf.project / f"{name}.json").unlink()
    assert all(item["valid"] for item in hf.json("validate", ".")["files"])
