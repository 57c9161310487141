"""Wrappers around remotes: retries, and limits for one sync."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Busy, Failed, HoldfastError, Invalid, Refused, Unreachable
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, RemoteStore
from holdfast.sync.remotes.conformance import RemoteConformance
from holdfast.sync.remotes.folder import FolderRemote
from holdfast.sync.remotes.wrappers import LimitedRemote, OverLimit, RetryingRemote

UNREACHABLE = Unreachable("the server does not answer")


class TestPatientAndLimited(RemoteConformance):
    """Wrapped in both, a folder still passes the suite of all remotes."""

    rounds = 5

    def open_remote(self, where: str = "one") -> RemoteStore:
        return RetryingRemote(LimitedRemote(FolderRemote(str(self.place / where), create=True)))


class ShakyRemote:
    """Objects in memory, at a place that fails as planned: before, during or after a call."""

    def __init__(self, *plan: tuple[int, HoldfastError] | None) -> None:
        """One step per call: None succeeds, otherwise this many objects are stored before the error."""
        self.url = "folder:/shaky"
        self.objects: dict[str, bytes] = {}
        self.plan = list(plan)
        self.calls: list[str] = []
        self.closed = 0

    def _fail(self, done: int) -> None:
        if self.plan and self.plan[0] is not None and self.plan[0][0] <= done:
            step = self.plan.pop(0)
            assert step is not None
            raise step[1]

    def _next(self) -> None:
        if self.plan and self.plan[0] is None:
            self.plan.pop(0)

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        self.calls.append("list")
        self._fail(1 << 30)
        self._next()
        return [ObjectInfo(name, len(self.objects[name])) for name in sorted(self.objects) if name.startswith(prefix)]

    def get(self, name: str, limit: int) -> bytes:
        self.calls.append("get")
        self._fail(1 << 30)
        self._next()
        if name not in self.objects:
            raise Missing("none")
        if len(self.objects[name]) > limit:
            raise ObjectTooLarge("large")
        return self.objects[name]

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        self.calls.append("put")
        there = set()
        for number, (name, data) in enumerate(objects):
            self._fail(number)
            if name in self.objects:
                there.add(name)
            self.objects.setdefault(name, data)
        for number, name in enumerate(remove):
            self._fail(len(objects) + number)
            self.objects.pop(name, None)
        self._fail(1 << 30)
        self._next()
        return frozenset(there)

    def close(self) -> None:
        self.closed += 1


class FakeTime:
    """A clock that only waiting and slow calls advance."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def patient(
    remote: RemoteStore, time: FakeTime | None = None, *, tries: int = 4, seconds: float = 60.0
) -> RetryingRemote:
    time = time or FakeTime()
    return RetryingRemote(remote, tries=tries, seconds=seconds, wait=time.wait, clock=time)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda remote: remote.get("a", 1), b"a"),
        (lambda remote: remote.list(""), [ObjectInfo("a", 1)]),
        (lambda remote: remote.put([("b", b"")]), frozenset()),
    ],
)
def test_call_is_retried_after_a_temporary_failure(call: Callable[[RemoteStore], object], wanted: object) -> None:
    """Three failures, then a result."""
    shaky, time = ShakyRemote((0, UNREACHABLE), (0, UNREACHABLE), (0, Busy("held"))), FakeTime()
    shaky.objects["a"] = b"a"
    assert call(patient(shaky, time)) == wanted
    assert len(shaky.calls) == 4
    assert len(time.waits) == 3


@pytest.mark.parametrize(
    "error", [Missing("none"), ObjectTooLarge("big"), Refused("no"), Invalid("bad"), Failed("full")]
)
def test_call_is_not_retried_after_a_permanent_failure(error: HoldfastError) -> None:
    shaky, time = ShakyRemote((0, error)), FakeTime()
    with pytest.raises(type(error)):
        patient(shaky, time).get("a", 1)
    assert shaky.calls == ["get"]
    assert time.waits == []


def test_retry_stops_after_its_tries() -> None:
    """The last error is raised; a later call starts with all its tries."""
    shaky = ShakyRemote(*[(0, UNREACHABLE)] * 6)
    shaky.objects["a"] = b"a"
    remote = patient(shaky)
    with pytest.raises(Unreachable):
        remote.get("a", 1)
    assert len(shaky.calls) == 4
    assert remote.get("a", 1) == b"a"


def test_waits_grow_and_are_random() -> None:
    """Within bounds, so that no two devices wait alike."""
    seen = []
    for _ in range(20):
        time = FakeTime()
        with pytest.raises(Unreachable):
            patient(ShakyRemote(*[(0, UNREACHABLE)] * 9), time, tries=9).list("")
        for number, wait in enumerate(time.waits, start=1):
            assert min(0.25 * 2**number, 8) / 2 <= wait <= min(0.25 * 2**number, 8)
        seen.append(tuple(time.waits))
    assert len(set(seen)) > 1


def test_total_waiting_time_is_limited() -> None:
    """Afterwards failures are raised at once, so that a sync ends."""
    shaky, time = ShakyRemote(*[(0, UNREACHABLE)] * 100), FakeTime()
    remote = patient(shaky, time, tries=10, seconds=5.0)
    for _ in range(5):
        with pytest.raises(Unreachable):
            remote.list("")
    assert sum(time.waits) <= 5.0
    before = len(shaky.calls)
    with pytest.raises(Unreachable):
        remote.list("")
    assert len(shaky.calls) <= before + 2


def test_successful_calls_use_up_no_waiting_time() -> None:
    shaky, time = ShakyRemote(), FakeTime()
    remote = patient(shaky, time, seconds=5.0)
    for _ in range(10):
        time.now += 3.0
        remote.list("")
    shaky.plan = [(0, UNREACHABLE)]
    remote.list("")
    assert len(time.waits) == 1


# ── a put that failed after it was applied ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("done", [0, 1, 2, 3, 4, 99])
def test_put_reports_no_conflict_when_a_failed_attempt_was_applied(done: int) -> None:
    """The second attempt reports that nothing existed before, however much of the first arrived."""
    shaky = ShakyRemote((done, UNREACHABLE))
    shaky.objects["old"] = b"old"
    objects = [("a", b"1"), ("b", b""), ("c", b"3")]
    assert patient(shaky).put(objects, remove=["old", "older"]) == frozenset()
    assert shaky.objects == dict(objects)
    assert shaky.calls.count("put") == 2


@pytest.mark.parametrize("other", [b"", b"other", b"longer than ours"])
def test_conflict_is_reported_when_bytes_differ(other: bytes) -> None:
    """Whichever attempt meets the other object."""
    shaky = ShakyRemote((99, UNREACHABLE))
    shaky.objects["vault"] = other
    assert patient(shaky).put([("p", b"pack"), ("vault", b"ours!")]) == frozenset({"vault"})
    assert shaky.objects["vault"] == other


def test_conflict_is_reported_for_equal_bytes_at_the_first_attempt() -> None:
    """Nothing failed, so the object existed before."""
    shaky = ShakyRemote()
    shaky.objects["a"] = b"a"
    assert patient(shaky).put([("a", b"a")]) == frozenset({"a"})
    assert shaky.calls == ["put"]


def test_comparison_is_retried() -> None:
    """A failure while comparing costs another attempt, nothing else."""
    shaky = ShakyRemote((99, UNREACHABLE), None, (0, UNREACHABLE))
    assert patient(shaky).put([("a", b"a")]) == frozenset()
    assert shaky.calls == ["put", "put", "get", "put", "get"]


def test_object_removed_meanwhile_is_reported_as_existing() -> None:
    """Removed between the repeated put and the comparison, it counts as another's."""
    shaky = ShakyRemote((99, UNREACHABLE), None, (0, Missing("gone")))
    assert patient(shaky).put([("a", b"a")]) == frozenset({"a"})


@given(
    plan=st.lists(st.none() | st.integers(0, 6).map(lambda done: (done, UNREACHABLE)), max_size=3),
    theirs=st.sets(st.sampled_from("abcd")),
)
def test_put_answers_correctly_whatever_fails(plan: list[tuple[int, HoldfastError] | None], theirs: set[str]) -> None:
    """After any failures within the tries: names of others are reported, ours are not, and all are stored."""
    shaky = ShakyRemote(*plan)
    shaky.objects = dict.fromkeys(theirs, b"theirs") | {"old": b"old"}
    objects = [(name, b"ours " + name.encode()) for name in "abcd"]
    assert patient(shaky, tries=9, seconds=1e9).put(objects, remove=["old"]) == frozenset(theirs)
    assert shaky.objects == {name: b"theirs" if name in theirs else data for name, data in objects}


# ── with limits ──────────────────────────────────────────────────────────────────────────────────────────


def test_retries_count_against_the_limits() -> None:
    """Limits inside retries see every attempt, and exceeding them is final."""
    shaky, time = ShakyRemote(*[(0, UNREACHABLE)] * 50), FakeTime()
    remote = patient(LimitedRemote(shaky, requests=3), time, tries=10)
    with pytest.raises(OverLimit):
        remote.list("")
    assert len(shaky.calls) == 3


def test_wrapper_has_the_address_of_the_remote_and_closes_it(tmp_path: Path) -> None:
    shaky = ShakyRemote()
    remote = patient(LimitedRemote(shaky))
    assert remote.url == shaky.url
    remote.close()
    assert shaky.closed == 1


@pytest.fixture
def folder(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(str(tmp_path / "remote"), create=True)
    remote.put([(f"a/{number}", b"12345") for number in range(10)])
    return remote


CALLS: tuple[Callable[[RemoteStore], object], ...] = (
    lambda remote: remote.list(""),
    lambda remote: remote.get("a/1", 5),
    lambda remote: remote.put([("b", b"")]),
    lambda remote: remote.put([]),
)


def test_limited_remote_works_normally_within_its_limits(folder: FolderRemote) -> None:
    remote = LimitedRemote(folder, requests=8, bytes=10, listing=11, seconds=60)
    assert remote.put([("b", b"b"), ("a/1", b"")], remove=["none"]) == frozenset({"a/1"})
    assert len(remote.list("")) == 11
    assert remote.get("a/1", 5) + remote.get("a/2", 5) == b"1234512345"
    with pytest.raises(OverLimit):
        remote.get("a/3", 5)


@pytest.mark.parametrize("call", CALLS)
def test_number_of_requests_is_limited(folder: FolderRemote, call: Callable[[RemoteStore], object]) -> None:
    """Every further request is refused with a message."""
    remote = LimitedRemote(folder, requests=3)
    for _ in range(3):
        remote.list("a/")
    with pytest.raises(Refused, match="3 requests") as raised:
        call(remote)
    assert raised.value.hint
    assert not raised.value.retry_helps
    assert [entry.name for entry in folder.list("b")] == []


def test_failed_requests_count_against_the_limit(folder: FolderRemote) -> None:
    remote = LimitedRemote(folder, requests=3)
    for _ in range(3):
        with pytest.raises(Missing):
            remote.get("none", 1)
    with pytest.raises(OverLimit):
        remote.get("none", 1)


def test_put_over_the_limit_is_refused_as_a_whole(folder: FolderRemote) -> None:
    """Nothing is created or removed."""
    remote = LimitedRemote(folder, requests=4)
    with pytest.raises(OverLimit):
        remote.put([("b/1", b""), ("b/2", b""), ("b/3", b"")], remove=["a/1", "a/2"])
    assert len(folder.list("")) == 10
    remote.put([("b/1", b""), ("b/2", b"")], remove=["a/1", "a/2"])
    assert len(folder.list("")) == 10
    with pytest.raises(OverLimit):
        remote.list("")


def test_number_of_bytes_read_is_limited(folder: FolderRemote) -> None:
    """Beyond it the limit refuses, not `TooLarge`."""
    remote = LimitedRemote(folder, bytes=12)
    remote.get("a/1", 100)
    remote.get("a/2", 100)
    with pytest.raises(HoldfastError, match="12 bytes") as raised:
        remote.get("a/3", 100)
    assert type(raised.value) is OverLimit


def test_object_too_large_for_its_reader_is_reported_as_such(folder: FolderRemote) -> None:
    """While bytes are left; its size counts all the same."""
    remote = LimitedRemote(folder, bytes=9)
    for _ in range(3):
        with pytest.raises(ObjectTooLarge):
            remote.get("a/1", 3)
    with pytest.raises(OverLimit):
        remote.get("a/1", 3)


def test_number_of_names_in_one_listing_is_limited(folder: FolderRemote) -> None:
    """Shorter listings still work."""
    remote = LimitedRemote(folder, listing=9)
    with pytest.raises(Refused, match="9 objects"):
        remote.list("")
    assert len(remote.list("a/1")) == 1


@pytest.mark.parametrize("call", CALLS)
def test_time_of_a_sync_is_limited(folder: FolderRemote, call: Callable[[RemoteStore], object]) -> None:
    """Afterwards no request is made."""
    now = 100.0
    remote = LimitedRemote(folder, seconds=30, clock=lambda: now)
    now = 130.0
    call(remote)
    now = 130.5
    with pytest.raises(OverLimit, match="30 seconds"):
        call(remote)
