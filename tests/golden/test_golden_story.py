"""The golden story covers every surface: additions to the program must be in it. It reads stored output only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.web.actions import DIALOGS, VERBS
from holdfast.web.api.endpoints import ENDPOINTS
from holdfast.web.app import PAGES, PARTS
from tests.golden.story import LEAVES

EXPECTED = Path(__file__).parent / "expected"
RECORD = {path.stem: path.read_text(encoding="utf-8") for path in EXPECTED.glob("*.txt")}
RAN = re.compile(r"^\w+:\w+ [\d-]+ [\d:]+ \$ (?:.*&& )?holdfast (.*)\n((?:  .*\n| j.*\n)*)", re.MULTILINE)
ONLY_REFUSED = {"store admit", "store dismiss", "store share", "store unshare", "store partition"}  # for servers
NO_DOCUMENT = {"hook", "mcp", "ui"}  # their output is in other chapters
NEVER_FAIL = {"hook", "statusline"}  # agents must continue whatever happens
SERVERS = {"mcp", "ui"}


PRINTED = [ran for text in RECORD.values() for ran in RAN.findall(text) if not ran[0].endswith("--help")]


def runs(command: str) -> set[tuple[bool, bool]]:
    """How a command was run: as JSON or not, successfully or not."""
    named = re.compile(rf"{command}\b(?!-)")
    return {
        ("--json" in words, not re.search(r"^  = ", printed, re.MULTILINE))
        for words, printed in PRINTED
        if named.match(words)
    }


@pytest.mark.parametrize("command", LEAVES)
def test_story_runs_every_command_with_success_and_failure_as_text_and_json(command: str) -> None:
    wanted = set() if command in NEVER_FAIL else {(False, False), (True, False)}
    if command not in ONLY_REFUSED | SERVERS:
        wanted |= {(False, True)} if command in NO_DOCUMENT else {(False, True), (True, True)}
    assert wanted <= runs(command), f"add `holdfast {command}` to tests/golden/story.py, then: make golden-update"
    assert f"$ holdfast {command} --help\n" in RECORD["helps"]


@pytest.mark.parametrize("route", [*PAGES, *PARTS, *VERBS, *ENDPOINTS])
def test_story_asks_for_every_page_form_and_api_address(route: str) -> None:
    shape = re.sub(r"\\{\w+\\}", r"[^/\\s]+", re.escape(route))
    assert re.search(rf"^(?:POST )?{shape}(?:\?.*| .*)?\n= ", RECORD["dashboard"], re.MULTILINE)


@pytest.mark.parametrize("name", DIALOGS)
def test_story_opens_every_dialog(name: str) -> None:
    assert f"/dialog/{name}\n= 200" in RECORD["dashboard"]


def test_story_calls_every_tool_and_reads_every_resource_and_prompt() -> None:
    text = RECORD["mcp"]
    answers = [json.loads(body) for body in re.findall(r"^mcp < (\{\n.*?^\})$", text, re.MULTILINE | re.DOTALL)]
    offered = {kind: offer for answer in answers for kind, offer in answer.get("result", {}).items() if kind in KINDS}
    assert set(offered) == set(KINDS)
    for kind, (field, asked) in KINDS.items():
        for item in offered[kind]:
            assert asked.format(re.sub(r"\{\w+\}", "", item[field])) in text, f"{kind}: {item[field]}"


# By the name of a list: the key that names an item, and the request for it.
KINDS = {
    "tools": ("name", '"tools/call", "params": {{"name": "{}"'),
    "prompts": ("name", '"prompts/get", "params": {{"name": "{}"'),
    "resources": ("uri", '"resources/read", "params": {{"uri": "{}"'),
    "resourceTemplates": ("uriTemplate", '"resources/read", "params": {{"uri": "{}'),
}
