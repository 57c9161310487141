"""`doctor` on events with an absurd clock: a warning in plain words; work continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.canonical import MAX_SAFE_INTEGER, canonical_json
from holdfast.core.envelope import make_event
from tests.support.command_line import Calling


@pytest.fixture
def calling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def test_doctor_names_an_absurd_clock(calling: Calling) -> None:
    """With session, device, writer and value; edits still take effect, and a repair changes nothing."""
    session = str(calling.session("start", "Ship it")["id"])
    with Keeper.open(home=str(calling.home)) as keeper:
        head = keeper.events(session)[-1].head
        event = make_event(
            session=session, writer="f" * 20, seq=1, prev=None, clock=MAX_SAFE_INTEGER, at=keeper.now(), actor="ben",
            type="session.edited", version=1, data=canonical_json({"goal": "Theirs"}), salt=bytes(16), seen=(head,),
        )  # fmt: skip
        with keeper.transaction() as transaction:
            transaction.receive([event])
    assert calling.session("show", session)["goal"] == "Theirs"
    calling("edit", "--goal", "Mine")
    assert calling.session("show", session)["goal"] == "Mine"
    assert calling.document("conflicts")["conflicts"] == []
    shown = calling.document("log")["events"]
    assert [item["data"] for item in shown][-2:] == [{"goal": "Theirs"}, {"goal": "Mine"}]
    another = str(calling.session("start", "Another", "--replace")["id"])
    calling("edit", "--goal", "Mine too")
    assert calling.session("show", another)["goal"] == "Mine too"
    for _ in range(2):
        document = calling.document("doctor")
        checks = {item["name"]: item for item in document["checks"]}
        assert {name for name, check in checks.items() if check["status"] != "ok"} <= {"clocks", "writer"}
        assert checks["clocks"]["status"] == "warning"
        for words in (session, "unknown device", "f" * 20, str(MAX_SAFE_INTEGER), "2255-06-05"):
            assert words in checks["clocks"]["detail"]
        calling("doctor", "--repair")
    assert calling.session("show", session)["goal"] == "Mine"
