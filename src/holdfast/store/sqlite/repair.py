"""Repair a store: rebuild everything derived from the log, set damaged events aside, and report what is lost.

A file that SQLite cannot read is replaced by a new one with every event that is still readable; the damaged one stays
under another name. Nothing is deleted because it could not be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import apsw

from holdfast.core.envelope import Event
from holdfast.core.errors import Busy, Damaged
from holdfast.core.times import format_time
from holdfast.core.wording import count
from holdfast.machine import files
from holdfast.machine.wall import Wall
from holdfast.store import checks
from holdfast.store.checks import flaws
from holdfast.store.journal import Journal
from holdfast.store.sqlite import check, local_state, page_scan, pages, quarantine, schema
from holdfast.store.sqlite import connection as sqlite_connection
from holdfast.store.sqlite.errors import explaining
from holdfast.store.sqlite.quarantine import SELECT, SELECT_MISTYPED, RawRow, RowRepair
from holdfast.store.sqlite.tables import NO_PLACE, SqliteTables

# SQLite's own lock: every process that has the file open holds these bytes.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510


def repair(path: str) -> list[str]:
    """Repair the store at this path; returns sentences about what was done and what could not be saved."""
    stamp = str(Wall().now())
    report: list[str] = []
    if not _is_readable(path):
        report += _replace(path, stamp)
    scanned_ids: tuple[set[str], set[str]] = (set(), set())
    if not _is_intact(path):
        scanned_ids = _find_ids(
            path
        )  # before connecting: reading the file while SQLite has it open would drop its locks
    connection = sqlite_connection.connect(path)
    try:
        with explaining("repair the store", path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                report += _repair_rows(connection, path, stamp, scanned_ids)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    finally:
        connection.close()
    return report


def _find_ids(path: str) -> tuple[set[str], set[str]]:
    """Ids of sessions and writers anywhere in the file, or in the home's bindings."""
    folder = os.path.dirname(path)
    binding_names = [name for name in os.listdir(folder) if name.startswith("writer") and name.endswith(".json")]
    bindings = [files.read_limited(os.path.join(folder, name), 4096, subject="a binding") for name in binding_names]
    return page_scan.find_ids(b"\n".join((pages.read(path).data, *bindings)))


def _is_readable(path: str) -> bool:
    """Whether SQLite can read every row; changes nothing."""
    try:
        connection = sqlite_connection.connect(path)
    except Damaged:
        return False
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if sqlite_connection.header_damage(path) or list(check.integrity_problems(connection)):
            return False
        return not list(check.schema_differences(connection))
    except (apsw.Error, UnicodeDecodeError):
        return False
    finally:
        connection.close()


def _is_intact(path: str) -> bool:
    """Whether every row of the log is an event."""
    connection = sqlite_connection.connect(path)
    try:
        with explaining("repair the store", path):
            if list(connection.execute(SELECT_MISTYPED)):
                return False
            row_repair = _row_repair(connection, (set(), set()))
            return all(row_repair.intact_event(row) is not None for row in connection.execute(SELECT))
    finally:
        connection.close()


# ── a file that SQLite can read ──────────────────────────────────────────────────────────────────────────


def _repair_rows(
    connection: apsw.Connection, path: str, stamp: str, scanned_ids: tuple[set[str], set[str]]
) -> list[str]:
    from holdfast.store.sqlite.store import SqliteTransaction

    run = connection.execute
    tables = SqliteTables(connection)
    last_updates = _last_updates(connection)
    run(f"DELETE FROM facts WHERE name = 'place' AND {NO_PLACE}")  # noqa: S608 (constants)
    tables.reserve_places()
    report = [
        *local_state.repair_types(connection),
        *_set_damaged_aside(connection, tables, path, stamp, scanned_ids),
    ]
    for table in ("snapshots", "words", "aliases"):
        run(f"DELETE FROM {table}")  # noqa: S608 (constants)
    emptied = list(
        run(
            "DELETE FROM sessions WHERE ref NOT IN (SELECT session FROM events) AND NOT version < 0"
            " RETURNING CAST(id AS BLOB)"
        )
    )
    for (name,) in emptied:
        report.append(f"Session {name.decode(errors='backslashreplace')}: its events could not be saved.")
    run("UPDATE events SET double = 0 WHERE double IS NOT 0")
    run("DELETE FROM facts WHERE name = 'clock'")  # earlier versions kept the largest clock of all sessions there
    known = {row[0] for row in run("SELECT name FROM facts WHERE name LIKE 'aside:%'")}
    run("DELETE FROM facts WHERE name LIKE 'aside:%'")
    no_evidence = not list(run("SELECT 1 FROM evidence LIMIT 1"))
    journal = Journal(tables, writer=_no_writer, wall=_no_clock, salt=_no_salt)
    for session in _sessions(connection):
        journal.refold(session)
        state = journal.state(session)
        if no_evidence and state.project is not None and not state.deleted:
            SqliteTransaction(connection, tables, journal, path).remember_project(state.project)
        missing = False
        for flaw in flaws(tables.read(session)):
            name = checks.missing_event_name(session, flaw.writer, flaw.seq)
            run("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, stamp))
            if name not in known:
                missing = True
                report.append(f"Session {session}: {flaw.detail}; it could not be saved.")
        later = last_updates.get(session, 0)
        if later > state.updated_at and not missing:
            report.append(f"Session {session}: what happened last, up to {format_time(later)}, could not be saved.")
        journal.flush()
    if report:  # what a remote has sent may be lost: it is asked again
        tables.delete_under("vault/")
    return report


def _sessions(connection: apsw.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY ref")]


def _last_updates(connection: apsw.Connection) -> dict[str, int]:
    """The last update of each session in the listing: if the log ends earlier, events are lost."""
    rows = connection.execute("SELECT CAST(id AS BLOB), updated_at FROM sessions")
    return {row[0].decode(errors="replace"): row[1] for row in rows if isinstance(row[1], int)}


def _row_repair(connection: apsw.Connection, scanned_ids: tuple[set[str], set[str]]) -> RowRepair:
    run = connection.execute

    def table(name: str) -> dict[int, str]:
        rows = run(f"SELECT ref, CAST(id AS BLOB) FROM {name}")  # noqa: S608 (constants)
        return {row[0]: row[1].decode(errors="replace") for row in rows}

    def hashes_before(row: RawRow) -> Iterable[bytes]:
        sql = "SELECT hash FROM events WHERE session = ? AND writer = ? AND seq = ?"
        return [item[0] for item in run(sql, (row[1], row[2], row[3] - 1)) if isinstance(item[0], bytes)]

    def is_named(row: RawRow, computed: str) -> bool:
        sql = "SELECT 1 FROM events WHERE session = ? AND prev = ?"
        return bool(list(run(sql, (row[1], bytes.fromhex(computed)))))

    return RowRepair(
        table("sessions"),
        table("writers"),
        find_ids=lambda: scanned_ids,
        hashes_before=hashes_before,
        is_named=is_named,
    )


def _set_damaged_aside(
    connection: apsw.Connection, tables: SqliteTables, path: str, stamp: str, scanned_ids: tuple[set[str], set[str]]
) -> list[str]:
    """Repair damaged rows where that is certain, and move the others to a file."""
    row_repair = _row_repair(connection, scanned_ids)
    mistyped = {row[0] for row in connection.execute(SELECT_MISTYPED)}
    damaged: list[RawRow] = []
    present: set[tuple[str, str]] = set()
    duplicates: list[RawRow] = []
    for row in connection.execute(SELECT):
        event = None if row[0] in mistyped else row_repair.intact_event(row)
        if event is None:
            damaged.append(row)
        elif (event.session, event.hash) in present:
            duplicates.append(row)
        else:
            present.add((event.session, event.hash))
    repaired = [(row, row_repair.repaired_event(row)) for row in damaged]
    lost = [(row_repair.session(row), row_repair.writer(row), row) for row, event in repaired if event is None]
    report: list[str] = []
    if lost:
        file = quarantine.keep_rows(path, stamp, lost)
        verb = "was" if len(lost) == 1 else "were"
        report.append(f"{count(len(lost), 'damaged event')} could not be saved and {verb} set aside in {file}.")
    for row in (*damaged, *duplicates):
        connection.execute("DELETE FROM events WHERE ord = ?", (row[0],))
    for row, event in repaired:
        if event is None:
            session = row_repair.session(row) or f"number {row[1]}"
            report.append(f"Session {session}: event {row[3]} ({_kind(row)}) is damaged and was set aside.")
        else:
            _put_back(tables, event, present, report)
    if duplicates:
        report.append(f"Removed {count(len(duplicates), 'duplicate event')}.")
    return report


def _put_back(tables: SqliteTables, event: Event, present: set[tuple[str, str]], report: list[str]) -> None:
    if (event.session, event.hash) in present:
        return
    present.add((event.session, event.hash))
    tables.insert((event,))
    report.append(f"Session {event.session}: event {event.seq} ({event.type}) was damaged and is repaired.")


def _kind(row: RawRow) -> str:
    return row[7].decode(errors="backslashreplace") if isinstance(row[7], bytes) else "of no type"


# ── a file that SQLite cannot read ───────────────────────────────────────────────────────────────────────


def _replace(path: str, stamp: str) -> list[str]:
    fresh = os.path.join(os.path.dirname(path), files.temporary_name())
    try:
        with _exclusive(path) as content, explaining("repair the store", path):
            wal = pages.journal(path)
            images = [pages.image(content, wal), *_interrupted(path, content)]
            report = _without_loss(images, fresh) or _salvage(images, fresh)
            damaged_copy = quarantine.keep_file(path, stamp, content, wal)
            # The old journal must be removed before the new file gets the name, or it would be applied to it. If the
            # power fails in between, the mark says where the journal is, and the rest does not count as complete.
            files.write_atomic(
                sqlite_connection.repairing_mark(path), (os.path.basename(damaged_copy) + "\n").encode()
            )
            for ending in ("-wal", "-shm"):
                if os.path.lexists(path + ending):
                    os.unlink(path + ending)
            os.replace(fresh, path)
            files.sync_directory(os.path.dirname(path))
            os.unlink(sqlite_connection.repairing_mark(path))
    finally:
        for ending in ("", "-wal", "-shm"):
            if os.path.lexists(fresh + ending):
                os.unlink(fresh + ending)
    return [report[0], f"The damaged file was kept as {damaged_copy}.", *report[1:]]


def _without_loss(images: list[pages.Image], fresh: str) -> list[str]:
    """If only the header is damaged, the new store is the old one with a correct header."""
    image, *others = images
    if others or image.leftover or len(image.data) < pages.PAGE:
        return []
    source = apsw.Connection(":memory:")
    try:
        source.deserialize("main", pages.with_sound_header(image.data))
        # The list of free pages is not copied, so they count as never used.
        if any(not line.endswith(": never used") for line in check.integrity_problems(source)):
            return []
        version = schema.version_of_tables(source)
        if not version:
            return []
        source.pragma("user_version", version)
        sqlite_connection.create(fresh, copy_of=source)
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError):
        return []
    finally:
        source.close()
    return ["The header of the store was damaged and is repaired: nothing is lost."]


def _interrupted(path: str, content: bytes) -> Iterator[pages.Image]:
    """The image of a repair that was interrupted after it had moved the journal aside with the file."""
    mark = sqlite_connection.repairing_mark(path)
    if not os.path.lexists(mark):
        return
    name = files.read_limited(mark, 4096, subject="the mark of a repair").decode(errors="replace").strip()
    damaged_copy = os.path.join(quarantine.directory(path), os.path.basename(name))
    if name and os.path.lexists(damaged_copy):
        yield pages.image(
            files.read_limited(damaged_copy, pages.MAX_BYTES, subject="the damaged store"),
            pages.journal(damaged_copy),
        )
    else:
        yield pages.image(content, b"")


@contextmanager
def _exclusive(path: str) -> Iterator[bytes]:
    """The file's content, while no other process has it open: it would go on writing to the replaced file."""
    try:
        import fcntl
    except ImportError:  # Windows does not replace a file that is open
        yield files.read_limited(path, pages.MAX_BYTES, subject="the store")
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError:
            raise Busy(
                "other processes have the damaged store open",
                hint="Close them (agents, a dashboard, a watch) and run: holdfast doctor --repair",
                operation="repair the store",
                file=path,
            ) from None
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        yield b"".join(parts)
    finally:
        os.close(descriptor)


def _salvage(images: list[pages.Image], fresh: str) -> list[str]:
    """Save every event that can be read to a new store; returns sentences about what was saved and what was not."""
    sqlite_connection.create(fresh)
    target = sqlite_connection.connect(fresh)
    try:
        target.execute("BEGIN IMMEDIATE")
        tables = SqliteTables(target)
        saved: dict[tuple[str, str], Event] = {}
        lost: set[tuple[object, ...]] = set()
        until: dict[str, int] = {}
        for image in images:
            until.update(_read_rows(image, saved, lost))
        tables.insert(sorted(saved.values(), key=lambda event: event.written))
        for session, updated_at in until.items():
            target.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (updated_at, session))
        numbers = {(event.seq, event.clock) for event in saved.values()}
        missing = len({row for row in lost if row not in numbers})
        report = [f"The store could not be read as a whole: {len(saved)} events were saved into a new one."]
        if missing:
            report.append(
                f"{count(missing, 'damaged event')} could not be saved: what is left is in the damaged file."
            )
        report += local_state.carry_over(images, target)
        target.execute("COMMIT")
        return report
    finally:
        target.close()


def _read_rows(
    image: pages.Image, saved: dict[tuple[str, str], Event], lost: set[tuple[object, ...]]
) -> dict[str, int]:
    rows = page_scan.scan(image)
    hashes: dict[tuple[object, ...], list[bytes]] = {}
    for row in rows.events:
        hashes.setdefault((row[1], row[2], row[3]), []).append(row[14])
    named = {row[13] for row in rows.events}
    row_repair = RowRepair(
        rows.sessions,
        rows.writers,
        find_ids=lambda: page_scan.find_ids(b"\n".join((image.data, *image.leftover))),
        hashes_before=lambda row: [
            data for data in hashes.get((row[1], row[2], _previous_number(row[3])), ()) if _is_bytes(data)
        ],
        is_named=lambda _, computed: bytes.fromhex(computed) in named,
    )
    for row in rows.events:
        event = row_repair.intact_event(row) or row_repair.repaired_event(row)
        if event is None:
            lost.add((row[3], row[4]))
            continue
        key = (event.session, event.hash)
        if key not in saved or saved[key].data is None:
            saved[key] = event
    return {rows.sessions[ref]: updated_at for ref, updated_at in rows.until.items()}


def _previous_number(number: object) -> int:
    return number - 1 if isinstance(number, int) else -1


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


_no_writer: Callable[[], str] = str
_no_clock: Callable[[], int] = int
_no_salt: Callable[[], bytes] = bytes
