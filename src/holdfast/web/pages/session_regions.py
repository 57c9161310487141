"""The regions of a session's page. Each is small, so that an event resends little; each list is bounded, and says how
much it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from markupsafe import Markup

from holdfast.core import agents as agents_of
from holdfast.core.envelope import Event
from holdfast.core.model import Agent, Task
from holdfast.core.state import AgentState
from holdfast.core.times import MINUTE, parse_time
from holdfast.core.wording import ABSENCE, describe_event, limit_words, open_pause, paused_and_away
from holdfast.machine.wall import local_offset
from holdfast.sessions.report import exact, phases
from holdfast.web.charts import gantt, strip
from holdfast.web.charts.axis import Axis, Period, quiet
from holdfast.web.pages import PageContent, session_files
from holdfast.web.render import render

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.web.pages.session import SessionPageData

MAX_TASKS: Final = 100
MAX_ENTRIES: Final = 30  # decisions, notes, pauses
MAX_SHORT_LIST: Final = 20  # conversations, errors, agents by context
_ENDED: Final = ("completed", "dropped")

Regions = dict[str, str]


class RegionGroup(NamedTuple):
    """Regions, and the lists that contain them."""

    regions: Regions
    lists: Mapping[str, tuple[str, ...]] = {}


def page_content(keeper: Keeper, data: SessionPageData) -> PageContent:
    parts = [part(keeper, data) for part in _PARTS]
    return PageContent(
        {name: html for part in parts for name, html in part.regions.items()},
        {name: order for part in parts for name, order in part.lists.items()},
    )


def _listed(name: str, rows: Iterable[tuple[str, str]], heading: str) -> RegionGroup:
    regions = dict(rows)
    return RegionGroup({f"{name}-heading": heading, **regions}, {name: tuple(regions)})


def _heading(name: str, title: str, shown: int, total: int, empty: str = "", which: str = "latest") -> str:
    return render(
        "session-heading.html", name=name, title=title, shown=shown, total=total, empty=Markup(empty),  # noqa: S704
        which=which,
    )  # fmt: skip


# ── the session itself ───────────────────────────────────────────────────────────────────────────────────


def head(_: Keeper, data: SessionPageData) -> RegionGroup:
    card, session = data.card, data.session
    return RegionGroup({
        "head": render(
            "session-head.html", card=card, session=session, past=data.at is not None,
            limits=limit_words(session.mode), few=MAX_SHORT_LIST,
        ),
        "attention": render("session-attention.html", attention=card.attention, past=data.at is not None),
        "travel": render(
            "session-travel.html", id=session.id, at=data.at, count=data.log.then, total=data.log.total,
        ),
    })  # fmt: skip


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────


def _lanes(data: SessionPageData) -> list[tuple[str, AgentState, Agent, gantt.GanttLane]]:
    """For each agent: the name of its region, its state, its document, and its lane."""
    lanes = []
    for (ref, agent_state), agent in zip(data.state.agents.items(), data.session.agents, strict=True):
        status = agents_of.status_of(agent_state)
        if agent.id in data.card.lost and status in ("running", "paused"):
            status = "gone"
        lane = gantt.GanttLane(
            agent.id, agent_state.task or agent_state.type, status,
            tuple((run.since, run.until) for run in agent_state.runs), tuple(agent_state.failed_attempts),
        )  # fmt: skip
        lanes.append((f"agent-{ref[:16]}", agent_state, agent, lane))
    return lanes


def time(_: Keeper, data: SessionPageData) -> RegionGroup:
    session = data.session
    since = parse_time(session.started_at or session.created_at)
    until = data.now if session.ended_at is None else parse_time(session.ended_at)
    period = Period.of(since, max(until, since), live=data.live)
    agents = _lanes(data)
    lanes = [lane for _, _, _, lane in agents]
    pauses = strip.pauses_of(session)
    spans = [(pause.since, period.end if pause.until is None else pause.until) for pause in pauses]
    axis = Axis(period, quiet(spans, gantt.busy(lanes, period.end)))
    chart = gantt.chart(lanes, axis, local_offset)
    rows = [
        (name, render("session-agent.html", name=name, a=shown, status=lane.status, sign=gantt.sign(lane.status),
                      words=gantt.WORDS.get(lane.status, lane.status), now=data.now, live=data.live))
        for name, _, shown, lane in (agents[number] for number in reversed(gantt.drawn_lanes(lanes)))
    ]  # fmt: skip
    listed = _listed("agents", rows, render("session-agents.html", shown=len(rows), total=len(lanes)))
    left_out = len(pauses) - len(strip.drawn_pauses(pauses))
    return RegionGroup(
        {
            "law": _time_sums(data),
            "strip": render("session-strip.html", drawing=strip.chart(pauses, axis, local_offset), left_out=left_out),
            "pauses": render(
                "session-pauses.html",
                pauses=session.time.pauses[: -MAX_ENTRIES - 1 : -1],
                total=len(pauses),
                live=data.live,
            ),
            "gantt": render("session-gantt.html", chart=chart, sign=gantt.sign),
            **listed.regions,
        },
        listed.lists,
    )


class _Kind(NamedTuple):
    """The total of one kind of time; while it grows, the moment the browser counts from."""

    name: str
    ms: int
    since: int | None

    @property
    def text(self) -> str:
        return exact(self.ms if self.since is None else self.ms // MINUTE * MINUTE)


def _time_sums(data: SessionPageData) -> str:
    """Worked, paused and away add up to elapsed, to the second: the sum is made of the values shown."""
    session, now = data.session, data.now
    current_pause = open_pause(session)
    absent = current_pause is not None and current_pause.duration_ms >= ABSENCE
    growing = None if not data.live else "working" if current_pause is None else "away" if absent else "paused"

    def kind(name: str, ms: int, grows: bool) -> _Kind:
        return _Kind(name, ms, now - ms if grows else None)

    paused, away = paused_and_away(session.time)
    parts = [
        # What grows keeps its milliseconds, or its beginning would waver.
        (words, kind(name, ms if name == growing else ms // 1000 * 1000, name == growing))
        for name, words, ms in (("working", "worked", session.time.working_ms), ("paused", "paused", paused),
                                ("away", "away", away))
        if name == "working" or ms or (name == "paused" and not away)
    ]  # fmt: skip
    totals: dict[str, int] = {}
    for pause in session.time.pauses:
        length = 0 if pause.duration_ms >= ABSENCE else pause.duration_ms
        totals[pause.kind] = totals.get(pause.kind, 0) + length
    kinds = [
        kind(name, totals[name], growing == "paused" and current_pause is not None and current_pause.kind == name)
        for name in strip.KINDS
        if name in totals
    ]
    elapsed = kind("elapsed", sum(part.ms for _, part in parts), growing is not None)
    return render("session-law.html", parts=parts, elapsed=elapsed, kinds=kinds)


# ── the work ─────────────────────────────────────────────────────────────────────────────────────────────


class _Phase(NamedTuple):
    title: str
    tasks: list[Task]
    # How many tasks are left out: ended ones, and open ones.
    over: int = 0
    open: int = 0


def bounded_plan(groups: Sequence[tuple[str, list[Task]]], max_tasks: int = MAX_TASKS) -> list[_Phase]:
    """At most `max_tasks` tasks of the plan: ended ones are left out first, the oldest first, then open ones."""
    too_many = sum(len(tasks) for _, tasks in groups) - max_tasks
    remaining, shown_phases = max_tasks, []
    for title, tasks in groups:
        kept_tasks = []
        for task in tasks:
            if too_many > 0 and task.status in _ENDED:
                too_many -= 1
            else:
                kept_tasks.append(task)
        shown = kept_tasks[:remaining]
        remaining -= len(shown)
        shown_phases.append(_Phase(title, shown, len(tasks) - len(kept_tasks), len(kept_tasks) - len(shown)))
    return shown_phases


def plan(_: Keeper, data: SessionPageData) -> RegionGroup:
    session = data.session
    rows = [
        (f"phase-{number}", render("session-phase.html", name=f"phase-{number}", **phase._asdict()))
        for number, phase in enumerate(bounded_plan(phases(session)))
    ]
    planned = [task for task in session.tasks if task.status != "dropped"]
    done = sum(task.status == "completed" for task in planned)
    return _listed("plan", rows, render("session-plan.html", done=done, total=len(planned), any=bool(session.tasks)))


def decisions(_: Keeper, data: SessionPageData) -> RegionGroup:
    entries = data.session.decisions
    rows = _latest("decision", "session-decision.html", entries)
    empty = '<p class="muted">None so far: <code>holdfast decide "what" --why "because"</code></p>'
    return _listed("decisions", rows, _heading("decisions", "Decisions", len(rows), len(entries), empty))


def notes(_: Keeper, data: SessionPageData) -> RegionGroup:
    entries = data.session.notes
    rows = _latest("note", "session-note.html", entries)
    empty = '<p class="muted">None so far: <code>holdfast note "what to remember"</code></p>'
    return _listed("notes", rows, _heading("notes", "Notes", len(rows), len(entries), empty))


def errors(_: Keeper, data: SessionPageData) -> RegionGroup:
    entries = data.session.errors
    rows = _latest("error", "session-error.html", entries, MAX_SHORT_LIST)
    return _listed("errors", rows, _heading("errors", "Errors", len(rows), len(entries)))


def _latest(
    name: str, template: str, entries: Sequence[object], max_entries: int = MAX_ENTRIES
) -> list[tuple[str, str]]:
    """Newest first; each keeps its name while others are added."""
    first = max(len(entries) - max_entries, 0)
    return [
        (f"{name}-{first + number}", render(template, name=f"{name}-{first + number}", entry=item))
        for number, item in reversed(list(enumerate(entries[first:])))
    ]


def files(keeper: Keeper, data: SessionPageData) -> RegionGroup:
    changed, total = session_files.files(keeper, data.state, data.root)
    rows = [(file.name, render("session-file.html", file=file, more=session_files.MAX_CHANGES)) for file in changed]
    heading = render(
        "session-files.html", shown=len(rows), total=total, here=data.root is not None, past=data.at is not None
    )
    return _listed("files", rows, heading)


def commits(_: Keeper, data: SessionPageData) -> RegionGroup:
    entries = data.session.commits
    rows = _latest("commit", "session-commit.html", entries)
    return _listed("commits", rows, _heading("commits", "Commits", len(rows), len(entries)))


def context(_: Keeper, data: SessionPageData) -> RegionGroup:
    context = data.session.context
    by_agent = sorted(context.by_agent.items(), key=lambda usage: -usage[1])
    return RegionGroup(
        {
            "context": render(
                "session-context.html", context=context, by=by_agent[:MAX_SHORT_LIST], total=len(by_agent)
            )
        }
    )


def conflicts(_: Keeper, data: SessionPageData) -> RegionGroup:
    rows = [
        (f"conflict-{conflict.conflict.id}-{number}",
         render("session-conflict.html", name=f"conflict-{conflict.conflict.id}-{number}", shown=conflict,
                id=data.session.id,
                values=[_value_text(value.value) for value in conflict.conflict.values], past=data.at is not None,
                whose=conflict.devices))
        for number, conflict in enumerate(data.conflicts[:MAX_ENTRIES])
    ]  # fmt: skip
    heading = _heading("conflicts", "Conflicts", len(rows), len(data.conflicts), which="first")
    return _listed("conflicts", rows, heading)


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def events(_: Keeper, data: SessionPageData) -> RegionGroup:
    log = data.log
    rows = [(event_region(event), event_row(event)) for event in log.latest]
    heading = render("session-events.html", shown=len(rows), total=log.then, at=data.at)
    return _listed("events", rows, heading)


def event_row(event: Event) -> str:
    return render("session-event.html", event=event, text=entry_text(event), name=event_region(event))


def event_region(event: Event) -> str:
    """The name of its region."""
    return f"event-{event.hash[:20]}"


def entry_text(event: Event) -> str:
    try:
        return describe_event(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "(cannot be read)"  # not written by any of our programs


_PARTS: Final[tuple[Callable[[Keeper, SessionPageData], RegionGroup], ...]] = (
    head, time, conflicts, plan, decisions, files, commits, context, notes, errors, events,
)  # fmt: skip
