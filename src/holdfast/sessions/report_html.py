"""A session's report as HTML, with an SVG timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape

from holdfast.core.model import Session
from holdfast.core.times import DAY, HOUR, MINUTE, SECOND, format_duration, parse_time
from holdfast.core.wording import STATUS, one_line, pause_words, percent, visible
from holdfast.machine.wall import local_offset, local_text
from holdfast.sessions.report import (
    AGENT_HEAD,
    COMMIT_HEAD,
    FILE_HEAD,
    PAUSE_HEAD,
    agent_rows,
    as_of,
    commit_rows,
    conflict_lines,
    context_words,
    error_lines,
    facts,
    file_rows,
    pause_rows,
    phases,
    stamp,
    time_table,
    zone_words,
)

_WIDE, _LEFT, _RIGHT, _ROW, _TOP = 960, 150, 10, 24, 22
_MAX_AGENTS = 200
_STEPS = (
    SECOND, 10 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR,
    6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 28 * DAY, 91 * DAY, 364 * DAY,
)  # fmt: skip


def chart(session: Session) -> str:
    """The timeline as SVG, with the person's time on top and one bar for each agent; empty if no time has passed."""
    since = parse_time(session.started_at or session.created_at)
    until = since + session.time.elapsed_ms
    if until - since < SECOND:
        return ""
    agents = [agent for agent in session.agents if agent.started_at is not None][:_MAX_AGENTS]
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
    parts.append(bar(0, since, until, "work", f"worked {format_duration(session.time.working_ms)}"))
    for pause in session.time.pauses:
        start = parse_time(pause.started_at)
        about = f"{pause_words(pause.kind, pause.reason, pause.duration_ms)}, {format_duration(pause.duration_ms)}"
        parts.append(bar(0, start, start + pause.duration_ms, f"pause {pause.kind}", about))
    for row, agent in enumerate(agents, start=1):
        start = parse_time(agent.started_at or session.created_at)
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


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6670; --line: #d9dee3; --page: #fff; --shade: #f5f7f9;
  --work: #2f855a; --run: #3470b8; --fail: #c53030; --rest: #d69e2e; --idle: #a0aec0; --hold: #a9c1dd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5b1; --line: #343c45; --page: #14181c;
  --shade: #1c2228; --work: #48bb78; --run: #63a4f0; --fail: #fc8181; --rest: #ecc94b; --idle: #5f6b78;
  --hold: #3b5b80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.1rem 0 .3rem; }
.lead { color: var(--soft); margin: 0 0 1.5rem; }
.meter { height: .5rem; border-radius: .25rem; background: var(--line); overflow: hidden; margin: .6rem 0 1.2rem; }
.meter i { display: block; height: 100%; background: var(--work); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: start; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); }
.wide th, .wide td { overflow-wrap: break-word; min-width: 4.5rem; }
th { color: var(--soft); font-weight: 600; }
table.facts th { width: 9rem; font-weight: 500; }
.error { color: var(--fail); }
ul { padding-inline-start: 1.2rem; } li { margin: .25rem 0; }
ul.plan { list-style: none; padding: 0; } ul.plan li::before { content: "\\2610"; margin-inline-end: .5rem; }
ul.plan li.done::before { content: "\\2611"; color: var(--work); } ul.plan .dropped { color: var(--soft); }
time { color: var(--soft); font-variant-numeric: tabular-nums; }
blockquote { margin: .2rem 0 1rem; padding: .4rem .8rem; background: var(--shade); border-inline-start: 3px solid
  var(--line); white-space: pre-wrap; }
svg { display: block; min-width: 40rem; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .name { fill: var(--ink); } svg .grid { stroke: var(--line); }
.work { fill: var(--work); } .run { fill: var(--run); } .failed { fill: var(--fail); }
.manual, .timeout { fill: var(--rest); } .idle { fill: var(--idle); } .task { fill: var(--hold); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; margin: 0 .35rem 0 .9rem;
  vertical-align: -.1rem; }
.key.work { background: var(--work); } .key.run { background: var(--run); } .key.manual { background: var(--rest); }
.key.task { background: var(--hold); }
.key.idle { background: var(--idle); } .key.failed { background: var(--fail); }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { body { padding: 1.2rem 1rem 3rem; } h1 { font-size: 1.35rem; }
  table.facts, table.facts tbody, table.facts tr, table.facts th, table.facts td { display: block; width: auto; }
  table.facts th { border: 0; padding-bottom: 0; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } h2 { break-after: avoid; }
  tr, li, blockquote { break-inside: avoid; } .wide { overflow: visible; } svg { min-width: 0; } }
"""

_LEGEND = (
    ("work", "worked"), ("manual", "paused"), ("idle", "idle"), ("task", "waiting for an agent"),
    ("run", "agent at work"), ("failed", "agent failed"),
)  # fmt: skip


def page(session: Session) -> str:
    title = one_line(session.goal) or "Session"
    status = STATUS.get(session.status, session.status)
    has_error = [agent.error is not None for agent in session.agents]
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="lead">{escape(status)}, {escape(percent(session.progress))} complete.',
        f"{escape(zone_words(session))}</p>",
        f'<div class="meter"><i style="width: {min(max(session.progress, 0), 1) * 100:.1f}%"></i></div>',
        _facts([fact for fact in facts(session) if fact[0] != "Status"]),
        _section("Time", _facts(time_table(session))),
        _section("Timeline", _timeline(session)),
        _section("Pauses", _table(PAUSE_HEAD, pause_rows(session))),
        _section("Agents", _table(AGENT_HEAD, agent_rows(session), has_error)),
        _section("Plan", _plan(session)),
        _section("Decisions", _decisions(session)),
        _section("Files", _table(FILE_HEAD, file_rows(session))),
        _section("Commits", _table(COMMIT_HEAD, commit_rows(session))),
        _section("Context", _facts(context_words(session))),
        _section("Notes", "".join(
            f'{_time(note.at)}<blockquote dir="auto">{escape(visible(note.text, lines=True))}</blockquote>'
            for note in session.notes
        )),
        _section("Errors", _list(f"{_time(at)} {_text(message)}" for at, message in error_lines(session))),
        _section("Conflicts", "".join(
            f"<h3>{_text(field)}</h3>{_list(_text(value) for value in values)}"
            for field, values in conflict_lines(session)
        )),
    ]  # fmt: skip
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title[:120])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<footer>Made by Holdfast from its log, as of {escape(as_of(session))}.</footer>\n</body>\n</html>\n"
    )


def _text(value: str) -> str:
    """Stored text, escaped and in its own text direction."""
    return f"<bdi>{escape(one_line(value))}</bdi>"


def _time(moment: str) -> str:
    return f'<time datetime="{escape(moment)}">{escape(stamp(moment))}</time>'


def _section(title: str, inside: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{inside}\n</section>" if inside else ""


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join(f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td></tr>\n' for name, value in rows)
    return f'<table class="facts"><tbody>\n{cells}</tbody></table>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], has_error: Sequence[bool] = ()) -> str:
    if not rows:
        return ""
    # Leave out empty columns.
    keep = [index for index in range(len(head)) if any(row[index] for row in rows)]
    top = "".join(f'<th scope="col">{escape(head[index])}</th>' for index in keep)
    lines = []
    for number, row in enumerate(rows):
        mark = ' class="error"' if number < len(has_error) and has_error[number] else ""
        cells = "".join(f"<td{mark if index == keep[-1] else ''}>{_text(row[index])}</td>" for index in keep)
        lines.append(f"<tr>{cells}</tr>")
    inside = "\n".join(lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n{inside}\n</tbody></table></div>'


def _list(items: Iterable[str]) -> str:
    inside = "\n".join(f"<li>{item}</li>" for item in items)
    return f"<ul>\n{inside}\n</ul>" if inside else ""


def _timeline(session: Session) -> str:
    drawn = chart(session)
    if not drawn:
        return ""
    key = "".join(f'<span class="key {kind}"></span>{name}' for kind, name in _LEGEND)
    return f'<div class="wide">{drawn}</div>\n<p class="lead">{key}</p>'


def _plan(session: Session) -> str:
    parts = []
    for name, tasks in phases(session):
        items = []
        for task in tasks:
            kind = "done" if task.status == "completed" else "dropped" if task.status == "dropped" else ""
            state = "" if task.status in ("completed", "pending") else f" ({escape(task.status.replace('_', ' '))})"
            outcome = f": {_text(task.outcome)}" if task.outcome else ""
            by = f", by {_text(task.agent)}" if task.agent else ""
            items.append(f'<li class="{kind}">{_text(task.text)}{state}{outcome}{by}</li>')
        inside = "\n".join(items)
        heading = f"<h3>{_text(name)}</h3>\n" if name else ""
        parts.append(f'{heading}<ul class="plan">\n{inside}\n</ul>')
    return "\n".join(parts)


def _decisions(session: Session) -> str:
    items = []
    for decision in session.decisions:
        about = f" ({_text(decision.context)})" if decision.context else ""
        options = (
            f"<br>Options: {', '.join(_text(option) for option in decision.options)}" if decision.options else ""
        )
        reason = f"<br>Why: {_text(decision.why)}" if decision.why else ""
        items.append(f"{_time(decision.at)} <strong>{_text(decision.chosen)}</strong>{about}{options}{reason}")
    return _list(items)
