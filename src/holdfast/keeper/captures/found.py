"""Which agents are here, which are connected, and what stands in the way: found by looking, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
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
    scope: Scope = "user"


class Found(NamedTuple):
    name: str
    title: str
    program: str | None
    traces: tuple[str, ...]
    connected: Way | None
    obstacles: tuple[str, ...]
    leftovers: tuple[Leftover, ...]
    # Where its hooks stand, and whether the script they call is missing: then nothing is heard.
    files: tuple[str, ...] = ()
    silent: bool = False

    @property
    def found(self) -> bool:
        return self.program is not None or bool(self.traces)

    @property
    def ready(self) -> bool:
        """Whether it is here, and would be heard only once it is connected."""
        return self.silent or (self.found and self.connected is None)


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
    way, where = standing(keeper.home.path, places, name)
    one = Found(
        name,
        agent(name).title,
        next((found for found in programs if found is not None), None),
        tuple(trace for trace in wired.traces(places) if os.path.lexists(trace) and trace not in made),
        way,
        (),
        tuple(leftovers(keeper.home.path, places, name)),
        where,
        way in SCOPES and not script_stands(keeper.home.path),
    )
    if not one.found and way is None:
        return one  # nothing stands in the way of who is not here
    return one._replace(obstacles=obstacles(places, name, "project" if way == "project" else "user"))


def commands(found: Iterable[Found]) -> list[str]:
    """What to run so that those who are here are heard. Hooks that came with the project stay the project's."""
    ready = [one for one in found if one.ready]
    shared = [one.name for one in ready if one.connected == "project"]
    own = [one.name for one in ready if one.connected != "project"]
    return ([f"holdfast connect {' '.join(own)}"] if own else []) + (
        [f"holdfast connect {' '.join(shared)} --scope project"] if shared else []
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
    return at is not None and not os.path.lexists(script_path(at))


def script_path(home: str) -> str:
    """What hooks call."""
    return os.path.join(home, script.DIRECTORY, script.WINDOWS_SCRIPT if os.name == "nt" else script.SCRIPT)


def script_stands(home: str) -> bool:
    return os.path.isfile(script_path(home))


def heard_through(home: str, places: Places, name: str) -> Way | None:
    """Through which configuration this agent's hooks are heard here, if at all."""
    return standing(home, places, name)[0]


def standing(home: str, places: Places, name: str) -> tuple[Way | None, tuple[str, ...]]:
    """The same, with the files in which these hooks stand."""
    known = ours(home)
    for scope in SCOPES:
        where = tuple(path for path in paths(home, places, name, scope) if any(map(known, lines(path))))
        if where:
            return scope, where
    plugin = plugin_at(places) if name == "claude" else None
    return (None, ()) if plugin is None else ("plugin", (plugin,))


def leftovers(home: str, places: Places, name: str) -> Iterator[Leftover]:
    for scope in SCOPES:
        for path in paths(home, places, name, scope):
            for other in dict.fromkeys(script.home_of(line) for line in lines(path) if script.is_call(line)):
                if other is not None and other != home:
                    yield Leftover(path, other, not os.path.lexists(script_path(other)), scope)


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
