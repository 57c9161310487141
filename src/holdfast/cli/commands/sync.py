"""`holdfast sync`: what other devices did comes here, and what was done here goes there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted, terminal
from holdfast.core.errors import HoldfastError
from holdfast.core.wording import count
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.sync.sync import Synced

_MOST_TOLD = 3
_BAR = 30
_DRAWN_AFTER = 0.7  # seconds: what is over sooner needs no bar
_DRAWN_EVERY = 0.1


def run(call: Call) -> int:
    from holdfast.sync.sync import sync

    bar = Bar(call)
    try:
        done = sync(call.keeper, call.parsed.text("remote"), progress=bar.draw, put_back=call.parsed.flag("put_back"))
    finally:
        bar.clear()
    failed = [_of(name, error) for name, error in done.failed.items()]
    if not failed or done.reached or call.json:
        _tell(call, done, failed)
    for error in failed[1:]:
        call.note(error.message + (f" ({error.hint})" if error.hint else ""))
    if failed and not call.json:
        raise failed[0]
    return failed[0].exit_code if failed else 0


def _tell(call: Call, done: Synced, failed: Sequence[HoldfastError]) -> None:
    report = done.report
    remotes = [{"name": name, "error": None} for name in done.reached]
    remotes += [{"name": name, "error": error.message} for name, error in done.failed.items()]
    call.answer(
        {
            "pushed": report.pushed, "pulled": report.pulled, "conflicts": done.conflicts,
            "rejected": [refused._asdict() for refused in report.rejected],
            "notes": report.notes, "remotes": remotes,
            "sessions": [session._asdict() for session in done.sessions],
            "deleted": [{"session": deleted.session, "device": deleted.device} for deleted in report.deleted],
        },
        lambda paint: _painted(paint, done, quiet=call.quiet),
        error=failed[0] if failed else None,
    )  # fmt: skip
    for sentence in report.notes:
        call.note(sentence)
    if done.conflicts:
        disputed = [session.id[:8] for session in done.sessions if session.conflicts]
        where = ", ".join(f"holdfast conflicts {name}" for name in disputed[:_MOST_TOLD])
        more = f", and in {len(disputed) - _MOST_TOLD} more sessions" if len(disputed) > _MOST_TOLD else ""
        call.note(f"{count(done.conflicts, 'conflict')} to look at: {where}{more}")
    call.tell_of_mirrors()


def _painted(paint: Paint, done: Synced, *, quiet: bool) -> Painted:
    sent, received = done.report.pushed, done.report.pulled
    lines: list[str] = []
    if not quiet:
        told = [f"sent {sent:,}"] if sent else []
        told += [f"received {received:,}"] if received else []
        lines.append(paint.plain(f"{', '.join(told).capitalize()}." if told else "Nothing new."))
        lines += [
            paint.cut(paint.join("  ", paint.dim(session.id[:8]), "  ", session.goal), paint.width)
            for session in done.sessions[:_MOST_TOLD]
        ]
        if len(done.sessions) > _MOST_TOLD:
            lines.append(paint.dim(f"  and {count(len(done.sessions) - _MOST_TOLD, 'more session')}"))
    alike: dict[tuple[str, str], list[str]] = {}
    for refused in done.report.rejected:
        alike.setdefault((refused.device, refused.reason), []).append(refused.pack)
    for (device, reason), packs in alike.items():
        whose = f" of {device}" if device else ""
        times = f", {len(packs):,} times" if len(packs) > 1 else ""
        where = f" ({packs[0]}{', …' if len(packs) > 1 else ''})" if packs[0] else ""
        lines.append(paint.join(paint.yellow("Not taken in"), whose, ": ", reason, times, paint.dim(where)))
    return Painted("\n".join(lines))


def _of(name: str, error: HoldfastError) -> HoldfastError:
    """The same error, with the remote it is about."""
    error.message = f"{name}: {error.message}"
    error.operation = "sync"
    return error


class Bar:
    """One line on the terminal that says how far a long sync is; nothing anywhere else."""

    def __init__(self, call: Call) -> None:
        self._paint = terminal(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._wanted = self._paint.tty and not call.json and not call.quiet
        self._next = monotonic() + _DRAWN_AFTER
        self._shown = False

    def draw(self, done: int, total: int, what: str) -> None:
        now = monotonic()
        if not self._wanted or now < self._next:
            return
        self._next = now + _DRAWN_EVERY
        paint = self._paint
        far = paint.join(paint.bar(done / total, _BAR), f" {done:,} of {total:,} ") if total else f"{done:,} "
        sys.stderr.write(f"\r\x1b[2K{paint.cut(paint.join(far, paint.dim(what)), paint.width - 1)}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
