"""Commands that show one session, or those at work: on the screen, live, and in the browser."""

from __future__ import annotations

import os

from holdfast.cli.call import Call, write_output
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core import agents, tasks, view
from holdfast.core.agents import failed_agents
from holdfast.core.display_names import agent_names, with_readable_names
from holdfast.core.errors import Usage
from holdfast.core.model import Session
from holdfast.core.modes import limits
from holdfast.core.state import AgentState, State
from holdfast.core.times import format_time
from holdfast.core.wording import count
from holdfast.core.worktime import WorkTime
from holdfast.keeper.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.gantt import TimelineChart
    from holdfast.sessions.overview import SessionCard
    from holdfast.workspace.agent_dirs import AgentDirs

# ── status ─────────────────────────────────────────────────────────────────────────────────────────────


def status(call: Call) -> None:
    from holdfast.cli.status_view import render_status
    from holdfast.formats import project_files

    reference = call.parsed.text("id") or "@"
    session = call.keeper.current(at=call.at) if reference == "@" else call.keeper.session(reference)
    files = (
        project_files.notes(call.keeper, at_work=session is not None) if call.at is None and reference == "@" else []
    )
    if session is None:
        call.keeper.settings  # noqa: B018 (read, so that problems with them are reported)
        deleted = _deleted_elsewhere(call) if call.at is None else None
        notes = [*([] if deleted is None else [deleted]), *map(str, call.keeper.notices), *files]
        call.answer({"session": None, **_with_notes(notes)}, lambda paint: _no_session(call, paint, files))
        if deleted is not None:
            call.note(deleted)
        call.print_notices()
        return
    at = call.at
    now = call.keeper.now() if at is None else at
    state = session.state(at=at)
    document = session.described(state, now)
    others = _other_sessions(call, state) if at is None and reference == "@" else []
    agents, ended = _ended_without_report(state, document) if at is None else (frozenset[str](), [])
    silent = _ended_sentences(document, agents, ended)
    extra: dict[str, object] = {"others": others} if others else {}
    answer = {"session": document, **extra, **_with_notes([*map(str, call.keeper.notices), *files, *silent])}
    call.answer(answer, lambda paint: render_status(
        paint, document, Clock(now), hint=not call.quiet, lost_ids=agents, ended=ended, others=others,
        failed=failed_agents(state) if state.agents else None,
    ))  # fmt: skip
    call.print_notices()
    for sentence in files:
        call.note(sentence)
    unsent = document.sync.status == "error" or (document.sync.status == "pending" and document.sync.error is None)
    if at is None and unsent:
        call.keeper.send_soon()  # what could not be sent when it was recorded is tried again


def _other_sessions(call: Call, shown: State) -> list[dict[str, object]]:
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


def _with_notes(notes: list[str]) -> dict[str, list[str]]:
    return {"notes": notes} if notes else {}


def _ended_without_report(state: State, document: Session) -> tuple[frozenset[str], list[str]]:
    """The agents and the conversations that ended without a report."""
    if not document.agents and all(native.closed_at is not None for native in state.native.values()):
        return frozenset(), []
    from holdfast.sessions.resume import ended_conversations, lost_agents

    return lost_agents(state, document), ended_conversations(state, document)


def _ended_sentences(document: Session, lost: frozenset[str], ended: list[str]) -> list[str]:
    """The same in sentences, for programs."""
    agents = [f"Agent {agent.id}" for agent in document.agents if agent.id in lost]
    return [f"{name} ended without a report." for name in (*agents, *ended)]


def _deleted_elsewhere(call: Call) -> str | None:
    """Whether another device deleted the session that was current here; reported once."""
    if not os.path.lexists(call.keeper.home.remotes):
        return None
    from holdfast.sync.session_status import take_deleted_session

    deletion = take_deleted_session(call.keeper)
    if deletion is None:
        return None
    session, device = deletion
    return f"Session {session[:8]}, which was the current one here, was deleted on {device}."


def _last_session_with_conflicts(call: Call) -> str | None:
    """The session this work tree was at last, if it was finished elsewhere and not all devices agree on it."""
    from holdfast.sessions.conflicts import latest_session_here

    last = latest_session_here(call.keeper)
    if last is None or all(conflict.chosen is not None for conflict in view.conflicts(last)):
        return None
    return last.session[:8]


def _no_session(call: Call, paint: Paint, files: list[str]) -> Painted:
    from holdfast.workspace import projects

    lines = [paint.join("No session is in progress here. Start one: ", paint.bold("holdfast start GOAL"))]
    disputed = _last_session_with_conflicts(call) if call.at is None else None
    if disputed is not None:
        lines.append(
            paint.join("The last one here has open conflicts: ", paint.bold(f"holdfast conflicts {disputed}"))
        )
    store = call.keeper.existing_store()
    moved = None if store is None or call.at is not None else projects.moved_from(store, call.keeper.place)
    if moved is not None:
        import shlex

        command = f"holdfast project reconnect {shlex.quote(moved)}"
        lines.append(paint.join("If this project was moved here: ", paint.bold(command)))
    latest = call.keeper.latest_unfinished()
    if latest is not None:
        document = latest.document()
        ago = Clock(call.keeper.now()).ago(document.updated_at)
        lines += [
            paint.join("Or continue the latest: ", paint.bold("holdfast continue")),
            paint.cut(paint.join("  ", paint.dim(f"{latest.id[:8]}, {ago}  "), document.goal), paint.width),
        ]
    lines += [paint.plain(sentence, lines=True) for sentence in files]
    return Painted("\n".join(lines))


# ── show ───────────────────────────────────────────────────────────────────────────────────────────────


def show(call: Call) -> None:
    at = call.at
    call.keeper.agent_dirs = call.agent_dirs()
    call.keeper.compare()
    session = call.session_to_read()
    document = session.document(at=at)
    clock = Clock(call.keeper.now() if at is None else at)

    from holdfast.cli.session_view import full_view
    from holdfast.core.display_names import with_device_labels

    shown = with_device_labels(document, session.state(at=at), session.guests())
    call.answer({"session": document}, lambda paint: full_view(paint, shown, clock, session.other_names()))


# ── budget ─────────────────────────────────────────────────────────────────────────────────────────────


def budget(call: Call) -> None:
    at = call.at
    document = call.session_to_read().document(at=at)
    clock = Clock(call.keeper.now() if at is None else at)
    call.answer(
        {"id": document.id, "context": document.context, "compress_at_percent": limits(document.mode).compress_at},
        lambda paint: _paint_budget(paint, document, clock),
    )


def _paint_budget(paint: Paint, session: Session, clock: Clock) -> Painted:
    from holdfast.cli.status_view import context_line

    context, allowed = session.context, limits(session.mode)
    last = f", last {clock.ago(context.last_compression)}" if context.last_compression else ""
    left = allowed.compress_at * context.window // 100 - (context.tokens or 0)
    due = f"{left:,} tokens until then" if left > 0 else paint.yellow("reached")
    facts: list[tuple[str, str]] = [
        ("Context", context_line(paint, session)),
        ("Compress", paint.join(f"at {allowed.compress_at}% in mode {session.mode}, ", due)),
        ("So far", paint.plain(count(context.compressions, "compression") + last)),
    ]
    blocks = [paint.pairs(facts)]
    if context.by_agent:
        blocks.append(Painted(f"{paint.heading('By agent')}\n{_tokens_by_agent(paint, session)}"))
    return Painted("\n\n".join(blocks))


def _tokens_by_agent(paint: Paint, session: Session) -> Painted:
    from holdfast.cli.session_parts import indented, progress

    by_agent = with_readable_names(session).context.by_agent
    total = max(sum(by_agent.values()), 1)
    rows = [
        [agent, f"{tokens:,}", progress(paint, tokens / total, 20)]
        for agent, tokens in sorted(by_agent.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = [Column("", weight=1, min_width=8), Column("", "right"), Column("", "left" if paint.tty else "right")]
    return indented(paint, lambda inner: inner.table(rows, columns))


# ── timeline ───────────────────────────────────────────────────────────────────────────────────────────


def timeline(call: Call) -> None:
    from holdfast.cli.gantt import chart
    from holdfast.cli.session_parts import title

    at = call.at
    now = call.keeper.now() if at is None else at
    session = call.session_to_read()
    state = session.state(at=at)
    work = view.worktime(state, now)
    stop = _end_of(state, now)

    def human(paint: Paint) -> Painted:
        goal = title(paint, view.text_value(state, "goal") or "", max_lines=2)
        return Painted(f"{goal}\n\n{chart(paint, _timeline_chart(state, work, stop))}")

    call.answer({"timeline": _timeline_document(state, work, stop)} if call.json else {}, human)


def _end_of(state: State, now: int) -> int:
    end = view.ended_at(state)
    return now if end is None else end


def _runs_of(agent: AgentState, stop: int) -> tuple[tuple[int, int], ...]:
    return tuple((run.since, stop if run.until is None else run.until) for run in agent.runs if run.since <= stop)


def _timeline_chart(state: State, work: WorkTime, stop: int) -> TimelineChart:
    from holdfast.cli.gantt import TimelineChart, TimelineLane, TimelinePause

    names = agent_names(state.agents.values())
    return TimelineChart(
        since=stop - work.elapsed,
        until=stop,
        live=view.ended_at(state) is None,
        pauses=tuple(
            TimelinePause(pause.kind, pause.since, pause.since + pause.length, pause.reason) for pause in work.pauses
        ),
        lanes=tuple(
            TimelineLane(
                names.get(agent.id, agent.id),
                agents.status_of(agent),
                _runs_of(agent, stop),
                tuple(agent.failed_attempts),
            )
            for agent in state.agents.values()
        ),
    )


def _timeline_document(state: State, work: WorkTime, stop: int) -> dict[str, object]:
    end = view.ended_at(state)
    return {
        "id": state.session,
        "started_at": format_time(stop - work.elapsed),
        "ended_at": None if end is None else format_time(end),
        "elapsed_ms": work.elapsed, "working_ms": work.working, "paused_ms": work.paused,
        "pauses": [
            {"kind": pause.kind, "reason": pause.reason, "started_at": format_time(pause.since),
             "ended_at": None if pause.until is None else format_time(pause.until), "duration_ms": pause.length}
            for pause in work.pauses
        ],
        "agents": [
            {"id": agent.id, "type": agent.type, "task": agent.task, "status": agents.status_of(agent),
             "background": agent.background,
             "runs": [{"started_at": format_time(run.since),
                       "ended_at": None if run.until is None else format_time(run.until)}
                      for run in agent.runs]}
            for agent in state.agents.values()
        ],
    }  # fmt: skip


# ── watch ──────────────────────────────────────────────────────────────────────────────────────────────


def watch(call: Call) -> None:
    from holdfast.machine.terminal import can_draw

    if call.parsed.globals.at is not None:
        raise Usage("watch takes no --at: it shows the present", hint="holdfast status --at TIME shows the past.")
    reference = call.parsed.text("id")
    only = None if reference is None else call.keeper.session(reference).id
    if call.json or not can_draw(call.environ):
        _show_once(call, only)
        return
    from holdfast.cli.watch.loop import watch

    watch(call.open_keeper, call.paint, only=only, prepare=lambda keeper: _set_agent_dirs(call, keeper))


def _set_agent_dirs(call: Call, keeper: Keeper) -> None:
    """Give a long-running keeper the directories of agent programs."""
    keeper.agent_dirs = call.agent_dirs(keeper)


def _show_once(call: Call, only: str | None) -> None:
    from holdfast.sessions import overview

    cards = overview.current_cards(call.keeper) if only is None else [overview.session_card(call.keeper, only)]
    call.answer(
        {"sessions": [card.session for card in cards]},
        lambda paint: _paint_cards(call, paint, cards, alone=only is not None),
    )


def _paint_cards(call: Call, paint: Paint, cards: Sequence[SessionCard], *, alone: bool) -> Painted:
    """As `status` and `history` show it."""
    from holdfast.cli.clock import Clock

    clock = Clock(call.keeper.now())
    if alone:
        from holdfast.cli.status_view import render_status

        shown = cards[0]
        return render_status(
            paint, shown.session, clock, lost_ids=shown.lost, failed=shown.failed, hint=not call.quiet
        )
    if not cards:
        return paint.join("No unfinished sessions. Start one: ", paint.bold("holdfast start GOAL"))
    from holdfast.cli.paint import Column
    from holdfast.cli.session_parts import status_word
    from holdfast.core.times import format_duration
    from holdfast.core.wording import percent

    columns = [
        Column("Session"), Column("Goal", weight=4, min_width=16), Column("Status"), Column("Done", "right"),
        Column("Worked", "right"), Column("Project", weight=1, min_width=8, max_width=24),
        Column("Waiting for you", weight=3),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [paint.bold(card.session.id[:8]), card.session.goal, status_word(paint, card.session),
         percent(card.session.progress), format_duration(card.session.time.working_ms), card.session.project.name,
         card.attention[0] if card.attention else ""]
        for card in cards
    ]  # fmt: skip
    if not any(row[-1] for row in rows):
        del columns[-1]
        rows = [row[:-1] for row in rows]
    return paint.table(rows, columns)


# ── ui ─────────────────────────────────────────────────────────────────────────────────────────────────


def ui(call: Call) -> None:
    from importlib.util import find_spec

    from holdfast.core.errors import missing_extra

    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2")):
        raise missing_extra("the dashboard", "ui")
    from holdfast.web.serve import Dashboard

    dirs = call.agent_dirs()
    with call.open_keeper() as keeper:
        # Report an unreadable store here, in the terminal: a page would only be empty.
        keeper.home.refuse_impossible()
        keeper.existing_store()
    dashboard = Dashboard(lambda: _dashboard_keeper(call, dirs), call.parsed.integer("port"))
    if call.json:
        api, token = f"{dashboard.plain}/api/v1", dashboard.secrets.token
        call.answer({"url": dashboard.address, "api": api, "token": token}, lambda _: "")
    else:
        write_output(f"Holdfast's dashboard: {dashboard.address}\n")
        call.note("Do not share the address. Ctrl-C stops the server.")
    if call.parsed.flag("no_open"):
        dashboard.serve()
        return
    from holdfast.web import browser

    with browser.browser_opened(dashboard, call.keeper.home.path, call.note):
        dashboard.serve()


def _dashboard_keeper(call: Call, dirs: AgentDirs) -> Keeper:
    """One more keeper of the same place; it looks at mirrored files before everything it does."""
    keeper = call.open_keeper()
    keeper.collect_mode = "each"
    keeper.agent_dirs = dirs
    return keeper
