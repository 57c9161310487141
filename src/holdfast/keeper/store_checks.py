"""The doctor's checks of the store, and its repair: whether it opens, and whether everything in it fits together.

More can go wrong with a file than with a database on a server, which has its own administrators. Both are checked for
the same damage to the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, NotFound, Unreachable
from holdfast.core.wording import count, one_line
from holdfast.machine import files, host
from holdfast.store.interface import Damage, Store
from holdfast.workspace.followers import (
    COPIED_HOME_HINT,
    MAX_SHOWN,
    NOT_OPENED,
    NOTHING_STORED,
    REPAIR_COMMAND,
    Check,
)
from holdfast.workspace.home import Home

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


def unexpected(ws: Workspace, error: Exception) -> str:
    """The error; without its message for a server, whose driver might repeat the address."""
    name = type(error).__name__
    return name if ws.address.path is None else f"{name}: {error}"


def check_opening(ws: Workspace) -> tuple[Store | None, Check]:
    try:
        store = ws.existing_store()
    except HoldfastError as error:
        if ws.address.path is None:
            # Repairing cannot help with a server that cannot be reached.
            return None, Check("store", "failed", f"{ws.address.url}: {error.message}", error.hint)
        if isinstance(error, NotFound):
            return None, Check("store", "ok", NOTHING_STORED)
        return None, Check("store", "failed", error.message, error.hint or REPAIR_COMMAND)
    except Exception as error:  # noqa: BLE001 (the doctor must not crash)
        return None, Check("store", "failed", f"it cannot be opened ({unexpected(ws, error)})", REPAIR_COMMAND)
    location = ws.address.path or ws.address.url
    if store is None:
        if os.path.lexists(ws.home.binding(ws.address.key)):
            missing = f"{location} is missing, although this home has written to it"
            return None, Check("store", "warning", missing, "holdfast restore FILE brings back a backup.")
        return None, Check("store", "ok", NOTHING_STORED)
    return store, Check("store", "ok", f"{location} opens")


def check_sqlite(_: Workspace, __: Store | None) -> Check:
    from holdfast.store.sqlite import connection

    version = connection.sqlite_version()
    if connection.sqlite_is_sound(version):
        return Check("sqlite", "ok", f"SQLite {version}")
    return Check(
        "sqlite",
        "failed",
        f"SQLite {version} can damage a store that two processes use",
        "Upgrade: pip install -U apsw",
    )


def check_server(store: Store | None) -> Iterator[Check]:
    """Whether the server separates people, and the connection keeps others out. Nothing while the server is away."""
    if store is None or store.team is None:
        return
    try:
        info = store.describe()
    except HoldfastError as error:
        yield Check("server", "failed", error.message, error.hint)
        return
    person = one_line(info.person or "")
    if info.above:
        yield Check(
            "server", "warning",
            f"{person} is a superuser or has BYPASSRLS: row-level security does not keep others' sessions from it",
            "Work as an ordinary role: CREATE ROLE name LOGIN, then holdfast store admit name",
        )  # fmt: skip
    elif not info.local and not info.encrypted:
        yield Check(
            "server", "warning", "the connection to the server is not encrypted: it can be read on the way (no TLS)",
            "Let the server use TLS, and leave sslmode out of HOLDFAST_STORE.",
        )  # fmt: skip
    elif not info.local and not info.proven:
        yield Check(
            "server", "warning", "the server's identity is not checked: another machine could pose as it",
            "Leave sslmode out of HOLDFAST_STORE; ?sslrootcert=FILE names who signed the server's certificate.",
        )  # fmt: skip
    else:
        detail = f"PostgreSQL {info.server}, tables {info.version}, vault {one_line(info.vault or '')}, as {person}"
        yield Check("server", "ok", detail)


# ── its content ──────────────────────────────────────────────────────────────────────────────────────────

_EXPECTED: Final = {
    "file": "every page of the file can be read",
    "chain": "every event is present and matches its hash",
    "state": "every state matches its events",
    "listing": "listings match the log",
    "search": "the search index matches the log",
    "erasure": "deleted data is erased",
    "aside": "nothing was set aside",
    "copies": "no two copies of this home wrote concurrently",
    "clocks": "every event has a plausible clock",
}
WARNINGS: Final = ("aside", "copies", "clocks")  # nothing that a repair could change
_DERIVED: Final = ("listing", "search")  # on a server, the owner of a session is responsible for these
_ON_A_SERVER: Final = {"file": "every table can be read"}


def check_contents(ws: Workspace, store: Store | None, opening: Check) -> Iterator[Check]:
    if store is None:
        for name in _EXPECTED:
            if opening.status == "ok":
                yield Check(name, "ok", NOTHING_STORED)
            else:
                # For a server, the check of the store says what to do; a file is repaired as a whole.
                yield Check(name, "warning", NOT_OPENED, None if ws.address.path is None else opening.fix)
        return
    path = ws.address.path
    sound = _EXPECTED if path is not None else _EXPECTED | _ON_A_SERVER
    damage: dict[str, list[Damage]] = {name: [] for name in _EXPECTED}
    away: Unreachable | None = None
    try:
        for finding in store.check():
            damage.setdefault(finding.check, []).append(finding)
    except Unreachable as error:
        away = error
    except Exception as error:  # noqa: BLE001 (the doctor must not crash)
        damage["file"].append(Damage("file", f"the check failed ({unexpected(ws, error)})"))
    for name, findings in damage.items():
        is_others = (
            away is None
            and name in _DERIVED
            and not any(store.may_repair(finding.session or "") for finding in findings)
        )
        if findings and is_others:
            yield Check(
                name, "warning", _listed(findings), "These are shared by another person, who has to repair them."
            )
        elif findings:
            yield Check(name, "warning" if name in WARNINGS else "failed", _listed(findings), _remedy(ws, name))
        elif away is not None and name == "file":
            yield Check(name, "failed", f"the check failed: {away.message}", away.hint)
        elif away is not None:
            yield Check(name, "warning", "not checked to the end: the server became unreachable")
        elif name == "erasure" and path is not None and os.path.lexists(path + ".erasing"):
            yield Check(name, "warning", "deleted data is not erased yet: other processes still read the old file",
                        "Close them; the next command finishes it.")  # fmt: skip
        else:
            yield Check(name, "ok", sound[name])


def _remedy(ws: Workspace, name: str) -> str:
    if name == "aside":
        path = ws.address.path
        remedy = "" if path is None else (
            f" When you need it no longer, delete {os.path.join(os.path.dirname(path), 'aside')}"
        )  # fmt: skip
        return f"holdfast restore FILE adds what a backup has.{remedy}"
    if name == "clocks":
        return (
            "Nothing is lost: such events are ordered by what they follow. Ask the device's owner to set the clock."
        )
    return COPIED_HOME_HINT if name == "copies" else REPAIR_COMMAND


def _listed(findings: Iterable[Damage]) -> str:
    lines = [
        f"session {finding.session}: {finding.detail}" if finding.session else finding.detail for finding in findings
    ]
    more = f"; and {len(lines) - MAX_SHOWN} more" if len(lines) > MAX_SHOWN else ""
    return "; ".join(lines[:MAX_SHOWN]) + more


# ── repairing ────────────────────────────────────────────────────────────────────────────────────────────


def repair(ws: Workspace) -> Iterator[str]:
    """Repair what can be; yields sentences about what was done."""
    path = ws.address.path
    if path is None:
        yield from _repair_on_server(ws)
    elif os.path.lexists(path):
        yield from _repair_file(ws, path)


def _repair_on_server(ws: Workspace) -> Iterator[str]:
    try:
        store = ws.store()
        lost = any(item.check in ("file", "chain") for item in store.check())
        try:
            yield from store.repair()
        finally:
            if lost:
                ws.close()
                _forget_writer(ws)
    except HoldfastError as error:
        yield f"The store was not repaired: {error.message}." + (f" {error.hint}" if error.hint else "")
    except Exception as error:  # noqa: BLE001 (the rest of the home can still be repaired)
        yield f"The store was not repaired ({unexpected(ws, error)})."


def _repair_file(ws: Workspace, path: str) -> Iterator[str]:
    from holdfast.store.sqlite import quarantine
    from holdfast.store.sqlite import repair as sqlite_repair

    damage = _damage(ws)
    ws.close()
    if damage is not None and not damage:
        return  # without writing, since a read-only store may be sound
    before = (quarantine.entries(path), host.inode(path))
    try:
        yield from sqlite_repair.repair(path)
        wrong = {item.session for item in damage or () if item.check in ("state", "listing", "search")}
        if wrong:
            several = count(len(wrong), "session")
            yield f"States, listings and search of {several} were wrong and are rebuilt from the log."
    except HoldfastError as error:
        yield f"The store was not repaired: {error.message}." + (f" {error.hint}" if error.hint else "")
    except Exception as error:  # noqa: BLE001 (the rest of the home can still be repaired)
        yield f"The store was not repaired ({unexpected(ws, error)})."
    finally:
        if (quarantine.entries(path), host.inode(path)) != before:
            _forget_writer(ws)


def _damage(ws: Workspace) -> list[Damage] | None:
    """What a repair has to repair; None when the store cannot even be checked."""
    try:
        store = ws.existing_store()
        return [item for item in store.check() if item.check not in WARNINGS] if store is not None else []
    except Exception:  # noqa: BLE001 (the repair follows)
        return None


def _forget_writer(ws: Workspace) -> None:
    """Forget the writer: events that others have seen may be lost, and their numbers must not be used again."""
    path = ws.home.binding(ws.address.key)
    if os.path.lexists(path):
        os.unlink(path)
        files.sync_directory(ws.home.path)
    ws.home = Home(ws.home.path)
