"""Whom a session is shared with: said by its owner, as the person they are. The server checks it once more."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.store.postgres.pipeline import Talk
from holdfast.store.postgres.store import PostgresStore

_WORDS: Final = {False: "read", True: "write"}


class StoreShare(NamedTuple):
    """Whom a session is shared with; nobody in particular means every member of its vault."""

    person: str | None
    writes: bool


class _SharedSession(NamedTuple):
    ref: int
    owner: str
    everyone: str
    myself: str


def people(store: PostgresStore) -> list[str]:
    """Everybody in the vault."""
    return store.asked(lambda talk: _people(talk, store.vault))


def _people(talk: Talk, vault: int) -> list[str]:
    rows = talk.ask("SELECT person FROM holdfast.teammates WHERE vault = %s ORDER BY person", (vault,))
    return [str(person) for (person,) in rows]


def shares(store: PostgresStore, session: str) -> list[StoreShare]:
    """Every member first. Whoever is not the owner sees of the others only themselves."""

    def look(talk: Talk) -> list[StoreShare]:
        shared = _shared_session(talk, store, session)
        rows = talk.ask(
            "SELECT person, writes FROM holdfast.shares WHERE session = %s ORDER BY person", (shared.ref,)
        )
        everyone = [StoreShare(None, shared.everyone == _WORDS[True])] if shared.everyone else []
        return everyone + [StoreShare(str(person), bool(writes)) for person, writes in rows]

    return store.asked(look)


def share(store: PostgresStore, session: str, person: str | None, writes: bool) -> None:
    """Let another member, or all, read a session, or write to it too. Said again, the last word counts."""
    with store.transaction():
        talk = _talk(store)
        shared = _own_session(talk, store, session)
        if person is None:
            talk.tell("UPDATE holdfast.sessions SET everyone = %s WHERE ref = %s", (_WORDS[writes], shared.ref))
            return
        if person == shared.myself:
            raise Invalid("it is yours already", hint="Name another member.", session=session)
        known = _people(talk, store.vault)
        if person not in known:
            others = ", ".join(name for name in known if name != shared.myself)
            hint = f"Others are: {others}" if others else "There is nobody else: holdfast store admit PERSON"
            raise NotFound(f"{person!a} is not a member of this vault", hint=hint, session=session)
        talk.tell(
            "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (session, person) DO UPDATE SET writes = excluded.writes",
            (shared.ref, store.vault, person, writes),
        )


def unshare(store: PostgresStore, session: str, person: str | None) -> None:
    """Take that back; what every member may do, and what one may, are taken back apart."""
    with store.transaction():
        talk = _talk(store)
        shared = _own_session(talk, store, session)
        if person is None:
            if not shared.everyone:
                raise NotFound("it is not shared with everyone", session=session)
            talk.tell("UPDATE holdfast.sessions SET everyone = '' WHERE ref = %s", (shared.ref,))
            return
        sql = "DELETE FROM holdfast.shares WHERE session = %s AND person = %s RETURNING 1"
        if talk.one(sql, (shared.ref, person)) is None:
            raise NotFound(
                f"it is not shared with {person!a}",
                hint="Everyone may see it: holdfast store unshare ID --everyone" if shared.everyone else None,
                session=session,
            )


def _talk(store: PostgresStore) -> Talk:
    assert store.active is not None
    return store.active


def _shared_session(talk: Talk, store: PostgresStore, session: str) -> _SharedSession:
    sql = "SELECT ref, owner, everyone, CURRENT_USER::text FROM holdfast.sessions WHERE vault = %s AND id = %s"
    for row in talk.ask(sql, (store.vault, session)):
        return _SharedSession(*row)
    raise NotFound("there is no such session", session=session)


def _own_session(talk: Talk, store: PostgresStore, session: str) -> _SharedSession:
    shared = _shared_session(talk, store, session)
    if shared.owner != shared.myself:
        raise Refused("only its owner shares a session", hint=f"Ask {shared.owner!a}.", session=session)
    return shared
