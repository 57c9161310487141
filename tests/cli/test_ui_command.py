"""`holdfast ui`: problems are reported in the terminal before anything is served."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.support.command_line import Calling


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def test_ui_refuses_an_impossible_home(cli: Calling) -> None:
    """It shows no empty dashboard."""
    (cli.project / "file").write_text("in the way")
    cli.patch.setenv("HOLDFAST_HOME", str(cli.project / "file" / "home"))
    error = cli.refused(cli("ui", "--no-open").code, "ui", "--no-open")
    assert "file/home" in error["message"]
    cli.patch.setenv("HOLDFAST_HOME", str(cli.project / "file"))
    assert cli("ui", "--no-open").code != 0


def test_ui_reports_a_damaged_store(cli: Calling) -> None:
    cli("start", "Build the shop")
    (cli.home / "store.db").write_bytes(b"junk")
    assert cli.refused(6, "ui", "--no-open")["kind"] == "damaged"


@pytest.mark.parametrize("port", ["99999", "65536", "0", "-1"])
def test_ui_refuses_an_invalid_port(cli: Calling, port: str) -> None:
    error = cli.refused(4, "ui", "--no-open", "--port", port)
    assert error["message"] == f"{port} is not a port number"
    assert "1 to 65535" in error["hint"]


def test_ui_without_its_extra_says_how_to_install_it(cli: Calling) -> None:
    find_spec = importlib.util.find_spec

    def find_all_but_uvicorn(name: str) -> ModuleSpec | None:
        return None if name == "uvicorn" else find_spec(name)

    cli.patch.setattr("importlib.util.find_spec", find_all_but_uvicorn)
    error = cli.refused(1, "ui", "--no-open")
    assert error["hint"] == "Install it: pip install 'holdfast[ui]' (from a clone: pip install '.[ui]')"
