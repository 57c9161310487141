"""`why` answers from recorded facts: which session and conversation made a commit, a file or a line, and how sure."""

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


def said(shop: Workplace, what: str) -> list[tuple[str, str | None, str]]:
    return [(session.goal, session.conversation, session.certainty) for session in why(shop, what).sessions]


def by_agent(shop: Workplace, talk: str = "talk-1") -> str:
    """An agent fixes a file by a command, and commits it."""
    shop.prompt("Fix the cart", talk)
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.git("commit", "-qam", "Add the tax")
    shop.ran("git commit -am 'Add the tax'", talk)
    shop.stop(talk)
    return shop.git("rev-parse", "HEAD")


def test_commit_line_and_file_of_an_agent_are_certain(shop: Workplace) -> None:
    sha = by_agent(shop)
    expected = [("Fix the cart", "talk-1", "certain")]
    assert [said(shop, what) for what in (sha, sha[:7], "HEAD", "cart.py:2", "cart.py")] == [expected] * 5
    found = why(shop, "cart.py:2")
    assert (found.commit, found.file, found.line) == (sha, "cart.py", 2)
    assert "claude:talk-1 ran the command that made it" in found.sessions[0].because


def test_line_of_an_earlier_commit_has_no_origin(shop: Workplace) -> None:
    """Nothing recorded says who made it, and nothing is guessed."""
    by_agent(shop)
    assert said(shop, "cart.py:1") == []


def test_commit_by_hand_of_a_sessions_files_is_likely(shop: Workplace) -> None:
    """Long after the session has ended: the content is what it left."""
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
    """In a clone, on another machine: it has the author time and the tree, or the first line, of one on record."""
    by_agent(shop)
    there = tmp_path / "there"
    shop.git("clone", "-q", str(shop.project), str(there), at=tmp_path)
    who = ("-c", "user.name=B", "-c", "user.email=b@c")
    shop.git(*who, "commit", "-q", "--amend", "-m", "Add the tax of 19 %", at=there)
    shop.git("fetch", "-q", str(there), "HEAD:theirs")
    assert said(shop, "theirs") == [("Fix the cart", "talk-1", "likely")]


def test_amended_commit_leads_to_the_conversation_that_made_the_first(shop: Workplace) -> None:
    first = by_agent(shop)
    shop.git("commit", "-q", "--amend", "-m", "Add the tax of 19 %")
    shop.prompt("Go on")
    shop.stop()
    (one,) = why(shop, "HEAD").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "certain")
    assert f"made of {first[:12]} by an amend or a rebase" in one.because
    assert said(shop, first) == [("Fix the cart", "talk-1", "certain")]


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


def test_line_that_is_not_committed_is_the_sessions_that_left_the_file_so(shop: Workplace) -> None:
    shop.prompt()
    shop.write("cart.py", "total = 1\nnew = 2\n")
    shop.ran("echo new = 2 >> cart.py")
    shop.stop()
    found = why(shop, "cart.py:2")
    assert (found.commit, found.about) == (None, "cart.py:2, not committed")
    assert [(session.conversation, session.certainty) for session in found.sessions] == [("talk-1", "certain")]
    shop.write("cart.py", "total = 1\nother = 3\n")
    assert [certainty for _, _, certainty in said(shop, "cart.py:2")] == ["uncertain"]


def test_why_is_refused_for_neither_a_commit_nor_a_file(shop: Workplace) -> None:
    for what in ("nothing.py", "deadbeef", "nothing.py:3", "--all", "\0"):
        with pytest.raises(NotFound):
            why(shop, what)


def test_project_without_git_answers_for_files(tmp_path: Path) -> None:
    plain = Workplace(tmp_path, git=False)
    plain.prompt()
    plain.wrote("cart.py", "total = 7\n")
    plain.stop()
    assert said(plain, "cart.py:1") == said(plain, "cart.py") == [("Fix the cart", "talk-1", "certain")]


def test_nothing_that_the_repository_names_is_run(shop: Workplace, tmp_path: Path) -> None:
    """Text conversions, filters, monitors, signature programs, hooks: while trees are compared and lines blamed."""
    proof = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{proof}'\ncat\n")
    script.chmod(0o755)
    for name in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout"):
        (shop.project / ".git" / "hooks" / name).write_text(script.read_text())
        (shop.project / ".git" / "hooks" / name).chmod(0o755)
    by_agent(shop)
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
    assert said(shop, "cart.py:2") == said(shop, "cart.py") == [("Fix the cart", "talk-1", "certain")]
    assert said(shop, "HEAD")
    assert not proof.exists()


def same_answer(shop: Workplace, what: str) -> str:
    """The reason that two sessions are both given, uncertainly and without a conversation."""
    answers = why(shop, what).sessions
    assert len({answer.id for answer in answers}) == 2
    (said_of_both,) = {(answer.conversation, answer.certainty, answer.because) for answer in answers}
    assert said_of_both[:2] == (None, "uncertain")
    return said_of_both[2]


def test_why_gives_two_sessions_the_same_uncertain_answer_when_either_changed_the_file(shop: Workplace) -> None:
    """Both conversations were at work in one tree when the file was made, and nobody touched it again."""
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


def by_person(shop: Workplace) -> None:
    """A person adds the second line of a file between two turns."""
    shop.prompt("Look around")
    shop.stop()
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.prompt("Commit what is there")


def commit_by_agent(shop: Workplace) -> None:
    shop.git("commit", "-qam", "Save")
    shop.ran("git commit -qam Save")
    shop.stop()


def test_why_is_not_certain_of_the_agent_when_it_committed_the_line_of_a_person(shop: Workplace) -> None:
    by_person(shop)
    commit_by_agent(shop)
    assert said(shop, "HEAD") == [("Look around", "talk-1", "certain")]
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == (None, "uncertain")
    assert "a person modified it" in one.because
    assert "claude:talk-1 ran the command that made it" in one.because
    (one,) = why(shop, "cart.py").sessions
    assert (one.conversation, one.certainty) == (None, "certain")
    assert "a person modified it" in one.because
    assert "it left it" not in one.because


def test_why_is_not_certain_of_the_agent_when_it_changed_the_file_of_a_person_further(shop: Workplace) -> None:
    by_person(shop)
    shop.wrote("cart.py", "total = 1\ntax = 19\nsum = 20\n")
    commit_by_agent(shop)
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == (None, "uncertain")
    assert "a person modified it" in one.because
    assert "an agent's tool modified it" in one.because


def test_why_is_likely_when_the_agent_committed_what_was_there_before_its_session(shop: Workplace) -> None:
    """Nothing is recorded of the change itself."""
    shop.write("cart.py", "total = 1\ntax = 19\n")
    shop.prompt("Commit what is there")
    commit_by_agent(shop)
    (one,) = why(shop, "cart.py:2").sessions
    assert (one.conversation, one.certainty) == ("talk-1", "likely")
    assert "nothing recorded says who changed cart.py" in one.because


def test_why_names_the_agent_when_a_person_committed_its_line(shop: Workplace) -> None:
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


def test_why_names_the_person_when_an_amend_by_hand_brought_the_file_in(shop: Workplace) -> None:
    """The conversation made the first commit of the chain, which does not have the file."""
    first = by_agent(shop)
    shop.write("byhand.txt", "p\n")
    shop.git("add", ".")
    shop.git("commit", "-q", "--amend", "--no-edit")
    shop.prompt("Go on")
    shop.stop()
    assert said(shop, "byhand.txt") == [("Fix the cart", None, "certain")]
    (line,) = why(shop, "byhand.txt:1").sessions
    assert (line.conversation, first[:12] in line.because) == (None, False)
    assert said(shop, "cart.py:2") == [("Fix the cart", "talk-1", "certain")]
    assert said(shop, "HEAD") == [("Fix the cart", "talk-1", "certain")]
