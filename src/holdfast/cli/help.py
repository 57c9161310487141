"""`--help` and `--version`."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.cells import width_of, wrap
from holdfast.cli.grammar import GLOBALS, PROGRAM, Argument, Command, Option
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def show(call: Call) -> int:
    if call.parsed.globals.version:
        from holdfast import __version__

        call.answer({"version": __version__}, lambda paint: paint.plain(f"holdfast {__version__}"))
        return 0

    text = help_text(COMMANDS, call.parsed.path, call.paint)
    call.answer({"help": str(help_text(COMMANDS, call.parsed.path))}, lambda _: text)
    return 0


ABOUT = "keeps the sessions of AI coding agents: recorded as they happen, resumed where they stopped"
_MAX_TERM_CELLS = 30  # cells; after a longer label, the explanation starts on a new line


def find(commands: Sequence[Command], path: Sequence[str]) -> Command | None:
    """The command at a path of names; None for the empty path, which is the program."""
    match: Command | None = None
    for name in path:
        match = next(command for command in commands if command.name == name)
        commands = match.verbs
    return match


def help_text(commands: Sequence[Command], path: Sequence[str] = (), paint: Paint | None = None) -> Painted:
    """The help of the program (no path), a command or a verb, without a line break at its end."""
    paint = paint or Paint()
    command = find(commands, path)
    blocks = _program(commands, paint) if command is None else _command(path, command, paint)
    return _join_blocks([block for block in blocks if block])


def usage(path: Sequence[str], command: Command) -> str:
    """The one line that shows how a command is written, as the reference pages have it."""
    words = [PROGRAM, *path]
    if command.verbs:
        verb = "|".join(verb.name for verb in command.verbs)
        words.append(f"[{verb}]" if command.handler else verb)
    words += [_argument(argument) for argument in command.arguments]
    grouped = {flag for names in command.either for flag in names}
    optional = [option for option in command.options if not option.required and option.label not in grouped]
    words += [_option(option) for option in command.options if option.required]
    words += [f"[{_option(option)}]" for option in optional]
    for names in command.either:
        group = [_option(option) for option in command.options if option.label in names]
        words.append(f"[{' | '.join(group)}]")
    if command.rest:
        words.append("-- COMMAND…")
    return " ".join(words)


def value(param: Argument | Option) -> str:
    """The placeholder of the value: its choices if they are few enough to read, else its name."""
    choices = "|".join(param.choices)
    return choices if choices and len(choices) <= 48 else param.metavar


def _argument(argument: Argument) -> str:
    word = argument.metavar + ("…" if argument.many else "")
    return word if argument.required else f"[{word}]"


def _option(option: Option) -> str:
    word = option.label if option.kind == "flag" else f"{option.label} {value(option)}"
    return word + ("…" if option.many else "")


def _program(commands: Sequence[Command], paint: Paint) -> list[Painted]:
    groups: dict[str, list[Command]] = {}
    for command in commands:
        groups.setdefault(command.group or "Commands", []).append(command)
    left = min(max((width_of(command.name) for command in commands), default=0), _MAX_TERM_CELLS)
    return [
        _text(paint, f"{PROGRAM} {ABOUT}"),
        _usage_block(f"{PROGRAM} [OPTIONS] COMMAND …", paint),
        *(_commands(group, members, paint, left) for group, members in groups.items()),
        _options("Options, before or after the command", GLOBALS, paint),
        _text(paint, f"{PROGRAM} COMMAND --help explains a command."),
    ]


def _command(path: Sequence[str], command: Command, paint: Paint) -> list[Painted]:
    arguments = [(argument.metavar, _explanation(argument)) for argument in command.arguments]
    if command.rest:
        arguments.append(("COMMAND…", "the command to run, with its own options, after --"))
    flags = " ".join(option.label for option in GLOBALS)
    return [
        _usage_block(usage(path, command), paint),
        _text(paint, _sentence(command.summary)),
        _text(paint, command.description),
        _commands("Verbs", command.verbs, paint),
        _list("Arguments", arguments, paint),
        _options("Options", command.options, paint),
        paint.dim(_text(paint, f"Everywhere: {flags}")),
    ]


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:] + ("" if summary.endswith((".", "?")) else ".")


def _explanation(param: Argument | Option) -> str:
    notes = []
    if param.choices and value(param) != "|".join(param.choices):
        notes.append("one of " + ", ".join(param.choices))
    elif isinstance(param, Argument) and param.choices:
        notes.append(", ".join(param.choices))
    if param.many:
        notes.append("several" if isinstance(param, Argument) else "may be repeated")
    if isinstance(param, Option) and param.required:
        notes.append("required")
    return param.help + (f" ({'; '.join(notes)})" if notes else "")


def _usage_block(line: str, paint: Paint) -> Painted:
    """`Usage:` and the line, broken between its parts and never inside a pair of brackets."""
    start = "Usage: "
    marked = line.replace("[", "\0[").split("\0")
    rows = [""]
    for part in (word for piece in marked for word in ([piece] if piece.startswith("[") else piece.split())):
        candidate = f"{rows[-1]} {part.strip()}".strip()
        if width_of(candidate) <= paint.width - len(start) - 2:
            rows[-1] = candidate
        else:
            rows.append(part.strip())
    first, *others = [paint.plain(row) for row in rows if row]
    head = paint.join(paint.bold(start), first)
    return _join_blocks([head, *(paint.join(" " * (len(start) + 2), row) for row in others)], "\n")


def _text(paint: Paint, text: str) -> Painted:
    return _join_blocks([paint.plain(line) for line in wrap(text, paint.width)], "\n")


def _commands(title: str, commands: Sequence[Command], paint: Paint, left: int = 0) -> Painted:
    return _list(title, [(command.name, command.summary) for command in commands], paint, left)


def _options(title: str, options: Sequence[Option], paint: Paint) -> Painted:
    rows = []
    for option in options:
        flags = ", ".join(option.flags)
        rows.append((flags if option.kind == "flag" else f"{flags} {value(option)}", _explanation(option)))
    return _list(title, rows, paint)


def _list(title: str, rows: Sequence[tuple[str, str]], paint: Paint, left: int = 0) -> Painted:
    """A heading, and below it terms with their explanations side by side."""
    if not rows:
        return paint.plain("")
    widths = [width for term, _ in rows if (width := width_of(term)) <= min(_MAX_TERM_CELLS, paint.width // 2)]
    left = left or max(widths, default=8)
    lines = [paint.bold(title)]
    for term, help_line in rows:
        explained = [paint.plain(line) for line in wrap(help_line, paint.width - left - 4)]
        name = paint.cut(term, paint.width - 2)
        if width_of(name) <= left:
            blank = " " * (left - width_of(name) + 2)
            lines.append(paint.join("  ", paint.cyan(name), blank, explained.pop(0)))
        else:
            lines.append(paint.join("  ", paint.cyan(name)))
        lines += [paint.join(" " * (left + 4), line) for line in explained]
    return _join_blocks(lines, "\n")


def _join_blocks(parts: Sequence[Painted], between: str = "\n\n") -> Painted:
    return Painted(between.join(parts))
