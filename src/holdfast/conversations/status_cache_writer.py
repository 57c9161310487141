"""Write the small files that a status line reads without loading the store.

A file for each conversation that ever asked says which session it is in and which work tree; a file for each such
tree names its current session; a file for each session they lead to holds what is shown of it. Every turn of the
keeper brings those files up to date that are there: where nobody asks, nothing is written. They can always be made
again, so they never stop anything and do not wait for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.conversations import status_cache
from holdfast.core import agents as agents_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import HoldfastError
from holdfast.core.lifecycle import FINISHED
from holdfast.core.reminders import LINES, LimitRule, counted_time, is_recorded, limit_of, was_announced
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.core.times import DAY, MINUTE
from holdfast.core.wording import PAUSES
from holdfast.machine import error_log, files
from holdfast.sessions.ownership import session_of
from holdfast.workspace import server_outage

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_LONGEST_GOAL: Final = 200
_WORDS: Final = {"break_40": "break", "warning_60": "break due", "timeout_90": status_cache.TIME_LIMIT}
_STRONGEST: Final = ("manual", "timeout", "task", "idle")

Piece = tuple[int, int, int, str, int, int]


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────


def seen(state: State, now: int, rule: LimitRule) -> dict[str, Json]:
    """A session as a status line shows it, at any time from `now` on until something is recorded."""
    since = counted_time(state, now, rule).since
    return {
        "v": status_cache.VERSION,
        "session": state.session,
        "goal": shorten(view.text_value(state, "goal") or "", _LONGEST_GOAL),
        "finished": view.status_of(state) in FINISHED,
        "agents": sum(agents_of.status_of(agent) == "running" for agent in state.agents.values()),
        "waits": bool(state.waiting),
        "pieces": [list(piece) for piece in pieces(state, now, rule)],
        "lines": [
            [
                limit_of(state, line),
                f"{_WORDS[line]} ({limit_of(state, line) / MINUTE:g} min)",
                is_recorded(state, line, rule, since),
                was_announced(state, line),
            ]
            for line in LINES
            if line not in rule.off
        ],
    }


def pieces(state: State, now: int, rule: LimitRule) -> list[Piece]:
    """Working time as a function of the time to come: from when on, how much then, 1 while it grows, the pause,
    when that began (0 without one), and how much of it counts towards the limits.

    Between two moments that follow from the log (a gap becomes an idle pause, a run a long one, a recorded end comes)
    working time stands still or grows with the clock, so what `core.worktime` says at these moments is enough.
    """
    moments = sorted({now, *(at for at in _turning_points(state) if at > now)})
    found: list[Piece] = []
    for at, following in zip(moments, [*moments[1:], None], strict=True):
        measured = _measured(state, at, rule)
        # A piece of one millisecond may turn after it: how it would go on says nothing.
        if found and following == at + 1 and _then(found[-1], at) == measured:
            continue
        grows = min(max(_measured(state, at + 1, rule)[0] - measured[0], 0), 1)
        if not found or _then(found[-1], at) != measured or grows != found[-1][2]:
            working, word, began, count = measured
            found.append((at, working, grows, word, began, count))
    return found


def _measured(state: State, at: int, rule: LimitRule) -> tuple[int, str, int, int]:
    work = view.worktime(state, at)
    lasting = [] if view.ended_at(state) is not None else [rest for rest in work.pauses if rest.until is None]
    pause = min(lasting, key=lambda rest: _STRONGEST.index(rest.kind)) if lasting else None
    word, began = ("", 0) if pause is None else (PAUSES[pause.kind], pause.since)
    return work.working, word, began, counted_time(state, at, rule).working


def _then(piece: Piece, at: int) -> tuple[int, str, int, int]:
    since, working, grows, word, began, count = piece
    grown = grows * (at - since)
    return working + grown, word, began, count + grown


def _turning_points(state: State) -> Iterator[int]:
    """Every moment at which, or right after which, working time may go on in another way."""
    for at in _moments(state):
        yield at
        yield at + 1


def _moments(state: State) -> Iterator[int]:
    time = state.time
    idle, task = time.timer.idle, time.timer.task
    yield from (time.start, time.start + idle, state.updated_at, state.updated_at + idle)
    for mark in time.marks:
        yield from (mark.at, mark.at + idle, mark.at if mark.until is None else mark.until)
    for run in time.active:
        last = run.since if run.until is None else run.until
        yield from (run.since, last, last + idle)
    if len(time.signs) > 1:  # a pause does not hold where others worked who did not know of it
        yield from (at for own in time.signs.values() for signs in own for at in (signs.since, signs.until))
    for run in time.attended:
        last = run.since if run.until is None else run.until
        yield from (run.since, last, last + idle, last + task)
    for agent in state.agents.values():
        for run in agent.runs:
            yield from (run.since, run.since + task, run.since + idle)
            if run.until is not None:
                yield from (run.until, run.until + idle)


# ── asked for the first time ─────────────────────────────────────────────────────────────────────────────


def asked(ws: Workspace, name: str, directory: str, *, store: str) -> dict[str, Json] | None:
    """What to show a conversation, found in the store; from now on it is found in files.

    `directory` and `store` are as whoever asks has them: asked with others, it has to be found anew.
    """
    known = ws.existing_store()
    own = _of_conversation(ws, name)
    current = None if known is None else known.current(ws.place.root)
    found = {name: state for name in (own, current) if name is not None and (state := _state(ws, name)) is not None}
    shown = {name: seen(state, ws.now(), ws.limit_rule()) for name, state in found.items()}
    home = ws.home.path
    try:
        files.make_private_dir(status_cache.directory(home))
        for item, glance in shown.items():
            _write(status_cache.of_session(home, item), glance)
        tree = _tree_file(ws)
        _write(os.path.join(status_cache.directory(home), tree), {"v": status_cache.VERSION, "session": current})
        _write(status_cache.of_conversation(home, name), {
            "v": status_cache.VERSION, "name": name, "dir": directory, "store": server_outage.store_mark(store),
            "path": ws.address.key, "session": own, "tree": tree,
        })  # fmt: skip
        forget_old(status_cache.directory(home), ws.now())
    except (HoldfastError, OSError) as error:
        error_log.note(home, "glance", str(error))
    return next((shown[name] for name in (own, current) if name in shown and not shown[name]["finished"]), None)


def _of_conversation(ws: Workspace, name: str) -> str | None:
    """The session a conversation was heard in last: an unfinished one before all others."""
    store = ws.existing_store()
    if store is None or name.startswith(status_cache.NOBODY):
        return None
    found = session_of(ws, name)
    return None if found is None else found.session


def _state(ws: Workspace, session: str) -> State | None:
    store = ws.existing_store()
    state = None if store is None else store.state(session)
    return None if state is None or state.deleted or not state.count else state


# ── kept up to date ──────────────────────────────────────────────────────────────────────────────────────


def refresh(ws: Workspace, changed: Iterable[str]) -> None:
    """Let the files follow a turn of the keeper that changed these sessions. Never raises."""
    home = ws.home.path
    if not os.path.isdir(status_cache.directory(home)):
        return
    try:
        for session in changed:
            _follow(ws, session)
        tree = os.path.join(status_cache.directory(home), _tree_file(ws))
        if os.path.lexists(tree):
            current = ws.store().current(ws.place.root)
            known = status_cache.read(tree, msgspec.json.decode)
            if known is None or known.get("session") != current:
                _write(tree, {"v": status_cache.VERSION, "session": current})
            if current is not None and not os.path.lexists(status_cache.of_session(home, current)):
                _follow(ws, current, wanted=True)
    except Exception as error:  # noqa: BLE001 (what is shown somewhere must not stop what is done here)
        error_log.note(home, "glance", f"{type(error).__name__}: {error}")


def forget(home: str, session: str | None = None) -> None:
    """Nothing of a session (or of any) is left here; who asks again finds what is true then."""
    directory = status_cache.directory(home)
    if not os.path.isdir(directory):
        return
    gone = [status_cache.of_session(home, session)] if session is not None else [
        os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(status_cache.SESSION)
    ]  # fmt: skip
    for path in gone:
        if os.path.lexists(path):
            os.unlink(path)


def forget_talks(home: str, names: Iterable[str]) -> None:
    """Nothing is left of what these conversations, `agent:id`, asked and handed over."""
    for name in names:
        for path in (status_cache.of_conversation(home, name), status_cache.note_conversation(home, name)):
            with suppress(OSError):
                os.unlink(path)


def _follow(ws: Workspace, session: str, *, wanted: bool = False) -> None:
    home = ws.home.path
    state = _state(ws, session)
    if state is None:
        forget(home, session)
        return
    for native in state.native.values():
        path = status_cache.of_conversation(home, view.native_name(native.agent, native.id))
        if not os.path.lexists(path):
            continue
        wanted = True
        known = status_cache.read(path, msgspec.json.decode)
        if known is not None and known.get("path") == ws.address.key and known.get("session") != session:
            own = _of_conversation(ws, view.native_name(native.agent, native.id))
            _write(path, dict(known) | {"session": own})
    path = status_cache.of_session(home, session)
    if wanted or os.path.lexists(path):
        _write(path, seen(state, ws.now(), ws.limit_rule()))


def _tree_file(ws: Workspace) -> str:
    said = f"{ws.place.root}\n{ws.address.key}"
    return f"{status_cache.TREE}{digest(said.encode(errors='surrogateescape'))[:32]}.json"


def _write(path: str, value: Mapping[str, object]) -> None:
    files.write_atomic(path, msgspec.json.encode(value), durable=False)


def forget_old(directory: str, now: int) -> None:
    """Remove files that nobody wrote to for a week: they are only a cache of what the log has."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with suppress(OSError):
            if now - os.lstat(path).st_mtime * 1000 > 7 * DAY:
                os.unlink(path)
