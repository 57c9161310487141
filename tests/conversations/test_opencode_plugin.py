"""The opencode plugin, loaded by a real node with our own event bus and a real command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.adapters.opencode.hooks import AGENT
from holdfast.conversations.adapters.opencode.settings import render_plugin

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on the PATH")

RECORD = """
import os, sys, time
directory, manner = sys.argv[1], sys.argv[2]
payload = sys.stdin.buffer.read()
with open(os.path.join(directory, f"{time.time_ns()}.{manner}"), "wb") as file:
    file.write(payload)
if manner == "ask":
    try:
        with open(os.path.join(directory, "answer"), "rb") as file:
            sys.stdout.buffer.write(file.read())
    except FileNotFoundError:
        pass
"""
DRIVER = """
import { Holdfast } from "./holdfast.mjs"
const toasts = []
const client = { tui: { showToast: async (one) => void toasts.push(one.body.message) } }
const hooks = await Holdfast({ client, directory: "/home/anna/shop" })
const bus = (type, properties, id = "evt_" + type) => hooks.event({ event: { id, type, properties } })
const title = "New session - 2026-11-15T16:05:04Z"
const info = (id, more = {}) => ({ id, directory: "/home/anna/shop", title, ...more })
const prompt = async (sessionID, text, parts = [{ id: "prt_1", type: "text", text }]) => {
  const output = { message: { id: "msg_" + text, agent: "build", model: { providerID: "p", modelID: "m" } }, parts }
  await hooks["chat.message"]({ sessionID }, output)
  return output.parts
}
const result = await (async () => { SCENARIO })()
console.log(JSON.stringify({ result, toasts }))
"""


class PluginDriver:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.inbox = top / "heard"
        self.inbox.mkdir()
        (top / "record.py").write_text(RECORD, encoding="utf-8")

    def command(self, manner: str) -> str:
        return f'"{sys.executable}" -I -S "{self.top / "record.py"}" "{self.inbox}" {manner}'

    def run(self, scenario: str, command: Any = None) -> dict[str, Any]:
        (self.top / "holdfast.mjs").write_bytes(render_plugin(command or self.command))
        (self.top / "driver.mjs").write_text(DRIVER.replace("SCENARIO", scenario), encoding="utf-8")
        assert NODE is not None
        done = subprocess.run(
            [NODE, "driver.mjs"], cwd=self.top, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        lines = done.stdout.splitlines()
        result: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return result

    def payloads(self) -> list[tuple[str, dict[str, Any]]]:
        names = sorted(path.name for path in self.inbox.iterdir() if path.name != "answer")
        return [(name.split(".")[1], json.loads((self.inbox / name).read_bytes())) for name in names]


@pytest.fixture
def plugin_driver(tmp_path: Path) -> PluginDriver:
    return PluginDriver(tmp_path)


def test_events_are_handed_over_in_their_order(plugin_driver: PluginDriver) -> None:
    """A turn with a tool, to-dos and an answer, each in its hook mode."""
    plugin_driver.run(
        """
        bus("session.created", { info: info("ses_1") })
        await prompt("ses_1", "hello")
        await hooks["tool.execute.before"]({ tool: "bash", sessionID: "ses_1", callID: "c1" },
          { args: { command: "ls" } })
        await hooks["tool.execute.after"]({ tool: "bash", sessionID: "ses_1", callID: "c1", args: { command: "ls" } },
          { title: "ls", metadata: { exit: 2, output: "x".repeat(100000) }, output: "nothing" })
        bus("todo.updated", { sessionID: "ses_1", todos: [{ content: "Sweep", status: "pending" }] })
        bus("message.part.updated", { part: { type: "text", sessionID: "ses_1", text: "Done.", time: { end: 1 } } })
        await hooks["chat.params"]({ model: { id: "m", providerID: "p", limit: { context: 1000 } } })
        bus("message.updated", { info: { id: "msg_2", sessionID: "ses_1", role: "assistant", modelID: "m",
          providerID: "p",
          time: { completed: 2 }, tokens: { input: 5, output: 6, cache: { read: 7, write: 0 } } } })
        bus("session.idle", { sessionID: "ses_1" })
        await hooks.dispose()
        """
    )
    payloads = plugin_driver.payloads()
    assert [(manner, line["hook_event_name"]) for manner, line in payloads] == [
        ("ask", "session.created"), ("ask", "chat.message"), ("tell", "tool.execute.before"),
        ("tell", "tool.execute.after"), ("tell", "todo.updated"), ("tell", "message.updated"),
        ("stir", "session.idle"), ("stir", "session.closed"),
    ]  # fmt: skip
    assert {line["session_id"] for _, line in payloads} == {"ses_1"}
    assert {line["cwd"] for _, line in payloads} == {"/home/anna/shop"}
    assert "x" * 100 not in json.dumps(payloads)
    signals = [signal for _, line in payloads for signal in AGENT.parse(line).signals]  # type: ignore[union-attr]
    kinds = [type(signal).__name__ for signal in signals]
    assert {"Opened", "Prompted", "Ran", "Planned", "Measured", "Replied", "Closed"} <= set(kinds)


def test_subagent_payload_names_its_conversation(plugin_driver: PluginDriver) -> None:
    """At any depth, with both ids and without a request."""
    plugin_driver.run(
        """
        bus("session.created", { info: info("ses_1") })
        bus("session.created", { info: info("ses_2", { parentID: "ses_1", agent: "general" }) }, "evt_2")
        bus("session.created", { info: info("ses_3", { parentID: "ses_2", agent: "general" }) }, "evt_3")
        await prompt("ses_3", "look")
        bus("session.error", { sessionID: "ses_3", error: { name: "APIError", data: { message: "down" } } })
        bus("session.idle", { sessionID: "ses_3" })
        await hooks.dispose()
        """
    )
    payloads = [
        (manner, entry["hook_event_name"], entry["session_id"], entry.get("agent_id"))
        for manner, entry in plugin_driver.payloads()
    ]
    assert ("tell", "chat.message", "ses_1", "ses_3") in payloads
    assert ("stir", "session.idle", "ses_1", "ses_3") in payloads
    assert [line for line in payloads if line[0] == "ask"] == [("ask", "session.created", "ses_1", None)]
    idle = next(entry for _, entry in plugin_driver.payloads() if entry["hook_event_name"] == "session.idle")
    assert idle["error"]["data"]["message"] == "down"


def test_answers_reach_the_agent_and_the_person(plugin_driver: PluginDriver) -> None:
    """Facts follow the prompt as a synthetic part and precede a compression; a message is shown."""
    (plugin_driver.inbox / "answer").write_text('{"context": "forty-two carts", "say": "a break is due"}')
    result = plugin_driver.run(
        """
        const parts = await prompt("ses_9", "go on")
        const compacting = { context: [] }
        await hooks["experimental.session.compacting"]({ sessionID: "ses_9" }, compacting)
        await hooks.dispose()
        return { parts, compacting }
        """
    )
    own, added = result["result"]["parts"]
    assert own["text"] == "go on"
    assert added["synthetic"] is True
    assert added["text"] == "forty-two carts\n\nforty-two carts"  # when it is reopened, and for the prompt
    assert added["id"] > own["id"]
    assert added["messageID"] == "msg_go on"
    assert result["result"]["compacting"]["context"] == ["forty-two carts"]
    assert result["toasts"] == ["a break is due"] * 2
    assert [entry["hook_event_name"] for _, entry in plugin_driver.payloads()][:2] == [
        "session.resumed",
        "chat.message",
    ]


def test_prompt_is_blocked_only_if_configured(plugin_driver: PluginDriver) -> None:
    """The only error that leaves the plugin; its reason is shown."""
    (plugin_driver.inbox / "answer").write_text('{"block": "ninety minutes"}')
    result = plugin_driver.run(
        """
        try { await prompt("ses_1", "hello") }
        catch (error) { return error.message }
        finally { await hooks.dispose() }
        """
    )
    assert result == {"result": "ninety minutes", "toasts": ["ninety minutes"]}


@pytest.mark.parametrize(
    "answer", ["", "not JSON", "null", "[]", "7", '{"context": 7, "say": {}, "block": []}', '{"context": ""}']
)
def test_invalid_answer_is_ignored(plugin_driver: PluginDriver, answer: str) -> None:
    (plugin_driver.inbox / "answer").write_text(answer)
    result = plugin_driver.run(
        'const parts = await prompt("ses_1", "hello"); await hooks.dispose(); return parts.length'
    )
    assert result == {"result": 1, "toasts": []}


def test_missing_or_hanging_command_is_harmless(plugin_driver: PluginDriver) -> None:
    """It delays nobody and throws nothing."""
    for command in ("holdfast-is-not-here-at-all", f'"{sys.executable}" -c "import time; time.sleep(4)"'):
        result = plugin_driver.run(
            """
            bus("session.created", { info: info("ses_1") })
            const parts = await prompt("ses_1", "hello")
            bus("session.idle", { sessionID: "ses_1" })
            setTimeout(() => process.exit(0), 50)
            return parts.length
            """,
            lambda manner, line=command: line if manner == "ask" else "exit 1",
        )
        assert result == {"result": 1, "toasts": []}


def test_unexpected_event_throws_nothing(plugin_driver: PluginDriver) -> None:
    """With missing, extra or other fields."""
    result = plugin_driver.run(
        """
        const odd = [undefined, null, 7, "x", [], {}, { info: null }, { info: 7 }, { sessionID: {} }, { part: 7 },
          { error: 1n, sessionID: "s" }, { todos: 1n, sessionID: "s" }]
        const names = ["session.created", "session.updated", "session.idle", "session.error", "message.updated",
          "message.part.updated", "todo.updated", "permission.v2.asked", "question.asked", "session.deleted",
          "other", 7]
        for (const name of names) for (const about of odd) await bus(name, about)
        await hooks.event({})
        for (const name of Object.keys(hooks))
          if (!["event", "dispose"].includes(name))
            for (const given of odd) for (const out of odd) await hooks[name](given, out)
        await hooks.dispose()
        return "alive"
        """,
        lambda manner: "exit 0",
    )
    assert result["result"] == "alive"


def test_remaining_events_are_handed_over_at_exit(plugin_driver: PluginDriver) -> None:
    plugin_driver.run(
        """
        bus("session.created", { info: info("ses_1") })
        for (let n = 0; n < 5; n += 1) bus("todo.updated", { sessionID: "ses_1", todos: [{ content: `${n}` }] })
        process.exit(0)
        """
    )
    # The first was already sent, and nobody waits for it.
    payloads = [entry for _, entry in plugin_driver.payloads() if entry["hook_event_name"] != "session.created"]
    assert [line["todos"][0]["content"] for line in payloads[:-1]] == list("01234")
    assert payloads[-1]["hook_event_name"] == "session.closed"
