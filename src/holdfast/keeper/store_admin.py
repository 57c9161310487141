"""The store itself: what it is, setting one up, its members, shares of sessions, and copying a store.

A store on a server belongs to a team and has vaults, members and rights. A file belongs to one person.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from holdfast.core.errors import Invalid, NotFound, Refused, missing_extra
from holdfast.core.wording import count
from holdfast.keeper.restore import refuses_copy
from holdfast.machine.wall import Wall
from holdfast.sessions import history
from holdfast.sessions.work import document
from holdfast.store import store_copy
from holdfast.store.address import Address, PostgresAddress, SqliteAddress, address, open_store
from holdfast.store.interface import CopyResult, NotCopied, ShareGrant, StoreInfo
from holdfast.store.store_copy import Progress
from holdfast.workspace.home import Home

if TYPE_CHECKING:
    from holdfast.store.interface import Store, Team
    from holdfast.workspace.workspace import Workspace

HOME_STORE: Final = "home"  # the word for the home's own store, where a URL is expected
_MAX_VAULT_LENGTH: Final = 63  # characters of a vault's name
_OWNER: Final = "Only the owner of the tables can do this: the role that ran holdfast store init."
_SETTER: Final = "The role needs CREATE on the database, and CREATEROLE unless the role holdfast_member exists."
_MOVE: Final = "Teams keep sessions on a server: holdfast store init URL, then holdfast store copy home URL."


class StoreStatus(NamedTuple):
    """What a store is, and who is in it."""

    address: Address
    there: bool
    sessions: int = 0
    people: Sequence[str] = ()
    info: StoreInfo = StoreInfo()

    @property
    def warnings(self) -> list[str]:
        warnings, info = [], self.info
        if info.above:
            warnings.append(
                f"{info.person} is a superuser or has BYPASSRLS: the server shows this person everybody's sessions."
                " Work as an ordinary role: CREATE ROLE name LOGIN, then holdfast store admit name"
            )
        if not info.local and info.encrypted is False:
            warnings.append("The connection to the server is not encrypted: it can be read on the way (sslmode).")
        elif not info.local and info.proven is False:
            warnings.append(
                "The connection is encrypted, but the server need not prove who it is (sslmode=verify-full)."
            )
        return warnings


def show(ws: Workspace) -> StoreStatus:
    """What the store in use is. Creates none."""
    store = ws.existing_store()
    if store is None:
        return StoreStatus(ws.address, there=False)
    sessions, info = len(store.versions()), store.describe()
    return StoreStatus(ws.address, True, sessions, () if store.team is None else store.team.people(), info)


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────


class SetUpResult(NamedTuple):
    """What setting up a store did, in sentences; none when everything was there."""

    address: Address
    vault: str | None
    done: list[str]


def init(
    home: Home, url: str, *, vault: str | None = None, admit: Sequence[str] = (), partitions: int | None = None
) -> SetUpResult:
    """Create or upgrade the store that a URL names. Doing it again does no harm."""
    location = address(url)
    if location.server is None:
        if vault is not None or admit or partitions is not None:
            raise Refused(
                "a store in a file has no vaults, members or partitions",
                hint="Those need a server: postgresql://USER@HOST/DATABASE", file=location.path,
            )  # fmt: skip
        existed = location.is_there()
        with _opened(home, location):
            return SetUpResult(location, None, [] if existed else [f"made {location.path}"])
    named = _of_vault(location.server, vault)
    _need_driver()
    from holdfast.store.postgres import admin

    with _refused(_SETTER):
        made = admin.init(named, admit=admit, partitions=partitions)
    return SetUpResult(named, made.vault, made.done)


def _of_vault(server: PostgresAddress, vault: str | None) -> PostgresAddress:
    """The address with the vault in it."""
    if vault is None:
        return server
    if not vault.strip() or not vault.isprintable() or len(vault) > _MAX_VAULT_LENGTH:
        raise Invalid(f"a vault's name must be one line of 1 to {_MAX_VAULT_LENGTH} characters")
    named = server.parameters.get("vault")
    if named not in (None, vault):
        raise Invalid("the URL names another vault than --vault", hint="Leave one of them out.", file=server.url)
    if named is not None:
        return server
    return PostgresAddress(f"{server.secret}{'&' if '?' in server.secret else '?'}vault={quote(vault, safe='')}")


def url_for_members(server: PostgresAddress) -> str:
    """The address as another member would write it."""
    rest = server.url.removeprefix("postgresql://")
    return "postgresql://PERSON@" + (rest.partition("@")[2] if "user" in server.parameters else rest)


def admit(ws: Workspace, person: str) -> bool:
    """Admit a person to the vault; False when they are in it already."""
    server = _server(ws, "it has no members")
    from holdfast.store.postgres import admin

    with _refused(_OWNER):
        return admin.admit(server, person)


def dismiss(ws: Workspace, person: str, to: str | None = None) -> int:
    """Remove a person from the vault. Their sessions stay in it, or are given to another member.

    Returns how many sessions were handed over; those of a person dismissed before still can be.
    """
    server = _server(ws, "it has no members")
    from holdfast.store.postgres import admin

    with _refused(_OWNER):
        with contextlib.suppress(NotFound) if to is not None else contextlib.nullcontext():
            admin.dismiss(server, person)
        return 0 if to is None else admin.hand_over(server, person, to)


def partition(ws: Workspace, parts: int) -> int:
    """Divide the log into so many partitions; returns how many there were."""
    server = _server(ws, "it has no partitions")
    from holdfast.store.postgres import admin

    with _refused(_OWNER):
        return admin.repartition(server, parts)


def _server(ws: Workspace, lacks: str) -> PostgresAddress:
    server = ws.address.server
    if server is None:
        raise Refused(f"this store is one person's file: {lacks}", hint=_MOVE, file=ws.address.path)
    _need_driver()
    return server


@contextlib.contextmanager
def _refused(hint: str) -> Iterator[None]:
    """The database refuses in the same words to who sets it up and who works in it: add the right hint."""
    try:
        yield
    except Refused as error:
        if error.operation is not None:
            error.hint = hint
        raise


def _need_driver() -> None:
    from importlib.util import find_spec

    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise missing_extra("a store on a PostgreSQL server", "postgres")


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


class StoreShares(NamedTuple):
    session: str
    goal: str
    shares: list[ShareGrant]


def share(ws: Workspace, reference: str, person: str | None, *, writes: bool) -> StoreShares:
    """Let another member, or every member, read a session, or write to it too."""
    team = _team(ws)
    session = history.find(ws, reference)
    team.share(session, person, writes)
    return StoreShares(session, document(ws, session).goal, team.shares(session))


def unshare(ws: Workspace, reference: str, person: str | None) -> StoreShares:
    """Take a share back. What was read by then stays read."""
    team = _team(ws)
    session = history.find(ws, reference)
    team.unshare(session, person)
    return StoreShares(session, document(ws, session).goal, team.shares(session))


def _team(ws: Workspace) -> Team:
    _server(ws, "it has no members")
    team = ws.store().team
    assert team is not None
    return team


# ── copying ──────────────────────────────────────────────────────────────────────────────────────────────


class MoveResult(NamedTuple):
    source: Address
    target: Address
    copied: CopyResult


def copy(
    home: Home, source: str, target: str, on_progress: Callable[[Progress], None] = lambda _: None
) -> MoveResult:
    """Copy everything of one store into another and verify it. If interrupted, doing it again continues it."""
    source_address, target_address = named(home, source), named(home, target)
    # A file may have two paths.
    if source_address.key == target_address.key or (
        source_address.path
        and target_address.path
        and source_address.is_there()
        and source_address.stamp() == target_address.stamp()
    ):
        raise Invalid("a store cannot be copied into itself", file=source_address.path or source_address.url)
    if not source_address.is_there():
        raise NotFound(
            "there is no store to copy",
            hint="holdfast store show says which one is in use.",
            file=source_address.path,
        )
    from holdfast.store import store_copy

    with _opened(home, source_address) as old, _opened(home, target_address) as new:
        if source_address.path is None or source_address.path == home.store:
            # A server tells people apart, and the home's own store is one's own.
            return MoveResult(source_address, target_address, store_copy.copy(old, new, on_progress=on_progress))
        # Anybody may have written the file: only this home's own stream in it is trusted.
        own_writer = Home(home.path).known_writer(source_address)
        refuses = refuses_copy(new, lambda writer: writer == own_writer)
        return MoveResult(
            source_address, target_address, store_copy.copy(old, new, on_progress=on_progress, refuses=refuses)
        )


def incomplete_error(left_out: Sequence[NotCopied], done: str, again: str, *, file: str) -> Refused | None:
    """The error to end with if sessions were left out, so that the exit code shows it."""
    if not left_out:
        return None
    partly = all(store_copy.OTHERS_DAMAGE in copied.reason for copied in left_out)
    return Refused(
        f"{count(len(left_out), 'session')} could not be {done}{' completely' * partly}; everything else was {done}",
        hint=_remedy([copied.reason for copied in left_out], again),
        file=file,
        session=left_out[0].session if len(left_out) == 1 else None,
    )


def _remedy(reasons: Sequence[str], again: str) -> str:
    """What to do so that nothing is left out the next time."""
    if any(store_copy.OWNER_REPAIRS in reason for reason in reasons):
        return f"Ask the owner to repair it, with holdfast doctor --repair; then {again}."
    if any(store_copy.OTHERS_DAMAGE in reason for reason in reasons):
        return "holdfast doctor names the events of others that are left out; --repair sets them aside."
    return "Each is named with its reason; what is here was not changed."


def named(home: Home, word: str) -> Address:
    """The address that a word means: a URL, or `home` for the home's own store."""
    return SqliteAddress(home.store) if word == HOME_STORE else address(word)


@contextlib.contextmanager
def _opened(home: Home, location: Address) -> Iterator[Store]:
    """A store by itself, with a separate `Home`, which caches the writer of one store only."""
    own = Home(home.path)
    if not location.is_there():
        own.prepare()
    store = open_store(
        location, writer=lambda: own.writer(location), wall=Wall().micros,
        installation=lambda make: own.installation(make=make), renew=lambda: own.renew(location),
    )  # fmt: skip
    try:
        yield store
    finally:
        store.close()


def connected_agents(home: Home) -> list[str]:
    """Agents whose hooks keep using the store that was in use when they were connected."""
    from holdfast.conversations.connect.registry import Connections

    return sorted({connection.agent for connection in Connections(home.path).all()})
