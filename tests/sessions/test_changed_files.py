"""Files that commands and people change are on record: the work tree is compared at the end of each turn."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.core import limits
from holdfast.sessions.changes import tree_snapshot
from tests.sessions.working_agents import Workplace


@pytest.fixture
def shop(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def test_file_changed_by_sed_is_recorded_as_changed_by_a_command(shop: Workplace) -> None:
    """No tool reported it, and the turn ran commands."""
    shop.prompt()
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    (change,) = shop.files()
    assert (change.path, change.action, change.by, change.among) == (
        "cart.py",
        "modified",
        "command",
        ["claude:talk-1"],
    )
    assert change.hash_after == hashlib.sha256(b"total = 2\n").hexdigest()
    assert (change.lines_added, change.lines_removed) == (1, 1)
    assert shop.errors() == []


def test_file_changed_by_a_tool_stays_the_tools(shop: Workplace) -> None:
    """It was reported: nothing is recorded twice."""
    shop.prompt()
    shop.wrote("cart.py", "total = 3\n")
    shop.ran("make test")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "tool")]


def test_file_changed_by_a_command_after_a_tool_edited_it_is_recorded_for_both(shop: Workplace) -> None:
    """A formatter that runs over what the tool wrote makes another file of it."""
    shop.prompt()
    shop.wrote("cart.py", "total=3\n")
    shop.write("cart.py", "total = 3\n")
    shop.ran("black cart.py")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "tool"), ("cart.py", "modified", "command")]


def test_file_changed_before_the_prompt_is_the_persons(shop: Workplace) -> None:
    """Between the end of a turn and the next prompt no agent is at work."""
    shop.prompt()
    shop.stop()
    shop.write("README.md", "The shop\n")
    shop.prompt("Go on")
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    assert shop.changes() == [("README.md", "modified", "person"), ("cart.py", "modified", "command")]


def test_file_changed_after_the_last_turn_is_the_persons_when_the_conversation_closes(shop: Workplace) -> None:
    shop.prompt()
    shop.stop()
    shop.write("README.md", "The shop\n")
    shop.close()
    assert shop.changes() == [("README.md", "modified", "person")]


@pytest.mark.parametrize("verb", ["stop", "abort"])
def test_file_changed_after_the_last_turn_is_the_persons_when_the_session_ends(shop: Workplace, verb: str) -> None:
    shop.prompt()
    shop.stop()
    shop.write("README.md", "The shop\n")
    with shop.keeper() as keeper:
        getattr(keeper.session(), verb)()
    assert shop.changes() == [("README.md", "modified", "person")]


def test_file_changed_before_the_session_began_is_none_of_its_work(shop: Workplace) -> None:
    """What somebody did yesterday without an agent does not appear in today's session."""
    shop.prompt()
    shop.stop()
    with shop.keeper() as keeper:
        keeper.session().stop()
    shop.write("README.md", "The shop\n")
    shop.prompt("Another", talk="talk-2")
    shop.stop("talk-2")
    assert shop.changes() == []


def test_file_changed_in_a_turn_without_commands_is_unknown(shop: Workplace) -> None:
    """The person may have saved it while the agent answered; a tool that reports nothing may have written it."""
    shop.prompt()
    shop.write("cart.py", "total = 2\n")
    shop.stop()
    (change,) = shop.files()
    assert (change.by, change.among) == ("unknown", ["claude:talk-1"])


def test_file_changed_while_two_conversations_work_is_unknown_and_names_both(shop: Workplace) -> None:
    shop.prompt()
    shop.prompt("Another", talk="talk-2")
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.ran("make", "talk-2")
    shop.stop()
    shop.stop("talk-2")
    by = {(change.path, change.by, tuple(sorted(change.among))) for change in shop.files()}
    assert by == {("cart.py", "unknown", ("claude:talk-1", "claude:talk-2"))}


def test_file_changed_while_one_conversation_rests_belongs_to_the_other(shop: Workplace) -> None:
    """Only turns that were going on come into question."""
    shop.prompt()
    shop.prompt("Another", talk="talk-2")
    shop.stop("talk-2")
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    assert {(path, by) for path, _, by in shop.changes()} == {("cart.py", "command")}


def test_turn_that_ends_with_an_error_is_compared(shop: Workplace) -> None:
    shop.prompt()
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.say("StopFailure", error="server_error", permission_mode="default")
    shop.compare()
    assert shop.changes() == [("cart.py", "modified", "command")]


def test_file_changed_after_an_interrupted_turn_is_unknown(shop: Workplace) -> None:
    """Somebody stopped the agent, which is not reported: what came later may be the person's."""
    shop.prompt()
    shop.ran("make")
    shop.write("cart.py", "total = 2\n")
    shop.prompt("No, like this")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "unknown")]


def test_created_and_deleted_files_are_recorded_as_such(shop: Workplace) -> None:
    shop.prompt()
    shop.write("tax.py", "rate = 19\n")
    shop.remove("README.md")
    shop.ran("mv README.md /tmp; echo 'rate = 19' > tax.py")
    shop.stop()
    assert sorted(shop.changes()) == [("README.md", "deleted", "command"), ("tax.py", "created", "command")]
    shop.prompt("Again")
    shop.remove("tax.py")
    shop.ran("rm tax.py")
    shop.stop()
    assert shop.changes()[2:] == [("tax.py", "deleted", "command")]


def test_file_deleted_by_the_person_before_the_prompt_is_the_persons(shop: Workplace) -> None:
    shop.prompt()
    shop.stop()
    shop.remove("README.md")
    shop.prompt("Go on")
    shop.ran("ls")
    shop.stop()
    assert shop.changes() == [("README.md", "deleted", "person")]


def test_each_change_is_recorded_once_however_often_trees_are_compared(shop: Workplace) -> None:
    shop.prompt()
    shop.write("cart.py", "total = 2\n")
    shop.write("tax.py", "rate = 19\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    for _ in range(2):
        shop.prompt("Again")
        shop.ran("ls")
        shop.stop()
    shop.compare()
    assert sorted(path for path, _, _ in shop.changes()) == ["cart.py", "tax.py"]


def test_touched_file_is_not_changed(shop: Workplace) -> None:
    """Its time is another one, its content is not."""
    shop.write("draft.md", "words\n")
    shop.prompt()
    for path in ("draft.md", "cart.py"):
        (shop.project / path).touch()
    shop.ran("touch *")
    shop.stop()
    assert shop.changes() == []


def test_files_that_were_changed_before_anybody_was_recorded_are_left_out(shop: Workplace) -> None:
    """Only what changes from now on is on record."""
    shop.write("cart.py", "total = 9\n")
    shop.write("draft.md", "words\n")
    shop.prompt()
    shop.ran("ls")
    shop.stop()
    assert shop.changes() == []


def test_change_is_recorded_though_nothing_was_compared_when_the_turn_began(shop: Workplace) -> None:
    """The process that a hook starts may come too late, or not at all."""
    shop.write("draft.md", "words\n")
    shop.say("UserPromptSubmit", prompt="Fix the cart")
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "command")]


def test_ignored_files_secrets_and_mirrored_files_are_left_out(shop: Workplace) -> None:
    shop.write(".gitignore", "build/\n")
    with shop.keeper() as keeper:
        keeper.mirrors.switch_on("orchestrator")
    shop.prompt()
    for path in ("build/out.js", ".env", "deploy/server.pem", "cart.py"):
        shop.write(path, "new\n")
    shop.ran("make")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "command")]


def test_work_tree_that_git_does_not_know_is_not_compared(tmp_path: Path) -> None:
    plain = Workplace(tmp_path, git=False)
    plain.prompt()
    plain.write("cart.py", "total = 2\n")
    plain.ran("sed -i s/1/2/ cart.py")
    plain.stop()
    assert (plain.changes(), plain.errors()) == ([], [])


def test_two_work_trees_of_a_repository_are_compared_apart(shop: Workplace, tmp_path: Path) -> None:
    other = tmp_path / "feature"
    shop.git("worktree", "add", "-q", str(other))
    shop.prompt()
    shop.prompt("In the other", talk="talk-2", cwd=other)
    (other / "cart.py").write_text("total = 5\n")
    shop.wait()
    shop.ran("sed -i s/1/5/ cart.py", "talk-2", cwd=other)
    shop.stop("talk-2", cwd=other)
    shop.stop()
    first, second = shop.sessions()
    assert [(file.path, file.by) for file in first.files] == []
    assert [(file.path, file.by) for file in second.files] == [("cart.py", "command")]


def test_files_are_not_changes_when_a_branch_is_switched(shop: Workplace) -> None:
    """A checkout, a pull or a reset brings files of commits that were there before."""
    shop.git("checkout", "-qb", "side")
    shop.write("tax.py", "rate = 19\n")
    shop.git("add", ".")
    shop.git("commit", "-qm", "Add the tax")
    shop.git("checkout", "-q", "main")
    shop.prompt()
    shop.git("checkout", "-q", "side")
    shop.ran("git checkout side")
    shop.stop()
    assert shop.changes() == []


def test_comparison_adds_nothing_to_the_hours(shop: Workplace) -> None:
    """What is found later gets the time of the turn: the session is as long as without it."""
    shop.prompt()
    shop.ran("make")
    shop.say("Stop", last_assistant_message="Done")
    with shop.keeper() as keeper:
        keeper.collect()
        before = keeper.session().state().time
        shop.write("cart.py", "total = 2\n")
        shop.write("README.md", "The shop\n")
    shop.close()
    with shop.keeper() as keeper:
        after = keeper.session().state()
    assert len(after.files) == 2
    assert [(run.since, run.until) for run in after.time.active] == [(run.since, run.until) for run in before.active]


def test_tree_with_too_many_changes_is_not_compared_and_says_so(
    shop: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_TREE_PATHS", 3)
    shop.prompt()
    for number in range(4):
        shop.write(f"made-{number}.py", "x\n")
    shop.ran("make")
    shop.stop()
    session = shop.session()
    assert session.files == []
    assert "more than the limit of 3" in str(session.extra["work_tree"])
    monkeypatch.setattr(tree_snapshot, "look", lambda *_: pytest.fail("it was just found to be too much"))
    shop.prompt("Again")
    assert shop.errors() == []


def test_more_changes_than_are_recorded_are_counted(shop: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TREE_CHANGES", 2)
    shop.prompt()
    for number in range(5):
        shop.write(f"made-{number}.py", "x\n")
    shop.ran("make")
    shop.stop()
    session = shop.session()
    assert len(session.files) == 2
    assert str(session.extra["work_tree"]).startswith("3 more files")


def test_deleted_session_leaves_no_path_behind(shop: Workplace) -> None:
    """Not in the snapshot either, of a file that is still there."""
    shop.prompt()
    shop.write("confidential-name.py", "x\n")
    shop.git("commit", "-q", "--allow-empty", "-m", "Confidential words")
    shop.ran("make")
    shop.stop()
    with shop.keeper() as keeper:
        session = keeper.session()
        assert [change.path for change in session.document().files] == ["confidential-name.py"]
        keeper.delete(session.id, force=True)
    for path in shop.home.rglob("*"):
        if path.is_file():
            assert b"onfidential" not in path.read_bytes(), path


def test_file_is_created_when_it_was_committed_and_changed_again_since(shop: Workplace) -> None:
    shop.prompt()
    shop.write("tax.py", "rate = 19\n")
    shop.git("add", ".")
    shop.git("commit", "-qm", "Add the tax")
    shop.write("tax.py", "rate = 20\n")
    shop.ran("git commit -m 'Add the tax'; sed -i s/19/20/ tax.py")
    shop.stop()
    assert shop.changes() == [("tax.py", "created", "command")]


def test_file_is_modified_when_a_commit_removed_it_and_it_is_there_again(shop: Workplace) -> None:
    shop.prompt()
    shop.git("rm", "-q", "cart.py")
    shop.git("commit", "-qm", "Remove the cart")
    shop.write("cart.py", "total = 20\n")
    shop.ran("git commit")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "command")]
