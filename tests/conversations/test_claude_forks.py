"""Forked conversations of Claude Code: shared lines are recorded once, for the conversation that had them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.signals import Compacted, Measured, Prompted, Ran
from tests.support.claude_transcripts import TALK, Past, only

FORK = "00000000-2222-4333-8444-555555555555"


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path)


def test_copied_lines_belong_to_original(past: Past) -> None:
    """Copied lines name their origin and count there; without the original they count here."""
    fork = "99999999-2222-4333-8444-555555555555"
    first = [past.prompt("Go"), past.answer({"type": "text", "text": "Yes."})]
    past.write(*first)
    copies = [line | {"sessionId": fork, "forkedFrom": {"sessionId": TALK}} for line in first]
    own = [past.prompt("Another way", sessionId=fork), past.answer({"type": "text", "text": "Hm."}, sessionId=fork)]
    past.write(*copies, *own, name=fork)
    by_id = {transcript.conversation: transcript for transcript in past.transcripts()}
    assert by_id[TALK].input_tokens + by_id[fork].input_tokens == 20
    assert [item.text for item in only(by_id[fork], Prompted)] == ["Another way"]
    (past.directory / f"{TALK}.jsonl").unlink()
    assert [item.text for item in only(past.transcript(), Prompted)] == ["Go", "Another way"]


def conversation(past: Past) -> list[dict[str, Any]]:
    """Something of everything that must be recorded once; lines without an id are among the others."""
    asked = {"subagent_type": "Explore", "description": "Look", "prompt": "Look around"}
    return [
        {"type": "mode", "mode": "normal", "sessionId": TALK},
        past.prompt("Add OAuth"),
        past.used("c1", "Bash", {"command": "make"}, name="m1"),
        past.result("c1"),
        {"type": "last-prompt", "lastPrompt": "Add OAuth", "sessionId": TALK},
        past.used("c2", "Task", asked, name="m2"),
        past.result("c2", result={"status": "async_launched", "agentId": "a1"}),
        past.answer({"type": "text", "text": "Done."}, name="m3"),
        {"type": "cost-state", "sessionId": TALK, "totalCostUSD": 2.0},
    ]


def fork_of(lines: list[dict[str, Any]], name: str = FORK) -> list[dict[str, Any]]:
    """Copy as Claude Code forks: lines with an id, in one block, without a reference to the origin."""
    return [line | {"sessionId": name} for line in lines if "uuid" in line]


def forked(past: Past, text: str, cost: float, name: str = FORK) -> list[dict[str, Any]]:
    own = [past.prompt(text, sessionId=name), past.answer({"type": "text", "text": "Hm."}, sessionId=name)]
    return [*own, {"type": "cost-state", "sessionId": name, "totalCostUSD": cost}]


def test_unmarked_fork_is_recognised_by_ids(past: Past) -> None:
    """Read before its original, it has only its own part, and the original is complete."""
    lines = conversation(past)
    past.write(*lines)
    (alone,) = past.transcripts()
    past.write(*fork_of(lines), *forked(past, "Another way", 2.5), name=FORK)
    fork, original = past.transcripts()
    assert (original, original.conversation) == (alone, TALK)
    assert (fork.conversation, fork.parent, fork.cost_usd) == (FORK, TALK, 0.5)
    assert [type(line.signal) for line in fork.signals] == [Prompted, Measured]
    assert (fork.messages, len(fork.signs), fork.input_tokens, fork.output_tokens) == (2, 2, 10, 5)


def test_forked_conversation_that_goes_on_stays_original(past: Past) -> None:
    """Even if all its lines have ids; new lines of either are its own."""
    lines = [line for line in conversation(past) if "uuid" in line]
    past.write(*fork_of(lines), *forked(past, "Another way", 2.5), name=FORK)
    past.write(*lines, past.prompt("Go on here"))
    fork, original = past.transcripts()
    assert (original.parent, fork.parent, fork.cost_usd) == (None, TALK, None)
    assert [item.text for item in only(original, Prompted)] == ["Add OAuth", "Go on here"]
    assert [item.text for item in only(fork, Prompted)] == ["Another way"]


def test_fork_from_earlier_turn_is_no_original(past: Past) -> None:
    """The omitted part came before its own first record; lines without ids show which was written first."""
    lines = conversation(past)
    past.write(*lines, past.prompt("A wrong way"))
    past.write(*fork_of(lines), *forked(past, "Another way", 2.5), name=FORK)
    fork, original = past.transcripts()
    assert [item.text for item in only(original, Prompted)] == ["Add OAuth", "A wrong way"]
    assert ([item.text for item in only(fork, Prompted)], fork.parent) == (["Another way"], TALK)


def test_fork_of_fork_continues_it(past: Past) -> None:
    """So does every resumed conversation of older versions: each file contains all earlier ones."""
    lines, third = conversation(past), "77777777-2222-4333-8444-555555555555"
    own = forked(past, "Another way", 2.5)
    past.write(*lines)
    past.write(*fork_of(lines), *own, name=FORK)
    past.write(*fork_of([*lines, *own], third), *forked(past, "A third", 2.75, third), name=third)
    by_conversation = {transcript.conversation: transcript for transcript in past.transcripts()}
    assert {name: line.parent for name, line in by_conversation.items()} == {TALK: None, FORK: TALK, third: FORK}
    assert {name: line.cost_usd for name, line in by_conversation.items()} == {TALK: 2.0, FORK: 0.5, third: 0.25}
    assert [len(only(by_conversation[name], Prompted)) for name in (TALK, FORK, third)] == [1, 1, 1]


def test_fork_beginning_with_compaction_is_recognised(past: Past) -> None:
    """Its first record is in the middle of the original."""
    boundary = past.line("system", subtype="compact_boundary", logicalParentUuid="uuid-1")
    after = [boundary, past.prompt("Summary", isCompactSummary=True), past.prompt("And now?"), past.answer(name="m9")]
    past.write(*conversation(past), *after)
    past.write(*fork_of(after), *forked(past, "Another way", 3), name=FORK)
    fork, original = past.transcripts()
    assert (fork.parent, [item.text for item in only(fork, Prompted)]) == (TALK, ["Another way"])
    assert (len(only(fork, Compacted)), len(only(original, Compacted))) == (0, 1)


def test_fork_of_deleted_original_keeps_all_lines(past: Past) -> None:
    past.write(*fork_of(conversation(past)), *forked(past, "Another way", 2.5), name=FORK)
    (transcript,) = past.transcripts()
    assert (transcript.parent, len(only(transcript, Ran)), transcript.cost_usd) == (None, 1, 2.5)


def test_message_divided_by_fork_counts_once(past: Past) -> None:
    """Its lines have their own ids, and each has the tokens."""
    lines = [past.prompt("Add OAuth"), past.answer({"type": "text", "text": "First"}, name="m1")]
    rest = past.answer({"type": "text", "text": "Second"}, name="m1")
    past.write(*lines, rest)
    past.write(*fork_of(lines), rest | {"uuid": "other"}, *forked(past, "Another way", 1), name=FORK)
    assert sum(transcript.input_tokens for transcript in past.transcripts()) == 20


def test_marked_fork_from_middle_loses_nothing(past: Past) -> None:
    """The original had continued past the fork point: shared lines count for the original."""
    shared = [past.prompt("Go"), past.answer({"type": "text", "text": "Yes."})]
    rest = [past.prompt("Go on"), past.answer({"type": "text", "text": "Done."})]
    past.write(*shared, *rest)
    copies = [line | {"sessionId": FORK, "forkedFrom": {"sessionId": TALK}} for line in shared]
    past.write(*copies, past.prompt("Another way", sessionId=FORK), name=FORK)
    prompts = {
        transcript.conversation: [item.text for item in only(transcript, Prompted)]
        for transcript in past.transcripts()
    }
    assert prompts[TALK][0] == "Go"
    assert prompts[FORK] == ["Another way"]
