"""The timeline of a report as SVG: the person's time on top, one bar for each agent, round times below."""

from __future__ import annotations

from datetime import timedelta
from html import escape

from holdfast.core.model import Session
from holdfast.core.times import DAY, HOUR, MINUTE, SECOND, millis, span
from holdfast.keeper.wording import one_line, pause_words
from holdfast.machine.wall import local_offset, local_text

_WIDE, _LEFT, _RIGHT, _ROW, _TOP = 960, 150, 10, 24, 22
_MOST = 200
_STEPS = (
    SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR,
    6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 28 * DAY, 91 * DAY, 364 * DAY,
)  # fmt: skip


def chart(session: Session) -> str:
    """The drawing, or nothing where there is no time to draw."""
    since = millis(session.started_at or session.created_at)
    until = since + session.time.elapsed_ms
    if until - since < SECOND:
        return ""
    agents = [agent for agent in session.agents if agent.started_at is not None][:_MOST]
    scale = (_WIDE - _LEFT - _RIGHT) / (until - since)

    def x(moment: int) -> float:
        return _LEFT + (min(max(moment, since), until) - since) * scale

    def bar(row: int, start: int, end: int, kind: str, about: str) -> str:
        left, wide = x(start), max(x(end) - x(start), 1.5)
        return (
            f'<rect class="{kind}" x="{left:.1f}" y="{_TOP + row * _ROW + 5}" width="{wide:.1f}" height="14" rx="2">'
            f"<title>{escape(one_line(about))}</title></rect>"
        )

    high = _TOP + (len(agents) + 1) * _ROW + 6
    named = 'role="img" aria-label="Timeline of agents and pauses"'
    parts = [f'<svg viewBox="0 0 {_WIDE} {high}" {named} xmlns="http://www.w3.org/2000/svg">']
    step = next((step for step in _STEPS if step * scale >= 70), _STEPS[-1])
    shift = local_offset(since) // timedelta(milliseconds=1)
    tick = -(-(since + shift) // step) * step - shift
    while tick <= until:
        place, moment = x(tick), local_text(tick)
        label = moment[:10] if step >= DAY else moment[11:19] if step < MINUTE else moment[11:16]
        parts.append(f'<line class="grid" x1="{place:.1f}" y1="{_TOP}" x2="{place:.1f}" y2="{high}"/>')
        parts.append(f'<text x="{place:.1f}" y="14" text-anchor="middle">{label}</text>')
        tick += step
    parts.append(_name(0, "Person"))
    parts.append(bar(0, since, until, "work", f"worked {span(session.time.working_ms)}"))
    for pause in session.time.pauses:
        start = millis(pause.started_at)
        about = f"{pause_words(pause.kind, pause.reason, pause.duration_ms)}, {span(pause.duration_ms)}"
        parts.append(bar(0, start, start + pause.duration_ms, f"pause {pause.kind}", about))
    for row, agent in enumerate(agents, start=1):
        start = millis(agent.started_at or session.created_at)
        end = start + (agent.duration_ms or 0)
        kind = "failed" if agent.status in ("error", "timeout", "interrupted") else "run"
        parts.append(_name(row, agent.id))
        parts.append(bar(row, start, end, kind, f"{agent.id}, {agent.status}: {agent.task or agent.type}"))
    parts.append("</svg>")
    left = len(session.agents) - len(agents)
    return "\n".join(parts) + (f"\n<p>and {left:,} more agents</p>" if left else "")


def _name(row: int, label: str) -> str:
    short = one_line(label)
    short = short if len(short) <= 20 else short[:19] + "…"
    return f'<text class="name" x="0" y="{_TOP + row * _ROW + 16}">{escape(short)}</text>'
