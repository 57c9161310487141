"""Bad environments: broken stores, planted links, homes that are not directories, closed streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness.warm import without_privileges
from tests.faults.sandbox import CommandResult, Sandbox, assert_well_formed, checks_permissions, tree

WRITING = ["note", "x"]
LOOKING = ["status"]


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def start_with_notes(sandbox: Sandbox) -> None:
    with sandbox.keeper() as keeper:
        session = keeper.start("G")
        for number in range(40):
            session.note(f"note {number} " + "x" * 200)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────


def test_store_that_is_a_directory_is_refused(sandbox: Sandbox) -> None:
    """Exit code 4, and it stays a directory."""
    sandbox.store.mkdir(parents=True)
    for words in (WRITING, LOOKING, ["start", "G"], ["history"]):
        assert sandbox.call(*words).code == 4
    assert tree(sandbox.home) == {"store.db": None}


@pytest.mark.parametrize("damage", ["empty", "zeros", "cut", "cut in a page", "text", "header", "middle", "other"])
def test_damaged_store_is_reported_and_unchanged(sandbox: Sandbox, damage: str) -> None:
    """Exit code 6 (4 for another program's database), with file and hint."""
    start_with_notes(sandbox)
    whole = sandbox.store.read_bytes()
    body = {
        "empty": b"", "zeros": bytes(len(whole)), "cut": whole[:4096], "cut in a page": whole[:5000],
        "text": b"not a database at all\n" * 500, "header": b"X" * 100 + whole[100:],
        "middle": whole[:4096] + os.urandom(len(whole) - 4096), "other": other_database(sandbox),
    }[damage]  # fmt: skip
    sandbox.store.write_bytes(body)
    for words in (WRITING, LOOKING, ["start", "G"], ["history"], ["log"]):
        answer = sandbox.call(*words)
        assert answer.code == (4 if damage == "other" else 6), answer
        error = sandbox.call(*words, "--json").document["error"]
        assert error["file"] == str(sandbox.store)
        assert error["hint"]
    assert sandbox.store.read_bytes() == body


def other_database(sandbox: Sandbox) -> bytes:
    import apsw

    path = sandbox.root / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    return path.read_bytes()


def test_read_only_store_can_be_read(sandbox: Sandbox) -> None:
    """Writing fails with exit code 1 and changes nothing."""
    start_with_notes(sandbox)
    if not checks_permissions(sandbox.root / "probe"):
        pytest.skip("this user passes every permission check")
    sandbox.store.chmod(0o400)
    sandbox.home.chmod(0o500)
    before = tree(sandbox.home)
    try:
        looked = sandbox.run(*LOOKING, preexec_fn=without_privileges)
        assert (looked.code, looked.err) == (0, "")
        assert "G" in looked.out
        for words in (WRITING, ["stop"], ["start", "H", "--replace"]):
            answer = sandbox.run(*words, preexec_fn=without_privileges)
            assert_well_formed(answer)
            assert answer.code == 1
        assert tree(sandbox.home) == before
    finally:
        sandbox.home.chmod(0o700)
        sandbox.store.chmod(0o600)
    assert sandbox.call(*WRITING).code == 0
    sandbox.assert_sound()


def test_unreadable_store_is_not_replaced(sandbox: Sandbox) -> None:
    """Unreadable is not missing: exit code 1, and no new store is created."""
    start_with_notes(sandbox)
    if not checks_permissions(sandbox.root / "probe"):
        pytest.skip("this user passes every permission check")
    sandbox.store.chmod(0)
    try:
        for words in (LOOKING, WRITING, ["start", "G"], ["history"]):
            answer = sandbox.run(*words, preexec_fn=without_privileges)
            assert_well_formed(answer)
            assert answer.code == 1, answer
    finally:
        sandbox.store.chmod(0o600)
    assert sandbox.call(*WRITING).code == 0
    sandbox.assert_sound()


# ── planted links ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (name, target)
        for name in (
            "store.db",
            "writer.json",
            "errors.log",
            "aside",
            "store.db.erasing",
            "store.db-wal",
            "store.db-shm",
        )
        for target in ("file", "nowhere", "hard link")
        # SQLite opens its journal itself, and knows links but no second names; docs/security.md says so.
        if target != "hard link" or not name.endswith(("-wal", "-shm"))
    ],
)
def test_planted_link_in_the_home_is_never_written_through(sandbox: Sandbox, name: str, target: str) -> None:
    """Its target is not written, truncated or created."""
    start_with_notes(sandbox)
    precious = sandbox.root / "precious"
    precious.write_text("precious")
    missing = sandbox.root / "missing"
    path = sandbox.home / name
    path.unlink(missing_ok=True)
    if target == "hard link":
        os.link(precious, path)
    else:
        path.symlink_to(precious if target == "file" else missing)
    for words in (
        WRITING,
        LOOKING,
        ["start", "G", "--replace"],
        ["delete", "@", "--confirm", "--force"],
        ["history"],
    ):
        sandbox.call(*words)
    assert precious.read_text() == "precious"
    assert not missing.exists()
    assert [path.name for path in sandbox.root.iterdir() if path.name not in ("home", "project")] == ["precious"]


def test_error_log_that_is_a_symlink_is_not_followed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to log an internal error."""
    from holdfast.keeper.session import SessionHandle

    start_with_notes(sandbox)
    precious = sandbox.root / "precious"
    precious.write_text("precious")
    (sandbox.home / "errors.log").symlink_to(precious)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(SessionHandle, "note", broken)
    with pytest.raises(AssertionError, match="unexpected"):
        sandbox.call("note", "x")
    assert precious.read_text() == "precious"


def test_settings_symlink_of_the_user_is_followed(sandbox: Sandbox) -> None:
    """Dotfiles: the link stays, its target is replaced."""
    sandbox.home.mkdir()
    real = sandbox.root / "dotfiles.toml"
    real.write_text("[history]\nlimit = 3\n")
    (sandbox.home / "config.toml").symlink_to(real)
    assert sandbox.call("config", "set", "history.limit", "4").code == 0
    assert (sandbox.home / "config.toml").is_symlink()
    assert "4" in real.read_text()


def test_home_symlink_is_followed_to_a_directory_only(sandbox: Sandbox) -> None:
    """A dangling link, or one to a file, is refused."""
    real = sandbox.root / "real"
    real.mkdir()
    sandbox.home.symlink_to(real)
    assert sandbox.call("start", "G").code == 0
    assert (real / "store.db").exists()
    sandbox.home.unlink()
    sandbox.home.symlink_to(sandbox.root / "nowhere")
    assert sandbox.call("start", "G").code == 1
    assert not (sandbox.root / "nowhere").exists()
    sandbox.home.unlink()
    (sandbox.root / "file").write_text("x")
    sandbox.home.symlink_to(sandbox.root / "file")
    assert sandbox.call("start", "G").code in (1, 4)
    assert (sandbox.root / "file").read_text() == "x"


def test_named_pipe_at_any_path_does_not_block(sandbox: Sandbox) -> None:
    """An immediate answer at every path that is opened."""
    start_with_notes(sandbox)
    for path in (
        sandbox.home / "config.toml",
        sandbox.project / ".holdfast.toml",
        sandbox.home / "writer.json",
        sandbox.project / "f",
    ):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        for words in (
            ["config", "list"],
            ["start", "G", "--replace"],
            ["file", "f", "--action", "modified"],
            ["history"],
        ):
            answer = sandbox.run(*words, timeout=60)
            assert_well_formed(answer)
        path.unlink()
    assert sandbox.call(*WRITING).code == 0


# ── the home ─────────────────────────────────────────────────────────────────────────────────────────────


def test_home_that_is_a_file_is_refused(sandbox: Sandbox) -> None:
    """Exit code 4, and the file stays."""
    sandbox.home.write_text("x")
    assert sandbox.call("start", "G").code == 4
    assert sandbox.home.read_text() == "x"
    sandbox.home.unlink()
    sandbox.home = sandbox.project / "file" / "below"
    (sandbox.project / "file").write_text("x")
    assert sandbox.call("start", "G").code == 4


def test_unwritable_home_is_reported(sandbox: Sandbox) -> None:
    """Exit code 1; reading says that there is no session."""
    if not checks_permissions(sandbox.root / "probe"):
        pytest.skip("this user passes every permission check")
    sandbox.home.mkdir()
    sandbox.home.chmod(0o500)
    try:
        for words, code in ((["start", "G"], 1), (["config", "set", "history.limit", "3"], 1), (LOOKING, 0)):
            answer = sandbox.run(*words, preexec_fn=without_privileges)
            assert_well_formed(answer)
            assert answer.code == code, answer
    finally:
        sandbox.home.chmod(0o700)


def test_empty_home_variable_means_the_default_home(sandbox: Sandbox) -> None:
    """As if it were unset; without HOME the system's user database is used."""
    usual = sandbox.root / ".local" / "share" / "holdfast"
    assert sandbox.run("start", "G", env={"HOLDFAST_HOME": ""}).code == 0
    assert (usual / "store.db").exists()
    assert sandbox.run("start", "G", env={"HOLDFAST_HOME": "", "XDG_DATA_HOME": str(sandbox.root / "xdg")}).code == 0
    assert (sandbox.root / "xdg" / "holdfast" / "store.db").exists()
    answer = sandbox.run("status", env={"HOLDFAST_HOME": "", "HOME": "", "XDG_DATA_HOME": str(sandbox.root / "xdg")})
    assert answer.code == 0


def test_home_with_an_unusual_name_works(sandbox: Sandbox) -> None:
    """Relative to the working directory; a line break is allowed in a name."""
    for home in ("here", "a\nb", "sp ace", "x" * 200):
        for words in (["start", "G", "--replace"], ["status"]):
            answer = sandbox.run(*words, env={"HOLDFAST_HOME": home})
            assert answer.code == 0, answer
        assert (sandbox.project / home / "store.db").exists()
    too_long = sandbox.run("start", "G", env={"HOLDFAST_HOME": "/" + "x" * 300})
    assert_well_formed(too_long)
    assert too_long.code == 4


def test_commands_work_with_an_empty_environment(sandbox: Sandbox) -> None:
    """Only HOLDFAST_HOME is set: git is simply not available."""
    for git in (False, True):
        if git:
            subprocess.run(["git", "init", "-q"], cwd=sandbox.project, check=True)
        answer = run_with_empty_environment(sandbox, "start", "G", "--replace")
        assert answer.code == 0, answer
        assert run_with_empty_environment(sandbox, "status").code == 0
        assert run_with_empty_environment(sandbox, "file", "f", "--action", "deleted").code == 0
    branch = run_with_empty_environment(sandbox, "start", "G", "--replace", "--branch")
    assert_well_formed(branch)
    assert branch.code == 1


def run_with_empty_environment(sandbox: Sandbox, *words: str) -> CommandResult:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words], cwd=sandbox.project, env={"HOLDFAST_HOME": str(sandbox.home)},
        capture_output=True, check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_deleted_working_directory_is_reported_unless_a_project_is_given(sandbox: Sandbox) -> None:
    """Exit code 3 where the project would be the working directory."""
    deleted = sandbox.root / "gone"
    program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
    shell = f'cd {deleted} && rmdir {deleted} && exec "$0" -c "{program}" "$@"'
    for words, code in ((LOOKING, 3), (["start", "G"], 3), (["--version"], 0),
                        (["--project", str(sandbox.project), "start", "G"], 0),
                        (["--project", str(sandbox.project), "file", "f", "--action", "deleted"], 0)):  # fmt: skip
        deleted.mkdir()
        done = subprocess.run(
            ["sh", "-c", shell, sys.executable, *words],
            env=sandbox.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        answer = CommandResult(done.returncode, done.stdout, done.stderr)
        assert_well_formed(answer)
        assert answer.code == code, (words, answer)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


def run_in_shell(sandbox: Sandbox, redirect: str, *words: str) -> CommandResult:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m holdfast "$@" {redirect}', sys.executable, *words], cwd=sandbox.project,
        env=sandbox.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout, done.stderr)


def notes(sandbox: Sandbox) -> int:
    with sandbox.keeper() as keeper:
        return len(keeper.session().document().notes)


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_closed_streams_do_not_prevent_recording(sandbox: Sandbox, json: list[str]) -> None:
    """Exit code 0, and the event is recorded."""
    sandbox.call("start", "G")
    for number, redirect in enumerate((">&-", "2>&-", "<&-", ">&- 2>&- <&-"), start=1):
        answer = run_in_shell(sandbox, redirect, "note", "x", *json)
        assert (answer.code, answer.err) == (0, ""), redirect
        assert notes(sandbox) == number
    assert run_in_shell(sandbox, ">&- 2>&- <&-", "bogus", *json).code == 2
    assert run_in_shell(sandbox, "<&-", "delete", "@", *json).code == 1
    sandbox.assert_sound()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_full_output_is_reported(sandbox: Sandbox, json: list[str]) -> None:
    """Exit code 1 with a message that does not claim that nothing was recorded."""
    sandbox.call("start", "G")
    for words in (["note", "x"], ["status"], ["--version"], ["completion", "bash"], ["history"]):
        answer = run_in_shell(sandbox, ">/dev/full", *words, *json)
        assert answer.code == 1, answer
        assert "cannot write the output" in answer.err
        assert "Traceback" not in answer.err
        assert "nothing was changed" not in answer.err
    assert notes(sandbox) == 1
    assert run_in_shell(sandbox, ">/dev/full 2>/dev/full", "pause", "a", "b", *json).code == 2


def test_closed_pipe_of_a_reader_is_silent(sandbox: Sandbox) -> None:
    """`| head` is not an error and prints no message."""
    sandbox.call("start", "G")
    for words in (["log"], ["log", "--json"], ["completion", "bash"], ["--help"]):
        answer = run_in_shell(sandbox, "| true; true", *words)
        assert answer.err == "", words


def test_confirmation_is_not_read_from_stdin_without_a_terminal(sandbox: Sandbox) -> None:
    """A flag confirms, nothing else."""
    sandbox.call("start", "G")
    answer = sandbox.run("delete", "@", stdin=None, input=b"yes\n")
    assert answer.code == 1
    assert notes(sandbox) == 0
