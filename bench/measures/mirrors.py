"""Measures mirrors: whole commands as cold processes with all four formats mirrored against none, and how often an
unchanged mirrored file is looked at.

Both projects are in the same state and take turns, so that other load affects both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import Keeper
from measures.figures import Figure, median

FORMATS = ("orchestrator", "timer", "contract", "craft")
RUNS = 15
# Files changed less than this ago are read, not only looked at: a second change could hide behind the first.
_SETTLED = 0.1


def measure(scratch: Path) -> list[Figure]:
    with_all, with_none = _Project(scratch, "mirrored", FORMATS), _Project(scratch, "plain", ())
    figures = _cold(with_all, with_none)
    return [*figures, *_looks(with_all)]


class _Project:
    """A session at work, with an agent, tasks and a decision."""

    def __init__(self, scratch: Path, name: str, formats: tuple[str, ...]) -> None:
        self.path, self.home = scratch / name, scratch / f"{name}-home"
        self.path.mkdir()
        with self.open() as keeper:
            session = keeper.start("Add OAuth with PKCE")
            session.agent("arch-1", type="backend-architect", task="Design the flow").progress(0.4)
            session.decide("Hybrid", context="Token kind", options=["JWT", "Cookie", "Hybrid"])
            for text in ("Add unit tests", "Update documentation", "Ask for a review"):
                session.add_task(text)
            for format_name in formats:
                keeper.mirrors.switch_on(format_name)

    def open(self) -> Keeper:
        return Keeper.open(str(self.path), home=str(self.home))

    def run(self, *arguments: str) -> float:
        """The seconds that one command took as a separate process."""
        holdfast = str(Path(sys.executable).parent / "holdfast")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["HOLDFAST_HOME"] = str(self.home)
        begin = time.perf_counter()
        process = subprocess.run(
            [holdfast, *arguments], cwd=self.path, env=environment, capture_output=True, check=False
        )
        seconds = time.perf_counter() - begin
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {process.stderr.decode()}")
        return seconds


def _cold(with_all: _Project, with_none: _Project) -> list[Figure]:
    seconds_by_case: dict[tuple[str, str], list[float]] = {}
    for run in range(RUNS + 2):
        time.sleep(_SETTLED)
        # The first command after a change records that the files have settled; the next one only looks.
        commands = {"first": ["status"], "again": ["status"], "note": ["note", f"Note {run} of the afternoon"]}
        for case, arguments in commands.items():
            for name, project in (("all", with_all), ("none", with_none)):
                seconds = project.run(*arguments)
                if run >= 2:  # the first ones fill caches, compiled modules among them
                    seconds_by_case.setdefault((case, name), []).append(seconds)
    return [
        _against("mirrors: a cold writing command (note) with all four against none", "≤ 3", seconds_by_case, "note"),
        _against("mirrors: a cold reading command (status) with all four against none", "", seconds_by_case, "again"),
        _against(
            "mirrors: the first reading command after a change, all four against none", "", seconds_by_case, "first"
        ),
    ]


def _against(name: str, rule: str, seconds_by_case: dict[tuple[str, str], list[float]], case: str) -> Figure:
    mirrored, plain = median(seconds_by_case[case, "all"]), median(seconds_by_case[case, "none"])
    return Figure(name, mirrored / plain, rule, f"{mirrored * 1e3:.1f} ms, without mirrors {plain * 1e3:.1f} ms")


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def _looks(project: _Project) -> list[Figure]:
    """Count the calls of the system by path."""
    for _ in range(2):  # the first look reads what is young, and remembers that it no longer is
        time.sleep(_SETTLED)
        with project.open() as keeper:
            keeper.collect()
    with project.open() as keeper:
        keeper.store()
        tree = keeper.mirrors.stored.tree(keeper.place.root)
        files = {os.path.join(keeper.place.root, path) for paths in tree.files.values() for path in paths}
        with _counted_calls() as (looks, opens):
            keeper.mirrors.collect()
    max_looks = max((looks[file] for file in files), default=0)
    elsewhere = sum(looks.values()) - sum(looks[file] for file in files)
    detail = (
        f"{len(files)} files, {sum(looks[file] for file in files)} looks, {sum(opens[file] for file in files)} read; "
        f"{elsewhere} looks elsewhere (folders, the home)"
    )
    return [Figure("mirrors: looks at a file nobody touched, at most", max_looks, "≤ 1", detail)]


@contextmanager
def _counted_calls() -> Iterator[tuple[Counter[str], Counter[str]]]:
    looks: Counter[str] = Counter()
    opens: Counter[str] = Counter()
    real: dict[str, Callable[..., object]] = {"stat": os.stat, "lstat": os.lstat, "open": os.open}

    def counting(call: Callable[..., object], into: Counter[str]) -> Callable[..., object]:
        def count(path: object, *args: object, **kwargs: object) -> object:
            if isinstance(path, (str, bytes, os.PathLike)):
                into[os.fsdecode(path)] += 1
            return call(path, *args, **kwargs)

        return count

    for name, call in real.items():
        setattr(os, name, counting(call, opens if name == "open" else looks))
    try:
        yield looks, opens
    finally:
        for name, call in real.items():
            setattr(os, name, call)
