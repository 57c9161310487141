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


def say(call: Calling, event: str, talk: str, *, pid: int = 1, **fields: Any) -> None:
    """One payload of Claude Code from a hook that a process ran."""
    payload = {"session_id": talk, "cwd": str(call.project), "hook_event_name": event, **fields}
    spool.add_payload(str(call.home), "claude", "user", pid, json.dumps(payload).encode())


@pytest.fixture
def call(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


@pytest.fixture
def two(call: Calling) -> tuple[str, str]:
    """The ids of the sessions of two simultaneous conversations."""
    entries = []
    for talk, words in zip(TALKS, ("Invoices as PDF", "Add French"), strict=True):
        say(call, "UserPromptSubmit", talk, prompt=words)
        entries.append(str(call.session("status")["id"]))
    assert len(set(entries)) == 2
    return entries[0], entries[1]


def statuses(call: Calling, sessions: tuple[str, ...]) -> list[str]:
    return [str(call.session("status", session)["status"]) for session in sessions]


def test_open_sessions_of_a_repository_are_both_kept(call: Calling) -> None:
    """Also where changed files are compared."""
    call.repository()
    for talk, words in zip(TALKS, ("Invoices as PDF", "Add French"), strict=True):
        say(call, "UserPromptSubmit", talk, prompt=words)
        say(call, "Stop", talk, last_assistant_message="Done.")
        call.document("why", "README.md")
    assert [item["goal"] for item in call.document("status")["others"]] == ["Invoices as PDF"]


def test_status_shows_the_latest_session_and_names_the_others(call: Calling, two: tuple[str, str]) -> None:
    """With their open work."""
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
    """`resume ID` resumes only one."""
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
    """With a single open session they name none."""
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
    """On that one only, whatever the work tree's current session is."""
    before = call.session("show", two[1])["updated_at"]
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    assert call.session(*verb)["id"] == two[0]
    assert call.session("status")["id"] == two[0]
    assert call.session("show", two[1])["updated_at"] == before


def test_command_in_an_agent_is_recognized_by_an_ancestor_process(call: Calling) -> None:
    """This one, of a real `holdfast`."""
    say(call, "UserPromptSubmit", TALKS[0], prompt="Invoices as PDF", pid=os.getpid())
    first = call.session("status")["id"]
    say(call, "UserPromptSubmit", TALKS[1], prompt="Add French")
    assert call.session("status")["id"] != first
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "note", "Inside", "--json"], check=True, capture_output=True, timeout=60
    )
    assert json.loads(done.stdout)["session"]["id"] == first


def test_start_in_an_agent_moves_only_its_own_conversation(call: Calling, two: tuple[str, str]) -> None:
    """A new conversation gets a session of its own."""
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    begun = call.session("start", "Invoices, second attempt")
    assert [item["id"] for item in begun["native"]] == [TALKS[0]]
    assert call.session("show", two[0])["native"] == []
    call.patch.delenv("CLAUDE_CODE_SESSION_ID")
    say(call, "PostToolUse", TALKS[0], tool_name="Bash", tool_use_id="u1", tool_input={"command": "make"})
    assert call.session("show", begun["id"])["commands"]["total"] == 1
    say(call, "UserPromptSubmit", "talk-three", prompt="Clean up the imports")
    assert call.session("status")["goal"] == "Clean up the imports"


def test_start_in_an_agent_is_refused_while_a_persons_session_is_open(call: Calling) -> None:
    """`--replace` archives it as usual."""
    call.session("start", "Ship it")
    say(call, "UserPromptSubmit", TALKS[0], prompt="Begin")
    call.patch.setenv("CLAUDE_CODE_SESSION_ID", TALKS[0])
    call.refused(5, "start", "Something else")
    assert [item["id"] for item in call.session("start", "Something else", "--replace")["native"]] == [TALKS[0]]


@pytest.mark.parametrize("name", [TALKS[0], "talk-o", f"claude:{TALKS[0]}"])
def test_conversation_move_redirects_later_events(call: Calling, two: tuple[str, str], name: str) -> None:
    """An event in both sessions; recorded events stay."""
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


def test_conversation_move_is_refused_when_ambiguous(call: Calling, two: tuple[str, str]) -> None:
    """An unknown name, several matches, and an ended session."""
    call.refused(3, "conversation", "move", "nothing", "--to", two[1])
    call.refused(3, "conversation", "move", "tal", "--to", two[1])
    call.refused(4, "conversation", "move", "talk-", "--to", two[1])
    call.session("stop")
    call.refused(1, "conversation", "move", TALKS[0], "--to", two[1])
