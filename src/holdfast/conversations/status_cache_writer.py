"""Write the small files that a status line reads without loading the store.

A file for each conversation whose status line ever asked says which session and which work tree it is in; a file for
each such tree names its current session; a file for each of these sessions holds what is shown of it. Every unit of
work updates those files that exist: without a status line, nothing is written. They can always be made again, so
errors here stop nothing and writes do not wait for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.conversations import status_cache
from holdfast.core import agents as agents_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import HoldfastError
from holdfast.core.lifecycle import FINISHED
from holdfast.core.reminders import LIMITS, LimitRule, counted_time, is_recorded, limit_ms, was_announced
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.core.times import DAY, MINUTE
from holdfast.core.wording import PAUSES
from holdfast.core.worktime import PAUSE_ORDER, turning_points
from holdfast.machine import error_log, files
from holdfast.sessions.ownership import session_of
from holdfast.workspace import server_outage

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_MAX_GOAL_LENGTH: Final = 200
_WORDS: Final = {"break_40": "break", "warning_60": "break due", "timeout_90": status_cache.TIME_LIMIT}

Piece = tuple[int, int, int, str, int, int]


# ── content ────────────────────────────────────────────────────────────────────────────────────────


def status_fields(state: State, now: int, rule: LimitRule) -> dict[str, Json]:
    """What a status line shows of a session, from `now` on until something is recorded."""
    since = counted_time(state, now, rule).since
    return {
        "v": status_cache.VERSION,
        "session": state.session,
        "goal": shorten(view.text_value(state, "goal") or "", _MAX_GOAL_LENGTH),
        "finished": view.status_of(state) in FINISHED,
        "agents": sum(agents_of.status_of(agent) == "running" for agent in state.agents.values()),
        "waits": bool(state.waiting),
        "pieces": [list(piece) for piece in work_pieces(state, now, rule)],
        "lines": [
            [
                limit_ms(state, line),
                f"{_WORDS[line]} ({limit_ms(state, line) / MINUTE:g} min)",
                is_recorded(state, line, rule, since),
                was_announced(state, line),
            ]
            for line in LIMITS
            if line not in rule.off
        ],
    }


def work_pieces(state: State, now: int, rule: LimitRule) -> list[Piece]:
    """Future working time in pieces: when one starts, the working time then, 1 if it grows, the pause, when that
    began (0 without one), and how much counts towards the limits.

    Between two times that follow from the log (a gap becomes an idle pause, a run a long one, a recorded end comes)
    working time is constant or grows with the clock, so its value at these times is enough.
    """
    turning = (at for point in turning_points(state) for at in (point, point + 1))
    times = sorted({now, *(at for at in turning if at > now)})
    pieces: list[Piece] = []
    for at, following in zip(times, [*times[1:], None], strict=True):
        measured = _measured(state, at, rule)
        # Working time may change its course after one millisecond: how a piece that short goes on says nothing.
        if pieces and following == at + 1 and _piece_at(pieces[-1], at) == measured:
            continue
        grows = min(max(_measured(state, at + 1, rule)[0] - measured[0], 0), 1)
        if not pieces or _piece_at(pieces[-1], at) != measured or grows != pieces[-1][2]:
            working, word, began, count = measured
            pieces.append((at, working, grows, word, began, count))
    return pieces


def _measured(state: State, at: int, rule: LimitRule) -> tuple[int, str, int, int]:
    work = view.worktime(state, at)
    open_pauses = [] if view.ended_at(state) is not None else [rest for rest in work.pauses if rest.until is None]
    pause = min(open_pauses, key=lambda rest: PAUSE_ORDER.index(rest.kind)) if open_pauses else None
    word, began = ("", 0) if pause is None else (PAUSES[pause.kind], pause.since)
    return work.working, word, began, counted_time(state, at, rule).working


def _piece_at(piece: Piece, at: int) -> tuple[int, str, int, int]:
    since, working, grows, word, began, count = piece
    grown = grows * (at - since)
    return working + grown, word, began, count + grown


# ── made when first asked for ─────────────────────────────────────────────────────────────────────────────


def cache_conversation(ws: Workspace, name: str, directory: str, *, store: str) -> dict[str, Json] | None:
    """Look up in the store what to show a conversation, and cache it in files from now on.

    `directory` and `store` are those of the caller: for others, the cache does not hold.
    """
    store_here = ws.existing_store()
    own = _session_of(ws, name)
    current = None if store_here is None else store_here.current(ws.place.root)
    states = {name: state for name in (own, current) if name is not None and (state := _state(ws, name)) is not None}
    shown = {name: status_fields(state, ws.now(), ws.limit_rule()) for name, state in states.items()}
    home = ws.home.path
    try:
        files.make_private_dir(status_cache.directory(home))
        for session, fields in shown.items():
            _write(status_cache.session_path(home, session), fields)
        tree = _tree_file(ws)
        _write(os.path.join(status_cache.directory(home), tree), {"v": status_cache.VERSION, "session": current})
        _write(status_cache.conversation_path(home, name), {
            "v": status_cache.VERSION, "name": name, "dir": directory, "store": server_outage.store_mark(store),
            "path": ws.address.key, "session": own, "tree": tree,
        })  # fmt: skip
        forget_old(status_cache.directory(home), ws.now())
    except (HoldfastError, OSError) as error:
        error_log.note(home, "status cache", str(error))
    return next((shown[name] for name in (own, current) if name in shown and not shown[name]["finished"]), None)


def _session_of(ws: Workspace, name: str) -> str | None:
    """The session that last got signals of a conversation: an unfinished one before all others."""
    store = ws.existing_store()
    if store is None or name.startswith(status_cache.DIRECTORY_PREFIX):
        return None
    state = session_of(ws, name)
    return None if state is None else state.session


def _state(ws: Workspace, session: str) -> State | None:
    store = ws.existing_store()
    state = None if store is None else store.state(session)
    return None if state is None or state.deleted or not state.count else state


# ── updated ──────────────────────────────────────────────────────────────────────────────────────


def refresh(ws: Workspace, changed: Iterable[str]) -> None:
    """Update the files after a unit of work that changed these sessions. Never raises."""
    home = ws.home.path
    if not os.path.isdir(status_cache.directory(home)):
        return
    try:
        for session in changed:
            _update(ws, session)
        tree = os.path.join(status_cache.directory(home), _tree_file(ws))
        if os.path.lexists(tree):
            current = ws.store().current(ws.place.root)
            known = status_cache.read(tree, msgspec.json.decode)
            if known is None or known.get("session") != current:
                _write(tree, {"v": status_cache.VERSION, "session": current})
            if current is not None and not os.path.lexists(status_cache.session_path(home, current)):
                _update(ws, current, always=True)
    except Exception as error:  # noqa: BLE001 (a status line must not stop the work itself)
        error_log.note(home, "status cache", f"{type(error).__name__}: {error}")


def forget(home: str, session: str | None = None) -> None:
    """Remove the cached status of a session, or of all; the next status line that asks makes it again."""
    directory = status_cache.directory(home)
    if not os.path.isdir(directory):
        return
    paths = [status_cache.session_path(home, session)] if session is not None else [
        os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(status_cache.SESSION)
    ]  # fmt: skip
    for path in paths:
        if os.path.lexists(path):
            os.unlink(path)


def forget_conversations(home: str, names: Iterable[str]) -> None:
    """Remove what these conversations (`agent:id`) asked for and passed on."""
    for name in names:
        for path in (status_cache.conversation_path(home, name), status_cache.input_path(home, name)):
            with suppress(OSError):
                os.unlink(path)


def _update(ws: Workspace, session: str, *, always: bool = False) -> None:
    home = ws.home.path
    state = _state(ws, session)
    if state is None:
        forget(home, session)
        return
    for native in state.native.values():
        path = status_cache.conversation_path(home, view.native_name(native.agent, native.id))
        if not os.path.lexists(path):
            continue
        always = True
        known = status_cache.read(path, msgspec.json.decode)
        if known is not None and known.get("path") == ws.address.key and known.get("session") != session:
            own = _session_of(ws, view.native_name(native.agent, native.id))
            _write(path, dict(known) | {"session": own})
    path = status_cache.session_path(home, session)
    if always or os.path.lexists(path):
        _write(path, status_fields(state, ws.now(), ws.limit_rule()))


def _tree_file(ws: Workspace) -> str:
    name = f"{ws.place.root}\n{ws.address.key}"
    return f"{status_cache.TREE}{digest(name.encode(errors='surrogateescape'))[:32]}.json"


def _write(path: str, value: Mapping[str, object]) -> None:
    files.write_atomic(path, msgspec.json.encode(value), durable=False)


def forget_old(directory: str, now: int) -> None:
    """Remove files that were not written to for a week: they are only a cache of what the log has."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with suppress(OSError):
            if now - os.lstat(path).st_mtime * 1000 > 7 * DAY:
                os.unlink(path)
