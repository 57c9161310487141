"""Runs one PostgreSQL until its input or the server ends; a program of its own, started by `server.py`.

    attendant.py FOLDER USER|- COMMAND...

It prints the server's process id. When its parent has ended, it ends the server and deletes the folder; when the
server ended first, that was intended, and its data may be used again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading


def attend(folder: str, user: str, command: list[str]) -> None:
    as_whom = {"user": user, "group": _group(user), "extra_groups": []} if user != "-" else {}
    with open(os.path.join(folder, "log"), "ab") as log:
        server = subprocess.Popen(  # type: ignore[call-overload]
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **as_whom
        )
    print(server.pid, flush=True)
    abandoned = threading.Event()

    def watch() -> None:
        os.read(0, 1)  # nobody writes to it: it ends when our parent does
        abandoned.set()
        server.send_signal(signal.SIGQUIT)  # the server ends its children, whatever they do

    threading.Thread(target=watch, daemon=True).start()
    server.wait()
    if abandoned.is_set():
        shutil.rmtree(folder, ignore_errors=True)


def _group(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


if __name__ == "__main__":
    attend(sys.argv[1], sys.argv[2], sys.argv[3:])
