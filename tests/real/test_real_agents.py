"""The real programs of Claude Code, Codex and Gemini CLI, connected and at work, without a network and without a
person. What Holdfast kept is asked of its own commands.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real import real_programs
from tests.real.real_plays import FIRST, GOAL, PLAYS, SECOND, Play
from tests.real.real_stage import Stage
from tests.real.scripted_model import ERRAND_WORDS, SILENCE

real_programs.wanted()


class Worked(NamedTuple):
    play: Play
    stage: Stage
    session: dict[str, Any]
    events: list[dict[str, Any]]


@pytest.fixture(scope="module", params=PLAYS)
def worked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Worked:
    """A connected agent that has done its piece of work once; the tests only look."""
    play: Play = request.param
    stage = play.stage(tmp_path_factory.mktemp(play.agent))
    play.works(stage)
    session = stage.session()
    return Worked(play, stage, session, stage.events(session["id"]))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ── what hooks record ────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_becomes_one_session_with_its_goal(worked: Worked) -> None:
    """The first prompt starts the one session there is; its words are the goal, the directory its project."""
    assert [session["goal"] for session in worked.stage.sessions()] == [GOAL]
    assert (worked.session["status"], worked.session["over"]) == ("paused", False), "its conversation is closed"
    assert worked.session["project"]["path"] == str(worked.stage.project)
    assert worked.session["project"]["git_branch"] == "main"
    assert {event["actor"] for event in worked.events} == {worked.play.agent}


def test_the_conversation_can_be_reopened_and_its_end_is_known(worked: Worked) -> None:
    """The program's own id is kept with the command that reopens it; that the program ended is a fact of its own."""
    [native] = worked.session["native"]
    assert native["agent"] == worked.play.agent
    assert native["resume"] == worked.play.reopening.replace("ID", native["id"])
    kinds = [event["type"] for event in worked.events]
    assert kinds.count("native.closed") == 1
    after = kinds[kinds.index("native.closed") + 1 :]
    assert set(after) <= {"conversation.updated", "session.edited", "context.measured"}, "what the transcript says"
    assert kinds.count("message.exchanged") >= 2


def test_edits_become_file_changes_with_their_hashes(worked: Worked) -> None:
    """What the model wrote and then changed stands there as it is on the disk."""
    created, modified = worked.session["files"]
    assert (created["path"], created["action"], created["lines_added"]) == ("cart.py", "created", 2)
    assert created["hash_after"] == digest(FIRST)
    assert (modified["path"], modified["action"]) == ("cart.py", "modified")
    assert (modified["hash_before"], modified["hash_after"]) == (digest(FIRST), digest(SECOND))
    assert (worked.stage.project / "cart.py").read_text() == SECOND


def test_shell_commands_are_counted(worked: Worked) -> None:
    """Both commands count; the last one is named."""
    assert worked.session["commands"]["total"] == 2
    assert worked.session["commands"]["last"] == "exit 3"


def test_a_subagent_becomes_an_agent_with_its_summary(worked: Worked) -> None:
    """Type, task, end and last words of the agent that was sent on an errand."""
    [agent] = worked.session["agents"]
    assert (agent["status"], agent["result"], agent["summary"]) == ("completed", "success", ERRAND_WORDS)
    assert agent["type"]
    assert "look" in agent["task"].lower()
    assert agent["started_at"] < agent["completed_at"]


# ── what the program wrote down itself ───────────────────────────────────────────────────────────────────


def test_backfill_of_a_fresh_home_finds_the_same(worked: Worked, tmp_path: Path) -> None:
    """The program's own transcript gives a session with the same goal, files, commands and agent."""
    fresh = tmp_path / "fresh"
    [counts] = worked.stage.holdfast("backfill", worked.play.agent, kept=fresh)["backfill"]
    assert (counts["conversations"], counts["sessions"], counts["problems"]) == (1, 1, [])
    [found] = worked.stage.sessions(kept=fresh)
    read = worked.stage.session(found["id"], kept=fresh)
    assert read["goal"] == GOAL
    assert read["native"] == worked.session["native"]
    [live], [past] = worked.session["conversations"], read["conversations"]
    for fact in ("id", "agent", "title", "prompts", "tokens", "cost_usd"):
        assert live[fact] == past[fact], fact
    assert read["project"]["path"] == worked.session["project"]["path"]
    assert [(item["path"], item["action"]) for item in read["files"]] == [
        ("cart.py", "created"),
        ("cart.py", "modified"),
    ]
    assert read["commands"] == {"total": 2, "failed": 1, "last": "exit 3"}
    assert [(item["status"], item["summary"]) for item in read["agents"]] == [("completed", ERRAND_WORDS)]
    assert read["model"]
    assert read["context"]["tokens"] > 0


def test_backfill_leaves_the_programs_files_alone(worked: Worked, tmp_path: Path) -> None:
    """Not a byte below the person's home changes."""
    before = _everything(worked.stage.home)
    worked.stage.holdfast("backfill", worked.play.agent, kept=tmp_path / "fresh")
    assert _everything(worked.stage.home) == before


def _everything(top: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_backfill_does_not_double_what_hooks_recorded(worked: Worked) -> None:
    """In the home that heard it all, the transcript adds no session and no event; nor does a second reading."""
    for _ in range(2):
        worked.stage.holdfast("backfill", worked.play.agent)
        assert [session["id"] for session in worked.stage.sessions()] == [worked.session["id"]]
        assert worked.stage.events(worked.session["id"]) == worked.events


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("play", PLAYS)
def test_a_second_opening_is_briefed(play: Play, tmp_path: Path) -> None:
    """Opened again, the program tells its model of what is unfinished; the new conversation has its own session."""
    stage = play.stage(tmp_path)
    assert "holdfast-record" not in play.works(stage).heard_by_the_model()
    again = play.speaks(stage, "Go on please")
    briefed = again.heard_by_the_model()
    assert "holdfast-record" in briefed
    assert GOAL in briefed
    assert "cart.py" in briefed
    assert sorted(session["goal"] for session in stage.sessions()) == sorted([GOAL, "Go on please"])
    assert stage.session()["goal"] == "Go on please"
    assert len(stage.session()["native"]) == 1


@pytest.mark.parametrize("play", PLAYS)
def test_conversations_join_the_session_that_a_person_began(play: Play, tmp_path: Path) -> None:
    """`start` in a terminal, then the program twice: one session has both conversations, and keeps its goal."""
    stage = play.stage(tmp_path)
    stage.holdfast("start", "Ship the shop")
    play.speaks(stage, GOAL)
    play.speaks(stage, "Go on please")
    assert [session["goal"] for session in stage.sessions()] == ["Ship the shop"]
    assert len(stage.session()["native"]) == 2


@pytest.mark.parametrize("play", PLAYS)
def test_a_reopened_conversation_stays_the_same_one(play: Play, tmp_path: Path) -> None:
    """The id that Holdfast kept is one the program takes, and going on with it adds no conversation."""
    stage = play.stage(tmp_path)
    play.speaks(stage, GOAL)
    [native] = stage.session()["native"]
    prompts = len(_messages(stage))
    play.speaks(stage, "And the totals", *(word.replace("ID", native["id"]) for word in play.resuming))
    assert stage.session()["native"] == [native]
    assert len(stage.sessions()) == 1
    assert len(_messages(stage)) > prompts


def _messages(stage: Stage) -> list[dict[str, Any]]:
    return [event for event in stage.events("@") if event["type"] == "message.exchanged"]


@pytest.mark.parametrize("play", PLAYS)
def test_a_program_killed_at_work_is_known_to_have_broken_off(play: Play, tmp_path: Path) -> None:
    """Killed while its model is silent, it says no goodbye: what it did is kept, and the next opening is told."""
    stage = play.stage(tmp_path)
    steps = [play.script(stage)[0], {"tool": SILENCE, "input": {}}]
    stage.run(play.agent, *play.words, GOAL, steps=steps, environ=play.environ, until=stage.silent)
    session = stage.session()
    assert session["goal"] == GOAL
    assert [item["path"] for item in session["files"]] == ["cart.py"]
    assert "native.closed" not in [event["type"] for event in stage.events("@")]
    briefed = play.speaks(stage, "Go on please").heard_by_the_model()
    assert GOAL in briefed
    assert "ended without saying so" in briefed


@pytest.mark.parametrize("play", PLAYS)
def test_a_prompt_is_kept_though_no_model_can_be_reached(play: Play, tmp_path: Path) -> None:
    """Without any answer from anywhere the session is there, goal and native id with it."""
    stage = play.stage(tmp_path)
    stage.run(play.agent, *play.words, "hi", environ=play.environ, until=lambda: bool(stage.sessions()))
    session = stage.session()
    assert session["goal"] == "hi"
    assert [item["agent"] for item in session["native"]] == [play.agent]


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("play", PLAYS)
def test_disconnecting_restores_the_settings_to_the_byte(play: Play, tmp_path: Path) -> None:
    """Connected twice, used, disconnected: the file is as it was, and the program is heard no more."""
    stage = play.stage(tmp_path)
    settings = stage.home / play.settings
    connected = settings.read_bytes()
    stage.holdfast("connect", play.agent)
    assert settings.read_bytes() == connected
    play.speaks(stage, GOAL)
    assert len(stage.sessions()) == 1
    stage.holdfast("disconnect", play.agent)
    if play.before is None:
        assert not settings.exists()
    else:
        assert settings.read_bytes() == play.before.encode()
    events = len(stage.events("@"))
    play.speaks(stage, "Something else")
    assert len(stage.events("@")) == events


@pytest.mark.parametrize("play", PLAYS)
def test_hooks_left_behind_do_no_harm(play: Play, tmp_path: Path) -> None:
    """With Holdfast's home gone, the hooks that still stand in the settings neither stop nor disturb the program."""
    stage = play.stage(tmp_path)
    stage.kept.rename(tmp_path / "elsewhere")
    ran = play.speaks(stage, GOAL)
    # Of a server that does not start, the model of some is told; of hooks it never is.
    assert "holdfast-record" not in ran.heard_by_the_model()
    assert "hooks/hook " not in ran.heard_by_the_model()
    assert not stage.kept.exists()
