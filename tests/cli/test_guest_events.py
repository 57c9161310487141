"""What a guest records in a shared session is shown there, and decides nothing else.

It neither draws our next work into that session nor diverts it, and it does not choose what our commands delete.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.core.events import (
    AgentStarted,
    AliasGiven,
    AwayRecorded,
    CommitRecorded,
    DeviceJoined,
    EventData,
    ExtraKept,
    GitPositionNoted,
    MessageExchanged,
    NativeClosed,
    NativeLinked,
    NativeMoved,
    NoteAdded,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionTimedOut,
    SessionUnarchived,
    WorkedRecorded,
)
from holdfast.keeper import Keeper
from holdfast.sessions.start import REPLACED
from tests.cli.guest_session import TALK, GuestSession

HOUR = 3_600_000
NEXT = "9a9b9c9d-1111-4222-8333-444455556666"

# Events of a guest that could decide where work is recorded or what commands do; endings cannot.
GUEST_EVENTS: dict[str, tuple[EventData, ...]] = {
    "not put away": (SessionUnarchived(),),
    "pause ended": (SessionPaused(reason="x"), SessionResumed(gathers=False)),
    "taken up": (SessionResumed(),),
    "message": (MessageExchanged(),),
    "conversations": (
        NativeLinked(agent="claude", id=NEXT), NativeMoved(agent="claude", id=TALK, to="x"),
        NativeClosed(agent="claude", id=TALK),
    ),
    "pauses and limits": (
        AwayRecorded(since=1, until=2), WorkedRecorded(since=1, until=2), SessionTimedOut(), SessionResumed(),
    ),
    "names": (
        SessionEdited(scope="../x", feature="x", task="x", branch="main", continues="x", mode="debug"),
        AliasGiven(format="contract", id="../x"), DeviceJoined(device="laptop"), ExtraKept(name="models", value={}),
        GitPositionNoted(branch="main", commit="ab" * 20), AgentStarted(id="a1", type="coder"),
    ),
}  # fmt: skip


@pytest.fixture
def guested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> GuestSession:
    return GuestSession(tmp_path, monkeypatch, capsys)


def goals(guested: GuestSession) -> dict[str, str]:
    rows = guested.document("history", "--limit", "50")["sessions"]
    return {str(row["goal"]): str(row["id"]) for row in rows}


def begin_by_prompt(guested: GuestSession) -> str:
    """Archives the shared session and ends its replacement, so that a conversation begins a session by itself.

    The guest may write in that session too.
    """
    guested.session("start", "Another", "--replace")
    guested.session("stop")
    guested.say("UserPromptSubmit", "by-itself", prompt="Begun by itself")
    begun = goals(guested)["Begun by itself"]
    guested.share(begun)
    return begun


def test_guest_events_draw_no_new_conversation_into_a_session(guested: GuestSession) -> None:
    """Neither into one that the owner archived nor into one that a conversation began.

    Commands act on the conversation's own session.
    """
    sessions = [guested.shared, begin_by_prompt(guested)]
    for number, (name, entry) in enumerate(GUEST_EVENTS.items()):
        guested.force(sessions, *entry)
        talk = f"{NEXT[:-4]}{number:04d}" if name != "conversations" else NEXT
        guested.say("UserPromptSubmit", talk, prompt=f"Private: {name}")
        assert f"Private: {name}" in goals(guested), name
        guested.patch.setenv("CLAUDE_CODE_SESSION_ID", talk)
        assert guested.session("note", "secret")["goal"] == f"Private: {name}"
        guested.patch.delenv("CLAUDE_CODE_SESSION_ID")
    for session in sessions:
        assert guested.notes(session) == []


def test_guest_activity_does_not_prolong_the_time_to_join_a_session(guested: GuestSession) -> None:
    guested.document("config", "set", "capture.join_hours", "0")
    guested.force([guested.shared], NoteAdded(text="x"), MessageExchanged(), SessionResumed(), ahead=HOUR)
    guested.say("UserPromptSubmit", NEXT, prompt="Private work")
    assert "Private work" in goals(guested)


def test_session_takes_conversations_when_another_own_device_resumed_it(guested: GuestSession) -> None:
    begun = begin_by_prompt(guested)
    guested.join("tablet")
    guested.session("resume", begun, "--force")
    guested.sync("tablet", "laptop")
    guested.say("UserPromptSubmit", NEXT, prompt="More of it")
    assert "More of it" not in goals(guested)
    assert NEXT in [item["id"] for item in guested.session("show", begun)["native"]]
    # A guest's device of the same name is not one whose work we can resume.
    guested.force([guested.shared], SessionUnarchived(), DeviceJoined(device="tablet"), ahead=HOUR)
    assert guested.session("resume", "--device", "tablet")["id"] == begun


def test_owner_events_do_not_draw_the_guests_work_into_the_session(guested: GuestSession) -> None:
    """The same the other way round: the guest has to resume it."""
    guested.at("guest")
    guested.session("resume", guested.shared, "--force")
    guested.document("config", "set", "capture.join_hours", "0")
    guested.sync("guest")
    guested.force([guested.shared], SessionResumed(), NoteAdded(text="x"), ahead=HOUR, by="laptop", to="guest")
    guested.say("UserPromptSubmit", NEXT, prompt="The guest's own", device="guest")
    assert "The guest's own" in goals(guested)


def test_guest_resuming_an_archived_session_keeps_no_conversation_there(guested: GuestSession) -> None:
    """The owner's conversation continues in the session that replaced it."""
    own = guested.session("start", "Not shared", "--replace")["id"]
    guested.force([guested.shared], SessionResumed(), SessionUnarchived())
    guested.prompt("Private from here on")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(own)) == (0, 1)


def test_guest_pause_does_not_move_a_conversation(guested: GuestSession) -> None:
    """Although it looks like that of `start --replace`."""
    own = guested.session("resume", guested.private)["id"]
    guested.force([guested.shared], SessionPaused(reason=REPLACED))
    guested.prompt("Go on")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(own)) == (1, 0)


def test_agent_can_start_a_session_although_a_guest_resumed_the_current_one(guested: GuestSession) -> None:
    begun = begin_by_prompt(guested)
    guested.force([begun], SessionResumed())
    guested.patch.setenv("CLAUDE_CODE_SESSION_ID", "by-itself")
    assert guested.session("start", "The agent's next")["id"] != begun


def test_guest_does_not_keep_a_mirrored_session_open(guested: GuestSession) -> None:
    """The format holds one session, which takes no more conversations of the owner."""
    begun = begin_by_prompt(guested)
    guested.document("mirror", "on", "orchestrator")
    guested.say("SessionEnd", "by-itself", reason="other")
    guested.document("config", "set", "capture.join_hours", "0")
    guested.force([begun], NativeLinked(agent="claude", id="theirs"), MessageExchanged(), ahead=HOUR)
    guested.say("UserPromptSubmit", NEXT, prompt="Private work")
    assert "Private work" in goals(guested)


def test_resume_takes_the_owners_latest_session_although_a_guest_wrote_later(guested: GuestSession) -> None:
    own = guested.session("start", "Worked on last", "--replace")["id"]
    guested.force([guested.shared], SessionUnarchived(), NoteAdded(text="later"), ahead=HOUR)
    guested.git("worktree", "add", "-q", "../elsewhere")  # which has no session yet
    guested.patch.chdir(guested.root / "elsewhere")
    assert guested.session("resume")["id"] == own


@pytest.mark.parametrize("is_named", [False, True])
def test_guest_alias_does_not_redirect_a_mirror_to_files_of_another_session(
    guested: GuestSession, is_named: bool
) -> None:
    """Whether the session had an alias in that format or not."""

    def files() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in feature.glob("[!.]*") if file.is_file()}

    if is_named:
        guested.document("mirror", "on", "contract")
    own = guested.session("start", "Private", "--feature", "payments", "--replace")
    if not is_named:
        guested.document("mirror", "on", "contract")
        guested.document("mirror", "off", "contract")
    feature = guested.project / ".ai-session" / str(own["aliases"]["contract"])
    guested.session("resume", guested.shared)
    guested.force([guested.shared], AliasGiven(format="contract", id=feature.name))
    before = files()
    assert "state.yaml" in before
    if not is_named:
        guested("mirror", "on", "contract")
    guested("note", "Not there")
    assert files() == before
    assert guested.notes(guested.shared) == ["Not there"]
    assert guested.notes(str(own["id"])) == []


@pytest.mark.parametrize("words", [(), ("--branch",)])
def test_guest_does_not_choose_the_branch_that_stop_discards(guested: GuestSession, words: tuple[str, ...]) -> None:
    """It is the branch that our own device recorded; without one, the refusal names the other device."""
    guested.git("branch", "precious")
    session = guested.session("start", "With a branch", "--replace", *words)["id"]
    guested.share(session)
    guested.force([session], DeviceJoined(device="phone"), SessionEdited(branch="precious"))
    guested.git("switch", "-q", "precious")
    for how in ("--discard", "--keep"):
        message = guested.refused(1, "stop", how)["message"]
        assert (
            "not on the session's branch session/" if words else "'precious' was set by 'phone (guest)'"
        ) in message
    assert "precious" in guested.git("branch", "--list", "precious")
    if words:
        own = next(name for name in guested.git("branch").split() if name.startswith("session/"))
        guested.git("switch", "-q", own)
        guested.document("stop", "--discard")
        assert own not in guested.git("branch")


def test_guest_alias_does_not_hide_the_id_of_another_session(guested: GuestSession) -> None:
    """A prefix means the session whose id begins so."""
    guested.force([guested.shared], AliasGiven(format="orchestrator", id=guested.private[:8]))
    assert guested.document("show", guested.private[:8])["session"]["id"] == guested.private


@pytest.mark.parametrize("length", [8, 36])
def test_guest_alias_is_not_taken_for_the_id_of_a_deleted_session(guested: GuestSession, length: int) -> None:
    """A repeated command, or one on a device without that session, must not reach the shared one."""
    reference = guested.private[:length]
    guested.force([guested.shared], AliasGiven(format="orchestrator", id=reference))
    guested.document("delete", guested.private, "--confirm", "--force")
    for words in (["show", reference], ["resume", reference], ["delete", reference, "--confirm", "--force"]):
        guested.refused(3, *words)
    assert guested.session("show", guested.shared)["id"] == guested.shared


def test_own_alias_that_looks_like_an_id_finds_the_session(guested: GuestSession) -> None:
    """Programs give their files such ids, too."""
    alias = "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"
    guested.force([guested.private], AliasGiven(format="orchestrator", id=alias), by="laptop", to="laptop")
    assert guested.session("show", alias)["id"] == guested.private


def test_guest_cannot_make_an_alias_of_another_session_ambiguous(guested: GuestSession) -> None:
    """Our own alias is meant; once that session is deleted, it means none."""
    guested.force([guested.private], AliasGiven(format="orchestrator", id="2026-10-05-abc"), by="laptop", to="laptop")
    guested.force([guested.shared], AliasGiven(format="orchestrator", id="2026-10-05-abc"))
    assert guested.session("show", "2026-10-05-abc")["id"] == guested.private
    guested.document("delete", "2026-10-05-abc", "--confirm", "--force")
    guested.refused(3, "delete", "2026-10-05-abc", "--confirm", "--force")
    assert guested.session("show", guested.shared)["id"] == guested.shared


def test_restore_ends_no_session_for_a_device_that_is_not_ours(guested: GuestSession, tmp_path: Path) -> None:
    """What counts arrives by sync; a file proves nothing."""
    copy, file = tmp_path / "copy", str(tmp_path / "backup")
    shutil.copytree(guested.root / "home-laptop", copy)
    for name in ("device.json", "remotes.json"):
        (copy / name).unlink()
    with Keeper.open(str(guested.project), home=str(copy), actor="guest") as keeper:
        keeper.recorder.record(guested.shared, lambda _: [SessionFailed(message="over")])
        keeper.backup(file)
    refused = guested("restore", file)
    assert "end or resume something here" in refused.err + refused.out, refused
    assert guested.session("show", guested.shared)["status"] == "in_progress"


def test_why_ranks_a_guests_claim_of_a_commit_last_and_uncertain(guested: GuestSession) -> None:
    sha = "ab" * 20
    claim = CommitRecorded(sha=sha, message="Mine", conversation=f"claude:{TALK}", certainty="certain")
    guested.force([guested.private], CommitRecorded(sha=sha, message="Mine"), by="laptop", to="laptop")
    guested.force([guested.shared], claim, ahead=HOUR)
    document = guested.document("why", sha)["sessions"]
    assert [(match["id"], match["certainty"]) for match in document] == [
        (guested.private, "certain"), (guested.shared, "likely"),
    ]  # fmt: skip


def test_restore_asks_before_it_accepts_events_of_own_devices(guested: GuestSession, tmp_path: Path) -> None:
    """Anyone who has the session could have written the file."""
    copy, file = tmp_path / "copy", str(tmp_path / "backup")
    shutil.copytree(guested.root / "home-laptop", copy)
    with Keeper.open(str(guested.project), home=str(copy)) as keeper:
        keeper.recorder.record(guested.shared, lambda _: [NoteAdded(text="words of ours")])
        keeper.backup(file)
    before = guested.session("show", guested.shared)
    asked = guested("restore", file)
    assert (asked.code, "cannot prove who recorded them" in asked.err + asked.out) == (1, True)
    assert guested.session("show", guested.shared)["notes"] == before["notes"]
    guested.document("restore", file, "--yes")
    assert [note["text"] for note in guested.session("show", guested.shared)["notes"]][-1:] == ["words of ours"]


def test_shared_session_is_found_by_the_alias_that_its_owner_gave(guested: GuestSession) -> None:
    """Unless it could be the beginning of an id."""
    for alias in ("2026-10-05-3fa9c2", guested.private[:8]):
        session = guested.session("start", f"Called {alias}", "--replace")["id"]
        guested.force([session], AliasGiven(format="orchestrator", id=alias), by="laptop", to="laptop")
        guested.share(session)
        guested.at("guest")
        if alias.startswith("2026-"):
            assert guested.session("show", alias)["id"] == session
        else:
            guested.refused(3, "show", alias)
        guested.at("laptop")


def test_resume_device_ignores_a_session_that_others_shared(guested: GuestSession) -> None:
    """Whoever shares it can call their device like one of ours."""
    guested.at("guest")
    guested.document("device", "rename", "laptop")
    bait = guested.session("start", "Bait", "--replace")["id"]
    guested.document("remote", "add", "theirs", f"folder:{guested.root}/theirs")
    guested.document("people", "add", "owner@example.org", guested.owners_key)
    guested.document("share", bait, "--with", "owner@example.org")
    guested.at("laptop")
    (offer,) = guested.document("accept", f"folder:{guested.root}/theirs", "--list")["offers"]
    guested.document("accept", f"folder:{guested.root}/theirs", offer["name"])
    assert guested.session("resume", "--device", "laptop", "--force")["id"] != bait
