"""Turn errors of PostgreSQL into errors that tell a person what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import psycopg
from psycopg import errors as pg

from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.store.interface import AWAY
from holdfast.store.postgres.pipeline import INSTALLATION_LOCK

INIT: Final = "Ask the database administrator to set it up: holdfast store init URL"
OPEN: Final = "open the store"
SET_UP: Final = "set up the store"
# Operations of `admin`, which only the owner of the tables can do.
OF_THE_OWNER: Final = frozenset(
    {SET_UP, "admit a person", "dismiss a person", "hand over sessions", "divide the log"}
)
_DATABASE: Final = re.compile(r"permission denied (to create role|for database)")
_TABLES: Final = re.compile(r"permission denied|row-level security|must be (owner|able to)|must have")
# libpq's messages about a value that it rejects; the value itself is not repeated.
_VALUE: Final = re.compile(
    r'^(?:invalid (?:""|integer|(\w+)) (?:value|number)|weak (sslmode)|bad value for (\w+)'
    r"|could not match \d+|could not parse network address)"
)


def is_cut(error: BaseException) -> bool:
    """Whether the connection to the server is lost."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    # An error without a code comes from libpq: the server did not answer any more.
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def explain(error: BaseException, operation: str, url: str, hidden: Iterable[str] = ()) -> HoldfastError | None:
    """The error to raise instead; None when this one explains itself or is not ours."""
    cannot = f"cannot {operation}"
    match error:
        case HoldfastError():
            return None
        case pg.LockNotAvailable() | pg.DeadlockDetected():
            holder, advice = _lock_holder(error)
            hint = f"Try again; if it lasts, {advice}. The database administrator can find the holder in pg_locks."
            return Busy(f"{cannot}: {holder}; nothing was changed", hint=hint, operation=operation, file=url)
        case pg.DiskFull():
            return Failed(
                f"{cannot}: the server's disk is full; nothing was changed",
                hint="Ask the database administrator to free some space; then run the command again.",
                operation=operation, file=url,
            )  # fmt: skip
        case pg.ReadOnlySqlTransaction():
            return Failed(
                f"{cannot}: the server is read-only (perhaps a replica); nothing was changed",
                hint="Set HOLDFAST_STORE to the server that accepts writes.",
                operation=operation, file=url,
            )  # fmt: skip
        case pg.InsufficientPrivilege():
            return _refused(error, operation, url)
        case pg.UniqueViolation():
            return Refused(
                f"{cannot}: a session with this id belongs to another person and is not shared with you",
                hint="Ask its owner: holdfast store share.",
                operation=operation, file=url,
            )  # fmt: skip
        case pg.InvalidSchemaName() | pg.UndefinedTable() | pg.UndefinedFunction() | pg.UndefinedColumn():
            return NotFound("there is no Holdfast store in this database", hint=INIT, operation=operation, file=url)
        case pg.InvalidCatalogName():
            return NotFound("there is no such database", hint="Make it: createdb NAME. " + INIT, file=url)
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification():
            return Unreachable(
                "the server refused the login",
                hint="Check the name, and the password in HOLDFAST_STORE, PGPASSWORD or ~/.pgpass.",
                operation=operation, file=url,
            )  # fmt: skip
        case pg.DataError() | pg.ProgramLimitExceeded():
            return Invalid(f"{cannot}: {_first_line(error)}", operation=operation, file=url)
        case pg.QueryCanceled() | pg.SerializationFailure() | pg.IdleInTransactionSessionTimeout():
            return Busy(
                f"{cannot}: the server stopped it; nothing was changed",
                hint="Try again.",
                operation=operation,
                file=url,
            )
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return Damaged(f"the server's files are damaged ({_first_line(error)})", operation=operation, file=url)
        case psycopg.OperationalError() | psycopg.InterfaceError() if is_cut(error):
            return _unreachable(error, operation, url, hidden)
        case psycopg.ProgrammingError() if error.sqlstate is None and _VALUE.search(_reason(error)):
            return _unreachable(error, operation, url, hidden)
        case psycopg.Error():
            return Failed(
                f"{cannot}: {_first_line(error)}; nothing was changed", hint="holdfast doctor shows the details.",
                operation=operation, file=url,
            )  # fmt: skip
        case MemoryError():
            return Failed(f"{cannot}: out of memory; nothing was changed", operation=operation, file=url)
    return None


def _lock_holder(error: psycopg.Error) -> tuple[str, str]:
    """Who holds the lock, and where to look first; the error's context names the statement (rights.sql)."""
    context = error.diag.context or ""
    if "LOCK TABLE" in context:
        return "the log is being repartitioned, or another process has locked it", "ask the database administrator"
    if str(INSTALLATION_LOCK) in context:
        return (
            "another process of this home is writing, or has the lock",
            "look for a stopped holdfast process on this machine",
        )
    return (
        "others are writing to the same session, or another process has locked it",
        "look for a stopped holdfast process on this machine or another",
    )


def _refused(error: psycopg.Error, operation: str, url: str) -> Refused:
    """What the operation lacks the right for; the server's own message does not say what to do."""
    message, hint = _first_line(error), "Ask the database administrator to admit you: holdfast store admit PERSON"
    if operation == OPEN or ("schema holdfast" in message and operation not in OF_THE_OWNER):
        reason = "you are not a member of any vault here"
    elif "no home of yours" in message:  # it was, when the store was opened
        reason = f"cannot {operation}: you are no longer a member of this vault; nothing was changed"
    elif "row-level security" in message and operation not in OF_THE_OWNER:
        # Only writes are refused: rows that may not be read do not show at all.
        reason = "cannot write to the session: it is shared with you read-only, or not shared with you"
        reason, hint = f"{reason}; nothing was changed", "Its owner lets you write: holdfast store share ID PERSON"
    elif operation in OF_THE_OWNER and _DATABASE.search(message):
        reason = f"cannot {operation}: this role may not create roles or schemas here"
        reason, hint = f"{reason}; nothing was changed", "Use a role that owns the database and has CREATEROLE."
    elif operation in OF_THE_OWNER and _TABLES.search(message):
        reason = f"cannot {operation}: only the owner of the tables does that; nothing was changed"
        hint = "Set HOLDFAST_STORE, or the URL, to the role that ran holdfast store init first."
    elif _TABLES.search(message):
        reason = f"cannot {operation}: a right that members need is missing; nothing was changed"
        hint = "The owner of the tables restores it: holdfast store init URL"
    else:  # a message of ours: see rights.sql
        reason = f"cannot {operation}: {message}; nothing was changed"
        hint = "It belongs to another person: ask them, or the database administrator."
    return Refused(reason, hint=hint, operation=operation, file=url)


def _unreachable(error: psycopg.Error, operation: str, url: str, hidden: Iterable[str]) -> HoldfastError:
    # Names of hosts, roles and databases could look like a part of the message.
    message = re.sub(r'"[^"]*"', '""', _reason(error).lower())
    if "password" in message or "authentication" in message or "no pg_hba.conf entry" in message:
        return explain(pg.InvalidPassword(), operation, url) or Unreachable("the server refused the login")
    if 'database "" does not exist' in message:
        return explain(pg.InvalidCatalogName(), operation, url) or NotFound("there is no such database")
    if 'role "" does not exist' in message:
        return Unreachable(
            "the server has no such role",
            hint="Ask the database administrator to create it: CREATE ROLE name LOGIN",
            operation=operation, file=url,
        )  # fmt: skip
    refused = _VALUE.search(message)
    if refused is not None:
        name = next(filter(None, refused.groups()), "")
        return Invalid(
            f"PostgreSQL rejects a connection parameter{name and f': {name}'}",
            hint="Look at the store's URL and at the variables that begin with PG.",
            operation=operation, file=url,
        )  # fmt: skip
    if "does not support ssl" in message:
        return Unreachable(
            "the server offers no encryption (TLS), which is required; nothing was sent to it",
            hint="Ask the database administrator to enable TLS. ?sslmode=disable connects without it.",
            operation=operation, file=url,
        )  # fmt: skip
    if "certificate" in message or "ssl" in message:
        return Unreachable(
            "the server's certificate could not be verified (TLS)",
            hint="Name the authority that signed its certificate: ?sslrootcert=FILE; see sslmode in docs/team.md.",
            operation=operation, file=url,
        )  # fmt: skip
    reason = _reason(error)
    details = "" if any(name in reason for name in hidden) else f" ({reason})"
    return Unreachable(f"the server cannot be reached{details}", hint=AWAY, operation=operation, file=url)


def _reason(error: psycopg.Error) -> str:
    """The reason, without the place: `connection to server at "host" (address), port 1 failed: FATAL:  reason`."""
    return re.split(r"failed: |is bad: |FATAL: +", _first_line(error))[-1] or type(error).__name__


def _first_line(error: psycopg.Error) -> str:
    """The first line of the message: the others repeat statements and values."""
    message = error.diag.message_primary or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
