"""Plan what becomes of one file when an agent is connected or disconnected, before anything is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from holdfast.conversations.adapters import json_tree
from holdfast.conversations.connect import json_edit, toml_edit
from holdfast.conversations.connect.agent_settings import SettingsChange, SettingsEntry
from holdfast.conversations.connect.json_edit import EditReceipt, Path
from holdfast.conversations.connect.mcp_entry import CALL, called
from holdfast.conversations.connect.registry import ConnectedFile
from holdfast.conversations.hooks import script
from holdfast.core import limits
from holdfast.core.canonical import digest
from holdfast.core.errors import Conflict, HoldfastError
from holdfast.core.times import HOUR, file_stamp
from holdfast.machine import files
from holdfast.machine.files import free_name
from holdfast.machine.private_paths import refuse_others

What = Literal["created", "edited", "unchanged", "restored", "removed", "set aside"]
_WHAT: Final = "the agent's settings"


class FilePlan(NamedTuple):
    """One file: its content now and as planned, and what has to be remembered about it."""

    kept: ConnectedFile
    change: What
    before: bytes | None
    after: bytes | None
    executable: bool = False
    # Settings a person added to an entry of ours, which are removed with it.
    added: tuple[str, ...] = ()
    # The file's project: nothing outside it is written.
    project: str | None = None

    @property
    def target(self) -> str:
        """The real path. Links in the user's scope are followed; in a project's, only those that stay within it."""
        path = self.kept.path
        return os.path.realpath(path) if self.project is None else refuse_others(path, self.project)


def current(path: str, project: str | None) -> bytes | None:
    """The content of a file; None if it does not exist, or is a dangling link."""
    limit = limits.MAX_AGENT_SETTINGS_SIZE if project is None else limits.MAX_PROJECT_AGENT_SETTINGS_SIZE
    return files.read_limited(path, limit, subject=_WHAT) if os.path.exists(path) else None


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────


def to_connect(change: SettingsChange, kept: ConnectedFile | None, ours: Ours) -> FilePlan:
    """Plan to apply a change to its file; `kept` is what is remembered about the file."""
    if change.project is not None:
        refuse_others(change.path, change.project)
    before = current(change.path, change.project)
    step = _own(change, kept, before) if change.content is not None else _shared(change, kept, before, ours)
    step = step._replace(project=change.project)
    if kept is None:
        return step
    made = [*kept.made, *(name for name in step.kept.made if name not in kept.made)]
    return step._replace(kept=msgspec.structs.replace(step.kept, made=made))


def _shared(change: SettingsChange, kept: ConnectedFile | None, before: bytes | None, ours: Ours) -> FilePlan:
    data = {} if before is None else editing(change.path).plain(decoded(before, change.path), change.path)
    whole = change._replace(entries=tuple(_as_it_stands(entry, data, ours) for entry in change.entries))
    is_installed = before is not None and _stands(data, whole, ours)
    if is_installed and kept is not None:
        return FilePlan(kept, "unchanged", before, before)
    base, was = _base(change, kept, before, ours)
    text = "" if base is None else decoded(base, change.path)
    new, receipt = editing(change.path).insert(text, (change if is_installed else whole).entries, change.path)
    after = before if before is not None and is_installed else new.encode()
    # Only our values are remembered: anything else in an entry was added by a person.
    own = {entry.at: entry.value for entry in change.entries}
    receipt.values = [msgspec.structs.replace(value, value=own[value.at]) for value in receipt.values]
    if was is not None:
        receipt.add(was)
        receipt.values = [value for value in receipt.values if value.at not in change.bare]
    existed = base is not None
    remembered = ConnectedFile(
        path=change.path, existed=existed, original=base or b"", wrote=digest(after), receipt=receipt,
        made=[] if before is not None else missing_directories(change.path), linked=os.path.islink(change.path),
    )  # fmt: skip
    change_made: What = "unchanged" if after == before else "edited" if before is not None else "created"
    return FilePlan(remembered, change_made, before, after)


def _as_it_stands(entry: SettingsEntry, data: object, ours: Ours) -> SettingsEntry:
    """The entry with what a person added to the server's existing entry, even if the command changes."""
    present, wanted = at_path(data, entry.at), entry.value
    if not (entry.only and isinstance(present, dict) and isinstance(wanted, dict) and called(present)):
        return entry
    if called(present) == called(wanted):
        return entry._replace(value=present)
    if not ours(called(present)):
        return entry
    return entry._replace(value=wanted | {name: item for name, item in present.items() if name not in CALL})


def _base(
    change: SettingsChange, kept: ConnectedFile | None, before: bytes | None, ours: Ours
) -> tuple[bytes | None, EditReceipt | None]:
    """The file without our entries; and, if it was edited since, the receipt of what we added."""
    if before is None:
        return None, None
    if kept is not None and digest(before) == kept.wrote:
        return (kept.original if kept.existed else None), None
    text = decoded(before, change.path)
    by = editing(change.path)
    if not any(map(ours, by.texts(text, change.path))):
        return before, None
    receipt = kept.receipt if kept is not None else None
    rest = by.remove(text, ours, receipt, change.path, whole=alone(change))
    if kept is not None and not kept.existed and not rest.strip("\ufeff \t\r\n"):
        return None, None
    return rest.encode(), receipt


def _stands(data: object, change: SettingsChange, ours: Ours) -> bool:
    """Whether exactly our wanted entries exist already, wherever somebody moved them."""
    if any(ours(called(at_path(data, at))) for at in change.bare):
        return False
    wanted = 0
    for entry in change.entries:
        place = at_path(data, entry.at)
        if place is None:
            return False
        if entry.only:
            if place == entry.value:
                wanted += _calls(place, ours)
            elif ours(called(place)):
                return False  # a server of ours, but not this one
        elif not isinstance(place, list) or entry.value not in place:
            return False
        else:
            wanted += _calls(entry.value, ours)
    return wanted == _calls(data, ours)


def at_path(data: object, at: Path) -> object:
    """The value at a path; None if there is none."""
    for key in at:
        if not isinstance(data, dict) or key not in data:
            return None
        data = data[key]
    return data


def _calls(value: object, ours: Ours) -> int:
    if isinstance(value, str):
        return int(ours(value))
    if isinstance(value, dict):
        return sum(_calls(item, ours) for item in value.values())
    return sum(_calls(item, ours) for item in value) if isinstance(value, list) else 0


def _own(change: SettingsChange, kept: ConnectedFile | None, before: bytes | None) -> FilePlan:
    content = change.content or b""
    remembered = ConnectedFile(
        path=change.path, existed=False, own=True, wrote=digest(content),
        made=[] if before is not None else missing_directories(change.path), linked=os.path.islink(change.path),
    )  # fmt: skip
    if before is None:
        return FilePlan(remembered, "created", None, content, change.executable)
    if before == content:
        right = not change.executable or os.access(change.path, os.X_OK)
        return FilePlan(remembered, "unchanged" if right else "edited", before, content, change.executable)
    if kept is not None and kept.own:
        is_ours = digest(before) == kept.wrote
    else:
        is_ours = script.is_call(before.decode(errors="replace"))
    if not is_ours:
        raise Conflict(
            f"{files.display_path(change.path)} already exists and is not Holdfast's, or was changed since",
            hint="Move it away, then connect again; nothing was changed.",
            file=change.path,
        )
    return FilePlan(remembered, "edited", before, content, change.executable)


def sharing(step: FilePlan, made: Container[str]) -> FilePlan:
    """Also remember directories that were created for other agents: the last one to disconnect removes them."""
    if step.kept.existed:
        return step
    above, shared = os.path.dirname(os.path.realpath(step.kept.path)), []
    while above != os.path.dirname(above):
        if above in made and above not in step.kept.made:
            shared.append(above)
        above = os.path.dirname(above)
    own = sorted([*shared, *step.kept.made], key=len)
    return step._replace(kept=msgspec.structs.replace(step.kept, made=own))


def missing_directories(path: str) -> list[str]:
    """The directories that have to be created for a file, outermost first."""
    missing: list[str] = []
    above = os.path.dirname(os.path.realpath(path))
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return missing[::-1]


# ── disconnecting ────────────────────────────────────────────────────────────────────────────────────────


def to_disconnect(kept: ConnectedFile, ours: Ours, project: str | None) -> FilePlan:
    """Plan to remove our entries: restores the original bytes, if the file has no other changes."""
    if project is not None:
        refuse_others(kept.path, project)
    before = current(kept.path, project)
    return _without_us(kept, ours, before)._replace(project=project)


def _without_us(kept: ConnectedFile, ours: Ours, before: bytes | None) -> FilePlan:
    if before is None or (kept.existed and before == kept.original):
        return FilePlan(kept, "unchanged", before, before)
    if digest(before) == kept.wrote:
        return FilePlan(
            kept, "restored" if kept.existed else "removed", before, kept.original if kept.existed else None
        )
    if kept.own:
        return FilePlan(kept, "set aside", before, None)
    values = kept.receipt.values if kept.receipt is not None else ()
    return _edited(kept, ours, before, [SettingsEntry(value.at, value.value, only=True) for value in values])


def _edited(
    kept: ConnectedFile, ours: Ours, before: bytes, entries: Iterable[SettingsEntry], whole: Iterable[Path] = ()
) -> FilePlan:
    """Plan to remove our entries from a file that others edited."""
    text, by = decoded(before, kept.path), editing(kept.path)
    if not any(map(ours, by.texts(text, kept.path))):
        return FilePlan(kept, "unchanged", before, before)
    rest = by.remove(text, ours, kept.receipt, kept.path, whole=whole)
    if rest == text:
        return FilePlan(kept, "unchanged", before, before)
    added = tuple(_added(by.plain(text, kept.path), entries, ours))
    if not kept.existed and not rest.strip("\ufeff \t\r\n"):
        return FilePlan(kept, "removed", before, None, added=added)
    return FilePlan(kept, "edited", before, rest.encode(), added=added)


def _added(data: object, entries: Iterable[SettingsEntry], ours: Ours) -> Iterator[str]:
    """Names a person added to our server's entry: alone they would break the agent's file."""
    for entry in entries:
        present = at_path(data, entry.at)
        if isinstance(present, dict) and isinstance(entry.value, dict) and ours(called(present)):
            yield from (str(name) for name in present if name not in entry.value)


def to_forget(change: SettingsChange, ours: Ours) -> FilePlan | None:
    """Plan to remove entries of ours that are not remembered; None if there are none."""
    before = current(change.path, change.project)
    # Every command line of ours has this word: a file without it is not parsed, whatever is wrong in it.
    if before is None or (change.content is None and b"holdfast" not in before.lower()):
        return None
    if change.content is None:
        own = [entry for entry in change.entries if entry.only]
        step = _edited(ConnectedFile(path=change.path, existed=True), ours, before, own, alone(change))
        return None if step.change == "unchanged" else step._replace(project=change.project)
    if before == change.content or any(ours(line) for line in before.decode(errors="replace").splitlines()):
        own_file = ConnectedFile(path=change.path, existed=False, own=True)
        return FilePlan(own_file, "removed", before, None, project=change.project)
    return None


def alone(change: SettingsChange) -> set[Path]:
    """The paths of values that are set, not added to a list, now or formerly."""
    return {*(entry.at for entry in change.entries if entry.only), *change.bare}


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────────────


def carry_out(step: FilePlan, *, now: int) -> str | None:
    """Write, restore or remove the file; gives the new path if it was set aside."""
    path, target = step.kept.path, step.target
    _sweep(step.kept, target, now)
    if step.change == "unchanged":
        if step.after is None:
            unmake(step.kept.made)  # left by a process that was killed before it created the file
        return None
    if current(path, step.project) != step.before:
        raise Conflict(
            f"{files.display_path(path)} was changed by someone else just now",
            hint="Run the command again.",
            file=path,
        )
    within = None if step.project is None else os.path.realpath(step.project)
    if step.change == "set aside":
        name = free_name(f"{path}.changed-{file_stamp(now)}")
        try:
            files.rename(path if within is None else target, name, within=within)
        except OSError as error:
            raise files.explain(error, "rename", path) from error
        unmake(step.kept.made)
        return name
    if step.after is None:
        _remove(step.kept, target, within)
        return None
    if step.before is None:
        files.make_private_dir(os.path.dirname(target), within=within)
    files.write_atomic(
        path if within is None else target, step.after, follow_own_link=within is None, within=within,
        mode=0o700 if step.executable else None,
    )  # fmt: skip
    return None


def _remove(kept: ConnectedFile, target: str, within: str | None) -> None:
    """Remove a file that we created, with the directories created for it."""
    try:
        files.remove(target, within=within)
        if os.path.islink(kept.path) and not kept.linked:
            os.unlink(kept.path)
    except OSError as error:
        raise files.explain(error, "remove", kept.path) from error
    unmake(kept.made)


def _sweep(kept: ConnectedFile, target: str, now: int) -> None:
    """Remove temporary files next to the file, left by a process of ours that was killed."""
    with contextlib.suppress(HoldfastError, OSError):
        for path in files.temporaries(os.path.dirname(target)):
            content = files.read_limited(path, limits.MAX_AGENT_SETTINGS_SIZE, subject="a temporary file")
            old = now - os.lstat(path).st_mtime_ns // 1_000_000 > HOUR
            if old or digest(content) == kept.wrote or kept.original.startswith(content):
                os.unlink(path)


def unmake(made: Sequence[str]) -> None:
    """Remove directories that were created for a file, if they are empty."""
    for directory in reversed(made):
        if os.path.realpath(directory) == directory:  # else a link is in its path now
            files.remove_directory(directory)


# ── kinds of files ─────────────────────────────────────────────────────────────────────────────────────


Ours = Callable[[str], bool]


class Editing(Protocol):
    """Adds entries to one kind of file, and removes them."""

    def plain(self, text: str, file: str) -> object:
        """Its data; None if it is empty."""

    def texts(self, text: str, file: str) -> Iterator[str]:
        """The texts in it that may be ours."""

    def insert(self, text: str, entries: Iterable[SettingsEntry], file: str) -> tuple[str, EditReceipt]:
        """The text with these entries, and the receipt needed to remove them."""

    def remove(
        self, text: str, ours: Ours, receipt: EditReceipt | None, file: str, *, whole: Iterable[Path] = ()
    ) -> str:
        """The text without our entries."""


class _Json:
    texts = staticmethod(json_edit.texts)
    insert = staticmethod(json_edit.insert)
    remove = staticmethod(json_edit.remove)

    @staticmethod
    def plain(text: str, file: str) -> object:
        try:
            return msgspec.json.decode(text)  # much faster, for JSON without comments
        except (msgspec.DecodeError, RecursionError):
            document = json_tree.JsonText(text, file)
        return None if document.root is None else document.plain(document.root)


class _Toml:
    plain = staticmethod(toml_edit.plain)
    texts = staticmethod(toml_edit.texts)
    insert = staticmethod(toml_edit.insert)
    remove = staticmethod(toml_edit.remove)


_JSON: Final[Editing] = _Json()
_TOML: Final[Editing] = _Toml()
_TOML_ENDING: Final = ".toml"


def editing(path: str) -> Editing:
    """The editing for this kind of file."""
    return _TOML if path.endswith(_TOML_ENDING) else _JSON


def decoded(data: bytes, path: str) -> str:
    """The text of a shared file, which encodes to exactly these bytes."""
    return json_tree.decoded(data, path, kind="TOML" if path.endswith(_TOML_ENDING) else "JSON")
