"""The screen of `holdfast status`: the session in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import (
    agents_short,
    agents_summary,
    indented,
    pause_line,
    progress,
    redacted_words,
    reminder,
    status_word,
    tasks_short,
    tasks_summary,
    title,
    worked_words,
)
from holdfast.core.display_names import agent_names, with_readable_names
from holdfast.core.model import Session
from holdfast.core.modes import limits
from holdfast.core.wording import FILE_DELETED, count, limit_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.agents import FailedAgents

MAX_AGENTS = 10
MAX_TASKS = 6
MAX_LINES = 4
MAX_OTHERS = 6


def render_status(
    paint: Paint, session: Session, clock: Clock, *, lost_ids: frozenset[str] = frozenset(),
    ended: Sequence[str] = (), failed: FailedAgents | None = None, hint: bool = True,
    others: Sequence[Mapping[str, object]] = (),
) -> Painted:  # fmt: skip
    """`lost_ids` are agents, `ended` conversations that ended without a report; `others` are open here, too.

    `failed` are agents that did since the person wrote last.
    """
    names = agent_names(session.agents)
    lost_ids, recent, retry = (
        frozenset(names.get(id_, id_) for id_ in ids)
        for ids in (lost_ids, *((failed.recent, failed.retry) if failed is not None else ((), ())))
    )
    session = with_readable_names(session)
    blocks = [
        _heading(paint, session),
        paint.pairs(_facts(paint, session, clock)),
        *_attention(paint, session, clock),
    ]
    unsettled = [*(agent.id for agent in session.agents if agent.id in lost_ids), *ended]
    silent = [
        *unsettled,
        *(agent.id for agent in session.agents if agent.status == "interrupted" and agent.id in recent),
    ]
    if silent:
        lines = indented(paint, lambda inner: Painted("\n".join(inner.red(name) for name in silent[:MAX_LINES])))
        blocks.append(_block(paint, "Ended without a report", "", lines, len(silent) - MAX_LINES))
    if session.agents:
        lines = agents_short(paint, session.agents, MAX_AGENTS, lost_ids)
        blocks.append(
            _block(paint, "Agents", agents_summary(session.agents, limits(session.mode).agents, lost_ids), lines)
        )
    if session.tasks:
        lines = tasks_short(paint, session.tasks, MAX_TASKS)
        blocks.append(_block(paint, "Plan", tasks_summary(session.tasks), lines))
    if others:
        rows = [
            [str(other["id"])[:8], str(other["goal"]), paint.dim(_other_status(other, clock))]
            for other in others[:MAX_OTHERS]
        ]
        columns = [Column(""), Column("", weight=3, min_width=12), Column("", weight=1)]
        lines = indented(paint, lambda inner: inner.table(rows, columns))
        blocks.append(_block(paint, "Also open here", "", lines, len(others) - len(rows)))
    step = next_step(session, frozenset(unsettled), retry) if hint else ""
    if step:
        blocks.append(paint.pairs([("Next", step)]))
    return Painted("\n\n".join(blocks))


def _other_status(other: Mapping[str, object], clock: Clock) -> str:
    """The status of another session of the work tree."""
    open_tasks = other["open_tasks"]
    tasks = [count(open_tasks, "open task")] if isinstance(open_tasks, int) and open_tasks else []
    return ", ".join([str(other["status"]).replace("_", " "), *tasks, clock.ago(str(other["updated_at"]))])


def _heading(paint: Paint, session: Session) -> Painted:
    where = [session.id[:8], session.project.name, f"scope {session.scope}" if session.scope else ""]
    line = paint.join(
        status_word(paint, session), "  ", progress(paint, session.progress, 20, "normal"), "  ",
        paint.dim(", ".join(part for part in where if part)),
    )  # fmt: skip
    return Painted(f"{title(paint, session.goal)}\n{paint.cut(line, paint.width)}")


def _facts(paint: Paint, session: Session, clock: Clock) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("Time", paint.plain(worked_words(session, clock)))]
    pause = pause_line(paint, session, clock)
    if pause is not None:
        facts.append(("", pause))
    due = reminder(session) if session.ended_at is None else None
    if due is not None:
        facts.append(("", paint.yellow(due)))
    facts.append(("Context", context_line(paint, session)))
    facts.append(("Mode", paint.join(session.mode, paint.dim(f": {limit_words(session.mode)}"))))
    optional = [
        ("Task", session.task), ("Branch", session.branch), ("Model", session.model),
        ("Tags", ", ".join(session.tags)), ("Continues", session.continues and session.continues[:8]),
        ("Summary", session.summary),
        ("Cost", None if session.cost_usd is None else f"{session.cost_usd:,.2f} USD"),
    ]  # fmt: skip
    facts += [(name, paint.plain(value)) for name, value in optional if value]
    if session.sync.status != "none":
        facts.append(("Sync", sync_words(session, clock)))
    secrets = redacted_words(session)
    if secrets:
        facts.append(("Secrets", paint.plain(secrets)))
    return facts


def context_line(paint: Paint, session: Session, cells: int = 20) -> Painted:
    context = session.context
    if context.tokens is None:
        return paint.dim("not measured")
    styles = {"warning": paint.yellow, "compress": paint.red}
    number = f"{context.tokens:,} of {context.window:,} tokens ({context.percent or 0:g}%)"
    words = {"warning": "filling up", "compress": "compress now"}.get(context.level, "")
    drawn = paint.join(paint.bar((context.percent or 0) / 100, cells, context.level), "  ") if paint.tty else ""
    return paint.join(drawn, number, "  " if words else "", styles.get(context.level, paint.plain)(words))


def sync_words(session: Session, clock: Clock) -> str:
    """Whether the session is synced with its remote, and since when."""
    sync = session.sync
    words = {"pending": "not fully synced yet", "synced": "up to date"}
    last = "never synced" if sync.last_sync is None else f"last synced {clock.ago(sync.last_sync)}"
    people = f"; shared with {', '.join(sync.shared_with)}" if sync.shared_with else ""
    state = sync.error or words.get(sync.status, "it failed")
    return f"{sync.remote or 'Remotes'}: {state}; {last}{people}"


def _attention(paint: Paint, session: Session, clock: Clock) -> list[Painted]:
    """What a person must see to: who waits for them, and what two devices disagree on."""
    blocks: list[Painted] = []
    if session.waiting:
        rows = [
            [wait.for_, wait.text or "", paint.dim(clock.ago(wait.at))]
            for wait in session.waiting[:MAX_LINES]
        ]  # fmt: skip
        columns = [Column("", weight=1, max_width=24, style="yellow"), Column("", weight=3, min_width=12), Column("")]
        lines = indented(paint, lambda inner: inner.table(rows, columns))
        blocks.append(_block(paint, "Waiting for you", "", lines, len(session.waiting) - len(rows)))
    disputed = [conflict for conflict in session.conflicts if conflict.chosen is None]
    if disputed:
        rows = [[conflict.field, paint.dim(f"{len(conflict.values)} values")] for conflict in disputed[:MAX_LINES]]
        columns = [Column("", weight=1, min_width=12, style="red"), Column("", weight=1, min_width=12)]
        lines = indented(paint, lambda inner: inner.table(rows, columns))
        blocks.append(_block(paint, "Conflicts", "", lines, len(disputed) - len(rows)))
    if session.status == "error" and session.errors:
        last = session.errors[-1]
        message = indented(paint, lambda inner: inner.cut(inner.red(last.message), inner.width))
        blocks.append(_block(paint, "Stopped by an error", clock.ago(last.at), message))
    return blocks


def _block(paint: Paint, name: str, aside: str, lines: Painted, left: int = 0) -> Painted:
    more = f"\n{paint.dim(f'  and {left:,} more')}" if left > 0 else ""
    return Painted(f"{paint.heading(name, aside)}" + (f"\n{lines}{more}" if lines else ""))


def next_step(session: Session, lost_ids: frozenset[str], retry: frozenset[str]) -> str:
    """The one thing worth doing now, as a command."""
    if session.status in ("completed", "aborted"):
        return f"holdfast start GOAL --continues {session.id[:8]}"
    if any(pause.ended_at is None and pause.reason == FILE_DELETED for pause in session.time.pauses):
        return "holdfast resume continues it, holdfast stop ends it"
    if session.status in ("paused", "created"):
        return "holdfast resume"
    if session.status == "error":
        return "holdfast resume, once it is fixed"
    if session.waiting:
        return "answer the agent that waits for you"
    if lost_ids:
        return "holdfast resume cleans up after the crash"
    if session.context.level == "compress":
        return "compress the context, then: holdfast compress --to TOKENS"
    failed = next((agent.id for agent in session.agents if agent.id in retry), None)
    if failed is not None:
        return f"holdfast agent retry {failed}"
    if not session.agents and not session.tasks:
        return "holdfast task add TEXT, or holdfast agent start ID --type TYPE"
    open_agents = any(agent.status in ("running", "pending", "paused") for agent in session.agents)
    open_tasks = any(task.status in ("pending", "in_progress", "blocked") for task in session.tasks)
    return "" if open_agents or open_tasks else "holdfast stop"
