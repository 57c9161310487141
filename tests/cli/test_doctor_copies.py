"""`doctor` on a stream that forked: a warning in plain words, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, make_event
from tests.support.command_line import Calling


@pytest.fixture
def calling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def note(session: str, seq: int, text: str, clock: int, prev: Event | None = None) -> Event:
    return make_event(
        session=session, writer="b" * 20, seq=seq, prev=prev.hash if prev else None, clock=clock, at=clock // 1000,
        actor="ben", type="note.added", version=1, data=canonical_json({"text": text}), salt=bytes(16),
    )  # fmt: skip


def test_doctor_warns_of_two_copies_of_one_home(calling: Calling) -> None:
    """Both branches are shown, and a repair touches nothing."""
    session = str(calling.session("start", "Ship it")["id"])
    with Keeper.open(home=str(calling.home)) as keeper:
        clock = (keeper.now() + 1) * 1000  # after everything else in the log
        first = note(session, 1, "before", clock)
        branches = [note(session, 2, text, clock + number, first) for number, text in enumerate(("one", "other"), 1)]
        with keeper.transaction() as transaction:
            transaction.receive([first, *branches])
    shown = {item["text"] for item in calling.session("show", session)["notes"]}
    assert shown == {"before", "one", "other"}
    checks = {item["name"]: item for item in calling.document("doctor")["checks"]}
    assert checks["chain"]["status"] == "ok"
    assert checks["copies"]["status"] == "warning"
    assert "two copies of one home both continued from event 1" in checks["copies"]["detail"]
    assert "Nothing is lost" in checks["copies"]["fix"]
    calling("doctor", "--repair")
    assert {item["text"] for item in calling.session("show", session)["notes"]} == shown
