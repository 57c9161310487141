"""The doctor's checks of mirrored files: what was set aside, what is left alone, what cannot be written."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.core.times import HOUR
from holdfast.core.wording import count
from holdfast.formats import project_files
from holdfast.formats.mirror import fingerprint
from holdfast.formats.mirror.follower import mirrors_of
from holdfast.formats.mirror.layouts import absolute_path
from holdfast.machine import files
from holdfast.sessions import history as session_history
from holdfast.workspace.followers import REPAIR_COMMAND, Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.envelope import Event
    from holdfast.core.state import State
    from holdfast.formats.mirror.contract.layout import Feature
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

_SHOWN = 3


def check_mirrors(ws: Workspace, _: Store | None) -> Check:
    ws.collect()
    statuses = mirrors_of(ws).status()
    unkept = _check_unrecorded_files(ws)
    if not statuses:
        return unkept or Check("mirrors", "ok", "nothing is mirrored here")
    failures = [
        f"{mirrored.format} cannot be written: {mirrored.failure}" for mirrored in statuses if mirrored.failure
    ]
    if failures:
        return Check("mirrors", "warning", "; ".join(failures), "Fix that; the next command writes the files.")
    left_alone = [
        f"{path} is left alone: {reason}" for mirrored in statuses for path, reason in mirrored.left_alone.items()
    ]
    if left_alone:
        return Check(
            "mirrors",
            "warning",
            "; ".join(left_alone[:_SHOWN]),
            "Fix it or move it away; the next command continues.",
        )
    committed = [path for item in mirrors_of(ws).formats() for path in mirrors_of(ws).committed(item)]
    if committed:
        return Check(
            "mirrors", "warning", f"git tracks {', '.join(committed)}, so the next commit includes it",
            f"git rm --cached {' '.join(committed)}",
        )  # fmt: skip
    aside = [
        f"{bad.aside}: {bad.reason}" for mirrored in statuses for bad in mirrored.rejected if _exists(ws, bad.aside)
    ]
    if aside:
        return Check(
            "mirrors", "warning", f"set aside: {'; '.join(aside[-_SHOWN:])}",
            "Look at what was set aside, copy what you need, then remove it.",
        )  # fmt: skip
    return unkept or Check("mirrors", "ok", f"{', '.join(mirrored.format for mirrored in statuses)} up to date")


def _check_unrecorded_files(ws: Workspace) -> Check | None:
    """Session files that no mirror covers and the log does not know."""
    at_work = session_history.current_session(ws) is not None
    unknown_files = [file for file in project_files.find_files(ws, at_work=at_work) if not file.foreign]
    if not unknown_files:
        return None
    descriptions = [project_files.description(file) for file in unknown_files[:_SHOWN]]
    fix = project_files.options(ws, unknown_files[0])
    return Check("mirrors", "warning", "; ".join(descriptions), "; or ".join(fix))


def _exists(ws: Workspace, path: str) -> bool:
    return os.path.lexists(os.path.join(ws.place.root, *path.split("/")))


def check_contract(ws: Workspace, store: Store | None) -> Check:
    """The contract's directory, whether it is mirrored or not: another program may have damaged it."""
    from holdfast.formats.mirror.contract import check, layout

    root = layout.root_of(ws.place.root)
    if not os.path.isdir(root):
        return Check("contract", "ok", "no .ai-session here")
    findings = check.check_directory(root)
    if not findings:
        return Check("contract", "ok", f"{root} is sound")
    gaps = store is not None and any(finding.kind in ("lacking", "missing") for finding in findings)
    known = {feature.id for feature, _, _ in _lost_lines(root, store)} if gaps and store is not None else set[str]()
    mended = [
        finding
        for finding in findings
        if finding.advice is None or (finding.kind == "lacking" and finding.feature in known)
    ]
    first = mended or findings
    details = "; ".join(finding.detail for finding in first[:_SHOWN])
    more = f"; and {len(findings) - len(first[:_SHOWN])} more" if len(findings) > len(first[:_SHOWN]) else ""
    if mended:
        return Check("contract", "failed", details + more, REPAIR_COMMAND)
    advice = dict.fromkeys(finding.advice for finding in findings[:_SHOWN] if finding.advice is not None)
    return Check("contract", "warning", details + more, " ".join(advice))


def restore_contract(ws: Workspace) -> Iterator[str]:
    """Restore what is damaged or missing, from history alone; and add to history what the store knows."""
    from holdfast.formats.mirror.contract import layout, restore

    root = layout.root_of(ws.place.root)
    if not os.path.isdir(root):
        return
    with contextlib.suppress(HoldfastError):  # the doctor has reported it
        ws.collect()  # read people's edits first
    yield from _restore_lines(ws, root)
    yield from restore.restore(root, now=ws.now())


# ── lines that were taken out of a history ───────────────────────────────────────────────────────────────


def _restore_lines(ws: Workspace, root: str) -> Iterator[str]:
    """A history is only appended to: what is missing goes to its end."""
    from holdfast.core.fold import read_data as data_of
    from holdfast.formats.contract.history import history_line, with_states
    from holdfast.formats.import_context import models
    from holdfast.formats.mirror.contract import history, layout

    store = ws.existing_store() if layout.root_exists(root) else None
    if store is None:
        return
    for feature, state, events in _lost_lines(root, store):
        each = with_states(events, state, partial(store.events, state.session))
        lines = [history_line(event, data_of(event), then, models(ws)) for event, then in each]
        added = history.append(feature.history, lines, thorough=True)
        if added:
            yield f"{feature.id}/history.jsonl lacked {count(added, 'event')} that the store has; added at the end."


def _lost_lines(root: str, store: Store) -> Iterator[tuple[Feature, State, list[Event]]]:
    """The features whose history lacks events the store knows, and these events."""
    from holdfast.formats.mirror.contract import history, layout

    for feature in layout.undeleted_features(root):
        try:
            lacking = history.read_index(feature.history).lacking
        except HoldfastError:
            continue  # reported elsewhere
        is_missing = not os.path.lexists(feature.history)
        if lacking is None and not is_missing:
            continue
        for session in store.find(feature.id):
            state = store.state(session)
            if state is None or state.aliases.get("contract") != feature.id:
                continue
            events = [event for event in store.events(session) if is_missing or (lacking and lacking.has(event))]
            if events:
                yield feature, state, events


def settle_mirrors(ws: Workspace) -> Iterator[str]:
    """Rewrite every mirrored file that needs it, and clean up after killed writers."""
    try:
        ws.collect()
        yield from _sweep_temporaries(ws)
    except HoldfastError as error:
        yield f"The mirrored files could not be written: {error.message}."


def _sweep_temporaries(ws: Workspace) -> Iterator[str]:
    """Temporary files next to mirrored ones: ours are removed; what somebody else wrote is only reported."""
    root, mirrors = ws.place.root, mirrors_of(ws)
    folders = {os.path.dirname(absolute_path(root, path)) for path in mirrors.paths()}
    for folder in sorted(folders):
        for path in files.temporaries(folder) if os.path.isdir(folder) and not os.path.islink(folder) else ():
            disk_print = fingerprint.take(path, 0)
            if disk_print is None or disk_print.changed // 1_000_000 > ws.now() - HOUR:
                continue  # its writer may still be running
            if mirrors.stored.was_written(ws.place.main, fingerprint.hash_of(fingerprint.read(path))):
                os.unlink(path)
                yield f"Removed {path}, left by a killed writer."
            else:
                yield f"{path} was left by a killed writer: look at its content, then remove it."
