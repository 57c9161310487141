"""F9, F11 and F15 for hooks: hostile text and secrets in every field of every payload of every agent.

The payloads are those of the conformance suite, with one field at a time replaced. Nothing fails, nothing is created
outside the home, terminals get no raw characters, and not one byte of a secret is stored.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.conformance import HOSTILE, Sample, samples_in
from holdfast.workspace import spool
from tests.faults.connected_agent import Hooked
from tests.faults.harness.figures import record_figures
from tests.faults.sandbox import assert_well_formed, tree
from tests.faults.test_hostile_ids import PARTS
from tests.faults.test_hostile_text import PIECES, raw_characters
from tests.support.scale import scale

SAMPLES = Path(__file__).parent.parent / "conversations" / "payloads"
# Fields with ids, paths and models: the store keeps these; secrets are removed from text.
NAME_FIELDS = {"session_id", "sessionId", "taskId", "conversation_id", "rootSessionId", "cwd", "working_dir",
       "workspaceRoots",
       "workspace_roots", "rootPath", "hook_event_name", "hookName", "event", "type", "tool_name", "toolName",
       "agent_id", "agentId", "parent_agent_id", "tool_use_id", "tool_call_id", "id", "turn_id", "callID",
       "agent_transcript_path", "parent_session_id", "timestamp", "name", "matcher_context", "generation_id", "model",
       "to_model", "from_model", "provider", "slug", "permission_mode", "composer_mode", "agent_type",
       "subagent_type", "agent_name", "call_id", "parentAgentId",
       "parent_conversation_id", "file_path", "filePath", "path", "modified_files",
       "file", "target_file", "permissionMode", "agent_mode", "mode", "source", "transcript_path"}  # fmt: skip
FieldPath = tuple[str | int, ...]


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def samples(agent: str) -> list[Sample]:
    return samples_in(str(SAMPLES / agent))


def field_paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths of all scalar values of a payload."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from field_paths(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from field_paths(item, (*path, number))
    else:
        yield path


def replaced(payload: Any, path: FieldPath, by: Any) -> Any:
    made = copy.deepcopy(payload)
    at = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = by
    return made


def for_project(payload: Any, hooked: Hooked) -> Any:
    """The same payload in our project."""
    return json.loads(json.dumps(payload).replace("/home/anna/shop", str(hooked.project)))


def add_payload(hooked: Hooked, agent: str, payload: Any) -> None:
    path = Path(spool.add_payload(str(hooked.home), agent, "user", 1, json.dumps(payload).encode()))
    add_payload.count += 1  # type: ignore[attr-defined]
    path.rename(path.with_name(f"{agent}.user.1.{2**30 + add_payload.count}"))  # type: ignore[attr-defined]


add_payload.count = 0  # type: ignore[attr-defined]


def drain(hooked: Hooked) -> None:
    while spool.list_entries(str(hooked.home)):
        hooked.drain()


@pytest.mark.parametrize("agent", NAMES)
def test_hook_survives_hostile_text_in_every_field(hooked: Hooked, agent: str) -> None:
    """Every payload is recorded or set aside, and no file is created anywhere else."""
    rng = random.Random(agent)
    values = [*HOSTILE, *PARTS, *PIECES]
    count = 0
    (hooked.root / "precious").write_text("precious")
    for sample in samples(agent):
        payload = for_project(sample.payload, hooked)
        every = list(field_paths(payload))
        for path in every if scale(0, 1, 1) else rng.sample(every, min(2, len(every))):
            for value in rng.sample(values, scale(1, 3, 40)):
                add_payload(hooked, agent, replaced(payload, path, value))
                count += 1
        drain(hooked)
    assert sorted(os.listdir(hooked.root)) == ["home", "precious", "project"]
    assert tree(hooked.project) == {}
    assert {home_path.name for home_path in hooked.home.iterdir()} <= {
        "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened", "errors.log",
    }  # fmt: skip
    errors = [
        name for name in hooked.logged_errors() if "names no conversation" not in name and "JSON object" not in name
    ]
    assert errors == [], "a payload could not be parsed, or recorded"
    hooked.assert_sound()
    for words in (("history", "--all-projects"), ("status",), ("log",), ("briefing",)):
        answer = hooked.call(*words)
        assert_well_formed(answer)
        assert not raw_characters(answer.out + answer.err), words
    record_figures(fault="F11", agent=agent, payloads=count)


def secret(number: int) -> str:
    return f"ghp_{number:08d}" + "c4n4ry0" * 4


@pytest.mark.parametrize("agent", NAMES)
def test_hook_stores_no_secret_of_any_field(hooked: Hooked, agent: str) -> None:
    """A token in a prompt, a command, a to-do, an error, an unknown field."""
    with hooked.keeper() as keeper:
        keeper.home.prepare()
    (hooked.home / "glances").mkdir(mode=0o700)
    number = 0
    for sample in samples(agent):
        payload = for_project(sample.payload, hooked)
        every = [path for path in field_paths(payload) if not NAME_FIELDS & {*path}]
        payloads = [replaced(payload, path, f"it is {secret(number + at)}, use it") for at, path in enumerate(every)]
        number += len(payloads)
        payloads.append({**payload, "unknown": {"deep": [secret(number)]}, secret(number + 1): 1})
        number += 2
        for item in payloads:
            add_payload(hooked, agent, item)
        drain(hooked)
    assert spool.list_entries(str(hooked.home)) == []
    assert number > 50
    leaking = {
        home_path.name
        for home_path in hooked.home.rglob("*")
        if home_path.is_file() and spool.UNREAD not in home_path.parts and b"c4n4ry0" in home_path.read_bytes()
    }
    assert leaking == set()
    assert spool.list_unread(str(hooked.home)) == [] or agent in ("codex", "cline", "copilot", "goose", "cursor")
    record_figures(fault="F15", agent=agent, secrets=number)
