"""Acknowledging the contract: one section per agent, in the contract's form, and whether it is still valid."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound, Refused
from holdfast.formats.mirror.contract import acknowledgment, feature_dirs

NOW = 1_794_000_000_000
SPEC = "# Rules\n\n**Version**: 1.0\n\n## Files\n\n```yaml\n# no heading\nversion: 9.9\n```\n\n### Small ones\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "contract.md"
    path.write_text(SPEC)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".ai-session"


def acknowledge(root: Path, spec: Path, agent: str, now: int = NOW) -> None:
    acknowledgment.acknowledge(str(root), str(spec), agent, now=now)


def text(root: Path) -> str:
    return (root / "contract-acknowledgment.md").read_text()


def test_acknowledgment_has_the_form_of_the_contract(root: Path, spec: Path) -> None:
    """Heading, four facts and the sentence, nothing else."""
    acknowledge(root, spec, "agent-1")
    checksum = hashlib.sha256(spec.read_bytes()).hexdigest()
    assert text(root).split("\n") == [
        "# Contract Acknowledgment",
        "",
        "Agent: agent-1",
        "Date: 2026-11-06T21:20:00Z",
        "Contract Version: 1.0",
        f"Checksum: {checksum}",
        "",
        "I acknowledge that I have read and will adhere to the Session State Specification v1.0.",
        "",
    ]
    assert (root / "contract-acknowledgment.md").stat().st_mode & 0o777 == 0o600


def test_second_agent_adds_a_section(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    before = text(root)
    acknowledge(root, spec, "two")
    assert text(root).startswith(before)
    assert [item.agent for item in acknowledgment.read_acknowledgments(str(root))] == ["one", "two"]


def test_agent_that_acknowledges_again_renews_only_its_section(root: Path, spec: Path) -> None:
    """Other sections and text written by people stay."""
    acknowledge(root, spec, "one")
    acknowledge(root, spec, "two")
    path = root / "contract-acknowledgment.md"
    path.write_text("Kept by Ann.\n\n" + text(root) + "\nSee the wiki.\n")
    before = text(root)
    spec.write_text(SPEC.replace("1.0", "1.1"))
    acknowledge(root, spec, "one", NOW + 86_400_000)
    one, two = acknowledgment.read_acknowledgments(str(root))
    assert (one.agent, one.version, one.date) == ("one", "1.1", "2026-11-07T21:20:00Z")
    assert two.version == "1.0"
    assert text(root).startswith("Kept by Ann.\n\n# Contract Acknowledgment\n\nAgent: one\n")
    assert text(root).endswith("\nSee the wiki.\n")
    assert text(root).count("I acknowledge") == before.count("I acknowledge") == 2


def test_acknowledging_twice_changes_only_the_date(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    before = text(root)
    acknowledge(root, spec, "one", NOW + 1000)
    assert text(root) == before.replace("21:20:00Z", "21:20:01Z")


def test_verify_succeeds_for_the_acknowledged_text(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    acknowledge(root, spec, "two")
    assert len(acknowledgment.verify(str(root), str(spec))) == 2
    assert [item.agent for item in acknowledgment.verify(str(root), str(spec), "two")] == ["two"]


def test_verify_fails_without_acknowledgments(root: Path, spec: Path) -> None:
    with pytest.raises(NotFound):
        acknowledgment.verify(str(root), str(spec))
    acknowledge(root, spec, "one")
    with pytest.raises(NotFound, match="agent two has not") as error:
        acknowledgment.verify(str(root), str(spec), "two")
    assert error.value.hint == f"holdfast contract acknowledge --spec {spec} --agent two"


def test_verify_refuses_another_version_and_a_changed_text(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    spec.write_text(SPEC + "More.\n")
    with pytest.raises(Refused, match="has changed since one acknowledged it"):
        acknowledgment.verify(str(root), str(spec))
    spec.write_text(SPEC.replace("1.0", "2.0"))
    with pytest.raises(Refused, match=r"acknowledged version 1\.0, but this is version 2\.0"):
        acknowledgment.verify(str(root), str(spec))


def test_verify_without_an_agent_checks_every_section(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    spec.write_text(SPEC + "More.\n")
    acknowledge(root, spec, "two")
    assert acknowledgment.verify(str(root), str(spec), "two")
    with pytest.raises(Refused) as caught:
        acknowledgment.verify(str(root), str(spec))
    assert (caught.value.operation, caught.value.file) == ("read", str(root / "contract-acknowledgment.md"))


@pytest.mark.parametrize("line", ["Date", "Contract Version", "Checksum"])
def test_section_with_a_missing_line_is_invalid(root: Path, spec: Path, line: str) -> None:
    acknowledge(root, spec, "one")
    path = root / "contract-acknowledgment.md"
    path.write_text(re.sub(f"(?m)^{line}:.*\n", "", text(root)))
    with pytest.raises(Invalid):
        acknowledgment.verify(str(root), str(spec))


@pytest.mark.parametrize("agent", ["", "  ", "a\nAgent: b", "a\x1b[31m", "x" * 201, "\ud800"])
def test_agent_name_that_could_not_be_read_back_is_refused(root: Path, spec: Path, agent: str) -> None:
    with pytest.raises(Invalid):
        acknowledge(root, spec, agent)
    assert not root.exists()


@pytest.mark.parametrize(
    ("written", "version"),
    [
        ("**Version**: 1.0", "1.0"),
        ("**Version:** 2.1", "2.1"),
        ("version: 'v1.2.3'", "1.2.3"),
        ("| Version | 3 |", "3"),
        ("No number at all", "1.0"),
        ("Version bump required: 2 people", "1.0"),
    ],
)
def test_version_is_read_from_the_text(tmp_path: Path, written: str, version: str) -> None:
    path = tmp_path / "spec.md"
    path.write_text(f"# T\n\n{written}\n")
    assert acknowledgment.specification(str(path)).version == version


def test_headings_in_examples_are_ignored(spec: Path) -> None:
    headings = acknowledgment.specification(str(spec)).headings
    assert [(heading.level, heading.text) for heading in headings] == [(1, "Rules"), (2, "Files"), (3, "Small ones")]


def test_file_with_conflict_markers_is_left_alone(root: Path, spec: Path) -> None:
    acknowledge(root, spec, "one")
    path = root / "contract-acknowledgment.md"
    path.write_text("<<<<<<< HEAD\n" + text(root) + "=======\n>>>>>>> other\n")
    before = text(root)
    with pytest.raises(Conflict):
        acknowledge(root, spec, "two")
    assert text(root) == before


def test_binary_file_is_left_alone(root: Path, spec: Path) -> None:
    root.mkdir(parents=True)
    path = root / "contract-acknowledgment.md"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HoldfastError):
        acknowledge(root, spec, "one")
    assert path.read_bytes() == b"\xff\xfe\x00"


def test_link_in_place_of_the_file_is_not_followed(root: Path, spec: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.parent.mkdir()
    root.symlink_to(elsewhere)
    with pytest.raises(Refused):
        acknowledge(root, spec, "one")
    assert list(elsewhere.iterdir()) == []
    root.unlink()
    root.mkdir()
    (elsewhere / "target").write_text("keep")
    (root / "contract-acknowledgment.md").symlink_to(elsewhere / "target")
    with pytest.raises(Refused):
        acknowledge(root, spec, "one")
    assert (elsewhere / "target").read_text() == "keep"


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────


class Call:
    def __init__(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main(["--project", str(self.project), "contract", *words])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out or err

    def document(self, *words: str) -> tuple[int, dict[str, Any]]:
        code, out = self(*words, "--json")
        answer = json.loads(out)
        assert answer["holdfast"] == 1
        return code, answer


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "hold"))
    monkeypatch.setenv("HOLDFAST_ACTOR", "ann")
    return Call(tmp_path / "project", capsys)


def test_command_acknowledges_and_verifies(call: Call, spec: Path, root: Path) -> None:
    """Exit code 0 if valid, 3 without an acknowledgment, 1 if the text changed, 2 without a text."""
    there = ("--spec", str(spec))
    assert call("verify", *there)[0] == 3
    code, answer = call.document("acknowledge", *there, "--agent", "claude")
    assert (code, answer["acknowledgment"]["agent"]) == (0, "claude")
    assert answer["acknowledgment"]["checksum"] == hashlib.sha256(spec.read_bytes()).hexdigest()
    assert call("acknowledge", *there) == (0, "ann acknowledged version 1.0\n")
    code, answer = call.document("verify", *there)
    assert (code, answer["valid"], [match["agent"] for match in answer["acknowledgments"]]) == (
        0,
        True,
        ["claude", "ann"],
    )
    assert call("verify", *there, "--agent", "nobody")[0] == 3
    spec.write_text(SPEC + "More.\n")
    code, answer = call.document("verify", *there)
    assert (code, answer["error"]["kind"]) == (1, "refused")
    assert answer["error"]["operation"] == "read"
    assert answer["error"]["file"] == str(root / "contract-acknowledgment.md")
    assert answer["error"]["timestamp"].endswith("Z")
    assert call("verify")[0] == 2
    assert call("verify", "--spec", str(spec) + "-missing")[0] == 3


def test_summary_lists_acknowledgments_and_their_validity(call: Call, spec: Path) -> None:
    """It also works when nothing exists yet."""
    there = ("--spec", str(spec))
    code, shown = call("summary", *there)
    assert code == 0
    assert "version 1.0" in shown
    assert "Nobody yet." in shown
    call("acknowledge", *there, "--agent", "one")
    spec.write_text(SPEC + "More.\n")
    call("acknowledge", *there, "--agent", "two")
    code, answer = call.document("summary", *there)
    assert [(match["agent"], match["holds"]) for match in answer["summary"]["acknowledged"]] == [
        ("one", False),
        ("two", True),
    ]
    assert answer["summary"]["headings"][0] == {"level": 1, "text": "Rules"}
    code, answer = call.document("summary", *there, "--agent", "two")
    assert [match["agent"] for match in answer["summary"]["acknowledged"]] == ["two"]


def test_summary_lists_features_with_their_damage(call: Call, spec: Path, root: Path) -> None:
    """Status, current task, finished tasks, last activity; a damaged file is named and does not stop it."""
    tasks: list[Any] = [{"task_id": "a", "status": "completed"}, {"task_id": "b", "status": "in_progress"}]
    for name in ("login-2026-11-15", "search-2026-11-15"):
        times = {"started_at": "2026-11-15T10:00:00Z"}
        feature_dirs.create(str(root), {
            "state": {"version": "1.0", "feature_id": name, "current_state": {
                "active_task": "b", "model_in_use": "opus", **times, "last_updated": "2026-11-15T11:00:00Z"}},
            "plan": {"feature": {"id": name, "name": "N", "description": "D", "created_at": times["started_at"]},
                     "phases": [{"phase_id": "p", "name": "P", "tasks": [*tasks]}]},
            "entry": {"feature_id": name, **times, "last_active": "2026-11-15T11:00:00Z", "status": "paused"},
        })  # fmt: skip
    (root / "search-2026-11-15" / "state.yaml").write_text("a: [")
    code, answer = call.document("summary", "--spec", str(spec))
    assert code == 0
    sound, damaged = answer["summary"]["features"]
    assert sound == {
        "feature_id": "login-2026-11-15", "status": "paused", "active_task": "b", "model": "opus", "tasks_done": 1,
        "tasks": 2, "last_active": "2026-11-15T11:00:00Z", "trouble": None,
    }  # fmt: skip
    assert (damaged["feature_id"], damaged["status"]) == ("search-2026-11-15", "paused")
    assert "state.yaml" in damaged["trouble"]
    code, shown = call("summary", "--spec", str(spec))
    assert "- `login-2026-11-15`: paused, 1 of 2 tasks done, working on b, model opus, last active" in shown
