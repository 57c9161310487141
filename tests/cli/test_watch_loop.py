"""The loop of `watch`, with a scripted terminal: when it reads the store, and what it shows when it cannot."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from holdfast import Keeper
from holdfast.cli.paint import Paint
from holdfast.cli.watch import loop
from holdfast.cli.watch.data import WatchData
from holdfast.cli.watch.loop import BackgroundCall
from holdfast.cli.watch.scene import Scene
from holdfast.core.errors import Busy, Damaged, Interrupted
from holdfast.core.model import Row
from holdfast.keeper.change_feed import Changes
from holdfast.machine.terminal import WaitResult
from holdfast.sessions import overview

Step = WaitResult | bytes | Callable[[], object]


class ScriptedTerminal:
    """A terminal that plays scripted input and collects the output."""

    def __init__(self, *steps: Step) -> None:
        self._steps: Iterator[Step] = iter(steps)
        self.written: list[str] = []
        self.inside = False

    def __enter__(self) -> Self:
        self.inside = True
        return self

    def __exit__(self, *_: object) -> None:
        self.inside = False

    def size(self) -> os.terminal_size:
        return os.terminal_size((80, 24))

    def write(self, text: str) -> None:
        assert self.inside
        self.written.append(text)

    def wake(self) -> None:
        pass

    def wait(self, seconds: float | None) -> WaitResult:
        assert seconds is not None
        assert seconds >= 0
        step = next(self._steps)
        if callable(step):
            step()
            return WaitResult()
        return WaitResult(typed=step) if isinstance(step, bytes) else step


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home"), actor="ada") as opened:
        yield opened


def wait_for_escape() -> None:
    """Long enough for Escape to count as a key."""
    time.sleep(1.5 * loop._ESCAPE_TIMEOUT)


def watch(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, *steps: Step, only: str | None = None, soon: float = 60.0
) -> ScriptedTerminal:
    paper = ScriptedTerminal(*steps)
    monkeypatch.setattr(loop, "own_terminal", lambda: paper)
    # Without delays, every step reads again.
    monkeypatch.setattr(loop, "_FULL_REFRESH_INTERVAL", 0.0)
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.0)
    monkeypatch.setattr(loop, "_MESSAGE_DELAY", soon)
    loop.watch(
        lambda: Keeper.open(keeper.place.root, home=keeper.home.path, actor="ada"), Paint(80), only=only,
        prepare=lambda _: None,
    )  # fmt: skip
    assert not paper.inside
    return paper


def test_keys_record_events_and_show_the_result(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """`q` quits."""
    session = keeper.start("Add a search box")
    paper = watch(keeper, monkeypatch, b"n", b"remember this\r", b"p", b"lunch\r", b"r", b"q")
    document = session.document()
    assert [note.text for note in document.notes] == ["remember this"]
    assert [(pause.kind, pause.reason) for pause in document.time.pauses] == [("manual", "lunch")]
    result = "".join(paper.written)
    for part in (f"Noted in {session.id[:8]}.", f"Paused {session.id[:8]}.", f"Resumed {session.id[:8]}.", "(lunch)"):
        assert part in result


def test_watch_reports_secrets_removed_from_a_note(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    session = keeper.start("Add a search box")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    paper = watch(keeper, monkeypatch, b"n", f"use {token}\r".encode(), b"q")
    assert "Removed secrets" in "".join(paper.written)
    assert token not in session.document().notes[0].text


def test_busy_store_is_reported_and_retried(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last picture stays, with a message until the store can be read."""
    keeper.start("Add a search box")
    real, fails = overview.current_cards, [False]

    def now(asked: Keeper) -> list[overview.SessionCard]:
        if fails[0]:
            raise Busy("the store is busy", hint="Try again.")
        return real(asked)

    monkeypatch.setattr(overview, "current_cards", now)
    paper = watch(
        keeper,
        monkeypatch,
        lambda: fails.__setitem__(0, True),
        lambda: fails.__setitem__(0, False),
        WaitResult(),
        b"q",
    )
    shown_while_busy = next(n for n, text in enumerate(paper.written) if "The store is busy. Try again." in text)
    assert "Add a search box" not in paper.written[shown_while_busy], "only the changed lines are written"
    assert any("\x1b[23;1H\x1b[0m\x1b[K" in text for text in paper.written[shown_while_busy + 1 :])


def test_store_damaged_at_the_start_is_an_error(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like in any command, and nothing is drawn."""

    def now(_: Keeper) -> list[overview.SessionCard]:
        raise Damaged("the store is damaged")

    monkeypatch.setattr(overview, "current_cards", now)
    with pytest.raises(Damaged):
        watch(keeper, monkeypatch)


def test_signals_end_watch(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        watch(keeper, monkeypatch, WaitResult(stop=signal.SIGINT))
    with pytest.raises(Interrupted, match="SIGTERM"):
        watch(keeper, monkeypatch, WaitResult(stop=signal.SIGTERM))


def test_ended_session_leaves_the_list_with_a_message(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session given by name stays until it is deleted."""
    session = keeper.start("Add a search box")
    paper = watch(keeper, monkeypatch, b"\r", session.complete, b"q")
    result = "".join(paper.written)
    assert f"{session.id[:8]} is completed." in result
    assert "No unfinished sessions." in result
    alone = watch(keeper, monkeypatch, lambda: keeper.delete(session.id, force=True), b"q", only=session.id)
    assert "completed" in alone.written[0]
    assert "This session no longer exists." in "".join(alone.written)


def test_watch_redraws_everything_after_another_program(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing without a reason."""
    paper = watch(keeper, monkeypatch, WaitResult(), WaitResult(redraw=True), b"q")
    assert len(paper.written) == 2
    assert paper.written[0] == paper.written[1]


def test_store_moved_away_is_reported_as_unreadable(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last picture stays; nothing is created or recorded meanwhile."""
    session = keeper.start("Add a search box")
    home, away = keeper.home.path, keeper.home.path + ".away"
    seen: list[int] = []

    def leave() -> None:
        keeper.close()
        os.rename(home, away)

    def come_back() -> None:
        assert not os.path.lexists(home)
        os.rename(away, home)
        seen.append(len(paper_written))

    paper_written: list[str] = []
    monkeypatch.setattr(ScriptedTerminal, "write", lambda _, text: paper_written.append(text))
    watch(
        keeper,
        monkeypatch,
        leave,
        WaitResult(),
        b"n",
        b"lost?",
        b"\r",
        b"\x1b",
        wait_for_escape,
        come_back,
        WaitResult(),
        b"q",
    )
    result = "".join(paper_written)
    assert "The store cannot be read (no such file or directory)." in "".join(paper_written[: seen[0]])
    assert "deleted" not in result
    assert "No unfinished sessions." not in result
    assert "Noted" not in result
    assert any("\x1b[23;1H\x1b[0m\x1b[K" in text for text in paper_written[seen[0] :]), "the word is gone again"
    assert session.document().notes == []


def test_keys_are_handled_while_the_store_is_locked(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting note is shown as such and recorded in order."""
    session = keeper.start("Add a search box")
    holder = Keeper.open(keeper.place.root, home=keeper.home.path, actor="eve")
    result = holder.transaction()

    def noted() -> None:
        result.__exit__(None, None, None)
        until = time.monotonic() + 20
        while not session.document().notes:
            assert time.monotonic() < until
            time.sleep(0.01)

    steps: list[Step] = [b"n", b"remember\r", b"\r", b"\x1b", wait_for_escape, b"?", b"?", b"q", b"j", noted]
    paper = watch(keeper, monkeypatch, result.__enter__, *steps, *[wait_for_escape] * 10, b"q", soon=0.01)
    holder.close()
    outcome = "".join(paper.written)
    for part in ("Waiting for the store…", "Wait until it ends.", "write a note", "Press q again to leave"):
        assert part in outcome
    assert outcome.index("Waiting for the store…") < outcome.index(f"Noted in {session.id[:8]}.")
    assert [note.text for note in session.document().notes] == ["remember"]


def test_second_quit_ends_watch_with_unfinished_work(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first `q` warns; Ctrl-C ends it at once."""
    keeper.start("Add a search box")
    with Keeper.open(keeper.place.root, home=keeper.home.path, actor="eve") as holder, holder.transaction():
        paper = watch(keeper, monkeypatch, b"p", b"\r", b"\x1b", wait_for_escape, b"q", b"q", soon=0.01)
        with pytest.raises(KeyboardInterrupt):
            watch(keeper, monkeypatch, b"r", WaitResult(stop=signal.SIGINT), soon=0.01)
    assert "Press q again to leave" in "".join(paper.written)


def test_change_of_one_session_read_every_session(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that begins, continues, waits or ends is read alone."""
    sessions = []
    for number in range(12):
        place = os.path.join(keeper.place.root, str(number))
        os.mkdir(place)
        with Keeper.open(place, home=keeper.home.path, actor="ada") as there:
            sessions.append(there.start(f"Goal {number}").id)
    looking = WatchData(keeper, None)
    scene = looking.read_all(Scene())
    assert [card.session.goal for card in scene.cards] == [f"Goal {number}" for number in reversed(range(12))]
    real, looks = overview.session_card, []

    def card(asked: Keeper, session: str) -> overview.SessionCard:
        looks.append(session)
        return real(asked, session)

    monkeypatch.setattr(overview, "session_card", card)
    kept = keeper.session(sessions[3])
    kept.note("remember")
    scene = looking.read_changed(scene, {kept.id})
    assert looks == [kept.id]
    assert scene.cards[0].session.notes[0].text == "remember"
    kept.complete()
    began = keeper.start("A new one")
    began.measure_context(190_000, window=200_000)
    looks.clear()
    scene = looking.read_changed(scene, {kept.id, began.id})
    assert looks == [began.id]
    assert len(scene.cards) == 12
    assert [card.session.id for card in scene.cards] == [card.session.id for card in looking.read_all(scene).cards]
    assert scene.cards[0].attention


def test_watch_waits_before_it_retries_an_unreadable_store(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then shows the change."""
    session = keeper.start("Add a search box")
    paper = ScriptedTerminal()
    news = loop._PendingChanges(paper.wake)

    def begin(_: object) -> BackgroundCall:
        raise AssertionError

    running = loop._Loop(WatchData(keeper, None), paper, Paint(80), news, begin)
    running.refresh()
    real = overview.unfinished

    def unfinished(_: Keeper) -> list[Row]:
        raise Busy("the store is busy")

    monkeypatch.setattr(overview, "unfinished", unfinished)
    monkeypatch.setattr(loop, "_RETRY_DELAY", 1_000.0)
    running._next_read_at = 0.0
    news.add(Changes(1, frozenset({session.id}), other_changes=False))
    running._refresh_or_show_error()
    assert running._timeout() > 900
    monkeypatch.setattr(overview, "unfinished", real)
    session.note("remember")
    running._next_read_at = 0.0
    running._refresh_or_show_error()
    assert running._scene.message is None
    assert running._scene.cards[0].session.notes[0].text == "remember"
