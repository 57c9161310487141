"""Claude Code's hooks, settings and status line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.base import HookAnswer, HookEvent, Payload, Reply, Scope
from holdfast.conversations.adapters.claude import settings as claude_settings
from holdfast.conversations.adapters.claude.hooks import AGENT, EVENTS, parse_status
from holdfast.conversations.adapters.claude.settings import HOOKS, SETTINGS
from holdfast.conversations.conformance import samples_in
from holdfast.conversations.connect.agent_settings import SettingsEntry, settings_of
from holdfast.conversations.signals import Chosen, Limited, Measured, Opened, Prompted
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

PAYLOADS = os.path.join(os.path.dirname(__file__), "payloads", "claude")
SAMPLES = {sample.name: sample for sample in samples_in(PAYLOADS)}
ID = "b2f0a3d4-5c6e-4f70-8a91-a2b3c4d5e6f7"
STATUS: dict[str, Json] = {
    "session_id": ID,
    "transcript_path": f"/home/anna/.claude/projects/-home-anna-shop/{ID}.jsonl",
    "cwd": "/home/anna/shop",
    "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
    "workspace": {"current_dir": "/home/anna/shop/src", "project_dir": "/home/anna/shop", "added_dirs": []},
    "version": "2.1.325",
    "cost": {"total_cost_usd": 1.25, "total_duration_ms": 60000, "total_lines_added": 5, "total_lines_removed": 1},
    "context_window": {
        "total_input_tokens": 50_000,
        "total_output_tokens": 700,
        "context_window_size": 200_000,
        "current_usage": {
            "input_tokens": 1_000,
            "output_tokens": 700,
            "cache_creation_input_tokens": 9_000,
            "cache_read_input_tokens": 40_000,
        },
        "used_percentage": 25,
        "remaining_percentage": 75,
    },
    "rate_limits": {
        "five_hour": {"used_percentage": 40.5, "resets_at": 1_800_000_000},
        "seven_day": {"used_percentage": 12},
        "other": "unheard of",
    },
}


def payload_of(name: str, **fields: Json) -> dict[str, Json]:
    return {"session_id": ID, "cwd": "/home/anna/shop", "hook_event_name": name, **fields}


def parse(payload: Payload) -> HookEvent:
    event = AGENT.parse(payload)
    assert event is not None
    return event


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_event_has_a_sample() -> None:
    """All 33 events are known, each with a payload."""
    assert len(EVENTS) == 33
    assert set(EVENTS) == {sample.event for sample in SAMPLES.values()}


def test_every_hook_gives_signals() -> None:
    """Hooks exist only for events that give signals, and answered events wait for the answer."""
    assert {name for name, manner in HOOKS.items() if manner == "ask"} == set(AGENT_PROGRAMS["claude"].occasions)
    for name in HOOKS:
        event = [parse(sample.payload) for sample in SAMPLES.values() if sample.event == name]
        assert any(item.signals for item in event), name


def test_compression_is_reported_once() -> None:
    """Reopening a conversation after a compression is not a second one."""
    event = parse(SAMPLES["session_start_compact"].payload)
    assert [type(signal).__name__ for signal in event.signals] == ["Opened", "Chosen"]
    assert event.occasion == "start"


def test_directory_change_is_followed() -> None:
    event = parse(SAMPLES["cwd_changed"].payload)
    assert event.cwd == "/home/anna/shop/src"
    assert parse(payload_of("CwdChanged", new_cwd="/b")).cwd == "/b"


def test_prompts_of_one_turn_have_different_marks() -> None:
    """What the program inserts during a turn has the prompt's id, but is another prompt."""
    first, second = (parse(SAMPLES[name].payload) for name in ("prompt", "prompt_task_notification"))
    assert SAMPLES["prompt"].payload["prompt_id"] == SAMPLES["prompt_task_notification"].payload["prompt_id"]
    assert first.mark != second.mark
    assert parse(payload_of("UserPromptSubmit", prompt="hi")).mark == ""


@pytest.mark.parametrize("source", ["sdk", "system", "loop_wakeup", "schedule_wakeup", "poll_event", "unheard of"])
def test_prompt_of_a_program_is_no_persons(source: str) -> None:
    """A prompt from a program or a timer is no sign of activity."""
    event = parse(payload_of("UserPromptSubmit", prompt="Go on", source=source))
    assert event.signals == (Prompted(text="Go on", person=False),)


def test_subagent_mode_is_not_the_conversations() -> None:
    """A subagent's permission mode is not recorded for the conversation."""
    outside = parse(payload_of("Stop", permission_mode="plan"))
    assert Chosen(permission="plan") in outside.signals
    inside = parse(payload_of("Stop", permission_mode="plan", agent_id="a1"))
    assert not any(isinstance(signal, Chosen) for signal in inside.signals)


def test_limit_is_recognised_in_message() -> None:
    """A usage limit keeps the sentence that says when it ends."""
    event = parse(SAMPLES["usage_limit"].payload)
    assert event.signals == (Limited(reason="You've hit your session limit · resets 3pm (Europe/Berlin)"),)


@pytest.mark.parametrize(
    "path", ["/home/anna/.copilot/session-state/x/events.jsonl", "C:\\Users\\a\\.copilot\\x.jsonl"]
)
def test_copilot_payload_goes_to_copilot_adapter(path: str) -> None:
    """A conversation stored in Copilot's directory is Copilot's."""
    event = parse(payload_of("SessionStart", source="startup", transcript_path=path))
    assert (event.agent, event.resume) == ("copilot", f"copilot --resume={ID}")
    assert event.signals == (Opened(),)


@pytest.mark.parametrize("name", ["", " ", "a\0b", "a\nb", "x" * 201, "x" * 1_000_000, "\x1b[2J", 5, None, ["a"], {}])
def test_invalid_id_gives_no_conversation(name: Json) -> None:
    assert AGENT.parse({**payload_of("Stop"), "session_id": name}) is None
    assert parse_status({**STATUS, "session_id": name}) is None


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (ID, f"claude --resume {ID}"),
        ("../..", "claude --resume ../.."),
        ("a; rm -rf ~", "claude --resume 'a; rm -rf ~'"),
        ("$(reboot)", "claude --resume '$(reboot)'"),
        ("--dangerously-skip-permissions", None),
    ],
)
def test_resume_command_has_safe_id(name: str, command: str | None) -> None:
    """The id is one word, never an option."""
    assert parse({**payload_of("Stop"), "session_id": name}).resume == command


def test_unknown_event_is_kept() -> None:
    """With all its fields."""
    event = parse(payload_of("Teleported", to="/b", transcript_path="/t"))
    assert event.signals == ()
    assert event.rest == {"hook_event_name": "Teleported", "to": "/b"}
    assert parse({"session_id": ID, "x": 1}).rest == {"x": 1}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────


def test_start_reply_has_context() -> None:
    """In the documented form."""
    reply = AGENT.reply(HookAnswer(context="Two carts."), "SessionStart")
    assert reply.code == 0
    assert json.loads(reply.stdout) == {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Two carts."}
    }


def test_reminder_reply_notifies() -> None:
    """Shown to the person, and sent to the desktop if configured."""
    reply = AGENT.reply(HookAnswer(say="Pause: 60\nminutes\x07"), "UserPromptSubmit")
    assert json.loads(reply.stdout) == {"systemMessage": "Pause: 60\nminutes"}
    reply = AGENT.reply(HookAnswer(say="Pause: 60\nminutes\x1b", notify=True), "UserPromptSubmit")
    assert json.loads(reply.stdout)["terminalSequence"] == "\x1b]9;Holdfast: Pause: 60 minutes\x07\x07"


def test_blocked_prompt_has_reason() -> None:
    """Only a prompt can be blocked."""
    reply = AGENT.reply(HookAnswer(block="Time for a pause."), "UserPromptSubmit")
    assert json.loads(reply.stdout) == {"decision": "block", "reason": "Time for a pause."}
    assert AGENT.reply(HookAnswer(block="Time for a pause."), "SessionStart") == Reply()


def test_compression_reply_is_plain_text() -> None:
    assert AGENT.reply(HookAnswer(context="Keep: carts", say="hi", notify=True), "PreCompact") == Reply("Keep: carts")
    assert (
        AGENT.reply(HookAnswer(context='{"continue": false}'), "PreCompact").stdout == 'Recorded: {"continue": false}'
    )
    assert AGENT.reply(HookAnswer(say="hi"), "PreCompact") == Reply()


@given(st.text(st.sampled_from('a"\\\n🙂'), min_size=1, max_size=50).filter(str.strip))
def test_long_context_is_cut_to_the_limit(some: str) -> None:
    """And not to much less."""
    stdout = AGENT.reply(HookAnswer(context=f"x{some}" * 20_000), "SessionStart").stdout
    assert 4_000 < len(stdout) < 10_000


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentDirs:
    for name in ("home/.claude", "shop/.claude", "managed"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(claude_settings, "_MANAGED", {"linux": str(tmp_path / "managed")})
    return AgentDirs(home=str(tmp_path / "home"), project=str(tmp_path / "shop"))


def test_scope_chooses_settings_file(places: AgentDirs) -> None:
    """The user's settings follow CLAUDE_CONFIG_DIR; the project's are in the project."""
    (change,) = SETTINGS.changes(places, "user", str)
    assert change.path == os.path.join(places.home, ".claude", "settings.json")
    (change,) = SETTINGS.changes(places, "project", str)
    assert change.path == os.path.join(places.project, ".claude", "settings.json")
    moved = places._replace(environ={"CLAUDE_CONFIG_DIR": os.path.join(places.home, "elsewhere")})
    (change,) = SETTINGS.changes(moved, "user", str)
    assert change.path == os.path.join(places.home, "elsewhere", "settings.json")
    assert settings_of("claude") is SETTINGS


def test_hooks_have_claude_form(places: AgentDirs) -> None:
    """One entry with one command per event; before a tool only for those that start or ask something."""
    (change,) = SETTINGS.changes(places, "user", lambda manner: f"holdfast-{manner}")
    entries = {entry.at: entry for entry in change.entries}
    assert set(entries) == {("hooks", name) for name in HOOKS}
    assert not any(entry.only for entry in change.entries)
    assert entries["hooks", "Stop"].value == {
        "hooks": [{"type": "command", "command": "holdfast-stir", "timeout": 5}]
    }
    assert entries["hooks", "SessionStart"].value == {
        "hooks": [{"type": "command", "command": "holdfast-ask", "timeout": 10}]
    }
    before = entries["hooks", "PreToolUse"].value
    assert isinstance(before, dict)
    assert before["matcher"] == "Task|Agent|AskUserQuestion|ExitPlanMode"
    msgspec.json.encode([entry.value for entry in change.entries])


def test_status_line_is_added_only_if_none() -> None:
    assert claude_settings.status_line("x") == SettingsEntry(
        ("statusLine",), {"type": "command", "command": "x"}, only=True
    )


def test_missing_or_damaged_settings_are_no_obstacle(places: AgentDirs, tmp_path: Path) -> None:
    assert SETTINGS.obstacles(places, "user") == ()
    (tmp_path / "home/.claude/settings.json").write_bytes(b'\xef\xbb\xbf{"disableAllHooks": false}')
    (tmp_path / "shop/.claude/settings.json").write_text("[" * 100_000)
    (tmp_path / "shop/.claude/settings.local.json").mkdir()
    (tmp_path / "managed/managed-settings.json").write_text("[true]")
    assert SETTINGS.obstacles(places, "user") == ()
    assert SETTINGS.obstacles(places, "project") == ()


@pytest.mark.parametrize(
    ("file", "setting"),
    [
        ("home/.claude/settings.json", {"disableAllHooks": True}),
        ("shop/.claude/settings.json", {"disableAllHooks": True}),
        ("shop/.claude/settings.local.json", {"disableAllHooks": True}),
        ("managed/managed-settings.json", {"disableAllHooks": "yes"}),
        ("managed/managed-settings.json", {"allowManagedHooksOnly": True}),
        ("managed/managed-settings.d/10.json", {"strictPluginOnlyCustomization": ["hooks"]}),
    ],
)
def test_switched_off_hooks_are_an_obstacle(places: AgentDirs, tmp_path: Path, file: str, setting: Json) -> None:
    """The settings file that disables them is named."""
    (tmp_path / "managed/managed-settings.d").mkdir()
    (tmp_path / file).write_text(json.dumps(setting))
    scopes: tuple[Scope, ...] = ("user", "project")
    for scope in scopes:
        (parsed,) = SETTINGS.obstacles(places, scope)
        assert os.path.normpath(tmp_path / file) in parsed


# ── the status line ──────────────────────────────────────────────────────────────────────────────────────


def test_status_input_gives_signals() -> None:
    """Tokens are counted like the program's percentage; limits keep their names."""
    event = parse_status(STATUS)
    assert event is not None
    limits: dict[str, Json] = {
        "five_hour": {"used_percentage": 40.5, "resets_at": 1_800_000_000},
        "seven_day": {"used_percentage": 12.0},
    }
    assert event.signals == (
        Measured(tokens=50_000, window=200_000, cost_usd=1.25, limits=limits),
        Chosen(model="claude-opus-5-5"),
    )
    assert (event.conversation, event.cwd, event.mark) == (ID, "/home/anna/shop/src", "")
    assert event.resume == f"claude --resume {ID}"


def test_recorded_status_inputs_give_signals() -> None:
    """From the real program: nothing at first, then tokens, window and cost."""
    kinds = []
    for name in ("before_the_first_answer", "after_some_work"):
        with open(os.path.join(PAYLOADS, "statusline", f"{name}.json"), encoding="utf-8") as file:
            event = parse_status(json.load(file))
        assert event is not None
        kinds.append(event.signals)
    assert kinds == [
        (Measured(window=1_000_000, cost_usd=0.0), Chosen(model="claude-opus-5-5")),
        (Measured(tokens=130, window=1_000_000, cost_usd=0.0038779999999999995), Chosen(model="claude-opus-5-5")),
    ]


def test_status_input_before_first_answer_has_no_tokens() -> None:
    context: dict[str, Json] = {"total_input_tokens": 0, "context_window_size": 200_000, "current_usage": None}
    event = parse_status({"session_id": ID, "context_window": context})
    assert event is not None
    assert event.signals == ()


@given(
    st.dictionaries(
        st.sampled_from(sorted(STATUS)),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.none()) | st.dictionaries(st.text(), st.none()),
    )
)
def test_any_status_input_raises_nothing(changed: dict[str, Json]) -> None:
    event = parse_status({**STATUS, **changed})
    assert event is None or len(event.signals) <= 2


@pytest.mark.parametrize(
    ("name", "more"),
    [("PostModelSwitch", {}), ("SessionStart", {"source": "fork"}), ("SessionStart", {"source": "resume"})],
)
def test_model_switch_measures_context(name: str, more: dict[str, Json]) -> None:
    """The size of the next request is the fill of the context; zero before the first answer is ignored."""

    def measured(**fields: Json) -> list[object]:
        parsed = AGENT.parse(payload_of(name, **more, **fields))
        assert parsed is not None
        return [signal for signal in parsed.signals if isinstance(signal, Measured)]

    assert measured(context_tokens=2602) == [Measured(tokens=2602)]
    assert measured(context_tokens=0) == []
    assert measured() == []


@pytest.mark.parametrize("source", [None, "user", "sdk", "system", "loop_wakeup", "something new"])
def test_program_notification_is_no_persons_prompt(source: str | None) -> None:
    """Text that starts like a notification was written by the program, whoever is named as author."""
    words = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n</task-notification>"
    parsed = AGENT.parse(
        payload_of("UserPromptSubmit", prompt=words, **({} if source is None else {"source": source}))
    )
    assert parsed is not None
    assert parsed.signals == (Prompted(text=words, person=False),)
