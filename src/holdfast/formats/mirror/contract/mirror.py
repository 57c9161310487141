"""The contract's directory as a mirror: features are created, updated and appended to under the contract's locks.

State and plan are written over what people made of them; history only grows by a line for every event, which contains
the whole event. The hash of a file is recorded only if its content is ours: what somebody else wrote must not pass
for it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.events import CommandRan
from holdfast.core.fold import read_data as event_data
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.contract import configured
from holdfast.formats.contract.events import foreign_line_events
from holdfast.formats.contract.history import history_line, with_states
from holdfast.formats.mirror.contract import feature_dirs, feature_files, history, layout, registry, yaml_files
from holdfast.formats.mirror.contract.feature_files import read_feature_document, read_foreign_lines
from holdfast.formats.mirror.fingerprint import Fingerprint, hash_of
from holdfast.formats.mirror.layouts import MirrorLayout, ShownSession, WantedFile, absolute_path, safe_name
from holdfast.formats.mirror.state import WrittenFile
from holdfast.formats.remainder import render_with_remainder
from holdfast.formats.text.read import read, read_yaml
from holdfast.machine.files import read_limited, write_atomic
from holdfast.machine.locks import locked

HOME: Final = ".ai-session"
REGISTRY: Final = f"{HOME}/active-features.yaml"
_STATE, _PLAN, _HISTORY = "state.yaml", "implementation-plan.yaml", "history.jsonl"
_PARTS: Final = (_STATE, _PLAN, _HISTORY)
_NOWHERE: Final = Fingerprint(0, 0, 0, 0)
# In the place of a hash: the next look reads the file.
_UNSURE: Final = "?"
# Times that never go backwards, whatever we write.
_DATED: Final = frozenset({"last_updated", "last_active"})
_LAST_ACTIVE: Final = re.compile(rb"^ *(- )?last_active:.*$", re.MULTILINE)


class ContractLayout(MirrorLayout):
    name = "contract"
    fixed = (REGISTRY,)
    folders = (HOME,)
    writes_itself = True

    @property
    def rules(self) -> Format:
        return configured(self.models)

    def notes(self, showing: ShownSession) -> list[str]:
        note = configured(self.models).model_note(showing.state)
        return [] if note is None else [note]

    def holds(self, path: str) -> bool:
        parts = path.split("/")
        return path == REGISTRY or (len(parts) == 3 and parts[0] == HOME and parts[2] in _PARTS)

    def wanted(
        self,
        root: str,  # noqa: ARG002
        sessions: Sequence[ShownSession],  # noqa: ARG002
        unchanged: Mapping[str, WrittenFile],  # noqa: ARG002
        known: Mapping[str, WrittenFile],  # noqa: ARG002
    ) -> dict[str, WantedFile]:
        return {}  # it writes its files itself

    def listed(self, root: str) -> list[str]:
        home = layout.root_of(root)
        return [f"{HOME}/{feature.id}/{_STATE}" for feature in layout.features(home)] if os.path.isdir(home) else []

    def content(self, root: str, path: str) -> bytes:
        if path.endswith(_HISTORY):
            return read_limited(absolute_path(root, path), history.MAX_SIZE, subject="a history")
        return super().content(root, path)

    def gather(self, root: str, path: str, data: bytes) -> list[tuple[str, Json]]:
        if path != REGISTRY:
            return [(path, read_feature_document(os.path.dirname(absolute_path(root, path))))]
        home = layout.root_of(root)
        listed = _entries(data).keys()  # raises if it is not a registry
        present = {feature.id for feature in layout.features(home)}
        if present - listed and listed - present:
            raise Invalid("an entry was renamed to a feature that does not exist", operation="read")
        documents: list[tuple[str, Json]] = []
        for feature in layout.features(home):
            document = _read_if_readable(feature)
            if document is not None:  # else the fault is reported for its own files
                documents.append((f"{HOME}/{feature.id}/{_STATE}", document))
        return documents

    def gather_displaced(self, root: str, path: str, data: bytes) -> list[tuple[str, Json]]:
        """The document with this one file as it was before our write, and the others as they are."""
        if path == REGISTRY:
            entries = _entries(data)
            documents = [(where, value) for where, value in self.gather(root, path, data) if isinstance(value, dict)]
            return [
                (where, {**value, "entry": entries.get(where.split("/")[1], value.get("entry"))})
                for where, value in documents
            ]
        if path.endswith(_HISTORY):
            return self.gather(root, path, data)
        document = read_feature_document(os.path.dirname(absolute_path(root, path)))
        return [(path, {**document, "plan" if path.endswith(_PLAN) else "state": read(data, path).value})]

    def is_torn(self, path: str, data: bytes) -> bool:
        return not data.strip() or super().is_torn(path, data)

    def file_with(self, path: str, place: Place) -> str:
        name = {"state": _STATE, "plan": _PLAN}.get(str(place[0]) if place else "state")
        return REGISTRY if name is None else f"{os.path.dirname(path)}/{name}"

    def is_shared(self, path: str, data: bytes) -> bool:
        if path != REGISTRY:
            return False
        try:
            return bool(_entries(data))
        except HoldfastError:
            return False

    def salvage_entries(self, path: str, data: bytes) -> bytes | None:
        from holdfast.formats.mirror.contract.restore import salvage_entries
        from holdfast.formats.text import yaml

        text = data.decode("utf-8", "replace")
        entries = salvage_entries(text) if path == REGISTRY else []
        return yaml.render_yaml({registry.LIST: [*entries]}, over=text).encode() if entries else None

    def update_files(
        self,
        root: str,
        due: Sequence[ShownSession],
        known: Mapping[str, WrittenFile],
        displaced: Callable[[str, str], bool],
    ) -> dict[str, WrittenFile]:
        home = layout.root_of(root)
        feature_dirs.finish_interrupted(home)
        register = layout.registry(home)
        if _was_replaced(register, known.get(REGISTRY)) and displaced(REGISTRY, register):
            return {}  # changed since it was read, so read it first
        _create_empty_root(home)
        before = yaml_files.read_raw(register) or b""
        written: dict[str, WrittenFile] = {}
        entries: dict[str, Json] = {}
        for showing in due:
            document = render_with_remainder(showing.state, self.rules)
            feature = layout.feature(home, safe_name(self.rules.alias(document)))
            ours = f"{HOME}/{feature.id}/{_STATE}" in known or not os.path.lexists(feature.state)
            if not ours and _read_if_readable(feature) is None:
                continue  # another program's, damaged or of a newer version: it is left alone
            written.update(_update_feature(root, home, feature, document, showing, known, displaced, self.models))
            entries[feature.id] = document["entry"]
        after = yaml_files.read_raw(register) or b""
        as_left = _undated(before) == _undated(after) or _only_these_changed(before, after, entries)
        written[REGISTRY] = WrittenFile("", hash_of(after) if as_left else _UNSURE, _NOWHERE, "", 0)
        return written

    def erase(
        self,
        root: str,
        feature_ids: Collection[str],
        known: Mapping[str, WrittenFile],
        displaced: Callable[[str, str], bool],
    ) -> dict[str, WrittenFile]:
        home = layout.root_of(root)
        register = layout.registry(home)
        before = yaml_files.read_raw(register) or b""
        for name in feature_ids:
            if layout.is_id(name):
                feature_dirs.erase(layout.feature(home, name))
                registry.drop(home, name, _with_relative_paths(root, displaced))
        after = yaml_files.read_raw(register) or b""
        registry_file = known.get(REGISTRY)
        ours = (
            registry_file is not None
            and registry_file.hash == hash_of(before)
            and _only_these_changed(before, after, {}, feature_ids)
        )
        return {REGISTRY: WrittenFile("", hash_of(after) if ours else _UNSURE, _NOWHERE, "", 0)}


def _update_feature(
    root: str,
    home: str,
    feature: layout.Feature,
    document: Document,
    session: ShownSession,
    known: Mapping[str, WrittenFile],
    displaced: Callable[[str, str], bool],
    models: Mapping[str, str],
) -> Iterator[tuple[str, WrittenFile]]:
    within = f"{HOME}/{feature.id}"
    changed = [
        name
        for name in (_STATE, _PLAN)
        if _was_replaced(f"{feature.path}/{name}", known.get(f"{within}/{name}"))
        and displaced(f"{within}/{name}", f"{feature.path}/{name}")
    ]
    if changed:
        return
    known_history = known.get(f"{within}/{_HISTORY}")
    history_size = os.path.getsize(feature.history) if os.path.lexists(feature.history) else 0
    if known_history is not None and known_history.print.size != history_size:
        known_history = None  # somebody has appended to it, or restored an earlier one
    if known_history is not None and _ends_with_imported_line(session, known_history):
        known_history = None  # events without a line of their own go with the next line
    lines = [*_lines_to_append(session, known_history, models, feature.history)]
    size = sum(len(msgspec.json.encode(line)) + 1 for line in lines)
    if not os.path.lexists(feature.path):
        feature_dirs.create(home, document, history=lines, known=True)
    else:
        size = 0 if known_history is None else size + history_size
        feature_files.update(home, document, lines, displaced=_with_relative_paths(root, displaced))
    for name, part in ((_STATE, document["state"]), (_PLAN, document["plan"])):
        raw = yaml_files.read_raw(os.path.join(feature.path, name)) or b""
        hashed = hash_of(raw) if _contains_same(raw, part) else _UNSURE
        yield (
            f"{within}/{name}",
            WrittenFile(session.state.session, hashed, _NOWHERE, session.as_of, 0, session.state.count),
        )
    last = session.state.last
    yield (
        f"{within}/{_HISTORY}",
        WrittenFile(
            session.state.session, "", Fingerprint(0, size, 0, 0), session.as_of, 0, session.state.count,
            last[0] if last else 0,
        ),
    )  # fmt: skip


def _read_if_readable(feature: layout.Feature) -> dict[str, Json] | None:
    """The document of a feature; None if one of its files cannot be read, or is of an unknown version."""
    from holdfast.formats.contract.repairs import unknown_version

    try:
        document = read_feature_document(feature.path)
    except HoldfastError:
        return None
    state = document.get("state")
    return None if isinstance(state, dict) and unknown_version(state) is not None else document


def _was_replaced(path: str, file: WrittenFile | None) -> bool:
    """Whether a file exists that is not as it was when written or read."""
    raw = None if file is None or not os.path.lexists(path) else yaml_files.read_raw(path)
    return file is not None and raw is not None and hash_of(raw) != file.hash


def _create_empty_root(home: str) -> None:
    """Create the directory without features: README and an empty registry."""
    layout.create_root(home)
    if not os.path.lexists(layout.readme(home)):
        with locked(layout.creating_lock(home), purpose="creating"):
            feature_dirs.write_readme(home)
    if not os.path.lexists(layout.registry(home)):
        with locked(layout.registry_lock(home), purpose="beginning the registry"):
            if not os.path.lexists(layout.registry(home)):
                empty = yaml_files.render_missing(layout.registry(home), {registry.LIST: []})
                write_atomic(layout.registry(home), empty)


# ── is it ours? ──────────────────────────────────────────────────────────────────────────────────────────


def _contains_same(raw: bytes, part: Json) -> bool:
    """Whether a file says what we wrote, however it is spelled and whatever else it contains."""
    if isinstance(part, dict) and raw == yaml_files.render(part):
        return True
    try:
        return _contains(read_yaml(raw, "").value, part)
    except HoldfastError:
        return False


def _contains(value: Json, part: Json) -> bool:
    if isinstance(part, dict):
        return isinstance(value, dict) and all(
            key in value and (key in _DATED or _contains(value[key], inner)) for key, inner in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(value, list)
            and len(value) == len(part)
            and all(_contains(item, other) for item, other in zip(value, part, strict=True))
        )
    return value == part


def _undated(raw: bytes) -> bytes:
    return _LAST_ACTIVE.sub(b"", raw)


def _only_these_changed(
    before: bytes, after: bytes, entries: Mapping[str, Json], removed: Collection[str] = ()
) -> bool:
    """Whether nothing but these entries changed in the registry or left it."""
    try:
        entries_before, entries_after = (_entries(raw) for raw in (before, after))
    except HoldfastError:
        return False
    others = {name: entry for name, entry in entries_before.items() if name not in entries and name not in removed}
    return others == {name: entry for name, entry in entries_after.items() if name not in entries} and all(
        _contains(entries_after.get(name), entry) for name, entry in entries.items()
    )


def _entries(raw: bytes) -> dict[str, Json]:
    value = read_yaml(raw, REGISTRY).value if raw.strip() else {}
    if not isinstance(value, dict):
        raise Invalid("it is not a list of features", operation="read")
    entries = registry.entries_in(yaml_files.YamlFile(value, ""), REGISTRY)
    return {str(entry["feature_id"]): entry for entry in entries}


def _with_relative_paths(root: str, displaced: Callable[[str, str], bool]) -> Callable[[str, str], None]:
    def report(path: str, old: str) -> None:
        displaced(os.path.relpath(path, root).replace(os.sep, "/"), old)

    return report


def _ends_with_imported_line(session: ShownSession, before: WrittenFile) -> bool:
    return any(event.hash == before.as_of and _is_imported_line(event) for event in session.events(before.clock))


def _is_imported_line(event: Event) -> bool:
    """Whether this event was read from a line of a history."""
    return (event.key or "").startswith("file:contract:") and isinstance(event_data(event), CommandRan)


def _foreign_commands(path: str) -> Counter[bytes]:
    """The events in lines of other programs, counted by content."""
    return Counter(
        msgspec.json.encode(command.data) for _, command in foreign_line_events({"history": read_foreign_lines(path)})
    )


def _lines_to_append(
    session: ShownSession, before: WrittenFile | None, models: Mapping[str, str], path: str
) -> Iterator[dict[str, Json]]:
    """A line for every event that is not in the history yet, or for all if that is not certain.

    An event read from a line of this history has its line already.
    """
    since = 0
    if before is not None and before.session == session.state.session and before.clock:
        tail = [event for event in session.events(before.clock) if event.hash != before.as_of]
        if before.events + len(tail) == session.state.count:
            since = before.clock
    theirs: Counter[bytes] | None = None
    imported: list[Event] = []
    due = [event for event in session.events(since) if before is None or not since or event.hash != before.as_of]
    for event, state in with_states(due, session.state, lambda: session.events(0), latest=True):
        data = event_data(event)
        if _is_imported_line(event):
            theirs = _foreign_commands(path) if theirs is None else theirs
            encoded = msgspec.json.encode(data)
            if theirs[encoded]:
                theirs[encoded] -= 1
                imported.append(event)
                continue
        yield history_line(event, data, state, models, imported)
        imported = []
