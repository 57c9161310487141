"""The entry point of hooks: whatever agents send and whatever is broken, hooks and status lines succeed silently."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import Keeper
from holdfast.cli.entry import words_from_command
from holdfast.keeper.hook_process import answer_hook
from holdfast.machine import error_log
from holdfast.workspace import spool

HUGE = 50 * 1024 * 1024
# Longer than a hook takes on a busy machine, shorter than the store waits for a lock.
_TOO_LONG = 20


class Hooks:
    def __init__(self, where: Path) -> None:
        self.where = where
        self.home = where / "home"
        self.project = where / "project"
        self.project.mkdir()
        self.environ = {"HOLDFAST_HOME": str(self.home), "HOME": str(where), "PATH": os.environ["PATH"]}

    def payload(self, event: str = "UserPromptSubmit", **fields: Any) -> bytes:
        known = {"session_id": "talk-1", "cwd": str(self.project), "hook_event_name": event}
        return json.dumps(known | ({"prompt": "Add login"} if event == "UserPromptSubmit" else {}) | fields).encode()

    def run(
        self, *words: str, given: bytes = b"", before: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*before, sys.executable, "-m", "holdfast", *words], input=given, env=self.environ, cwd=self.project,
            capture_output=True, check=False, timeout=_TOO_LONG,
        )  # fmt: skip

    def run_silently(self, *words: str, given: bytes = b"", before: tuple[str, ...] = ()) -> None:
        done = self.run(*words, given=given, before=before)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def drained(self) -> Keeper:
        keeper = Keeper.open(str(self.project), home=str(self.home))
        keeper.collect()
        assert not spool.has_entries(str(self.home))
        return keeper

    def logged(self) -> list[str]:
        return [str(line["message"]) for line in error_log.lines(str(self.home))]


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [("hook",), ("hook", "nobody"), ("hook", ""), ("hook", "../x"), ("hook", "ü"), ("hook", "drain"),
     ("hook", "tell"), ("hook", "x" * 1000),
     ("hook", "claude", "and", "more"), ("hook", "--json"), ("hook", "claude", "--json"),
     ("--json", "hook", "claude"),
     ("hook", "--bogus", "claude"), ("--bogus", "hook", "claude"), ("hook", "--agent=claude"),
     ("hook", "--", "claude"),
     ("--quiet", "--project", "/nowhere", "hook", "claude"), ("--at=nonsense", "hook", "claude"),
     ("--store", "nonsense://x", "hook", "claude")],
)  # fmt: skip
def test_hook_exits_0_silently_for_any_arguments(hooks: Hooks, words: tuple[str, ...]) -> None:
    """Exit 2 would stop the agent. The payload is kept."""
    given = hooks.payload("PostToolUse", tool_name="Bash", tool_input={"command": "make"})
    hooks.run_silently(*words, given=given)
    (kept,) = spool.list_entries(str(hooks.home))
    assert kept.payload(Path(kept.path).read_bytes()) == given


@pytest.mark.parametrize("words", [("statusline",), ("statusline", "nobody"), ("statusline", "claude", "--quiet")])
def test_status_line_exits_0_silently_for_any_arguments(hooks: Hooks, words: tuple[str, ...]) -> None:
    hooks.run_silently(*words)
    hooks.run_silently(*words, given=b"no json")


@pytest.mark.parametrize("words", [("statusline", "claude", "--json"), ("--json", "statusline", "claude")])
@pytest.mark.parametrize("given", [b"", b"no json", b"[]", b'{"session_id": "\\ud800", "cwd": 7}'])
def test_status_line_prints_one_json_document_for_any_input(
    hooks: Hooks, words: tuple[str, ...], given: bytes
) -> None:
    """An error is a document too."""
    done = hooks.run(*words, given=given)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["holdfast"], document["line"], document["agent"]) == (1, "", "claude")
    failed = hooks.run("statusline", "nobody", "--json", given=given)
    assert (failed.returncode, json.loads(failed.stdout)["error"]["kind"]) == (4, "invalid")


def test_hook_skips_options_before_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except that it uses a store given there."""
    monkeypatch.setenv("HOLDFAST_STORE", "")  # restores the variable at the end
    assert words_from_command(["--json", "--project", "x", "--store=sqlite:///a", "hook", "claude"]) == [
        "hook",
        "claude",
    ]
    assert os.environ["HOLDFAST_STORE"] == "sqlite:///a"
    assert words_from_command(["--store"]) == []
    del os.environ["HOLDFAST_STORE"]


@pytest.mark.parametrize("words", [("hook", "--help"), ("hook", "claude", "-h"), ("statusline", "--help")])
def test_hook_and_status_line_print_help(hooks: Hooks, words: tuple[str, ...]) -> None:
    done = hooks.run(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"holdfast {words[0]}".encode() in done.stdout


# ── input ────────────────────────────────────────────────────────────────────────────────────────────────

_BAD = {
    "an array": b'["UserPromptSubmit"]', "a number": b"7", "no JSON": b'"UserPromptSubmit" {',
    "half": b'{"session_id":',
    "binary": b"\xff\xfe\x00\x01" * 100, "deep": b"[" * 200_000, "an empty object": b"{}",
    "wrong types": b'{"session_id": 7, "hook_event_name": ["UserPromptSubmit"], "cwd": {}, "prompt": 1e999}',
    "no conversation": b'{"hook_event_name": "UserPromptSubmit", "prompt": "x"}',
}  # fmt: skip


@pytest.mark.parametrize("given", [b"", b" ", b"\n\n", b"\t\r\n"])
def test_hook_logs_an_empty_payload(hooks: Hooks, given: bytes) -> None:
    hooks.home.mkdir()
    hooks.run_silently("hook", "claude", given=given)
    assert not spool.has_entries(str(hooks.home))
    assert hooks.logged() == ["empty payload from claude's hook"]


@pytest.mark.parametrize("given", _BAD.values(), ids=_BAD.keys())
def test_hook_moves_an_unreadable_payload_to_quarantine(hooks: Hooks, given: bytes) -> None:
    """Byte for byte, and logs it."""
    hooks.run_silently("hook", "claude", given=given)
    past = 1_794_000_000
    for path in (hooks.home / "spool").glob("claude.*"):
        os.utime(path, (past, past))  # a recent payload may be incomplete
    with hooks.drained() as keeper:
        assert keeper.history(all_projects=True) == []
    (kept,) = (hooks.home / "spool" / spool.UNREAD).iterdir()
    assert kept.read_bytes() == given
    assert hooks.logged()


@pytest.mark.parametrize(
    "fields",
    [{"session_id": "../../../../etc/passwd"}, {"session_id": "; rm -rf / #"}, {"session_id": "-rf"},
     {"session_id": "a" * 200}, {"transcript_path": "/etc/shadow"}, {"transcript_path": "/dev/zero"},
     {"transcript_path": "\\\\host\\share\\x"}, {"cwd": "/nowhere/at/all"}, {"cwd": "relative/../.."},
     {"cwd": "/dev/null"}, {"cwd": ""}, {"prompt": "\x1b]0;x\x07\x00\u202e" * 100}, {"prompt": "\ud800"}],
)  # fmt: skip
def test_hook_stores_hostile_ids_and_paths_as_text(hooks: Hooks, fields: dict[str, str]) -> None:
    """It follows none of them."""
    hooks.run_silently("hook", "claude", given=hooks.payload(**fields))
    with hooks.drained() as keeper:
        assert len(keeper.history(all_projects=True)) == 1
    assert spool.list_unread(str(hooks.home)) == []
    assert {path.name for path in hooks.where.iterdir()} == {"home", "project"}
    assert list(hooks.project.iterdir()) == []


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse"])
def test_hook_accepts_a_payload_of_50_megabytes(hooks: Hooks, event: str) -> None:
    """With or without a reply; only the beginning of its text is kept."""
    given = hooks.payload(event, prompt="Add login " + "x" * HUGE)
    hooks.run_silently("hook", "claude", given=given)
    with hooks.drained() as keeper:
        result = keeper.history(all_projects=True)
    assert len(result) == (event == "UserPromptSubmit")
    assert all(len(row.goal) < 1000 for row in result)
    assert sum(path.stat().st_size for path in hooks.home.rglob("*") if path.is_file()) < 5_000_000


def test_hook_keeps_50_megabytes_that_are_no_payload(hooks: Hooks) -> None:
    hooks.run_silently("hook", "claude", given=b'"SessionStart"' * (HUGE // 14))
    (kept,) = (hooks.home / "spool").iterdir()
    assert kept.stat().st_size == HUGE // 14 * 14


def test_hook_survives_a_closed_stdout(hooks: Hooks) -> None:
    """The agent exited while the briefing was written."""
    hooks.run_silently("hook", "claude", given=hooks.payload())
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "hook", "claude"], input=hooks.payload("SessionStart", source="resume"),
        env=hooks.environ, cwd=hooks.project, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=_TOO_LONG,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_hook_runs_with_closed_standard_streams(hooks: Hooks, streams: str) -> None:
    command = f'"$0" -m holdfast hook claude {streams}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], input=hooks.payload("SessionStart"), env=hooks.environ,
        cwd=hooks.project, capture_output=True, check=False, timeout=_TOO_LONG,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_hook_replies_when_another_process_drained_its_payload(hooks: Hooks) -> None:
    hooks.run_silently("hook", "claude", given=hooks.payload())
    given = hooks.payload("SessionStart", source="resume")
    path = spool.add_payload(str(hooks.home), "claude", "user", 1, given)
    hooks.drained().close()
    assert not os.path.exists(path)
    reply = answer_hook(str(hooks.home), os.path.basename(path), store=None, payload=given)
    assert reply is not None
    assert "Add login" in reply.stdout


# ── home and store ───────────────────────────────────────────────────────────────────────────────────────


def test_hook_exits_0_silently_when_the_home_is_a_file(hooks: Hooks) -> None:
    hooks.home.write_text("mine")
    hooks.run_silently("hook", "claude", given=hooks.payload())
    assert hooks.home.read_text() == "mine"


@pytest.mark.parametrize("home", ["", "/proc/nowhere", "\udcff"])
def test_hook_exits_0_silently_when_the_home_is_impossible(hooks: Hooks, home: str) -> None:
    hooks.environ["HOLDFAST_HOME"] = home
    hooks.run_silently("hook", "claude", given=hooks.payload())


def test_hook_keeps_the_payload_when_the_store_is_damaged(hooks: Hooks) -> None:
    """Until the store is repaired."""
    hooks.home.mkdir()
    (hooks.home / "store.db").write_bytes(b"no store at all" * 1000)
    hooks.run_silently("hook", "claude", given=hooks.payload())
    assert len(spool.list_entries(str(hooks.home))) == 1
    assert hooks.logged()


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
def test_hook_does_not_wait_for_a_locked_store(hooks: Hooks, kind: str) -> None:
    """The payload is drained once it is unlocked."""
    hooks.run_silently("hook", "claude", given=hooks.payload())
    hooks.drained().close()
    holder = apsw.Connection(str(hooks.home / "store.db"))
    holder.execute(f"BEGIN {kind}")
    for event in ("SessionStart", "UserPromptSubmit", "PreCompact"):
        done = hooks.run("hook", "claude", given=hooks.payload(event, prompt="Go on", trigger="auto"))
        assert (done.returncode, done.stderr) == (0, b"")
    assert len(spool.list_entries(str(hooks.home))) == 3
    holder.execute("ROLLBACK")
    holder.close()
    with hooks.drained() as keeper:
        assert keeper.session().document().context.compressions == 1


@pytest.mark.skipif(os.name == "nt", reason="limits of a process are POSIX's")
@pytest.mark.parametrize("blocks", [0, 1])
def test_hook_exits_0_silently_when_no_file_may_grow(hooks: Hooks, blocks: int) -> None:
    """As on a full disk: no partial file is left."""
    hooks.home.mkdir()
    limited = ("sh", "-c", f'ulimit -f {blocks}; exec "$0" "$@"')
    hooks.run_silently("hook", "claude", given=hooks.payload(prompt="x" * 5_000), before=limited)
    assert not spool.has_entries(str(hooks.home))
    hooks.run_silently("hook", "claude", given=hooks.payload())
    with hooks.drained() as keeper:
        assert keeper.session().document().goal == "Add login"


@pytest.fixture
def _mounts() -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")


@pytest.mark.usefixtures("_mounts")
@pytest.mark.parametrize("words", [("hook", "claude"), ("statusline", "claude")])
@pytest.mark.parametrize(
    ("options", "then"),
    [
        ("size=64k", 'cat /dev/zero > "$HOLDFAST_HOME/filler" 2>/dev/null'),
        ("size=64k,nr_inodes=3", 'mkdir "$HOLDFAST_HOME/a" "$HOLDFAST_HOME/b"'),
        ("size=64k", 'mount -o remount,ro "$HOLDFAST_HOME"'),
        ("size=64k", 'mkdir "$HOLDFAST_HOME/spool" "$HOLDFAST_HOME/glances"; mount -o remount,ro "$HOLDFAST_HOME"'),
    ],
    ids=["full", "no names", "read-only", "read-only, in use"],
)
def test_hook_exits_0_silently_when_the_home_cannot_be_written(
    hooks: Hooks, options: str, then: str, words: tuple[str, ...]
) -> None:
    """A full disk, one without free inodes, or one that is read-only."""
    hooks.home.mkdir()
    script = f'mount -t tmpfs -o {options} none "$HOLDFAST_HOME" && ({then}; true) && exec "$0" "$@"'
    before = ("unshare", "-Urm", "sh", "-c", script)
    done = hooks.run(*words, given=hooks.payload(), before=before)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (b"" if words[0] == "hook" else b"\x1b[1mproject\x1b[22m\n")
