"""What must hold after any fault, looked at with the code under test."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from holdfast.formats.mirror.state import MirrorState
from holdfast.machine import files
from holdfast.sessions.start import ANNOUNCED
from holdfast.store.checks import flaws
from holdfast.store.sqlite import SqliteStore
from tests.faults.harness.room import read_tree

# What a home may hold. Anything else must be among what `doctor` names as left behind by a killed process.
KNOWN = {
    "store.db", "store.db-wal", "store.db-shm", "store.db.erasing", "writer.json", "config.toml", "errors.log",
    "aside", "mirrors", "spool", "hooks", "connections", "glances", "opened", "backfilled",
    "device.json", "device.lock", "remotes.json", "remotes", "people.json", "sync.lock", "sync.wanted", "sync.last",
}  # fmt: skip


# Directories and files of agents in a person's home, as far as they are tried here.
AGENTS = (".claude", ".codex", ".gemini", ".config")
ALONE = (".claude.json",)


_FROM_GIT = ("commit.recorded", "file.changed")
NOT_COMPARED = "extra.kept"  # that the work tree could not be compared


class View(NamedTuple):
    """The state a person would see: the log, what is current, the settings."""

    log: dict[str, tuple[tuple[str, str], ...]]  # session -> (type, hash) of each event, in log order
    erased: dict[str, bool]  # session -> whether its data is gone
    current: str | None
    projects: int  # that are known to be at this place
    config: bytes | None
    backup: int | None  # events in the copy at fresh.db
    mirrored: tuple[str, ...]  # formats that are mirrored
    acknowledged: bool  # the contract, by somebody
    agents: tuple[tuple[str, bytes | None], ...]  # their own files, beside the home

    @property
    def kinds(self) -> list[tuple[tuple[str, ...], bool]]:
        """What is recorded, but for the place in git, which is left out where git cannot be read. What was found in
        git comes last, in whichever order it was found.
        """
        return sorted(
            (
                (
                    *(kind for kind, _ in events if kind not in _FROM_GIT and kind != "ground.noted"),
                    *sorted(kind for kind, _ in events if kind in _FROM_GIT),
                ),
                self.erased[session],
            )
            for session, events in self.log.items()
        )

    def is_without_git(self, whole: View) -> bool:
        """Whether it is the same but for what git would have shown, and says that git could not be read."""

        def left(view: View) -> list[tuple[list[str], bool]]:
            return [([kind for kind in kinds if kind not in _FROM_GIT], gone) for kinds, gone in view.kinds]

        less, more = left(self), left(whole)
        if len(less) != len(more) or self.shape[1:] != whole.shape[1:]:
            return False
        for (kinds, _), (wanted, _) in zip(less, more, strict=True):
            if kinds != wanted and NOT_COMPARED in kinds:
                kinds.remove(NOT_COMPARED)
        return less == more

    @property
    def shape(self) -> tuple[object, ...]:
        """What is the same whenever the same command has run: no ids, no times."""
        return (
            self.kinds, self.current is not None, self.projects, self.config, self.backup, self.mirrored,
            self.acknowledged, self.agents,
        )  # fmt: skip


def look(home: str, project: str, place: str) -> View:
    """Open the home as the next command would; anything wrong is an AssertionError, any exception an error.

    `place` is the work tree's path as the store knows it.
    """
    path = os.path.join(home, "store.db")
    config = os.path.join(home, "config.toml")
    copied = os.path.join(project, "fresh.db")
    log: dict[str, tuple[tuple[str, str], ...]] = {}
    erased: dict[str, bool] = {}
    current: str | None = None
    projects = 0
    if os.path.lexists(path):
        log, erased, current, projects = _read(path, place)
    return View(
        log, erased, current, projects, _bytes(config), complete_copy(copied) if os.path.lexists(copied) else None,
        _mirrored(home), os.path.lexists(os.path.join(project, ".ai-session", "contract-acknowledgment.md")),
        agents_files(os.path.dirname(home)),
    )  # fmt: skip


def agents_files(root: str) -> tuple[tuple[str, bytes | None], ...]:
    """What stands in the settings of agents; what a killed writer left unnamed is nobody's, and taken away later."""
    found = [
        (os.path.join(own, name), content)
        for own in AGENTS
        for name, content in (read_tree(os.path.join(root, own)) | {"": None}).items()
        if os.path.isdir(os.path.join(root, own))
        if not os.path.basename(name).startswith(files.PREFIX)
    ]
    found += [(own, _bytes(os.path.join(root, own))) for own in ALONE if os.path.isfile(os.path.join(root, own))]
    return tuple(sorted(found, key=lambda one: one[0]))


def _mirrored(home: str) -> tuple[str, ...]:
    return tuple(sorted(name for formats in MirrorState(home).switch().on.values() for name in formats))


def _read(path: str, place: str) -> tuple[dict[str, tuple[tuple[str, str], ...]], dict[str, bool], str | None, int]:
    store = SqliteStore(path, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        found = list(store.check())
        assert not found, f"the check found {found}"
        log, erased = {}, {}
        for session in store.sessions():
            events = list(store.events(session))
            broken = list(flaws(events))
            assert not broken, f"the chain is broken: {broken}"
            log[session] = tuple((event.type, event.hash) for event in events)
            erased[session] = all(event.data is None for event in events if event.type != "session.deleted")
        return log, erased, store.current(place), len(store.projects_with("path", place))
    finally:
        store.close()


def complete_copy(path: str) -> int:
    """A backup that has its name is complete, or it would not have it."""
    log, *_ = _read(path, "")
    return sum(len(events) for events in log.values())


def leftovers(home: str) -> list[str]:
    """Files that neither belong there nor are named by `doctor` as left behind."""
    if not os.path.isdir(home):
        return []
    named = {os.path.basename(path) for path in files.temporaries(home)}
    announced = {name for name in os.listdir(home) if name.startswith(ANNOUNCED)}
    # Where `connect` tried its script: the next one takes it away.
    trials = {name for name in os.listdir(home) if name.startswith(f"{files.PREFIX}trial-")}
    return sorted(set(os.listdir(home)) - KNOWN - named - announced - trials)


def keeps(before: View, after: View) -> bool:
    """Whether every event that was there is there, in its place."""
    return all(after.log.get(session, ())[: len(events)] == events for session, events in before.log.items())


def remove(folder: str) -> None:
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def copy_of(source: str, target: str) -> None:
    """The room as the fault left it, to look at without touching it."""
    remove(target)
    shutil.copytree(source, target, symlinks=True)


def _bytes(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return file.read()
