"""strace: which calls a command makes that change a disk, and how to break one of them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from typing import Final, NamedTuple

import pytest

from tests.faults.harness.room import Room

CHANGING: Final = (
    "openat", "write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "rename", "renameat", "renameat2",
    "unlink", "unlinkat", "rmdir", "link", "linkat", "symlink", "symlinkat", "ftruncate", "truncate", "fallocate",
    "mkdir", "mkdirat", "chmod", "fchmod", "fchmodat", "fchown",
)  # fmt: skip
WATCH: Final = f"trace={','.join(CHANGING)},getppid"  # the last one shows that strace is watching
_OURS: Final = bool(os.environ.get("HOLDFAST_CI"))  # now: the tests themselves have nobody's environment
_CALL: Final = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


class Call(NamedTuple):
    """One call of a command: the `nth` of its name, as strace counts."""

    name: str
    nth: int
    line: str

    @property
    def to_person(self) -> bool:
        """Output on stdout or stderr: the answer, not the state."""
        return self.name.startswith("write") and self.line.partition("(")[2].startswith(("1<", "2<"))

    @property
    def on_shared_memory(self) -> bool:
        return "-shm>" in self.line or '-shm"' in self.line


def calls(trace: list[str], root: str) -> list[Call]:
    """The calls that change files under `root` or answer, each with its number."""
    counted: Counter[str] = Counter()
    found = []
    for line in trace:
        match = _CALL.match(line)
        if match is None:
            continue
        name = match[1]
        counted[name] += 1
        call = Call(name, counted[name], line)
        if name == "openat" and "O_CREAT" not in line and "O_RDWR" not in line:
            continue
        if root in line or call.to_person:
            found.append(call)
    return found


def injected(trace: list[str]) -> bool:
    return any("INJECTED" in line or "+++ killed by SIGKILL" in line for line in trace)


def need_strace() -> None:
    """Skip where strace cannot be used; in our own CI that would hide a hole, so it fails there."""
    reason = _why_not()
    if reason is None:
        return
    if _OURS:
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def _why_not() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed: faults at system calls cannot be injected (apt install strace)"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"strace may not trace here: {tried.stderr.strip()}"
    return None


def record(room: Room, argv: tuple[str, ...]) -> tuple[int, list[Call], list[str]]:
    """The command undisturbed: its exit code and its calls."""
    answer = room.run(argv, strace=("-e", WATCH))
    return answer.code, calls(answer.trace, room.root), [answer.out, answer.err]
