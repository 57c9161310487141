"""The doctor's look at a project's mirrored files: what was set aside, what is left alone, what cannot be written."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.core.times import HOUR
from holdfast.keeper import project_files
from holdfast.keeper.doctor_checks import REPAIR, Check
from holdfast.keeper.wording import count
from holdfast.machine import files
from holdfast.mirror import prints
from holdfast.mirror.layouts import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.event import Event
    from holdfast.core.state import State
    from holdfast.keeper.keeper import Keeper
    from holdfast.mirror.contract.layout import Feature
    from holdfast.store.interface import Store

_SHOWN = 3


def mirrors(keeper: Keeper, _: Store | None) -> Check:
    keeper.absorb()
    found = keeper.mirrors.status()
    unkept = _unkept(keeper)
    if not found:
        return unkept or Check("mirrors", "ok", "nothing is mirrored here")
    trouble = [f"{one.format} cannot be written: {one.trouble}" for one in found if one.trouble]
    if trouble:
        return Check("mirrors", "warning", "; ".join(trouble), "Put that right; the next command writes the files.")
    held = [f"{path} is left alone: {reason}" for one in found for path, reason in one.held.items()]
    if held:
        return Check(
            "mirrors",
            "warning",
            "; ".join(held[:_SHOWN]),
            "Put that right, or move it away; the next command goes on.",
        )
    committed = [path for one in keeper.mirrors.formats() for path in keeper.mirrors.committed(one)]
    if committed:
        return Check(
            "mirrors", "warning", f"git tracks {', '.join(committed)}, and the next commit takes it",
            f"git rm --cached {' '.join(committed)}",
        )  # fmt: skip
    aside = [f"{bad.aside}: {bad.reason}" for one in found for bad in one.rejected if _there(keeper, bad.aside)]
    if aside:
        return Check(
            "mirrors", "warning", f"set aside: {'; '.join(aside[-_SHOWN:])}",
            "Look at what was set aside, take over what you need, then remove it.",
        )  # fmt: skip
    return unkept or Check("mirrors", "ok", f"{', '.join(one.format for one in found)} as they should be")


def _unkept(keeper: Keeper) -> Check | None:
    """Session files that no mirror keeps, and that the log does not know."""
    at_work = keeper.current() is not None
    files_found = [file for file in project_files.files(keeper, at_work=at_work) if not file.foreign]
    if not files_found:
        return None
    said = [project_files.description(file) for file in files_found[:_SHOWN]]
    fix = project_files.options(keeper, files_found[0])
    return Check("mirrors", "warning", "; ".join(said), "; or ".join(fix))


def _there(keeper: Keeper, path: str) -> bool:
    return os.path.lexists(os.path.join(keeper.place.root, *path.split("/")))


def contract(keeper: Keeper, store: Store | None) -> Check:
    """The contract's directory, whether it is mirrored or not: another program's files can be damaged too."""
    from holdfast.mirror.contract import examining, layout

    root = layout.root_of(keeper.place.root)
    if not os.path.isdir(root):
        return Check("contract", "ok", "there is no .ai-session here")
    found = examining.examine(root)
    if not found:
        return Check("contract", "ok", f"{root} is sound")
    gaps = store is not None and any(one.kind in ("lacking", "missing") for one in found)
    known = {feature.id for feature, _, _ in _lost_lines(root, store)} if gaps and store is not None else set[str]()
    mended = [one for one in found if one.advice is None or (one.kind == "lacking" and one.feature in known)]
    first = mended or found
    told = "; ".join(one.detail for one in first[:_SHOWN])
    more = f"; and {len(found) - len(first[:_SHOWN])} more" if len(found) > len(first[:_SHOWN]) else ""
    if mended:
        return Check("contract", "failed", told + more, REPAIR)
    advice = dict.fromkeys(one.advice for one in found[:_SHOWN] if one.advice is not None)
    return Check("contract", "warning", told + more, " ".join(advice))


def restore_contract(keeper: Keeper) -> Iterator[str]:
    """Bring back what is damaged or missing, from the history alone; and into the history what the store knows."""
    from holdfast.mirror.contract import layout, restoring

    root = layout.root_of(keeper.place.root)
    if not os.path.isdir(root):
        return
    with contextlib.suppress(HoldfastError):  # the doctor has said so
        keeper.absorb()  # what people wrote comes first
    yield from _lines_again(keeper, root)
    yield from restoring.restore(root, now=keeper.now())


# ── lines that were taken out of a history ───────────────────────────────────────────────────────────────


def _lines_again(keeper: Keeper, root: str) -> Iterator[str]:
    """A history is only ever added to: what is missing in it comes at its end."""
    from holdfast.core.fold import read as data_of
    from holdfast.formats.contract.history import as_of_each, line
    from holdfast.keeper.documents.ground import models
    from holdfast.mirror.contract import history, layout

    store = keeper.existing_store() if layout.is_there(root) else None
    if store is None:
        return
    for feature, state, events in _lost_lines(root, store):
        each = as_of_each(events, state, partial(store.events, state.session))
        lines = [line(event, data_of(event), then, models(keeper)) for event, then in each]
        added = history.append(feature.history, lines, thorough=True)
        if added:
            yield f"{feature.id}/history.jsonl lacked {count(added, 'event')} that the store knows: added at its end."


def _lost_lines(root: str, store: Store) -> Iterator[tuple[Feature, State, list[Event]]]:
    """The features whose history lacks events that the store knows, and these events."""
    from holdfast.mirror.contract import layout, recorded

    for feature in layout.kept(root):
        try:
            lacking = recorded.recorded(feature.history).lacking
        except HoldfastError:
            continue  # what is wrong with it is told elsewhere
        is_gone = not os.path.lexists(feature.history)
        if lacking is None and not is_gone:
            continue
        for session in store.find(feature.id):
            state = store.state(session)
            if state is None or state.aliases.get("contract") != feature.id:
                continue
            events = [event for event in store.events(session) if is_gone or (lacking and lacking.has(event))]
            if events:
                yield feature, state, events


def settle_mirrors(keeper: Keeper) -> Iterator[str]:
    """Write every mirrored file anew where it is not as it should be, and sweep up after writers that were killed."""
    try:
        keeper.absorb()
        yield from _swept(keeper)
    except HoldfastError as error:
        yield f"The mirrored files could not be written: {error.message}."


def _swept(keeper: Keeper) -> Iterator[str]:
    """Temporary files beside mirrored ones: ours are removed; what somebody else wrote is only told of."""
    root, mirrors = keeper.place.root, keeper.mirrors
    folders = {os.path.dirname(inside(root, path)) for path in mirrors.paths()}
    for folder in sorted(folders):
        for path in files.temporaries(folder) if os.path.isdir(folder) and not os.path.islink(folder) else ():
            found = prints.look(path, 0)
            if found is None or found.changed // 1_000_000 > keeper.now() - HOUR:
                continue  # its writer may still be at work
            if mirrors.memory.knows(keeper.place.main, prints.hash_of(prints.read(path))):
                os.unlink(path)
                yield f"{path}, left by a writer that was killed, is removed."
            else:
                yield f"{path} was left by a writer that was killed: look what is in it, then remove it."
