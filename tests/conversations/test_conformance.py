"""Every agent passes the conformance suite with its recorded payloads."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.conformance import AgentConformance, samples_in

PAYLOADS = os.path.join(os.path.dirname(__file__), "payloads")


def _suite(name: str) -> type:
    where = os.path.join(PAYLOADS, name)
    body: dict[str, object] = {
        "__doc__": f"The suite for {name}.",
        "agent": index.load_adapter(name),
        "samples": samples_in(where) if os.path.isdir(where) else [],
    }
    return type(f"Test{name.capitalize()}", (AgentConformance,), body)


for _name in index.NAMES:
    if find_spec(f"holdfast.conversations.adapters.{_name}.hooks"):
        globals()[f"Test{_name.capitalize()}"] = _suite(_name)


@pytest.mark.parametrize("name", index.NAMES)
def test_adapter_has_the_registered_name(name: str) -> None:
    """Its record is found by that name, too."""
    if not find_spec(f"holdfast.conversations.adapters.{name}.hooks"):
        pytest.skip(f"{name} has no hooks yet")
    assert index.load_adapter(name).name == name
