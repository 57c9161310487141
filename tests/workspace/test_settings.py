"""Settings that cannot be read: work goes on, they are named, and nothing leaves by itself meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Invalid
from holdfast.sync import open_vault
from holdfast.workspace.settings import BY_NAME, SETTINGS, Settings, load

BROKEN = "[[["
OUTWARD = ["sync.background", "capture.briefing", "capture.notify"]


class Files:
    """A home's settings and a project's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config, self.project = root / "config.toml", root / "project"
        self.project.mkdir()
        self.shared = self.project / ".holdfast.toml"

    def load(self) -> Settings:
        return load(str(self.config), str(self.project))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_settings_are_the_defaults_when_no_file_can_be_read(files: Files) -> None:
    """All but those that let something out: of these nobody knows whether the person switched them off."""
    files.config.write_text(BROKEN)
    files.shared.write_text(BROKEN)
    found = files.load()
    assert [problem.file for problem in found.problems] == [str(files.config), str(files.shared)]
    for setting in SETTINGS:
        expected = False if setting.name in OUTWARD else setting.default
        assert found[setting.name] == expected, setting.name


def test_settings_of_the_home_hold_when_those_of_the_project_cannot_be_read(files: Files) -> None:
    """A repository cannot undo what a person chose by breaking its file; it may stop what it could switch off."""
    files.config.write_text("[timer]\nidle_minutes = 3\n[sync]\nbackground = true\n[capture]\nbriefing = true\n")
    files.shared.write_text(BROKEN)
    found = files.load()
    assert (found["timer.idle_minutes"], found["sync.background"], found["capture.briefing"]) == (3, True, False)


def test_one_wrong_value_hides_only_its_setting(files: Files) -> None:
    """The others in the file hold; the wrong one is closed if it lets something out, else as without it."""
    files.config.write_text("[sync]\nbackground = 'no'\n[history]\nlimit = 7\narchive_after_days = -1\n")
    found = files.load()
    assert (found["sync.background"], found["history.limit"]) == (False, 7)
    assert found["history.archive_after_days"] == BY_NAME["history.archive_after_days"].default
    assert len(found.problems) == 2


def test_a_readable_value_of_the_project_holds_when_the_home_cannot_be_read(files: Files) -> None:
    """It stands over the home's in any case, but for what lets something out: that it can only close."""
    files.config.write_text(BROKEN)
    files.shared.write_text("[capture]\nbriefing = true\n[timer]\nidle_minutes = 4\n")
    found = files.load()
    assert (found["capture.briefing"], found["timer.idle_minutes"], found["sync.background"]) == (False, 4, False)


def test_keys_are_not_made_while_it_is_not_known_where_they_belong(files: Files) -> None:
    """Somebody who chose the keyring must not find secret keys in a file."""
    home = files.root / "home"
    home.mkdir()
    (home / "config.toml").write_text('[device]\nkeys = "keyring"\nbroken')
    with Keeper.open(str(files.project), home=str(home)) as keeper:
        keeper.start("G")
        with pytest.raises(Invalid, match="cannot be read"):
            open_vault.new_keys(keeper)
        assert not (home / "device.json").exists()


def test_a_link_out_of_the_project_is_not_read_as_its_settings(files: Files) -> None:
    """A repository must not choose among the files of a person."""
    (files.root / "other.toml").write_text("[timer]\nidle_minutes = 3\n")
    files.shared.symlink_to("../other.toml")
    found = files.load()
    assert found["timer.idle_minutes"] == 5
    assert "leads out of the project" in found.problems[0].message


def test_project_switches_the_briefing_off_and_never_on(files: Files) -> None:
    """What a repository brings must not hand a record to an agent that the person keeps it from."""
    files.config.write_text("[capture]\nbriefing = false\n")
    files.shared.write_text("[capture]\nbriefing = true\n")
    assert files.load()["capture.briefing"] is False
    files.config.write_text("")
    files.shared.write_text("[capture]\nbriefing = false\n")
    assert files.load()["capture.briefing"] is False
