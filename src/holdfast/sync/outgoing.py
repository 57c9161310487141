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
from holdfast.core.event_data import collect_erasures, read_data, with_data_or_replacement
from holdfast.core.events import EVENT_TYPES, DeviceJoined, EventErased
from holdfast.core.fold import in_log_order
from holdfast.core.secrets.patterns import redact, redact_document
from holdfast.store.interface import UNSEEN, Arrival, Draft, Store, Transaction
from holdfast.sync import remote_list
from holdfast.sync.state import VaultState
from holdfast.workspace.recorder import follows_secret_rules, note_secret_rules

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_READ_TOGETHER: Final = 5_000
# Each erasure rewrites the whole file: as much as memory allows is erased together.
_MAX_WITH_SECRETS: Final = 20_000
_MAX_EVENTS_ERASED: Final = 1_000
_MAX_BYTES_ERASED: Final = 1 << 20

Counts = dict[str, int]
# The type of an event of the same session, by its hash.
KindOf = Callable[[str], str | None]


class RedactedData(NamedTuple):
    """The data of an event without secrets, and the secrets that were in it: by field, how many of each kind."""

    data: Json
    secrets: dict[str, Counts]


class EventWithSecrets(NamedTuple):
    """An event that holds secrets. Without `instead`, all of its data is erased."""

    event: Event
    instead: dict[str, Json] | None
    counts: Counts


# ── one event ────────────────────────────────────────────────────────────────────────────────────────────


def redact_event(kind: str, data: Json, kind_of: KindOf = lambda _: None) -> RedactedData:
    """The data of an event without its secrets, by the rules for recording; the same object if there are none."""
    if not isinstance(data, dict):
        return _redact_document(data)
    if kind == "event.erased":
        return _redact_erasure(data, kind_of)
    if kind not in EVENT_TYPES:
        return _redact_document(data)
    unsearched = _unsearched_fields(kind)
    cleaned: dict[str, Json] = {}
    secrets: dict[str, Counts] = {}
    for name, value in data.items():
        if name not in unsearched:
            # The name of a text field says nothing about its contents.
            clean, counts = redact(value) if isinstance(value, str) else redact_document(value)
            if counts:
                cleaned[name], secrets[name] = clean, counts
    if not secrets:
        return RedactedData(data, {})
    return RedactedData(data | cleaned | {"redacted": _total_removed(data.get("redacted"), secrets)}, secrets)


_unsearched: dict[str, frozenset[str]] = {}


def _unsearched_fields(kind: str) -> frozenset[str]:
    """The fields that are not searched: ids, paths and hashes. Unknown fields are."""
    fields = _unsearched.get(kind)
    if fields is None:
        known = EVENT_TYPES[kind]
        searched = known.text_fields + known.document_fields
        names = zip(known.data.__struct_fields__, known.data.__struct_encode_fields__, strict=True)
        fields = _unsearched[kind] = frozenset(encoded for name, encoded in names if name not in searched)
    return fields


def _redact_document(data: Json) -> RedactedData:
    clean, counts = redact_document(data)
    return RedactedData(clean, {"": counts} if counts else {})


def _redact_erasure(data: dict[str, Json], kind_of: KindOf) -> RedactedData:
    """Redact what an earlier erasure left of other events, by the rules for their types."""
    instead = data.get("instead")
    if not isinstance(instead, dict):
        return RedactedData(data, {})
    cleaned: dict[str, Json] = {}
    secrets: dict[str, Counts] = {}
    for name, value in instead.items():
        inner = redact_event(kind_of(name) or "", value)
        cleaned[name] = inner.data
        for field, counts in inner.secrets.items():
            _add_counts(secrets.setdefault(field, {}), counts)
    return RedactedData(data | {"instead": cleaned}, secrets) if secrets else RedactedData(data, {})


def _total_removed(before: Json, secrets: Mapping[str, Counts]) -> dict[str, Json]:
    """How many secrets were removed from the event in all, those at recording included."""
    total: Counts = {}
    if isinstance(before, dict):
        total = {kind: count for kind, count in before.items() if isinstance(count, int)}
    for counts in secrets.values():
        _add_counts(total, counts)
    return dict(total)


def _add_counts(total: Counts, more: Mapping[str, int]) -> None:
    for kind, count in more.items():
        total[kind] = total.get(kind, 0) + count


def data_of(event: Event) -> Json:
    """The decoded data of an event; None when it was erased or cannot be decoded."""
    if event.data is None or is_too_deep(event.data):
        return None
    try:
        data: Json = msgspec.json.decode(event.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return data


def find_secrets(event: Event, kind_of: KindOf) -> EventWithSecrets | None:
    """The secrets in an event, with what may stay of it; None when there are none."""
    if event.data is None:
        return None
    counts: Counts = {}
    data = data_of(event)
    if not isinstance(data, dict):
        # Not decodable: searched as text.
        in_text = redact(event.data.decode(errors="replace")).counts
        return EventWithSecrets(event, None, in_text) if in_text else None
    redacted = redact_event(event.type, data, kind_of)
    for entry in redacted.secrets.values():
        _add_counts(counts, entry)
    if not counts:
        return None
    return EventWithSecrets(event, redacted.data if _is_writable(event, redacted.data) else None, counts)  # type: ignore[arg-type]


def _is_writable(event: Event, data: Json) -> bool:
    """Whether an erasure with this data can be written and read everywhere."""
    try:
        canonical_json({"instead": {event.hash: data}})
    except Invalid:
        return False
    return isinstance(data, dict)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────


def redact_outgoing(ws: Workspace) -> Counts:
    """Remove secrets from events that were not searched by today's rules; return how many of each kind."""
    store = ws.existing_store()
    total: Counts = {}
    if store is None:
        return total
    if not follows_secret_rules(store):
        with ws.transaction() as transaction:
            note_secret_rules(store, transaction)
    due = store.remembered(UNSEEN)
    while due is not None:
        with_secrets, place = _scan(ws, store, _place(due))
        with ws.transaction() as transaction:
            remaining = transaction.remembered(UNSEEN)
            if remaining == due:
                more = place < store.latest_place()
                _erase(ws, transaction, with_secrets)
                remaining = b"%d" % place if more else None
                transaction.remember(UNSEEN, remaining)
                for secrets in with_secrets:
                    _add_counts(total, secrets.counts)
        due = remaining
    _note_removed(ws, total)
    return total


def redact_received(ws: Workspace, transaction: Transaction) -> None:
    """The same for what this transaction received: its secrets are never stored."""
    due = transaction.remembered(UNSEEN)
    if due is None:
        return
    store, place, total = ws.store(), _place(due), Counts()
    end = store.latest_place()
    while place < end:
        with_secrets, place = _scan(ws, store, place)
        _erase(ws, transaction, with_secrets)
        for secrets in with_secrets:
            _add_counts(total, secrets.counts)
    transaction.remember(UNSEEN, None)
    _note_removed(ws, total)


def _place(due: bytes) -> int:
    return int(due) if due.isdigit() else 0


def _scan(ws: Workspace, store: Store, place: int) -> tuple[list[EventWithSecrets], int]:
    """The events with secrets after a place, and how far was searched: to the end, unless there are too many.

    Other people's events may be erased only by them or by an admin: other devices would ignore ours.
    """
    with_secrets: list[EventWithSecrets] = []
    kinds = _EventTypes(store)
    for arrival in _arrivals(store, place):
        secret = find_secrets(arrival.event, kinds.of(arrival.event.session))
        if secret is not None and _may_erase(ws, arrival.event):
            with_secrets.append(secret)
        place = arrival.place
        if len(with_secrets) >= _MAX_WITH_SECRETS:
            break
    return with_secrets, place


def _may_erase(ws: Workspace, event: Event) -> bool:
    if not os.path.lexists(ws.home.remotes):
        return True
    from holdfast.sync.shared_with_me import may_erase

    return may_erase(ws, event)


def _arrivals(store: Store, place: int) -> Iterator[Arrival]:
    while arrived := store.arrived(place, _READ_TOGETHER):
        yield from arrived
        place = arrived[-1].place


class _EventTypes:
    """The types of a session's events, read only where an erasure replaces some."""

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


def _erase(ws: Workspace, transaction: Transaction, with_secrets: list[EventWithSecrets]) -> None:
    by_session: dict[str, list[EventWithSecrets]] = {}
    for item in with_secrets:
        by_session.setdefault(item.event.session, []).append(item)
    actor = ws.recorder.actor
    for session, secrets in by_session.items():
        state = transaction.state(session)
        if state.deleted:
            continue
        # Not now: removing a secret is no work on the session.
        at = state.updated_at
        if transaction.writer() not in state.heads:
            transaction.record(session, Draft(DeviceJoined(device=ws.device()), at, actor))
        for portion in _portions(secrets):
            erasure = EventErased(
                hashes=tuple(secrets.event.hash for secrets in portion),
                instead={secrets.event.hash: secrets.instead for secrets in portion if secrets.instead is not None},
            )
            transaction.record(session, Draft(erasure, at, actor))


def _portions(with_secrets: list[EventWithSecrets]) -> Iterator[list[EventWithSecrets]]:
    portion: list[EventWithSecrets] = []
    size = 0
    for secrets in with_secrets:
        length = len(secrets.event.data or b"")
        if portion and (len(portion) >= _MAX_EVENTS_ERASED or size + length > _MAX_BYTES_ERASED):
            yield portion
            portion, size = [], 0
        portion.append(secrets)
        size += length
    if portion:
        yield portion


def _note_removed(ws: Workspace, total: Counts) -> None:
    if total:
        ws.note(notice_of(total))


def notice_of(counts: Counts) -> str:
    number = sum(counts.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    secrets = "1 secret" if number == 1 else f"{number:,} secrets"
    return f"Removed {secrets} from older events before sending: {kinds}."


#: What is never recorded, and so never sent.
NEVER: Final = (
    "prompts and answers", "file contents", "output of commands", "environment variables",
    "an agent's transcripts and settings", "the device's keys", "which session is current where",
)  # fmt: skip

# Ids and hashes: they tell a reader nothing, and are sent like times and counts.
_NOT_TEXT: Final = frozenset(
    {"redacted", "ref", "hash_before", "hash_after", "hashes", "overruled", "roots", "git_commit", "came_commit",
     "commit", "sha", "tree", "parents", "replaces", "folded"}
)  # fmt: skip
# The group under which texts of each event type are shown, and the field that is not named there.
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
# Fields with the same meaning in every event.
_SHARED_FIELDS: Final = {"goal": "goal", "device": "device", "project": "project"}


class OutgoingText(NamedTuple):
    """A text, where it is, and whether it was sent already."""

    where: str
    text: str
    sent: bool


class SecretInText(NamedTuple):
    """A secret that would be removed: what kind, and where. Never the secret itself."""

    kind: str
    where: str


class OutgoingPreview(NamedTuple):
    session: str
    # Events that the next sync would send, to any remote.
    events: int
    texts: list[OutgoingText]
    secrets: list[SecretInText]
    # Remotes the session is not sent to, by name, and why.
    withheld: dict[str, str]


def preview(ws: Workspace, session: str) -> OutgoingPreview:
    store = ws.store()
    events = list(store.events(session))
    kinds = {event.hash: event.type for event in events}
    vaults = [_VaultPreview(ws, remote, session) for remote in remote_list.load(ws.home)]
    erased = collect_erasures(in_log_order(events))
    erasures = _erasures_by_event(events)
    shown: dict[tuple[str, str], bool] = {}
    secrets: list[SecretInText] = []
    due = 0
    for event in events:
        receiving = [vault for vault in vaults if vault.reason is None]
        due += not vaults or any(not vault.has(event) for vault in receiving)
        shown_event = erasures.get(event.hash, event) if event.data is None else event
        is_sent = any(vault.has(shown_event) for vault in vaults)
        shown_texts: list[tuple[str, str]] = [("actor", event.actor)]
        redacted = _sent_data(with_data_or_replacement(event, erased.instead), kinds.get)
        if redacted is not None:
            for field, kinds_in_field in redacted.secrets.items():
                where = _text_location(event.type, field)
                secrets += [
                    SecretInText(kind, where) for kind, vault in sorted(kinds_in_field.items()) for _ in range(vault)
                ]
            shown_texts += texts_of(event.type, redacted.data)
        for where, text in shown_texts:
            # A text with a secret in it was never sent like this.
            sent = is_sent and not (redacted is not None and redacted.secrets and where != "actor")
            shown[where, text] = shown.get((where, text), False) or sent
    texts = [OutgoingText(where, text, sent) for (where, text), sent in shown.items()]
    return OutgoingPreview(
        session, due, texts, secrets, {vault.name: vault.reason for vault in vaults if vault.reason is not None}
    )


class _VaultPreview:
    """How far a remote knows a session."""

    def __init__(self, ws: Workspace, remote: remote_list.KnownRemote, session: str) -> None:
        self.name = remote.name
        self._memory = VaultState(ws.store(), remote.vault)
        self._session = session
        self._known: dict[str, int] = {}
        self.reason = self._reason(ws, remote)

    def has(self, event: Event) -> bool:
        known = self._known.get(event.writer)
        if known is None:
            vouched = self._memory.vouched(self._session, event.writer)
            known = self._known[event.writer] = max(vouched.by.values(), default=0)
        return event.seq <= known

    def _reason(self, ws: Workspace, remote: remote_list.KnownRemote) -> str | None:
        if remote.kind == "share":
            return None if remote.session == self._session else "another session is shared there"
        if self._session in (self._memory.read(tuple[str, ...], "earlier") or ()):
            return "the vault there is not confirmed"
        state = ws.store().state(self._session)
        elsewhere = state is not None and state.project is not None and state.project.id not in remote.projects
        return "only other projects are sent there" if remote.projects and elsewhere else None


def _erasures_by_event(events: Sequence[Event]) -> dict[str, Event]:
    """By erased event, the erasure that is sent in its place."""
    erasures_by_hash: dict[str, Event] = {}
    for event in events:
        data = read_data(event) if event.type == "event.erased" else None
        if isinstance(data, EventErased):
            erasures_by_hash |= dict.fromkeys(data.hashes, event)
    return erasures_by_hash


def _sent_data(event: Event, kind_of: KindOf) -> RedactedData | None:
    """The data of the event as it would be sent; None when it cannot be read."""
    data = data_of(event)
    if data is None:
        return None
    redacted = redact_event(event.type, data, kind_of)
    return redacted._replace(data={}) if event.type == "event.erased" else redacted


def texts_of(kind: str, data: Json) -> Iterator[tuple[str, str]]:
    """Every text in the data of an event, and where it is."""
    if not isinstance(data, dict):
        return
    name = data.get("name") if kind == "extra.kept" else None
    for field, value in data.items():
        if field in _NOT_TEXT or (name is not None and field == "name"):
            continue
        where = f"extra.{name}" if name is not None and field == "value" else _text_location(kind, field)
        yield from _strings(where, value)


def _text_location(kind: str, field: str) -> str:
    if field in _SHARED_FIELDS:
        return _SHARED_FIELDS[field]
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
            if where != "project" or (name != "id" and name not in _NOT_TEXT):
                yield from _strings(f"{where}.{name}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(where, item)
