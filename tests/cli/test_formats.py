"""Import, export, convert and migrate as scripts call them."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import spec_examples as examples
from tests.support.command_line import Calling, checked

FORMATS = ("orchestrator", "timer", "contract", "craft")


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def put(holdfast: Calling, name: str, content: bytes | dict[str, Any]) -> str:
    path = holdfast.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return name


def exported(holdfast: Calling, session: str, name: str) -> dict[str, Any]:
    document = holdfast.document("export", session, "--format", name)["document"]
    assert isinstance(document, dict)
    return document


def ordered(value: object) -> str:
    """As text, so that the order of keys counts."""
    return json.dumps(value)


# ── import and export ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "alias"),
    [
        ("orchestrator", examples.ORCHESTRATOR, "2025-12-27-abc123"),
        ("timer", examples.TIMER_JUST_STARTED, "20251104-domain-task"),
    ],
)
def test_valid_document_round_trips_exactly(holdfast: Calling, name: str, content: bytes, alias: str) -> None:
    """With every field, its spelling and the order of keys; its id finds the session."""
    document = holdfast.document("import", put(holdfast, "a.json", content))
    assert document["notes"] == []
    assert document["files"][0]["result"] == "new"
    assert ordered(exported(holdfast, alias, name)) == ordered(json.loads(content))
    assert holdfast.session("show", alias)["aliases"][name] == alias


def test_import_twice_changes_nothing(holdfast: Calling) -> None:
    path = put(holdfast, "a.json", examples.ORCHESTRATOR)
    first = holdfast.document("import", path)
    log = holdfast.document("log", first["sessions"][0])["events"]
    again = holdfast.document("import", path)
    assert again["sessions"] == first["sessions"]
    assert again["files"][0]["result"] == "known"
    assert holdfast.document("log", first["sessions"][0])["events"] == log


def test_import_of_one_file_on_two_machines_makes_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids and keys follow from the document alone."""
    entries = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        there = Calling(tmp_path / name, monkeypatch, capsys)
        session = there.document("import", put(there, "a.json", examples.ORCHESTRATOR))["sessions"][0]
        events = there.document("log", session)["events"]
        entries.append((session, [event["key"] for event in events if event["key"]]))
    assert entries[0] == entries[1]
    assert len(entries[0][1]) > 5


def test_import_of_a_changed_document_is_merged_into_its_session(holdfast: Calling) -> None:
    """Local work stays, and new facts are added."""
    document = json.loads(examples.ORCHESTRATOR)
    session = holdfast.document("import", put(holdfast, "a.json", document))["sessions"][0]
    holdfast.document("resume", session)
    holdfast.document("note", "done here")
    document["pending_tasks"].append("Write the changelog")
    document["goal"] = "Add sensitivity analysis and document it"
    answer = holdfast.document("import", put(holdfast, "a.json", document))
    assert answer["files"][0]["result"] == "united"
    assert answer["sessions"] == [session]
    shown = holdfast.session("show", session)
    assert shown["goal"] == "Add sensitivity analysis and document it"
    assert [note["text"] for note in shown["notes"]] == ["done here"]
    assert "Write the changelog" in [task["text"] for task in shown["tasks"]]


def test_import_of_a_history_directory_skips_unreadable_files(holdfast: Calling) -> None:
    """Ids become aliases, and repeating it is safe."""
    for number in range(3):
        document = json.loads(examples.ORCHESTRATOR)
        document["session_id"] = f"2025-12-2{number}-abc12{number}"
        document["created"] = f"2025-12-2{number}T10:30:00Z"
        document["status"] = "complete"
        put(holdfast, f".claude/orchestrator-history/{document['session_id']}.json", document)
    put(holdfast, ".claude/orchestrator-history/2025-12-24-ffffff.json", b'{"schema_version": "1.0", "session_id')
    code, out, _ = holdfast("import", ".claude/orchestrator-history", "--json")
    assert code == 4
    answer = json.loads(out)
    results = sorted(match["result"] for match in answer["files"])
    assert results == ["new", "new", "new", "not read"]
    assert "ffffff" in next(match["path"] for match in answer["files"] if match["error"])
    assert len(holdfast.document("history")["sessions"]) == 3
    assert holdfast.session("show", "2025-12-21-abc121")["status"] == "completed"
    assert holdfast("import", ".").code == 4
    assert len(holdfast.document("history")["sessions"]) == 3


def test_export_is_valid_in_every_format(holdfast: Calling) -> None:
    session = holdfast.session("start", "Add OAuth with PKCE", "--scope", "auth", "--model", "gpt-5")["id"]
    holdfast.document("agent", "start", "arch-1", "--type", "architect")
    holdfast.document("task", "add", "Write the tests", "--id", "tests")
    holdfast.document("decide", "Hybrid", "--option", "JWT", "--option", "Hybrid", "--why", "Scales")
    holdfast.document("pause", "lunch")
    for name in FORMATS:
        out = f"out-{name}" if name == "contract" else f"{name}.json"
        assert holdfast("export", session, "--format", name, "-o", out).code == 0
        document = holdfast.document("validate", out)
        assert all(match["valid"] for match in document["files"]), document
        assert {match["format"] for match in document["files"]} == {name}


def test_export_prints_only_the_document(holdfast: Calling) -> None:
    holdfast.session("start", "Add OAuth")
    code, out, err = holdfast("export", "--format", "orchestrator")
    assert (code, err) == (0, "")
    assert json.loads(out)["goal"] == "Add OAuth"
    assert holdfast("export", "--format", "contract").out.startswith('version: "1.0"\nfeature_id:')


def test_export_is_as_of_the_last_event(holdfast: Calling) -> None:
    """A second export is the same."""
    holdfast.session("start", "Add OAuth")
    first = [exported(holdfast, "@", name) for name in FORMATS]
    assert first == [exported(holdfast, "@", name) for name in FORMATS]


def test_export_of_a_finished_session_in_the_timer_format_reports_its_end(holdfast: Calling) -> None:
    session = holdfast.session("start", "Add OAuth")["id"]
    holdfast.document("stop")
    notes = holdfast.document("export", session, "--format", "timer")["notes"]
    assert "completed" in notes[0]["message"]


def test_import_removes_and_reports_secrets(holdfast: Calling) -> None:
    """From known and unknown fields, and from values under a key like `password`."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    document = json.loads(examples.ORCHESTRATOR)
    document["goal"] = f"Use {token}"
    document["own"] = {"deep": [f"again {token}"], "api_key": "Zx81Kq07Lm55Pw23Rt"}
    answer = holdfast.document("import", put(holdfast, "a.json", document))
    assert any("removed secrets" in note["message"].lower() for note in answer["notes"])
    for path in holdfast.home.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()
            assert b"Zx81Kq07Lm55Pw23Rt" not in path.read_bytes()
    shown = exported(holdfast, "2025-12-27-abc123", "orchestrator")
    assert shown["own"]["deep"][0].startswith("again [redacted:")


def test_import_reports_each_failed_path_with_its_code(holdfast: Calling) -> None:
    holdfast.refused(3, "import", "nothing.json")
    put(holdfast, "empty/readme.txt", b"nothing")
    holdfast.refused(3, "import", "empty")
    put(holdfast, "a.json", b'{"working_on": "x", "next_steps": []}')
    assert holdfast("import", "a.json").code == 4


# ── convert ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", FORMATS)
def test_convert_with_carry_round_trips(holdfast: Calling, target: str) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    for out in ("there.yaml" if target == "contract" else "there.json", "there"):
        if out == "there" and target != "contract":
            continue
        assert holdfast("convert", "a.json", "--to", target, "--carry", "-o", out).code == 0
        assert all(item["valid"] for item in holdfast.document("validate", out)["files"])
        back = holdfast.document("convert", out, "--to", "orchestrator")
        assert ordered(back["document"]) == ordered(json.loads(examples.ORCHESTRATOR))


def test_convert_without_carry_reports_its_losses(holdfast: Calling) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    document = holdfast.document("convert", "a.json", "--to", "timer")
    assert any(note["path"].startswith("$.agents") for note in document["notes"])
    code, out, err = holdfast("convert", "a.json", "--to", "timer")
    assert (code, json.loads(out)) == (0, document["document"])
    assert "timer cannot express it" in err


def test_convert_records_nothing(holdfast: Calling) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    holdfast.document("convert", "a.json", "--to", "craft")
    assert not holdfast.home.exists()


# ── migrate ──────────────────────────────────────────────────────────────────────────────────────────────


def test_migrate_writes_a_new_file_and_can_be_undone(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    del document["schema_version"]
    document["status"] = "completed"
    path = put(holdfast, "a.json", document)
    before = (holdfast.project / path).read_bytes()
    answer = holdfast.document("migrate", path)["files"][0]
    assert answer["result"] == "migrated"
    assert (holdfast.project / answer["kept"]).read_bytes() == before
    assert holdfast.document("validate", path)["files"][0]["valid"]
    assert holdfast.document("migrate", path)["files"][0]["result"] == "current"
    holdfast.document("migrate", path, "--back")
    assert (holdfast.project / path).read_bytes() == before
    holdfast.refused(3, "migrate", path, "--back")


def test_migrate_refuses_a_newer_version_by_name(holdfast: Calling) -> None:
    documents = {"orchestrator": ("schema_version", "2.0", examples.ORCHESTRATOR),
                 "craft": ("schema_version", "2.0.0", examples.CRAFT)}  # fmt: skip
    for name, (key, version, content) in documents.items():
        document = json.loads(content)
        document[key] = version
        path = put(holdfast, f"{name}.json", document)
        before = (holdfast.project / path).read_bytes()
        code, out, _ = holdfast("migrate", path, "--json")
        answer = json.loads(out)["files"][0]
        assert (code, answer["result"]) == (4, "refused")
        assert version in answer["error"]
        assert (holdfast.project / path).read_bytes() == before
        assert version in json.loads(holdfast("import", path, "--json").out)["files"][0]["error"]


def test_migrate_converts_a_contract_feature_file_by_file(holdfast: Calling) -> None:
    """Comments are kept, and only outdated files are rewritten."""
    folder = ".ai-session/ai-orchestrator-2025-01-09"
    state = examples.CONTRACT_STATE.replace(b"15:30:45Z", b"09:30:45-06:00")
    put(holdfast, f"{folder}/state.yaml", b"# ours\n" + state)
    put(holdfast, f"{folder}/implementation-plan.yaml", examples.CONTRACT_PLAN)
    put(holdfast, ".ai-session/active-features.yaml", examples.CONTRACT_REGISTRY)
    document = holdfast.document("migrate", ".ai-session")["files"]
    assert [match["result"] for match in document] == ["migrated"]
    text = (holdfast.project / folder / "state.yaml").read_text()
    assert text.startswith("# ours\n")
    assert "2025-01-09T15:30:45Z" in text


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────

HAND_MADE = {"working_on": "Fix the index", "next_steps": ["Test it"], "notes": "slow"}


def feature(holdfast: Calling) -> str:
    folder = ".ai-session/ai-orchestrator-2025-01-09"
    put(holdfast, f"{folder}/state.yaml", examples.CONTRACT_STATE)
    put(holdfast, f"{folder}/implementation-plan.yaml", examples.CONTRACT_PLAN)
    put(holdfast, f"{folder}/history.jsonl", examples.CONTRACT_HISTORY)
    put(holdfast, ".ai-session/active-features.yaml", examples.CONTRACT_REGISTRY)
    return folder


def standard_input(holdfast: Calling, content: bytes) -> None:
    holdfast.patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False))


def test_salvage_reports_the_mapping(holdfast: Calling) -> None:
    path = put(holdfast, "hand.json", HAND_MADE)
    code, out, err = holdfast("import", "--salvage", path)
    session = holdfast.document("history")["sessions"][0]["id"]
    assert (code, out) == (0, f"new  hand.json hand-made → {session[:8]}\n")
    assert "$.working_on: taken as the goal\n" in err
    assert "$.next_steps[0]: taken as a pending task\n" in err


def test_salvage_reads_a_markdown_handover_and_keeps_its_text(holdfast: Calling) -> None:
    text = "# Session Handoff: Rate limits\n\n## Next Steps\n- Write the headers\n\n## Notes\nKeep it small.\n"
    path = put(holdfast, "HANDOFF.md", text.encode())
    assert "holdfast import --salvage" in holdfast("import", path).err
    assert holdfast("import", "--salvage", path).code == 0
    session = holdfast.session("show", "HANDOFF.md")
    assert (session["goal"], [task["text"] for task in session["tasks"]]) == ("Rate limits", ["Write the headers"])
    assert session["extra"]["salvaged"]["_text"] == text


NOTES = {
    "claude-progress.txt": "GOAL: Rate limits\nSession 7 (2024-11-03)\nDONE:\n- Headers\nTODO:\n- Burst limits\n",
    "HANDOFF": "Goal: Rate limits\nDone:\n- Headers\nNot YAML, because of: this: line\n\nNext:\n* Burst limits\n",
    "session.toml": 'goal = "Rate limits"\nat = 2024-11-03T10:00:00Z\ndone = ["Headers"]\nnext = ["Burst limits"]\n',
}


@pytest.mark.parametrize("name", NOTES)
def test_salvage_reads_notes_in_any_syntax(holdfast: Calling, name: str) -> None:
    path = put(holdfast, name, NOTES[name].encode())
    assert "holdfast import --salvage" in holdfast("import", path).err
    code, _, err = holdfast("import", "--salvage", path)
    assert code == 0, err
    session = holdfast.session("show", name)
    assert session["goal"] == "Rate limits"
    assert {task["text"]: task["status"] for task in session["tasks"]} == {
        "Headers": "completed", "Burst limits": "pending",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["notes.txt", "notes", "notes.toml"])
@pytest.mark.parametrize(
    "text", ["no: structure: at all\n\t- [", "a = = 1\n[[[\n", '"open', "x\n---\n{", "just words"]
)
def test_salvage_accepts_any_text_in_files_without_a_syntax(holdfast: Calling, name: str, text: str) -> None:
    code, _, err = holdfast("import", "--salvage", put(holdfast, name, text.encode()))
    assert code == 0, err
    assert holdfast.session("show", name)["extra"]["salvaged"]["_text"] == text


def salvage(holdfast: Calling, document: object, path: str = ".claude/session-state.json") -> dict[str, Any]:
    """Imports a file with --salvage; returns its entry in the answer."""
    put(holdfast, path, json.dumps(document).encode())
    (answer,) = holdfast.document("import", "--salvage", path)["files"]
    assert isinstance(answer, dict)
    return answer


def test_salvaged_session_shows_the_id_and_path_of_its_file(holdfast: Calling) -> None:
    made = salvage(holdfast, {"session_id": "tuesday-7", "goal": "Fix the parser"}, "notes/state.json")
    screens = [("history",), ("show", "tuesday-7"), ("resume", "tuesday-7"), ("briefing", "tuesday-7")]
    for words in screens:
        _, out, _ = holdfast(*words)
        assert "tuesday-7" in out, words
        assert words == ("history",) or "notes/state.json" in out, words
    formats = {"orchestrator", "timer", "contract", "craft"}
    assert holdfast.document("show", made["session"])["session"]["aliases"].keys() == formats


def plan(holdfast: Calling, session: str) -> dict[str, str]:
    tasks = holdfast.document("show", session)["session"]["tasks"]
    return {task["text"]: task["status"] for task in tasks}


def test_salvage_json_has_the_mapping(holdfast: Calling) -> None:
    document = holdfast.document("import", "--salvage", put(holdfast, "hand.json", HAND_MADE))
    assert {"path": "$.working_on", "message": "taken as the goal"} in document["notes"]


@pytest.mark.parametrize(
    "document",
    [
        {"mood": {"level": [1, 2.5, None, True]}, "tea": "green"},
        {"active_features": [{"id": "F-1", "path": "docs/f1", "status": "exploring"}], "phase": "Planning the move"},
        {"active_features": ["login", "search"]},
        {
            "schema_version": "1.0.0",
            "session_id": "e5b6ef0e-597c-4d9f-bfb7-c3a4ff4748c1",
            "thresholds": {"turns": 10},
        },
        {"schema_version": "2.0", "session_id": "2026-10-05-3fa9c2", "goal": "x", "agents": []},
        {"sessionId": "a", "startTime": "soon", "pauses": 3, "lastMessageTime": {}, "note": "odd"},
        {"timestamp": "yesterday", "command": "build", "status": "fine", "todo": "Mend it"},
        [["a", "list"], {"of": "lists"}],
        "just a text",
        7,
    ],
    ids=lambda document: str(document)[:30],
)
def test_salvage_accepts_any_readable_document_and_keeps_all_of_it(holdfast: Calling, document: object) -> None:
    result = salvage(holdfast, document, "odd.json")
    assert (result["format"], result["result"], result["error"]) == (None, "new", None)
    assert holdfast.document("show", result["session"])["session"]["extra"]["salvaged"] == document


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"null", b'{"goal": ', b""])
def test_salvage_says_why_there_is_nothing_to_keep(holdfast: Calling, raw: bytes) -> None:
    code, out, _ = holdfast("import", "--salvage", put(holdfast, "empty.json", raw))
    assert code == 4
    assert "the file is empty" in out or "recover" in out or "Name a file" in out


def test_salvage_of_a_later_version_adds_to_its_session(holdfast: Calling) -> None:
    first = {"working_on": "A shelf", "next_steps": ["Cut", "Sand"], "updated_at": "2025-05-01T10:00:00Z"}
    made = salvage(holdfast, first)
    assert salvage(holdfast, first)["result"] == "known"
    later = {
        **first,
        "completed_tasks": ["Cut"],
        "next_steps": ["Sand", "Hang"],
        "updated_at": "2025-05-02T10:00:00Z",
    }
    again = salvage(holdfast, later)
    assert (again["session"], again["result"]) == (made["session"], "united")
    assert plan(holdfast, made["session"]) == {"Cut": "completed", "Sand": "pending", "Hang": "pending"}
    assert salvage(holdfast, later)["result"] == "known"
    session = holdfast.document("show", made["session"])["session"]
    assert session["extra"]["salvaged"] == later
    assert [pause for pause in session["time"]["pauses"] if pause["kind"] == "idle"] == []
    old = salvage(holdfast, first, "elsewhere.json")
    assert (old["session"], old["result"]) == (made["session"], "known")
    other = salvage(holdfast, {**first, "next_steps": ["Another"]}, "elsewhere.json")
    assert (other["session"], other["result"]) == (made["session"], "united")


def test_salvage_of_another_path_makes_another_session(holdfast: Calling) -> None:
    one = salvage(holdfast, {"todo": "Cut"}, "one.json")
    two = salvage(holdfast, {"todo": "Sand"}, "two.json")
    assert (two["result"], two["session"] != one["session"]) == ("new", True)


def test_salvage_recognizes_a_file_by_its_own_id(holdfast: Calling) -> None:
    """Under any file name; commands accept the id."""
    made = salvage(holdfast, {"session_id": "shelf-2025", "todo": "Cut"}, "one.json")
    again = salvage(holdfast, {"session_id": "shelf-2025", "todo": ["Cut", "Sand"]}, "moved/two.json")
    assert (again["session"], again["result"]) == (made["session"], "united")
    assert holdfast.document("show", "shelf-2025")["session"]["id"] == made["session"]
    assert holdfast.document("show", "one.json")["session"]["id"] == made["session"]


def test_salvage_continues_after_the_session_has_ended(holdfast: Calling) -> None:
    done = {"goal": "A shelf", "completed": ["Cut"], "status": "completed"}
    made = salvage(holdfast, done)
    assert holdfast.document("show", made["session"])["session"]["status"] == "completed"
    again = salvage(holdfast, {**done, "status": "active", "todo": ["Paint"]})
    assert (again["session"] != made["session"], again["result"]) == (True, "new")
    session = holdfast.document("show", again["session"])["session"]
    assert session["continues"] == made["session"]
    last = {"goal": "A shelf", "completed": ["Cut", "Paint"], "status": "completed"}
    assert salvage(holdfast, last)["session"] == again["session"]
    assert holdfast.document("show", again["session"])["session"]["status"] == "completed"
    for version, session in ((done, made["session"]), (last, again["session"])):
        assert [salvage(holdfast, version)[key] for key in ("session", "result")] == [session, "known"]


def test_import_names_an_unreadable_file_once(holdfast: Calling) -> None:
    """With the problem and what to do, also with --quiet."""
    put(holdfast, "own.json", {"todo": "x"})
    put(holdfast, "torn.json", examples.ORCHESTRATOR[:300])
    put(holdfast, "empty.json", b"")
    put(holdfast, "good.json", examples.ORCHESTRATOR)
    code, out, _ = holdfast("import", "own.json", "torn.json", "empty.json", "good.json", "--quiet")
    assert code == 4
    lines = out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "not read  own.json", "not read  torn.json", "not read  empty.json",
    ]  # fmt: skip
    for line, name, advice in zip(
        lines, ("own", "torn", "empty"), ("--salvage", "recover", "Name a file"), strict=True
    ):
        assert line.count(f"{name}.json") == 1
        assert advice in line


def test_import_reports_secrets_once(holdfast: Calling) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    document = {**json.loads(examples.ORCHESTRATOR), "goal": f"Use {token}"}
    assert holdfast("import", put(holdfast, "a.json", document)).err.lower().count("removed secrets") == 1


@pytest.mark.parametrize("target", [name for name in FORMATS if name != "orchestrator"])
def test_convert_does_not_report_a_used_remainder_as_lost(holdfast: Calling, target: str) -> None:
    """A remainder of another format stays behind, which is reported."""
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    there = "there.yaml" if target == "contract" else "there.json"
    assert holdfast("convert", "a.json", "--to", target, "--carry", "-o", there).code == 0
    back = holdfast.document("convert", there, "--to", "orchestrator")
    assert [note for note in back["notes"] if "holdfast" in note["path"]] == []
    other = next(name for name in FORMATS if name not in (target, "orchestrator"))
    notes = holdfast.document("convert", there, "--to", other)["notes"]
    assert [note["message"] for note in notes if "holdfast" in note["path"]] == [
        "the data carried for orchestrator is dropped; use --carry to keep it"
    ]


def test_migrate_names_files_as_they_were_given(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    del document["schema_version"]
    put(holdfast, "a.json", document)
    put(holdfast, "deep/a.json", document)
    for path in ("a.json", "deep/a.json", str(holdfast.project / "a.json")):
        assert holdfast("migrate", path).out.startswith(f"migrated  {path}  (kept: {path}.before-")
        assert holdfast("migrate", path, "--back").out.startswith(f"brought back  {path}  (kept: {path}.after-")
    holdfast.refused(2, "migrate", "-")


def test_migrate_can_be_undone_without_the_new_file(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    del document["schema_version"]
    put(holdfast, "a.json", document)
    holdfast.document("migrate", "a.json")
    (holdfast.project / "a.json").unlink()
    assert holdfast.document("migrate", "a.json", "--back")["files"][0]["kept"] is None
    assert json.loads((holdfast.project / "a.json").read_bytes()) == document


def test_show_lists_unknown_fields_but_no_internal_ones(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    document["own"] = {"deep": [1, 2]}
    document["agents"][0]["colour"] = "red"
    document["created"] = document["created"].replace("Z", ".000Z")
    holdfast.document("import", put(holdfast, "a.json", document))
    shown = holdfast("show", "2025-12-27-abc123").out
    extra = shown[shown.index("\nExtra\n") :].split("\n\n")[0].splitlines()[2:]
    assert [line.split() for line in extra] == [
        ["orchestrator", "$.own", '{"deep":[1,2]}'],
        ["orchestrator", "$.agents.arch-1.colour", "red"],
    ]
    kept = holdfast.session("show", "2025-12-27-abc123")["extra"]["orchestrator"]
    assert kept["keep"]["m"] == {"own": {"deep": [1, 2]}}


def test_show_has_no_extra_when_only_spellings_were_kept(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    document["created"] = document["created"].replace("Z", ".000Z")
    holdfast.document("import", put(holdfast, "a.json", document))
    assert "Extra" not in holdfast("show", "2025-12-27-abc123").out


def test_import_accepts_any_file_of_a_contract_feature(holdfast: Calling) -> None:
    folder = feature(holdfast)
    for path in (".ai-session", folder, "."):
        (one,) = holdfast.document("import", path)["files"]
        assert one["path"].removeprefix("./") == folder
        assert holdfast("import", path).out.split()[1].removeprefix("./") == folder
    (holdfast.project / folder / "state.yaml").write_text("a: [1\n")
    line = holdfast("import", ".ai-session").out
    assert line.startswith(f"not read  {folder}/state.yaml: line ")
    assert line.count("state.yaml") == 1


def test_import_makes_no_lock_next_to_a_file_that_is_no_contract_feature(holdfast: Calling) -> None:
    put(holdfast, "infra/state.yaml", b"resources: []\n")
    assert holdfast("import", "infra/state.yaml").code == 4
    assert [path.name for path in (holdfast.project / "infra").iterdir()] == ["state.yaml"]


def test_import_refuses_a_document_of_another_format(holdfast: Calling) -> None:
    path = put(holdfast, "t.json", examples.TIMER_JUST_STARTED)
    code, out, _ = holdfast("import", path, "--format", "craft", "--json")
    (one,) = json.loads(out)["files"]
    assert (code, one["error"]) == (4, "t.json: it is a document in the format timer, not craft")
    assert "timer" in one["hint"]
    assert "timer" in holdfast.refused(4, "convert", path, "--from", "craft", "--to", "contract")["message"]
    assert holdfast.document("import", path, "--format", "timer")["files"][0]["result"] == "new"


def test_import_reads_and_names_standard_input(holdfast: Calling) -> None:
    standard_input(holdfast, examples.ORCHESTRATOR)
    assert holdfast("import", "-").out.startswith("new  standard input orchestrator → ")
    standard_input(holdfast, examples.ORCHESTRATOR)
    assert holdfast.document("convert", "-", "--to", "timer")["from"] == "orchestrator"
    standard_input(holdfast, examples.CONTRACT_STATE)
    assert holdfast.document("convert", "-", "--to", "craft")["from"] == "contract"
    standard_input(holdfast, b'{"a": ')
    assert holdfast("import", "-").out.startswith("not read  standard input: line 1: ")


def test_export_refuses_impossible_targets(holdfast: Calling) -> None:
    """Each with its code; nothing is created, and links are not followed."""
    holdfast.session("start", "Add OAuth")
    (holdfast.project / "there").mkdir()
    target = holdfast.project / put(holdfast, "mine.json", {"mine": 1})
    (holdfast.project / "link.json").symlink_to(target)
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    for words in (["export", "--format", "timer"], ["convert", "a.json", "--to", "timer"]):
        assert holdfast.refused(5, *words, "-o", "there")["kind"] == "conflict"
        assert holdfast.refused(1, *words, "-o", "link.json")["kind"] == "refused"
        assert "nowhere" in holdfast.refused(3, *words, "-o", "nowhere/x.json")["message"]
    for words in (["export", "--format", "contract"], ["convert", "a.json", "--to", "contract"]):
        assert holdfast.refused(3, *words, "-o", "nowhere/x")["hint"]
        assert holdfast.refused(4, *words, "-o", "mine.json")["hint"]
        done = holdfast(*words, "-o", "features")
        assert done.code == 0
        assert "Written: features" in done.err
        assert holdfast.refused(5, *words, "-o", "features")["hint"]
    assert json.loads(target.read_bytes()) == {"mine": 1}
    assert not (holdfast.project / "nowhere").exists()
    assert holdfast("export", "--format", "timer", "-o", "-").out == holdfast("export", "--format", "timer").out


def test_import_is_refused_when_one_path_is_missing(holdfast: Calling) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    holdfast.refused(3, "import", "a.json", "nowhere.json")
    assert holdfast.document("history", "--all-projects")["sessions"] == []
    (holdfast.project / "none").mkdir()
    code, out, _ = holdfast("import", "none", "a.json", "--json")
    assert (code, [item["result"] for item in json.loads(out)["files"]]) == (3, ["not read", "new"])


def test_import_reports_a_broken_session_file_in_a_directory(holdfast: Calling) -> None:
    put(holdfast, "d/torn.json", examples.ORCHESTRATOR[:300])
    put(holdfast, "d/good.json", examples.ORCHESTRATOR)
    put(holdfast, "d/other.json", b'{"name": "x"}')
    code, out, _ = holdfast("import", "d")
    assert (code, [line.split()[-4:][0] for line in out.splitlines() if line.startswith("new")]) == (
        4,
        ["d/good.json"],
    )
    assert "d/torn.json" in out
    assert "d/other.json" not in out


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
@pytest.mark.parametrize("command", ["import", "validate", "recover", "migrate"])
def test_file_name_outside_utf8_is_reported(holdfast: Calling, command: str) -> None:
    path = os.fsencode(holdfast.project) + b"/b\xff\x1b.json"
    with open(path, "wb") as file:
        file.write(examples.ORCHESTRATOR)
    (one,) = holdfast.document(command, ".")["files"]
    assert one["path"] == "./b\\udcff\\x1b.json"
    assert "\x1b" not in holdfast(command, ".").out


HOSTILE: dict[str, bytes] = {
    "bytes": bytes(range(256)) * 8, "nothing": b"", "large": b'{"a":"' + b"x" * (5 << 20) + b'"}', "null": b"null",
    "deep": b"[" * 100_000, "half": b'{"sessionId": "\\ud800"}', "endless": b'{"sessionId": 1e999999}',
    "odd": b'{"schema_version": "1.0", "session_id": 5, "agents": [5, null], "created": {}, "mode": [], "errors": 1}',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_answered_with_one_document_and_a_hint(holdfast: Calling, name: str) -> None:
    put(holdfast, "x.json", HOSTILE[name])
    for words in (["import"], ["import", "--salvage"], ["convert", "--to", "craft"], ["migrate"], ["recover"]):
        code, out, err = holdfast(*words, "x.json", "--json")
        document = checked(out)
        assert err == ""
        errors = [document["error"]] if "error" in document else [item for item in document["files"] if item["error"]]
        # `recover` answers with what it read, even if that makes no session.
        assert code in ((4,) if errors and words != ["recover"] else (0, 4))
        assert all(error["hint"] for error in errors)
        assert holdfast(*words, "x.json").code == code


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipe_and_circular_link_do_not_block(holdfast: Calling) -> None:
    os.mkfifo(holdfast.project / "pipe.json")
    (holdfast.project / "self.json").symlink_to("self.json")
    for words in (["import"], ["convert", "--to", "craft"], ["migrate"], ["recover"]):
        assert "named pipe" in "".join(holdfast(*words, "pipe.json")[1:])
        assert holdfast(*words, "self.json").code == 1


BROKEN = {
    "cut.json": b"{", "empty.json": b"", "twice.json": b'{"a": 1, "a": 2}', "nul.json": b'{"a": "\0"}',
    "wide.json": examples.ORCHESTRATOR.decode().encode("utf-16"), "open.yaml": b"a: [",
}  # fmt: skip
OTHERS = {
    "package.json": b'{"name": "x"}', "tsconfig.json": b'{"a": 1, // why\n "b": [1, 2,],}',
    "compose.yaml": b"a: &x 1\nb: *x\n", "k8s.yml": b"a: 1\n---\nb: 2\n",
}  # fmt: skip


@pytest.mark.parametrize("command", ["import", "validate"])
@pytest.mark.parametrize("folder", ["old", "old/2025"])
def test_broken_file_in_a_directory_of_sessions_is_reported(holdfast: Calling, command: str, folder: str) -> None:
    """Other programs' files are not taken for broken ones."""
    for name, raw in {**BROKEN, **OTHERS, "good.json": examples.ORCHESTRATOR}.items():
        put(holdfast, f"{folder}/{name}", raw)
    code, out, _ = holdfast(command, "old", "--json")
    document = {Path(item["path"]).name for item in json.loads(out)["files"]}
    assert code == 4
    assert document == {*(name for name in BROKEN if folder == "old" or name.endswith(".json")), "good.json"}


@pytest.mark.parametrize("command", ["import", "validate"])
def test_broken_files_of_other_programs_in_a_project_are_not_reported(holdfast: Calling, command: str) -> None:
    put(holdfast, ".claude/orchestrator-session.json", examples.ORCHESTRATOR)
    put(holdfast, "broken.json", b"{")
    assert holdfast(command, ".").code == 0


def test_migrate_of_a_link_leaves_nothing_behind(holdfast: Calling) -> None:
    old = json.loads(examples.ORCHESTRATOR)
    del old["schema_version"]
    put(holdfast, "real.json", old)
    (holdfast.project / "link.json").symlink_to("real.json")
    code, out, _ = holdfast("migrate", "link.json", "--json")
    assert (code, json.loads(out)["files"][0]["result"]) == (1, "refused")
    assert "real.json" in json.loads(out)["files"][0]["hint"]
    assert sorted(path.name for path in holdfast.project.iterdir()) == ["link.json", "real.json"]


def test_circular_links_give_one_error(holdfast: Calling) -> None:
    (holdfast.project / "a.json").symlink_to("b.json")
    (holdfast.project / "b.json").symlink_to("a.json")
    for words in (["import"], ["validate"], ["convert", "--to", "craft"], ["recover"], ["migrate"]):
        code, out, err = holdfast(*words, "a.json")
        assert code == 1
        assert "Remove the link" in out + err
