"""Editing a mirrored file again: who goes on from their own words has changed one side, and is no conflict."""

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


class Clock:
    """A wall clock that stands until it is put forward."""

    def __init__(self) -> None:
        self.ahead = 0
        self._began = time.time_ns() // 1_000_000_000 * 1_000_000_000

    def nanos(self) -> int:
        return self._began + self.ahead * 1_000_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Edited:
    """One session in one mirrored file, and the words in it that are edited."""

    def __init__(self, root: Path, name: str, clock: Clock | None = None) -> None:
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
        """Write other words into the file as it stands, or into somebody's own copy of it; gives what was written."""
        text = self.text if text is None else text
        assert self.own_words in text
        text = text.replace(self.own_words, words)
        self.project.write(self.path, text)
        if self._clock is not None:
            os.utime(self.project.file(self.path), ns=(self._clock.nanos(), self._clock.nanos()))
        self.own_words = words
        return text

    def change(self, words: str) -> None:
        """The same by a command."""
        if self.name == "timer":
            self.session.edit(scope=words)
        else:
            self.session.edit(goal=words)

    def copied(self) -> dict[str, str]:
        """Every file of the document: what contract's say is compared as one."""
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
    """With the clock of this machine: several edits within a second, or over the turn of one."""
    edited = Edited(tmp_path, name)
    with edited.keeper:
        yield edited


@pytest.fixture
def timed(tmp_path: Path, name: str, clock: Clock) -> Iterator[Edited]:
    edited = Edited(tmp_path, name, clock)
    with edited.keeper:
        yield edited


def is_plain(edited: Edited, words: str) -> None:
    document_now = edited.session.document()
    assert (edited.words(document_now), document_now.conflicts, edited.keeper.notices) == (words, [], [])
    assert words in edited.text


# ── edits in a row ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, 5])
def test_edits_in_a_row_are_edits(seconds: int, timed: Edited, clock: Clock) -> None:
    """Each made of the file as it stands, within one second or not: a format may have no clock that tells."""
    for number in range(4):
        clock.ahead += seconds
        timed.write(f"Words {number}")
        is_plain(timed, f"Words {number}")
    timed.project.in_step(timed.keeper, (timed.name,))


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_program_that_never_reads_its_file_again_is_no_conflict(seconds: int, timed: Edited, clock: Clock) -> None:
    """It has its document in memory and writes it again and again; what others did meanwhile stays."""
    copy = timed.text
    for number in range(4):
        clock.ahead += seconds
        timed.session.edit(mode="debug" if number % 2 else "optimize")
        copy = timed.write(f"Words {number}", copy)
        is_plain(timed, f"Words {number}")
        assert timed.session.document().mode == ("debug" if number % 2 else "optimize")


@pytest.mark.parametrize("name", ["orchestrator", "craft"])
def test_going_back_and_forth_counts_each_time(timed: Edited, clock: Clock) -> None:
    """The same words after the same words are another edit, not the earlier one read twice.

    Where each version tells its time, that is. Else an earlier one is an old copy, as one that we wrote always is.
    """
    copy = timed.text + " \n"  # never quite what we write
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
def test_value_put_back_to_what_it_was_is_an_edit_when_its_writer_had_changed_it(
    reads: bool, paused: str, running: str, stamp: str, timed: Edited, clock: Clock
) -> None:
    """A program that pauses and resumes, and says when it wrote; it reads the file each time, or has it in memory."""
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


def test_the_program_takes_edits_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As reported: a mirror, an edit by hand, a command, another edit of the same field right away."""
    call = Calls(tmp_path, monkeypatch, capsys)
    call("mirror", "on", "orchestrator")
    call("start", GOAL)
    file, goal = call.project / ORCHESTRATOR, GOAL
    for words in ("Sell the shop", "Paint the shop", "Burn the shop"):
        file.write_text(file.read_text().replace(goal, words))
        goal = words
        session = call.json("status")["session"]
        assert (session["goal"], session["conflicts"]) == (words, [])


# ── conflicts that are ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, 5])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_copy_from_before_a_command_is_a_conflict(before: int, seconds: int, timed: Edited, clock: Clock) -> None:
    """However many edits came from the file before: what the command said was not in the copy."""
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


def test_words_of_another_format_are_the_other_side(tmp_path: Path) -> None:
    """The orchestrator's file said one thing and craft's copy, made before, another: nobody saw both."""
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


# ── what is no edit ──────────────────────────────────────────────────────────────────────────────────────


def test_an_earlier_version_brought_back_is_no_edit(tmp_path: Path) -> None:
    """A checkout after several edits says nothing, and an edit after it is one."""
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


def test_what_is_remembered_can_be_lost(timed: Edited, clock: Clock) -> None:
    """Then an edit is at worst a conflict too many; no words are lost, and nothing breaks."""
    timed.write("Words 0")
    is_plain(timed, "Words 0")
    memory = timed.keeper.mirrors.stored
    tree = memory.tree(timed.keeper.place.root)
    assert tree.lines[timed.name][timed.session.id]
    tree.lines = {timed.name: {timed.session.id: ["0" * 64]}}
    memory.save(tree)
    clock.ahead += 5
    timed.write("Words 1")
    document = timed.session.document()
    values = {value.value for conflict in document.conflicts for value in conflict.values}
    assert timed.words(document) == "Words 1" or "Words 1" in values


def test_lineage_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Of many edits only so much is remembered, and still each is one."""
    monkeypatch.setattr(read_back, "MAX_VERSIONS", 4)
    edited = Edited(tmp_path, "orchestrator", clock)
    with edited.keeper as keeper:
        for number in range(9):
            edited.write(f"Words {number}")
            is_plain(edited, f"Words {number}")
            lines = keeper.mirrors.stored.tree(keeper.place.root).lines["orchestrator"]
            assert len(lines[edited.session.id]) <= 4


@pytest.mark.parametrize("name", ["orchestrator", "timer", "craft"])
def test_a_copy_of_a_file_that_came_as_we_write_it_takes_nothing_back(
    tmp_path: Path, timed: Edited, clock: Clock
) -> None:
    """A clone brings the file; nothing of it is to be written anew, and yet it is the version that copies are of."""
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


def test_an_edit_while_lines_are_added_to_the_history_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract's files are looked at, then its history waits for the disk, then they are written."""
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


# ── while something follows ──────────────────────────────────────────────────────────────────────────────


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_three_edits_in_a_row_while_something_follows(edited: Edited) -> None:
    """Each is taken in within a moment, with nobody running a command; then a real conflict still is one."""
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
        if edited.name != "contract":  # whose old copy is of several files, and would be looked at between them
            copy = edited.copied()
            time.sleep(0.01)
            edited.change("By command")
            edited.write_back(copy, "By file")
            until(lambda: bool(edited.session.document().conflicts))
            assert edited.words() == "By command"
    assert any(edited.session.id in change.sessions for change in changes_reported)
