"""The location and content of Holdfast's plugin for opencode."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.opencode.settings import SETTINGS, render_plugin
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.workspace.agent_dirs import AgentDirs

PLACES = AgentDirs("/home/anna", "/home/anna/shop")


def test_plugin_is_one_file() -> None:
    """User and project have their own directories; the user's moves with XDG."""
    (user,) = SETTINGS.changes(PLACES, "user", str)
    (project,) = SETTINGS.changes(PLACES, "project", str)
    moved = PLACES._replace(environ={"XDG_CONFIG_HOME": "/conf"})
    assert Path(user.path) == Path("/home/anna/.config/opencode/plugins/holdfast.js")
    assert Path(project.path) == Path("/home/anna/shop/.opencode/plugins/holdfast.js")
    assert Path(SETTINGS.changes(moved, "user", str)[0].path) == Path("/conf/opencode/plugins/holdfast.js")
    assert user.content == project.content
    assert not user.entries


@given(st.text(max_size=40))
def test_command_lines_stay_text(line: str) -> None:
    """Each is one escaped string in the file, whatever it contains."""
    file = render_plugin(lambda manner: f"{manner} {line}").decode()
    commands = dict(re.findall(r"^const (TELL|STIR|ASK) = (.+)$", file, re.MULTILINE))
    assert {name: json.loads(text) for name, text in commands.items()} == {
        "TELL": f"tell {line}", "STIR": f"stir {line}", "ASK": f"ask {line}",
    }  # fmt: skip
    assert not re.search(r'"@[a-z]+@"', file.replace(json.dumps(line), ""))


def test_plugin_asks_for_answered_events() -> None:
    file = render_plugin(str).decode()
    for event in AGENT_PROGRAMS["opencode"].occasions:
        assert f'"{event}"' in file


def test_variables_are_obstacles() -> None:
    """Variables that disable plugins are named, unless set to false."""
    assert SETTINGS.obstacles(PLACES, "user") == ()
    pure = PLACES._replace(environ={"OPENCODE_PURE": "1"})
    alone = PLACES._replace(environ={"OPENCODE_DISABLE_PROJECT_CONFIG": "true", "OPENCODE_PURE": "0"})
    assert "OPENCODE_PURE" in SETTINGS.obstacles(pure, "user")[0]
    assert SETTINGS.obstacles(alone, "user") == ()
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" in SETTINGS.obstacles(alone, "project")[0]
