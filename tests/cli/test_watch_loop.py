"""The loop of `watch`, with a terminal made of paper: what it looks at, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from holdfast import Keeper
from holdfast.cli.paint import Paint
from holdfast.cli.watching import loop
from holdfast.core.errors import Busy, Damaged, Interrupted
from holdfast.keeper import overview
from holdfast.machine.terminal import Heard

Step = Heard | bytes | Callable[[], object]


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

    def wait(self, seconds: float | None) -> Heard:
        assert seconds is not None
        assert seconds >= 0
        step = next(self._steps)
        if callable(step):
            step()
            return Heard()
        return Heard(typed=step) if isinstance(step, bytes) else step


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home"), actor="ada") as opened:
        yield opened


def watch(keeper: Keeper, monkeypatch: pytest.MonkeyPatch, *steps: Step, only: str | None = None) -> Paper:
    paper = Paper(*steps)
    monkeypatch.setattr(loop, "own_terminal", lambda: paper)
    # Nothing rests and nothing waits: every step looks again.
    monkeypatch.setattr(loop, "_WHOLE", 0.0)
    monkeypatch.setattr(loop, "_AGAIN", 0.0)
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
    told = "".join(paper.written)
    for part in (f"Noted in {session.id[:8]}.", f"Paused {session.id[:8]}.", f"Resumed {session.id[:8]}.", "(lunch)"):
        assert part in told


def test_secrets_in_a_note_are_spoken_of(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut out of a note is said beside the result, as every command says it."""
    session = keeper.start("Add a search box")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    paper = watch(keeper, monkeypatch, b"n", f"use {token}\r".encode(), b"q")
    assert "Secrets were cut out" in "".join(paper.written)
    assert token not in session.document().notes[0].text


def test_a_store_that_is_busy_is_said_and_tried_again(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there stays, with a word about the trouble; once it can be read again, the word is gone."""
    keeper.start("Add a search box")
    real, fails = overview.now, [False]

    def now(asked: Keeper) -> list[overview.Glance]:
        if fails[0]:
            raise Busy("the store is busy", hint="Try again.")
        return real(asked)

    monkeypatch.setattr(overview, "now", now)
    paper = watch(
        keeper, monkeypatch, lambda: fails.__setitem__(0, True), lambda: fails.__setitem__(0, False), Heard(), b"q"
    )
    troubled = next(n for n, text in enumerate(paper.written) if "The store is busy. Try again." in text)
    assert "Add a search box" not in paper.written[troubled], "only the changed lines are written"
    assert any("\x1b[23;1H\x1b[0m\x1b[K" in text for text in paper.written[troubled + 1 :])


def test_what_cannot_be_read_at_all_is_an_error(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage found at the beginning is told as by any command, and nothing is drawn."""

    def now(_: Keeper) -> list[overview.Glance]:
        raise Damaged("the store is damaged")

    monkeypatch.setattr(overview, "now", now)
    with pytest.raises(Damaged):
        watch(keeper, monkeypatch)


def test_signals_end_it(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is what it is everywhere, another signal is named."""
    with pytest.raises(KeyboardInterrupt):
        watch(keeper, monkeypatch, Heard(stop=signal.SIGINT))
    with pytest.raises(Interrupted, match="SIGTERM"):
        watch(keeper, monkeypatch, Heard(stop=signal.SIGTERM))


def test_a_session_that_ends_gives_way(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves the list with a word about it; one that was asked for by name stays, and is gone when deleted."""
    session = keeper.start("Add a search box")
    paper = watch(keeper, monkeypatch, b"\r", session.complete, b"q")
    told = "".join(paper.written)
    assert f"{session.id[:8]} is completed." in told
    assert "No session is unfinished." in told
    alone = watch(keeper, monkeypatch, lambda: keeper.delete(session.id), b"q", only=session.id)
    assert "completed" in alone.written[0]
    assert "The session is not there any more." in "".join(alone.written)


def test_after_another_program_everything_is_drawn_again(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coming back from elsewhere, every line is written; without a reason, none is."""
    paper = watch(keeper, monkeypatch, Heard(), Heard(redraw=True), b"q")
    assert len(paper.written) == 2
    assert paper.written[0] == paper.written[1]
