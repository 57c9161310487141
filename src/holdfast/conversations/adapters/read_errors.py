"""What the system refuses while transcripts are looked for and read. Most who look need not know: what cannot be
looked at is passed over. `backfill` has to: a file that cannot be opened is not an agent that kept nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_noted: ContextVar[dict[str, str] | None] = ContextVar("_noted", default=None)


@contextmanager
def noted() -> Iterator[dict[str, str]]:
    """What is refused within the block: paths, and the reason for each."""
    found: dict[str, str] = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def note(path: str, error: Exception) -> None:
    """That a path could not be looked at or read. What is not there is no refusal: agents clean up meanwhile."""
    found = _noted.get()
    if found is not None and not isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        found.setdefault(path, (getattr(error, "strerror", None) or str(error)).lower())
