"""`holdfast recover`: the readable part of damaged files is shown and can become a session; files stay unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Failed
from holdfast.formats import recover_files
from holdfast.machine.files import read_limited
from tests.support import spec_examples
from tests.support.command_line import Calling, Out


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    monkeypatch.setenv("COLUMNS", "100")
    return Calling(tmp_path, monkeypatch, capsys)


def put(call: Calling, name: str, raw: bytes) -> Path:
    path = call.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def recover_unchanged(call: Calling, path: Path, *words: str) -> Out:
    """Runs the command, which must not change the file."""
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    out = call("recover", str(path), *words)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert [item.name for item in path.parent.iterdir() if ".rejected" in item.name] == []
    return out


def one_file(call: Calling, *words: str) -> dict[str, Any]:
    document = call.document("recover", *words)
    assert set(document) == {"holdfast", "files", "sessions"}
    (only,) = document["files"]
    assert {"path", "format", "whole", "document", "notes", "lost_from"} <= set(only)
    return {**only, "sessions": document["sessions"]}


def test_truncated_file_is_read_up_to_its_end(call: Calling) -> None:
    raw = spec_examples.ORCHESTRATOR[:1100]
    path = put(call, ".claude/orchestrator-session.json", raw)
    out = recover_unchanged(call, path)
    assert out.code == 0
    assert "goal: Add sensitivity analysis" in out.out
    assert "2 agents, 1 task, 0 decisions" in out.out
    assert "lost from byte 1,089 (line 43) on" in out.out
    assert "$.pending_tasks: " in out.err
    result = one_file(call, str(path))
    assert (result["format"], result["whole"], result["lost_from"]) == ("orchestrator", False, 1089)
    assert result["document"]["session_id"] == "2025-12-27-abc123"
    assert result["sessions"] == []
    assert not call.home.joinpath("store.db").exists()  # reading creates no session


def test_recover_start_makes_it_the_current_session(call: Calling) -> None:
    path = put(call, "torn.json", spec_examples.ORCHESTRATOR[:1100])
    assert recover_unchanged(call, path, "--start").code == 0
    session = call.session("status")
    assert session["goal"].startswith("Add sensitivity analysis")
    assert session["aliases"]["orchestrator"] == "2025-12-27-abc123"
    assert [agent["id"] for agent in session["agents"]] == ["arch-1", "code-1"]


def test_truncated_file_of_a_known_session_adds_nothing(call: Calling) -> None:
    """The whole file was imported before."""
    whole = put(call, "whole.json", spec_examples.ORCHESTRATOR)
    (known,) = call.document("import", str(whole))["sessions"]
    events = len(call.document("log", known)["events"])
    torn = put(call, "torn.json", spec_examples.ORCHESTRATOR[:900])
    out = recover_unchanged(call, torn, "--start")
    assert f"holdfast show {known}" in out.out
    assert "holdfast mirror on orchestrator" in out.out
    assert one_file(call, str(torn), "--start")["sessions"] == [known]
    assert len(call.document("log", known)["events"]) == events
    assert len(call.document("history")["sessions"]) == 1


def test_recover_start_leaves_another_current_session_alone(call: Calling) -> None:
    call("start", "Something else")
    path = put(call, "torn.json", spec_examples.CRAFT[:2500])
    (made,) = one_file(call, str(path), "--start")["sessions"]
    assert call.session("status")["goal"] == "Something else"
    assert call.session("show", made)["goal"].startswith("Add OAuth")


@pytest.mark.parametrize("name", spec_examples.JSON_FILES)
def test_recover_start_works_for_half_a_file_of_every_format(call: Calling, name: str) -> None:
    raw = spec_examples.JSON_FILES[name]
    path = put(call, "torn.json", raw[: len(raw) // 2])
    result = one_file(call, str(path), "--start")
    assert result["format"] == name.split(maxsplit=1)[0]
    (made,) = result["sessions"]
    assert call.session("show", made)["id"] == made


def test_contract_files_are_recovered(call: Calling) -> None:
    state = put(call, ".ai-session/ai-orchestrator-2025-01-09/state.yaml", spec_examples.CONTRACT_STATE[:150])
    result = one_file(call, str(state), "--start")
    assert result["format"] == "contract"
    assert len(result["sessions"]) == 1
    lines = put(call, "history.jsonl", spec_examples.CONTRACT_HISTORY * 2 + spec_examples.CONTRACT_HISTORY[:40])
    assert len(one_file(call, str(lines))["document"]) == 3
    assert call("recover", str(lines), "--start").code == 4  # no session, as the answer says


def test_damaged_hand_made_file_is_salvaged(call: Calling) -> None:
    raw = b'{"working_on": "Fix it", "next_steps": ["test", "ship"], "api_key": "x", "notes": "brok'
    path = put(call, "session-state.json", raw)
    result = one_file(call, str(path), "--start")
    assert result["format"] is None
    assert {"path": "$.working_on", "message": "taken as the goal"} in result["notes"]
    (made,) = result["sessions"]
    session = call.session("show", made)
    assert (session["goal"], [task["text"] for task in session["tasks"]]) == ("Fix it", ["test", "ship"])
    assert session["extra"]["salvaged"]["working_on"] == "Fix it"
    assert one_file(call, str(path), "--start")["sessions"] == [made]
    assert len(call.document("history")["sessions"]) == 1


def test_directory_lists_every_damaged_file(call: Calling) -> None:
    put(call, "whole.json", spec_examples.ORCHESTRATOR)
    put(call, "torn.json", spec_examples.CRAFT[:2500])
    put(call, "gone.json", b"\0" * 4096)
    out = call("recover", ".")
    assert out.code == 0
    assert [line.split()[0] for line in out.out.splitlines() if not line.startswith(" ")] == [
        "lost",
        "recovered",
        "intact",
    ]
    document = call.document("recover", ".", "--start")
    assert [(Path(match["path"]).name, match["whole"]) for match in document["files"]] == [
        ("gone.json", False),
        ("torn.json", False),
        ("whole.json", True),
    ]
    assert len(document["sessions"]) == 1  # of the damaged file; sound ones are left alone


def test_missing_and_unrecoverable_files_are_errors(call: Calling) -> None:
    assert call.refused(3, "recover", "nowhere.json")["file"]
    (call.project / "empty").mkdir()
    call.refused(3, "recover", "empty")
    put(call, "hopeless.json", b"\x80\x81nothing")
    assert "history" in call.refused(4, "recover", "hopeless.json")["hint"]
    put(call, "large.json", b"[" + b"1," * (2 << 20) + b"1]")
    assert "4 MiB" in call.refused(4, "recover", "large.json")["message"]


def test_secret_in_a_recovered_file_is_not_stored(call: Calling) -> None:
    key = "AKIA" + "IOSFODNN7" + "EXAMPLE"
    path = put(call, "hand.json", json.dumps({"goal": "x", "notes": f"key {key}"}).encode()[:-1])
    (made,) = one_file(call, str(path), "--start")["sessions"]
    assert key not in json.dumps(call.document("show", made)) + json.dumps(call.document("log", made))


def test_sound_files_are_reported_as_sound(call: Calling) -> None:
    put(call, "one.json", spec_examples.ORCHESTRATOR)
    out = call("recover", "one.json")
    assert (out.code, out.out.splitlines()[-1]) == (
        0,
        "It is intact: nothing needs to be recovered. To import it: holdfast import one.json",
    )
    put(call, "two.json", spec_examples.TIMER_JUST_STARTED)
    put(call, "package.json", b'{"name": "x"}')  # another program's, and sound
    out = call("recover", ".")
    assert (out.code, out.out.splitlines()[-1]) == (
        0,
        "2 files checked, all intact: nothing needs to be recovered. To import them: holdfast import .",
    )
    assert "package.json" not in out.out
    assert call("recover", ".", "--quiet").out == "intact  ./one.json (orchestrator)\nintact  ./two.json (timer)\n"
    assert all(item["whole"] for item in call.document("recover", ".")["files"])
    put(call, "torn.json", spec_examples.CRAFT[:2500])
    assert "nothing needs" not in call("recover", ".").out


def test_directory_without_session_files_is_not_found_with_the_expected_names(call: Calling) -> None:
    put(call, "package.json", b'{"name": "x"}')
    error = call.refused(3, "recover", ".")
    assert "no session file" in error["message"]
    assert ".claude/session-state.json" in error["hint"]


def test_file_that_cannot_be_opened_is_not_reported_as_lost(call: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    put(call, ".claude/session-state.json", spec_examples.TIMER_JUST_STARTED)
    put(call, ".claude/orchestrator-session.json", spec_examples.ORCHESTRATOR)

    def closed(path: str, limit: int, *, subject: str) -> bytes:
        if "session-state" in path:
            raise Failed(f"cannot read {path}: permission denied")
        return read_limited(path, limit, subject=subject)

    monkeypatch.setattr(recover_files, "read_limited", closed)
    out = call("recover", ".").out
    assert "not read  ./.claude/session-state.json: it cannot be read: permission denied" in out
    assert "lost" not in out
    assert "intact  ./.claude/orchestrator-session.json" in out


def test_file_with_more_than_the_log_is_reported(call: Calling) -> None:
    torn = put(call, "torn.json", spec_examples.ORCHESTRATOR[:1004])
    (known,) = one_file(call, str(torn), "--start")["sessions"]
    assert "nothing is lost" in call("recover", str(torn)).out
    put(call, "whole.json", spec_examples.ORCHESTRATOR)
    out = call("recover", "whole.json").out
    assert "this file has more" in out
    assert "holdfast import whole.json merges them" in out
    assert one_file(call, "whole.json")["known"] == known
    while call.document("import", "whole.json")["files"][0]["result"] != "known":
        pass
    assert "has more" not in call("recover", "whole.json").out


def test_recover_adds_new_facts_of_a_truncated_file_without_assumptions(call: Calling) -> None:
    shorter = put(call, "shorter.json", spec_examples.ORCHESTRATOR[:700])
    (known,) = one_file(call, str(shorter), "--start")["sessions"]
    call("context", "--tokens", "5000")
    before = call.session("show", known)
    longer = put(call, "longer.json", spec_examples.ORCHESTRATOR[:1100])
    assert "holdfast recover" in call("recover", str(longer)).out.split("has more")[1]
    assert one_file(call, str(longer), "--start")["sessions"] == [known]
    session = call.session("show", known)
    assert [task["text"] for task in session["tasks"]] == ["Architecture design"]
    assert session["context"]["tokens"] == before["context"]["tokens"] == 5000
    assert "nothing is lost" in call("recover", str(longer)).out


def test_value_replaced_by_another_is_reported(call: Calling) -> None:
    raw = spec_examples.ORCHESTRATOR.replace(b'"goal":', b'"goal": "The first", "goal":')
    out = call("recover", str(put(call, "twice.json", raw)))
    assert "nothing is lost" not in out.out
    assert '"The first" is dropped' in out.err
