"""Another program has locked the store: an action in the dashboard says that it waits, and for what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.web.dashboard_actions import OpenDashboard, entered


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[OpenDashboard]:
    with entered(tmp_path_factory.mktemp("waiting"), browser) as made:
        yield made


def test_message_about_waiting_appears_and_ends(ui: OpenDashboard) -> None:
    """In a toast or the open dialog; then the result replaces it."""
    session = ui.open_new_session("waiting")
    waits = ui.page.get_by_text("Waiting for the store")
    with ui.site.keeper() as other, other.transaction():
        ui.button("Pause").click()
        expect(waits).to_be_visible()
    ui.expect_toast("aused")
    expect(waits).to_have_count(0)
    assert ui.session_document(session).status == "paused"
    shown = ui.open_dialog("note")
    with ui.site.keeper() as other, other.transaction():
        shown.locator("textarea, input[name=text]").first.fill("after a while")
        shown.locator("button:not([data-close])").last.click()
        expect(shown.get_by_text("Waiting for the store")).to_be_visible()
    expect(ui.page.locator("dialog[open]")).to_have_count(0)
    expect(waits).to_have_count(0)
    ui.assert_no_browser_errors()
