"""What a status line needs of a session, kept in small files that it reads without loading the store.

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

from holdfast.capture import absence, glances
from holdfast.core import agents as agents_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.reminders import LINES, Rule, counted, is_recorded, limit_of, was_said
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.core.times import MINUTE
from holdfast.keeper.captures.forgetting import forget_old
from holdfast.keeper.captures.links import session_of
from holdfast.keeper.wording import PAUSES
from holdfast.machine import errorlog, files

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_LONGEST_GOAL: Final = 200
_WORDS: Final = {"break_40": "break", "warning_60": "break due", "timeout_90": glances.TIME_LIMIT}
_STRONGEST: Final = ("manual", "timeout", "task", "idle")

Piece = tuple[int, int, int, str, int, int]


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────


def seen(state: State, now: int, rule: Rule) -> dict[str, Json]:
    """A session as a status line shows it, at any time from `now` on until something is recorded."""
    since = counted(state, now, rule).since
    return {
        "v": glances.VERSION,
        "session": state.session,
        "goal": shorten(view.word(state, "goal") or "", _LONGEST_GOAL),
        "finished": view.status_of(state) in FINISHED,
        "agents": sum(agents_of.status_of(agent) == "running" for agent in state.agents.values()),
        "waits": bool(state.waiting),
        "pieces": [list(piece) for piece in pieces(state, now, rule)],
        "lines": [
            [
                limit_of(state, line),
                f"{_WORDS[line]} ({limit_of(state, line) / MINUTE:g} min)",
                is_recorded(state, line, rule, since),
                was_said(state, line),
            ]
            for line in LINES
            if line not in rule.off
        ],
    }


def pieces(state: State, now: int, rule: Rule) -> list[Piece]:
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


def _measured(state: State, at: int, rule: Rule) -> tuple[int, str, int, int]:
    work = view.worktime(state, at)
    lasting = [] if view.ended_at(state) is not None else [rest for rest in work.pauses if rest.until is None]
    pause = min(lasting, key=lambda rest: _STRONGEST.index(rest.kind)) if lasting else None
    word, began = ("", 0) if pause is None else (PAUSES[pause.kind], pause.since)
    return work.working, word, began, counted(state, at, rule).working


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
        yield from (at for own in time.signs.values() for one in own for at in (one.since, one.until))
    for run in time.attended:
        last = run.since if run.until is None else run.until
        yield from (run.since, last, last + idle, last + task)
    for agent in state.agents.values():
        for run in agent.runs:
            yield from (run.since, run.since + task, run.since + idle)
            if run.until is not None:
                yield from (run.until, run.until + idle)


# ── asked for the first time ─────────────────────────────────────────────────────────────────────────────


def looked_up(home: str, name: str, directory: str, *, store: str) -> Mapping[str, Json] | None:
    """What to show a conversation that asks for the first time, or after a long while. Raises `Unreachable` while the
    server is away; that was noted.
    """
    from holdfast.keeper.keeper import Keeper

    if absence.is_away(home, store):
        raise Unreachable("the server is away")
    for place in (directory, home):
        try:
            keeper = Keeper.open(place, home=home, store=store or None)
        except HoldfastError:
            continue
        keeper.hurry = absence.HURRY
        try:
            with keeper:
                return asked(keeper, name, directory, store=store)
        except Unreachable as error:
            absence.noticed(home, "statusline", store, error.message)
            raise
    return None


def asked(keeper: Keeper, name: str, directory: str, *, store: str) -> dict[str, Json] | None:
    """What to show a conversation, found in the store; from now on it is found in files.

    `directory` and `store` are as whoever asks has them: asked with others, it has to be found anew.
    """
    known = keeper.existing_store()
    own = _of_conversation(keeper, name)
    current = None if known is None else known.current(keeper.place.root)
    found = {one: state for one in (own, current) if one is not None and (state := _state(keeper, one)) is not None}
    shown = {one: seen(state, keeper.now(), keeper.limit_rule()) for one, state in found.items()}
    home = keeper.home.path
    try:
        files.make_private_dir(glances.directory(home))
        for one, glance in shown.items():
            _write(glances.of_session(home, one), glance)
        tree = _tree_file(keeper)
        _write(os.path.join(glances.directory(home), tree), {"v": glances.VERSION, "session": current})
        _write(glances.of_conversation(home, name), {
            "v": glances.VERSION, "name": name, "dir": directory, "store": glances.mark(store),
            "path": keeper.address.key, "session": own, "tree": tree,
        })  # fmt: skip
        forget_old(glances.directory(home), keeper.now())
    except (HoldfastError, OSError) as error:
        errorlog.note(home, "glance", str(error))
    return next((shown[one] for one in (own, current) if one in shown and not shown[one]["finished"]), None)


def _of_conversation(keeper: Keeper, name: str) -> str | None:
    """The session a conversation was heard in last: an unfinished one before all others."""
    store = keeper.existing_store()
    if store is None or name.startswith(glances.NOBODY):
        return None
    found = session_of(keeper, name)
    return None if found is None else found.session


def _state(keeper: Keeper, session: str) -> State | None:
    store = keeper.existing_store()
    state = None if store is None else store.state(session)
    return None if state is None or state.deleted or not state.count else state


# ── kept up to date ──────────────────────────────────────────────────────────────────────────────────────


def refresh(keeper: Keeper, changed: Iterable[str]) -> None:
    """Let the files follow a turn of the keeper that changed these sessions. Never raises."""
    home = keeper.home.path
    if not os.path.isdir(glances.directory(home)):
        return
    try:
        for session in changed:
            _follow(keeper, session)
        tree = os.path.join(glances.directory(home), _tree_file(keeper))
        if os.path.lexists(tree):
            current = keeper.store().current(keeper.place.root)
            known = glances.read(tree, msgspec.json.decode)
            if known is None or known.get("session") != current:
                _write(tree, {"v": glances.VERSION, "session": current})
            if current is not None and not os.path.lexists(glances.of_session(home, current)):
                _follow(keeper, current, wanted=True)
    except Exception as error:  # noqa: BLE001 (what is shown somewhere must not stop what is done here)
        errorlog.note(home, "glance", f"{type(error).__name__}: {error}")


def forget(home: str, session: str | None = None) -> None:
    """Nothing of a session (or of any) is left here; who asks again finds what is true then."""
    directory = glances.directory(home)
    if not os.path.isdir(directory):
        return
    gone = [glances.of_session(home, session)] if session is not None else [
        os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(glances.SESSION)
    ]  # fmt: skip
    for path in gone:
        if os.path.lexists(path):
            os.unlink(path)


def forget_talks(home: str, names: Iterable[str]) -> None:
    """Nothing is left of what these conversations, `agent:id`, asked and handed over."""
    for name in names:
        for path in (glances.of_conversation(home, name), glances.told(home, name)):
            with suppress(OSError):
                os.unlink(path)


def _follow(keeper: Keeper, session: str, *, wanted: bool = False) -> None:
    home = keeper.home.path
    state = _state(keeper, session)
    if state is None:
        forget(home, session)
        return
    for one in state.native.values():
        path = glances.of_conversation(home, view.native_name(one.agent, one.id))
        if not os.path.lexists(path):
            continue
        wanted = True
        known = glances.read(path, msgspec.json.decode)
        if known is not None and known.get("path") == keeper.address.key and known.get("session") != session:
            own = _of_conversation(keeper, view.native_name(one.agent, one.id))
            _write(path, dict(known) | {"session": own})
    path = glances.of_session(home, session)
    if wanted or os.path.lexists(path):
        _write(path, seen(state, keeper.now(), keeper.limit_rule()))


def _tree_file(keeper: Keeper) -> str:
    said = f"{keeper.place.root}\n{keeper.address.key}"
    return f"{glances.TREE}{digest(said.encode(errors='surrogateescape'))[:32]}.json"


def _write(path: str, value: Mapping[str, object]) -> None:
    files.write_atomic(path, msgspec.json.encode(value), durable=False)
