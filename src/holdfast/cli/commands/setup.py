"""Commands that set up, configure and check this installation: `init`, `config`, `doctor`."""

from __future__ import annotations

import sys
from typing import NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.paint import Column, Paint, Painted, width_of, wrap
from holdfast.cli.table import FORMAT_NAMES
from holdfast.core.errors import HoldfastError, Interrupted
from holdfast.core.wording import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.paint import Style
    from holdfast.conversations.adapters.base import Scope
    from holdfast.conversations.backfill.run import BackfillResult
    from holdfast.conversations.connect.apply import ConnectResult
    from holdfast.conversations.connect.detect import AgentSetup
    from holdfast.workspace.followers import Check, CheckStatus

# ── init ───────────────────────────────────────────────────────────────────────────────────────────────


_NONE = "none"


class InitChoices(NamedTuple):
    """What the person chose; None where nothing was asked."""

    connect: list[str] | None
    mirrors: list[str] | None
    backfill: bool | None


class InitOutcome(NamedTuple):
    connected: list[ConnectResult]
    mirrors: list[str]
    backfilled: list[BackfillResult] | None
    problems: list[HoldfastError]
    next: list[str]


def init(call: Call) -> int:
    from holdfast.cli.commands.connect import public_agent, public_connection
    from holdfast.conversations.adapters.index import title
    from holdfast.conversations.connect.detect import find
    from holdfast.formats import project_files

    for name in _named_agents(call):
        title(name)  # raises for an unknown name, before anything is asked or done
    dirs = call.agent_dirs()
    setups = find(call.keeper, dirs)
    choices = _choices(call, setups)
    outcome = _set_up(call, setups, choices)
    if choices.connect:
        setups = find(call.keeper, dirs)
    notes = project_files.notes(call.keeper, at_work=call.keeper.current() is not None, foreign=True)
    call.answer(
        {
            "agents": [public_agent(setup) for setup in setups],
            "connections": [public_connection(connected) for connected in outcome.connected],
            "mirrors": [mirrored.format for mirrored in call.keeper.mirrors.status()],
            "backfill": None if outcome.backfilled is None else [
                {"agent": backfilled.agent, "sessions": backfilled.sessions, "grown": backfilled.grown,
                 "working_ms": backfilled.worked}
                for backfilled in outcome.backfilled
            ],
            "problems": [error.message + (f" ({error.hint})" if error.hint else "") for error in outcome.problems],
            "next": outcome.next,
            **({"notes": notes} if notes else {}),
        },
        lambda paint: (
            Painted("") if call.quiet else _paint_outcome(paint, call.keeper.place.root, setups, outcome, notes)
        ),
        error=outcome.problems[0] if outcome.problems else None,
    )  # fmt: skip
    call.failed(outcome.problems)
    call.print_notices()
    return 1 if outcome.problems else 0


# ── what is wanted ───────────────────────────────────────────────────────────────────────────────────────


def _named_agents(call: Call) -> list[str]:
    """The agents of `--connect`, given one by one or with commas."""
    words = [word for argument in call.parsed.texts("connect") for word in argument.split(",") if word]
    return [] if words == [_NONE] else list(dict.fromkeys(words))


def _choices(call: Call, setups: list[AgentSetup]) -> InitChoices:
    from holdfast.cli.commands.connect import agents_table

    yes = call.parsed.globals.yes
    interactive = not yes and not call.json and sys.stdin.isatty()
    if interactive:
        call.note(agents_table(call.paint, setups))
    ready = [setup.name for setup in setups if setup.ready]
    connect: list[str] | None = None
    if call.parsed.texts("connect"):
        connect = _named_agents(call)
    elif yes:
        connect = ready
    elif interactive:
        connect = _ask_which(call, setups, ready)
    mirrors: list[str] | None = None
    if call.parsed.texts("mirror"):
        mirrors = [name for name in dict.fromkeys(call.parsed.texts("mirror")) if name != _NONE]
    elif interactive:
        mirrors = _ask_formats(call)
    backfill: bool | None = None
    if call.parsed.text("backfill") is not None:
        backfill = call.parsed.text("backfill") == "yes"
    elif yes:
        backfill = True
    elif interactive:
        backfill = _says_yes(call, "Add past conversations of these agents? [Y/n]")
    return InitChoices(connect, mirrors, backfill)


def _ask_which(call: Call, setups: list[AgentSetup], ready: list[str]) -> list[str]:
    known = {setup.name for setup in setups}
    if ready:
        question = f"Connect {', '.join(ready)}? [Y/n, or the names you want]"
    elif any(setup.connected for setup in setups):
        return []  # everything that is here is connected
    else:
        question = "No agent was detected. Connect one anyway? [names, or Enter for none]"
    while True:
        words = _read_answer(call, question).replace(",", " ").lower().split()
        if words in ([], ["y"], ["yes"]):
            return ready
        if words in (["n"], ["no"], [_NONE]):
            return []
        if set(words) <= known:
            return words
        call.note(f"Agents are {', '.join(sorted(known))}.")


def _ask_formats(call: Call) -> list[str]:
    mirrored_formats = {mirrored.format for mirrored in call.keeper.mirrors.status()}
    formats = [name for name in FORMAT_NAMES if name not in mirrored_formats]
    while formats:
        question = f"Mirror sessions to files of these formats? [{', '.join(formats)}; Enter for none]"
        words = _read_answer(call, question).replace(",", " ").lower().split()
        if words in ([], ["n"], ["no"], [_NONE]):
            return []
        if set(words) <= set(formats):
            return words
    return []


def _says_yes(call: Call, question: str) -> bool:
    return (_read_answer(call, question) or "y").lower() in ("y", "yes")


def _read_answer(call: Call, question: str) -> str:
    """A line, empty for what is proposed. Whoever ends the input (Ctrl-D) has agreed to nothing."""
    sys.stderr.write(f"{call.paint.plain(question)} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise Interrupted("interrupted: nothing was set up")
    return line.strip()


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────────────


def _set_up(call: Call, setups: list[AgentSetup], choices: InitChoices) -> InitOutcome:
    connected, problems = _connect_agents(call, setups, choices.connect or [])
    mirrors: list[str] = []
    mirrored_formats = {mirrored.format for mirrored in call.keeper.mirrors.status()} if choices.mirrors else set()
    for name in choices.mirrors or []:
        if name in mirrored_formats:
            continue  # already on: running this again is no error
        try:
            call.keeper.mirrors.switch_on(name)
            mirrors.append(name)
        except HoldfastError as error:
            problems.append(error)
    backfilled: list[BackfillResult] | None = None
    if choices.backfill:
        from holdfast.conversations.backfill.run import backfill, unread_errors

        try:
            backfilled = [
                backfilled
                for backfilled in backfill(call.keeper, call.agent_dirs())
                if backfilled.sources or backfilled.unread
            ]
            problems += unread_errors(backfilled)
        except HoldfastError as error:
            problems.append(error)
    return InitOutcome(connected, mirrors, backfilled, problems, _next_commands(setups, choices))


def _connect_agents(
    call: Call, setups: list[AgentSetup], names: list[str]
) -> tuple[list[ConnectResult], list[HoldfastError]]:
    """One after the other: an agent that cannot be connected does not keep the others from it."""
    from holdfast.conversations.connect.apply import connect

    scope: Scope = "project" if call.parsed.text("scope") == "project" else "user"
    # Hooks that came with the project and have no script yet stay the project's.
    shared = {setup.name for setup in setups if setup.silent and setup.connected == "project"}
    done: list[ConnectResult] = []
    problems: list[HoldfastError] = []
    for name in names:
        try:
            done += connect(call.keeper, call.agent_dirs(), [name], "project" if name in shared else scope)
        except HoldfastError as error:
            problems.append(error)
    return done, problems


def _next_commands(setups: list[AgentSetup], choices: InitChoices) -> list[str]:
    """The commands for what was left open."""
    from holdfast.conversations.connect.detect import commands

    next_commands: list[str] = []
    if choices.connect is None:
        next_commands += commands(setups) or ["holdfast connect AGENT"]
    if choices.mirrors is None:
        next_commands.append("holdfast mirror on FORMAT")
    if choices.backfill is None:
        next_commands.append("holdfast backfill")
    return next_commands


# ── showing it ───────────────────────────────────────────────────────────────────────────────────────────


def _paint_outcome(
    paint: Paint, root: str, setups: list[AgentSetup], outcome: InitOutcome, notes: list[str]
) -> Painted:
    from holdfast.cli.commands.connect import agents_table

    lines: list[str] = [paint.heading("Holdfast", root), agents_table(paint, setups), ""]
    mark = "*" if paint.ascii_only else "✓"
    for connected in outcome.connected:
        title = next(agent.title for agent in setups if agent.name == connected.agent)
        lines.append(
            paint.join(
                paint.green(mark),
                f" {title} {'is connected' if connected.is_new or connected.revived else 'was connected'}",
            )
        )
        for sentence in connected.obstacles:
            lines += [paint.yellow(f"  {line}") for line in wrap(paint.plain(sentence), paint.width - 2)]
    lines += [paint.join(paint.green(mark), f" {name} is mirrored here") for name in outcome.mirrors]
    if outcome.backfilled is not None:
        sessions = sum(backfilled.sessions for backfilled in outcome.backfilled)
        summary = f" {count(sessions, 'past session')} added" if sessions else " nothing new in past conversations"
        lines.append(paint.join(paint.green(mark), summary))
    lines += [paint.plain(sentence, lines=True) for sentence in notes]
    if outcome.next:
        lines.append(paint.plain("What you can do:"))
        lines += [paint.join("  ", paint.cyan(command)) for command in outcome.next]
    elif not outcome.problems:
        lines.append(paint.dim("Work as usual; holdfast status shows where you are."))
    return Painted("\n".join(lines))


# ── config ─────────────────────────────────────────────────────────────────────────────────────────────


def config_get(call: Call) -> None:
    from holdfast.workspace import settings

    setting = settings.find_setting(call.parsed.need("name"))
    value = call.keeper.config.get(setting.name)
    call.answer({"name": setting.name, "value": value}, lambda paint: paint.plain(str(value)))


def config_set(call: Call) -> None:
    from holdfast.workspace import settings

    setting = settings.find_setting(call.parsed.need("name"))
    value = settings.parse(setting, call.parsed.need("value"))
    settings.change(call.keeper.home.config, setting, value)
    call.answer(
        {"name": setting.name, "value": value},
        lambda paint: "" if call.quiet else paint.plain(f"{setting.name} = {value}"),
    )


def config_unset(call: Call) -> None:
    from holdfast.workspace import settings

    setting = settings.find_setting(call.parsed.need("name"))
    settings.change(call.keeper.home.config, setting, None)
    call.answer(
        {"name": setting.name, "value": setting.default},
        lambda paint: "" if call.quiet else paint.plain(f"{setting.name} = {setting.default}, the default"),
    )


def config_list(call: Call) -> None:
    from holdfast.workspace import settings

    chosen = call.keeper.config.list()
    documents = [
        {"name": setting.name, "value": chosen[setting.name], "default": setting.default, "about": setting.about}
        for setting in settings.SETTINGS
    ]
    problems = [
        {"file": error.file, "message": error.message, "hint": error.hint}
        for error in call.keeper.settings_problems()
    ]
    rows = [(setting.name, str(chosen[setting.name]), setting.about) for setting in settings.SETTINGS]
    columns = [Column("Setting", min_width=26), Column("Value", "right"), Column("", weight=1, style="dim")]
    call.answer({"settings": documents, "problems": problems}, lambda paint: paint.table(rows, columns))


# ── doctor ─────────────────────────────────────────────────────────────────────────────────────────────


_DAMAGED = 6
_CHECK_STYLES: dict[CheckStatus, Style] = {"ok": "green", "warning": "yellow", "failed": "red"}
_INDENT = 20


def doctor(call: Call) -> int:
    repair = call.parsed.flag("repair")
    call.keeper.agent_dirs = call.agent_dirs()
    checks, repairs = call.keeper.doctor(repair=repair)
    repaired = repairs if repair else None
    document: dict[str, object] = {"checks": checks}
    if repaired is not None:
        document["repaired"] = repaired
    call.answer(document, lambda paint: _paint_checks(paint, checks, repaired, quiet=call.quiet))
    return _DAMAGED if any(check.status == "failed" for check in checks) else 0


def _paint_checks(paint: Paint, checks: list[Check], repaired: list[str] | None, *, quiet: bool) -> Painted:
    lines: list[Painted] = []
    if repaired is not None and not quiet:
        for sentence in repaired or ["Nothing to repair."]:
            lines += [paint.plain(line) for line in wrap(paint.plain(sentence), paint.width)]
        lines.append(paint.plain(""))
    for check in checks:
        if not quiet or check.status != "ok":
            lines += _paint_check(paint, check)
    if not quiet:
        lines.append(_doctor_verdict(paint, checks))
    return Painted("\n".join(lines))


def _paint_check(paint: Paint, check: Check) -> list[Painted]:
    # Whole: fingerprints and commands are there to be copied.
    first, *rest = wrap(paint.plain(check.detail, lines=True), paint.width - _INDENT, whole=True) or [""]
    status = paint.style(check.status, _CHECK_STYLES[check.status])
    gap = " " * (8 - len(check.status))
    if width_of(paint.plain(check.name)) >= _INDENT - 8:
        lines = [paint.join(status, gap, check.name)]
        rest = [first, *rest]
    else:
        lines = [paint.join(status, gap, f"{check.name:<{_INDENT - 8}}", first)]
    lines += [paint.plain(" " * _INDENT + line) for line in rest]
    if check.status != "ok" and check.fix:
        lines += [
            paint.dim(" " * _INDENT + line)
            for line in wrap(paint.plain(check.fix, lines=True), paint.width - _INDENT, whole=True)
        ]
    return lines


def _doctor_verdict(paint: Paint, checks: list[Check]) -> Painted:
    failed = sum(check.status == "failed" for check in checks)
    warned = sum(check.status == "warning" for check in checks)
    if failed:
        return paint.red(f"{count(failed, 'check')} failed.")
    return paint.yellow(f"No failures, {count(warned, 'warning')}.") if warned else paint.green("All checks passed.")
