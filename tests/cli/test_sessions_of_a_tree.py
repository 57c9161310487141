"""Several sessions in one work tree: which of them a command acts on, in a terminal and within an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.workspace import spool
from tests.support.command_line import Calling

TALKS = ("talk-one", "talk-two")


def say(call: Calling, event: str, talk: str, *, pid: int = 1, **said: Any) -> None:
    """One payload of Claude Code, left by a hook that a process ran."""
    payload = {"session_id": talk, "cwd": str(call.project), "hook_event_name": event, **said}
    spool.add_payload(str(call.home), "claude", "user", pid, json.dumps(payload).encode())


@pytest.fixture
def call(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


@pytest.fixture
def two(call: Calling) -> tuple[str, str]:
    """Two conversations at once: the ids of their sessions."""
    entries = []
    for talk, words in zip(TALKS, ("Invoices as PDF", "Add French"), strict=True):
        say(call, "UserPromptSubmit", talk, prompt=words)
        entries.append(str(call.session("status")["id"]))
    assert len(set(entries)) == 2
    return entries[0], entries[1]


def statuses(call: Calling, sessions: tuple[str, ...]) -> list[str]:
    return [str(call.session("status", session)["status"]) for session in sessions]


def test_open_sessions_are_known_in_a_repository(call: Calling) -> None:
    """Where changed files are compared as well: neither takes the other's place in the store's memory."""
    call.repository()
    for talk, words in zip(TALKS, ("Invoices as PDF", "Add French"), strict=True):
        say(call, "UserPromptSubmit", talk, prompt=words)
        say(call, "Stop", talk, last_assistant_message="Done.")
        call.document("why", "README.md")
    assert [item["goal"] for item in call.document("status")["others"]] == ["Invoices as PDF"]


def test_status_shows_the_latest_session_and_names_the_others(call: Calling, two: tuple[str, str]) -> None:
    """With what is open in them: it must not be forgotten because another prompt came."""
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    call.document("task", "add", "Page numbers")
    call.patch.delenv("CLAUDE_CODE_SESSION_ID")
    document = call.document("status")
    assert document["session"]["id"] == two[1]
    (other,) = document["others"]
    assert (other["id"], other["goal"], other["open_tasks"]) == (two[0], "Invoices as PDF", 1)
    shown = call("status").out
    assert "Also open here" in shown
    assert "1 open task" in shown


def test_pause_and_resume_in_a_terminal_act_on_every_open_session(call: Calling, two: tuple[str, str]) -> None:
    """A person who goes to lunch pauses all of it; `resume ID` ends the pause of one."""
    paused = call.document("pause", "Lunch")
    assert [paused["session"]["id"], *(item["id"] for item in paused["others"])] == [two[1], two[0]]
    assert statuses(call, two) == ["paused", "paused"]
    call.session("resume")
    assert statuses(call, two) == ["in_progress", "in_progress"]
    call.document("pause")
    call.session("resume", two[0])
    assert statuses(call, two) == ["in_progress", "paused"]


def test_other_verbs_in_a_terminal_act_on_the_latest_prompts_session_and_name_it(
    call: Calling, two: tuple[str, str]
) -> None:
    """With one open session, nothing needs to be said."""
    say(call, "UserPromptSubmit", TALKS[0], prompt="Letters, too")
    result = call("note", "Ask about the font")
    assert f"In session {two[0][:8]}, 'Invoices as PDF'; 1 more is open here" in result.err
    assert [note["text"] for note in call.session("show", two[0])["notes"]] == ["Ask about the font"]
    call.document("stop")
    say(call, "UserPromptSubmit", TALKS[1], prompt="And Danish")
    assert "In session" not in call("note", "Two languages").err


@pytest.mark.parametrize(
    "verb", [("note", "Inside"), ("pause",), ("task", "add", "Inside"), ("edit", "--progress", "0.5")]
)
def test_command_in_an_agent_acts_on_its_conversations_session(
    call: Calling, two: tuple[str, str], verb: tuple[str, ...]
) -> None:
    """Whatever the work tree is at, and that one alone."""
    before = call.session("show", two[1])["updated_at"]
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    assert call.session(*verb)["id"] == two[0]
    assert call.session("status")["id"] == two[0]
    assert call.session("show", two[1])["updated_at"] == before


def test_command_in_an_agent_is_known_by_its_process(call: Calling) -> None:
    """The agent's process is an ancestor of the command: this one, of a real `holdfast`."""
    say(call, "UserPromptSubmit", TALKS[0], prompt="Invoices as PDF", pid=os.getpid())
    first = call.session("status")["id"]
    say(call, "UserPromptSubmit", TALKS[1], prompt="Add French")
    assert call.session("status")["id"] != first
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "note", "Inside", "--json"], check=True, capture_output=True, timeout=60
    )
    assert json.loads(done.stdout)["session"]["id"] == first


def test_start_in_an_agent_moves_its_conversation_and_gathers_nothing(call: Calling, two: tuple[str, str]) -> None:
    """What it says from then on is recorded there; a new conversation is a session of its own."""
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    begun = call.session("start", "Invoices, second attempt")
    assert [item["id"] for item in begun["native"]] == [TALKS[0]]
    assert call.session("show", two[0])["native"] == []
    call.patch.delenv("CLAUDE_CODE_SESSION_ID")
    say(call, "PostToolUse", TALKS[0], tool_name="Bash", tool_use_id="u1", tool_input={"command": "make"})
    assert call.session("show", begun["id"])["commands"]["total"] == 1
    say(call, "UserPromptSubmit", "talk-three", prompt="Clean up the imports")
    assert call.session("status")["goal"] == "Clean up the imports"


def test_start_in_an_agent_is_refused_while_a_persons_session_goes_on(call: Calling) -> None:
    """That one is not the agent's to leave; with `--replace` it is put away as ever."""
    call.session("start", "Ship it")
    say(call, "UserPromptSubmit", TALKS[0], prompt="Begin")
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    call.refused(5, "start", "Something else")
    assert [item["id"] for item in call.session("start", "Something else", "--replace")["native"]] == [TALKS[0]]


@pytest.mark.parametrize("name", [TALKS[0], "talk-o", f"claude:{TALKS[0]}"])
def test_conversation_moves_to_another_session(call: Calling, two: tuple[str, str], name: str) -> None:
    """Its link, as an event of both; what was recorded stays, and what comes later goes to the new one."""
    say(call, "PostToolUse", TALKS[0], tool_name="Bash", tool_use_id="u1", tool_input={"command": "make"})
    moved = call.document("conversation", "move", name, "--to", two[1])
    assert moved["moved"] == {"conversation": f"claude:{TALKS[0]}", "before": two[0], "session": two[1]}
    assert [item["id"] for item in moved["session"]["native"]] == [TALKS[1], TALKS[0]]
    say(call, "PostToolUse", TALKS[0], tool_name="Bash", tool_use_id="u2", tool_input={"command": "make test"})
    assert [call.session("show", name)["commands"]["total"] for name in two] == [1, 1]
    assert call.document("log", two[0])["events"][-1]["type"] == "native.moved"
    call.refused(5, "conversation", "move", name, "--to", two[1])
    call.document("conversation", "move", name, "--to", two[0])
    assert [item["id"] for item in call.session("show", two[0])["native"]] == [TALKS[0]]


def test_conversation_is_not_moved_when_it_is_not_clear_which_or_where(call: Calling, two: tuple[str, str]) -> None:
    """Nothing of that name, several, and a session that has ended."""
    call.refused(3, "conversation", "move", "nothing", "--to", two[1])
    call.refused(3, "conversation", "move", "tal", "--to", two[1])
    call.refused(4, "conversation", "move", "talk-", "--to", two[1])
    call.session("stop")
    call.refused(1, "conversation", "move", TALKS[0], "--to", two[1])
