"""The process of a hook: answer the hook, drain the spool, name the session in a commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TypeVar

from holdfast.conversations import status_cache, status_cache_writer
from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookEvent, Reply
from holdfast.conversations.hooks.reply import answer
from holdfast.conversations.ingest.payload import decoded, read
from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Busy, HoldfastError, Unreachable
from holdfast.keeper.keeper import Keeper
from holdfast.machine.locks import locked
from holdfast.machine.wall import Wall
from holdfast.workspace import server_outage, spool
from holdfast.workspace.agent_dirs import AgentDirs

_DRAIN_LOCK = "drain.lock"  # in the home: held by the process that drains
_QUEUE_LOCK = "drain.next"  # held by the process that waits for it
_MAX_WAIT = 60.0  # seconds
_Result = TypeVar("_Result")


def answer_hook(home: str, name: str, *, store: str | None, payload: bytes | None = None) -> Reply | None:
    """The reply to the payload in the spool under this name; None when there is none."""
    agent = name.partition(".")[0]
    event = _read_event(home, name, agent, payload)
    if event is None or event.occasion is None or event.agent != agent or server_outage.is_away(home, store):
        return None
    return _briefly(home, event.cwd, store, server_outage.HOOK_PATIENCE, lambda ws: _answer(ws, event, store))


def _answer(ws: Keeper, event: HookEvent, store: str | None) -> Reply | None:
    home = ws.home.path
    ws.collect()
    if ws.turn_changed:
        # The agent waits for this process, so another one reads the work tree, before anything changes there.
        from holdfast.machine import background_process

        background_process.start("holdfast.cli.hooking", "drain", home)
    agent = index.load_adapter(event.agent)
    response = answer(ws, event, room=agent.room)
    if response.notify and response.say and not agent.notifies:
        from holdfast.conversations.hooks.notify import notify

        notify(home, "Holdfast", response.say)
    if event.occasion == "prompt":
        # From now on, the hooks of further prompts can see in the cache that there is nothing to reply.
        name = view.native_name(event.agent, event.conversation)
        if not os.path.lexists(status_cache.conversation_path(home, name)):
            status_cache_writer.cache_conversation(ws, name, event.cwd or "", store=store or "")
    return agent.reply(response, event.event)


def status_of_conversation(home: str, name: str, directory: str, *, store: str) -> Mapping[str, Json] | None:
    """The status of a conversation that has none in the cache, or an old one. Raises `Unreachable`, after noting the
    outage, while the server is away.
    """
    if server_outage.is_away(home, store):
        raise Unreachable("the server is away")
    for place in (directory, home):
        try:
            ws = Keeper.open(place, home=home, store=store or None, timeout=server_outage.HOOK_PATIENCE)
        except HoldfastError:
            continue
        try:
            with ws:
                return status_cache_writer.cache_conversation(ws, name, directory, store=store)
        except Unreachable as error:
            server_outage.note_outage(home, "statusline", store, error.message)
            raise
    return None


def name_session_in_commit(home: str, path: str, *, store: str | None) -> None:
    """Name the session in the message of the commit that is being made in this directory."""
    if not server_outage.is_away(home, store):
        from holdfast.conversations.connect.git_trailer import add_trailer

        _briefly(home, None, store, server_outage.HOOK_PATIENCE, lambda ws: add_trailer(ws, path))


def drain_spool(home: str, *, store: str | None, places: AgentDirs | None = None) -> None:
    """Drain the spool; where a turn began or ended, compare the work tree and read the transcript."""
    if not server_outage.is_on_a_server(store):
        _briefly(home, None, store, server_outage.BACKGROUND_PATIENCE, lambda ws: _drain(ws, places))
    elif not server_outage.is_away(home, store, server_outage.BACKGROUND_PATIENCE):
        with suppress(Busy):
            _drain_in_turn(home, store, places)


def _drain(ws: Keeper, places: AgentDirs | None) -> None:
    from holdfast.conversations.details import update_due
    from holdfast.sessions.changes.compare import compare_due

    ws.collect()
    compare_due(ws)
    if places is not None:
        update_due(ws, places)


def _drain_in_turn(home: str, store: str | None, places: AgentDirs | None) -> None:
    """Drain to a server, which may take its time while hooks keep starting processes. One of them works and one
    waits, which will drain what all others have left; those end at once.
    """
    with ExitStack() as waiting:
        waiting.enter_context(locked(os.path.join(home, _QUEUE_LOCK), patience=0, purpose="draining"))
        with locked(os.path.join(home, _DRAIN_LOCK), patience=_MAX_WAIT, purpose="draining"):
            waiting.close()
            if not server_outage.is_away(home, store, server_outage.BACKGROUND_PATIENCE):
                _briefly(home, None, store, server_outage.BACKGROUND_PATIENCE, lambda ws: _drain(ws, places))


def _briefly(
    home: str, cwd: str | None, store: str | None, patience: float, do: Callable[[Keeper], _Result]
) -> _Result | None:
    """Do something that is not worth a long wait. The first process to notice an outage of the server notes it."""
    try:
        with _keeper(home, cwd, store) as ws:
            ws.patience = ws.timeout = patience
            done = do(ws)
            waits = spool.has_entries(home, ws.spool_tag)
    except Unreachable as error:
        server_outage.note_outage(home, "hook", store or "", error.message, patience)
        return None
    if server_outage.is_on_a_server(store) and not waits:
        server_outage.clear_outage(home)
    return done


def _read_event(home: str, name: str, agent: str, payload: bytes | None) -> HookEvent | None:
    """Parse the payload, from memory if possible: another process may drain the file at any moment."""
    if payload is not None:
        fields = decoded(payload) if agent in index.NAMES else None
        return None if fields is None else index.load_adapter(agent).parse(fields)
    path = os.path.join(home, spool.DIRECTORY, name)
    try:
        entry = spool.SpoolEntry(path, name, os.lstat(path))
    except FileNotFoundError:
        return None
    parsed = read(entry, Wall().now()).payload
    return None if parsed is None else parsed.event


def _keeper(home: str, cwd: str | None, store: str | None) -> Keeper:
    for directory in (cwd, ".", home):
        if directory and "\0" not in directory and os.path.isdir(directory):
            try:
                return Keeper.open(directory, home=home, store=store, collect_mode="once")
            except HoldfastError:
                continue
    return Keeper.open(os.sep, home=home, store=store)
