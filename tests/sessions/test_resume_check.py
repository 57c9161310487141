"""Resuming a session that another device worked on: differences are reported, and unsafe ones refused."""

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


def left_on_laptop(devices: Devices, *files: str) -> SessionHandle:
    """A session that the laptop worked on, as the desktop receives it."""
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


def differences(session: SessionHandle, *, force: bool = False) -> dict[str, ResumeDifference]:
    return {difference.what: difference for difference in session.resume(force=force).differences}


def refused(session: SessionHandle) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        session.resume()
    assert caught.value.exit_code == 1
    return caught.value.message, caught.value.hint or ""


def test_resume_reports_no_difference_when_the_project_is_as_it_was_left(devices: Devices) -> None:
    """Same repository, branch, commit and files: the session becomes current."""
    session = left_on_laptop(devices)
    assert differences(session) == {}
    current = devices.desktop.current()
    assert current is not None
    assert current.id == session.id
    assert session.document().devices == ["desktop", "laptop"]


def test_resume_is_refused_in_another_project(devices: Devices, tmp_path: Path) -> None:
    """The hint names the repository to clone and how to continue there."""
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
    assert differences(keeper.session(begun.id), force=True)["project"].blocking


def test_resume_is_refused_when_the_commit_is_missing(devices: Devices) -> None:
    """It exists only on the other device."""
    missing = commit(devices.here, "later.txt")
    session = left_on_laptop(devices)
    message, hint = refused(session)
    assert missing[:10] in message
    assert "commit: git pull --ff-only origin main" in hint
    git_at(devices.here, "switch", "-q", "--detach")
    wanted = commit(devices.here, "later still.txt")
    devices.laptop.session(session.id).pause()
    devices.meet()
    assert f"git fetch && git checkout {wanted[:10]}" in refused(session)[1]


def test_resume_is_refused_when_the_tree_is_behind_the_commit(devices: Devices) -> None:
    """One command checks it out."""
    wanted = commit(devices.here, "later.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here))
    session = left_on_laptop(devices)
    message, hint = refused(session)
    assert "behind" in message
    assert f"git merge --ff-only {wanted[:10]}" in hint
    git_at(devices.there, "merge", "-q", "--ff-only", wanted)
    assert differences(session) == {}


def test_hint_switches_to_the_branch_that_contains_the_commit(devices: Devices) -> None:
    git_at(devices.here, "switch", "-q", "-c", "feature")
    commit(devices.here, "later.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here), "feature:feature")
    session = left_on_laptop(devices)
    _, hint = refused(session)
    assert "commit: git switch feature" in hint
    git_at(devices.there, "switch", "-q", "feature")
    assert differences(session) == {}


def test_resume_is_refused_when_the_tree_has_diverged(devices: Devices) -> None:
    """Both sides have to be merged."""
    wanted = commit(devices.here, "one.txt")
    git_at(devices.there, "fetch", "-q", str(devices.here))
    commit(devices.there, "two.txt")
    session = left_on_laptop(devices)
    message, hint = refused(session)
    assert "does not contain commit" in message
    assert f"git merge {wanted[:10]}" in hint
    git_at(devices.there, "merge", "-q", wanted)
    assert not differences(session)["commit"].blocking


def test_resume_reports_a_tree_that_is_ahead_without_a_fix(devices: Devices) -> None:
    """Later commits take nothing away from the session."""
    session = left_on_laptop(devices)
    commit(devices.there, "more.txt")
    reported = differences(session)
    assert list(reported) == ["commit"]
    assert (reported["commit"].fix, reported["commit"].blocking) == (None, False)


def test_resume_reports_another_branch_at_the_same_commit(devices: Devices) -> None:
    """The session continues, and the command to switch is shown."""
    git_at(devices.here, "switch", "-q", "-c", "feature")
    reported = differences(left_on_laptop(devices))
    assert reported == {"branch": ResumeDifference(
        "branch", "the session is on branch feature, but main is checked out here", "git fetch && git switch feature",
        blocking=False,
    )}  # fmt: skip


def test_resume_reports_uncommitted_changes(devices: Devices) -> None:
    """The session continues, and the command to stash them is shown."""
    session = left_on_laptop(devices)
    (devices.there / "scratch.txt").write_text("x")
    reported = differences(session)
    assert (reported["dirty"].fix, reported["dirty"].blocking) == ("git stash --include-untracked", False)
    assert "scratch.txt" in reported["dirty"].detail


def test_resume_is_refused_when_files_differ(devices: Devices) -> None:
    """Contents are not synced, so an agent would work on the wrong files."""
    session = left_on_laptop(devices, "a.py", "b.py")
    message, hint = refused(session)
    assert "a.py, b.py" in message
    assert "push them on laptop" in hint
    (devices.there / "a.py").write_text("made there\n")
    (devices.there / "b.py").write_text("something else\n")
    message, _ = refused(session)
    assert "a.py" not in message
    assert "b.py" in message
    (devices.there / "b.py").write_text("made there\n")
    assert differences(session) == {}


def test_forced_resume_reports_differences(devices: Devices) -> None:
    """All of them, the most important first."""
    session = left_on_laptop(devices, "a.py")
    reported = differences(session, force=True)
    assert reported["files"].blocking
    assert session.document().status == "in_progress"


def test_resume_is_never_refused_on_the_device_that_worked_last(devices: Devices) -> None:
    """After a crash on the same device, the files show what is missing."""
    begun = devices.laptop.start("Build the shop")
    (devices.here / "a.py").write_text("x")
    begun.changed("a.py", "created")
    (devices.here / "a.py").unlink()
    resumed = begun.resume()
    assert resumed.differences == ()
    assert [file.landing for file in resumed.files] == ["not landed"]


def test_session_belongs_to_this_device_once_it_was_resumed_here(devices: Devices) -> None:
    """After one forced resume, until another device works on it."""
    session = left_on_laptop(devices, "a.py")
    session.resume(force=True)
    assert session.resume().differences == ()
    devices.meet()
    devices.laptop.session(session.id).note("back on the laptop")
    devices.meet()
    refused(session)


def test_resume_reports_a_missing_agent_program(devices: Devices, tmp_path: Path) -> None:
    """Its conversation cannot be reopened; the fix says what to install."""
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
    (reported,) = devices.desktop.session(begun.id).resume().differences
    assert (reported.what, reported.blocking) == ("program", False)
    assert "Claude Code" in reported.detail
    assert "claude" in (reported.fix or "")


def test_commands_of_differences_contain_no_invalid_branch_or_commit(devices: Devices) -> None:
    """The person may paste them into a shell."""
    begun = devices.laptop.start("Build the shop")
    devices.laptop.recorder.record(begun.id, lambda _: [SessionEdited(branch="--upload-pack=touch x;")])
    carry(devices.laptop, devices.desktop)
    assert differences(devices.desktop.session(begun.id)) == {}


# ── resuming a device's side ─────────────────────────────────────────────────────────────────────────────


def conflicting_session(devices: Devices) -> tuple[SessionHandle, SessionHandle]:
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
def test_resume_of_a_devices_side_chooses_its_values(devices: Devices, device: str, goal: str) -> None:
    """On both devices, wherever they disagree."""
    here, there = conflicting_session(devices)
    here.resume(device=device)
    devices.meet()
    for session in (here, there):
        document = session.document()
        assert (document.goal, document.mode, document.status) == (goal, "debug", "in_progress")
        assert all(conflict.chosen is not None for conflict in document.conflicts)


def test_resume_of_this_devices_side_chooses_its_pause_over_an_ending(devices: Devices) -> None:
    """The other device completed the session."""
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


def test_resume_of_an_unknown_devices_side_names_the_known_ones(devices: Devices) -> None:
    session = left_on_laptop(devices)
    with pytest.raises(NotFound) as caught:
        session.resume(device="phone")
    assert "laptop" in (caught.value.hint or "")


def test_latest_session_of_a_device_is_the_unfinished_one_it_wrote_last(devices: Devices) -> None:
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
    assert unfinished_by(devices.laptop, "desktop") == theirs.id  # archived sessions sort last


def test_resume_compares_only_files_without_git(tmp_path: Path) -> None:
    """The hint says which to copy."""
    devices = Devices(tmp_path)
    begun = devices.laptop.start("Write")
    (devices.here / "a.txt").write_text("x")
    begun.changed("a.txt", "created")
    carry(devices.laptop, devices.desktop)
    session = devices.desktop.session(begun.id)
    _, hint = refused(session)
    assert "copy them from laptop" in hint
    (devices.there / "a.txt").write_text("x")
    assert differences(session) == {}


def test_former_writer_of_this_device_is_not_another_device(devices: Devices) -> None:
    """After a repair, or after getting keys, the device is a new writer."""
    begun = devices.laptop.start("Build the shop")
    (devices.here / "a.py").write_text("x")
    begun.changed("a.py", "created")
    devices.laptop.close()
    (devices.root / "laptop" / "home" / "writer.json").unlink()
    (devices.here / "a.py").unlink()
    again = devices.opened("laptop", devices.here).session(begun.id)
    assert again.resume().differences == ()
    assert len(again.state().heads) == 2


def test_writer_certified_by_other_keys_is_another_device(devices: Devices) -> None:
    """Whatever its name."""
    from holdfast.sessions.resume_check import left_by_another

    begun = devices.laptop.start("Build the shop")
    state = begun.state()
    state.last_writer = "ab" * 18
    state.devices[state.last_writer] = "laptop"
    assert left_by_another(devices.laptop, state)
