"""Plain words in names, messages, templates and scripts; unique public classes; loop variables with names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "holdfast"

# Words that tell a newcomer nothing; docs/README.md lists those to use.
BANNED: Final = frozenset(
    (
        *("told", "telling", "heard", "hearing", "ears", "said", "saying"),
        *("glance", "glances", "found", "gone", "held", "beside", "standing", "tending", "bygone"),
        *("ground", "grounds", "strange", "stranger", "strangers", "desk", "trouble", "troubles"),
    )
)

# Names of the standard library and of libraries, of errors in docs/reference/errors.md, of exit codes known by this
# name, and of the classes and fields of published schemas.
ALLOWED: Final = frozenset(
    (
        *("FileNotFoundError", "ModuleNotFoundError", "ResourceNotFoundError", "NOT_FOUND", "NotFound"),
        *("Standing", "Found", "Gone", "gone", "held"),
    )
)

# Public classes that may share a name, with the reason.
SHARED_CLASS_NAMES: Final = {
    "Conflict": "the error is documented and part of the library, the model names a published schema",
}

# Messages that stay: written into session files, recognised by an import, part of a published schema, and SQL. "Not
# found" is plain English.
ALLOWED_MESSAGES: Final = (
    *("not said", "interrupted: its process was found gone", "WITH gone AS "),
    *("A session at a glance.", "Stands beside the session files", "The session's file, beside the index."),
)
BANNED_IN_TEXTS: Final = BANNED - {"found"}

# Keys of answers that pages read.
ALLOWED_IN_SCRIPTS: Final = {"actions.js": {"said"}, "live.js": {"gone"}}

_FOR_ONE: Final = re.compile(r"\bfor\b[^:]*\bone\b[^:]*\bin\b")
_WORD: Final = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")
_TEXT_WORD: Final = re.compile(r"[A-Z]?[a-z]+")


def _modules(*roots: Path) -> list[Path]:
    return sorted(path for root in roots for path in root.rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every identifier in the code with its line, also within f-strings. String constants are not code."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, line
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, line
            case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, line
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name, line
            case ast.MatchClass(kwd_attrs=names) | ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from ((name, line) for name in names)
            case ast.alias(name=path, asname=name):
                yield from ((part, line) for part in (*path.split("."), *([] if name is None else [name])))


def _messages(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every string constant of several words with its line, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text.strip() and id(node) not in docstrings:
                if not text.startswith(ALLOWED_MESSAGES):
                    yield text, node.lineno


def _banned_in(text: str) -> set[str]:
    return {word.lower() for word in _TEXT_WORD.findall(text)} & BANNED_IN_TEXTS


@cache
def _banned(name: str) -> bool:
    return name not in ALLOWED and any(word.lower() in BANNED for word in _WORD.split(name))


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_identifiers_contain_no_banned_word() -> None:
    """Name a value for what it is: `session`, `match` or `path`, not `found`."""
    banned = [
        f"{_place(path, line)} {name}"
        for path in _modules(SOURCE)
        for name, line in [*_identifiers(_tree(path)), (path.stem, 1)]
        if _banned(name)
    ]
    assert not banned, "\n".join(banned)


def test_messages_contain_no_banned_word() -> None:
    """Also what people read is in plain words: `lost` or `deleted`, not `gone`."""
    banned = [
        f"{_place(path, line)} {text[:80]!r}"
        for path in _modules(SOURCE)
        for text, line in _messages(_tree(path))
        if _banned_in(text)
    ]
    assert not banned, "\n".join(banned)


def test_templates_and_scripts_contain_no_banned_word() -> None:
    """The dashboard's pages and their JavaScript use the same words as the code."""
    banned = [
        f"{_place(path, number)} {line.strip()[:80]}"
        for path in sorted(path for path in (SOURCE / "web").rglob("*") if path.suffix in (".html", ".js"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if _banned_in(line) - ALLOWED_IN_SCRIPTS.get(path.name, set())
    ]
    assert not banned, "\n".join(banned)


def test_loop_variables_say_what_they_are() -> None:
    """`for event in events`, not `for one in events`, in the tests too."""
    unnamed = [
        _place(path, target.lineno)
        for path in _modules(SOURCE, ROOT / "tests", ROOT / "bench")
        if _FOR_ONE.search(path.read_text(encoding="utf-8"))  # parsing all modules takes seconds
        for node in ast.walk(_tree(path))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))
        for target in ast.walk(node.target)
        if isinstance(target, ast.Name) and target.id == "one"
    ]
    assert not unnamed, "\n".join(unnamed)


def test_public_class_names_are_unique() -> None:
    """One name means one class; `SHARED_CLASS_NAMES` has the few exceptions, and no others."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in _modules(SOURCE):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(_place(path, node.lineno))
    shared = {name: lines for name, lines in places.items() if len(lines) > 1}
    unexpected = [f"{name}: {', '.join(shared[name])}" for name in sorted(shared.keys() - SHARED_CLASS_NAMES.keys())]
    assert not unexpected, "\n".join(unexpected)
    assert shared.keys() == SHARED_CLASS_NAMES.keys(), "remove the exceptions that are no longer needed"
