"""A project with mirrors, whose files are compared with the log."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast import Keeper
from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.formats import registry
from holdfast.formats.export import export_document
from holdfast.formats.mirror.contract.feature_files import read_feature_document
from holdfast.formats.validate import Validator

FORMATS = ("orchestrator", "timer", "contract", "craft")
ORCHESTRATOR = ".claude/orchestrator-session.json"
HISTORY = ".claude/orchestrator-history"
TIMER = ".claude/session-state.json"
CRAFT = ".craft/cache/orchestration-sessions"
CONTRACT = ".ai-session"
REGISTRY = f"{CONTRACT}/active-features.yaml"


class Project:
    """One project and one home, both in a directory of the test's own."""

    def __init__(self, root: Path, *formats: str, path: Path | None = None) -> None:
        self.path = path or root / "project"
        self.path.mkdir(exist_ok=True)
        self.home = root / "home"
        if formats:
            with self.open() as keeper:
                for name in formats:
                    keeper.mirrors.switch_on(name)

    def open(self, project: Path | None = None) -> Keeper:
        return Keeper.open(str(project or self.path), home=str(self.home))

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def file(self, name: str) -> Path:
        return self.path / name

    def json(self, name: str) -> Any:
        return json.loads(self.file(name).read_text())

    def write(self, name: str, value: object) -> None:
        """In place, emptied and filled, as the programs of the specifications do."""
        self.file(name).parent.mkdir(parents=True, exist_ok=True)
        self.file(name).write_text(value if isinstance(value, str) else json.dumps(value, indent=2))

    def edit(self, name: str, change: Callable[[Any], object]) -> None:
        document = self.json(name)
        change(document)
        self.write(name, document)

    def feature(self) -> Path:
        """The directory of the only feature."""
        (folder,) = [path for path in self.file(CONTRACT).iterdir() if path.is_dir()]
        return folder

    def state(self) -> str:
        return f"{CONTRACT}/{self.feature().name}/state.yaml"

    def plan(self) -> str:
        return f"{CONTRACT}/{self.feature().name}/implementation-plan.yaml"

    def craft(self) -> str:
        """The file of the only session."""
        (name,) = [path.name for path in self.file(CRAFT).iterdir() if path.name != "index.json"]
        return f"{CRAFT}/{name}"

    def archives(self) -> list[str]:
        return sorted(os.listdir(self.file(HISTORY))) if self.file(HISTORY).exists() else []

    def rejected(self) -> list[str]:
        paths = [path for path in self.path.rglob("*.rejected-*") if ".git" not in path.relative_to(self.path).parts]
        return sorted(str(path.relative_to(self.path)) for path in paths)

    def leftovers(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob(".holdfast-*"))

    # ── compared with the log ─────────────────────────────────────────────────────────────────────────────

    def in_step(self, keeper: Keeper, formats: tuple[str, ...] = FORMATS) -> None:
        """Every mirrored file equals its export, none is missing, and `validate` reports nothing."""
        tree = keeper.mirrors.stored.tree(str(keeper.place.root))
        root = Path(keeper.place.root)
        current = keeper.store().current(str(keeper.place.root))
        expected: dict[Path, object] = {}
        for name in formats:
            rules = registry.format_named(name)
            assert tree.failures.get(name) is None
            for session in tree.sessions.get(name, ()):
                state = keeper.store().state(session)
                assert state is not None
                document, _ = export_document(keeper, state, rules)
                here = session == current and view.status_of(state) not in FINISHED
                alias = rules.alias(document)
                if name == "orchestrator":
                    expected[root / (ORCHESTRATOR if here else f"{HISTORY}/{alias}.json")] = document
                elif name == "timer" and here:
                    expected[root / TIMER] = document
                elif name == "craft":
                    expected[root / CRAFT / f"{alias}.json"] = document
                elif name == "contract":
                    gathered_files = read_feature_document(str(root / CONTRACT / alias))
                    assert {**gathered_files, "history": None} == {**document, "history": None}
        for path, meant in expected.items():
            assert json.loads(path.read_text()) == meant, path
        there = {root / ORCHESTRATOR, root / TIMER, *(root / HISTORY).glob("*.json"), *(root / CRAFT).glob("*.json")}
        assert {path for path in there if path.exists()} - {root / CRAFT / "index.json"} == set(expected)
        if any(path.parent == root / CRAFT for path in expected):
            index = json.loads((root / CRAFT / "index.json").read_text())
            named = {item["session_id"] for item in index["sessions"]}
            assert named == {path.stem for path in expected if path.parent == root / CRAFT}
        if expected:
            valid(root)


def valid(root: Path) -> None:
    checking = Validator(format_name=None, lenient=False, now=2**44, offset=lambda _: timedelta(0))
    for verdict in checking.check([str(root)]):
        wrong = [problem for problem in verdict.problems if problem.severity == "error"]
        assert not wrong, (verdict.path, wrong)


def git(where: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()
