"""Files of a hostile repository at the paths that Holdfast reads: what each contains, or is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.formats.mirror.layouts import LAYOUTS

MIB: Final = 1 << 20
SETTINGS: Final = ".holdfast.toml"
HISTORY: Final = ".ai-session/*/history.jsonl"
Plant = Callable[[Path], None]

# A line of the contract's history as another program writes it.
LINE: Final = (
    b'{"timestamp":"2026-01-01T00:00:00Z","command":"note","arguments":"a","model":"sonnet","agent":"coder",'
    b'"task_id":null,"status":"success","duration_ms":5}\n'
)
# Aliases of lists of aliases: ten levels of ten make 10^10 items.
_LAUGHS: Final = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 11)
)


class Hostile(NamedTuple):
    name: str
    path: str
    plant: Plant


def _with_content(content: bytes) -> Plant:
    def plant(path: Path) -> None:
        path.write_bytes(content)

    return plant


def _append(content: bytes, size: int) -> Plant:
    """Append it repeatedly to the existing content."""

    def plant(path: Path) -> None:
        with path.open("ab") as file:
            for _ in range(size // len(content)):
                file.write(content)

    return plant


def _link_to(target: str) -> Plant:
    return lambda path: path.symlink_to(target)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"[timer]\nidle_minutes = 3\n")
    path.chmod(0)


# Content and kinds of file that no settings file may have.
BAD_SETTINGS: Final[dict[str, Plant]] = {
    "a key of 50,000 parts": _with_content(b".".join([b"a"] * 50_000) + b" = 1\n"),
    "a key of 30,000 parts": _with_content(b".".join([b"a"] * 30_000) + b" = 1\n"),
    "a table of 30,000 parts": _with_content(b"[" + b".".join([b"a"] * 30_000) + b"]\n"),
    "a quoted key of 15,000 parts": _with_content(b".".join([b'"a"'] * 15_000) + b" = 1\n"),
    "keys of 30,000 parts after quotes": _with_content(b'a = """x"""""\n' + b" . ".join([b"b"] * 15_000) + b" = 1\n"),
    "a number of 5,000 digits": _with_content(b"[timer]\nidle_minutes = " + b"9" * 5_000 + b"\n"),
    "another setting of 5,000 digits": _with_content(b"[x]\ny = -" + b"9" * 5_000 + b"\n"),
    "a list of 30,000 levels": _with_content(b"a = " + b"[" * 30_000),
    "tables of 10,000 levels": _with_content(b"a = " + b"{a = " * 10_000),
    "64 MiB": _with_content(b"#" * (64 * MIB)),
    "a key twice": _with_content(b"[timer]\nidle_minutes = 3\nidle_minutes = 4\n"),
    "NULs": _with_content(b"\0" * 100),
    "no UTF-8": _with_content(b"\xff\xfe[timer]\n"),
    "UTF-16": _with_content("[timer]\nidle_minutes = 3\n".encode("utf-16")),
    "a cut text": _with_content(b'[timer]\nidle_minutes = "'),
    "no table": _with_content(b"timer = 1\ncapture = 2\n"),
    "wrong values": _with_content(b"[timer]\nidle_minutes = -1\n[capture]\nbriefing = 'perhaps'\n"),
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": _link_to("/dev/zero"),
    "a link to itself": _link_to(SETTINGS),
    "a link out of the project": _link_to("../outside.toml"),
    "nothing anybody may read": _unreadable,
}

# The same for JSON; an agent's file in a project is limited to 256 KiB.
_JSON: Final[dict[str, Plant]] = {
    "lists of 200,000 levels": _with_content(b"[" * 200_000),
    "80,000 lists": _with_content(b'{"hooks": [' + b"[]," * 80_000 + b'[]], "x": "holdfast hook"}'),
    "a number of 5,000 digits": _with_content(b'{"hooks": ' + b"9" * 5_000 + b', "x": "holdfast"}'),
    "30 MiB": _with_content(b'{"hooks": [' + b"[]," * (10 * MIB) + b'[]], "x": "holdfast hook"}'),
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": _link_to("/dev/zero"),
}
_AGENTS: Final = (
    ".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".codex/hooks.json", ".gemini/settings.json",
    ".cursor/hooks.json", ".opencode/opencode.json",
)  # fmt: skip

_HISTORIES: Final[dict[str, Plant]] = {
    "60 MB of lines": _append(LINE, 60_000_000),
    "60 MB of short lines": _append(b"{}\n" * 10_000, 60_000_000),
    "60 MB that cannot be read": _append(b"x\n" * 10_000, 60_000_000),
    "60 MB of lists": _append(b'{"a":[' + b"[]," * 20_000_000 + b"[]]}\n", 60_000_100),
    "a line cut off a thousand times": _append(LINE[:60] + b"\n", 60_000),
}
_DOCUMENTS: Final[dict[str, Plant]] = {
    "aliases": _with_content(_LAUGHS),
    "lists of 300,000 levels": _with_content(b"[" * 300_000),
    "a million lists": _with_content(b'{"a": [' + b"[]," * 1_000_000 + b"[]]}"),
    "a number of 5,000 digits": _with_content(b'{"schema_version": ' + b"9" * 5_000 + b"}"),
    "64 MiB": _with_content(b" " * (64 * MIB)),
    "a named pipe": os.mkfifo,
    "a device": _link_to("/dev/zero"),
}
_OTHERS: Final = (
    Hostile(".gitignore is a device", ".gitignore", _link_to("/dev/zero")),
    Hostile(".gitignore is a named pipe", ".gitignore", os.mkfifo),
    Hostile(".gitignore of 30 MiB", ".gitignore", _with_content(b"x\n" * (15 * MIB))),
    Hostile("a plan of 400,000 tasks", "plan.md", _with_content(b"- [ ] x\n" * 400_000)),
    Hostile("a plan of 300,000 levels", "plan.md", _with_content(b"- " * 300_000 + b"x")),
    Hostile("a specification of 30 MiB", "spec.md", _with_content(b"# x\n" * (8 * MIB))),
    Hostile("a changed file that is a device", "made.txt", _link_to("/dev/zero")),
)


def _mirrored() -> Iterator[str]:
    for layout in LAYOUTS.values():
        yield from layout({}).fixed
    yield ".ai-session/*/state.yaml"


def settings() -> list[Hostile]:
    return [Hostile(f"settings: {name}", SETTINGS, plant) for name, plant in BAD_SETTINGS.items()]


def others() -> list[Hostile]:
    """Everything except Holdfast's own settings."""
    files = [Hostile(f"{path}: {name}", path, plant) for path in _AGENTS for name, plant in _JSON.items()]
    files += [Hostile(f"history: {name}", HISTORY, plant) for name, plant in _HISTORIES.items()]
    files += [Hostile(f"{path}: {name}", path, plant) for path in _mirrored() for name, plant in _DOCUMENTS.items()]
    return [*files, *_OTHERS]


def put(hostile: Hostile, project: Path) -> list[Path]:
    """Plant it in a project, in place of an existing file; lines are appended to a history. Returns its paths."""
    paths = sorted(project.glob(hostile.path)) if "*" in hostile.path else [project / hostile.path]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if hostile.path != HISTORY:
            path.unlink(missing_ok=True)
        hostile.plant(path)
    return paths
