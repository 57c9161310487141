"""For which store a payload is: the one in force where its hook ran, whoever drains the spool."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.cli import hooking
from holdfast.conversations.hooks import install
from holdfast.workspace import spool

if sys.platform == "win32":
    pytest.skip("the script is for POSIX shells", allow_module_level=True)

_LONG = 60  # seconds: no process here takes that long
_SECRET = "postgresql://ada:pa55w0rd@localhost:1/work"
_SHOWN = "postgresql://ada@localhost:1/work"


class Room:
    """A home with the hook script in it, and stores of other names near it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        install.install(str(self.home), system=sys.platform)

    def url(self, name: str) -> str:
        """Of a store; empty for the home's own."""
        return f"sqlite:///{self.root}/{name}.db" if name else ""

    def environ(self, url: str) -> dict[str, str]:
        known = {"HOLDFAST_HOME": str(self.home), "HOME": str(self.root), "PATH": os.environ["PATH"]}
        return known | ({"HOLDFAST_STORE": url} if url else {})

    def payload(self, command: str) -> bytes:
        return json.dumps({
            "session_id": "talk", "cwd": str(self.project), "hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_input": {"command": command}, "tool_use_id": command,
        }).encode()  # fmt: skip

    def say(self, command: str, url: str = "", *, way: str = "tell") -> None:
        """Run a hook where the variable names a store."""
        words = [str(self.home / "hooks" / "hook"), "claude", way, "user"]
        if way == "python":
            words = [sys.executable, "-m", "holdfast", "hook", "claude"]
        done = subprocess.run(
            words, input=self.payload(command), env=self.environ(url), cwd=self.project, capture_output=True,
            check=False, timeout=_LONG,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def run(self, *words: str, url: str = "") -> Any:
        """What a command answers that runs where the variable names a store."""
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "--json", *words], env=self.environ(url), cwd=self.project,
            capture_output=True, check=False, timeout=_LONG,
        )  # fmt: skip
        return json.loads(done.stdout)

    def drain(self, url: str = "") -> None:
        with Keeper.open(str(self.project), home=str(self.home), store=url or None) as keeper:
            keeper.collect()

    def recorded(self, url: str = "") -> list[str]:
        """The commands in a store, without draining."""
        with Keeper.open(str(self.project), home=str(self.home), store=url or None) as keeper:
            store = keeper.existing_store()
            events = [event for session in store.sessions() for event in store.events(session)] if store else []
            ran = [event.data or b"{}" for event in events if event.type == "command.ran"]
        return sorted(json.loads(data)["command"] for data in ran)

    def waiting(self) -> list[spool.SpoolEntry]:
        return spool.list_entries(str(self.home))

    def doctor(self, url: str = "") -> dict[str, Any]:
        checks: list[dict[str, Any]] = self.run("doctor", url=url)["checks"]
        return next(check for check in checks if check["name"] == "spool")

    def make_old(self) -> None:
        for entry in self.waiting():
            os.utime(entry.path, (1_794_000_000, 1_794_000_000))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.mark.parametrize(
    ("meant", "opened", "way"), [("", "other", "tell"), ("team", "", "tell"), ("team", "other", "python")]
)
def test_payloads_were_drained_into_the_store_of_the_next_process(
    room: Room, meant: str, opened: str, way: str
) -> None:
    """They stay until a process opens the store they are meant for, and are then recorded there."""
    room.say("make", room.url(meant), way=way)
    room.run("status", url=room.url(opened))
    assert (room.recorded(room.url(opened)), room.recorded(room.url(meant))) == ([], [])
    assert len(room.waiting()) == 1
    room.drain(room.url(meant))
    assert (room.recorded(room.url(opened)), room.recorded(room.url(meant))) == ([], ["make"])
    assert room.waiting() == []


def test_every_store_gets_its_own_payloads_in_any_order(room: Room) -> None:
    """Hooks and drains in many environments, mixed: each store holds exactly what was meant for it."""
    choice = random.Random(7)
    names = ["", "one", "two", "with 'quotes' and ü"]
    meant: dict[str, list[str]] = {name: [] for name in names}
    for number in range(24):
        name = choice.choice(names)
        room.say(f"make {number}", room.url(name))
        meant[name].append(f"make {number}")
        if number % 3 == 2:
            room.drain(room.url(choice.choice(names)))
    for name in names:
        room.drain(room.url(name))
    assert {name: room.recorded(room.url(name)) for name in names} == {
        name: sorted(commands) for name, commands in meant.items()
    }
    assert room.waiting() == []


@pytest.mark.parametrize(
    "spelled", ["sqlite:////{}", "sqlite:///{}", "sqlite:///{}/../{name}"], ids=["four", "three", "dots"]
)
def test_one_store_spelled_in_two_ways_is_one(room: Room, spelled: str) -> None:
    """What counts is the file."""
    path = str(room.root / "team.db").lstrip("/")
    room.say("make", spelled.format(path, name="team.db"))
    room.drain(room.url("team"))
    assert room.recorded(room.url("team")) == ["make"]


def test_home_store_named_by_the_variable_is_the_home_store(room: Room) -> None:
    room.say("make", f"sqlite:///{room.home}/store.db")
    room.drain()
    assert room.recorded() == ["make"]


def test_payloads_keep_their_store_when_hooks_are_connected_with_another(room: Room) -> None:
    """`connect` names a store for hooks: what was left before it is not for that one."""
    room.say("make first")
    room.run("connect", "claude", url=room.url("team"))
    room.say("make second")
    room.run("connect", "claude", url=room.url("other"))
    room.say("make third")
    for name in ("", "team", "other"):
        room.drain(room.url(name))
    found = [room.recorded(room.url(name)) for name in ("", "team", "other")]
    assert found == [["make first"], ["make second"], ["make third"]]


def test_disconnected_hooks_do_not_keep_the_store(room: Room) -> None:
    """With the last agent the URL goes, from the script too."""
    room.run("connect", "claude", url=room.url("team"))
    room.run("disconnect", "claude")
    room.say("make")
    room.drain()
    assert room.recorded() == ["make"]


@pytest.mark.parametrize("connected", [False, True])
def test_payload_of_an_earlier_version_goes_where_hooks_are_connected(room: Room, connected: bool) -> None:
    """Its name says nothing of a store: it is the one that `connect` wrote down, else the home's own."""
    if connected:
        room.run("connect", "claude", url=room.url("team"))
    meant, other = (room.url("team"), "") if connected else ("", room.url("team"))
    path = room.home / "spool" / f"claude.user.1.{2**30}"
    path.write_bytes(room.payload("make"))
    (room.home / "spool" / f"claude.user.1.{2**30}.1").write_bytes(room.payload("make again"))
    room.drain(other)
    assert (room.recorded(other), len(room.waiting())) == ([], 2)
    room.drain(meant)
    assert (room.recorded(meant), room.waiting()) == (["make", "make again"], [])


def test_script_of_an_earlier_version_is_made_anew(room: Room) -> None:
    """It goes on working; the first drain that it starts replaces it."""
    hook = room.home / "hooks" / "hook"
    current = hook.read_bytes()
    hook.write_bytes(current + b"# of an earlier version\n")
    subprocess.run(
        [sys.executable, "-I", "-S", str(room.home / "hooks" / "ask.py"), "drain"], env=room.environ(""), check=True,
        timeout=_LONG,
    )  # fmt: skip
    assert hook.read_bytes() == current
    hook.write_bytes(current + b"# of this version, for another Python\n")
    assert hooking.drain(str(room.home)) == 0
    assert hook.read_bytes() != current


@pytest.mark.parametrize(
    ("url", "way"),
    [("nonsense", "tell"), ("postgresql://a:b@c@d/pa55w0rd", "tell"), ("sqlite://", "tell"), ("x" * 9000, "tell"),
     ("nonsense", "python"), ("postgresql://a:b@c@d/pa55w0rd", "python"), ("POSTGRES://a:pa55w0rd@d", "tell")],
)  # fmt: skip
def test_variable_that_names_no_store_does_not_stop_recording(room: Room, url: str, way: str) -> None:
    """It is as if it were not there, and nothing of it is kept: a password could be in it."""
    room.say("make", url, way=way)
    assert all(b"pa55w0rd" not in Path(entry.path).read_bytes() for entry in room.waiting())
    room.drain(room.url("other"))
    assert room.recorded(room.url("other")) == []
    room.drain()
    assert (room.recorded(), room.waiting()) == (["make"], [])


@pytest.mark.parametrize("way", ["tell", "python"])
@pytest.mark.parametrize("variable", [True, False], ids=["variable", "connected"])
def test_no_password_is_in_the_spool(room: Room, way: str, variable: bool) -> None:
    """A payload names a server's store without it, however the hook came to know the URL."""
    if not variable:
        install.note_store(str(room.home), _SECRET)
        install.install(str(room.home), system=sys.platform)
    room.say("make", _SECRET if variable else "", way=way)
    room.drain()
    (entry,) = room.waiting()
    assert entry.store_url() == _SHOWN
    assert all(b"pa55w0rd" not in path.read_bytes() for path in (room.home / "spool").iterdir())
    assert b"pa55w0rd" not in (room.home / "hooks" / "hook").read_bytes()


def test_variable_of_one_project_did_not_redirect_the_others(room: Room) -> None:
    """A repository that names a store for its hooks gets what its own hooks say, by drains in its environment too."""
    hostile = room.url("hostile")
    room.say("make mine")
    for way in ("tell", "stir", "python", "ask"):
        room.say(f"make theirs by {way}", hostile, way=way)
    room.drain(hostile)
    assert room.recorded(hostile) == sorted(f"make theirs by {way}" for way in ("tell", "stir", "python", "ask"))
    assert [entry.store for entry in room.waiting()] == [spool.HOME]
    room.drain()
    assert room.recorded() == ["make mine"]


def test_two_drains_at_once_leave_each_payload_to_its_store(room: Room) -> None:
    """While both look at the same files and write their tags."""
    names = ("", "one", "two")
    for number in range(12):
        room.say(f"make {number}", room.url(names[number % 3]))
    drains = [threading.Thread(target=room.drain, args=(room.url(name),)) for name in names * 2]
    for drain in drains:
        drain.start()
    for drain in drains:
        drain.join(_LONG)
    for place, name in enumerate(names):
        room.drain(room.url(name))
        assert room.recorded(room.url(name)) == sorted(f"make {number}" for number in range(place, 12, 3))


def test_payload_for_another_store_is_passed_over_by_its_name(room: Room) -> None:
    """Once it is known whose it is, nobody opens it again: every command would."""
    room.say("make", room.url("team"))
    room.drain()
    (entry,) = room.waiting()
    assert entry.store.startswith("s")
    assert entry.store_url() == room.url("team")
    assert not spool.has_entries(str(room.home), spool.HOME)
    os.chmod(entry.path, 0)
    room.drain()
    os.chmod(entry.path, 0o600)
    room.drain(room.url("team"))
    assert room.recorded(room.url("team")) == ["make"]


def test_payload_is_recorded_where_its_line_says_and_not_its_tag(room: Room) -> None:
    """A number of a process, and so a name, can come again while a tag is written: the line in the file decides."""
    room.say("make", room.url("team"))
    room.drain()
    (entry,) = room.waiting()
    with Keeper.open(str(room.project), home=str(room.home), store=room.url("other")) as keeper:
        wrong = entry.path.replace(entry.store, keeper.spool_tag)
        os.rename(entry.path, wrong)
        keeper.collect()
    assert room.recorded(room.url("other")) == []
    assert [waits.store for waits in room.waiting()] == [entry.store]
    room.drain(room.url("team"))
    assert room.recorded(room.url("team")) == ["make"]


@pytest.mark.parametrize("content", [b"", b"sqlite:///cut o", b"sqlite:///x/y.db\n"])
def test_hook_killed_before_its_payload_leaves_nothing_to_report(room: Room, content: bytes) -> None:
    """The name of a store alone, or a part of it: nothing was said. While it may still be written, it stays."""
    path = room.home / "spool" / f"claude.user.1.{os.getpid()}.named"
    path.write_bytes(content.replace(b"sqlite:///x/y.db", room.url("team").encode()))
    room.drain(room.url("team"))
    assert len(room.waiting()) == 1
    room.make_old()
    room.drain(room.url("team"))
    assert room.waiting() == []
    assert spool.list_unread(str(room.home)) == []


def test_doctor_says_what_waits_for_other_stores_and_how_to_record_it(room: Room) -> None:
    """With a command that does it, typed as it stands; the password of a server is nowhere in it."""
    team = room.url("it's the team")
    room.say("make", team)
    room.say("make", _SECRET)
    young = room.doctor()
    assert (young["status"], f"1 payload of agents waits for {team}" in young["detail"]) == ("ok", True)
    assert _SHOWN in young["detail"]
    room.make_old()
    old = room.doctor()
    assert old["status"] == "warning"
    assert "pa55w0rd" not in json.dumps(old)
    first = old["fix"].removeprefix("To record them there: ").split(" && ")[0]
    program, *words = shlex.split(first)
    assert program == "holdfast"
    room.run(*words)
    assert room.recorded(team) == ["make"]
    assert [entry.store_url() for entry in room.waiting()] == [_SHOWN]
    assert room.doctor(team)["status"] == "warning"
