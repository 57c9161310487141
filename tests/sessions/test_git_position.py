"""Where the work is: noted when somebody leaves or others may follow, and what the ground is compared with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.core.events import GitPositionNoted
from holdfast.keeper.session import SessionHandle
from holdfast.workspace.followers import ResumeDifference
from tests.support.agents_speaking import Speaking
from tests.support.two_devices import Devices, carry, git_at


class Clones(Devices):
    """The same two devices, with a bare repository between them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, git=True, remote=None)
        bare = root / "shop.git"
        git_at(root, "clone", "-q", "--bare", str(self.here), str(bare))
        for place in (self.here, self.there):
            git_at(place, "remote", "add", "origin", str(bare))
            git_at(place, "fetch", "-q")
            git_at(place, "branch", "-q", "--set-upstream-to=origin/main", "main")

    def feature(self, *, push: bool = True) -> SessionHandle:
        """Begun on main; then the laptop switches, commits and says so."""
        begun = self.laptop.start("Build the shop")
        git_at(self.here, "switch", "-q", "-c", "feat")
        committed(self.here, "new.txt")
        if push:
            git_at(self.here, "push", "-q", "-u", "origin", "feat")
        begun.changed("new.txt", "created")
        carry(self.laptop, self.desktop)
        return self.desktop.session(begun.id)


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return Clones(tmp_path)


def committed(place: Path, name: str, words: str = "x\n") -> str:
    (place / name).write_text(words)
    git_at(place, "add", ".")
    git_at(place, "commit", "-q", "-m", name)
    return git_at(place, "rev-parse", "HEAD")


def printed(session: SessionHandle) -> str:
    """The one command that a refusal gives for git."""
    with pytest.raises(Refused) as caught:
        session.resume()
    lines = (caught.value.hint or "").splitlines()
    assert lines[-1].startswith("Or resume anyway")
    (line,) = lines[:-1]
    what, _, command = line.partition(": ")
    return command if what == "commit" else line


def run(command: str, where: Path) -> None:
    """What a person would copy, as they would."""
    env = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "HOME": str(where), "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@example.org",
        "GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@example.org", "GIT_EDITOR": ":",
    }  # fmt: skip
    done = subprocess.run(["sh", "-c", command], cwd=where, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def notes(keeper: Keeper, session: SessionHandle) -> int:
    return sum(event.type == "ground.noted" for event in keeper.events(session.id))


def ground(session: SessionHandle) -> tuple[ResumeDifference, ...]:
    return session.resume().differences


# ── the commands that are printed ────────────────────────────────────────────────────────────────────────


def test_a_branch_that_was_made_after_the_start(clones: Clones) -> None:
    """The other device is on main and has never heard of the branch: the printed command brings branch and file."""
    session = clones.feature()
    command = printed(session)
    assert command == "git fetch && git switch feat"
    run(command, clones.there)
    assert ground(session) == ()
    assert (clones.there / "new.txt").exists()


def test_on_the_branch_already_nothing_leads_away_from_it(clones: Clones) -> None:
    """Who has switched by themselves is told nothing."""
    session = clones.feature()
    git_at(clones.there, "fetch", "-q")
    git_at(clones.there, "switch", "-q", "feat")
    assert ground(session) == ()


def test_a_branch_known_here_is_switched_to(clones: Clones) -> None:
    """It is here with the commit in it, and something else is checked out."""
    session = clones.feature()
    git_at(clones.there, "fetch", "-q", "origin", "feat:feat")
    assert printed(session) == "git switch feat"
    run(printed(session), clones.there)
    assert ground(session) == ()


def test_a_branch_known_here_that_is_old(clones: Clones) -> None:
    """The branch is here as of yesterday: switching alone would not bring the commit."""
    session = clones.feature()
    run(printed(session), clones.there)
    git_at(clones.there, "switch", "-q", "main")
    committed(clones.here, "more.txt")
    git_at(clones.here, "push", "-q")
    clones.laptop.session(session.id).pause()
    clones.meet()
    assert printed(session) == "git switch feat && git pull --ff-only"
    git_at(clones.there, "fetch", "-q")
    assert printed(session) == "git switch feat && git pull --ff-only"
    run(printed(session), clones.there)
    assert ground(session) == ()


def test_behind_on_the_same_branch(clones: Clones) -> None:
    """A commit was made and pushed: pulling brings it, whether it was fetched before or not."""
    begun = clones.laptop.start("Build the shop")
    committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.save()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed(session) == "git pull --ff-only"
    git_at(clones.there, "fetch", "-q")
    assert printed(session) == "git pull --ff-only"
    run(printed(session), clones.there)
    assert ground(session) == ()


def test_behind_on_a_branch_that_follows_none(clones: Clones) -> None:
    """Without an upstream, `git pull` has to be told from where."""
    git_at(clones.there, "branch", "-q", "--unset-upstream", "main")
    begun = clones.laptop.start("Build the shop")
    committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed(session) == "git pull --ff-only origin main"
    run(printed(session), clones.there)
    assert ground(session) == ()


def test_both_went_on(clones: Clones) -> None:
    """Fast-forward is not possible: what was fetched is merged."""
    begun = clones.laptop.start("Build the shop")
    wanted = committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    committed(clones.there, "two.txt")
    git_at(clones.there, "fetch", "-q")
    session = clones.desktop.session(begun.id)
    assert printed(session) == f"git merge {wanted[:10]}"
    run(printed(session), clones.there)
    assert [(difference.what, difference.fix, difference.blocking) for difference in ground(session)] == [
        ("commit", None, False)
    ]


def test_no_branch_was_checked_out(clones: Clones) -> None:
    """A detached commit is checked out as such."""
    begun = clones.laptop.start("Build the shop")
    git_at(clones.here, "switch", "-q", "--detach")
    wanted = committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "HEAD:refs/heads/kept")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed(session) == f"git fetch && git checkout {wanted[:10]}"
    run(printed(session), clones.there)
    assert ground(session) == ()


def test_a_branch_that_another_work_tree_has(clones: Clones) -> None:
    """Git would refuse to switch: the session is gone on with over there."""
    session = clones.feature()
    git_at(clones.there, "fetch", "-q")
    beside = clones.there.parent / "beside"
    git_at(clones.there, "worktree", "add", "-q", str(beside), "feat")
    assert printed(session) == f"holdfast resume {session.id[:8]} --project {beside}"
    assert clones.opened("desktop", beside).session(session.id).resume().differences == ()


def test_files_that_were_never_committed_come_with_their_branch(clones: Clones) -> None:
    """The commit is here, the file is not: what is to be done there, and then here, works as it is said."""
    begun = clones.laptop.start("Build the shop")
    git_at(clones.here, "switch", "-q", "-c", "feat")
    (clones.here / "new.txt").write_text("x\n")
    begun.changed("new.txt", "created")
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    said = printed(session)
    assert said == "files: commit and push them on laptop, then here: git fetch && git switch feat"
    committed(clones.here, "new.txt")
    git_at(clones.here, "push", "-q", "origin", "feat")
    run(said.partition("then here: ")[2], clones.there)
    assert not any(difference.blocking for difference in ground(session))


def test_resume_asks_for_a_commit_that_was_not_pushed(clones: Clones) -> None:
    """No command here can bring it; the question says why."""
    session = clones.feature(push=False)
    with pytest.raises(Refused, match="was it pushed"):
        session.resume()


def test_difference_names_the_device_that_noted_the_position(clones: Clones) -> None:
    """Not the one that wrote last, if that was another."""
    session = clones.feature()
    with pytest.raises(Refused, match="on which laptop left the session"):
        session.resume()


# ── when it is noted ─────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_noted_while_nothing_changes(clones: Clones) -> None:
    """Work on one branch and one commit leaves no notes."""
    begun = clones.laptop.start("Build the shop")
    begun.agent("a-1", type="coder").done()
    begun.decide("SQLite")
    begun.pause()
    begun.resume()
    begun.complete()
    assert notes(clones.laptop, begun) == 0


@pytest.mark.parametrize("verb", ["pause", "save", "complete", "abort", "resume", "agent", "decide", "changed"])
def test_git_position_is_noted_when_others_may_follow(clones: Clones, verb: str) -> None:
    """Once, before the event itself; the document then has the present branch and commit."""
    begun = clones.laptop.start("Build the shop")
    git_at(clones.here, "switch", "-q", "-c", "feat")
    begun.note("this alone is nobody's concern")
    assert notes(clones.laptop, begun) == 0
    tip = committed(clones.here, "one.txt")
    arguments = {"agent": ["a-1"], "decide": ["SQLite"], "changed": ["one.txt"]}.get(verb, [])
    getattr(begun, verb)(*arguments, **({"type": "coder"} if verb == "agent" else {}))
    assert notes(clones.laptop, begun) == 1
    assert clones.laptop.events(begun.id)[-1].type != "ground.noted"
    project = begun.document().project
    assert (project.git_branch, project.git_commit) == ("feat", tip)


def test_going_on_elsewhere_is_noted(clones: Clones) -> None:
    """Forced onto another branch, the work is there from now on: also for the device it came from."""
    session = clones.feature()
    session.resume(force=True)
    clones.meet()
    assert clones.laptop.session(session.id).document().project.git_branch == "main"
    (found,) = ground(clones.laptop.session(session.id))
    assert (found.what, found.fix, found.blocking) == ("branch", "git switch main", False)


def test_never_of_another_project(clones: Clones, tmp_path: Path) -> None:
    """A session that was forced into another repository says nothing of that one's branches."""
    begun = clones.laptop.start("Build the shop")
    other = tmp_path / "other"
    other.mkdir()
    git_at(other, "init", "-q", "-b", "theirs")
    committed(other, "a.txt")
    elsewhere = clones.opened("laptop", other)
    elsewhere.session(begun.id).resume(force=True)
    elsewhere.session(begun.id).pause()
    assert notes(elsewhere, begun) == 0


def test_never_of_a_work_tree_that_is_at_another_session(clones: Clones, tmp_path: Path) -> None:
    """What is said of a session from beside it is not where its work is."""
    begun = clones.laptop.start("Build the shop")
    beside = tmp_path / "beside"
    git_at(clones.here, "worktree", "add", "-q", "-b", "side", str(beside))
    with clones.opened("laptop", beside) as keeper:
        keeper.session(begun.id).pause()
        assert notes(keeper, begun) == 0


def test_git_position_is_no_sign_of_activity(clones: Clones) -> None:
    """Where the work is adds no time to it."""
    from holdfast.core.events import TYPE_OF

    assert not TYPE_OF[GitPositionNoted].is_activity


def test_a_name_that_is_none_is_not_noted(clones: Clones) -> None:
    """Whoever planted control characters in HEAD gets them into nobody's log."""
    begun = clones.laptop.start("Build the shop")
    (clones.here / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[31mred\n")
    begun.pause()
    assert notes(clones.laptop, begun) == 0


def test_a_session_with_a_branch_of_its_own(clones: Clones) -> None:
    """Before anything is noted, it is on the branch it was given, not on the one it came from."""
    begun = clones.laptop.start("Build the shop", branch=True)
    carry(clones.laptop, clones.desktop)
    name = begun.document().branch
    assert [difference.fix for difference in ground(clones.desktop.session(begun.id))] == [
        f"git fetch && git switch {name}"
    ]
    begun.save()
    assert begun.document().project.git_branch == name


def test_hooks_note_the_git_position(tmp_path: Path) -> None:
    """What an agent did in git is noted when its hooks are heard, once, without moving the session's time."""
    agents = Speaking(tmp_path)
    git_at(agents.project, "init", "-q", "-b", "main")
    committed(agents.project, "README.md")
    agents.prompt("Add OAuth")
    assert "ground.noted" not in agents.types()
    git_at(agents.project, "switch", "-q", "-c", "feat")
    tip = committed(agents.project, "oauth.py")
    for number in range(2):
        agents.minute += 1
        command = {"command": "git commit"}
        agents.say("PostToolUse", tool_name="Bash", tool_use_id=f"u{number}", tool_input=command)
        session = agents.session()
    assert agents.types().count("ground.noted") == 1
    assert (session.project.git_branch, session.project.git_commit) == ("feat", tip)
    assert session.updated_at.endswith(":00.000Z")
