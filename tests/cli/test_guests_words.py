"""What a guest says in a session that we share is read there. It neither draws our next work into that session, nor
sends it elsewhere, nor chooses what our commands delete.
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
    SessionPaused,
    SessionResumed,
    SessionTimedOut,
    SessionUnarchived,
    WorkedRecorded,
)
from holdfast.keeper import Keeper
from holdfast.sessions.start import REPLACED
from tests.cli.guest_session import TALK, Guested

HOUR = 3_600_000
NEXT = "9a9b9c9d-1111-4222-8333-444455556666"

# What a guest can say that may decide where work goes or what is done here; what ends the session draws nothing.
SAID: dict[str, tuple[EventData, ...]] = {
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
def guested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Guested:
    return Guested(tmp_path, monkeypatch, capsys)


def goals(guested: Guested) -> dict[str, str]:
    rows = guested.document("history", "--limit", "50")["sessions"]
    return {str(row["goal"]): str(row["id"]) for row in rows}


def begin_by_prompt(guested: Guested) -> str:
    """Nothing gathers here any more: the shared session is put away, what replaced it is over, and a conversation
    began one by itself, which the guest may write in, too.
    """
    guested.session("start", "Another", "--replace")
    guested.session("stop")
    guested.say("UserPromptSubmit", "by-itself", prompt="Begun by itself")
    begun = goals(guested)["Begun by itself"]
    guested.share(begun)
    return begun


def test_guests_words_draw_no_new_conversation_into_a_session(guested: Guested) -> None:
    """Neither into one that the owner put away nor into one that a conversation began; nor do our own commands there
    go anywhere else than to the conversation's session.
    """
    sessions = [guested.shared, begin_by_prompt(guested)]
    for number, (name, entry) in enumerate(SAID.items()):
        guested.force(sessions, *entry)
        talk = f"{NEXT[:-4]}{number:04d}" if name != "conversations" else NEXT
        guested.say("UserPromptSubmit", talk, prompt=f"Private: {name}")
        assert f"Private: {name}" in goals(guested), name
        guested.patch.setenv("CLAUDE_CODE_SESSION_ID", talk)
        assert guested.session("note", "secret")["goal"] == f"Private: {name}"
        guested.patch.delenv("CLAUDE_CODE_SESSION_ID")
    for session in sessions:
        assert guested.notes(session) == []


def test_guests_signs_do_not_let_a_session_gather_longer_than_the_owners(guested: Guested) -> None:
    guested.document("config", "set", "capture.join_hours", "0")
    guested.force([guested.shared], NoteAdded(text="x"), MessageExchanged(), SessionResumed(), ahead=HOUR)
    guested.say("UserPromptSubmit", NEXT, prompt="Private work")
    assert "Private work" in goals(guested)


def test_session_gathers_when_another_device_of_ours_takes_it_up(guested: Guested) -> None:
    begun = begin_by_prompt(guested)
    guested.join("tablet")
    guested.session("resume", begun, "--force")
    guested.sync("tablet", "laptop")
    guested.say("UserPromptSubmit", NEXT, prompt="More of it")
    assert "More of it" not in goals(guested)
    assert NEXT in [item["id"] for item in guested.session("show", begun)["native"]]
    # Nor is a guest's device, whatever it is called, one that we can go on from.
    guested.force([guested.shared], SessionUnarchived(), DeviceJoined(device="tablet"), ahead=HOUR)
    assert guested.session("resume", "--device", "tablet")["id"] == begun


def test_sharers_words_do_not_let_a_session_gather_the_guests_work(guested: Guested) -> None:
    """The same the other way round: who has a session through a share takes it up themselves."""
    guested.at("guest")
    guested.session("resume", guested.shared, "--force")
    guested.document("config", "set", "capture.join_hours", "0")
    guested.sync("guest")
    guested.force([guested.shared], SessionResumed(), NoteAdded(text="x"), ahead=HOUR, by="laptop", to="guest")
    guested.say("UserPromptSubmit", NEXT, prompt="The guest's own", device="guest")
    assert "The guest's own" in goals(guested)


def test_guest_who_resumes_what_the_owner_put_away_keeps_no_conversation_there(guested: Guested) -> None:
    """The owner's conversation goes on in the session that the owner began in its place."""
    own = guested.session("start", "Not shared", "--replace")["id"]
    guested.force([guested.shared], SessionResumed(), SessionUnarchived())
    guested.prompt("Private from here on")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(own)) == (0, 1)


def test_guests_pause_does_not_send_a_conversation_to_another_session(guested: Guested) -> None:
    """As `start --replace` records it: only the owner's devices put a session away."""
    own = guested.session("resume", guested.private)["id"]
    guested.force([guested.shared], SessionPaused(reason=REPLACED))
    guested.prompt("Go on")
    guested.run_make()
    assert (guested.commands(guested.shared), guested.commands(own)) == (1, 0)


def test_agents_start_gives_way_though_a_guest_took_the_session_up(guested: Guested) -> None:
    begun = begin_by_prompt(guested)
    guested.force([begun], SessionResumed())
    guested.patch.setenv("CLAUDE_CODE_SESSION_ID", "by-itself")
    assert guested.session("start", "The agent's next")["id"] != begun


def test_guest_does_not_keep_a_mirrored_session_open_for_the_owners_conversations(guested: Guested) -> None:
    """A format that holds one session: what began by itself and was left takes no more of ours."""
    begun = begin_by_prompt(guested)
    guested.document("mirror", "on", "orchestrator")
    guested.say("SessionEnd", "by-itself", reason="other")
    guested.document("config", "set", "capture.join_hours", "0")
    guested.force([begun], NativeLinked(agent="claude", id="theirs"), MessageExchanged(), ahead=HOUR)
    guested.say("UserPromptSubmit", NEXT, prompt="Private work")
    assert "Private work" in goals(guested)


def test_resume_goes_on_with_what_the_owner_worked_on_last_though_a_guest_wrote_later(guested: Guested) -> None:
    own = guested.session("start", "Worked on last", "--replace")["id"]
    guested.force([guested.shared], SessionUnarchived(), NoteAdded(text="later"), ahead=HOUR)
    guested.git("worktree", "add", "-q", "../elsewhere")  # which is at no session yet
    guested.patch.chdir(guested.root / "elsewhere")
    assert guested.session("resume")["id"] == own


@pytest.mark.parametrize("is_named", [False, True])
def test_guests_name_does_not_lead_a_mirror_to_the_files_of_another_session(guested: Guested, is_named: bool) -> None:
    """Whether the shared session had a name in that format before, or the guest gave it the first one."""

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
def test_guest_does_not_choose_the_branch_that_stop_discards(guested: Guested, words: tuple[str, ...]) -> None:
    """It is the one that our own device said; where none did, the refusal names who else."""
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


def test_guests_name_for_a_session_stands_in_no_other_sessions_place(guested: Guested) -> None:
    """The beginning of an id means the session that has it."""
    guested.force([guested.shared], AliasGiven(format="orchestrator", id=guested.private[:8]))
    assert guested.document("show", guested.private[:8])["session"]["id"] == guested.private


def test_guests_word_on_a_commit_is_not_certain_and_not_first(guested: Guested) -> None:
    sha = "ab" * 20
    claim = CommitRecorded(sha=sha, message="Mine", conversation=f"claude:{TALK}", certainty="certain")
    guested.force([guested.private], CommitRecorded(sha=sha, message="Mine"), by="laptop", to="laptop")
    guested.force([guested.shared], claim, ahead=HOUR)
    document = guested.document("why", sha)["sessions"]
    assert [(match["id"], match["certainty"]) for match in document] == [
        (guested.private, "certain"), (guested.shared, "likely"),
    ]  # fmt: skip


def test_backup_speaks_for_our_devices_only_after_a_yes(guested: Guested, tmp_path: Path) -> None:
    """Whoever has the session could have written the file, and a remote has what our devices really said."""
    copy, file = tmp_path / "copy", str(tmp_path / "backup")
    shutil.copytree(guested.root / "home-laptop", copy)
    with Keeper.open(str(guested.project), home=str(copy)) as keeper:
        keeper.recorder.record(guested.shared, lambda _: [NoteAdded(text="words of ours")])
        keeper.backup(file)
    before = guested.session("show", guested.shared)
    asked = guested("restore", file)
    assert (asked.code, "proves who said them" in asked.err + asked.out) == (1, True)
    assert guested.session("show", guested.shared)["notes"] == before["notes"]
    guested.document("restore", file, "--yes")
    assert [note["text"] for note in guested.session("show", guested.shared)["notes"]][-1:] == ["words of ours"]
