"""Repeated edits of a mirrored file: a writer that continues from its own text changes one side only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core import times, view
from holdfast.core.canonical import Json
from holdfast.core.model import Session
from holdfast.formats.mirror import read_back
from holdfast.formats.mirror.contract import history
from holdfast.keeper.change_feed import ChangeFeed, Changes
from holdfast.machine.wall import Wall
from tests.mirror.mirror_calls import Calls
from tests.support.mirrored_project import FORMATS, ORCHESTRATOR, REGISTRY, TIMER, Project, git

DEADLINE = 10.0
# What is edited, as the file says it: the timer's file shows no goal.
GOAL, SCOPE = "Build the shop", "Marketplace"


class SteppedClock:
    """A wall clock that moves only when advanced."""

    def __init__(self) -> None:
        self.ahead = 0
        self._began = time.time_ns() // 1_000_000_000 * 1_000_000_000

    def nanos(self) -> int:
        return self._began + self.ahead * 1_000_000_000


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Edited:
    """One session in one mirrored file, and the texts in it that are edited."""

    def __init__(self, root: Path, name: str, clock: SteppedClock | None = None) -> None:
        self.project = Project(root, name)
        self.name = name
        self._clock = clock
        wall = None if clock is None else Wall(clock.nanos)
        self.keeper = Keeper.open(str(self.project.path), home=str(self.project.home), wall=wall)
        self.session = self.keeper.start(GOAL, scope=SCOPE, task="Build it", model="sonnet")
        self.path = {
            "orchestrator": lambda: ORCHESTRATOR, "timer": lambda: TIMER,
            "craft": self.project.craft, "contract": self.project.plan,
        }[name]()  # fmt: skip
        self.own_words = SCOPE if name == "timer" else GOAL

    @property
    def text(self) -> str:
        return self.project.file(self.path).read_text()

    def write(self, words: str, text: str | None = None) -> str:
        """Write other text into the file, or into an own copy of it; return what was written."""
        text = self.text if text is None else text
        assert self.own_words in text
        text = text.replace(self.own_words, words)
        self.project.write(self.path, text)
        if self._clock is not None:
            os.utime(self.project.file(self.path), ns=(self._clock.nanos(), self._clock.nanos()))
        self.own_words = words
        return text

    def change(self, words: str) -> None:
        """Change the same text by a command."""
        if self.name == "timer":
            self.session.edit(scope=words)
        else:
            self.session.edit(goal=words)

    def copied(self) -> dict[str, str]:
        """Every file of the document: the contract's files are compared together."""
        project = self.project
        paths = [self.path] if self.name != "contract" else [REGISTRY, project.state(), self.path]
        return {path: project.file(path).read_text() for path in paths}

    def write_back(self, copy: dict[str, str], words: str) -> None:
        for path in [path for path in copy if path != self.path]:
            self.project.write(path, copy[path])
        self.write(words, copy[self.path])

    def words(self, document: Session | None = None) -> str | None:
        shown = document or self.session.document()
        return shown.scope if self.name == "timer" else shown.goal


@pytest.fixture
def edited(tmp_path: Path, name: str) -> Iterator[Edited]:
    """With the real clock: several edits within one second, or across two."""
    edited = Edited(tmp_path, name)
    with edited.keeper:
        yield edited


@pytest.fixture
def timed(tmp_path: Path, name: str, clock: SteppedClock) -> Iterator[Edited]:
    edited = Edited(tmp_path, name, clock)
    with edited.keeper:
        yield edited


def is_plain(edited: Edited, words: str) -> None:
    document_now = edited.session.document()
    assert (edited.words(document_now), document_now.conflicts, edited.keeper.notices) == (words, [], [])
    assert words in edited.text


# ── edits in a row ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, 5])
def test_consecutive_edits_are_no_conflicts(seconds: int, timed: Edited, clock: SteppedClock) -> None:
    """Each is made in the current file, within one second or not: a format may have no exact time."""
    for number in range(4):
        clock.ahead += seconds
        timed.write(f"Words {number}")
        is_plain(timed, f"Words {number}")
    timed.project.in_step(timed.keeper, (timed.name,))


@pytest.mark.parametrize("seconds", [0, 5])
def test_program_that_never_rereads_its_file_makes_no_conflict(
    seconds: int, timed: Edited, clock: SteppedClock
) -> None:
    """It writes its document from memory again and again; changes of others stay."""
    copy = timed.text
    for number in range(4):
        clock.ahead += seconds
        timed.session.edit(mode="debug" if number % 2 else "optimize")
        copy = timed.write(f"Words {number}", copy)
        is_plain(timed, f"Words {number}")
        assert timed.session.document().mode == ("debug" if number % 2 else "optimize")


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_edit_that_repeats_an_earlier_text_is_a_new_edit(timed: Edited, clock: SteppedClock) -> None:
    """Not the earlier edit read twice.

    That needs a time in each version; without one an earlier text is an old copy, as one that we wrote always is.
    """
    copy = timed.text + " \n"  # never exactly what we write
    for number in (1, 2, 1, 2, 1):
        clock.ahead += 5
        copy = timed.write(f"Words {number}", copy)
        is_plain(timed, f"Words {number}")


@pytest.mark.parametrize(
    ("name", "paused", "running", "stamp"),
    [
        ("orchestrator", "paused", "in_progress", "updated"),
        ("craft", "paused", "in_progress", "updated_at"),
        ("timer", "PAUSED", "IN_PROGRESS", "lastMessageTime"),
    ],
)
@pytest.mark.parametrize("reads", [True, False])
def test_value_restored_by_its_writer_is_an_edit(
    reads: bool, paused: str, running: str, stamp: str, timed: Edited, clock: SteppedClock
) -> None:
    """A program pauses and resumes, and gives the write time; it rereads the file, or has it in memory."""
    document = timed.project.json(timed.path)
    for status in (paused, running, paused, running):
        clock.ahead += 60
        if reads:
            document = timed.project.json(timed.path)
        document |= {"status": status, stamp: times.format_time(clock.nanos() // 1_000_000)}
        timed.project.write(timed.path, document)
        os.utime(timed.project.file(timed.path), ns=(clock.nanos(), clock.nanos()))
        session = timed.session.document()
        assert (session.status, session.conflicts) == ("paused" if status == paused else "in_progress", [])


def test_edit_after_an_edit_and_a_command_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As reported: a mirror, an edit by hand, a command, then an edit of the same field."""
    call = Calls(tmp_path, monkeypatch, capsys)
    call("mirror", "on", "orchestrator")
    call("start", GOAL)
    file, goal = call.project / ORCHESTRATOR, GOAL
    for words in ("Sell the shop", "Paint the shop", "Burn the shop"):
        file.write_text(file.read_text().replace(goal, words))
        goal = words
        session = call.json("status")["session"]
        assert (session["goal"], session["conflicts"]) == (words, [])


# ── real conflicts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, 5])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_edited_copy_from_before_a_command_is_a_conflict(
    before: int, seconds: int, timed: Edited, clock: SteppedClock
) -> None:
    """However many edits came from the file before: the copy does not contain the command's change."""
    for number in range(before):
        timed.write(f"Words {number}")
        is_plain(timed, f"Words {number}")
    copy = timed.copied()
    clock.ahead += seconds
    timed.change("By command")
    timed.write_back(copy, "By file")
    document = timed.session.document()
    assert timed.words(document) == "By command"
    assert {value.value for conflict in document.conflicts for value in conflict.values} == {"By command", "By file"}
    assert any("both sides" in sentence for sentence in timed.keeper.notices)


def test_edits_in_two_formats_are_two_sides(tmp_path: Path) -> None:
    """The orchestrator's file was edited, then an older craft copy: neither writer saw both."""
    edited = Edited(tmp_path, "orchestrator")
    with edited.keeper as keeper:
        keeper.mirrors.switch_on("craft")
        copy = edited.project.json(edited.project.craft())
        time.sleep(0.01)
        edited.write("Sell the shop")
        is_plain(edited, "Sell the shop")
        edited.project.write(edited.project.craft(), {**copy, "goal": "Burn the shop"})
        document = edited.session.document()
        assert (document.goal, len(document.conflicts)) == ("Sell the shop", 1)


# ── no edits ─────────────────────────────────────────────────────────────────────────────────────────────


def test_restored_earlier_version_is_no_edit(tmp_path: Path) -> None:
    """A checkout after several edits changes nothing, and an edit after it is one."""
    edited = Edited(tmp_path, "orchestrator")
    with edited.keeper as keeper:
        git(edited.project.path, "init", "-q")
        git(edited.project.path, "add", ORCHESTRATOR)
        for number in range(3):
            edited.write(f"Words {number}")
            is_plain(edited, f"Words {number}")
        count = len(keeper.events(edited.session.id))
        git(edited.project.path, "checkout", "-q", "--", ORCHESTRATOR)
        is_plain(edited, "Words 2")
        assert len(keeper.events(edited.session.id)) == count
        edited.write("Words 3")
        is_plain(edited, "Words 3")


def test_edit_without_stored_lineage_is_at_worst_a_conflict(timed: Edited, clock: SteppedClock) -> None:
    """No text is lost, and nothing fails."""
    timed.write("Words 0")
    is_plain(timed, "Words 0")
    memory = timed.keeper.mirrors.stored
    tree = memory.tree(timed.keeper.place.root)
    assert tree.edit_chains[timed.name][timed.session.id]
    tree.edit_chains = {timed.name: {timed.session.id: ["0" * 64]}}
    memory.save(tree)
    clock.ahead += 5
    timed.write("Words 1")
    document = timed.session.document()
    values = {value.value for conflict in document.conflicts for value in conflict.values}
    assert timed.words(document) == "Words 1" or "Words 1" in values


def test_lineage_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: SteppedClock) -> None:
    """Only part of many edits is remembered, and each is still an edit."""
    monkeypatch.setattr(read_back, "MAX_VERSIONS", 4)
    edited = Edited(tmp_path, "orchestrator", clock)
    with edited.keeper as keeper:
        for number in range(9):
            edited.write(f"Words {number}")
            is_plain(edited, f"Words {number}")
            lines = keeper.mirrors.stored.tree(keeper.place.root).edit_chains["orchestrator"]
            assert len(lines[edited.session.id]) <= 4


@pytest.mark.parametrize("name", ["orchestrator", "timer", "craft"])
def test_copy_of_a_cloned_file_reverts_nothing(tmp_path: Path, timed: Edited, clock: SteppedClock) -> None:
    """The clone brings the file exactly as we write it; it is still the version that copies are made of."""
    (tmp_path / "clone").mkdir()
    clone = Project(tmp_path / "clone")
    text = timed.text
    clone.write(timed.path, text)
    clock.ahead += 5
    with Keeper.open(str(clone.path), home=str(clone.home), wall=Wall(clock.nanos)) as keeper:
        keeper.mirrors.switch_on(timed.name)
        assert clone.file(timed.path).read_text() == text
        (row,) = keeper.history()
        session = keeper.session(row.id)
        clock.ahead += 5
        session.edit(goal="Sell it", scope="Elsewhere")
        clone.write(timed.path, {**json.loads(text), "x-mine": 1})
        document = session.document()
        words = timed.words(document)
        assert (words, document.conflicts) == ("Elsewhere" if timed.name == "timer" else "Sell it", [])
        assert clone.json(timed.path)["x-mine"] == 1


def test_edit_while_history_is_appended_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract's files are read, then its history waits for the disk, then they are written."""
    edited = Edited(tmp_path, "contract")
    append = history.append
    late = iter(["By file"])

    def slowly(path: str, lines: Sequence[Mapping[str, Json]]) -> None:
        append(path, lines)
        for words in late:
            edited.write(words)

    with edited.keeper:
        monkeypatch.setattr(history, "append", slowly)
        edited.session.note("Paint it")
        is_plain(edited, "By file")


# ── while a follower runs ────────────────────────────────────────────────────────────────────────────────


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_three_consecutive_edits_are_imported_while_a_follower_runs(edited: Edited) -> None:
    """Within a moment, without a command; a real conflict is still one."""
    changes_reported: list[Changes] = []

    def taken_in(words: str) -> bool:
        state = edited.keeper.store().state(edited.session.id)
        assert state is not None
        assert state.last is not None
        tree = edited.keeper.mirrors.stored.tree(edited.keeper.place.root)
        settled = tree.files[edited.name][edited.path].as_of == state.last[3]
        return settled and edited.words(view.session(state, state.updated_at)) == words

    with ChangeFeed(edited.project.open, changes_reported.append):
        for words in ("Words 0", "Words 1", "Words 2"):
            edited.write(words)
            until(lambda words=words: taken_in(words))  # type: ignore[misc]
        if edited.name != "contract":  # whose old copy has several files, and would be read between them
            copy = edited.copied()
            time.sleep(0.01)
            edited.change("By command")
            edited.write_back(copy, "By file")
            until(lambda: bool(edited.session.document().conflicts))
            assert edited.words() == "By command"
    assert any(edited.session.id in change.sessions for change in changes_reported)
