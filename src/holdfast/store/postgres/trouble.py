"""What PostgreSQL could not do, in a person's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import psycopg
from psycopg import errors as pg

from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable

INIT: Final = "Whoever runs the database sets it up: holdfast store init URL"
OPEN: Final = "open the store"
_AWAY: Final = "Hooks keep handing over meanwhile; run the command again when the server is back."


def is_cut(error: BaseException) -> bool:
    """Whether the line to the server is gone: nothing more can be asked on it."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    # Without a code it is libpq that speaks: the server said nothing any more.
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def spoken(error: BaseException, operation: str, where: str, hidden: Iterable[str] = ()) -> HoldfastError | None:
    """The error to raise instead; None when this one speaks for itself or is not ours to explain."""
    cannot = f"cannot {operation}"
    match error:
        case HoldfastError():
            return None
        case pg.LockNotAvailable() | pg.DeadlockDetected():
            return Busy(
                f"{cannot}: others are writing to the same session",
                hint="Try again; if it lasts, look for a stopped holdfast process on another machine.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.DiskFull():
            return Failed(
                f"{cannot}: the server's disk is full; nothing was changed",
                hint="Whoever runs the database makes room; then run the command again.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.ReadOnlySqlTransaction():
            return Failed(
                f"{cannot}: the server only reads (a replica, or set to read-only); nothing was changed",
                hint="Set HOLDFAST_STORE to the server that takes writes.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.InsufficientPrivilege() if operation == OPEN:
            return Refused(
                "you are not a member of any vault here",
                hint="Whoever runs the database admits you: holdfast store admit PERSON",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.InsufficientPrivilege() if "schema holdfast" in _first(error):
            return Refused(
                "you are not a member of any vault here",
                hint="Whoever runs the database admits you: holdfast store admit PERSON",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.InsufficientPrivilege():
            return Refused(
                f"{cannot}: the database does not allow it ({_first(error)}); nothing was changed",
                hint="It is somebody else's, or shared for reading alone; its owner shares it: holdfast store share.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.UniqueViolation():
            return Refused(
                f"{cannot}: this store has it already, from somebody who does not share it with you",
                hint="Ask its owner: holdfast store share.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.InvalidSchemaName() | pg.UndefinedTable() | pg.UndefinedFunction() | pg.UndefinedColumn():
            return NotFound("there is no Holdfast store in this database", hint=INIT, operation=operation, file=where)
        case pg.InvalidCatalogName():
            return NotFound("there is no such database", hint="Make it: createdb NAME. " + INIT, file=where)
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification():
            return Unreachable(
                "the server does not let this person in",
                hint="Check the name, and the password in HOLDFAST_STORE, PGPASSWORD or ~/.pgpass.",
                operation=operation, file=where,
            )  # fmt: skip
        case pg.DataError() | pg.ProgramLimitExceeded():
            return Invalid(f"{cannot}: {_first(error)}", operation=operation, file=where)
        case pg.QueryCanceled() | pg.SerializationFailure() | pg.IdleInTransactionSessionTimeout():
            return Busy(
                f"{cannot}: the server stopped it; nothing was changed",
                hint="Try again.",
                operation=operation,
                file=where,
            )
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return Damaged(f"the server's files are damaged ({_first(error)})", operation=operation, file=where)
        case psycopg.OperationalError() | psycopg.InterfaceError() if is_cut(error):
            return _unreachable(error, operation, where, hidden)
        case psycopg.Error():
            return Failed(
                f"{cannot}: {_first(error)}; nothing was changed", hint="holdfast doctor looks closer.",
                operation=operation, file=where,
            )  # fmt: skip
        case MemoryError():
            return Failed(f"{cannot}: out of memory; nothing was changed", operation=operation, file=where)
    return None


def _unreachable(error: psycopg.Error, operation: str, where: str, hidden: Iterable[str]) -> HoldfastError:
    # Names that people chose (of hosts, roles, databases) say nothing about what is wrong.
    said = re.sub(r'"[^"]*"', '""', _why(error).lower())
    if "password" in said or "authentication" in said or "no pg_hba.conf entry" in said:
        return spoken(pg.InvalidPassword(), operation, where) or Unreachable("the server does not let this person in")
    if 'database "" does not exist' in said:
        return spoken(pg.InvalidCatalogName(), operation, where) or NotFound("there is no such database")
    if 'role "" does not exist' in said:
        return Unreachable(
            "the server knows no such person",
            hint="Whoever runs the database makes the role: CREATE ROLE name LOGIN",
            operation=operation, file=where,
        )  # fmt: skip
    if "certificate" in said or "ssl" in said:
        return Unreachable(
            "the server did not prove who it is (TLS)",
            hint="Name the authority that signed its certificate: ?sslrootcert=FILE; see sslmode in docs/team.md.",
            operation=operation, file=where,
        )  # fmt: skip
    why = _why(error)
    shown = "" if any(one in why for one in hidden) else f" ({why})"
    return Unreachable(f"the server cannot be reached{shown}", hint=_AWAY, operation=operation, file=where)


def _why(error: psycopg.Error) -> str:
    """What is wrong, without where: `connection to server at "host" (address), port 1 failed: FATAL:  why`."""
    return re.split(r"failed: |FATAL: +", _first(error))[-1] or type(error).__name__


def _first(error: psycopg.Error) -> str:
    """The first line of what it said: the others repeat statements and values."""
    said = error.diag.message_primary or str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
