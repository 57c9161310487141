"""The means of the tour: a scratch project, commands run as processes of their own and shown with their output, and
checks that are counted.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.core.times import DAY, HOUR, MINUTE, format_time
from holdfast.machine.wall import Wall, local_offset, monotonic

PATIENCE = 30.0  # seconds for another process to do its part


class Ended(Exception):
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
        self.signs = os.path.join(scratch, "signs")
        self._person = os.path.join(scratch, "person")
        self._env = _environment(call.environ, self._paint)
        self._env.update(HOLDFAST_HOME=os.path.join(scratch, "home"), TOUR_SIGNS=self.signs)
        # Whoever is connected on the tour is nobody's agent.
        self._env.update(HOME=self._person, USERPROFILE=self._person, CLAUDE_CONFIG_DIR=self.persons(".claude"))
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
        for directory in (self._project, self.signs, self._person):
            os.mkdir(directory)
        for name, content in contents:
            with open(self.inside(name), "x", encoding="utf-8") as file:
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

    def inside(self, name: str) -> str:
        return os.path.join(self._project, name)

    def persons(self, name: str) -> str:
        """A path in the home of the person who takes the tour."""
        return os.path.join(self._person, name)

    def sign(self, name: str) -> None:
        with open(os.path.join(self.signs, name), "x", encoding="utf-8"):
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
            raise Ended(f"`{command}` ended with exit code {step.code}")
        return step.output

    def begin(self, *words: str) -> subprocess.Popen[str]:
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
            raise Ended("the agent's process is not recorded")
        os.kill(process.pid, number)
        os.kill(agent, number)
        process.communicate()
        self._print("")

    def hook(self, event: str, **said: object) -> str:
        """What Claude Code does with this event: run the command in its settings; gives what that answers."""
        with open(self.persons(".claude/settings.json"), encoding="utf-8") as file:
            found: str = json.load(file)["hooks"][event][0]["hooks"][0]["command"]
        payload = {"session_id": "tour", "cwd": self._project, "hook_event_name": event, **said}
        self._print(str(self._paint.dim(f"  Claude Code runs its hook: {event}")))
        shell = ["cmd", "/d", "/c"] if os.name == "nt" else ["/bin/sh", "-c"]
        done = subprocess.run(  # noqa: S603 -- the line that we have just put there ourselves
            [*shell, found], cwd=self._project, env=self._env, check=False, text=True, encoding="utf-8",
            errors="replace", input=json.dumps(payload), capture_output=True,
        )  # fmt: skip
        self._steps.append(TourStep(f"hook: {event}", done.returncode, done.stdout))
        if done.returncode != 0:
            raise Ended(f"the hook of {event} ended with exit code {done.returncode}")
        return done.stdout

    def answered(self, event: str, **said: object) -> Any:
        """The same, of a hook that has something to say. On a machine that is busy it would rather say nothing than
        hold the agent up: then the agent is opened once more.
        """
        until = monotonic() + PATIENCE
        while not (told := self.hook(event, **said)):
            if monotonic() > until:
                raise Ended(f"the hook of {event} did not answer in {PATIENCE:.0f} s")
        return json.loads(told)

    def wait(self, true: Callable[[], bool], what: str) -> None:
        until = monotonic() + PATIENCE
        while not true():
            if monotonic() > until:
                raise Ended(f"{what} did not appear in {PATIENCE:.0f} s")
            time.sleep(0.01)

    def ask(self, *words: str) -> Any:
        """A question of the tour's own: run quietly, answered in JSON."""
        words = (*words, "--json")
        command = self._command(words)
        step = self._run(command, words, merged=False)
        if step.code != 0:
            raise Ended(f"`{command}` ended with exit code {step.code}")
        return json.loads(step.output)

    def hashes(self) -> list[str]:
        self._session = self.ask("status")["session"]["id"]
        return [event["hash"] for event in self.ask("log")["events"]]

    def agent(self, name: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.ask("status")["session"]["agents"]
        return next((entry for entry in found if entry["id"] == name), {"pid": None, "status": None})

    def shown(self) -> dict[str, Any]:
        self._events = len(self.ask("log", self._session)["events"])
        session: dict[str, Any] = self.ask("show", self._session)["session"]
        return session

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        # -P: nothing in the working directory is taken for a part of Holdfast.
        return [sys.executable, "-P", "-m", "holdfast", *words]

    def _command(self, words: tuple[str, ...]) -> str:
        return "holdfast " + shlex.join("python" if word == self.python else word for word in words).replace("'", '"')

    def _run(self, command: str, words: tuple[str, ...], *, merged: bool) -> TourStep:
        done = subprocess.run(  # noqa: S603 -- Holdfast itself
            self._argv(words), cwd=self._project, env=self._env, check=False, text=True, encoding="utf-8",
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        )  # fmt: skip
        step = TourStep(command, done.returncode, done.stdout)
        self._steps.append(step)
        return step

    # what the person sees

    def say(self, sentence: str) -> None:
        paint = self._paint
        self._print("\n" + "\n".join(paint.dim(line) for line in wrap(paint.plain(sentence), min(paint.width, 80))))

    def check(self, what: str, *, held: bool) -> None:
        if not held:
            raise Ended(f"not true: {what}")
        self.tell(what, held=True)

    def tell(self, what: str, *, held: bool) -> None:
        self._checks.append((what, held))
        mark = self._paint.green("checked") if held else self._paint.red("failed")
        self._print(str(self._paint.join("  ", mark, "  ", what)))

    def _prompt(self, command: str) -> None:
        self._print(str(self._paint.join(self._paint.green("$ "), self._paint.bold(command))))

    def _print(self, words: str) -> None:
        if not self._call.json and words:
            sys.stdout.write(words + "\n")
            sys.stdout.flush()

    def sum_up(self, seconds: float) -> int:
        held = all(held for _, held in self._checks) and bool(self._checks)
        document = {
            "tour": {
                "steps": [{"command": step.command, "exit_code": step.code} for step in self._steps],
                "checks": [{"check": what, "held": held} for what, held in self._checks],
                "events": self._events, "lost": self.lost, "seconds": round(seconds, 2), "held": held,
            }
        }  # fmt: skip
        self._call.answer(document, lambda paint: self._summary(paint, seconds, held=held))
        return 0 if held else 1

    def _summary(self, paint: Paint, seconds: float, *, held: bool) -> Painted:
        if not held:
            return paint.red("The tour did not end as it should: please report what it shows above.")
        lost = "none lost" if not self.lost else f"{self.lost} lost"
        return Painted("\n".join([
            "",
            paint.heading("What you saw", f"{seconds:.1f} s, {len(self._steps)} commands"),
            paint.pairs([
                ("Kept", f"{self._events} events, {lost}, through a kill -9 in the middle"),
                ("Resumed", "the dead agent found, its files compared with what was recorded"),
                ("Counted", "work and lunch kept apart, to the millisecond"),
                ("Heard", "a session that an agent's hooks recorded by themselves"),
                ("Left behind", "nothing: the scratch directory is gone"),
            ], indent=2),
            "",
            paint.heading("Next"),
            paint.pairs([
                ("holdfast connect claude", "let sessions record themselves, in any project"),
                ("holdfast start GOAL", "begin a session in your own project"),
                ("holdfast run -- COMMAND", "run something in it as an agent"),
            ], indent=2),
        ]))  # fmt: skip


def _environment(environ: Mapping[str, str], paint: Paint) -> dict[str, str]:
    """Nobody's settings, of Holdfast or git; output as wide and as coloured as ours."""
    found = {name: value for name, value in environ.items() if not name.startswith(("HOLDFAST_", "GIT_"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        found.pop(name, None)
    return {
        **found, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "COLUMNS": str(min(paint.width, 100) - 2), "PYTHONIOENCODING": "ascii" if paint.ascii_only else "utf-8",
        "FORCE_COLOR" if paint.colour else "NO_COLOR": "1",
    }  # fmt: skip
