"""The craft format: the suite every format passes, its strict rules, and what an edited file turns into."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid, Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentInterrupted,
    AgentPaused,
    AgentRetried,
    AgentStarted,
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    FileChanged,
    NoteAdded,
    SessionCompleted,
    SessionEdited,
    SessionResumed,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
)
from holdfast.core.fold import fold
from holdfast.core.model import Row
from holdfast.core.state import State
from holdfast.formats import craft, document_paths, registry
from holdfast.formats.base import Document, Problem, TimedEvent
from holdfast.formats.conformance import CONTEXT, FormatConformance
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.craft import FORMAT
from holdfast.formats.merge import merge_documents
from holdfast.formats.remainder import render_with_remainder
from tests.formats.craft_documents import START, documents, edits, example
from tests.support.histories import History, histories

SHA1 = "a1b2c3d4e5f6789012345678901234567890abcd"


def repaired() -> Document:
    return FORMAT.repair(example(), CONTEXT).document


class TestCraft(FormatConformance):
    rules = registry.format_named("craft")
    documents = documents()
    edits = edits()
    examples = (("the complete example", repaired()),)


# ── what is used below ───────────────────────────────────────────────────────────────────────────────────


def obj(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value


def arr(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


def agent(document: Document, place: int = 0) -> Document:
    return obj(arr(document["agents"])[place])


def reported(document: Json, kind: str = "craft") -> list[tuple[str, str]]:
    return [
        (document_paths.format_place(problem.place), problem.message) for problem in FORMAT.problems(document, kind)
    ]


def edited(before: Document, after: Document) -> tuple[State, list[TimedEvent], State]:
    """The state before an edit, the events made of it, and the state after."""
    started = FORMAT.changes(None, before, None, CONTEXT)
    state = state_of(before, FORMAT, CONTEXT)
    more = FORMAT.changes(before, merge_documents(before, before, after, FORMAT).document, state, CONTEXT)
    return state, more, fold_events([*started, *more], state.session)


def datas(events: list[TimedEvent]) -> list[object]:
    return [event.data for event in events]


def session(*more: TimedEvent) -> State:
    start = SessionStarted(goal="Keep it", project=CONTEXT.project, device="workbench")
    return fold_events([TimedEvent(START, start), *more], "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11")


# ── strict ───────────────────────────────────────────────────────────────────────────────────────────────


def test_example_of_the_text_has_an_id_and_a_hash_that_break_its_own_rules() -> None:
    assert reported(example()) == [
        (
            "$.session_id",
            'must be a UUID of version 4 in lower case, is "abc12345-def6-7890-ghij-klmnopqrstuv"',
        ),
        (
            "$.files_modified[0].hash_after",
            f'must be a SHA-256: 64 hexadecimal digits in lower case, is "{SHA1}"',
        ),
    ]


def test_repaired_example_has_no_problems() -> None:
    assert reported(repaired()) == []
    assert FORMAT.is_sound(msgspec.json.encode(repaired()), "craft")


@pytest.mark.parametrize(
    "key",
    [
        "schema_version", "session_id", "created_at", "updated_at", "device", "project", "goal", "mode", "status",
        "progress", "agents", "completed_work", "pending_tasks", "decisions_made", "files_modified",
        "context_usage", "teleportation",
    ],
)  # fmt: skip
def test_each_required_field_is_missed(key: str) -> None:
    document = repaired()
    del document[key]
    assert (f"$.{key}", "is missing") in reported(document)


def test_metadata_and_the_address_of_the_schema_are_optional() -> None:
    document = repaired()
    del document["metadata"], document["$schema"]
    assert reported(document) == []


def with_two_agents(change: dict[str, Json], other: dict[str, Json] | None = None) -> Document:
    document = repaired()
    agent(document).update(change)
    agent(document, 1).update(other or {})
    return document


IN_MILLISECONDS = "must be a time in UTC with milliseconds such as 2026-11-15T09:30:00.000Z"


def within(key: str, change: Document) -> Document:
    part = repaired()[key]
    assert isinstance(part, dict)
    return {**repaired(), key: {**part, **change}}


def decision() -> Document:
    entries = repaired()["decisions_made"]
    assert isinstance(entries, list)
    assert isinstance(entries[0], dict)
    return entries[0]


@pytest.mark.parametrize(
    ("document", "place", "message"),
    [
        ({**repaired(), "updated_at": "2026-01-17T14:29:00.000Z"}, "$.updated_at", "is earlier than created_at"),
        (
            {**repaired(), "created_at": "2026-01-17T08:30:00-06:00"},
            "$.created_at",
            f'{IN_MILLISECONDS}, is "2026-01-17T08:30:00-06:00"',
        ),
        (
            {**repaired(), "schema_version": "2.0.0"},
            "$.schema_version",
            "is 2.0.0, newer than 1.0.0, the version supported here",
        ),
        ({**repaired(), "progress": 65}, "$.progress", "must be at most 1, is 65"),
        (
            {**repaired(), "updated_at": "2026-01-17T14:45:23Z"},
            "$.updated_at",
            f'{IN_MILLISECONDS}, is "2026-01-17T14:45:23Z"',
        ),
        (
            within("teleportation", {"shared_with": ["anna@example.org", "ben"]}),
            "$.teleportation.shared_with[1]",
            'must be an email address such as anna@example.org, is "ben"',
        ),
        (
            within("metadata", {"craft_version": "v1.23"}),
            "$.metadata.craft_version",
            'must be a version such as 1.23.0, is "v1.23"',
        ),
        (
            {**repaired(), "decisions_made": [{**decision(), "chosen": "Magic links"}]},
            "$.decisions_made[0].chosen",
            "is not among the options: 'Magic links'",
        ),
        (with_two_agents({}, {"id": "arch-1"}), "$.agents[1].id", "is already the id of agents[0]"),
        (
            with_two_agents({"blocking_on": "nobody"}),
            "$.agents[0].blocking_on",
            "names 'nobody', which is not an agent of the session",
        ),
        (with_two_agents({"blocking_on": "arch-1"}), "$.agents[0].blocking_on", "names the agent itself"),
        (
            with_two_agents({"blocking_on": "code-1"}, {"blocking_on": "arch-1"}),
            "$.agents[0].blocking_on",
            "agents wait for each other in a circle: arch-1 → code-1 → arch-1",
        ),
        (with_two_agents({"duration_seconds": 90}), "$.agents[0].duration_seconds", "is 90, the times say 135"),
        (
            with_two_agents({"completed_at": "2026-01-17T14:30:00.000Z"}),
            "$.agents[0].completed_at",
            "is earlier than started_at",
        ),
        (
            with_two_agents({"result": "failure"}),
            "$.agents[0].result",
            "is failure, which contradicts status completed",
        ),
        (
            with_two_agents({}, {"completed_at": "2026-01-17T14:40:00.000Z"}),
            "$.agents[1].completed_at",
            "is set, which contradicts status running",
        ),
        (
            with_two_agents(
                {"artifacts": {"files_created": ["/etc/passwd"], "files_modified": [], "files_deleted": []}}
            ),
            "$.agents[0].artifacts.files_created[0]",
            "must be a path inside the project, is '/etc/passwd'",
        ),
    ],
)
def test_contradictions_are_reported_with_their_place(document: Document, place: str, message: str) -> None:
    assert reported(document) == [(place, message)]
    assert not FORMAT.is_sound(msgspec.json.encode(document), "craft")


@pytest.mark.parametrize("seconds", [135, 136])
def test_duration_may_be_rounded_either_way(seconds: int) -> None:
    document = with_two_agents({"completed_at": "2026-01-17T14:32:30.400Z", "duration_seconds": seconds})
    assert reported(document) == []


def test_long_goal_is_a_warning() -> None:
    document = {**repaired(), "goal": "Do. It. Now. Please."}
    assert FORMAT.problems(document, "craft") == [
        Problem(("goal",), "should be 1 to 3 sentences, has 4", "warning"),
    ]
    assert FORMAT.repair(document, CONTEXT) == (document, [])


def test_dots_within_words_do_not_end_a_sentence() -> None:
    assert reported({**repaired(), "goal": "Add OAuth 2.0 to api.example.com. Then stop! Sure?"}) == []


# ── quick ────────────────────────────────────────────────────────────────────────────────────────────────


@given(documents())
def test_what_looks_sound_has_no_problem(document: Document) -> None:
    if FORMAT.is_sound(msgspec.json.encode(document), "craft"):
        assert reported(document) == []


@given(documents(), st.data())
def test_document_that_passes_the_quick_check_has_no_problems(document: Document, data: st.DataObject) -> None:
    """One value somewhere is replaced by another that may or may not be allowed there."""
    changed = copy.deepcopy(document)
    here: Json = changed
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(arr(here))))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = here[key]  # type: ignore[index,call-overload]
        if isinstance(inner, (dict, list)) and inner and data.draw(st.booleans()):
            here = inner
            continue
        values: list[Json] = [
            None,
            True,
            "",
            "x",
            "2026-01-17T14:30:00Z",
            "2026-02-30T00:00:00Z",
            0,
            1.0,
            -1,
            2**60,
            [],
            {},
            ["a"],
        ]
        here[key] = data.draw(st.sampled_from(values))  # type: ignore[index,call-overload]
        break
    if FORMAT.is_sound(msgspec.json.encode(changed), "craft"):
        assert reported(changed) == []


def test_ordinary_document_passes_the_quick_check() -> None:
    assert FORMAT.is_sound(msgspec.json.encode(repaired()), "craft")
    assert not FORMAT.is_sound(b"[]", "craft")
    assert not FORMAT.is_sound(b"{", "craft")


# ── kinds of file ────────────────────────────────────────────────────────────────────────────────────────


def test_session_and_index_are_detected_among_other_files() -> None:
    orchestrator: Document = {"schema_version": "1.0", "session_id": "2025-12-27-abc123", "created": "", "goal": "x"}
    assert FORMAT.detects(example()) == "craft"
    assert FORMAT.detects(craft.index([])) == "craft-index"
    assert FORMAT.detects(orchestrator) is None
    assert FORMAT.detects({"working_on": "x", "todos": []}) is None
    assert FORMAT.detects([]) is None


def test_index_lists_sessions_newest_first() -> None:
    def row(number: int, status: str) -> Row:
        return Row(
            id=f"0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b1{number}", goal=f"Goal {number}", status=status, progress=0.5,
            project="holdfast", device=None if number == 2 else "workbench", created_at="2026-01-17T14:30:00.000Z",
            updated_at=f"2026-01-17T14:3{number}:00.000Z", working_ms=0, archived=False,
        )  # fmt: skip

    made = craft.index([row(1, "created"), row(2, "paused")])
    assert reported(made, "craft-index") == []
    assert arr(made["sessions"])[1] == {
        "session_id": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11", "goal": "Goal 1", "status": "in_progress",
        "progress": 0.5, "created_at": "2026-01-17T14:30:00.000Z", "updated_at": "2026-01-17T14:31:00.000Z",
        "device": "workbench", "file": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11.json",
    }  # fmt: skip
    assert obj(arr(made["sessions"])[0])["device"] == "unknown"
    with pytest.raises(Invalid, match="index"):
        FORMAT.repair(made, CONTEXT)


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────


def test_example_becomes_a_session_with_all_its_contents() -> None:
    state = state_of(repaired(), FORMAT, CONTEXT)
    seen = view.session(state, state.updated_at)
    assert seen.aliases.craft == "abc12345-def6-7890-ghij-klmnopqrstuv"
    assert seen.id == "c13a447e-9d21-41d7-8ce3-9dc7cba6d5e4" == repaired()["session_id"]
    assert (seen.goal, seen.status, seen.progress) == (example()["goal"], "in_progress", 0.65)
    assert (seen.created_at, seen.updated_at) == ("2026-01-17T14:30:00.000Z", "2026-01-17T14:45:23.142Z")
    assert (seen.device, seen.project.git_branch, seen.tags) == (
        "MacBook Pro",
        "feature/auth",
        ["authentication", "oauth2"],
    )
    assert [(a.id, a.status, a.progress, a.tokens) for a in seen.agents] == [
        ("arch-1", "completed", 1.0, 8000),
        ("code-1", "running", 0.6, None),
    ]
    assert [task.status for task in seen.tasks] == ["completed"] * 2 + ["pending"] * 3
    assert [(d.chosen, d.at) for d in seen.decisions] == [
        ("Hybrid (JWT + refresh tokens)", "2026-01-17T14:32:45.000Z")
    ]
    assert [(f.path, f.action, f.agent) for f in seen.files] == [
        ("docs/auth-architecture.md", "created", "arch-1"),
        ("src/auth/oauth.ts", "created", "code-1"),
        ("src/middleware/auth.ts", "modified", "code-1"),
    ]
    assert (seen.context.tokens, seen.context.by_agent) == (25000, {"arch-1": 8000, "code-1": 12000, "test-1": 5000})
    assert [note.text for note in seen.notes] == ["Using PKCE flow per security team recommendation"]


def test_failed_agent_that_was_tried_again_has_its_retries() -> None:
    document = with_two_agents(
        {
            "status": "error",
            "result": "failure",
            "error": {
                "category": "resource",
                "message": "out of disk",
                "retry_count": 2,
                "last_retry_at": "2026-01-17T14:31:00.000Z",
            },
        }
    )
    state = state_of(document, FORMAT, CONTEXT)
    seen = view.session(state, state.updated_at).agents[0]
    assert (seen.status, seen.retries) == ("error", 2)
    assert seen.error is not None
    assert (seen.error.category, seen.error.message) == ("resource", "out of disk")
    assert seen.error.last_retry_at == "2026-01-17T14:31:00.000Z"
    assert agent(FORMAT.render(state))["error"] == agent(document)["error"]


def test_agent_that_was_tried_again_but_names_no_beginning_began_with_that() -> None:
    error: Document = {
        "category": "logical",
        "message": "x",
        "retry_count": 1,
        "last_retry_at": "2026-01-17T14:40:00.000Z",
    }
    state = state_of(with_two_agents({}, {"status": "pending", "started_at": None, "error": error}), FORMAT, CONTEXT)
    shown_once = FORMAT.render(state)
    assert agent(shown_once, 1)["started_at"] == "2026-01-17T14:40:00.000Z"
    assert FORMAT.render(state_of(shown_once, FORMAT, CONTEXT)) == shown_once


def test_count_in_a_file_does_not_flood_the_log() -> None:
    document = with_two_agents(
        {"status": "error", "result": None, "error": {"category": "logical", "message": "x", "retry_count": 10**9}}
    )
    obj(document["context_usage"])["compression_count"] = 10**9
    events = datas(FORMAT.changes(None, document, None, CONTEXT))
    assert sum(isinstance(item, AgentRetried) for item in events) == 20
    assert sum(isinstance(item, ContextCompressed) for item in events) == 50


def test_tokens_of_a_file_are_those_after_its_compressions() -> None:
    """What the file counts is what the context holds now; after a compression of ours it shows the last count."""
    document = repaired()
    obj(document["context_usage"]).update(estimated_tokens=5_000, compression_count=2, last_compression=None)
    state = state_of(document, FORMAT, CONTEXT)
    assert view.context_of(state).tokens == 5_000
    state.outdated = True
    assert obj(FORMAT.render(state)["context_usage"])["estimated_tokens"] == 5_000


@pytest.mark.parametrize("status", ["paused", "completed", "error", "aborted"])
def test_status_of_a_session_comes_last(status: str) -> None:
    state = state_of({**repaired(), "status": status}, FORMAT, CONTEXT)
    assert view.status_of(state) == status
    assert FORMAT.render(state)["status"] == status


def test_progress_that_follows_from_the_tasks_is_not_set_by_hand() -> None:
    events = FORMAT.changes(None, {**repaired(), "progress": 0.4}, None, CONTEXT)
    assert not any(isinstance(item, SessionEdited) for item in datas(events))


def test_time_in_the_future_is_now() -> None:
    document = {**repaired(), "created_at": "2099-01-01T00:00:00Z", "updated_at": "2099-01-02T00:00:00Z"}
    assert {change.at for change in FORMAT.changes(None, document, None, CONTEXT)} == {CONTEXT.now}


# ── rendering ────────────────────────────────────────────────────────────────────────────────────────────


def test_paused_aborted_and_interrupted_agents_are_shown_in_words_craft_knows() -> None:
    started = [TimedEvent(START, AgentStarted(id=f"a{number}", type="t")) for number in range(2)]
    state = session(
        *started,
        TimedEvent(START + 1000, AgentPaused(id="a0")),
        TimedEvent(START + 2000, AgentInterrupted(id="a1", last_seen=START + 500)),
    )
    document = FORMAT.render(state)
    assert reported(document) == []
    assert (agent(document)["status"], agent(document)["result"]) == ("pending", None)
    assert (agent(document, 1)["status"], agent(document, 1)["completed_at"]) == ("error", "2026-01-17T14:30:00.500Z")
    assert obj(agent(document, 1)["error"])["category"] == "transient"


def test_agents_of_one_name_made_by_two_devices_are_both_shown() -> None:
    state = session(
        TimedEvent(START, AgentStarted(id="a", type="one")), TimedEvent(START, AgentStarted(id="a", type="two"))
    )
    document = FORMAT.render(state)
    assert reported(document) == []
    assert [(agent(document, place)["id"], agent(document, place)["type"]) for place in (0, 1)] == [
        ("a-2", "one"),
        ("a", "two"),
    ]


def test_state_full_of_oddities_is_a_valid_document() -> None:
    state = session(
        TimedEvent(START, AgentStarted(id="no name!", type=" ", blocking_on="b")),
        TimedEvent(START + 5, AgentStarted(id="b", type="t", blocking_on="no name!")),
        TimedEvent(START - 5, AgentCompleted(id="b")),
        TimedEvent(START, FileChanged(path="../../etc", action="created")),
        TimedEvent(START, FileChanged(path="ok", action="renamed", agent="?", lines_added=-1, hash_after="short")),
        TimedEvent(START, SessionEdited(mode="turbo", goal=" ", progress=7.0)),
        TimedEvent(START, ContextMeasured(tokens=-5, agent="x")),
        TimedEvent(START, TaskAdded(id="t1", text="")),
        TimedEvent(START, TaskAdded(id="t2", text="gone")),
        TimedEvent(START, TaskDropped(id="t2")),
        TimedEvent(START, DecisionMade(chosen="")),
    )
    document = FORMAT.render(state)
    assert reported(document) == []
    assert document["pending_tasks"] == [""]
    assert reported(FORMAT.render(State(session="nothing happened"))) == []


@given(histories())
def test_every_event_is_shown_and_read_back(history: History) -> None:
    state = fold(history.events, "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11")
    document = FORMAT.render(state)
    assert [problem for problem in FORMAT.problems(document, "craft") if problem.severity == "error"] == []
    assert FORMAT.changes(document, document, state, CONTEXT) == []
    again = state_of(document, FORMAT, CONTEXT)
    assert again.clashes == []
    assert again.not_applied == 0


def test_without_a_remote_a_session_travels_nowhere() -> None:
    assert FORMAT.render(session())["teleportation"] == {
        "enabled": False, "last_sync": None, "sync_status": None, "sync_error": None, "devices": ["workbench"],
        "storage_backend": "local", "encrypted": False, "shared_with": None,
    }  # fmt: skip


def test_imported_device_is_shown_until_the_next_event() -> None:
    from holdfast.formats.remainder import remainder_event

    events = FORMAT.changes(None, repaired(), None, CONTEXT)
    bare = fold_events(events, str(repaired()["session_id"]))
    kept = remainder_event(bare, FORMAT, repaired())
    assert kept is not None
    last = events[-1].at
    state = fold_events([*events, TimedEvent(last, kept)], bare.session)
    assert render_with_remainder(state, FORMAT) == repaired()
    later = fold_events(
        [*events, TimedEvent(last, kept), TimedEvent(last + 60_000, NoteAdded(text="more"))], bare.session
    )
    travel = obj(render_with_remainder(later, FORMAT)["teleportation"])
    assert (travel["enabled"], travel["sync_status"], travel["devices"]) == (False, None, ["MacBook Pro", "iMac"])
    assert render_with_remainder(later, FORMAT)["project"] == "/Users/dt/projects/my-app"


# ── edits ────────────────────────────────────────────────────────────────────────────────────────────────


@given(edits())
def test_edit_is_shown_afterwards(pair: tuple[Document, Document]) -> None:
    before, after = pair
    _, _, then = edited(before, after)
    document = FORMAT.render(then)
    for key in ("goal", "status"):
        assert document[key] == after[key]
    wanted = {str(obj(item)["id"]): obj(item) for item in arr(after["agents"])}
    by_id = {str(obj(item)["id"]): obj(item) for item in arr(document["agents"])}
    assert by_id.keys() == wanted.keys()
    for name, entry in wanted.items():
        assert by_id[name]["status"] == entry["status"]
        assert (by_id[name]["result"] == "aborted") == (entry.get("result") == "aborted")
    for key in ("completed_work",):
        for text in arr(after[key]):
            assert text in arr(document[key]) or not str(text).strip()
    assert obj(document["context_usage"])["estimated_tokens"] == obj(after["context_usage"])["estimated_tokens"]


def test_pending_task_listed_as_done_is_completed() -> None:
    after = repaired()
    arr(after["completed_work"]).append(arr(after["pending_tasks"]).pop(1))
    _, more, then = edited(repaired(), after)
    assert [type(item) for item in datas(more)] == [TaskCompleted]
    assert FORMAT.render(then)["pending_tasks"] == after["pending_tasks"]
    assert FORMAT.render(then)["completed_work"] == after["completed_work"]


def test_blocked_task_can_be_completed() -> None:
    state = session(TimedEvent(START, TaskAdded(id="t1", text="Wait")), TimedEvent(START, TaskBlocked(id="t1")))
    before = FORMAT.render(state)
    after: Document = {**before, "completed_work": ["Wait"], "pending_tasks": []}
    more = FORMAT.changes(before, after, state, CONTEXT)
    assert [type(item).__name__ for item in datas(more)] == ["TaskStarted", "TaskCompleted"]


def test_what_is_left_out_was_not_dropped() -> None:
    after = {**repaired(), "agents": [], "pending_tasks": [], "decisions_made": [], "files_modified": []}
    assert edited(repaired(), after)[1] == []


def test_completed_agent_has_time_and_summary() -> None:
    after = repaired()
    agent(after, 1).update(
        status="completed", result="success", completed_at="2026-01-17T14:50:00.000Z", output_summary="Done"
    )
    obj(obj(after["context_usage"])["by_agent"])["code-1"] = 15000
    _, more, then = edited(repaired(), after)
    assert more[0].at == START + 20 * 60_000
    assert isinstance(more[0].data, AgentCompleted)
    assert (more[0].data.summary, more[0].data.tokens) == ("Done", 15000)
    assert agent(FORMAT.render(then), 1)["duration_seconds"] == 17 * 60


def test_note_written_after_another_is_that_note_alone() -> None:
    after = repaired()
    notes = obj(after["metadata"])["notes"]
    obj(after["metadata"])["notes"] = f"{notes}\nAsk Ana"
    assert datas(edited(repaired(), after)[1]) == [NoteAdded(text="Ask Ana")]


def test_entry_from_before_the_session_is_shown_once_as_written() -> None:
    early = "2026-01-17T13:00:00.000Z"
    decided: Document = {"timestamp": early, "context": "", "options": [], "chosen": "JWT", "reasoning": None}
    touched: Document = {
        "path": "./b.py", "action": "created", "agent_id": "person", "timestamp": early, "lines_added": 1,
        "lines_removed": None, "hash_before": None, "hash_after": None,
    }  # fmt: skip
    before, after = repaired(), repaired()
    arr(after["decisions_made"]).extend([decided, dict(decided)])
    arr(after["files_modified"]).append(touched)
    _, more, then = edited(before, after)
    assert [(event.at, type(event.data).__name__) for event in more] == [
        (START, "DecisionMade"), (START, "DecisionMade"), (START, "FileChanged"),
    ]  # fmt: skip
    meant = merge_documents(before, FORMAT.render(then), after, FORMAT, in_their_words=True).document
    assert [item for item in arr(meant["decisions_made"]) if obj(item)["chosen"] == "JWT"] == [decided, decided]
    assert [item for item in arr(meant["files_modified"]) if obj(item)["lines_added"] == 1] == [touched]


def test_what_only_derived_fields_say_is_no_change() -> None:
    after = {**repaired(), "device": "iMac", "updated_at": "2026-01-17T15:00:00Z"}
    agent(after)["duration_seconds"] = 134
    obj(after["teleportation"])["enabled"] = False
    assert edited(repaired(), after)[1] == []


def test_session_resumes_after_a_pause_but_not_after_its_end() -> None:
    paused = {**repaired(), "status": "paused"}
    assert datas(edited(paused, repaired())[1]) == [SessionResumed()]
    assert datas(edited(paused, {**repaired(), "status": "completed"})[1]) == [SessionCompleted()]
    over = {**repaired(), "status": "completed"}
    with pytest.raises(Refused, match="is completed, which is final"):
        edited(over, repaired())
    with pytest.raises(Refused, match="is completed, which is final"):
        edited(over, {**over, "pending_tasks": ["One more"]})


def test_agent_that_completed_does_not_run_again() -> None:
    after = with_two_agents({"status": "running", "result": None, "completed_at": None, "duration_seconds": None})
    with pytest.raises(Refused, match="agent arch-1 is completed"):
        edited(repaired(), after)


def test_paused_agent_with_retries_resumes_first() -> None:
    error: Document = {"category": "transient", "message": "x", "retry_count": 0, "last_retry_at": None}
    before = with_two_agents({}, {"status": "pending", "error": error})
    after = with_two_agents({}, {"status": "running", "error": {**error, "retry_count": 2}})
    _, more, then = edited(before, after)
    assert [type(item).__name__ for item in datas(more)] == ["AgentResumed", *["AgentFailed", "AgentRetried"] * 2]
    assert then.clashes == []


def test_places_map_to_canonical_fields() -> None:
    assert FORMAT.field(("goal",), "x") == ("goal", "x")
    assert FORMAT.field(("agents", "arch-1", "status"), "error") == ("agents.arch-1.status", "error")
    assert FORMAT.field(("metadata", "git_branch"), "main") == ("project.git_branch", "main")
    assert FORMAT.field(("somewhere", "else"), 1) is None
