"""`holdfast init`: a project set up in a minute. What is here is found; what to do about it is asked, or told by
flags; without either, it only says what could be done.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.commands.agents import public as public_agent
from holdfast.cli.commands.agents import table
from holdfast.cli.connected import public as public_connection
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.cli.places import places
from holdfast.cli.table import FORMAT_NAMES
from holdfast.core.errors import HoldfastError, Interrupted
from holdfast.keeper import project_files
from holdfast.keeper.wording import count

if TYPE_CHECKING:
    from holdfast.capture.interface import Scope
    from holdfast.keeper.captures.backfilling import Backfilled
    from holdfast.keeper.captures.connecting import Connected
    from holdfast.keeper.captures.found import Found

NONE = "none"


class Wanted(NamedTuple):
    """What the person chose; None where nobody was asked."""

    connect: list[str] | None
    mirrors: list[str] | None
    backfill: bool | None


class Outcome(NamedTuple):
    connected: list[Connected]
    mirrors: list[str]
    backfilled: list[Backfilled] | None
    problems: list[HoldfastError]
    next: list[str]


def run(call: Call) -> int:
    from holdfast.capture.registry import title
    from holdfast.keeper.captures.found import find

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
            "agents": [public_agent(one) for one in found],
            "connections": [public_connection(one) for one in done.connected],
            "mirrors": [one.format for one in call.keeper.mirrors.status()],
            "backfill": None if done.backfilled is None else [
                {"agent": one.agent, "sessions": one.sessions, "grown": one.grown, "working_ms": one.worked}
                for one in done.backfilled
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


def _wanted(call: Call, found: list[Found]) -> Wanted:
    yes = call.parsed.globals.yes
    asks = not yes and not call.json and sys.stdin.isatty()
    if asks:
        call.note(table(call.paint, found))
    ready = [one.name for one in found if one.ready]
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
    return Wanted(connect, mirrors, backfill)


def _ask_which(call: Call, found: list[Found], ready: list[str]) -> list[str]:
    known = {one.name for one in found}
    if ready:
        question = f"Connect {', '.join(ready)}? [Y/n, or the names you want]"
    elif any(one.connected for one in found):
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
    on = {one.format for one in call.keeper.mirrors.status()}
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


def _do(call: Call, found: list[Found], wanted: Wanted) -> Outcome:
    connected, problems = _connect(call, found, wanted.connect or [])
    mirrors: list[str] = []
    on = {one.format for one in call.keeper.mirrors.status()} if wanted.mirrors else set()
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
        from holdfast.keeper.captures.backfilling import backfill, unread

        try:
            backfilled = [one for one in backfill(call.keeper, places(call)) if one.sources or one.unread]
            problems += unread(backfilled)
        except HoldfastError as error:
            problems.append(error)
    return Outcome(connected, mirrors, backfilled, problems, _next(found, wanted))


def _connect(call: Call, found: list[Found], names: list[str]) -> tuple[list[Connected], list[HoldfastError]]:
    """One after the other: an agent that cannot be connected does not keep the others from it."""
    from holdfast.keeper.captures.connecting import connect

    scope: Scope = "project" if call.parsed.text("scope") == "project" else "user"
    # Hooks that came with the project and are not heard yet stay the project's.
    shared = {one.name for one in found if one.silent and one.connected == "project"}
    done: list[Connected] = []
    problems: list[HoldfastError] = []
    for name in names:
        try:
            done += connect(call.keeper, places(call), [name], "project" if name in shared else scope)
        except HoldfastError as error:
            problems.append(error)
    return done, problems


def _next(found: list[Found], wanted: Wanted) -> list[str]:
    """The commands for what was left open."""
    from holdfast.keeper.captures.found import commands

    left: list[str] = []
    if wanted.connect is None:
        left += commands(found) or ["holdfast connect AGENT"]
    if wanted.mirrors is None:
        left.append("holdfast mirror on FORMAT")
    if wanted.backfill is None:
        left.append("holdfast backfill")
    return left


# ── showing it ───────────────────────────────────────────────────────────────────────────────────────────


def _painted(paint: Paint, root: str, found: list[Found], done: Outcome, notes: list[str]) -> Painted:
    lines: list[str] = [paint.heading("Holdfast", root), table(paint, found), ""]
    mark = "*" if paint.ascii_only else "✓"
    for one in done.connected:
        title = next(agent.title for agent in found if agent.name == one.agent)
        lines.append(
            paint.join(
                paint.green(mark), f" {title} {'is connected' if one.is_new or one.revived else 'was connected'}"
            )
        )
        for sentence in one.obstacles:
            lines += [paint.yellow(f"  {line}") for line in wrap(paint.plain(sentence), paint.width - 2)]
    lines += [paint.join(paint.green(mark), f" {name} is mirrored here") for name in done.mirrors]
    if done.backfilled is not None:
        sessions = sum(one.sessions for one in done.backfilled)
        told = f" {count(sessions, 'past session')} taken in" if sessions else " nothing new in past conversations"
        lines.append(paint.join(paint.green(mark), told))
    lines += [paint.plain(sentence, lines=True) for sentence in notes]
    if done.next:
        lines.append(paint.plain("What you can do:"))
        lines += [paint.join("  ", paint.cyan(command)) for command in done.next]
    elif not done.problems:
        lines.append(paint.dim("Work as usual; holdfast status shows where you are."))
    return Painted("\n".join(lines))
