"""The ground under a session that another device left: what differs is told, what is unsafe is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import NotFound, Refused
from holdfast.core.events import NativeLinked, SessionEdited
from holdfast.keeper.session import SessionHandle
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.followers import ResumeDifference
from tests.support.two_devices import Devices, carry, git_at


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path, git=True)


def left(devices: Devices, *files: str) -> SessionHandle:
    """A session that the laptop worked on, as the desktop gets it."""
    begun = devices.laptop.start("Build the shop")
    for name in files:
        (devices.here / name).write_text("made there\n")
        begun.changed(name, "created")
    carry(devices.laptop, devices.desktop)
    return devices.desktop.session(begun.id)


def commit(place: Path, name: str, words: str = "x\n") -> str:
    (place / name).write_text(words)
    git_at(place, "add", ".")
    git_at(place, "commit", "-q", "-m", name)
    return git_at(place, "rev-parse", "HEAD")


def told(session: SessionHandle, *, force: bool = False) -> dict[str, ResumeDifference]:
    return {difference.what: difference for difference in session.resume(force=force).differences}


def refused(session: SessionHandle) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        session.resume()
    assert caught.value.exit_code == 1
    return caught.value.message, caught.value.hint or ""


def test_resume_reports_no_difference_when_the_project_is_as_it_was_left(devices: Devices) -> None:
    """The same repository, branch, commit and files: it just goes on, and is current here."""
    session = left(devices)
    assert told(session) == {}
    current = devices.desktop.current()
    assert current is not None
    assert current.id == session.id
    assert session.document().devices == ["desktop", "laptop"]


def test_another_project_is_refused_with_the_way_there(devices: Devices, tmp_path: Path) -> None:
    """A directory of something else: the repository to clone is named, and how to go on from there."""
    begun = devices.laptop.start("Build the shop")
    other = tmp_path / "other"
    other.mkdir()
    git_at(other, "init", "-q")
    keeper = devices.opened("desktop", other)
    carry(devices.laptop, keeper)
    before = len(keeper.events(begun.id))
    message, hint = refused(keeper.session(begun.id))
    assert "another project" in message
    assert f"git clone https://example.org/shop && holdfast resume {begun.id[:8]} --project shop" in hint
    assert f"holdfast resume {begun.id[:8]} --force" in hint
    assert len(keeper.events(begun.id)) == before
    assert keeper.current() is None
    assert told(keeper.session(begun.id), force=True)["project"].blocking


def test_a_commit_that_is_not_here_is_refused(devices: Devices) -> None:
    """The session began on a commit this clone has never heard of."""
    missing = commit(devices.here, "later.txt")
    session = left(devices)
    message, hint = refused(session)
    assert missing[:10] in message
    assert "commit: git pull --ff-only origin main" in hint
    git_at(devices.here, "switch", "-q", "--detach")
    wanted = commit(devices.here, "later still.txt")
    devices.laptop.session(session.id).pause()
    devices.meet()
    assert f"git fetch && git checkout {wanted[:10]}" in refused(session)[1]


def test_a_tree_behind_the_commit_is_refused(devices: Devices) -> None:
    """The commit is known here, and not checked out: one command brings it."""
    wanted = commit(devices.here, "later.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here))
    session = left(devices)
    message, hint = refused(session)
    assert "behind" in message
    assert f"git merge --ff-only {wanted[:10]}" in hint
    git_at(devices.there, "merge", "-q", "--ff-only", wanted)
    assert told(session) == {}


def test_a_branch_that_holds_the_commit_is_the_mending(devices: Devices) -> None:
    """It is on another branch here: switching is enough."""
    git_at(devices.here, "switch", "-q", "-c", "feature")
    commit(devices.here, "later.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here), "feature:feature")
    session = left(devices)
    _, hint = refused(session)
    assert "commit: git switch feature" in hint
    git_at(devices.there, "switch", "-q", "feature")
    assert told(session) == {}


def test_a_tree_that_went_another_way_is_refused(devices: Devices) -> None:
    """Neither ahead nor behind: the two ways are to be united."""
    wanted = commit(devices.here, "one.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here))
    commit(devices.there, "two.txt")
    session = left(devices)
    message, hint = refused(session)
    assert "without commit" in message
    assert f"git merge {wanted[:10]}" in hint
    git_at(devices.there, "merge", "-q", wanted)
    assert not told(session)["commit"].blocking


def test_a_tree_further_on_is_fine(devices: Devices) -> None:
    """Commits that came after the session began take nothing away from it: told, and nothing is to be done."""
    session = left(devices)
    commit(devices.there, "more.txt")
    found = told(session)
    assert list(found) == ["commit"]
    assert (found["commit"].fix, found["commit"].blocking) == (None, False)


def test_resume_reports_another_branch_at_the_same_commit(devices: Devices) -> None:
    """A smaller matter: the session goes on, and the command is there."""
    git_at(devices.here, "switch", "-q", "-c", "feature")
    found = told(left(devices))
    assert found == {"branch": ResumeDifference(
        "branch", "the session is on branch feature, but main is checked out here", "git fetch && git switch feature",
        blocking=False,
    )}  # fmt: skip


def test_resume_reports_uncommitted_changes(devices: Devices) -> None:
    """Other work lies about: it goes on, and says how to put that aside."""
    session = left(devices)
    (devices.there / "scratch.txt").write_text("x")
    found = told(session)
    assert (found["dirty"].fix, found["dirty"].blocking) == ("git stash --include-untracked", False)
    assert "scratch.txt" in found["dirty"].detail


def test_files_that_are_not_as_they_were_left_are_refused(devices: Devices) -> None:
    """Contents do not travel: where the session's files are missing or other, an agent would build on sand."""
    session = left(devices, "a.py", "b.py")
    message, hint = refused(session)
    assert "a.py, b.py" in message
    assert "push them on laptop" in hint
    (devices.there / "a.py").write_text("made there\n")
    (devices.there / "b.py").write_text("something else\n")
    message, _ = refused(session)
    assert "a.py" not in message
    assert "b.py" in message
    (devices.there / "b.py").write_text("made there\n")
    assert told(session) == {}


def test_forced_resume_reports_differences(devices: Devices) -> None:
    """Everything is still told, in order of weight for whoever reads it."""
    session = left(devices, "a.py")
    found = told(session, force=True)
    assert found["files"].blocking
    assert session.document().status == "in_progress"


def test_resume_is_never_refused_on_the_device_that_worked_last(devices: Devices) -> None:
    """After a crash on the same machine the ground is its own: what is missing is told by the files."""
    begun = devices.laptop.start("Build the shop")
    (devices.here / "a.py").write_text("x")
    begun.changed("a.py", "created")
    (devices.here / "a.py").unlink()
    resumed = begun.resume()
    assert resumed.differences == ()
    assert [file.landing for file in resumed.files] == ["not landed"]


def test_session_belongs_to_this_device_once_it_was_resumed_here(devices: Devices) -> None:
    """Forced once, the session is this device's own; it is looked at again when the other was at work."""
    session = left(devices, "a.py")
    session.resume(force=True)
    assert session.resume().differences == ()
    devices.meet()
    devices.laptop.session(session.id).note("back on the laptop")
    devices.meet()
    refused(session)


def test_programs_of_its_conversations_are_looked_for(devices: Devices, tmp_path: Path) -> None:
    """A conversation with a program that is not here cannot be reopened: told, with what to install."""
    begun = devices.laptop.start("Build the shop")
    talks = [
        NativeLinked(agent="claude", id="1"),
        NativeLinked(agent="codex", id="2"),
        NativeLinked(agent="x", id="3"),
    ]
    devices.laptop.recorder.record(begun.id, lambda _: talks)
    carry(devices.laptop, devices.desktop)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    devices.desktop.agent_dirs = AgentDirs(str(tmp_path), str(devices.there), {"PATH": str(programs)})
    (found,) = devices.desktop.session(begun.id).resume().differences
    assert (found.what, found.blocking) == ("program", False)
    assert "Claude Code" in found.detail
    assert "claude" in (found.fix or "")


def test_commands_of_differences_hold_no_foreign_text(devices: Devices) -> None:
    """A branch or commit that is none is left out of what a person may copy into a shell."""
    begun = devices.laptop.start("Build the shop")
    devices.laptop.recorder.record(begun.id, lambda _: [SessionEdited(branch="--upload-pack=touch x;")])
    carry(devices.laptop, devices.desktop)
    assert told(devices.desktop.session(begun.id)) == {}


# ── the session as a device left it ──────────────────────────────────────────────────────────────────────


def disagreeing(devices: Devices) -> tuple[SessionHandle, SessionHandle]:
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.edit(goal="Ship on Friday")
    there.edit(goal="Ship on Monday")
    there.pause("lunch")
    begun.edit(mode="debug")
    devices.meet()
    return begun, there


@pytest.mark.parametrize(("device", "goal"), [("laptop", "Ship on Friday"), ("desktop", "Ship on Monday")])
def test_going_on_as_a_device_left_it(devices: Devices, device: str, goal: str) -> None:
    """Its values are chosen wherever devices disagree, and that is so on the other one too."""
    here, there = disagreeing(devices)
    here.resume(device=device)
    devices.meet()
    for session in (here, there):
        document = session.document()
        assert (document.goal, document.mode, document.status) == (goal, "debug", "in_progress")
        assert all(conflict.chosen is not None for conflict in document.conflicts)


def test_going_on_where_the_other_device_had_ended_it(devices: Devices) -> None:
    """Completed elsewhere while this device paused: going on as this device left it takes the pause."""
    begun = devices.laptop.start("Build the shop")
    devices.meet()
    there = devices.desktop.session(begun.id)
    begun.complete()
    there.pause()
    devices.meet()
    with pytest.raises(Refused):
        there.resume()
    with pytest.raises(Refused):
        there.resume(device="laptop")
    assert [conflict.chosen for conflict in there.document().conflicts] == [None]
    there.resume(device="desktop")
    assert there.document().status == "in_progress"


def test_a_device_that_never_worked_on_it(devices: Devices) -> None:
    """It is not found, and those that did are named."""
    session = left(devices)
    with pytest.raises(NotFound) as caught:
        session.resume(device="phone")
    assert "laptop" in (caught.value.hint or "")


def test_the_latest_session_of_a_device(devices: Devices) -> None:
    """Of all unfinished ones of the project, the last that this device wrote to."""
    from holdfast.sessions.history import unfinished_by

    old = devices.laptop.start("Old")
    new = devices.laptop.start("New", replace=True)
    devices.laptop.start("Done", replace=True).complete()
    theirs = devices.desktop.start("Theirs")
    devices.meet()
    for keeper in (devices.laptop, devices.desktop):
        assert unfinished_by(keeper, "laptop") == new.id
        assert unfinished_by(keeper, "desktop") == theirs.id
        assert unfinished_by(keeper, "phone") is None
    devices.desktop.session(old.id).note("x")
    devices.meet()
    assert unfinished_by(devices.laptop, "desktop") == theirs.id  # what is archived comes last


def test_without_git_files_alone_tell(tmp_path: Path) -> None:
    """A plain directory: files that are missing are to be copied."""
    devices = Devices(tmp_path)
    begun = devices.laptop.start("Write")
    (devices.here / "a.txt").write_text("x")
    begun.changed("a.txt", "created")
    carry(devices.laptop, devices.desktop)
    session = devices.desktop.session(begun.id)
    _, hint = refused(session)
    assert "copy them from laptop" in hint
    (devices.there / "a.txt").write_text("x")
    assert told(session) == {}


def test_an_earlier_life_of_this_device_is_no_other(devices: Devices) -> None:
    """The store was repaired or the device got keys, and goes on as a new writer: the ground is still its own."""
    begun = devices.laptop.start("Build the shop")
    (devices.here / "a.py").write_text("x")
    begun.changed("a.py", "created")
    devices.laptop.close()
    (devices.root / "laptop" / "home" / "writer.json").unlink()
    (devices.here / "a.py").unlink()
    again = devices.opened("laptop", devices.here).session(begun.id)
    assert again.resume().differences == ()
    assert len(again.state().heads) == 2


def test_a_life_that_other_keys_vouch_for_is_another_device(devices: Devices) -> None:
    """Whatever it is called: a certified writer is this device's only if its keys say so."""
    from holdfast.sessions.resume_check import left_by_another

    begun = devices.laptop.start("Build the shop")
    state = begun.state()
    state.last_writer = "ab" * 18
    state.devices[state.last_writer] = "laptop"
    assert left_by_another(devices.laptop, state)
