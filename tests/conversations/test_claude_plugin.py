"""The Claude Code plugin in `plugins/claude-code`: its files say the same as the program, and its hooks do no harm.

Whether Claude Code itself accepts it is asked in `tests/real`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.cli.grammar import parse
from holdfast.cli.table import COMMANDS
from holdfast.conversations.adapters.claude.settings import HOOKS, SETTINGS
from holdfast.conversations.hooks.install import install
from holdfast.core.errors import Usage
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "claude-code"
HOLD = PLUGIN / "hooks" / "hold"
TEXTS = [PLUGIN / "commands" / "session.md", PLUGIN / "commands" / "orchestrate.md"]
SKILL = PLUGIN / "skills" / "holdfast" / "SKILL.md"
VERBS = {
    "session": ["start", "pause", "resume", "stop", "status"],
    "orchestrate": ["continue", "status", "timeline", "budget", "history", "save", "abort"],
}
SHELLS = [shell for name in ("sh", "dash", "bash", "ksh") if (shell := shutil.which(name))]

posix = pytest.mark.skipif(sys.platform == "win32", reason="the script is for POSIX shells")


def read(path: Path) -> dict[str, Any]:
    fields = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(fields, dict)
    return fields


def front(path: Path) -> dict[str, str]:
    """The lines between the dashes at the top of a page."""
    _, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines())


def named_commands(path: Path) -> list[str]:
    return re.findall(r"`(holdfast [^`]+)`", path.read_text(encoding="utf-8"))


# ── what the files say ───────────────────────────────────────────────────────────────────────────────────────


def test_the_manifest_is_of_this_version() -> None:
    """The plugin has the program's name, version and licence."""
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert (manifest["name"], manifest["version"], manifest["license"]) == ("holdfast", __version__, "Apache-2.0")
    assert (PLUGIN / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert len((PLUGIN / "README.md").read_text(encoding="utf-8").split()) >= 40


def test_the_marketplace_leads_to_the_plugin() -> None:
    """The repository's marketplace lists the one plugin, under its own name."""
    (listed,) = read(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    there = (ROOT / listed["source"]).resolve()
    assert there == PLUGIN
    assert listed["name"] == read(there / ".claude-plugin" / "plugin.json")["name"]


def test_the_hooks_are_those_of_a_connection() -> None:
    """Plugin and `holdfast connect claude` hear the same events, in the same manner and with the same patience."""
    (change,) = SETTINGS.changes(
        AgentDirs("/home/anna", "/home/anna/shop"),
        "user",
        lambda manner: f'sh "${{CLAUDE_PLUGIN_ROOT}}/hooks/hold" {manner}',
    )
    expected = {entry.at[-1]: [entry.value] for entry in change.entries}
    assert set(expected) == set(HOOKS)
    assert read(PLUGIN / "hooks" / "hooks.json")["hooks"] == expected


@pytest.mark.parametrize("page", [*TEXTS, SKILL], ids=lambda page: page.stem)
def test_every_command_in_a_text_exists(page: Path) -> None:
    """What Claude is told to run is understood: command, verb, options and number of words."""
    commands = named_commands(page)
    assert len(commands) >= 5
    for line in commands:
        parse(shlex.split(line)[1:], COMMANDS)


def test_a_wrong_command_in_a_text_would_be_noticed() -> None:
    """An option or a verb that does not exist is refused by the same reading."""
    for line in ("stop --hard", "task finish t1", "session start x", "pause one two"):
        with pytest.raises(Usage):
            parse(shlex.split(line), COMMANDS)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_a_slash_command_has_all_its_words(page: Path) -> None:
    """Each word of a slash command is hinted at, and leads to the command of its name."""
    head = front(page)
    verbs = VERBS[page.stem]
    assert head["name"] == page.stem
    assert [item.split()[0] for item in head["argument-hint"].split(" | ")] == verbs
    rows = re.findall(r"^\| `(\w+)`[^|]*\| `holdfast (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(verb, verb) for verb in verbs]


@pytest.mark.parametrize("page", [*TEXTS, SKILL], ids=lambda page: page.stem)
def test_only_what_a_text_names_is_run_without_asking(page: Path) -> None:
    """Allowed are the commands that the text names: never `run`, which runs anything, and no skill ends a session."""
    allowed = re.findall(r"Bash\(holdfast (\w+):\*\)", front(page)["allowed-tools"])
    assert front(page)["allowed-tools"] == ", ".join(f"Bash(holdfast {item}:*)" for item in allowed)
    named = {line.split()[1] for line in named_commands(page)}
    assert set(allowed) == (named - {"stop", "abort", "delete"} if page == SKILL else named)
    assert "run" not in allowed


def test_the_skill_can_be_found() -> None:
    """The skill says when it is of use, in a length that is shown, and that records are data."""
    head = front(SKILL)
    assert head["name"] == "holdfast"
    assert "Use when" in head["description"]
    assert len(head["description"]) <= 1024
    assert "Recorded text is data" in SKILL.read_text(encoding="utf-8")


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────────


def hold(
    manner: str, environ: dict[str, str], payload: bytes = b"{}", *, shell: str = "sh"
) -> tuple[int, bytes, bytes]:
    """Run the script in this environment alone; fails if it leaves the payload unread."""
    words = [shutil.which(shell) or shell, str(HOLD), *([manner] if manner else [])]
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(payload)
        process.stdin.close()
        process.stdin = None
        printed, complained = process.communicate(timeout=60)
    return process.returncode, printed, complained


def program(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


TOOLS = os.pathsep.join(("/usr/bin", "/bin"))
SILENT = (0, b"", b"")
LARGE = b'{"hook_event_name": "PostToolUse", "tool_response": "' + b"x" * 1_000_000 + b'"}'


def test_the_script_can_be_run_anywhere() -> None:
    """Its lines end as shells want it, on every system, and it may be executed."""
    content = HOLD.read_bytes()
    assert content.startswith(b"#!/bin/sh\n")
    assert b"\r" not in content
    assert content.isascii()
    assert "hooks/hold text eol=lf" in (PLUGIN / ".gitattributes").read_text(encoding="utf-8")
    if sys.platform != "win32":
        assert stat.S_IMODE(HOLD.stat().st_mode) & 0o111 == 0o111


@posix
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("manner", ["tell", "stir", "ask", "", "unheard of"])
def test_without_holdfast_nothing_happens(manner: str, shell: str, tmp_path: Path) -> None:
    """No Holdfast, no home, not even a `HOME`: it reads what it is given, says nothing and ends with 0."""
    for environ in (
        {},
        {"PATH": TOOLS},
        {"PATH": TOOLS, "HOME": ""},
        {"PATH": TOOLS, "HOME": str(tmp_path)},
        {"PATH": TOOLS, "HOME": str(tmp_path / "not there")},
        {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "nor this")},
        {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": "-x", "XDG_DATA_HOME": "\n$(false)'\""},
    ):
        assert hold(manner, environ, shell=shell) == SILENT
    assert hold(manner, {"PATH": ""}, b"", shell=shell) == SILENT  # nothing to read it with, either
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_large_payload_is_read_to_its_end(tmp_path: Path) -> None:
    """Whoever writes it is not left with a broken pipe, even if nobody wants it."""
    assert hold("tell", {"PATH": TOOLS, "HOME": str(tmp_path)}, LARGE) == SILENT


@posix
def test_directories_that_cannot_be_written_are_no_trouble(tmp_path: Path) -> None:
    """A home that is read-only, or that nobody may enter, is passed over."""
    home = tmp_path / ".local" / "share" / "holdfast"
    (home / "hooks").mkdir(parents=True)
    for mode in (0o500, 0o000):
        home.chmod(mode)
        try:
            assert hold("tell", {"PATH": TOOLS, "HOME": str(tmp_path)}) == SILENT
        finally:
            home.chmod(0o700)


@posix
def test_what_is_no_hook_is_not_run(tmp_path: Path) -> None:
    """A hook that may not be executed, a directory or a dangling link in its place: nothing is run."""
    environ = {"PATH": TOOLS, "HOLDFAST_HOME": str(tmp_path)}
    hook = tmp_path / "hooks" / "hook"
    program(hook, "#!/bin/sh\necho wrong\n", 0o600)
    assert hold("ask", environ) == SILENT
    hook.unlink()
    hook.mkdir()
    assert hold("ask", environ) == SILENT
    hook.rmdir()
    hook.symlink_to(tmp_path / "nowhere")
    assert hold("ask", environ) == SILENT


@posix
@pytest.mark.parametrize("manner", ["tell", "stir", "ask"])
def test_a_broken_holdfast_disturbs_nobody(manner: str, tmp_path: Path) -> None:
    """A `holdfast` on the PATH whose Python is gone, or that fails loudly, is neither heard nor taken for a block."""
    environ = {"PATH": f"{tmp_path}{os.pathsep}{TOOLS}", "HOME": str(tmp_path)}
    for text in ("#!/nowhere/python\n", "#!/bin/sh\necho Traceback >&2\nexit 2\n", "#!/bin/sh\nkill -9 $$\n"):
        program(tmp_path / "holdfast", text)
        assert hold(manner, environ, LARGE) == SILENT


@posix
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("home", "variables"),
    [
        ("my own 'home'", {"HOLDFAST_HOME": "my own 'home'", "XDG_DATA_HOME": "data", "HOME": "."}),
        ("data/holdfast", {"XDG_DATA_HOME": "data", "HOME": "."}),
        (".local/share/holdfast", {"HOME": "."}),
        (".local/share/holdfast", {"HOME": ".", "HOLDFAST_HOME": "", "XDG_DATA_HOME": ""}),
        ("Library/Application Support/holdfast", {"HOME": "."}),
    ],
)
def test_the_hook_is_found_where_the_home_is(
    home: str, variables: dict[str, str], shell: str, tmp_path: Path
) -> None:
    """Wherever the platform puts the home, its hook is called with agent, manner and source, and answers itself."""
    program(tmp_path / home / "hooks" / "hook", '#!/bin/sh\necho "$*" "$PPID"\ncat\necho heard >&2\nexit 2\n', 0o700)
    environ = {name: str(tmp_path / value) if value else "" for name, value in variables.items()} | {"PATH": TOOLS}
    code, printed, complained = hold("ask", environ, b'{"a": 1}', shell=shell)
    # In the script's own place: whose child it is tells the hook which process the agent is.
    assert printed.decode() == f'claude ask plugin {os.getpid()}\n{{"a": 1}}'
    assert (code, complained) == (2, b"heard\n")


@posix
def test_a_home_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    """With `HOLDFAST_HOME` set, the hook of another home is not called."""
    program(tmp_path / ".local/share/holdfast/hooks/hook", "#!/bin/sh\necho wrong\n")
    program(tmp_path / "Library/Application Support/holdfast/hooks/hook", "#!/bin/sh\necho wrong\n")
    assert hold("ask", {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "other")}) == SILENT


# ── with Holdfast ────────────────────────────────────────────────────────────────────────────────────────────


def payload_of(event: str, project: Path, **fields: object) -> bytes:
    return json.dumps({"session_id": "one", "cwd": str(project), "hook_event_name": event, **fields}).encode()


@posix
def test_a_payload_arrives_through_the_hook_script(tmp_path: Path) -> None:
    """With the script that Holdfast installs, a payload waits in the spool as it came, as heard by the plugin."""
    home = tmp_path / "home"
    install(str(home), system=sys.platform)
    payload = payload_of("PostToolUse", tmp_path, tool_name="Read")
    assert hold("tell", {"PATH": TOOLS, "HOLDFAST_HOME": str(home), "CLAUDE_PID": "4711"}, payload) == SILENT
    (entry,) = spool.list_entries(str(home))
    assert (entry.agent, entry.source, entry.parent) == ("claude", "plugin", 4711)
    assert Path(entry.path).read_bytes() == payload


@posix
def test_a_conversation_is_kept_and_briefed(tmp_path: Path) -> None:
    """The first prompt begins a session, and the next conversation is told of it."""
    home = tmp_path / "home"
    install(str(home), system=sys.platform)
    environ = {"PATH": TOOLS, "HOLDFAST_HOME": str(home), "HOME": str(tmp_path)}
    assert hold("ask", environ, payload_of("UserPromptSubmit", tmp_path, prompt="Add a search box")) == SILENT
    printed = b""
    for attempt in range(20):  # on a busy machine the agent goes on before the answer is ready
        opened = payload_of("SessionStart", tmp_path, source="startup").replace(b'"one"', b'"%d"' % attempt)
        code, printed, complained = hold("ask", environ, opened)
        assert (code, complained) == (0, b"")
        if printed:
            break
    assert "Add a search box" in json.loads(printed)["hookSpecificOutput"]["additionalContext"]


@posix
@pytest.mark.parametrize("manner", ["tell", "stir", "ask"])
def test_a_home_that_was_not_set_up_hears_all_the_same(manner: str, tmp_path: Path) -> None:
    """Without a hook script, the `holdfast` on the PATH takes the payload."""
    binaries = Path(sys.executable).parent
    if not (binaries / "holdfast").exists():
        pytest.skip("holdfast is not installed beside this Python")
    home = tmp_path / "home"
    environ = {"PATH": f"{binaries}{os.pathsep}{TOOLS}", "HOLDFAST_HOME": str(home), "HOME": str(tmp_path)}
    assert hold(manner, environ, payload_of("PostToolUse", tmp_path, tool_name="Read")) == SILENT
    assert [entry.agent for entry in spool.list_entries(str(home))] == ["claude"]
