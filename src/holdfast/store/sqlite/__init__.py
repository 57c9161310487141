"""The embedded store: one SQLite file in WAL mode, through apsw, which brings a current SQLite."""

from holdfast.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
