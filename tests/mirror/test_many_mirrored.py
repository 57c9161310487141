"""Many sessions in one project: a change to one of them costs the same, whatever else is mirrored."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.core.state import State
from holdfast.formats import registry as formats
from holdfast.formats.base import Document
from holdfast.formats.contract import ContractFormat
from holdfast.formats.mirror.contract import registry, yaml_files
from tests.support.mirrored_project import CRAFT, FORMATS, Project

PLAIN = b"""\
# Ours.
active_features:
  - feature_id: "one-2026-11-01"
    started_at: "2026-11-01T09:00:00Z"
    last_active: "2026-11-01T09:00:00Z"
    status: "active"
  # Hers.
  - feature_id: two-2026-11-02
    started_at: 2026-11-02T09:00:00Z
    last_active: 2026-11-02T09:00:00Z
    status: paused
    owner: grace
"""


def test_only_the_changed_session_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path, *FORMATS)
    with project.open() as keeper:
        for number in range(4):
            keeper.start(f"Build number {number}").stop()
        session = keeper.start("Build the last one")
    time.sleep(0.05)  # files that were written this instant are read again
    with project.open() as keeper:
        keeper.collect()
    rendered: list[tuple[str, str]] = []
    for rules in {type(formats.format_named(name)) for name in FORMATS} | {ContractFormat}:
        real = rules.render

        def counted(self: ContractFormat, state: State, real: object = real) -> Document:
            rendered.append((self.name, state.session))
            return real(self, state)  # type: ignore[operator,no-any-return]

        monkeypatch.setattr(rules, "render", counted)
    before = {path: path.stat().st_mtime_ns for path in project.file(CRAFT).glob("*.json")}
    with project.open() as keeper:
        keeper.session(session.id).note("x")
    assert {name for _, name in rendered} == {session.id}
    assert {name for name, _ in rendered} == set(FORMATS)
    changed = {path.name for path, at in before.items() if path.stat().st_mtime_ns != at}
    assert changed == {f"{session.id}.json", "index.json"}
    monkeypatch.undo()
    with project.open() as keeper:
        project.in_step(keeper)


@pytest.mark.parametrize("name", ["one-2026-11-01", "two-2026-11-02"])
def test_registry_entry_edited_in_place_equals_a_full_rewrite(name: str, tmp_path: Path) -> None:
    entry = {"feature_id": name, "last_active": "2026-11-15T09:00:00Z", "status": "completed"}
    path = tmp_path / "active-features.yaml"
    path.write_bytes(PLAIN)
    registry.put(str(tmp_path), {**entry})
    quick = path.read_bytes()
    # A mark that only a full rewrite handles.
    path.write_bytes(PLAIN + b"other: [1]\n")
    registry.put(str(tmp_path), {**entry})
    whole = yaml_files.load(str(path))
    assert whole is not None
    assert yaml_files.parse(quick, "").value == {key: value for key, value in whole.value.items() if key != "other"}
    assert b"# Hers." in quick
    assert len(quick.splitlines()) == len(PLAIN.splitlines())


def test_unchanged_registry_entry_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "active-features.yaml"
    path.write_bytes(PLAIN)
    before = path.stat()
    registry.put(str(tmp_path), {"feature_id": "one-2026-11-01", "status": "active"})
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
