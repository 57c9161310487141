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
from holdfast.conversations.connect.mcp_entry import CALL, call_of
from holdfast.conversations.connect.registry import ConnectedFile
from holdfast.conversations.hooks import script
from holdfast.core import limits
from holdfast.core.canonical import digest
from holdfast.core.errors import Conflict, HoldfastError
from holdfast.core.times import HOUR, file_stamp
from holdfast.machine import files
from holdfast.machine.files import free_name
from holdfast.machine.private_paths import refuse_other_users

What = Literal["created", "edited", "unchanged", "restored", "removed", "set aside"]
_WHAT: Final = "the agent's settings"


class FilePlan(NamedTuple):
    """One file: its content now and as planned, and what has to be remembered about it."""

    recorded: ConnectedFile
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
        path = self.recorded.path
        return os.path.realpath(path) if self.project is None else refuse_other_users(path, self.project)


def read_current(path: str, project: str | None) -> bytes | None:
    """The content of a file; None if it does not exist, or is a dangling link."""
    limit = limits.MAX_AGENT_SETTINGS_SIZE if project is None else limits.MAX_PROJECT_AGENT_SETTINGS_SIZE
    return files.read_limited(path, limit, subject=_WHAT) if os.path.exists(path) else None


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────


def plan_connect(change: SettingsChange, recorded: ConnectedFile | None, ours: Ours) -> FilePlan:
    """Plan to apply a change to its file; `recorded` is what the registry says of the file."""
    if change.project is not None:
        refuse_other_users(change.path, change.project)
    before = read_current(change.path, change.project)
    step = _own(change, recorded, before) if change.content is not None else _shared(change, recorded, before, ours)
    step = step._replace(project=change.project)
    if recorded is None:
        return step
    made = [*recorded.made, *(name for name in step.recorded.made if name not in recorded.made)]
    return step._replace(recorded=msgspec.structs.replace(step.recorded, made=made))


def _shared(change: SettingsChange, recorded: ConnectedFile | None, before: bytes | None, ours: Ours) -> FilePlan:
    data = {} if before is None else editing(change.path).plain(decoded(before, change.path), change.path)
    merged = change._replace(entries=tuple(_with_additions(entry, data, ours) for entry in change.entries))
    is_installed = before is not None and _is_installed(data, merged, ours)
    if is_installed and recorded is not None:
        return FilePlan(recorded, "unchanged", before, before)
    base, receipt_before = _base(change, recorded, before, ours)
    text = "" if base is None else decoded(base, change.path)
    new, receipt = editing(change.path).insert(text, (change if is_installed else merged).entries, change.path)
    after = before if before is not None and is_installed else new.encode()
    # Only our values are remembered: anything else in an entry was added by a person.
    own = {entry.at: entry.value for entry in change.entries}
    receipt.values = [msgspec.structs.replace(value, value=own[value.at]) for value in receipt.values]
    if receipt_before is not None:
        receipt.add(receipt_before)
        receipt.values = [value for value in receipt.values if value.at not in change.bare]
    existed = base is not None
    remembered = ConnectedFile(
        path=change.path, existed=existed, original=base or b"", wrote=digest(after), receipt=receipt,
        made=[] if before is not None else missing_directories(change.path), linked=os.path.islink(change.path),
    )  # fmt: skip
    change_made: What = "unchanged" if after == before else "edited" if before is not None else "created"
    return FilePlan(remembered, change_made, before, after)


def _with_additions(entry: SettingsEntry, data: object, ours: Ours) -> SettingsEntry:
    """The entry with what a person added to the server's existing entry, even if the command changes."""
    present, value = at_path(data, entry.at), entry.value
    if not (entry.only and isinstance(present, dict) and isinstance(value, dict) and call_of(present)):
        return entry
    if call_of(present) == call_of(value):
        return entry._replace(value=present)
    if not ours(call_of(present)):
        return entry
    return entry._replace(value=value | {name: item for name, item in present.items() if name not in CALL})


def _base(
    change: SettingsChange, recorded: ConnectedFile | None, before: bytes | None, ours: Ours
) -> tuple[bytes | None, EditReceipt | None]:
    """The file without our entries; and, if it was edited since, the receipt of what we added."""
    if before is None:
        return None, None
    if recorded is not None and digest(before) == recorded.wrote:
        return (recorded.original if recorded.existed else None), None
    text = decoded(before, change.path)
    by = editing(change.path)
    if not any(map(ours, by.texts(text, change.path))):
        return before, None
    receipt = recorded.receipt if recorded is not None else None
    rest = by.remove(text, ours, receipt, change.path, whole=single_paths(change))
    if recorded is not None and not recorded.existed and not rest.strip("\ufeff \t\r\n"):
        return None, None
    return rest.encode(), receipt


def _is_installed(data: object, change: SettingsChange, ours: Ours) -> bool:
    """Whether exactly our entries exist already, wherever somebody moved them."""
    if any(ours(call_of(at_path(data, at))) for at in change.bare):
        return False
    expected = 0
    for entry in change.entries:
        place = at_path(data, entry.at)
        if place is None:
            return False
        if entry.only:
            if place == entry.value:
                expected += _calls(place, ours)
            elif ours(call_of(place)):
                return False  # a server of ours, but not this one
        elif not isinstance(place, list) or entry.value not in place:
            return False
        else:
            expected += _calls(entry.value, ours)
    return expected == _calls(data, ours)


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


def _own(change: SettingsChange, recorded: ConnectedFile | None, before: bytes | None) -> FilePlan:
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
    if recorded is not None and recorded.own:
        is_ours = digest(before) == recorded.wrote
    else:
        is_ours = script.is_call(before.decode(errors="replace"))
    if not is_ours:
        raise Conflict(
            f"{files.display_path(change.path)} already exists and is not Holdfast's, or was changed since",
            hint="Move it away, then connect again; nothing was changed.",
            file=change.path,
        )
    return FilePlan(remembered, "edited", before, content, change.executable)


def share_directories(step: FilePlan, made: Container[str]) -> FilePlan:
    """Also remember directories that were created for other agents: the last one to disconnect removes them."""
    if step.recorded.existed:
        return step
    above, shared = os.path.dirname(os.path.realpath(step.recorded.path)), []
    while above != os.path.dirname(above):
        if above in made and above not in step.recorded.made:
            shared.append(above)
        above = os.path.dirname(above)
    own = sorted([*shared, *step.recorded.made], key=len)
    return step._replace(recorded=msgspec.structs.replace(step.recorded, made=own))


def missing_directories(path: str) -> list[str]:
    """The directories that have to be created for a file, outermost first."""
    missing: list[str] = []
    above = os.path.dirname(os.path.realpath(path))
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return missing[::-1]


# ── disconnecting ────────────────────────────────────────────────────────────────────────────────────────


def plan_disconnect(recorded: ConnectedFile, ours: Ours, project: str | None) -> FilePlan:
    """Plan to remove our entries: restores the original bytes, if the file has no other changes."""
    if project is not None:
        refuse_other_users(recorded.path, project)
    before = read_current(recorded.path, project)
    return _without_us(recorded, ours, before)._replace(project=project)


def _without_us(recorded: ConnectedFile, ours: Ours, before: bytes | None) -> FilePlan:
    if before is None or (recorded.existed and before == recorded.original):
        return FilePlan(recorded, "unchanged", before, before)
    if digest(before) == recorded.wrote:
        return FilePlan(
            recorded,
            "restored" if recorded.existed else "removed",
            before,
            recorded.original if recorded.existed else None,
        )
    if recorded.own:
        return FilePlan(recorded, "set aside", before, None)
    values = recorded.receipt.values if recorded.receipt is not None else ()
    return _edited(recorded, ours, before, [SettingsEntry(value.at, value.value, only=True) for value in values])


def _edited(
    recorded: ConnectedFile, ours: Ours, before: bytes, entries: Iterable[SettingsEntry], whole: Iterable[Path] = ()
) -> FilePlan:
    """Plan to remove our entries from a file that others edited."""
    text, by = decoded(before, recorded.path), editing(recorded.path)
    if not any(map(ours, by.texts(text, recorded.path))):
        return FilePlan(recorded, "unchanged", before, before)
    rest = by.remove(text, ours, recorded.receipt, recorded.path, whole=whole)
    if rest == text:
        return FilePlan(recorded, "unchanged", before, before)
    added = tuple(_added(by.plain(text, recorded.path), entries, ours))
    if not recorded.existed and not rest.strip("\ufeff \t\r\n"):
        return FilePlan(recorded, "removed", before, None, added=added)
    return FilePlan(recorded, "edited", before, rest.encode(), added=added)


def _added(data: object, entries: Iterable[SettingsEntry], ours: Ours) -> Iterator[str]:
    """Names a person added to our server's entry: alone they would break the agent's file."""
    for entry in entries:
        present = at_path(data, entry.at)
        if isinstance(present, dict) and isinstance(entry.value, dict) and ours(call_of(present)):
            yield from (str(name) for name in present if name not in entry.value)


def plan_removal(change: SettingsChange, ours: Ours) -> FilePlan | None:
    """Plan to remove entries of ours that are not remembered; None if there are none."""
    before = read_current(change.path, change.project)
    # Every command line of ours has this word: a file without it is not parsed, whatever is wrong in it.
    if before is None or (change.content is None and b"holdfast" not in before.lower()):
        return None
    if change.content is None:
        own = [entry for entry in change.entries if entry.only]
        step = _edited(ConnectedFile(path=change.path, existed=True), ours, before, own, single_paths(change))
        return None if step.change == "unchanged" else step._replace(project=change.project)
    if before == change.content or any(ours(line) for line in before.decode(errors="replace").splitlines()):
        own_file = ConnectedFile(path=change.path, existed=False, own=True)
        return FilePlan(own_file, "removed", before, None, project=change.project)
    return None


def single_paths(change: SettingsChange) -> set[Path]:
    """The paths of values that are set, not added to a list, now or formerly."""
    return {*(entry.at for entry in change.entries if entry.only), *change.bare}


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────────────


def carry_out(step: FilePlan, *, now: int) -> str | None:
    """Write, restore or remove the file; gives the new path if it was set aside."""
    path, target = step.recorded.path, step.target
    _remove_temporaries(step.recorded, target, now)
    if step.change == "unchanged":
        if step.after is None:
            remove_empty_directories(
                step.recorded.made
            )  # left by a process that was killed before it created the file
        return None
    if read_current(path, step.project) != step.before:
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
        remove_empty_directories(step.recorded.made)
        return name
    if step.after is None:
        _remove(step.recorded, target, within)
        return None
    if step.before is None:
        files.make_private_dir(os.path.dirname(target), within=within)
    files.write_atomic(
        path if within is None else target, step.after, follow_own_link=within is None, within=within,
        mode=0o700 if step.executable else None,
    )  # fmt: skip
    return None


def _remove(recorded: ConnectedFile, target: str, within: str | None) -> None:
    """Remove a file that we created, with the directories created for it."""
    try:
        files.remove(target, within=within)
        if os.path.islink(recorded.path) and not recorded.linked:
            os.unlink(recorded.path)
    except OSError as error:
        raise files.explain(error, "remove", recorded.path) from error
    remove_empty_directories(recorded.made)


def _remove_temporaries(recorded: ConnectedFile, target: str, now: int) -> None:
    """Remove temporary files next to the file, left by a process of ours that was killed."""
    with contextlib.suppress(HoldfastError, OSError):
        for path in files.temporaries(os.path.dirname(target)):
            content = files.read_limited(path, limits.MAX_AGENT_SETTINGS_SIZE, subject="a temporary file")
            old = now - os.lstat(path).st_mtime_ns // 1_000_000 > HOUR
            if old or digest(content) == recorded.wrote or recorded.original.startswith(content):
                os.unlink(path)


def remove_empty_directories(made: Sequence[str]) -> None:
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
