"""A password among the arguments is hidden from other users at once, and never printed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import passwords
from holdfast.cli.call import Call
from holdfast.cli.entry import main, words_from_command
from holdfast.keeper.keeper import Keeper

SECRET = "hunter2"
URL = f"postgres://ada:{SECRET}@127.0.0.1:1/team"
SHOWN = "postgresql://ada@127.0.0.1:1/team"


@pytest.fixture(autouse=True)
def restored_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(passwords, "_removed", {})
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_STORE", "")  # restores the variable at the end, whoever sets it
    monkeypatch.chdir(tmp_path)
    yield
    assert not [name for name in os.environ if name.startswith("HOLDFAST_URL_")]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="where the words of a process can be read so")
@pytest.mark.parametrize("words", [["--store", URL, "hook", "claude"], [f"--store={URL}", "mcp"]])
def test_password_is_removed_from_the_arguments_of_the_process(words: list[str], tmp_path: Path) -> None:
    """While it waits; every command but hooks prints one warning."""
    environ = {"HOLDFAST_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    started = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words], cwd=tmp_path, env=environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        file, deadline = Path(f"/proc/{started.pid}/cmdline"), time.monotonic() + 20
        while SHOWN not in file.read_text():
            assert started.poll() is None
            assert time.monotonic() < deadline, file.read_text()
            time.sleep(0.01)
        assert SECRET not in file.read_text()
        assert SECRET in Path(f"/proc/{started.pid}/environ").read_text()
    finally:
        result, warned = started.communicate("", timeout=30)
    assert SECRET not in result + warned
    lines = warned.splitlines()
    if "hook" in words:
        assert (result, lines) == ("", [])
    else:
        assert sum("a password was given as an argument" in line for line in lines) == 1
        assert all(instead in lines[0] for instead in ("HOLDFAST_STORE", "PGPASSWORD", "~/.pgpass"))


def secrets_of_opened_stores(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str | None]:
    """The store addresses with which these arguments open keepers."""
    seen: list[str | None] = []
    real = Call.open_keeper

    def noting(self: Call) -> Keeper:
        keeper = real(self)
        seen.append(keeper.address.secret)
        return keeper

    monkeypatch.setattr(Call, "open_keeper", noting)
    main(list(words))
    return seen


@pytest.mark.parametrize("words", [["--store", URL], [f"--store={URL}"]])
def test_store_is_opened_with_the_password(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert secrets_of_opened_stores(monkeypatch, "config", "get", "history.limit", *words) == [URL]


def test_password_is_removed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The restarted program must not pass it on to other programs."""
    monkeypatch.setenv("HOLDFAST_URL_1", URL)
    monkeypatch.setenv("HOLDFAST_URL_2", URL.replace("team", "other"))
    assert passwords.without_passwords(["store", "copy", SHOWN, "x"]) == ["store", "copy", SHOWN, "x"]
    assert passwords.full_url(SHOWN) == URL
    assert passwords.full_url("x") == "x"
    assert not any(name.startswith("HOLDFAST_URL_") for name in os.environ)
    assert passwords.full_url(SHOWN.replace("team", "other")) == URL.replace("team", "other")


def test_hooks_get_the_whole_address_in_the_environment() -> None:
    """And pass it on to the processes they start."""
    words = passwords.without_passwords(["--store", URL, "hook", "claude"])
    assert words == ["--store", SHOWN, "hook", "claude"]
    assert words_from_command(words) == ["hook", "claude"]
    assert os.environ["HOLDFAST_STORE"] == URL


@pytest.mark.parametrize(
    "word",
    [
        SHOWN, "postgresql://ada:@db/team", "see postgresql://ada:hunter2@db", "postgresql://a:b@c@d", "sqlite:///x",
        "postgresql://", "--store=sqlite:///postgres://a:b@c", "x=postgres://a:b@c",
    ],
)  # fmt: skip
def test_words_without_a_password_are_kept(word: str) -> None:
    """Addresses without one, unreadable addresses, and texts."""
    assert passwords.without_passwords(["note", word]) == ["note", word]


@pytest.mark.parametrize(
    "words",
    [
        [URL], ["status", URL], ["status", f"--stor={URL}"], ["status", f"--json={URL}"],
        ["--store", URL, "nonsense"],
        ["status", "postgresql://ada:x@hunter2@db"], ["postgresql://ada:x@hunter2@db"],
        [f"--{URL}"], ["note", f"-{URL}"], ["--store", "postgresql://ada:x@hunter2@db", "status"],
        ["--store", "postgresql://ada:hunter2@db:x", "status"], ["--store", "hunter2", "status"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("json", [False, True])
def test_error_messages_do_not_repeat_the_password(
    words: list[str], json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *(["--json"] if json else [])]) in (2, 3, 4)
    result = capsys.readouterr()
    assert SECRET not in result.out + result.err
    assert result.out + result.err
