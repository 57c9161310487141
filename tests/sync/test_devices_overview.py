"""What a device remembers about itself and its remotes, shown without contacting any remote."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Failed, Unreachable
from holdfast.keeper.keeper import Keeper
from holdfast.sessions import history
from holdfast.store.interface import Filter
from holdfast.sync import background, devices, devices_overview, open_vault, remote_setup, sync
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.sync import SyncResult


class Pair:
    """Two devices and a folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.url = f"folder:{top / 'folder'}"

    def keeper(self, name: str) -> Keeper:
        home, project = self.top / f"home-{name}", self.top / "shop"
        home.mkdir(mode=0o700, exist_ok=True)
        project.mkdir(exist_ok=True)
        (home / "config.toml").write_text("[sync]\nbackground = false\n")
        return Keeper.open(str(project), home=str(home), actor="ada", device=name)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.fixture
def keeper(pair: Pair) -> Iterator[Keeper]:
    """A device with a session and a vault that contains it."""
    with pair.keeper("desk") as keeper:
        keeper.start("Open the shop")
        remote_setup.add(keeper, "home", pair.url)
        sync.sync(keeper)
        yield keeper


def test_overview_is_empty_without_remotes(pair: Pair) -> None:
    """Reading it does not create keys."""
    with pair.keeper("desk") as keeper:
        here = devices_overview.this_device(keeper)
        assert (here.name, here.keys, here.problem) == ("desk", None, None)
        assert devices_overview.remotes(keeper) == []
        assert not Path(keeper.home.device).exists()


def test_sessions_with_unsent_events_are_counted(keeper: Keeper) -> None:
    """None after a sync, then every session with new events, whoever started it."""
    assert devices_overview.remotes(keeper)[0].unsent == (0, False)
    keeper.session().note("Paper for the till")
    assert devices_overview.remotes(keeper)[0].unsent == (1, False)
    keeper.start("Close the shop", replace=True)
    assert devices_overview.remotes(keeper)[0].unsent == (2, False)
    sync.sync(keeper)
    assert devices_overview.remotes(keeper)[0].unsent == (0, False)


def test_received_events_do_not_count_as_unsent(keeper: Keeper, pair: Pair) -> None:
    with pair.keeper("laptop") as laptop:
        remote_setup.add(laptop, "home", pair.url)
        devices.approve(keeper, devices.public_keys(laptop).words)
        laptop.start("Paint the sign", replace=True)
        sync.sync(laptop)
        assert devices_overview.remotes(laptop)[0].unsent == (0, False)
    sync.sync(keeper)
    assert devices_overview.remotes(keeper)[0].unsent == (0, False)


def test_count_of_unsent_events_stops_at_a_limit(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, "more" is enough."""
    monkeypatch.setattr("holdfast.sync.session_status._MAX_SESSIONS", 2)
    for number in range(4):
        keeper.start(f"Piece {number}", replace=True)
    assert devices_overview.remotes(keeper)[0].unsent == (2, True)


def test_requests_and_members_are_listed_without_the_remote(
    keeper: Keeper, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one sync everything is known locally; a device that asked to join sees what it waits for."""
    with pair.keeper("laptop") as laptop:
        remote_setup.add(laptop, "home", pair.url)
        sync.sync(keeper)
        monkeypatch.setattr(open_vault, "open_remote", _away)
        (overview,) = devices_overview.remotes(keeper)
        assert [asks.name for asks in overview.requests] == ["laptop"]
        assert [(device.name, device.status, device.this) for device in overview.devices] == [
            ("desk", "member", True)
        ]
        assert overview.problems == ()
        (asks,) = devices_overview.remotes(laptop)
        assert asks.status is not None
        assert asks.status.status == "pending"
        assert "waits for approval" in asks.problems[0].message
        assert devices.public_keys(laptop).words in (asks.problems[0].hint or "")


def _away(*_: object, **__: object) -> None:
    raise AssertionError("a remote was asked")


def test_lost_keys_are_reported_and_hide_nothing_else(keeper: Keeper) -> None:
    """The vault is still shown, together with the problem."""
    Path(keeper.home.device).rename(Path(keeper.home.device).with_name("away.json"))
    (overview,) = devices_overview.remotes(keeper)
    assert overview.status is not None
    assert overview.status.status == "no-keys"
    assert any("keys are missing" in problem.message for problem in overview.problems)
    assert devices_overview.this_device(keeper).keys is None


def test_damaged_keys_are_reported(keeper: Keeper) -> None:
    """They are neither replaced nor skipped."""
    Path(keeper.home.device).write_text("{")
    assert devices_overview.this_device(keeper).problem is not None
    (overview,) = devices_overview.remotes(keeper)
    assert overview.status is None
    assert overview.problems


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("folder:/media/stick/holdfast", "folder:/media/stick/holdfast"),
        ("git:https://ada:secret@example.org/x.git", "git:https://example.org/x.git"),
        ("git:https://token@example.org/x.git", "git:https://example.org/x.git"),
        ("git:ssh://git@example.org/x.git", "git:ssh://git@example.org/x.git"),
        ("git:ssh://git:secret@example.org/x.git", "git:ssh://example.org/x.git"),
        ("git:git@example.org:me/x.git", "git:git@example.org:me/x.git"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("claude-desktop:", "claude-desktop:"),
    ],
)
def test_address_is_shown_without_credentials(url: str, shown: str) -> None:
    """No password or token in the list of remotes is shown."""
    assert devices_overview.address(KnownRemote(name="home", url=url, vault="00")) == shown


@given(st.text(alphabet="abc:%", min_size=1), st.sampled_from(["https", "HTTPS", "http", "s3"]))
def test_login_is_removed_from_every_address_but_ssh(login: str, scheme: str) -> None:
    url = f"git:{scheme}://{login}@host/x"
    assert devices_overview.address(KnownRemote(name="home", url=url, vault="00")) == f"git:{scheme}://host/x"


# ── syncs in the background ──────────────────────────────────────────────────────────────────────────────


def test_second_sync_is_not_started_while_one_runs(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has ended, a new one can start."""
    answer = threading.Event()

    def slow(*_: object, **__: object) -> SyncResult:
        answer.wait(20)
        raise Unreachable("it did not answer")

    with monkeypatch.context() as patch:
        patch.setattr(sync, "sync", slow)
        first = background.start_sync(keeper)
        assert first is not None
        assert background.start_sync(keeper) is None
        assert first.outcome(0.01) is None
        answer.set()
        assert isinstance(first.outcome(20), Unreachable)
    second = background.start_sync(keeper)
    assert second is not None
    assert isinstance(second.outcome(20), SyncResult)


def test_failed_sync_is_reported(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is informed, and the doctor shows why."""

    def broken(*_: object, **__: object) -> SyncResult:
        raise ZeroDivisionError("nobody thought of this")

    monkeypatch.setattr(sync, "sync", broken)
    begun = background.start_sync(keeper)
    assert begun is not None
    assert isinstance(begun.outcome(20), Failed)
    assert "nobody thought of this" in (Path(keeper.home.path) / "errors.log").read_text()


# ── listings ─────────────────────────────────────────────────────────────────────────────────────────────


def test_listing_as_of_the_last_events_reads_no_state(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one query, however many sessions are open."""
    whole = keeper.history(all_projects=True)
    monkeypatch.setattr(type(keeper.store()), "state", _away)
    assert [row.id for row in history.list_rows(keeper, Filter())] == [row.id for row in whole]
