"""F18: state machines: two stores that exchange events, and the lifecycle of a session, each against a model."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast import Keeper
from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    EventData,
    NoteAdded,
    ProjectFacts,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
)
from holdfast.core.fold import fold
from holdfast.core.state import freeze
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore
from tests.faults.sandbox import assert_times_add_up
from tests.support.scale import scale

SESSIONS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
TRY = settings(
    max_examples=scale(6, 200, 2_000),
    stateful_step_count=scale(25, 50, 100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=scale(1, 0, 0) == 1,
)


class Stores(RuleBasedStateMachine):
    """Two stores record independently and receive each other's events in any order, with repeats.

    The model is a set: a store has what it recorded and received, and its state is the fold of just that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="holdfast-machine-"))
        self.clock = itertools.count(1_800_000_000_000_000, 1_000)
        self.salts = itertools.count()  # not random: the same steps give the same hashes
        self.stores = [self._open(number) for number in range(2)]
        self.model: list[dict[str, Event]] = [{}, {}]

    def _open(self, number: int) -> SqliteStore:
        return SqliteStore(
            str(self.root / f"{number}.db"), writer=lambda: f"writer{number}", wall=lambda: next(self.clock),
            salt=lambda: next(self.salts).to_bytes(16, "big"),
        )  # fmt: skip

    def teardown(self) -> None:
        self.receive_all(0)
        self.receive_all(1)  # the check would rightly report a stream with a gap
        self.equals_the_model()
        self.equal_logs_are_equal_states()
        for store in self.stores:
            assert list(store.check()) == []
            store.close()
        shutil.rmtree(self.root)

    def _record(self, number: int, session: str, data: EventData, key: str | None = None) -> None:
        state = self.stores[number].state(session)
        if state is not None and state.deleted:
            return  # a keeper that knows of the deletion refuses; another one continues until it receives it
        with self.stores[number].transaction() as transaction:
            made = transaction.record(session, Draft(data, next(self.clock) // 1000, f"actor{number}", key))
        if made is not None:
            self.model[number][made.hash] = made

    @initialize()
    def begin(self) -> None:
        for session in SESSIONS:
            project = ProjectFacts(id="p", name="project")
            self._record(0, session, SessionStarted(goal="G", project=project, device="one"))

    @rule(
        number=st.integers(0, 1),
        session=st.sampled_from(SESSIONS),
        data=st.sampled_from(
            [NoteAdded(text="hello world"), SessionEdited(goal="one"), SessionEdited(goal="two", progress=0.5),
             SessionPaused(), SessionResumed(), AgentStarted(id="a", type="t"), AgentCompleted(id="a"),
             TaskAdded(id="t1", text="task"), SessionCompleted(summary="done")]
        ),
    )  # fmt: skip
    def record(self, number: int, session: str, data: EventData) -> None:
        self._record(number, session, data)

    @rule(number=st.integers(0, 1), session=st.sampled_from(SESSIONS), key=st.sampled_from("abc"))
    def record_with_key(self, number: int, session: str, key: str) -> None:
        self._record(number, session, NoteAdded(text=f"from outside {key}"), key)

    @rule(to=st.integers(0, 1), data=st.data())
    def receive(self, to: int, data: st.DataObject) -> None:
        """Some of the other store's events, in any order, some of them known already."""
        theirs = sorted(self.model[1 - to].values(), key=lambda event: event.hash)
        if theirs:
            some = data.draw(st.lists(st.sampled_from(theirs), max_size=8))
            fresh = {event.hash for event in some} - set(self.model[to])
            with self.stores[to].transaction() as transaction:
                assert transaction.receive(some) == len(fresh)
            self.model[to].update({event.hash: event for event in some})

    @rule(to=st.integers(0, 1))
    def receive_all(self, to: int) -> None:
        with self.stores[to].transaction() as transaction:
            transaction.receive(reversed(self.model[1 - to].values()))
        self.model[to].update(self.model[1 - to])

    @rule(number=st.integers(0, 1))
    def reopen(self, number: int) -> None:
        self.stores[number].close()
        self.stores[number] = self._open(number)

    @rule(number=st.integers(0, 1), session=st.sampled_from(SESSIONS))
    def fail_in_the_middle(self, number: int, session: str) -> None:
        """A transaction that ends with an exception has no effect; nothing is added to a deleted session."""
        with pytest.raises((ZeroDivisionError, NotFound)), self.stores[number].transaction() as transaction:  # noqa: PT012
            transaction.record(session, Draft(NoteAdded(text="never"), 1, "actor"))
            raise ZeroDivisionError

    @invariant()
    def equals_the_model(self) -> None:
        for store, model in zip(self.stores, self.model, strict=True):
            for session in SESSIONS:
                events = [event for event in model.values() if event.session == session]
                assert {event.hash for event in store.events(session)} == {event.hash for event in events}
                state = store.state(session)
                if events:
                    assert state is not None
                    assert freeze(state) == freeze(fold(events, session))
                else:
                    assert state is None

    @invariant()
    def equal_logs_are_equal_states(self) -> None:
        for session in SESSIONS:
            logs = [{event.hash for event in model.values() if event.session == session} for model in self.model]
            if logs[0] == logs[1] and logs[0]:
                one, two = (store.state(session) for store in self.stores)
                assert one is not None
                assert two is not None
                assert freeze(one) == freeze(two)


class Deleting(Stores):
    """The same with deletions: whatever arrives before or after, no text of the session is left."""

    @rule(number=st.integers(0, 1))
    def delete(self, number: int) -> None:
        self._record(number, SESSIONS[1], SessionDeleted())

    @invariant()
    def equals_the_model(self) -> None:
        for store, model in zip(self.stores, self.model, strict=True):
            for session in SESSIONS:
                stored = list(store.events(session))
                assert {event.hash for event in stored} == {
                    event.hash for event in model.values() if event.session == session
                }
                deleted = any(event.type == "session.deleted" for event in stored)
                left = [event for event in stored if event.data is not None and event.type != "session.deleted"]
                assert not (deleted and left)

    @invariant()
    def equal_logs_are_equal_states(self) -> None:
        """Both delete, whichever learned of it first."""
        for session in SESSIONS:
            logs = [{event.hash for event in store.events(session)} for store in self.stores]
            states = [store.state(session) for store in self.stores]
            if logs[0] == logs[1] and logs[0]:
                assert states[0] is not None
                assert states[1] is not None
                assert states[0].deleted == states[1].deleted


SESSION_MOVES = {
    "pause": ({"in_progress"}, "paused"), "resume": ({"in_progress", "paused", "error"}, "in_progress"),
    "complete": ({"in_progress", "paused"}, "completed"), "fail": ({"in_progress", "paused"}, "error"),
    "abort": ({"in_progress", "paused", "error"}, "aborted"),
}  # fmt: skip
AGENT_MOVES = {
    "progress": ({"running"}, "running"), "pause": ({"running"}, "paused"), "resume": ({"paused"}, "running"),
    "done": ({"running", "paused"}, "completed"), "fail": ({"running", "paused"}, "error"),
    "retry": ({"error"}, "running"),
    "abort": ({"running", "paused", "error"}, "aborted"),
}  # fmt: skip
TASK_MOVES = {
    "start": ({"pending", "blocked"}, "in_progress"), "finish": ({"pending", "in_progress"}, "completed"),
    "block": ({"pending", "in_progress"}, "blocked"), "drop": ({"pending", "in_progress", "blocked"}, "dropped"),
    "reopen": ({"completed", "dropped", "blocked"}, "pending"),
}  # fmt: skip
ENDED = ("completed", "aborted")


class Lifecycle(RuleBasedStateMachine):
    """The library's verbs against dictionaries of statuses: refused exactly when the model refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="holdfast-machine-"))
        self.keeper = Keeper.open(str(self.root), home=str(self.root / "home"))
        self.status: dict[str, str] = {}
        self.agents: dict[tuple[str, str], str] = {}
        self.tasks: dict[tuple[str, str], str] = {}
        self.current: str | None = None
        self.at = 1_800_000_000_000
        self.events = 0

    def teardown(self) -> None:
        assert list(self.keeper.store().check()) == []
        self.keeper.close()
        shutil.rmtree(self.root)

    def expect(self, error: type[HoldfastError] | None, verb: Any) -> None:
        """The verb succeeds, or raises exactly this error and records nothing."""
        before = sum(len(self.keeper.events(session)) for session in self.status)
        if error is None:
            verb()
            return
        with pytest.raises(error):
            verb()
        assert sum(len(self.keeper.events(session)) for session in self.status) == before

    @rule(replace=st.booleans())
    def start(self, replace: bool) -> None:
        busy = self.current is not None
        if busy and not replace:
            self.expect(Conflict, lambda: self.keeper.start("G"))
            return
        if self.current is not None and self.status[self.current] == "in_progress":
            self.status[self.current] = "paused"
        self.current = self.keeper.start("G", replace=replace).id
        self.status[self.current] = "in_progress"

    @precondition(lambda self: self.status)
    @rule(verb=st.sampled_from(sorted(SESSION_MOVES)), data=st.data())
    def move(self, verb: str, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(list(self.status)))
        before, after = SESSION_MOVES[verb]
        kept = self.keeper.session(session)
        words = ["message"] if verb == "fail" else []
        if self.status[session] not in before:
            self.expect(Refused, lambda: getattr(kept, verb)(*words))
            return
        getattr(kept, verb)(*words)
        self.status[session] = after
        if verb == "resume":
            self.current = session
        if after in ENDED:
            if self.current == session:
                self.current = None
            for key, status in self.agents.items():
                if key[0] == session and status in ("running", "paused", "pending"):
                    self.agents[key] = "aborted"

    @precondition(lambda self: self.status)
    @rule(name=st.sampled_from("ab"), data=st.data())
    def start_agent(self, name: str, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(list(self.status)))
        kept, key = self.keeper.session(session), (session, name)
        wanted = Conflict if key in self.agents else Refused if self.status[session] in ENDED else None
        self.expect(wanted, lambda: kept.agent(name, type="t", pid=None))
        if wanted is None:
            self.agents[key] = "running"

    @precondition(lambda self: self.status)
    @rule(verb=st.sampled_from(sorted(AGENT_MOVES)), name=st.sampled_from("ab"), data=st.data())
    def move_agent(self, verb: str, name: str, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(list(self.status)))
        agent, key = self.keeper.session(session).find_agent(name), (session, name)
        before, after = AGENT_MOVES[verb]
        wanted: type[HoldfastError] | None = None
        if key not in self.agents:
            wanted = NotFound
        elif self.agents[key] not in before or self.status[session] in ENDED:
            wanted = Refused
        arguments: dict[str, list[Any]] = {"progress": [0.5], "fail": ["m"]}
        words = arguments.get(verb, [])
        self.expect(wanted, lambda: getattr(agent, verb)(*words))
        if wanted is None:
            self.agents[key] = after

    @precondition(lambda self: self.status)
    @rule(verb=st.sampled_from(["add", *sorted(TASK_MOVES)]), name=st.sampled_from("xy"), data=st.data())
    def move_task(self, verb: str, name: str, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(list(self.status)))
        kept, key = self.keeper.session(session), (session, name)
        over = self.status[session] in ENDED
        if verb == "add":
            wanted: type[HoldfastError] | None = Conflict if key in self.tasks else Refused if over else None
            self.expect(wanted, lambda: kept.add_task("text", task_id=name))
            if wanted is None:
                self.tasks[key] = "pending"
            return
        before, after = TASK_MOVES[verb]
        wanted = NotFound if key not in self.tasks else Refused if over or self.tasks[key] not in before else None
        self.expect(wanted, lambda: getattr(kept, f"{verb}_task")(name))
        if wanted is None:
            self.tasks[key] = after

    @invariant()
    def equals_the_model(self) -> None:
        current = self.keeper.current()
        assert (current.id if current else None) == self.current
        for session, status in self.status.items():
            document = self.keeper.session(session).document()
            assert document.status == status
            assert_times_add_up(document)
            assert {agent.id: agent.status for agent in document.agents} == {
                name: status for (owner, name), status in self.agents.items() if owner == session
            }
            assert {task.id: task.status for task in document.tasks} == {
                name: status for (owner, name), status in self.tasks.items() if owner == session
            }
            assert document.conflicts == []


@pytest.mark.parametrize("machine", [Stores, Deleting, Lifecycle])
def test_state_machine_equals_its_model(machine: type[RuleBasedStateMachine]) -> None:
    """After every step of every run."""
    run_state_machine_as_test(machine, settings=TRY)
