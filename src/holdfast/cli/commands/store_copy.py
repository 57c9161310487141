"""`holdfast store copy FROM TO`: everything of one store into another, with the proof that it is there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.cli import left_out
from holdfast.cli.call import Call
from holdfast.cli.commands.store import switching
from holdfast.cli.home_location import home
from holdfast.cli.paint import Paint, Painted, terminal
from holdfast.core.errors import Interrupted
from holdfast.core.wording import count
from holdfast.keeper import store_admin
from holdfast.machine.wall import monotonic
from holdfast.store.address import PostgresAddress
from holdfast.workspace.home import Home

if TYPE_CHECKING:
    from holdfast.store.store_copy import Progress

_BAR = 30
_DRAWN_EVERY = 0.05
_STEPS = {
    "checking": "checking {} of the source",
    "copying": "copying their events",
    "comparing": "comparing {} with the copy",
}


def run(call: Call) -> int:
    own = Home(home(call.environ))
    source, target = call.url(call.parsed.need("source")), call.url(call.parsed.need("target"))
    bar = _Bar(call)
    try:
        done = store_admin.copy(own, source, target, bar.draw)
    except KeyboardInterrupt:
        bar.clear()
        raise Interrupted(
            "interrupted: nothing of the source was changed, and what was copied by then is whole",
            hint="The same command goes on from there.",
        ) from None
    finally:
        bar.clear()
    left = done.copied.left_out
    error = store_admin.incomplete(left, "copied", "run the same command again", file=done.target.url)
    call.answer(
        {"copied": {
            "from": done.source.url, "to": done.target.url, "sessions": done.copied.sessions,
            "events": done.copied.events,
        }, "verified": done.copied.sessions, "left_out": left_out.documents(left)},
        lambda paint: "" if call.quiet else _painted(paint, done),
        error=error,
    )  # fmt: skip
    _tell_how_to_switch(call, own, done)
    return left_out.end(call, left, error)


def _painted(paint: Paint, done: store_admin.MoveResult) -> Painted:
    events, sessions = done.copied.events, done.copied.sessions
    first = paint.green(f"Copied {count(events, 'event')}") if events else paint.plain("Nothing new to copy")
    same = f"; {count(sessions, 'session')} compared, the same in both" if sessions else ""
    return paint.join(first, same, paint.dim(f"  {done.target.url}"))


def _tell_how_to_switch(call: Call, own: Home, done: store_admin.MoveResult) -> None:
    target = done.target
    how = "unset HOLDFAST_STORE" if target.path == own.store else switching(target)
    call.note(f"To go on there: {how}")
    if isinstance(target, PostgresAddress) and target.hides:
        call.note("Its password belongs into ~/.pgpass, not into this line.")
    agents = store_admin.connected_agents(own)
    if agents:
        call.note(
            f"Hooks of agents stay with the store they were connected to; then: holdfast connect {' '.join(agents)}"
        )


class _Bar:
    """On a terminal one line that fills up, elsewhere a line for each step; nothing with `--quiet` or `--json`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._paint = terminal(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._wanted = not call.json and not call.quiet
        self._said: set[str] = set()
        self._shown = False
        self._next = 0.0

    def draw(self, far: Progress) -> None:
        if not self._wanted:
            return
        step = _STEPS[far.doing].format(count(far.of, "session"))
        if not self._paint.tty:
            if far.doing not in self._said:
                self._said.add(far.doing)
                self._call.note(step)
            return
        now = monotonic()
        if now < self._next and far.done < far.of:
            return
        self._next = now + _DRAWN_EVERY
        share = far.done / far.of if far.of else 1.0
        paint = self._paint
        whole = paint.join(paint.bar(share, _BAR), f" {int(share * 100):3d}%  ", paint.dim(step))
        sys.stderr.write(f"\r\x1b[2K{paint.cut(whole, paint.width - 1)}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
