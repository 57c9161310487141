"""Nobody but ourselves decides which session our conversations belong to: a guest writes in a session that we share,
and what our agents do goes on where we have it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.events import NativeLinked, NativeMoved
from tests.cli.guest_session import OWNER, TALK, Guested


@pytest.fixture
def guested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Guested:
    return Guested(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("words", [(), ("--read-only",)])
def test_conversation_named_in_a_guests_session_stays_in_ours(guested: Guested, words: tuple[str, ...]) -> None:
    """Commands and hooks of the conversation act on our session, though the guest's is newer."""
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


def test_guests_link_does_not_undo_a_move(guested: Guested) -> None:
    """Neither for commands nor for hooks, nor for whoever moves it again; our own link does."""
    guested.document("conversation", "move", TALK, "--to", guested.private)
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK))
    assert guested.note_inside("private") == guested.private
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(guested.private)) == (0, 1)
    moved = guested.document("conversation", "move", TALK, "--to", guested.shared)["moved"]
    assert moved["before"] == guested.private
    assert guested.note_inside("shared again") == guested.shared


def test_guests_move_does_not_divert_our_work(guested: Guested) -> None:
    """Not even where a person took up another session since, which conversations join."""
    guested.session("resume", guested.private)
    guested.record("guest", guested.shared, NativeMoved(agent="claude", id=TALK, to=guested.private))
    assert guested.note_inside("still here") == guested.shared
    guested.prompt("Next thing")
    guested.run_make()
    assert guested.commands(guested.shared) == 1
    assert len(guested.document("history")["sessions"]) == 2


def test_short_id_of_our_conversation_is_not_taken_by_a_guests_whole_id(guested: Guested) -> None:
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK[:8]))
    moved = guested.document("conversation", "move", TALK[:8], "--to", guested.private)["moved"]
    assert moved["conversation"] == f"claude:{TALK}"
    guested.refused(3, "conversation", "move", f"claude:{TALK[:8]}", "--to", guested.private)


def test_guests_command_does_not_reopen_our_conversation(guested: Guested) -> None:
    """Neither where the guest recorded it nor where we move the conversation."""
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id=TALK, resume="rm -rf /home/ada"))
    own = f"claude --resume {TALK}"
    assert [item["resume"] for item in guested.session("show", guested.shared)["native"]] == [own]
    guested.document("conversation", "move", TALK, "--to", guested.private)
    assert [item["resume"] for item in guested.session("show", guested.private)["conversations"]] == [own]
    assert "rm -rf" not in guested("log", guested.private).out + guested("briefing", guested.shared).out


def test_conversation_that_a_guest_named_first_becomes_ours_when_it_joins(guested: Guested) -> None:
    """Our own device says so too, and so it is found by commands and stays when nothing gathers any more."""
    guested.record("guest", guested.shared, NativeLinked(agent="claude", id="talk-9"))
    guested.say("UserPromptSubmit", "talk-9", prompt="More")
    moved = guested.document("conversation", "move", "talk-9", "--to", guested.private)["moved"]
    assert moved["before"] == guested.shared


def test_move_by_another_device_of_ours_counts(guested: Guested) -> None:
    guested.join("tablet")
    guested.document("conversation", "move", TALK, "--to", guested.private)
    guested.sync("tablet", "laptop")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(guested.private)) == (0, 1)
