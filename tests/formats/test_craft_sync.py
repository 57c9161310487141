"""The sync block of the craft format: what it shows, and that it is never taken as an edit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.events import NoteAdded, SessionStarted
from holdfast.core.model import Sync, SyncFacts
from holdfast.core.state import State
from holdfast.formats import registry
from holdfast.formats.base import Document, TimedEvent
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.craft import FORMAT
from holdfast.formats.merge import merge_documents
from holdfast.formats.remainder import remainder_event, render_with_remainder
from tests.formats.craft_documents import START, documents, example

SYNCED = SyncFacts(
    Sync(remote="home", status="synced", last_sync="2026-01-05T08:30:00.000Z", shared_with=["bea@example.org"]), "s3"
)
TRAVELS = st.builds(
    SyncFacts,
    st.builds(
        Sync,
        remote=st.just("home"),
        status=st.sampled_from(["pending", "synced", "error"]),
        last_sync=st.sampled_from([None, "2026-01-05T08:30:00.000Z"]),
        error=st.none() | st.text(min_size=1, max_size=30),
        shared_with=st.lists(st.sampled_from(["bea@example.org", "cy@example.org"]), unique=True),
    ),
    st.sampled_from(["local", "s3", "claude-desktop"]),
)


def session() -> State:
    start = SessionStarted(goal="Keep it", project=CONTEXT.project, device="workbench")
    return fold_events([TimedEvent(START, start)], "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11")


def block(document: Document) -> dict[str, Json]:
    block_shown = document["teleportation"]
    assert isinstance(block_shown, dict)
    return block_shown


def test_session_with_a_remote_shows_its_sync_status() -> None:
    """Every field of the block is filled; the devices still come from events."""
    assert block(render_with_remainder(session(), FORMAT, SYNCED)) == {
        "enabled": True, "last_sync": "2026-01-05T08:30:00.000Z", "sync_status": "success", "sync_error": None,
        "devices": ["workbench"], "storage_backend": "s3", "encrypted": True, "shared_with": ["bea@example.org"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "status_word"), [("pending", "pending"), ("synced", "success"), ("error", "error")]
)
def test_sync_status_uses_the_words_of_the_format(status: str, status_word: str) -> None:
    """Each sync status has its word in the format."""
    sync = msgspec.convert(
        {"remote": "home", "status": status, "error": "away" if status_word == "error" else None}, Sync
    )
    block_shown = block(render_with_remainder(session(), FORMAT, SyncFacts(sync, "local")))
    assert (block_shown["sync_status"], block_shown["shared_with"], block_shown["last_sync"]) == (
        status_word,
        None,
        None,
    )
    assert block_shown["sync_error"] == sync.error


def imported() -> State:
    repaired = FORMAT.repair(example(), CONTEXT).document
    events = FORMAT.changes(None, repaired, None, CONTEXT)
    bare = fold_events(events, str(repaired["session_id"]))
    kept = remainder_event(bare, FORMAT, repaired)
    assert kept is not None
    return fold_events([*events, TimedEvent(events[-1].at, kept)], bare.session)


def test_what_came_in_is_shown_until_there_is_a_remote() -> None:
    """An imported document is exported as it came; with a remote, the block alone becomes what is true here."""
    repaired = FORMAT.repair(example(), CONTEXT).document
    assert render_with_remainder(imported(), FORMAT) == repaired
    now = render_with_remainder(imported(), FORMAT, SYNCED)
    assert (block(now)["storage_backend"], block(now)["sync_status"]) == ("s3", "success")
    assert {**now, "teleportation": 0} == {**repaired, "teleportation": 0}
    assert list(now) == list(repaired)
    assert list(block(now)) == list(block(repaired))


@given(documents(), TRAVELS)
def test_sync_block_is_valid_and_not_an_edit(document: Document, travel: SyncFacts) -> None:
    """Any sync status gives a valid document, and reading it back gives no events."""
    state = state_of(document, FORMAT, CONTEXT)
    ours, written = FORMAT.render(state), render_with_remainder(state, FORMAT, travel)
    assert [problem for problem in FORMAT.problems(written, "craft") if problem.severity == "error"] == []
    for base in (ours, written, None):
        together = merge_documents(base, ours, written, FORMAT)
        assert together.clashes == []
        assert FORMAT.changes(ours, together.document, state, CONTEXT) == []


@given(TRAVELS)
def test_edit_next_to_the_sync_block_is_still_seen(travel: SyncFacts) -> None:
    """Who edits a file that says how the session travels changes what they changed, and nothing else."""
    state = session()
    ours = FORMAT.render(state)
    theirs = {**render_with_remainder(state, FORMAT, travel), "goal": "Keep all of it"}
    assert merge_documents(ours, ours, theirs, FORMAT).document == {**ours, "goal": "Keep all of it"}


@pytest.mark.parametrize("name", ["orchestrator", "timer", "contract"])
def test_formats_without_sync_fields_show_none(name: str) -> None:
    """Only craft has a sync block: for the other formats a remote changes nothing."""
    state = fold_events(
        [
            TimedEvent(START, SessionStarted(goal="Keep it", project=CONTEXT.project, device="workbench")),
            TimedEvent(START + 1, NoteAdded(text="x")),
        ],
        "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11",
    )
    rules = registry.format_named(name)
    assert render_with_remainder(state, rules, SYNCED) == render_with_remainder(state, rules)
