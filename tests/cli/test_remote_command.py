"""`remote`: a vault is created, joined, confirmed and left; the first vault seen at an address is pinned."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.several_devices import Several

KEYS = {"name", "url", "vault", "words", "status", "projects", "last_sync", "error"}


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def test_first_device_creates_the_vault_and_the_next_asks_to_join(several: Several) -> None:
    """Both see the vault's words, the second also the command for the other device."""
    spoken = several("remote", "add", "home", several.url)
    assert spoken.code == 0
    assert "Created" in spoken.out
    vault = several.vault
    assert vault in spoken.out
    several.at("desk")
    spoken = several("remote", "add", "work", several.url)
    assert spoken.code == 0
    assert "Asked to join" in spoken.out
    assert vault in spoken.out
    assert f"holdfast device approve {several.words}" in spoken.out


def test_remote_add_json_has_result_remote_and_fingerprint(several: Several) -> None:
    document = several.document("remote", "add", "home", several.url)
    assert (document["what"], document["held"], document["fingerprint"]) == ("founded", 0, several.words)
    assert document["remote"] == several.document("remote", "list")["remotes"][0]


def test_remote_list_json_has_every_field(several: Several) -> None:
    """They change with what happens."""
    assert several.document("remote", "list")["remotes"] == []
    several.create_vault()
    (remote,) = several.document("remote", "list")["remotes"]
    assert set(remote) >= KEYS
    assert (remote["name"], remote["url"], remote["status"]) == ("home", several.url, "member")
    assert (remote["projects"], remote["last_sync"], remote["error"]) == ([], None, None)
    several.sync()
    (remote,) = several.document("remote", "list")["remotes"]
    assert remote["last_sync"].endswith("Z")
    several.away()
    several("sync")
    (remote,) = several.document("remote", "list")["remotes"]
    assert remote["error"]
    assert remote["error"] in several("remote", "list").out
    several.at("desk")
    several.back()
    several("remote", "add", "home", several.url)
    assert several.document("remote", "list")["remotes"][0]["status"] == "pending"


def test_remote_add_refuses_invalid_addresses_and_names(several: Several) -> None:
    for url in ("", "nowhere", "ftp://example.org/x", "folder:", "git:ext::sh -c id", "folder://host/x"):
        several.refused(4, "remote", "add", "home", url)
    several.refused(4, "remote", "add", "", several.url)
    several.refused(4, "remote", "add", "x" * 61, several.url)
    several.refused(4, "remote", "add", "two\nlines", several.url)
    several.refused(2, "remote", "add", "home")
    several.refused(2, "remote", "add", "home", several.url, "--all-projects", "--this-project")
    assert not several.folder.exists()


def test_remote_add_conflicts_on_a_known_name_or_vault(several: Several) -> None:
    several.create_vault()
    several.refused(5, "remote", "add", "home", f"folder:{several.root}/other")
    several.refused(5, "remote", "add", "again", several.url)
    assert not (several.root / "other").exists()


def test_earlier_sessions_wait_until_the_vault_is_confirmed(several: Several) -> None:
    """New ones are sent at once."""
    several.create_vault()
    several.at("desk")
    earlier = several.session("start", "Private thoughts")["id"]
    spoken = several("remote", "add", "home", several.url)
    assert "holdfast remote confirm home" in spoken.err
    several("remote", "remove", "home")
    document = several.document("remote", "add", "home", several.url)
    assert (document["what"], document["held"]) == ("asked", 1)
    words = several.words
    several.at("laptop")
    vault = several.vault
    several.document("device", "approve", words)
    several.at("desk")
    later = several.session("start", "For all to see", "--replace")["id"]
    several.sync("desk", "laptop")
    several.refused(3, "show", earlier)
    assert several.session("show", later)["goal"] == "For all to see"
    several.at("desk")
    several.refused(1, "remote", "confirm", "home")
    several.refused(1, "remote", "confirm", "home", "0" * 32)
    several.refused(4, "remote", "confirm", "home", "these are no words")
    several.refused(3, "remote", "confirm", "elsewhere", vault)
    assert several.document("remote", "confirm", "home", vault)["released"] == 1
    several.sync("desk", "laptop")
    assert several.session("show", earlier)["goal"] == "Private thoughts"


class Person(io.StringIO):
    """A person at the keyboard who types this."""

    def isatty(self) -> bool:
        return True


def test_vault_is_confirmed_on_a_terminal_by_yes_only(several: Several) -> None:
    several.create_vault()
    vault = several.vault
    several.join("desk")
    for typed, code in (("no\n", 1), ("", 1), ("yes\n", 0)):
        several.patch.setattr("sys.stdin", Person(typed))
        spoken = several("remote", "confirm", "home")
        assert spoken.code == code
        assert vault in spoken.err
    several.patch.setattr("sys.stdin", Person("yes\n"))
    several.refused(1, "remote", "confirm", "home", "0" * 32)


def test_recovery_code_is_asked_for_on_a_terminal(several: Several) -> None:
    """No answer contains it."""
    several.create_vault()
    code = several.document("device", "recovery-code")["recovery_code"]
    several.at("new")
    several.patch.setattr("sys.stdin", Person(f"{code}\n"))
    spoken = several("remote", "add", "home", several.url, "--recover")
    assert spoken.code == 0
    assert "Recovery code:" in spoken.err
    assert "Recovered" in spoken.out
    assert code not in spoken.out + spoken.err


def test_remote_add_with_the_vaults_words_confirms_it(several: Several) -> None:
    """Another vault is refused, and none is created."""
    several.create_vault()
    vault = several.vault
    several.at("desk")
    several.session("start", "Private thoughts")
    several.refused(1, "remote", "add", "home", several.url, "--vault", "0" * 32)
    several.refused(7, "remote", "add", "home", f"folder:{several.root}/other", "--vault", vault)
    (several.root / "empty").mkdir()
    several.refused(3, "remote", "add", "home", f"folder:{several.root}/empty", "--vault", vault)
    assert not os.listdir(several.root / "empty")
    document = several.document("remote", "add", "home", several.url, "--vault", vault)
    assert (document["what"], document["held"]) == ("asked", 0)
    (known,) = several.document("device", "show")["device"]["vaults"]
    assert known["confirmed"] is True


def test_remote_for_this_project_sends_only_its_sessions(several: Several) -> None:
    """Adding it again for all projects sends the others."""
    here = several.session("start", "Of this project")["id"]
    several.git("init", "-q", str(several.root / "other"), where=several.root)
    elsewhere = several.session("start", "Of another", "--project", str(several.root / "other"))["id"]
    document = several.document("remote", "add", "home", several.url, "--this-project")
    assert len(document["remote"]["projects"]) == 1
    several.sync()
    several.join("desk")
    assert several.session("show", here)["goal"] == "Of this project"
    several.refused(3, "show", elsewhere)
    several.at("laptop")
    several("remote", "remove", "home")
    assert several.document("remote", "add", "home", several.url, "--all-projects")["remote"]["projects"] == []
    several.sync("laptop", "desk")
    assert several.session("show", elsewhere)["goal"] == "Of another"


def test_remote_can_be_removed_and_added_again(several: Several) -> None:
    """The remote's content stays, and the device is still a member."""
    several.session("start", "Build the shop")
    several.create_vault()
    several.sync()
    there = sorted(path.name for path in several.folder.rglob("*"))
    spoken = several("remote", "remove", "home")
    assert spoken.code == 0
    assert "stays" in spoken.err
    assert several.document("remote", "list")["remotes"] == []
    assert sorted(path.name for path in several.folder.rglob("*")) == there
    several.refused(3, "remote", "remove", "home")
    several.refused(3, "sync")
    assert several.document("remote", "add", "home", several.url)["what"] == "member"
    assert several.sync()["pushed"] == 0


def test_damaged_list_of_remotes_is_named_and_not_overwritten(several: Several) -> None:
    several.create_vault()
    file = several.root / "home-laptop" / "remotes.json"
    file.write_text("[{")
    several.refused(6, "remote", "list")
    several.refused(6, "sync")
    several.refused(6, "remote", "add", "other", several.url)
    assert file.read_text() == "[{"


@pytest.mark.parametrize("left", ["h", "m"])
def test_remote_add_creates_no_vault_over_the_rest_of_another(several: Several, left: str) -> None:
    """The hint says how to restore it, and works."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    for entry in {"h", "m", "k", "p"} - {left}:
        shutil.rmtree(several.folder / entry)
    (several.folder / "vault").unlink()
    before = sorted(several.folder.rglob("*"))
    several.at("desk")
    error = several.refused(1, "remote", "add", "home", several.url)
    assert "holdfast sync --put-back" in error["hint"]
    assert sorted(several.folder.rglob("*")) == before
    several.at("laptop")
    several.document("sync", "--put-back")
    several.join("desk")
    assert several.session("show", session)["goal"] == "Build the shop"


def test_remote_add_creates_no_vault_when_the_parent_directory_is_missing(several: Several) -> None:
    """As for an unplugged drive; nor in a directory with other files."""
    several.refused(7, "remote", "add", "stick", f"folder:{several.root}/media/stick/holdfast")
    assert not (several.root / "media").exists()
    error = several.refused(1, "remote", "add", "stick", f"folder:{several.root}")
    assert f"folder:{several.root / 'holdfast'}" in error["hint"]
    assert not (several.root / "vault").exists()


def test_missing_git_remote_is_unreachable(several: Several) -> None:
    """With the exit code for that; its local copy is private."""
    several.git("init", "-q", "--bare", str(several.root / "r.git"), where=several.root)
    several.document("remote", "add", "origin", f"git:{several.root / 'r.git'}")
    several.session("start", "Build the shop")
    several.sync()
    modes = next(item for item in several.document("doctor")["checks"] if item["name"] == "modes")
    assert "remotes" not in modes["detail"]
    (several.root / "r.git").rename(several.root / "away.git")
    several.refused(7, "sync")
    (several.root / "r.git").mkdir()
    several.refused(7, "sync")
    several.refused(3, "remote", "add", "other", f"git:{several.root / 'none.git'}")
