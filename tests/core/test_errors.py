"""Errors that are worded once for the whole program: an extra that is not installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from holdfast.core.errors import missing_extra

ROOT = Path(__file__).parents[2]
_NAMES_EXTRA = re.compile(r'(?:missing_extra\(\s*"[^"]*",\s*|install_command\()"(\w+)"')


def test_missing_extra_says_how_to_install_it() -> None:
    """From the package index, and from a clone."""
    error = missing_extra("an S3 remote", "s3", otherwise="use a folder.", operation="open")
    assert error.message == "an S3 remote needs an extra that is not installed: holdfast[s3]"
    assert (
        error.hint == "Install it: pip install 'holdfast[s3]' (from a clone: pip install '.[s3]'), or use a folder."
    )
    assert error.operation == "open"


def test_extras_named_in_errors_exist() -> None:
    """No module words the hint itself, and each name is one of the project's extras."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named: set[str] = set()
    for path in (ROOT / "src" / "holdfast").rglob("*.py"):
        text = path.read_text()
        assert path.name == "errors.py" or not re.search(r"pip install '?(holdfast|\.)\[", text), path
        named.update(_NAMES_EXTRA.findall(text))
    assert {"ui", "mcp", "s3", "keyring"} <= named <= known.keys()
