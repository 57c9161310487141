"""`contract-acknowledgment.md`: which agent read which version of the contract, by the checksum of its text.

One section per agent, in the form the contract gives. What people wrote around the sections stays.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.core.text import MAX_NAME_LENGTH, check_text
from holdfast.core.times import format_time as time_text
from holdfast.formats.contract.fields import VERSION
from holdfast.formats.mirror.contract import layout, yaml_files
from holdfast.machine.files import read_limited, write_atomic
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import display_path

MAX_SIZE: Final = 4 << 20
_HEADING: Final = "# Contract Acknowledgment"
_FIELD: Final = re.compile(r"(Agent|Date|Contract Version|Checksum):[ \t]*(.*?)[ \t]*\Z")
_VERSION: Final = re.compile(r"^[^\w\n]*version[^\w\n]*[:=|][^\w\n]*v?(\d+(?:\.\d+)*)", re.IGNORECASE | re.MULTILINE)
_TITLE: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\Z")
_FENCE: Final = re.compile(r"[ \t]{0,3}(```+|~~~+)")


class Heading(msgspec.Struct, frozen=True):
    level: int
    text: str


class Specification(msgspec.Struct, frozen=True):
    """The text that is acknowledged."""

    file: str
    version: str
    checksum: str
    headings: list[Heading]


class Acknowledgment(msgspec.Struct, frozen=True):
    """One agent's section."""

    agent: str
    date: str
    version: str
    checksum: str


class _Section(NamedTuple):
    """An acknowledgment and its lines in the file."""

    acknowledgment: Acknowledgment
    begin: int
    end: int


def specification(file: str) -> Specification:
    """A specification: its version (1.0 if it names none), checksum and headings."""
    import hashlib

    raw = read_limited(file, MAX_SIZE, subject="the specification")
    if not raw.strip():
        raise Invalid(
            f"{display_path(file)} is empty", hint="Name the text of the contract.", operation="read", file=file
        )
    words = raw.decode("utf-8", "replace")
    version = _VERSION.search(words)
    return Specification(file, version[1] if version else VERSION, hashlib.sha256(raw).hexdigest(), _headings(words))


def acknowledge(root: str, spec_file: str, agent: str, *, now: int) -> Acknowledgment:
    """Record that `agent` adheres to the specification: add its section, or renew it."""
    path = layout.acknowledgment(root)
    name = _agent(agent)
    spec = specification(spec_file)
    acknowledgment = Acknowledgment(name, time_text(now)[:19] + "Z", spec.version, spec.checksum)
    with layout.error_context("update", file=path):
        layout.create_root(root)
        with locked(layout.acknowledgment_lock(root), purpose=f"acknowledging for {name}"):
            write_atomic(path, _with_acknowledgment(_text(path) or "", acknowledgment).encode())
    return acknowledgment


def read_acknowledgments(root: str) -> list[Acknowledgment]:
    """Every agent's acknowledgment, in file order; none if there is no file."""
    with layout.error_context("read", file=layout.acknowledgment(root)):
        if not layout.root_exists(root):
            return []
        return [
            section.acknowledgment for section in _sections((_text(layout.acknowledgment(root)) or "").split("\n"))
        ]


def verify(root: str, spec_file: str, agent: str | None = None) -> list[Acknowledgment]:
    """The acknowledgments (of one agent, or all) of the specification; raises for the first invalid one.

    `NotFound` if no agent, or not this one, acknowledged anything; `Invalid` if a section lacks a line; `Refused` if
    another version was acknowledged, or the text has changed since.
    """
    path = layout.acknowledgment(root)
    spec = specification(spec_file)
    with layout.error_context("read", file=path):
        acknowledgments = read_acknowledgments(root)
        if agent is not None:
            acknowledgments = [
                acknowledgment for acknowledgment in acknowledgments if acknowledgment.agent == _agent(agent)
            ]
        if not acknowledgments:
            subject = "nobody has" if agent is None else f"agent {display_path(_agent(agent))} has not"
            raise NotFound(f"{subject} acknowledged the contract", hint=_command(spec_file, agent))
        for acknowledgment in acknowledgments:
            _check(acknowledgment, spec)
    return acknowledgments


def _check(acknowledgment: Acknowledgment, spec: Specification) -> None:
    hint = f"Read it, then: {_command(spec.file, acknowledgment.agent)}"
    missing = [name for name in ("date", "version", "checksum") if not getattr(acknowledgment, name)]
    if missing:
        raise Invalid(f"the acknowledgment of {display_path(acknowledgment.agent)} has no {missing[0]}", hint=hint)
    if acknowledgment.version != spec.version:
        raise Refused(
            f"{display_path(acknowledgment.agent)} acknowledged version {display_path(acknowledgment.version)}, "
            f"but this is version {spec.version}",
            hint=hint,
        )
    if acknowledgment.checksum.lower() != spec.checksum:
        raise Refused(
            f"the contract has changed since {display_path(acknowledgment.agent)} acknowledged it", hint=hint
        )


def _command(spec_file: str, agent: str | None) -> str:
    from shlex import quote

    agent_option = "" if agent is None else f" --agent {quote(display_path(agent))}"
    return f"holdfast contract acknowledge --spec {quote(display_path(spec_file))}{agent_option}"


def _agent(name: str) -> str:
    plain = check_text(name, "the agent's name", max_length=MAX_NAME_LENGTH).strip()
    if not plain.isprintable():
        raise Invalid("the agent's name contains control characters", hint="Use one line of plain text.")
    return plain


def _text(path: str) -> str | None:
    raw = yaml_files.read_raw(path)
    if raw is None:
        return None
    if yaml_files.has_conflict_markers(raw):
        raise yaml_files.unfinished_merge_error(path)
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Invalid(
            f"{display_path(path)} is not UTF-8",
            hint="Save it as UTF-8, or move it away.",
            operation="read",
            file=path,
        ) from None


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────────


def _sections(lines: list[str]) -> list[_Section]:
    """A section starts at its `Agent:` line, goes on with the other fields, and ends with its sentence."""
    sections: list[_Section] = []
    number = 0
    while number < len(lines):
        first = _FIELD.match(lines[number])
        if first is None or first[1] != "Agent" or not first[2]:
            number += 1
            continue
        begin, fields = number, {"Agent": first[2]}
        number += 1
        while number < len(lines) and (field := _FIELD.match(lines[number])) is not None and field[1] != "Agent":
            fields.setdefault(field[1], field[2])
            number += 1
        after = number
        while after < len(lines) and not lines[after].strip():
            after += 1
        if after < len(lines) and lines[after].startswith("I acknowledge "):
            number = after + 1
        made = Acknowledgment(*(fields.get(name, "") for name in ("Agent", "Date", "Contract Version", "Checksum")))
        sections.append(_Section(made, begin, number))
    return sections


def _with_acknowledgment(text: str, acknowledgment: Acknowledgment) -> str:
    lines = text.split("\n") if text.strip() else []
    section = [
        f"Agent: {acknowledgment.agent}",
        f"Date: {acknowledgment.date}",
        f"Contract Version: {acknowledgment.version}",
        f"Checksum: {acknowledgment.checksum}",
        "",
        (
            "I acknowledge that I have read and will adhere to the Session State Specification "
            f"v{acknowledgment.version}."
        ),
    ]
    own = [section for section in _sections(lines) if section.acknowledgment.agent == acknowledgment.agent]
    if own:
        lines[own[0].begin : own[0].end] = section
    else:
        while lines and not lines[-1].strip():
            lines.pop()
        lines += [*([""] if lines else []), _HEADING, "", *section]
    return "\n".join(lines).rstrip("\n") + "\n"


def _headings(words: str) -> list[Heading]:
    headings: list[Heading] = []
    fence = ""
    for line in words.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        title = None if fence else _TITLE.match(line)
        if title is not None:
            headings.append(Heading(len(title[1]), title[2]))
    return headings
