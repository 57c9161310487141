"""Checks of the table of commands. Tests run them; a running program trusts the table."""

from __future__ import annotations

from itertools import pairwise

from holdfast.cli.grammar import GLOBALS, Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GLOBAL_FLAGS = {flag for option in GLOBALS for flag in option.flags}


def faults(commands: Sequence[Command], path: tuple[str, ...] = ()) -> list[str]:
    """Every contradiction within or between the declarations, one sentence each."""
    result = _repeated([command.name for command in commands], " ".join(path) or "the program")
    for command in commands:
        here = (*path, command.name)
        where = " ".join(here)
        result += [f"{where}: {fault}" for fault in _command(command, top=not path)]
        result += faults(command.verbs, here)
    return result


def _command(command: Command, *, top: bool) -> list[str]:
    result = _repeated([param.name for param in command.params], "its parameters")
    result += _repeated([flag for option in command.options for flag in option.flags], "its options")
    if not command.name or command.name.startswith("-") or " " in command.name:
        result.append("its name cannot be typed")
    if not command.summary:
        result.append("it has no summary")
    if not (command.handler or command.verbs):
        result.append("nothing runs it")
    if command.handler and (command.handler.count(":") != 1 or " " in command.handler):
        result.append(f"handler {command.handler!r} is not module:function")
    if top and not command.group:
        result.append("it has no group")
    labels = {option.label for option in command.options}
    result += [
        f"either names {name}, which it has not" for pair in command.either for name in pair if name not in labels
    ]
    for option in command.options:
        result += _option(option)
    return result + _arguments(command.arguments)


def _option(option: Option) -> list[str]:
    entries = [f"{flag} is a global option" for flag in option.flags if flag in _GLOBAL_FLAGS]
    for flag in option.flags:
        long, short = flag.startswith("--") and len(flag) > 3, flag.startswith("-") and len(flag) == 2
        if not (long or short) or "=" in flag or " " in flag or flag[1:2].isdigit():
            entries.append(f"{flag!r} is not a flag")
    if option.kind == "flag" and (option.many or option.choices or option.required):
        entries.append(f"{option.label} is a flag and has no value to choose, repeat or require")
    return entries


def _arguments(arguments: Sequence[Argument]) -> list[str]:
    entries = [
        f"{argument.label} takes all, and {other.label} follows"
        for argument, other in pairwise(arguments)
        if argument.many
    ]
    entries += [
        f"{argument.label} may be left out, and {other.label} after it not"
        for argument, other in pairwise(arguments)
        if other.required and not argument.required
    ]
    return entries + [
        f"{argument.label} is an argument and cannot be a flag" for argument in arguments if argument.kind == "flag"
    ]


def _repeated(names: Sequence[str], where: str) -> list[str]:
    return [f"{name} stands twice in {where}" for name in dict.fromkeys(names) if names.count(name) > 1]
