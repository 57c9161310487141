"""Whether an agent was ever used, known without loading its reader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.adapters.transcript import load_reader
from holdfast.conversations.backfill.run import used
from holdfast.workspace.agent_dirs import AgentDirs


@pytest.mark.parametrize("name", NAMES)
def test_readers_stay_below_the_directory_that_shows_use(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything a reader reads is below it."""
    places = AgentDirs(str(tmp_path), str(tmp_path / "project"))
    looked: list[str] = []

    def watching(call: Any) -> Any:
        def watch(path: Any, *args: Any, **kwargs: Any) -> Any:
            if str(path).startswith(str(tmp_path)):
                looked.append(str(path))
            return call(path, *args, **kwargs)

        return watch

    one = load_reader(name)
    with monkeypatch.context() as patch:
        for call in ("stat", "lstat", "scandir", "listdir"):
            patch.setattr(os, call, watching(getattr(os, call)))
        assert list(one.sources(places)) == []
    assert looked
    assert not used(name, places)
    for path in looked:
        assert _counts_as_used(name, places, Path(path)), path


def _counts_as_used(name: str, places: AgentDirs, directory: Path) -> bool:
    """Whether this directory makes the agent count as used."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return used(name, places)
    finally:
        top = Path(places.home)
        while directory != top:
            directory.rmdir()
            directory = directory.parent


@pytest.mark.parametrize("name", NAMES)
def test_agent_counts_as_used_when_in_doubt(name: str, tmp_path: Path) -> None:
    """With a variable that leads elsewhere, or on another system, the reader checks itself."""
    variable = f"{name.upper()}_ELSEWHERE"
    assert used(name, AgentDirs(str(tmp_path), "/", {variable: "/x"}))
    assert used(name, AgentDirs(str(tmp_path), "/", {}, "win32"))
