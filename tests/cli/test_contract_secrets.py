"""The contract: secrets are removed from every text before it is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Calling

# Invented, in the form of real ones; lower case too, so that a slug of it would reveal it.
CANARIES = [
    "ghp_" + "c4n4ry0" * 5 + "x",
    "sk-ant-api03-" + "canary1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8s9t0",
    "AKIA" + "QX7CANARY4ZP2LM9",
]
KEPT = [
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "123e4567-e89b-42d3-a456-426614174000",
    "src/holdfast/keeper/keeper.py",
    "https://example.org/a/b?c=d",
]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def raw(cli: Calling) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(cli.home.rglob("*")) if path.is_file())


@pytest.mark.parametrize("secret", CANARIES)
def test_secret_reaches_no_byte_of_the_home(cli: Calling, secret: str) -> None:
    """Through every text, also branch names and commits; it is replaced, counted and reported."""
    cli.repository()
    result = f"use {secret} here"
    outcome = cli("start", result, "--scope", result, "--task", result, "--tag", result, "--branch")
    assert outcome.code == 0
    assert "Removed secrets" in outcome.err
    assert secret not in outcome.out + outcome.err
    for words in (
        ["note", result],
        ["decide", result, "--context", result, "--option", result, "--why", result],
        ["task", "add", result, "--phase", result],
        ["task", "block", "t1", "--outcome", result],
        ["agent", "start", "a", "--type", "t", "--task", result],
        ["agent", "fail", "a", "--category", "logical", "--message", result],
        ["agent", "retry", "a"],
        ["agent", "done", "a", "--summary", result],
        ["edit", "--summary", result, "--goal", result],
        ["hill", result, "3"],
        ["pause", result],
        ["resume"],
        ["fail", result],
        ["resume"],
        ["away", "--from", "00:00", "--to", "00:00", result],
        ["run", "--", "true", result],
    ):
        out = cli(*words)
        assert out.code == (4 if words[0] == "away" else 0), (words, out)
        assert secret not in out.out + out.err
    assert secret.lower() not in cli.git("branch").lower()
    cli.git("commit", "-q", "--allow-empty", "-m", "work")
    assert cli("stop", "--keep").code == 0
    assert secret not in cli.git("log", "--all", "--format=%B")
    assert secret.encode() not in raw(cli)
    assert secret.lower().encode() not in raw(cli).lower()


def test_session_counts_removed_secrets_by_kind(cli: Calling) -> None:
    """The text around them is kept."""
    session = cli.session("start", f"Rotate {CANARIES[0]} soon")
    assert session["goal"].startswith("Rotate ")
    assert session["goal"].endswith(" soon")
    assert sum(session["extra"]["redacted"].values()) == 1
    session = cli.session("note", f"{CANARIES[0]} and {CANARIES[2]}")
    assert sum(session["extra"]["redacted"].values()) == 3


def test_search_does_not_match_removed_secrets(cli: Calling) -> None:
    cli.session("start", f"Rotate {CANARIES[0]}")
    assert cli.document("history", "--search", "c4n4ry0")["sessions"] == []
    assert cli.document("history", "--search", "rotate")["sessions"]


@pytest.mark.parametrize("text", KEPT)
def test_hashes_ids_and_paths_are_kept(cli: Calling, text: str) -> None:
    """They look random but are no secrets."""
    session = cli.session("start", f"See {text}")
    assert session["goal"] == f"See {text}"
    assert "redacted" not in session["extra"]


def test_error_log_contains_no_secret(cli: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has places in the code, without any text of the user."""
    from holdfast.keeper.session import SessionHandle

    cli.session("start", "G")

    def broken(_: object, words: str, **__: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(SessionHandle, "note", broken)
    with pytest.raises(AssertionError, match="unexpected"):
        cli("note", CANARIES[0])
    assert (cli.home / "errors.log").exists()
    assert CANARIES[0].encode() not in raw(cli)
