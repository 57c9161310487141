"""What would leave this device with the next sync: every text of a session as it would be sent.

Asked of the store alone. What secrets today's rules find is cut before anything is sealed, so it is shown that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.event_data import erasures, read, remaining_data
from holdfast.core.events import EventErased
from holdfast.core.fold import in_log_order
from holdfast.sync import remote_list
from holdfast.sync.outgoing import KindOf, Redaction, cut, data_of
from holdfast.sync.state import VaultState

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

#: What is never recorded, and so never leaves.
NEVER: Final = (
    "prompts and answers", "file contents", "output of commands", "environment variables",
    "an agent's transcripts and settings", "the device's keys", "which session is current where",
)  # fmt: skip

# Numbers in other clothes: they say nothing to a reader, and are sent like times and counts.
_NO_TEXT: Final = frozenset(
    {"redacted", "ref", "hash_before", "hash_after", "hashes", "overruled", "roots", "git_commit", "came_commit",
     "commit", "sha", "tree", "parents", "replaces", "folded"}
)  # fmt: skip
# Where the texts of each kind of event belong, and the field that needs no name of its own there.
_GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "session": ("session", ""),
    "note": ("notes", "text"),
    "decision": ("decisions", "chosen"),
    "task": ("tasks", "text"),
    "phase": ("tasks.phase", "name"),
    "agent": ("agents", "task"),
    "file": ("files", "path"),
    "command": ("commands", "command"),
    "commit": ("commits", "message"),
    "native": ("native", "id"),
    "device": ("device", "device"),
    "alias": ("aliases", "id"),
    "ground": ("project.git_branch", "branch"),
    "error": ("errors", "message"),
    "waiting": ("waiting", "text"),
    "away": ("pauses", "reason"),
    "hill": ("scopes", "scope"),
    "conflict": ("conflicts", "value"),
}
# Fields that are the same thing wherever they stand.
_EVERYWHERE: Final = {"goal": "goal", "device": "device", "project": "project"}


class OutgoingText(NamedTuple):
    """A text, what it is of, and whether it has left the device already."""

    where: str
    text: str
    sent: bool


class Secret(NamedTuple):
    """A secret that would be cut: what kind, and where. Never the secret itself."""

    kind: str
    where: str


class Leaving(NamedTuple):
    session: str
    # Events that the next sync would send, to any remote.
    events: int
    texts: list[OutgoingText]
    found: list[Secret]
    # Remotes, by name, to which the session does not go, and why.
    held: dict[str, str]


def leaving(ws: Workspace, session: str) -> Leaving:
    store = ws.store()
    events = list(store.events(session))
    kinds = {event.hash: event.type for event in events}
    vaults = [_Vault(ws, remote, session) for remote in remote_list.load(ws.home)]
    erased = erasures(in_log_order(events))
    spoken_for = _spoken_for(events)
    shown: dict[tuple[str, str], bool] = {}
    secrets: list[Secret] = []
    due = 0
    for event in events:
        counts = [vault for vault in vaults if vault.held is None]
        due += not vaults or any(not count.has(event) for count in counts)
        teller = spoken_for.get(event.hash, event) if event.data is None else event
        out = any(vault.has(teller) for vault in vaults)
        found: list[tuple[str, str]] = [("actor", event.actor)]
        made = _as_sent(remaining_data(event, erased.instead), kinds.get)
        if made is not None:
            for field, kinds_found in made.found.items():
                where = _where(event.type, field)
                secrets += [Secret(kind, where) for kind, count in sorted(kinds_found.items()) for _ in range(count)]
            found += texts_of(event.type, made.data)
        for where, text in found:
            # What would be cut has left, if it has, as something else.
            sent = out and not (made is not None and made.found and where != "actor")
            shown[where, text] = shown.get((where, text), False) or sent
    texts = [OutgoingText(where, text, sent) for (where, text), sent in shown.items()]
    return Leaving(
        session, due, texts, secrets, {vault.name: vault.held for vault in vaults if vault.held is not None}
    )


class _Vault:
    """How far a session is known at a remote."""

    def __init__(self, ws: Workspace, remote: remote_list.KnownRemote, session: str) -> None:
        self.name = remote.name
        self._memory = VaultState(ws.store(), remote.vault)
        self._session = session
        self._known: dict[str, int] = {}
        self.held = self._reason(ws, remote)

    def has(self, event: Event) -> bool:
        known = self._known.get(event.writer)
        if known is None:
            found = self._memory.vouched(self._session, event.writer)
            known = self._known[event.writer] = max(found.by.values(), default=0)
        return event.seq <= known

    def _reason(self, ws: Workspace, remote: remote_list.KnownRemote) -> str | None:
        if remote.kind == "share":
            return None if remote.session == self._session else "another session is shared there"
        if self._session in (self._memory.read(tuple[str, ...], "earlier") or ()):
            return "the vault there is not confirmed"
        state = ws.store().state(self._session)
        elsewhere = state is not None and state.project is not None and state.project.id not in remote.projects
        return "only other projects go there" if remote.projects and elsewhere else None


def _spoken_for(events: Sequence[Event]) -> dict[str, Event]:
    """For erased events: the erasure that says what stands instead, which is what is sent."""
    found: dict[str, Event] = {}
    for event in events:
        data = read(event) if event.type == "event.erased" else None
        if isinstance(data, EventErased):
            found |= dict.fromkeys(data.hashes, event)
    return found


def _as_sent(event: Event, kind_of: KindOf) -> Redaction | None:
    """What the event would say when it is sent; None when nobody can read it, or others say it in its place."""
    data = data_of(event)
    if data is None:
        return None
    made = cut(event.type, data, kind_of)
    return made._replace(data={}) if event.type == "event.erased" else made


def texts_of(kind: str, data: Json) -> Iterator[tuple[str, str]]:
    """Every text in the data of an event, and what it is of."""
    if not isinstance(data, dict):
        return
    name = data.get("name") if kind == "extra.kept" else None
    for field, value in data.items():
        if field in _NO_TEXT or (name is not None and field == "name"):
            continue
        where = f"extra.{name}" if name is not None and field == "value" else _where(kind, field)
        yield from _strings(where, value)


def _where(kind: str, field: str) -> str:
    if field in _EVERYWHERE:
        return _EVERYWHERE[field]
    if kind == "extra.kept":
        return "extra"
    group, main = _GROUPS.get(kind.partition(".")[0], (kind, ""))
    return group if field in (main, "") else f"{group}.{field}"


def _strings(where: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value:
            yield where, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if where != "project" or (name != "id" and name not in _NO_TEXT):
                yield from _strings(f"{where}.{name}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(where, item)
