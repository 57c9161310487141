"""Guests do not decide which session our conversations belong to: our agents' work stays in our session."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.events import NativeLinked, NativeMoved
from tests.cli.guest_session import OWNER, TALK, GuestSession


@pytest.fixture
def guested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> GuestSession:
    return GuestSession(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("words", [(), ("--read-only",)])
def test_conversation_named_in_a_guests_session_stays_in_ours(guested: GuestSession, words: tuple[str, ...]) -> None:
    """For commands and hooks, although the guest's session is newer."""
    guested.at("guest")
    guested.document("remote", "add", "evil", f"folder:{guested.root}/evil")
    theirs = str(guested.session("start", "Joint review", "--replace")["id"])
    guested.document("people", "add", OWNER, guested.owners_key)
    guested.document("share", theirs, "--with", OWNER, *words)
    guested.at("laptop")
    evil = f"folder:{guested.root}/evil"
    guested.document("accept", evil, guested.document("accept", evil, "--list")["offers"][0]["name"])
    guested.record("guest", theirs, NativeLinked(agent="claude", id=TALK))
    assert guested.note_inside("ours") == guested.shared
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(theirs)) == (1, 0)


def test_guest_link_does_not_undo_a_move(guested: GuestSession) -> None:
    """Neither for commands and hooks nor for a later move; our own link does."""
    guested.document("conversation", "move", TALK, "--to", guested.private)
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK))
    assert guested.note_inside("private") == guested.private
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(guested.private)) == (0, 1)
    moved = guested.document("conversation", "move", TALK, "--to", guested.shared)["moved"]
    assert moved["before"] == guested.private
    assert guested.note_inside("shared again") == guested.shared


def test_guest_move_does_not_divert_our_work(guested: GuestSession) -> None:
    """Not even after a person resumed another session that conversations join."""
    guested.session("resume", guested.private)
    guested.record("guest", guested.shared, NativeMoved(agent="claude", id=TALK, to=guested.private))
    assert guested.note_inside("still here") == guested.shared
    guested.prompt("Next thing")
    guested.run_make()
    assert guested.commands(guested.shared) == 1
    assert len(guested.document("history")["sessions"]) == 2


def test_short_id_of_our_conversation_is_not_matched_by_a_guests_whole_id(guested: GuestSession) -> None:
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK[:8]))
    moved = guested.document("conversation", "move", TALK[:8], "--to", guested.private)["moved"]
    assert moved["conversation"] == f"claude:{TALK}"
    guested.refused(3, "conversation", "move", f"claude:{TALK[:8]}", "--to", guested.private)


def test_guest_resume_command_does_not_reopen_our_conversation(guested: GuestSession) -> None:
    """Neither where it was recorded nor after a move."""
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK, resume="rm -rf /home/ada"))
    own = f"claude --resume {TALK}"
    assert [item["resume"] for item in guested.session("show", guested.shared)["native"]] == [own]
    guested.document("conversation", "move", TALK, "--to", guested.private)
    assert [item["resume"] for item in guested.session("show", guested.private)["conversations"]] == [own]
    assert "rm -rf" not in guested("log", guested.private).out + guested("briefing", guested.shared).out


def test_conversation_named_first_by_a_guest_becomes_ours_when_it_joins(guested: GuestSession) -> None:
    """Our device records it too, so that commands find it and it stays."""
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id="talk-9"))
    guested.say("UserPromptSubmit", "talk-9", prompt="More")
    moved = guested.document("conversation", "move", "talk-9", "--to", guested.private)["moved"]
    assert moved["before"] == guested.shared


def test_move_by_another_own_device_counts(guested: GuestSession) -> None:
    guested.join("tablet")
    guested.document("conversation", "move", TALK, "--to", guested.private)
    guested.sync("tablet", "laptop")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(guested.private)) == (0, 1)
