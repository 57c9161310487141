"""Checking an `.ai-session/` directory: the doctor finds what `validate` calls an error, and who can repair it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.formats.mirror.contract.restore import restore
from holdfast.formats.validate import Validator
from holdfast.workspace.followers import REPAIR_COMMAND, Check
from tests.mirror.contract_feature import ASIDE, NOW, Feature, repairable, undecidable

REGISTRY, PLAN, STATE = "active-features.yaml", "implementation-plan.yaml", "state.yaml"
GHOST = "  - {feature_id: ghost-2026-11-15, started_at: '2026-11-15T10:00:00Z', last_active: '2026-11-15T10:00:00Z',"


@pytest.fixture
def feature(tmp_path: Path) -> Feature:
    (tmp_path / "project").mkdir()
    return Feature(tmp_path / "project" / ".ai-session", tmp_path / "other")


def errors(root: Path) -> list[str]:
    """The files in which `validate` finds errors."""
    checking = Validator(format_name=None, lenient=False, now=2**44, offset=lambda _: timedelta(0))
    verdicts = checking.check([str(root)])
    return [
        Path(verdict.path).name for verdict in verdicts if any(each.severity == "error" for each in verdict.problems)
    ]


def check(feature: Feature, tmp_path: Path) -> Check:
    with Keeper.open(str(feature.root.parent), home=str(tmp_path / "fresh")) as keeper:
        return next(item for item in keeper.doctor()[0] if item.name == "contract")


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        made = re.sub(pattern, by, text, flags=re.DOTALL)
        assert made != text
        return made

    return change


def doubled(text: str) -> str:
    return text + text.partition("active_features:\n")[2]


DAMAGE: list[tuple[str, Callable[[str], str]]] = [
    (STATE, replaced(r'model_in_use: "\w+"', "model_in_use: 5")),
    (STATE, replaced(r'model_in_use: "\w+"', 'model_in_use: "gpt"')),
    (STATE, replaced(r'last_updated: "(\d+)-\d\d', r'last_updated: "\1-13')),
    (STATE, replaced(r'active_task: "\w+"', 'active_task: "nobody"')),
    (PLAN, replaced('status: "completed"', 'status: "finished"')),
    (PLAN, replaced('task_id: "write"', 'task_id: "design"')),
    (PLAN, replaced(r"phases:.*", "")),
    (PLAN, replaced(r"phases:.*", "phases: null\n")),
    (PLAN, replaced(r"\n  id: \S+", '\n  id: "another-2026-11-15"')),
    (REGISTRY, doubled),
    (REGISTRY, replaced('status: "active"', 'status: "zzz"')),
    (REGISTRY, lambda _: "active_features: null\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage"), DAMAGE)
def test_check_finds_and_restore_repairs_what_validate_refuses(
    feature: Feature, tmp_path: Path, name: str, damage: Callable[[str], str]
) -> None:
    path = feature.root / name if name == REGISTRY else feature.path(name)
    path.write_text(damage(path.read_text()))
    broken = path.read_bytes()
    assert name in errors(feature.root)
    assert len(repairable(feature.root)) == 1
    check_ = check(feature, tmp_path)
    assert (check_.status, check_.fix) == ("failed", REPAIR_COMMAND)
    assert len(restore(str(feature.root), now=NOW)) == 1
    feature.assert_restored()
    assert Path(f"{path}{ASIDE}").read_bytes() == broken
    assert errors(feature.root) == []
    assert check(feature, tmp_path).status == "ok"


def test_plan_without_tasks_of_the_history_is_damaged(feature: Feature) -> None:
    """It is valid, but leaving a task out does not remove it."""
    path = feature.path(PLAN)
    path.write_text(replaced(r"phases:.*", "phases: []\n")(path.read_text()))
    feature.path(STATE).write_text(
        replaced(r'active_task: "\w+"', "active_task: null")(feature.path(STATE).read_text())
    )
    (sentence,) = repairable(feature.root)
    assert "its tasks are missing, and the history knows 2 tasks" in sentence
    restore(str(feature.root), now=NOW)
    assert 'task_id: "design"' in path.read_text()
    assert repairable(feature.root) == []


def test_edit_by_a_person_is_no_damage(feature: Feature) -> None:
    """A valid file that differs from the history stays unchanged."""
    path = feature.path(PLAN)
    path.write_text(
        "# mine\n" + path.read_text().replace("Design it", "Design it well").replace("Build", "Construct")
    )
    before = path.read_bytes()
    assert (repairable(feature.root), undecidable(feature.root)) == ([], [])
    assert restore(str(feature.root), now=NOW) == []
    assert path.read_bytes() == before


def test_missing_readme_is_restored(feature: Feature) -> None:
    readme = feature.root / "README.md"
    before = readme.read_bytes()
    readme.unlink()
    assert repairable(feature.root) == ["README.md is missing"]
    assert restore(str(feature.root), now=NOW) == ["README.md was missing: restored."]
    assert readme.read_bytes() == before
    assert repairable(feature.root) == []


DOUBTS: list[tuple[str, Callable[[str], str], str, str]] = [
    (STATE, replaced('version: "1.0"', 'version: "9.0"'), "is of version 9.0 of the contract", "upgrade"),
    (REGISTRY, lambda text: text + GHOST + " status: active}\n", "lists ghost-2026-11-15, which has no", "directory"),
    ("history.jsonl", lambda text: text + "garbage\n", "has 1 line that cannot be read: line 9", "never changed"),
    ("history.jsonl", lambda text: text + '{"timestamp": "20', "has 1 line that cannot be read: line 9", "never"),
    (PLAN, lambda text: f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> x\n", "is unmerged", "Finish the merge"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "sentence", "advice"), DOUBTS)
def test_damage_that_only_a_person_can_resolve_is_a_warning(
    feature: Feature, tmp_path: Path, name: str, change: Callable[[str], str], sentence: str, advice: str
) -> None:
    """Nothing is changed."""
    path = feature.root / name if name == REGISTRY else feature.path(name)
    path.write_text(change(path.read_text()))
    before = path.read_bytes()
    (finding,) = undecidable(feature.root)
    assert sentence in finding
    restore(str(feature.root), now=NOW)
    assert path.read_bytes() == before
    seen = check(feature, tmp_path)
    assert seen.status == "warning"
    assert seen.fix is not None
    assert advice in seen.fix
    assert "--repair" not in seen.fix


def test_torn_line_that_was_added_again_is_no_warning(feature: Feature) -> None:
    path = feature.path("history.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], lines[-1][:40] + "\n", lines[-1]]))
    assert undecidable(feature.root) == []


def test_entries_of_a_damaged_registry_keep_their_valid_fields(feature: Feature) -> None:
    """One of an unknown feature: its status is not in the contract, the rest is unchanged."""
    path = feature.root / REGISTRY
    path.write_text("# ours\n" + path.read_text() + GHOST + " status: zzz, owner: bo}\n")
    restore(str(feature.root), now=NOW)
    feature.assert_restored()
    assert path.read_text().startswith("# ours\n")
    assert "owner: bo" in path.read_text().replace('"', "")
    assert errors(feature.root) == []
