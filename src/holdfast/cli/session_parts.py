"""Parts of a session's screen that `status`, `show` and the lists share.

Quiet by design: aligned, no boxes, colour only where something needs attention, and a word next to every mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.cli.cells import wrap
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.model import Agent, Row, Session, Task
from holdfast.core.times import format_duration
from holdfast.core.wording import CROSSED, PAUSES, count, open_pause, pause_words, percent, time_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.paint import Style

# Status: mark, mark in ASCII, style. The word is always next to it or in the heading above.
_MARKS: dict[str, tuple[str, str, Style]] = {
    "pending": ("○", "o", "dim"), "running": ("●", "*", "green"), "in_progress": ("●", "*", "green"),
    "paused": ("◐", "=", "yellow"), "blocked": ("◐", "=", "yellow"), "completed": ("✓", "+", "dim"),
    "error": ("✗", "x", "red"), "timeout": ("✗", "x", "red"), "interrupted": ("!", "!", "red"),
    "aborted": ("–", "-", "dim"), "dropped": ("–", "-", "dim"),
}  # fmt: skip
_STATUS_STYLES: dict[str, Style] = {
    "in_progress": "green", "paused": "yellow", "error": "red", "aborted": "dim", "created": "cyan",
}  # fmt: skip
# What needs attention comes first.
_AGENT_ORDER = ("interrupted", "error", "timeout", "running", "paused", "pending", "aborted", "completed")
_TASK_ORDER = ("in_progress", "blocked", "pending", "completed", "dropped")


def mark(paint: Paint, status: str) -> Painted:
    drawn, plain, style = _MARKS.get(status, ("?", "?", "dim"))
    return paint.style(plain if paint.ascii_only else drawn, style)


def status_word(paint: Paint, session: Session | Row) -> Painted:
    """The status of a session in words, in its colour; and that it is over, where it is."""
    word = paint.style(session.status.replace("_", " "), _STATUS_STYLES.get(session.status, ""))
    return paint.join(word, paint.dim(" (inactive)")) if session.over else word


def indented(paint: Paint, draw: Callable[[Paint], str]) -> Painted:
    """Something drawn two cells further in."""
    inner = Paint(max(paint.width - 2, 10), paint.colour, ascii_only=paint.ascii_only, tty=paint.tty)
    return Painted("\n".join("  " + line if line else line for line in draw(inner).split("\n")))


def title(paint: Paint, text: str, *, max_lines: int = 3) -> Painted:
    """A goal as a heading of at most so many lines."""
    lines = wrap(paint.plain(" ".join(text.split())), paint.width)
    if len(lines) > max_lines:
        lines = [
            *lines[: max_lines - 1],
            paint.cut(Painted(" ".join(lines[max_lines - 1 : max_lines + 1])), paint.width),
        ]
    return Painted("\n".join(paint.bold(Painted(line)) for line in lines))


def progress(paint: Paint, fraction: float, cells: int, level: str = "") -> Painted:
    """A share as a bar and a number; the number alone where nothing is drawn."""
    number = percent(fraction)
    return paint.join(paint.bar(fraction, cells, level), f" {number:>4}") if paint.tty else paint.plain(number)


def more_line(paint: Paint, left: int, command: str) -> Painted:
    return paint.dim(f"  and {left:,} more: {command}")


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def agents_table(paint: Paint, agents: Sequence[Agent], labels: Sequence[str] = ()) -> Painted:
    """Every agent, in the order they started; `labels` tell those of one id from each other."""
    if not agents:
        return paint.plain("No agents yet. One begins with: holdfast agent start ID --type TYPE")
    columns = [
        Column("Agent", weight=2, min_width=8), Column("Type", weight=2, min_width=6), Column("Status"),
        Column("Done", "right"), Column("Time", "right"), Column("Tokens", "right"),
        Column("Task", weight=4, min_width=12),
    ]  # fmt: skip
    rows = [
        [_distinct_id(agent.id, labels, place), agent.type,
         paint.style(agent.status, _MARKS.get(agent.status, ("", "", ""))[2]),
         "" if agent.progress is None else percent(agent.progress), duration(agent),
         "" if agent.tokens is None else f"{agent.tokens:,}", agent_detail(paint, agent)]
        for place, agent in enumerate(agents)
    ]  # fmt: skip
    keep = [index for index in range(len(columns)) if index != 5 or any(row[5] for row in rows)]
    return paint.table([[row[index] for index in keep] for row in rows], [columns[index] for index in keep])


def agents_short(
    paint: Paint, agents: Sequence[Agent], max_rows: int, lost_ids: frozenset[str] = frozenset()
) -> Painted:
    """What the agents are at: first what wants attention, the finished ones last."""
    shown = _most_urgent(agents, max_rows, lost_ids)
    columns = [
        Column(""), Column("", weight=1, min_width=8, max_width=24), Column(""), Column("", "right"),
        Column("", "right"), Column("", weight=3, min_width=12),
    ]  # fmt: skip
    rows: list[list[str]] = []
    for agent in shown:
        lost = _is_lost(agent, lost_ids)
        word = paint.red("lost") if lost else paint.style(agent.status, _MARKS.get(agent.status, ("", "", ""))[2])
        share = "" if agent.progress is None or agent.status == "completed" else progress(paint, agent.progress, 8)
        rows.append([mark(paint, "interrupted" if lost else agent.status), agent.id, word, share, duration(agent),
                     agent_detail(paint, agent)])  # fmt: skip
    if not paint.tty:  # the words are enough
        rows, columns = [row[1:] for row in rows], columns[1:]
    lines = indented(paint, lambda inner: inner.table(rows, columns))
    return _with_more(paint, lines, len(agents) - len(shown), "holdfast agent list")


def _is_lost(agent: Agent, lost_ids: frozenset[str]) -> bool:
    return agent.id in lost_ids and agent.status in ("running", "paused")


def _most_urgent(agents: Sequence[Agent], max_rows: int, lost_ids: frozenset[str]) -> list[Agent]:
    def rank(agent: Agent) -> int:
        return (
            0 if _is_lost(agent, lost_ids) or agent.status not in _AGENT_ORDER else _AGENT_ORDER.index(agent.status)
        )

    ranked = sorted(agents, key=rank)
    if len(ranked) <= max_rows:
        return ranked
    # Many failures must not hide what is running.
    room = max_rows - 1
    failed = sum(rank(agent) < _AGENT_ORDER.index("running") for agent in ranked)
    running = sum(rank(agent) == _AGENT_ORDER.index("running") for agent in ranked)
    first = min(failed, max(room - running, room // 2))
    return [*ranked[:first], *ranked[failed : failed + room - first]]


def agents_summary(agents: Sequence[Agent], limit: int | None = None, lost_ids: frozenset[str] = frozenset()) -> str:
    """`2 running, 1 failed, 9 done`."""
    names = {"completed": "done", "error": "failed", "timeout": "timed out", "pending": "waiting"}
    counts: dict[str, int] = {}
    for agent in agents:
        name = "lost" if _is_lost(agent, lost_ids) else names.get(agent.status, agent.status)
        counts[name] = counts.get(name, 0) + 1
    order = ("running", "paused", "waiting", "lost", "interrupted", "failed", "timed out", "aborted", "done")
    many = limit is not None and counts.get("running", 0) > limit
    remarks = {"running": f" (the mode is meant for {limit})"} if many else {}
    return ", ".join(f"{counts[name]} {name}{remarks.get(name, '')}" for name in order if name in counts)


def agent_detail(paint: Paint, agent: Agent) -> str:
    """The detail of an agent: its failure, what it waits for, its result, or its task."""
    about = agent.task or agent.type
    if agent.error is not None and agent.status in ("error", "timeout"):
        return paint.join(paint.red(f"{agent.error.category}: {agent.error.message}"), paint.dim(f"  {about}"))
    if agent.blocking_on is not None and agent.status in ("pending", "running", "paused"):
        return paint.join(about, paint.dim(f"  waits for {agent.blocking_on}"))
    if agent.summary and agent.status == "completed":
        return paint.join(about, paint.dim(f"  {agent.summary}"))
    return about


def duration(agent: Agent) -> str:
    return "" if agent.duration_ms is None else format_duration(agent.duration_ms)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────


def _distinct_id(id_: str, labels: Sequence[str], place: int) -> str:
    return f"{id_} ({labels[place]})" if labels and labels[place] else id_


def tasks_table(paint: Paint, tasks: Sequence[Task], labels: Sequence[str] = ()) -> Painted:
    """Every task, in the order of the plan; `labels` tell those of one id from each other."""
    if not tasks:
        return paint.plain("No tasks yet. Add one: holdfast task add TEXT")
    columns = [
        Column("Task", weight=1, min_width=6), Column("Status"), Column("Phase", weight=1, min_width=6),
        Column("Agent", weight=1, min_width=6), Column("What", weight=4, min_width=16),
    ]  # fmt: skip
    rows = [[_distinct_id(task.id, labels, place), _task_word(paint, task), task.phase or "", task.agent or "",
             _task_text(paint, task)] for place, task in enumerate(tasks)]  # fmt: skip
    keep = [index for index in range(len(columns)) if index not in (2, 3) or any(row[index] for row in rows)]
    return paint.table([[row[index] for index in keep] for row in rows], [columns[index] for index in keep])


def tasks_short(paint: Paint, tasks: Sequence[Task], max_rows: int) -> Painted:
    """What is to be done next; of what is done, only how much."""
    ranked = sorted(
        (task for task in tasks if task.status not in ("completed", "dropped")),
        key=lambda task: _TASK_ORDER.index(task.status) if task.status in _TASK_ORDER else 0,
    )
    shown = ranked if len(ranked) <= max_rows else ranked[: max_rows - 1]
    if not shown:
        return Painted("")
    lines = indented(paint, lambda inner: _task_rows(inner, shown))
    return _with_more(paint, lines, len(ranked) - len(shown), "holdfast task list")


def tasks_list(paint: Paint, tasks: Sequence[Task], *, nested: bool = False) -> Painted:
    """Every task of one phase, without a head."""
    if not tasks:
        return Painted("")
    if nested:
        return indented(paint, lambda inner: tasks_list(inner, tasks))
    return indented(paint, lambda inner: _task_rows(inner, tasks))


def tasks_summary(tasks: Sequence[Task]) -> str:
    planned = [task for task in tasks if task.status != "dropped"]
    done = sum(task.status == "completed" for task in planned)
    dropped = len(tasks) - len(planned)
    return f"{done} of {len(planned)} done" + (f", {dropped} dropped" if dropped else "")


def _task_rows(paint: Paint, tasks: Sequence[Task]) -> Painted:
    columns = [
        Column(""),
        Column("", weight=1, min_width=6, max_width=20),
        Column(""),
        Column("", weight=4, min_width=16),
    ]
    rows: list[list[str]] = [
        [mark(paint, task.status), task.id, _task_word(paint, task), _task_text(paint, task)] for task in tasks
    ]
    # Off a terminal the words are enough.
    return paint.table(rows, columns) if paint.tty else paint.table([row[1:] for row in rows], columns[1:])


def _task_word(paint: Paint, task: Task) -> Painted:
    return paint.style(task.status.replace("_", " "), _MARKS.get(task.status, ("", "", ""))[2])


def _task_text(paint: Paint, task: Task) -> str:
    return paint.join(task.text, paint.dim(f"  {task.outcome}")) if task.outcome else task.text


def _with_more(paint: Paint, lines: Painted, left: int, command: str) -> Painted:
    return Painted(f"{lines}\n{more_line(paint, left, command)}") if left else lines


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────


def pause_line(paint: Paint, session: Session, clock: Clock) -> Painted | None:
    """`paused since 14:02 (lunch)`, while no work is recorded."""
    pause = open_pause(session)
    if pause is None:
        return paint.yellow("no conversation is open") if session.status == "paused" else None
    since = f"since {clock.at(pause.started_at)}"
    if pause.kind in ("task", "timeout"):
        words = f"{pause_words(pause.kind, pause.reason)} {since}"
        return paint.yellow(words) if pause.kind == "timeout" else paint.plain(words)
    return paint.yellow(f"{PAUSES[pause.kind]} {since}" + (f" ({pause.reason})" if pause.reason else ""))


def worked_words(session: Session, clock: Clock) -> str:
    time = session.time
    began = session.started_at or session.created_at
    parts = [time_words(time) if time.paused_ms else f"{format_duration(time.working_ms)} worked"]
    ended = sum(pause.ended_at is not None for pause in time.pauses)
    if ended > 1:
        parts[0] += f" ({count(ended, 'pause')} so far)"
    period = f"{clock.at(began)} to {clock.at(session.ended_at)}" if session.ended_at else f"since {clock.at(began)}"
    return ", ".join([*parts, period])


def reminder(session: Session) -> str | None:
    """What the farthest limit of working time that is crossed asks for."""
    line = session.time.reminder
    return None if line is None else CROSSED[line]


def redacted_words(session: Session) -> str:
    """How many secrets were kept out of the log."""
    counts = session.extra.get("redacted")
    if not isinstance(counts, dict) or not counts:
        return ""
    number = sum(number_of_kind for number_of_kind in counts.values() if isinstance(number_of_kind, int))
    return f"{number:,} removed before storing ({', '.join(sorted(counts))})"
