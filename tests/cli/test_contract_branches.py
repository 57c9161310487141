"""The contract: `start --branch`, `stop --keep` and `stop --discard` with real git."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import spec_examples
from tests.support.command_line import Calling, at

LINE = re.compile(r"^Session: \d{8} \d\d:\d\d-\d\d:\d\d \(\d+ min actual, \d+ min paused\)$", re.MULTILINE)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Calling]:
    calling = Calling(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield calling
    monkeypatch.undo()
    time.tzset()


def work(cli: Calling, name: str = "work.txt") -> None:
    """A commit of the session's own."""
    (cli.project / name).write_text(name)
    cli.git("add", ".")
    cli.git("commit", "-q", "-m", f"add {name}")


def branches(cli: Calling) -> list[str]:
    return cli.git("branch", "--format=%(refname:short)").split()


def test_keep_squashes_the_session_into_one_commit(cli: Calling) -> None:
    """On the old branch, with the session's line; the session branch is deleted."""
    cli.repository()
    session = cli.session("start", "Add things", "--branch", "--at", at(0))
    assert cli.git("branch", "--show-current") == session["branch"] == f"session/{session['aliases']['timer']}"
    assert session["project"]["git_branch"] == "main"
    work(cli, "one")
    work(cli, "two")
    cli.session("message", "--at", at(4))
    cli.session("pause", "--at", at(5))
    cli.session("resume", "--at", at(12))
    done = cli.session("stop", "--keep", "--at", at(15))
    assert done["status"] == "completed"
    assert branches(cli) == ["main"]
    assert cli.git("branch", "--show-current") == "main"
    assert cli.git("rev-list", "--count", "HEAD") == "2"
    message = cli.git("log", "-1", "--format=%B")
    assert message.startswith("Add things\n")
    assert LINE.search(message)
    assert "Session: 20260105 08:00-08:15 (8 min actual, 7 min paused)" in message
    assert (cli.project / "two").exists()


def test_discard_returns_and_deletes_the_branch(cli: Calling) -> None:
    """The reason is in the log."""
    cli.repository()
    cli.session("start", "Try", "--branch")
    work(cli)
    cli.session("stop", "--discard", "--reason", "did not work")
    assert branches(cli) == ["main"]
    assert not (cli.project / "work.txt").exists()
    session = cli.document("history")["sessions"][0]["id"]
    last = cli.document("log", session)["events"][-1]
    assert last["data"] == {"outcome": "discarded", "reason": "did not work"}


@pytest.mark.parametrize("how", [["--keep"], ["--discard", "--reason", "r"]])
@pytest.mark.parametrize("dirt", ["untracked", "modified", "staged"])
def test_keep_and_discard_are_refused_with_uncommitted_changes(cli: Calling, how: list[str], dirt: str) -> None:
    """Exit 1, nothing changes; afterwards it works."""
    cli.repository()
    session = cli.session("start", "G", "--branch")
    work(cli)
    name = "new.txt" if dirt == "untracked" else "work.txt"
    (cli.project / name).write_text("precious")
    if dirt == "staged":
        cli.git("add", ".")
    error = cli.refused(1, "stop", *how)
    assert name in error["message"]
    assert cli.git("branch", "--show-current") == session["branch"]
    assert (cli.project / name).read_text() == "precious"
    assert cli.session("status")["status"] == "in_progress"
    cli.git("stash", "-q", "-u")
    assert cli.session("stop", *how)["status"] == "completed"


def test_start_branch_keeps_uncommitted_changes(cli: Calling) -> None:
    cli.repository()
    (cli.project / "README.md").write_text("changed")
    cli.session("start", "G", "--branch")
    assert (cli.project / "README.md").read_text() == "changed"


def test_detached_start_can_be_discarded_but_not_kept(cli: Calling) -> None:
    """There is no branch to return to; `--discard` returns to the commit."""
    cli.repository()
    commit = cli.git("rev-parse", "HEAD")
    cli.git("switch", "-q", "--detach")
    cli.session("start", "G", "--branch")
    work(cli)
    cli.refused(1, "stop", "--keep")
    cli.session("stop", "--discard", "--reason", "r")
    assert cli.git("rev-parse", "HEAD") == commit
    assert cli.git("branch", "--show-current") == ""


def test_start_branch_is_refused_without_a_repository(cli: Calling) -> None:
    """Exit 1, and no session."""
    cli.refused(1, "start", "G", "--branch")
    assert cli.document("status")["session"] is None


def test_start_branch_works_before_the_first_commit(cli: Calling) -> None:
    cli.git("init", "-q", "-b", "main")
    session = cli.session("start", "G", "--branch")
    assert cli.git("branch", "--show-current") == session["branch"]
    work(cli)
    cli.session("stop", "--keep")
    assert cli.git("branch", "--show-current") == "main"
    assert (cli.project / "work.txt").exists()
    assert branches(cli) == ["main"]


def test_start_branch_conflicts_with_an_existing_branch(cli: Calling) -> None:
    """Exit 5, no session, and the work tree is unchanged."""
    cli.repository()
    cli.git("branch", "session/20260105-project-same")
    cli.refused(5, "start", "Same", "--branch", "--at", at(0))
    assert cli.document("status")["session"] is None
    assert cli.git("branch", "--show-current") == "main"


def test_branches_of_work_trees_are_independent(cli: Calling, tmp_path: Path) -> None:
    cli.repository()
    tree = tmp_path / "tree"
    cli.git("worktree", "add", "-q", "-b", "side", str(tree))
    main = cli.session("start", "Here", "--branch")
    cli.patch.chdir(tree)
    side = cli.session("start", "There", "--branch")
    assert cli.git("branch", "--show-current", where=tree) == side["branch"]
    (tree / "there.txt").write_text("x")
    cli.git("add", ".", where=tree)
    cli.git("commit", "-q", "-m", "there", where=tree)
    cli.session("stop", "--keep")
    assert cli.git("branch", "--show-current", where=tree) == "side"
    assert cli.git("branch", "--show-current") == main["branch"]
    assert sorted(branches(cli)) == sorted(["main", "side", main["branch"]])


def test_merge_conflict_changes_nothing(cli: Calling) -> None:
    """Exit 5; the session stays in progress on its branch."""
    cli.repository()
    session = cli.session("start", "G", "--branch")
    (cli.project / "README.md").write_text("mine\n")
    cli.git("commit", "-q", "-am", "mine")
    cli.git("switch", "-q", "main")
    (cli.project / "README.md").write_text("theirs\n")
    cli.git("commit", "-q", "-am", "theirs")
    cli.git("switch", "-q", session["branch"])
    assert "README.md" in cli.refused(5, "stop", "--keep")["message"]
    assert cli.git("branch", "--show-current") == session["branch"]
    assert cli.git("status", "--porcelain") == ""
    assert cli.session("status")["status"] == "in_progress"


def test_stop_without_an_option_leaves_the_branch_alone(cli: Calling) -> None:
    cli.repository()
    session = cli.session("start", "G", "--branch")
    cli.session("stop")
    assert cli.git("branch", "--show-current") == session["branch"]


def test_invalid_reason_is_refused_before_the_branch_is_touched(cli: Calling) -> None:
    from holdfast import Keeper
    from holdfast.core.errors import Invalid

    cli.repository()
    branch = cli.session("start", "G", "--branch")["branch"]
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper, pytest.raises(Invalid):
        keeper.session().stop(discard=True, reason="\ud800")
    assert branch in branches(cli)


def test_start_removes_its_branch_when_recording_fails(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in the very last step."""
    from holdfast.core.errors import Failed
    from holdfast.store.journal import Journal

    def full(_: Journal) -> None:
        raise Failed("the disk is full")

    cli.repository()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "flush", full)
        assert cli("start", "G", "--branch").code == 1
    assert branches(cli) == ["main"]
    assert cli.git("branch", "--show-current") == "main"
    assert cli.document("status")["session"] is None


@pytest.mark.parametrize("end", [("--keep",), ("--discard", "--reason", "no use")])
def test_missing_branch_of_an_imported_session_is_reported_without_a_hint(cli: Calling, end: tuple[str, ...]) -> None:
    """Its program may have made the branch elsewhere, or never."""
    cli.repository()
    document = cli.project / "session.json"
    document.write_bytes(spec_examples.TIMER_JUST_STARTED)
    assert cli("import", "session.json").code == 0
    document.unlink()
    (row,) = cli.document("history")["sessions"]
    branch = f"session/{row['aliases']['timer']}"
    assert cli("resume", row["id"]).code == 0
    refused = cli("stop", *end)
    assert refused.code == 3
    assert f"There is no branch {branch} here" in refused.err
    assert "git switch" not in refused.err
    cli.git("branch", branch)
    assert f"{branch} has no branch to return to" in cli("stop", *end).err
    cli.git("branch", "-D", branch)
    assert cli("stop").code == 0
