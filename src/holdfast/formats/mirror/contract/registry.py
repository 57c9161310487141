"""`active-features.yaml`: the features, when each began and was last active, and its status.

Many processes and many people's branches write it. Entries are changed under a lock, one by one, by feature id; other
entries, keys and comments stay as they are, and no time goes backwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Damaged, Invalid, Refused
from holdfast.core.times import parse_time
from holdfast.formats.mirror.contract import layout, yaml_files
from holdfast.formats.mirror.contract.yaml_files import Mapping, YamlFile
from holdfast.formats.text import read, yaml
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import display_path

LIST: Final = "active_features"
# Dozens of processes may each want to add an entry at the same moment.
PATIENCE: Final = 30.0
_ENDED: Final = "completed"
# A registry with only entries of plain values, one per line, and comments on their own lines.
_PLAIN: Final = re.compile(
    rb"(?: *#[^\n]*\n|\n)*active_features:\n"
    rb'(?: *#[^\n]*\n|\n| *- feature_id: [^\n]*\n| +[a-z_]+: (?:"[^"\\\n]*"|[A-Za-z0-9_.:+-]+)\n)*'
)


def entries(root: str) -> list[Mapping]:
    """Every entry, in file order; none if there is no registry yet."""
    with layout.error_context("read", file=layout.registry(root)):
        file = _load(root) if layout.root_exists(root) else None
        return [] if file is None else entries_in(file, layout.registry(root))


def entry(root: str, feature_id: str) -> Mapping | None:
    return next((item for item in entries(root) if item.get("feature_id") == feature_id), None)


def put(root: str, entry: Mapping, displaced: Callable[[str, str], None] | None = None) -> None:
    """Add an entry, or update the one of this feature. What the entry does not name stays.

    `displaced` gets the path, and where to find what somebody wrote at the same moment; that stays, with the entry in
    it.
    """
    feature_id = entry.get("feature_id")
    if not isinstance(feature_id, str):
        raise Invalid("an entry of the registry needs a feature_id")
    path = layout.registry(root)
    with layout.error_context("update", feature_id=feature_id, file=path):
        layout.checked_id(feature_id)
        layout.require_root(root)
        with locked(layout.registry_lock(root), patience=PATIENCE, purpose=f"registering {feature_id}"):
            yaml_files.rewrite(path, partial(_with, path, feature_id, entry), _for_path(path, displaced))


def drop(root: str, feature_id: str, displaced: Callable[[str, str], None] | None = None) -> None:
    """Remove a feature's entry. Other entries and comments stay."""
    path = layout.registry(root)
    with layout.error_context("delete", feature_id=feature_id, file=path):
        layout.checked_id(feature_id)
        layout.require_root(root)
        with locked(layout.registry_lock(root), patience=PATIENCE, purpose=f"removing {feature_id}"):
            yaml_files.rewrite(path, partial(_without, path, feature_id), _for_path(path, displaced))


def _with(path: str, feature_id: str, entry: Mapping, raw: bytes | None) -> bytes | None:
    if raw is None:
        return yaml_files.render_missing(path, {LIST: [entry]})
    quick = _in_place(raw, feature_id, entry)
    if quick is not None:
        return None if quick == raw else quick
    file = yaml_files.parse(raw, path)
    known = entries_in(file, path)
    at = next((n for n, item in enumerate(known) if item.get("feature_id") == feature_id), None)
    old = None if at is None else known[at]
    new = entry if old is None else _moved(old, entry)
    if new == old:
        return None
    changed = [*known, new] if at is None else [*known[:at], new, *known[at + 1 :]]
    return yaml_files.render({**file.value, LIST: [*changed]}, file)


def _in_place(raw: bytes, feature_id: str, entry: Mapping) -> bytes | None:
    """The registry with new values in one entry, without parsing the others; None if that is not safe.

    With hundreds of features, parsing all of it would take longer than everything else a command does.
    """
    named = re.compile(rb'^( *)- feature_id: "?' + re.escape(feature_id.encode()) + rb'"?\n', re.MULTILINE)
    heads = list(named.finditer(raw))
    if len(heads) != 1 or _PLAIN.fullmatch(raw) is None:
        return None
    start = heads[0].start()
    after = re.compile(rb"^" + heads[0][1] + rb"- ", re.MULTILINE).search(raw, start + 1)
    end = len(raw) if after is None else after.start()
    block = raw[start:end]
    value = read.read_yaml(block, "").value
    old = value[0] if isinstance(value, list) and len(value) == 1 else None
    if not isinstance(old, dict):
        return None
    new = _moved(old, entry)
    if list(new) != list(old):
        return None
    for key in (key for key in new if new[key] != old[key]):
        line = re.compile(rb"^( *(?:- )?" + key.encode() + rb": ).*$", re.MULTILINE)
        if not isinstance(new[key], str) or len(line.findall(block)) != 1:
            return None
        text = yaml.inline(new[key]).encode()
        block = line.sub(lambda match, text=text: match[1] + text, block)  # type: ignore[misc]
    return raw[:start] + block + raw[end:]


def _without(path: str, feature_id: str, raw: bytes | None) -> bytes | None:
    file = None if raw is None else yaml_files.parse(raw, path)
    known = [] if file is None else entries_in(file, path)
    remaining = [item for item in known if item.get("feature_id") != feature_id]
    if file is None or len(remaining) == len(known):
        return None
    return yaml_files.render({**file.value, LIST: [*remaining]}, file)


def _for_path(path: str, displaced: Callable[[str, str], None] | None) -> Callable[[str], None] | None:
    return None if displaced is None else partial(displaced, path)


def entries_in(file: YamlFile, path: str) -> list[Mapping]:
    """The entries of a registry; raises `Damaged` if it is not one."""
    value = file.value.get(LIST)
    if value is None and (not file.value or LIST in file.value):
        return []
    if isinstance(value, list):
        known = [item for item in value if isinstance(item, dict) and isinstance(item.get("feature_id"), str)]
        if len(known) == len(value):
            return known
    raise Damaged(
        f"{display_path(path)} is not a list of features",
        hint="holdfast doctor --repair sets it aside and rebuilds it.",
        operation="read",
        file=path,
    )


def later_time(first: Json, second: Json) -> Json:
    """The later of two times as files write them; an invalid one counts as long past."""
    return first if _moment(first) > _moment(second) else second


def _moment(written: Json) -> int:
    try:
        return parse_time(written) if isinstance(written, str) else -(2**62)
    except Invalid:
        return -(2**62)


def _load(root: str) -> YamlFile | None:
    return yaml_files.load(layout.registry(root))


def _moved(old: Mapping, new: Mapping) -> Mapping:
    old_status, new_status = old.get("status"), new.get("status", old.get("status"))
    if old_status == _ENDED and new_status != _ENDED:
        raise Refused(
            f"feature {old['feature_id']} is completed in the registry and cannot be {new_status} again",
            hint="To continue, start a new feature.",
        )
    result = {**old, **new}
    if "last_active" in result:
        result["last_active"] = later_time(old.get("last_active"), new.get("last_active"))
    return result
