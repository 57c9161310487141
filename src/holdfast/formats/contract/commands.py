"""`holdfast contract`: acknowledge a specification, verify acknowledgments, summarise the contract's directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError
from holdfast.core.wording import count, one_line
from holdfast.formats.mirror.contract import acknowledgment, layout
from holdfast.formats.mirror.contract.acknowledgment import Acknowledgment, Heading

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_MAX_HEADING_LEVEL = 2


class Acknowledged(msgspec.Struct, frozen=True):
    """An agent's acknowledgment; `holds` if it is of the specification as it is now."""

    agent: str
    date: str
    version: str
    checksum: str
    holds: bool


class FeatureSummary(msgspec.Struct, frozen=True):
    """What the files of a feature say; `problem` says why one of them could not be used."""

    feature_id: str
    status: str | None = None
    active_task: str | None = None
    model: str | None = None
    tasks_done: int = 0
    tasks: int = 0
    last_active: str | None = None
    problem: str | None = msgspec.field(default=None, name="trouble")


class ContractSummary(msgspec.Struct, frozen=True):
    directory: str
    spec: str
    version: str
    checksum: str
    headings: list[Heading]
    features: list[FeatureSummary]
    acknowledged: list[Acknowledged]
    problems: list[str]


def acknowledge(ws: Workspace, spec: str, agent: str | None, *, at: int | None = None) -> Acknowledgment:
    """Record that an agent (by default the acting one) acknowledges the specification."""
    now = ws.now() if at is None else at
    return acknowledgment.acknowledge(_root(ws), spec, agent or ws.recorder.actor, now=now)


def verify(ws: Workspace, spec: str, agent: str | None) -> list[Acknowledgment]:
    """The valid acknowledgments, of all agents or of one. Raises for an invalid one."""
    return acknowledgment.verify(_root(ws), spec, agent)


def summary(ws: Workspace, spec: str, agent: str | None) -> ContractSummary:
    """What the directory and the specification contain. A damaged file in the directory is reported, not raised."""
    root = _root(ws)
    text = acknowledgment.specification(spec)
    features: list[FeatureSummary] = []
    problems: list[str] = []
    sections: list[Acknowledgment] = []
    if layout.root_exists(root):
        features, problems = _features(root)
        try:
            sections = acknowledgment.read_acknowledgments(root)
        except HoldfastError as error:
            problems.append(error.message)
    return ContractSummary(
        root, text.file, text.version, text.checksum, text.headings, features,
        [
            Acknowledged(
                item.agent, item.date, item.version, item.checksum,
                (item.version, item.checksum.lower()) == (text.version, text.checksum),
            )
            for item in sections if agent in (None, item.agent)
        ],
        problems,
    )  # fmt: skip


def _root(ws: Workspace) -> str:
    return layout.root_of(ws.place.root)


def _features(root: str) -> tuple[list[FeatureSummary], list[str]]:
    from holdfast.formats.mirror.contract import feature_dirs, registry

    problems: list[str] = []
    entries: list[dict[str, Json]] = []
    try:
        feature_dirs.finish_interrupted(root)
        entries = registry.entries(root)
    except HoldfastError as error:
        problems.append(error.message)
    listed = {str(entry.get("feature_id")): entry for entry in entries}
    present = {feature.id for feature in layout.features(root)}
    return [
        _feature(root, name, listed.get(name, {}), name in present) for name in sorted({*present, *listed})
    ], problems


def _feature(root: str, name: str, entry: dict[str, Json], is_here: bool) -> FeatureSummary:
    from holdfast.formats.mirror.contract import feature_files

    status, last = _text(entry.get("status")), _text(entry.get("last_active"))
    if not is_here:
        return FeatureSummary(name, status, last_active=last, problem="its directory is missing")
    try:
        files = feature_files.read(root, name)
    except HoldfastError as error:
        return FeatureSummary(name, status, last_active=last, problem=error.message)
    now = files.state.value.get("current_state") if files.state else None
    now = now if isinstance(now, dict) else {}
    statuses = _statuses(files.plan.value if files.plan else {})
    missing = [word for word, file in (("state", files.state), ("plan", files.plan)) if file is None]
    return FeatureSummary(
        name, status, _text(now.get("active_task")), _text(now.get("model_in_use")),
        statuses.count("completed"), len(statuses), last or _text(now.get("last_updated")),
        f"its {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else None,
    )  # fmt: skip


def _statuses(plan: dict[str, Json]) -> list[str]:
    phases = plan.get("phases")
    statuses: list[str] = []
    for phase in phases if isinstance(phases, list) else []:
        tasks = phase.get("tasks") if isinstance(phase, dict) else None
        statuses += [
            str(task.get("status")) for task in (tasks if isinstance(tasks, list) else []) if isinstance(task, dict)
        ]
    return statuses


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


# ── as Markdown ──────────────────────────────────────────────────────────────────────────────────────────


def as_markdown(summary: ContractSummary) -> str:
    """The summary as Markdown."""
    lines = [
        "# Contract summary", "",
        f"- Specification: {one_line(summary.spec)}, version {summary.version}",
        f"- Checksum (SHA-256): {summary.checksum}",
        f"- Directory: {one_line(summary.directory)}",
        "", "## What the specification covers", "",
    ]  # fmt: skip
    covered = [heading for heading in summary.headings if heading.level <= _MAX_HEADING_LEVEL]
    lines += [f"{'  ' * (heading.level - 1)}- {one_line(heading.text)}" for heading in covered] or [
        "It has no headings."
    ]
    lines += [
        "",
        "## Features",
        "",
        *([_feature_line(feature) for feature in summary.features] or ["There are none yet."]),
    ]
    lines += [
        "",
        "## Acknowledged by",
        "",
        *([_agent_line(acknowledged) for acknowledged in summary.acknowledged] or ["Nobody yet."]),
    ]
    if summary.problems:
        lines += ["", "## Needs attention", "", *(f"- {one_line(problem)}" for problem in summary.problems)]
    return "\n".join(lines) + "\n"


def _feature_line(feature: FeatureSummary) -> str:
    facts = [one_line(feature.status) if feature.status else "not listed"]
    if feature.tasks:
        facts.append(f"{feature.tasks_done} of {count(feature.tasks, 'task')} done")
    if feature.active_task:
        facts.append(f"working on {one_line(feature.active_task)}")
    if feature.model:
        facts.append(f"model {one_line(feature.model)}")
    if feature.last_active:
        facts.append(f"last active {one_line(feature.last_active)}")
    if feature.problem:
        facts.append(f"**{one_line(feature.problem)}**")
    return f"- `{one_line(feature.feature_id)}`: {', '.join(facts)}"


def _agent_line(entry: Acknowledged) -> str:
    fits = "matches" if entry.holds else "**does not match the current text**"
    return f"- {one_line(entry.agent)}, {one_line(entry.date)}, version {one_line(entry.version)}: {fits}"
