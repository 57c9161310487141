"""Extras that are missing: every part says in the same words how to get it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from holdfast.core import extras

ROOT = Path(__file__).parents[2]


def test_it_says_what_to_install_and_how() -> None:
    """From an index once it is there, and from a clone."""
    error = extras.missing_extra("S3 remotes need", "s3", otherwise="use a folder.", operation="open")
    assert error.message == "S3 remotes need an extra that is not installed: holdfast[s3]"
    assert (
        error.hint == "Install it: pip install 'holdfast[s3]' (from a clone: pip install '.[s3]'), or use a folder."
    )
    assert error.operation == "open"


def test_nobody_says_it_in_other_words() -> None:
    """What names an extra in the program is one that there is, and asks for its hint here."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named: set[str] = set()
    for path in (ROOT / "src" / "holdfast").rglob("*.py"):
        text = path.read_text()
        assert path.name == "extras.py" or not re.search(r"pip install '?(holdfast|\.)\[", text), path
        named.update(re.findall(r'extras\.(?:missing_extra\(\s*"[^"]*",\s*|install_command\()"(\w+)"', text))
    assert {"ui", "mcp", "s3", "keyring"} <= named <= known.keys()
