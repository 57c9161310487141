"""Writes the reference pages that are made from code: `make docs`. A test fails when one is stale.

To add a page, write a function that returns its text and name it in `PAGES`.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from holdfast.cli.help import usage
from holdfast.cli.table import COMMANDS
from holdfast.core import errors, lifecycle
from holdfast.core import events as event_types
from holdfast.core.secrets import patterns
from holdfast.workspace import settings

HERE = os.path.dirname(os.path.abspath(__file__))


def events() -> str:
    """Every event type, and what it says."""
    glance = (
        (_linked(kind.name), str(kind.version), _yes(kind.is_activity), _yes(kind.syncs), _code(kind.searched_fields))
        for kind in event_types.EVENT_TYPES.values()
    )
    parts = [
        "# Events",
        _text("""
            Everything that can be recorded of a session. Each type has a version, stored in the event's `v`; what a
            program does not know, by type or version, it keeps and passes on. Fields with a default are left out
            when they have it. Every event may also carry `redacted`: how many secrets of each kind were taken out of
            its text. A *sign of activity* keeps a session from being idle. What does not *sync* by itself is sent
            with later events.
        """),
        "## All at a glance",
        _table(("event", "version", "sign of activity", "syncs", "searched"), glance),
    ]
    about = None
    for kind in event_types.EVENT_TYPES.values():
        if kind.name.partition(".")[0] != about:
            about = kind.name.partition(".")[0]
            parts.append(f"## {about.capitalize()}")
        parts.append(f"### `{kind.name}`")
        parts.append(_prose(kind.data))
        parts.append(_fields(kind.data))
    parts.append("## Parts of events")
    for part in (event_types.ProjectFacts, event_types.TimerRules, event_types.Process):
        parts += [f"### {part.__name__}", _prose(part), _fields(part)]
    return _page("holdfast.core.events", parts)


def lifecycles() -> str:
    """What may follow what: diagrams and tables."""
    parts = [
        "# Lifecycles",
        _text("""
            What may follow what. Appending obeys these tables strictly: where there is no entry, the event is refused
            and nothing is written. Where two devices wrote without knowing of each other, an end takes precedence
            over work that goes on, the later write otherwise, and the conflict is shown.
        """),
    ]
    for name, table in lifecycle.TABLES.items():
        parts += [f"## {name.capitalize()}", _diagram(name, table)]
        rows = [(before, event, after) for before, row in table.items() for event, after in row.items()]
        parts.append(_table(("status", "event", "becomes"), ((f"`{a}`", f"`{b}`", f"`{c}`") for a, b, c in rows)))
        parts.append(f"Endings: {_code(sorted(lifecycle.FINAL[name]))}.")
    allowed = [kind for kind in event_types.EVENT_TYPES if lifecycle.session_allows("completed", kind)]
    parts += ["## After the end", f"Of a session that has ended, only these can still be recorded: {_code(allowed)}."]
    return _page("holdfast.core.lifecycle", parts)


def secret_kinds() -> str:
    """Every kind of secret that is cut out before text is stored."""
    intro = """
        What is taken out of every text before it enters the log. It is replaced by `[redacted:KIND]`, and the
        session counts how many of each kind were found.
    """
    rows = ((f"`{kind.name}`", kind.description) for kind in patterns.SECRET_KINDS)
    return _page("holdfast.core.secrets.patterns", ["# Secrets", _text(intro), _table(("kind", "what it is"), rows)])


def all_settings() -> str:
    """Every setting, its default and its range."""
    intro = f"""
        Read from `config.toml` in Holdfast's home, then from `{settings.PROJECT_FILE}` in the project, which may set
        only what is marked so. `holdfast config list` shows the values in force, `holdfast config set NAME VALUE`
        changes one.
    """
    closed = ", ".join(f"`{one.name}`" for one in settings.SETTINGS if one.unread is False)
    unread = f"""
        A file that cannot be read, or a value that cannot be, is left out and named: on stderr, by `config list` and
        by `doctor`. Recording goes on. While a file that may set them cannot be read, {closed} are off, and no device
        keys are made.
    """
    head = ("setting", "default", "allowed", "by a project", "what it is")
    rows = map(_setting, settings.SETTINGS)
    return _page("holdfast.workspace.settings", ["# Settings", _text(intro), _text(unread), _table(head, rows)])


def error_kinds() -> str:
    """Every kind of error, its exit code, and whether trying again helps."""
    intro = """
        A command that worked exits 0. Otherwise it says on stderr what happened and what to do next, or, with
        `--json`, prints `{"holdfast": 1, "error": {"kind", "message", "hint", …}}`; the exit code is the same.
        `holdfast hook` exits 0 always, but for an explicit block.
    """
    meanings = dict(re.findall(r"── (\w+) +\d+  (.+)", errors.__doc__ or ""))
    rows = (
        (f"`{kind.kind}`", str(kind.exit_code), _yes(kind.retry_helps), meanings[kind.__name__])
        for kind in _errors(errors.HoldfastError)
    )
    head = ("kind", "exit code", "trying again helps", "what it means")
    return _page("holdfast.core.errors", ["# Errors and exit codes", _text(intro), _table(head, rows)])


def commands() -> str:
    """Every command, as `--help` tells it."""
    parts = [
        "# Commands",
        _text("""
            Global options work before and after the command: `--project DIR`, `--store URL`, `--json`, `--at TIME`,
            `--quiet`, `--no-color`. Every command answers `--help`.
        """),
    ]
    group = None
    for command in COMMANDS:
        if command.group != group:
            group = command.group
            parts.append(f"## {group}")
        parts.append(f"### `{command.name}`")
        parts.append(f"{command.summary[0].upper()}{command.summary[1:]}.")
        lines = [usage((command.name,), command)] if not command.verbs else [
            usage((command.name, verb.name), verb) for verb in command.verbs
        ]  # fmt: skip
        parts.append("```text\n" + "\n".join(lines) + "\n```")
        params = [param for one in (command.verbs or (command,)) for param in one.params]
        rows = {(f"`{param.label}`", param.help) for param in params}
        if rows:
            parts.append(_table(("argument", "what it is"), sorted(rows)))
    return _page("holdfast.cli.table", parts)


PAGES: list[tuple[str, Callable[[], str]]] = [
    ("reference/events.md", events),
    ("reference/lifecycle.md", lifecycles),
    ("reference/secrets.md", secret_kinds),
    ("reference/settings.md", all_settings),
    ("reference/errors.md", error_kinds),
    ("reference/commands.md", commands),
]


def main() -> None:
    for path, make in PAGES:
        full = os.path.join(HERE, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="\n") as file:
            file.write(make())
        print(f"docs/{path}")


# ── how pages are put together ───────────────────────────────────────────────────────────────────────────


def _page(source: str, parts: Iterable[str]) -> str:
    note = f"<!-- Made from {source} by docs/generate.py: change that, then run `make docs`. -->"
    return "\n\n".join([note, *(part for part in parts if part)]) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _text(indented: str) -> str:
    """A paragraph on one line, from one that is wrapped and indented."""
    return " ".join(indented.split())


def _linked(event: str) -> str:
    return f"[`{event}`](#{event.replace('.', '')})"


def _prose(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def _fields(kind: type[msgspec.Struct]) -> str:
    annotations: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        annotations.update(inspect.get_annotations(base))
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name == "redacted":
            continue
        default = "required"
        if field.default is not msgspec.NODEFAULT:
            default = _default(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            default = _default(field.default_factory())
        rows.append((f"`{field.encode_name}`", _type(annotations[field.name]), default))
    return _table(("field", "type", "default"), rows) if rows else "It has no fields of its own."


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, msgspec.Struct):
        return "the defaults"
    if value in ((), {}, ""):
        return "empty"
    return f"`{msgspec.json.encode(value).decode()}`"


_WORDS = {
    "str": "text", "SafeInteger": "whole number", "float": "number", "bool": "true or false", "Json": "anything",
    "tuple[str, ...]": "list of text", "dict[str, str]": "text by name",
    "dict[str, SafeInteger]": "whole numbers by name",
}  # fmt: skip


def _type(annotation: str) -> str:
    kinds = [part.strip() for part in annotation.split("|")]
    words = [_WORDS.get(kind, f"[{kind}](#{kind.lower()})") for kind in kinds if kind != "None"]
    return " or ".join([*words, *(["none"] if "None" in kinds else [])])


def _diagram(name: str, table: lifecycle.Table) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {status}" for status in lifecycle.FIRST[name]]
    for before, row in table.items():
        joined: dict[str, list[str]] = {}
        for event, after in row.items():
            joined.setdefault(after, []).append(event.partition(".")[2])
        lines += [f"    {before} --> {after}: {', '.join(said)}" for after, said in joined.items()]
    lines += [f"    {status} --> [*]" for status in sorted(lifecycle.FINAL[name])]
    return "\n".join([*lines, "```"])


def _setting(one: settings.Setting) -> tuple[str, ...]:
    text = isinstance(one.default, str)
    default = "empty" if one.default == "" else f"`{one.default}`"
    flag = isinstance(one.default, bool)
    allowed = "true or false" if flag else "a short text" if text else f"{one.low:g} to {one.high:g}"
    allowed += ", or `off`" if one.can_be_off else ""
    allowed = ", ".join(f"`{choice}`" for choice in one.choices) or allowed
    return (f"`{one.name}`", default, allowed, _yes(one.project), one.about)


def _errors(kind: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from _errors(below)


if __name__ == "__main__":
    main()
