"""`holdfast run` as people and scripts use it: real processes, real signals, many at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import end

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sh and signals")

HOLDFAST = (sys.executable, "-m", "holdfast")


class RunProject:
    """A project with a session, and a home of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {**os.environ, "HOLDFAST_HOME": str(root / "home"), "NO_COLOR": "1"}
        self.project = root / "project"
        self.project.mkdir()
        self._open: list[subprocess.Popen[str]] = []

    def holdfast(self, *words: str, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*HOLDFAST, *words], cwd=self.project, env=self.env, capture_output=True, text=True, check=False,
            **{"timeout": 60, "stdin": subprocess.DEVNULL, **options},
        )  # fmt: skip
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def run(self, *words: str, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.holdfast("run", *words, code=code, **options)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [*HOLDFAST, "run", *words], cwd=self.project, env=self.env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._open.append(started)
        return started

    def session(self) -> Any:
        return json.loads(self.holdfast("status", "--json").stdout)["session"]

    def agent(self, name: str = "run-1") -> Any:
        return next((item for item in self.session()["agents"] if item["id"] == name), {"status": None})

    def events(self) -> list[Any]:
        document = json.loads(self.holdfast("log", "--json").stdout)["events"]
        assert isinstance(document, list)
        return document

    def close(self) -> None:
        for popen in self._open:
            end(popen, group=True)


def until(true: Callable[[], object]) -> None:
    """Waits until another process has done something."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RunProject]:
    made = RunProject(tmp_path)
    made.holdfast("start", "Run things")
    yield made
    made.close()


# ── transparency ─────────────────────────────────────────────────────────────────────────────────────────


def test_input_output_and_exit_code_are_passed_unchanged(bench: RunProject) -> None:
    """Every byte, also of standard error."""
    done = subprocess.run(
        [*HOLDFAST, "run", "--", "sh", "-c", "cat; printf '\\377' >&2; exit 3"],
        cwd=bench.project, env=bench.env, input=b"\x00\xff\r\n\x1b[31m", capture_output=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == (b"\x00\xff\r\n\x1b[31m", b"\xff", 3)
    assert bench.agent()["status"] == "error"


def test_options_after_two_dashes_belong_to_the_command(bench: RunProject) -> None:
    assert bench.run("--", "echo", "--json", "--", "-x").stdout == "--json -- -x\n"


def test_json_document_goes_to_stderr_after_the_commands_output(bench: RunProject) -> None:
    done = bench.run(
        "--json", "--agent", "a1", "--type", "t", "--task", "x", "--", "sh", "-c", "echo out; echo err >&2"
    )
    first, document = done.stderr.splitlines()
    answer = json.loads(document)
    assert (done.stdout, first) == ("out\n", "err")
    assert (answer["holdfast"], answer["exit_code"], answer["agent"]["id"]) == (1, 0, "a1")
    assert answer["agent"] == answer["session"]["agents"][0]


def test_error_before_the_start_is_a_json_document(bench: RunProject) -> None:
    """On standard error."""
    bench.holdfast("stop")
    done = bench.run("--json", "--", "echo", "never", code=3)
    assert done.stdout == ""
    assert json.loads(done.stderr)["error"]["kind"] == "not_found"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2), (("--",), 2), (("echo",), 2), (("--at", "10:00", "--", "true"), 2),
        (("--category", "x", "--", "true"), 4),
        (("--timeout", "0", "--", "true"), 4), (("--agent", "..", "--", "true"), 4), (("--", "no-such-command"), 127),
        (("--", "/"), 126), (("--timeout", "0.2", "--retries", "0", "--", "sleep", "60"), 124),
        (("--retries", "0", "--", "sh", "-c", "kill -TERM $$"), 143),
    ],
)  # fmt: skip
def test_exit_codes_of_run(bench: RunProject, words: tuple[str, ...], code: int) -> None:
    """Wrong usage is 2, invalid input 4; the command's own end is reported like in shells."""
    bench.run(*words, code=code)


def test_command_may_report_its_own_end(bench: RunProject) -> None:
    """It keeps its status and its code, also if it ends the session."""
    own = f"{sys.executable} -m holdfast"
    bench.run("--agent", "a", "--", "sh", "-c", f"{own} agent done a --summary 'All fine'; exit 5", code=5)
    assert (bench.agent("a")["status"], bench.agent("a")["summary"]) == ("completed", "All fine")
    done = bench.run("--quiet", "--agent", "b", "--", "sh", "-c", f"{own} --quiet stop; exit 6", code=6)
    assert "could be recorded" in done.stderr


def test_command_is_not_run_when_the_store_cannot_be_written(bench: RunProject) -> None:
    store = next((bench.root / "home").glob("**/*.db"), None) or next((bench.root / "home").glob("**/*.sqlite*"))
    store.write_bytes(b"")
    done = bench.run("--", "touch", "made", code=6)
    assert "empty" in done.stderr
    assert not (bench.project / "made").exists()


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_run_is_forwarded_to_the_command(bench: RunProject, number: signal.Signals) -> None:
    """The agent is aborted and not retried, and the exit code shows the signal."""
    running = bench.begin("--", "sh", "-c", "touch begun; exec sleep 60")
    until((bench.project / "begun").exists)
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert bench.agent()["status"] == "aborted"
    assert "agent.retried" not in [event["type"] for event in bench.events()]


def test_command_that_handles_the_signal_is_completed(bench: RunProject) -> None:
    """Its exit code decides."""
    running = bench.begin("--", "sh", "-c", "trap 'exit 0' TERM; touch begun; while :; do sleep 0.05; done")
    until((bench.project / "begun").exists)
    running.terminate()
    running.communicate(timeout=60)
    assert (running.returncode, bench.agent()["status"]) == (0, "completed")


def test_interrupted_waiting_run_is_aborted(bench: RunProject) -> None:
    """The command is never started."""
    for name in ("a", "b"):
        bench.holdfast("agent", "start", name, "--type", "x")
    waiting = bench.begin("--", "touch", "made")
    until(lambda: bench.agent()["status"] == "pending")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert (waiting.returncode, bench.agent()["status"]) == (130, "aborted")
    assert not (bench.project / "made").exists()


def test_interrupt_between_attempts_ends_the_retries(bench: RunProject) -> None:
    waiting = bench.begin("--", "sh", "-c", "kill -KILL $$")
    until(lambda: bench.agent()["status"] == "error")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert (waiting.returncode, bench.agent()["status"]) == (130, "aborted")


def test_command_of_a_killed_run_stays_a_running_agent(bench: RunProject) -> None:
    """After kill -9, resume sees whether the command still runs."""
    running = bench.begin("--", "sh", "-c", "echo $$ > pid; exec sleep 60")
    pid = bench.project / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() and bench.agent()["status"] == "running")
    assert bench.agent()["pid"] == int(pid.read_text())
    running.kill()
    running.wait()
    assert json.loads(bench.holdfast("resume", "--json").stdout)["interrupted"] == []
    os.kill(int(pid.read_text()), signal.SIGKILL)
    until(lambda: json.loads(bench.holdfast("resume", "--json").stdout)["interrupted"] == ["run-1"])
    assert bench.agent()["status"] == "interrupted"


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────


def at_once(events: list[Any]) -> int:
    """The largest number of agents that ran at the same time, by the log."""
    running: set[object] = set()
    most = 0
    for event in events:
        name = (event["data"] or {}).get("id")
        if event["type"] in ("agent.resumed", "agent.retried"):
            running.add(name)
        elif event["type"] in ("agent.completed", "agent.failed", "agent.timed_out", "agent.aborted"):
            running.discard(name)
        most = max(most, len(running))
    return most


def test_runs_never_exceed_the_modes_limit_of_agents(bench: RunProject) -> None:
    """Eight runs at once: two at a time, each with its own id."""
    work = "mkdir work.$$; ls -d work.* | wc -l >> counts; sleep 0.1; rmdir work.$$"
    runs = [bench.begin("--", "sh", "-c", work) for _ in range(8)]
    for popen in runs:
        _, result = popen.communicate(timeout=60)
        assert popen.returncode == 0, result
    agents = bench.session()["agents"]
    assert sorted(agent["id"] for agent in agents) == [f"run-{number}" for number in range(1, 9)]
    assert {agent["status"] for agent in agents} == {"completed"}
    assert at_once(bench.events()) == 2
    assert max(int(line) for line in (bench.project / "counts").read_text().split()) <= 2


def test_run_is_refused_after_three_failures_of_its_type(bench: RunProject) -> None:
    """With the seconds to wait; another type is not refused."""
    for _ in range(3):
        bench.run("--type", "flaky", "--", "false", code=1)
    refused = bench.run("--type", "flaky", "--", "touch", "made", code=1)
    assert " s\n" in refused.stderr
    assert not (bench.project / "made").exists()
    bench.run("--", "true")
