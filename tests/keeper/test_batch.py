"""Several verbs as one: all of them are recorded, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import NotFound
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle


def test_all_or_nothing(tmp_path: Path) -> None:
    """What came before a refusal in the same block is not recorded either; what follows the block is."""
    (tmp_path / "p").mkdir()
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Together")
        with keeper.batch():
            session.note("one")
            with session.agent("a", type="coder", pid=None) as agent, keeper.batch():
                agent.progress(0.5)
            assert session.add_task("two") == "t1"
        before = keeper.events(session.id)
        with pytest.raises(NotFound):
            _note_and_end(session, "nobody")
        assert keeper.events(session.id) == before
        session.note("four")
        document = session.document()
    assert [note.text for note in document.notes] == ["one", "four"]
    assert [agent.status for agent in document.agents] == ["completed"]
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as again:
        assert [note.text for note in again.session().document().notes] == ["one", "four"]


def _note_and_end(session: SessionHandle, agent: str) -> None:
    with session.keeper.batch():
        session.note("three")
        session.find_agent(agent).done()


def _note_and_divide(session: SessionHandle) -> None:
    with session.keeper.batch():
        session.note("lost")
        raise ZeroDivisionError


def test_nothing_is_left_of_an_error_of_any_kind(tmp_path: Path) -> None:
    """An error that is not ours undoes the block just the same, and the keeper goes on."""
    (tmp_path / "p").mkdir()
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Together")
        with pytest.raises(ZeroDivisionError):
            _note_and_divide(session)
        session.note("kept")
        assert [note.text for note in session.document().notes] == ["kept"]
