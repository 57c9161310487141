"""What PostgreSQL could not do, in a person's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import psycopg
from psycopg import errors as pg

from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.store.interface import AWAY
from holdfast.store.postgres.locks import INSTALLATION

INIT: Final = "Whoever runs the database sets it up: holdfast store init URL"
OPEN: Final = "open the store"
SET_UP: Final = "set up the store"
# What only the owner of the tables can do (administering.py).
OF_THE_OWNER: Final = frozenset(
    {SET_UP, "admit a person", "dismiss a person", "hand over sessions", "divide the log"}
)
_DATABASE: Final = re.compile(r"permission denied (to create role|for database)")
_TABLES: Final = re.compile(r"permission denied|row-level security|must be (owner|able to)|must have")
# How libpq says that it does not understand a value; which one it was is not repeated.
_VALUE: Final = re.compile(
    r'^(?:invalid (?:""|integer|(\w+)) (?:value|number)|weak (sslmode)|bad value for (\w+)'
    r"|could not match \d+|could not parse network address)"
)


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
            who, look = _holding(error)
            hint = f"Try again; if it lasts, {look}. Whoever runs the database finds who holds it in pg_locks."
            return Busy(f"{cannot}: {who}; nothing was changed", hint=hint, operation=operation, file=where)
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
        case pg.InsufficientPrivilege():
            return _refused(error, operation, where)
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
        case psycopg.ProgrammingError() if error.sqlstate is None and _VALUE.search(_why(error)):
            return _unreachable(error, operation, where, hidden)
        case psycopg.Error():
            return Failed(
                f"{cannot}: {_first(error)}; nothing was changed", hint="holdfast doctor looks closer.",
                operation=operation, file=where,
            )  # fmt: skip
        case MemoryError():
            return Failed(f"{cannot}: out of memory; nothing was changed", operation=operation, file=where)
    return None


def _holding(error: psycopg.Error) -> tuple[str, str]:
    """What was waited for in vain, and where to look first: the server says in which statement (rights.sql)."""
    within = error.diag.context or ""
    if "LOCK TABLE" in within:
        return "the log is being divided, or somebody holds its table", "ask whoever runs the database"
    if str(INSTALLATION) in within:
        return (
            "another process of this home is writing, or somebody holds its lock",
            "look for a stopped holdfast process on this machine",
        )
    return (
        "others are writing to the same session, or somebody holds its lock",
        "look for a stopped holdfast process on this machine or another",
    )


def _refused(error: psycopg.Error, operation: str, where: str) -> Refused:
    """By what was attempted: what the server says of its rules and tables tells nobody what to do."""
    message, hint = _first(error), "Whoever runs the database admits you: holdfast store admit PERSON"
    if operation == OPEN or ("schema holdfast" in message and operation not in OF_THE_OWNER):
        reason = "you are not a member of any vault here"
    elif "no home of yours" in message:  # it was, when the store was opened
        reason = f"cannot {operation}: you are not a member of this vault any more; nothing was changed"
    elif "row-level security" in message and operation not in OF_THE_OWNER:
        # It refuses to write; what may not be read is not there.
        reason = "cannot write to the session: it is shared with you for reading alone, or not at all"
        reason, hint = f"{reason}; nothing was changed", "Its owner lets you write: holdfast store share ID PERSON"
    elif operation in OF_THE_OWNER and _DATABASE.search(message):
        reason = f"cannot {operation}: this role may not make roles, or no schema here"
        reason, hint = f"{reason}; nothing was changed", "Use a role that owns the database and has CREATEROLE."
    elif operation in OF_THE_OWNER and _TABLES.search(message):
        reason = f"cannot {operation}: only the owner of the tables does that; nothing was changed"
        hint = "Set HOLDFAST_STORE, or the URL, to the role that ran holdfast store init first."
    elif _TABLES.search(message):
        reason = f"cannot {operation}: a right that members need is missing; nothing was changed"
        hint = "The owner of the tables gives them anew: holdfast store init URL"
    else:  # words of our own: see rights.sql
        reason = f"cannot {operation}: {message}; nothing was changed"
        hint = "It is somebody else's: ask them, or whoever runs the database."
    return Refused(reason, hint=hint, operation=operation, file=where)


def _unreachable(error: psycopg.Error, operation: str, where: str, hidden: Iterable[str]) -> HoldfastError:
    # Names that people chose (of hosts, roles, databases) say nothing about what is wrong.
    message = re.sub(r'"[^"]*"', '""', _why(error).lower())
    if "password" in message or "authentication" in message or "no pg_hba.conf entry" in message:
        return spoken(pg.InvalidPassword(), operation, where) or Unreachable("the server does not let this person in")
    if 'database "" does not exist' in message:
        return spoken(pg.InvalidCatalogName(), operation, where) or NotFound("there is no such database")
    if 'role "" does not exist' in message:
        return Unreachable(
            "the server knows no such person",
            hint="Whoever runs the database makes the role: CREATE ROLE name LOGIN",
            operation=operation, file=where,
        )  # fmt: skip
    refused = _VALUE.search(message)
    if refused is not None:
        name = next(filter(None, refused.groups()), "")
        return Invalid(
            f"PostgreSQL does not take a value that it is given{name and f' for {name}'}",
            hint="Look at the store's URL and at the variables that begin with PG.",
            operation=operation, file=where,
        )  # fmt: skip
    if "does not support ssl" in message:
        return Unreachable(
            "the server offers no encryption (TLS), which is insisted on; it was told nothing",
            hint="Ask whoever runs it to switch TLS on. ?sslmode=disable goes without: that is your own decision.",
            operation=operation, file=where,
        )  # fmt: skip
    if "certificate" in message or "ssl" in message:
        return Unreachable(
            "the server did not prove who it is (TLS)",
            hint="Name the authority that signed its certificate: ?sslrootcert=FILE; see sslmode in docs/team.md.",
            operation=operation, file=where,
        )  # fmt: skip
    why = _why(error)
    shown = "" if any(name in why for name in hidden) else f" ({why})"
    return Unreachable(f"the server cannot be reached{shown}", hint=AWAY, operation=operation, file=where)


def _why(error: psycopg.Error) -> str:
    """What is wrong, without where: `connection to server at "host" (address), port 1 failed: FATAL:  why`."""
    return re.split(r"failed: |is bad: |FATAL: +", _first(error))[-1] or type(error).__name__


def _first(error: psycopg.Error) -> str:
    """The first line of what it said: the others repeat statements and values."""
    message = error.diag.message_primary or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
