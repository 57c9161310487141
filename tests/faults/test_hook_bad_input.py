"""Hooks with invalid input or in a broken environment: the agent continues at once without output, and its payload is
kept where there is space for it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.workspace import spool
from tests.faults.connected_agent import (
    HANGING,
    SILENT,
    WAYS,
    Hooked,
    Way,
    command_payload,
    prompt_payload,
    require_namespaces,
)
from tests.faults.harness.figures import record_figures
from tests.faults.sandbox import tree
from tests.faults.test_hostile_ids import hostile_ids
from tests.support.scale import scale

HUGE = 50 * 1024 * 1024
BAD: dict[str, bytes] = {
    "an array": b'["UserPromptSubmit"]', "a number": b"7", "a string": b'"SessionStart"', "null": b"null",
    "no JSON": b'"UserPromptSubmit" {', "half": b'{"session_id":', "binary": b"\xff\xfe\0\1" * 100,
    "NULs": bytes(4096), "deep": b'{"a":' * 50_000, "an empty object": b"{}", "shell": b"$(touch x)`touch y`;touch z",
    "two objects": b'{"hook_event_name": "SessionStart"}{"hook_event_name": "SessionStart"}',
    "no conversation": b'{"hook_event_name": "UserPromptSubmit", "prompt": "x"}',
    "wrong types": b'{"session_id": 7, "hook_event_name": ["UserPromptSubmit"], "cwd": {}, "prompt": 1e999}',
    "a number as its event": b'{"session_id": "a", "hook_event_name": 1, "SessionStart": "SessionStart"}',
    "a huge number": b'{"session_id": "a", "hook_event_name": "PreCompact", "n": ' + b"9" * 5_000 + b"}",
}  # fmt: skip


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def _age(hooked: Hooked) -> None:
    """Payloads that are young might still be being written, and wait: make them old."""
    for entry in spool.list_entries(str(hooked.home)):
        os.utime(entry.path, (1_794_000_000, 1_794_000_000))


@pytest.mark.parametrize("way", WAYS)
def test_hook_keeps_invalid_input_silently(hooked: Hooked, way: Way) -> None:
    """Exit code 0 and no output; `doctor` finds it unchanged, and the next payload is recorded."""
    for payload in (b"", b" \n\t"):
        assert hooked.run_hook(payload, way) == SILENT
    for name, payload in BAD.items():
        assert hooked.run_hook(payload, way) == SILENT, name
    assert hooked.run_hook(command_payload("talk-1/0", cwd=hooked.project), way) == SILENT
    _age(hooked)
    assert hooked.commands() == {"talk-1": ["0"]}
    unread = hooked.home / "spool" / spool.UNREAD
    kept = [path.read_bytes() for path in unread.iterdir()] if unread.exists() else []
    # Blank input is dropped by one way and kept by the other; and an object with an id in it is a conversation.
    expected = [data for name, data in BAD.items() if name != "a number as its event"]
    assert sorted(data for data in kept if data.strip()) == sorted(expected)
    assert spool.list_entries(str(hooked.home)) == []
    assert sorted(os.listdir(hooked.project)) == []
    hooked.assert_sound()
    record_figures(fault="hook nonsense", way=way, payloads=len(BAD) + 3)


@pytest.mark.parametrize("way", WAYS[: scale(1, 4, 4)])
def test_hook_handles_a_payload_of_50_megabytes(hooked: Hooked, way: Way) -> None:
    """The command is recorded; nothing of that size is left."""
    payload = command_payload("talk-1/0", cwd=hooked.project, unknown="x" * HUGE)
    assert hooked.run_hook(payload, way) == SILENT
    if way == "tell":
        assert hooked.commands() == {"talk-1": ["0"]}
    assert hooked.run_hook(b"\0" * HUGE, way) == SILENT
    _age(hooked)
    assert hooked.run_hook(command_payload("talk-1/1", cwd=hooked.project), way) == SILENT
    assert hooked.commands()["talk-1"][-1] == "1"
    assert spool.list_entries(str(hooked.home)) == []
    hooked.assert_sound()


@pytest.mark.parametrize("way", WAYS if scale(0, 1, 1) else ("tell", "python"))
def test_payload_larger_than_64_mebibytes_is_reported_and_dropped(hooked: Hooked, way: Way) -> None:
    """The agent can write all of it; nothing of it stays on the disk, and `doctor` reports it."""
    with subprocess.Popen(
        hooked.hook_command(way), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=hooked.environ, cwd=hooked.project,
    ) as hook:  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(b'{"session_id": "')
        for _ in range(70):
            hook.stdin.write(b"x" * (1 << 20))  # it would raise if nobody read it
        assert hook.communicate(timeout=HANGING) == (b"", b"")
        assert hook.returncode == 0
    assert [path.name for path in (hooked.home / "spool").iterdir() if path.is_file()] == []
    message = "dropped a payload from 'claude': it was larger than 64 MiB"
    assert message in hooked.logged_errors()
    with hooked.keeper() as keeper:
        assert message in next(check.detail for check in keeper.doctor()[0] if check.name == "capture")
    assert hooked.run_hook(command_payload("talk-1/1", cwd=hooked.project), way) == SILENT
    assert hooked.commands() == {"talk-1": ["1"]}


def test_hostile_names_in_payloads_have_no_effect(hooked: Hooked) -> None:
    """Whatever a conversation, a transcript or a directory is called, nothing is created, read or run
    because of it.
    """
    chosen = random.Random(7).sample(hostile_ids(), scale(12, 120, 520))
    for number, name in enumerate(chosen):
        for field in ("session_id", "transcript_path", "cwd", "tool_use_id", "agent_id"):
            way: Way = "python" if (number + len(field)) % 16 == 0 else "tell"
            payload = json.loads(command_payload(f"{number}/{field}", conversation=f"t{number}", cwd=hooked.project))
            assert hooked.run_hook(json.dumps(payload | {field: name}).encode(), way) == SILENT
    hooked.drain()
    assert {name for name in os.listdir(hooked.root) if name not in ("home", "project")} == set()
    assert tree(hooked.project) == {}
    assert {path.name for path in hooked.home.iterdir()} <= {
        "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened", "errors.log",
    }  # fmt: skip
    hooked.assert_sound()
    record_figures(fault="F11", hooks=len(chosen) * 5)


@pytest.mark.parametrize("name", ["", "../x", "a b", "ü", "nobody", "x" * 300, "-rf", "$(touch x)", "drain"])
def test_hostile_arguments_of_a_hook_have_no_effect(hooked: Hooked, name: str) -> None:
    """Nothing happens, or the payload is set aside."""
    payload = command_payload("talk-1/0", cwd=hooked.project)
    for words in ([hooked.hook, name, "tell", "user"], [hooked.hook, "claude", "tell", name],
                  [hooked.hook, "claude", name, "user"], [hooked.hook], [hooked.hook, name]):  # fmt: skip
        done = subprocess.run(
            words, input=payload, env=hooked.environ, cwd=hooked.project, capture_output=True, check=False,
            timeout=HANGING,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == SILENT, words
    hooked.drain()
    assert tree(hooked.project) == {}
    assert sorted(os.listdir(hooked.root)) == ["home", "project"]


# ── environment ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _locked_store(hooked: Hooked) -> Iterator[None]:
    """Another process holds the store's write lock."""
    holder = apsw.Connection(str(hooked.store))
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


@pytest.mark.parametrize("way", WAYS)
def test_hook_does_not_wait_for_a_locked_store(hooked: Hooked, way: Way) -> None:
    """Everything is recorded when it is free again."""
    assert hooked.call("start", "Build the shop").code == 0
    with _locked_store(hooked):
        assert hooked.run_hook(prompt_payload(cwd=hooked.project), way) == SILENT
        for number in range(3):
            assert hooked.run_hook(command_payload(f"talk-1/{number}", cwd=hooked.project), way) == SILENT
        assert len(spool.list_entries(str(hooked.home))) == 4
    assert hooked.commands() == {"talk-1": ["0", "1", "2"]}
    hooked.assert_drained()


@pytest.mark.parametrize("way", WAYS)
def test_hook_works_without_a_store_and_with_a_broken_one(hooked: Hooked, way: Way) -> None:
    """A missing store is created; payloads wait until a broken one is repaired."""
    assert hooked.run_hook(command_payload("talk-1/0", cwd=hooked.project), way) == SILENT
    assert hooked.commands() == {"talk-1": ["0"]}
    hooked.store.rename(hooked.root / "mine.db")
    for name in ("store.db-wal", "store.db-shm", "writer.json"):
        (hooked.home / name).unlink(missing_ok=True)
    hooked.store.write_bytes(b"no store at all" * 1000)
    assert hooked.run_hook(prompt_payload(cwd=hooked.project), way) == SILENT
    assert hooked.run_hook(command_payload("talk-1/1", cwd=hooked.project), way) == SILENT
    assert hooked.call("status").code == 6
    assert len(spool.list_entries(str(hooked.home))) == 2
    (hooked.root / "mine.db").replace(hooked.store)
    assert hooked.commands() == {"talk-1": ["0", "1"]}
    hooked.assert_drained()


FILE_SYSTEMS: dict[str, tuple[str, str]] = {
    "full": ("size=96k", 'cat /dev/zero > "$HOLDFAST_HOME/filler" 2>/dev/null'),
    "no names": ("size=1m,nr_inodes=7", 'for n in 1 2 3 4 5 6 7; do : > "$HOLDFAST_HOME/f$n"; done 2>/dev/null'),
    "read-only": ("size=1m", 'mount -o remount,ro "$HOLDFAST_HOME"'),
}
_MOUNTED = """
before=$(mktemp -d) && cp -R "$HOLDFAST_HOME/." "$before" || exit 9
mount -t tmpfs -o {options} none "$HOLDFAST_HOME" || exit 9
cp -R "$before/." "$HOLDFAST_HOME" || exit 9
({then}; true)
out=$("$@" < {given} 2>&1); code=$?
echo "$code|$out|$(cat "$HOLDFAST_HOME"/spool/* 2>/dev/null | wc -c)"
mount -o remount,rw,size=16m,nr_inodes=1000 "$HOLDFAST_HOME"; rm -f "$HOLDFAST_HOME/filler" "$HOLDFAST_HOME"/f[0-9]
out=$("$@" < {given} 2>&1); code=$?
sleep 0.1
echo "$code|$out"
cp -R "$HOLDFAST_HOME/." "$before"; umount "$HOLDFAST_HOME"; cp -R "$before/." "$HOLDFAST_HOME"; rm -r "$before"
"""


@pytest.mark.parametrize("way", ["tell", "ask", "python"])
@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_hook_is_silent_on_an_unwritable_disk(hooked: Hooked, file_system: str, way: Way) -> None:
    """A full disk, one without inodes, a read-only one: no partial payload, and the next hook works."""
    require_namespaces()
    options, prepare = FILE_SYSTEMS[file_system]
    payload = hooked.root / "given"
    payload.write_bytes(command_payload("talk-1/0", cwd=hooked.project, unknown="x" * 20_000))
    script = _MOUNTED.format(options=options, then=prepare, given=payload)
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", *hooked.hook_command(way)], env=hooked.environ,
        cwd=hooked.project, capture_output=True, text=True, check=False, timeout=HANGING * 2,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["0||0", "0|"], done
    assert hooked.commands() == {"talk-1": ["0"]}
    hooked.assert_drained()


def test_hook_works_without_a_home(hooked: Hooked) -> None:
    """An orphaned hook script does nothing; `holdfast hook` creates a home, unless a file is in the way."""
    line = f"test -x '{hooked.hook}' && exec '{hooked.hook}' claude tell user || : holdfast"
    hooked.home.rename(hooked.root / "moved")
    payload = command_payload("talk-1/0", cwd=hooked.project)
    done = subprocess.run(["sh", "-c", line], input=payload, capture_output=True, check=False, env=hooked.environ)
    assert (done.returncode, done.stdout, done.stderr) == SILENT
    assert not hooked.home.exists()
    hooked.home.write_text("mine")
    assert hooked.run_hook(payload, "python") == SILENT
    assert hooked.home.read_text() == "mine"
    hooked.home.unlink()
    assert hooked.run_hook(payload, "python") == SILENT
    assert hooked.commands() == {"talk-1": ["0"]}


@pytest.mark.parametrize("way", WAYS)
def test_hook_is_silent_with_closed_streams(hooked: Hooked, way: Way) -> None:
    """No stdin, no stdout, no stderr."""
    words = hooked.hook_command(way)
    for streams in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {streams}', "sh", *words], input=prompt_payload(cwd=hooked.project),
            env=hooked.environ, cwd=hooked.project, capture_output=True, check=False, timeout=HANGING,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == SILENT, streams


@pytest.mark.parametrize("agent", NAMES)
def test_hook_is_silent_for_wrong_types_of_every_agent(hooked: Hooked, agent: str) -> None:
    payloads: list[Any] = [
        {"session_id": [], "hook_event_name": {}, "cwd": 0}, {"sessionId": None, "event": 7, "sessionStart": "x"},
        {"taskId": {}, "hookName": "TaskStart", "workspaceRoots": "/"}, {"type": "session.created", "properties": 1},
        {"conversation_id": 1e99, "hook_event_name": "beforeSubmitPrompt", "workspace_roots": [{}]},
    ]  # fmt: skip
    for number, item in enumerate(payloads):
        way = WAYS[number % len(WAYS)] if scale(0, 1, 1) else ("tell", "python")[number % 2 if number < 2 else 0]
        assert hooked.run_hook(json.dumps(item).encode(), way, agent=agent) == SILENT, item
    _age(hooked)
    hooked.drain()
    assert spool.list_entries(str(hooked.home)) == []


def test_concurrent_stirred_drains_record_each_payload_once(hooked: Hooked) -> None:
    """Every `stir` starts a drain in the background."""
    count = scale(8, 60, 400)

    def work(conversation: str) -> None:
        for number in range(count):
            assert (
                hooked.run_hook(
                    command_payload(f"{conversation}/{number}", conversation=conversation, cwd=hooked.project), "stir"
                )
                == SILENT
            )

    threads = [threading.Thread(target=work, args=(f"talk-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hooked.commands() == {f"talk-{item}": [str(number) for number in range(count)] for item in range(3)}
    hooked.assert_drained()
