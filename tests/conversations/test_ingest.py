"""What becomes of what agents tell: agents, files, tasks, waiting, pauses, measures."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.ingest.events import is_headless
from holdfast.workspace import settings
from tests.support.agents_speaking import BEGAN, Speaking


@pytest.fixture
def agents(tmp_path: Path) -> Speaking:
    speaking = Speaking(tmp_path)
    speaking.prompt("Add OAuth")
    return speaking


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ── subagents ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_subagent_is_an_agent_with_all_that_is_known_of_it(agents: Speaking) -> None:
    """Task from the call, id from its beginning, summary from its end, tokens from what the call returns."""
    call: dict[str, Any] = {"tool_name": "Task", "tool_use_id": "call-1",
            "tool_input": {"description": "Look around", "subagent_type": "Explore", "prompt": "x"}}  # fmt: skip
    agents.say("PreToolUse", **call)
    agents.minute = 1
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.minute = 3
    agents.say("PostToolUse", agent_id="a1", agent_type="Explore", tool_name="Write", tool_use_id="w1",
               tool_input={"file_path": str(agents.project / "map.md"), "content": "map\n"},
               tool_response={"type": "create", "filePath": str(agents.project / "map.md"), "content": "map\n",
                              "structuredPatch": [], "originalFile": None})  # fmt: skip
    agents.minute = 4
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Found the door.")
    agents.say("PostToolUse", **call, tool_response={"agentId": "a1", "status": "completed", "totalTokens": 4_200})
    session = agents.session()
    (agent,) = session.agents
    assert (agent.id, agent.type, agent.task, agent.status) == ("a1", "Explore", "Look around", "completed")
    assert (agent.summary, agent.tokens, agent.duration_ms) == ("Found the door.", 4_200, 3 * 60_000)
    assert agent.files.created == ["map.md"]
    assert session.files[0].hash_after == sha("map\n")
    assert "calls" not in session.extra


def test_two_subagents_of_one_type_each_have_their_task(agents: Speaking) -> None:
    """Calls begin in the order in which they were made."""
    for call, task in (("c1", "One"), ("c2", "Two")):
        agents.say("PreToolUse", tool_name="Task", tool_use_id=call,
                   tool_input={"description": task, "subagent_type": "Explore"})  # fmt: skip
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.say("SubagentStart", agent_id="a2", agent_type="Explore")
    assert [(agent.id, agent.task) for agent in agents.session().agents] == [("a1", "One"), ("a2", "Two")]


def test_a_subagent_known_by_its_end_alone_has_its_length(agents: Speaking) -> None:
    """A call whose subagent never said that it began."""
    agents.minute = 10
    agents.say(
        "PostToolUse",
        tool_name="Task",
        tool_use_id="c1",
        tool_input={"description": "Look", "subagent_type": "Explore"},
        tool_response={"agentId": "a1", "status": "completed", "totalTokens": 9, "totalDurationMs": 120_000},
    )
    (agent,) = agents.session().agents
    assert (agent.id, agent.status, agent.duration_ms, agent.tokens) == ("a1", "completed", 120_000, 9)


def test_a_subagent_that_begins_again_is_another_run(agents: Speaking) -> None:
    """The program goes on with a subagent that had ended: numbered, and the first stays as it was."""
    for number in (1, 2):
        agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
        agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message=f"Round {number}")
        agents.minute += 1
    assert [(agent.id, agent.summary) for agent in agents.session().agents] == [
        ("a1", "Round 1"),
        ("a1-2", "Round 2"),
    ]


def test_subagents_of_a_program_that_died_are_interrupted_when_it_is_opened_again(agents: Speaking) -> None:
    """A crash says nothing: the process is gone, and that is noticed."""
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    moved = path.with_name(f"claude.user.{program.pid}.1")
    path.rename(moved)
    (agent,) = agents.session().agents
    assert agent.status == "running"
    program.communicate(b"\n")
    agents.minute = 5
    agents.say("SessionStart", source="resume")
    (agent,) = agents.session().agents
    assert agent.status == "interrupted"


# ── files, commands, plan ────────────────────────────────────────────────────────────────────────────────


def test_an_edit_has_its_hashes_from_the_disk_and_the_payload(agents: Speaking) -> None:
    """Before: what the payload says stood there. After: what stands there, while nobody wrote since."""
    file = agents.project / "src" / "a.py"
    file.parent.mkdir()
    file.write_text("two\n")
    os.utime(file, ns=(BEGAN * 1_000_000, BEGAN * 1_000_000))
    agents.say("PostToolUse", tool_name="Edit", tool_use_id="e1",
               tool_input={"file_path": str(file), "old_string": "one", "new_string": "two"},
               tool_response={"filePath": str(file), "oldString": "one", "newString": "two", "originalFile": "one\n",
                              "structuredPatch": [{"lines": ["-one", "+two"]}]})  # fmt: skip
    (change,) = agents.session().files
    assert (change.path, change.action) == ("src/a.py", "modified")
    assert (change.hash_before, change.hash_after) == (sha("one\n"), sha("two\n"))
    assert (change.lines_added, change.lines_removed) == (1, 1)


def test_a_file_written_since_is_not_taken_for_the_edit(agents: Speaking) -> None:
    """Somebody changed it between the edit and the drain: then the payload's word counts."""
    file = agents.project / "a.txt"
    file.write_text("three\n")
    os.utime(file, ns=((BEGAN + 60_000) * 1_000_000,) * 2)
    agents.say("PostToolUse", tool_name="Write", tool_use_id="e1",
               tool_input={"file_path": str(file), "content": "two\n"},
               tool_response={"type": "update", "filePath": str(file), "content": "two\n", "originalFile": "one\n",
                              "structuredPatch": []})  # fmt: skip
    (change,) = agents.session().files
    assert (change.hash_before, change.hash_after) == (sha("one\n"), sha("two\n"))


def test_a_file_outside_the_project_is_named_and_not_looked_at(agents: Speaking, tmp_path: Path) -> None:
    """Neither by its path nor through a link that leads out."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("x")
    (agents.project / "inside").symlink_to(secret)
    for number, path in enumerate([str(secret / "key"), str(agents.project / "inside" / "key"), "../secret/key"]):
        agents.say(
            "PostToolUse",
            tool_name="Write",
            tool_use_id=f"e{number}",
            tool_input={"file_path": path, "content": "x"},
            tool_response={"type": "create", "filePath": path},
        )
    session = agents.session()
    assert session.files == []
    outside = session.extra["files_outside"]
    assert isinstance(outside, list)
    assert len(outside) == 3


def test_commands_are_counted(agents: Speaking) -> None:
    """With those that failed, and the last one; secrets are cut out."""
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="b1", tool_input={"command": "make"},
               tool_response={"stdout": "", "stderr": "", "interrupted": False})  # fmt: skip
    agents.say(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_use_id="b2",
        error="Exit code 2",
        tool_input={"command": "curl -H 'Authorization: Bearer sk-ant-api03-" + "a1B2" * 24 + "AA'"},
    )
    commands = agents.session().commands
    assert (commands.total, commands.failed) == (2, 1)
    assert "sk-ant" not in (commands.last or "")


def todos(*entries: tuple[str, str]) -> dict[str, object]:
    return {"todos": [{"content": text, "status": status, "activeForm": text} for text, status in entries]}


def test_a_todo_list_becomes_the_plan(agents: Speaking) -> None:
    """Done, begun, open; what vanishes undone is dropped, what comes back is reopened."""

    def write(number: int, *entries: tuple[str, str]) -> dict[str, str]:
        agents.minute += 1
        agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id=f"t{number}", tool_input=todos(*entries))
        return {task.text: task.status for task in agents.session().tasks}

    assert write(1, ("One", "in_progress"), ("Two", "pending")) == {"One": "in_progress", "Two": "pending"}
    assert write(2, ("One", "completed"), ("Three", "pending")) == {
        "One": "completed", "Two": "dropped", "Three": "pending"
    }  # fmt: skip
    assert write(3, ("One", "in_progress"), ("Two", "completed"), ("Three", "completed")) == {
        "One": "in_progress", "Two": "completed", "Three": "completed"
    }  # fmt: skip
    assert agents.session().conflicts == []


# ── the context, the model, the person ───────────────────────────────────────────────────────────────────


def test_a_compaction_is_one_save_and_one_compression(agents: Speaking) -> None:
    """Told before, after, and by the conversation that opens again: once."""
    agents.say("PreCompact", trigger="auto", custom_instructions="")
    agents.say("PostCompact", trigger="auto", compact_summary="…")
    agents.say("SessionStart", source="compact")
    assert agents.session().context.compressions == 1
    assert agents.types().count("session.saved") == 1
    agents.minute = 30
    agents.say("PreCompact", trigger="manual", custom_instructions="")
    assert agents.session().context.compressions == 1  # it may be refused
    agents.say("SessionStart", source="compact")
    assert agents.session().context.compressions == 2


def test_model_and_permission_mode_are_recorded_when_they_change(agents: Speaking) -> None:
    """Not with every payload that repeats them."""
    for mode in ("plan", "plan", "acceptEdits"):
        agents.prompt("Go on", permission_mode=mode)
    agents.say("PostModelSwitch", from_model="claude-opus-5", to_model="claude-sonnet-5", source="user")
    session = agents.session()
    assert session.model == "claude-sonnet-5"
    assert session.extra["permission_modes"] == {"claude": "acceptEdits"}
    assert agents.types().count("extra.kept") == 3


def test_wait_ends_with_the_next_report(agents: Speaking) -> None:
    """A permission is asked for, told twice, and granted."""
    agents.say("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"}, tool_use_id="b1")
    agents.say("Notification", message="Claude needs your permission", notification_type="permission_prompt")
    (wait,) = agents.session().waiting
    assert wait.for_ == "permission"
    agents.minute = 1
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="b1", tool_input={"command": "rm x"})
    assert agents.session().waiting == []
    agents.minute = 2
    agents.say("Stop")
    agents.say("Notification", message="Claude is waiting for your input", notification_type="idle_prompt")
    assert [waiting.for_ for waiting in agents.session().waiting] == ["input"]


def test_a_usage_limit_pauses_until_the_next_prompt(agents: Speaking) -> None:
    """The pause has its reason, and ends by itself when work goes on."""
    agents.say("StopFailure", error="rate_limit", error_details="5-hour limit reached, resets 18:00")
    session = agents.session()
    assert session.status == "paused"
    assert "limit" in (session.time.pauses[-1].reason or "").lower()
    agents.minute = 120
    agents.prompt("Go on")
    session = agents.session()
    assert session.status == "in_progress"
    assert session.time.paused_ms == 120 * 60_000


def test_prompt_of_the_person_ends_a_pause(agents: Speaking) -> None:
    """Whoever writes is at work; a reply or a tool of the agent's is nobody's word."""
    with agents.keeper() as keeper:
        keeper.session().pause("lunch")
    agents.minute = 1
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="b1", tool_input={"command": "make"})
    assert agents.session().status == "paused"
    agents.minute = 2
    agents.prompt("Just a question")
    assert agents.session().status == "in_progress"
    assert agents.types()[-2:] == ["session.resumed", "message.exchanged"]


def test_prompt_ends_no_pause_when_the_settings_say_so(agents: Speaking) -> None:
    with agents.keeper() as keeper:
        keeper.session().pause("lunch")
        settings.change(keeper.home.config, settings.find_setting("timer.message_resumes"), False)
    agents.minute = 1
    agents.prompt("Just a question")
    assert agents.session().status == "paused"
    assert agents.types()[-1] == "message.exchanged"


@pytest.mark.parametrize(
    ("agent", "words", "headless"),
    [
        ("claude", "claude -p hi", True), ("claude", "node claude --print", True), ("claude", "claude", False),
        ("claude", "claude --resume 1 fix -p", True), ("codex", "codex exec hi", True), ("codex", "codex", False),
        ("codex", "node /bin/codex e hi", True), ("gemini", "gemini --prompt=hi", True), ("gemini", "gemini", False),
        ("opencode", "opencode run hi", True), ("goose", "goose session", False), ("cline", "cline -p", False),
    ],
)  # fmt: skip
def test_headless_runs_are_known_by_their_command_line(agent: str, words: str, headless: bool) -> None:
    assert is_headless(agent, words.split()) is headless


def test_failures_have_a_category(agents: Speaking) -> None:
    """An overloaded server will pass; the session goes on."""
    agents.say("StopFailure", error="overloaded", error_details="529 overloaded_error")
    session = agents.session()
    assert [(error.category, session.status) for error in session.errors] == [("transient", "in_progress")]


def test_an_end_is_a_hint(agents: Speaking) -> None:
    """The session is paused, though nothing else happened to it; reopening takes the hint back."""
    agents.say("SessionEnd", reason="other")
    with agents.keeper() as keeper:
        (native,) = keeper.session().state().native.values()
    assert native.closed_at == BEGAN
    assert agents.session().status == "paused"
    agents.minute = 1
    agents.prompt("Go on")
    with agents.keeper() as keeper:
        (native,) = keeper.session().state().native.values()
    assert native.closed_at is None
    assert agents.session().status == "in_progress"


def test_long_reading_is_work(agents: Speaking) -> None:
    """Tools that leave no trace are signs of activity, seldom enough not to flood the log."""
    for number in range(60):
        agents.minute += 0.25
        agents.say("PostToolUse", tool_name="Read", tool_use_id=f"r{number}", tool_input={"file_path": "/x"})
    session = agents.session()
    assert session.time.working_ms == 15 * 60_000
    assert len(agents.types()) <= 20


def test_other_line_ends_than_the_program_shows_are_noticed(agents: Speaking) -> None:
    """Claude shows CRLF files with LF: what was before is found by taking the edit back on the disk."""
    file = agents.project / "a.txt"
    file.write_bytes(b"one\r\nthree\r\n")
    os.utime(file, ns=(BEGAN * 1_000_000, BEGAN * 1_000_000))
    agents.say(
        "PostToolUse", tool_name="Edit", tool_use_id="e1",
        tool_input={"file_path": str(file), "old_string": "two\n", "new_string": "three\n"},
        tool_response={"filePath": str(file), "oldString": "two\n", "newString": "three\n",
                       "originalFile": "one\ntwo\n", "structuredPatch": []},
    )  # fmt: skip
    (change,) = agents.session().files
    assert (change.hash_before, change.hash_after) == (sha("one\r\ntwo\r\n"), sha("one\r\nthree\r\n"))


@pytest.mark.parametrize(
    ("encoding", "end", "known"), [("utf-8", "\n", True), ("utf-8", "\r\n", False), ("utf-16", "\n", False)]
)
def test_edits_drained_together_have_no_hashes_of_other_line_ends(
    agents: Speaking, encoding: str, end: str, known: bool
) -> None:
    """Only the second can be seen on the disk; the first has the hashes the file really had, or none."""

    def content(*lines: str) -> bytes:
        return "".join(line + end for line in lines).encode(encoding)

    file = agents.project / "a.txt"
    file.write_bytes(content("ONE", "TWO"))
    for number, (old, new, before) in enumerate([("one", "ONE", "one\ntwo\n"), ("two", "TWO", "ONE\ntwo\n")]):
        exchange = {"filePath": str(file), "oldString": old, "newString": new, "originalFile": before}
        agents.say("PostToolUse", tool_name="Edit", tool_use_id=f"e{number}", tool_response=exchange,
                   tool_input={"file_path": str(file), "old_string": old, "new_string": new})  # fmt: skip
        agents.minute += 1
    at = (BEGAN + 60_000) * 1_000_000
    os.utime(file, ns=(at, at))
    with agents.keeper() as keeper:
        first, second = keeper.state(keeper.session().id).files
    sums = [hashlib.sha256(content(*lines)).hexdigest() for lines in (("one", "two"), ("ONE", "two"), ("ONE", "TWO"))]
    assert (first.hash_before, first.hash_after) == ((sums[0], sums[1]) if known else (None, None))
    assert second.hash_after == sums[2]
    assert second.hash_before == (None if encoding == "utf-16" else sums[1])


def test_late_payload_reverts_nothing(agents: Speaking) -> None:
    """A second hearing, drained after the conversation closed and the task was done, changes neither."""
    agents.say("TaskCreated", task_id="1", task_subject="One")
    agents.minute = 1
    agents.say("TaskCompleted", task_id="1", task_subject="One")
    agents.say("SessionEnd", reason="other")
    agents.session()
    agents.minute = 0.5
    agents.say("TaskCreated", task_id="1", task_subject="One", through="plugin", more="told otherwise")
    agents.say("PostToolUse", tool_name="Read", tool_use_id="late", tool_input={"file_path": "/x"})
    agents.minute = 2
    assert [task.status for task in agents.session().tasks] == ["completed"]
    with agents.keeper() as keeper:
        (native,) = keeper.session().state().native.values()
    assert native.closed_at is not None


def test_payload_that_another_process_recorded_is_not_recorded_again(agents: Speaking) -> None:
    """Read before another drain took it in: inside the transaction it is gone."""
    from holdfast.conversations.ingest import drain, payload
    from holdfast.workspace import spool

    agents.session()
    path = agents.say("PostToolUse", tool_name="Read", tool_use_id="r1", tool_input={"file_path": "/x"})
    taken = payload.read(spool.SpoolEntry(str(path), path.name, os.lstat(path)), agents.now).payload
    assert taken is not None
    agents.minute = 1
    agents.say("SessionEnd", reason="other")
    agents.session()
    before = agents.types()
    with agents.keeper() as keeper:
        drain._record_payloads(keeper, [taken], 1.0)
    assert agents.types() == before


def test_subagent_starts_with_its_call_when_its_start_is_not_reported(tmp_path: Path) -> None:
    """Gemini has no word for it: it is at work from the call to what the call returns."""
    speaking = Speaking(tmp_path)
    speaking.say("BeforeAgent", agent="gemini", prompt="Add OAuth")
    call: dict[str, Any] = {
        "tool_name": "invoke_agent",
        "tool_input": {"agent_name": "explorer", "prompt": "Look around"},
    }
    speaking.minute = 1
    speaking.say("BeforeTool", agent="gemini", **call)
    (agent,) = speaking.session().agents
    assert (agent.type, agent.status) == ("explorer", "running")
    speaking.minute = 3
    speaking.say("AfterTool", agent="gemini", **call, tool_response={"llmContent": "Found.", "returnDisplay": "x"})
    (agent,) = speaking.session().agents
    assert (agent.status, agent.duration_ms) == ("completed", 2 * 60_000)


# ── agents in parallel, in the background, told in another order ─────────────────────────────────────────


def call(number: int, task: str, **more: object) -> dict[str, Any]:
    given = {"description": task, "subagent_type": "Explore", "prompt": "x", **more}
    return {"tool_name": "Agent", "tool_use_id": f"call-{number}", "tool_input": given}


def launched(agent: str) -> dict[str, Any]:
    return {"tool_response": {"isAsync": True, "status": "async_launched", "agentId": agent}}


def test_agent_that_turns_out_to_be_in_the_background_takes_no_time_from_the_person(agents: Speaking) -> None:
    """Only what the call returned said so; by then it counted as one in the foreground."""
    agents.say("PreToolUse", **call(1, "Long review"))
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.say("PostToolUse", **call(1, "Long review"), **launched("a1"))
    for minute in range(3, 31, 3):
        agents.minute = minute
        agents.prompt(f"Go on {minute}")
    agents.minute = 32
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Reviewed")
    session = agents.session()
    assert [(agent.background, agent.status) for agent in session.agents] == [(True, "completed")]
    assert session.time.working_ms == 32 * 60_000


def test_what_a_call_returned_corrects_what_was_guessed(agents: Speaking) -> None:
    """Two of one type begin in another order than they were called for."""
    agents.say("PreToolUse", **call(1, "Search callers"))
    agents.say("PreToolUse", **call(2, "Search docs"))
    agents.say("SubagentStart", agent_id="a2", agent_type="Explore")
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    done = {"status": "completed", "totalTokens": 500_000}
    agents.say("PostToolUse", **call(1, "Search callers"), tool_response={**done, "agentId": "a1"})
    agents.say("PostToolUse", **call(2, "Search docs"), **launched("a2"))
    session = agents.session()
    assert {agent.id: agent.task for agent in session.agents} == {"a1": "Search callers", "a2": "Search docs"}
    assert {agent.id: agent.tokens for agent in session.agents} == {"a1": 500_000, "a2": None}
    assert session.context.tokens is None  # what an agent spent is no measure of how full the context is
    assert session.conflicts == []


def test_start_reported_after_the_end_starts_nothing(agents: Speaking) -> None:
    """The agent was quicker than the hook of its call."""
    agents.say("PreToolUse", **call(1, "Review"))
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.minute = 1
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Reviewed")
    agents.say("PostToolUse", **call(1, "Review"), **launched("a1"))
    (agent,) = agents.session().agents
    assert (agent.id, agent.status, agent.background, agent.summary) == ("a1", "completed", True, "Reviewed")


def test_waits_end_with_their_conversation(agents: Speaking) -> None:
    """Closed, killed, or its session stopped."""
    asked = {"message": "May I?", "notification_type": "permission_prompt"}
    agents.say("Notification", **asked)
    assert len(agents.session().waiting) == 1
    agents.say("SessionEnd", reason="other")
    assert agents.session().waiting == []
    agents.minute = 1
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = agents.say("Notification", **asked)
    path.rename(path.with_name(f"claude.user.{program.pid}.1"))
    assert len(agents.session().waiting) == 1
    program.communicate(b"\n")
    with agents.keeper() as keeper:
        keeper.session().resume()
    assert agents.session().waiting == []
    agents.minute = 2
    agents.say("Notification", **asked)
    with agents.keeper() as keeper:
        assert keeper.session().complete().document().waiting == []


def test_wait_of_a_subagent_is_recorded_once(agents: Speaking) -> None:
    """Told with its name and without; granted once."""
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    bash: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_use_id": "b1",
        "tool_input": {"command": "make"},
        "agent_id": "a1",
    }
    agents.say("PermissionRequest", **bash)
    agents.say("Notification", message="May it?", notification_type="permission_prompt")
    agents.session()
    agents.minute = 1
    agents.say("PostToolUse", **bash)
    assert agents.session().waiting == []


def test_a_list_that_was_emptied_is_given_up(agents: Speaking) -> None:
    """What is not on it any more and not done is dropped; a subagent's list is its own; equal words are two."""
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t1",
               tool_input=todos(("One", "in_progress"), ("Same", "pending"), ("Same", "completed")))  # fmt: skip
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t2", agent_id="a1",
               tool_input=todos(("Its own", "pending")))  # fmt: skip
    found = [(task.text, task.status, task.agent) for task in agents.session().tasks]
    assert found == [
        ("One", "in_progress", None), ("Same", "pending", None), ("Same", "completed", None),
        ("Its own", "pending", "a1"),
    ]  # fmt: skip
    agents.minute = 1
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t3", tool_input={"todos": []})
    statuses = {task.text: task.status for task in agents.session().tasks if task.status != "completed"}
    assert statuses == {"One": "dropped", "Same": "dropped", "Its own": "pending"}


def test_the_end_of_a_subagent_begins_no_session(agents: Speaking) -> None:
    """It ended after the person had stopped the session."""
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    with agents.keeper() as keeper:
        keeper.session().complete()
    agents.minute = 1
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Done")
    assert len(agents.sessions()) == 1


def test_a_notice_of_the_program_does_not_end_a_limit(agents: Speaking) -> None:
    """Only a person's prompt shows that work goes on."""
    agents.say("StopFailure", error="rate_limit", error_details="limit reached, resets 18:00")
    agents.minute = 10
    agents.prompt("<task-notification>\n<task-id>a1</task-id>done</task-notification>")
    assert agents.session().status == "paused"
