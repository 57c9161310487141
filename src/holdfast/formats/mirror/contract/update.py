"""A feature's files read and brought up to date: state and plan under one lock, then history, then the registry.

Whatever the clock says, no time in these files goes backwards. A file that cannot be used stops the update before
anything is written; `restoring` puts it right.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from functools import partial
from typing import NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid, NotFound
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import history, layout, registry, yaml_files
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.formats.mirror.contract.yaml_files import Mapping, YamlFile
from holdfast.machine.locks import PATIENCE, locked


class Files(NamedTuple):
    """What a feature's two files say; None for one that is missing."""

    state: YamlFile | None
    plan: YamlFile | None


def read(root: str, feature_id: str) -> Files:
    """State and plan as they belong together: not one of before and one of after an update."""
    feature = layout.feature(root, feature_id)
    with layout.concerning("read", feature_id=feature_id, file=feature.path):
        layout.need(root)
        _need(feature)
        with locked(feature.lock, shared=True, what=f"reading {feature_id}"):
            return Files(yaml_files.load(feature.state), yaml_files.load(feature.plan))


def update(
    root: str,
    document: Mapping,
    lines: Sequence[AnyMapping[str, Json]] = (),
    *,
    patience: float = PATIENCE,
    displaced: Callable[[str, str], None] | None = None,
) -> None:
    """Write a feature's files as the composite document (`state`, `plan`, `entry`) has them; add to its history.

    `displaced` is told, with the path, where to find what stood there in the moment it was replaced.
    """
    state, plan, entry = (document.get(name) for name in ("state", "plan", "entry"))
    if not (isinstance(state, dict) and isinstance(plan, dict) and isinstance(entry, dict)):
        raise Invalid("the document needs state, plan and entry", operation="update", file=root)
    feature = layout.feature(root, str(state.get("feature_id")))
    with layout.concerning("update", feature_id=feature.id, file=feature.path):
        layout.need(root)
        _need(feature)
        with locked(feature.lock, patience=patience, what=f"updating {feature.id}"):
            # Neither is written where the other cannot be.
            yaml_files.load(feature.state), yaml_files.load(feature.plan)
            # History first: state and plan can be restored from it, never the other way round.
            history.append(feature.history, lines)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(feature.deleted)  # begun anew
            layout.make_artifacts(feature)
            _write(feature.plan, plan, displaced)
            _write(feature.state, state, displaced)
        registry.put(root, {**entry, "feature_id": feature.id}, displaced)


def _need(feature: Feature) -> None:
    if not os.path.isdir(feature.path) or os.path.islink(feature.path):
        raise NotFound(f"there is no directory of feature {feature.id}", hint="Name another feature.")


def _write(path: str, value: Mapping, displaced: Callable[[str, str], None] | None) -> None:
    def over(raw: bytes | None) -> bytes | None:
        if raw is None:
            return yaml_files.written_anew(path, value)
        old = yaml_files.parsed(raw, path)
        made = _with_kept(old.value, _not_earlier(value, old))
        return None if old.value == made else yaml_files.written(made, old)

    # Since others looked at it, lines were added to the history and waited for the disk.
    yaml_files.rewrite(path, over, None if displaced is None else partial(displaced, path), tell_first=True)


def _with_kept(old: Mapping, new: Mapping) -> Mapping:
    """Omission never removes: what others added to the file, and this version does not name, stays."""
    made = {**{key: value for key, value in old.items() if not key.startswith(OWN)}, **new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            made[key] = _with_kept(before, value)
    return made


def _not_earlier(state: Mapping, old: YamlFile) -> Mapping:
    now, was = state.get("current_state"), old.value.get("current_state")
    if not isinstance(now, dict) or not isinstance(was, dict):
        return state
    return {
        **state,
        "current_state": {**now, "last_updated": registry.later(was.get("last_updated"), now.get("last_updated"))},
    }
