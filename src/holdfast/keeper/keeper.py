"""The keeper: opened for a project, it starts, finds and lists sessions. It never prints and never reads the
environment: surfaces pass in home, store, actor and clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.conversations.follower import Ingest, StatusCache
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.events import ProjectFacts, SessionArchived, SessionStarted, SessionUnarchived
from holdfast.core.model import Row
from holdfast.core.times import Moment
from holdfast.formats.mirror.follower import MirrorFollower, mirrors_of
from holdfast.keeper.session import SessionHandle
from holdfast.machine.wall import as_ms
from holdfast.sessions import history, work_trees
from holdfast.sync.follower import SyncFollower
from holdfast.workspace.followers import Follower
from holdfast.workspace.workspace import Workspace

if TYPE_CHECKING:
    from holdfast.formats.mirror.mirrors import Mirrors
    from holdfast.keeper.topics import AgentPrograms, Config, Documents, People, Remotes, Stores, VaultDevices
    from holdfast.sessions.hours.table import Table
    from holdfast.sessions.why import WhyAnswer
    from holdfast.store.interface import CopyResult, NotCopied
    from holdfast.sync.sync import SyncResult
    from holdfast.workspace.followers import Check
    from holdfast.workspace.projects import ProjectDirectories

_UNKNOWN_PROJECT = ProjectFacts(id="", name="")  # replaced when the session starts

_OF_WORKSPACE = ("batch", "close", "events", "notices", "open", "take_notices")


class Keeper(Workspace):
    """Acts on the sessions of one project and its work tree."""

    def __repr__(self) -> str:
        return f"<Keeper of {self.place.root!r}, store {self.address.url!r}>"

    def __dir__(self) -> list[str]:
        # The rest of what Workspace has is for use cases, not for programs.
        return [name for name in vars(Keeper) if not name.startswith("_")] + list(_OF_WORKSPACE)

    def _new_followers(self) -> tuple[Follower, ...]:
        return (Ingest(), MirrorFollower(self), StatusCache(self), SyncFollower())

    @property
    def mirrors(self) -> Mirrors:
        return mirrors_of(self)

    @property
    def documents(self) -> Documents:
        from holdfast.keeper.topics import Documents

        return Documents(self)

    @property
    def agents(self) -> AgentPrograms:
        from holdfast.keeper.topics import AgentPrograms

        return AgentPrograms(self)

    @property
    def devices(self) -> VaultDevices:
        from holdfast.keeper.topics import VaultDevices

        return VaultDevices(self)

    @property
    def remotes(self) -> Remotes:
        from holdfast.keeper.topics import Remotes

        return Remotes(self)

    @property
    def people(self) -> People:
        from holdfast.keeper.topics import People

        return People(self)

    @property
    def stores(self) -> Stores:
        from holdfast.keeper.topics import Stores

        return Stores(self)

    @property
    def config(self) -> Config:
        from holdfast.keeper.topics import Config

        return Config(self)

    def compare(self) -> None:
        """Record what was changed in this work tree, if an agent's turn began or ended since the last time.

        If the directories of agents are known, their transcripts are read too.
        """
        from holdfast.sessions.changes.compare import compare_due

        self.collect()
        compare_due(self, only_here=True)
        if self.agent_dirs is not None:
            from holdfast.conversations.details import update_due

            update_due(self, self.agent_dirs)

    def why(self, reference: str) -> WhyAnswer:
        """Which sessions and conversations made a commit, a file or a line (`FILE:LINE`), and how sure that is."""
        from holdfast.sessions.why import why

        self.compare()
        return why(self, reference)

    def sync(self, remote: str | None = None, *, put_back: bool = False) -> SyncResult:
        """Exchange what is missing with every remote, or the one given; returns what was done and what failed.

        `put_back` sends everything again, because the remote lost something.
        """
        from holdfast.sync.sync import sync

        return sync(self, remote, put_back=put_back)

    def sync_first(self) -> list[str]:
        """Sync before a session is continued, if there is a remote; returns sentences for the person."""
        if not os.path.lexists(self.home.remotes):
            return []  # without loading the code of sync
        from holdfast.sync.background import catch_up

        return catch_up(self)

    def send_soon(self) -> None:
        """Retry to send what could not be sent when it was recorded."""
        for follower in self.followers:
            if isinstance(follower, SyncFollower):
                follower.send_soon(self)

    # ── finding sessions ─────────────────────────────────────────────────────────────────────────────────

    def current(self, *, at: Moment | None = None) -> SessionHandle | None:
        """The current session of this work tree, if unfinished; `at` a moment, the one that was worked on then.

        For a command in a conversation, it is that conversation's session.
        """
        return self._handle(history.current_session(self, at=as_ms(at)))

    def open_sessions(self) -> list[SessionHandle]:
        """The unfinished sessions of this work tree that are neither archived nor over, latest first."""
        return [SessionHandle(self, state.session) for state in work_trees.open_sessions(self)]

    def session(self, reference: str = "@", *, at: Moment | None = None) -> SessionHandle:
        """The session that a UUID, a unique prefix, an alias or `@` (the current one, now or then) means."""
        return SessionHandle(self, history.find(self, reference, at=as_ms(at)))

    def latest(self, *, at: Moment | None = None) -> SessionHandle | None:
        """The session of this project that was worked on last, finished or not; now, or as it was then."""
        return self._handle(history.latest_session(self, at=as_ms(at)))

    def latest_unfinished(self) -> SessionHandle | None:
        """The unfinished session of this project that was worked on last, preferring sessions that are not over."""
        return self._handle(history.latest_unfinished(self))

    def _handle(self, session: str | None) -> SessionHandle | None:
        return None if session is None else SessionHandle(self, session)

    def history(
        self,
        *,
        limit: int | None = 20,
        search: str | None = None,
        status: str | None = None,
        since: Moment | None = None,
        all_projects: bool = False,
        at: Moment | None = None,
        before: str | None = None,
        unfinished: bool = False,
        project: str | None = None,
        archived: bool | None = None,
        aliases: bool = True,
    ) -> list[Row]:
        """Sessions, newest first, of this project or of all; now, or as they were at a moment.

        `before` is the id of the last row shown, to continue after it; `project` is a project's name. Without
        `aliases` no session is loaded.
        """
        return history.history(
            self, limit=limit, search=search, status=status, since=as_ms(since), all_projects=all_projects,
            at=as_ms(at), before=before, unfinished=unfinished, project=project, archived=archived, aliases=aliases,
        )  # fmt: skip

    def project_names(self) -> list[str]:
        """The names of the projects that have sessions."""
        store = self.existing_store()
        return [] if store is None else list(dict.fromkeys(project.name for project in store.projects()))

    def projects(self) -> list[ProjectDirectories]:
        """The projects that have sessions, and their directories on this device."""
        from holdfast.workspace import projects

        store = self.existing_store()
        return [] if store is None else projects.list_projects(store)

    def reconnect_project(self, old_path: str) -> list[ProjectDirectories]:
        """Connect the sessions of a project that was moved or renamed to this directory."""
        from holdfast.workspace import projects

        return projects.reconnect(self, old_path)

    def hours(self, by: str, *, at: Moment | None = None) -> Table:
        """Hours worked, by `scope`, `day`, `project` or `agent`: of this project, or by project of all."""
        from holdfast.machine.wall import local_offset
        from holdfast.sessions.hours import overlaps, table

        store, at = self.existing_store(), as_ms(at)
        everything = [] if store is None else self.history(limit=None, all_projects=True, at=at, aliases=False)
        rows = everything if by == "project" else self.history(limit=None, at=at, aliases=False)
        ids = {row.id for row in rows}
        states = history.states_of(self, rows, at=at)
        overlapping = (
            row
            for row in everything
            if row.id not in ids
            and any(row.created_at <= item.updated_at and item.created_at <= row.updated_at for item in rows)
        )
        others = history.states_of(self, overlapping, at=at)
        now = self.now() if at is None else at
        if store is None:
            return table.table(states, by, now=now, offset=local_offset)
        return table.table(
            states, by, now=now, offset=local_offset, others=others, messages=overlaps.messages_in(self),
            person=lambda session: overlaps.person_of(store, session),
        )  # fmt: skip

    # ── starting, archiving, deleting ────────────────────────────────────────────────────────────────────

    def start(
        self,
        goal: str,
        *,
        scope: str | None = None,
        task: str | None = None,
        mode: str = "default",
        feature: str | None = None,
        branch: bool = False,
        tags: Sequence[str] = (),
        model: str | None = None,
        replace: bool = False,
        continues: str | None = None,
        gathers: bool = True,
        at: Moment | None = None,
    ) -> SessionHandle:
        """Start a session and make it current here. Refused while another one is current, unless `replace`.

        Conversations that begin here join it, unless an agent starts it for itself: then it `gathers` nothing.
        """
        from holdfast.sessions.changes.tree_state import note_beginning
        from holdfast.sessions.start import start

        at = as_ms(at)
        earlier = None if continues is None else self.session(continues).id
        gathers = gathers and self.conversation is None
        data = SessionStarted(
            goal=goal, project=_UNKNOWN_PROJECT, device=self.device(), mode=mode, model=model, scope=scope, task=task,
            feature=feature, tags=tuple(dict.fromkeys(tags)), continues=earlier, timer=self.settings.timer,
            gathers=gathers,
        )  # fmt: skip
        begun = SessionHandle(self, start(self, data, branch=branch, replace=replace, at=at))
        if replace:
            from holdfast.formats.project_files import set_unreadable_aside

            self.notices += set_unreadable_aside(self)
        note_beginning(self, at)
        return begun

    def archive(self, reference: str, *, at: Moment | None = None) -> SessionHandle:
        handle = self.session(reference)
        if self.state(handle.id).archived:
            raise Conflict("the session is archived already", session=handle.id)
        self.recorder.record(handle.id, lambda _: [SessionArchived()], at=as_ms(at))
        return handle

    def unarchive(self, reference: str, *, at: Moment | None = None) -> SessionHandle:
        handle = self.session(reference)
        if not self.is_archived(self.state(handle.id)):
            raise Conflict("the session is not archived", session=handle.id)
        self.recorder.record(handle.id, lambda _: [SessionUnarchived()], at=as_ms(at))
        return handle

    def delete(self, reference: str, *, force: bool = False, at: Moment | None = None) -> str:
        """Erase a session, so that none of its text is left in any file of the home; returns its id.

        An unfinished session is refused unless `force`.
        """
        from holdfast.sessions.stop import delete

        return delete(self, self.session(reference).id, force=force, at=as_ms(at))

    def doctor(self, *, repair: bool = False) -> tuple[list[Check], list[str]]:
        """Check everything, after repairing it if asked to; returns the checks, and what was done."""
        from holdfast.keeper import doctor

        done = doctor.repair(self) if repair else []
        return doctor.run_checks(self), done

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        """Write everything to a file; returns which sessions of others are not in it, because they are damaged."""
        self.collect()
        store = self.existing_store()
        if store is None:
            raise NotFound("there is nothing to back up yet")
        return store.backup(path)

    def restore(self, path: str, *, erase: bool = False) -> CopyResult:
        """Add the events of a backup; returns how many were new, and which sessions were left as they are.

        The backup deletes or erases nothing that is here, unless `erase`.
        """
        from holdfast.keeper.restore import restore

        return restore(self, path, erase=erase)
