"""The contract's directory as a mirror: features made, brought up to date and added to, under the contract's locks.

State and plan are written over what people made of them; history only grows, a line for every event, which holds the
whole event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.fold import read
from holdfast.formats.contract.history import line
from holdfast.formats.keeping import shown
from holdfast.mirror.contract import creating, layout, updating
from holdfast.mirror.contract.gathering import gathered
from holdfast.mirror.layouts import Layout, Showing, Wanted, inside, safe_name
from holdfast.mirror.memory import Written
from holdfast.mirror.prints import Print

HOME: Final = ".ai-session"
REGISTRY: Final = f"{HOME}/active-features.yaml"
_PARTS: Final = ("state.yaml", "implementation-plan.yaml", "history.jsonl")
_NOWHERE: Final = Print(0, 0, 0, 0)


class Contract(Layout):
    name = "contract"
    fixed = (REGISTRY,)
    folders = (HOME,)

    def holds(self, path: str) -> bool:
        parts = path.split("/")
        return path == REGISTRY or (len(parts) == 3 and parts[0] == HOME and parts[2] in _PARTS)

    def wanted(self, root: str, sessions: Sequence[Showing]) -> dict[str, Wanted]:  # noqa: ARG002
        return {}  # it writes its files itself

    def listed(self, root: str) -> list[str]:
        home = layout.root_of(root)
        return [f"{HOME}/{feature.id}/state.yaml" for feature in layout.features(home)] if os.path.isdir(home) else []

    def gather(self, root: str, path: str) -> list[Json]:
        if path == REGISTRY:
            return [gathered(feature.path) for feature in layout.features(layout.root_of(root))]
        return [gathered(os.path.dirname(inside(root, path)))]

    def part(self, path: str, value: Json) -> Json:
        return {"plan" if path.endswith(_PARTS[1]) else "state": value}

    def bring_up(
        self,
        root: str,
        due: Sequence[Showing],
        known: Mapping[str, Written],
        displaced: Callable[[str, str], None],
    ) -> dict[str, Written]:
        home = layout.root_of(root)
        creating.settle(home)
        if not due:
            layout.made(home)
        found: dict[str, Written] = {}
        for one in due:
            document = shown(one.state, self.rules)
            feature = layout.feature(home, safe_name(self.rules.alias(document)))
            history = f"{HOME}/{feature.id}/history.jsonl"
            before = known.get(history)
            if not os.path.lexists(feature.path):
                creating.create(home, document, history=[*_lines(one, None)], known=True)
            else:
                updating.update(home, document, [*_lines(one, before)], displaced=_told_within(root, displaced))
            for name in _PARTS:
                found[f"{HOME}/{feature.id}/{name}"] = Written(one.state.session, "", _NOWHERE, one.as_of, 0)
            last = one.state.last
            found[history] = Written(
                one.state.session, "", _NOWHERE, one.as_of, 0, one.state.count, last[0] if last else 0
            )
        found[REGISTRY] = Written("", "", _NOWHERE, "", 0)
        return found


def _told_within(root: str, displaced: Callable[[str, str], None]) -> Callable[[str, str], None]:
    return lambda path, old: displaced(os.path.relpath(path, root).replace(os.sep, "/"), old)


def _lines(one: Showing, before: Written | None) -> Iterator[dict[str, Json]]:
    """A line for every event that is not in the history yet; for all, when that is not certain."""
    since = 0
    if before is not None and before.session == one.state.session and before.clock:
        tail = [event for event in one.events(before.clock) if event.hash != before.as_of]
        if before.events + len(tail) == one.state.count:
            since = before.clock
    for event in one.events(since):
        if before is None or not since or event.hash != before.as_of:
            yield line(event, read(event), one.state)
