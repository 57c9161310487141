"""What is missing, damaged or doubtful in an `.ai-session/` directory, by the contract's strict rules.

Checking changes nothing. A valid file that only differs from history is not damaged: people may edit these files.
What a person has to decide (an unfinished merge, an unknown version, unreadable lines of history, a listed feature
that is missing) is kept apart from what `restore` repairs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from holdfast.core import limits
from holdfast.core.errors import Conflict, Damaged, HoldfastError
from holdfast.core.text import shorten
from holdfast.formats import document_paths
from holdfast.formats.base import Problem
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract import fields as words
from holdfast.formats.contract.fields import PLAN, REGISTRY, STATE, as_object
from holdfast.formats.contract.repair_notes import number_text
from holdfast.formats.mirror.contract import history, layout, rebuild, registry, yaml_files
from holdfast.formats.mirror.contract.history import Faults, HistoryIndex
from holdfast.formats.mirror.contract.layout import Feature, count
from holdfast.formats.mirror.contract.yaml_files import YamlFile

Kind = Literal[
    "missing",
    "folder",
    "damaged",
    "unlisted",
    "unreadable",
    "unmerged",
    "unknown",
    "unused",
    "changed",
    "large",
    "lacking",
    "absent",
]
# What `restore` repairs; the others are left alone.
RESTORABLE: Final = frozenset({"missing", "folder", "damaged", "unlisted"})
_SHOWN: Final = 3
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*\Z")
_KNOWN: Final = frozenset({"", "1", words.VERSION, "1.0.0"})

_ADVICE: Final[Mapping[Kind, str]] = {
    "folder": "Git keeps no empty directory: holdfast doctor --repair restores it, and so does the next write.",
    "unreadable": "Move it away, or make it readable.",
    "unmerged": "Finish the merge: decide what stays in the file, and remove the markers.",
    "unknown": f"Holdfast supports version {words.VERSION}: upgrade Holdfast, or correct the version.",
    "unused": "History is never changed: check these lines, and append correct ones.",
    "changed": "Holdfast never changes history: restore the lines from git or a backup.",
    "large": "Move its older lines into a file of their own.",
    "lacking": "Restore the lines from git or a backup; until then it is not certain what they recorded.",
    "absent": "Restore its directory, or remove its entry from the registry.",
}


class Fault(NamedTuple):
    """What is wrong with one file."""

    path: str
    kind: Kind
    why: str = ""
    feature: str | None = None

    def sentence(self, root: str) -> str:
        name = os.path.relpath(self.path, root)
        match self.kind:
            case "missing" | "folder":
                return f"{name} is missing"
            case "damaged" | "unreadable" | "unmerged":
                return f"{name} is {self.kind}: {self.why}"
            case "unlisted":
                return f"{self.feature} is not listed in the registry"
        return f"{name} {self.why}"


class ContractFinding(NamedTuple):
    """A finding, for people; `advice` is what only they can do, None for what `restore` repairs."""

    detail: str
    kind: Kind
    feature: str | None
    advice: str | None


def check_directory(root: str) -> list[ContractFinding]:
    """Everything that `restore` would repair, or could not. Changes nothing."""
    with layout.error_context("read", file=root):
        if not layout.root_exists(root):
            return []
        faults_here = [
            fault
            for feature in layout.undeleted_features(root)
            for fault in (*feature_faults(root, feature), *history_warnings(feature))
        ]
        faults_here += root_faults(root)
        return [
            ContractFinding(fault.sentence(root), fault.kind, fault.feature, _ADVICE.get(fault.kind))
            for fault in faults_here
        ]


# ── one feature ──────────────────────────────────────────────────────────────────────────────────────────


def feature_faults(root: str, feature: Feature) -> list[Fault]:
    """What is wrong with a feature's files."""
    state, state_fault = _check_file(feature.state, feature.id, lambda file: _in_state(file, feature.id))
    version = _unknown_version(feature)
    if version is not None:
        # By rules unknown here, the other files may be fine.
        why = f"is of version {shorten(version, 20)} of the contract, which Holdfast does not know"
        return [Fault(feature.state, "unknown", why, feature.id)]
    plan, plan_fault = _check_file(feature.plan, feature.id, lambda file: _in_plan(file, feature))
    if state is not None and plan is not None:
        misfit = _contradiction(root, feature, state, plan)
        if misfit is not None:
            return [misfit]
    missing = None if os.path.lexists(feature.history) else Fault(feature.history, "missing", "", feature.id)
    folder = None if os.path.lexists(feature.artifacts) else Fault(feature.artifacts, "folder", "", feature.id)
    return [fault for fault in (state_fault, plan_fault, missing, folder) if fault is not None]


def _unknown_version(feature: Feature) -> str | None:
    try:
        file = yaml_files.load(feature.state)
    except HoldfastError:
        return None
    version = number_text(file.value.get("version")).removeprefix("v") if file is not None else ""
    return version if version not in _KNOWN and _NUMBER.match(version) else None


def _in_state(file: YamlFile, feature_id: str) -> str | None:
    named = file.value.get("feature_id", feature_id)
    if named != feature_id:
        return f"it belongs to another feature, {shorten(str(named), 60)!a}"
    return error_of(FORMAT.problems(file.value, STATE))


def _in_plan(file: YamlFile, feature: Feature) -> str | None:
    named = as_object(file.value.get("feature")).get("id", feature.id)
    if named != feature.id:
        return f"it belongs to another feature, {shorten(str(named), 60)!a}"
    wrong = error_of(FORMAT.problems(file.value, PLAN))
    if wrong is not None or any(True for _ in words.tasks_with_phases({"plan": file.value})):
        return wrong
    known = rebuild.tasks_in_events(feature)
    return f"its tasks are missing, and the history knows {known}" if known else None


def _contradiction(root: str, feature: Feature, state: YamlFile, plan: YamlFile) -> Fault | None:
    """Of two files, each valid by itself, that contradict each other, the one that history does not confirm."""
    why = error_of(FORMAT.problems_together({"state": state.value, "plan": plan.value}))
    if why is None:
        return None
    active = words.current_state({"state": state.value}).get("active_task")
    try:
        plan_of_history = rebuild.rebuild_feature(root, feature).plan
    except HoldfastError:
        plan_of_history = {}
    is_known = any(task.get("task_id") == active for _, task in words.tasks_with_phases({"plan": plan_of_history}))
    return Fault(feature.plan if is_known else feature.state, "damaged", why, feature.id)


def _check_file(
    path: str, feature_id: str | None, wrong: Callable[[YamlFile], str | None]
) -> tuple[YamlFile | None, Fault | None]:
    """A file's content if nothing is wrong with it, else the fault."""
    try:
        file = yaml_files.load(path)
        if file is None:
            return None, Fault(path, "missing", "", feature_id)
        why = wrong(file)
        return (file, None) if why is None else (None, Fault(path, "damaged", why, feature_id))
    except Damaged as error:
        return None, Fault(path, "damaged", error.message, feature_id)
    except Conflict as error:
        return None, Fault(path, "unmerged", error.message, feature_id)
    except HoldfastError as error:
        return None, Fault(path, "unreadable", error.message, feature_id)


def error_of(problems: list[Problem]) -> str | None:
    """The first error in words, and how many more there are; None without errors."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return None
    more = f" (and {count(len(errors) - 1, 'more problem')})" if len(errors) > 1 else ""
    return f"{document_paths.format_place(errors[0].place)} {errors[0].message}{more}"


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────


def history_warnings(feature: Feature) -> list[Fault]:
    """What is doubtful about a history, which is never changed."""
    try:
        index = history.read_index(feature.history, strict=True)
    except HoldfastError as error:
        return [Fault(feature.history, "unreadable", error.message, feature.id)]
    return [Fault(feature.history, kind, why, feature.id) for kind, why in _index_warnings(index)]


def _index_warnings(index: HistoryIndex) -> list[tuple[Kind, str]]:
    warnings: list[tuple[Kind, str]] = []
    by_kind: tuple[tuple[Kind, Faults, str], ...] = (
        ("unused", index.unreadable, "that cannot be read"),
        ("changed", index.changed, "changed since Holdfast wrote it"),
    )
    for kind, faults, why in by_kind:
        if faults.number:
            warnings.append((kind, f"has {count(faults.number, 'line')} {why}: {_listed(faults)}"))
    if index.wrong.number:
        number = count(index.wrong.number, "line")
        warnings.append(
            ("unused", f"has {number} that the contract does not allow: line {index.wrong.first[0]}, {index.why}")
        )
    if index.untaken is not None:
        most = f"{limits.MAX_DOCUMENT_SIZE >> 20} MiB"
        warnings.append(
            (
                "large",
                f"has more than {most} of lines by other programs: those from line {index.untaken} on are ignored",
            )
        )
    if index.lacking is not None:
        number = count(index.lacking.number, "event")
        spans = [
            str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
            for span in index.lacking.spans
        ]
        warnings.append(
            ("lacking", f"lacks {number} of session {index.lacking.session[:8]}: number {', '.join(spans)}")
        )
    return warnings


def _listed(faults: Faults) -> str:
    more = f" and {faults.number - _SHOWN} more" if faults.number > _SHOWN else ""
    return f"line {', '.join(map(str, faults.first[:_SHOWN]))}{more}"


# ── next to the features ──────────────────────────────────────────────────────────────────────


def root_faults(root: str) -> list[Fault]:
    """What is wrong with the registry, or missing next to it."""
    fault = registry_fault(root)
    faults_here = [] if fault is None else [fault]
    if fault is None:
        named = [str(entry.get("feature_id")) for entry in registry.entries(root)]
        present = {feature.id for feature in layout.features(root)}
        path = layout.registry(root)
        faults_here += [
            Fault(path, "unlisted", "", feature.id)
            for feature in layout.undeleted_features(root)
            if feature.id not in named
        ]
        faults_here += [
            Fault(path, "absent", f"lists {name}, which has no directory here", name)
            for name in named if name not in present
        ]  # fmt: skip
    if lacks_readme(root):
        faults_here.append(Fault(layout.readme(root), "missing"))
    return faults_here


def lacks_readme(root: str) -> bool:
    """Whether a directory in use lacks its README."""
    used = os.path.lexists(layout.registry(root)) or layout.undeleted_features(root)
    return bool(used) and not os.path.lexists(layout.readme(root))


def registry_fault(root: str) -> Fault | None:
    path = layout.registry(root)
    _, fault = _check_file(path, None, lambda file: _in_registry(file, path))
    return None if fault is not None and fault.kind == "missing" and not layout.undeleted_features(root) else fault


def _in_registry(file: YamlFile, path: str) -> str | None:
    registry.entries_in(file, path)
    return error_of(FORMAT.problems(file.value, REGISTRY))
