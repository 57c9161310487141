"""`holdfast tour`: run the main use of Holdfast for real, in a scratch directory that is removed afterwards."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.core.times import DAY, HOUR, MINUTE, format_time
from holdfast.machine.wall import Wall, local_offset, monotonic

# ── tour ───────────────────────────────────────────────────────────────────────────────────────────────


GOAL = "Add search to the notes"
PLAN = """\
## Design
- [ ] Choose the index (id: choose)

## Build
- [ ] Write the search (id: search)
- [ ] Test it (id: test)
"""
# The agents: programs that really write files.
INDEXER = '''\
"""Writes the search."""
code = """\\
def search(notes, words):
    return [name for name, text in notes.items() if all(word in text for word in words.split())]
"""
with open("search.py", "w") as file:
    file.write(code)
print("indexer: wrote search.py")
'''
TESTER = '''\
"""Writes the tests and runs them; the first time it is stopped half-way."""
import os, time
first = "from search import search\\n\\nassert search({'a': 'red fish'}, 'fish') == ['a']\\n"
rest = "assert search({'a': 'red fish'}, 'cat') == []\\n"
signs = os.environ["TOUR_SIGNS"]
if not os.path.exists("test_search.py"):
    with open("test_search.py", "w") as file:
        file.write(first)
    while not os.path.exists(os.path.join(signs, "go")):
        time.sleep(0.01)
    with open("test_search.py", "a") as file:
        file.write(rest[:20])
    open(os.path.join(signs, "half"), "w").close()
    time.sleep(600)
with open("test_search.py", "w") as file:
    file.write(first + rest)
exec(compile(first + rest, "test_search.py", "exec"))
print("tester: wrote test_search.py, 2 checks passed")
'''


def tour(call: Call) -> int:
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-tour-", ignore_cleanup_errors=True) as scratch:
        tour = Tour(call, os.path.realpath(scratch))
        try:
            tour.prepare(("plan.md", PLAN), ("indexer.py", INDEXER), ("tester.py", TESTER))
            _run_steps(tour)
        except TourFailed as failed:
            tour.report(str(failed), passed=False)
        finally:
            tour.close()
    return tour.print_summary(monotonic() - began)


# ── the steps ───────────────────────────────────────────────────────────────────────────────────────────


def _run_steps(tour: Tour) -> None:
    at = tour.minutes_ago
    tour.explain("A session begins with a goal. All of this is real, in a scratch directory.")
    tour.holdfast("start", GOAL, "--scope", "search", *at(75))
    tour.explain("Its plan is a checklist in Markdown; YAML and JSON work too.")
    tour.holdfast("plan", "import", "plan.md", *at(74))
    tour.explain("Agents report what they do, and decisions are kept with their reasons.")
    tour.holdfast("agent", "start", "scout", "--type", "reader", "--task", "Read the code", *at(73))
    tour.holdfast("agent", "done", "scout", "--summary", "Notes are plain files", *at(69))
    tour.holdfast("decide", "Plain search", "--option", "FTS5", "--why", "Few notes", *at(68))
    tour.holdfast("task", "done", "choose", *at(67))
    tour.explain("Lunch is a pause, not work; --at lets the hour pass in a moment.")
    tour.holdfast("pause", "Lunch", *at(66))
    tour.holdfast("resume", "--quiet", *at(3))
    tour.explain("An agent that joins now reads the briefing and knows where things stand.")
    tour.holdfast("briefing", "--for", "agent", "--max-chars", "800")
    tour.explain("`run` makes any command an agent: its output, its exit code, a record of both.")
    tour.holdfast("run", "--agent", "indexer", "--task", "Write it", "--", tour.python, "indexer.py")
    tour.holdfast("file", "search.py", "--action", "created", "--agent", "indexer")
    tour.holdfast("task", "done", "search", "--artifact", "search.py")
    _crash(tour)
    tour.explain("The work goes on where it stopped.")
    tour.holdfast("run", "--agent", "tester-2", "--task", "Test it", "--", tour.python, "tester.py")
    tour.holdfast("file", "test_search.py", "--action", "modified", "--agent", "tester-2")
    tour.holdfast("task", "done", "test", "--artifact", "test_search.py")
    tour.explain("Where the time went.")
    tour.holdfast("timeline")
    tour.explain("Every event holds the hash of the one before it; doctor follows the chain.")
    tour.holdfast("doctor")
    tour.check(
        "the whole log verifies", true=all(item["status"] != "failed" for item in tour.ask_json("doctor")["checks"])
    )
    tour.explain("The session is done, and stays in history.")
    tour.holdfast("stop")
    session = tour.final_session()
    time = session["time"]
    tour.check(
        "working and paused time add up to the time that passed",
        true=session["status"] == "completed" and time["working_ms"] + time["paused_ms"] == time["elapsed_ms"],
    )
    _recorded_by_hooks(tour)


def _recorded_by_hooks(tour: Tour) -> None:
    tour.explain("With an agent connected, all of this is recorded automatically. Claude Code, for example:")
    tour.holdfast("connect", "claude", "--quiet")
    tour.hook("SessionStart", source="startup", model="claude-opus")
    tour.hook("UserPromptSubmit", prompt="Let search ignore case")
    with open(tour.project_path("search.py"), "rb") as file:
        before = file.read().decode()
    after = before.replace("word in text", "word.lower() in text.lower()")
    with open(tour.project_path("search.py"), "w", encoding="utf-8", newline="") as file:
        file.write(after)
    tour.hook(
        "PostToolUse", tool_name="Edit", tool_use_id="t1",
        tool_input={"file_path": tour.project_path("search.py"), "old_string": "word in text",
                    "new_string": "word.lower() in text.lower()"},
        tool_response={"filePath": tour.project_path("search.py"), "originalFile": before},
    )  # fmt: skip
    tour.hook("PostToolUse", tool_name="Bash", tool_use_id="t2", tool_input={"command": "python test_search.py"})
    tour.hook("Stop", last_assistant_message="Done.")
    tour.holdfast("status")
    session = tour.ask_json("status")["session"]
    tour.check(
        "the session recorded itself: goal, file with its hashes, command",
        true=session["goal"] == "Let search ignore case"
        and [item["hash_before"] is not None for item in session["files"]] == [True]
        and session["commands"]["total"] == 1,
    )
    answer = tour.answered_hook("SessionStart", session_id="tomorrow", source="startup")
    context = answer["hookSpecificOutput"]["additionalContext"]
    tour.check(
        "opened again tomorrow, the agent receives the briefing",
        true="Let search ignore case" in context and "claude --resume tour" in context,
    )
    tour.holdfast("disconnect", "claude", "--quiet")
    tour.check("its settings are as they were", true=not os.path.exists(tour.person_path(".claude/settings.json")))


def _crash(tour: Tour) -> None:
    tour.explain("Now the worst case: kill -9 ends an agent in the middle, and Holdfast with it.")
    victim = tour.start_background("run", "--agent", "tester", "--task", "Test it", "--", tour.python, "tester.py")
    tour.wait(lambda: os.path.exists(tour.project_path("test_search.py")), "the agent's file")
    tour.holdfast("file", "test_search.py", "--action", "created", "--agent", "tester")
    tour.signal_agent("go")
    tour.wait(lambda: os.path.exists(os.path.join(tour.signals, "half")), "the agent's second write")
    before = tour.hashes()
    tour.kill(victim, int(tour.agent("tester")["pid"] or 0))
    tour.explain("Nothing could be recorded. On resume, Holdfast detects what happened.")
    resumed = tour.holdfast("resume").splitlines()
    after = tour.hashes()
    tour.lost = len(set(before) - set(after))
    tour.check(
        f"{len(before)} events before the crash, the same {len(before)} after it", true=after[: len(before)] == before
    )
    tour.check("the killed agent is recorded as interrupted", true=tour.agent("tester")["status"] == "interrupted")
    tour.check(
        "search.py is whole; test_search.py changed after it was recorded",
        true=any("test_search.py" in line and "changed" in line for line in resumed)
        and not any(" search.py" in line and "changed" in line for line in resumed),
    )


# ── tour ───────────────────────────────────────────────────────────────────────────────────────────────


_TIMEOUT = 30.0  # seconds for another process to do its part


class TourFailed(Exception):
    """The tour cannot go on; says why."""


class TourStep(NamedTuple):
    command: str
    code: int
    output: str


class Tour:
    def __init__(self, call: Call, scratch: str) -> None:
        self._call = call
        self._paint: Paint = call.paint
        self._project = os.path.join(scratch, "notes")
        self.signals = os.path.join(scratch, "signs")
        self._person = os.path.join(scratch, "person")
        self._env = _environment(call.environ, self._paint)
        self._env.update(HOLDFAST_HOME=os.path.join(scratch, "home"), TOUR_SIGNS=self.signals)
        # Whoever is connected on the tour is nobody's agent.
        self._env.update(HOME=self._person, USERPROFILE=self._person, CLAUDE_CONFIG_DIR=self.person_path(".claude"))
        self._now = Wall().now()
        self.python = sys.executable
        self._steps: list[TourStep] = []
        self._checks: list[tuple[str, bool]] = []
        self._background: list[subprocess.Popen[str]] = []
        self._session = ""
        self._events = 0
        self.lost = 0

    def prepare(self, *contents: tuple[str, str]) -> None:
        """A project: with git, if it is there."""
        for directory in (self._project, self.signals, self._person):
            os.mkdir(directory)
        for name, content in contents:
            with open(self.project_path(name), "x", encoding="utf-8") as file:
                file.write(content)
        from shutil import which

        git = which("git")
        if git is not None:
            subprocess.run(  # noqa: S603 -- a fixed command in our own scratch directory
                [git, "init", "-q"], cwd=self._project, env=self._env, check=False, capture_output=True
            )

    def close(self) -> None:
        for process in self._background:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()

    def project_path(self, name: str) -> str:
        return os.path.join(self._project, name)

    def person_path(self, name: str) -> str:
        """A path in the home of the person who takes the tour."""
        return os.path.join(self._person, name)

    def signal_agent(self, name: str) -> None:
        with open(os.path.join(self.signals, name), "x", encoding="utf-8"):
            pass

    def minutes_ago(self, minutes: int) -> tuple[str, str]:
        """`--at` for a moment in the past: the clock's time while that is still today."""
        moment = self._now // MINUTE * MINUTE - minutes * MINUTE
        local = moment + int(local_offset(moment).total_seconds()) * 1000
        if 2 * HOUR < (self._now + int(local_offset(self._now).total_seconds()) * 1000) % DAY < DAY - 5 * MINUTE:
            return "--at", f"{local % DAY // HOUR:02d}:{local % HOUR // MINUTE:02d}"
        return "--at", format_time(moment)[:16] + "Z"

    # commands

    def holdfast(self, *words: str) -> str:
        """Run a command and show it with its output; the tour ends if it fails."""
        command = self._command(words)
        self._prompt(command)
        step = self._run(command, words, merged=True)
        self._print("\n".join(f"  {line}".rstrip() for line in step.output.splitlines()))
        if step.code != 0:
            raise TourFailed(f"`{command}` ended with exit code {step.code}")
        return step.output

    def start_background(self, *words: str) -> subprocess.Popen[str]:
        command = self._command(words) + " &"
        self._prompt(command)
        self._steps.append(TourStep(command, 0, ""))
        process = subprocess.Popen(  # noqa: S603 -- Holdfast itself
            self._argv(words), cwd=self._project, env=self._env, text=True, encoding="utf-8", errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._background.append(process)
        return process

    def kill(self, process: subprocess.Popen[str], agent: int) -> None:
        """End both for good, without a chance to say anything."""
        number = getattr(signal, "SIGKILL", signal.SIGTERM)
        command = f"kill -9 {process.pid} {agent}"
        self._prompt(command)
        self._steps.append(TourStep(command, 0, ""))
        if agent <= 0:
            raise TourFailed("the agent's process is not recorded")
        os.kill(process.pid, number)
        os.kill(agent, number)
        process.communicate()
        self._print("")

    def hook(self, event: str, **fields: object) -> str:
        """What Claude Code does with this event: run the command in its settings; gives what that answers."""
        with open(self.person_path(".claude/settings.json"), encoding="utf-8") as file:
            command: str = json.load(file)["hooks"][event][0]["hooks"][0]["command"]
        payload = {"session_id": "tour", "cwd": self._project, "hook_event_name": event, **fields}
        self._print(str(self._paint.dim(f"  Claude Code runs its hook: {event}")))
        shell = ["cmd", "/d", "/c"] if os.name == "nt" else ["/bin/sh", "-c"]
        process = subprocess.run(  # noqa: S603 -- the line that we have just put there ourselves
            [*shell, command], cwd=self._project, env=self._env, check=False, text=True, encoding="utf-8",
            errors="replace", input=json.dumps(payload), capture_output=True,
        )  # fmt: skip
        self._steps.append(TourStep(f"hook: {event}", process.returncode, process.stdout))
        if process.returncode != 0:
            raise TourFailed(f"the hook of {event} ended with exit code {process.returncode}")
        return process.stdout

    def answered_hook(self, event: str, **fields: object) -> Any:
        """The same, of a hook that has something to say. On a machine that is busy it would rather say nothing than
        hold the agent up: then the agent is opened once more.
        """
        until = monotonic() + _TIMEOUT
        while not (answer := self.hook(event, **fields)):
            if monotonic() > until:
                raise TourFailed(f"the hook of {event} did not answer in {_TIMEOUT:.0f} s")
        return json.loads(answer)

    def wait(self, happened: Callable[[], bool], label: str) -> None:
        until = monotonic() + _TIMEOUT
        while not happened():
            if monotonic() > until:
                raise TourFailed(f"{label} did not appear in {_TIMEOUT:.0f} s")
            time.sleep(0.01)

    def ask_json(self, *words: str) -> Any:
        """A question of the tour's own: run quietly, answered in JSON."""
        words = (*words, "--json")
        command = self._command(words)
        step = self._run(command, words, merged=False)
        if step.code != 0:
            raise TourFailed(f"`{command}` ended with exit code {step.code}")
        return json.loads(step.output)

    def hashes(self) -> list[str]:
        self._session = self.ask_json("status")["session"]["id"]
        return [event["hash"] for event in self.ask_json("log")["events"]]

    def agent(self, name: str) -> dict[str, Any]:
        agents: list[dict[str, Any]] = self.ask_json("status")["session"]["agents"]
        return next((entry for entry in agents if entry["id"] == name), {"pid": None, "status": None})

    def final_session(self) -> dict[str, Any]:
        self._events = len(self.ask_json("log", self._session)["events"])
        session: dict[str, Any] = self.ask_json("show", self._session)["session"]
        return session

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        # -P: nothing in the working directory is taken for a part of Holdfast.
        return [sys.executable, "-P", "-m", "holdfast", *words]

    def _command(self, words: tuple[str, ...]) -> str:
        return "holdfast " + shlex.join("python" if word == self.python else word for word in words).replace("'", '"')

    def _run(self, command: str, words: tuple[str, ...], *, merged: bool) -> TourStep:
        process = subprocess.run(  # noqa: S603 -- Holdfast itself
            self._argv(words), cwd=self._project, env=self._env, check=False, text=True, encoding="utf-8",
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        )  # fmt: skip
        step = TourStep(command, process.returncode, process.stdout)
        self._steps.append(step)
        return step

    # what the person sees

    def explain(self, sentence: str) -> None:
        paint = self._paint
        self._print("\n" + "\n".join(paint.dim(line) for line in wrap(paint.plain(sentence), min(paint.width, 80))))

    def check(self, claim: str, *, true: bool) -> None:
        if not true:
            raise TourFailed(f"not true: {claim}")
        self.report(claim, passed=True)

    def report(self, claim: str, *, passed: bool) -> None:
        self._checks.append((claim, passed))
        mark = self._paint.green("checked") if passed else self._paint.red("failed")
        self._print(str(self._paint.join("  ", mark, "  ", claim)))

    def _prompt(self, command: str) -> None:
        self._print(str(self._paint.join(self._paint.green("$ "), self._paint.bold(command))))

    def _print(self, words: str) -> None:
        if not self._call.json and words:
            sys.stdout.write(words + "\n")
            sys.stdout.flush()

    def print_summary(self, seconds: float) -> int:
        passed = all(passed for _, passed in self._checks) and bool(self._checks)
        document = {
            "tour": {
                "steps": [{"command": step.command, "exit_code": step.code} for step in self._steps],
                "checks": [{"check": claim, "held": passed} for claim, passed in self._checks],
                "events": self._events, "lost": self.lost, "seconds": round(seconds, 2), "held": passed,
            }
        }  # fmt: skip
        self._call.answer(document, lambda paint: self._summary(paint, seconds, passed=passed))
        return 0 if passed else 1

    def _summary(self, paint: Paint, seconds: float, *, passed: bool) -> Painted:
        if not passed:
            return paint.red("The tour failed: please report the output above.")
        lost = "none lost" if not self.lost else f"{self.lost} lost"
        return Painted("\n".join([
            "",
            paint.heading("What you saw", f"{seconds:.1f} s, {len(self._steps)} commands"),
            paint.pairs([
                ("Kept", f"{self._events} events, {lost}, through a kill -9 in the middle"),
                ("Resumed", "the dead agent detected, its files compared with the record"),
                ("Counted", "work and lunch separately, to the millisecond"),
                ("Recorded", "a session that an agent's hooks recorded"),
                ("Left behind", "nothing: the scratch directory is deleted"),
            ], indent=2),
            "",
            paint.heading("Next"),
            paint.pairs([
                ("holdfast connect claude", "connect an agent, so that its sessions are recorded"),
                ("holdfast start GOAL", "start a session in your own project"),
                ("holdfast run -- COMMAND", "run something in it as an agent"),
            ], indent=2),
        ]))  # fmt: skip


def _environment(environ: Mapping[str, str], paint: Paint) -> dict[str, str]:
    """No settings of Holdfast or git; output as wide and as coloured as ours."""
    variables = {name: value for name, value in environ.items() if not name.startswith(("HOLDFAST_", "GIT_"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        variables.pop(name, None)
    return {
        **variables, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "COLUMNS": str(min(paint.width, 100) - 2), "PYTHONIOENCODING": "ascii" if paint.ascii_only else "utf-8",
        "FORCE_COLOR" if paint.colour else "NO_COLOR": "1",
    }  # fmt: skip
