"""F14: whatever the umask, everything that any command creates is private: 0600 and 0700."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest

from holdfast.cli.declaration import Command
from holdfast.cli.main import main
from holdfast.cli.table import COMMANDS
from tests.faults.harness.sync_sandbox import SYNC_CASES
from tests.faults.harness.verbs import SERVER_VERBS

# Every command that writes, in an order in which each has something to do.
CALLS: tuple[tuple[str, ...], ...] = (
    ("start", "Build the shop", "--tag", "x", "--at", "2026-11-14T00:30:00Z"),
    ("status",),
    ("note", "text " * 2000),
    ("message",),
    ("edit", "--summary", "s"),
    ("save",),
    ("decide", "oak"),
    ("file", "src/a.py", "--action", "created"),
    ("context", "--tokens", "10"),
    ("compress", "--to", "5"),
    ("hill", "scope", "3"),
    ("away", "--from", "2026-11-14T01:00:00Z", "--to", "2026-11-14T02:00:00Z"),
    ("worked", "--from", "2026-11-14T01:00:00Z", "--to", "2026-11-14T01:30:00Z"),
    ("agent", "add", "a5", "--type", "coder"),
    ("agent", "start", "a", "--type", "t"),
    ("agent", "progress", "a", "0.5"),
    ("agent", "pause", "a"),
    ("agent", "resume", "a"),
    ("agent", "fail", "a", "--category", "transient", "--message", "m"),
    ("agent", "retry", "a"),
    ("agent", "done", "a"),
    ("agent", "start", "b", "--type", "t"),
    ("agent", "abort", "b"),
    ("task", "add", "paint", "--id", "t1"),
    ("task", "start", "t1"),
    ("task", "block", "t1"),
    ("task", "reopen", "t1"),
    ("task", "done", "t1"),
    ("task", "add", "sell", "--id", "t2"),
    ("task", "drop", "t2"),
    ("plan", "import", "{plan}"),
    ("run", "--", "true"),
    ("mirror", "on", "orchestrator"),
    ("mirror", "on", "timer"),
    ("mirror", "on", "contract"),
    ("mirror", "on", "craft"),
    ("note", "mirrored"),
    ("mirror", "off", "timer"),
    ("import", "{document}"),
    ("recover", "{document}", "--start"),
    ("export", "--format", "craft", "-o", "{}/craft.json"),
    ("convert", "{document}", "--to", "contract", "-o", "{}/contract"),
    ("migrate", "{document}"),
    ("contract", "acknowledge", "--spec", "{plan}", "--agent", "a"),
    ("pause", "lunch"),
    ("resume",),
    ("fail", "no"),
    ("resume",),
    ("config", "set", "history.limit", "30"),
    ("config", "unset", "history.limit"),
    ("project", "reconnect", "."),
    ("backup", "{}/backup"),
    ("store", "show"),
    ("store", "init", "sqlite:///{}/other.db"),
    ("store", "copy", "home", "sqlite:///{}/other.db"),
    ("stop",),
    ("start", "Again"),
    ("continue",),
    ("abort",),
    ("archive", "{id}"),
    ("unarchive", "{id}"),
    ("history", "--search", "shop"),
    ("doctor",),
    ("doctor", "--repair"),
    ("delete", "{id}", "--confirm", "--force"),
    ("restore", "{}/backup"),
    ("connect", "claude", "opencode", "cline"),
    ("hook", "claude"),
    ("statusline", "claude"),
    ("hook", "claude"),
    ("status",),
    ("start", "Gathered by hand"),
    ("conversation", "move", "claude:talk", "--to", "@"),
    ("stop",),
    ("backfill", "claude"),
    ("connect", "claude"),
    ("disconnect", "claude"),
    ("init", "--connect", "gemini", "--mirror", "none", "--backfill", "yes"),
    ("uninstall",),
)
# A payload of an agent, and a line of its transcript.
PAYLOAD = {"session_id": "talk", "cwd": "/nowhere", "hook_event_name": "UserPromptSubmit", "prompt": "Add login"}
TRANSCRIPT_LINE = {"type": "user", "uuid": "u", "timestamp": "2026-01-01T10:00:00Z", "sessionId": "past",
                   "cwd": "/nowhere", "message": {"role": "user", "content": "Add login"}}  # fmt: skip


DOCUMENT = {"goal": "x", "session_id": "2026-11-01-abc123", "created": "2026-11-01T10:00:00Z", "status": "paused",
            "agents": [], "pending_tasks": ["one"]}  # fmt: skip


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["000", "022", "077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


def wrong_modes(place: Path) -> list[str]:
    """Files with another mode than they should have."""
    wrong = []
    for path in place.rglob("*"):
        info = path.lstat()
        runs = path.parent.name in ("hooks", "Hooks") and path.suffix == ""  # what agents start
        due = 0o700 if stat.S_ISDIR(info.st_mode) or runs else 0o600
        if stat.S_IMODE(info.st_mode) != due:
            wrong.append(f"{path} is {stat.S_IMODE(info.st_mode):04o}")
    return wrong


def test_every_file_of_every_command_is_private(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checked after each command, also while another process has the store open."""
    home, project, copies = tmp_path / "made" / "deep" / "home", tmp_path / "project", tmp_path / "copies"
    project.mkdir(mode=0o755)
    copies.mkdir(mode=0o700)
    (tmp_path / "plan.md").write_text("# Plan\n\nVersion: 1.0\n\n- [ ] paint\n- [x] buy\n")
    (tmp_path / "document.json").write_text(json.dumps(DOCUMENT))
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    monkeypatch.chdir(project)
    person = tmp_path / "person"
    (person / ".claude" / "projects" / "-nowhere").mkdir(mode=0o700, parents=True)
    transcript = person / ".claude" / "projects" / "-nowhere" / "past.jsonl"
    transcript.write_text(json.dumps(TRANSCRIPT_LINE) + "\n")
    for path in (person, *person.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    monkeypatch.setenv("HOME", str(person))
    watcher: apsw.Connection | None = None
    session = ""
    for words in CALLS:
        names = {"{}": str(copies), "{id}": session, "{plan}": str(tmp_path / "plan.md"),
                 "{document}": str(tmp_path / "document.json")}  # fmt: skip
        call = [names.get(word, word.replace("{}", str(copies))) for word in words]
        if words[0] in ("hook", "statusline"):  # they exit the process themselves after a timeout
            run = [sys.executable, "-m", "holdfast", *call]
            subprocess.run(run, input=json.dumps(PAYLOAD).encode(), check=True, capture_output=True)
        else:
            assert main(call) == 0, (call, capsys.readouterr().err)
        if watcher is None:
            session = capsys.readouterr().out.split()[1]
            # An open connection keeps journal and shared memory on the disk, where they are checked.
            watcher = apsw.Connection(str(home / "store.db"), flags=apsw.SQLITE_OPEN_READONLY)
            list(watcher.execute("SELECT count(*) FROM events"))
        assert wrong_modes(tmp_path / "made") == [], call
        assert wrong_modes(copies) == [], call
        assert wrong_modes(person) == [], call
        assert wrong_modes(project) == [], call
    assert watcher is not None
    watcher.close()


def test_files_of_a_repair_are_private(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new store, the quarantined rows and file, the error log."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    assert main(["start", "Build the shop"]) == 0
    assert main(["note", "x"]) == 0
    connection = apsw.Connection(str(home / "store.db"))
    connection.execute("UPDATE events SET data = x'00' WHERE seq = 2")
    connection.close()
    assert main(["doctor", "--repair"]) == 0
    with (home / "store.db").open("r+b") as file:
        file.write(bytes(100))
    assert main(["status"]) == 6
    assert main(["doctor", "--repair"]) == 0
    assert len(list((home / "aside").iterdir())) == 2
    monkeypatch.setattr("holdfast.cli.commands.views.status", lambda call: 1 / 0)
    assert main(["status"]) == 1
    assert (home / "errors.log").exists()
    assert wrong_modes(home) == []
    capsys.readouterr()


def test_every_command_that_writes_is_in_the_table() -> None:
    """A new command that writes must be added above."""
    tried = {words[: depth + 1] for words in CALLS for depth in range(2)}
    tried |= {sync_case.path for sync_case in SYNC_CASES}  # in test_sync_modes
    tried |= SERVER_VERBS  # on a server
    assert [path for path in _writing(COMMANDS) if path not in tried] == []


def _writing(commands: Sequence[Command], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for command in commands:
        path = (*before, command.name)
        if command.writes and not command.verbs:
            yield path
        yield from _writing(command.verbs, path)
