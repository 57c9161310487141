"""Which session a conversation belongs to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from agents_speaking import Speaking


@pytest.fixture
def agents(tmp_path: Path) -> Speaking:
    return Speaking(tmp_path)


def test_the_first_prompt_begins_a_session(agents: Speaking) -> None:
    """Its goal is the prompt, shortened; the conversation is linked with the command that reopens it."""
    agents.say("SessionStart", source="startup", model="claude-opus-5")
    agents.prompt("Add OAuth with PKCE to the login page.\nAnd tests.")
    session = agents.session()
    assert session.goal == "Add OAuth with PKCE to the login page. And tests."
    assert session.status == "in_progress"
    assert session.model == "claude-opus-5"
    assert [(one.agent, one.id, one.resume) for one in session.native] == [
        ("claude", "talk-1", "claude --resume talk-1")
    ]


def test_opening_and_closing_an_agent_is_no_work(agents: Speaking) -> None:
    """No session, nothing left in the spool."""
    agents.say("SessionStart", source="startup")
    agents.say("SessionEnd", reason="prompt_input_exit")
    assert agents.sessions() == []
    assert agents.waiting() == []


def test_a_bare_slash_command_begins_nothing(agents: Speaking) -> None:
    """`/clear` is no goal; the prompt after it is one."""
    agents.prompt("/clear")
    assert agents.sessions() == []
    agents.prompt("Mend the parser")
    assert agents.session().goal == "Mend the parser"


def test_a_conversation_joins_the_session_its_work_tree_is_at(agents: Speaking) -> None:
    """A person began it; Claude and Codex both work in it."""
    with agents.keeper() as keeper:
        begun = keeper.start("Ship it").id
    agents.minute = 60 * 24 * 3
    agents.prompt("Look at the tests")
    agents.say("UserPromptSubmit", "codex-1", agent="codex", prompt="Look at the docs", turn_id="t1")
    session = agents.session()
    assert session.id == begun
    assert session.goal == "Ship it"
    assert {(one.agent, one.id) for one in session.native} == {("claude", "talk-1"), ("codex", "codex-1")}


def test_two_terminals_at_once_are_one_piece_of_work(agents: Speaking) -> None:
    """Two conversations in one work tree share its session; neither is lost."""
    agents.prompt("Add OAuth", "talk-1")
    agents.prompt("Write the docs for it", "talk-2")
    assert [one.id for one in agents.session().native] == ["talk-1", "talk-2"]
    assert len(agents.sessions()) == 1


def test_two_work_trees_are_two_sessions(agents: Speaking, tmp_path: Path) -> None:
    """A git worktree has a current session of its own, in the same project."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(agents.project)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    other = tmp_path / "other"
    subprocess.run([*git, "worktree", "add", "-q", str(other)], check=True)
    agents.prompt("Here", "talk-1")
    agents.prompt("There", "talk-2", cwd=str(other))
    here, there = agents.session(), agents.session(other)
    assert (here.goal, there.goal) == ("Here", "There")
    assert here.project.name == there.project.name


def test_a_cd_changes_nothing(agents: Speaking, tmp_path: Path) -> None:
    """The conversation stays with its session, wherever its agent goes, now or after a while."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    agents.prompt("Add OAuth")
    began = agents.session().id
    agents.say("CwdChanged", old_cwd=str(agents.project), new_cwd=str(elsewhere), cwd=str(elsewhere))
    agents.prompt("Go on", cwd=str(elsewhere))
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "ls"}, cwd=str(elsewhere))
    assert [one.id for one in agents.sessions()] == [began]
    assert agents.session().commands.total == 1


def test_a_directory_that_is_gone_belongs_to_the_one_above(agents: Speaking) -> None:
    """A payload that comes late from a deleted directory is not lost."""
    agents.prompt("Add OAuth", cwd=str(agents.project / "deleted" / "deep"))
    assert agents.session().goal == "Add OAuth"


def test_a_resumed_conversation_goes_on_in_its_session(agents: Speaking) -> None:
    """`claude --resume` days later: the same session, whatever the work tree is at by then."""
    agents.prompt("Add OAuth")
    first = agents.session().id
    agents.minute = 60 * 24 * 3
    agents.prompt("Something else entirely", "talk-2")
    second = agents.session().id
    assert first != second
    agents.minute += 1
    agents.say("SessionStart", source="resume")
    agents.prompt("Go on with it")
    assert agents.session().id == second
    resumed = next(one for one in agents.sessions() if one.id == first)
    assert resumed.status == "in_progress"
    assert resumed.time.pauses[-1].ended_at is not None


def test_a_forked_conversation_joins_its_parents_session(agents: Speaking) -> None:
    """A new id in the same place and time is the same work."""
    agents.prompt("Add OAuth")
    agents.say("SessionStart", "talk-2", source="fork")
    agents.prompt("Try it the other way", "talk-2")
    assert [one.id for one in agents.session().native] == ["talk-1", "talk-2"]


def test_what_began_by_itself_ends_by_nothing_happening(agents: Speaking) -> None:
    """The next morning's conversation is a new session; the old one is put away, and can be resumed."""
    agents.prompt("Add OAuth", "talk-1")
    agents.session()
    agents.minute = 13 * 60
    agents.prompt("Mend the parser", "talk-2")
    old, new = agents.sessions()
    assert (old.goal, old.status) == ("Add OAuth", "paused")
    assert (new.goal, new.status) == ("Mend the parser", "in_progress")
    with agents.keeper() as keeper:
        assert keeper.state(old.id).archived is True


def test_after_the_end_comes_a_session_that_continues(agents: Speaking) -> None:
    """A hook of a session that was completed meanwhile is never refused."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        ended = keeper.session().complete().id
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "holdfast stop"})
    agents.say("Stop", last_assistant_message="Done.")
    assert len(agents.sessions()) == 1  # the rest of the turn that ended it begins nothing
    agents.minute = 1
    agents.prompt("One more thing")
    agents.say("Stop", last_assistant_message="Done.")
    _, second = agents.sessions()
    assert second.continues == ended
    assert second.goal == "One more thing"
    agents.prompt("And another")
    assert len(agents.sessions()) == 2


def test_work_heard_without_its_prompt_has_a_goal_later(agents: Speaking) -> None:
    """Connected in the middle of a conversation: the next prompt names the goal."""
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "ls"})
    assert agents.session().goal == "Work with claude"
    agents.prompt("Add OAuth")
    assert agents.session().goal == "Add OAuth"


def test_a_deleted_session_is_not_revived(agents: Speaking) -> None:
    """What a conversation says after its session was erased is a new session."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        erased = keeper.delete(keeper.session().id, force=True)
    agents.prompt("Mend the parser")
    assert [one.goal for one in agents.sessions()] == ["Mend the parser"]
    assert agents.session().id != erased


def test_a_session_the_person_began_is_joined_by_a_conversation_whose_own_has_ended(agents: Speaking) -> None:
    """Stopped and started anew in the midst of a conversation: the new one is what is worked on."""
    agents.prompt("First goal")
    with agents.keeper() as keeper:
        keeper.session().complete()
        second = keeper.start("Second goal").id
    agents.minute = 1
    agents.prompt("Work on second")
    session = agents.session()
    assert (session.id, session.goal) == (second, "Second goal")
    assert [one.id for one in session.native] == ["talk-1"]
    assert len(agents.sessions()) == 2


def test_after_a_stop_two_conversations_stay_together(agents: Speaking) -> None:
    """The first to go on begins the session that continues; the other joins it."""
    agents.prompt("Add OAuth", "talk-1")
    agents.prompt("And docs", "talk-2")
    with agents.keeper() as keeper:
        keeper.session().complete()
    agents.minute = 1
    agents.prompt("More of it", "talk-1")
    agents.prompt("More docs", "talk-2")
    _, second = agents.sessions()
    assert [one.id for one in second.native] == ["talk-1", "talk-2"]


def test_a_session_put_away_by_the_person_is_left(agents: Speaking) -> None:
    """`start --replace` in the midst of a conversation: what follows belongs to the new session."""
    agents.prompt("First goal")
    with agents.keeper() as keeper:
        first = keeper.session().id
        keeper.start("Second goal", replace=True)
    agents.minute = 1
    agents.prompt("Work on second")
    assert agents.session().goal == "Second goal"
    assert len(agents.session().native) == 1
    with agents.keeper() as keeper:
        assert keeper.session(first).document().status == "paused"


def test_a_conversation_that_comes_back_makes_its_session_current(agents: Speaking) -> None:
    """The work tree was at none."""
    agents.prompt("Add OAuth")
    first = agents.session().id
    agents.minute = 60 * 24 * 3
    agents.prompt("Something else", "talk-2")
    with agents.keeper() as keeper:
        keeper.session().complete()
    agents.minute += 1
    agents.prompt("Go on with it")
    assert agents.session().id == first


@pytest.mark.parametrize("words", ["<task-notification>x</task-notification>", "<command-name>/model</command-name>"])
def test_what_a_program_wrote_is_no_goal(agents: Speaking, words: str) -> None:
    """A notice of the program begins nothing; the person's words after it do."""
    agents.prompt(words)
    assert agents.sessions() == []
    agents.prompt("Mend the parser")
    assert agents.session().goal == "Mend the parser"
