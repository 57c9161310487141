"""Another program holds the store: whoever acts in the dashboard meanwhile is told that they wait, and for what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.web.dashboard_actions import Room, entered


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Room]:
    with entered(tmp_path_factory.mktemp("waiting"), browser) as made:
        yield made


def test_message_about_waiting_appears_and_ends(room: Room) -> None:
    """In a corner, or in the dialog that is open; then what came of it is said instead."""
    session = room.begin("waiting")
    waits = room.page.get_by_text("Waiting for the store")
    with room.site.keeper() as other, other.transaction():
        room.button("Pause").click()
        expect(waits).to_be_visible()
    room.shows("aused")
    expect(waits).to_have_count(0)
    assert room.seen(session).status == "paused"
    shown = room.dialog("note")
    with room.site.keeper() as other, other.transaction():
        shown.locator("textarea, input[name=text]").first.fill("after a while")
        shown.locator("button:not([data-close])").last.click()
        expect(shown.get_by_text("Waiting for the store")).to_be_visible()
    expect(room.page.locator("dialog[open]")).to_have_count(0)
    expect(waits).to_have_count(0)
    room.quiet()
