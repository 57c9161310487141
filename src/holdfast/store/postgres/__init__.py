"""The store on a PostgreSQL server: one truth for a team, from many machines at once."""

from holdfast.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
