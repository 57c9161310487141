"""Settings that cannot be read are named, work continues, and nothing leaves the device meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Invalid
from holdfast.sync import open_vault
from holdfast.workspace.settings import BY_NAME, SETTINGS, Settings, load

UNREADABLE = "[[["
SENDING = ["sync.background", "capture.briefing", "capture.notify"]


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
    """Except those that send data: the person may have switched them off."""
    files.config.write_text(UNREADABLE)
    files.shared.write_text(UNREADABLE)
    settings = files.load()
    assert [problem.file for problem in settings.problems] == [str(files.config), str(files.shared)]
    for setting in SETTINGS:
        expected = False if setting.name in SENDING else setting.default
        assert settings[setting.name] == expected, setting.name


def test_home_settings_apply_when_the_project_settings_are_unreadable(files: Files) -> None:
    """A broken file of a repository cannot undo a person's choice, but may stop what it could switch off."""
    files.config.write_text("[timer]\nidle_minutes = 3\n[sync]\nbackground = true\n[capture]\nbriefing = true\n")
    files.shared.write_text(UNREADABLE)
    settings = files.load()
    assert (settings["timer.idle_minutes"], settings["sync.background"], settings["capture.briefing"]) == (
        3,
        True,
        False,
    )


def test_invalid_value_affects_only_its_own_setting(files: Files) -> None:
    """A setting that sends data is then off; any other has its default."""
    files.config.write_text("[sync]\nbackground = 'no'\n[history]\nlimit = 7\narchive_after_days = -1\n")
    settings = files.load()
    assert (settings["sync.background"], settings["history.limit"]) == (False, 7)
    assert settings["history.archive_after_days"] == BY_NAME["history.archive_after_days"].default
    assert len(settings.problems) == 2


def test_project_settings_apply_when_the_home_settings_are_unreadable(files: Files) -> None:
    """Settings that send data can only be switched off."""
    files.config.write_text(UNREADABLE)
    files.shared.write_text("[capture]\nbriefing = true\n[timer]\nidle_minutes = 4\n")
    settings = files.load()
    assert (settings["capture.briefing"], settings["timer.idle_minutes"], settings["sync.background"]) == (
        False,
        4,
        False,
    )


def test_keys_are_not_created_while_the_keyring_setting_is_unreadable(files: Files) -> None:
    """Secret keys must not go to a file if the keyring was chosen."""
    home = files.root / "home"
    home.mkdir()
    (home / "config.toml").write_text('[device]\nkeys = "keyring"\nbroken')
    with Keeper.open(str(files.project), home=str(home)) as keeper:
        keeper.start("G")
        with pytest.raises(Invalid, match="cannot be read"):
            open_vault.new_keys(keeper)
        assert not (home / "device.json").exists()


def test_project_settings_are_not_read_through_a_link_out_of_it(files: Files) -> None:
    """A repository must not choose among a person's files."""
    (files.root / "other.toml").write_text("[timer]\nidle_minutes = 3\n")
    files.shared.symlink_to("../other.toml")
    settings = files.load()
    assert settings["timer.idle_minutes"] == 5
    assert "leads out of the project" in settings.problems[0].message


def test_project_can_only_switch_the_briefing_off(files: Files) -> None:
    """A repository must not hand a record to an agent that the person keeps it from."""
    files.config.write_text("[capture]\nbriefing = false\n")
    files.shared.write_text("[capture]\nbriefing = true\n")
    assert files.load()["capture.briefing"] is False
    files.config.write_text("")
    files.shared.write_text("[capture]\nbriefing = false\n")
    assert files.load()["capture.briefing"] is False
