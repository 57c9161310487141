"""`why` answers from recorded facts which session and conversation made a commit, file or line, and how certainly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.core.errors import NotFound
from holdfast.sessions.why import WhyAnswer
from tests.sessions.working_agents import Workplace


@pytest.fixture
def shop(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def why(shop: Workplace, what: str) -> WhyAnswer:
    with shop.keeper() as keeper:
        return keeper.why(what)


def origins(shop: Workplace, what: str) -> list[tuple[str, str | None, str]]:
    return [(session.goal, session.conversation, session.certainty) for session in why(shop, what).sessions]


def commit_of_an_agent(shop: Workplace, talk: str = "talk-1") -> str:
    """An agent fixes a file by a command and commits it."""
    shop.prompt("Fix the cart", talk)
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.git("commit", "-qam", "Add the tax")
    shop.ran("git commit -am 'Add the tax'", talk)
    shop.stop(talk)
    return shop.git("rev-parse", "HEAD")


def test_commit_line_and_file_of_an_agent_are_certain(shop: Workplace) -> None:
    sha = commit_of_an_agent(shop)
    expected = [("Fix the cart", "talk-1", "certain")]
    assert [origins(shop, what) for what in (sha, sha[:7], "HEAD", "cart.py:2", "cart.py")] == [expected] * 5
    answer = why(shop, "cart.py:2")
    assert (answer.commit, answer.file, answer.line) == (sha, "cart.py", 2)
    assert "claude:talk-1 ran the command that made it" in answer.sessions[0].because


def test_line_of_an_earlier_commit_has_no_origin(shop: Workplace) -> None:
    """Nothing is recorded, and nothing is guessed."""
    commit_of_an_agent(shop)
    assert origins(shop, "cart.py:1") == []


def test_commit_by_hand_of_what_a_session_left_is_likely_its(shop: Workplace) -> None:
    """Long after the session's end."""
    shop.prompt()
    shop.wrote("cart.py", "total = 7\n")
    shop.stop()
    with shop.keeper() as keeper:
        keeper.session().stop()
    shop.git("commit", "-qam", "By hand")
    (one,) = why(shop, "HEAD").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "likely")
    assert "cart.py exactly as this session left it" in one.because


def test_commit_rewritten_without_a_record_is_likely(shop: Workplace, tmp_path: Path) -> None:
    """In a clone on another machine: author time, and tree or first line, match a recorded commit."""
    commit_of_an_agent(shop)
    there = tmp_path / "there"
    shop.git("clone", "-q", str(shop.project), str(there), at=tmp_path)
    who = ("-c", "user.name=B", "-c", "user.email=b@c")
    shop.git(*who, "commit", "-q", "--amend", "-m", "Add the tax of 19 %", at=there)
    shop.git("fetch", "-q", str(there), "HEAD:theirs")
    assert origins(shop, "theirs") == [("Fix the cart", "talk-1", "likely")]


def test_amended_commit_belongs_to_the_conversation_of_the_first(shop: Workplace) -> None:
    first = commit_of_an_agent(shop)
    shop.git("commit", "-q", "--amend", "-m", "Add the tax of 19 %")
    shop.prompt("Go on")
    shop.stop()
    (one,) = why(shop, "HEAD").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "certain")
    assert f"made from {first[:12]} by an amend or a rebase" in one.because
    assert origins(shop, first) == [("Fix the cart", "talk-1", "certain")]


def test_trailer_in_a_commit_is_certain(shop: Workplace) -> None:
    shop.prompt("Fix the cart")
    shop.stop()
    with shop.keeper() as keeper:
        session = keeper.session().id
        keeper.session().stop()
    shop.write("cart.py", "total = 8\n")
    shop.git("commit", "-qam", f"By hand\n\nHoldfast-Session: {session}")
    (one,) = why(shop, "HEAD").sessions
    assert (one.id, one.certainty) == (session, "certain")


def test_commit_among_two_conversations_is_uncertain(shop: Workplace) -> None:
    shop.prompt()
    shop.prompt("Another", "talk-2")
    shop.write("cart.py", "total = 3\n")
    shop.git("commit", "-qam", "Whose")
    shop.ran("make", "talk-1")
    shop.stop()
    shop.stop("talk-2")
    answers = why(shop, "HEAD").sessions
    assert {answer.certainty for answer in answers} == {"uncertain"}
    assert all("claude:talk-1 or claude:talk-2 may have made it" in answer.because for answer in answers)


def test_uncommitted_line_belongs_to_the_session_that_left_the_file(shop: Workplace) -> None:
    shop.prompt()
    shop.write("cart.py", "total = 1\nnew = 2\n")
    shop.ran("echo new = 2 >> cart.py")
    shop.stop()
    answers = why(shop, "cart.py:2")
    assert (answers.commit, answers.about) == (None, "cart.py:2, not committed")
    assert [(session.conversation, session.certainty) for session in answers.sessions] == [("talk-1", "certain")]
    shop.write("cart.py", "total = 1\nother = 3\n")
    assert [certainty for _, _, certainty in origins(shop, "cart.py:2")] == ["uncertain"]


def test_why_is_refused_for_neither_a_commit_nor_a_file(shop: Workplace) -> None:
    for what in ("nothing.py", "deadbeef", "nothing.py:3", "--all", "\0"):
        with pytest.raises(NotFound):
            why(shop, what)


def test_project_without_git_answers_for_files(tmp_path: Path) -> None:
    plain = Workplace(tmp_path, git=False)
    plain.prompt()
    plain.wrote("cart.py", "total = 7\n")
    plain.stop()
    assert origins(plain, "cart.py:1") == origins(plain, "cart.py") == [("Fix the cart", "talk-1", "certain")]


def test_why_runs_no_program_configured_in_the_repository(shop: Workplace, tmp_path: Path) -> None:
    """Text conversions, filters, monitors, signature programs and hooks."""
    proof = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{proof}'\ncat\n")
    script.chmod(0o755)
    for name in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout"):
        (shop.project / ".git" / "hooks" / name).write_text(script.read_text())
        (shop.project / ".git" / "hooks" / name).chmod(0o755)
    commit_of_an_agent(shop)
    proof.unlink(missing_ok=True)
    shop.write(".gitattributes", "*.py diff=evil filter=evil merge=evil\n")
    for key, value in (
        ("diff.evil.textconv", str(script)), ("diff.evil.command", str(script)), ("filter.evil.clean", str(script)),
        ("filter.evil.process", str(script)), ("core.fsmonitor", str(script)), ("gpg.program", str(script)),
        ("log.showSignature", "true"), ("blame.ignoreRevsFile", str(script)), ("core.pager", str(script)),
        ("diff.external", str(script)), ("alias.log", f"!{script}"), ("core.sshCommand", str(script)),
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(shop.project), "config", key, value], check=True, timeout=60)
    shop.prompt("Again")
    shop.write("cart.py", "total = 1\ntax = 20\n")
    shop.ran("sed -i s/19/20/ cart.py")
    shop.stop()
    assert [(file.path, file.by) for file in shop.files()][-1] == ("cart.py", "command")
    assert origins(shop, "cart.py:2") == origins(shop, "cart.py") == [("Fix the cart", "talk-1", "certain")]
    assert origins(shop, "HEAD")
    assert not proof.exists()


def same_answer(shop: Workplace, what: str) -> str:
    """The reason given for both sessions, uncertainly and without a conversation."""
    answers = why(shop, what).sessions
    assert len({answer.id for answer in answers}) == 2
    (common,) = {(answer.conversation, answer.certainty, answer.because) for answer in answers}
    assert common[:2] == (None, "uncertain")
    return common[2]


def test_why_is_equally_uncertain_of_two_sessions_when_either_changed_the_file(shop: Workplace) -> None:
    """Both conversations worked in one tree when the file was made."""
    shop.prompt("Rework the cart")
    shop.prompt("Write tests", "talk-2")
    shop.write("both.txt", "both\n")
    shop.ran("echo both > both.txt")
    shop.stop()
    shop.stop("talk-2")
    assert len(shop.sessions()) == 2
    assert [(file.path, file.by, file.among) for file in shop.files()] == [
        ("both.txt", "unknown", ["claude:talk-1", "claude:talk-2"])
    ] * 2
    for what in ("both.txt", "both.txt:1"):
        assert "claude:talk-1 or claude:talk-2 may have done it" in same_answer(shop, what)
    shop.git("add", ".")
    shop.git("commit", "-qm", "Both")
    for what in ("both.txt", "both.txt:1"):
        because = same_answer(shop, what)
        assert "claude:talk-1 or claude:talk-2 may have done it" in because
        assert "this session left" not in because


def edit_of_a_person(shop: Workplace) -> None:
    """A person adds the second line of a file between two turns."""
    shop.prompt("Look around")
    shop.stop()
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.prompt("Commit what is there")


def commit_by_agent(shop: Workplace) -> None:
    shop.git("commit", "-qam", "Save")
    shop.ran("git commit -qam Save")
    shop.stop()


def test_why_is_uncertain_when_an_agent_committed_a_persons_line(shop: Workplace) -> None:
    edit_of_a_person(shop)
    commit_by_agent(shop)
    assert origins(shop, "HEAD") == [("Look around", "talk-1", "certain")]
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == (None, "uncertain")
    assert "a person modified it" in one.because
    assert "claude:talk-1 ran the command that made it" in one.because
    (one,) = why(shop, "cart.py").sessions
    assert (one.conversation, one.certainty) == (None, "certain")
    assert "a person modified it" in one.because
    assert "it left it" not in one.because


def test_why_is_uncertain_when_an_agent_changed_a_persons_file_further(shop: Workplace) -> None:
    edit_of_a_person(shop)
    shop.wrote("cart.py", "total = 1\ntax = 19\nsum = 20\n")
    commit_by_agent(shop)
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == (None, "uncertain")
    assert "a person modified it" in one.because
    assert "an agent's tool modified it" in one.because


def test_why_is_likely_when_an_agent_committed_changes_from_before_its_session(shop: Workplace) -> None:
    """Nothing is recorded of the change itself."""
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.prompt("Commit what is there")
    commit_by_agent(shop)
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "likely")
    assert "nothing recorded says who changed cart.py" in one.because


def test_why_names_the_agent_when_a_person_committed_the_agents_line(shop: Workplace) -> None:
    shop.prompt()
    shop.wrote("cart.py", "total = 1\ntax = 19\n")
    shop.stop()
    shop.git("commit", "-qam", "By hand")
    shop.prompt("Go on")
    shop.stop()
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "likely")
    assert "an agent's tool modified it" in one.because
    assert "a person made it" in one.because


def test_why_names_the_person_when_an_amend_by_hand_added_the_file(shop: Workplace) -> None:
    """The conversation made the first commit, which does not contain it."""
    first = commit_of_an_agent(shop)
    shop.write("byhand.txt", "p\n")
    shop.git("add", ".")
    shop.git("commit", "-q", "--amend", "--no-edit")
    shop.prompt("Go on")
    shop.stop()
    assert origins(shop, "byhand.txt") == [("Fix the cart", None, "certain")]
    (line,) = why(shop, "byhand.txt:1").sessions
    assert (line.conversation, first[:12] in line.because) == (None, False)
    assert origins(shop, "cart.py:2") == [("Fix the cart", "talk-1", "certain")]
    assert origins(shop, "HEAD") == [("Fix the cart", "talk-1", "certain")]
