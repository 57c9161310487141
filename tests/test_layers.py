"""The layers of the design, held by a tool and not by memory."""

from __future__ import annotations

import ast
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


def test_no_package_defines_a_name_that_one_of_its_modules_has() -> None:
    """Once the module is imported, it takes the place of the function or class in its package."""
    hidden = []
    for init in sorted((ROOT / "src/holdfast").rglob("__init__.py")):
        modules = {
            path.stem for path in init.parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        defined = {
            statement.name
            for statement in ast.parse(init.read_text("utf-8")).body
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        }
        hidden += [f"{init.parent.relative_to(ROOT)}: {name}" for name in sorted(modules & defined)]
    assert hidden == []
