"""Lines removed from a history: the gap is detected, reported, and closed where the store still has the events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Keeper
from holdfast.formats.contract.history import events_of
from holdfast.formats.mirror.contract import registry
from holdfast.formats.mirror.contract.history import PresentEvents
from holdfast.formats.mirror.contract.restore import restore
from holdfast.workspace.followers import Check
from tests.mirror.contract_feature import NOW, Feature, loaded, repairable, undecidable
from tests.support.mirrored_project import Project


@pytest.fixture
def feature(tmp_path: Path) -> Feature:
    (tmp_path / "project").mkdir()
    return Feature(tmp_path / "project" / ".ai-session", tmp_path / "other")


def without(path: Path, *numbers: int) -> None:
    """Remove lines, counted from 0."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for number, line in enumerate(lines) if number not in numbers))


def kept(feature: Feature, part: str) -> Any:
    return feature.document[part]


@pytest.mark.parametrize(("numbers", "finding"), [((0,), "1 event of session"), ((1, 2, 4), "3 events of session")])
def test_removed_line_is_reported(feature: Feature, numbers: tuple[int, ...], finding: str) -> None:
    without(feature.path("history.jsonl"), *numbers)
    (findings,) = undecidable(feature.root)
    assert f"{feature.id}/history.jsonl lacks {finding}" in findings
    before = feature.path("history.jsonl").read_bytes()
    assert restore(str(feature.root), now=NOW) == []
    assert feature.path("history.jsonl").read_bytes() == before


def test_duplicated_and_reordered_lines_are_no_gap(feature: Feature) -> None:
    path = feature.path("history.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*reversed(lines), *lines]))
    assert undecidable(feature.root) == []


def test_missing_last_event_of_a_writer_is_reported_when_another_names_it(feature: Feature) -> None:
    """It leaves no gap in its own stream."""
    events = events_of(json.loads(line) for line in feature.path("history.jsonl").read_text().splitlines())
    later = msgspec.structs.replace(events[0], writer="other", seq=1, seen=(events[-1].head,))
    present = PresentEvents()
    for event in (*events[:-1], later):
        present.add(event)
    findings = present.lacking()
    assert findings is not None
    assert (findings.number, findings.has(events[-1]), findings.has(events[0])) == (1, True, False)


@pytest.mark.parametrize("name", ["state.yaml", "implementation-plan.yaml"])
def test_restore_invents_nothing_when_the_history_has_lost_its_start(feature: Feature, name: str) -> None:
    """Goal, start and model come from the remaining files, and uncertain values are reported."""
    without(feature.path("history.jsonl"), 0)
    feature.path(name).write_text("torn: [")
    (sentences,) = restore(str(feature.root), now=NOW)
    assert "which lacks 1 event: what it recorded there is uncertain" in sentences
    now = loaded(feature.path("state.yaml"))["current_state"]
    about = loaded(feature.path("implementation-plan.yaml"))["feature"]
    assert now["started_at"] == about["created_at"] == kept(feature, "entry")["started_at"]
    assert now["model_in_use"] == kept(feature, "state")["current_state"]["model_in_use"]
    assert about["name"] == ("Build the login" if name == "state.yaml" else "Login")
    assert repairable(feature.root) == []
    assert ["lacks 1 event" in finding for finding in undecidable(feature.root)] == [True]


def test_readable_parts_of_a_damaged_plan_are_kept_where_history_has_gaps(feature: Feature) -> None:
    path = feature.path("implementation-plan.yaml")
    without(feature.path("history.jsonl"), 0, 3)
    path.write_text(path.read_text().replace('status: "in_progress"', 'status: "busy"'))
    restore(str(feature.root), now=NOW)
    assert loaded(path) == kept(feature, "plan")


def test_readable_parts_of_a_plan_are_kept_without_any_event(feature: Feature) -> None:
    path = feature.path("implementation-plan.yaml")
    feature.path("history.jsonl").write_text("")
    path.write_text(path.read_text().replace('status: "completed"', 'status: "finished"') + "owner: bo\n")
    restore(str(feature.root), now=NOW)
    (one, two) = [task for phase in loaded(path)["phases"] for task in phase["tasks"]]
    assert (one["description"], one["status"], one["artifacts"]) == ("Design it", "pending", ["docs/design.md"])
    assert two == kept(feature, "plan")["phases"][1]["tasks"][0]
    assert loaded(path)["feature"]["name"] == "Build the login"


def test_registry_rebuilt_from_a_history_with_gaps_keeps_the_start(feature: Feature) -> None:
    without(feature.path("history.jsonl"), 0)
    (feature.root / "active-features.yaml").unlink()
    restore(str(feature.root), now=NOW)
    assert registry.entry(str(feature.root), feature.id) == kept(feature, "entry")


# ── with the store ───────────────────────────────────────────────────────────────────────────────────────


def check(keeper: Keeper) -> Check:
    return next(item for item in keeper.doctor()[0] if item.name == "contract")


@pytest.mark.parametrize("change", ["taken out", "changed", "all gone"])
def test_doctor_appends_missing_events_from_the_store(tmp_path: Path, change: str) -> None:
    """At the end of the file: a history only grows."""
    project = Project(tmp_path, "contract")
    with project.open() as keeper:
        session = keeper.start("Build the shop")
        session.add_task("Design it")
        session.note("half-way")
        keeper.mirrors.switch_off("contract")
        path = project.feature() / "history.jsonl"
        whole = path.read_text().splitlines()
        if change == "taken out":
            without(path, 0, 2)
        elif change == "changed":
            path.write_text(path.read_text().replace("Design it", "Scrap it"))
        else:
            path.unlink()
        left = path.read_text() if path.exists() else ""
        findings = check(keeper)
        assert (findings.status, findings.fix) == ("failed", "holdfast doctor --repair")
        _, sentences = keeper.doctor(repair=True)
        assert any("that the store has; added at the end" in name for name in sentences)
        now = path.read_text()
        assert now.startswith(left)
        hashes = {json.loads(line)["x-holdfast"]["hash"] for line in now.splitlines()}
        assert hashes == {json.loads(line)["x-holdfast"]["hash"] for line in whole}
        assert check(keeper).status == ("warning" if change == "changed" else "ok")


def test_doctor_keeps_warning_when_the_home_does_not_have_the_session(tmp_path: Path) -> None:
    project = Project(tmp_path, "contract")
    with project.open() as keeper:
        keeper.start("Build the shop").note("half-way")
    without(project.feature() / "history.jsonl", 0)
    with Keeper.open(str(project.path), home=str(tmp_path / "fresh")) as keeper:
        for _ in range(2):
            findings = check(keeper)
            assert findings.status == "warning"
            assert "lacks 1 event of session" in findings.detail
            assert findings.fix is not None
            assert "--repair" not in findings.fix
            keeper.doctor(repair=True)
