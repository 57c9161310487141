"""Decide who changed a work tree, from when it happened and who was working then.

A turn is the time from a prompt to the end of the agent's answer. Within a turn the agent is at work, otherwise the
person. Where two conversations, or an agent and the person, could both have made a change, it is unknown, and every
possible conversation is named. Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from holdfast.core.model import Certainty, ChangedBy


class RanCommand(msgspec.Struct, array_like=True, gc=False):
    """A shell command of a turn: when it may have run, and whether it makes commits."""

    since: int
    until: int
    commits: bool = False


class AgentTurn(msgspec.Struct, array_like=True, gc=False):
    """One turn of a conversation (`agent:id`), and the session that recorded it."""

    conversation: str
    session: str
    began: int
    # When a hook last reported on it.
    last_report: int
    ended: int | None = None
    # It ended without an answer: changes after the last report may be the person's.
    broken_off: bool = False
    commands: list[RanCommand] = []

    def covers(self, at: int) -> bool:
        return self.began <= at and (self.ended is None or at <= self.ended)


class Attribution(msgspec.Struct, frozen=True, gc=False):
    by: ChangedBy
    # The turn that certainly made it.
    turn: AgentTurn | None = None
    # The turns that may have made it.
    among: tuple[AgentTurn, ...] = ()

    @property
    def conversations(self) -> tuple[str, ...]:
        """The possible conversations: none, where a person made it."""
        return tuple(dict.fromkeys(turn.conversation for turn in self.among))


def attribute(turns: Sequence[AgentTurn], since: int, until: int) -> Attribution:
    """Who made a change at some moment from `since` to `until`, often the same moment."""
    attributions = [_attribute_at(turns, moment) for moment in _sample_moments(turns, since, until)]
    kinds = {
        (attribution.by, None if attribution.turn is None else attribution.turn.conversation)
        for attribution in attributions
    }
    if len(kinds) == 1:
        return attributions[0]
    among = tuple({id(turn): turn for attribution in attributions for turn in attribution.among}.values())
    return Attribution("unknown", None, among)


def _attribute_at(turns: Sequence[AgentTurn], at: int) -> Attribution:
    working = tuple(turn for turn in turns if turn.covers(at))
    conversations = {turn.conversation for turn in working}
    if not working:
        return Attribution("person")
    if len(conversations) > 1:
        return Attribution("unknown", None, working)
    turn = working[-1]
    if turn.broken_off and at > turn.last_report:
        return Attribution("unknown", None, working)
    ran = any(command.since <= at for turn in working for command in turn.commands)
    return Attribution("command" if ran else "unknown", turn, working)


def _sample_moments(turns: Iterable[AgentTurn], since: int, until: int) -> list[int]:
    """Moments that represent a span: its ends, the boundaries of turns in it, and one between each two of these."""
    if since >= until:
        return [until]
    edges = {since, until}
    for turn in turns:
        edges.update(
            edge for edge in (turn.began, turn.ended, turn.last_report) if edge is not None and since < edge < until
        )
    ordered = sorted(edges)
    return sorted({*ordered, *((left + right) // 2 for left, right in pairwise(ordered))})


class CommitMaker(msgspec.Struct, frozen=True, gc=False):
    conversation: str | None
    certainty: Certainty
    among: tuple[str, ...]


def maker_of(turns: Sequence[AgentTurn], since: int, until: int) -> CommitMaker:
    """Which conversation made a commit at some moment from `since` to `until`, as git's times are in seconds.

    Certain where one conversation was at work all that time and ran a command that makes commits. Where none was at
    work, a person made it. A command is reported when it has ended, and its start is not always known.
    """
    active = [turn for turn in turns if turn.began <= until and (turn.ended is None or turn.ended >= since)]
    names = tuple(dict.fromkeys(turn.conversation for turn in active))
    if not active:
        return CommitMaker(None, "certain", ())
    committing = {
        turn.conversation for turn in active for ran in turn.commands
        if ran.commits and ran.since <= until and ran.until >= since
    }  # fmt: skip
    only = next(iter(committing)) if len(committing) == 1 else None
    if len(names) > 1:
        return CommitMaker(only, "uncertain" if only is None else "likely", names)
    if not all(turn.covers(since) and turn.covers(until) for turn in active):
        return CommitMaker(None, "uncertain", names)
    if only is not None:
        return CommitMaker(only, "certain", ())
    if any(turn.commands for turn in active) and not any(
        turn.broken_off and until > turn.last_report for turn in active
    ):
        return CommitMaker(names[0], "likely", ())
    return CommitMaker(None, "uncertain", names)
