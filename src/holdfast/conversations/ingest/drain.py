"""Turn waiting payloads into events, before anything else is read or written.

Payloads of one work tree are taken in as one transaction of the keeper of that tree, in the order in which they
were heard; only then do their files go. What is meant for another store stays (`destinations`). Whoever dies in
between leaves the files, and the next one finds by their keys what is recorded already. A payload nothing can be made
of is put aside and noted; one that comes while the store is locked, its server away or the disk full waits. None of
this ever stops the command that came to do something else, but for what would stop that one too: a server that does
not open its store is not asked twice.
"""

from __future__ import annotations

import os
from itertools import count as counting
from typing import TYPE_CHECKING

from holdfast.conversations.adapters.clean_text import bounded, is_small, plain
from holdfast.conversations.ingest import pending, routing
from holdfast.conversations.ingest.payload import Payload, passes, read
from holdfast.conversations.ingest.store_choice import for_this_store
from holdfast.conversations.signals import Chosen, Closed, Erred, Limited, Opened, Replied
from holdfast.core import view
from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Refused, Unreachable
from holdfast.core.events import Process
from holdfast.machine import error_log
from holdfast.machine.git import worktree
from holdfast.machine.process import identify, name_of
from holdfast.sessions import ownership, run_deferred
from holdfast.sessions.ownership import own_test
from holdfast.workspace import projects, server_outage, spool

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace

_TURN_ENDS = (Replied, Limited, Closed, Erred)
_AT_ONCE = 1_000  # payloads in memory and in one transaction
_SHELLS = frozenset(
    {"sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "busybox", "cmd", "powershell", "pwsh", "env", "timeout"}
)
_SLOT = 3_000  # ms: the same words again within one or two of these were heard through another configuration


def drain(ws: Workspace, *, patience: float) -> None:
    """Take in what waits. Never raises for what is in it or for a store that cannot take it now, once it is open."""
    if ws.address.path is None:
        ws.store()
    waiting = for_this_store(ws, spool.list_entries(ws.home.path))
    while waiting:
        _drain_some(ws, waiting[:_AT_ONCE], patience)
        left = for_this_store(ws, spool.list_entries(ws.home.path))
        if len(waiting) <= _AT_ONCE or len(left) >= len(waiting):
            return  # the rest has come since, or cannot be taken in now
        waiting = left


def _drain_some(ws: Workspace, waiting: list[spool.SpoolEntry], patience: float) -> None:
    home = ws.home.path
    taken: list[Payload] = []
    held: set[int] = set()
    for entry in waiting:
        if entry.agent == run_deferred.OWN:
            if not _take_own(ws, entry, patience):
                return
            continue
        if entry.parent in held:
            continue
        found = read(entry, ws.now())
        if found.taken is not None:
            taken.append(found.taken)
        elif found.unfinished:
            held.add(entry.parent)  # its order is kept: what the same agent said later waits with it
        elif not found.why:
            spool.remove_entries([entry])
        else:
            _put_aside(home, entry, found.why)
    for root, group in _by_place(ws, taken).items():
        place = ws if root == ws.place.root else ws.at(root)
        try:
            _take_in(place, group, patience)
            ws.turn_changed |= place.turn_changed
        except Unreachable as error:
            server_outage.note_outage(
                home, "drain", ws.address.secret, error.message, ws.hurry or server_outage.BACKGROUND_PATIENCE
            )
            return
        except (Busy, Damaged, Failed) as error:
            if isinstance(error, Refused):
                _one_by_one(place, group, patience)
            elif not isinstance(error, Busy):
                error_log.note(home, "drain", error.message)
                return
        except OSError as error:
            error_log.note(home, "drain", f"{error.strerror}")
            if not passes(error):
                _one_by_one(place, group, patience)
        except Exception as error:  # noqa: BLE001 (whatever one payload holds, the others are taken in)
            error_log.note(home, "drain", f"{type(error).__name__}: {error}")
            _one_by_one(place, group, patience)


def _take_own(ws: Workspace, entry: spool.SpoolEntry, patience: float) -> bool:
    """What became of a command of ours; says whether the server is there to be told of anything."""
    home = ws.home.path
    try:
        later = run_deferred.read(entry)
        if later.store == ws.address.key:  # of another store: it waits for who uses that one
            run_deferred.take_in(ws, later, patience)
            spool.remove_entries([entry])
    except Unreachable as error:
        server_outage.note_outage(
            home, "drain", ws.address.secret, error.message, ws.hurry or server_outage.BACKGROUND_PATIENCE
        )
        return False
    except (Busy, Damaged):
        return True
    except (HoldfastError, OSError) as error:
        if passes(error):
            return True
        if os.path.lexists(entry.path) and ws.now() * 1_000_000 - entry.at > spool.YOUNG_NS:
            _put_aside(home, entry, f"how a command ended was not recorded: {error}")
    return True


def _by_place(ws: Workspace, taken: list[Payload]) -> dict[str, list[Payload]]:
    """Payloads by work tree. A conversation stays where it was first heard of, wherever its agent has gone since."""
    of_conversation: dict[tuple[str, str], str] = {}
    of_directory: dict[str | None, str] = {}
    groups: dict[str, list[Payload]] = {}
    for payload in taken:
        talk = (payload.heard.agent, payload.heard.conversation)
        if talk not in of_conversation:
            if payload.heard.cwd not in of_directory:
                of_directory[payload.heard.cwd] = _root(payload.heard.cwd) or ws.place.root
            of_conversation[talk] = of_directory[payload.heard.cwd]
        groups.setdefault(of_conversation[talk], []).append(payload)
    return groups


def _root(cwd: str | None) -> str | None:
    """The work tree of a directory, or of the nearest one above it that is still there."""
    if cwd is None or "\0" in cwd or not os.path.isabs(cwd):
        return None
    at = cwd
    while not os.path.isdir(at):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    try:
        return worktree.locate(at).root
    except HoldfastError:
        return None


# ── into sessions ────────────────────────────────────────────────────────────────────────────────────────


def _take_in(ws: Workspace, group: list[Payload], patience: float) -> None:
    talks = [(payload.heard, payload.at) for payload in group]
    seen = projects.observe(ws.place, "") if routing.needs_project(ws, talks) else None
    with ws.transaction(patience=patience) as transaction:
        where = routing.Belonging(ws, transaction, seen)
        heard_here: dict[tuple[str, str], int] = {}
        silent: list[spool.SpoolEntry] = []
        told: set[str] = set()
        expected: set[str] = set()
        recorded: list[tuple[Payload, str]] = []
        for payload in group:
            if not payload.entry.is_there():
                continue  # somebody else took it in since we read it
            count = heard_here.get((payload.same, payload.entry.source), 0)
            heard_here[payload.same, payload.entry.source] = count + 1
            session = where.session(payload.heard, payload.at, _key(payload, 0, count))
            if session is None:
                _remember(ws, payload)
                silent.append(payload.entry)
                continue
            if session not in expected:  # nearly always, everything in a group belongs to the same one
                expected.add(session)
                transaction.expect(session, [key for each in group for key in _keys(each)])
            if _known(transaction, session, payload, count):
                continue
            recorded.append((payload, session))
            if _record(ws, transaction, session, payload, count):
                told.add(session)
            else:
                silent.append(payload.entry)
        for session in sorted(told):
            ws.recorder.note_git_position(transaction, session)
        if recorded and ws.place.git:
            from holdfast.conversations.ingest import turn_signals

            turns_of = [(payload.heard, payload.at, session) for payload, session in recorded]
            ws.turn_changed |= turn_signals.note(transaction, ws.place.root, turns_of)
        if any(isinstance(signal, _TURN_ENDS) for payload, _ in recorded for signal in payload.heard.signals):
            from holdfast.conversations import details

            ws.turn_changed |= details.note(transaction, recorded)
        # Of what made no event the log knows nothing: heard again after a kill, after what came later, it could.
        spool.remove_entries(silent)
    spool.remove_entries(payload.entry for payload in group)
    for talk in where.linked:
        pending.forget(ws.home.path, talk)


def _record(ws: Workspace, transaction: Transaction, session: str, one: Payload, count: int) -> bool:
    """Tell the session of it; says whether that made an event."""
    from holdfast.conversations.ingest import events
    from holdfast.conversations.ingest.subagents import Timed

    name = view.native_name(one.heard.agent, one.heard.conversation)
    state = transaction.state(session)
    is_linked = ownership.is_linked(ws, state, name)
    opening = None if is_linked else pending.recall(ws.home.path, name)
    ground = events.IngestContext(
        ws.place, _process(one.entry.parent), opening, ws.message_ends_pause, is_linked,
        own_test(ws, session),
    )  # fmt: skip
    said = events.events_of(state, one.heard, one.at, ground)
    timed = ((told.at, told.data) if isinstance(told, Timed) else (one.at, told) for told in said)
    numbers, key = counting(), _key(one, 0, count)
    ws.recorder.append_reported(
        transaction, session, timed, keys=(f"{key}:{number}" for number in numbers), actor=one.heard.agent
    )
    return next(numbers) > 0


def _key(one: Payload, back: int, count: int) -> str:
    again = f".{count}" if count else ""
    if one.certain:
        return f"hook:{one.same}{again}"
    return f"hook:{one.same}@{one.at // _SLOT - back}{again}"


def _keys(one: Payload) -> list[str]:
    """Those that are asked for, most likely: it was not heard here before, and makes an event or two."""
    slots = (0,) if one.certain else (0, 1)
    return [f"{_key(one, back, 0)}:{number}" for back in slots for number in (0, 1)]


def _known(transaction: Transaction, session: str, one: Payload, count: int) -> bool:
    """Whether this very event was heard before: for certain by its mark, or the same words just now."""
    if one.certain:
        return transaction.knows(session, f"hook:{one.same}:0")
    return any(transaction.knows(session, f"{_key(one, back, count)}:0") for back in (0, 1))


def _remember(ws: Workspace, one: Payload) -> None:
    """A conversation without a session says something of itself: kept without secrets, like all that is kept."""
    from holdfast.core.secrets.documents import redact_document
    from holdfast.core.secrets.patterns import redact

    said = pending.Opening()
    for signal in one.heard.signals:
        if isinstance(signal, Chosen):
            said.model = plain(signal.model or "", 100) or said.model
            said.permission = plain(signal.permission or "", 100) or said.permission
        elif isinstance(signal, Opened):
            said.title = None if signal.title is None else redact(plain(signal.title)).text
    rest = redact_document(bounded(one.heard.rest)).value
    if rest and is_small(rest):
        said.rest = {plain(one.heard.event, 60): rest}
    if said != pending.Opening():
        name = view.native_name(one.heard.agent, one.heard.conversation)
        pending.remember(ws.home.path, name, said, now=ws.now())


def _process(pid: int) -> Process | None:
    """The agent's process, while it is there to be recognised later.

    Some programs run hooks through a shell that is gone a moment later: its end is not the agent's.
    """
    if pid <= 1 or name_of(pid).lower().removesuffix(".exe").lstrip("-") in _SHELLS:
        return None
    found = identify(pid)
    return None if found is None else Process(*found)


def _one_by_one(ws: Workspace, group: list[Payload], patience: float) -> None:
    """One of them cannot be taken in: the others are."""
    for payload in group:
        try:
            _take_in(ws, [payload], patience)
        except (Busy, Damaged, Unreachable):
            return
        except Exception as error:  # noqa: BLE001
            if passes(error if isinstance(error, OSError) else error.__cause__):
                return
            message = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            _put_aside(ws.home.path, payload.entry, f"a payload of {payload.entry.agent} was not taken in: {message}")


def _put_aside(home: str, entry: spool.SpoolEntry, why: str) -> None:
    error_log.note(home, "drain", why)
    try:
        spool.quarantine(home, entry)
    except OSError:
        return
