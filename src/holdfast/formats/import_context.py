"""The context of an import on this device: project, device, clock and zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.formats.base import ImportContext
from holdfast.machine.wall import local_offset
from holdfast.workspace import projects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.events import ProjectFacts
    from holdfast.formats.base import Format
    from holdfast.workspace.workspace import Workspace


def import_context(ws: Workspace, project: ProjectFacts | None = None) -> ImportContext:
    """The context with this project, by default the one observed here."""
    return ImportContext(
        project=projects.observe(ws.place, "") if project is None else project,
        device=ws.device(),
        now=ws.now(),
        offset=local_offset,
        timer=ws.settings.timer,
        models=models(ws),
    )


def models(ws: Workspace) -> dict[str, str]:
    """Names for models that contract has no name for."""
    return {"*": str(ws.settings["contract.model"])}


def configured(rules: Format, models: Mapping[str, str]) -> Format:
    """The format with its settings."""
    if rules.name != "contract" or not models:
        return rules
    from holdfast.formats.contract import configured as contract

    return contract(models)
