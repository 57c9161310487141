"""Followers of a unit of work: their order, what each learns, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Damaged, NotFound, Unreachable
from holdfast.keeper.session import SessionHandle
from holdfast.machine import error_log
from holdfast.workspace.followers import Follower, WorkCommit
from holdfast.workspace.workspace import Workspace


class Probe(Follower):
    """Writes down what it was called with; `on_collect` and `on_commit` are what it does then."""

    failure = "the probe could not be updated"

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.commits: list[WorkCommit] = []
        self.on_collect: Callable[[Workspace], None] = lambda _ws: None
        self.on_commit: Callable[[Workspace], None] = lambda _ws: None
        self._calls = calls

    def collect(self, ws: Workspace) -> None:
        self._calls.append(f"{self.name} collects")
        self.on_collect(ws)

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        self._calls.append(f"{self.name} follows")
        self.commits.append(commit)
        self.on_commit(ws)


class Probed:
    """A keeper with two followers, and a session that has begun."""

    def __init__(self, home: Path, project: Path) -> None:
        self.keeper = Keeper.open(str(project), home=str(home))
        self.session = self.keeper.start("Build the shop")
        self.other = self.keeper.start("Write the guide", replace=True)
        self.calls: list[str] = []
        self.first, self.second = Probe("first", self.calls), Probe("second", self.calls)
        self.keeper.followers = (self.first, self.second)

    def notes(self, session: SessionHandle) -> list[str]:
        self.keeper.followers = ()
        return [note.text for note in session.document().notes]


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[Probed]:
    (tmp_path / "shop").mkdir()
    probed = Probed(tmp_path / "home", tmp_path / "shop")
    yield probed
    probed.keeper.close()


def fails(error: BaseException) -> Callable[[Workspace], None]:
    def act(_ws: Workspace) -> None:
        raise error

    return act


def notes_once(probed: Probed, text: str) -> Callable[[Workspace], None]:
    """Records a note in the other session, the first time."""
    due = [text]

    def act(ws: Workspace) -> None:
        assert isinstance(ws, Keeper)  # the quiet copy
        if due:
            SessionHandle(ws, probed.other.id).note(due.pop())

    return act


def test_followers_collect_and_follow_in_their_order(probed: Probed) -> None:
    probed.other.note("Begun")
    assert probed.calls == ["first collects", "second collects", "first follows", "second follows"]
    assert probed.second.commits[0].sessions == {probed.other.id}


def test_follower_learns_what_an_earlier_one_recorded(probed: Probed) -> None:
    """In the same unit, and without another round of calls."""
    probed.keeper.current()
    del probed.calls[:]
    probed.first.on_commit = notes_once(probed, "Seen")
    with probed.keeper.batch():
        probed.session.note("Begun")
    assert probed.calls.count("first follows") == 1
    assert probed.first.commits[-1].sessions == {probed.session.id}
    assert probed.second.commits[-1].sessions == {probed.session.id, probed.other.id}
    assert probed.notes(probed.other) == ["Seen"]


def test_follower_that_records_calls_no_follower(probed: Probed) -> None:
    probed.first.on_collect = notes_once(probed, "Collected")
    probed.session.note("Begun")
    assert probed.calls.count("first collects") == probed.calls.count("second collects") == 1
    assert probed.calls.count("first follows") == probed.calls.count("second follows") == 1


@pytest.mark.parametrize(
    ("error", "notice", "logged"),
    [
        (Damaged("the file is cut off"), "the probe could not be updated: the file is cut off.", False),
        (ValueError("7"), "the probe could not be updated: ValueError. See: holdfast doctor", True),
        (OSError(28, "No space left"), "the probe could not be updated: OSError. See: holdfast doctor", True),
    ],
)
@pytest.mark.parametrize("when", ["collect", "commit"])
def test_follower_that_fails_undoes_nothing_and_stops_no_other(
    probed: Probed, error: Exception, notice: str, logged: bool, when: str
) -> None:
    if when == "collect":
        probed.first.on_collect = fails(error)
    else:
        probed.first.on_commit = fails(error)
    probed.other.note("Kept")
    assert "second collects" in probed.calls
    assert probed.second.commits[0].sessions == {probed.other.id}
    assert probed.keeper.take_notices() == [notice]
    assert bool(error_log.lines(probed.keeper.home.path)) == logged
    assert probed.notes(probed.other) == ["Kept"]


def test_follower_that_failed_is_not_called_again_for_the_same_events(probed: Probed) -> None:
    probed.first.on_commit = fails(ValueError("7"))
    probed.other.note("Kept")
    probed.first.on_commit = lambda _ws: None
    probed.session.note("Next")
    assert probed.first.commits[-1].sessions == {probed.session.id}


def test_collected_events_stay_and_are_followed_when_the_verb_fails(probed: Probed) -> None:
    probed.first.on_collect = notes_once(probed, "Collected")
    with pytest.raises(NotFound):
        probed.session.start_task("none")
    assert probed.second.commits[0].sessions == {probed.other.id}
    assert probed.notes(probed.other) == ["Collected"]


def test_verb_ends_with_the_error_of_a_server_that_cannot_be_reached(probed: Probed) -> None:
    """Followers need the same server. What was recorded stays recorded."""
    probed.first.on_commit = fails(Unreachable("the server does not answer"))
    with pytest.raises(Unreachable, match="the server does not answer"):
        probed.other.note("Kept")
    assert probed.notes(probed.other) == ["Kept"]
