"""The git position: noted when the work changes place, and compared with the work tree on resume."""

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
from tests.support.agent_hooks import AgentHooks
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
        """Begun on main; then the laptop switches to a branch, commits and records the file."""
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


def printed_command(session: SessionHandle) -> str:
    """The git command that a refusal prints."""
    with pytest.raises(Refused) as caught:
        session.resume()
    lines = (caught.value.hint or "").splitlines()
    assert lines[-1].startswith("Or resume anyway")
    (line,) = lines[:-1]
    what, _, command = line.partition(": ")
    return command if what == "commit" else line


def run(command: str, where: Path) -> None:
    """As the person would, after copying it."""
    env = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "HOME": str(where), "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@example.org",
        "GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@example.org", "GIT_EDITOR": ":",
    }  # fmt: skip
    done = subprocess.run(["sh", "-c", command], cwd=where, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def notes(keeper: Keeper, session: SessionHandle) -> int:
    return sum(event.type == "ground.noted" for event in keeper.events(session.id))


def differences(session: SessionHandle) -> tuple[ResumeDifference, ...]:
    return session.resume().differences


# ── printed commands ─────────────────────────────────────────────────────────────────────────────────────


def test_command_fetches_and_switches_to_an_unknown_branch(clones: Clones) -> None:
    """The branch was made after the start; the other device is on main."""
    session = clones.feature()
    command = printed_command(session)
    assert command == "git fetch && git switch feat"
    run(command, clones.there)
    assert differences(session) == ()
    assert (clones.there / "new.txt").exists()


def test_resume_reports_nothing_when_the_branch_is_checked_out(clones: Clones) -> None:
    session = clones.feature()
    git_at(clones.there, "fetch", "-q")
    git_at(clones.there, "switch", "-q", "feat")
    assert differences(session) == ()


def test_command_switches_to_a_known_branch(clones: Clones) -> None:
    session = clones.feature()
    git_at(clones.there, "fetch", "-q", "origin", "feat:feat")
    assert printed_command(session) == "git switch feat"
    run(printed_command(session), clones.there)
    assert differences(session) == ()


def test_command_switches_and_pulls_a_known_branch_that_is_behind(clones: Clones) -> None:
    session = clones.feature()
    run(printed_command(session), clones.there)
    git_at(clones.there, "switch", "-q", "main")
    committed(clones.here, "more.txt")
    git_at(clones.here, "push", "-q")
    clones.laptop.session(session.id).pause()
    clones.meet()
    assert printed_command(session) == "git switch feat && git pull --ff-only"
    git_at(clones.there, "fetch", "-q")
    assert printed_command(session) == "git switch feat && git pull --ff-only"
    run(printed_command(session), clones.there)
    assert differences(session) == ()


def test_command_pulls_when_the_current_branch_is_behind(clones: Clones) -> None:
    """Fetched before or not."""
    begun = clones.laptop.start("Build the shop")
    committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.save()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed_command(session) == "git pull --ff-only"
    git_at(clones.there, "fetch", "-q")
    assert printed_command(session) == "git pull --ff-only"
    run(printed_command(session), clones.there)
    assert differences(session) == ()


def test_command_names_the_remote_when_the_branch_has_no_upstream(clones: Clones) -> None:
    git_at(clones.there, "branch", "-q", "--unset-upstream", "main")
    begun = clones.laptop.start("Build the shop")
    committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed_command(session) == "git pull --ff-only origin main"
    run(printed_command(session), clones.there)
    assert differences(session) == ()


def test_command_merges_when_both_sides_have_new_commits(clones: Clones) -> None:
    begun = clones.laptop.start("Build the shop")
    wanted = committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "main")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    committed(clones.there, "two.txt")
    git_at(clones.there, "fetch", "-q")
    session = clones.desktop.session(begun.id)
    assert printed_command(session) == f"git merge {wanted[:10]}"
    run(printed_command(session), clones.there)
    assert [(difference.what, difference.fix, difference.blocking) for difference in differences(session)] == [
        ("commit", None, False)
    ]


def test_command_checks_out_a_detached_commit(clones: Clones) -> None:
    begun = clones.laptop.start("Build the shop")
    git_at(clones.here, "switch", "-q", "--detach")
    wanted = committed(clones.here, "one.txt")
    git_at(clones.here, "push", "-q", "origin", "HEAD:refs/heads/kept")
    begun.pause()
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    assert printed_command(session) == f"git fetch && git checkout {wanted[:10]}"
    run(printed_command(session), clones.there)
    assert differences(session) == ()


def test_command_points_to_the_work_tree_that_has_the_branch(clones: Clones) -> None:
    """Git would refuse to switch."""
    session = clones.feature()
    git_at(clones.there, "fetch", "-q")
    other_tree = clones.there.parent / "beside"
    git_at(clones.there, "worktree", "add", "-q", str(other_tree), "feat")
    assert printed_command(session) == f"holdfast resume {session.id[:8]} --project {other_tree}"
    assert clones.opened("desktop", other_tree).session(session.id).resume().differences == ()


def test_hint_says_how_to_bring_uncommitted_files(clones: Clones) -> None:
    """On the other device, and then on this one; the printed commands work."""
    begun = clones.laptop.start("Build the shop")
    git_at(clones.here, "switch", "-q", "-c", "feat")
    (clones.here / "new.txt").write_text("x\n")
    begun.changed("new.txt", "created")
    carry(clones.laptop, clones.desktop)
    session = clones.desktop.session(begun.id)
    hint = printed_command(session)
    assert hint == "files: commit and push them on laptop, then here: git fetch && git switch feat"
    committed(clones.here, "new.txt")
    git_at(clones.here, "push", "-q", "origin", "feat")
    run(hint.partition("then here: ")[2], clones.there)
    assert not any(difference.blocking for difference in differences(session))


def test_resume_asks_for_a_commit_that_was_not_pushed(clones: Clones) -> None:
    """No command on this device can bring it."""
    session = clones.feature(push=False)
    with pytest.raises(Refused, match="was it pushed"):
        session.resume()


def test_difference_names_the_device_that_noted_the_position(clones: Clones) -> None:
    """Not the one that wrote last."""
    session = clones.feature()
    with pytest.raises(Refused, match="on which laptop left the session"):
        session.resume()


# ── noting the position ──────────────────────────────────────────────────────────────────────────────────


def test_git_position_is_not_noted_again_while_it_is_the_same(clones: Clones) -> None:
    begun = clones.laptop.start("Build the shop")
    begun.agent("a-1", type="coder").done()
    begun.decide("SQLite")
    begun.pause()
    begun.resume()
    begun.complete()
    assert notes(clones.laptop, begun) == 0


@pytest.mark.parametrize("verb", ["pause", "save", "complete", "abort", "resume", "agent", "decide", "changed"])
def test_git_position_is_noted_when_others_may_follow(clones: Clones, verb: str) -> None:
    """Once, before the event itself; the document then has the current branch and commit."""
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


def test_git_position_is_noted_when_a_forced_resume_moves_the_work(clones: Clones) -> None:
    """Also for the device it came from."""
    session = clones.feature()
    session.resume(force=True)
    clones.meet()
    assert clones.laptop.session(session.id).document().project.git_branch == "main"
    (reported,) = differences(clones.laptop.session(session.id))
    assert (reported.what, reported.fix, reported.blocking) == ("branch", "git switch main", False)


def test_git_position_of_another_project_is_not_noted(clones: Clones, tmp_path: Path) -> None:
    """After a resume forced in another repository."""
    begun = clones.laptop.start("Build the shop")
    other = tmp_path / "other"
    other.mkdir()
    git_at(other, "init", "-q", "-b", "theirs")
    committed(other, "a.txt")
    elsewhere = clones.opened("laptop", other)
    elsewhere.session(begun.id).resume(force=True)
    elsewhere.session(begun.id).pause()
    assert notes(elsewhere, begun) == 0


def test_git_position_of_another_sessions_work_tree_is_not_noted(clones: Clones, tmp_path: Path) -> None:
    begun = clones.laptop.start("Build the shop")
    other_tree = tmp_path / "beside"
    git_at(clones.here, "worktree", "add", "-q", "-b", "side", str(other_tree))
    with clones.opened("laptop", other_tree) as keeper:
        keeper.session(begun.id).pause()
        assert notes(keeper, begun) == 0


def test_git_position_is_not_activity(clones: Clones) -> None:
    from holdfast.core.events import TYPE_OF

    assert not TYPE_OF[GitPositionNoted].is_activity


def test_invalid_branch_name_is_not_noted(clones: Clones) -> None:
    """Control characters planted in HEAD must not enter the log."""
    begun = clones.laptop.start("Build the shop")
    (clones.here / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[31mred\n")
    begun.pause()
    assert notes(clones.laptop, begun) == 0


def test_session_with_its_own_branch_is_on_that_branch_before_anything_is_noted(clones: Clones) -> None:
    begun = clones.laptop.start("Build the shop", branch=True)
    carry(clones.laptop, clones.desktop)
    name = begun.document().branch
    assert [difference.fix for difference in differences(clones.desktop.session(begun.id))] == [
        f"git fetch && git switch {name}"
    ]
    begun.save()
    assert begun.document().project.git_branch == name


def test_hooks_note_the_git_position(tmp_path: Path) -> None:
    """Once, when they are drained, without changing the session's time."""
    agents = AgentHooks(tmp_path)
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
