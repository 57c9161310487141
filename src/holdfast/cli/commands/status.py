"""`holdfast status`: where things stand, at a glance."""

from __future__ import annotations

import os
import shlex

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.status_view import render_status
from holdfast.core import tasks, view
from holdfast.core.agents import failed as failed_agents
from holdfast.core.model import Session
from holdfast.core.state import State
from holdfast.core.times import format_time
from holdfast.formats import project_files


def run(call: Call) -> None:
    reference = call.parsed.text("id") or "@"
    found = call.keeper.current(at=call.at) if reference == "@" else call.keeper.session(reference)
    files = (
        project_files.notes(call.keeper, at_work=found is not None) if call.at is None and reference == "@" else []
    )
    if found is None:
        call.keeper.settings  # noqa: B018 (read, so that what is wrong with them is told)
        gone = _deleted(call) if call.at is None else None
        notes = [*([] if gone is None else [gone]), *call.keeper.notices, *files]
        call.answer({"session": None, **_with(notes)}, lambda paint: _nothing(call, paint, files))
        if gone is not None:
            call.note(gone)
        call.tell_of_mirrors()
        return
    at = call.at
    now = call.keeper.now() if at is None else at
    state = found.state(at=at)
    document = found.described(state, now)
    others = _others(call, state) if at is None and reference == "@" else []
    agents, ended = _ended(state, document) if at is None else (frozenset[str](), [])
    silent = _ended_silently(document, agents, ended)
    more: dict[str, object] = {"others": others} if others else {}
    answer = {"session": document, **more, **_with([*call.keeper.notices, *files, *silent])}
    call.answer(answer, lambda paint: render_status(
        paint, document, Clock(now), hint=not call.quiet, gone=agents, ended=ended, others=others,
        failed=failed_agents(state) if state.agents else None,
    ))  # fmt: skip
    call.tell_of_mirrors()
    for sentence in files:
        call.note(sentence)
    waits = document.sync.status == "error" or (document.sync.status == "pending" and document.sync.error is None)
    if at is None and waits:
        call.keeper.send_soon()  # what could not be sent when it was recorded is tried again


def _others(call: Call, shown: State) -> list[dict[str, object]]:
    """The other sessions that are open in this work tree, with how many of their tasks are."""
    from holdfast.sessions.work_trees import open_sessions

    now = call.keeper.now()
    return [
        {
            "id": state.session, "goal": view.text_value(state, "goal") or "", "status": view.status_at(state, now),
            "updated_at": format_time(state.updated_at), "open_tasks": tasks.open_count(state),
        }
        for state in open_sessions(call.keeper)
        if state.session != shown.session
    ]  # fmt: skip


def _with(notes: list[str]) -> dict[str, list[str]]:
    return {"notes": notes} if notes else {}


def _ended(state: State, document: Session) -> tuple[frozenset[str], list[str]]:
    """The agents and the conversations that ended without saying so."""
    if not document.agents and all(native.closed_at is not None for native in state.native.values()):
        return frozenset(), []
    from holdfast.sessions.resume import ended_conversations, lost_agents

    return lost_agents(state, document), ended_conversations(state, document)


def _ended_silently(document: Session, gone: frozenset[str], ended: list[str]) -> list[str]:
    """The same in sentences, for programs."""
    agents = [f"Agent {agent.id}" for agent in document.agents if agent.id in gone]
    return [f"{name} ended without saying so." for name in (*agents, *ended)]


def _deleted(call: Call) -> str | None:
    """That the session one was at here is gone because another device deleted it: said once."""
    if not os.path.lexists(call.keeper.home.remotes):
        return None
    from holdfast.sync.session_status import is_missing_here

    found = is_missing_here(call.keeper)
    return None if found is None else f"Session {found[0][:8]}, which you were at here, was deleted on {found[1]}."


def _disputed(call: Call) -> str | None:
    """The session this work tree was at last, if it was finished elsewhere and not all devices agree on it."""
    from holdfast.core import view
    from holdfast.sessions.conflicts import last_here

    last = last_here(call.keeper)
    if last is None or all(conflict.chosen is not None for conflict in view.conflicts(last)):
        return None
    return last.session[:8]


def _nothing(call: Call, paint: Paint, files: list[str]) -> Painted:
    from holdfast.workspace import projects

    lines = [paint.join("No session is in progress here. Start one: ", paint.bold("holdfast start GOAL"))]
    disputed = _disputed(call) if call.at is None else None
    if disputed is not None:
        lines.append(
            paint.join("The last one here has open conflicts: ", paint.bold(f"holdfast conflicts {disputed}"))
        )
    store = call.keeper.existing_store()
    moved = None if store is None or call.at is not None else projects.moved_from(store, call.keeper.place)
    if moved is not None:
        command = f"holdfast project reconnect {shlex.quote(moved)}"
        lines.append(paint.join("If this project was moved here: ", paint.bold(command)))
    latest = call.keeper.latest_unfinished()
    if latest is not None:
        document = latest.document()
        ago = Clock(call.keeper.now()).ago(document.updated_at)
        lines += [
            paint.join("Or go on with the latest: ", paint.bold("holdfast continue")),
            paint.cut(paint.join("  ", paint.dim(f"{latest.id[:8]}, {ago}  "), document.goal), paint.width),
        ]
    lines += [paint.plain(sentence, lines=True) for sentence in files]
    return Painted("\n".join(lines))
