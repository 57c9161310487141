"""Checks that all events of sixteen processes in one session are recorded, in order per process, and how fast."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from holdfast import Keeper
from measures.figures import Figure

PROCESSES, EVENTS = 16, 500


def measure(scratch: Path) -> list[Figure]:
    project, home = scratch / "parallel-project", scratch / "parallel-home"
    project.mkdir()
    with Keeper.open(str(project), home=str(home)) as keeper:
        session = keeper.start("Sixteen at once").id
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(project, home, session, number)) for number in range(PROCESSES)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    seconds = time.perf_counter() - begin
    with Keeper.open(str(project), home=str(home)) as keeper:
        notes = [note.text for note in keeper.session(session).document().notes]
        problems = list(keeper.store().check())
    in_order = all(
        [note for note in notes if note.startswith(f"{number}:")] == [f"{number}:{step}" for step in range(EVENTS)]
        for number in range(PROCESSES)
    )
    detail = (
        f"in order per process: {in_order}, chain problems: {len(problems)}, {len(notes) / seconds:,.0f} events/s"
    )
    complete = len(set(notes)) if in_order and not problems and len(notes) == len(set(notes)) else -1
    return [Figure("parallel: events of 16 processes that are there", complete, f"= {PROCESSES * EVENTS}", detail)]


def _write(project: Path, home: Path, session: str, number: int) -> None:
    with Keeper.open(str(project), home=str(home)) as keeper:
        handle = keeper.session(session)
        for step in range(EVENTS):
            handle.note(f"{number}:{step}")
