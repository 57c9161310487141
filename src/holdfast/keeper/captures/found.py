"""Which agents are here, which are connected, and what stands in the way: found by looking, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from shutil import which
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.capture import script
from holdfast.capture.interface import Scope
from holdfast.capture.jsonremoval import texts
from holdfast.capture.jsontree import Document, decoded
from holdfast.capture.registry import NAMES, agent
from holdfast.capture.wiring import Change, wiring
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures.connections import Connections
from holdfast.keeper.captures.steps import Ours, current
from holdfast.machine import files

if TYPE_CHECKING:
    from holdfast.capture.places import Places
    from holdfast.keeper.keeper import Keeper

Way = Literal["user", "project", "plugin"]
SCOPES: tuple[Scope, ...] = ("user", "project")
_PLUGIN = "holdfast@"


class Leftover(NamedTuple):
    """Hooks of a Holdfast that is not this one: its script is gone, or it has another home."""

    path: str
    home: str
    gone: bool


class Found(NamedTuple):
    name: str
    title: str
    program: str | None
    traces: tuple[str, ...]
    connected: Way | None
    obstacles: tuple[str, ...]
    leftovers: tuple[Leftover, ...]

    @property
    def found(self) -> bool:
        return self.program is not None or bool(self.traces)


def find(keeper: Keeper, places: Places) -> list[Found]:
    """All agents Holdfast knows, in their usual order."""
    made = _made(keeper)
    return [look(keeper, places, name, made) for name in NAMES]


def _made(keeper: Keeper) -> set[str]:
    """Directories that are there because of us: no trace of an agent."""
    try:
        return {one for kept in Connections(keeper.home.path).all() for file in kept.files for one in file.made}
    except HoldfastError:
        return set()


def look(keeper: Keeper, places: Places, name: str, made: Container[str] = ()) -> Found:
    wired = wiring(name)
    path = places.environ.get("PATH", "")
    programs = (which(program, path=path) for program in wired.programs)
    way = heard_through(keeper.home.path, places, name)
    return Found(
        name,
        agent(name).title,
        next((found for found in programs if found is not None), None),
        tuple(trace for trace in wired.traces(places) if os.path.lexists(trace) and trace not in made),
        way,
        obstacles(places, name, "project" if way == "project" else "user"),
        tuple(leftovers(keeper.home.path, places, name)),
    )


def obstacles(places: Places, name: str, scope: Scope) -> tuple[str, ...]:
    """What keeps an agent's hooks from being run, as its own settings say."""
    try:
        return wiring(name).obstacles(places, scope)
    except (OSError, ValueError) as error:
        return (f"Its settings could not be looked at ({type(error).__name__}: {error}).",)


def ours(home: str) -> Ours:
    """Whether a command line calls the hook script of this home, or of whoever runs it."""
    return lambda line: script.is_call(line) and script.home_of(line) in (None, home)


def ours_or_gone(home: str) -> Ours:
    """The same; also one whose script is gone, with the home it was in."""

    def known(line: str) -> bool:
        return script.is_call(line) and (script.home_of(line) in (None, home) or is_gone(line))

    return known


def is_gone(line: str) -> bool:
    """Whether the script that a command line calls is no longer there."""
    at = script.home_of(line)
    if at is None:
        return False
    name = script.WINDOWS_SCRIPT if os.name == "nt" else script.SCRIPT
    return not os.path.lexists(os.path.join(at, script.DIRECTORY, name))


def heard_through(home: str, places: Places, name: str) -> Way | None:
    """Through which configuration this agent's hooks are heard here, if at all."""
    known = ours(home)
    for scope in SCOPES:
        if any(known(line) for path in paths(home, places, name, scope) for line in lines(path)):
            return scope
    return "plugin" if name == "claude" and plugin_at(places) is not None else None


def leftovers(home: str, places: Places, name: str) -> Iterator[Leftover]:
    for scope in SCOPES:
        for path in paths(home, places, name, scope):
            for other in dict.fromkeys(script.home_of(line) for line in lines(path) if script.is_call(line)):
                if other is not None and other != home:
                    yield Leftover(path, other, is_gone(script.command(other, name, "user")("tell")))


def changes(home: str, places: Places, name: str, scope: Scope) -> tuple[Change, ...]:
    """What a connection of this agent consists of."""
    shared = script.shared_home(places, home) if scope == "project" else None
    wanted = wiring(name).changes(
        places, scope, script.command(home, name, scope, shared=shared, system=places.system)
    )
    if name != "claude":
        return wanted
    from holdfast.capture.claude import wiring as claude

    line = script.status_line(home, name, scope, shared=shared, system=places.system)
    first, *rest = wanted
    return (first._replace(entries=(*first.entries, claude.status_line(line))), *rest)


def paths(home: str, places: Places, name: str, scope: Scope) -> list[str]:
    return [change.path for change in changes(home, places, name, scope)]


def lines(path: str) -> list[str]:
    """The texts in a file among which a command line of ours may be; what cannot be read has none."""
    try:
        data = current(path)
        if data is None:
            return []
        if path.endswith(".json"):
            return list(texts(decoded(data, path), path))
    except HoldfastError:
        return []
    return data.decode(errors="replace").splitlines()


def plugin_at(places: Places) -> str | None:
    """The settings file of Claude Code that has Holdfast's own plugin switched on."""
    from holdfast.capture.claude.wiring import settings

    local = places.in_project(".claude", "settings.local.json")
    for path in (settings(places, "user"), settings(places, "project"), local):
        try:
            data = current(path)
            document = Document(decoded(data or b"", path), path)
        except HoldfastError:
            continue
        plain = document.plain(document.root) if document.root is not None else None
        switched = plain.get("enabledPlugins") if isinstance(plain, dict) else None
        if isinstance(switched, dict) and any(
            key.startswith(_PLUGIN) and value not in (False, None) for key, value in switched.items()
        ):
            return files.shown(path)
    return None
