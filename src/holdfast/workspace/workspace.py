"""One open home, project and store: the first argument of every use case.

Followers act around every unit of work: before, they collect what hooks and other programs left; after, they update
mirrored files, the status cache and other devices. A follower that fails never undoes what was recorded: the others
continue, and a notice says so; unexpected errors are also in the error log. Only a server that cannot be reached ends
the verb.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from holdfast.core import fold, view
from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, NotFound, Unreachable
from holdfast.core.model import Sync, SyncFacts
from holdfast.core.reminders import LimitRule
from holdfast.core.state import State
from holdfast.core.text import check_text
from holdfast.machine import error_log, host
from holdfast.machine.git import worktree
from holdfast.machine.wall import Wall, as_ms, local_text
from holdfast.store.address import Address, SqliteAddress, address, open_store
from holdfast.store.interface import Store, Transaction
from holdfast.workspace.followers import Follower, WorkCommit
from holdfast.workspace.home import Home, default_home
from holdfast.workspace.projects import changed_git_position
from holdfast.workspace.recorder import Notice, Recorder
from holdfast.workspace.unit import Unit, UnitOutcome

if TYPE_CHECKING:
    from holdfast.core.events import ProjectFacts
    from holdfast.core.times import Moment
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.settings import Settings


class _Shared:
    """What a workspace and its quiet copies have in common."""

    def __init__(self, settings: Settings | None) -> None:
        self.settings = settings
        # What holds for each project; by "", the home's settings alone.
        self.settings_by_project: dict[str, Settings] = {}
        self.conversation: tuple[str | None] | None = None
        # Of a server: whether a session can only be read.
        self.read_only: dict[str, bool] = {}


class _Open:
    """What all workspaces on one connection have in common."""

    def __init__(self, store: Store | None = None, outcome: UnitOutcome | None = None) -> None:
        self.store = store
        # By work tree, the sessions in which something was recorded since followers last ran.
        self.pending: dict[str, set[str]] = {}
        self.outcome = UnitOutcome() if outcome is None else outcome
        # A turn of an agent began or ended: a process that has the time compares the work tree.
        self.turn_changed = False
        # Sessions that are over, with their last event: they stay over until an event follows.
        self.over: dict[str, str] = {}


class Workspace:
    """The sessions of one project and its work tree, ready to be read and recorded in."""

    def __init__(
        self,
        home: Home,
        place: worktree.WorkTree,
        store: Address,
        *,
        actor: str,
        device: str | None,
        wall: Wall,
        settings: Settings | None,
        opened: _Open | None = None,
    ) -> None:
        self.home = home
        self.place = place
        self.address = store
        self.wall = wall
        self._device = device
        self._shared = _Shared(settings)
        self._open = _Open() if opened is None else opened
        self.is_quiet = False
        # The open unit of work.
        self.unit: Unit | None = None
        # Marks the payloads in the spool that are meant for this store.
        self.spool_tag = home.spool_tag(store.key)
        # Seconds to wait for other processes when draining the spool, which can be done later.
        self.patience = 0.5
        # These four are arguments of `open`. Seconds to wait for a server's answer; None for its default.
        self.timeout: float | None = None
        # A command reads mirrored files once; a program that runs for long, before each verb.
        self.collect_mode: Literal["once", "each"] = "each"
        # The directories of agent programs.
        self.agent_dirs: AgentDirs | None = None
        # The environment, which the library does not read itself.
        self.environ: Mapping[str, str] = {}
        # Set by the surface: whether to look for the conversation that this process runs in.
        self.runs_commands = False
        # What the surface shows besides a result.
        self.notices: list[str] = []
        self.recorder = Recorder(
            self.transaction, actor=actor, device=self.device, wall=wall,
            git_position=lambda state, is_current: changed_git_position(self, state, is_current=is_current),
            allowed=self.refuse_if_read_only, limit_rule=self.limit_rule,
        )  # fmt: skip
        self.followers: Sequence[Follower] = self._new_followers()

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
        environ: Mapping[str, str] | None = None,
        agent_dirs: AgentDirs | None = None,
        collect_mode: Literal["once", "each"] = "each",
        timeout: float | None = None,
    ) -> Self:
        """Open the project that contains a directory.

        `home` is where Holdfast keeps everything (default: the platform's data directory), `store` a URL such as
        `sqlite:///path` or `postgresql://user@host/database` (default: in the home), `actor` who acts, `device` what
        this machine is called.

        `environ` is the environment, for remotes that take their credentials from it; `agent_dirs` says where agent
        programs keep their files. Mirrored files are read before each verb or, with `collect_mode="once"`, only once.
        `timeout` is how many seconds to wait for a server's answer.
        """
        home_directory = Home(home if home is not None else default_home())
        place = worktree.locate(project)
        store_address = SqliteAddress(home_directory.store) if store is None else address(store)
        paths = {"the home": home_directory.path, "the project": place.root, "its repository": place.main}
        for subject, path in (
            paths if store_address.path is None else paths | {"the store": store_address.path}
        ).items():
            check_text(path, f"the path of {subject}")  # it is stored, or passed to SQLite: both need UTF-8
        opened = cls(
            home_directory,
            place,
            store_address,
            actor=actor or host.user_name(),
            device=device,
            wall=wall or Wall(),
            settings=settings,
        )
        opened.environ, opened.collect_mode, opened.timeout = environ or {}, collect_mode, timeout
        opened.agent_dirs = None if agent_dirs is None else agent_dirs._replace(project=place.root)
        return opened

    def _new_followers(self) -> Sequence[Follower]:
        """The followers of this work tree, in their order."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._open.store is not None:
            self._open.store.close()
            self._open.store = None

    # ── other workspaces ─────────────────────────────────────────────────────────────────────────────────

    def quiet(self) -> Self:
        """The same workspace for a follower: it collects nothing, and the unit passes on what it records."""
        if self.is_quiet:
            return self
        other = object.__new__(type(self))  # the module `copy` takes a millisecond to load
        vars(other).update(vars(self))
        other.is_quiet, other.unit = True, None
        other.recorder = self.recorder.with_transaction(
            other.transaction,
            git_position=lambda state, is_current: changed_git_position(other, state, is_current=is_current),
        )
        return other

    def at(self, root: str) -> Self:
        """Another work tree on the same store, for as long as this one is open. Of a quiet workspace, a quiet one."""
        opened = self._open if self.is_quiet else _Open(self.store(), self.outcome)
        other = type(self)(
            self.home, worktree.locate(root), self.address, actor=self.recorder.actor, device=self._device,
            wall=self.wall, settings=None, opened=opened,
        )  # fmt: skip
        other.collect_mode, other.environ = self.collect_mode, self.environ
        if self.is_quiet:
            other.recorder.tally = self.recorder.tally
            return other.quiet()
        return other

    def apart(self, project: str) -> Self:
        """A workspace on the same home and store with a separate connection, for another thread."""
        return type(self).open(
            project, home=self.home.path, store=self.address.secret, actor=self.recorder.actor, device=self.device(),
            wall=self.wall, environ=self.environ,
        )  # fmt: skip

    # ── the store ────────────────────────────────────────────────────────────────────────────────────────

    def store(self) -> Store:
        """The store, made on first use."""
        if self._open.store is None:
            if not self.address.is_there():
                self.home.prepare()
            opened = self._open.store = open_store(
                self.address, writer=lambda: self.home.writer(self.address), wall=self.wall.micros,
                installation=lambda make: self.home.installation(make=make),
                renew=lambda: self.home.renew(self.address), patience=self.timeout,
            )  # fmt: skip
            latest = opened.latest_time()
            if latest is not None:
                self.wall.note_time(latest)
        return self._open.store

    def known_state(self, session: str) -> State | None:
        """The state if it can be read at once, for `repr`: nothing is opened, no server asked, nothing raised."""
        store = self._open.store
        if store is None or self.address.path is None:
            return None
        with suppress(Exception):
            return store.state(session)
        return None

    def existing_store(self) -> Store | None:
        """The store if there is one: looking makes nothing."""
        if self._open.store is None and not self.address.is_there():
            return None
        return self.store()

    def transaction(
        self, *, patience: float | None = None, about: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """The right to write: a unit of work, or part of the one that is open."""
        if self.unit is not None and self.unit.transaction is not None:
            return nullcontext(self.unit.transaction)
        return Unit(self, patience=patience, about=about)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What is recorded in this block is recorded as one: all of it or, if something is refused, nothing."""
        with self.transaction():
            yield

    def state(self, session: str, *, at: Moment | None = None) -> State:
        """What is true of a session now, or what was true as of a moment."""
        self.collect()
        store = self.existing_store()
        state = store.state(session) if store else None
        if store is None or state is None or state.deleted:
            raise NotFound("there is no such session", session=session)
        if (at := as_ms(at)) is None:
            return state
        past = fold.fold((event for event in store.events(session) if event.at <= at), session)
        if past.created_at is None:
            raise NotFound(f"the session had not begun at {local_text(at)}", session=session)
        return past

    def events(self, session: str) -> list[Event]:
        store = self.existing_store()
        return list(store.events(session)) if store else []

    # ── followers ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcome(self) -> UnitOutcome:
        return self._open.outcome

    @property
    def over(self) -> dict[str, str]:
        return self._open.over

    @property
    def turn_changed(self) -> bool:
        return self._open.turn_changed

    @turn_changed.setter
    def turn_changed(self, changed: bool) -> None:
        self._open.turn_changed = changed

    def collect(self, *, follow: bool = True) -> None:
        """Record what others left for us: payloads of hooks, and changes in mirrored files."""
        if self.unit is not None or self.is_quiet:
            return
        self._shared.read_only.clear()  # shares may have changed
        try:
            for follower in self.followers:
                self._guarded(follower, follower.collect, self.quiet())
        finally:
            if follow:
                self.follow()

    def recorded(self, sessions: Collection[str], *, needs_sync: bool = False) -> None:
        """Note that something was recorded in these sessions, or that the current session was changed."""
        self._open.pending.setdefault(self.place.root, set()).update(sessions)
        if needs_sync:
            self.recorder.tally.needs_sync = True

    def follow(self) -> None:
        """Pass what was recorded since the last call to followers, here and in other work trees."""
        if self.is_quiet or self.unit is not None:
            return
        pending, tally = self._open.pending, self.recorder.tally
        if not pending:
            return
        try:
            for follower in self.followers:
                commit = WorkCommit(frozenset(pending.get(self.place.root, ())), tally.needs_sync)
                self._guarded(follower, follower.committed, self.quiet(), commit)
            for root in [root for root in pending if root != self.place.root]:
                tree, commit = self.at(root), WorkCommit(frozenset(pending[root]), needs_sync=False)
                for follower in tree.followers:
                    self._guarded(follower, follower.committed, tree.quiet(), commit)
        finally:
            pending.clear()
            tally.needs_sync = False

    def _guarded(self, follower: Follower, act: Callable[..., None], *args: object) -> None:
        """Let a follower act. Only a server that is away stops a verb, which could not be carried out either."""
        try:
            act(*args)
        except Unreachable:
            raise
        except HoldfastError as error:
            self.note(Notice(f"{follower.failure}: {error.message}.", "failed"))
        except Exception as error:  # noqa: BLE001 (what was recorded stays so)
            error_log.note(self.home.path, follower.name, f"{type(error).__name__}: {error}")
            self.note(Notice(f"{follower.failure}: {type(error).__name__}. See: holdfast doctor", "failed"))

    def note(self, sentence: str) -> None:
        """Add a notice: a sentence for the person in addition to the result."""
        if sentence not in self.notices:
            self.notices.append(sentence)

    def take_notices(self) -> list[Notice]:
        """The notices, removed secrets and the last crossed limit, for a surface that shows them; each once."""
        notices = [notice if isinstance(notice, Notice) else Notice(notice) for notice in self.notices]
        notices += self.recorder.tally.take_notices()
        if self.notices:
            for follower in self.followers:
                follower.notices_shown(self)
        self.notices.clear()
        return notices

    def drop_notices(self) -> None:
        """Forget the notices, where workspaces are shared: they do not concern the next request."""
        self.notices.clear()
        self.recorder.tally.take_notices()

    # ── answers of followers ────────────────────────────────────────────────────────────────────────────

    @property
    def conversation(self) -> str | None:
        """The conversation that this command runs in, as `agent:id`; None in a terminal."""
        if not self.runs_commands:
            return None
        if self._shared.conversation is None:
            self._shared.conversation = (None,)  # for calls during the search
            conversations = (follower.conversation(self) for follower in self.followers)
            self._shared.conversation = (next((name for name in conversations if name is not None), None),)
        return self._shared.conversation[0]

    def is_read_only(self, session: str) -> bool:
        """Whether this session is shared with us to read only."""
        if any(follower.write_refusal(self, session) is not None for follower in self.followers):
            return True
        # Checked for every payload, so cached until the next unit.
        cache, store = self._shared.read_only, self.existing_store()
        if session not in cache:
            cache[session] = store is not None and store.is_read_only(session)
        return cache[session]

    def refuse_if_read_only(self, session: str) -> None:
        """Raise if a session is shared with us to read only. A server refuses by itself."""
        for follower in self.followers:
            refused = follower.write_refusal(self, session)
            if refused is not None:
                raise refused

    def own_paths(self) -> list[str]:
        """Files in this work tree that Holdfast writes itself."""
        return [path for follower in self.followers for path in follower.own_paths(self)]

    def own_mark(self) -> str | None:
        """A mark that distinguishes our sessions from others' of the same id."""
        return next((mark for follower in self.followers if (mark := follower.own_mark(self)) is not None), None)

    def sync_of(self, state: State) -> Sync:
        """How far a session is sent to its remotes."""
        answers = (follower.sync_of(self, state) for follower in self.followers)
        return next((sync for sync in answers if sync is not None), None) or Sync()

    def sync_facts(self, state: State) -> SyncFacts | None:
        """The same for documents; None if it is not synced."""
        answers = (follower.sync_facts(self, state) for follower in self.followers)
        return next((facts for facts in answers if facts is not None), None)

    def synced(self) -> None:
        """Tell followers that a sync is over, and update mirrored files."""
        for follower in self.followers:
            follower.synced(self)
        self.follow()

    def remotes_changed(self) -> None:
        """Tell followers that a remote or a share was added or removed."""
        for follower in self.followers:
            follower.remotes_changed(self)
        self.follow()

    # ── settings and time ────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> Settings:
        if self._shared.settings is None:
            from holdfast.workspace.settings import load

            self._shared.settings = load(self.home.config, self.place.root)
        return self._shared.settings

    def settings_for(self, project: ProjectFacts | None) -> Settings:
        """The settings for sessions of a project: its own if it is on this machine, else the home's."""
        store, cache = self.existing_store(), self._shared.settings_by_project
        if project is None or store is None:
            return self.settings
        if project.id not in cache:
            from holdfast.workspace import projects
            from holdfast.workspace.settings import load

            if project.id in projects.stored_project_ids(store, self.place):
                settings = self.settings
            else:
                existing = (path for path in projects.directories(store, project) if os.path.isdir(path))
                settings = load(self.home.config, next(existing, None))
            cache[project.id] = settings
        return cache[project.id]

    @property
    def home_settings(self) -> Settings:
        """The settings for lists of all projects, the same in every project."""
        from holdfast.workspace.settings import load

        cache = self._shared.settings_by_project
        if "" not in cache:
            cache[""] = load(self.home.config, None)
        return cache[""]

    def settings_problems(self) -> tuple[HoldfastError, ...]:
        """The problems of the settings files that were read."""
        own, others = self._shared.settings, self._shared.settings_by_project.values()
        loaded = [*([] if own is None else [own]), *others]
        problems = {str(problem): problem for settings in loaded for problem in settings.problems}
        return tuple(problems.values())

    def device(self) -> str:
        return self._device or str(self.settings["device.name"]) or host.device_name()

    def now(self) -> int:
        return self.wall.now()

    def limit_rule(self) -> LimitRule:
        """What crossing a limit of working time does here, by the settings and the timer's mirror."""
        chosen, settings = None, self.settings
        if not settings.is_set("timer.timeout_action"):
            actions = (follower.limit_action(self) for follower in self.followers)
            chosen = next((action for action in actions if action is not None), "remind")
        only_resume = bool(settings["capture.block_at_timeout"]) or not settings["timer.message_resumes"]
        return LimitRule((chosen or settings["timer.timeout_action"]) == "pause", settings.limits_off, only_resume)

    def message_ends_pause(self, state: State) -> bool:
        """Whether the person's next message ends the current pause; otherwise only `resume` does."""
        return view.message_ends_pause(
            state, message_resumes=bool(self.settings["timer.message_resumes"]),
            limit_holds=bool(self.settings["capture.block_at_timeout"]),
        )  # fmt: skip

    def is_over(self, state: State, *, at: int | None = None) -> bool:
        """Whether a session that began by itself was left: it blocks nothing, and the next prompt continues it."""
        if state.disconnected_at is None:  # decided without reading settings
            return False
        now = self.now() if at is None else at
        # Other projects' settings are read only where it depends on them.
        return view.is_over(state, now, 0) and view.is_over(
            state, now, self.settings_for(state.project).number("capture.join_hours")
        )

    def is_archived(self, state: State, *, at: int | None = None, after: int | None = None) -> bool:
        """Whether a person archived it, else by its age: older than `after`, by default the project's setting."""
        end = view.ended_at(state)
        if state.archived is None and end is not None and after is None:
            after = self.settings_for(state.project).archive_after
        is_old = end is not None and after is not None and (self.now() if at is None else at) - end > after
        return is_old if state.archived is None else state.archived
