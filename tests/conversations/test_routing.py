"""Which session a conversation belongs to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.conversations.move import move
from holdfast.core import view
from holdfast.formats.export import export_document
from holdfast.formats.import_ import import_document
from holdfast.formats.registry import format_named
from holdfast.sessions import overview
from holdfast.sessions.work_trees import open_sessions
from tests.support.agent_hooks import AgentHooks


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    return AgentHooks(tmp_path)


def test_first_prompt_starts_a_session(agents: AgentHooks) -> None:
    """Its goal is the shortened prompt; the conversation is linked with its resume command."""
    agents.say("SessionStart", source="startup", model="claude-opus-5")
    agents.prompt("Add OAuth with PKCE to the login page.\nAnd tests.")
    session = agents.session()
    assert session.goal == "Add OAuth with PKCE to the login page. And tests."
    assert session.status == "in_progress"
    assert session.model == "claude-opus-5"
    assert [(native.agent, native.id, native.resume) for native in session.native] == [
        ("claude", "talk-1", "claude --resume talk-1")
    ]


def test_opening_and_closing_an_agent_starts_no_session(agents: AgentHooks) -> None:
    """The spool is empty afterwards."""
    agents.say("SessionStart", source="startup")
    agents.say("SessionEnd", reason="prompt_input_exit")
    assert agents.sessions() == []
    assert agents.waiting() == []


def test_bare_slash_command_starts_no_session(agents: AgentHooks) -> None:
    """`/clear` is no goal; the prompt after it is."""
    agents.prompt("/clear")
    assert agents.sessions() == []
    agents.prompt("Mend the parser")
    assert agents.session().goal == "Mend the parser"


def test_conversations_join_the_session_a_person_started(agents: AgentHooks) -> None:
    """Claude and Codex both, within the configured hours."""
    with agents.keeper() as keeper:
        begun = keeper.start("Ship it").id
    agents.minute = 60 * 11
    agents.prompt("Look at the tests")
    agents.say("UserPromptSubmit", "codex-1", agent="codex", prompt="Look at the docs", turn_id="t1")
    session = agents.session()
    assert session.id == begun
    assert session.goal == "Ship it"
    assert {(native.agent, native.id) for native in session.native} == {("claude", "talk-1"), ("codex", "codex-1")}


def test_conversation_is_named_by_its_first_prompt_when_it_joined_a_session(agents: AgentHooks) -> None:
    """Without a transcript too; later prompts change nothing."""
    with agents.keeper() as keeper:
        keeper.start("Invoices as PDF")
    agents.say("UserPromptSubmit", "codex-1", agent="codex", prompt="Add French", turn_id="t1")
    agents.minute = 1
    agents.say("UserPromptSubmit", "codex-1", agent="codex", prompt="And Spanish", turn_id="t2")
    assert [(conversation.title, conversation.prompts) for conversation in agents.session().conversations] == [
        ("Add French", None)
    ]
    with agents.keeper() as keeper:
        assert [row.goal for row in keeper.history(search="French")] == ["Invoices as PDF"]
        assert keeper.history(search="Spanish") == []


def test_session_is_not_joined_when_its_last_sign_is_old(agents: AgentHooks) -> None:
    """It stays unfinished and unarchived; after `resume` it is joined again."""
    with agents.keeper() as keeper:
        begun = keeper.start("Ship it").id
    agents.minute = 60 * 24 * 3
    agents.prompt("Look at the tests")
    assert [session.goal for session in agents.sessions()] == ["Ship it", "Look at the tests"]
    with agents.keeper() as keeper:
        assert keeper.state(begun).archived is None
        keeper.session(begun).resume()
    agents.minute += 1
    agents.prompt("Look at the docs", "talk-2")
    assert [native.id for native in agents.session().native] == ["talk-2"]
    assert agents.session().id == begun


def test_concurrent_conversations_are_separate_sessions(agents: AgentHooks) -> None:
    """Each is named by its prompt; the one with the latest prompt is current."""
    agents.prompt("Invoices as PDF", "talk-1")
    agents.minute = 1
    agents.say("UserPromptSubmit", "codex-1", agent="codex", prompt="Add French", turn_id="t1")
    agents.minute = 2
    agents.prompt("Clean up the imports", "talk-3")
    assert [session.goal for session in agents.sessions()] == [
        "Invoices as PDF",
        "Add French",
        "Clean up the imports",
    ]
    assert [session.continues for session in agents.sessions()] == [None, None, None]
    with agents.keeper() as keeper:
        assert [row.goal for row in keeper.history(search="French")] == ["Add French"]
    agents.minute = 3
    agents.prompt("Letters, too", "talk-1")
    assert agents.session().goal == "Invoices as PDF"
    with agents.keeper() as keeper:
        goals = [view.text_value(state, "goal") for state in open_sessions(keeper)]
    assert goals == ["Invoices as PDF", "Clean up the imports", "Add French"]


def test_conversation_stays_in_its_session_when_a_person_started_another(agents: AgentHooks) -> None:
    """Its prompts make its session current; new conversations still join the person's."""
    agents.prompt("Add OAuth")
    agents.minute = 13 * 60
    agents.say("SessionEnd", reason="prompt_input_exit")
    agents.minute = 26 * 60
    with agents.keeper() as keeper:
        begun = keeper.start("Ship it").id
    agents.minute += 1
    agents.prompt("Go on with OAuth")
    assert agents.session().goal == "Add OAuth"
    agents.prompt("Write the notes", "talk-2")
    gathered = next(session for session in agents.sessions() if session.id == begun)
    assert [native.id for native in gathered.native] == ["talk-2"]


def test_every_conversation_joins_the_session_of_the_orchestrator_mirror(agents: AgentHooks) -> None:
    """The file has room for one session: the tree has one until it is stopped."""
    with agents.keeper() as keeper:
        keeper.mirrors.switch_on("orchestrator")
    agents.prompt("Add OAuth", "talk-1")
    agents.minute = 60
    agents.prompt("Write the docs", "talk-2")
    assert [native.id for native in agents.session().native] == ["talk-1", "talk-2"]
    with agents.keeper() as keeper:
        keeper.session().complete()
    agents.minute = 61
    agents.prompt("Something else", "talk-3")
    assert [session.goal for session in agents.sessions()] == ["Add OAuth", "Something else"]


@pytest.mark.parametrize("how", ["edit", "import", "agent"])
def test_session_is_not_joined_when_no_person_started_or_resumed_it(
    agents: AgentHooks, tmp_path: Path, how: str
) -> None:
    """Renaming, importing, or an agent's start do not count."""
    if how == "edit":
        agents.prompt("Add OAuth")
        with agents.keeper() as keeper:
            keeper.session().edit(goal="OAuth")
    elif how == "agent":
        with agents.keeper() as keeper:
            keeper.start("OAuth", gathers=False)
    else:
        with AgentHooks(tmp_path / "elsewhere").keeper() as keeper:
            document, _ = export_document(keeper, keeper.start("OAuth").state(), format_named("craft"))
        with agents.keeper() as keeper:
            import_document(keeper, document, format_named("craft"), make_current=True)
    before = len(agents.sessions())
    agents.minute = 1
    agents.prompt("Something else", "talk-2")
    assert len(agents.sessions()) == before + 1
    assert agents.session().goal == "Something else"


def test_each_work_tree_has_its_own_session(agents: AgentHooks, tmp_path: Path) -> None:
    """In the same project."""
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


def test_cd_does_not_change_the_session(agents: AgentHooks, tmp_path: Path) -> None:
    """Now or later."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    agents.prompt("Add OAuth")
    began = agents.session().id
    agents.say("CwdChanged", old_cwd=str(agents.project), new_cwd=str(elsewhere), cwd=str(elsewhere))
    agents.prompt("Go on", cwd=str(elsewhere))
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "ls"}, cwd=str(elsewhere))
    assert [session.id for session in agents.sessions()] == [began]
    assert agents.session().commands.total == 1


def test_deleted_directory_belongs_to_its_parent(agents: AgentHooks) -> None:
    """A late payload from it is not lost."""
    agents.prompt("Add OAuth", cwd=str(agents.project / "deleted" / "deep"))
    assert agents.session().goal == "Add OAuth"


def test_resumed_conversation_continues_its_session(agents: AgentHooks) -> None:
    """Days later, and makes it current."""
    agents.prompt("Add OAuth")
    first = agents.session().id
    agents.minute = 60 * 24 * 3
    agents.prompt("Something else entirely", "talk-2")
    second = agents.session().id
    assert first != second
    agents.minute += 1
    agents.say("SessionStart", source="resume")
    agents.prompt("Go on with it")
    resumed = agents.session()
    assert (resumed.id, resumed.status) == (first, "in_progress")
    assert resumed.time.pauses[-1].ended_at is not None
    assert len(agents.sessions()) == 2


def test_unfinished_session_stays_visible_the_day_after(agents: AgentHooks) -> None:
    """The next conversation is a new session; yesterday's keeps its open task."""
    agents.prompt("Add OAuth", "talk-1")
    with agents.keeper() as keeper:
        keeper.session().add_task("Callback page")
    agents.say("SessionEnd", reason="prompt_input_exit")
    agents.minute = 13 * 60
    agents.prompt("Mend the parser", "talk-2")
    old, new = agents.sessions()
    assert (old.goal, old.status, old.over) == ("Add OAuth", "paused", False)
    assert (new.goal, new.status) == ("Mend the parser", "in_progress")
    with agents.keeper() as keeper:
        assert keeper.state(old.id).archived is None
        assert [state.session for state in open_sessions(keeper)] == [new.id, old.id]


def test_overview_lists_unfinished_sessions_that_are_not_over(agents: AgentHooks) -> None:
    """Dashboard and `watch` the day after; `continue` resumes one."""
    agents.prompt("Add OAuth", "talk-1")
    with agents.keeper() as keeper:
        unfinished = keeper.session().id
        keeper.session().add_task("Callback page")
    agents.say("SessionEnd", "talk-1", reason="prompt_input_exit")
    agents.minute = 1
    agents.prompt("Mend the parser", "talk-2")
    agents.say("SessionEnd", "talk-2", reason="prompt_input_exit")
    agents.minute = 13 * 60
    with agents.keeper() as keeper:
        assert [row.goal for row in overview.unfinished(keeper)] == ["Add OAuth"]
        latest = keeper.latest_unfinished()
        assert latest is not None
        assert latest.id == unfinished


@pytest.mark.parametrize("how", ["prompt", "start"])
def test_session_that_continues_another_has_its_open_tasks(agents: AgentHooks, how: str) -> None:
    """By a prompt after `stop`, or by `start --continues`; done tasks stay in the first."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        session = keeper.session()
        session.add_task("Callback page", task_id="open")
        session.add_task("Login page", task_id="done")
        session.finish_task("done")
        ended = session.complete().id
    agents.minute = 1
    if how == "prompt":
        agents.prompt("One more thing")
    else:
        with agents.keeper() as keeper:
            keeper.start("One more thing", continues=ended)
    going_on = agents.session()
    assert going_on.continues == ended
    assert [(task.id, task.text, task.status) for task in going_on.tasks] == [("open", "Callback page", "pending")]


def test_prompt_reopens_an_over_session(agents: AgentHooks) -> None:
    agents.prompt("Add OAuth", "talk-1")
    agents.say("SessionEnd", reason="prompt_input_exit")
    agents.minute = 13 * 60
    assert agents.sessions()[0].over
    agents.prompt("And tests", "talk-1")
    (session,) = agents.sessions()
    assert (session.over, session.status) == (False, "in_progress")


def test_prompt_after_the_end_starts_a_continuing_session(agents: AgentHooks) -> None:
    """Its hooks are never refused."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        ended = keeper.session().complete().id
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "holdfast stop"})
    agents.say("Stop", last_assistant_message="Done.")
    assert len(agents.sessions()) == 1  # the rest of the turn that ended it starts nothing
    agents.minute = 1
    agents.prompt("One more thing")
    agents.say("Stop", last_assistant_message="Done.")
    _, second = agents.sessions()
    assert second.continues == ended
    assert second.goal == "One more thing"
    agents.prompt("And another")
    assert len(agents.sessions()) == 2


def test_session_gets_its_goal_later_when_its_prompt_was_not_reported(agents: AgentHooks) -> None:
    """Connected during a conversation: the next prompt gives the goal."""
    agents.say("PostToolUse", tool_name="Bash", tool_use_id="u1", tool_input={"command": "ls"})
    assert agents.session().goal == "Work with claude"
    agents.prompt("Add OAuth")
    assert agents.session().goal == "Add OAuth"


def test_deleted_session_is_not_revived(agents: AgentHooks) -> None:
    """Its conversation's next prompt starts a new session."""
    agents.prompt("Add OAuth")
    with agents.keeper() as keeper:
        erased = keeper.delete(keeper.session().id, force=True)
    agents.prompt("Mend the parser")
    assert [session.goal for session in agents.sessions()] == ["Mend the parser"]
    assert agents.session().id != erased


def test_conversation_with_an_ended_session_joins_the_persons_new_one(agents: AgentHooks) -> None:
    """Stopped and started during a conversation."""
    agents.prompt("First goal")
    with agents.keeper() as keeper:
        keeper.session().complete()
        second = keeper.start("Second goal").id
    agents.minute = 1
    agents.prompt("Work on second")
    session = agents.session()
    assert (session.id, session.goal) == (second, "Second goal")
    assert [native.id for native in session.native] == ["talk-1"]
    assert len(agents.sessions()) == 2


def test_conversations_of_a_stopped_session_continue_it_separately(agents: AgentHooks) -> None:
    """Each in its own session that names it."""
    with agents.keeper() as keeper:
        keeper.start("Add OAuth")
    agents.prompt("Begin", "talk-1")
    agents.prompt("And docs", "talk-2")
    with agents.keeper() as keeper:
        first = keeper.session().complete().id
    agents.minute = 1
    agents.prompt("More of it", "talk-1")
    agents.prompt("More docs", "talk-2")
    going_on = {session.goal: session.continues for session in agents.sessions() if session.id != first}
    assert going_on == {"More of it": first, "More docs": first}


def test_conversation_leaves_an_archived_session(agents: AgentHooks) -> None:
    """After `start --replace` it belongs to the new one."""
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


def test_reopened_conversation_makes_its_session_current(agents: AgentHooks) -> None:
    """The work tree had none."""
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
def test_text_of_a_program_is_no_goal(agents: AgentHooks, words: str) -> None:
    """A notice starts nothing; the person's text after it does."""
    agents.prompt(words)
    assert agents.sessions() == []
    agents.prompt("Mend the parser")
    assert agents.session().goal == "Mend the parser"


def test_conversation_moved_to_an_archived_session_stays_there(agents: AgentHooks) -> None:
    """The next hook does not move it; a later archiving does."""
    with agents.keeper() as keeper:
        first = keeper.start("First").id
        second = keeper.start("Second", replace=True).id
    agents.prompt("Build it")
    agents.minute = 1
    with agents.keeper() as keeper:
        move(keeper, "talk-1", first)
    for number, expected in enumerate([[1, 0], [2, 0]]):
        agents.say("SessionStart", source="resume")
        agents.say("PostToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input={"command": "make"})
        with agents.keeper() as keeper:
            assert [keeper.session(name).state().commands for name in (first, second)] == expected
    agents.minute = 2
    with agents.keeper() as keeper:
        keeper.session(first).resume()
        third = keeper.start("Third", replace=True).id
    agents.minute = 3
    agents.prompt("Work on the third")
    with agents.keeper() as keeper:
        assert keeper.session(third).state().native


def test_exported_hours_end_with_the_last_activity(agents: AgentHooks) -> None:
    """A later close or correction of hours is no work: the timer file agrees with `show`."""
    agents.prompt("Add OAuth")
    agents.minute = 2
    agents.say("Stop")
    agents.minute = 6
    agents.say("SessionEnd", reason="prompt_input_exit")
    with agents.keeper() as keeper:
        document, _ = export_document(keeper, keeper.state(agents.session().id), format_named("timer"))
    assert document["actualWorkingMs"] == 2 * 60_000
