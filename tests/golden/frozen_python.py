"""Runs Python as on one fixed computer at one time: `frozen_python.py (-c CODE | -m MODULE | FILE) WORDS…`.

The clock stands still, synced files get its time, every run of the story repeats the same randomness, and host and
user have fixed names. Child processes started by `sys.executable` run like this too.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import runpy
import signal
import sys
import time
from itertools import count
from typing import Any

NOW = int(os.environ["GOLDEN_NOW"])  # nanoseconds since 1970
STEP = int(os.environ["GOLDEN_STEP"])  # how many commands the story ran before
PATIENCE = 30  # factor for timeouts of less than a second


def stop_clock() -> None:
    synced = os.fsync

    def fsync(fd: Any) -> None:
        os.utime(fd, ns=(NOW, NOW))
        synced(fd)

    time.time_ns = lambda: NOW
    time.time = lambda: NOW / 1e9
    os.fsync = os.fdatasync = fsync
    timer = signal.setitimer
    signal.setitimer = lambda which, seconds, *again: timer(which, seconds * PATIENCE, *again)


def repeat_randomness(words: list[str]) -> None:
    """Other bytes for each process and call. Long ones start with increasing numbers: ids sort by age."""
    seed = hashlib.sha256("\0".join([str(STEP), *words]).encode("utf-8", "surrogateescape"))
    for number in count():  # the same command may run twice in one step, in the background
        process = f"{seed.hexdigest()}.{number}"
        try:
            os.close(os.open(os.path.join(os.environ["GOLDEN_SEEDS"], process), os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            continue
    calls = count()

    def urandom(size: int) -> bytes:
        call = next(calls)
        order = (STEP << 8 | min(call, 255)).to_bytes(3, "big") if size >= 16 else b""
        return order + hashlib.shake_256(f"{process} {call}".encode()).digest(size - len(order))

    os.urandom = urandom


def name_machine() -> None:
    system, user = os.uname(), pwd.getpwuid(os.geteuid())
    os.uname = lambda: os.uname_result((system[0], "harbour", *system[2:]))
    pwd.getpwuid = lambda _: pwd.struct_passwd((os.environ["HOLDFAST_ACTOR"], *user[1:]))
    sys.executable = os.environ["GOLDEN_PYTHON"]


def run(words: list[str]) -> None:
    del sys.path[0]  # the directory of this file
    while words[0] in ("-I", "-S", "-P"):
        words = words[1:]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv = ["", *words[2:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


stop_clock()
repeat_randomness(sys.argv[1:])
name_machine()
run(sys.argv[1:])
