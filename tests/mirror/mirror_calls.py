"""Calls the program in this process as a script does, for the tests of mirrors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main


class Calls:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self._capsys = capsys
        monkeypatch.setenv("HOLDFAST_HOME", str(root / "home"))
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root))
        monkeypatch.chdir(self.project)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(list(words))
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        assert "unexpected happened" not in err
        return code, out, err

    def json(self, *words: str, code: int = 0) -> Any:
        exit_code, out, err = self(*words, "--json")
        assert (exit_code, err) == (code, ""), (out, err)
        assert out.count("\n") == 1
        document = json.loads(out)
        assert document["holdfast"] == 1
        return document
