"""The grammar of the command line: how words become a command and its values.

It is our own because a cold `holdfast status` may cost only a few times a bare interpreter, and because
global options work anywhere before `--`. So this module imports next to nothing, not even `typing`.
"""

from __future__ import annotations

from holdfast.cli.declaration import GLOBALS, Argument, Command, Option
from holdfast.cli.spelling import parse_value, quoted, similar_words
from holdfast.core.errors import HoldfastError, Invalid, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["GLOBALS", "PROGRAM", "Argument", "Command", "Globals", "Option", "Parsed", "parse", "wants_json"]

PROGRAM = "holdfast"
_GLOBAL_FLAGS = {flag: option for option in GLOBALS for flag in option.flags}


class _Values:
    """Values by name, each asked for as the type its declaration promised; else the mistake is ours."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def text(self, name: str) -> str | None:
        value = self.values[name]
        assert value is None or isinstance(value, str)
        return value

    def need(self, name: str) -> str:
        """A text the declaration requires, so the parser has seen to it."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def texts(self, name: str) -> list[str]:
        value = self.values[name]
        assert isinstance(value, list)
        return value

    def integer(self, name: str) -> int | None:
        value = self.values[name]
        assert value is None or (isinstance(value, int) and not isinstance(value, bool))
        return value

    def number(self, name: str) -> float | None:
        value = self.values[name]
        assert value is None or isinstance(value, float)
        return value

    def flag(self, name: str) -> bool:
        value = self.values[name]
        assert isinstance(value, bool)
        return value


class Globals(_Values):
    """The options every command takes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.values.update({option.name: False if option.kind == "flag" else None for option in GLOBALS})

    @property
    def project(self) -> str | None:
        return self.text("project")

    @property
    def store(self) -> str | None:
        return self.text("store")

    @property
    def at(self) -> str | None:
        """As written, already known to be a time; `times.asked` places it once the clock has been read."""
        return self.text("at")

    @property
    def json(self) -> bool:
        return self.flag("json")

    @property
    def quiet(self) -> bool:
        return self.flag("quiet")

    @property
    def yes(self) -> bool:
        return self.flag("yes")

    @property
    def no_color(self) -> bool:
        return self.flag("no_color")

    @property
    def help(self) -> bool:
        return self.flag("help")

    @property
    def version(self) -> bool:
        return self.flag("version")


class Parsed(_Values):
    """The parsed command line. `command` is None only if `--help` or `--version` is given alone.

    Every declared parameter has a key in `values`: None, False or [] where nothing was given.
    """

    __slots__ = ("command", "globals", "path", "rest")

    def __init__(self) -> None:
        super().__init__()
        self.path: tuple[str, ...] = ()
        self.command: Command | None = None
        self.globals = Globals()
        self.rest: list[str] = []


def wants_json(argv: Sequence[str]) -> bool:
    """Whether errors must be JSON, without parsing. Exact, as no option takes `--json` for its value."""
    for word in argv:
        if word == "--":
            return False
        if word == "--json":
            return True
    return False


def parse(argv: Sequence[str], commands: Sequence[Command]) -> Parsed:
    """Read the words left to right; the first thing wrong is the one raised, as `Usage` or `Invalid`.

    Once `--help` or `--version` has been read, nothing after it is an error any more.
    """
    line = _Line(commands)
    parsed = line.parsed
    try:
        line.read(iter(argv))
        if not (parsed.globals.help or parsed.globals.version):
            line.complete()
    except HoldfastError:
        if not (parsed.globals.help or parsed.globals.version):
            raise
    return parsed


class _Line:
    """One walk over a command line."""

    __slots__ = ("arguments", "flags", "parsed", "positionals", "seen", "verbs")

    def __init__(self, commands: Sequence[Command]) -> None:
        self.parsed = Parsed()
        self.verbs = commands
        self.flags = dict(_GLOBAL_FLAGS)
        self.arguments: list[Argument] = []
        self.positionals = 0
        self.seen: set[str] = set()

    def read(self, words: Iterator[str]) -> None:
        for word in words:
            if word == "--":
                for verbatim in words:
                    self._verbatim(verbatim)
                return
            self._check_encoding(word)
            if word.startswith("--"):
                self._long(word, words)
            elif word.startswith("-") and word != "-" and not _negative(word):
                self._short(word, words)
            else:
                self._positional(word)

    def complete(self) -> None:
        """Nothing that must be there is missing."""
        command, values = self.parsed.command, self.parsed.values
        if command is None:
            raise self._usage("no command was given")
        if command.verbs and not command.handler:
            verbs = ", ".join(verb.name for verb in command.verbs)
            raise self._usage(f"{command.name} needs one of: {verbs}")
        for param in command.params:
            if param.required and values[param.name] in (None, []):
                raise self._usage(f"{param.label} is missing")
        if command.rest and not self.parsed.rest:
            raise self._usage("the command to run is missing", f"Write it after --: {self._usage_line()} -- COMMAND…")
        for names in command.either:
            used = [name for name in names if name in self.seen]
            if len(used) > 1:
                raise self._usage(f"{' and '.join(used)} cannot be used together")

    def _verbatim(self, word: str) -> None:
        command = self.parsed.command
        if command is None or not command.rest:
            self._check_encoding(word)
            self._positional(word)
            return
        try:
            # Bytes that are not UTF-8 pass through to the program they were meant for.
            plain = b"\0" not in word.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            plain = False
        if not plain:
            raise self._invalid(f"{quoted(word)} cannot be passed to a program")
        self.parsed.rest.append(word)

    def _long(self, word: str, words: Iterator[str]) -> None:
        flag, equals, value = word.partition("=")
        option = self.flags.get(flag)
        if option is None:
            raise self._unknown_option(flag, word)
        if option.kind != "flag":
            self._set(option, flag, value if equals else self._next(flag, words))
        elif equals:
            raise self._usage(f"{flag} takes no value")
        else:
            self._set(option, flag, None)

    def _short(self, word: str, words: Iterator[str]) -> None:
        """`-o value`, `-ovalue`, `-o=value`, and flags in one word."""
        for index, letter in enumerate(word[1:], start=2):
            flag = f"-{letter}"
            option = self.flags.get(flag)
            if option is None:
                raise self._unknown_option(flag, word)
            if option.kind != "flag":
                attached = word[index:].removeprefix("=")
                self._set(option, flag, attached if index < len(word) else self._next(flag, words))
                return
            self._set(option, flag, None)

    def _next(self, flag: str, words: Iterator[str]) -> str:
        value = next(words, None)
        if value is None:
            raise self._usage(f"{flag} needs a value")
        self._check_encoding(value)
        if value.startswith("-") and value != "-" and not _negative(value):
            attach = f"{flag}=VALUE" if flag.startswith("--") else f"{flag}VALUE"
            raise self._usage(
                f"{flag} needs a value, and {quoted(value)} looks like an option",
                f"A value that begins with a dash is written {attach}.",
            )
        return value

    def _set(self, option: Option, flag: str, word: str | None) -> None:
        self.seen.add(option.label)
        is_own = flag not in _GLOBAL_FLAGS
        values = self.parsed.values if is_own else self.parsed.globals.values
        self._store_value(values, option, flag, word)

    def _positional(self, word: str) -> None:
        for verb in () if self.positionals else self.verbs:
            if verb.name == word:
                self._enter_command(verb)
                return
        command = self.parsed.command
        if command is None or (command.verbs and not command.handler):
            expected = "command" if command is None else f"verb of {command.name}"
            raise self._usage(
                f"unknown {expected} {quoted(word)}", _did_you_mean(word, [verb.name for verb in self.verbs])
            )
        if not self.arguments:
            raise self._unexpected_argument(command, word)
        argument = self.arguments[0]
        if not argument.many:
            del self.arguments[0]
        self.positionals += 1
        self._store_value(self.parsed.values, argument, argument.label, word)

    def _store_value(self, values: dict[str, object], param: Argument | Option, label: str, word: str | None) -> None:
        value = True if word is None else parse_value(param.kind, param.choices, word, label, self._operation())
        earlier = values.get(param.name)
        if isinstance(earlier, list):
            earlier.append(value)
        else:
            values[param.name] = value

    def _enter_command(self, command: Command) -> None:
        parsed = self.parsed
        parsed.path += (command.name,)
        parsed.command = command
        self.verbs = command.verbs
        self.arguments = command.arguments
        for param in command.params:
            empty: object = [] if param.many else None
            if isinstance(param, Option):
                empty = False if param.kind == "flag" else empty
                self.flags.update(dict.fromkeys(param.flags, param))
            parsed.values.setdefault(param.name, empty)

    # Errors, worded so that the next attempt succeeds.

    def _usage_line(self) -> str:
        return " ".join((PROGRAM, *self.parsed.path))

    def _operation(self) -> str | None:
        return " ".join(self.parsed.path) or None

    def _usage(self, message: str, hint: str = "") -> Usage:
        return Usage(message, hint=hint or f"See {self._usage_line()} --help.", operation=self._operation())

    def _invalid(self, message: str) -> Invalid:
        return Invalid(message, operation=self._operation())

    def _check_encoding(self, word: str) -> None:
        if "\0" in word:
            raise self._invalid(f"{quoted(word)} contains a NUL character")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise self._invalid(f"{quoted(word)} is not valid UTF-8") from None

    def _unexpected_argument(self, command: Command, word: str) -> Usage:
        if command.rest:
            return self._usage(
                f"unexpected argument {quoted(word)}", f"Write it after --: {self._usage_line()} -- COMMAND…"
            )
        quote = command.arguments and command.arguments[-1].kind == "text"
        hint = f"Put a text of several words in quotes. See {self._usage_line()} --help." if quote else ""
        return self._usage(f"unexpected argument {quoted(word)}", hint)

    def _unknown_option(self, flag: str, word: str) -> Usage:
        similar = similar_words(flag, list(self.flags)) if flag.startswith("--") else []
        verbs = [verb.name for verb in self.verbs if any(flag in option.flags for option in verb.options)]
        if verbs:
            hint = f"It belongs to {', '.join(verbs[:3])}: write it after that word."
        elif similar:
            hint = _did_you_mean(flag, list(self.flags))
        elif self.arguments:
            hint = f"A text that begins with a dash is written after --: {self._usage_line()} -- {quoted(word[:40])}"
        else:
            hint = ""
        where = self._operation() or PROGRAM
        return self._usage(f"{where} has no option {quoted(flag)}", hint)


def _did_you_mean(word: str, candidates: list[str]) -> str:
    similar = similar_words(word, candidates)
    return f"Did you mean {' or '.join(similar)}?" if similar else ""


def _negative(word: str) -> bool:
    """`-3`, `-.5`, `-1e3`: a number, not an option."""
    if word[1:2] not in tuple("0123456789."):
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True
