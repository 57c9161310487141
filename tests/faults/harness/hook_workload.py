"""A workload of hooks, to be recorded: run as a script under strace, `hook_workload.py ROOT ACKS`.

Hooks hand over payloads, by the script and by Python, with drains in between. Each hook that has returned is
acknowledged in the file ACKS as one JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from holdfast.cli import hooking
from holdfast.conversations.hooks import install, script
from holdfast.machine import files
from holdfast.workspace import spool

HOOKS = 18


def payload_of(project: str, number: int) -> bytes:
    """Larger than one sector, and sometimes larger than one page."""
    payload = {
        "session_id": f"talk-{number % 2}", "cwd": project, "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_input": {"command": f"make all/{number}"}, "tool_response": {"stdout": "x" * (number * 397 % 7_000)},
        "tool_use_id": f"call-{number}",
    }  # fmt: skip
    return json.dumps(payload).encode()


def run_workload(root: str, acks: str) -> None:
    home, project = os.path.join(root, "home"), os.path.join(root, "project")
    acks_fd = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.chdir(project)
    for name in (script.DIRECTORY, spool.DIRECTORY):
        files.make_private_dir(os.path.join(home, name))
    made = install.installation(home)
    hook = os.path.join(home, script.DIRECTORY, script.SCRIPT)
    files.write_atomic(hook, script.hook_script(made).encode())
    os.chmod(hook, 0o700)
    files.write_atomic(os.path.join(home, script.DIRECTORY, script.ASK_SCRIPT), script.ask_script(made).encode())
    for number in range(HOOKS):
        payload = payload_of(project, number)
        if number % 3:
            subprocess.run([hook, "claude", "tell", "user"], input=payload, check=True, capture_output=True)
        else:
            spool.add_payload(home, "claude", "user", 1, payload)
        os.write(acks_fd, json.dumps({"payload": number}).encode() + b"\n")
        if number % 6 == 5:
            hooking.drain(home)


if __name__ == "__main__":
    run_workload(sys.argv[1], sys.argv[2])
