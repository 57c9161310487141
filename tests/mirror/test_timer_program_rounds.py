"""The timer text's own program next to Holdfast's mirror, over many rounds: what it writes stays as written."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core.times import MINUTE, SECOND, parse_time
from holdfast.formats.timer.fields import TIMEOUT
from holdfast.formats.timestamps import in_shortest_form
from holdfast.machine.wall import Wall
from tests.support.mirrored_project import TIMER, Project
from tests.support.scale import scale

# Later than this version: its clock rejects earlier times.
BEGAN = parse_time("2030-01-05T09:00:00Z")
AGENT = "Task agent: explore"
IDLE = 5 * MINUTE
LONG = 10 * MINUTE
REMINDERS = ((40, "break40min"), (60, "warning60min"), (90, "timeout90min"))
# How a program writes a pause that it notices afterwards: the text says PAUSED; "until the next message" is
# written as a pause that is open, or as the status alone.
HABITS = ("ended", "ended and paused", "open")


class Program:
    """Keeps the file by the text's rules: the document is in memory, and every step writes all of it."""

    def __init__(self, path: Path, *, idle: str = "ended", task: str = "ended") -> None:
        self.path = path
        self.now = BEGAN
        self._habits = {"AUTO_IDLE": idle, "AUTO_TASK": task}
        name = "20300105-domain-login"
        self.document: dict[str, Any] = {
            "sessionId": name, "scope": "Domain", "task": "Create value object", "branchName": f"session/{name}",
            "status": "IN_PROGRESS", "startTime": in_shortest_form(BEGAN), "lastMessageTime": in_shortest_form(BEGAN),
            "actualWorkingMs": 0, "totalPausedMs": 0, "pauses": [],
            "reminders": {name: False for _, name in REMINDERS}, "summary": "Starting work",
        }  # fmt: skip
        self._last = BEGAN

    def write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.document, indent=2))
        os.utime(self.path, ns=(self.now * 1_000_000, self.now * 1_000_000))

    def counted(self) -> dict[str, Any]:
        """The document including an open pause up to the last message; the text adds that at the pause's end."""
        pauses = [
            pause | {"durationMs": self._last - parse_time(pause["startTime"])} if pause["endTime"] is None else pause
            for pause in self.document["pauses"]
        ]
        return {**self.document, "pauses": pauses, "totalPausedMs": sum(pause["durationMs"] for pause in pauses)}

    def message(self) -> None:
        """Time since the last message is work or an idle pause; an automatic pause ends here."""
        gap = self.now - self._last
        is_open = self._open()
        if is_open is not None:
            if is_open["type"] != "MANUAL":
                self._resume(is_open)
        elif gap > IDLE:
            self._rest("AUTO_IDLE", "User idle", self._last)
        else:
            self.document["actualWorkingMs"] += gap
            self.document["status"] = "IN_PROGRESS"
        self._touch()

    def pause(self, reason: str) -> None:
        self.message()
        if self._open() is None:
            self._begin("MANUAL", reason)

    def resume(self) -> None:
        """`/session resume`, which counts as a message."""
        is_open = self._open()
        if is_open is None:
            self.message()
        else:
            self._resume(is_open)
            self._touch()

    def agent(self, minutes: int) -> None:
        """A task agent has run since the last message."""
        if self._open() is not None or minutes * MINUTE <= LONG:
            self.message()
            return
        self._rest("AUTO_TASK", AGENT, self._last)
        self._touch()

    def summarize(self, words: str) -> None:
        self.message()
        self.document["summary"] = words

    def is_agent_at_work(self) -> bool:
        is_open = self._open()
        return is_open is not None and is_open["reason"] == AGENT

    def _open(self) -> dict[str, Any] | None:
        return next((pause for pause in self.document["pauses"] if pause["endTime"] is None), None)

    def _begin(self, kind: str, reason: str) -> None:
        self.document["pauses"].append(
            {
                "type": kind,
                "reason": reason,
                "startTime": in_shortest_form(self.now),
                "endTime": None,
                "durationMs": 0,
            }
        )
        self.document["status"] = "PAUSED"

    def _resume(self, pause: dict[str, Any]) -> None:
        pause |= {"endTime": in_shortest_form(self.now), "durationMs": self.now - parse_time(pause["startTime"])}
        self.document["totalPausedMs"] = sum(item["durationMs"] for item in self.document["pauses"])
        self.document["status"] = "IN_PROGRESS"

    def _rest(self, kind: str, reason: str, since: int) -> None:
        habit = self._habits[kind]
        self.document["pauses"].append(
            {
                "type": kind, "reason": reason, "startTime": in_shortest_form(since),
                "endTime": None if habit == "open" else in_shortest_form(self.now), "durationMs": self.now - since,
            }
        )  # fmt: skip
        self.document["totalPausedMs"] += self.now - since
        self.document["status"] = "IN_PROGRESS" if habit == "ended" else "PAUSED"

    def _touch(self) -> None:
        document = self.document
        document["lastMessageTime"] = in_shortest_form(self.now)
        self._last = self.now
        is_open = self._open()
        if is_open is not None and is_open["type"] == "MANUAL":
            return
        for minutes, flag in REMINDERS:
            if document["actualWorkingMs"] >= minutes * MINUTE and not document["reminders"][flag]:
                document["reminders"][flag] = True
                if flag == "timeout90min" and is_open is None:
                    self._begin("AUTO_TASK", TIMEOUT)


class Round:
    """A project with its timer mirror on, the program in it, and one clock for both."""

    def __init__(self, root: Path, **habits: str) -> None:
        self.project = Project(root)
        self.program = Program(self.project.file(TIMER), **habits)
        self.program.write()
        self.keeper = Keeper.open(
            str(self.project.path), home=str(self.project.home), wall=Wall(lambda: self.program.now * 1_000_000)
        )
        self.keeper.mirrors.switch_on("timer")

    def status(self) -> str:
        current = self.keeper.current()
        assert current is not None
        return current.document().status

    def check(self) -> None:
        """`holdfast status` agrees with the program, and the file is unchanged."""
        wrote = self.program.counted()
        current = self.keeper.current()
        assert current is not None
        document = current.document()
        assert self.project.json(TIMER) == wrote
        assert (document.time.working_ms, document.time.paused_ms) == (
            wrote["actualWorkingMs"],
            wrote["totalPausedMs"],
        )
        # While an agent works, the clock stops and the session continues.
        is_paused = wrote["status"] == "PAUSED" and not self.program.is_agent_at_work()
        assert document.status == ("paused" if is_paused else "in_progress")
        assert document.conflicts == []


@contextmanager
def rounds(**habits: str) -> Iterator[Round]:
    root = Path(tempfile.mkdtemp())
    try:
        made = Round(root, **habits)
        with made.keeper:
            made.check()
            yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


GAPS = st.sampled_from([0, 1, 240, 300, 301, 840, 1800]) | st.integers(0, 3600)
STEPS = st.tuples(
    st.sampled_from(["message", "message", "pause", "resume", "agent", "summarize"]), GAPS, st.booleans()
)


@settings(max_examples=scale(25, 400, 8000), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(HABITS), st.sampled_from(HABITS), st.lists(STEPS, min_size=1, max_size=12))
def test_hours_and_status_of_the_program_stay_as_written(
    idle: str, task: str, steps: list[tuple[str, int, bool]]
) -> None:
    with rounds(idle=idle, task=task) as made:
        program = made.program
        for number, (step, gap, looks) in enumerate(steps):
            program.now += gap * SECOND
            match step:
                case "pause":
                    program.pause(f"reason {number}")
                case "agent":
                    program.agent(gap // 60)
                case "summarize":
                    program.summarize(f"Words {number}")
                case "resume":
                    program.resume()
                case _:
                    program.message()
            program.write()
            if looks or number == len(steps) - 1:
                made.check()


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("keeps_entry", [False, True])
@pytest.mark.parametrize(("paused_by_message", "resumed_by_message"), [(False, False), (False, True), (True, False)])
def test_session_resumes_when_the_program_changes_the_status_only(
    paused_by_message: bool, resumed_by_message: bool, keeps_entry: bool, looks: bool
) -> None:
    """Without a pause entry or message. `keeps_entry`: the program reads Holdfast's version of the pause."""
    with rounds() as made:
        program = made.program
        for _ in range(3):
            program.now += 3 * MINUTE
            program.message()
            program.write()
            made.check()
        program.now += MINUTE
        if paused_by_message:
            program.message()
        program.document["status"] = "PAUSED"
        program.write()
        assert made.status() == "paused"
        if keeps_entry:
            program.document = made.project.json(TIMER)
        program.now += 20 * MINUTE
        if looks:
            assert made.status() == "paused"
        if resumed_by_message:
            program.document["lastMessageTime"] = in_shortest_form(program.now)
        program.document["status"] = "IN_PROGRESS"
        program.write()
        assert made.status() == "in_progress"
        assert made.project.json(TIMER)["status"] == "IN_PROGRESS"
        (pause,) = made.project.json(TIMER)["pauses"]
        assert (pause["type"], pause["endTime"]) == ("MANUAL", in_shortest_form(program.now))
        program.now += 2 * MINUTE
        assert made.status() == "in_progress"
        assert made.project.json(TIMER)["actualWorkingMs"] == (10 if paused_by_message else 9) * MINUTE
        for status in ("PAUSED", "IN_PROGRESS") * 2:  # it continues, whatever Holdfast wrote in between
            program.now += MINUTE
            if keeps_entry:
                program.document = made.project.json(TIMER)
            program.document["status"] = status
            program.write()
            assert made.status() == status.lower()
