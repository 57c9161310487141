"""What a keeper does around everything it does: what others left is taken in before, and what shows sessions follows.

Payloads of hooks and edits of mirrored files come in first; mirrored files, status lines and other devices hear of a
change after it. All of it is asked with every event and nearly always for nothing, so it is decided by one look.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from holdfast.capture import glances, spool
from holdfast.core.errors import Refused
from holdfast.keeper.recorded import Recorded
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.mirrors.mirroring import Mirrors

_LOOK_EVERY: Final = 0.05  # seconds


class Upkeep:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._home = keeper.home.path
        # By which waiting payloads are known that are meant for this keeper's store.
        self.spool_tag = keeper.home.spool_tag(keeper.address.key)
        self._mirrors: Mirrors | None = None
        # What is asked while a transaction is open must not try to take in files: that would need this very right.
        self.writing = False
        # Payloads are being taken in: what is asked meanwhile must not begin that again.
        self.draining = False
        # Payloads were taken in by which a turn began or ended: a work tree is to be compared, and a transcript to be
        # read, by who has the time.
        self.compares = False
        # Whether what somebody asked for was recorded, for when the server goes away before it is answered.
        self.recorded = Recorded()
        self._next_look = 0.0
        # Whether a status line ever asked here, and when to look again.
        self._watched = False
        self._next_glance = 0.0
        # Sessions that are over, with their last event: they stay so until something happens in them.
        self.over: dict[str, str] = {}
        # The sessions that others shared with this device, by the list of remotes as it was seen last.
        self._shares: dict[str, str] = {}
        self._shares_of: tuple[int, int, int] | None = None
        # The same of a server: whether a session is shared with us to read.
        self._shown: dict[str, bool] = {}

    @property
    def mirrors(self) -> Mirrors:
        if self._mirrors is None:
            from holdfast.keeper.mirrors.mirroring import Mirrors

            self._mirrors = Mirrors(self._keeper)
        return self._mirrors

    def absorb(self) -> None:
        """Take in what others left for us: payloads of hooks, and changes in mirrored files."""
        if self.writing:
            return
        if not self.draining and spool.anything(self._home, self.spool_tag):
            self._drain()
        if self._mirrors is None:
            # Whether there are mirrors is looked up now and then.
            now = monotonic()
            if now < self._next_look:
                return
            self._next_look = now + _LOOK_EVERY
            if not os.path.isdir(self._keeper.home.mirrors):
                return
        with self.recorded.beside():
            self.mirrors.absorb()

    def _drain(self) -> None:
        from holdfast.keeper.captures.draining import drain

        self.draining = True
        try:
            with self.recorded.beside():
                drain(self._keeper, patience=self._keeper.patience)
        finally:
            self.draining = False

    def about_to_be_current(self, session: str) -> None:
        """Mirrors will show it, whatever comes after it."""
        if self._mirrors is not None or os.path.isdir(self._keeper.home.mirrors):
            self.mirrors.note_current(session)

    def mirrors_timer(self) -> bool:
        """Whether the timer's mirror is on in this project."""
        return os.path.isdir(self._keeper.home.mirrors) and any(one.name == "timer" for one in self.mirrors.formats())

    # ── what belongs to others ───────────────────────────────────────────────────────────────────────────

    def shared_by_others(self, session: str) -> str | None:
        """The vault by which somebody shares this session with us; None where it is our own."""
        try:
            seen = os.lstat(self._keeper.home.remotes)
        except OSError:
            return None
        if (now := (seen.st_mtime_ns, seen.st_size, seen.st_ino)) != self._shares_of:
            from holdfast.keeper.teleports.guesting import shares

            self._shares, self._shares_of = shares(self._keeper.home), now
        vault = self._shares.get(session)
        if vault is None:
            return None
        from holdfast.keeper.teleports.guesting import is_through

        return vault if is_through(self._keeper, session, vault) else None

    def reads_only(self, session: str) -> bool:
        """Whether others share this session with us to read, and what we record in it would reach nobody."""
        return self._travels_one_way(session) or (self._keeper.address.path is None and self._is_shown(session))

    def _travels_one_way(self, session: str) -> bool:
        vault = self.shared_by_others(session)
        if vault is None:
            return False
        from holdfast.keeper.teleports.guesting import reads_only

        return reads_only(self._keeper, vault)

    def _is_shown(self, session: str) -> bool:
        """Whether it is on the server, and not ours to write. Asked of every payload: known for a turn."""
        if session not in self._shown:
            from holdfast.store.postgres import PostgresStore

            store = self._keeper.existing_store()
            self._shown[session] = isinstance(store, PostgresStore) and store.may_only_read(session)
        return self._shown[session]

    def begin_turn(self) -> None:
        """Somebody may have changed what is shared since the last one."""
        self._shown.clear()

    def refuse_reading(self, session: str) -> None:
        """Of what travels; a server refuses by itself."""
        if self._travels_one_way(session):
            raise Refused(
                "the session is shared with you to read: nothing can be recorded in it",
                hint=f"Go on with a copy of your own: holdfast fork {session[:8]}",
                session=session,
            )

    # ── after a change ───────────────────────────────────────────────────────────────────────────────────

    def follow(self, changed: frozenset[str]) -> None:
        """Let status lines and mirrored files show a change."""
        with self.recorded.beside():
            self._show(changed)
            self.write_mirrors()

    def _show(self, changed: frozenset[str]) -> None:
        if not self._watched:
            now = monotonic()
            if now < self._next_glance:
                return
            self._next_glance = now + _LOOK_EVERY
            self._watched = os.path.isdir(glances.directory(self._home))
        if self._watched:
            from holdfast.keeper.captures import glance

            glance.refresh(self._keeper, changed)

    def write_mirrors(self) -> None:
        """Let mirrored files follow a change."""
        if self._mirrors is not None:
            self._mirrors.write()

    def travel(self) -> None:
        """Let what was recorded reach other devices, where there are any."""
        if os.path.lexists(self._keeper.home.remotes):
            from holdfast.keeper.teleports import background

            background.ask(self._keeper)

    def travelled(self) -> None:
        """A sync is over: mirrored files say how sessions travel, and show what came."""
        if self._mirrors is not None or os.path.isdir(self._keeper.home.mirrors):
            self.mirrors.write_travel()
            self.mirrors.write()

    def travels_otherwise(self) -> None:
        """A remote or a share came or went: the mirrored files of every work tree on this device say so."""
        if not os.path.isdir(self._keeper.home.mirrors):
            return
        from holdfast.keeper.mirrors.everywhere import Everywhere

        everywhere = Everywhere(self._keeper)
        everywhere.refresh()
        for tree in everywhere.keepers.values():
            tree.mirrors.write_travel()
            self._keeper.told += [sentence for sentence in tree.told if sentence not in self._keeper.told]
