"""What must be true after any fault, checked with the code under test."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from holdfast.formats.mirror.state import MirrorState
from holdfast.machine import files
from holdfast.sessions.start import ANNOUNCED
from holdfast.store.checks import flaws
from holdfast.store.sqlite import SqliteStore
from tests.faults.harness.warm_sandbox import read_tree

# What a home may contain. Anything else must be reported by `doctor` as left behind by a killed process.
KNOWN = {
    "store.db", "store.db-wal", "store.db-shm", "store.db.erasing", "writer.json", "config.toml", "errors.log",
    "aside", "mirrors", "spool", "hooks", "connections", "glances", "opened", "backfilled",
    "device.json", "device.lock", "remotes.json", "remotes", "people.json", "sync.lock", "sync.wanted", "sync.last",
}  # fmt: skip


# The agents' directories and files in a user's home that are used here.
AGENTS = (".claude", ".codex", ".gemini", ".config")
SINGLE_FILES = (".claude.json",)


_FROM_GIT = ("commit.recorded", "file.changed")
NOT_COMPARED = "extra.kept"  # that the work tree could not be compared


class View(NamedTuple):
    """What a user would see: the log, the current session, the settings."""

    log: dict[str, tuple[tuple[str, str], ...]]  # session -> (type, hash) of each event, in log order
    erased: dict[str, bool]  # session -> whether its data is erased
    current: str | None
    projects: int  # that are known at this path
    config: bytes | None
    backup: int | None  # events in the copy at fresh.db
    mirrored: tuple[str, ...]  # formats that are mirrored
    acknowledged: bool  # whether the contract is
    agents: tuple[tuple[str, bytes | None], ...]  # their own files, outside the home

    @property
    def kinds(self) -> list[tuple[tuple[str, ...], bool]]:
        """The recorded event types, without the position in git, which is missing where git cannot be read. Events
        that were read from git come last, in any order.
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

    def is_without_git(self, complete: View) -> bool:
        """Whether it is the same except for events from git, and reports that git could not be read."""

        def left(view: View) -> list[tuple[list[str], bool]]:
            return [([kind for kind in kinds if kind not in _FROM_GIT], erased) for kinds, erased in view.kinds]

        less, more = left(self), left(complete)
        if len(less) != len(more) or self.shape[1:] != complete.shape[1:]:
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


def read_view(home: str, project: str, place: str) -> View:
    """Open the home as the next command would; anything wrong raises AssertionError or another exception.

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
    """The agents' settings, without temporary files of a killed writer, which are removed later."""
    contents = [
        (os.path.join(own, name), content)
        for own in AGENTS
        for name, content in (read_tree(os.path.join(root, own)) | {"": None}).items()
        if os.path.isdir(os.path.join(root, own))
        if not os.path.basename(name).startswith(files.PREFIX)
    ]
    contents += [
        (own, _bytes(os.path.join(root, own))) for own in SINGLE_FILES if os.path.isfile(os.path.join(root, own))
    ]
    return tuple(sorted(contents, key=lambda entry: entry[0]))


def _mirrored(home: str) -> tuple[str, ...]:
    return tuple(sorted(name for formats in MirrorState(home).switch().on.values() for name in formats))


def _read(path: str, place: str) -> tuple[dict[str, tuple[tuple[str, str], ...]], dict[str, bool], str | None, int]:
    store = SqliteStore(path, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        damage = list(store.check())
        assert not damage, f"the check found {damage}"
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
    """A backup under its final name is complete."""
    log, *_ = _read(path, "")
    return sum(len(events) for events in log.values())


def leftovers(home: str) -> list[str]:
    """Files that neither belong there nor are reported by `doctor` as left behind."""
    if not os.path.isdir(home):
        return []
    named = {os.path.basename(path) for path in files.temporaries(home)}
    announced = {name for name in os.listdir(home) if name.startswith(ANNOUNCED)}
    # Where `connect` tried its script: the next one removes it.
    trials = {name for name in os.listdir(home) if name.startswith(f"{files.PREFIX}trial-")}
    return sorted(set(os.listdir(home)) - KNOWN - named - announced - trials)


def keeps_events(before: View, after: View) -> bool:
    """Whether every event of `before` is there, at its position."""
    return all(after.log.get(session, ())[: len(events)] == events for session, events in before.log.items())


def remove(folder: str) -> None:
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def copy_of(source: str, target: str) -> None:
    """A copy of the sandbox as the fault left it, so that checking does not change it."""
    remove(target)
    shutil.copytree(source, target, symlinks=True)


def _bytes(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return file.read()
