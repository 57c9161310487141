"""A password among the words of the program: out of sight of others at once, and in nothing that is said."""

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
from holdfast.cli.entry import main, words_of
from holdfast.keeper.keeper import Keeper

SECRET = "hunter2"
URL = f"postgres://ada:{SECRET}@127.0.0.1:1/team"
SHOWN = "postgresql://ada@127.0.0.1:1/team"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(passwords, "_removed", {})
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_STORE", "")  # so that it is taken back, whoever sets it
    monkeypatch.chdir(tmp_path)
    yield
    assert not [name for name in os.environ if name.startswith("HOLDFAST_URL_")]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="where the words of a process can be read so")
@pytest.mark.parametrize("words", [["--store", URL, "hook", "claude"], [f"--store={URL}", "mcp"]])
def test_others_cannot_read_it(words: list[str], tmp_path: Path) -> None:
    """Of a program that waits, hook or not, the words are without it; a hook says nothing, all others warn once."""
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


def opened(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str | None]:
    """With which stores keepers are opened for these words."""
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
def test_store_is_opened_with_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken out of the words is found again where it is needed."""
    assert opened(monkeypatch, "config", "get", "history.limit", *words) == [URL]


def test_what_came_by_the_environment_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that ran anew takes it out of the environment: no program that it starts is told."""
    monkeypatch.setenv("HOLDFAST_URL_1", URL)
    monkeypatch.setenv("HOLDFAST_URL_2", URL.replace("team", "other"))
    assert passwords.without_passwords(["store", "copy", SHOWN, "x"]) == ["store", "copy", SHOWN, "x"]
    assert passwords.full_url(SHOWN) == URL
    assert passwords.full_url("x") == "x"
    assert not any(name.startswith("HOLDFAST_URL_") for name in os.environ)
    assert passwords.full_url(SHOWN.replace("team", "other")) == URL.replace("team", "other")


def test_hooks_are_reported_the_whole_address() -> None:
    """They look for it in the environment, and so do the processes they start."""
    words = passwords.without_passwords(["--store", URL, "hook", "claude"])
    assert words == ["--store", SHOWN, "hook", "claude"]
    assert words_of(words) == ["hook", "claude"]
    assert os.environ["HOLDFAST_STORE"] == URL


@pytest.mark.parametrize(
    "word",
    [
        SHOWN, "postgresql://ada:@db/team", "see postgresql://ada:hunter2@db", "postgresql://a:b@c@d", "sqlite:///x",
        "postgresql://", "--store=sqlite:///postgres://a:b@c", "x=postgres://a:b@c",
    ],
)  # fmt: skip
def test_other_words_stay_as_they_are(word: str) -> None:
    """Addresses without a password, what nobody can read, and what is a text."""
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
def test_no_mistake_repeats_it(words: list[str], json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong with the words, it is said without the address."""
    assert main([*words, *(["--json"] if json else [])]) in (2, 3, 4)
    result = capsys.readouterr()
    assert SECRET not in result.out + result.err
    assert result.out + result.err
