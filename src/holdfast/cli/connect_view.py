"""Show what connecting and disconnecting changed: each agent, its files, the lines that are new in them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.notes import public_path
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.conversations.adapters.index import title
from holdfast.core.wording import count, one_line

if TYPE_CHECKING:
    from holdfast.conversations.connect.apply import Connected, Touched

_SHOWN = 8
_ALIKE = 3


def public(one: Connected) -> dict[str, object]:
    return {
        "agent": one.agent,
        "scope": one.scope,
        "project": None if one.project is None else public_path(one.project),
        "files": [
            {"path": public_path(file.path), "change": file.change}
            | ({} if file.aside is None else {"aside": public_path(file.aside)})
            for file in one.files
        ],
        "server": None if one.server is None else public_path(one.server),
        "obstacles": list(one.obstacles),
        "notes": list(one.notes),
    }


def painted(paint: Paint, one: Connected, verdict: str, *, lines: bool = True) -> list[Painted]:
    """One agent: what it is now, its files, what was added to them, what stands in the way."""
    out = [paint.join(paint.bold(one.agent if one.agent == "git" else title(one.agent)), "  ", paint.green(verdict))]
    out += _files(paint, one.files)
    if one.server is not None:
        out.append(paint.join("  ", paint.dim("server "), f"{one.server_name} in {one.server}"))
    if lines:
        out += _added(paint, one.files)
    out += [paint.plain(f"  {note}") for note in one.notes]
    for obstacle in one.obstacles:
        out += [paint.yellow(f"  {line}") for line in wrap(paint.plain(obstacle), paint.width - 2)]
    return out


def _files(paint: Paint, files: Sequence[Touched]) -> Iterator[Painted]:
    """Each file; many that fared alike in one directory are told together."""
    together: dict[tuple[str, str], list[Touched]] = {}
    for file in files:
        together.setdefault((os.path.dirname(file.path), file.change), []).append(file)
    for (directory, change), alike in together.items():
        if len(alike) > _ALIKE:
            yield paint.join("  ", paint.dim(f"{change} "), f"{count(len(alike), 'file')} in {directory}")
        else:
            yield from (paint.join("  ", paint.dim(f"{change} "), file.path) for file in alike)
    for file in files:
        if file.aside is not None:
            yield paint.yellow(f"  {file.path} was changed since, and is kept as {file.aside}")


def _added(paint: Paint, files: Sequence[Touched]) -> Iterator[Painted]:
    """The first lines that are new in shared files, each once, without those that only close what others opened."""
    new = [line for file in files for line in _difference(file) if line.strip("+{}[], \t\r")]
    told = list(dict.fromkeys(f"+ {one_line(line[1:])}" for line in new))[:_SHOWN]
    for line in told:
        yield paint.cut(paint.join("    ", paint.green(line)), paint.width)
    if len(new) > len(told):
        yield paint.dim(f"    and {count(len(new) - len(told), 'more line')} like these")


def _difference(file: Touched) -> list[str]:
    if file.change not in ("created", "edited") or not file.path.endswith((".json", ".toml")):
        return []
    before, after = ((text or b"").decode(errors="replace").splitlines() for text in (file.before, file.after))
    return [
        line
        for line in difflib.unified_diff(before, after, lineterm="", n=0)
        # Only insertions are made: a line shown as gone is there again, longer.
        if line[:1] == "+" and line[:3] != "+++"
    ]
