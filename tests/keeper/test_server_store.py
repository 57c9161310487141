"""A keeper whose store is no file on this machine.

A file that the keeper does not know of stands in for the server: it must look for no file, and the password must
appear nowhere.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.conversations import status_cache_writer
from holdfast.conversations.backfill.run import BackfillProgress, store_mark
from holdfast.conversations.connect.apply import connect
from holdfast.core.errors import HoldfastError, NotFound, Unreachable
from holdfast.keeper import background_sync, doctor
from holdfast.keeper.change_feed import ChangeFeed, Changes, state_fingerprint
from holdfast.machine import background_process
from holdfast.sessions import overview
from holdfast.store.address import Address, PostgresAddress
from holdfast.store.interface import Store
from holdfast.store.sqlite import SqliteStore
from holdfast.sync import background, remote_list
from holdfast.sync.background import BackgroundSync
from holdfast.workspace import spool
from holdfast.workspace import workspace as keeping
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.followers import NOT_OPENED
from tests.keeper.test_doctor import NAMES

SECRET = "hunter2"
URL = f"postgresql://ada:{SECRET}@db.example/team?sslmode=require"
SHOWN = "postgresql://ada@db.example/team?sslmode=require"


class Environment:
    def __init__(self, root: Path) -> None:
        self.root, self.home, self.project = root, root / "home", root / "project"
        self.project.mkdir()
        self.away: HoldfastError | None = None
        self.installations: list[str | None] = []

    def open(self) -> Keeper:
        return Keeper.open(str(self.project), home=str(self.home), store=URL, actor="ada")

    def use_server(
        self, where: Address, *, writer: Callable[[], str], wall: Callable[[], int],
        installation: Callable[[bool], str | None], renew: Callable[[], str], patience: float | None = None,
    ) -> Store:  # fmt: skip
        assert isinstance(where, PostgresAddress)
        if self.away is not None:
            raise self.away
        self.installations.append(installation(False))
        return SqliteStore(str(self.root / "far away.db"), writer=writer, wall=wall)

    def files_with_password(self) -> dict[str, int]:
        """The files of the home that contain the password, and their modes."""
        return {
            str(path.relative_to(self.home)): stat.S_IMODE(path.stat().st_mode)
            for path in self.home.rglob("*")
            if path.is_file() and SECRET.encode() in path.read_bytes()
        }


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    env = Environment(tmp_path)
    monkeypatch.setattr(keeping, "open_store", env.use_server)
    return env


@pytest.fixture
def keeper(env: Environment) -> Iterator[Keeper]:
    with env.open() as keeper:
        yield keeper


def test_server_store_always_exists(env: Environment, keeper: Keeper) -> None:
    """Opening it creates neither a home nor an installation."""
    assert keeper.existing_store() is not None
    assert keeper.current() is None
    assert env.installations == [None]
    assert not env.home.exists()
    assert not list(env.root.glob("*postgres*"))


def test_password_of_a_server_is_never_shown(env: Environment, keeper: Keeper) -> None:
    """Resume command, doctor, status cache, and files of the home."""
    session = keeper.start("Build the shop")
    resume = overview.session_card(keeper, session.id).resume
    assert f"HOLDFAST_STORE='{SHOWN}'" in resume
    status_cache_writer.cache_conversation(keeper, "claude:talk", str(env.project), store=URL)
    session.note("x")
    assert env.files_with_password() == {}
    assert SECRET not in f"{doctor.run_checks(keeper)} {state_fingerprint(keeper)} {keeper.address}"


def test_doctor_checks_a_server_store(keeper: Keeper) -> None:
    """The same checks as for a file, except the library that files need; the store repairs itself."""
    keeper.start("Build the shop")
    checks = doctor.run_checks(keeper)
    assert [check.name for check in checks] == [name for name in NAMES if name != "sqlite"]
    assert {check.status for check in checks} == {"ok"}
    details = {check.name: check.detail for check in checks}
    assert details["store"] == f"{SHOWN} opens"
    assert details["file"] == "every table can be read"
    assert details["writer"].endswith("belongs to this machine and this home")
    assert doctor.repair(keeper) == []


@pytest.mark.parametrize(
    "error", [Unreachable("it cannot be reached", hint="Wait."), NotFound("empty", hint="Wait.")]
)
def test_doctor_names_an_unreachable_server(env: Environment, error: HoldfastError) -> None:
    """By its address without the password, and not as an empty store."""
    env.away = error
    with env.open() as keeper:
        checks = {check.name: check for check in doctor.run_checks(keeper)}
        report = doctor.repair(keeper)
    assert (checks["store"].status, checks["store"].fix) == ("failed", "Wait.")
    assert checks["store"].detail == f"{SHOWN}: {error.message}"
    assert checks["chain"].status == "warning"
    assert report == [f"The store was not repaired: {error.message}. Wait."]


def test_driver_messages_are_not_shown(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may contain the address."""

    def broken(*_: object, **__: object) -> Store:
        raise RuntimeError(URL)

    monkeypatch.setattr(keeping, "open_store", broken)
    with env.open() as keeper:
        report = f"{doctor.run_checks(keeper)} {doctor.repair(keeper)}"
    assert "it cannot be opened (RuntimeError)" in report
    assert SECRET not in report


@pytest.mark.parametrize("before", [None, 0o644])
def test_hooks_read_the_address_from_a_private_file(env: Environment, keeper: Keeper, before: int | None) -> None:
    """The only file with the password; it is made private if it was not."""
    places = AgentDirs(str(env.root), str(env.project), {"PATH": ""}, sys.platform)
    if before is not None:
        (env.home / "hooks").mkdir(parents=True)
        (env.home / "hooks" / "store").write_text("sqlite:///old.db")
        (env.home / "hooks" / "store").chmod(before)
    connect(keeper, places, ["claude"])
    assert (env.home / "hooks" / "store").read_text() == URL
    assert env.files_with_password() == {os.path.join("hooks", "store"): 0o600}
    files = [path for path in env.root.rglob("*") if path.is_file() and env.home not in path.parents]
    assert not any(SECRET.encode() in line.read_bytes() for line in files)


def test_background_process_gets_the_address_in_its_environment(
    env: Environment, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user can read a process's arguments."""
    begun: list[tuple[tuple[str, ...], Mapping[str, str]]] = []

    def start(*words: str, around: Mapping[str, str]) -> bool:
        begun.append((words, around))
        return True

    monkeypatch.setattr(background_process, "start", start)
    monkeypatch.setattr(remote_list, "load", lambda _: ["one"])
    keeper.home.prepare()
    background.request_sync(keeper)
    ((words, around),) = begun
    assert SECRET not in " ".join(words)
    assert around == {"HOLDFAST_STORE": URL}
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    seen: list[str] = []
    monkeypatch.setattr(
        "holdfast.sync.sync.sync",
        lambda other, **_: seen.append(f"{other.address.secret} {other.environ.get('HOLDFAST_STORE')}"),
    )
    background_sync.run(str(env.home))
    BackgroundSync(keeper, patient=False).outcome(10)
    assert seen == [f"{URL} None"] * 2


def test_change_feed_follows_a_server(env: Environment, keeper: Keeper) -> None:
    """Without a file that shows what others record."""
    session = keeper.start("Build the shop")
    changed = threading.Event()

    def on_progress(change: Changes) -> None:
        if session.id in change.sessions:
            changed.set()

    with ChangeFeed(env.open, on_progress):
        session.note("blue")
        assert changed.wait(10)


def test_cached_state_is_used_only_for_the_same_server(env: Environment, keeper: Keeper) -> None:
    """Another database has fewer events than the cached one."""
    keeper.start("Build the shop")
    memory = BackfillProgress(str(env.home), "claude", lambda: store_mark(keeper))
    memory.note("/story", "1")
    memory.keep()
    assert BackfillProgress(str(env.home), "claude", lambda: store_mark(keeper)).knows("/story", "1")
    name, events = store_mark(keeper)
    assert not BackfillProgress(str(env.home), "claude", lambda: (name, events - 1)).knows("/story", "1")
    assert not BackfillProgress(str(env.home), "claude", lambda: ("other", events)).knows("/story", "1")


def test_doctor_reports_a_missing_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the store says how to install the extra, and the others are made."""
    env = Environment(tmp_path)
    with env.open() as keeper:
        keeper.home.prepare()
        spool.add_payload(str(env.home), "claude", "user", 0, b"{}", store=keeper.address.url)
        for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg" or "store.postgres" in name]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "psycopg", None)
        checks = {check.name: check for check in doctor.run_checks(keeper)}
    assert [check.name for check in checks.values() if check.status == "failed"] == ["store"]
    assert "an extra that is not installed: holdfast[postgres]" in checks["store"].detail
    assert "pip install" in (checks["store"].fix or "")
    assert [check.name for check in checks.values() if check.fix and "pip install" in check.fix] == ["store"]
    assert {checks[name].detail for name in ("file", "chain", "writer", "agents", "mirrors")} == {NOT_OPENED}
