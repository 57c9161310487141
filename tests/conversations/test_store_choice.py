"""A payload is recorded in the store that was in force where its hook ran, whoever drains the spool."""

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

_LONG = 60  # seconds, longer than any process here takes
_SECRET = "postgresql://ada:pa55w0rd@localhost:1/work"
_SHOWN = "postgresql://ada@localhost:1/work"


class HookHome:
    """A home with the hook script in it, and other stores next to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        install.install(str(self.home), system=sys.platform)

    def url(self, name: str) -> str:
        """URL of a store; empty for the home's own."""
        return f"sqlite:///{self.root}/{name}.db" if name else ""

    def environ(self, url: str) -> dict[str, str]:
        known = {"HOLDFAST_HOME": str(self.home), "HOME": str(self.root), "PATH": os.environ["PATH"]}
        return known | ({"HOLDFAST_STORE": url} if url else {})

    def payload(self, command: str) -> bytes:
        return json.dumps({
            "session_id": "talk", "cwd": str(self.project), "hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_input": {"command": command}, "tool_use_id": command,
        }).encode()  # fmt: skip

    def run_hook(self, command: str, url: str = "", *, way: str = "tell") -> None:
        """Run a hook with the variable naming a store."""
        words = [str(self.home / "hooks" / "hook"), "claude", way, "user"]
        if way == "python":
            words = [sys.executable, "-m", "holdfast", "hook", "claude"]
        done = subprocess.run(
            words, input=self.payload(command), env=self.environ(url), cwd=self.project, capture_output=True,
            check=False, timeout=_LONG,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def run(self, *words: str, url: str = "") -> Any:
        """The answer of a command run with the variable naming a store."""
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "--json", *words], env=self.environ(url), cwd=self.project,
            capture_output=True, check=False, timeout=_LONG,
        )  # fmt: skip
        return json.loads(done.stdout)

    def drain(self, url: str = "") -> None:
        with Keeper.open(str(self.project), home=str(self.home), store=url or None) as keeper:
            keeper.collect()

    def recorded(self, url: str = "") -> list[str]:
        """The commands recorded in a store, without draining."""
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

    def age_payloads(self) -> None:
        for entry in self.waiting():
            os.utime(entry.path, (1_794_000_000, 1_794_000_000))


@pytest.fixture
def hook_home(tmp_path: Path) -> HookHome:
    return HookHome(tmp_path)


@pytest.mark.parametrize(
    ("meant", "opened", "way"), [("", "other", "tell"), ("team", "", "tell"), ("team", "other", "python")]
)
def test_payload_waits_for_a_process_with_its_store(hook_home: HookHome, meant: str, opened: str, way: str) -> None:
    hook_home.run_hook("make", hook_home.url(meant), way=way)
    hook_home.run("status", url=hook_home.url(opened))
    assert (hook_home.recorded(hook_home.url(opened)), hook_home.recorded(hook_home.url(meant))) == ([], [])
    assert len(hook_home.waiting()) == 1
    hook_home.drain(hook_home.url(meant))
    assert (hook_home.recorded(hook_home.url(opened)), hook_home.recorded(hook_home.url(meant))) == ([], ["make"])
    assert hook_home.waiting() == []


def test_every_store_gets_its_own_payloads_in_any_order(hook_home: HookHome) -> None:
    """Hooks and drains in many environments."""
    choice = random.Random(7)
    names = ["", "one", "two", "with 'quotes' and ü"]
    meant: dict[str, list[str]] = {name: [] for name in names}
    for number in range(24):
        name = choice.choice(names)
        hook_home.run_hook(f"make {number}", hook_home.url(name))
        meant[name].append(f"make {number}")
        if number % 3 == 2:
            hook_home.drain(hook_home.url(choice.choice(names)))
    for name in names:
        hook_home.drain(hook_home.url(name))
    assert {name: hook_home.recorded(hook_home.url(name)) for name in names} == {
        name: sorted(commands) for name, commands in meant.items()
    }
    assert hook_home.waiting() == []


@pytest.mark.parametrize(
    "spelled", ["sqlite:////{}", "sqlite:///{}", "sqlite:///{}/../{name}"], ids=["four", "three", "dots"]
)
def test_two_spellings_of_a_store_are_one_store(hook_home: HookHome, spelled: str) -> None:
    """The file decides."""
    path = str(hook_home.root / "team.db").lstrip("/")
    hook_home.run_hook("make", spelled.format(path, name="team.db"))
    hook_home.drain(hook_home.url("team"))
    assert hook_home.recorded(hook_home.url("team")) == ["make"]


def test_home_store_named_by_the_variable_is_the_home_store(hook_home: HookHome) -> None:
    hook_home.run_hook("make", f"sqlite:///{hook_home.home}/store.db")
    hook_home.drain()
    assert hook_home.recorded() == ["make"]


def test_payloads_keep_their_store_when_hooks_are_connected_with_another(hook_home: HookHome) -> None:
    hook_home.run_hook("make first")
    hook_home.run("connect", "claude", url=hook_home.url("team"))
    hook_home.run_hook("make second")
    hook_home.run("connect", "claude", url=hook_home.url("other"))
    hook_home.run_hook("make third")
    for name in ("", "team", "other"):
        hook_home.drain(hook_home.url(name))
    recorded = [hook_home.recorded(hook_home.url(name)) for name in ("", "team", "other")]
    assert recorded == [["make first"], ["make second"], ["make third"]]


def test_disconnected_hooks_do_not_keep_the_store(hook_home: HookHome) -> None:
    """The URL is removed with the last agent, from the script too."""
    hook_home.run("connect", "claude", url=hook_home.url("team"))
    hook_home.run("disconnect", "claude")
    hook_home.run_hook("make")
    hook_home.drain()
    assert hook_home.recorded() == ["make"]


@pytest.mark.parametrize("connected", [False, True])
def test_payload_of_an_earlier_version_goes_where_hooks_are_connected(hook_home: HookHome, connected: bool) -> None:
    """It names no store: the connected one counts, else the home's own."""
    if connected:
        hook_home.run("connect", "claude", url=hook_home.url("team"))
    meant, other = (hook_home.url("team"), "") if connected else ("", hook_home.url("team"))
    path = hook_home.home / "spool" / f"claude.user.1.{2**30}"
    path.write_bytes(hook_home.payload("make"))
    (hook_home.home / "spool" / f"claude.user.1.{2**30}.1").write_bytes(hook_home.payload("make again"))
    hook_home.drain(other)
    assert (hook_home.recorded(other), len(hook_home.waiting())) == ([], 2)
    hook_home.drain(meant)
    assert (hook_home.recorded(meant), hook_home.waiting()) == (["make", "make again"], [])


def test_script_of_an_earlier_version_is_replaced(hook_home: HookHome) -> None:
    """It still works; the first drain it starts replaces it."""
    hook = hook_home.home / "hooks" / "hook"
    current = hook.read_bytes()
    hook.write_bytes(current + b"# of an earlier version\n")
    subprocess.run(
        [sys.executable, "-I", "-S", str(hook_home.home / "hooks" / "ask.py"), "drain"], env=hook_home.environ(""),
        check=True, timeout=_LONG,
    )  # fmt: skip
    assert hook.read_bytes() == current
    hook.write_bytes(current + b"# of this version, for another Python\n")
    assert hooking.drain(str(hook_home.home)) == 0
    assert hook.read_bytes() != current


@pytest.mark.parametrize(
    ("url", "way"),
    [("nonsense", "tell"), ("postgresql://a:b@c@d/pa55w0rd", "tell"), ("sqlite://", "tell"), ("x" * 9000, "tell"),
     ("nonsense", "python"), ("postgresql://a:b@c@d/pa55w0rd", "python"), ("POSTGRES://a:pa55w0rd@d", "tell")],
)  # fmt: skip
def test_variable_that_names_no_store_does_not_stop_recording(hook_home: HookHome, url: str, way: str) -> None:
    """It is ignored and not stored, since it could contain a password."""
    hook_home.run_hook("make", url, way=way)
    assert all(b"pa55w0rd" not in Path(entry.path).read_bytes() for entry in hook_home.waiting())
    hook_home.drain(hook_home.url("other"))
    assert hook_home.recorded(hook_home.url("other")) == []
    hook_home.drain()
    assert (hook_home.recorded(), hook_home.waiting()) == (["make"], [])


@pytest.mark.parametrize("way", ["tell", "python"])
@pytest.mark.parametrize("variable", [True, False], ids=["variable", "connected"])
def test_no_password_is_in_the_spool(hook_home: HookHome, way: str, variable: bool) -> None:
    """However the hook knows the URL."""
    if not variable:
        install.note_store(str(hook_home.home), _SECRET)
        install.install(str(hook_home.home), system=sys.platform)
    hook_home.run_hook("make", _SECRET if variable else "", way=way)
    hook_home.drain()
    (entry,) = hook_home.waiting()
    assert entry.store_url() == _SHOWN
    assert all(b"pa55w0rd" not in path.read_bytes() for path in (hook_home.home / "spool").iterdir())
    assert b"pa55w0rd" not in (hook_home.home / "hooks" / "hook").read_bytes()


def test_variable_of_one_project_does_not_redirect_the_others(hook_home: HookHome) -> None:
    """That project's store gets only its own hooks' payloads."""
    hostile = hook_home.url("hostile")
    hook_home.run_hook("make mine")
    for way in ("tell", "stir", "python", "ask"):
        hook_home.run_hook(f"make theirs by {way}", hostile, way=way)
    hook_home.drain(hostile)
    assert hook_home.recorded(hostile) == sorted(f"make theirs by {way}" for way in ("tell", "stir", "python", "ask"))
    assert [entry.store for entry in hook_home.waiting()] == [spool.HOME]
    hook_home.drain()
    assert hook_home.recorded() == ["make mine"]


def test_concurrent_drains_leave_each_payload_to_its_store(hook_home: HookHome) -> None:
    names = ("", "one", "two")
    for number in range(12):
        hook_home.run_hook(f"make {number}", hook_home.url(names[number % 3]))
    drains = [threading.Thread(target=hook_home.drain, args=(hook_home.url(name),)) for name in names * 2]
    for drain in drains:
        drain.start()
    for drain in drains:
        drain.join(_LONG)
    for place, name in enumerate(names):
        hook_home.drain(hook_home.url(name))
        assert hook_home.recorded(hook_home.url(name)) == sorted(f"make {number}" for number in range(place, 12, 3))


def test_payload_of_another_store_is_skipped_by_its_name(hook_home: HookHome) -> None:
    """Once tagged, no command opens it again."""
    hook_home.run_hook("make", hook_home.url("team"))
    hook_home.drain()
    (entry,) = hook_home.waiting()
    assert entry.store.startswith("s")
    assert entry.store_url() == hook_home.url("team")
    assert not spool.has_entries(str(hook_home.home), spool.HOME)
    os.chmod(entry.path, 0)
    hook_home.drain()
    os.chmod(entry.path, 0o600)
    hook_home.drain(hook_home.url("team"))
    assert hook_home.recorded(hook_home.url("team")) == ["make"]


def test_store_line_of_a_payload_precedes_its_tag(hook_home: HookHome) -> None:
    """A file name can repeat while a tag is written."""
    hook_home.run_hook("make", hook_home.url("team"))
    hook_home.drain()
    (entry,) = hook_home.waiting()
    with Keeper.open(str(hook_home.project), home=str(hook_home.home), store=hook_home.url("other")) as keeper:
        wrong = entry.path.replace(entry.store, keeper.spool_tag)
        os.rename(entry.path, wrong)
        keeper.collect()
    assert hook_home.recorded(hook_home.url("other")) == []
    assert [waits.store for waits in hook_home.waiting()] == [entry.store]
    hook_home.drain(hook_home.url("team"))
    assert hook_home.recorded(hook_home.url("team")) == ["make"]


@pytest.mark.parametrize("content", [b"", b"sqlite:///cut o", b"sqlite:///x/y.db\n"])
def test_hook_killed_before_its_payload_leaves_nothing_to_report(hook_home: HookHome, content: bytes) -> None:
    """Only a store's name, or part of it; while it may still be written, it stays."""
    path = hook_home.home / "spool" / f"claude.user.1.{os.getpid()}.named"
    path.write_bytes(content.replace(b"sqlite:///x/y.db", hook_home.url("team").encode()))
    hook_home.drain(hook_home.url("team"))
    assert len(hook_home.waiting()) == 1
    hook_home.age_payloads()
    hook_home.drain(hook_home.url("team"))
    assert hook_home.waiting() == []
    assert spool.list_unread(str(hook_home.home)) == []


def test_doctor_reports_payloads_of_other_stores_with_a_command(hook_home: HookHome) -> None:
    """Without the server's password."""
    team = hook_home.url("it's the team")
    hook_home.run_hook("make", team)
    hook_home.run_hook("make", _SECRET)
    young = hook_home.doctor()
    assert (young["status"], f"1 payload of agents waits for {team}" in young["detail"]) == ("ok", True)
    assert _SHOWN in young["detail"]
    hook_home.age_payloads()
    old = hook_home.doctor()
    assert old["status"] == "warning"
    assert "pa55w0rd" not in json.dumps(old)
    first = old["fix"].removeprefix("To record them there: ").split(" && ")[0]
    program, *words = shlex.split(first)
    assert program == "holdfast"
    hook_home.run(*words)
    assert hook_home.recorded(team) == ["make"]
    assert [entry.store_url() for entry in hook_home.waiting()] == [_SHOWN]
    assert hook_home.doctor(team)["status"] == "warning"
