"""`holdfast validate`: which files it finds, what it reports about them, and its exit codes."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from holdfast.core.canonical import Json
from holdfast.formats import published_schemas, schema
from tests.support.command_line import Calling, checked

SESSION: dict[str, Any] = {
    "schema_version": "1.0", "session_id": "2026-01-05-abc123", "created": "2026-01-05T08:00:00Z",
    "updated": "2026-01-05T09:00:00Z", "project": {"name": "notes", "path": "/notes", "git_branch": "main"},
    "goal": "Add search to the notes", "mode": "default", "status": "in_progress",
    "agents": [{
        "id": "code-1", "type": "code", "task": "Write the index", "status": "in_progress",
        "started": "2026-01-05T08:10:00Z", "progress": 60, "context_tokens": 3200,
    }],
    "completed_work": [{"task": "Design", "outcome": "Agreed", "files": ["docs/search.md"]}],
    "pending_tasks": ["Add tests"],
    "decisions_made": [{"decision": "SQLite", "rationale": "It is there", "timestamp": "2026-01-05T08:05:00Z"}],
    "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": None}, "errors": [],
}  # fmt: skip
STATE = """\
version: "1.0"
feature_id: "search-2026-01-05"
current_state:
  active_task: "index"
  model_in_use: "opus"
  started_at: "2026-01-05T08:00:00Z"
  last_updated: "2026-01-05T09:00:00Z"
"""
PLAN = """\
feature:
  id: "search-2026-01-05"
  name: "Search"
  description: "Search in notes"
  created_at: "2026-01-05T08:00:00Z"
phases:
  - phase_id: "build"
    name: "Build"
    tasks:
      - task_id: "index"
        description: "Write the index"
        agent: "code-1"
        status: "in_progress"
        started_at: "2026-01-05T08:00:00Z"
        completed_at: null
        artifacts: []
"""
REGISTRY = """\
active_features:
  - feature_id: "search-2026-01-05"
    started_at: "2026-01-05T08:00:00Z"
    last_active: "2026-01-05T09:00:00Z"
    status: "active"
"""
LINE = (
    '{"timestamp":"2026-01-05T08:00:00Z","command":"plan","arguments":"search","model":"gemini","agent":"a",'
    '"task_id":null,"status":"success","duration_ms":5}\n'
)


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def put(holdfast: Calling, path: str, content: str | bytes | dict[str, Any]) -> Path:
    file = holdfast.project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    raw = json.dumps(content, indent=2) if isinstance(content, dict) else content
    file.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return file


def changed(**change: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SESSION), **change}


def feature(holdfast: Calling, home: str = ".ai-session") -> None:
    put(holdfast, f"{home}/active-features.yaml", REGISTRY)
    put(holdfast, f"{home}/search-2026-01-05/state.yaml", STATE)
    put(holdfast, f"{home}/search-2026-01-05/implementation-plan.yaml", PLAN)
    put(holdfast, f"{home}/search-2026-01-05/history.jsonl", LINE)
    put(holdfast, f"{home}/search-2026-01-05/artifacts/kept.txt", "")
    put(holdfast, f"{home}/README.md", "Sessions")


def files(holdfast: Calling, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """The entry of each file, by its path."""
    done = holdfast("validate", *words, "--json")
    assert (done.code, done.err) == (code, ""), done.out
    output = checked(done.out)["files"]
    for match in output:
        assert set(match) == {"path", "format", "valid", "problems"}
        assert match["valid"] is all(problem["severity"] != "error" for problem in match["problems"])
        for problem in match["problems"]:
            context = {key: problem.pop(key) for key in ("operation", "file", "feature_id", "details", "timestamp")}
            assert (context["operation"], context["file"], context["details"]) == (
                "read", match["path"], problem["message"],
            )  # fmt: skip
            assert context["timestamp"].endswith("Z")
            assert set(problem) == {"path", "message", "severity", "line"}
            assert problem["path"].startswith("$")
    return {os.path.normpath(match["path"]).replace(os.sep, "/"): match for match in output}


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def test_sound_file_is_valid(holdfast: Calling) -> None:
    """Exit code 0."""
    put(holdfast, "x.json", SESSION)
    assert files(holdfast, "x.json") == {
        "x.json": {"path": "x.json", "format": "orchestrator", "valid": True, "problems": []}
    }
    assert holdfast("validate", "x.json").out == "1 file checked: valid.\n"
    assert holdfast("validate", "x.json", "--quiet").out == ""


def test_every_problem_is_reported_with_its_place_and_line(holdfast: Calling) -> None:
    broken = changed(mode="fast", goal=5)
    broken["agents"][0]["progress"] = "half"
    del broken["errors"]
    put(holdfast, "x.json", broken)
    problems = files(holdfast, "x.json", code=4)["x.json"]["problems"]
    entries = {problem["path"]: problem for problem in problems}
    assert {"$.mode", "$.goal", "$.agents[0].progress", "$.errors"} <= set(entries)
    assert entries["$.errors"]["message"] == "is missing"
    lines = (holdfast.project / "x.json").read_text().splitlines()
    assert '"goal"' in lines[entries["$.goal"]["line"] - 1]
    spoken = holdfast("validate", "x.json").out
    assert "$.agents[0].progress" in spoken
    assert spoken.endswith("1 of 1 file is invalid.\n")


def test_file_with_only_a_warning_is_valid(holdfast: Calling) -> None:
    put(holdfast, "x.json", b"\xef\xbb\xbf" + json.dumps(SESSION).encode())
    result = files(holdfast, "x.json")["x.json"]
    assert [problem["severity"] for problem in result["problems"]] == ["warning"]
    assert "byte order mark" in result["problems"][0]["message"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"schema_version": "1.0", ', "it is not JSON"),
        (b"", "it is empty"),
        (json.dumps(SESSION).encode("utf-16"), "UTF-16"),
        (json.dumps(SESSION).encode().replace(b'"mode"', b'"goal": "x", "mode"'), "duplicate key 'goal'"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "not valid UTF-8"),
    ],
)
def test_file_that_cannot_be_read_is_invalid(holdfast: Calling, raw: bytes, why: str) -> None:
    put(holdfast, ".claude/orchestrator-session.json", raw)
    for path in (".", ".claude/orchestrator-session.json"):
        result = files(holdfast, path, code=4)[".claude/orchestrator-session.json"]
        assert (result["format"], result["valid"]) == ("orchestrator", False)
        assert why in result["problems"][0]["message"]


def test_hand_made_file_has_none_of_the_formats(holdfast: Calling) -> None:
    put(holdfast, ".claude/session-state.json", {"working_on": "x", "next_steps": [], "notes": "y"})
    result = files(holdfast, ".", code=4)[".claude/session-state.json"]
    assert (result["format"], result["valid"]) == (None, False)
    message = result["problems"][0]["message"]
    assert "hand-made" in message
    assert "import --salvage" in message


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        *((name, b"# Handover\n\n## Done\n- Form\n\n## Next steps\n- Tests\n")
          for name in ("notes.md", "notes.markdown", "notes.txt", "NOTES", "-")),
        ("notes.toml", b'done = ["Form"]\nnext_steps = ["Tests"]\n'),
    ],
)  # fmt: skip
def test_salvage_is_recommended_for_notes_and_toml_that_it_can_read(holdfast: Calling, name: str, raw: bytes) -> None:
    """Importing them works."""
    put(holdfast, "notes" if name == "-" else name, raw)
    holdfast.patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    ((_, result),) = files(holdfast, name, code=4).items()
    assert (result["format"], result["valid"]) == (None, False)
    assert "holdfast import --salvage" in result["problems"][0]["message"]
    holdfast.patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert holdfast("import", "--salvage", name).code == 0


@pytest.mark.parametrize("document", [{"mood": "fine"}, {"responses": 3, "status": "idle"}, {}, []])
def test_salvage_is_not_recommended_when_it_recognizes_nothing(holdfast: Calling, document: object) -> None:
    put(holdfast, "own.json", json.dumps(document).encode())
    (problem,) = files(holdfast, "own.json", code=4)["own.json"]["problems"]
    assert "--salvage" not in problem["message"]


def test_list_of_active_features_alone_is_no_contract_registry(holdfast: Calling) -> None:
    put(holdfast, "own.json", {"active_features": [{"id": "F-1", "status": "planning"}], "next_steps": ["Plan it"]})
    result = files(holdfast, "own.json", code=4)["own.json"]
    assert result["format"] is None
    assert "--salvage" in result["problems"][0]["message"]


def test_format_can_be_required(holdfast: Calling) -> None:
    put(holdfast, "x.json", SESSION)
    assert files(holdfast, "x.json", "--format", "orchestrator")["x.json"]["valid"]
    result = files(holdfast, "x.json", "--format", "timer", code=4)["x.json"]
    assert result["format"] == "timer"
    assert "$.sessionId" in {problem["path"] for problem in result["problems"]}
    assert holdfast.refused(4, "validate", "x.json", "--format", "yaml")["kind"] == "invalid"


def test_standard_input_is_read(holdfast: Calling) -> None:
    for text, format_ in ((json.dumps(SESSION), "orchestrator"), (STATE, "contract")):
        holdfast.patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False))
        result = files(holdfast, "-")["-"]
        assert (result["format"], result["valid"]) == (format_, True)


def test_lenient_reports_only_what_import_refuses(holdfast: Calling) -> None:
    wild = changed(status="completed")
    del wild["schema_version"]
    put(holdfast, "wild.json", wild)
    put(holdfast, "newer.json", changed(schema_version="9.0"))
    assert not files(holdfast, "wild.json", code=4)["wild.json"]["valid"]
    assert files(holdfast, "wild.json", "--lenient")["wild.json"]["problems"] == []
    newer = files(holdfast, "newer.json", "--lenient", code=4)["newer.json"]["problems"]
    assert "9.0" in newer[0]["message"]


# ── directories ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_session_file_of_a_project_is_checked(holdfast: Calling) -> None:
    feature(holdfast)
    there: dict[str, dict[str, Any]] = {
        ".claude/orchestrator-session.json": SESSION,
        ".claude/orchestrator-history/2026-01-05-abc123.json": changed(status="complete"),
        "packages/one/.claude/orchestrator-session.json": SESSION,
        "top.json": SESSION,
    }
    passed_over: dict[str, dict[str, Any]] = {
        ".claude/settings.json": {"permissions": {}},
        ".claude/orchestrator-session.json.rejected-20260105T080000Z": {},
        ".claude/.holdfast-0123456789abcdef.tmp": {},
        ".git/.claude/orchestrator-session.json": {},
        "node_modules/x/.claude/orchestrator-session.json": {},
        "package.json": {"name": "x"},
        "src/deep.json": SESSION,
        ".ai-session/.lock/state.yaml": {},
        ".ai-session/search-2026-01-05/artifacts/state.yaml": {},
    }
    for path, content in (there | passed_over).items():
        put(holdfast, path, content)
    put(holdfast, "tsconfig.json", "{ // a comment\n}")
    (holdfast.project / "linked").symlink_to(holdfast.project / ".claude")
    (holdfast.project / "linked.json").symlink_to(holdfast.project / "top.json")
    result = files(holdfast, ".")
    names = ("active-features.yaml", "search-2026-01-05/state.yaml", "search-2026-01-05/implementation-plan.yaml",
             "search-2026-01-05/history.jsonl")  # fmt: skip
    assert set(result) == {*there, *(f".ai-session/{name}" for name in names)}
    assert {entry["format"] for entry in result.values()} == {"orchestrator", "contract"}
    assert holdfast("validate", ".").out == "8 files checked: valid.\n"


@pytest.mark.parametrize("where", [".ai-session", ".ai-session/search-2026-01-05"])
def test_directories_of_the_contract_can_be_given(holdfast: Calling, where: str) -> None:
    feature(holdfast)
    assert f"{where}/history.jsonl".split("/")[-1] in {path.split("/")[-1] for path in files(holdfast, where)}
    holdfast.patch.chdir(holdfast.project / where)
    assert all(file["format"] == "contract" for file in files(holdfast, ".").values())


def test_copy_of_a_feature_is_recognized_by_its_files(holdfast: Calling) -> None:
    feature(holdfast, "copy")
    result = files(holdfast, "copy")
    assert len(result) == 4
    assert {entry["format"] for entry in result.values()} == {"contract"}


def test_session_files_in_a_directory_of_other_documents_are_checked(holdfast: Calling) -> None:
    put(holdfast, "d/good.json", SESSION)
    put(holdfast, "d/bad.json", changed(mode="fast"))
    put(holdfast, "d/torn.json", json.dumps(SESSION)[:200])
    put(holdfast, "d/other.json", {"name": "x"})
    put(holdfast, "d/settings.json", '{"name": "x", }')
    result = files(holdfast, "d", code=4)
    assert {path: entry["valid"] for path, entry in result.items()} == {
        "d/good.json": True, "d/bad.json": False, "d/torn.json": False,
    }  # fmt: skip
    assert set(files(holdfast, ".", "--format", "orchestrator", code=4)) == set(result)


def test_path_without_session_files_is_not_found(holdfast: Calling) -> None:
    put(holdfast, "package.json", {"name": "x"})
    assert "no session file" in holdfast.refused(3, "validate", ".")["message"]
    assert holdfast.refused(3, "validate", "nowhere.json")["file"] == "nowhere.json"
    put(holdfast, "x.json", SESSION)
    assert holdfast.refused(3, "validate", "x.json", "nowhere.json")["kind"] == "not_found"
    assert holdfast.refused(3, "validate", ".", "--format", "craft")["kind"] == "not_found"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is closed to this user")
def test_unreadable_directory_is_reported_and_the_rest_is_checked(holdfast: Calling) -> None:
    put(holdfast, ".claude/orchestrator-session.json", SESSION)
    put(holdfast, ".claude/session-state.json", SESSION).chmod(0)
    put(holdfast, "shut/x.json", SESSION).parent.chmod(0)
    result = files(holdfast, ".", code=4)
    (holdfast.project / "shut").chmod(0o700)
    assert {path: entry["valid"] for path, entry in result.items()} == {
        ".claude/orchestrator-session.json": True, ".claude/session-state.json": False, "shut": False,
    }  # fmt: skip


def test_pipe_among_the_files_does_not_block(holdfast: Calling) -> None:
    put(holdfast, ".claude/orchestrator-session.json", SESSION)
    if hasattr(os, "mkfifo"):
        os.mkfifo(holdfast.project / ".claude" / "session-state.json")
        assert not files(holdfast, ".claude/session-state.json", code=4)[".claude/session-state.json"]["valid"]
    assert list(files(holdfast, ".")) == [".claude/orchestrator-session.json"]


# ── the contract ─────────────────────────────────────────────────────────────────────────────────────────


def test_history_is_checked_line_by_line(holdfast: Calling) -> None:
    feature(holdfast)
    broken = LINE.replace('"success"', '"maybe"')
    put(holdfast, ".ai-session/search-2026-01-05/history.jsonl", LINE + "\n" + broken + '{"torn')
    path = ".ai-session/search-2026-01-05/history.jsonl"
    for words in ([path], ["."]):
        problems = files(holdfast, *words, code=4)[path]["problems"]
        assert [(problem["line"], problem["path"]) for problem in problems] == [(3, "$.status"), (4, "$")]
        assert problems[0]["message"].startswith("line 3: must be one of")
    assert "line 3: must be" in holdfast("validate", path).out


def test_files_of_a_feature_must_be_consistent(holdfast: Calling) -> None:
    feature(holdfast)
    put(holdfast, ".ai-session/search-2026-01-05/state.yaml", STATE.replace('"index"', '"nosuch"'))
    early = LINE.replace("T08:00:00Z", "T07:00:00Z")
    put(holdfast, ".ai-session/search-2026-01-05/history.jsonl", LINE + early)
    result = files(holdfast, ".", code=4)
    state = result[".ai-session/search-2026-01-05/state.yaml"]
    assert "$.current_state.active_task" in {problem["path"] for problem in state["problems"]}
    history = result[".ai-session/search-2026-01-05/history.jsonl"]
    assert [(problem["line"], problem["severity"]) for problem in history["problems"]] == [(2, "warning")]


def test_problems_in_yaml_have_their_lines(holdfast: Calling) -> None:
    put(holdfast, ".ai-session/a-2026-01-05/state.yaml", STATE.replace('"opus"', '"gpt"'))
    problems = files(holdfast, ".", code=4)[".ai-session/a-2026-01-05/state.yaml"]["problems"]
    assert ("$.current_state.model_in_use", 5) in {(problem["path"], problem["line"]) for problem in problems}


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "value"), [("orchestrator", SESSION), ("contract-history", json.loads(LINE))])
def test_printed_schema_can_be_used(holdfast: Calling, name: str, value: Any) -> None:
    done = holdfast("validate", "--schema", name)
    assert done.code == 0
    jsonschema.validate(value, json.loads(done.out))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**value, "status": "nosuch"}, json.loads(done.out))
    assert holdfast.document("validate", "--schema", name)["schema"] == json.loads(done.out)


def test_schemas_of_the_contract_are_one_document(holdfast: Calling) -> None:
    rules = json.loads(holdfast("validate", "--schema", "contract").out)
    assert set(rules["$defs"]) == {"contract-state", "contract-plan", "contract-registry", "contract-history"}
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(json.loads(LINE), rules)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"status": "nosuch"}, rules)


def test_invalid_calls_are_usage_errors(holdfast: Calling) -> None:
    assert holdfast.refused(2, "validate")["kind"] == "usage"
    assert holdfast.refused(2, "validate", "x.json", "--schema", "timer")["kind"] == "usage"


def test_validate_creates_nothing(holdfast: Calling) -> None:
    put(holdfast, ".claude/orchestrator-session.json", SESSION)
    before = sorted(path.name for path in holdfast.project.rglob("*"))
    files(holdfast, ".")
    assert sorted(path.name for path in holdfast.project.rglob("*")) == before
    assert not holdfast.home.exists()


# ── text output ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", ["40", "60", "80", "200"])
def test_every_message_has_two_blanks_before_it(holdfast: Calling, width: str) -> None:
    """Also when its line is wrapped."""
    holdfast.patch.setenv("COLUMNS", width)
    broken = changed(mode="fast", session_id="x", goal=5)
    broken["agents"][0]["id"] = "../x"
    put(holdfast, "x.json", broken)
    out = holdfast("validate", "x.json").out
    heads = [line for line in out.splitlines() if line.startswith("  error")]
    assert len(heads) == 4
    for head in heads:
        assert re.match(r"  error    \$[^ ]+ \(line \d+\)(  must|$)", head), head


def test_pattern_mismatch_is_reported_in_words(holdfast: Calling) -> None:
    put(holdfast, "x.json", changed(session_id="x", goal=" "))
    entries = {file["path"]: file["message"] for file in files(holdfast, "x.json", code=4)["x.json"]["problems"]}
    assert entries["$.session_id"] == 'must be a date and six hexadecimal digits such as 2026-11-15-0a1b2c, is "x"'
    assert entries["$.goal"] == "must not be blank"


def test_every_pattern_of_a_schema_has_words() -> None:
    """People never see a regular expression."""
    asked = set()
    for name in published_schemas.NAMES:
        asked |= set(patterns(json.loads(published_schemas.schema_of(name))))
    assert len(asked) > 5
    for pattern in asked - {r"\S"}:  # "must not be blank"
        (result,) = schema.Checker({"type": "string", "pattern": pattern}).problems("\n~")
        assert pattern not in result.message


def patterns(rules: Any) -> Iterator[str]:
    if isinstance(rules, dict):
        if isinstance(rules.get("pattern"), str):
            yield rules["pattern"]
        for inner in rules.values():
            yield from patterns(inner)
    elif isinstance(rules, list):
        for inner in rules:
            yield from patterns(inner)


def test_pattern_without_words_is_reported_by_its_description() -> None:
    rules: dict[str, Json] = {"type": "string", "pattern": "^[xyz]$", "description": "One of the three axes."}
    (result,) = schema.Checker(rules).problems("w")
    assert result.message == 'must be one of the three axes, is "w"'


def test_file_that_cannot_be_read_is_named_once(holdfast: Calling) -> None:
    put(holdfast, "x.json", b'{"a":"' + b"x" * (5 << 20) + b'"}')
    (result,) = files(holdfast, "x.json", code=4)["x.json"]["problems"]
    assert result["message"] == "it is larger than 4 MiB"
    assert holdfast("validate", "x.json").out.count("x.json") == 1


def test_not_found_lists_the_places_that_were_searched(holdfast: Calling) -> None:
    error = holdfast.refused(3, "validate", ".")
    for place in (".claude/orchestrator-session.json", ".claude/session-state.json", ".ai-session/", ".craft/cache/"):
        assert place in error["hint"]


def test_only_session_files_of_a_mirrored_project_are_listed(holdfast: Calling) -> None:
    """No locks, quarantined files or leftovers of a migration."""
    holdfast.session("start", "Add search")
    for name in ("orchestrator", "timer", "contract", "craft"):
        holdfast.document("mirror", "on", name)
    put(holdfast, ".claude/session-state.json", '{"sessionId": "torn')
    holdfast("note", "sets the torn file aside")
    quarantined = [path.name for path in (holdfast.project / ".claude").iterdir() if ".rejected-" in path.name]
    locks = [path.name for path in (holdfast.project / ".ai-session").rglob(".*lock")]
    assert quarantined
    assert locks
    put(holdfast, ".claude/session-state.json.before-20260105T080000Z", "{")
    listed = {Path(path).name for path in files(holdfast, ".")}
    assert not {
        name for name in listed if name in (*quarantined, *locks) or name.startswith(".") or ".before-" in name
    }
    assert {"orchestrator-session.json", "session-state.json", "state.yaml", "active-features.yaml"} <= listed


@pytest.mark.parametrize("lenient", [(), ("--lenient",)])
@pytest.mark.parametrize("goal", ["a\0b", "x" * (3 << 20)])
def test_text_that_no_event_can_hold_is_reported(holdfast: Calling, goal: str, lenient: tuple[str, ...]) -> None:
    put(holdfast, "x.json", changed(goal=goal))
    (problem,) = files(holdfast, "x.json", *lenient, code=4)["x.json"]["problems"]
    assert problem["path"] == "$.goal"
    assert holdfast("import", "x.json").code == 4


def test_text_that_no_event_can_hold_is_accepted_in_unknown_fields(holdfast: Calling) -> None:
    put(holdfast, "x.json", changed(own="a\0b" + "x" * (2 << 20)))
    assert files(holdfast, "x.json")["x.json"]["valid"]
    assert holdfast("import", "x.json").code == 0


def test_text_that_no_event_can_hold_is_reported_in_a_line_of_history(holdfast: Calling) -> None:
    put(holdfast, ".ai-session/search-2026-01-05/state.yaml", STATE)
    path = put(holdfast, ".ai-session/search-2026-01-05/history.jsonl", LINE.replace("plan", "pl\\u0000an"))
    (problem,) = files(holdfast, str(path), code=4)[str(path)]["problems"]
    assert (problem["path"], problem["line"]) == ("$.command", 1)
    assert holdfast("import", ".").code == 4
