"""Remove secrets before anything is sent, and show what would leave this device.

Secrets found only later (older data, new rules, an older program elsewhere) are cut from the log before a sync.
What is recorded here is redacted as it is recorded, so only what came from elsewhere is looked through, by its place
of arrival; and everything once, when the rules changed since this store was written. The store remembers what is due
(`UNSEEN`), in the same transaction as the events. An event with a secret is erased, and the erasure holds what may
stay of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.canonical import Json, canonical_json, is_too_deep
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.core.event_data import collect_erasures, read_data, with_remaining_data
from holdfast.core.events import EVENT_TYPES, FREE_TEXT, DeviceJoined, EventErased
from holdfast.core.fold import in_log_order
from holdfast.core.secrets.patterns import redact, redact_document
from holdfast.store.interface import UNSEEN, Arrival, Draft, Store, Transaction
from holdfast.sync import remote_list
from holdfast.sync.state import VaultState
from holdfast.workspace.recorder import follows_secret_rules, note_secret_rules

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_AT_ONCE: Final = 5_000
# Each erasing rewrites the whole file: as much as memory allows is erased together.
_MOST_FOUND: Final = 20_000
_MOST_IN_ONE: Final = 1_000
_BYTES_IN_ONE: Final = 1 << 20
# Where other fields are looked at than those with free text: what they hold may be anything.
_DOCUMENTS: Final = {
    "extra.kept": frozenset({"value"}),
    "conflict.found": frozenset({"value", "stood"}),
    "conflict.resolved": frozenset({"value"}),
}

Counts = dict[str, int]
# The type of an event of the same session, by its hash.
KindOf = Callable[[str], str | None]


class Redaction(NamedTuple):
    """What an event may say, and which secrets were in it: per field, how many of each kind."""

    data: Json
    found: dict[str, Counts]


class EventWithSecrets(NamedTuple):
    """An event that holds secrets. Without `instead`, nothing of it can stand."""

    event: Event
    instead: dict[str, Json] | None
    counts: Counts


# ── one event ────────────────────────────────────────────────────────────────────────────────────────────


def cut(kind: str, data: Json, kind_of: KindOf = lambda _: None) -> Redaction:
    """The data of an event without its secrets, by the rules of recording; the same object where there are none."""
    if not isinstance(data, dict):
        return _whole(data)
    if kind == "event.erased":
        return _cut_erasure(data, kind_of)
    if kind not in EVENT_TYPES:
        return _whole(data)
    left_alone = _not_looked_at(kind)
    made: dict[str, Json] = {}
    found: dict[str, Counts] = {}
    for name, value in data.items():
        if name not in left_alone:
            # A text stands for itself: the name of its field says nothing of what is in it.
            clean, counts = redact(value) if isinstance(value, str) else redact_document(value)
            if counts:
                made[name], found[name] = clean, counts
    if not found:
        return Redaction(data, {})
    return Redaction(data | made | {"redacted": _added(data.get("redacted"), found)}, found)


_left_alone: dict[str, frozenset[str]] = {}


def _not_looked_at(kind: str) -> frozenset[str]:
    """The fields of ids, paths and hashes. What a newer program may have added is not among them."""
    found = _left_alone.get(kind)
    if found is None:
        data, looked = EVENT_TYPES[kind].data, _DOCUMENTS.get(kind, FREE_TEXT)
        names = zip(data.__struct_fields__, data.__struct_encode_fields__, strict=True)
        found = _left_alone[kind] = frozenset(shown for name, shown in names if name not in looked)
    return found


def _whole(data: Json) -> Redaction:
    clean, counts = redact_document(data)
    return Redaction(clean, {"": counts} if counts else {})


def _cut_erasure(data: dict[str, Json], kind_of: KindOf) -> Redaction:
    """What an earlier erasure put in the place of others is looked at by the rules of those."""
    instead = data.get("instead")
    if not isinstance(instead, dict):
        return Redaction(data, {})
    made: dict[str, Json] = {}
    found: dict[str, Counts] = {}
    for name, value in instead.items():
        inner = cut(kind_of(name) or "", value)
        made[name] = inner.data
        for field, counts in inner.found.items():
            _count(found.setdefault(field, {}), counts)
    return Redaction(data | {"instead": made}, found) if found else Redaction(data, {})


def _added(before: Json, found: Mapping[str, Counts]) -> dict[str, Json]:
    """How many secrets were taken out of the event in all: what was counted when it was recorded stays counted."""
    total: Counts = {}
    if isinstance(before, dict):
        total = {kind: count for kind, count in before.items() if isinstance(count, int)}
    for counts in found.values():
        _count(total, counts)
    return dict(total)


def _count(total: Counts, more: Mapping[str, int]) -> None:
    for kind, count in more.items():
        total[kind] = total.get(kind, 0) + count


def data_of(event: Event) -> Json:
    """What an event says, as anybody can read it; None when nobody can, or it was erased."""
    if event.data is None or is_too_deep(event.data):
        return None
    try:
        data: Json = msgspec.json.decode(event.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return data


def look(event: Event, kind_of: KindOf) -> EventWithSecrets | None:
    """Whether an event holds a secret, and what may stand instead."""
    if event.data is None:
        return None
    counts: Counts = {}
    data = data_of(event)
    if not isinstance(data, dict):
        # No event of ours, and nobody can read it: it is text.
        found = redact(event.data.decode(errors="replace")).counts
        return EventWithSecrets(event, None, found) if found else None
    made = cut(event.type, data, kind_of)
    for entry in made.found.values():
        _count(counts, entry)
    if not counts:
        return None
    return EventWithSecrets(event, made.data if _can_stand(event, made.data) else None, counts)  # type: ignore[arg-type]


def _can_stand(event: Event, data: Json) -> bool:
    """Whether an erasure with this in it can be written and read everywhere."""
    try:
        canonical_json({"instead": {event.hash: data}})
    except Invalid:
        return False
    return isinstance(data, dict)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────


def cleanse(ws: Workspace) -> Counts:
    """Cut what is found in events that were not looked at by today's rules; says how many of each kind."""
    store = ws.existing_store()
    total: Counts = {}
    if store is None:
        return total
    if not follows_secret_rules(store):
        with ws.transaction() as transaction:
            note_secret_rules(store, transaction)
    due = store.remembered(UNSEEN)
    while due is not None:
        found, place = _looked(ws, store, _place(due))
        with ws.transaction() as transaction:
            now = transaction.remembered(UNSEEN)
            if now == due:
                left = place < store.latest_place()
                _erase(ws, transaction, found)
                now = b"%d" % place if left else None
                transaction.remember(UNSEEN, now)
                for secrets in found:
                    _count(total, secrets.counts)
        due = now
    _tell(ws, total)
    return total


def take_in(ws: Workspace, transaction: Transaction) -> None:
    """The same for what this transaction received: nobody ever sees it with its secrets."""
    due = transaction.remembered(UNSEEN)
    if due is None:
        return
    store, place, total = ws.store(), _place(due), Counts()
    end = store.latest_place()
    while place < end:
        found, place = _looked(ws, store, place)
        _erase(ws, transaction, found)
        for secrets in found:
            _count(total, secrets.counts)
    transaction.remember(UNSEEN, None)
    _tell(ws, total)


def _place(due: bytes) -> int:
    return int(due) if due.isdigit() else 0


def _looked(ws: Workspace, store: Store, place: int) -> tuple[list[EventWithSecrets], int]:
    """Events with secrets among those after a place, and how far that reaches: to the end, unless they are many.

    What others wrote is theirs to cut, or an admin's: other devices would not heed us.
    """
    found: list[EventWithSecrets] = []
    kinds = _Kinds(store)
    for arrival in _arrivals(store, place):
        secret = look(arrival.event, kinds.of(arrival.event.session))
        if secret is not None and _ours_to_cut(ws, arrival.event):
            found.append(secret)
        place = arrival.place
        if len(found) >= _MOST_FOUND:
            break
    return found, place


def _ours_to_cut(ws: Workspace, event: Event) -> bool:
    if not os.path.lexists(ws.home.remotes):
        return True
    from holdfast.sync.shared_with_me import may_erase

    return may_erase(ws, event)


def _arrivals(store: Store, place: int) -> Iterator[Arrival]:
    while arrived := store.arrived(place, _AT_ONCE):
        yield from arrived
        place = arrived[-1].place


class _Kinds:
    """Which type each event of a session has: asked only where an erasure says what stands instead."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session = ""
        self._types: dict[str, str] = {}

    def of(self, session: str) -> KindOf:
        def kind_of(name: str) -> str | None:
            if session != self._session:
                self._session = session
                self._types = {event.hash: event.type for event in self._store.events(session)}
            return self._types.get(name)

        return kind_of


def _erase(ws: Workspace, transaction: Transaction, found: list[EventWithSecrets]) -> None:
    by_session: dict[str, list[EventWithSecrets]] = {}
    for item in found:
        by_session.setdefault(item.event.session, []).append(item)
    actor = ws.recorder.actor
    for session, secrets in by_session.items():
        state = transaction.state(session)
        if state.deleted:
            continue
        # As late as what was there, not now: cutting a secret is no work on the session.
        at = state.updated_at
        if transaction.writer() not in state.heads:
            transaction.record(session, Draft(DeviceJoined(device=ws.device()), at, actor))
        for some in _portions(secrets):
            erasure = EventErased(
                hashes=tuple(secrets.event.hash for secrets in some),
                instead={secrets.event.hash: secrets.instead for secrets in some if secrets.instead is not None},
            )
            transaction.record(session, Draft(erasure, at, actor))


def _portions(found: list[EventWithSecrets]) -> Iterator[list[EventWithSecrets]]:
    some: list[EventWithSecrets] = []
    size = 0
    for secrets in found:
        length = len(secrets.event.data or b"")
        if some and (len(some) >= _MOST_IN_ONE or size + length > _BYTES_IN_ONE):
            yield some
            some, size = [], 0
        some.append(secrets)
        size += length
    if some:
        yield some


def _tell(ws: Workspace, total: Counts) -> None:
    if total:
        ws.note(notice_of(total))


def notice_of(counts: Counts) -> str:
    number = sum(counts.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    secrets = "1 secret was" if number == 1 else f"{number:,} secrets were"
    return f"{secrets} cut out of older events before sending: {kinds}."


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
    erased = collect_erasures(in_log_order(events))
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
        made = _as_sent(with_remaining_data(event, erased.instead), kinds.get)
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
        data = read_data(event) if event.type == "event.erased" else None
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
