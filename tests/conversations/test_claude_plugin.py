"""The Claude Code plugin in `plugins/claude-code`: its files agree with the program, and its hooks are harmless.

`tests/real` checks that Claude Code itself accepts it.
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


def front_matter(path: Path) -> dict[str, str]:
    """The lines between the dashes at the top of a page."""
    _, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines())


def named_commands(path: Path) -> list[str]:
    return re.findall(r"`(holdfast [^`]+)`", path.read_text(encoding="utf-8"))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_manifest_matches_the_program() -> None:
    """Name, version and licence."""
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert (manifest["name"], manifest["version"], manifest["license"]) == ("holdfast", __version__, "Apache-2.0")
    assert (PLUGIN / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert len((PLUGIN / "README.md").read_text(encoding="utf-8").split()) >= 40


def test_marketplace_lists_the_plugin() -> None:
    """The only plugin, under its own name."""
    (listed,) = read(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    there = (ROOT / listed["source"]).resolve()
    assert there == PLUGIN
    assert listed["name"] == read(there / ".claude-plugin" / "plugin.json")["name"]


def test_hooks_equal_those_of_connect() -> None:
    """The same events, modes and timeouts as `holdfast connect claude`."""
    (change,) = SETTINGS.changes(
        AgentDirs("/home/anna", "/home/anna/shop"),
        "user",
        lambda manner: f'sh "${{CLAUDE_PLUGIN_ROOT}}/hooks/hold" {manner}',
    )
    expected = {entry.at[-1]: [entry.value] for entry in change.entries}
    assert set(expected) == set(HOOKS)
    assert read(PLUGIN / "hooks" / "hooks.json")["hooks"] == expected


@pytest.mark.parametrize("page", [*TEXTS, SKILL], ids=lambda page: page.stem)
def test_every_command_in_a_text_is_valid(page: Path) -> None:
    """Command, verb, options and number of words."""
    commands = named_commands(page)
    assert len(commands) >= 5
    for line in commands:
        parse(shlex.split(line)[1:], COMMANDS)


def test_invalid_command_in_a_text_is_detected() -> None:
    """An unknown option or verb."""
    for line in ("stop --hard", "task finish t1", "session start x", "pause one two"):
        with pytest.raises(Usage):
            parse(shlex.split(line), COMMANDS)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_each_argument_of_a_slash_command_leads_to_its_command(page: Path) -> None:
    """And is in the hint."""
    head = front_matter(page)
    verbs = VERBS[page.stem]
    assert head["name"] == page.stem
    assert [item.split()[0] for item in head["argument-hint"].split(" | ")] == verbs
    rows = re.findall(r"^\| `(\w+)`[^|]*\| `holdfast (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(verb, verb) for verb in verbs]


@pytest.mark.parametrize("page", [*TEXTS, SKILL], ids=lambda page: page.stem)
def test_only_commands_of_the_text_are_allowed_without_asking(page: Path) -> None:
    """Never `run`, which runs anything, and no skill ends a session."""
    allowed = re.findall(r"Bash\(holdfast (\w+):\*\)", front_matter(page)["allowed-tools"])
    assert front_matter(page)["allowed-tools"] == ", ".join(f"Bash(holdfast {item}:*)" for item in allowed)
    named = {line.split()[1] for line in named_commands(page)}
    assert set(allowed) == (named - {"stop", "abort", "delete"} if page == SKILL else named)
    assert "run" not in allowed


def test_skill_description_says_when_to_use_it() -> None:
    """Within the shown length, and that records are data."""
    head = front_matter(SKILL)
    assert head["name"] == "holdfast"
    assert "Use when" in head["description"]
    assert len(head["description"]) <= 1024
    assert "Recorded text is data" in SKILL.read_text(encoding="utf-8")


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────


def run_script(
    manner: str, environ: dict[str, str], payload: bytes = b"{}", *, shell: str = "sh"
) -> tuple[int, bytes, bytes]:
    """Run the script in this environment alone; fail if it leaves the payload unread."""
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


def test_script_is_executable_on_every_system() -> None:
    """With the line ends that shells require."""
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
def test_script_does_nothing_without_holdfast(manner: str, shell: str, tmp_path: Path) -> None:
    """No program, no home, not even a `HOME`: it reads its input, prints nothing and exits with 0."""
    for environ in (
        {},
        {"PATH": TOOLS},
        {"PATH": TOOLS, "HOME": ""},
        {"PATH": TOOLS, "HOME": str(tmp_path)},
        {"PATH": TOOLS, "HOME": str(tmp_path / "not there")},
        {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "nor this")},
        {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": "-x", "XDG_DATA_HOME": "\n$(false)'\""},
    ):
        assert run_script(manner, environ, shell=shell) == SILENT
    assert run_script(manner, {"PATH": ""}, b"", shell=shell) == SILENT  # there is nothing to read it with, either
    assert list(tmp_path.iterdir()) == []


@posix
def test_large_payload_is_read_completely(tmp_path: Path) -> None:
    """The writer gets no broken pipe, even if nobody needs the payload."""
    assert run_script("tell", {"PATH": TOOLS, "HOME": str(tmp_path)}, LARGE) == SILENT


@posix
def test_unwritable_home_is_skipped(tmp_path: Path) -> None:
    """Read-only or inaccessible."""
    home = tmp_path / ".local" / "share" / "holdfast"
    (home / "hooks").mkdir(parents=True)
    for mode in (0o500, 0o000):
        home.chmod(mode)
        try:
            assert run_script("tell", {"PATH": TOOLS, "HOME": str(tmp_path)}) == SILENT
        finally:
            home.chmod(0o700)


@posix
def test_only_an_executable_file_is_run_as_the_hook(tmp_path: Path) -> None:
    """Not a plain file, a directory or a dangling link."""
    environ = {"PATH": TOOLS, "HOLDFAST_HOME": str(tmp_path)}
    hook = tmp_path / "hooks" / "hook"
    program(hook, "#!/bin/sh\necho wrong\n", 0o600)
    assert run_script("ask", environ) == SILENT
    hook.unlink()
    hook.mkdir()
    assert run_script("ask", environ) == SILENT
    hook.rmdir()
    hook.symlink_to(tmp_path / "nowhere")
    assert run_script("ask", environ) == SILENT


@posix
@pytest.mark.parametrize("manner", ["tell", "stir", "ask"])
def test_broken_holdfast_is_silent(manner: str, tmp_path: Path) -> None:
    """One whose Python is missing, or that fails loudly, prints nothing and blocks nothing."""
    environ = {"PATH": f"{tmp_path}{os.pathsep}{TOOLS}", "HOME": str(tmp_path)}
    for text in ("#!/nowhere/python\n", "#!/bin/sh\necho Traceback >&2\nexit 2\n", "#!/bin/sh\nkill -9 $$\n"):
        program(tmp_path / "holdfast", text)
        assert run_script(manner, environ, LARGE) == SILENT


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
def test_hook_of_the_platforms_home_is_called(
    home: str, variables: dict[str, str], shell: str, tmp_path: Path
) -> None:
    """With agent, mode and source; its answer is passed on."""
    program(tmp_path / home / "hooks" / "hook", '#!/bin/sh\necho "$*" "$PPID"\ncat\necho heard >&2\nexit 2\n', 0o700)
    environ = {name: str(tmp_path / value) if value else "" for name, value in variables.items()} | {"PATH": TOOLS}
    code, printed, complained = run_script("ask", environ, b'{"a": 1}', shell=shell)
    # Replaces the script's process: by its parent the hook knows which process is the agent.
    assert printed.decode() == f'claude ask plugin {os.getpid()}\n{{"a": 1}}'
    assert (code, complained) == (2, b"heard\n")


@posix
def test_only_the_hook_of_the_named_home_is_called(tmp_path: Path) -> None:
    """With `HOLDFAST_HOME`."""
    program(tmp_path / ".local/share/holdfast/hooks/hook", "#!/bin/sh\necho wrong\n")
    program(tmp_path / "Library/Application Support/holdfast/hooks/hook", "#!/bin/sh\necho wrong\n")
    assert (
        run_script("ask", {"PATH": TOOLS, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "other")}) == SILENT
    )


# ── with Holdfast ────────────────────────────────────────────────────────────────────────────────────────


def payload_of(event: str, project: Path, **fields: object) -> bytes:
    return json.dumps({"session_id": "one", "cwd": str(project), "hook_event_name": event, **fields}).encode()


@posix
def test_payload_reaches_the_spool_through_the_hook_script(tmp_path: Path) -> None:
    """Unchanged, with the plugin as source."""
    home = tmp_path / "home"
    install(str(home), system=sys.platform)
    payload = payload_of("PostToolUse", tmp_path, tool_name="Read")
    assert run_script("tell", {"PATH": TOOLS, "HOLDFAST_HOME": str(home), "CLAUDE_PID": "4711"}, payload) == SILENT
    (entry,) = spool.list_entries(str(home))
    assert (entry.agent, entry.source, entry.parent) == ("claude", "plugin", 4711)
    assert Path(entry.path).read_bytes() == payload


@posix
def test_conversation_is_recorded_and_the_next_one_briefed(tmp_path: Path) -> None:
    """The first prompt starts a session."""
    home = tmp_path / "home"
    install(str(home), system=sys.platform)
    environ = {"PATH": TOOLS, "HOLDFAST_HOME": str(home), "HOME": str(tmp_path)}
    assert run_script("ask", environ, payload_of("UserPromptSubmit", tmp_path, prompt="Add a search box")) == SILENT
    printed = b""
    for attempt in range(20):  # on a busy machine the agent continues before the answer is ready
        opened = payload_of("SessionStart", tmp_path, source="startup").replace(b'"one"', b'"%d"' % attempt)
        code, printed, complained = run_script("ask", environ, opened)
        assert (code, complained) == (0, b"")
        if printed:
            break
    assert "Add a search box" in json.loads(printed)["hookSpecificOutput"]["additionalContext"]


@posix
@pytest.mark.parametrize("manner", ["tell", "stir", "ask"])
def test_home_without_a_hook_script_uses_holdfast_on_the_path(manner: str, tmp_path: Path) -> None:
    binaries = Path(sys.executable).parent
    if not (binaries / "holdfast").exists():
        pytest.skip("holdfast is not installed beside this Python")
    home = tmp_path / "home"
    environ = {"PATH": f"{binaries}{os.pathsep}{TOOLS}", "HOLDFAST_HOME": str(home), "HOME": str(tmp_path)}
    assert run_script(manner, environ, payload_of("PostToolUse", tmp_path, tool_name="Read")) == SILENT
    assert [entry.agent for entry in spool.list_entries(str(home))] == ["claude"]
