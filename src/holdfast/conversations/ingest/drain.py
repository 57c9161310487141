"""Turn waiting payloads into events, before anything else is read or written.

Payloads of one work tree are recorded in one transaction, in the order in which hooks wrote them; only then are their
files removed. A process that dies in between leaves the files, and the next one recognises by their keys what is
recorded already. A payload is recorded in the store that was in force where its hook ran: what is meant for another
store stays. A payload that makes no sense is quarantined and noted; one that comes while the store is locked, its
server away or the disk full waits. None of this stops the command that caused it, except for what would stop that
command too: a server that does not open its store is not asked twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import count as counting
from typing import TYPE_CHECKING, Final

from holdfast.conversations.adapters.clean_text import bounded, is_small, plain
from holdfast.conversations.ingest import routing
from holdfast.conversations.ingest.payload import Payload, is_temporary, read
from holdfast.conversations.signals import (
    AnySignal,
    Chosen,
    Closed,
    Erred,
    Limited,
    Measured,
    Opened,
    Prompted,
    Ran,
    Replied,
)
from holdfast.core import limits, view
from holdfast.core.attribution import AgentTurn, RanCommand
from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Refused, Unreachable
from holdfast.core.events import Process
from holdfast.machine import error_log, files
from holdfast.machine.git import worktree
from holdfast.machine.process import identify, name_of
from holdfast.sessions import ownership, run_deferred
from holdfast.sessions.changes.tree_state import TreeTurns, decode_turns, keep_turns, turns_name
from holdfast.sessions.ownership import own_test
from holdfast.store.address import Address, SqliteAddress, address
from holdfast.workspace import projects, server_outage, spool

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import HookEvent
    from holdfast.store.interface import Transaction
    from holdfast.workspace.home import Home
    from holdfast.workspace.workspace import Workspace


_TURN_ENDS = (Replied, Limited, Closed, Erred)
_MAX_BATCH = 1_000  # payloads in memory and in one transaction
_SHELLS = frozenset(
    {"sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "busybox", "cmd", "powershell", "pwsh", "env", "timeout"}
)
_KEY_SLOT = 3_000  # ms: an equal payload within one or two slots came through another configuration


def drain(ws: Workspace, *, patience: float) -> None:
    """Record waiting payloads. Once the store is open, never raises for a bad payload or a busy store."""
    if ws.address.path is None:
        ws.store()
    waiting = payloads_for_this_store(ws, spool.list_entries(ws.home.path))
    while waiting:
        _drain_batch(ws, waiting[:_MAX_BATCH], patience)
        remaining = payloads_for_this_store(ws, spool.list_entries(ws.home.path))
        if len(waiting) <= _MAX_BATCH or len(remaining) >= len(waiting):
            return  # the rest is new, or cannot be recorded now
        waiting = remaining


def _drain_batch(ws: Workspace, waiting: list[spool.SpoolEntry], patience: float) -> None:
    home = ws.home.path
    payloads: list[Payload] = []
    blocked: set[int] = set()
    for entry in waiting:
        if entry.agent == run_deferred.OWN:
            if not _record_deferred(ws, entry, patience):
                return
            continue
        if entry.parent in blocked:
            continue
        result = read(entry, ws.now())
        if result.payload is not None:
            payloads.append(result.payload)
        elif result.unfinished:
            blocked.add(entry.parent)  # later payloads of the same agent wait with it, to keep their order
        elif not result.why:
            spool.remove_entries([entry])
        else:
            _quarantine(home, entry, result.why)
    for root, group in _group_by_work_tree(ws, payloads).items():
        place = ws if root == ws.place.root else ws.at(root)
        try:
            _record_payloads(place, group, patience)
            ws.turn_changed |= place.turn_changed
        except Unreachable as error:
            server_outage.note_outage(
                home, "drain", ws.address.secret, error.message, ws.timeout or server_outage.BACKGROUND_PATIENCE
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
            if not is_temporary(error):
                _one_by_one(place, group, patience)
        except Exception as error:  # noqa: BLE001 (whatever one payload holds, the others are recorded)
            error_log.note(home, "drain", f"{type(error).__name__}: {error}")
            _one_by_one(place, group, patience)


def _record_deferred(ws: Workspace, entry: spool.SpoolEntry, patience: float) -> bool:
    """Record the deferred outcome of a command; says whether the server can be reached."""
    home = ws.home.path
    try:
        later = run_deferred.read(entry)
        if later.store == ws.address.key:  # one for another store waits for a process that uses it
            run_deferred.record_deferred(ws, later, patience)
            spool.remove_entries([entry])
    except Unreachable as error:
        server_outage.note_outage(
            home, "drain", ws.address.secret, error.message, ws.timeout or server_outage.BACKGROUND_PATIENCE
        )
        return False
    except (Busy, Damaged):
        return True
    except (HoldfastError, OSError) as error:
        if is_temporary(error):
            return True
        if os.path.lexists(entry.path) and ws.now() * 1_000_000 - entry.at > spool.YOUNG_NS:
            _quarantine(home, entry, f"the outcome of a command was not recorded: {error}")
    return True


def _group_by_work_tree(ws: Workspace, payloads: list[Payload]) -> dict[str, list[Payload]]:
    """Payloads by work tree. A conversation stays in the first one, even if its agent changes directory."""
    of_conversation: dict[tuple[str, str], str] = {}
    of_directory: dict[str | None, str] = {}
    groups: dict[str, list[Payload]] = {}
    for payload in payloads:
        conversation = (payload.event.agent, payload.event.conversation)
        if conversation not in of_conversation:
            if payload.event.cwd not in of_directory:
                of_directory[payload.event.cwd] = _root(payload.event.cwd) or ws.place.root
            of_conversation[conversation] = of_directory[payload.event.cwd]
        groups.setdefault(of_conversation[conversation], []).append(payload)
    return groups


def _root(cwd: str | None) -> str | None:
    """The work tree of a directory, or of its nearest parent that still exists."""
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


def _record_payloads(ws: Workspace, group: list[Payload], patience: float) -> None:
    reported = [(payload.event, payload.at) for payload in group]
    facts = projects.observe(ws.place, "") if routing.needs_project(ws, reported) else None
    with ws.transaction(patience=patience) as transaction:
        router = routing.Router(ws, transaction, facts)
        repeats: dict[tuple[str, str], int] = {}
        silent: list[spool.SpoolEntry] = []
        recorded_in: set[str] = set()
        expected: set[str] = set()
        recorded: list[tuple[Payload, str]] = []
        for payload in group:
            if not payload.entry.is_there():
                continue  # another process recorded it meanwhile
            count = repeats.get((payload.same, payload.entry.source), 0)
            repeats[payload.same, payload.entry.source] = count + 1
            session = router.session(payload.event, payload.at, _key(payload, 0, count))
            if session is None:
                _remember(ws, payload)
                silent.append(payload.entry)
                continue
            if session not in expected:  # nearly always, a group belongs to one session
                expected.add(session)
                transaction.expect(session, [key for other in group for key in _keys(other)])
            if _known(transaction, session, payload, count):
                continue
            recorded.append((payload, session))
            if _record(ws, transaction, session, payload, count):
                recorded_in.add(session)
            else:
                silent.append(payload.entry)
        for session in sorted(recorded_in):
            ws.recorder.note_git_position(transaction, session)
        if recorded and ws.place.git:
            turns_of = [(payload.event, payload.at, session) for payload, session in recorded]
            ws.turn_changed |= note_turns(transaction, ws.place.root, turns_of)
        if any(isinstance(signal, _TURN_ENDS) for payload, _ in recorded for signal in payload.event.signals):
            from holdfast.conversations import details

            ws.turn_changed |= details.note_ended_turns(transaction, recorded)
        # The log does not have payloads that made no event: repeated after a kill, out of order, they could make one.
        spool.remove_entries(silent)
    spool.remove_entries(payload.entry for payload in group)
    for conversation in router.linked:
        routing.forget_opening(ws.home.path, conversation)


def _record(ws: Workspace, transaction: Transaction, session: str, payload: Payload, count: int) -> bool:
    """Record a payload in its session; says whether that made an event."""
    from holdfast.conversations.ingest import events
    from holdfast.conversations.ingest.subagents import Timed

    name = view.native_name(payload.event.agent, payload.event.conversation)
    state = transaction.state(session)
    is_linked = ownership.is_linked(ws, state, name)
    opening = None if is_linked else routing.recall_opening(ws.home.path, name)
    context = events.IngestContext(
        ws.place, _process(payload.entry.parent), opening, ws.message_ends_pause, is_linked,
        own_test(ws, session),
    )  # fmt: skip
    events_made = events.events_of(state, payload.event, payload.at, context)
    timed = ((item.at, item.data) if isinstance(item, Timed) else (payload.at, item) for item in events_made)
    numbers, key = counting(), _key(payload, 0, count)
    ws.recorder.append_reported(
        transaction, session, timed, keys=(f"{key}:{number}" for number in numbers), actor=payload.event.agent
    )
    return next(numbers) > 0


def _key(payload: Payload, slots_back: int, count: int) -> str:
    suffix = f".{count}" if count else ""
    if payload.certain:
        return f"hook:{payload.same}{suffix}"
    return f"hook:{payload.same}@{payload.at // _KEY_SLOT - slots_back}{suffix}"


def _keys(payload: Payload) -> list[str]:
    """The keys that are most likely looked up: the payload is new, and makes an event or two."""
    slots = (0,) if payload.certain else (0, 1)
    return [f"{_key(payload, slots_back, 0)}:{number}" for slots_back in slots for number in (0, 1)]


def _known(transaction: Transaction, session: str, payload: Payload, count: int) -> bool:
    """Whether this event was recorded before: known by its mark, or equal to a recent payload."""
    if payload.certain:
        return transaction.knows(session, f"hook:{payload.same}:0")
    return any(transaction.knows(session, f"{_key(payload, slots_back, count)}:0") for slots_back in (0, 1))


def _remember(ws: Workspace, payload: Payload) -> None:
    """Keep what a conversation without a session reports of itself, without secrets."""
    from holdfast.core.secrets.patterns import redact, redact_document

    opening = routing.Opening()
    for signal in payload.event.signals:
        if isinstance(signal, Chosen):
            opening.model = plain(signal.model or "", 100) or opening.model
            opening.permission = plain(signal.permission or "", 100) or opening.permission
        elif isinstance(signal, Opened):
            opening.title = None if signal.title is None else redact(plain(signal.title)).text
    rest = redact_document(bounded(payload.event.rest)).value
    if rest and is_small(rest):
        opening.rest = {plain(payload.event.event, 60): rest}
    if opening != routing.Opening():
        name = view.native_name(payload.event.agent, payload.event.conversation)
        routing.remember_opening(ws.home.path, name, opening, now=ws.now())


def _process(pid: int) -> Process | None:
    """The agent's process, identified while it runs.

    None for a shell: some programs run hooks through one that ends at once, which is not the agent's end.
    """
    if pid <= 1 or name_of(pid).lower().removesuffix(".exe").lstrip("-") in _SHELLS:
        return None
    identity = identify(pid)
    return None if identity is None else Process(*identity)


def _one_by_one(ws: Workspace, group: list[Payload], patience: float) -> None:
    """Record payloads one by one, because one of them cannot be recorded."""
    for payload in group:
        try:
            _record_payloads(ws, [payload], patience)
        except (Busy, Damaged, Unreachable):
            return
        except Exception as error:  # noqa: BLE001
            if is_temporary(error if isinstance(error, OSError) else error.__cause__):
                return
            message = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            _quarantine(
                ws.home.path, payload.entry, f"a payload of {payload.entry.agent} was not recorded: {message}"
            )


def _quarantine(home: str, entry: spool.SpoolEntry, why: str) -> None:
    error_log.note(home, "drain", why)
    try:
        spool.quarantine(home, entry)
    except OSError:
        return


# ── turns of a work tree ───────────────────────────────────────────────────────────────────────────────


# Not compiled here, to save time in hooks that answer.
_COMMITS: Final = r"\bgit\b[^|;&\n]*\b(?:commit|merge|rebase|cherry-pick|revert|am|pull)\b"
_CLOCK_TOLERANCE: Final = 1_000  # ms by which an agent's clock and file times may differ


def note_turns(transaction: Transaction, root: str, reported: Iterable[tuple[HookEvent, int, str]]) -> bool:
    """Note turns from payloads with their times and sessions; says whether one began or ended."""
    tree = decode_turns(transaction.remembered(turns_name(root)), root)
    before = tree.due
    for event, at, session in reported:
        name = view.native_name(event.agent, event.conversation)
        for signal in event.signals:
            _note_turn(tree, name, session, signal, at)
        # An error that is not a tool's ends the turn, and nothing else reports that end.
        alone = all(isinstance(signal, Erred | Chosen) for signal in event.signals)
        if alone and any(isinstance(signal, Erred) and signal.agent is None for signal in event.signals):
            _note_turn(tree, name, session, Replied(), at)
    keep_turns(transaction, tree)
    return tree.due != before


def _note_turn(tree: TreeTurns, conversation: str, session: str, signal: AnySignal, at: int) -> None:
    turn = next((turn for turn in reversed(tree.turns) if turn.conversation == conversation), None)
    if turn is not None and turn.ended is not None:
        turn = None
    match signal:
        case Prompted(agent=None):
            _end_turn(turn, at, broken_off=True)
            tree.turns.append(AgentTurn(conversation, session, at, at))
        case Replied(agent=None) | Limited(agent=None):
            _end_turn(turn, at, broken_off=False)
        case Closed(agent=None):
            _end_turn(turn, at, broken_off=True)
            # Changes by the person since the last turn belong to this conversation's session.
            tree.turns.append(AgentTurn(conversation, session, at, at, at))
        case Opened(agent=None) if signal.how != "compact":
            _end_turn(turn, at, broken_off=True)
            return
        case Ran() if turn is not None:
            since = turn.began if signal.took_ms is None else max(turn.began, at - signal.took_ms - _CLOCK_TOLERANCE)
            makes_commits = "git" in signal.command and re.search(_COMMITS, signal.command) is not None
            turn.commands = [*turn.commands, RanCommand(since, at, makes_commits)][-limits.MAX_TURN_COMMANDS :]
            turn.last_report = max(turn.last_report, at)
            return
        case Measured():  # a status line is no activity
            return
        case _:
            if turn is not None:
                turn.last_report = max(turn.last_report, at)
            return
    tree.due = at


def _end_turn(turn: AgentTurn | None, at: int, *, broken_off: bool) -> None:
    if turn is not None:
        turn.ended, turn.broken_off = max(at, turn.began), broken_off


# ── which store a payload is meant for ─────────────────────────────────────────────────────────────────


def payloads_for_this_store(ws: Workspace, waiting: list[spool.SpoolEntry]) -> list[spool.SpoolEntry]:
    """The payloads meant for this workspace's store, in order."""
    home, own = ws.home, ws.spool_tag
    usual = ""
    chosen: list[spool.SpoolEntry] = []
    for entry in waiting:
        store, named = entry.store, None
        if store == spool.NAMED or (store == own and entry.names_store):
            url = entry.store_url()
            if url is None:  # being written, or left by a killed hook: reading it will show
                if os.path.lexists(entry.path):
                    chosen.append(entry)
                continue
            named = _address(url)
            store = "" if named is None else home.spool_tag(named.key)
        if not store:
            store = usual = usual or home.spool_tag(hook_store(home).key)
        # A deferred command names its store in its content, since before file names did.
        if store == own or (entry.agent == run_deferred.OWN and not entry.store):
            chosen.append(entry)
        elif named is not None:
            spool.tag_entry(entry, store)
    return chosen


def payloads_for_other_stores(ws: Workspace) -> dict[str, list[spool.SpoolEntry]]:
    """The payloads meant for other stores, by the stores' URLs without passwords."""
    home = ws.home
    by_url: dict[str, list[spool.SpoolEntry]] = {}
    for entry in spool.list_entries(home.path):
        if entry.store == spool.HOME:
            meant_for: Address | None = SqliteAddress(home.store)
        else:
            meant_for = _address(entry.store_url() or "") if entry.names_store else None
        meant_for = meant_for or hook_store(home)
        if meant_for.key != ws.address.key:
            by_url.setdefault(meant_for.url, []).append(entry)
    return by_url


def hook_store(home: Home) -> Address:
    """The store that hooks use where no variable names one."""
    from holdfast.conversations.hooks import script  # seldom needed, and hooks must be fast

    path = os.path.join(home.path, script.DIRECTORY, script.STORE)
    try:
        named = files.read_limited(path, 4096, subject="the store of hooks") if os.path.lexists(path) else b""
    except HoldfastError:
        named = b""
    return _address(os.fsdecode(named)) or SqliteAddress(home.store)


def _address(url: str) -> Address | None:
    try:
        return address(url)
    except HoldfastError:
        return None
