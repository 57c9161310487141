"""Which session a reference means, and which sessions a listing shows. The keeper asks here once it has taken in what
others left for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import own_words, view
from holdfast.core.device_names import device_names
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.text import LONGEST_NAME, clean, shorten
from holdfast.core.times import DAY, text
from holdfast.keeper.own_devices import own_test
from holdfast.store import origin
from holdfast.store.interface import Filter, Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.worktime import WorkTime
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import KeptSession

SHORTEST_PREFIX = 4


def meant(store: Store | None, reference: str) -> str:
    """The id of the one session that a UUID, a unique prefix or else an alias means."""
    clean(reference, "the session's id", longest=LONGEST_NAME)
    candidates = store.find(reference) if store else []
    exact = [one for one in candidates if one == reference.lower()]
    # An id comes before a name: names are given by whoever writes in a session.
    candidates = exact or [one for one in candidates if one.startswith(reference.lower())] or candidates
    if len(reference) < SHORTEST_PREFIX and not exact:
        candidates = [one for one in candidates if not one.startswith(reference.lower())]
    if not candidates:
        short = "" if len(reference) >= SHORTEST_PREFIX else f" A prefix has at least {SHORTEST_PREFIX} characters."
        raise NotFound(f"there is no session {shorten(reference, 60)!a}", hint=f"holdfast history shows them.{short}")
    if len(candidates) > 1:
        listed = ", ".join(candidates[:10]) + (", …" if len(candidates) > 10 else "")
        raise Invalid(
            f"{shorten(reference, 60)!a} could be {len(candidates)} sessions: {listed}",
            hint="Give more of the id.",
        )
    return candidates[0]


def place_of(store: Store | None, session: str | None) -> tuple[int, str] | None:
    """Where a session stands in a listing, for whoever goes on after it."""
    if session is None:
        return None
    state = store.state(session) if store else None
    if state is None:
        raise NotFound("there is no such session to go on after", session=session)
    return state.updated_at if state.created_at is None else state.created_at, session


def rows(keeper: Keeper, wanted: Filter, *, all_projects: bool, at: int | None) -> list[Row]:
    """Sessions newest first, of the keeper's project or of all; now, or as they were at a moment."""
    from holdfast.keeper import projects

    store = keeper.existing_store()
    here = () if store is None or all_projects else projects.known(store, keeper.place)
    if store is None or not (here or all_projects):
        return []
    which = None if all_projects else here
    if at is not None:
        from holdfast.keeper.past import rows_at

        # What was so then, the rows do not know: the rest is asked of them, and that of the states.
        everything = wanted._replace(projects=which, status=None, unfinished=False, archived=None, limit=None)
        return rows_at(keeper, store.rows(everything), at, wanted._replace(projects=which))
    found = listed(keeper, wanted._replace(projects=which))
    worked = worked_since(keeper, found, keeper.now())
    for row in found:
        if row.id in worked:
            row.working_ms = worked[row.id].working
    return found


def described(keeper: Keeper, rows: list[Row], wanted: Filter) -> list[Row]:
    """The rows with what only the states know. The status too: earlier versions listed another one."""
    store = keeper.existing_store()
    for row in rows:
        state = None if store is None else store.state(row.id)
        if state is not None:
            row.aliases, row.over = view.aliases_of(state), keeper.is_over(state)
            # Whoever asks for a status means the one that was recorded: idle is a matter of the moment.
            row.status = view.status_at(state, keeper.now()) if wanted.status is None else view.shown_status(state)
    return [row for row in rows if wanted.status in (None, row.status)]


def mark_over(keeper: Keeper, rows: Iterable[Row]) -> None:
    """Note in rows as they are listed which of them began by themselves and were left.

    Only what is paused, or a day old, is looked at, and what is over only once, until something happens in it.
    """
    store = keeper.existing_store()
    latest = text(keeper.now() - DAY)
    known = keeper.upkeep.over
    for row in rows:
        if store is None or row.status in FINISHED or (row.status != "paused" and row.created_at > latest):
            continue
        if known.get(row.id) != row.updated_at:
            state = store.state(row.id)
            if state is None or not keeper.is_over(state):
                continue
            known[row.id] = row.updated_at
        row.over = True


def worked_since(keeper: Keeper, rows: Iterable[Row], now: int) -> dict[str, WorkTime]:
    """By session, the work time as of now of what is unfinished: `listed` knows only that of the last event."""
    store = keeper.existing_store()
    found: dict[str, WorkTime] = {}
    if store is None:
        return found
    for row in rows:
        if row.status in FINISHED:
            continue
        state = store.state(row.id)
        if state is not None and not state.deleted:
            found[row.id] = view.worktime(state, now)
    return found


def latest(keeper: Keeper, rows: Iterable[Row]) -> KeptSession | None:
    """The session that was worked on last: one of our own before those that others share, who date as they like."""
    from holdfast.keeper.session import KeptSession

    store = keeper.existing_store()
    shared = {} if store is None else origin.through_shares(store)
    best: tuple[bool, bool, str, str] | None = None
    ranks = sorted(((row.id not in shared, not row.archived, row.updated_at, row.id) for row in rows), reverse=True)
    for rank in ranks:
        if best is not None and rank <= best:
            break
        is_ours, is_shown, updated_at, session = rank
        state = store.state(session) if is_ours and store is not None else None
        if state is not None:
            # Guests of our own sessions date as they like, too, and say that these are not put away.
            is_own = own_test(keeper, session)
            said = own_words.last_word_at(state, is_own)
            is_shown = is_shown and not own_words.is_put_away(state, is_own)
            updated_at = updated_at if said is None else text(said)
        own_rank = (is_ours, is_shown, updated_at, session)
        best = own_rank if best is None else max(best, own_rank)
    return None if best is None else KeptSession(keeper, best[3])


def listed(keeper: Keeper, wanted: Filter) -> list[Row]:
    """Sessions newest first, each as it stood at its last event: no state is looked at, however many are at work."""
    store = keeper.existing_store()
    if store is None:
        return []
    return store.rows(wanted._replace(now=keeper.now(), archive_after=archive_after(keeper, wanted)))


def archive_after(keeper: Keeper, wanted: Filter) -> int:
    """A project's own rule; of all projects together the home's, so that a listing is the same wherever one is."""
    return (keeper.home_settings if wanted.projects is None else keeper.settings).archive_after


def unfinished_by(keeper: Keeper, device: str) -> str | None:
    """The unfinished session of the keeper's project that this device wrote to, the one worked on last."""
    found = rows(keeper, Filter(unfinished=True), all_projects=False, at=None)
    for row in sorted(found, key=lambda row: (not row.archived, row.updated_at, row.id), reverse=True):
        state = keeper.state(row.id)
        guests = origin.guests(keeper.store(), row.id)
        if device in device_names(state, guests).values():
            return row.id
    return None
