"""The status line: what it shows, what it passes on, and that no input disturbs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.cli import statusline
from holdfast.cli.paint import Paint, width_of
from holdfast.conversations import status_cache
from holdfast.core import modes
from holdfast.machine import error_log
from holdfast.workspace import spool

MINUTE = 60_000
TALK = "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"
# The time limit of hooks is not tested here, and a busy machine may need longer.
HOOKS = (
    "import sys; sys.path[:0] = {paths!r}; from holdfast.cli import hooking; hooking.TIME_LIMIT_SECONDS = 60;"
    " code = hooking.main(sys.argv[1:], {home!r})"
)


class StatusLine:
    """A home, a project and the status line of a conversation in it."""

    def __init__(self, where: Path) -> None:
        self.home = where / "home"
        self.project = where / "project"
        self.project.mkdir()
        # Whether it may start a process that drains the spool.
        self.may_drain = False
        self.environ = {"NO_COLOR": "1", "COLUMNS": "100", "HOME": str(where), "PATH": os.defpath}

    def payload(self, **fields: Any) -> dict[str, Any]:
        where = str(self.project)
        return {
            "session_id": TALK, "cwd": where, "workspace": {"current_dir": where, "project_dir": where},
            "model": {"id": "opus", "display_name": "Opus"}, "cost": {"total_cost_usd": 1.25},
            "context_window": {
                "context_window_size": 200_000, "used_percentage": 43,
                "current_usage": {"input_tokens": 80_000, "cache_read_input_tokens": 6_000},
            },
            **fields,
        }  # fmt: skip

    def raw(self, given: bytes, *, more: str = "", words: tuple[str, ...] = ("status", "claude")) -> str:
        """Runs it as connected: an isolated Python without site packages. Problems may only be logged."""
        if not self.may_drain and self.home.exists():
            (self.home / "glances").mkdir(exist_ok=True)
            just_now(self.home / "glances" / "drain")
        paths = [path for path in sys.path if path]
        program = HOOKS.format(paths=paths, home=str(self.home)) + f"\n{more}\nsys.exit(code)"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program, *words], input=given, env=self.environ, cwd=self.project,
            capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def __call__(self, **fields: Any) -> str:
        return self.raw(json.dumps(self.payload(**fields)).encode())

    def start(self, goal: str) -> str:
        with self.keeper() as keeper:
            return keeper.start(goal).id

    def keeper(self) -> Keeper:
        return Keeper.open(str(self.project), home=str(self.home))

    def payload_count(self) -> int:
        return len(list((self.home / "spool").glob("claude.status.*")))


@pytest.fixture
def line(tmp_path: Path) -> StatusLine:
    return StatusLine(tmp_path)


def later(home: Path) -> None:
    """As if the last payload was added a while ago."""
    for path in (home / "glances").glob("told-*"):
        os.utime(path, (1, 1))


def just_now(path: Path) -> None:
    """As if it happened just now, even for a process that a busy machine runs a little later."""
    path.touch()
    os.utime(path, (time.time() + 1.5, time.time() + 1.5))


# ── display ──────────────────────────────────────────────────────────────────────────────────────────────


def cached_status(goal: str = "Add login", **more: Any) -> dict[str, Any]:
    lines = [[40 * MINUTE, "break (40 min)", False, False], [60 * MINUTE, "break due (60 min)", False, False]]
    return {
        "v": 1,
        "goal": goal,
        "agents": 0,
        "pieces": [[0, 0, 1, "", 0, 0], [999 * MINUTE, 240 * MINUTE, 0, "idle", 970 * MINUTE, 0]],
        "lines": lines,
    } | more


def draw(status: dict[str, Any] | None, payload: dict[str, Any], *, minutes: int = 0, width: int = 100) -> str:
    return str(statusline.render_line(status, payload, Paint(width, tty=True), now=minutes * MINUTE))


def test_line_shows_goal_time_agents_context_and_cost(line: StatusLine) -> None:
    drawn = draw(cached_status(agents=2), line.payload(), minutes=12)
    assert drawn == "Add login · 12m · 2 agents · ████▎····· 43% · $1.25"


def test_line_shows_kind_and_length_of_a_pause_with_the_time_worked(line: StatusLine) -> None:
    """The time alone would read as the length of the pause."""
    drawn = draw(cached_status(), line.payload(), minutes=1000)
    assert drawn == "Add login · ⏸ 30m idle, 4h00 worked · ████▎····· 43% · $1.25"


@pytest.mark.parametrize(("minutes", "words"), [(39, None), (40, "☕ break (40 min)"), (61, "☕ break due (60 min)")])
def test_line_shows_a_reminder_once_its_limit_is_crossed(line: StatusLine, minutes: int, words: str | None) -> None:
    """Although nothing was recorded since."""
    drawn = draw(cached_status(), line.payload(), minutes=minutes)
    assert drawn.endswith(words) if words else "☕" not in drawn


def test_line_shows_a_reached_reminder_until_the_break(line: StatusLine) -> None:
    result = cached_status(lines=[[40 * MINUTE, "break", True, False]])
    assert "☕ break" in draw(result, line.payload(), minutes=1)
    assert "☕" not in draw(result, line.payload(), minutes=1000)


def test_line_shows_what_waits_for_the_person(line: StatusLine) -> None:
    assert "waits for you" in draw(cached_status(waits=True), line.payload())


def test_line_without_a_session_shows_project_and_context(line: StatusLine) -> None:
    assert draw(None, line.payload()) == "project · ████▎····· 43% · $1.25"
    assert draw(None, {}) == ""


def test_line_cuts_the_goal_before_the_status(line: StatusLine) -> None:
    drawn = draw(cached_status("A goal of very many words that nobody could ever show"), line.payload(), width=50)
    assert drawn.startswith("A goal of")
    assert "… · 0m · " in drawn
    assert width_of(drawn) <= 50


@pytest.mark.parametrize("tokens", [0, 99_999, 100_000, 139_999, 140_000, 169_999, 170_000, 200_000])
def test_line_colours_the_context_bar_like_status(tokens: int) -> None:
    usage = {"context_window": {"context_window_size": 200_000, "current_usage": {"input_tokens": tokens}}}
    share = statusline.context_percent(usage)
    assert share is not None
    level = next(level for limit, level in statusline._LEVELS if share >= limit)
    assert level == modes.level(tokens, 200_000)


_TEXT = st.text(st.characters(exclude_categories=()))
_NAMES = st.sampled_from(["used_percentage", "total_cost_usd", "current_dir", "input_tokens", "id"])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner),
    max_leaves=6,
)
_FIELDS = st.sampled_from(["session_id", "cwd", "workspace", "model", "cost", "context_window", "rate_limits"])


@given(
    st.dictionaries(_FIELDS, _ANYTHING), _TEXT, st.integers(1, 300), st.integers(0, 10**13),
    st.booleans(),
)  # fmt: skip
def test_line_is_one_line_of_visible_text_for_any_input(
    payload: dict[str, Any], goal: str, width: int, now: int, colour: bool
) -> None:
    """No wider than allowed."""
    for entry in (cached_status(goal), None):
        drawn = statusline.render_line(entry, payload, Paint(width, colour, tty=True), now=now)
        for code in (*range(1, 3), 22, 31, 32, 33, 36, 39, 0):
            drawn = type(drawn)(drawn.replace(f"\x1b[{code}m", ""))
        assert "\x1b" not in drawn
        assert not any(char < " " or "\x7f" <= char < "\xa0" or "\u202a" <= char <= "\u202e" for char in drawn)
        assert "\u2066" not in drawn
        assert width_of(drawn) <= width
        statusline._checksum(payload)
        drawn.encode()


@pytest.mark.parametrize(("asked", "width"), [("1", 1), ("5", 5), ("19", 19), ("0", 80), ("", 80), ("x", 80)])
def test_narrow_terminal_got_a_longer_line_than_it_asked_for(line: StatusLine, asked: str, width: int) -> None:
    """A meaningless width counts as the default."""
    line.start("A goal of very many words that nobody could ever show in one line of a terminal of any size at all")
    line.environ["COLUMNS"] = asked
    assert width_of(line().rstrip("\n")) <= width
    assert statusline._paint({"COLUMNS": asked}).width == width


# ── as a process ─────────────────────────────────────────────────────────────────────────────────────────


def test_line_follows_the_session(line: StatusLine) -> None:
    line.start("Add login")
    assert line() == "Add login · 0m · ████▎····· 43% · $1.25\n"
    with line.keeper() as keeper:
        keeper.patience = 0
        keeper.session().pause("lunch")
    assert "Add login · ⏸ 0m paused, 0m worked · " in line()


def test_line_has_colours_unless_switched_off(line: StatusLine) -> None:
    line.start("Add login")
    del line.environ["NO_COLOR"]
    assert "\x1b[1mAdd login\x1b[22m" in line()


def test_line_from_the_cache_loads_only_the_standard_library(line: StatusLine) -> None:
    """And little of it."""
    line.start("Add login")
    line()
    loaded = "open(sys.argv[3], 'w').write(' '.join(sys.modules))"
    seen = line.project.parent / "modules"
    given = json.dumps(line.payload()).encode()
    assert "Add login" in line.raw(given, more=loaded, words=("status", "claude", str(seen)))
    modules = set(seen.read_text().split())
    assert not modules & {"msgspec", "apsw", "typing", "subprocess", "hashlib", "threading", "datetime", "pathlib"}
    ours = {name for name in modules if name.startswith(("holdfast.keeper", "holdfast.core", "holdfast.store"))}
    assert ours == {"holdfast.core", "holdfast.core.agent_programs"}


@pytest.mark.parametrize(
    "given",
    [b"", b"  \n", b"{", b"not json", b"[]", b"null", b"7", b'"x"', b"\xff\xfe\x00", b"[" * 100_000, b"{}",
     b'{"session_id": 7, "workspace": [], "cost": "much", "context_window": {"used_percentage": "all"}}',
     b'{"session_id": "\\ud800", "cwd": "/tmp/\\u0000x"}', b'{"session_id": "../../../etc/passwd", "cwd": "."}',
     b'{"session_id": "a", "cwd": "/nowhere/at/all"}', b'{"context_window": {"used_percentage": 1e999}}'],
)  # fmt: skip
def test_line_accepts_invalid_input(line: StatusLine, given: bytes) -> None:
    """At most one line of text, never an error."""
    line.start("Add login")
    shown = line.raw(given)
    assert shown.count("\n") <= 1
    assert error_log.lines(str(line.home)) == []


def test_agent_without_a_status_line_gets_no_line(line: StatusLine) -> None:
    for name in ("codex", "nobody", ""):
        assert line.raw(json.dumps(line.payload()).encode(), words=("status", name)) == ""


def test_line_without_a_home_creates_none(line: StatusLine) -> None:
    """It shows what the agent itself reports."""
    assert line() == "project · ████▎····· 43% · $1.25\n"
    assert not line.home.exists()


def test_line_is_shown_with_a_damaged_store(line: StatusLine) -> None:
    line.home.mkdir()
    (line.home / "store.db").write_bytes(b"no store at all" * 1000)
    assert line().startswith("project · ")
    assert error_log.lines(str(line.home))


def test_line_survives_a_closed_stdout(line: StatusLine) -> None:
    """The agent exited meanwhile."""
    line.start("Add login")
    reader, writer = os.pipe()
    os.close(reader)
    program = HOOKS.format(paths=[path for path in sys.path if path], home=str(line.home))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "status", "claude"], input=json.dumps(line.payload()).encode(),
        env=line.environ, stdout=writer, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


# ── payloads ─────────────────────────────────────────────────────────────────────────────────────────────


def test_line_adds_a_payload_when_relevant_fields_changed(line: StatusLine) -> None:
    """Not when it is merely drawn again."""
    line.start("Add login")
    line()
    assert line.payload_count() == 1
    later(line.home)
    line(version="2.2", session_name="other")
    assert line.payload_count() == 1
    later(line.home)
    line(cost={"total_cost_usd": 1.5, "total_duration_ms": 7})
    assert line.payload_count() == 2
    just_now(next((line.home / "glances").glob("told-*")))
    line(cost={"total_cost_usd": 1.75})
    assert line.payload_count() == 2, "that is too soon"
    later(line.home)
    line(cost={"total_cost_usd": 1.75})
    assert line.payload_count() == 3


def test_status_cache_contains_nothing_of_a_payload(line: StatusLine) -> None:
    """The last payload is kept as a checksum."""
    line.start("Add login")
    line(rate_limits={"s3cret": {"used_percentage": "s3cret"}}, model={"id": "s3cret"})
    (result,) = (line.home / "glances").glob("told-*")
    assert b"s3cret" not in result.read_bytes()
    assert len(result.read_bytes()) < 20
    later(line.home)
    line(rate_limits={"s3cret": {"used_percentage": 12}}, model={"id": "s3cret"})
    assert line.payload_count() == 2


def test_json_has_the_line_and_its_parts(line: StatusLine) -> None:
    """Without colours; the payload is added too."""
    line.start("Add login")
    (line.home / "glances").mkdir()
    just_now(line.home / "glances" / "drain")
    environ = {name: value for name, value in line.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "statusline", "claude", "--json"],
        input=json.dumps(line.payload()).encode(), env=environ | {"HOLDFAST_HOME": str(line.home)}, cwd=line.project,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)
    document = json.loads(done.stdout)
    assert 0 <= document.pop("working_ms") < MINUTE
    assert document == {
        "holdfast": 1, "line": "Add login · 0m · ████▎····· 43% · $1.25", "agent": "claude", "goal": "Add login",
        "pause": None, "context_percent": 43, "cost_usd": 1.25,
    }  # fmt: skip
    assert line.payload_count() == 1


def test_payload_of_the_line_is_recorded_in_the_session(line: StatusLine) -> None:
    """Context, window, cost, model and limits of the conversation."""
    session = line.start("Add login")
    spool.add_payload(str(line.home), "claude", "user", 1, json.dumps({
        "session_id": TALK, "cwd": str(line.project), "hook_event_name": "UserPromptSubmit", "prompt": "Go on",
    }).encode())  # fmt: skip
    with line.keeper() as keeper:
        assert keeper.session().id == session
    line(rate_limits={"five_hour": {"used_percentage": 12, "resets_at": 1_794_750_000}})
    with line.keeper() as keeper:
        document = keeper.session(f"claude:{TALK}").document()
    assert (document.context.tokens, document.context.window, document.cost_usd, document.model) == (
        86_000,
        200_000,
        1.25,
        "opus",
    )
    assert document.extra["rate_limits"] == {"five_hour": {"used_percentage": 12, "resets_at": 1_794_750_000}}
    with line.keeper() as keeper:
        assert keeper.session().document().updated_at == document.updated_at
        before = len(keeper.events(session))
    line(rate_limits={"five_hour": {"used_percentage": 12, "resets_at": 1_794_750_000}})
    with line.keeper() as keeper:
        assert len(keeper.events(session)) == before, "the line drawn again is no sign of work"


def test_line_starts_a_process_that_drains_the_spool(line: StatusLine) -> None:
    """It does not wait for it; the next line shows the result."""
    line.home.mkdir()
    assert line().startswith("project")
    prompt = {
        "session_id": TALK,
        "cwd": str(line.project),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Add login",
    }
    spool.add_payload(str(line.home), "claude", "user", 1, json.dumps(prompt).encode())
    (line.home / "glances" / "drain").unlink(missing_ok=True)
    line.may_drain = True
    line()
    _until(lambda: not spool.has_entries(str(line.home)))
    _until(lambda: line().startswith("Add login · "))


def _until(so: Callable[[], bool]) -> None:
    for _ in range(600):
        if so():
            return
        time.sleep(0.05)
    raise AssertionError


def test_line_finds_the_session_of_any_conversation_id(line: StatusLine) -> None:
    line.start("Add login")
    for talk in (TALK, "Ünïcode id", "A" * 200):
        assert line(session_id=talk).startswith("Add login")
        assert Path(status_cache.conversation_path(str(line.home), f"claude:{talk}")).exists()
