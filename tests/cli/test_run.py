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


class Bench:
    """A project with a session, and a home of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {**os.environ, "HOLDFAST_HOME": str(root / "home"), "NO_COLOR": "1"}
        self.project = root / "project"
        self.project.mkdir()
        self._open: list[subprocess.Popen[str]] = []

    def hold(self, *words: str, code: int | None = 0, **said: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*HOLDFAST, *words], cwd=self.project, env=self.env, capture_output=True, text=True, check=False,
            **{"timeout": 60, "stdin": subprocess.DEVNULL, **said},
        )  # fmt: skip
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def run(self, *words: str, code: int | None = 0, **said: Any) -> subprocess.CompletedProcess[str]:
        return self.hold("run", *words, code=code, **said)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [*HOLDFAST, "run", *words], cwd=self.project, env=self.env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._open.append(started)
        return started

    def session(self) -> Any:
        return json.loads(self.hold("status", "--json").stdout)["session"]

    def agent(self, name: str = "run-1") -> Any:
        return next((item for item in self.session()["agents"] if item["id"] == name), {"status": None})

    def events(self) -> list[Any]:
        document = json.loads(self.hold("log", "--json").stdout)["events"]
        assert isinstance(document, list)
        return document

    def close(self) -> None:
        for popen in self._open:
            end(popen, group=True)


def until(true: Callable[[], object]) -> None:
    """Wait for something another process does."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    made.hold("start", "Run things")
    yield made
    made.close()


# ── as if Holdfast were not there ────────────────────────────────────────────────────────────────────────


def test_input_output_and_code_are_the_commands_own(bench: Bench) -> None:
    """Every byte in, out and to standard error passes untouched, and so does the exit code."""
    done = subprocess.run(
        [*HOLDFAST, "run", "--", "sh", "-c", "cat; printf '\\377' >&2; exit 3"],
        cwd=bench.project, env=bench.env, input=b"\x00\xff\r\n\x1b[31m", capture_output=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == (b"\x00\xff\r\n\x1b[31m", b"\xff", 3)
    assert bench.agent()["status"] == "error"


def test_options_after_the_dashes_are_the_commands(bench: Bench) -> None:
    """Nothing after `--` is read as an option of ours."""
    assert bench.run("--", "echo", "--json", "--", "-x").stdout == "--json -- -x\n"


def test_document_goes_to_standard_error(bench: Bench) -> None:
    """With --json one document follows the command's own output, on standard error."""
    done = bench.run(
        "--json", "--agent", "a1", "--type", "t", "--task", "x", "--", "sh", "-c", "echo out; echo err >&2"
    )
    first, document = done.stderr.splitlines()
    answer = json.loads(document)
    assert (done.stdout, first) == ("out\n", "err")
    assert (answer["holdfast"], answer["exit_code"], answer["agent"]["id"]) == (1, 0, "a1")
    assert answer["agent"] == answer["session"]["agents"][0]


def test_errors_are_documents_too(bench: Bench) -> None:
    """With --json what goes wrong before the command starts is one document on standard error."""
    bench.hold("stop")
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
def test_codes(bench: Bench, words: tuple[str, ...], code: int) -> None:
    """Wrong usage is 2, invalid input 4; what happens to the command is told as shells tell it."""
    bench.run(*words, code=code)


def test_command_can_speak_for_itself(bench: Bench) -> None:
    """An agent that reports its own end, or ends the session, keeps its word and its code."""
    own = f"{sys.executable} -m holdfast"
    bench.run("--agent", "a", "--", "sh", "-c", f"{own} agent done a --summary 'All fine'; exit 5", code=5)
    assert (bench.agent("a")["status"], bench.agent("a")["summary"]) == ("completed", "All fine")
    done = bench.run("--quiet", "--agent", "b", "--", "sh", "-c", f"{own} --quiet stop; exit 6", code=6)
    assert "could be recorded" in done.stderr


def test_store_that_cannot_be_written_stops_it_beforehand(bench: Bench) -> None:
    """The command is not run when nothing could be recorded of it."""
    store = next((bench.root / "home").glob("**/*.db"), None) or next((bench.root / "home").glob("**/*.sqlite*"))
    store.write_bytes(b"")
    done = bench.run("--", "touch", "made", code=6)
    assert "empty" in done.stderr
    assert not (bench.project / "made").exists()


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_us_stops_the_command(bench: Bench, number: signal.Signals) -> None:
    """A signal is passed on, the agent is given up and not tried again, and the code says which signal it was."""
    running = bench.begin("--", "sh", "-c", "touch begun; exec sleep 60")
    until((bench.project / "begun").exists)
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert bench.agent()["status"] == "aborted"
    assert "agent.retried" not in [event["type"] for event in bench.events()]


def test_command_that_copes_with_the_signal_has_succeeded(bench: Bench) -> None:
    """What counts is how the command ended, not that somebody wanted it to end."""
    running = bench.begin("--", "sh", "-c", "trap 'exit 0' TERM; touch begun; while :; do sleep 0.05; done")
    until((bench.project / "begun").exists)
    running.terminate()
    running.communicate(timeout=60)
    assert (running.returncode, bench.agent()["status"]) == (0, "completed")


def test_stopping_one_that_waits_gives_it_up(bench: Bench) -> None:
    """Ctrl-C while waiting for a turn: the command never ran, its agent is aborted."""
    for name in ("a", "b"):
        bench.hold("agent", "start", name, "--type", "x")
    waiting = bench.begin("--", "touch", "made")
    until(lambda: bench.agent()["status"] == "pending")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert (waiting.returncode, bench.agent()["status"]) == (130, "aborted")
    assert not (bench.project / "made").exists()


def test_stopping_between_two_attempts_ends_the_attempts(bench: Bench) -> None:
    """Ctrl-C while waiting to try again is obeyed at once."""
    waiting = bench.begin("--", "sh", "-c", "kill -KILL $$")
    until(lambda: bench.agent()["status"] == "error")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert (waiting.returncode, bench.agent()["status"]) == (130, "aborted")


def test_killing_us_leaves_the_command_to_be_found(bench: Bench) -> None:
    """After kill -9 the agent stays running under the command's process; resume sees whether that still runs."""
    running = bench.begin("--", "sh", "-c", "echo $$ > pid; exec sleep 60")
    pid = bench.project / "pid"
    until(lambda: pid.exists() and pid.read_text().strip() and bench.agent()["status"] == "running")
    assert bench.agent()["pid"] == int(pid.read_text())
    running.kill()
    running.wait()
    assert json.loads(bench.hold("resume", "--json").stdout)["interrupted"] == []
    os.kill(int(pid.read_text()), signal.SIGKILL)
    until(lambda: json.loads(bench.hold("resume", "--json").stdout)["interrupted"] == ["run-1"])
    assert bench.agent()["status"] == "interrupted"


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────


def at_once(events: list[Any]) -> int:
    """The largest number of agents that were running at the same time, by the log."""
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


def test_never_more_at_once_than_the_mode_allows(bench: Bench) -> None:
    """Eight runs started together: two at a time, each with its own id, none forgotten."""
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


def test_three_failures_open_the_circuit(bench: Bench) -> None:
    """The fourth run of a type that failed three times is refused with the seconds to wait; another type is not."""
    for _ in range(3):
        bench.run("--type", "flaky", "--", "false", code=1)
    refused = bench.run("--type", "flaky", "--", "touch", "made", code=1)
    assert " s\n" in refused.stderr
    assert not (bench.project / "made").exists()
    bench.run("--", "true")
