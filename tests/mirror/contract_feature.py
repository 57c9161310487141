"""A feature of the contract for the tests of its directory: written by Holdfast, with its whole history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Keeper
from holdfast.core.fold import fold
from holdfast.core.fold import read_data as data_of
from holdfast.formats import registry as formats
from holdfast.formats.contract.history import history_line
from holdfast.formats.mirror.contract import feature_dirs, registry
from holdfast.formats.mirror.contract.check import check_directory
from holdfast.formats.text.read import read_yaml

NOW = 1_794_000_000_000
ASIDE = ".rejected-20261106T212000Z"


class Feature:
    """A feature with its whole history, in a directory that no store knows."""

    def __init__(self, root: Path, home: Path, feature: str = "login", *, paused: bool = False) -> None:
        project = home / "elsewhere"
        project.mkdir(parents=True, exist_ok=True)
        with Keeper.open(str(project), home=str(home / "home"), actor="ann") as keeper:
            session = keeper.start(f"Build the {feature}", feature=feature, replace=True)
            session.add_task("Design it", task_id="design", phase="one", agent="arch-1")
            session.start_task("design")
            session.finish_task("design", artifacts=["docs/design.md"])
            session.add_task("Write it", task_id="write")
            session.start_task("write")
            session.note("half-way")
            if paused:
                session.pause("lunch")
            events = keeper.events(session.id)
        rules = formats.format_named("contract")
        self.document = rules.render(fold(events, session.id))
        self.lines = [
            history_line(event, data_of(event), fold(events[: number + 1], session.id))
            for number, event in enumerate(events)
        ]
        self.root = root
        self.id = str(self.document["state"]["feature_id"])  # type: ignore[index,call-overload]
        feature_dirs.create(str(root), self.document, history=self.lines)

    def path(self, name: str) -> Path:
        return self.root / self.id / name

    def assert_restored(self) -> None:
        """Every file has its original content, and nothing is left to repair."""
        assert loaded(self.path("state.yaml")) == self.document["state"]
        assert loaded(self.path("implementation-plan.yaml")) == self.document["plan"]
        assert registry.entry(str(self.root), self.id) == self.document["entry"]
        assert repairable(self.root) == []


def repairable(root: Path) -> list[str]:
    return [finding.detail for finding in check_directory(str(root)) if finding.advice is None]


def undecidable(root: Path) -> list[str]:
    """Findings that only a person can resolve."""
    return [finding.detail for finding in check_directory(str(root)) if finding.advice is not None]


def loaded(path: Path) -> Any:
    return read_yaml(path.read_bytes(), str(path)).value


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
