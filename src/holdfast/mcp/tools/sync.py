"""The tool that syncs: what was done here goes to the other devices, and what they did comes here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from anyio import from_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult
from pydantic import Field

from holdfast.core.wording import count, one_line
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import monotonic
from holdfast.mcp.answers import Exchanged, Gone, News, Reached, Rejected, result
from holdfast.mcp.context import McpContext
from holdfast.mcp.tool import Name, Project, offer
from holdfast.sync.sync import Synced, sync

_TOLD_EVERY: Final = 0.5  # seconds
_MOST: Final = 20  # of each list


class Travelling:
    def __init__(self, ground: McpContext) -> None:
        self._ground = ground

    async def sync(
        self,
        context: Context,
        remote: Annotated[Name, Field(description="Only this one. Default: all that are set up.")] = "",
        project: Project = "",
    ) -> CallToolResult:
        def work(keeper: Keeper) -> CallToolResult:
            return _answer(sync(keeper, remote or None, progress=_progress(context)))

        return await self._ground.apart(project, work)


def _progress(context: Context) -> Callable[[int, int, str], None]:
    """How far it is, now and then, for clients that asked to be told; they wait longer while they are."""
    next_ = monotonic() + _TOLD_EVERY

    def tell(done: int, total: int, what: str) -> None:
        nonlocal next_
        if monotonic() >= next_:
            next_ = monotonic() + _TOLD_EVERY
            from_thread.run(context.report_progress, done, total or None, what)

    return tell


def _answer(done: Synced) -> CallToolResult:
    if done.failed and not done.reached:
        name, error = next(iter(done.failed.items()))
        error.message = f"could not sync with {name}: {error.message}"
        raise error
    report = done.report
    remotes = [Reached(name=name, error=None) for name in done.reached]
    remotes += [Reached(name=name, error=error.message) for name, error in done.failed.items()]
    notes = [one_line(sentence) for sentence in report.notes[:_MOST]]
    answer = Exchanged(
        pushed=report.pushed, pulled=report.pulled, conflicts=done.conflicts,
        rejected=[
            Rejected(pack=refused.pack, device=refused.device, reason=refused.reason)
            for refused in report.rejected[:_MOST]
        ],
        notes=notes, remotes=remotes,
        sessions=[
            News(id=session.id, goal=session.goal, conflicts=session.conflicts) for session in done.sessions[:_MOST]
        ],
        deleted=[Gone(session=deleted.session, device=deleted.device) for deleted in report.deleted[:_MOST]],
    )  # fmt: skip
    words = [f"Sent {report.pushed:,}, received {report.pulled:,}."]
    words += [f"{name}: {one_line(error.message)}." for name, error in done.failed.items()]
    words += (
        [f"{count(len(report.rejected), 'pack')} not taken in: holdfast doctor tells."] if report.rejected else []
    )
    if done.conflicts:
        words.append(f"{count(done.conflicts, 'conflict')} for the person to look at: holdfast conflicts.")
    if len(done.sessions) > _MOST:
        words.append(f"{len(done.sessions):,} sessions have news; the latest {_MOST} are listed.")
    return result(answer, " ".join([*words, *notes]))


def tools(ground: McpContext) -> list[Tool]:
    return [
        offer(
            Travelling(ground).sync, Exchanged, title="Sync with other devices", repeatable=True, outside=True,
            description="Exchange what is missing with the remotes the person has set up, encrypted end to end. It "
            "happens by itself after something was recorded; call it when the person is about to change to another "
            "device, or asks for the latest. It cannot set up remotes.",
        )
    ]  # fmt: skip
