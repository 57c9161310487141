"""The keeper: opened for a project, it starts, finds and lists sessions. It never prints and never reads the
environment; the surface tells it home, store, actor and clock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.core import fold, view
from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.core.event import Event
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row, Sync
from holdfast.core.reminders import Rule, message_ends_pause
from holdfast.core.state import State
from holdfast.core.text import clean
from holdfast.core.vocabulary import (
    Project,
    SessionArchived,
    SessionStarted,
    SessionUnarchived,
)
from holdfast.keeper import finding, open_sessions, whereabouts
from holdfast.keeper.home import Home, default_home
from holdfast.keeper.recording import Recorder
from holdfast.keeper.session import KeptSession
from holdfast.keeper.turn import Turn
from holdfast.keeper.upkeep import Upkeep
from holdfast.machine import host, worktree
from holdfast.machine.wall import Wall, local_text
from holdfast.store.address import Address, SqliteAddress, address, open_store
from holdfast.store.interface import Filter, Store, Transaction

if TYPE_CHECKING:
    from holdfast.capture.places import Places
    from holdfast.formats.interface import Travel
    from holdfast.keeper.doctor_checks import Check
    from holdfast.keeper.mirrors.mirroring import Mirrors
    from holdfast.keeper.settings import Settings
    from holdfast.keeper.statistics import Table
    from holdfast.keeper.teleports.syncing import Synced
    from holdfast.keeper.why import Found
    from holdfast.store.interface import Copied, LeftOut

_NOT_YET = Project(id="", name="")  # found once the session really starts
_LOOKED_AT = 20  # sessions that are asked whether they are over, for the latest that is not


class Keeper:
    """Acts on the sessions of one project and its work tree."""

    def __init__(
        self,
        home: Home,
        place: worktree.Place,
        store: Address,
        *,
        actor: str,
        device: str | None,
        wall: Wall,
        settings: Settings | None,
    ) -> None:
        self.home = home
        self.place = place
        self.address = store
        self.wall = wall
        self._device = device
        self._settings = settings
        # What holds for each project; by "", the home's settings alone.
        self._settings_by_project: dict[str, Settings] = {}
        self._opened: Store | None = None
        self._together: Transaction | None = None
        self.upkeep = Upkeep(self)
        # Seconds that others may hold us up when we only come to take in what hooks left: it can wait.
        self.patience = 0.5
        # Seconds that a server may take to say something; None for who waits as long as makes sense.
        self.hurry: float | None = None
        # A command looks at mirrored files once; a program that runs for long, before everything it does.
        self.looks_once = False
        # Told by the surface, for the doctor: where agents keep their things.
        self.places: Places | None = None
        # Told by the surface, for remotes: the library reads no environment.
        self.environ: Mapping[str, str] = {}
        # Told by the surface: whether to look for the conversation that this process runs in.
        self.runs_commands = False
        self._conversation: tuple[str | None] | None = None
        # For the surface to tell: sentences about mirrored files that were set aside or could not be written.
        self.told: list[str] = []
        self.recorder = Recorder(
            self.transaction, actor=actor, device=self.device, wall=wall,
            whereabouts=lambda state, here: whereabouts.news(self, state, here=here),
            allowed=self.upkeep.refuse_reading, limit_rule=self.limit_rule,
        )  # fmt: skip

    @classmethod
    def open(
        cls,
        project: str = ".",
        *,
        home: str | None = None,
        store: str | None = None,
        actor: str | None = None,
        device: str | None = None,
        wall: Wall | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Open the keeper of the project that contains a directory.

        `home` is where Holdfast keeps everything (default: the platform's data directory), `store` a URL such as
        `sqlite:///path` or `postgresql://user@host/database` (default: in the home), `actor` who acts, `device` what
        this machine is called.
        """
        kept = Home(home if home is not None else default_home())
        place = worktree.locate(project)
        where = SqliteAddress(kept.store) if store is None else address(store)
        paths = {"the home": kept.path, "the project": place.root, "its repository": place.main}
        for what, path in (paths if where.path is None else paths | {"the store": where.path}).items():
            clean(path, f"the path of {what}")  # it is stored, or given to SQLite: both want UTF-8
        return cls(
            kept, place, where, actor=actor or host.user_name(), device=device, wall=wall or Wall(), settings=settings
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # ── what the keeper stands on ────────────────────────────────────────────────────────────────────────

    def store(self) -> Store:
        """The store, made on first use."""
        if self._opened is None:
            if not self.address.is_there():
                self.home.prepare()
            self._opened = open_store(
                self.address, writer=lambda: self.home.writer(self.address), wall=self.wall.micros,
                here=lambda make: self.home.installation(make=make), renew=lambda: self.home.renew(self.address),
                patience=self.hurry,
            )  # fmt: skip
            latest = self._opened.latest_time()
            if latest is not None:
                self.wall.known(latest)
        return self._opened

    def existing_store(self) -> Store | None:
        """The store if there is one: looking makes nothing."""
        if self._opened is None and not self.address.is_there():
            return None
        return self.store()

    def transaction(
        self, *, patience: float | None = None, about: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """The right to write, after taking in what others left for us; mirrored files follow the change."""
        if self._together is not None:
            return nullcontext(self._together)
        return Turn(self, patience=patience, about=about)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is recorded in this block is recorded as one: all of it or, if something is refused, nothing."""
        with self.transaction() as transaction:
            outer, self._together = self._together, transaction
            try:
                yield
            finally:
                self._together = outer

    def beside(self, root: str) -> Keeper:
        """The keeper of another work tree on the same store, for as long as this one is open."""
        other = Keeper(
            self.home, worktree.locate(root), self.address, actor=self.recorder.actor, device=self._device,
            wall=self.wall, settings=None,
        )  # fmt: skip
        other._opened = self.store()
        other.upkeep.draining, other.upkeep.recorded = self.upkeep.draining, self.upkeep.recorded
        other.looks_once = self.looks_once
        other.environ = self.environ
        return other

    def make_current(self, transaction: Transaction, session: str) -> None:
        """Point this work tree at a session; mirrors will show it, whatever comes after it."""
        self.upkeep.about_to_be_current(session)
        transaction.set_current(self.place.root, session)
        open_sessions.note(self, transaction, session)

    @property
    def mirrors(self) -> Mirrors:
        return self.upkeep.mirrors

    def absorb(self) -> None:
        """Take in what others left for us: payloads of hooks, and changes in mirrored files."""
        self.upkeep.absorb()

    def compare(self) -> None:
        """Record what was changed in this work tree, if an agent's turn began or ended since that was last done.

        Where it is known where agents keep their things, their transcripts are read too.
        """
        from holdfast.keeper.captures.comparison import compare_due

        self.absorb()
        compare_due(self, only_here=True)
        if self.places is not None:
            from holdfast.keeper.captures.conversations import update_due

            update_due(self, self.places)

    def why(self, what: str) -> Found:
        """Which sessions and conversations made a commit, a file or a line (`FILE:LINE`), and how sure that is."""
        from holdfast.keeper.why import why

        self.compare()
        return why(self, what)

    def sync(self, remote: str | None = None) -> Synced:
        """Exchange what is missing with every remote, or with this one; says what came of it, and what failed."""
        from holdfast.keeper.teleports.syncing import sync

        return sync(self, remote)

    def sync_of(self, state: State) -> Sync:
        """Where a session stands with its remotes."""
        if not os.path.lexists(self.home.remotes):
            return Sync()
        from holdfast.keeper.teleports import travelling

        return travelling.sync_of(self, state)

    def travel_of(self, state: State) -> Travel | None:
        """The same in the words of formats; None when it goes nowhere."""
        if not os.path.lexists(self.home.remotes):
            return None
        from holdfast.keeper.teleports import travelling

        return travelling.travel_of(self, state)

    def path_of(self, state: State) -> str | None:
        """Where the project of a session is on this device; None where it is not, or nobody knows."""
        from holdfast.keeper import elsewhere

        return elsewhere.path_here(self, state)

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from holdfast.keeper.settings import load

            self._settings = load(self.home.config, self.place.root)
        return self._settings

    def settings_for(self, project: Project | None) -> Settings:
        """What holds for sessions of a project: its own settings where it is on this machine, else the home's."""
        store = self.existing_store()
        if project is None or store is None:
            return self.settings
        if project.id not in self._settings_by_project:
            from holdfast.keeper import projects
            from holdfast.keeper.settings import load

            if project.id in projects.seen_at(store, self.place):
                found = self.settings
            else:
                there = (path for path in projects.directories(store, project) if os.path.isdir(path))
                found = load(self.home.config, next(there, None))
            self._settings_by_project[project.id] = found
        return self._settings_by_project[project.id]

    @property
    def home_settings(self) -> Settings:
        """What holds where projects are listed together, wherever one looks from."""
        from holdfast.keeper.settings import load

        if "" not in self._settings_by_project:
            self._settings_by_project[""] = load(self.home.config, None)
        return self._settings_by_project[""]

    def settings_problems(self) -> tuple[HoldfastError, ...]:
        """What is wrong with the files of settings, as far as anything asked for settings."""
        asked = [*([] if self._settings is None else [self._settings]), *self._settings_by_project.values()]
        found = {str(problem): problem for settings in asked for problem in settings.problems}
        return tuple(found.values())

    def device(self) -> str:
        return self._device or str(self.settings["device.name"]) or host.device_name()

    def now(self) -> int:
        return self.wall.now()

    # ── finding sessions ─────────────────────────────────────────────────────────────────────────────────

    def current(self, *, at: int | None = None) -> KeptSession | None:
        """The session this work tree is at, while it is unfinished; at a moment, the one that was worked on then.

        For a command that runs in a conversation, it is that conversation's session.
        """
        self.absorb()
        if at is not None:
            latest = max(
                self.history(limit=None, at=at, unfinished=True),
                key=lambda row: (row.updated_at, row.id),
                default=None,
            )
            return None if latest is None else KeptSession(self, latest.id)
        store = self.existing_store()
        state = self._own_session()
        if state is None:
            found = store.current(self.place.root) if store else None
            state = store.state(found) if store and found else None
        if state is None or state.deleted or view.status_of(state) in FINISHED:
            return None
        return KeptSession(self, state.session)

    def open_sessions(self) -> list[KeptSession]:
        """The unfinished sessions of this work tree that nobody put away and that are not over, latest first."""
        return [KeptSession(self, state.session) for state in open_sessions.open_sessions(self)]

    @property
    def conversation(self) -> str | None:
        """The conversation that this command runs in, as `agent:id`; None in a terminal."""
        if not self.runs_commands:
            return None
        if self._conversation is None:
            from holdfast.keeper.captures.inside import conversation

            self._conversation = (None,)  # for whoever asks while it is looked for
            self._conversation = (conversation(self),)
        return self._conversation[0]

    def _own_session(self) -> State | None:
        """The session of the conversation that this command runs in."""
        name = self.conversation
        if name is None:
            return None
        from holdfast.keeper.captures.links import session_of

        return session_of(self, name)

    def session(self, reference: str = "@", *, at: int | None = None) -> KeptSession:
        """The session that a UUID, a unique prefix, an alias or `@` (the current one, now or then) means."""
        self.absorb()
        if reference == "@":
            found = self.current(at=at)
            if found is None:
                raise NotFound("there is no current session here", hint="Start one: holdfast start GOAL")
            return found
        return KeptSession(self, finding.meant(self.existing_store(), reference))

    def latest(self, *, at: int | None = None) -> KeptSession | None:
        """The session of this project that was worked on last, finished or not; now, or as it was then."""
        rows = self.history(limit=None, at=at, aliases=False)
        if at is None:
            return finding.latest(self, rows)
        return KeptSession(self, max((row.updated_at, row.id) for row in rows)[1]) if rows else None

    def latest_unfinished(self) -> KeptSession | None:
        """The unfinished session of this project that was worked on last: one that is not over before those that
        are.
        """
        unfinished = self.history(limit=None, unfinished=True, aliases=False)
        shown = [row for row in unfinished if not row.archived]
        latest = sorted(shown, key=lambda row: row.updated_at, reverse=True)[:_LOOKED_AT]
        finding.mark_over(self, latest)
        return finding.latest(self, [row for row in latest if not row.over] or shown or unfinished)

    def history(
        self,
        *,
        limit: int | None = 20,
        search: str | None = None,
        status: str | None = None,
        since: int | None = None,
        all_projects: bool = False,
        at: int | None = None,
        before: str | None = None,
        unfinished: bool = False,
        project: str | None = None,
        archived: bool | None = None,
        aliases: bool = True,
    ) -> list[Row]:
        """Sessions newest first, of this project unless all are asked for; now, or as they were at a moment.

        `before` is the id of the last row shown, to go on after it; `project` a project's name. Without `aliases` no
        session is looked at.
        """
        if limit is not None and limit < 1:
            raise Invalid("the limit must be at least 1")
        self.absorb()
        wanted = Filter(
            search=search, status=status, since=since, limit=limit, unfinished=unfinished, name=project,
            archived=archived, before=finding.place_of(self.existing_store(), before),
        )  # fmt: skip
        found = finding.rows(self, wanted, all_projects=all_projects, at=at)
        return finding.described(self, found, wanted) if aliases and at is None else found

    def project_names(self) -> list[str]:
        """The names of the projects that there are sessions of."""
        store = self.existing_store()
        return [] if store is None else list(dict.fromkeys(project.name for project in store.projects()))

    def hours(self, by: str, *, at: int | None = None) -> Table:
        """Hours worked, by `scope`, `day`, `project` or `agent`: of this project, or by project of all."""
        from holdfast.keeper import overlaps, statistics
        from holdfast.machine.wall import local_offset

        store = self.existing_store()
        everything = [] if store is None else self.history(limit=None, all_projects=True, at=at, aliases=False)
        rows = everything if by == "project" else self.history(limit=None, at=at, aliases=False)
        shown = {row.id for row in rows}
        states = [self.state(row.id, at=at) for row in rows]
        others = (
            self.state(row.id, at=at)
            for row in everything
            if row.id not in shown
            and any(row.created_at <= one.updated_at and one.created_at <= row.updated_at for one in rows)
        )
        now = self.now() if at is None else at
        if store is None:
            return statistics.table(states, by, now=now, offset=local_offset)
        return statistics.table(
            states, by, now=now, offset=local_offset, others=others, messages=overlaps.messages_in(self),
            person=lambda session: overlaps.person_of(store, session),
        )  # fmt: skip

    def state(self, session: str, *, at: int | None = None) -> State:
        """What is true of a session now, or what was true as of a moment."""
        self.absorb()
        store = self.existing_store()
        state = store.state(session) if store else None
        if store is None or state is None or state.deleted:
            raise NotFound("there is no such session", session=session)
        if at is None:
            return state
        past = fold.fold((event for event in store.events(session) if event.at <= at), session)
        if past.created_at is None:
            raise NotFound(f"the session had not begun at {local_text(at)}", session=session)
        return past

    def events(self, session: str) -> list[Event]:
        store = self.existing_store()
        return list(store.events(session)) if store else []

    # ── starting, and putting away ───────────────────────────────────────────────────────────────────────

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
        at: int | None = None,
    ) -> KeptSession:
        """Begin a session and make it current here. Refused while another one is current, unless `replace`.

        Conversations that begin here join it, unless an agent begins it for itself: then it `gathers` nothing.
        """
        from holdfast.keeper.captures.tree_memory import note_beginning
        from holdfast.keeper.starting import start

        earlier = None if continues is None else self.session(continues).id
        gathers = gathers and self.conversation is None
        wanted = SessionStarted(
            goal=goal, project=_NOT_YET, device=self.device(), mode=mode, model=model, scope=scope, task=task,
            feature=feature, tags=tuple(dict.fromkeys(tags)), continues=earlier, timer=self.settings.timer,
            gathers=gathers,
        )  # fmt: skip
        begun = KeptSession(self, start(self, wanted, branch=branch, replace=replace, at=at))
        note_beginning(self, at)
        return begun

    def archive(self, reference: str, *, at: int | None = None) -> KeptSession:
        found = self.session(reference)
        if self.state(found.id).archived:
            raise Conflict("the session is archived already", session=found.id)
        self.recorder.record(found.id, lambda _: [SessionArchived()], at=at)
        return found

    def unarchive(self, reference: str, *, at: int | None = None) -> KeptSession:
        found = self.session(reference)
        if not self.is_archived(self.state(found.id)):
            raise Conflict("the session is not archived", session=found.id)
        self.recorder.record(found.id, lambda _: [SessionUnarchived()], at=at)
        return found

    def delete(self, reference: str, *, force: bool = False, at: int | None = None) -> str:
        """Erase a session: nothing of its text is left in any file of the home. Gives its id.

        An unfinished session is refused unless `force`.
        """
        from holdfast.keeper.deleting import delete

        return delete(self, self.session(reference).id, force=force, at=at)

    def doctor(self, *, repair: bool = False) -> tuple[list[Check], list[str]]:
        """Check everything, after repairing it if asked to; says what is so, and what was done."""
        from holdfast.keeper import doctor

        done = doctor.repair(self) if repair else []
        return doctor.examine(self), done

    def backup(self, path: str) -> tuple[LeftOut, ...]:
        """Write everything into a file; says which sessions of others are not in it, because they are damaged."""
        self.absorb()
        store = self.existing_store()
        if store is None:
            raise NotFound("there is nothing to back up yet")
        return store.backup(path)

    def restore(self, path: str, *, erase: bool = False) -> Copied:
        """Unite with a backup; says how many events were new, and which sessions were left as they are.

        What the backup deletes or erases of what is here is left, unless `erase`.
        """
        from holdfast.keeper.restore import restore

        return restore(self, path, erase=erase)

    def limit_rule(self) -> Rule:
        """What crossing a limit of working time does here, by the settings and the timer's mirror."""
        chosen, settings = None, self.settings
        if not settings.is_set("timer.timeout_action"):
            chosen = "pause" if self.upkeep.mirrors_timer() else "remind"
        only_resume = bool(settings["capture.block_at_timeout"]) or not settings["timer.message_resumes"]
        return Rule((chosen or settings["timer.timeout_action"]) == "pause", settings.limits_off, only_resume)

    def message_ends_pause(self, state: State) -> bool:
        """Whether the person's next message ends the pause that lasts, or only `resume` does."""
        return message_ends_pause(
            state, message_resumes=bool(self.settings["timer.message_resumes"]),
            limit_holds=bool(self.settings["capture.block_at_timeout"]),
        )  # fmt: skip

    def is_over(self, state: State, *, at: int | None = None) -> bool:
        """Whether a session that began by itself was left: it blocks nothing, and a prompt takes it up again."""
        if state.disconnected_at is None:  # seen without reading any settings
            return False
        now = self.now() if at is None else at
        # Other projects' settings are read only where it depends on them.
        return view.is_over(state, now, 0) and view.is_over(
            state, now, self.settings_for(state.project).number("capture.join_hours")
        )

    def is_archived(self, state: State, *, at: int | None = None, after: int | None = None) -> bool:
        """By somebody's word if there is one, else by age: `after` so long, or as the session's project says."""
        end = view.ended_at(state)
        if state.archived is None and end is not None and after is None:
            after = self.settings_for(state.project).archive_after
        aged = end is not None and after is not None and (self.now() if at is None else at) - end > after
        return aged if state.archived is None else state.archived
