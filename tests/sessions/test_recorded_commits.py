"""Commits made during a session are recorded with the conversation that made them; rewritten ones too."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import Failed
from holdfast.core.event_data import read_data
from holdfast.core.events import CommitRecorded
from holdfast.machine.git.program import GitFailed
from holdfast.sessions import stop
from holdfast.sessions.changes import tree_snapshot
from holdfast.sessions.changes.compare import NOT_COMPARED, compare_at_end
from tests.sessions.working_agents import Workplace


@pytest.fixture
def shop(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def committed(shop: Workplace, message: str, path: str = "cart.py", text: str = "total = 2\n") -> str:
    shop.write(path, text)
    shop.git("add", path)
    shop.git("commit", "-qm", message)
    return shop.git("rev-parse", "HEAD")


def test_commit_of_an_agent_is_recorded_with_its_conversation(shop: Workplace) -> None:
    shop.prompt()
    sha = committed(shop, "Fix the total")
    shop.ran("git commit -am 'Fix the total'")
    shop.stop()
    session = shop.session()
    (commit,) = session.commits
    assert (commit.sha, commit.subject, commit.conversation) == (sha, "Fix the total", "talk-1")
    assert (commit.branch, commit.certainty, commit.replaces) == ("main", "certain", None)
    assert [(file.path, file.action, file.by) for file in session.files] == [("cart.py", "modified", "command")]
    with shop.keeper() as keeper:
        state = keeper.session().state()
    assert state.commits[sha].tree == shop.git("rev-parse", "HEAD^{tree}")
    assert state.commits[sha].parents == (shop.git("rev-parse", "HEAD~1"),)
    assert shop.errors() == []


def test_commit_by_hand_between_turns_is_recorded_without_a_conversation(shop: Workplace) -> None:
    shop.prompt()
    shop.stop()
    sha = committed(shop, "By hand")
    shop.prompt("Go on")
    shop.stop()
    session = shop.session()
    (by_hand,) = session.commits
    assert by_hand.sha == sha
    assert (by_hand.conversation, by_hand.certainty, by_hand.among) == (None, "certain", [])
    assert [(file.path, file.by) for file in session.files] == [("cart.py", "person")]


def test_commit_while_two_conversations_work_is_uncertain_and_names_both(shop: Workplace) -> None:
    shop.prompt()
    shop.prompt("Another", talk="talk-2")
    committed(shop, "Whose is it")
    shop.ran("make release")
    shop.ran("make release", "talk-2")
    shop.stop()
    shop.stop("talk-2")
    commits = [commit for session in shop.sessions() for commit in session.commits]
    assert {(commit.conversation, commit.certainty, tuple(commit.among)) for commit in commits} == {
        (None, "uncertain", ("claude:talk-1", "claude:talk-2"))
    }


def test_amended_commit_replaces_the_first(shop: Workplace) -> None:
    shop.prompt()
    first = committed(shop, "Fix")
    shop.ran("git commit -am Fix")
    shop.stop()
    shop.git("commit", "-q", "--amend", "-m", "Fix the total")
    amended = shop.git("rev-parse", "HEAD")
    shop.prompt("Go on")
    shop.stop()
    (commit,) = shop.session().commits
    assert (commit.sha, commit.replaces, commit.conversation) == (amended, first, "talk-1")
    assert [(file.path, file.by) for file in shop.files()] == [("cart.py", "command")]


def test_rebased_commits_replace_their_originals(shop: Workplace) -> None:
    """Matched by author time and subject, since hash and tree differ."""
    shop.prompt()
    shop.git("checkout", "-qb", "feature")
    old = [committed(shop, f"Step {n}", f"step{n}.py", "x\n") for n in (1, 2)]
    shop.ran("git commit -am Steps")
    shop.stop()
    shop.git("checkout", "-q", "main")
    committed(shop, "Meanwhile", "README.md", "Shop\n")
    shop.git("checkout", "-q", "feature")
    shop.prompt("Rebase it")
    shop.git("rebase", "-q", "main")
    shop.ran("git rebase main")
    shop.stop()
    new = shop.git("rev-list", "--reverse", "main..feature").split()
    session = shop.session()
    recorded_commits = {commit.subject: commit for commit in session.commits}
    assert [recorded_commits[f"Step {n}"].sha for n in (1, 2)] == new
    assert [recorded_commits[f"Step {n}"].replaces for n in (1, 2)] == old
    assert recorded_commits["Step 1"].conversation == recorded_commits["Step 2"].conversation == "talk-1"
    assert recorded_commits["Meanwhile"].conversation is None
    assert {commit.branch for commit in session.commits} == {"feature", "main"}


@pytest.mark.parametrize("how", ["checkout", "merge", "reset", "pull"])
def test_existing_commits_and_those_of_others_are_not_recorded(shop: Workplace, tmp_path: Path, how: str) -> None:
    """HEAD may move to them in several ways."""
    there = tmp_path / "there"
    shop.git("clone", "-q", str(shop.project), str(there), at=tmp_path)
    shop.git("-c", "user.name=B", "-c", "user.email=b@c", "commit", "-q", "--allow-empty", "-m", "Theirs", at=there)
    shop.prompt()
    shop.git("fetch", "-q", str(there), "main:theirs")
    words = {
        "checkout": ["checkout", "-q", "theirs"], "merge": ["merge", "-q", "--ff-only", "theirs"],
        "reset": ["reset", "-q", "--hard", "theirs"], "pull": ["pull", "-q", "--ff-only", str(there), "main"],
    }[how]  # fmt: skip
    shop.git(*words)
    shop.ran(f"git {how}")
    shop.stop()
    assert shop.session().commits == []


def test_commit_is_recorded_without_a_reflog(shop: Workplace) -> None:
    shop.git("config", "core.logAllRefUpdates", "false")
    for path in (shop.project / ".git" / "logs").rglob("*"):
        if path.is_file():
            path.unlink()
    shop.prompt()
    sha = committed(shop, "Fix the total")
    shop.ran("git commit -am 'Fix the total'")
    shop.stop()
    assert [(commit.sha, commit.conversation) for commit in shop.session().commits] == [(sha, "talk-1")]


def test_commit_that_keeps_a_branch_is_recorded(shop: Workplace) -> None:
    """`stop --keep` makes it itself."""
    with shop.keeper() as keeper:
        session = keeper.start("Add the tax", feature="tax", branch=True)
        shop.write("tax.py", "rate = 19\n")
        shop.git("add", ".")
        shop.git("commit", "-qm", "Add it")
        stopped = session.stop(keep=True)
        document = session.document()
    assert document.branch is not None
    assert [(commit.sha, commit.branch) for commit in document.commits] == [
        (stopped.tip, document.branch), (stopped.commit, "main"),
    ]  # fmt: skip


def test_commit_that_keeps_a_branch_is_recorded_once_after_a_failed_try(
    shop: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch is merged before the store is written; the next try also finds the commit by comparing."""
    with shop.keeper() as keeper:
        session = keeper.start("Add the tax", feature="tax", branch=True)
        made = committed(shop, "Add it", "tax.py", "rate = 19\n")
        with monkeypatch.context() as patched:
            patched.setattr(stop, "end_with", lambda *_: (_ for _ in ()).throw(Failed("the disk is full")))
            with pytest.raises(Failed):
                session.stop(keep=True)
        stopped = session.stop(keep=True)
        recorded = [
            read_data(event) for event in keeper.store().events(session.id) if event.type == "commit.recorded"
        ]
    assert [data.sha for data in recorded if isinstance(data, CommitRecorded)] == [made, stopped.commit]


def test_ending_reports_a_work_tree_that_could_not_be_compared(
    shop: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.keeper() as keeper:
        session = keeper.start("Add the tax")
        committed(shop, "Add it", "tax.py", "rate = 19\n")
        for error in (GitFailed("git needs a temporary directory"), ValueError("unexpected")):
            with monkeypatch.context() as patched:
                patched.setattr(tree_snapshot, "compare_tree", lambda *_, error=error: (_ for _ in ()).throw(error))
                compare_at_end(keeper, session.id)
            assert str(error) in str(session.state().extra[NOT_COMPARED])


def test_secret_in_the_subject_of_a_commit_is_removed(shop: Workplace) -> None:
    shop.prompt()
    committed(shop, "Use AKIAIOSFODNN7EXAMPLE for uploads")
    shop.ran("git commit")
    shop.stop()
    (commit,) = shop.session().commits
    assert "AKIA" not in commit.subject


def test_search_matches_commits(shop: Workplace) -> None:
    shop.prompt()
    sha = committed(shop, "Round half up")
    shop.ran("git commit")
    shop.stop()
    with shop.keeper() as keeper:
        assert len(keeper.history(search="Round half")) == 1
        assert len(keeper.history(search=sha)) == 1
        assert keeper.history(search="nothing like it") == []


def test_trailer_naming_a_session_of_another_project_is_ignored(shop: Workplace, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with shop.keeper(other) as keeper:
        elsewhere = keeper.start("Something else").id
    shop.prompt()
    committed(shop, f"Fix\n\nHoldfast-Session: {elsewhere}")
    shop.ran("git commit")
    shop.stop()
    with shop.keeper() as keeper:
        assert keeper.state(elsewhere).commits == {}
        assert len(keeper.session().document().commits) == 1


def test_files_added_by_an_amend_are_recorded(shop: Workplace) -> None:
    """The agent's by its command and the person's as a person's, although one commit contains them all."""
    shop.prompt()
    committed(shop, "Base", "first.txt", "1\n")
    shop.ran("git commit -m Base")
    shop.stop()
    shop.prompt("Amend it")
    shop.write("amended.txt", "z\n")
    shop.write("cart.py", "total = 5\n")
    shop.git("add", ".")
    shop.git("commit", "-q", "--amend", "--no-edit")
    shop.ran("git commit --amend --no-edit")
    shop.stop()
    shop.write("byhand.txt", "p\n")
    shop.git("add", ".")
    shop.git("commit", "-q", "--amend", "--no-edit")
    shop.prompt("Go on")
    shop.stop()
    assert sorted(shop.changes()) == [
        ("amended.txt", "created", "command"),
        ("byhand.txt", "created", "person"),
        ("cart.py", "modified", "command"),
        ("first.txt", "created", "command"),
    ]


def test_file_created_by_a_commit_and_removed_by_an_amend_is_not_recorded(shop: Workplace) -> None:
    shop.prompt()
    committed(shop, "Base", "first.txt", "1\n")
    shop.git("rm", "-q", "first.txt")
    shop.git("commit", "-q", "--amend", "--allow-empty", "--no-edit")
    shop.ran("git commit --amend")
    shop.stop()
    assert shop.changes() == []


def test_amend_by_hand_keeps_the_certainty_of_the_original_with_its_conversation(shop: Workplace) -> None:
    shop.prompt()
    committed(shop, "Fix")
    shop.ran("make release")  # which may have committed it
    shop.stop()
    (first,) = shop.session().commits
    assert (first.conversation, first.certainty) == ("talk-1", "likely")
    shop.git("commit", "-q", "--amend", "-m", "Fix the total")
    shop.prompt("Go on")
    shop.stop()
    (amended,) = shop.session().commits
    assert (amended.replaces, amended.conversation, amended.certainty) == (first.sha, "talk-1", "likely")
    with shop.keeper() as keeper:
        assert {session.certainty for session in keeper.why("HEAD").sessions} == {"likely"}


@pytest.mark.parametrize(
    ("folds", "order"),
    [(["fixup! One"], None), (["fixup! One", "squash! One"], None), (["fixup! Two", "fixup! One"], None),
     (["Oops"], "fixup")],
)  # fmt: skip
def test_commits_squashed_by_a_rebase_are_replaced_by_the_result(
    shop: Workplace, folds: list[str], order: str | None
) -> None:
    shop.prompt()
    committed(shop, "One", "one.py", "1\n")
    committed(shop, "Two", "two.py", "2\n")
    for number, subject in enumerate(folds):
        committed(shop, subject, f"fold{number}.py", "x\n")
    shop.ran("git commit")
    shop.stop()
    shop.prompt("Squash them")
    editor = ":" if order is None else f"sed -i.bak 's/^pick \\(.* {folds[0]}\\)/{order} \\1/'"
    shop.git("-c", f"sequence.editor={editor}", "rebase", "-q", "-i", "--autosquash", f"HEAD~{2 + len(folds)}")
    shop.ran("git rebase -i --autosquash")
    shop.stop()
    assert [commit.subject for commit in shop.session().commits] == shop.git(
        "log", "--reverse", "--format=%s", "HEAD~2.."
    ).splitlines()
    assert [commit.sha for commit in shop.session().commits] == shop.git("rev-list", "--reverse", "HEAD~2..").split()


def test_commit_dropped_by_a_rebase_stays_recorded(shop: Workplace) -> None:
    shop.prompt()
    committed(shop, "One", "one.py", "1\n")
    committed(shop, "fixup! One", "one.py", "1!\n")
    committed(shop, "Two", "two.py", "2\n")
    shop.ran("git commit")
    shop.stop()
    shop.prompt("Squash them")
    editor = "sed -i.bak 's/^pick \\(.* Two\\)/drop \\1/'"
    shop.git("-c", f"sequence.editor={editor}", "rebase", "-q", "-i", "--autosquash", "HEAD~3")
    shop.ran("git rebase -i")
    shop.stop()
    assert [commit.subject for commit in shop.session().commits] == ["Two", "One"]


@pytest.mark.parametrize("how", ["start", "resume", "continue"])
def test_work_by_hand_is_recorded_without_any_agent(shop: Workplace, tmp_path: Path, how: str) -> None:
    shop.write("before.txt", "not of this session\n")
    with shop.keeper() as keeper:
        if how != "start":
            # In another work tree, so that no comparison of this one exists.
            other = tmp_path / "other"
            shop.git("worktree", "add", "-q", "-b", "other", str(other))
            with shop.keeper(other) as there:
                begun = there.start("By hand")
                begun.pause() if how == "resume" else begun.stop()
        session = keeper.start("By hand") if how == "start" else keeper.session(begun.id).take_up().session
    sha = committed(shop, "Hand made", "hand.txt", "h\n")
    shop.write("more.txt", "x\n")
    shop.write("cart.py", "total = 3\n")
    with shop.keeper() as keeper:
        keeper.session(session.id).stop()
        document = keeper.session(session.id).document()
    assert [(commit.sha, commit.conversation, commit.certainty) for commit in document.commits] == [
        (sha, None, "certain")
    ]
    assert sorted((file.path, file.action, file.by) for file in document.files) == [
        ("cart.py", "modified", "person"), ("hand.txt", "created", "person"), ("more.txt", "created", "person"),
    ]  # fmt: skip


def test_work_by_hand_before_the_first_prompt_is_recorded(shop: Workplace) -> None:
    with shop.keeper() as keeper:
        keeper.start("By hand")
    sha = committed(shop, "Hand made", "hand.txt", "h\n")
    shop.write("more.txt", "x\n")
    shop.prompt("Help")
    shop.stop()
    session = shop.session()
    assert [(commit.sha, commit.conversation) for commit in session.commits] == [(sha, None)]
    assert sorted((file.path, file.by) for file in session.files) == [("hand.txt", "person"), ("more.txt", "person")]


def test_work_by_hand_is_not_recorded_after_the_given_end_of_the_session(shop: Workplace) -> None:
    with shop.keeper() as keeper:
        now = keeper.now()
        session = keeper.start("By hand", at=now - 3_600_000)
        committed(shop, "Too late", "late.txt", "h\n")
        shop.write("later.txt", "h\n")
        session.stop(at=now - 1_800_000)
        document = session.document()
    assert (document.commits, document.files) == ([], [])
