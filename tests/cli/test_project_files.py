"""Session files in a project whose mirror is off are named everywhere, and can be continued; unreadable ones are
answered with commands that work on that file.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support import spec_examples
from tests.support.command_line import Calling, Out

ORCHESTRATOR = ".claude/orchestrator-session.json"
TIMER = ".claude/session-state.json"
GOAL = "Add sensitivity analysis to RMediation::medci()"
ALIAS = "2025-12-27-abc123"
TORN = spec_examples.ORCHESTRATOR[:1100]
NEWER = spec_examples.ORCHESTRATOR.replace(b'"schema_version": "1.0"', b'"schema_version": "2.0"')
UNREADABLE = {"torn": (TORN, 6), "newer": (NEWER, 4)}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    monkeypatch.setenv("COLUMNS", "200")
    return Calling(tmp_path, monkeypatch, capsys)


def put(call: Calling, name: str = ORCHESTRATOR, raw: bytes = spec_examples.ORCHESTRATOR) -> Path:
    path = call.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def text_of(out: Out) -> str:
    return out.out + out.err


def craft_and_contract(call: Calling) -> None:
    """Files of the formats for many sessions, as another home wrote them."""
    call.patch.setenv("HOLDFAST_HOME", str(call.home.with_name("other")))
    for name in ("craft", "contract"):
        assert call("mirror", "on", name).code == 0
    assert call("start", "Work of another program").code == 0
    call.patch.setenv("HOLDFAST_HOME", str(call.home))


# ── a valid file, mirror off ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "raw", "goal"),
    [(ORCHESTRATOR, spec_examples.ORCHESTRATOR, GOAL), (TIMER, spec_examples.TIMER_JUST_STARTED, "")],
)
@pytest.mark.parametrize("command", ["status", "init", "doctor"])
def test_unknown_session_file_is_named_while_mirror_is_off(
    call: Calling, name: str, raw: bytes, goal: str, command: str
) -> None:
    """By every command that shows the current work, to people and to programs."""
    path = put(call, name, raw)
    shown = call(command)
    assert shown.code == 0
    assert name in text_of(shown)
    assert goal in text_of(shown)
    assert name in call(command, "--json").out
    assert path.read_bytes() == raw


def test_unknown_session_file_is_named_by_start_and_resume_of_another(call: Calling) -> None:
    put(call)
    started = call("start", "Something else")
    assert started.code == 0
    assert ORCHESTRATOR in started.err
    assert any(ORCHESTRATOR in note for note in call.document("resume")["notes"])
    assert call.session("status")["goal"] == "Something else"
    # A file older than the current session is imported when asked for, as the note says.
    assert f"holdfast import {ORCHESTRATOR}" in started.err
    assert call("import", ORCHESTRATOR).code == 0
    assert "notes" not in call.document("status")
    assert call("resume", ALIAS).code == 0


@pytest.mark.parametrize("command", ["continue", "resume"])
def test_continue_imports_an_unknown_session_file_and_switches_its_mirror_on(call: Calling, command: str) -> None:
    path = put(call)
    resumed = call(command)
    assert resumed.code == 0
    assert f"({ALIAS})" in resumed.out
    assert "imported" in resumed.err
    assert "mirror orchestrator is on" in resumed.err
    session = call.session("status")
    assert (session["goal"], session["aliases"]["orchestrator"]) == (GOAL, ALIAS)
    assert [mirror["format"] for mirror in call.document("mirror", "status")["mirrors"]] == ["orchestrator"]
    call("note", "Going on")
    assert json.loads(path.read_text())["updated"] > "2026"
    # The session continues in this directory, not where the file came from.
    assert json.loads(path.read_text())["project"]["path"] == str(call.project)
    assert json.loads(call("export", "--format", "orchestrator").out)["project"]["path"] == str(call.project)
    assert "notes" not in call.document("status")


def test_only_the_file_that_continue_takes_is_shown_with_it(call: Calling) -> None:
    put(call)
    put(call, TIMER, spec_examples.TIMER_JUST_STARTED)
    shown = text_of(call("status"))
    assert f"holdfast import {TIMER}" in shown
    assert shown.count("To continue it: holdfast continue") == 1
    assert call("continue").code == 0
    assert call.session("status")["goal"] == GOAL


def test_continue_imports_files_of_many_sessions(call: Calling) -> None:
    craft_and_contract(call)
    for lock in call.project.rglob("*.lock"):
        lock.unlink()
    before = sorted(call.project.rglob("*"))
    document = call.document("status")
    assert sorted(call.project.rglob("*")) == before  # reading leaves no trace
    assert document["session"] is None
    assert any(".craft/" in note for note in document["notes"])
    assert any(".ai-session/" in note for note in document["notes"])
    assert call("continue").code == 0
    assert call.session("status")["goal"] == "Work of another program"


def test_tracked_session_file_needs_confirmation(call: Calling) -> None:
    """Anyone can put a file into a repository."""
    call.repository()
    put(call)
    call.git("add", "-f", ORCHESTRATOR)
    error = call.refused(1, "continue")
    assert "git tracks" in error["message"]
    assert "holdfast continue --yes" in error["hint"]
    assert call.document("history")["sessions"] == []
    assert call("continue", "--yes").code == 0
    assert call.session("status")["goal"] == GOAL


def test_session_file_older_than_the_latest_session_needs_confirmation(call: Calling) -> None:
    call("start", "Finished since")
    call("stop")
    put(call)
    assert "older" in call.refused(1, "continue")["message"]
    assert "holdfast continue --yes" in text_of(call("status"))
    assert call("--yes", "continue").code == 0
    assert call.session("status")["goal"] == GOAL


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"\n", 1)])
def test_tracked_session_file_is_confirmed_on_a_terminal(call: Calling, typed: bytes, code: int) -> None:
    call.repository()
    put(call)
    call.git("add", "-f", ORCHESTRATOR)
    assert on_terminal("continue", typed=typed) == code
    assert len(call.document("history")["sessions"]) == (code == 0)


def on_terminal(*words: str, typed: bytes) -> int:
    """The exit code of a real process that reads from a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words], stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    timer = threading.Timer(60, child.kill)
    timer.start()
    try:
        os.write(ours, typed)
        return child.wait()
    finally:
        timer.cancel()
        os.close(ours)


def test_older_session_file_does_not_replace_an_unfinished_session(call: Calling) -> None:
    put(call)
    call("start", "Unfinished")
    resumed = call("continue")
    assert resumed.code == 0
    assert "Unfinished" in resumed.out
    assert ORCHESTRATOR in resumed.err


def test_session_file_known_to_the_store_is_not_named(call: Calling) -> None:
    """Until somebody edits it after its import."""
    path = put(call)
    call("import", ORCHESTRATOR)
    assert "notes" not in call.document("status")
    document = json.loads(path.read_text())
    document["pending_tasks"].append("One more")
    document["updated"] = "2026-01-01T00:00:00Z"
    path.write_text(json.dumps(document))
    (note,) = call.document("status")["notes"]
    assert "has more of session" in note
    assert call("continue").code == 0
    assert "One more" in [task["text"] for task in call.session("status")["tasks"]]


def test_session_file_of_a_mirror_that_was_switched_off_is_not_named(call: Calling) -> None:
    call("mirror", "on", "orchestrator")
    call("start", "Ours")
    call("mirror", "off", "orchestrator")
    call("note", "The file is behind now")
    assert "notes" not in call.document("status")


@pytest.mark.parametrize("name", ["craft", "contract"])
def test_file_of_many_sessions_is_named_when_it_has_more_than_the_log(call: Calling, name: str) -> None:
    """Not when it was only touched, nor once it was imported."""
    assert call("start", "Build the shop").code == 0
    assert call("task", "add", "Write the tests").code == 0
    for verb in ("on", "off"):
        assert call("mirror", verb, name).code == 0
    pattern = {"craft": ".craft/cache/orchestration-sessions/*-*.json", "contract": ".ai-session/*/state.yaml"}[name]
    (file,) = call.project.glob(pattern)
    later = os.stat(file).st_mtime + 1
    os.utime(file, (later, later))
    assert "notes" not in call.document("status")
    text = file.read_text()
    file.write_text(
        text.replace('"pending_tasks": [', '"pending_tasks": ["Write the guide",')
        if name == "craft"
        else text.replace("active_task: null", 'active_task: "t1"')
    )
    os.utime(file, (later, later))
    (note,) = call.document("status")["notes"]
    assert "has more of session" in note
    assert call("import", str(file)).code == 0
    assert "notes" not in call.document("status")


def test_imported_craft_file_with_another_name_is_not_named(call: Calling) -> None:
    path = put(call, ".craft/cache/orchestration-sessions/my own.json", spec_examples.CRAFT)
    assert "is not in the log" in call.document("status")["notes"][0]
    assert call("import", str(path)).code == 0
    assert "notes" not in call.document("status")


def test_hand_made_file_is_named_only_when_nothing_can_be_continued(call: Calling) -> None:
    """It has none of the formats, so `status` does not name it."""
    put(call, TIMER, b'{"working_on": "the shop", "next_steps": ["paint it"]}')
    assert "notes" not in call.document("status")
    error = call.refused(3, "continue")
    assert f"holdfast import --salvage {TIMER}" in error["hint"]
    assert call("import", "--salvage", TIMER).code == 0


def test_status_loads_no_formats_when_there_is_no_session_file(call: Calling) -> None:
    """Only one file system call per place."""
    call("start", "Ours")
    code = (
        "import sys; from holdfast.cli.main import main; main(['status']); "
        "looks = {'holdfast.formats', 'holdfast.formats.project_files', 'holdfast.formats.mirror',"
        " 'holdfast.formats.mirror.follower'};"
        "print(sorted(name for name in sys.modules if name.startswith('holdfast.formats') and name not in looks))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_link_in_the_place_of_a_session_file_is_not_followed(call: Calling, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_bytes(spec_examples.ORCHESTRATOR)
    (call.project / ".claude").mkdir()
    (call.project / ORCHESTRATOR).symlink_to(elsewhere)
    assert "notes" not in call.document("status")
    call.refused(3, "continue")


# ── a file that cannot be read, or is of a newer version ─────────────────────────────────────────────────


@pytest.mark.parametrize("mirror", ["off", "on"])
@pytest.mark.parametrize("which", UNREADABLE)
def test_unreadable_session_file_is_answered_with_options_that_work(call: Calling, which: str, mirror: str) -> None:
    """By `continue` and `resume`; recovering uses the current name of the file."""
    raw, code = UNREADABLE[which]
    if mirror == "on":
        call("mirror", "on", "orchestrator")
    put(call, raw=raw)
    status = call("status")
    assert status.code == 0
    for command in ("continue", "resume"):
        hint = call.refused(code, command)["hint"]
        recover, fresh, history = hint.split("\n")
        assert "holdfast start GOAL --replace" in fresh
        assert "holdfast history" in history
        assert recover.partition(" (")[0] in text_of(status)
    words = recover.partition(" (")[0].split()
    assert (call.project / words[2]).read_bytes() == raw  # every move is reported
    assert call(*words[1:]).code == 0
    assert call.session("status")["goal"] == GOAL
    assert "notes" not in call.document("status")
    assert call("continue").code == 0
    if mirror == "off":
        switched = call("mirror", "on", "orchestrator")
        assert switched.code == 0
        (aside,) = [path for path in (call.project / ".claude").iterdir() if ".rejected-" in path.name]
        assert aside.name in switched.err
        assert aside.read_bytes() == raw
    assert json.loads((call.project / ORCHESTRATOR).read_text())["session_id"] == ALIAS


@pytest.mark.parametrize("mirror", ["off", "on"])
@pytest.mark.parametrize("which", UNREADABLE)
def test_start_keeps_an_unreadable_session_file_under_a_reported_name(call: Calling, which: str, mirror: str) -> None:
    raw, _ = UNREADABLE[which]
    if mirror == "on":
        call("mirror", "on", "orchestrator")
    put(call, raw=raw)
    started = call("start", "Afresh", "--replace")
    assert started.code == 0
    (aside,) = [path for path in (call.project / ".claude").iterdir() if ".rejected-" in path.name]
    assert aside.read_bytes() == raw
    assert aside.name in text_of(started)
    assert call("continue").code == 0
    assert call.session("status")["goal"] == "Afresh"
    assert call("mirror", "on", "orchestrator").code == (5 if mirror == "on" else 0)
    assert call("stop").code == 0
    call.refused(3, "continue")
    assert "notes" not in call.document("status")
    assert (aside.name in text_of(call("doctor"))) == (mirror == "on")


@pytest.mark.parametrize("raw", [TORN, b'{"broken'])
def test_file_in_quarantine_is_not_asked_about_after_its_session(call: Calling, raw: bytes) -> None:
    call("mirror", "on", "orchestrator")
    call("start", "Build the shop")
    put(call, raw=raw)
    assert ".rejected-" in call("status").err
    call("stop")
    call.refused(3, "continue")
    assert ".rejected-" in text_of(call("doctor"))


def broken_file_of_many(call: Calling, which: str) -> Path:
    """A torn or newer file of a format with many sessions, as another program left it."""
    craft_and_contract(call)
    keep, name, old, new = BROKEN_OF_MANY[which]
    for folder in {".craft", ".ai-session"} - {keep}:
        shutil.rmtree(call.project / folder)
    (path,) = [path for path in (call.project / keep).rglob(name) if path.name != "index.json"]
    raw = path.read_bytes()
    assert old in raw
    path.write_bytes(raw.replace(old, new) if new else raw[: raw.index(old) + len(old)])
    return path


# The directory, the file in it, and the replacement in it or the place where it is cut.
BROKEN_OF_MANY = {
    "torn craft": (".craft", "*.json", b'"goal": "Work of another program"', b""),
    "newer craft": (".craft", "*.json", b'"schema_version": "1.0.0"', b'"schema_version": "2.0.0"'),
    "torn state": (".ai-session", "state.yaml", b'implementation_plan: "impl', b""),
    "torn id in state": (".ai-session", "state.yaml", b'feature_id: "work', b""),
    "newer state": (".ai-session", "state.yaml", b'version: "1.0"', b'version: "2.0"'),
    "torn plan": (".ai-session", "implementation-plan.yaml", b'description: "Work', b""),
}


@pytest.mark.parametrize("which", BROKEN_OF_MANY)
def test_unreadable_file_of_many_sessions_is_named_and_answered_with_options_that_work(
    call: Calling, which: str
) -> None:
    path = broken_file_of_many(call, which)
    raw, name = path.read_bytes(), str(path.relative_to(call.project))
    for command in ("status", "init", "doctor"):
        assert name in call(command, "--json").out
    for command in ("continue", "resume"):
        hint = call.refused(4 if "newer" in which else 6, command)["hint"]
        recover, fresh, history = hint.split("\n")
        assert (fresh.partition(" (")[0], history.partition(" (")[0]) == ("holdfast start GOAL", "holdfast history")
        assert name in recover
    assert call(*recover.partition(" (")[0].split()[1:]).code == 0
    assert path.read_bytes() == raw
    assert call.session("status")["goal"] == "Work of another program"
    assert "notes" not in call.document("status")
    assert call("continue").code == 0


@pytest.mark.parametrize("which", BROKEN_OF_MANY)
def test_unreadable_file_of_many_sessions_is_named_by_start_and_blocks_nothing(call: Calling, which: str) -> None:
    path = broken_file_of_many(call, which)
    raw, name = path.read_bytes(), str(path.relative_to(call.project))
    started = call("start", "Afresh")
    assert started.code == 0
    assert name in text_of(started)
    assert call("continue").code == 0
    assert call.session("status")["goal"] == "Afresh"
    assert path.read_bytes() == raw


def test_options_for_unreadable_session_file_work_in_a_subdirectory(call: Calling) -> None:
    call.repository()
    put(call, raw=TORN)
    (call.project / "src").mkdir()
    call.patch.chdir(call.project / "src")
    recover = call.refused(6, "continue")["hint"].partition(" (")[0].split()
    assert call(*recover[1:]).code == 0
    assert call.session("status")["goal"] == GOAL


def test_mirror_on_over_a_torn_session_file_offers_options_that_work(call: Calling) -> None:
    path = put(call, raw=TORN)
    hint = call.refused(5, "mirror", "on", "orchestrator")["hint"]
    assert "salvage" not in hint
    recover, again = (line.partition(": ")[2].partition(" (")[0].split() for line in hint.split("\n"))
    assert call(*recover[1:]).code == 0
    assert path.read_bytes() == TORN
    assert call(*again[1:]).code == 0
    assert json.loads(path.read_text())["session_id"] == ALIAS


def test_mirror_on_over_empty_session_file_keeps_it_under_a_reported_name(call: Calling) -> None:
    """It contains nothing to import."""
    put(call, raw=b"")
    assert call.refused(6, "continue")["hint"].startswith("holdfast start GOAL")
    switched = call("mirror", "on", "orchestrator")
    assert switched.code == 0
    assert ".rejected-" in switched.err


def test_unreadable_session_file_does_not_block_the_current_session(call: Calling) -> None:
    call("start", "At work")
    put(call, raw=TORN)
    resumed = call("continue")
    assert resumed.code == 0
    assert "At work" in resumed.out
    assert "is damaged" in resumed.err


def test_torn_mirrored_file_is_restored_and_continue_works(call: Calling) -> None:
    call("mirror", "on", "orchestrator")
    call("start", "Known to the log")
    put(call, raw=b"{broken")
    status = call("status")
    assert "set aside" in status.err
    assert call("continue").code == 0
    assert json.loads((call.project / ORCHESTRATOR).read_text())["goal"] == "Known to the log"


# ── switching a mirror on over another session's file ────────────────────────────────────────────────────


def test_mirror_on_keeps_the_current_session_when_the_file_is_older(call: Calling) -> None:
    """The older one is imported and archived; the answer has the command that resumes it."""
    put(call)
    current = call.session("start", "Current work")["id"]
    switched = call("mirror", "on", "orchestrator")
    assert switched.code == 0
    assert call.session("status")["id"] == current
    assert json.loads((call.project / ORCHESTRATOR).read_text())["goal"] == "Current work"
    archived = call.project / ".claude/orchestrator-history" / f"{ALIAS}.json"
    assert json.loads(archived.read_text()) == json.loads(spec_examples.ORCHESTRATOR)
    undo = switched.err.rpartition("holdfast ")[2].split()
    assert call(*undo).code == 0
    assert call.session("status")["goal"] == GOAL


def test_mirror_on_reports_how_to_return_when_the_file_is_newer(call: Calling) -> None:
    current = call.session("start", "Current work", "--at", "2025-12-01T10:00:00Z")["id"]
    put(call)
    switched = call("mirror", "on", "orchestrator")
    assert switched.code == 0
    assert call.session("status")["goal"] == GOAL
    undo = switched.err.rpartition("holdfast ")[2].split()
    assert call(*undo).code == 0
    assert call.session("status")["id"] == current


def test_mirror_on_for_timer_keeps_the_current_session_when_the_file_is_older(call: Calling) -> None:
    put(call, TIMER, spec_examples.TIMER_JUST_STARTED)
    call("start", "Current work")
    assert call("mirror", "on", "timer").code == 0
    assert call.session("status")["goal"] == "Current work"
    assert json.loads((call.project / TIMER).read_text())["sessionId"] != older_timer()["sessionId"]
    assert call("resume", older_timer()["sessionId"]).code == 0


def older_timer() -> dict[str, Any]:
    return dict(json.loads(spec_examples.TIMER_JUST_STARTED))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("typed", "goal"), [(b"\n", "Current work"), (b"n\n", GOAL)])
def test_mirror_on_asks_on_a_terminal_which_session_is_current(call: Calling, typed: bytes, goal: str) -> None:
    put(call)
    call("start", "Current work")
    assert on_terminal("mirror", "on", "orchestrator", typed=typed) == 0
    assert call.session("status")["goal"] == goal
