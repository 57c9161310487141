"""The layers of the design, held by a tool and not by memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from importlinter.application.use_cases import lint_imports
from importlinter.configuration import configure

ROOT = Path(__file__).parent.parent


def test_every_module_imports_only_from_its_own_layer_and_those_below(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The contracts in pyproject.toml hold."""
    configure()
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename=os.fspath(ROOT / "pyproject.toml"), cache_dir=os.fspath(tmp_path))
