"""What arrived, and whether anything did: in the order of arrival, as far as it is settled, of what can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.core.canonical import digest
from holdfast.store.interface import Arrival
from holdfast.store.postgres.installation import OfInstallation
from holdfast.store.postgres.rows import OWN, event_of

# Whose sessions can be seen, each in one of these parts. The server sees to it by itself (rights.sql); asked in these
# words it finds them by indexes, however many there are of others.
PARTS: Final = (
    "owner = CURRENT_USER",
    "everyone <> '' AND owner <> CURRENT_USER",
    (
        "everyone = '' AND owner <> CURRENT_USER"
        " AND ref = ANY (ARRAY(SELECT g.session FROM shares g WHERE g.person = CURRENT_USER))"
    ),
)
_SEEN: Final = " UNION ALL ".join(
    f"SELECT ref, id, latest FROM sessions WHERE vault = %s AND latest > %s AND {part}"  # noqa: S608 (constants)
    for part in PARTS
)
_STRETCH: Final = 4


class Arriving(OfInstallation):
    """The part of the tables that followers ask. Every method runs in a transaction of the store's."""

    def __init__(self, vault: int, installation: Callable[[], int | None]) -> None:
        super().__init__(vault, installation)
        # The horizon at the last look, and what was seen.
        self._looked: tuple[int, int] | None = None

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        horizon = self.horizon()
        rows: list[tuple[Any, ...]] = []
        # A stretch at a time: asked for all at once, everything that is left would be sorted, for each portion anew.
        # Stretches grow where most of what is in them is of others.
        start, stretch = after, _STRETCH * max(limit, 256)
        while start < horizon and len(rows) < limit:
            end = min(horizon, start + stretch)
            left = limit - len(rows)
            # Session by session (that is what a limit for each makes of it): no row of others is looked at.
            rows += self.talk.ask(
                f"SELECT f.*, s.id FROM ({_SEEN}) s CROSS JOIN LATERAL (SELECT e.place, {OWN} FROM events e"  # noqa: S608
                " WHERE e.session = s.ref AND e.place > %s AND e.place <= %s ORDER BY e.place LIMIT %s) f"
                " ORDER BY f.place LIMIT %s",
                (*(self.vault, start) * len(PARTS), start, end, left, left),
            )
            start, stretch = end, stretch * _STRETCH
        return [Arrival(place, event_of(session, row)) for place, *row, session in rows]

    def latest_place(self) -> int:
        horizon = self.horizon()
        latest = self.talk.one(f"SELECT max(latest) FROM ({_SEEN}) s", (self.vault, -1) * len(PARTS)) or 0  # noqa: S608
        return int(min(latest, horizon))

    def horizon(self) -> int:
        """Up to which place everything is settled. Asked by itself: what is read next must be read after it."""
        return int(self.talk.one("SELECT holdfast.horizon()"))

    def look(self) -> int:
        """A number for all that can be seen: another one after any change, also of what is shared. Asked for when the
        horizon has moved: then somebody changed something, perhaps nothing that can be seen from here. A server that
        only follows another has no horizon of its own: there it is how far it has followed.
        """
        moment = self.talk.one(
            "SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::bigint"
            " ELSE holdfast.horizon() END"
        )
        if self._looked is None or self._looked[0] != moment:
            horizon = self.horizon()
            sql = f"SELECT max(latest), count(*), sum(ref)::text FROM ({_SEEN}) s"  # noqa: S608 (constants)
            latest = self.talk.ask(sql, (self.vault, -1) * len(PARTS))[0]
            # What is not settled yet counts when it is: another change below it may still come in.
            seen = f"{min(latest[0] or 0, horizon)} {latest[1:]} {self.local_state_version()}"
            self._looked = (moment, int(digest(seen.encode())[:15], 16))
        return self._looked[1]
