"""Actions that involve other devices and people, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from holdfast.keeper.keeper import Keeper
from holdfast.sync import devices, people, remote_setup
from holdfast.sync.shares import accept, offers
from holdfast.workspace import projects
from tests.web.dashboard_actions import OpenDashboard, entered, git_in, repository


@pytest.fixture(scope="module")
def opened_once(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[OpenDashboard]:
    with entered(tmp_path_factory.mktemp("actions"), browser) as ui:
        yield ui


@pytest.fixture
def ui(opened_once: OpenDashboard) -> Iterator[OpenDashboard]:
    yield opened_once
    opened_once.assert_no_browser_errors()


# ── devices and people ───────────────────────────────────────────────────────────────────────────────────


def _carry(source: Keeper, target: Keeper, session: str) -> None:
    with target.store().transaction() as transaction:
        transaction.receive(source.events(session))
        projects.learn_project(target, transaction, transaction.state(session))


def _other(ui: OpenDashboard, project: Path) -> Keeper:
    return Keeper.open(str(project), home=str(ui.site.top / "other"), actor="ada", device="laptop")


def test_conflict_can_be_resolved(ui: OpenDashboard) -> None:
    """Both sides are shown with their devices; the chosen one counts."""
    session = ui.open_new_session("disputes")
    place = ui.site.top / "laptop-disputes"
    place.mkdir()
    with ui.site.keeper("disputes") as here, _other(ui, place) as there:
        _carry(here, there, session)
        here.session(session).edit(goal="Ship on Friday")
        there.session(session).edit(goal="Ship on <b>Monday</b>")
        _carry(there, here, session)
    shown = ui.open_dialog("resolve")
    expect(shown.get_by_text("laptop")).to_be_visible()
    shown.get_by_label("Ship on <b>Monday</b>").check()
    shown.get_by_role("button", name="Choose this").click()
    ui.expect_toast("Settled: goal.")
    document = ui.session_document(session)
    assert document.goal == "Ship on <b>Monday</b>"
    assert [conflict.chosen is not None for conflict in document.conflicts] == [True]


def test_resume_in_a_differing_work_tree_is_refused_until_forced(ui: OpenDashboard) -> None:
    """The differences are shown with their remedies."""
    place = repository(ui.site.project("grounds"))
    copy = ui.site.top / "laptop-grounds"
    git_in(ui.site.top, "clone", "-q", str(place), str(copy))
    for path in (place, copy):
        git_in(path, "config", "--replace-all", "remote.origin.url", "https://example.org/grounds.git")
    (copy / "later.txt").write_text("later\n")
    git_in(copy, "add", ".")
    git_in(copy, "commit", "-q", "-m", "later")
    with ui.site.keeper("grounds") as here, _other(ui, copy) as there:
        here.start("Known here", replace=True)
        session = there.start("Begun there").id
        there.session(session).pause()
        _carry(there, here, session)
    ui.open_session(session)
    ui.button("Resume").click()
    shown = ui.page.locator("dialog[open]")
    expect(shown).to_contain_text("differ from how laptop left them")
    expect(shown.locator("code").first).to_contain_text("git ")
    assert ui.session_document(session).status == "paused"
    shown.get_by_role("button", name="Cancel").click()
    expect(shown).to_have_count(0)
    ui.button("Resume").click()
    shown.get_by_role("button", name="Resume anyway").click()
    ui.expect_toast("Resumed.")
    assert ui.session_document(session).status == "in_progress"
    assert ui.session_document(session).device == "desk"


def test_missing_project_is_explained(ui: OpenDashboard) -> None:
    """The session cannot be resumed here, and the page says what to do."""
    place = ui.site.top / "laptop-away"
    place.mkdir()
    with ui.site.keeper() as here, _other(ui, place) as there:
        session = there.start("Far away").id
        there.session(session).pause()
        _carry(there, here, session)
    place.rmdir()
    ui.open_session(session)
    ui.button("Resume").click()
    ui.expect_toast("is not on this machine", bad=True)
    assert ui.session_document(session).status == "paused"


def test_share_asks_for_confirmation_and_gives_the_command(ui: OpenDashboard) -> None:
    """Without a remote or people it says what to do first; the other side can accept the share."""
    session = ui.open_new_session("sharing")
    expect(ui.open_dialog("share")).to_contain_text("holdfast remote add")
    ui.page.keyboard.press("Escape")
    shelf = f"folder:{ui.site.top / 'shelf'}"
    with ui.site.keeper("sharing") as keeper:
        remote_setup.add(keeper, "team", shelf)
    expect(ui.open_dialog("share")).to_contain_text("holdfast people add")
    ui.page.keyboard.press("Escape")
    place = ui.site.top / "tove"
    place.mkdir()
    with Keeper.open(str(place), home=str(ui.site.top / "tove-home"), actor="tove", device="tove") as guest:
        with ui.site.keeper("sharing") as keeper:
            people.add(keeper.home, "tove@example.org", devices.public_keys(guest).age)
        shown = ui.open_dialog("share")
        shown.get_by_label("With whom?").fill("tove@example.org")
        shown.get_by_label("Read only").check()
        shown.get_by_label("For how long?").select_option("a week")
        shown.get_by_role("button", name="Share").click()
        expect(shown).to_be_visible()  # the browser requires the check mark
        assert ui.session_document(session).sync.shared_with == []
        shown.get_by_label("Yes, this whole session may leave").check()
        shown.get_by_role("button", name="Share").click()
        toast = ui.page.locator(".toast").filter(has_text="Shared with tove@example.org, to read.")
        expect(toast.locator("code")).to_have_text(f"holdfast accept {shelf}")
        toast.get_by_role("button", name="Copy").click()
        assert ui.page.evaluate("navigator.clipboard.readText()") == f"holdfast accept {shelf}"
        (offer,) = offers(guest, url=shelf)
        assert [accepted.session for accepted in accept(guest, url=shelf, name=offer.name)] == [session]
    assert ui.session_document(session).sync.shared_with == ["tove@example.org"]
    ui.expect_toast("Copied.")
