"""Importing: a document of one of the four formats becomes a session, or is united with the one it came from.

The session keeps the id the document names as an alias, and everything the model has no place for, so that an
export gives the document again. Importing the same document twice, or on two machines, is importing it once: the
session's own id and the key of every event follow from the document.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.secret_documents import redact_document
from holdfast.core.state import State
from holdfast.core.times import SECOND, millis
from holdfast.core.vocabulary import DeviceJoined, SessionStarted
from holdfast.formats import naming
from holdfast.formats.interface import Document, Format, Ground, Note
from holdfast.formats.keeping import keep, shown
from holdfast.formats.text.jsontext import written
from holdfast.keeper import projects
from holdfast.keeper.documents.ground import ground
from holdfast.keeper.mirrors.absorbing import absorb
from holdfast.keeper.mirrors.versions import OLDER, is_older, nearest
from holdfast.store import origin
from holdfast.store.interface import Draft, Filter, Store, Transaction

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Taken(NamedTuple):
    """What became of a document: the session it is, whether that is new here, and how many events it brought."""

    session: str
    new: bool
    events: int
    conflicts: int
    notes: list[Note]


def take_in(
    keeper: Keeper, value: Json, rules: Format, *, make_current: bool = False, of_project: bool = False
) -> Taken:
    """Import a document. Raises `Invalid` when it cannot be coped with, and nothing is recorded.

    `of_project`: it came with the project, and may be of no session of another one.
    """
    seen = projects.observe(keeper.place, "")
    here = ground(keeper, seen)
    document, notes = readied(keeper, value, rules, here)
    store = keeper.store()
    with keeper.transaction() as transaction:
        project = projects.found(store, seen)
        here = here._replace(project=project)
        known = known_as(keeper, rules, rules.alias(document), project.id, document, here)
        if known is None:
            session, events = _begin(keeper, transaction, document, rules, here)
            conflicts = 0
        else:
            session = known
            if transaction.state(session).deleted:
                raise Refused("this session was deleted, and what is deleted stays so", session=session)
            if of_project:
                _refuse_other_project(keeper, transaction.state(session))
            told = list(store.events(session))
            base = nearest(told, rules, document)
            if is_older(document, base, rules):
                return Taken(session, False, 0, 0, [*notes, Note((), OLDER)])
            taken = absorb(
                keeper.recorder, transaction, session, document, rules, base=base, ground=here,
                known={event.key for event in told},
            )  # fmt: skip
            events, conflicts = taken.events, taken.conflicts
        transaction.know_project(project)
        state = transaction.state(session)
        if make_current and view.status_of(state) not in FINISHED:
            keeper.make_current(transaction, session)
    return Taken(session, known is None, events, conflicts, notes)


def _refuse_other_project(keeper: Keeper, state: State) -> None:
    """A session's id is no secret: a file in a repository must not read or change one of another project."""
    store, project = keeper.store(), state.project
    if project is None or projects.same(store, keeper.place, project):
        return
    if projects.only_a_path(project) and not projects.directories(store, project):
        return  # seen on another device only, under a path that means nothing here
    raise Refused(
        "the file has the id of a session of another project",
        hint="If it belongs here: holdfast import FILE, and then holdfast resume ID",
        session=state.session,
    )


def readied(keeper: Keeper, value: Json, rules: Format, here: Ground) -> tuple[Document, list[Note]]:
    """The document as it may be stored: put right, and without secrets."""
    document, notes = rules.tidy(value, here)
    clean, found = redact_document(document)
    assert isinstance(clean, dict)
    for kind, count in found.items():
        keeper.recorder.redacted[kind] = keeper.recorder.redacted.get(kind, 0) + count
        notes = [*notes, Note((), f"secrets were cut out before anything was stored: {count} {kind}")]
    return clean, notes


def session_id(keeper: Keeper, source: str, alias: str, began: int) -> str:
    """The id of what is imported: the same wherever the same document is read.

    Where a session of that id came through somebody's share, it is another one: ours is mixed with our vault's id. So
    it is where another member has that id on a server.
    """
    found = naming.imported_id(source, alias, began)
    if origin.share_of(keeper.store(), found) is not None:
        from holdfast.keeper.teleports.opening import own_mark

        found = naming.imported_id(f"{source} of {own_mark(keeper)}", alias, began)
    return keeper.store().own_id(found)


def known_as(keeper: Keeper, rules: Format, alias: str, project: str, document: Document, here: Ground) -> str | None:
    """The session a document is of, if the store has it: by its id, its alias, or the name we would give it."""
    store = keeper.store()
    began = rules.changes(None, document, None, here)[0].at
    own = session_id(keeper, rules.name, alias, began)
    if store.state(own) is not None:
        return own
    for found in store.find(alias):
        state = store.state(found) if is_own(store, found) else None
        if state is None or state.aliases.get(rules.name) != alias or not named_by_us(keeper, found, alias):
            continue
        if state.project is not None and state.project.id == project:
            return found
    if rules.name == "craft":
        return None
    for row in store.rows(Filter(projects=(project,), since=began - SECOND)):
        # The same name is not enough: two sessions of one day may have the same goal.
        near = abs(millis(row.created_at) - began) < SECOND
        state = store.state(row.id) if near and is_own(store, row.id) else None
        given = state is not None and state.aliases.get(rules.name) is not None
        if given and not named_by_us(keeper, row.id, alias):
            continue
        if state is not None and rules.alias(shown(state, rules)) == alias:
            return row.id
    return None


def named_by_us(keeper: Keeper, session: str, alias: str) -> bool:
    """Whether a device of ours gave the session this name: a guest's must not draw our documents there."""
    if not os.path.lexists(keeper.home.remotes):
        return True
    from holdfast.keeper.teleports import opening
    from holdfast.teleport.keys import is_certified

    is_ours = opening.here(keeper).is_ours
    writers = (
        event.writer
        for event in keeper.store().events(session)
        if event.type in ("session.started", "alias.given") and alias.encode() in (event.data or b"")
    )
    return any(is_ours(writer) or not is_certified(writer) for writer in writers)


def is_own(store: Store, session: str) -> bool:
    """Nobody can have what we import go into a session of theirs."""
    return origin.share_of(store, session) is None and store.may_repair(session)


def _begin(
    keeper: Keeper, transaction: Transaction, document: Document, rules: Format, here: Ground
) -> tuple[str, int]:
    heard = rules.changes(None, document, None, here)
    first = heard[0].data
    assert isinstance(first, SessionStarted)
    session = session_id(keeper, rules.name, rules.alias(document), heard[0].at)
    source = digest(written(document))[:32]
    actor = keeper.recorder.actor
    for number, (at, data) in enumerate(heard):
        draft = Draft(keeper.recorder.prepare(data), at, actor, f"file:{rules.name}:{source}:{number}")
        transaction.record(session, draft)
    state = transaction.state(session)
    if first.device != here.device:
        # Whatever happens from now on is done here, whoever began it.
        transaction.record(session, Draft(DeviceJoined(device=here.device), state.updated_at, actor))
    # A document says where its project was: that stays so until something happens to the session here.
    rest = keep(state, rules, document, always=bool(rules.located))
    if rest is not None:
        transaction.record(session, Draft(rest, state.updated_at, actor, f"file:{rules.name}:{source}:rest"))
    return session, state.count
