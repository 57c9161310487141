"""Models without a name in the contract are mirrored and exported as the setting says, and that is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.formats.contract import FORMAT, configured
from holdfast.formats.contract.fields import model_name, model_note
from tests.mirror.mirror_calls import Calls


@pytest.fixture
def hf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(tmp_path, monkeypatch, capsys)


def feature(hf: Calls) -> Path:
    (folder,) = [path for path in (hf.project / ".ai-session").iterdir() if path.is_dir()]
    return folder


def models(hf: Calls) -> set[str]:
    lines = (feature(hf) / "history.jsonl").read_text().splitlines()
    return {json.loads(line)["model"] for line in lines}


def test_own_model_name_precedes_the_setting_and_that_the_default() -> None:
    assert model_name("claude-opus-4", {"*": "gemini"}) == "opus"
    assert model_name("gpt-5", {"gpt-5": "opus", "*": "gemini"}) == "opus"
    assert model_name("gpt-5", {"*": "gemini"}) == "gemini"
    assert model_name("gpt-5", {"*": "gpt-5"}) == "sonnet"
    assert model_name(None, {}) == "sonnet"
    assert "gemini" in str(model_note("gpt-5", {"*": "gemini"}))
    assert model_note("claude-sonnet-5", {"*": "gemini"}) is None
    assert configured({"*": "opus"}).models != FORMAT.models


@pytest.mark.parametrize("value", ["gpt-5", "", "Opus"])
def test_invalid_setting_is_refused(value: str, hf: Calls) -> None:
    error = hf.json("config", "set", "contract.model", value, code=4)["error"]
    assert "gemini, opus, sonnet" in error["message"]


def test_mirror_uses_the_setting_and_reports_it_once(hf: Calls) -> None:
    hf.json("config", "set", "contract.model", "opus")
    hf.json("start", "Build the shop", "--model", "gpt-5")
    _, _, err = hf("mirror", "on", "contract")
    assert "gpt-5" in err
    assert "opus" in err
    assert 'model_in_use: "opus"' in (feature(hf) / "state.yaml").read_text()
    assert models(hf) == {"opus"}
    for _ in range(2):
        assert "gpt-5" not in hf("note", "something")[2]
    assert hf.json("status")["session"]["model"] == "gpt-5"
    code, out, _ = hf("validate", ".")
    assert code == 0, out


def test_command_that_first_writes_a_mapped_model_reports_it(hf: Calls) -> None:
    hf.json("mirror", "on", "contract")
    assert "written as sonnet" in " ".join(hf("start", "Build the shop", "--model", "gpt-5")[2].split())


def test_changed_setting_is_no_edit(hf: Calls) -> None:
    """The files are rewritten with the new name; the log keeps the real one."""
    hf.json("mirror", "on", "contract")
    hf.json("start", "Build the shop", "--model", "gpt-5")
    hf.json("config", "set", "contract.model", "gemini")
    before = len(hf.json("log")["events"])
    assert hf.json("status")["session"]["model"] == "gpt-5"
    assert 'model_in_use: "gemini"' in (feature(hf) / "state.yaml").read_text()
    plan = feature(hf) / "implementation-plan.yaml"
    plan.write_text(plan.read_text().replace("Build the shop", "Sell the shop"))
    session = hf.json("status")["session"]
    assert (session["model"], session["goal"]) == ("gpt-5", "Sell the shop")
    assert len(hf.json("log")["events"]) > before


def test_export_uses_the_setting_and_notes_it(hf: Calls) -> None:
    hf.json("config", "set", "contract.model", "gemini")
    hf.json("start", "Build the shop", "--model", "gpt-5")
    document = hf.json("export", "--format", "contract")
    assert document["document"]["state"]["current_state"]["model_in_use"] == "gemini"
    assert any("gpt-5" in str(note) for note in document["notes"])
    hf.json("start", "Sell the shop", "--model", "opus", "--replace")
    assert hf.json("export", "--format", "contract")["notes"] == []


def test_mapped_model_name_does_not_become_the_sessions_own(hf: Calls) -> None:
    """Neither by an import nor by a restored file."""
    hf.json("config", "set", "contract.model", "opus")
    hf.json("mirror", "on", "contract")
    hf.json("start", "Build the shop", "--model", "gpt-5")
    hf.json("import", str(feature(hf)))
    assert hf.json("status")["session"]["model"] == "gpt-5"
    hf.json("mirror", "off", "contract")
    (feature(hf) / "state.yaml").unlink()
    hf.json("doctor", "--repair")
    assert 'model_in_use: "opus"' in (feature(hf) / "state.yaml").read_text()
    hf.json("mirror", "on", "contract")
    assert hf.json("status")["session"]["model"] == "gpt-5"
