"""Import paths that the documentation named in earlier versions still work, and say where to go."""

from __future__ import annotations

import importlib

import pytest

from holdfast.keeper.session import SessionHandle

MOVED = {
    "holdfast.capture.conformance": ("AgentConformance", "holdfast.conversations.conformance"),
    "holdfast.teleport.remotes.conformance": ("RemoteConformance", "holdfast.sync.remotes.conformance"),
}


@pytest.mark.parametrize("old", MOVED)
def test_an_earlier_path_forwards_with_a_deprecation_warning(old: str) -> None:
    """The same class, and a warning that names the new path."""
    name, new = MOVED[old]
    with pytest.warns(DeprecationWarning, match=new):
        moved = importlib.import_module(old)
    assert getattr(moved, name) is getattr(importlib.import_module(new), name)


def test_hook_scripts_in_homes_find_what_they_import() -> None:
    """Scripts written by earlier versions stay in people's homes."""
    assert callable(importlib.import_module("holdfast.cli.hooking").main)
    assert callable(importlib.import_module("holdfast.cli.entry").main)


@pytest.mark.parametrize("module", ["holdfast.keeper", "holdfast.keeper.session"])
def test_a_session_handle_is_found_by_its_earlier_name(module: str) -> None:
    """Programs name it in their annotations."""
    with pytest.warns(DeprecationWarning, match="SessionHandle"):
        assert importlib.import_module(module).KeptSession is SessionHandle
