"""F9, F11 and F15 for hooks: hostile words and secrets in every field of every payload of every agent.

The payloads are those of the conformance suite, one field at a time replaced. Nothing stops, nothing is made outside
the home, screens show nothing raw, and of secrets not one byte is left.
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
from tests.faults.harness.figures import tell
from tests.faults.program import tree, typed
from tests.faults.test_hostile_ids import PARTS
from tests.faults.test_hostile_text import PIECES, raw_characters
from tests.support.scale import scale

SAMPLES = Path(__file__).parent.parent / "conversations" / "payloads"
# Names: who speaks, where, of which file, with which model. The store keeps names; words are cut.
OWN = {"session_id", "sessionId", "taskId", "conversation_id", "rootSessionId", "cwd", "working_dir",
       "workspaceRoots",
       "workspace_roots", "rootPath", "hook_event_name", "hookName", "event", "type", "tool_name", "toolName",
       "agent_id", "agentId", "parent_agent_id", "tool_use_id", "tool_call_id", "id", "turn_id", "callID",
       "agent_transcript_path", "parent_session_id", "timestamp", "name", "matcher_context", "generation_id", "model",
       "to_model", "from_model", "provider", "slug", "permission_mode", "composer_mode", "agent_type",
       "subagent_type", "agent_name", "call_id", "parentAgentId",
       "parent_conversation_id", "file_path", "filePath", "path", "modified_files",
       "file", "target_file", "permissionMode", "agent_mode", "mode", "source", "transcript_path"}  # fmt: skip
Place = tuple[str | int, ...]


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def samples(agent: str) -> list[Sample]:
    return samples_in(str(SAMPLES / agent))


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Where a payload holds something that is not a list and no object."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*here, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*here, number))
    else:
        yield here


def replaced(payload: Any, place: Place, by: Any) -> Any:
    made = copy.deepcopy(payload)
    at = made
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = by
    return made


def here(payload: Any, hooked: Hooked) -> Any:
    """The same, said in our project."""
    return json.loads(json.dumps(payload).replace("/home/anna/shop", str(hooked.project)))


def leave(hooked: Hooked, agent: str, payload: Any) -> None:
    path = Path(spool.add_payload(str(hooked.home), agent, "user", 1, json.dumps(payload).encode()))
    leave.count += 1  # type: ignore[attr-defined]
    path.rename(path.with_name(f"{agent}.user.1.{2**30 + leave.count}"))  # type: ignore[attr-defined]


leave.count = 0  # type: ignore[attr-defined]


def take_in(hooked: Hooked) -> None:
    while spool.list_entries(str(hooked.home)):
        hooked.take_in()


@pytest.mark.parametrize("agent", NAMES)
def test_hostile_words_in_every_field(hooked: Hooked, agent: str) -> None:
    """Whatever stands where: everything is taken in or put aside, and no file is made anywhere else."""
    chance = random.Random(agent)
    values = [*HOSTILE, *PARTS, *PIECES]
    count = 0
    (hooked.root / "precious").write_text("precious")
    for sample in samples(agent):
        payload = here(sample.payload, hooked)
        every = list(places(payload))
        for place in every if scale(0, 1, 1) else chance.sample(every, min(2, len(every))):
            for value in chance.sample(values, scale(1, 3, 40)):
                leave(hooked, agent, replaced(payload, place, value))
                count += 1
        take_in(hooked)
    assert sorted(os.listdir(hooked.root)) == ["home", "precious", "project"]
    assert tree(hooked.project) == {}
    assert {path.name for path in hooked.home.iterdir()} <= {
        "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened", "errors.log",
    }  # fmt: skip
    troubles = [name for name in hooked.noted() if "names no conversation" not in name and "JSON object" not in name]
    assert troubles == [], "a payload that could not be understood, or taken in"
    hooked.sound()
    for words in (("history", "--all-projects"), ("status",), ("log",), ("briefing",)):
        answer = hooked.call(*words)
        typed(answer)
        assert not raw_characters(answer.out + answer.err), words
    tell(fault="F11", agent=agent, payloads=count)


def secret(number: int) -> str:
    return f"ghp_{number:08d}" + "c4n4ry0" * 4


@pytest.mark.parametrize("agent", NAMES)
def test_secrets_in_every_field(hooked: Hooked, agent: str) -> None:
    """A token in a prompt, a command, a to-do, an error, a field nobody knows: not a byte of it is kept."""
    with hooked.keeper() as keeper:
        keeper.home.prepare()
    (hooked.home / "glances").mkdir(mode=0o700)
    number = 0
    for sample in samples(agent):
        payload = here(sample.payload, hooked)
        every = [place for place in places(payload) if not OWN & {*place}]
        said = [replaced(payload, place, f"it is {secret(number + at)}, use it") for at, place in enumerate(every)]
        number += len(said)
        said.append({**payload, "unknown": {"deep": [secret(number)]}, secret(number + 1): 1})
        number += 2
        for item in said:
            leave(hooked, agent, item)
        take_in(hooked)
    assert spool.list_entries(str(hooked.home)) == []
    assert number > 50
    found = {
        path.name
        for path in hooked.home.rglob("*")
        if path.is_file() and spool.UNREAD not in path.parts and b"c4n4ry0" in path.read_bytes()
    }
    assert found == set()
    assert spool.list_unread(str(hooked.home)) == [] or agent in ("codex", "cline", "copilot", "goose", "cursor")
    tell(fault="F15", agent=agent, secrets=number)
