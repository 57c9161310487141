"""`holdfast recover PATH [--start]`: what can still be read of damaged session files, and a session made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import failure, named, public_notes, public_path, tell_notes
from holdfast.cli.paint import Paint, Painted
from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.core.wording import count, one_line

if TYPE_CHECKING:
    from holdfast.formats.base import FormatNote
    from holdfast.formats.recover import Rescue


def run(call: Call) -> int:
    from holdfast.formats.recover import recover

    path = call.parsed.need("path")
    found = recover(call.keeper, path)
    if not any(rescue.something for rescue in found):
        raise _nothing(path, found)
    sessions, more, failed = _started(call, found) if call.parsed.flag("start") else ({}, {}, {})
    if failed and not sessions and len(found) == 1:
        raise failed[0]
    files = [_public(rescue, more.get(number, [])) for number, rescue in enumerate(found)]
    call.answer(
        {"files": files, "sessions": list(dict.fromkeys(sessions.values()))},
        lambda paint: _painted(paint, path, found, sessions, quiet=call.quiet),
    )
    for number, rescue in enumerate(found):
        about = f"{named(rescue.path)} " if len(found) > 1 else ""
        tell_notes(call, [*rescue.notes, *more.get(number, [])], about=about)
        if number in failed:
            call.note(f"{about}no session was made of it: {failed[number].message}")
    if call.parsed.flag("start"):
        call.tell()
    return 0


def _started(
    call: Call, found: list[Rescue]
) -> tuple[dict[int, str], dict[int, list[FormatNote]], dict[int, HoldfastError]]:
    """The session of every file it can be made of. Of a directory, sound files are left alone."""
    from holdfast.formats.recover import start

    sessions: dict[int, str] = {}
    more: dict[int, list[FormatNote]] = {}
    failed: dict[int, HoldfastError] = {}
    for number, rescue in enumerate(found):
        if not rescue.something or (rescue.whole and len(found) > 1):
            continue
        try:
            sessions[number], notes = start(call.keeper, rescue)
        except HoldfastError as error:
            failed[number] = error
        else:
            more[number] = [note for note in notes if note not in rescue.notes]
    return sessions, more, failed


def _nothing(path: str, found: list[Rescue]) -> HoldfastError:
    error = next((rescue.error for rescue in found if rescue.error is not None), None)
    if error is not None and len(found) == 1:
        return error
    return Invalid(
        f"nothing could be recovered from {path}",
        hint="holdfast history shows what the log knows; holdfast start GOAL --replace starts afresh.",
        file=path,
    )


def _public(one: Rescue, more: list[FormatNote]) -> dict[str, object]:
    return {
        "path": public_path(one.path), "format": None if one.rules is None else one.rules.name, "whole": one.whole,
        "document": one.document, "notes": public_notes([*one.notes, *more]), "lost_from": one.lost_from,
        "known": one.known, "error": None if one.error is None else one.error.message,
        "hint": None if one.error is None else one.error.hint,
    }  # fmt: skip


def _painted(paint: Paint, path: str, found: list[Rescue], sessions: dict[int, str], *, quiet: bool) -> Painted:
    lines = [_lines(paint, rescue, sessions.get(number), quiet=quiet) for number, rescue in enumerate(found)]
    if all(rescue.whole for rescue in found) and not quiet:
        said = "It is whole" if len(found) == 1 else f"{count(len(found), 'file')} looked at, all whole"
        new = not sessions and any(
            rescue.rules is not None and rescue.known is None and rescue.error is None for rescue in found
        )
        them = f"{named(path)} takes {'it' if len(found) == 1 else 'them'} in"
        take = f" holdfast import {them}." if new and path != "-" else ""
        lines.append(paint.plain(f"{said}: nothing needs to be recovered.{take}"))
    return Painted("\n".join(lines))


def _lines(paint: Paint, one: Rescue, session: str | None, *, quiet: bool) -> Painted:
    what = "no known format" if one.rules is None else one.rules.name
    if not one.something:
        if one.error is not None:
            # What could not be opened may well be sound.
            verdict = "not read" if isinstance(one.error, Failed) else "lost"
            return paint.join(paint.red(verdict), f"  {failure(one.error, one.path)}")
        return paint.join(paint.red("lost"), f"  {named(one.path)}: nothing in it is complete")
    verdict = paint.green("whole") if one.whole else paint.yellow("recovered")
    lines = [paint.join(verdict, f"  {named(one.path)} ", paint.dim(f"({what})"))]
    if not quiet:
        lines += [paint.plain(f"  {line}") for line in _details(one)]
    if one.known is not None:
        lines += [paint.plain(f"  {line}") for line in _about_the_log(one, started=session is not None)]
        if one.rules is not None and not one.whole:
            lines.append(paint.dim(f"  holdfast mirror on {one.rules.name} writes its file again"))
    elif session is not None:
        lines.append(paint.plain(f"  session {session}: holdfast show {session[:8]}, holdfast resume {session[:8]}"))
    return Painted("\n".join(lines))


def _about_the_log(one: Rescue, *, started: bool) -> list[str]:
    """What the log knows of the session, and whether the file knows more."""
    show = f"holdfast show {one.known}"
    if one.more is None:
        return [f"the log knows this session{'' if one.whole else ', and there nothing is lost'}: {show}"]
    if started:
        return [f"the log knows this session, and now has what only this file told: {show}"]
    unite = f"holdfast import {named(one.path)}" if one.whole else f"holdfast recover {named(one.path)} --start"
    return [
        f"the log knows this session ({show}), but this file tells more",
        f"{unite} unites them",
    ]


def _details(one: Rescue) -> list[str]:
    lines = []
    if one.contents is not None:
        told = one.contents
        if told.goal:
            lines.append(f"goal: {one_line(told.goal)}")
        lines.append(
            f"{count(told.agents, 'agent')}, {count(told.tasks, 'task')}, {count(told.decisions, 'decision')}"
        )
    elif isinstance(one.document, (dict, list)) and not one.whole:
        lines.append(
            count(
                len(one.document),
                "field" if isinstance(one.document, dict) else "entry",
                "entries" if isinstance(one.document, list) else "",
            )
        )
    if one.error is not None:
        from holdfast.formats.discover import reason

        lines.append(reason(one.error, one.path))
    if one.lost_from is not None:
        lines.append(f"lost from byte {one.lost_from:,} (line {one.lost_line or 1:,}) on")
    elif not one.whole:
        lines.append("nothing is lost")
    return lines
