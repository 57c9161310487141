"""The evidence that finds a project again: where it is, where it is pushed to, how its history began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.core.envelope import Event
from holdfast.core.events import ProjectFacts
from holdfast.core.state import State
from holdfast.store.interface import Draft, KnownProject
from holdfast.store.journal import Journal
from holdfast.store.table_interface import Tables


def known(project: ProjectFacts) -> KnownProject:
    """A project and the pieces of evidence that it brings. A part of a repository is not found by the whole."""
    pieces = [("path", project.path), ("remote", project.remote), *(("root", root) for root in project.roots)]
    return KnownProject(
        project.id,
        project.name,
        tuple(
            (kind, f"{value}\n{project.inside}" if kind != "path" and project.inside else value)
            for kind, value in pieces
            if value
        ),
    )


class Keeping(Tables, Protocol):
    """Tables that also keep what stands beside the log."""

    def remember(self, name: str, value: bytes | None) -> None: ...


class Writing:
    """A kind of store adds how it begins and ends, and what it keeps in its own way."""

    def __init__(self, journal: Journal, tables: Keeping) -> None:
        self._journal = journal
        self._kept = tables

    def writer(self) -> str:
        return self._journal.writer()

    def state(self, session: str) -> State:
        return self._journal.state(session)

    def record(self, session: str, draft: Draft) -> Event | None:
        return self._journal.record(session, draft)

    def knows(self, session: str, key: str) -> bool:
        return self._journal.free_key(session, key) is None

    def expect(self, session: str, keys: Iterable[str]) -> None:
        self._kept.expect(session, keys)

    def withdraw(self, session: str, after: Mapping[str, int]) -> list[Event]:
        return self._journal.withdraw(session, after)

    def changed(self) -> frozenset[str]:
        return self._journal.changed()

    def remembered(self, name: str) -> bytes | None:
        return self._kept.remembered(name)

    def remember(self, name: str, value: bytes | None) -> None:
        self._kept.remember(name, value)

    def remember_project(self, project: ProjectFacts) -> None:
        self.remember_evidence(known(project))

    def remember_evidence(self, known: KnownProject) -> None:
        raise NotImplementedError
