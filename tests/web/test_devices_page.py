"""The Devices page: what is known about vaults and their members, and syncing on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from holdfast.core.errors import Unreachable
from holdfast.keeper.keeper import Keeper
from holdfast.sync import open_vault, sync
from holdfast.sync.sync import SyncResult
from holdfast.web import actions as action
from holdfast.web.pages import PageRequest
from holdfast.web.pages.devices import DEVICES
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import page_in
from tests.web.dashboard import Site, serving
from tests.web.sample_vaults import NAMES, Vaults, everything


class SampleVaults:
    def __init__(self, vaults: Vaults, dashboard: Dashboard) -> None:
        self.vaults = vaults
        self.dashboard = dashboard


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleVaults]:
    """A vault in which everything has happened once."""
    vaults = Vaults(Site(tmp_path_factory.mktemp("vaults")))
    everything(vaults)
    with serving(vaults.site) as dashboard:
        yield SampleVaults(vaults, dashboard)


@contextmanager
def opened(browser: Browser, dashboard: Dashboard, *, width: int = 1280, complains: bool = False) -> Iterator[Page]:
    with page_in(browser, dashboard, width=width) as page:
        bad: list[str] = []
        page.on("console", lambda message: bad.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: bad.append(str(error)))
        page.goto(f"{dashboard.origin}/devices")
        expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
        yield page
        assert page.evaluate("window.hurt") is None
        assert bad == [] or complains


def new_vault(top: Path) -> Vaults:
    """A vault with only this device, and an existing session."""
    vaults = Vaults(Site(top))
    with vaults.site.keeper() as keeper:
        keeper.start("Lay the cable")
    vaults.create_vault()
    return vaults


# ── content ──────────────────────────────────────────────────────────────────────────────────────────────


def test_devices_page_shows_the_vault_and_its_members(browser: Browser, sample: SampleVaults) -> None:
    """This device, the vault's words, members and removed ones, requests, unsent and rejected data."""
    with sample.vaults.site.keeper() as keeper:
        from holdfast.sync import devices, remote_setup

        mine, met = devices.public_keys(keeper).words, remote_setup.all_statuses(keeper)[0]
    with opened(browser, sample.dashboard) as page:
        expect(page.locator("#devices-here")).to_contain_text("desk")
        expect(page.locator("#devices-here")).to_contain_text(mine)
        remote = page.locator(".remote")
        expect(remote).to_contain_text(f"folder:{sample.vaults.folder}")
        expect(remote).to_contain_text(met.words)
        expect(remote).to_contain_text("this device: member")
        expect(page.locator(".lines dd", has_text="1 session")).to_be_visible()
        members = page.locator(".members tbody tr")
        expect(members).to_have_count(3)
        expect(members.nth(0)).to_contain_text("(this device)")
        expect(members.nth(1)).to_contain_text("laptop")
        expect(members.nth(2)).to_contain_text("removed")
        expect(page.locator(".asking li")).to_contain_text(NAMES[0])
        expect(page.locator(".turned tbody tr")).to_contain_text("its SHA-256 differs from the one in the head")
        expect(page.locator("#devices-people")).to_contain_text("tove@example.org")


def test_device_names_are_only_text(browser: Browser, sample: SampleVaults) -> None:
    """They run nowhere, and the copied command contains words only."""
    with opened(browser, sample.dashboard) as page:
        copied = page.locator(".asking [data-copy]").get_attribute("data-copy") or ""
        assert copied.removeprefix("holdfast device approve ").replace("-", "").isalpha()
        expect(page.locator(".asking code")).to_have_text(copied)  # for browsers without scripts
        expect(page.locator(".members")).to_contain_text(NAMES[2])


@pytest.mark.parametrize("width", [1280, 390, 360])
def test_devices_page_is_never_wider_than_the_window(browser: Browser, sample: SampleVaults, width: int) -> None:
    """Fingerprints and names of packs are long."""
    with opened(browser, sample.dashboard, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_devices_page_explains_how_to_add_a_second_device(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without a remote it shows a command, and the vault after that command ran."""
    vaults = Vaults(Site(tmp_path_factory.mktemp("alone")))
    with serving(vaults.site) as dashboard, opened(browser, dashboard) as page:
        expect(page.get_by_text("holdfast remote add home")).to_be_visible()
        expect(page.get_by_text("encrypted before it leaves this device")).to_be_visible()
        expect(page.get_by_role("button", name="Sync now")).to_have_count(0)
        vaults.create_vault()
        expect(page.locator(".remote")).to_contain_text("this device: member")
        expect(page.get_by_text("holdfast remote add home")).to_have_count(0)


def test_devices_page_contacts_no_remote(sample: SampleVaults, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is loaded."""

    def away(*_: object, **__: object) -> None:
        raise AssertionError("the remote was asked")

    monkeypatch.setattr(open_vault, "open_remote", away)
    with sample.vaults.site.keeper() as keeper:
        shot = DEVICES.content(keeper, PageRequest())
        assert shot == DEVICES.content(keeper, PageRequest())
    assert len(shot.lists["devices-remotes"]) == 1


# ── syncing ──────────────────────────────────────────────────────────────────────────────────────────────


def test_sync_button_reports_its_result(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Unsent events are sent, others' events arrive, and the page shows both without a reload."""
    vaults = new_vault(tmp_path_factory.mktemp("syncing"))
    vaults.join("laptop", 1)
    vaults.write("laptop", 1, "Paint the boat")
    with vaults.site.keeper() as keeper:
        keeper.session().note("More rope")
    with serving(vaults.site) as dashboard, opened(browser, dashboard) as page:
        waits = page.locator("dt", has_text="Not sent yet").locator("xpath=following-sibling::dd[1]")
        expect(waits).to_have_text("1 session")
        page.get_by_role("button", name="Sync now").click()
        expect(page.locator(".toast")).to_contain_text("Synced: sent")
        expect(page.locator(".toast")).to_contain_text("received")
        expect(waits).to_have_text("nothing")
        expect(page.get_by_role("button", name="Sync now")).to_be_enabled()
    with vaults.site.keeper() as keeper:
        assert {row.goal for row in keeper.history(all_projects=True)} == {"Lay the cable", "Paint the boat"}


def test_sync_reports_missing_remote(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page keeps saying so until a sync succeeds."""
    monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)
    vaults = new_vault(tmp_path_factory.mktemp("gone"))
    aside = vaults.folder.rename(vaults.folder.with_name("unmounted"))
    with serving(vaults.site) as dashboard, opened(browser, dashboard, complains=True) as page:
        page.get_by_role("button", name="Sync now").click()
        expect(page.locator(".toast.bad")).to_contain_text("home:")
        expect(page.locator(".remote .attention")).to_contain_text("The last sync failed")
        aside.rename(vaults.folder)
        page.get_by_role("button", name="Sync now").click()
        expect(page.locator(".remote .attention")).to_have_count(0)


def test_slow_sync_blocks_no_page_and_is_not_started_twice(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second click only says that a sync is under way."""
    vaults = new_vault(tmp_path_factory.mktemp("slow"))
    asked, answer = threading.Semaphore(0), threading.Event()
    times: list[int] = []

    def slow(keeper: Keeper, *_: object, **__: object) -> SyncResult:
        times.append(1)
        asked.release()
        answer.wait(20)
        raise Unreachable("it did not answer")

    monkeypatch.setattr(sync, "sync", slow)
    try:
        with serving(vaults.site) as dashboard, opened(browser, dashboard, complains=True) as page:
            page.get_by_role("button", name="Sync now").click()
            assert asked.acquire(timeout=10)
            expect(page.get_by_role("button", name="Syncing…")).to_be_disabled()
            other = page.context.new_page()
            other.goto(f"{dashboard.origin}/devices")
            other.get_by_role("button", name="Sync now").click()
            expect(other.locator(".toast")).to_contain_text("already running")
            answer.set()
            expect(page.locator(".toast.bad")).to_contain_text("it did not answer")
            expect(page.get_by_role("button", name="Sync now")).to_be_enabled()
            assert len(times) == 1
    finally:
        answer.set()


def test_long_sync_is_reported_as_still_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows the result later."""
    vaults = new_vault(tmp_path)
    answer = threading.Event()
    monkeypatch.setattr(sync, "sync", lambda *_, **__: answer.wait(20))
    monkeypatch.setattr(action, "_SYNC_TIMEOUT", 0.05)
    with vaults.site.keeper() as keeper:
        try:
            assert action.sync(keeper, "", {}).text.startswith("This takes a while")
            assert "already running" in action.sync(keeper, "", {}).text
        finally:
            answer.set()
