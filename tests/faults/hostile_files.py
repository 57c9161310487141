"""Files that a hostile repository brings along: what each says, or is, where Holdfast reads."""

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

# As another program writes a line of the contract's history.
LINE: Final = (
    b'{"timestamp":"2026-01-01T00:00:00Z","command":"note","arguments":"a","model":"sonnet","agent":"coder",'
    b'"task_id":null,"status":"success","duration_ms":5}\n'
)
# Lists that refer to lists: ten levels of ten make 10^10 parts.
_LAUGHS: Final = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 11)
)


class Hostile(NamedTuple):
    name: str
    path: str
    plant: Plant


def _says(content: bytes) -> Plant:
    def plant(path: Path) -> None:
        path.write_bytes(content)

    return plant


def _grows(content: bytes, size: int) -> Plant:
    """At the end of what is there, again and again."""

    def plant(path: Path) -> None:
        with path.open("ab") as file:
            for _ in range(size // len(content)):
                file.write(content)

    return plant


def _leads(target: str) -> Plant:
    return lambda path: path.symlink_to(target)


def _forbids(path: Path) -> None:
    path.write_bytes(b"[timer]\nidle_minutes = 3\n")
    path.chmod(0)


# What no settings file may say, with the reader of TOML in mind.
BAD_SETTINGS: Final[dict[str, Plant]] = {
    "a key of 50,000 parts": _says(b".".join([b"a"] * 50_000) + b" = 1\n"),
    "a key of 30,000 parts": _says(b".".join([b"a"] * 30_000) + b" = 1\n"),
    "a table of 30,000 parts": _says(b"[" + b".".join([b"a"] * 30_000) + b"]\n"),
    "a quoted key of 15,000 parts": _says(b".".join([b'"a"'] * 15_000) + b" = 1\n"),
    "keys of 30,000 parts after quotes": _says(b'a = """x"""""\n' + b" . ".join([b"b"] * 15_000) + b" = 1\n"),
    "a number of 5,000 digits": _says(b"[timer]\nidle_minutes = " + b"9" * 5_000 + b"\n"),
    "another setting of 5,000 digits": _says(b"[x]\ny = -" + b"9" * 5_000 + b"\n"),
    "a list of 30,000 levels": _says(b"a = " + b"[" * 30_000),
    "tables of 10,000 levels": _says(b"a = " + b"{a = " * 10_000),
    "64 MiB": _says(b"#" * (64 * MIB)),
    "a key twice": _says(b"[timer]\nidle_minutes = 3\nidle_minutes = 4\n"),
    "NULs": _says(b"\0" * 100),
    "no UTF-8": _says(b"\xff\xfe[timer]\n"),
    "UTF-16": _says("[timer]\nidle_minutes = 3\n".encode("utf-16")),
    "a cut text": _says(b'[timer]\nidle_minutes = "'),
    "no table": _says(b"timer = 1\ncapture = 2\n"),
    "wrong values": _says(b"[timer]\nidle_minutes = -1\n[capture]\nbriefing = 'perhaps'\n"),
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": _leads("/dev/zero"),
    "a link to itself": _leads(SETTINGS),
    "a link out of the project": _leads("../outside.toml"),
    "nothing anybody may read": _forbids,
}

# The same for JSON; the limit of an agent's file in a project is 256 KiB.
_JSON: Final[dict[str, Plant]] = {
    "lists of 200,000 levels": _says(b"[" * 200_000),
    "80,000 lists": _says(b'{"hooks": [' + b"[]," * 80_000 + b'[]], "x": "holdfast hook"}'),
    "a number of 5,000 digits": _says(b'{"hooks": ' + b"9" * 5_000 + b', "x": "holdfast"}'),
    "30 MiB": _says(b'{"hooks": [' + b"[]," * (10 * MIB) + b'[]], "x": "holdfast hook"}'),
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": _leads("/dev/zero"),
}
_AGENTS: Final = (
    ".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".codex/hooks.json", ".gemini/settings.json",
    ".cursor/hooks.json", ".opencode/opencode.json",
)  # fmt: skip

_HISTORIES: Final[dict[str, Plant]] = {
    "60 MB of lines": _grows(LINE, 60_000_000),
    "60 MB of short lines": _grows(b"{}\n" * 10_000, 60_000_000),
    "60 MB that cannot be read": _grows(b"x\n" * 10_000, 60_000_000),
    "60 MB of lists": _grows(b'{"a":[' + b"[]," * 20_000_000 + b"[]]}\n", 60_000_100),
    "a line cut off a thousand times": _grows(LINE[:60] + b"\n", 60_000),
}
_DOCUMENTS: Final[dict[str, Plant]] = {
    "aliases": _says(_LAUGHS),
    "lists of 300,000 levels": _says(b"[" * 300_000),
    "a million lists": _says(b'{"a": [' + b"[]," * 1_000_000 + b"[]]}"),
    "a number of 5,000 digits": _says(b'{"schema_version": ' + b"9" * 5_000 + b"}"),
    "64 MiB": _says(b" " * (64 * MIB)),
    "a named pipe": os.mkfifo,
    "a device": _leads("/dev/zero"),
}
_OTHERS: Final = (
    Hostile(".gitignore is a device", ".gitignore", _leads("/dev/zero")),
    Hostile(".gitignore is a named pipe", ".gitignore", os.mkfifo),
    Hostile(".gitignore of 30 MiB", ".gitignore", _says(b"x\n" * (15 * MIB))),
    Hostile("a plan of 400,000 tasks", "plan.md", _says(b"- [ ] x\n" * 400_000)),
    Hostile("a plan of 300,000 levels", "plan.md", _says(b"- " * 300_000 + b"x")),
    Hostile("a specification of 30 MiB", "spec.md", _says(b"# x\n" * (8 * MIB))),
    Hostile("a changed file that is a device", "made.txt", _leads("/dev/zero")),
)


def _mirrored() -> Iterator[str]:
    for layout in LAYOUTS.values():
        yield from layout({}).fixed
    yield ".ai-session/*/state.yaml"


def settings() -> list[Hostile]:
    return [Hostile(f"settings: {name}", SETTINGS, plant) for name, plant in BAD_SETTINGS.items()]


def others() -> list[Hostile]:
    """Everything but Holdfast's own settings."""
    found = [Hostile(f"{path}: {name}", path, plant) for path in _AGENTS for name, plant in _JSON.items()]
    found += [Hostile(f"history: {name}", HISTORY, plant) for name, plant in _HISTORIES.items()]
    found += [Hostile(f"{path}: {name}", path, plant) for path in _mirrored() for name, plant in _DOCUMENTS.items()]
    return [*found, *_OTHERS]


def put(hostile: Hostile, project: Path) -> list[Path]:
    """Plant it in a project, in the place of what is there; lines are added to a history. Gives where it is."""
    found = sorted(project.glob(hostile.path)) if "*" in hostile.path else [project / hostile.path]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        if hostile.path != HISTORY:
            path.unlink(missing_ok=True)
        hostile.plant(path)
    return found
