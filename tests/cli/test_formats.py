"""Import, export, convert and migrate, as a user's script calls them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from calling import Calling

sys.path.insert(0, str(Path(__file__).parent.parent / "formats"))
import spec_examples as examples

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
    """As text, so that the order of keys counts too."""
    return json.dumps(value)


# ── import and export ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "alias"),
    [
        ("orchestrator", examples.ORCHESTRATOR, "2025-12-27-abc123"),
        ("timer", examples.TIMER_JUST_STARTED, "20251104-domain-task"),
    ],
)
def test_a_valid_document_comes_out_as_it_went_in(holdfast: Calling, name: str, content: bytes, alias: str) -> None:
    """Every field, its spelling and the order of keys; and it is found by the id it came with."""
    found = holdfast.document("import", put(holdfast, "a.json", content))
    assert found["notes"] == []
    assert found["files"][0]["result"] == "new"
    assert ordered(exported(holdfast, alias, name)) == ordered(json.loads(content))
    assert holdfast.session("show", alias)["aliases"][name] == alias


def test_importing_again_changes_nothing(holdfast: Calling) -> None:
    path = put(holdfast, "a.json", examples.ORCHESTRATOR)
    first = holdfast.document("import", path)
    log = holdfast.document("log", first["sessions"][0])["events"]
    again = holdfast.document("import", path)
    assert again["sessions"] == first["sessions"]
    assert again["files"][0]["result"] == "known"
    assert holdfast.document("log", first["sessions"][0])["events"] == log


def test_two_machines_that_import_one_file_make_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The session's id and the key of each event follow from the document alone."""
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        there = Calling(tmp_path / name, monkeypatch, capsys)
        session = there.document("import", put(there, "a.json", examples.ORCHESTRATOR))["sessions"][0]
        found.append((session, [event["key"] for event in there.document("log", session)["events"] if event["key"]]))
    assert found[0] == found[1]
    assert len(found[0][1]) > 5


def test_a_document_that_changed_since_is_united_with_its_session(holdfast: Calling) -> None:
    """What was done here meanwhile stays; what the file says anew is added."""
    document = json.loads(examples.ORCHESTRATOR)
    session = holdfast.document("import", put(holdfast, "a.json", document))["sessions"][0]
    holdfast.document("resume", session)
    holdfast.document("note", "done here")
    document["pending_tasks"].append("Write the changelog")
    document["goal"] = "Add sensitivity analysis and document it"
    found = holdfast.document("import", put(holdfast, "a.json", document))
    assert found["files"][0]["result"] == "united"
    assert found["sessions"] == [session]
    shown = holdfast.session("show", session)
    assert shown["goal"] == "Add sensitivity analysis and document it"
    assert [note["text"] for note in shown["notes"]] == ["done here"]
    assert "Write the changelog" in [task["text"] for task in shown["tasks"]]


def test_a_real_history_directory(holdfast: Calling) -> None:
    """Ids are kept as aliases, repeating is safe, and a file that cannot be read stops no other."""
    for number in range(3):
        document = json.loads(examples.ORCHESTRATOR)
        document["session_id"] = f"2025-12-2{number}-abc12{number}"
        document["created"] = f"2025-12-2{number}T10:30:00Z"
        document["status"] = "complete"
        put(holdfast, f".claude/orchestrator-history/{document['session_id']}.json", document)
    put(holdfast, ".claude/orchestrator-history/2025-12-24-ffffff.json", b'{"schema_version": "1.0", "session_id')
    code, out, _ = holdfast("import", ".claude/orchestrator-history", "--json")
    assert code == 4
    found = json.loads(out)
    results = sorted(one["result"] for one in found["files"])
    assert results == ["new", "new", "new", "not read"]
    assert "ffffff" in next(one["path"] for one in found["files"] if one["error"])
    assert len(holdfast.document("history")["sessions"]) == 3
    assert holdfast.session("show", "2025-12-21-abc121")["status"] == "completed"
    assert holdfast("import", ".").code == 4
    assert len(holdfast.document("history")["sessions"]) == 3


def test_export_in_every_other_format_is_valid(holdfast: Calling) -> None:
    session = holdfast.session("start", "Add OAuth with PKCE", "--scope", "auth", "--model", "gpt-5")["id"]
    holdfast.document("agent", "start", "arch-1", "--type", "architect")
    holdfast.document("task", "add", "Write the tests", "--id", "tests")
    holdfast.document("decide", "Hybrid", "--option", "JWT", "--option", "Hybrid", "--why", "Scales")
    holdfast.document("pause", "lunch")
    for name in FORMATS:
        out = f"out-{name}" if name == "contract" else f"{name}.json"
        assert holdfast("export", session, "--format", name, "-o", out).code == 0
        found = holdfast.document("validate", out)
        assert all(one["valid"] for one in found["files"]), found
        assert {one["format"] for one in found["files"]} == {name}


def test_export_prints_the_document_itself(holdfast: Calling) -> None:
    holdfast.session("start", "Add OAuth")
    code, out, err = holdfast("export", "--format", "orchestrator")
    assert (code, err) == (0, "")
    assert json.loads(out)["goal"] == "Add OAuth"
    assert holdfast("export", "--format", "contract").out.startswith('version: "1.0"\nfeature_id:')


def test_export_is_as_of_the_last_event(holdfast: Calling) -> None:
    """Files do not change by themselves: a second export is the first one."""
    holdfast.session("start", "Add OAuth")
    first = [exported(holdfast, "@", name) for name in FORMATS]
    assert first == [exported(holdfast, "@", name) for name in FORMATS]


def test_a_finished_session_in_the_timer_format_says_so(holdfast: Calling) -> None:
    session = holdfast.session("start", "Add OAuth")["id"]
    holdfast.document("stop")
    notes = holdfast.document("export", session, "--format", "timer")["notes"]
    assert "completed" in notes[0]["message"]


def test_secrets_in_a_document_are_cut_out_and_told(holdfast: Calling) -> None:
    """In fields we know, in fields we do not, and in values whose key says what they are."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    document = json.loads(examples.ORCHESTRATOR)
    document["goal"] = f"Use {token}"
    document["own"] = {"deep": [f"again {token}"], "api_key": "Zx81Kq07Lm55Pw23Rt"}
    found = holdfast.document("import", put(holdfast, "a.json", document))
    assert any("cut out" in note["message"] for note in found["notes"])
    for path in holdfast.home.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()
            assert b"Zx81Kq07Lm55Pw23Rt" not in path.read_bytes()
    shown = exported(holdfast, "2025-12-27-abc123", "orchestrator")
    assert shown["own"]["deep"][0].startswith("again [redacted:")


def test_what_went_wrong_with_one_path_is_told_with_its_code(holdfast: Calling) -> None:
    holdfast.refused(3, "import", "nothing.json")
    put(holdfast, "empty/readme.txt", b"nothing")
    holdfast.refused(3, "import", "empty")
    put(holdfast, "a.json", b'{"working_on": "x", "next_steps": []}')
    assert holdfast("import", "a.json").code == 4


# ── convert ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", FORMATS)
def test_converting_there_and_back_with_carry_restores_everything(holdfast: Calling, target: str) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    for out in ("there.yaml" if target == "contract" else "there.json", "there"):
        if out == "there" and target != "contract":
            continue
        assert holdfast("convert", "a.json", "--to", target, "--carry", "-o", out).code == 0
        assert all(one["valid"] for one in holdfast.document("validate", out)["files"])
        back = holdfast.document("convert", out, "--to", "orchestrator")
        assert ordered(back["document"]) == ordered(json.loads(examples.ORCHESTRATOR))


def test_without_carry_the_losses_are_told(holdfast: Calling) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    found = holdfast.document("convert", "a.json", "--to", "timer")
    assert any(note["path"].startswith("$.agents") for note in found["notes"])
    code, out, err = holdfast("convert", "a.json", "--to", "timer")
    assert (code, json.loads(out)) == (0, found["document"])
    assert "timer cannot say it" in err


def test_convert_keeps_nothing(holdfast: Calling) -> None:
    put(holdfast, "a.json", examples.ORCHESTRATOR)
    holdfast.document("convert", "a.json", "--to", "craft")
    assert not holdfast.home.exists()


# ── migrate ──────────────────────────────────────────────────────────────────────────────────────────────


def test_migrating_writes_the_new_version_beside_the_old_and_can_be_undone(holdfast: Calling) -> None:
    document = json.loads(examples.ORCHESTRATOR)
    del document["schema_version"]
    document["status"] = "completed"
    path = put(holdfast, "a.json", document)
    before = (holdfast.project / path).read_bytes()
    found = holdfast.document("migrate", path)["files"][0]
    assert found["result"] == "migrated"
    assert (holdfast.project / found["kept"]).read_bytes() == before
    assert holdfast.document("validate", path)["files"][0]["valid"]
    assert holdfast.document("migrate", path)["files"][0]["result"] == "current"
    holdfast.document("migrate", path, "--back")
    assert (holdfast.project / path).read_bytes() == before
    holdfast.refused(3, "migrate", path, "--back")


def test_an_unknown_newer_version_is_refused_by_name(holdfast: Calling) -> None:
    documents = {"orchestrator": ("schema_version", "2.0", examples.ORCHESTRATOR),
                 "craft": ("schema_version", "2.0.0", examples.CRAFT)}  # fmt: skip
    for name, (key, version, content) in documents.items():
        document = json.loads(content)
        document[key] = version
        path = put(holdfast, f"{name}.json", document)
        before = (holdfast.project / path).read_bytes()
        code, out, _ = holdfast("migrate", path, "--json")
        found = json.loads(out)["files"][0]
        assert (code, found["result"]) == (4, "refused")
        assert version in found["error"]
        assert (holdfast.project / path).read_bytes() == before
        assert version in json.loads(holdfast("import", path, "--json").out)["files"][0]["error"]


def test_a_feature_of_the_contract_is_migrated_file_by_file(holdfast: Calling) -> None:
    """Comments stay; only what was out of date is written anew."""
    folder = ".ai-session/ai-orchestrator-2025-01-09"
    state = examples.CONTRACT_STATE.replace(b"15:30:45Z", b"09:30:45-06:00")
    put(holdfast, f"{folder}/state.yaml", b"# ours\n" + state)
    put(holdfast, f"{folder}/implementation-plan.yaml", examples.CONTRACT_PLAN)
    put(holdfast, ".ai-session/active-features.yaml", examples.CONTRACT_REGISTRY)
    found = holdfast.document("migrate", ".ai-session")["files"]
    assert [one["result"] for one in found] == ["migrated"]
    text = (holdfast.project / folder / "state.yaml").read_text()
    assert text.startswith("# ours\n")
    assert "2025-01-09T15:30:45Z" in text
