"""The declaration of a command: its arguments and options, their types and their help.

One declaration serves parsing, help, completion and the reference pages. Plain classes with slots, because the whole
table is built whenever `holdfast` starts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.spelling import Kind


class Argument:
    """A positional value. `many` takes all that follow, so only the last argument may have it."""

    __slots__ = ("choices", "help", "kind", "many", "metavar", "name", "required")

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002 - the name that every reader of a declaration expects
        *,
        required: bool = True,
        many: bool = False,
        choices: tuple[str, ...] = (),
        kind: Kind = "text",
        metavar: str = "",
    ) -> None:
        self.name = name
        self.help = help
        self.required = required
        self.many = many
        self.choices = choices
        self.kind = kind
        self.metavar = metavar or name.upper().replace("_", "-")

    @property
    def label(self) -> str:
        return self.metavar


class Option:
    """A value given by its flag. A `flag` has no value; `many` may be repeated; otherwise the last one wins."""

    __slots__ = ("choices", "flags", "help", "kind", "many", "metavar", "name", "required")

    def __init__(
        self,
        flags: tuple[str, ...],
        help: str,  # noqa: A002 - the name that every reader of a declaration expects
        *,
        kind: Kind = "text",
        many: bool = False,
        choices: tuple[str, ...] = (),
        metavar: str = "",
        name: str = "",
        required: bool = False,
    ) -> None:
        self.flags = flags
        self.help = help
        self.kind = kind
        self.many = many
        self.choices = choices
        self.required = required
        self.name = name or self.label.lstrip("-").replace("-", "_")
        self.metavar = "" if kind == "flag" else metavar or _METAVARS.get(kind) or self.name.upper()

    @property
    def label(self) -> str:
        """The flag to show to people: the long one if there is one."""
        return max(self.flags, key=len)


_METAVARS = {
    "int": "N",
    "float": "N",
    "time": "TIME",
    "date": "DATE",
    "span": "SPAN",
    "path": "FILE",
    "dir": "DIR",
}


class Command:
    """A command, or a verb of one. With verbs and without a `handler`, one of the verbs must follow.

    `handler` is `module:function` in `holdfast.cli.commands`. `rest` collects everything after `--` untouched;
    `either` names options of which at most one may be given.
    """

    __slots__ = (
        "description",
        "either",
        "group",
        "handler",
        "name",
        "params",
        "rest",
        "summary",
        "verbs",
        "writes",
    )

    def __init__(
        self,
        name: str,
        summary: str,
        params: tuple[Argument | Option, ...] = (),
        handler: str = "",
        *,
        description: str = "",
        verbs: tuple[Command, ...] = (),
        rest: bool = False,
        writes: bool = False,
        group: str = "",
        either: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.name = name
        self.summary = summary
        self.params = params
        self.handler = handler
        self.description = description
        self.verbs = verbs
        self.rest = rest
        self.writes = writes
        self.group = group
        self.either = either

    @property
    def arguments(self) -> list[Argument]:
        return [param for param in self.params if isinstance(param, Argument)]

    @property
    def options(self) -> list[Option]:
        return [param for param in self.params if isinstance(param, Option)]


GLOBALS: tuple[Option, ...] = (
    Option(("--project",), "the project directory (default: the one around the working directory)", kind="dir"),
    Option(("--store",), "the store: sqlite:///PATH, or postgresql://USER@HOST/DATABASE", metavar="URL"),
    Option(("--json",), "print one JSON document, also for errors", kind="flag"),
    Option(("--at",), "record or show as of this time: 2026-11-15 09:30, RFC 3339, or HH:MM of today", kind="time"),
    Option(("--quiet",), "print results only", kind="flag"),
    Option(("--yes",), "answer yes to every question", kind="flag"),
    Option(("--no-color",), "print without colour", kind="flag"),
    Option(("-h", "--help"), "show help and exit", kind="flag"),
    Option(("--version",), "show the version and exit", kind="flag"),
)
