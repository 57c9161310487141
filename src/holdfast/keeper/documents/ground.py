"""What a document of another program leaves open, as it is here: project, device, clock and zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.formats.interface import Ground
from holdfast.keeper import projects
from holdfast.machine.wall import local_offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.vocabulary import Project
    from holdfast.formats.interface import Format
    from holdfast.keeper.keeper import Keeper


def ground(keeper: Keeper, project: Project | None = None) -> Ground:
    """`project` as the store knows it; without one, as it is observed here."""
    return Ground(
        project=projects.observe(keeper.place, "") if project is None else project,
        device=keeper.device(),
        now=keeper.now(),
        offset=local_offset,
        timer=keeper.settings.timer,
        models=models(keeper),
    )


def models(keeper: Keeper) -> dict[str, str]:
    """How models are named that contract has no name for."""
    return {"*": str(keeper.settings["contract.model"])}


def configured(rules: Format, models: Mapping[str, str]) -> Format:
    """The format as the settings have it."""
    if rules.name != "contract" or not models:
        return rules
    from holdfast.formats.contract import configured as contract

    return contract(models)
