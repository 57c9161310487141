"""`holdfast mirror on|off FORMAT`, `mirror status`: live files in the project, in one of the four formats."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core.times import format_time

if TYPE_CHECKING:
    from holdfast.formats.mirror.mirrors import Mirrored


def on(call: Call) -> None:
    name = call.parsed.need("format")
    call.keeper.mirrors.switch_on(name, current_stays=_asked(call, name), gitignore=call.parsed.flag("gitignore"))
    _answer(call, f"{name} is mirrored from now on")


def _asked(call: Call, name: str) -> bool | None:
    """Where a file holds another session than the current one: whether the current one stays, if somebody says so."""
    if call.parsed.globals.yes or not call.asks():
        return None
    stays = call.keeper.mirrors.current_stays(name)
    if stays is None:
        return None
    which = "was worked on before the current one. Keep the current one" if stays else "is newer. Go on with that one"
    answer = call.ask(f"The {name} file holds another session, which {which}? [Y/n]")
    return stays if (answer or "y").lower() in ("y", "yes") else not stays


def off(call: Call) -> None:
    name = call.parsed.need("format")
    call.keeper.mirrors.switch_off(name)
    _answer(call, f"{name} is no longer mirrored; its files stay as they are")


def status(call: Call) -> None:
    changed = call.keeper.mirrors.changed_outside()
    call.keeper.collect()
    _answer(call, None, changed)


def _answer(call: Call, line: str | None, changed: Container[str] = ()) -> None:
    found = call.keeper.mirrors.status(changed)
    call.answer(
        {"mirrors": [_public(mirrored) for mirrored in found]},
        lambda paint: _painted(paint, found, line, quiet=call.quiet and line is not None),
    )
    call.tell_of_mirrors()


def _public(one: Mirrored) -> dict[str, object]:
    return {
        "format": one.format,
        "paths": one.paths,
        "last_written": None if one.last_written is None else format_time(one.last_written),
        "changed_outside": one.changed_outside,
        "rejected": [
            {"path": bad.path, "aside": bad.aside, "reason": bad.reason, "at": format_time(bad.at)}
            for bad in one.rejected
        ],
        "held": [{"path": path, "reason": reason} for path, reason in one.held.items()],
        "trouble": one.trouble,
    }


def _painted(paint: Paint, found: list[Mirrored], line: str | None, *, quiet: bool) -> Painted:
    if quiet:
        return Painted("")
    lines = [] if line is None else [paint.plain(line)]
    if not found:
        if line is None:
            lines.append(paint.dim("Nothing is mirrored here: holdfast mirror on FORMAT"))
        return Painted("\n".join(lines))
    for mirrored in found:
        when = (
            "nothing written yet"
            if mirrored.last_written is None
            else f"written {format_time(mirrored.last_written)}"
        )
        lines.append(paint.heading(mirrored.format, when))
        shown = mirrored.paths[:8]
        lines += [paint.join("  ", path) for path in shown]
        if len(mirrored.paths) > len(shown):
            lines.append(paint.dim(f"  and {len(mirrored.paths) - len(shown)} more"))
        if mirrored.changed_outside:
            lines.append(paint.yellow("  somebody else changed it"))
        lines += [paint.yellow(f"  {path} is left alone: {reason}") for path, reason in mirrored.held.items()]
        lines += [paint.red(f"  {bad.aside}: {bad.reason}") for bad in mirrored.rejected]
        if mirrored.trouble is not None:
            lines.append(paint.red(f"  could not be written: {mirrored.trouble}"))
    return Painted("\n".join(lines))
