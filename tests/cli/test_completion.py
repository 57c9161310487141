"""Completion scripts offer in real shells what the commands declare."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.commands.completion import SHELLS, script
from holdfast.cli.grammar import Argument, Command, Option
from holdfast.core.errors import Invalid

Completer = Callable[[list[tuple[list[str], str]], Path], list[set[str]]]

COMMANDS = (
    Command(
        "start",
        "begin a session: it's that simple",
        (
            Argument("goal", "what for"),
            Option(("--mode",), "how", choices=("debug", "default", "release")),
            Option(("--branch",), "on a branch of its own", kind="flag"),
            Option(("--scope",), "which part"),
        ),
        "x:run",
    ),
    Command("status", "show the session", (), "x:run"),
    Command(
        "agent",
        "agents of the session",
        verbs=(
            Command("start", "one begins", (Argument("id", "its id"), Option(("--type",), "kind")), "x:run"),
            Command("fail", "one failed", (Option(("--category",), "c", choices=("transient", "logical")),), "x:run"),
        ),
    ),
    Command("connect", "hear agents", (Argument("agent", "which", many=True, choices=("claude", "codex")),), "x:run"),
    Command(
        "convert",
        "convert a file",
        (Argument("path", "it", kind="path"), Option(("-o", "--output"), "to", kind="path")),
        "x:run",
    ),
    Command("run", "run a command", (Option(("--agent",), "its id"),), "x:run", rest=True),
)

# The text before the cursor, the word at the cursor, and the completions.
CASES: list[tuple[list[str], str, set[str]]] = [
    ([], "sta", {"start", "status"}),
    ([], "", {"start", "status", "agent", "connect", "convert", "run"}),
    (["--project", "start"], "sta", {"start", "status"}),
    (["--json", "agent"], "", {"start", "fail"}),
    (["agent", "--store", "x"], "f", {"fail"}),
    (["start"], "--m", {"--mode"}),
    (["start"], "--qu", {"--quiet"}),
    (["start", "--mode"], "de", {"debug", "default"}),
    (["start", "--branch", "--mode"], "r", {"release"}),
    (["start", "--scope", "--mode"], "", set()),
    (["start", "words", "--mode"], "r", {"release"}),
    (["agent", "start"], "--t", {"--type"}),
    (["agent", "start", "fail"], "", set()),
    (["agent", "fail", "--category"], "", {"transient", "logical"}),
    (["connect"], "c", {"claude", "codex"}),
    (["connect", "claude"], "co", {"codex"}),
    (["connect", "--", "claude"], "co", {"codex"}),
    (["convert"], "one", {"one file.json"}),
    (["convert", "x", "-o"], "one", {"one file.json"}),
    (["--project"], "sub", {"subfolder"}),
    (["run", "--"], "holdfast-test-to", {"holdfast-test-tool"}),
    (["run", "--", "tool"], "one", {"one file.json"}),
    (["start", "--"], "--m", set()),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one file.json").touch()
    (tmp_path / "subfolder").mkdir()
    tool = tmp_path / "bin" / "holdfast-test-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    return tmp_path


def shell(name: str, text: str, folder: Path) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    flags = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        [program, *flags, "-c", text],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def quoted(words: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def answers(output: str) -> list[set[str]]:
    """One set for each block between the marks that the shells print."""
    return [{line for line in block.split("\n") if line} for block in output.split("=====\n")[:-1]]


def bash(lines: list[tuple[list[str], str]], folder: Path) -> list[set[str]]:
    text = script("bash", COMMANDS)
    for before, current in lines:
        words = ["holdfast", *before, current]
        text += f"COMP_WORDS=({quoted(words)}); COMP_CWORD={len(words) - 1}; _holdfast\n"
        text += 'printf "%s\\n" "${COMPREPLY[@]}"; echo =====\n'
    return answers(shell("bash", text, folder))


def zsh(lines: list[tuple[list[str], str]], folder: Path) -> list[set[str]]:
    # The completion system needs a terminal; these stand in for the few parts of it that the script calls.
    text = """
        compdef() { :; }
        compset() { words[CURRENT]="${words[CURRENT]#*=}"; }
        offer() { local word; for word in "$@"; do [[ $word != "$(cur)"* ]] || print -r -- "$word"; done; }
        cur() { print -r -- "${words[CURRENT]}"; }
        _describe() { offer "${(@)${(@P)@[-1]}%%:*}"; }
        _files() { if [[ $1 == -/ ]]; then offer *(/N); else offer *(N); fi; }
        _command_names() { offer holdfast-test-tool; }
    """
    text += script("zsh", COMMANDS)
    for before, current in lines:
        words = ["holdfast", *before, current]
        text += f"words=({quoted(words)}); CURRENT={len(words)}; _holdfast; print '====='\n"
    return answers(shell("zsh", text, folder))


def fish(lines: list[tuple[list[str], str]], folder: Path) -> list[set[str]]:
    text = script("fish", COMMANDS)
    for before, current in lines:
        line = " ".join(["holdfast", *before, current])
        text += f"complete -C '{line}' | string replace -r '\\t.*' ''; echo =====\n"
    result = answers(shell("fish", text, folder))
    return [{word.rstrip("/").replace("\\ ", " ") for word in words} for words in result]


@pytest.mark.parametrize("complete", [bash, zsh, fish])
def test_shells_offer_what_is_declared(complete: Completer, folder: Path) -> None:
    """Commands, verbs, options, choices, files and programs, each only in its place."""
    result = complete([(before, current) for before, current, _ in CASES], folder)
    assert [(*case[:2], words) for case, words in zip(CASES, result, strict=True)] == CASES


def test_bash_completes_a_value_after_an_equals_sign(folder: Path) -> None:
    """bash splits `--mode=de` into three words, unless COMP_WORDBREAKS was changed."""
    lines = [
        (["start", "--mode", "="], "de"),
        (["start", "--mode"], "="),
        (["start"], "--mode=re"),
        (["start", "--mode", "=", "debug"], "--b"),
        (["--project", "=", "start"], "sta"),
    ]
    assert bash(lines, folder) == [
        {"debug", "default"},
        {"debug", "default", "release"},
        {"--mode=release"},
        {"--branch"},
        {"start", "status"},
    ]


@pytest.mark.parametrize("complete", [zsh, fish])
def test_zsh_and_fish_complete_a_value_after_an_equals_sign(complete: Completer, folder: Path) -> None:
    """Both keep `--mode=re` as one word."""
    (result,) = complete([(["start"], "--mode=re")], folder)
    assert {word.removeprefix("--mode=") for word in result} == {"release"}


def test_bash_offers_nothing_for_an_empty_or_unknown_command(folder: Path) -> None:
    assert bash([(["status", ""], ""), (["nonsense", "more"], ""), (["start", "$(x)"], "`y`")], folder) == [set()] * 3


@pytest.mark.parametrize("name", SHELLS)
def test_completion_script_passes_its_shells_syntax_check(name: str, folder: Path) -> None:
    file = folder / "script"
    file.write_text(script(name, COMMANDS), encoding="utf-8")
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([program, "-n", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_script_uses_nothing_newer_than_bash_3_2() -> None:
    """macOS ships that version."""
    text = script("bash", COMMANDS)
    for newer in ("declare -A", "local -A", "mapfile", "readarray", "${cur,,}", "local -n"):
        assert newer not in text


def test_unknown_shell_is_invalid_input() -> None:
    """Exit code 4, and the known shells are named."""
    with pytest.raises(Invalid) as caught:
        script("tcsh", COMMANDS)
    assert "bash, zsh, fish" in str(caught.value.hint)


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("start", "--help"), ("completion", "bash")])
def test_command_without_a_session_loads_neither_keeper_nor_msgspec(words: tuple[str, ...]) -> None:
    """Help and completion are printed from the declarations of commands alone."""
    report = (
        "import sys; from holdfast.cli.entry import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", report, *words], capture_output=True, text=True, check=True, timeout=60
    )
    modules = set(done.stderr.split())
    assert not modules & {"msgspec", "apsw", "typing", "datetime", "subprocess"}
    below = ("holdfast.keeper", "holdfast.workspace", "holdfast.sessions", "holdfast.store", "holdfast.conversations")
    assert not [name for name in modules if name.startswith(below)]
