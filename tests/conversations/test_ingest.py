"""Events made of agents' signals: agents, files, tasks, waits, pauses, measures."""

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
from tests.support.agent_hooks import BEGAN, AgentHooks


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    speaking = AgentHooks(tmp_path)
    speaking.prompt("Add OAuth")
    return speaking


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ── subagents ────────────────────────────────────────────────────────────────────────────────────────────


def test_subagent_is_recorded_with_all_known_facts(agents: AgentHooks) -> None:
    """Task from the call, id from its start, summary from its end, tokens from the call's result."""
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


def test_two_subagents_of_one_type_each_have_their_task(agents: AgentHooks) -> None:
    """They start in the order of their calls."""
    for call, task in (("c1", "One"), ("c2", "Two")):
        agents.say("PreToolUse", tool_name="Task", tool_use_id=call,
                   tool_input={"description": task, "subagent_type": "Explore"})  # fmt: skip
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.say("SubagentStart", agent_id="a2", agent_type="Explore")
    assert [(agent.id, agent.task) for agent in agents.session().agents] == [("a1", "One"), ("a2", "Two")]


def test_subagent_known_only_by_its_end_has_its_duration(agents: AgentHooks) -> None:
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


def test_restarted_subagent_is_another_run(agents: AgentHooks) -> None:
    """Numbered; the first run stays unchanged."""
    for number in (1, 2):
        agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
        agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message=f"Round {number}")
        agents.minute += 1
    assert [(agent.id, agent.summary) for agent in agents.session().agents] == [
        ("a1", "Round 1"),
        ("a1-2", "Round 2"),
    ]


def test_subagents_of_a_program_that_died_are_interrupted_when_it_is_opened_again(agents: AgentHooks) -> None:
    """A crash reports nothing, but the process is gone."""
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


def test_edit_has_hashes_from_disk_and_payload(agents: AgentHooks) -> None:
    """Before: from the payload. After: from the disk, unless somebody wrote since."""
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


def test_file_changed_after_the_edit_is_not_hashed(agents: AgentHooks) -> None:
    """Then the payload counts."""
    file = agents.project / "a.txt"
    file.write_text("three\n")
    os.utime(file, ns=((BEGAN + 60_000) * 1_000_000,) * 2)
    agents.say("PostToolUse", tool_name="Write", tool_use_id="e1",
               tool_input={"file_path": str(file), "content": "two\n"},
               tool_response={"type": "update", "filePath": str(file), "content": "two\n", "originalFile": "one\n",
                              "structuredPatch": []})  # fmt: skip
    (change,) = agents.session().files
    assert (change.hash_before, change.hash_after) == (sha("one\n"), sha("two\n"))


def test_file_outside_the_project_is_named_but_not_read(agents: AgentHooks, tmp_path: Path) -> None:
    """By its path or through a link."""
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


def test_commands_are_counted(agents: AgentHooks) -> None:
    """With failed ones and the last; secrets are removed."""
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


def test_todo_list_becomes_the_plan(agents: AgentHooks) -> None:
    """An open entry that disappears is dropped, one that returns is reopened."""

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


def test_compaction_is_recorded_once(agents: AgentHooks) -> None:
    """Reported before, after, and by the reopened conversation."""
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


def test_model_and_permission_mode_are_recorded_when_they_change(agents: AgentHooks) -> None:
    """Not with every payload."""
    for mode in ("plan", "plan", "acceptEdits"):
        agents.prompt("Go on", permission_mode=mode)
    agents.say("PostModelSwitch", from_model="claude-opus-5", to_model="claude-sonnet-5", source="user")
    session = agents.session()
    assert session.model == "claude-sonnet-5"
    assert session.extra["permission_modes"] == {"claude": "acceptEdits"}
    assert agents.types().count("extra.kept") == 3


def test_wait_ends_with_the_next_report(agents: AgentHooks) -> None:
    """A permission request, reported twice, is granted."""
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


def test_usage_limit_pauses_until_the_next_prompt(agents: AgentHooks) -> None:
    """With its reason."""
    agents.say("StopFailure", error="rate_limit", error_details="5-hour limit reached, resets 18:00")
    session = agents.session()
    assert session.status == "paused"
    assert "limit" in (session.time.pauses[-1].reason or "").lower()
    agents.minute = 120
    agents.prompt("Go on")
    session = agents.session()
    assert session.status == "in_progress"
    assert session.time.paused_ms == 120 * 60_000


def test_prompt_of_the_person_ends_a_pause(agents: AgentHooks) -> None:
    """A reply or a tool of the agent does not."""
    with agents.keeper() as keeper:
        keeper.session().pause("lunch")
    agents.minute = 1
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="b1", tool_input={"command": "make"})
    assert agents.session().status == "paused"
    agents.minute = 2
    agents.prompt("Just a question")
    assert agents.session().status == "in_progress"
    assert agents.types()[-2:] == ["session.resumed", "message.exchanged"]


def test_prompt_ends_no_pause_when_the_settings_say_so(agents: AgentHooks) -> None:
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
def test_headless_run_is_recognized_by_its_command_line(agent: str, words: str, headless: bool) -> None:
    assert is_headless(agent, words.split()) is headless


def test_failures_have_a_category(agents: AgentHooks) -> None:
    """An overloaded server is transient; the session continues."""
    agents.say("StopFailure", error="overloaded", error_details="529 overloaded_error")
    session = agents.session()
    assert [(error.category, session.status) for error in session.errors] == [("transient", "in_progress")]


def test_end_of_a_conversation_pauses_its_session(agents: AgentHooks) -> None:
    """Until it is reopened."""
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


def test_long_reading_is_work(agents: AgentHooks) -> None:
    """Read-only tools are signs of activity, rare enough not to flood the log."""
    for number in range(60):
        agents.minute += 0.25
        agents.say("PostToolUse", tool_name="Read", tool_use_id=f"r{number}", tool_input={"file_path": "/x"})
    session = agents.session()
    assert session.time.working_ms == 15 * 60_000
    assert len(agents.types()) <= 20


def test_hidden_crlf_line_ends_are_detected(agents: AgentHooks) -> None:
    """The earlier content is found by reverting the edit on disk."""
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
    agents: AgentHooks, encoding: str, end: str, known: bool
) -> None:
    """Only the second is visible on disk; the first has real hashes or none."""

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


def test_late_payload_reverts_nothing(agents: AgentHooks) -> None:
    """A second report, after the conversation closed and the task was done."""
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


def test_payload_that_another_process_recorded_is_not_recorded_again(agents: AgentHooks) -> None:
    """It was read before another drain, and is gone within the transaction."""
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
    """Gemini reports only the call and its result."""
    speaking = AgentHooks(tmp_path)
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


# ── parallel and background agents, and other orders ─────────────────────────────────────────────────────


def call(number: int, task: str, **more: object) -> dict[str, Any]:
    given = {"description": task, "subagent_type": "Explore", "prompt": "x", **more}
    return {"tool_name": "Agent", "tool_use_id": f"call-{number}", "tool_input": given}


def launched(agent: str) -> dict[str, Any]:
    return {"tool_response": {"isAsync": True, "status": "async_launched", "agentId": agent}}


def test_agent_reported_late_as_background_costs_no_working_time(agents: AgentHooks) -> None:
    """Only the call's result said so; until then it counted as foreground."""
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


def test_result_of_a_call_corrects_a_wrong_match(agents: AgentHooks) -> None:
    """Two subagents of one type started in another order than called."""
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
    assert session.context.tokens is None  # an agent's usage does not measure the fill of the context
    assert session.conflicts == []


def test_start_reported_after_the_end_starts_nothing(agents: AgentHooks) -> None:
    """The agent was faster than the call's hook."""
    agents.say("PreToolUse", **call(1, "Review"))
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.minute = 1
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Reviewed")
    agents.say("PostToolUse", **call(1, "Review"), **launched("a1"))
    (agent,) = agents.session().agents
    assert (agent.id, agent.status, agent.background, agent.summary) == ("a1", "completed", True, "Reviewed")


def test_waits_end_with_their_conversation(agents: AgentHooks) -> None:
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


def test_wait_of_a_subagent_is_recorded_once(agents: AgentHooks) -> None:
    """Reported with and without its name; granted once."""
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


def test_emptied_todo_list_is_dropped(agents: AgentHooks) -> None:
    """Open entries are dropped; a subagent's list is separate; equal texts are two entries."""
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t1",
               tool_input=todos(("One", "in_progress"), ("Same", "pending"), ("Same", "completed")))  # fmt: skip
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t2", agent_id="a1",
               tool_input=todos(("Its own", "pending")))  # fmt: skip
    tasks = [(task.text, task.status, task.agent) for task in agents.session().tasks]
    assert tasks == [
        ("One", "in_progress", None), ("Same", "pending", None), ("Same", "completed", None),
        ("Its own", "pending", "a1"),
    ]  # fmt: skip
    agents.minute = 1
    agents.say("PostToolUse", tool_name="TodoWrite", tool_use_id="t3", tool_input={"todos": []})
    statuses = {task.text: task.status for task in agents.session().tasks if task.status != "completed"}
    assert statuses == {"One": "dropped", "Same": "dropped", "Its own": "pending"}


def test_end_of_a_subagent_starts_no_session(agents: AgentHooks) -> None:
    """After the person stopped the session."""
    agents.say("SubagentStart", agent_id="a1", agent_type="Explore")
    with agents.keeper() as keeper:
        keeper.session().complete()
    agents.minute = 1
    agents.say("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Done")
    assert len(agents.sessions()) == 1


def test_notice_of_the_program_does_not_end_a_limit(agents: AgentHooks) -> None:
    """Only a person's prompt does."""
    agents.say("StopFailure", error="rate_limit", error_details="limit reached, resets 18:00")
    agents.minute = 10
    agents.prompt("<task-notification>\n<task-id>a1</task-id>done</task-notification>")
    assert agents.session().status == "paused"
