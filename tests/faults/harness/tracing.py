"""strace: which calls of a command change a disk, and how to inject a fault into one of them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from typing import Final, NamedTuple

import pytest

from tests.faults.harness.warm_sandbox import WarmSandbox

CHANGING: Final = (
    "openat", "write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "rename", "renameat", "renameat2",
    "unlink", "unlinkat", "rmdir", "link", "linkat", "symlink", "symlinkat", "ftruncate", "truncate", "fallocate",
    "mkdir", "mkdirat", "chmod", "fchmod", "fchmodat", "fchown",
)  # fmt: skip
WATCH: Final = f"trace={','.join(CHANGING)},getppid"  # `getppid` shows that strace is attached
_IN_CI: Final = bool(os.environ.get("HOLDFAST_CI"))  # read now: tests clear the environment
_CALL: Final = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


class Call(NamedTuple):
    """One call of a command: the `nth` of its name, as strace counts."""

    name: str
    nth: int
    line: str

    @property
    def to_person(self) -> bool:
        """Whether it writes to stdout or stderr: the answer, not the state."""
        return self.name.startswith("write") and self.line.partition("(")[2].startswith(("1<", "2<"))

    @property
    def on_shared_memory(self) -> bool:
        return "-shm>" in self.line or '-shm"' in self.line


def calls(trace: list[str], root: str) -> list[Call]:
    """The calls that change files under `root` or write output, each with its number."""
    counted: Counter[str] = Counter()
    changing = []
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
            changing.append(call)
    return changing


def injected(trace: list[str]) -> bool:
    return any("INJECTED" in line or "+++ killed by SIGKILL" in line for line in trace)


def require_strace() -> None:
    """Skip where strace cannot be used; in our own CI that would hide a gap, so it fails there."""
    reason = _strace_problem()
    if reason is None:
        return
    if _IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def _strace_problem() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed: faults at system calls cannot be injected (apt install strace)"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"strace may not trace here: {tried.stderr.strip()}"
    return None


def record(sandbox: WarmSandbox, argv: tuple[str, ...]) -> tuple[int, list[Call], list[str]]:
    """Run the command without a fault: its exit code, its calls and its output."""
    answer = sandbox.run(argv, strace=("-e", WATCH))
    return answer.code, calls(answer.trace, sandbox.root), [answer.out, answer.err]
