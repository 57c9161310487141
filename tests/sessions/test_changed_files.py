"""Files changed by commands and people are recorded: the work tree is compared at the end of each turn."""

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


def test_file_change_reported_by_a_tool_is_not_recorded_again(shop: Workplace) -> None:
    shop.prompt()
    shop.wrote("cart.py", "total = 3\n")
    shop.ran("make test")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "tool")]


def test_file_changed_by_a_command_after_a_tool_edited_it_is_recorded_for_both(shop: Workplace) -> None:
    """As by a formatter."""
    shop.prompt()
    shop.wrote("cart.py", "total=3\n")
    shop.write("cart.py", "total = 3\n")
    shop.ran("black cart.py")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "tool"), ("cart.py", "modified", "command")]


def test_file_changed_before_the_prompt_is_the_persons(shop: Workplace) -> None:
    """Between turns no agent is at work."""
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


def test_file_changed_before_the_session_began_is_not_recorded(shop: Workplace) -> None:
    shop.prompt()
    shop.stop()
    with shop.keeper() as keeper:
        keeper.session().stop()
    shop.write("README.md", "The shop\n")
    shop.prompt("Another", talk="talk-2")
    shop.stop("talk-2")
    assert shop.changes() == []


def test_file_changed_in_a_turn_without_commands_is_unknown(shop: Workplace) -> None:
    """Either the person saved it, or a tool that reports nothing wrote it."""
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
    """Only running turns are candidates."""
    shop.prompt()
    shop.prompt("Another", talk="talk-2")
    shop.stop("talk-2")
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.stop()
    assert {(path, by) for path, _, by in shop.changes()} == {("cart.py", "command")}


def test_work_tree_is_compared_after_a_turn_that_ends_with_an_error(shop: Workplace) -> None:
    shop.prompt()
    shop.write("cart.py", "total = 2\n")
    shop.ran("sed -i s/1/2/ cart.py")
    shop.say("StopFailure", error="server_error", permission_mode="default")
    shop.compare()
    assert shop.changes() == [("cart.py", "modified", "command")]


def test_file_changed_after_an_interrupted_turn_is_unknown(shop: Workplace) -> None:
    """An interruption is not reported, so later changes may be the person's."""
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


def test_touched_file_is_not_recorded_as_changed(shop: Workplace) -> None:
    shop.write("draft.md", "words\n")
    shop.prompt()
    for path in ("draft.md", "cart.py"):
        (shop.project / path).touch()
    shop.ran("touch *")
    shop.stop()
    assert shop.changes() == []


def test_uncommitted_changes_from_before_the_first_turn_are_not_recorded(shop: Workplace) -> None:
    shop.write("cart.py", "total = 9\n")
    shop.write("draft.md", "words\n")
    shop.prompt()
    shop.ran("ls")
    shop.stop()
    assert shop.changes() == []


def test_change_is_recorded_when_no_comparison_was_made_at_the_start_of_the_turn(shop: Workplace) -> None:
    """The process that a hook starts may be late or missing."""
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


def test_directory_without_git_is_not_compared(tmp_path: Path) -> None:
    plain = Workplace(tmp_path, git=False)
    plain.prompt()
    plain.write("cart.py", "total = 2\n")
    plain.ran("sed -i s/1/2/ cart.py")
    plain.stop()
    assert (plain.changes(), plain.errors()) == ([], [])


def test_work_trees_of_a_repository_are_compared_separately(shop: Workplace, tmp_path: Path) -> None:
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


def test_files_changed_by_switching_a_branch_are_not_recorded(shop: Workplace) -> None:
    """Checkout, pull and reset bring files of existing commits."""
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
    """Detected changes get the time of the turn."""
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


def test_tree_with_too_many_changes_is_not_compared_and_the_error_is_logged(
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
    monkeypatch.setattr(tree_snapshot, "compare_tree", lambda *_: pytest.fail("it was just found to be too much"))
    shop.prompt("Again")
    assert shop.errors() == []


def test_changes_beyond_the_limit_are_counted(shop: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Not even in the snapshot of a file that still exists."""
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


def test_file_counts_as_created_when_it_was_committed_and_changed_since(shop: Workplace) -> None:
    shop.prompt()
    shop.write("tax.py", "rate = 19\n")
    shop.git("add", ".")
    shop.git("commit", "-qm", "Add the tax")
    shop.write("tax.py", "rate = 20\n")
    shop.ran("git commit -m 'Add the tax'; sed -i s/19/20/ tax.py")
    shop.stop()
    assert shop.changes() == [("tax.py", "created", "command")]


def test_file_counts_as_modified_when_a_commit_removed_it_and_it_exists_again(shop: Workplace) -> None:
    shop.prompt()
    shop.git("rm", "-q", "cart.py")
    shop.git("commit", "-qm", "Remove the cart")
    shop.write("cart.py", "total = 20\n")
    shop.ran("git commit")
    shop.stop()
    assert shop.changes() == [("cart.py", "modified", "command")]
