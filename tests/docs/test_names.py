"""Files, packages and dotted names of the code that pages and docstrings mention exist."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.name for path in (ROOT / "src/holdfast").iterdir() if (path / "__init__.py").exists())
TRACKED = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.splitlines() or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
PAGES = [name for name in TRACKED if name in ("README.md", "CONTRIBUTING.md") or re.fullmatch(r"docs/.*\.md", name)]
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|sql)")
PACKAGE = re.compile(rf"(?:(?:{'|'.join(PACKAGES)}|tests|bench)/)(?:[\w-]+/)*")
DOTTED = re.compile(r"(?:holdfast|tests)(?:\.\w+)+")
# Files that Holdfast writes into a home, or that a reader of the page writes.
WRITTEN = {"ask.py"}
# A setting of PostgreSQL, not a module.
SETTINGS = {"holdfast.administering"}


def mentioned(page: str, pattern: re.Pattern[str]) -> list[str]:
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return [word for word in CODE.findall(text) if pattern.fullmatch(word) and "NAME" not in word]


@pytest.mark.parametrize("page", PAGES)
def test_mentioned_files_exist(page: str) -> None:
    """A path is relative to the repository or to the package; a bare name is that of some file."""
    files = {name for path in TRACKED for name in (path, path.removeprefix("src/holdfast/"))}
    names = {path.rpartition("/")[2] for path in TRACKED} | WRITTEN
    assert [name for name in mentioned(page, FILE) if name not in (files if "/" in name else names)] == []


@pytest.mark.parametrize("page", PAGES)
def test_mentioned_packages_exist(page: str) -> None:
    """A directory that starts with one of our packages is a directory of the repository or the package."""
    missing = [
        name
        for name in mentioned(page, PACKAGE)
        if not any(path.startswith((name, f"src/holdfast/{name}")) or name == "bench/results/" for path in TRACKED)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_mentioned_names_exist(page: str) -> None:
    """A dotted name is a module, or an attribute of one."""
    missing = []
    for name in set(mentioned(page, DOTTED)) - SETTINGS:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ImportError:
            if not hasattr(importlib.import_module(module), attribute):
                missing.append(name)
    assert missing == []


# Files, and settings of git, whose first word is also the name of a module.
NOT_NAMES = {"config.toml", "events.jsonl", "history.jsonl", "workspace.yaml", "holdfast.js", "opencode.db"} | {
    *("core.hooksPath", "core.eol", "app.config"),
    *("times.asked", "base.Agent"),  # out of date: to be corrected with the modules that mention them
}
DOTTED_IN_DOCSTRING = re.compile(r"`(?:\w+\.)*([a-z_]\w*)\.(\w+)(?:\(\))?`")


def docstrings_and_names(tree: ast.Module) -> tuple[list[str], set[str]]:
    """The docstrings of a module, and every word of its code."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    return docstrings, set(re.findall(r"\w+", ast.unparse(tree)))


def test_dotted_names_in_docstrings_exist() -> None:
    """`module.name` in a docstring is a name in a module that is called so, or a module of such a package."""
    source = ROOT / "src/holdfast"
    names: dict[str, set[str]] = defaultdict(set)
    docstrings: dict[str, list[str]] = {}
    for path in sorted(source.rglob("*.py")):
        module = path.parent.name if path.stem == "__init__" else path.stem
        place = str(path.relative_to(source))
        docstrings[place], defined = docstrings_and_names(ast.parse(path.read_text(encoding="utf-8")))
        names[module] |= defined
        names[path.parent.name].add(path.stem)
        names[path.parent.parent.name].add(path.parent.name)
    missing = [
        f"{place}: {module}.{name}"
        for place, texts in docstrings.items()
        for text in texts
        for module, name in DOTTED_IN_DOCSTRING.findall(text)
        if module in names and name not in names[module] and f"{module}.{name}" not in NOT_NAMES and name != "py"
    ]
    assert not missing, "\n".join(missing)
