"""Repair: everything derived is rebuilt from the log, damaged events are set aside, what is lost is said.

A file that SQLite itself cannot walk is replaced by a new one that holds every event still readable; the damaged
one stays, under another name. Nothing is deleted because it could not be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import apsw

from holdfast.core.envelope import Event
from holdfast.core.errors import Busy, Damaged
from holdfast.core.times import format_time
from holdfast.machine import files
from holdfast.machine.wall import Wall
from holdfast.store import derived_checks
from holdfast.store.chain_checks import flaws
from holdfast.store.journal import Journal
from holdfast.store.sqlite import check, local_state, page_scan, pages, quarantine, schema
from holdfast.store.sqlite import connection as opening
from holdfast.store.sqlite.errors import speaking
from holdfast.store.sqlite.row_repair import SELECT, SELECT_MISTYPED, Mender, Raw
from holdfast.store.sqlite.tables import NO_PLACE, SqliteTables

# SQLite's own lock: every process that has the file open holds these bytes.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510


def repair(path: str) -> list[str]:
    """Repair the store at this path; sentences say what was done and what could not be saved."""
    stamp = str(Wall().now())
    report: list[str] = []
    if not _walkable(path):
        report += _replace(path, stamp)
    spare: tuple[set[str], set[str]] = (set(), set())
    if not _sound(path):
        spare = _names_around(path)  # now: while SQLite has the file open, we must not read it
    connection = opening.connect(path)
    try:
        with speaking("repair the store", path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                report += _in_place(connection, path, stamp, spare)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    finally:
        connection.close()
    return report


def _names_around(path: str) -> tuple[set[str], set[str]]:
    """Ids of sessions and writers that the file holds anywhere, or that this home remembers."""
    place = os.path.dirname(path)
    bound = [name for name in os.listdir(place) if name.startswith("writer") and name.endswith(".json")]
    remembered = [files.read_limited(os.path.join(place, name), 4096, what="a binding") for name in bound]
    return page_scan.names(b"\n".join((pages.read(path).data, *remembered)))


def _walkable(path: str) -> bool:
    """Can SQLite reach every row? Looking changes nothing."""
    try:
        connection = opening.connect(path)
    except Damaged:
        return False
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if opening.header_damage(path) or list(check.broken(connection)):
            return False
        return not list(check.differences(connection))
    except (apsw.Error, UnicodeDecodeError):
        return False
    finally:
        connection.close()


def _sound(path: str) -> bool:
    """Is every row of the log an event?"""
    connection = opening.connect(path)
    try:
        with speaking("repair the store", path):
            if list(connection.execute(SELECT_MISTYPED)):
                return False
            mender = _mender(connection, (set(), set()))
            return all(mender.sound(row) is not None for row in connection.execute(SELECT))
    finally:
        connection.close()


# ── in a file that can be walked ─────────────────────────────────────────────────────────────────────────


def _in_place(connection: apsw.Connection, path: str, stamp: str, spare: tuple[set[str], set[str]]) -> list[str]:
    from holdfast.store.sqlite.store import SqliteTransaction

    run = connection.execute
    tables = SqliteTables(connection)
    until = _until(connection)
    run(f"DELETE FROM facts WHERE name = 'place' AND {NO_PLACE}")  # noqa: S608 (constants)
    tables.hold_place()
    report = [*local_state.mend(connection), *_set_damaged_aside(connection, tables, path, stamp, spare)]
    for table in ("snapshots", "words", "aliases"):
        run(f"DELETE FROM {table}")  # noqa: S608 (constants)
    bare = list(
        run(
            "DELETE FROM sessions WHERE ref NOT IN (SELECT session FROM events) AND NOT version < 0"
            " RETURNING CAST(id AS BLOB)"
        )
    )
    for (name,) in bare:
        report.append(
            f"Session {name.decode(errors='backslashreplace')}: its events could not be saved, none is left."
        )
    run("UPDATE events SET double = 0 WHERE double IS NOT 0")
    run("DELETE FROM facts WHERE name = 'clock'")  # earlier versions kept the largest clock of all sessions there
    known = {row[0] for row in run("SELECT name FROM facts WHERE name LIKE 'aside:%'")}
    run("DELETE FROM facts WHERE name LIKE 'aside:%'")
    forgotten = not list(run("SELECT 1 FROM evidence LIMIT 1"))
    journal = Journal(tables, writer=_nobody, wall=_never, salt=_nothing)
    for session in _sessions(connection):
        # Listings are made anew; their keeping of time starts from nothing.
        journal.refold(session)
        state = journal.state(session)
        if forgotten and state.project is not None and not state.deleted:
            SqliteTransaction(connection, tables, journal, path).remember_project(state.project)
        missing = False
        for flaw in flaws(tables.read(session)):
            name = derived_checks.aside(session, flaw.writer, flaw.seq)
            run("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, stamp))
            if name not in known:
                missing = True
                report.append(f"Session {session}: {flaw.detail}; it could not be saved.")
        later = until.get(session, 0)
        if later > state.updated_at and not missing:
            report.append(f"Session {session}: what happened last, up to {format_time(later)}, could not be saved.")
        journal.flush()
    if report:  # what a remote is said to have given may be among what is gone: it is asked again
        tables.forget_under("vault/")
    return report


def _sessions(connection: apsw.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY ref")]


def _until(connection: apsw.Connection) -> dict[str, int]:
    """Until when the listing says that sessions were worked on: what is later than the log is lost."""
    rows = connection.execute("SELECT CAST(id AS BLOB), updated_at FROM sessions")
    return {row[0].decode(errors="replace"): row[1] for row in rows if isinstance(row[1], int)}


def _mender(connection: apsw.Connection, spare: tuple[set[str], set[str]]) -> Mender:
    run = connection.execute

    def table(name: str) -> dict[int, str]:
        rows = run(f"SELECT ref, CAST(id AS BLOB) FROM {name}")  # noqa: S608 (constants)
        return {row[0]: row[1].decode(errors="replace") for row in rows}

    def hashes_before(row: Raw) -> Iterable[bytes]:
        sql = "SELECT hash FROM events WHERE session = ? AND writer = ? AND seq = ?"
        return [item[0] for item in run(sql, (row[1], row[2], row[3] - 1)) if isinstance(item[0], bytes)]

    def is_named(row: Raw, computed: str) -> bool:
        sql = "SELECT 1 FROM events WHERE session = ? AND prev = ?"
        return bool(list(run(sql, (row[1], bytes.fromhex(computed)))))

    return Mender(
        table("sessions"), table("writers"), spare=lambda: spare, hashes_before=hashes_before, is_named=is_named
    )


def _set_damaged_aside(
    connection: apsw.Connection, tables: SqliteTables, path: str, stamp: str, spare: tuple[set[str], set[str]]
) -> list[str]:
    """Rows that are no events leave the log: for where they belong, if that is certain, or else for a file."""
    mender = _mender(connection, spare)
    mistyped = {row[0] for row in connection.execute(SELECT_MISTYPED)}
    damaged: list[Raw] = []
    seen: set[tuple[str, str]] = set()
    twice: list[Raw] = []
    for row in connection.execute(SELECT):
        event = None if row[0] in mistyped else mender.sound(row)
        if event is None:
            damaged.append(row)
        elif (event.session, event.hash) in seen:
            twice.append(row)
        else:
            seen.add((event.session, event.hash))
    mended = [(row, mender.mended(row)) for row in damaged]
    lost = [(mender.session(row), mender.writer(row), row) for row, event in mended if event is None]
    report: list[str] = []
    if lost:
        kept = quarantine.keep_rows(path, stamp, lost)
        report.append(f"{_events(len(lost))} could not be saved and {_was_or_were(lost)} set aside in {kept}.")
    for row in (*damaged, *twice):
        connection.execute("DELETE FROM events WHERE ord = ?", (row[0],))
    for row, event in mended:
        if event is None:
            session = mender.session(row) or f"number {row[1]}"
            report.append(f"Session {session}: event {row[3]} ({_kind(row)}) is damaged and was set aside.")
        else:
            _put_back(tables, event, seen, report)
    if twice:
        report.append(f"{_events(len(twice))} stored twice {_was_or_were(twice)} taken out once.")
    return report


def _put_back(tables: SqliteTables, event: Event, seen: set[tuple[str, str]], report: list[str]) -> None:
    if (event.session, event.hash) in seen:
        return
    seen.add((event.session, event.hash))
    tables.insert((event,))
    report.append(f"Session {event.session}: event {event.seq} ({event.type}) was damaged and is mended.")


def _kind(row: Raw) -> str:
    return row[7].decode(errors="backslashreplace") if isinstance(row[7], bytes) else "of no type"


def _events(count: int) -> str:
    return "1 damaged event" if count == 1 else f"{count} damaged events"


def _was_or_were(some: list[object] | list[Raw] | list[tuple[str | None, str | None, Raw]]) -> str:
    return "was" if len(some) == 1 else "were"


# ── a file that cannot ───────────────────────────────────────────────────────────────────────────────────


def _replace(path: str, stamp: str) -> list[str]:
    fresh = os.path.join(os.path.dirname(path), files.temporary_name())
    try:
        with _alone(path) as content, speaking("repair the store", path):
            wal = pages.journal(path)
            images = [pages.image(content, wal), *_interrupted(path, content)]
            report = _without_loss(images, fresh) or _salvage(images, fresh)
            kept = quarantine.keep_file(path, stamp, content, wal)
            # The old journal must be gone before the new file has the old name: it would be applied to it. If the
            # power fails in between, the mark says that the journal lies aside, and nobody takes the rest for all.
            files.write_atomic(opening.repairing_mark(path), (os.path.basename(kept) + "\n").encode())
            for ending in ("-wal", "-shm"):
                if os.path.lexists(path + ending):
                    os.unlink(path + ending)
            os.replace(fresh, path)
            files.sync_directory(os.path.dirname(path))
            os.unlink(opening.repairing_mark(path))
    finally:
        for ending in ("", "-wal", "-shm"):
            if os.path.lexists(fresh + ending):
                os.unlink(fresh + ending)
    return [report[0], f"The damaged file was kept as {kept}.", *report[1:]]


def _without_loss(images: list[pages.Image], fresh: str) -> list[str]:
    """Where nothing but the header is damaged, the new store is the old one with a header as it must be."""
    image, *others = images
    if others or image.leftover or len(image.data) < pages.PAGE:
        return []
    source = apsw.Connection(":memory:")
    try:
        source.deserialize("main", pages.with_sound_header(image.data))
        # The list of free pages is not taken over, so nothing uses them.
        if any(not line.endswith(": never used") for line in check.broken(source)):
            return []
        version = schema.version_of_tables(source)
        if not version:
            return []
        source.pragma("user_version", version)
        opening.create(fresh, copy_of=source)
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError):
        return []
    finally:
        source.close()
    return ["The header of the store was damaged and is put right: nothing is lost."]


def _interrupted(path: str, content: bytes) -> Iterator[pages.Image]:
    """A repair that was cut off had taken the journal away already: it lies beside the file kept aside."""
    mark = opening.repairing_mark(path)
    if not os.path.lexists(mark):
        return
    name = files.read_limited(mark, 4096, what="the mark of a repair").decode(errors="replace").strip()
    kept = os.path.join(quarantine.directory(path), os.path.basename(name))
    if name and os.path.lexists(kept):
        yield pages.image(files.read_limited(kept, pages.MOST, what="the damaged store"), pages.journal(kept))
    else:
        yield pages.image(content, b"")


@contextmanager
def _alone(path: str) -> Iterator[bytes]:
    """The file's content, while nobody else has it open: they would go on writing to what is no longer the store."""
    try:
        import fcntl
    except ImportError:  # Windows does not replace a file that is open
        yield files.read_limited(path, pages.MOST, what="the store")
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
    """Put every event that can be found into a new store; sentences say what was saved and what was not."""
    opening.create(fresh)
    target = opening.connect(fresh)
    try:
        target.execute("BEGIN IMMEDIATE")
        tables = SqliteTables(target)
        saved: dict[tuple[str, str], Event] = {}
        lost: set[tuple[object, ...]] = set()
        until: dict[str, int] = {}
        for image in images:
            until.update(_read_rows(image, saved, lost))
        tables.insert(sorted(saved.values(), key=lambda event: event.written))
        for session, moment in until.items():
            target.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (moment, session))
        numbers = {(event.seq, event.clock) for event in saved.values()}
        missing = len({row for row in lost if row not in numbers})
        report = [f"The store could not be read as a whole: {len(saved)} events were saved into a new one."]
        if missing:
            report.append(
                f"{_events(missing)} could not be saved: the damaged file still holds what is left of them."
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
    mender = Mender(
        rows.sessions,
        rows.writers,
        spare=lambda: page_scan.names(b"\n".join((image.data, *image.leftover))),
        hashes_before=lambda row: [
            data for data in hashes.get((row[1], row[2], _less(row[3])), ()) if _is_bytes(data)
        ],
        is_named=lambda _, computed: bytes.fromhex(computed) in named,
    )
    for row in rows.events:
        event = mender.sound(row) or mender.mended(row)
        if event is None:
            lost.add((row[3], row[4]))
            continue
        key = (event.session, event.hash)
        if key not in saved or saved[key].data is None:
            saved[key] = event
    return {rows.sessions[ref]: moment for ref, moment in rows.until.items()}


def _less(number: object) -> int:
    return number - 1 if isinstance(number, int) else -1


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


_nobody: Callable[[], str] = str
_never: Callable[[], int] = int
_nothing: Callable[[], bytes] = bytes
