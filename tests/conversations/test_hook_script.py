"""The hook script as agents run it: in every available shell, under any conditions, always harmless."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.conversations.hooks import script
from holdfast.conversations.hooks.script import ScriptSetup
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs

if sys.platform == "win32":
    pytest.skip("the script is for POSIX shells", allow_module_level=True)

SHELLS = {"sh": ["sh"], "dash": ["dash"], "bash": ["bash", "--posix"], "zsh": ["zsh", "--emulate", "sh"],
          "busybox": ["busybox", "sh"]}  # fmt: skip
PAYLOAD = b'{"hook_event_name": "Stop", "text": "caf\xc3\xa9 \x00 \xff"}\n' * 100
# A stub of Holdfast: prints its arguments, and exits as configured.
STUB = """
import os, sys
def main(words, home):
    with open(os.path.join(home, "called"), "a") as file:
        file.write(" ".join(words) + "\\n")
    if words[0] == "drain":
        opened = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
        found = [os.readlink(one) for one in opened if os.path.exists(one)]
        with open(os.path.join(home, "drained.tmp"), "w") as file:
            file.write("\\n".join(found))
        import resource
        with open(os.path.join(home, "limit"), "w") as file:
            file.write(str(resource.getrlimit(resource.RLIMIT_FSIZE)[0]))
        os.rename(os.path.join(home, "drained.tmp"), os.path.join(home, "drained"))
        return 0
    told = sys.stdin.read()
    if "block" in told:
        sys.stderr.write("because"); return 86
    if "answer" in told:
        sys.stdout.write("{}"); return 0
    if "fail" in told:
        raise ValueError(told)
    if "two" in told:
        sys.exit(2)
    return int(told) if told.isdecimal() else 0
"""


@pytest.fixture(params=[name for name, words in SHELLS.items() if shutil.which(words[0])])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return SHELLS[request.param]


@pytest.fixture
def made(tmp_path: Path) -> ScriptSetup:
    """A home with an unusual name, the script in it, and a stub of Holdfast."""
    home = tmp_path / 'it\'s "my" $HOME `ü` \\ 家'
    stub = tmp_path / "stub"
    (stub / "holdfast" / "cli").mkdir(parents=True)
    (stub / "holdfast" / "__init__.py").touch()
    (stub / "holdfast" / "cli" / "__init__.py").touch()
    (stub / "holdfast" / "cli" / "hooking.py").write_text(STUB)
    (home / "hooks").mkdir(parents=True)
    made = ScriptSetup(str(home), sys.executable, (str(stub),), str(stub / "holdfast" / "cli" / "hooking.py"))
    _write(made)
    return made


def _write(made: ScriptSetup, *, by_dd: bool = True) -> None:
    hook = Path(made.home, "hooks", "hook")
    hook.write_text(script.hook_script(made, by_dd=by_dd))
    hook.chmod(0o700)
    Path(made.home, "hooks", "ask.py").write_text(script.ask_script(made))


def _run(
    shell: list[str], made: ScriptSetup, *words: str, payload: bytes = PAYLOAD, **more: str
) -> tuple[int, str, str]:
    env = {key: value for key, value in os.environ.items() if key not in ("CLAUDE_PID", "HOLDFAST_STORE")} | more
    hook = os.path.join(made.home, "hooks", "hook")
    done = subprocess.run([*shell, hook, *words], input=payload, capture_output=True, check=False, env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


SILENT = (0, "", "")


def test_tell_hook_spools_the_payload(shell: list[str], made: ScriptSetup) -> None:
    """Byte for byte, private, under a name with its source."""
    assert _run(shell, made, "claude", "tell", "user") == SILENT
    assert _run(shell, made, "claude", "tell", "user", CLAUDE_PID="4711") == SILENT
    assert _run(shell, made, "codex", "tell", "project", CLAUDE_PID="47; rm") == SILENT
    kept = spool.list_entries(made.home)
    assert [Path(entry.path).read_bytes() for entry in kept] == [PAYLOAD] * 3
    assert sorted((entry.agent, entry.source, entry.parent) for entry in kept) == sorted(
        [("claude", "user", os.getpid()), ("claude", "user", 4711), ("codex", "project", os.getpid())]
    )
    assert {os.stat(entry.path).st_mode & 0o777 for entry in kept} == {0o600}
    assert os.stat(os.path.join(made.home, "spool")).st_mode & 0o777 == 0o700
    assert not os.path.exists(os.path.join(made.home, "called"))


def test_linked_spool_is_not_written_through(shell: list[str], made: ScriptSetup, tmp_path: Path) -> None:
    """The agent continues."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.symlink(elsewhere, os.path.join(made.home, "spool"))
    assert _run(shell, made, "claude", "tell", "user") == SILENT
    os.unlink(os.path.join(made.home, "spool"))
    os.symlink(tmp_path / "nothing", os.path.join(made.home, "spool"))
    assert _run(shell, made, "claude", "tell", "user") == SILENT
    assert os.listdir(elsewhere) == []
    assert not (tmp_path / "nothing").exists()


def test_taken_name_gets_another(shell: list[str], made: ScriptSetup) -> None:
    """Process numbers repeat: the existing file stays."""
    hook = os.path.join(made.home, "hooks", "hook")
    os.mkdir(os.path.join(made.home, "spool"))
    first = 'for n in "" .1; do echo "$0" > "$1/spool/claude.user.$PPID.$$.home$n"; done; shift; exec "$@"'
    done = subprocess.run(
        [shell[0], *shell[1:], "-c", first, "mine", made.home, shell[0], *shell[1:], hook, "claude", "tell", "user"],
        input=PAYLOAD, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    kept = {entry.name.split(".", 4)[4]: Path(entry.path).read_bytes() for entry in spool.list_entries(made.home)}
    assert kept == {"home": b"mine\n", "home.1": b"mine\n", "home.2": PAYLOAD}


def test_unwritten_payload_leaves_nothing(shell: list[str], made: ScriptSetup) -> None:
    """A full disk or a limit leaves no partial file and no message."""
    hook = os.path.join(made.home, "hooks", "hook")
    line = 'ulimit -S -f 1; ulimit -H -f 1; trap "" XFSZ; exec "$@"'
    done = subprocess.run(
        [*shell, "-c", line, "x", *shell, hook, "claude", "tell", "user"], input=PAYLOAD * 1000, capture_output=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert spool.list_entries(made.home) == []


def test_unwritable_spool_is_silent(shell: list[str], made: ScriptSetup) -> None:
    """An empty payload leaves no file either."""
    assert _run(shell, made, "claude", "tell", "user", payload=b"") == SILENT
    assert spool.list_entries(made.home) == []
    os.rmdir(os.path.join(made.home, "spool"))
    Path(made.home, "spool").write_text("in the way")
    assert _run(shell, made, "claude", "tell", "user") == SILENT
    assert _run(shell, made, "claude", "stir", "user") == SILENT
    assert Path(made.home, "spool").read_text() == "in the way"


@pytest.mark.parametrize("manner", ["tell", "stir", "ask", "status"])
@pytest.mark.parametrize("missing", ["python", "package"])
def test_removed_holdfast_does_nothing(shell: list[str], made: ScriptSetup, manner: str, missing: str) -> None:
    """Without the interpreter or the package."""
    nowhere = "/nowhere/it's gone"
    _write(made._replace(python=nowhere) if missing == "python" else made._replace(package=nowhere))
    assert _run(shell, made, "claude", manner, "user") == SILENT
    assert not os.path.exists(os.path.join(made.home, "called"))
    assert spool.list_entries(made.home) == []


@pytest.mark.parametrize(
    "words", [("../x", "tell", "user"), ("claude", "tell", "a/b"), ("claude",), (), ("claude", "ask", "")]
)
def test_unexpected_arguments_do_nothing(shell: list[str], made: ScriptSetup, words: tuple[str, ...]) -> None:
    assert _run(shell, made, *words) == SILENT
    assert sorted(os.listdir(made.home)) == ["hooks"]


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        (b"block", (2, "", "because")),
        (b"answer", (0, "{}", "")),
        (b"fail", SILENT),
        (b"two", SILENT),
        (b"1", SILENT),
        (b"2", SILENT),
        (b"139", SILENT),
    ],
)
def test_ask_answers_and_spools(
    shell: list[str], made: ScriptSetup, payload: bytes, outcome: tuple[int, str, str]
) -> None:
    """Only an explicit block exits with 2; every Python failure exits with 0 and prints nothing."""
    assert _run(shell, made, "claude", "ask", "user", payload=payload) == outcome
    assert Path(made.home, "called").read_text() == f"claude user {os.getpid()}\n"


def test_broken_python_exits_zero(shell: list[str], made: ScriptSetup) -> None:
    """An interpreter or package that fails to start, without output."""
    Path(made.package).write_text("import nothing_of_this_name\n")
    assert _run(shell, made, "claude", "ask", "user", payload=b"block") == SILENT
    false = Path(made.home, "python")
    false.write_text("#!/bin/sh\necho broken >&2\nexit 2\n")
    false.chmod(0o700)
    _write(made._replace(python=str(false)))
    assert _run(shell, made, "claude", "ask", "user", payload=b"block") == SILENT


def test_status_prints_line(shell: list[str], made: ScriptSetup) -> None:
    """It prints Holdfast's output and never fails."""
    assert _run(shell, made, "claude", "status", "user", payload=b"answer") == (0, "{}", "")
    assert _run(shell, made, "claude", "status", "user", payload=b"fail") == SILENT
    assert Path(made.home, "called").read_text() == "status claude\n" * 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a process holds open is looked up in /proc")
def test_stir_starts_detached_drain(shell: list[str], made: ScriptSetup, tmp_path: Path) -> None:
    """After the payload is stored; the process has none of the agent's files open."""
    mine = tmp_path / "mine"
    with mine.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        hook = os.path.join(made.home, "hooks", "hook")
        done = subprocess.run(
            [*shell, hook, "claude", "stir", "user"], input=PAYLOAD, capture_output=True, check=False, close_fds=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [Path(entry.path).read_bytes() for entry in spool.list_entries(made.home)] == [PAYLOAD]
    drained = Path(made.home, "drained")
    until = time.monotonic() + 30
    while not drained.exists() and time.monotonic() < until:
        time.sleep(0.02)
    opened = {name for name in drained.read_text().splitlines() if not name.startswith(made.home)}
    assert {name for name in opened if not name.startswith("/proc/")} == {os.devnull}
    # The store may be larger than a payload.
    assert int(Path(made.home, "limit").read_text()) == resource.getrlimit(resource.RLIMIT_FSIZE)[1]


def test_payload_goes_through_python_without_dd(shell: list[str], made: ScriptSetup) -> None:
    """With the same arguments."""
    _write(made, by_dd=False)
    assert _run(shell, made, "claude", "tell", "project", CLAUDE_PID="12") == SILENT
    assert Path(made.home, "called").read_text() == "tell claude project 12\n"


# ── for which store ──────────────────────────────────────────────────────────────────────────────────────

CONNECTED = "postgresql://ada:pa55@db.example.org/work"  # as `connect` wrote it down
WITHOUT = "postgresql://ada@db.example.org/work"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////srv/it's $HOME/`x`.db", "sqlite:///a\\tb", "sqlite:///a?vault=b", WITHOUT, "postgresql://",
        f"{WITHOUT}?vault=team", "postgres://db:5433/work", "sqlite:///caf\xe9",
    ],
)  # fmt: skip
def test_script_writes_the_store_that_the_variable_names(shell: list[str], made: ScriptSetup, url: str) -> None:
    """As the file's first line, exactly, without another process."""
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE=url) == SILENT
    (kept,) = spool.list_entries(made.home)
    assert (kept.agent, kept.source, kept.store, kept.store_url()) == ("claude", "user", spool.NAMED, url)
    assert kept.payload(Path(kept.path).read_bytes()) == PAYLOAD
    assert not os.path.exists(os.path.join(made.home, "called"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:pa55@db/work", f"{WITHOUT}?password=pa55", f"{WITHOUT}?p%61ssword=pa55",
        f"{WITHOUT}?vault=x&password=pa55", f"{WITHOUT}?vault=x?password=pa55", f"{WITHOUT}?sslmode=require",
        "postgresql://ada:pa55@[::1]/work", "postgres://:pa55@/work", "sqlite:///two\nlines pa55", "ada:pa55@db",
        "POSTGRESQL://ada:pa55@db", "password=pa55", "pa55", "-n", "\\",
    ],
)  # fmt: skip
def test_script_writes_no_password_into_the_spool(shell: list[str], made: ScriptSetup, url: str) -> None:
    """A URL that may contain one goes to Python, which removes it."""
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE=url, CLAUDE_PID="12") == SILENT
    assert Path(made.home, "called").read_text() == "tell claude user 12\n"
    assert spool.list_entries(made.home) == []


def test_script_writes_the_store_it_was_connected_with(shell: list[str], made: ScriptSetup) -> None:
    """Without its password, which is in the file next to the script; quickly, also when the variable names it."""
    Path(made.home, "hooks", "store").write_text(CONNECTED)
    _write(made._replace(store=WITHOUT))
    assert _run(shell, made, "claude", "tell", "user") == SILENT
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE="") == SILENT
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE=CONNECTED) == SILENT
    assert [entry.store_url() for entry in spool.list_entries(made.home)] == [WITHOUT] * 3
    assert not os.path.exists(os.path.join(made.home, "called"))
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE="sqlite:////other.db") == SILENT
    assert _run(shell, made, "claude", "tell", "user", HOLDFAST_STORE=CONNECTED + "2", CLAUDE_PID="12") == SILENT
    assert spool.list_entries(made.home)[-1].store_url() == "sqlite:////other.db"
    assert Path(made.home, "called").read_text() == "tell claude user 12\n"


# ── too large ────────────────────────────────────────────────────────────────────────────────────────────


def _write_all(command: list[str], pieces: int, env: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Write this many MiB to a hook, like an agent that notices a closed pipe."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as hook:
        assert hook.stdin is not None
        assert hook.stdout is not None
        for _ in range(pieces):
            hook.stdin.write(b"x" * (1 << 20))
        hook.stdin.close()
        return hook.wait(60), hook.stdout.read()


def test_script_drops_a_payload_over_the_limit(shell: list[str], made: ScriptSetup) -> None:
    """The agent can write all of it, and Python gets the rest; the limit here is 1 MiB."""
    hook = Path(made.home, "hooks", "hook")
    limit = f"-f {(spool.MAX_PAYLOAD_SIZE + spool.MAX_URL_LENGTH) // 512}\n"
    text = hook.read_text()
    assert limit in text
    hook.write_text(text.replace(limit, "-f 1024\n"))
    assert _write_all([*shell, str(hook), "claude", "tell", "user"], 4) == (0, b"")
    assert spool.list_entries(made.home) == []
    assert os.listdir(os.path.join(made.home, "spool")) == []
    (words,) = Path(made.home, "called").read_text().splitlines()
    assert words.startswith(f"unkept claude {made.home}/spool/claude.user.")
    assert _run(shell, made, "claude", "tell", "user", payload=b"x" * 400_000) == SILENT
    assert [entry.size for entry in spool.list_entries(made.home)] == [400_000]


# ── command lines ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in ("sh", "dash", "bash", "zsh", "fish") if shutil.which(name)])
def test_command_line_runs_script(name: str, made: ScriptSetup) -> None:
    """In any shell; it does nothing when the script is missing."""
    line = script.command(made.home, "claude", "user")("tell")
    done = subprocess.run([name, "-c", line], input=PAYLOAD, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (kept,) = spool.list_entries(made.home)
    assert (kept.agent, kept.source, Path(kept.path).read_bytes()) == ("claude", "user", PAYLOAD)
    shutil.rmtree(made.home)
    done = subprocess.run([name, "-c", line], input=PAYLOAD, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_block_passes_command_line(made: ScriptSetup) -> None:
    """The exit code reaches the agent."""
    line = script.command(made.home, "claude", "user")("ask")
    done = subprocess.run(["sh", "-c", line], input=b"block", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"because")


def test_shared_command_line_uses_everybodys_own_home(tmp_path: Path, made: ScriptSetup) -> None:
    """Settings shared through git contain no personal path."""
    usual = tmp_path / "me" / ".local" / "share" / "holdfast"
    places = AgentDirs(str(tmp_path / "me"), str(tmp_path))
    shared = script.shared_home(places, str(usual))
    assert shared == "${HOLDFAST_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/holdfast}"
    assert script.shared_home(places, made.home) is None
    line = script.command(str(usual), "claude", "project", shared=shared)("tell")
    assert str(tmp_path) not in line
    for env in ({"HOLDFAST_HOME": made.home}, {"HOME": str(tmp_path / "me")}):
        done = subprocess.run(["sh", "-c", line], input=PAYLOAD, capture_output=True, check=False, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [entry.source for entry in spool.list_entries(made.home)] == ["project"]
    mac = AgentDirs("/Users/me", "/p", {}, "darwin")
    assert script.shared_home(mac, "/Users/me/Library/Application Support/holdfast") is not None


def test_command_lines_are_recognised() -> None:
    """With their home; those of other programs are not."""
    home = "/home/it's/.hold"
    line = script.command(home, "codex", "user")("stir")
    assert script.is_call(line)
    assert script.home_of(line) == home
    shared = script.command(home, "codex", "project", shared="${HOLDFAST_HOME:-$HOME/x}")("ask")
    assert script.is_call(shared)
    assert script.home_of(shared) is None
    assert script.is_call(script.status_line(home, "claude", "user"))
    for other in (
        "/home/me/hooks/hook run",
        "sh hooks/hook.sh claude tell user",
        "holdfast status",
        "hooks/hook vim tell user",
    ):
        assert not script.is_call(other)


def test_windows_script_runs_python() -> None:
    """The same arguments for cmd: paths in double quotes, percent signs escaped."""
    made = ScriptSetup(r"C:\Users\a%b\holdfast", r"C:\Py thon\python.exe", (r"C:\lib",), r"C:\lib\holdfast\x.py")
    line = script.command(made.home, "claude", "user", system="win32")("tell")
    hook = r'"C:\Users\a%b\holdfast\hooks\hook.cmd"'
    assert line == f"if exist {hook} call {hook} claude tell user"
    assert script.is_call(line)
    assert script.home_of(line) == made.home
    text = script.windows_script(made)
    assert r'"C:\Py thon\python.exe" -I -S "C:\Users\a%%b\holdfast\hooks\ask.py" tell %~1 %~3 0 >nul 2>nul' in text
    assert "if %errorlevel%==86 exit /b 2\r\n" in text
    assert text.replace("\r\n", "").isprintable()
    compile(script.ask_script(made), "ask.py", "exec")
