"""Nobody but ourselves decides where our hours and tokens count: a guest writes in a session that we share, and what we
did in another one stays there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from several_devices import Several

from holdfast.core.times import HOUR, MINUTE, text
from holdfast.core.vocabulary import Data, MessageExchanged, SessionResumed
from holdfast.keeper import Keeper
from holdfast.keeper.hours import HoursMemo, hours
from holdfast.store.interface import Draft

GUEST = "guest@example.org"


class Guested(Several):
    """Of two sessions that overlap, the owner wrote last in the private one; a guest may write in the other one."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.at("guest")
        guests_key = self.age
        self.found()
        self.began = int(time.time() * 1000) - 6 * HOUR
        self.shared = str(self.session("--at", text(self.began), "start", "Shared", "--scope", "shared")["id"])
        self.document("people", "add", GUEST, guests_key)
        self.document("share", self.shared, "--with", GUEST)
        self.at("guest")
        self.document("accept", self.url, self.document("accept", self.url, "--list")["offers"][0]["name"])
        self.sync("laptop", "guest")
        self.at("laptop")
        begun = text(self.began + HOUR)
        self.private = str(
            self.session("--at", begun, "start", "Private", "--scope", "private", "--replace")["id"]
        )
        self.record("laptop", self.private, self.messages(4))
        self.document("--at", text(self.began + 2 * HOUR), "stop")

    def messages(self, every: int) -> list[tuple[int, Data]]:
        """Messages of a person during the private session."""
        return [(self.began + HOUR + minute * MINUTE, MessageExchanged()) for minute in range(1, 59, every)]

    def record(self, device: str, session: str, said: Iterable[tuple[int, Data]]) -> None:
        """Events that no command records, by a device that may write there."""
        with Keeper.open(str(self.project), home=str(self.root / f"home-{device}"), actor="claude") as keeper:
            with keeper.transaction() as transaction:
                for at, data in said:
                    transaction.record(session, Draft(data, at, "claude"))

    def worked(self) -> dict[str, dict[str | None, int]]:
        """Milliseconds by scope, as each of the commands and the page has them."""
        cycle = self.document("cycle")["cycle"]
        with Keeper.open(str(self.project), home=str(self.root / "home-laptop")) as keeper:
            page = hours(keeper, HoursMemo())
        return {
            "stats": _by_scope(self.document("stats", "--by", "scope")["lines"]),
            "cycle": _by_scope(cycle["scopes"]),
            "page": {line.key: line.working_ms for line in page.scopes},
        }


def _by_scope(lines: Iterable[dict[str, Any]]) -> dict[str | None, int]:
    return {line["key"]: line["working_ms"] for line in lines}


@pytest.fixture
def guested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Guested:
    return Guested(tmp_path, monkeypatch, capsys)


def test_guests_messages_do_not_take_the_hours_of_another_session(guested: Guested) -> None:
    before = guested.worked()
    assert all(counted["private"] >= 55 * MINUTE for counted in before.values()), before
    guested.record("guest", guested.shared, guested.messages(3))
    guested.sync("guest", "laptop")
    after = guested.worked()
    assert {name: counted["private"] for name, counted in after.items()} == {
        name: counted["private"] for name, counted in before.items()
    }


def test_messages_from_another_device_of_ours_take_the_hours_along(guested: Guested) -> None:
    guested.join("tablet")
    resumed = (guested.began + HOUR + MINUTE, SessionResumed())
    guested.record("tablet", guested.shared, [resumed, *guested.messages(3)])
    guested.sync("tablet", "laptop")
    after = guested.worked()
    assert all(counted["private"] < 45 * MINUTE for counted in after.values()), after
