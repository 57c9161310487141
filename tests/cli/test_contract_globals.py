"""The contract: global options, environment, directories, settings, and the program as a process."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Calling, at, checked, process


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


# ── global options ───────────────────────────────────────────────────────────────────────────────────────


def test_global_options_work_anywhere(cli: Calling, tmp_path: Path) -> None:
    """Before, within and after the command, with and without an equals sign."""
    cli.session("start", "G", "--at", at(0))
    project = str(cli.project)
    cli.patch.chdir(tmp_path)
    for words in (
        ["--json", "--project", project, "note", "x"],
        ["note", "--project", project, "x", "--json"],
        ["note", "x", "--json", f"--project={project}"],
        ["--no-color", "--quiet", "note", "--json", "--project", project, "x"],
        ["agent", "--project", project, "list", "--json"],
    ):
        out = cli(*words)
        assert out.code == 0, out
        checked(out.out)


def test_words_after_two_dashes_are_no_options(cli: Calling) -> None:
    """A text may begin with a dash."""
    cli.session("start", "G")
    assert cli.session("--json", "note", "--no-color", "--quiet", "--at=23:59", "x")["notes"][-1]["text"] == "x"
    result = cli("--json", "note", "--", "--json")
    assert json.loads(result.out)["session"]["notes"][-1]["text"] == "--json"


def test_quiet_prints_only_results_and_errors(cli: Calling) -> None:
    assert cli("start", "G", "--quiet") == (0, "", "")
    for words in (["note", "x"], ["pause"], ["resume"], ["task", "add", "x"], ["agent", "start", "a", "--type", "t"],
                  ["config", "set", "history.limit", "9"], ["stop"]):  # fmt: skip
        out = cli("--quiet", *words)
        assert (out.code, out.err) == (0, ""), words
        assert out.out == "" or words == ["resume"]
    assert cli("--quiet", "config", "get", "history.limit").out == "9\n"
    assert cli("--quiet", "pause").err.startswith("holdfast: ")


def test_results_go_to_stdout_and_everything_else_to_stderr(cli: Calling) -> None:
    """After an error stdout is empty; without a terminal there is no colour."""
    spoken = cli("start", "G")
    assert "Started" in spoken.out
    assert "\x1b" not in spoken.out + spoken.err
    assert spoken.err == ""
    wrong = cli("pause", "a", "b")
    assert (wrong.code, wrong.out) == (2, "")


def test_version_and_help_exit_0(cli: Calling) -> None:
    """Even when the rest of the command line is wrong."""
    from holdfast import __version__

    assert cli("--version") == (0, f"holdfast {__version__}\n", "")
    for words in ([], ["--help"], ["-h"], ["start", "--help"], ["agent", "--help"], ["agent", "done", "-h"]):
        assert cli(*words).code == 0
        assert cli(*words).out


@pytest.mark.parametrize("words", [["--project"], ["note", "x", "--at"], ["--store"], ["--bogus"], ["--json"]])
def test_wrong_global_options_are_usage_errors(cli: Calling, words: list[str]) -> None:
    assert cli(*words).code == 2


# ── directories ──────────────────────────────────────────────────────────────────────────────────────────


def test_subdirectory_belongs_to_the_nearest_git_root(cli: Calling) -> None:
    """With the same current session."""
    cli.repository()
    session = cli.session("start", "G")["id"]
    below = cli.project / "a" / "b"
    below.mkdir(parents=True)
    cli.patch.chdir(below)
    assert cli.session("note", "x")["id"] == session
    cli.patch.chdir(cli.project.parent)
    assert cli.session("note", "x", "--project", str(below))["id"] == session


def test_directory_without_git_is_the_project(cli: Calling) -> None:
    """A subdirectory is another project."""
    cli.session("start", "G")
    below = cli.project / "below"
    below.mkdir()
    cli.patch.chdir(below)
    assert cli.document("status")["session"] is None
    assert cli.session("start", "H")["project"]["name"] == "below"


def test_work_tree_has_its_own_current_session_in_the_same_project(cli: Calling, tmp_path: Path) -> None:
    """History shows the sessions of both."""
    cli.repository()
    tree = tmp_path / "tree"
    cli.git("worktree", "add", "-q", "-b", "side", str(tree))
    one = cli.session("start", "One")
    cli.patch.chdir(tree)
    assert cli.document("status")["session"] is None
    two = cli.session("start", "Two")
    assert two["project"]["path"] == one["project"]["path"] == str(cli.project)
    assert {row["id"] for row in cli.document("history")["sessions"]} == {one["id"], two["id"]}
    cli.patch.chdir(cli.project)
    assert cli.session("status")["id"] == one["id"]
    assert {row["id"] for row in cli.document("history")["sessions"]} == {one["id"], two["id"]}


@pytest.mark.parametrize("forge", ["a linked work tree", "a git directory elsewhere", "a link"])
def test_forged_git_file_does_not_join_another_project(cli: Calling, tmp_path: Path, forge: str) -> None:
    """It shows neither sessions nor name of that project, and gets a project of its own."""
    cli.repository()
    cli.git("remote", "add", "origin", "https://example.org/shop.git")
    session = cli.session("start", "Private")
    evil = tmp_path / "evil"
    (evil / "g").mkdir(parents=True)
    if forge == "a linked work tree":
        (evil / ".git").write_text("gitdir: g\n")
        (evil / "g/commondir").write_text("../../project/.git\n")
        (evil / "g/HEAD").write_text("ref: refs/heads/main\n")
        (evil / "g/gitdir").write_text(".git\n")
    elif forge == "a link":
        (evil / ".git").symlink_to("../project/.git", target_is_directory=True)
    else:
        (evil / ".git").write_text("gitdir: ../project/.git\n")
    cli.patch.chdir(evil)
    assert cli.document("history")["sessions"] == []
    project = cli.session("start", "Other")["project"]
    assert (project["path"], project["git_commit"]) == (str(evil), None)
    cli.patch.chdir(cli.project)
    assert [row["id"] for row in cli.document("history")["sessions"]] == [session["id"]]


def test_renamed_git_project_keeps_its_history(cli: Calling, tmp_path: Path) -> None:
    cli.repository()
    session = cli.session("start", "G")["id"]
    moved = tmp_path / "moved"
    cli.patch.chdir(tmp_path)
    cli.project.rename(moved)
    cli.patch.chdir(moved)
    assert [row["id"] for row in cli.document("history")["sessions"]] == [session]


def test_moved_project_without_git_is_reconnected_by_its_old_path(cli: Calling, tmp_path: Path) -> None:
    """`status` says how; nothing is guessed."""
    session = cli.session("start", "G")["id"]
    moved = tmp_path / "moved"
    cli.patch.chdir(tmp_path)
    cli.project.rename(moved)
    cli.patch.chdir(moved)
    assert cli.document("history")["sessions"] == []
    assert f"holdfast project reconnect {cli.project}" in cli("status")[1]
    assert cli.document("project", "reconnect", str(cli.project))["projects"][0]["sessions"] == 1
    assert [row["id"] for row in cli.document("history")["sessions"]] == [session]
    assert cli.session("continue")["id"] == session
    (listed,) = cli.document("project", "list")["projects"]
    assert sorted(listed["paths"]) == sorted([str(cli.project), str(moved)])


def test_project_is_not_reconnected_while_its_directory_exists(cli: Calling, tmp_path: Path) -> None:
    cli.session("start", "G")
    other = tmp_path / "other"
    other.mkdir()
    cli.patch.chdir(other)
    cli.refused(5, "project", "reconnect", str(cli.project))
    cli.refused(3, "project", "reconnect", str(tmp_path / "nowhere"))


def test_history_is_of_this_project_unless_all_are_asked_for(cli: Calling, tmp_path: Path) -> None:
    one = cli.session("start", "One")["id"]
    other = tmp_path / "other"
    other.mkdir()
    two = cli.session("start", "Two", "--project", str(other))["id"]
    assert [row["id"] for row in cli.document("history")["sessions"]] == [one]
    assert {row["id"] for row in cli.document("history", "--all-projects")["sessions"]} == {one, two}


def test_missing_project_is_not_found(cli: Calling) -> None:
    """Exit 3 for a missing directory, 4 for a file."""
    cli.refused(3, "start", "G", "--project", str(cli.project / "none"))
    (cli.project / "file").write_text("")
    cli.refused(4, "start", "G", "--project", str(cli.project / "file"))


# ── environment ──────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_under_the_home_and_private(cli: Calling) -> None:
    """One directory with 0700, files with 0600, nothing left over; reading creates none of it."""
    cli.document("history")
    assert not cli.home.exists()
    cli.session("start", "G")
    cli.document("config", "set", "history.limit", "5")
    assert stat.S_IMODE(cli.home.stat().st_mode) == 0o700
    entries = {path.name: stat.S_IMODE(path.stat().st_mode) for path in cli.home.iterdir()}
    assert set(entries) == {"store.db", "writer.json", "config.toml"}
    assert set(entries.values()) == {0o600}


def test_store_is_chosen_by_option_then_environment(cli: Calling, tmp_path: Path) -> None:
    """`--store`, HOLDFAST_STORE, the home's own."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (f"sqlite:///{tmp_path}/{name}/s.db" for name in ("one", "two"))
    cli.patch.setenv("HOLDFAST_STORE", one)
    first = cli.session("start", "One")["id"]
    second = cli.session("start", "Two", "--store", two)["id"]
    assert cli.session("status")["id"] == first
    assert cli.session("status", "--store", two)["id"] == second
    cli.patch.delenv("HOLDFAST_STORE")
    assert cli.document("status")["session"] is None
    assert not (cli.home / "store.db").exists()


@pytest.mark.parametrize("url", ["mysql://x", "sqlite:///", "x", "sqlite:relative", "/tmp/x", "sqlite://"])
def test_store_that_is_no_url_is_invalid(cli: Calling, url: str) -> None:
    """From the option and from the environment."""
    cli.refused(4, "start", "G", "--store", url)
    cli.patch.setenv("HOLDFAST_STORE", url)
    cli.refused(4, "start", "G")


def test_actor_signs_every_event(cli: Calling) -> None:
    """HOLDFAST_ACTOR, or the user's name."""
    cli.session("start", "G")
    cli.patch.setenv("HOLDFAST_ACTOR", "Ada")
    cli.session("note", "x")
    actors = [event["actor"] for event in cli.document("log")["events"]]
    assert actors[1] == "Ada"
    assert actors[0] not in ("", "Ada")
    cli.patch.setenv("HOLDFAST_ACTOR", " ")
    cli.refused(4, "note", "x")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────


def test_project_settings_outrank_those_of_the_home(cli: Calling) -> None:
    """A repository may set only harmless ones."""
    cli.document("config", "set", "history.limit", "5")
    (cli.project / ".holdfast.toml").write_text('[history]\nlimit = 6\n[device]\nname = "theirs"\n')
    assert cli.document("config", "get", "history.limit")["value"] == 6
    assert cli.document("config", "get", "device.name")["value"] == ""


@pytest.mark.parametrize("words", [["status"], ["history"], ["start", "G"]])
def test_unreadable_settings_are_reported_on_stderr(cli: Calling, words: list[str]) -> None:
    """The command uses what can be read, also before the first session."""
    cli("start", "earlier")
    cli("stop")
    (cli.home / "config.toml").write_text("timer = [")
    out = cli(*words)
    assert out.code == 0
    assert f"the settings in {cli.home / 'config.toml'} cannot be read" in " ".join(out.err.split())


def test_config_keeps_what_a_person_wrote(cli: Calling) -> None:
    """Comments, order and unknown settings."""
    cli.home.mkdir()
    config = cli.home / "config.toml"
    config.write_text("# mine\n[other]\nx = 1 # one\n[history]\nlimit = 3\n")
    cli.document("config", "set", "history.limit", "4")
    cli.document("config", "set", "device.name", "desk")
    written = config.read_text()
    assert "# mine" in written
    assert "x = 1 # one" in written
    assert cli.document("config", "get", "history.limit")["value"] == 4
    assert cli.session("start", "G")["device"] == "desk"


def test_config_unset_restores_the_default_and_keeps_the_rest_of_the_file(cli: Calling) -> None:
    config = cli.home / "config.toml"
    before = config.read_text() if config.exists() else ""
    default = cli.document("config", "get", "history.limit")["value"]
    cli.document("config", "set", "history.limit", "5")
    assert cli.document("config", "unset", "history.limit")["value"] == default
    assert cli.document("config", "get", "history.limit")["value"] == default
    assert config.read_text() == before
    assert cli.document("config", "unset", "history.limit")["value"] == default


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, ["get", "nothing.here"]), (3, ["set", "nothing.here", "1"]), (2, ["set", "history.limit"]), (2, []),
        (4, ["set", "history.limit", "0"]), (4, ["set", "history.limit", "x"]), (4, ["set", "history.limit", "nan"]),
        (4, ["set", "timer.idle_minutes", "1e999"]), (4, ["set", "device.name", "a\x1bb"]),
        (4, ["set", "history.limit", "9" * 5000]), (4, ["set", "device.name", "x" * 101]),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(cli: Calling, code: int, words: list[str]) -> None:
    """Unknown is exit 3, an invalid value exit 4; no file is created."""
    cli.refused(code, "config", *words)
    assert not (cli.home / "config.toml").exists()


@pytest.mark.parametrize(
    "broken", [b"broken = [", b"\xff\xfe", b"timer = 5\n", b"[history]\nlimit = 'x'\n", b"[a]\n" + b"x = [" * 3000],
    ids=["torn", "bytes", "no table", "no number", "deep"],
)  # fmt: skip
def test_broken_settings_file_is_named_and_not_overwritten(cli: Calling, broken: bytes) -> None:
    """Exit 4."""
    cli.home.mkdir()
    config = cli.home / "config.toml"
    config.write_bytes(broken)
    name = "timer.idle_minutes" if b"timer" in broken else "device.name"
    out = cli("config", "set", name, "5", "--json")
    if b"limit" in broken:  # readable but wrong: `config set` corrects it
        assert out.code == 0
        assert cli.document("config", "set", "history.limit", "5")["value"] == 5
        return
    assert out.code == 4
    assert json.loads(out.out)["error"]["file"] == str(config)
    assert config.read_bytes() == broken


def test_settings_may_begin_with_a_byte_order_mark(cli: Calling) -> None:
    """As editors on Windows write them."""
    cli.home.mkdir()
    (cli.home / "config.toml").write_bytes(b"\xef\xbb\xbf[history]\r\nlimit = 3\r\n")
    assert cli.document("config", "get", "history.limit")["value"] == 3
    cli.document("config", "set", "history.limit", "4")
    assert cli.document("config", "get", "history.limit")["value"] == 4


# ── backup, restore, completion ──────────────────────────────────────────────────────────────────────────


def test_restore_brings_everything_back(cli: Calling, tmp_path: Path) -> None:
    """Into an empty home, and into a changed one without losing anything."""
    session = cli.session("start", "G")["id"]
    cli.session("note", "before")
    copy = tmp_path / "copy.db"
    cli.refused(2, "backup")
    cli.document("backup", str(copy))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    cli.refused(5, "backup", str(copy))
    cli.session("note", "after")
    assert cli.document("restore", str(copy))["restored"] == 0
    assert [note["text"] for note in cli.session("show", session)["notes"]] == ["before", "after"]
    cli.patch.setenv("HOLDFAST_HOME", str(tmp_path / "second"))
    assert cli.document("restore", str(copy))["restored"] == 2
    assert [note["text"] for note in cli.session("show", session)["notes"]] == ["before"]
    assert cli.session("resume", session)["devices"]
    assert cli.document("restore", str(copy))["restored"] == 0


def test_restore_refuses_other_files(cli: Calling, tmp_path: Path) -> None:
    """Missing is 3, a directory 4, something else 4 or 6; nothing changes."""
    cli.refused(3, "restore", str(tmp_path / "none"))
    cli.refused(4, "restore", str(tmp_path))
    (tmp_path / "text").write_text("no database" * 100)
    assert cli("restore", str(tmp_path / "text")).code in (4, 6)
    (tmp_path / "empty").write_text("")
    assert cli("restore", str(tmp_path / "empty")).code in (4, 6)


def test_backup_without_a_store_is_refused(cli: Calling, tmp_path: Path) -> None:
    """Exit 3, and no file is created."""
    cli.refused(3, "backup", str(tmp_path / "copy.db"))
    assert not (tmp_path / "copy.db").exists()


def test_completion_script_is_accepted_by_its_shell(cli: Calling, tmp_path: Path) -> None:
    """For each installed shell."""
    for shell in ("bash", "zsh", "fish"):
        script = cli("completion", shell)
        assert script.code == 0
        if shutil.which(shell) is not None:
            file = tmp_path / shell
            file.write_text(script.out)
            assert subprocess.run([shell, "-n", str(file)], check=False).returncode == 0
    cli.refused(4, "completion", "tcsh")
    cli.refused(2, "completion")


# ── as a process ─────────────────────────────────────────────────────────────────────────────────────────


def test_process_has_the_same_codes_and_streams(cli: Calling) -> None:
    """One of each kind, with a nearly empty environment."""
    env = {"HOLDFAST_HOME": str(cli.home), "PATH": os.environ["PATH"]}
    wanted = [
        (0, "start Gö"), (5, "start H"), (0, "note x"), (4, "task done .x"), (2, "bogus"), (3, "show abcd"),
        (0, "pause"), (1, "pause"), (0, "status"), (0, "--version"),
    ]  # fmt: skip
    for code, words in wanted:
        done = process(*words.split(), "--json", cwd=cli.project, env=env)
        assert (done.returncode, done.stderr) == (code, b""), words
        checked(done.stdout.decode())
    spoken = process("pause", cwd=cli.project, env=env)
    assert (spoken.returncode, spoken.stdout) == (1, b"")
    assert spoken.stderr.startswith(b"holdfast: the session is paused")


def test_installed_script_is_the_same_program(cli: Calling) -> None:
    """`holdfast` next to this Python."""
    script = Path(sys.executable).with_name("holdfast")
    if not script.exists():
        pytest.skip("holdfast is not installed here")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, cli("--version").out)
