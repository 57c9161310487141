"""Actions that other devices and people have a part in, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from holdfast.keeper.keeper import Keeper
from holdfast.sync import devices, people, remote_setup
from holdfast.sync.shares import accept, offers
from holdfast.workspace import projects
from tests.web.dashboard_actions import Room, entered, git_in, repository


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Room]:
    with entered(tmp_path_factory.mktemp("actions"), browser) as room:
        yield room


@pytest.fixture
def room(made: Room) -> Iterator[Room]:
    yield made
    made.quiet()


# ── devices and people ───────────────────────────────────────────────────────────────────────────────────


def _carry(source: Keeper, target: Keeper, session: str) -> None:
    with target.store().transaction() as transaction:
        transaction.receive(source.events(session))
        projects.learn_project(target, transaction, transaction.state(session))


def _other(room: Room, project: Path) -> Keeper:
    return Keeper.open(str(project), home=str(room.site.top / "other"), actor="ada", device="laptop")


def test_a_conflict_is_settled(room: Room) -> None:
    """Both sides are shown with their devices; the one that is chosen stands."""
    session = room.begin("disputes")
    place = room.site.top / "laptop-disputes"
    place.mkdir()
    with room.site.keeper("disputes") as here, _other(room, place) as there:
        _carry(here, there, session)
        here.session(session).edit(goal="Ship on Friday")
        there.session(session).edit(goal="Ship on <b>Monday</b>")
        _carry(there, here, session)
    shown = room.dialog("resolve")
    expect(shown.get_by_text("laptop")).to_be_visible()
    shown.get_by_label("Ship on <b>Monday</b>").check()
    shown.get_by_role("button", name="Choose this").click()
    room.shows("Settled: goal.")
    found = room.seen(session)
    assert found.goal == "Ship on <b>Monday</b>"
    assert [conflict.chosen is not None for conflict in found.conflicts] == [True]


def test_resume_is_refused_in_a_differing_place_until_forced(room: Room) -> None:
    """What differs from what the other device left is shown with what mends it; going on anyway is possible."""
    place = repository(room.site.project("grounds"))
    copy = room.site.top / "laptop-grounds"
    git_in(room.site.top, "clone", "-q", str(place), str(copy))
    for path in (place, copy):
        git_in(path, "config", "--replace-all", "remote.origin.url", "https://example.org/grounds.git")
    (copy / "later.txt").write_text("later\n")
    git_in(copy, "add", ".")
    git_in(copy, "commit", "-q", "-m", "later")
    with room.site.keeper("grounds") as here, _other(room, copy) as there:
        here.start("Known here", replace=True)
        session = there.start("Begun there").id
        there.session(session).pause()
        _carry(there, here, session)
    room.look(session)
    room.button("Resume").click()
    shown = room.page.locator("dialog[open]")
    expect(shown).to_contain_text("differ from how laptop left them")
    expect(shown.locator("code").first).to_contain_text("git ")
    assert room.seen(session).status == "paused"
    shown.get_by_role("button", name="Cancel").click()
    expect(shown).to_have_count(0)
    room.button("Resume").click()
    shown.get_by_role("button", name="Go on anyway").click()
    room.shows("Resumed.")
    assert room.seen(session).status == "in_progress"
    assert room.seen(session).device == "desk"


def test_a_project_that_is_not_here_is_named(room: Room) -> None:
    """There is nowhere to go on with it: what to do is said."""
    place = room.site.top / "laptop-away"
    place.mkdir()
    with room.site.keeper() as here, _other(room, place) as there:
        session = there.start("Far away").id
        there.session(session).pause()
        _carry(there, here, session)
    place.rmdir()
    room.look(session)
    room.button("Resume").click()
    room.shows("is not on this machine", bad=True)
    assert room.seen(session).status == "paused"


def test_share_explains_confirms_and_gives_the_command(room: Room) -> None:
    """Without a remote, and without people, it says what to do first; then the other side can accept it."""
    session = room.begin("sharing")
    expect(room.dialog("share")).to_contain_text("holdfast remote add")
    room.page.keyboard.press("Escape")
    shelf = f"folder:{room.site.top / 'shelf'}"
    with room.site.keeper("sharing") as keeper:
        remote_setup.add(keeper, "team", shelf)
    expect(room.dialog("share")).to_contain_text("holdfast people add")
    room.page.keyboard.press("Escape")
    place = room.site.top / "tove"
    place.mkdir()
    with Keeper.open(str(place), home=str(room.site.top / "tove-home"), actor="tove", device="tove") as guest:
        with room.site.keeper("sharing") as keeper:
            people.add(keeper.home, "tove@example.org", devices.public(guest).age)
        shown = room.dialog("share")
        shown.get_by_label("With whom?").fill("tove@example.org")
        shown.get_by_label("Read only").check()
        shown.get_by_label("For how long?").select_option("a week")
        shown.get_by_role("button", name="Share").click()
        expect(shown).to_be_visible()  # the browser asks for the tick
        assert room.seen(session).sync.shared_with == []
        shown.get_by_label("Yes, this whole session may leave").check()
        shown.get_by_role("button", name="Share").click()
        toast = room.page.locator(".toast").filter(has_text="Shared with tove@example.org, to read.")
        expect(toast.locator("code")).to_have_text(f"holdfast accept {shelf}")
        toast.get_by_role("button", name="Copy").click()
        assert room.page.evaluate("navigator.clipboard.readText()") == f"holdfast accept {shelf}"
        (offer,) = offers(guest, url=shelf)
        assert [accepted.session for accepted in accept(guest, url=shelf, name=offer.name)] == [session]
    assert room.seen(session).sync.shared_with == ["tove@example.org"]
    room.shows("Copied.")
