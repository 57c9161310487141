"""Find and list sessions: which one a reference means, and which ones a listing shows, now or at a past moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.core import own_events, view
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.text import MAX_NAME_LENGTH, check_text, shorten
from holdfast.core.times import DAY, format_time
from holdfast.sessions.ownership import is_linked, own_test, session_of
from holdfast.store import origin
from holdfast.store.interface import Filter, Store

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.core.worktime import WorkTime
    from holdfast.workspace.workspace import Workspace


def rows_at(ws: Workspace, rows: Iterable[Row], at: int, criteria: Filter) -> list[Row]:
    """The rows as they were at a moment, filtered by their values then."""
    from holdfast.store.listing import row_of
    from holdfast.store.tables import summary

    matching: list[Row] = []
    archive_ms = archive_after(ws, criteria)
    for row in rows:
        if len(matching) == criteria.limit:
            break
        try:
            state = ws.state(row.id, at=at)
        except NotFound:
            continue
        was = view.shown_status(state)
        archived_now = ws.is_archived(state, at=at, after=archive_ms)
        if (
            (criteria.status is not None and was != criteria.status)
            or (criteria.unfinished and was in FINISHED)
            or (criteria.archived is not None and archived_now != criteria.archived)
        ):
            continue
        then = row_of(row.id, summary(state), archived=archived_now)
        then.project, then.created_at = row.project, row.created_at
        then.working_ms = view.worktime(state, at).working
        then.over, then.aliases = ws.is_over(state, at=at), view.aliases_of(state)
        matching.append(then)
    return matching


def states_of(ws: Workspace, rows: Iterable[Row], *, at: int | None = None) -> list[State]:
    """The states of listed sessions; on a server, others can list sessions that have none, which are skipped."""
    states: list[State] = []
    for row in rows:
        with contextlib.suppress(NotFound):
            states.append(ws.state(row.id, at=at))
    return states


SHORTEST_PREFIX = 4
_LENGTH_OF_UUID = 36
_DASHES = (8, 13, 18, 23)  # their places in a UUID
_HEX_DIGITS = frozenset("0123456789abcdef")
_LOOKED_AT = 20  # recent sessions checked for the latest one that is not over


def _resolve(ws: Workspace, reference: str) -> str:
    """Resolve a UUID, a unique prefix of one, or an alias to a session id."""
    check_text(reference, "the session's id", max_length=MAX_NAME_LENGTH)
    store = ws.existing_store()
    candidates = store.find(reference) if store else []
    exact = [candidate for candidate in candidates if candidate == reference.lower()]
    if not any(candidate.startswith(reference.lower()) for candidate in candidates):
        candidates = _named(ws, candidates, reference)
    # Whoever starts a session chooses its id: another person's whole id can equal the printed prefix of one of ours.
    may_be_prefix = not SHORTEST_PREFIX <= len(reference) < _LENGTH_OF_UUID
    certain = exact if may_be_prefix or any(_is_own(store, session) for session in exact) else []
    # Ids take precedence over aliases, which anybody who writes in a session can give.
    candidates = (
        certain
        or (exact and candidates)
        or [candidate for candidate in candidates if candidate.startswith(reference.lower())]
        or candidates
    )
    if len(reference) < SHORTEST_PREFIX and not exact:
        candidates = [candidate for candidate in candidates if not candidate.startswith(reference.lower())]
    if not candidates:
        short = "" if len(reference) >= SHORTEST_PREFIX else f" A prefix needs at least {SHORTEST_PREFIX} characters."
        raise NotFound(
            f"no session matches {shorten(reference, 60)!a}", hint=f"holdfast history lists the sessions.{short}"
        )
    if len(candidates) > 1:
        listed = ", ".join(candidates[:10]) + (", …" if len(candidates) > 10 else "")
        raise Invalid(
            f"{shorten(reference, 60)!a} matches {len(candidates)} sessions: {listed}",
            hint="Give more of the id.",
        )
    return candidates[0]


def _looks_like_id(alias: str) -> bool:
    """Whether it could be a UUID or the beginning of one; `2026-11-02-3fa9c2` could not."""
    return (
        all(char == "-" if place in _DASHES else char in _HEX_DIGITS for place, char in enumerate(alias.lower()))
        and len(alias) <= _LENGTH_OF_UUID
    )


def _is_own(store: Store | None, session: str) -> bool:
    return store is not None and origin.share_of(store, session) is None and not origin.is_members(store, session)


def _named(ws: Workspace, sessions: Iterable[str], alias: str) -> list[str]:
    """The sessions that this alias may mean: those that our devices gave it to, else those of others.

    In a session of ours, nobody else's alias counts: it could be that of another session, which a command then
    would miss. Nor does one of others that looks like an id, or the beginning of one.
    """
    ours: list[str] = []
    others: list[str] = []
    for session in sessions:
        state = ws.store().state(session)
        if state is None:
            continue
        writers = (writer for name, writer in state.aliased_by.items() if state.aliases.get(name) == alias)
        if any(map(own_test(ws, session), writers)) or is_linked(ws, state, alias):
            ours.append(session)
        elif not _is_own(ws.store(), session) and not _looks_like_id(alias):
            others.append(session)
    return ours or others


def find(ws: Workspace, reference: str = "@", *, at: int | None = None) -> str:
    """Resolve a UUID, a unique prefix, an alias or `@` (the current session, now or at a moment) to a session id."""
    ws.collect()
    if reference != "@":
        return _resolve(ws, reference)
    current = current_session(ws, at=at)
    if current is None:
        raise NotFound("there is no current session here", hint="Start one: holdfast start GOAL")
    return current


def current_session(ws: Workspace, *, at: int | None = None) -> str | None:
    """The current session of this work tree, while it is unfinished; for a past moment, the one worked on then.

    For a command that an agent runs, it is the session of the agent's conversation.
    """
    ws.collect()
    if at is not None:
        open_then = history(ws, limit=None, at=at, unfinished=True)
        return max(((row.updated_at, row.id) for row in open_then), default=(None, None))[1]
    store = ws.existing_store()
    state = None if ws.conversation is None else session_of(ws, ws.conversation)
    if state is None:
        known = store.current(ws.place.root) if store else None
        state = store.state(known) if store and known else None
    if state is None or state.deleted or view.status_of(state) in FINISHED:
        return None
    return state.session


def latest_session(ws: Workspace, *, at: int | None = None) -> str | None:
    """The session of this project that was worked on last, finished or not; now, or at a past moment."""
    rows = history(ws, limit=None, at=at, aliases=False)
    if at is None:
        return latest(ws, rows)
    return max((row.updated_at, row.id) for row in rows)[1] if rows else None


def latest_unfinished(ws: Workspace) -> str | None:
    """The unfinished session of this project that was worked on last, preferring sessions that are not over."""
    unfinished = history(ws, limit=None, unfinished=True, aliases=False)
    candidates = [row for row in unfinished if not row.archived]
    store = ws.existing_store()
    candidates.sort(key=lambda row: row.updated_at, reverse=True)
    # Others can date any number of sessions later than ours.
    ours = (row for row in candidates if _is_own(store, row.id))
    newest = [*islice(ours, _LOOKED_AT), *candidates[:_LOOKED_AT]]
    mark_inactive(ws, newest)
    return latest(ws, [row for row in newest if not row.over]) or latest(ws, candidates) or latest(ws, unfinished)


def history(
    ws: Workspace,
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
    """List sessions, newest first: of this project or all, now or as they were at a moment.

    `before` is the id of the last row of the previous page; `project` is a project's name. Without `aliases`, only
    rows are read, no states.
    """
    if limit is not None and limit < 1:
        raise Invalid("the limit must be at least 1")
    ws.collect()
    criteria = Filter(
        search=search, status=status, since=since, limit=limit, unfinished=unfinished, name=project,
        archived=archived, before=place_of(ws.existing_store(), before),
    )  # fmt: skip
    listed_rows = rows(ws, criteria, all_projects=all_projects, at=at)
    return with_state_details(ws, listed_rows, criteria) if aliases and at is None else listed_rows


def place_of(store: Store | None, session: str | None) -> tuple[int, str] | None:
    """The position of a session in a listing, to continue after it."""
    if session is None:
        return None
    state = store.state(session) if store else None
    if state is None:
        raise NotFound("there is no such session to continue the listing after", session=session)
    return state.updated_at if state.created_at is None else state.created_at, session


def rows(ws: Workspace, criteria: Filter, *, all_projects: bool, at: int | None) -> list[Row]:
    """The rows of this project's sessions or of all, newest first; now, or as they were at a moment."""
    from holdfast.workspace import projects

    store = ws.existing_store()
    own_ids = () if store is None or all_projects else projects.project_ids(store, ws.place)
    if store is None or not (own_ids or all_projects):
        return []
    which = None if all_projects else own_ids
    if at is not None:
        # Rows only know the present: what depends on the moment is filtered by the states.
        unfiltered = criteria._replace(projects=which, status=None, unfinished=False, archived=None, limit=None)
        return rows_at(ws, store.rows(unfiltered), at, criteria._replace(projects=which))
    listed_rows = list_rows(ws, criteria._replace(projects=which))
    worked = worked_since(ws, listed_rows, ws.now())
    for row in listed_rows:
        if row.id in worked:
            row.working_ms = worked[row.id].working
    return listed_rows


def with_state_details(ws: Workspace, rows: list[Row], criteria: Filter) -> list[Row]:
    """Fill in what only the states know: aliases, whether it is over, and the status, which earlier versions stored
    differently.
    """
    store = ws.existing_store()
    for row in rows:
        state = None if store is None else store.state(row.id)
        if state is not None:
            row.aliases, row.over = view.aliases_of(state), ws.is_over(state)
            # A filter means the recorded status; idle only depends on the present moment.
            row.status = view.status_at(state, ws.now()) if criteria.status is None else view.shown_status(state)
    return [row for row in rows if criteria.status in (None, row.status)]


def mark_inactive(ws: Workspace, rows: Iterable[Row]) -> None:
    """Mark the rows of sessions that started by themselves and were abandoned.

    Only states of paused or day-old sessions are read, and what is over is remembered until something happens in it.
    """
    store = ws.existing_store()
    latest = format_time(ws.now() - DAY)
    known = ws.over
    for row in rows:
        if store is None or row.status in FINISHED or (row.status != "paused" and row.created_at > latest):
            continue
        if known.get(row.id) != row.updated_at:
            state = store.state(row.id)
            if state is None or not ws.is_over(state):
                continue
            known[row.id] = row.updated_at
        row.over = True


def worked_since(ws: Workspace, rows: Iterable[Row], now: int) -> dict[str, WorkTime]:
    """The present work time of unfinished sessions, by id: rows only have that of the last event."""
    store = ws.existing_store()
    worked: dict[str, WorkTime] = {}
    if store is None:
        return worked
    for row in rows:
        if row.status in FINISHED:
            continue
        state = store.state(row.id)
        if state is not None and not state.deleted:
            worked[row.id] = view.worktime(state, now)
    return worked


def latest(ws: Workspace, rows: Iterable[Row]) -> str | None:
    """The session that was worked on last. Our own come first: others can date their events as they like."""
    store = ws.existing_store()
    shared = {} if store is None else origin.through_shares(store)
    best: tuple[bool, bool, str, str] | None = None
    ranks = sorted(((row.id not in shared, not row.archived, row.updated_at, row.id) for row in rows), reverse=True)
    for rank in ranks:
        if best is not None and rank <= best:
            break
        is_ours, is_shown, updated_at, session = rank
        is_ours = is_ours and store is not None and not origin.is_members(store, session)
        state = store.state(session) if is_ours and store is not None else None
        if is_ours and (state is None or state.deleted):
            continue
        if state is not None:
            # Guests in our sessions, too, can choose their dates, and unarchive a session.
            is_own = own_test(ws, session)
            last_event = own_events.last_event_at(state, is_own)
            is_shown = is_shown and not own_events.is_archived_by_us(state, is_own)
            updated_at = updated_at if last_event is None else format_time(last_event)
        own_rank = (is_ours, is_shown, updated_at, session)
        best = own_rank if best is None else max(best, own_rank)
    return None if best is None else best[3]


def list_rows(ws: Workspace, criteria: Filter) -> list[Row]:
    """Rows newest first, each as of its last event. No state is read."""
    store = ws.existing_store()
    if store is None:
        return []
    return store.rows(criteria._replace(now=ws.now(), archive_after=archive_after(ws, criteria)))


def archive_after(ws: Workspace, criteria: Filter) -> int:
    """The project's setting; for all projects together the home's, so that the listing is the same everywhere."""
    return (ws.home_settings if criteria.projects is None else ws.settings).archive_after


def unfinished_by(ws: Workspace, device: str) -> str | None:
    """The latest unfinished session of this project that the device wrote to."""
    unfinished = rows(ws, Filter(unfinished=True), all_projects=False, at=None)
    for state in states_of(
        ws, sorted(unfinished, key=lambda row: (not row.archived, row.updated_at, row.id), reverse=True)
    ):
        is_own = own_test(ws, state.session)
        # Others call their devices what they like.
        if any(name == device and is_own(writer) for writer, name in state.devices.items()):
            return state.session
    return None
