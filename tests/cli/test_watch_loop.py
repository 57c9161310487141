"""The loop of `watch`, with a terminal made of paper: what it looks at, and what it says when it cannot."""

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
from holdfast.cli.watch.actions import BackgroundCall
from holdfast.cli.watch.data import WatchData
from holdfast.cli.watch.scene import Scene
from holdfast.core.errors import Busy, Damaged, Interrupted
from holdfast.core.model import Row
from holdfast.keeper.change_feed import Changes
from holdfast.machine.terminal import WaitResult
from holdfast.sessions import overview

Step = WaitResult | bytes | Callable[[], object]


class Paper:
    """A terminal that plays what is to be heard and keeps what was written."""

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


def a_moment() -> None:
    """Long enough for Escape to be a key."""
    time.sleep(1.5 * loop._ESCAPE_TIMEOUT)


def watch(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, *steps: Step, only: str | None = None, soon: float = 60.0
) -> Paper:
    paper = Paper(*steps)
    monkeypatch.setattr(loop, "own_terminal", lambda: paper)
    # Nothing rests and nothing waits: every step looks again.
    monkeypatch.setattr(loop, "_FULL_REFRESH_INTERVAL", 0.0)
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.0)
    monkeypatch.setattr(loop, "_MESSAGE_DELAY", soon)
    loop.watch(
        lambda: Keeper.open(keeper.place.root, home=keeper.home.path, actor="ada"), Paint(80), only=only,
        prepare=lambda _: None,
    )  # fmt: skip
    assert not paper.inside
    return paper


def test_keys_record_and_are_seen(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note and a pause go to the log, and what came of them to the screen; `q` ends it."""
    session = keeper.start("Add a search box")
    paper = watch(keeper, monkeypatch, b"n", b"remember this\r", b"p", b"lunch\r", b"r", b"q")
    document = session.document()
    assert [note.text for note in document.notes] == ["remember this"]
    assert [(pause.kind, pause.reason) for pause in document.time.pauses] == [("manual", "lunch")]
    result = "".join(paper.written)
    for part in (f"Noted in {session.id[:8]}.", f"Paused {session.id[:8]}.", f"Resumed {session.id[:8]}.", "(lunch)"):
        assert part in result


def test_secrets_in_a_note_are_spoken_of(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut out of a note is said beside the result, as every command says it."""
    session = keeper.start("Add a search box")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    paper = watch(keeper, monkeypatch, b"n", f"use {token}\r".encode(), b"q")
    assert "Removed secrets" in "".join(paper.written)
    assert token not in session.document().notes[0].text


def test_store_that_is_busy_is_reported_and_tried_again(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there stays, with a word about the trouble; once it can be read again, the word is gone."""
    keeper.start("Add a search box")
    real, fails = overview.now, [False]

    def now(asked: Keeper) -> list[overview.SessionCard]:
        if fails[0]:
            raise Busy("the store is busy", hint="Try again.")
        return real(asked)

    monkeypatch.setattr(overview, "now", now)
    paper = watch(
        keeper,
        monkeypatch,
        lambda: fails.__setitem__(0, True),
        lambda: fails.__setitem__(0, False),
        WaitResult(),
        b"q",
    )
    troubled = next(n for n, text in enumerate(paper.written) if "The store is busy. Try again." in text)
    assert "Add a search box" not in paper.written[troubled], "only the changed lines are written"
    assert any("\x1b[23;1H\x1b[0m\x1b[K" in text for text in paper.written[troubled + 1 :])


def test_what_cannot_be_read_at_all_is_an_error(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage found at the beginning is told as by any command, and nothing is drawn."""

    def now(_: Keeper) -> list[overview.SessionCard]:
        raise Damaged("the store is damaged")

    monkeypatch.setattr(overview, "now", now)
    with pytest.raises(Damaged):
        watch(keeper, monkeypatch)


def test_signals_end_it(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is what it is everywhere, another signal is named."""
    with pytest.raises(KeyboardInterrupt):
        watch(keeper, monkeypatch, WaitResult(stop=signal.SIGINT))
    with pytest.raises(Interrupted, match="SIGTERM"):
        watch(keeper, monkeypatch, WaitResult(stop=signal.SIGTERM))


def test_session_that_ends_gives_way(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves the list with a word about it; one that was asked for by name stays, and is gone when deleted."""
    session = keeper.start("Add a search box")
    paper = watch(keeper, monkeypatch, b"\r", session.complete, b"q")
    result = "".join(paper.written)
    assert f"{session.id[:8]} is completed." in result
    assert "No unfinished sessions." in result
    alone = watch(keeper, monkeypatch, lambda: keeper.delete(session.id, force=True), b"q", only=session.id)
    assert "completed" in alone.written[0]
    assert "This session no longer exists." in "".join(alone.written)


def test_after_another_program_everything_is_drawn_again(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coming back from elsewhere, every line is written; without a reason, none is."""
    paper = watch(keeper, monkeypatch, WaitResult(), WaitResult(redraw=True), b"q")
    assert len(paper.written) == 2
    assert paper.written[0] == paper.written[1]


def test_store_that_was_moved_away_is_not_deleted(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen stays, with a word that the store cannot be read; nothing is made or recorded meanwhile."""
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
    monkeypatch.setattr(Paper, "write", lambda _, text: paper_written.append(text))
    watch(
        keeper,
        monkeypatch,
        leave,
        WaitResult(),
        b"n",
        b"lost?",
        b"\r",
        b"\x1b",
        a_moment,
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
    """A note that must wait says so, the view goes on, one thing comes after the other, and the note is recorded."""
    session = keeper.start("Add a search box")
    holder = Keeper.open(keeper.place.root, home=keeper.home.path, actor="eve")
    result = holder.transaction()

    def noted() -> None:
        result.__exit__(None, None, None)
        until = time.monotonic() + 20
        while not session.document().notes:
            assert time.monotonic() < until
            time.sleep(0.01)

    steps: list[Step] = [b"n", b"remember\r", b"\r", b"\x1b", a_moment, b"?", b"?", b"q", b"j", noted]
    paper = watch(keeper, monkeypatch, result.__enter__, *steps, *[a_moment] * 10, b"q", soon=0.01)
    holder.close()
    outcome = "".join(paper.written)
    for part in ("Waiting for the store…", "Wait until it ends.", "write a note", "Press q again to leave"):
        assert part in outcome
    assert outcome.index("Waiting for the store…") < outcome.index(f"Noted in {session.id[:8]}.")
    assert [note.text for note in session.document().notes] == ["remember"]


def test_who_leaves_twice_need_not_wait(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """`q` says that something is not done yet, and the second one leaves all the same; so does Ctrl-C at once."""
    keeper.start("Add a search box")
    with Keeper.open(keeper.place.root, home=keeper.home.path, actor="eve") as holder, holder.transaction():
        paper = watch(keeper, monkeypatch, b"p", b"\r", b"\x1b", a_moment, b"q", b"q", soon=0.01)
        with pytest.raises(KeyboardInterrupt):
            watch(keeper, monkeypatch, b"r", WaitResult(stop=signal.SIGINT), soon=0.01)
    assert "Press q again to leave" in "".join(paper.written)


def test_every_change_looked_into_every_session(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """News of one session is one look, however many there are: a session that begins, goes on, waits or ends."""
    sessions = []
    for number in range(12):
        place = os.path.join(keeper.place.root, str(number))
        os.mkdir(place)
        with Keeper.open(place, home=keeper.home.path, actor="ada") as there:
            sessions.append(there.start(f"Goal {number}").id)
    looking = WatchData(keeper, None)
    scene = looking.everything(Scene())
    assert [card.session.goal for card in scene.cards] == [f"Goal {number}" for number in reversed(range(12))]
    real, looks = overview.session_card, []

    def card(asked: Keeper, session: str) -> overview.SessionCard:
        looks.append(session)
        return real(asked, session)

    monkeypatch.setattr(overview, "session_card", card)
    kept = keeper.session(sessions[3])
    kept.note("remember")
    scene = looking.changed(scene, {kept.id})
    assert looks == [kept.id]
    assert scene.cards[0].session.notes[0].text == "remember"
    kept.complete()
    began = keeper.start("A new one")
    began.measure_context(190_000, window=200_000)
    looks.clear()
    scene = looking.changed(scene, {kept.id, began.id})
    assert looks == [began.id]
    assert len(scene.cards) == 12
    assert [card.session.id for card in scene.cards] == [card.session.id for card in looking.everything(scene).cards]
    assert scene.cards[0].attention


def test_news_that_cannot_be_read_is_waited_for(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """With news at hand and a store that cannot be read, it rests before it tries again, and then shows the news."""
    session = keeper.start("Add a search box")
    paper = Paper()
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
