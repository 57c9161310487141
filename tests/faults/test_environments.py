"""Bad environments: broken stores, planted links, homes that are none, streams that are closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness.warm import without_privileges
from tests.faults.program import Desk, Out, checks_permissions, tree, typed

WRITING = ["note", "x"]
LOOKING = ["status"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def begun(desk: Desk) -> None:
    with desk.keeper() as keeper:
        session = keeper.start("G")
        for number in range(40):
            session.note(f"note {number} " + "x" * 200)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_store_that_is_a_directory(desk: Desk) -> None:
    """Exit 4, and it stays one."""
    desk.store.mkdir(parents=True)
    for words in (WRITING, LOOKING, ["start", "G"], ["history"]):
        assert desk.call(*words).code == 4
    assert tree(desk.home) == {"store.db": None}


@pytest.mark.parametrize("damage", ["empty", "zeros", "cut", "cut in a page", "text", "header", "middle", "other"])
def test_a_store_that_is_damaged(desk: Desk, damage: str) -> None:
    """Exit 6 (4 for another program's database), legible, and not a byte of it is changed."""
    begun(desk)
    whole = desk.store.read_bytes()
    body = {
        "empty": b"", "zeros": bytes(len(whole)), "cut": whole[:4096], "cut in a page": whole[:5000],
        "text": b"not a database at all\n" * 500, "header": b"X" * 100 + whole[100:],
        "middle": whole[:4096] + os.urandom(len(whole) - 4096), "other": other_database(desk),
    }[damage]  # fmt: skip
    desk.store.write_bytes(body)
    for words in (WRITING, LOOKING, ["start", "G"], ["history"], ["log"]):
        answer = desk.call(*words)
        assert answer.code == (4 if damage == "other" else 6), answer
        told = desk.call(*words, "--json").document["error"]
        assert told["file"] == str(desk.store)
        assert told["hint"]
    assert desk.store.read_bytes() == body


def other_database(desk: Desk) -> bytes:
    import apsw

    path = desk.root / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    return path.read_bytes()


def test_a_store_nobody_may_write_can_still_be_read(desk: Desk) -> None:
    """Read-only file and directory: looking works, writing is exit 1, nothing is changed."""
    begun(desk)
    if not checks_permissions(desk.root / "probe"):
        pytest.skip("this user passes every permission check")
    desk.store.chmod(0o400)
    desk.home.chmod(0o500)
    before = tree(desk.home)
    try:
        looked = desk.run(*LOOKING, preexec_fn=without_privileges)
        assert (looked.code, looked.err) == (0, "")
        assert "G" in looked.out
        for words in (WRITING, ["stop"], ["start", "H", "--replace"]):
            answer = desk.run(*words, preexec_fn=without_privileges)
            typed(answer)
            assert answer.code == 1
        assert tree(desk.home) == before
    finally:
        desk.home.chmod(0o700)
        desk.store.chmod(0o600)
    assert desk.call(*WRITING).code == 0
    desk.sound()


def test_a_store_nobody_may_read(desk: Desk) -> None:
    """Unreadable is not absent: exit 1, and no empty one is made beside it."""
    begun(desk)
    if not checks_permissions(desk.root / "probe"):
        pytest.skip("this user passes every permission check")
    desk.store.chmod(0)
    try:
        for words in (LOOKING, WRITING, ["start", "G"], ["history"]):
            answer = desk.run(*words, preexec_fn=without_privileges)
            typed(answer)
            assert answer.code == 1, answer
    finally:
        desk.store.chmod(0o600)
    assert desk.call(*WRITING).code == 0
    desk.sound()


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
def test_links_planted_where_holdfast_writes(desk: Desk, name: str, target: str) -> None:
    """Whatever is planted in the home, its target is not written, not emptied, not made."""
    begun(desk)
    precious = desk.root / "precious"
    precious.write_text("precious")
    missing = desk.root / "missing"
    path = desk.home / name
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
        desk.call(*words)
    assert precious.read_text() == "precious"
    assert not missing.exists()
    assert [path.name for path in desk.root.iterdir() if path.name not in ("home", "project")] == ["precious"]


def test_a_log_of_errors_that_is_a_link_is_not_followed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while reporting a fault of our own."""
    from holdfast.keeper.session import SessionHandle

    begun(desk)
    precious = desk.root / "precious"
    precious.write_text("precious")
    (desk.home / "errors.log").symlink_to(precious)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(SessionHandle, "note", broken)
    with pytest.raises(AssertionError, match="unexpected"):
        desk.call("note", "x")
    assert precious.read_text() == "precious"


def test_settings_that_are_the_persons_own_link_are_followed(desk: Desk) -> None:
    """Dotfiles: the link stays, its target is replaced."""
    desk.home.mkdir()
    real = desk.root / "dotfiles.toml"
    real.write_text("[history]\nlimit = 3\n")
    (desk.home / "config.toml").symlink_to(real)
    assert desk.call("config", "set", "history.limit", "4").code == 0
    assert (desk.home / "config.toml").is_symlink()
    assert "4" in real.read_text()


def test_a_home_that_is_a_link(desk: Desk) -> None:
    """To a directory of one's own it is followed; to nowhere, or to a file, it is refused."""
    real = desk.root / "real"
    real.mkdir()
    desk.home.symlink_to(real)
    assert desk.call("start", "G").code == 0
    assert (real / "store.db").exists()
    desk.home.unlink()
    desk.home.symlink_to(desk.root / "nowhere")
    assert desk.call("start", "G").code == 1
    assert not (desk.root / "nowhere").exists()
    desk.home.unlink()
    (desk.root / "file").write_text("x")
    desk.home.symlink_to(desk.root / "file")
    assert desk.call("start", "G").code in (1, 4)
    assert (desk.root / "file").read_text() == "x"


def test_pipes_and_devices_do_not_hold_anybody_up(desk: Desk) -> None:
    """A FIFO at every path that is opened: an answer at once, not a wait for ever."""
    begun(desk)
    for path in (
        desk.home / "config.toml",
        desk.project / ".holdfast.toml",
        desk.home / "writer.json",
        desk.project / "f",
    ):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        for words in (
            ["config", "list"],
            ["start", "G", "--replace"],
            ["file", "f", "--action", "modified"],
            ["history"],
        ):
            answer = desk.run(*words, timeout=60)
            typed(answer)
        path.unlink()
    assert desk.call(*WRITING).code == 0


# ── the home ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_home_that_is_a_file(desk: Desk) -> None:
    """Exit 4, and the file stays."""
    desk.home.write_text("x")
    assert desk.call("start", "G").code == 4
    assert desk.home.read_text() == "x"
    desk.home.unlink()
    desk.home = desk.project / "file" / "below"
    (desk.project / "file").write_text("x")
    assert desk.call("start", "G").code == 4


def test_a_home_nobody_may_write_to(desk: Desk) -> None:
    """Exit 1; looking says that there is no session, which is true."""
    if not checks_permissions(desk.root / "probe"):
        pytest.skip("this user passes every permission check")
    desk.home.mkdir()
    desk.home.chmod(0o500)
    try:
        for words, code in ((["start", "G"], 1), (["config", "set", "history.limit", "3"], 1), (LOOKING, 0)):
            answer = desk.run(*words, preexec_fn=without_privileges)
            typed(answer)
            assert answer.code == code, answer
    finally:
        desk.home.chmod(0o700)


def test_an_empty_home_variable_means_the_usual_place(desk: Desk) -> None:
    """As if it were not set; without HOME the system is asked for it."""
    usual = desk.root / ".local" / "share" / "holdfast"
    assert desk.run("start", "G", env={"HOLDFAST_HOME": ""}).code == 0
    assert (usual / "store.db").exists()
    assert desk.run("start", "G", env={"HOLDFAST_HOME": "", "XDG_DATA_HOME": str(desk.root / "xdg")}).code == 0
    assert (desk.root / "xdg" / "holdfast" / "store.db").exists()
    answer = desk.run("status", env={"HOLDFAST_HOME": "", "HOME": "", "XDG_DATA_HOME": str(desk.root / "xdg")})
    assert answer.code == 0


def test_a_home_that_is_relative_or_odd(desk: Desk) -> None:
    """Relative to where one stands; a name with a line break is a name."""
    for home in ("here", "a\nb", "sp ace", "x" * 200):
        for words in (["start", "G", "--replace"], ["status"]):
            answer = desk.run(*words, env={"HOLDFAST_HOME": home})
            assert answer.code == 0, answer
        assert (desk.project / home / "store.db").exists()
    too_long = desk.run("start", "G", env={"HOLDFAST_HOME": "/" + "x" * 300})
    typed(too_long)
    assert too_long.code == 4


def test_without_home_and_path(desk: Desk) -> None:
    """Nothing in the environment at all but the home: git is simply not there."""
    for git in (False, True):
        if git:
            subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
        answer = bare(desk, "start", "G", "--replace")
        assert answer.code == 0, answer
        assert bare(desk, "status").code == 0
        assert bare(desk, "file", "f", "--action", "deleted").code == 0
    branch = bare(desk, "start", "G", "--replace", "--branch")
    typed(branch)
    assert branch.code == 1


def bare(desk: Desk, *words: str) -> Out:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words], cwd=desk.project, env={"HOLDFAST_HOME": str(desk.home)},
        capture_output=True, check=False,
    )  # fmt: skip
    return Out(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_working_directory_that_is_gone(desk: Desk) -> None:
    """Exit 3 where the project is meant by it; with `--project` it does not matter."""
    gone = desk.root / "gone"
    program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
    shell = f'cd {gone} && rmdir {gone} && exec "$0" -c "{program}" "$@"'
    for words, code in ((LOOKING, 3), (["start", "G"], 3), (["--version"], 0),
                        (["--project", str(desk.project), "start", "G"], 0),
                        (["--project", str(desk.project), "file", "f", "--action", "deleted"], 0)):  # fmt: skip
        gone.mkdir()
        done = subprocess.run(
            ["sh", "-c", shell, sys.executable, *words], env=desk.environ, capture_output=True, text=True, check=False
        )
        answer = Out(done.returncode, done.stdout, done.stderr)
        typed(answer)
        assert answer.code == code, (words, answer)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


def shell(desk: Desk, redirect: str, *words: str) -> Out:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m holdfast "$@" {redirect}', sys.executable, *words], cwd=desk.project, env=desk.environ,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Out(done.returncode, done.stdout, done.stderr)


def notes(desk: Desk) -> int:
    with desk.keeper() as keeper:
        return len(keeper.session().document().notes)


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_output_that_is_closed_changes_nothing_about_the_deed(desk: Desk, json: list[str]) -> None:
    """Whoever closed it does not want to know: exit 0, and the event is there."""
    desk.call("start", "G")
    for number, redirect in enumerate((">&-", "2>&-", "<&-", ">&- 2>&- <&-"), start=1):
        answer = shell(desk, redirect, "note", "x", *json)
        assert (answer.code, answer.err) == (0, ""), redirect
        assert notes(desk) == number
    assert shell(desk, ">&- 2>&- <&-", "bogus", *json).code == 2
    assert shell(desk, "<&-", "delete", "@", *json).code == 1
    desk.sound()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_output_that_is_full_is_said(desk: Desk, json: list[str]) -> None:
    """Exit 1 with a sentence that does not claim that nothing happened."""
    desk.call("start", "G")
    for words in (["note", "x"], ["status"], ["--version"], ["completion", "bash"], ["history"]):
        answer = shell(desk, ">/dev/full", *words, *json)
        assert answer.code == 1, answer
        assert "cannot write the output" in answer.err
        assert "Traceback" not in answer.err
        assert "nothing was changed" not in answer.err
    assert notes(desk) == 1
    assert shell(desk, ">/dev/full 2>/dev/full", "pause", "a", "b", *json).code == 2


def test_a_reader_that_leaves_early(desk: Desk) -> None:
    """`| head` is no error and no message."""
    desk.call("start", "G")
    for words in (["log"], ["log", "--json"], ["completion", "bash"], ["--help"]):
        answer = shell(desk, "| true; true", *words)
        assert answer.err == "", words


def test_nothing_is_asked_without_a_terminal(desk: Desk) -> None:
    """A question with nobody to answer is answered by the flag or not at all; stdin is left alone."""
    desk.call("start", "G")
    answer = desk.run("delete", "@", stdin=None, input=b"yes\n")
    assert answer.code == 1
    assert notes(desk) == 0
