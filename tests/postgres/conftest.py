"""Gives the tests here the fixtures of `databases.py`. Only POSIX systems run the server they need."""

import os

if os.name == "posix":
    from tests.support.postgres.fixtures import database, line, made_once, postgres

    __all__ = ["database", "line", "made_once", "postgres"]
else:
    collect_ignore_glob = ["test_*.py"]
