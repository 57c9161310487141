"""The context's use as it is met in the wild, put right."""

from __future__ import annotations

from holdfast.core.canonical import Json
from holdfast.core.modes import WINDOW, percent
from holdfast.formats.interface import Place
from holdfast.formats.orchestrator.mending import Mending, wrong
from holdfast.formats.schema import kind_of

_NAMES = {"estimated_tokens": ("tokens", "tokens_used"), "percentage": ("percent",)}


def usage(value: Json, mending: Mending) -> Json:
    place: Place = ("context_usage",)
    if value is None:
        mending.note(place, "is missing, taken as nothing used")
        return {"estimated_tokens": 0, "percentage": 0, "last_compression": None}
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        mending.note(place, "taken as a number of tokens")
        value = {"estimated_tokens": value}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    made = mending.renamed(value, _NAMES, place)
    tokens = mending.whole(made.get("estimated_tokens"), (*place, "estimated_tokens"))
    if tokens is None:
        mending.note((*place, "estimated_tokens"), "is missing, taken as 0")
    made["estimated_tokens"] = tokens or 0
    made["percentage"] = _share(made.get("percentage"), tokens or 0, mending)
    if "last_compression" in made:
        made["last_compression"] = mending.time(made["last_compression"], (*place, "last_compression"))
    return made


def _share(value: Json, tokens: int, mending: Mending) -> float:
    place: Place = ("context_usage", "percentage")
    found = mending.number(value, place)
    if found is None:
        mending.note(place, f"is missing, taken as the share of {WINDOW:,} tokens")
        found = round(percent(tokens, WINDOW))
    if 0 <= found <= 100:
        return found
    mending.note(place, "must be 0 to 100, taken as the nearer of them")
    return 0 if found < 0 else 100
