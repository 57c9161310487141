"""Commands about agents' conversations, and those that agent programs start themselves: hooks, status line, MCP."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.home_location import home
from holdfast.cli.paint import Column, Paint, Painted, paint_for
from holdfast.core.model import Conversation
from holdfast.core.times import format_duration
from holdfast.core.wording import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.conversations.backfill.run import BackfillResult

# ── conversation ───────────────────────────────────────────────────────────────────────────────────────


def conversation_list(call: Call) -> None:
    call.keeper.agent_dirs = call.agent_dirs()
    call.keeper.compare()
    session = call.session_to_read()
    conversations = session.document(at=call.at).conversations
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    call.answer({"conversations": conversations}, lambda paint: _conversations_table(paint, conversations, clock))


def conversation_move(call: Call) -> None:

    session = call.keeper.session(call.parsed.need("to"))
    moved = session.take_conversation(call.parsed.need("conversation"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Moved "), moved.conversation, " to ", paint.bold(session.id[:8]), "  ", document.goal
        ),
        moved=moved._asdict(),
    )


def _conversations_table(paint: Paint, conversations: list[Conversation], clock: Clock) -> Painted:
    if not conversations:
        return paint.dim("The session has no conversations.")
    columns = [
        Column("Agent"), Column("Conversation"), Column("Title", weight=3, min_width=12),
        Column("Model", weight=1, min_width=8), Column("Started"), Column("Prompts", "right"),
        Column("Tokens", "right"), Column("Cost", "right"),
    ]  # fmt: skip
    rows = [
        [conversation.agent, conversation.id[:8], conversation.title or "", conversation.model or "",
         clock.at(conversation.started_at) if conversation.started_at else "",
         "" if conversation.prompts is None else str(conversation.prompts), _tokens_of(conversation),
         "" if conversation.cost_usd is None else f"{conversation.cost_usd:,.2f} USD"]
        for conversation in conversations
    ]  # fmt: skip
    keep = [index for index in range(len(columns)) if index < 3 or any(row[index] for row in rows)]
    return paint.table([[row[index] for index in keep] for row in rows], [columns[index] for index in keep])


def _tokens_of(conversation: Conversation) -> str:
    used = conversation.tokens
    counts = [number for number in (used.input, used.output, used.cache_read, used.cache_write) if number]
    return f"{sum(counts):,}" if counts else ""


# ── backfill ───────────────────────────────────────────────────────────────────────────────────────────


_MAX_PROBLEMS = 10
_BAR_WIDTH = 30


def backfill(call: Call) -> int:
    from holdfast.conversations.adapters.index import NAMES, load_adapter
    from holdfast.conversations.backfill.run import backfill, unread_errors

    names = call.parsed.texts("agents")
    for name in names:
        if name not in NAMES:
            load_adapter(name)  # raises before anything is read
    bar = _BackfillBar(call)
    try:
        results = backfill(call.keeper, call.agent_dirs(), names, since=call.since, progress=bar.draw)
    finally:
        bar.clear()
    shown = [backfilled for backfilled in results if backfilled.sources or names or backfilled.unread]
    failed = unread_errors(results)
    call.answer(
        {"backfill": [_backfill_document(backfilled) for backfilled in results]},
        lambda paint: Painted("") if call.quiet else _paint_backfill(paint, shown),
        error=failed[0] if failed else None,
    )
    code = call.failed(failed)
    problems = [problem for backfilled in results for problem in backfilled.problems]
    for problem in problems[:_MAX_PROBLEMS]:
        call.note(f"Could not be read: {problem}")
    if len(problems) > _MAX_PROBLEMS:
        call.note(f"… and {len(problems) - _MAX_PROBLEMS:,} more; --json names them.")
    call.print_notes()
    return code


def _backfill_document(result: BackfillResult) -> dict[str, object]:
    return {
        "agent": result.agent, "sources": result.sources, "read": result.read, "conversations": result.conversations,
        "sessions": result.sessions, "grown": result.grown, "events": result.events, "working_ms": result.worked,
        "problems": result.problems, "unread": result.unread,
    }  # fmt: skip


def _paint_backfill(paint: Paint, results: list[BackfillResult]) -> Painted:
    if not results:
        return paint.plain("No agent has past conversations here.")
    columns = [
        Column("Agent"), Column("Files", "right"), Column("Read", "right"), Column("New sessions", "right"),
        Column("Grown", "right"), Column("Events", "right"), Column("Worked", "right"),
    ]  # fmt: skip
    cells: list[list[str]] = [
        [paint.bold(backfilled.agent), f"{backfilled.sources:,}", f"{backfilled.read:,}", f"{backfilled.sessions:,}",
         f"{backfilled.grown:,}", f"{backfilled.events:,}",
         format_duration(backfilled.worked) if backfilled.worked else ""]
        for backfilled in results
    ]  # fmt: skip
    new = sum(backfilled.sessions for backfilled in results)
    grown = sum(backfilled.grown for backfilled in results)
    if new or grown:
        summary = f"{count(new, 'session')} recorded" + (f", {grown:,} grown" if grown else "")
        verdict = paint.green(f"{summary}. holdfast history --all-projects shows them.")
    elif any(backfilled.unread for backfilled in results):
        verdict = paint.plain("Nothing new in the files that could be read.")
    else:
        verdict = paint.plain("Nothing new.")
    return Painted(f"{paint.table(cells, columns)}\n\n{verdict}")


class _BackfillBar:
    """One line on the terminal that fills up; nothing anywhere else."""

    def __init__(self, call: Call) -> None:
        self._paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._enabled = self._paint.tty and not call.json and not call.quiet
        self._shown = ""

    def draw(self, done: int, total: int, name: str) -> None:
        if not self._enabled:
            return
        share = done / total if total else 1.0
        line = f"{int(share * 100):3d}%"
        if line == self._shown:
            return
        self._shown = line
        paint = self._paint
        file_name = paint.dim(os.path.basename(name))
        bar_line = paint.cut(paint.join(paint.bar(share, _BAR_WIDTH), f" {line}  ", file_name), paint.width - 1)
        sys.stderr.write(f"\r\x1b[2K{bar_line}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


# ── hook ───────────────────────────────────────────────────────────────────────────────────────────────


def hook(call: Call) -> int:
    from holdfast.cli import hooking

    return 2 if hooking.main([call.parsed.text("agent") or ""]) == hooking.BLOCKED else 0


# ── statusline ─────────────────────────────────────────────────────────────────────────────────────────


def statusline(call: Call) -> int:
    agent = call.parsed.text("agent") or "claude"
    if not call.json:
        from holdfast.cli import hooking

        return hooking.main(["status", agent])
    from holdfast.cli.statusline import document

    call.answer(document(home(call.environ), agent, call.store or ""), lambda _: "")
    return 0


# ── mcp ────────────────────────────────────────────────────────────────────────────────────────────────


def mcp(call: Call) -> int:
    from importlib.util import find_spec

    from holdfast.core.errors import missing_extra

    if find_spec("mcp") is None:
        raise missing_extra("the MCP server", "mcp")
    from holdfast.mcp import streams

    by_hand = sys.stdin.isatty()
    descriptors = streams.take_over_standard_streams()
    if by_hand:
        call.note("Waiting for an MCP client on standard input; holdfast connect AGENT lets an agent start it.")
    from holdfast.mcp.context import ServerOptions
    from holdfast.mcp.server import serve

    words, environ = call.parsed.globals, call.environ
    options = ServerOptions(
        directory=words.project or ".", home=home(environ), environ=environ,
        store=call.store, actor=environ.get("HOLDFAST_ACTOR") or None,
    )  # fmt: skip
    return serve(options, descriptors)
