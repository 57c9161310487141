"""Several devices in one sandbox, a folder that all can reach, and stages of what they have synced.

`a`, `b` and `c` are devices of one person, `g` belongs to somebody else, `r` is a new device that is added later.
Background syncing is off: only what a test does happens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tests.faults.harness import invariants
from tests.faults.harness.warm_sandbox import Answer, Tree, WarmSandbox, bind, empty, write_tree

DEVICES: Final = ("a", "b", "c", "g", "r")
EMAIL: Final = "guest@example.org"
Log = dict[str, frozenset[str]]  # session -> hashes of its events


class SyncSandbox(WarmSandbox):
    def __init__(self, place: str | None = None) -> None:
        super().__init__(place)
        self.homes = {name: os.path.join(self.root, f"home-{name}") for name in DEVICES}
        self.home, self.store = self.homes["a"], os.path.join(self.homes["a"], "store.db")
        self.remote = os.path.join(self.root, "remote")
        self.url = f"folder:{self.remote}"
        self.initial: Tree = {}  # the files before the first stage
        self._stages: dict[str, Tree] = {}
        self._fresh = 0

    def put(self, tree: Tree) -> None:
        empty(self.root)
        write_tree(self.root, {"project": None, **tree})
        for home in self.homes.values():
            if os.path.exists(os.path.join(home, "store.db")):
                bind(home)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────

    def at(self, device: str, *argv: str, strace: Sequence[str] = (), **more: Any) -> Answer:
        """Run a command on this device."""
        environ = self.environ | {"HOLDFAST_HOME": self.homes[device]}
        return self.run(argv, strace=strace, environ=environ, **more)

    def start_process(self, argv: Sequence[str], device: str = "a") -> subprocess.Popen[bytes]:
        """The command as users start it: a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *argv], cwd=self.project,
            env=self.environ | {"HOLDFAST_HOME": self.homes[device]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run_json(self, device: str, *argv: str, **more: Any) -> dict[str, Any]:
        """Run a command that must succeed; returns its JSON answer."""
        answer = self.at(device, *argv, "--json", **more)
        assert answer.code == 0, f"{device}: {' '.join(argv)} ended with {answer.code}: {answer.out} {answer.err}"
        document: dict[str, Any] = json.loads(answer.out)
        return document

    def sync(self, devices: Iterable[str], times: int = 1) -> None:
        for _ in range(times):
            for device in devices:
                rejected = self.run_json(device, "sync")["rejected"]
                assert rejected == [], f"{device} rejected something: {rejected}"

    def device_info(self, device: str) -> dict[str, Any]:
        device_info: dict[str, Any] = self.run_json(device, "device", "show")["device"]
        return device_info

    def words(self, device: str) -> str:
        return str(self.device_info(device)["fingerprint"])

    def vault_words(self) -> str:
        return str(self.device_info("a")["vaults"][0]["words"])

    def status(self, device: str) -> list[str]:
        return [item["status"] for item in self.run_json(device, "remote", "list")["remotes"]]

    def session(self, device: str = "a") -> str:
        return str(self.run_json(device, "show", "@")["session"]["id"])

    def note(self, device: str) -> str:
        """A text that was not used before."""
        self._fresh += 1
        text = f"note {self._fresh} of {device}"
        self.run_json(device, "note", text)
        return text

    # ── state ──────────────────────────────────────────────────────────────────────────────────────

    def log(self, device: str) -> Log:
        """Everything this device has recorded or received; its store is checked too."""
        home = self.homes[device]
        events_by_session = invariants.read_view(home, self.project, self.project).log
        return {session: frozenset(own for _, own in events) for session, events in events_by_session.items()}

    def logs(self) -> dict[str, Log]:
        return {name: self.log(name) for name, home in self.homes.items() if os.path.exists(home)}

    # ── stages ────────────────────────────────────────────────────────────────────────────────

    def restore_stage(self, stage: str) -> None:
        """Bring all devices to this stage: made once, and restored afterwards."""
        if stage not in self._stages:
            before, step = STAGES[stage]
            if before is None:
                self.put(self.initial)
            else:
                self.restore_stage(before)
            step(self)
            self._stages[stage] = self.take()
        self.put(self._stages[stage])

    def make_home(self, device: str) -> None:
        """A home with nothing but its settings."""
        os.mkdir(self.homes[device], 0o700)
        config = f'[device]\nname = "{device}"\n\n[sync]\nbackground = false\n'
        write_tree(self.homes[device], {"config.toml": config.encode()})

    def join(self, device: str) -> None:
        """Approve a device that has asked to join, and confirm the vault on it."""
        self.run_json("a", "device", "approve", self.words(device))
        self.confirm_vault(device)

    def confirm_vault(self, device: str) -> None:
        self.run_json(device, "sync")
        self.run_json(device, "remote", "confirm", "home", self.vault_words())
        self.sync((device, "a", device))


def _recorded(sandbox: SyncSandbox) -> None:
    for device in ("a", "b", "c", "g"):
        sandbox.make_home(device)
        sandbox.run_json(device, "start", f"the goal of {device}", "--replace")
        sandbox.note(device)
        sandbox.note(device)


def _vault_created(sandbox: SyncSandbox) -> None:
    sandbox.run_json("a", "remote", "add", "home", sandbox.url)
    sandbox.sync("a")


def _join_requested(sandbox: SyncSandbox) -> None:
    sandbox.run_json("b", "remote", "add", "home", sandbox.url)


def _approved(sandbox: SyncSandbox) -> None:
    """Approved, but the new device has not confirmed the vault yet."""
    sandbox.run_json("a", "device", "approve", sandbox.words("b"))
    sandbox.sync("b")


def _guest_has_keys(sandbox: SyncSandbox) -> None:
    sandbox.device_info("g")


def _three_devices(sandbox: SyncSandbox) -> None:
    sandbox.run_json("c", "remote", "add", "home", sandbox.url)
    sandbox.join("c")
    sandbox.sync("abc")


def _people_added(sandbox: SyncSandbox) -> None:
    sandbox.run_json("a", "people", "add", EMAIL, sandbox.device_info("g")["age"])
    sandbox.run_json("g", "people", "add", "owner@example.org", sandbox.device_info("a")["fingerprint"])


def _shared(sandbox: SyncSandbox) -> None:
    sandbox.run_json("a", "share", sandbox.session(), "--with", EMAIL)


def _accepted(sandbox: SyncSandbox) -> None:
    sandbox.run_json("g", "accept", sandbox.url)
    sandbox.sync("agb")
    sandbox.sync("ga")


def _both_pending(sandbox: SyncSandbox) -> None:
    """Both devices have something to send and something to receive."""
    sandbox.note("b")
    sandbox.sync("b")
    for device in "ab":
        sandbox.note(device)
        sandbox.run_json(device, "start", f"another goal of {device}", "--replace")


def _conflicting(sandbox: SyncSandbox) -> None:
    """Two devices edit the same field of a session without having received each other's edit."""
    session = sandbox.session()
    sandbox.run_json("b", "resume", session, "--force")
    sandbox.sync("ba")
    for device in "ab":
        sandbox.run_json(device, "edit", "--goal", f"as {device} wants it")
    sandbox.sync("aba")
    conflicts = sandbox.run_json("a", "conflicts", session)["conflicts"]
    assert len(conflicts) == 1, conflicts


def _device_removed(sandbox: SyncSandbox) -> None:
    """A device was removed, and keeps writing."""
    sandbox.run_json("a", "device", "remove", "c")
    sandbox.note("c")
    for device in "cab":
        sandbox.run_json(device, "sync")  # each reports that it cannot accept the others' events


STAGES: Final[dict[str, tuple[str | None, Callable[[SyncSandbox], None]]]] = {
    "recorded": (None, _recorded),
    "founded": ("recorded", _vault_created),
    "asked": ("founded", _join_requested),
    "joined": ("asked", lambda sandbox: sandbox.join("b")),
    "let in": ("asked", _approved),
    "three": ("joined", _three_devices),
    "gone": ("three", _device_removed),
    "met": ("joined", _guest_has_keys),
    "known": ("met", _people_added),
    "shared": ("known", _shared),
    "accepted": ("shared", _accepted),
    "busy": ("joined", _both_pending),
    "split": ("joined", _conflicting),
}


# ── cases: commands and their results ─────────────────────────────────────────────────────────────────────


def no_check(sandbox: SyncSandbox) -> None:
    """The default of `finish` and `check`."""


class SyncCase(NamedTuple):
    """A command into which a fault is injected, and how all devices recover."""

    name: str
    device: str
    stage: str
    argv: Callable[[SyncSandbox], tuple[str, ...]]
    # Exit codes that a second run may have: what has happened is not done twice.
    again: tuple[int, ...] = (0,)
    # What the other devices do to finish it, and what must be true then; `members` sync with each other.
    finish: Callable[[SyncSandbox], None] = no_check
    check: Callable[[SyncSandbox], None] = no_check
    members: str = "ab"

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.name.split(":")[0].split())


def _joined(sandbox: SyncSandbox) -> None:
    sandbox.run_json("b", "remote", "add", "home", sandbox.url)
    sandbox.join("b")


def _same_keys(sandbox: SyncSandbox) -> None:
    assert sandbox.words("a") == sandbox.words("a")
    sandbox.run_json("a", "remote", "add", "home", sandbox.url)


def _added_again(sandbox: SyncSandbox) -> None:
    sandbox.run_json("b", "remote", "add", "home", sandbox.url)
    sandbox.sync("b")


def _c_is_excluded(sandbox: SyncSandbox) -> None:
    text = sandbox.note("a")
    sandbox.sync("abab")
    assert sandbox.run_json("c", "sync")["notes"], "it does not report that it may be removed"
    assert text not in json.dumps(sandbox.run_json("c", "show", sandbox.session()))


def _events_of_c_are_accepted(sandbox: SyncSandbox) -> None:
    sandbox.sync("abab")
    expected = sandbox.log("c")
    for device in "ab":
        events_by_session = sandbox.log(device)
        missing = [
            session
            for session, events in expected.items()
            if not events <= events_by_session.get(session, frozenset())
        ]
        assert not missing, f"{device} is missing accepted events of {missing}"


def _renamed(sandbox: SyncSandbox) -> None:
    for device in "ab":
        names = {item["name"] for item in sandbox.run_json(device, "device", "list")["devices"]}
        assert names == {"a", "the other"}, f"at {device}: {names}"


def _recovery_code_works(sandbox: SyncSandbox) -> None:
    code = sandbox.run_json("a", "device", "recovery-code")["recovery_code"]
    path = os.path.join(sandbox.root, "code")
    write_tree(sandbox.root, {"code": f"{code}\n".encode()})
    sandbox.make_home("r")
    sandbox.run_json("r", "remote", "add", "home", sandbox.url, "--recover", stdin=path)
    sandbox.sync("rar")
    assert sandbox.log("r") == sandbox.log("a")


def _guest_is_listed(sandbox: SyncSandbox) -> None:
    (person,) = sandbox.run_json("a", "people", "list")["people"]
    assert person == {"email": EMAIL, "keys": [sandbox.device_info("g")["age"]], "devices": []}


def _guest_participates(sandbox: SyncSandbox) -> None:
    sandbox.run_json("g", "accept", sandbox.url)
    sandbox.sync("agag")
    session = sandbox.session()
    own = sandbox.session("g")
    sandbox.run_json("g", "resume", session, "--force")
    for device in "ag":
        text = sandbox.note(device)
        sandbox.sync("agb" if device == "a" else "gab")
        for other in "gab":
            assert text in json.dumps(sandbox.run_json(other, "show", session)), (
                f"{other} did not receive the note of {device}"
            )
    assert set(sandbox.log("g")) == {own, session}, "the guest has more than what was shared"


def _guest_is_excluded(sandbox: SyncSandbox) -> None:
    session = sandbox.session()
    text = sandbox.note("a")
    sandbox.sync("abab")
    answer = sandbox.at("g", "sync")
    assert "Traceback" not in answer.err
    assert text not in json.dumps(sandbox.run_json("g", "show", session))


def _conflict_is_resolved(sandbox: SyncSandbox) -> None:
    for device in "ab":
        (conflict,) = sandbox.run_json(device, "conflicts", sandbox.session("a"))["conflicts"]
        assert conflict["chosen"] is not None


def _conflict(sandbox: SyncSandbox) -> tuple[str, ...]:
    session = sandbox.session()
    (conflict,) = sandbox.run_json("a", "conflicts", session)["conflicts"]
    return ("resolve", conflict["id"], session, "--take", "1")


SYNC_CASES: Final = (
    SyncCase("sync: both ways", "a", "busy", lambda _: ("sync",)),
    SyncCase("remote add: founding", "a", "recorded", lambda sandbox: ("remote", "add", "home", sandbox.url), (0, 5),
             _joined),
    SyncCase("remote add: asking", "b", "founded", lambda sandbox: ("remote", "add", "home", sandbox.url), (0, 5),
         lambda sandbox: sandbox.join("b")),
    SyncCase("device approve", "a", "asked", lambda sandbox: ("device", "approve", sandbox.words("b")), (0, 5),
         lambda sandbox: sandbox.confirm_vault("b")),
    SyncCase("device remove", "a", "three", lambda _: ("device", "remove", "c"), (0, 3), check=_c_is_excluded),
    SyncCase("device admit", "a", "gone", lambda _: ("device", "admit", "c"), check=_events_of_c_are_accepted),
    SyncCase("share", "a", "known", lambda sandbox: ("share", sandbox.session(), "--with", EMAIL),
             check=_guest_participates),
    SyncCase("accept", "g", "shared", lambda sandbox: ("accept", sandbox.url), check=_guest_participates),
    SyncCase("revoke", "a", "accepted", lambda sandbox: ("revoke", sandbox.session(), "--from", EMAIL), (0, 3),
         check=_guest_is_excluded),
    SyncCase("device recovery-code", "a", "joined", lambda _: ("device", "recovery-code"),
             check=_recovery_code_works),
    SyncCase("device show", "a", "recorded", lambda _: ("device", "show"), finish=_same_keys, members="a"),
    SyncCase("device rename", "b", "joined", lambda _: ("device", "rename", "the other"), check=_renamed),
    SyncCase("people add", "a", "met", lambda sandbox: ("people", "add", EMAIL, sandbox.device_info("g")["age"]),
             (0, 5),
         check=_guest_is_listed),
    SyncCase("remote confirm", "b", "let in", lambda sandbox: ("remote", "confirm", "home", sandbox.vault_words()),
         finish=lambda sandbox: sandbox.sync("b")),
    SyncCase("remote remove", "b", "joined", lambda _: ("remote", "remove", "home"), (0, 3),
         _added_again),
    SyncCase("sync: sending", "b", "busy", lambda _: ("sync",)),
    SyncCase("sync: receiving", "a", "accepted", lambda _: ("sync",)),
    SyncCase("resolve", "a", "split", _conflict, (0, 1, 3, 5), check=_conflict_is_resolved),
    SyncCase("fork", "a", "joined", lambda sandbox: ("fork", sandbox.session())),
)  # fmt: skip
BACKGROUND: Final = ("holdfast.keeper.background_sync", "run")


def assert_recovers(sandbox: SyncSandbox, sync_case: SyncCase, before: dict[str, Log]) -> None:
    """The next command works unaided, all devices receive everything, and none is locked out."""
    following = sandbox.at(sync_case.device, "status")
    assert following.code == 0, f"the next command ended with {following.code}: {following.err}"
    assert "Traceback" not in following.err
    again = sandbox.at(sync_case.device, *sync_case.argv(sandbox))
    assert again.code in sync_case.again, f"trying again ended with {again.code}: {again.err}"
    assert "Traceback" not in again.err
    sync_case.finish(sandbox)
    converge(sandbox, sync_case.members)
    sync_case.check(sandbox)
    assert_kept(before, sandbox.logs())
    for home in sandbox.homes.values():
        assert invariants.leftovers(home) == [], f"left behind unnamed: {invariants.leftovers(home)}"


def converge(sandbox: SyncSandbox, members: str) -> None:
    """Each device records a note, and after a few syncs all of them have the same log."""
    for device in members:
        sandbox.note(device)
    sandbox.sync(members, 2)
    first = sandbox.log(members[0])
    for device in members:
        assert sandbox.status(device) == ["member"], f"{device} is locked out: {sandbox.status(device)}"
        assert sandbox.log(device) == first, f"{device} and {members[0]} have different logs"


def assert_kept(before: dict[str, Log], after: dict[str, Log]) -> None:
    for device, log in before.items():
        for session, events in log.items():
            lost = events - after[device].get(session, frozenset())
            assert not lost, f"{device} lost {len(lost)} events of {session}"
