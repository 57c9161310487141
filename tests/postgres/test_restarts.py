"""F24: the server is killed and started again under machines that go on writing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from holdfast.core.errors import Unreachable
from tests.postgres.team import Process, Task, Team, judge, note
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server
from tests.support.scale import scale

_KILLS = scale(3, 40, 400)
_PAUSES = ((0.1, 0.5), (1.0, 5.0), (5.0, 40.0))[scale(0, 1, 2)]


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """A server that keeps what it acknowledged, whatever is done to it."""
    with Server(durable=True) as server:
        yield server


def test_the_server_is_killed_under_writers(durable: Server) -> None:
    """What eight machines were told is there, once; the rest is there whole, or not at all; every chain holds."""
    team = Team(durable, prepared(durable, "killed"))
    sessions = team.begin(["one", "two"])
    rng = random.Random(24)
    pauses = [rng.uniform(*_PAUSES) for _ in range(_KILLS)]
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                Process(Task(team.url(), [f"{name}{n}" for n in range(4)], sessions, 20, sum(pauses) + _KILLS / 2))
            )
            for name in ("m", "n")
        ]
        time.sleep(0.5)  # they have begun
        for pause in pauses:
            time.sleep(pause)
            durable.kill()
            durable.start()
        said = [said for process in running for said in process.said()]
    with closing(team.store("judge")) as store:
        count = judge(store, sessions, said)
    assert count >= 8 * 20
    assert len([item for item in said if item.hash is None]) <= len(said) // 10


def test_the_server_is_restarted_between_commands(durable: Server) -> None:
    """While it is away, that is said at once; when it is back, the same store goes on."""
    team = Team(durable, prepared(durable, "restarted"))
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        note(store, session, "n 1")
        durable.stop()
        with pytest.raises(Unreachable):
            note(store, session, "n 2")
        with pytest.raises(Unreachable):
            store.state(session)
        with pytest.raises(Unreachable):
            team.store("another")
        durable.start()
        note(store, session, "n 3")
        state = store.state(session)
        assert state is not None
        assert [item.text for item in state.notes] == ["n 1", "n 3"]
