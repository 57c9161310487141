"""`holdfast budget`: how full the context is, and by whom."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import inset, progress
from holdfast.cli.status_view import context_line
from holdfast.core.model import Session
from holdfast.core.modes import limits
from holdfast.core.short_names import readable
from holdfast.core.wording import count


def run(call: Call) -> None:
    at = call.at
    document = call.session_to_read().document(at=at)
    clock = Clock(call.keeper.now() if at is None else at)
    call.answer(
        {"id": document.id, "context": document.context, "compress_at_percent": limits(document.mode).compress_at},
        lambda paint: _shown(paint, document, clock),
    )


def _shown(paint: Paint, session: Session, clock: Clock) -> Painted:
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
        blocks.append(Painted(f"{paint.heading('By agent')}\n{_by_agent(paint, session)}"))
    return Painted("\n\n".join(blocks))


def _by_agent(paint: Paint, session: Session) -> Painted:
    by_agent = readable(session).context.by_agent
    total = max(sum(by_agent.values()), 1)
    rows = [
        [agent, f"{tokens:,}", progress(paint, tokens / total, 20)]
        for agent, tokens in sorted(by_agent.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = [Column("", weight=1, least=8), Column("", "right"), Column("", "left" if paint.tty else "right")]
    return inset(paint, lambda inner: inner.table(rows, columns))
