"""Provides the fixtures of `tests.support.postgres`. The server needs a POSIX system."""

import os

if os.name == "posix":
    from tests.support.postgres.fixtures import database, line, made_once, postgres

    __all__ = ["database", "line", "made_once", "postgres"]
else:
    collect_ignore_glob = ["test_*.py"]
