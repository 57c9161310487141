"""`holdfast why COMMIT | FILE[:LINE]`: which session and conversation made it, and how sure that is."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.commands.file import inside
from holdfast.cli.paint import Paint, Painted
from holdfast.sessions.why import Origin, WhyAnswer


def run(call: Call) -> None:
    found = call.keeper.why(_within(call.parsed.need("what"), call.keeper.place.root))
    document = {
        "commit": found.commit, "file": found.file, "line": found.line,
        "sessions": [session._asdict() for session in found.sessions],
    }  # fmt: skip
    call.answer(document, lambda paint: _shown(paint, found))


def _within(what: str, root: str) -> str:
    """A path as the project has it; the name of a commit stays as it is."""
    path, colon, number = what.rpartition(":")
    if colon and number.isdecimal() and os.path.lexists(path):
        return f"{inside(path, root)}:{number}"
    return inside(what, root) if os.path.lexists(what) else what


def _shown(paint: Paint, found: WhyAnswer) -> Painted:
    lines: list[str] = [paint.cut(paint.bold(found.about), paint.width)]
    for session in found.sessions:
        lines += ["", *_one(paint, session)]
    if not found.sessions:
        lines.append(paint.plain("Nothing that is recorded says who made it."))
    return Painted("\n".join(lines))


def _one(paint: Paint, one: Origin) -> list[str]:
    word = {"certain": paint.green, "likely": paint.plain}.get(one.certainty, paint.yellow)(one.certainty)
    head = paint.join("  ", word, "  ", paint.bold(one.goal), "  ", paint.dim(one.id[:8]))
    talk = f"conversation {one.conversation}" if one.conversation else "no conversation"
    return [paint.cut(head, paint.width), *(f"    {line}" for line in _wrapped(paint, f"{talk}; {one.because}"))]


def _wrapped(paint: Paint, words: str) -> list[str]:
    from holdfast.cli.cells import wrap

    return list(wrap(paint.plain(words), paint.width - 4))
