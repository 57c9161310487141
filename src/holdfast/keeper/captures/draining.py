"""Draining: the payloads that hooks left become events, before everything else is read or written.

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

from holdfast.capture import absence, spool
from holdfast.capture.plain import fits, kept, plain
from holdfast.capture.signals import Chosen, Closed, Erred, Limited, Opened, Replied
from holdfast.core import view
from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Refused, Unreachable
from holdfast.core.vocabulary import Process
from holdfast.keeper import projects, running_later
from holdfast.keeper.captures import belonging, links, opened
from holdfast.keeper.captures.destinations import for_this_store
from holdfast.keeper.captures.payloads import Taken, passes, read
from holdfast.keeper.own_devices import own_test
from holdfast.machine import errorlog, worktree
from holdfast.machine.process import identify, name_of

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Transaction

_TURN_ENDS = (Replied, Limited, Closed, Erred)
_AT_ONCE = 1_000  # payloads in memory and in one transaction
_SHELLS = frozenset(
    {"sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "busybox", "cmd", "powershell", "pwsh", "env", "timeout"}
)
_SLOT = 3_000  # ms: the same words again within one or two of these were heard through another configuration


def drain(keeper: Keeper, *, patience: float) -> None:
    """Take in what waits. Never raises for what is in it or for a store that cannot take it now, once it is open."""
    if keeper.address.path is None:
        keeper.store()
    waiting = for_this_store(keeper, spool.waiting(keeper.home.path))
    while waiting:
        _drain_some(keeper, waiting[:_AT_ONCE], patience)
        left = for_this_store(keeper, spool.waiting(keeper.home.path))
        if len(waiting) <= _AT_ONCE or len(left) >= len(waiting):
            return  # the rest has come since, or cannot be taken in now
        waiting = left


def _drain_some(keeper: Keeper, waiting: list[spool.Entry], patience: float) -> None:
    home = keeper.home.path
    taken: list[Taken] = []
    held: set[int] = set()
    for entry in waiting:
        if entry.agent == running_later.OWN:
            if not _take_own(keeper, entry, patience):
                return
            continue
        if entry.parent in held:
            continue
        found = read(entry, keeper.now())
        if found.taken is not None:
            taken.append(found.taken)
        elif found.unfinished:
            held.add(entry.parent)  # its order is kept: what the same agent said later waits with it
        elif not found.why:
            spool.done([entry])
        else:
            _put_aside(home, entry, found.why)
    for root, group in _by_place(keeper, taken).items():
        place = keeper if root == keeper.place.root else keeper.beside(root)
        try:
            _take_in(place, group, patience)
            keeper.upkeep.compares |= place.upkeep.compares
        except Unreachable as error:
            absence.noticed(home, "drain", keeper.address.secret, error.message, keeper.hurry or absence.LEISURE)
            return
        except (Busy, Damaged, Failed) as error:
            if isinstance(error, Refused):
                _one_by_one(place, group, patience)
            elif not isinstance(error, Busy):
                errorlog.note(home, "drain", error.message)
                return
        except OSError as error:
            errorlog.note(home, "drain", f"{error.strerror}")
            if not passes(error):
                _one_by_one(place, group, patience)
        except Exception as error:  # noqa: BLE001 (whatever one payload holds, the others are taken in)
            errorlog.note(home, "drain", f"{type(error).__name__}: {error}")
            _one_by_one(place, group, patience)


def _take_own(keeper: Keeper, entry: spool.Entry, patience: float) -> bool:
    """What became of a command of ours; says whether the server is there to be told of anything."""
    home = keeper.home.path
    try:
        later = running_later.read(entry)
        if later.store == keeper.address.key:  # of another store: it waits for who uses that one
            running_later.take_in(keeper, later, patience)
            spool.done([entry])
    except Unreachable as error:
        absence.noticed(home, "drain", keeper.address.secret, error.message, keeper.hurry or absence.LEISURE)
        return False
    except (Busy, Damaged):
        return True
    except (HoldfastError, OSError) as error:
        if passes(error):
            return True
        if os.path.lexists(entry.path) and keeper.now() * 1_000_000 - entry.at > spool.YOUNG:
            _put_aside(home, entry, f"how a command ended was not recorded: {error}")
    return True


def _by_place(keeper: Keeper, taken: list[Taken]) -> dict[str, list[Taken]]:
    """Payloads by work tree. A conversation stays where it was first heard of, wherever its agent has gone since."""
    of_conversation: dict[tuple[str, str], str] = {}
    of_directory: dict[str | None, str] = {}
    groups: dict[str, list[Taken]] = {}
    for one in taken:
        talk = (one.heard.agent, one.heard.conversation)
        if talk not in of_conversation:
            if one.heard.cwd not in of_directory:
                of_directory[one.heard.cwd] = _root(one.heard.cwd) or keeper.place.root
            of_conversation[talk] = of_directory[one.heard.cwd]
        groups.setdefault(of_conversation[talk], []).append(one)
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


def _take_in(keeper: Keeper, group: list[Taken], patience: float) -> None:
    talks = [(one.heard, one.at) for one in group]
    seen = projects.observe(keeper.place, "") if belonging.needs_project(keeper, talks) else None
    with keeper.transaction(patience=patience) as transaction:
        where = belonging.Belonging(keeper, transaction, seen)
        heard_here: dict[tuple[str, str], int] = {}
        silent: list[spool.Entry] = []
        told: set[str] = set()
        expected: set[str] = set()
        recorded: list[tuple[Taken, str]] = []
        for one in group:
            if not one.entry.is_there():
                continue  # somebody else took it in since we read it
            count = heard_here.get((one.same, one.entry.source), 0)
            heard_here[one.same, one.entry.source] = count + 1
            session = where.session(one.heard, one.at, _key(one, 0, count))
            if session is None:
                _remember(keeper, one)
                silent.append(one.entry)
                continue
            if session not in expected:  # nearly always, everything in a group belongs to the same one
                expected.add(session)
                transaction.expect(session, [key for each in group for key in _keys(each)])
            if _known(transaction, session, one, count):
                continue
            recorded.append((one, session))
            if _record(keeper, transaction, session, one, count):
                told.add(session)
            else:
                silent.append(one.entry)
        for session in sorted(told):
            keeper.recorder.note_ground(transaction, session)
        if recorded and keeper.place.git:
            from holdfast.keeper.captures import turns

            turns_of = [(one.heard, one.at, session) for one, session in recorded]
            keeper.upkeep.compares |= turns.note(transaction, keeper.place.root, turns_of)
        if any(isinstance(signal, _TURN_ENDS) for one, _ in recorded for signal in one.heard.signals):
            from holdfast.keeper.captures import conversations

            keeper.upkeep.compares |= conversations.note(transaction, recorded)
        # Of what made no event the log knows nothing: heard again after a kill, after what came later, it could.
        spool.done(silent)
    spool.done(one.entry for one in group)
    for talk in where.linked:
        opened.forget(keeper.home.path, talk)


def _record(keeper: Keeper, transaction: Transaction, session: str, one: Taken, count: int) -> bool:
    """Tell the session of it; says whether that made an event."""
    from holdfast.keeper.captures import telling
    from holdfast.keeper.captures.telling_agents import Timed

    name = view.native_name(one.heard.agent, one.heard.conversation)
    state = transaction.state(session)
    is_linked = links.is_linked(keeper, state, name)
    opening = None if is_linked else opened.recall(keeper.home.path, name)
    ground = telling.Ground(
        keeper.place, _process(one.entry.parent), opening, keeper.message_ends_pause, is_linked,
        own_test(keeper, session),
    )  # fmt: skip
    said = telling.told(state, one.heard, one.at, ground)
    timed = ((told.at, told.data) if isinstance(told, Timed) else (one.at, told) for told in said)
    numbers, key = counting(), _key(one, 0, count)
    keeper.recorder.hear(
        transaction, session, timed, keys=(f"{key}:{number}" for number in numbers), actor=one.heard.agent
    )
    return next(numbers) > 0


def _key(one: Taken, back: int, count: int) -> str:
    again = f".{count}" if count else ""
    if one.certain:
        return f"hook:{one.same}{again}"
    return f"hook:{one.same}@{one.at // _SLOT - back}{again}"


def _keys(one: Taken) -> list[str]:
    """Those that are asked for, most likely: it was not heard here before, and makes an event or two."""
    slots = (0,) if one.certain else (0, 1)
    return [f"{_key(one, back, 0)}:{number}" for back in slots for number in (0, 1)]


def _known(transaction: Transaction, session: str, one: Taken, count: int) -> bool:
    """Whether this very event was heard before: for certain by its mark, or the same words just now."""
    if one.certain:
        return transaction.knows(session, f"hook:{one.same}:0")
    return any(transaction.knows(session, f"{_key(one, back, count)}:0") for back in (0, 1))


def _remember(keeper: Keeper, one: Taken) -> None:
    """A conversation without a session says something of itself: kept without secrets, like all that is kept."""
    from holdfast.core.secret_documents import redact_document
    from holdfast.core.secrets import redact

    said = opened.Opening()
    for signal in one.heard.signals:
        if isinstance(signal, Chosen):
            said.model = plain(signal.model or "", 100) or said.model
            said.permission = plain(signal.permission or "", 100) or said.permission
        elif isinstance(signal, Opened):
            said.title = None if signal.title is None else redact(plain(signal.title)).text
    rest = redact_document(kept(one.heard.rest)).value
    if rest and fits(rest):
        said.rest = {plain(one.heard.event, 60): rest}
    if said != opened.Opening():
        name = view.native_name(one.heard.agent, one.heard.conversation)
        opened.remember(keeper.home.path, name, said, now=keeper.now())


def _process(pid: int) -> Process | None:
    """The agent's process, while it is there to be recognised later.

    Some programs run hooks through a shell that is gone a moment later: its end is not the agent's.
    """
    if pid <= 1 or name_of(pid).lower().removesuffix(".exe").lstrip("-") in _SHELLS:
        return None
    found = identify(pid)
    return None if found is None else Process(*found)


def _one_by_one(keeper: Keeper, group: list[Taken], patience: float) -> None:
    """One of them cannot be taken in: the others are."""
    for one in group:
        try:
            _take_in(keeper, [one], patience)
        except (Busy, Damaged, Unreachable):
            return
        except Exception as error:  # noqa: BLE001
            if passes(error if isinstance(error, OSError) else error.__cause__):
                return
            message = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            _put_aside(keeper.home.path, one.entry, f"a payload of {one.entry.agent} was not taken in: {message}")


def _put_aside(home: str, entry: spool.Entry, why: str) -> None:
    errorlog.note(home, "drain", why)
    try:
        spool.put_aside(home, entry)
    except OSError:
        return
