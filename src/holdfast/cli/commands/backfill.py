"""`holdfast backfill [AGENT…] [--since DATE]`: what agents wrote down themselves becomes history."""

from __future__ import annotations

import os
import sys

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.paint import Column, Paint, Painted, terminal
from holdfast.core.times import format_duration
from holdfast.core.wording import count
from holdfast.machine.wall import midnight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.conversations.backfill.run import Backfilled

_SHOWN_PROBLEMS = 10
_BAR = 30


def run(call: Call) -> int:
    from holdfast.conversations.adapters.index import NAMES, agent
    from holdfast.conversations.backfill.run import backfill, unread

    names = call.parsed.texts("agents")
    for name in names:
        if name not in NAMES:
            agent(name)  # says so, before anything is read
    bar = _Bar(call)
    try:
        found = backfill(call.keeper, places(call), names, since=_since(call), progress=bar.draw)
    finally:
        bar.clear()
    shown = [backfilled for backfilled in found if backfilled.sources or names or backfilled.unread]
    failed = unread(found)
    call.answer(
        {"backfill": [_public(backfilled) for backfilled in found]},
        lambda paint: Painted("") if call.quiet else _painted(paint, shown),
        error=failed[0] if failed else None,
    )
    code = call.failed(failed)
    problems = [problem for backfilled in found for problem in backfilled.problems]
    for problem in problems[:_SHOWN_PROBLEMS]:
        call.note(f"Not all could be read: {problem}")
    if len(problems) > _SHOWN_PROBLEMS:
        call.note(f"… and {len(problems) - _SHOWN_PROBLEMS:,} more; --json names them.")
    call.tell()
    return code


def _since(call: Call) -> int | None:
    written = call.parsed.text("since")
    return midnight(written) if written is not None and len(written) == 10 else call.moment(written)


def _public(one: Backfilled) -> dict[str, object]:
    return {
        "agent": one.agent, "sources": one.sources, "read": one.read, "conversations": one.conversations,
        "sessions": one.sessions, "grown": one.grown, "events": one.events, "working_ms": one.worked,
        "problems": one.problems, "unread": one.unread,
    }  # fmt: skip


def _painted(paint: Paint, found: list[Backfilled]) -> Painted:
    if not found:
        return paint.plain("No agent has kept any conversations here.")
    columns = [
        Column("Agent"), Column("Files", "right"), Column("Read", "right"), Column("New sessions", "right"),
        Column("Grown", "right"), Column("Events", "right"), Column("Worked", "right"),
    ]  # fmt: skip
    cells: list[list[str]] = [
        [paint.bold(backfilled.agent), f"{backfilled.sources:,}", f"{backfilled.read:,}", f"{backfilled.sessions:,}",
         f"{backfilled.grown:,}", f"{backfilled.events:,}",
         format_duration(backfilled.worked) if backfilled.worked else ""]
        for backfilled in found
    ]  # fmt: skip
    new = sum(backfilled.sessions for backfilled in found)
    grown = sum(backfilled.grown for backfilled in found)
    if new or grown:
        told = f"{count(new, 'session')} recorded" + (f", {grown:,} grown" if grown else "")
        verdict = paint.green(f"{told}. holdfast history --all-projects shows them.")
    elif any(backfilled.unread for backfilled in found):
        verdict = paint.plain("Nothing new in what could be read.")
    else:
        verdict = paint.plain("Nothing new.")
    return Painted(f"{paint.table(cells, columns)}\n\n{verdict}")


class _Bar:
    """One line on the terminal that fills up; nothing anywhere else."""

    def __init__(self, call: Call) -> None:
        self._paint = terminal(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._wanted = self._paint.tty and not call.json and not call.quiet
        self._shown = ""

    def draw(self, done: int, total: int, name: str) -> None:
        if not self._wanted:
            return
        share = done / total if total else 1.0
        line = f"{int(share * 100):3d}%"
        if line == self._shown:
            return
        self._shown = line
        paint = self._paint
        where = paint.dim(os.path.basename(name))
        whole = paint.cut(paint.join(paint.bar(share, _BAR), f" {line}  ", where), paint.width - 1)
        sys.stderr.write(f"\r\x1b[2K{whole}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
