"""`holdfast init`: a project set up in a minute. What is here is found; what to do about it is asked, or told by
flags; without either, it only says what could be done.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.commands.agents import public as public_agent
from holdfast.cli.commands.agents import table
from holdfast.cli.connect_view import public as public_connection
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.cli.table import FORMAT_NAMES
from holdfast.core.errors import HoldfastError, Interrupted
from holdfast.core.wording import count
from holdfast.formats import project_files

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import Scope
    from holdfast.conversations.backfill.run import Backfilled
    from holdfast.conversations.connect.apply import Connected
    from holdfast.conversations.connect.detect import AgentSetup

NONE = "none"


class InitChoices(NamedTuple):
    """What the person chose; None where nobody was asked."""

    connect: list[str] | None
    mirrors: list[str] | None
    backfill: bool | None


class InitOutcome(NamedTuple):
    connected: list[Connected]
    mirrors: list[str]
    backfilled: list[Backfilled] | None
    problems: list[HoldfastError]
    next: list[str]


def run(call: Call) -> int:
    from holdfast.conversations.adapters.index import title
    from holdfast.conversations.connect.detect import find

    for name in _named(call):
        title(name)  # says so, before anything is asked or done
    where = places(call)
    found = find(call.keeper, where)
    wanted = _wanted(call, found)
    done = _do(call, found, wanted)
    if wanted.connect:
        found = find(call.keeper, where)
    notes = project_files.notes(call.keeper, at_work=call.keeper.current() is not None, foreign=True)
    call.answer(
        {
            "agents": [public_agent(setup) for setup in found],
            "connections": [public_connection(connected) for connected in done.connected],
            "mirrors": [mirrored.format for mirrored in call.keeper.mirrors.status()],
            "backfill": None if done.backfilled is None else [
                {"agent": backfilled.agent, "sessions": backfilled.sessions, "grown": backfilled.grown,
                 "working_ms": backfilled.worked}
                for backfilled in done.backfilled
            ],
            "problems": [error.message + (f" ({error.hint})" if error.hint else "") for error in done.problems],
            "next": done.next,
            **({"notes": notes} if notes else {}),
        },
        lambda paint: Painted("") if call.quiet else _painted(paint, call.keeper.place.root, found, done, notes),
        error=done.problems[0] if done.problems else None,
    )  # fmt: skip
    call.failed(done.problems)
    call.tell_of_mirrors()
    return 1 if done.problems else 0


# ── what is wanted ───────────────────────────────────────────────────────────────────────────────────────


def _named(call: Call) -> list[str]:
    """The agents of `--connect`, given one by one or with commas."""
    words = [word for given in call.parsed.texts("connect") for word in given.split(",") if word]
    return [] if words == [NONE] else list(dict.fromkeys(words))


def _wanted(call: Call, found: list[AgentSetup]) -> InitChoices:
    yes = call.parsed.globals.yes
    asks = not yes and not call.json and sys.stdin.isatty()
    if asks:
        call.note(table(call.paint, found))
    ready = [setup.name for setup in found if setup.ready]
    connect: list[str] | None = None
    if call.parsed.texts("connect"):
        connect = _named(call)
    elif yes:
        connect = ready
    elif asks:
        connect = _ask_which(call, found, ready)
    mirrors: list[str] | None = None
    if call.parsed.texts("mirror"):
        mirrors = [name for name in dict.fromkeys(call.parsed.texts("mirror")) if name != NONE]
    elif asks:
        mirrors = _ask_formats(call)
    backfill: bool | None = None
    if call.parsed.text("backfill") is not None:
        backfill = call.parsed.text("backfill") == "yes"
    elif yes:
        backfill = True
    elif asks:
        backfill = _yes(call, "Take in what these agents did before now? [Y/n]")
    return InitChoices(connect, mirrors, backfill)


def _ask_which(call: Call, found: list[AgentSetup], ready: list[str]) -> list[str]:
    known = {setup.name for setup in found}
    if ready:
        question = f"Connect {', '.join(ready)}? [Y/n, or the names you want]"
    elif any(setup.connected for setup in found):
        return []  # everything that is here is connected
    else:
        question = "No agent was found. Connect one all the same? [names, or Enter for none]"
    while True:
        words = _answer(call, question).replace(",", " ").lower().split()
        if words in ([], ["y"], ["yes"]):
            return ready
        if words in (["n"], ["no"], [NONE]):
            return []
        if set(words) <= known:
            return words
        call.note(f"Agents are {', '.join(sorted(known))}.")


def _ask_formats(call: Call) -> list[str]:
    on = {mirrored.format for mirrored in call.keeper.mirrors.status()}
    left = [name for name in FORMAT_NAMES if name not in on]
    while left:
        question = f"Keep live files for programs that read them? [{', '.join(left)}; Enter for none]"
        words = _answer(call, question).replace(",", " ").lower().split()
        if words in ([], ["n"], ["no"], [NONE]):
            return []
        if set(words) <= set(left):
            return words
    return []


def _yes(call: Call, question: str) -> bool:
    return (_answer(call, question) or "y").lower() in ("y", "yes")


def _answer(call: Call, question: str) -> str:
    """A line, empty for what is proposed. Whoever ends the input (Ctrl-D) has agreed to nothing."""
    sys.stderr.write(f"{call.paint.plain(question)} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise Interrupted("interrupted: nothing was set up")
    return line.strip()


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────────────


def _do(call: Call, found: list[AgentSetup], wanted: InitChoices) -> InitOutcome:
    connected, problems = _connect(call, found, wanted.connect or [])
    mirrors: list[str] = []
    on = {mirrored.format for mirrored in call.keeper.mirrors.status()} if wanted.mirrors else set()
    for name in wanted.mirrors or []:
        if name in on:
            continue  # it is wanted, and it is so: whoever runs this again is not told off
        try:
            call.keeper.mirrors.switch_on(name)
            mirrors.append(name)
        except HoldfastError as error:
            problems.append(error)
    backfilled: list[Backfilled] | None = None
    if wanted.backfill:
        from holdfast.conversations.backfill.run import backfill, unread

        try:
            backfilled = [
                backfilled
                for backfilled in backfill(call.keeper, places(call))
                if backfilled.sources or backfilled.unread
            ]
            problems += unread(backfilled)
        except HoldfastError as error:
            problems.append(error)
    return InitOutcome(connected, mirrors, backfilled, problems, _next(found, wanted))


def _connect(call: Call, found: list[AgentSetup], names: list[str]) -> tuple[list[Connected], list[HoldfastError]]:
    """One after the other: an agent that cannot be connected does not keep the others from it."""
    from holdfast.conversations.connect.apply import connect

    scope: Scope = "project" if call.parsed.text("scope") == "project" else "user"
    # Hooks that came with the project and are not heard yet stay the project's.
    shared = {setup.name for setup in found if setup.silent and setup.connected == "project"}
    done: list[Connected] = []
    problems: list[HoldfastError] = []
    for name in names:
        try:
            done += connect(call.keeper, places(call), [name], "project" if name in shared else scope)
        except HoldfastError as error:
            problems.append(error)
    return done, problems


def _next(found: list[AgentSetup], wanted: InitChoices) -> list[str]:
    """The commands for what was left open."""
    from holdfast.conversations.connect.detect import commands

    left: list[str] = []
    if wanted.connect is None:
        left += commands(found) or ["holdfast connect AGENT"]
    if wanted.mirrors is None:
        left.append("holdfast mirror on FORMAT")
    if wanted.backfill is None:
        left.append("holdfast backfill")
    return left


# ── showing it ───────────────────────────────────────────────────────────────────────────────────────────


def _painted(paint: Paint, root: str, found: list[AgentSetup], done: InitOutcome, notes: list[str]) -> Painted:
    lines: list[str] = [paint.heading("Holdfast", root), table(paint, found), ""]
    mark = "*" if paint.ascii_only else "✓"
    for connected in done.connected:
        title = next(agent.title for agent in found if agent.name == connected.agent)
        lines.append(
            paint.join(
                paint.green(mark),
                f" {title} {'is connected' if connected.is_new or connected.revived else 'was connected'}",
            )
        )
        for sentence in connected.obstacles:
            lines += [paint.yellow(f"  {line}") for line in wrap(paint.plain(sentence), paint.width - 2)]
    lines += [paint.join(paint.green(mark), f" {name} is mirrored here") for name in done.mirrors]
    if done.backfilled is not None:
        sessions = sum(backfilled.sessions for backfilled in done.backfilled)
        told = f" {count(sessions, 'past session')} taken in" if sessions else " nothing new in past conversations"
        lines.append(paint.join(paint.green(mark), told))
    lines += [paint.plain(sentence, lines=True) for sentence in notes]
    if done.next:
        lines.append(paint.plain("What you can do:"))
        lines += [paint.join("  ", paint.cyan(command)) for command in done.next]
    elif not done.problems:
        lines.append(paint.dim("Work as usual; holdfast status shows where you are."))
    return Painted("\n".join(lines))
