"""History for surfaces: by page, unfinished sessions, project name, archived or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import NotFound
from holdfast.core.times import DAY, HOUR


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "house").mkdir()
    with Keeper.open(str(tmp_path / "shop"), home=str(tmp_path / "home")) as keeper:
        now = keeper.now()
        for number in range(7):
            began = now - 30 * DAY + number * HOUR
            keeper.start(f"shop {number}", at=began).complete(at=began + HOUR // 2)
        keeper.at(str(tmp_path / "house")).start("house", at=now - HOUR)
        keeper.start("at it", at=now - HOUR // 2)
        yield keeper


def goals(keeper: Keeper, **asked: object) -> list[str]:
    return [row.goal for row in keeper.history(**{"limit": None, **asked})]  # type: ignore[arg-type]


def test_pages_continue_after_the_last_row(keeper: Keeper) -> None:
    """Together they are the whole listing; an unknown row has no next page."""
    shown: list[str] = []
    before: str | None = None
    while page := keeper.history(limit=2, all_projects=True, before=before):
        shown += [row.goal for row in page]
        before = page[-1].id
    assert shown == goals(keeper, all_projects=True)
    assert len(shown) == 9
    with pytest.raises(NotFound):
        keeper.history(before="nobody")


def test_history_filters_can_be_combined(keeper: Keeper) -> None:
    """Unfinished, by project name, archived by age or not."""
    assert goals(keeper, unfinished=True) == ["at it"]
    assert goals(keeper, unfinished=True, all_projects=True) == ["at it", "house"]
    assert goals(keeper, project="house", all_projects=True) == ["house"]
    assert goals(keeper, archived=False) == ["at it"]
    assert goals(keeper, archived=True, limit=2) == ["shop 6", "shop 5"]
    assert keeper.project_names() == ["house", "shop"]


def test_history_can_be_shown_as_of_a_past_moment(keeper: Keeper) -> None:
    """With what was unfinished or archived then."""
    then = keeper.now() - 30 * DAY + 2 * HOUR + HOUR // 4
    assert goals(keeper, at=then) == ["shop 2", "shop 1", "shop 0"]
    assert goals(keeper, at=then, unfinished=True) == ["shop 2"]
    assert goals(keeper, at=then, archived=True) == []
    assert goals(keeper, at=then, archived=False, limit=1) == ["shop 2"]


def test_history_has_no_project_names_without_a_store(tmp_path: Path) -> None:
    """And none is created."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        assert keeper.project_names() == []
    assert not (tmp_path / "home").exists()
