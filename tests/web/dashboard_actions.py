"""A dashboard, a browser that has entered it, and a keeper that shows the effect of every action."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, expect

from holdfast.core.model import Session
from holdfast.web.serve import Dashboard
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import rich


class OpenDashboard:
    """A dashboard, a browser that has entered it, and access to its sessions by a keeper."""

    def __init__(self, site: Site, dashboard: Dashboard, context: BrowserContext) -> None:
        self.site = site
        self.dashboard = dashboard
        self.context = context
        self.page = context.new_page()
        self.page_errors: list[str] = []
        self.page.on("console", lambda message: self.page_errors.append(message.text))
        self.page.on("pageerror", lambda error: self.page_errors.append(str(error)))

    def open_new_session(self, project: str) -> str:
        """Start a session and open its page."""
        session = rich(self.site, project, f"Work in {project}")
        self.open_session(session)
        return session

    def open_session(self, session: str) -> None:
        self.page.goto(f"{self.dashboard.origin}/session/{session}")
        expect(self.page.locator("#pulse")).to_have_text("live")

    def session_document(self, session: str) -> Session:
        with self.site.keeper() as keeper:
            return keeper.session(session).document()

    def button(self, name: str) -> Locator:
        return self.page.locator(".actions").get_by_role("button", name=name, exact=True).first

    def open_dialog(self, name: str) -> Locator:
        """Open a dialog, from the menu if it is in there."""
        button = self.page.locator(f".actions [data-dialog={name}]").first
        if not button.is_visible():
            self.page.locator(".actions details.more summary").first.click()
        button.click()
        shown = self.page.locator("dialog[open]")
        expect(shown).to_be_visible()
        return shown

    def expect_dialog_error(self, words: str) -> None:
        """The open dialog shows this error; close it."""
        expect(self.page.locator("dialog[open] [role=alert]")).to_contain_text(words)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("dialog[open]")).to_have_count(0)

    def expect_toast(self, words: str, *, bad: bool = False) -> None:
        """This message appears in a toast; close it."""
        toast = self.page.locator(".toast.bad" if bad else ".toast:not(.bad)").filter(has_text=words)
        expect(toast.first).to_be_visible()
        for _ in range(self.page.locator(".toast").count()):
            self.page.locator(".toast").first.get_by_role("button", name="Close").click()

    def assert_no_browser_errors(self) -> None:
        """No errors in the browser, except the status codes of refusals, which it logs."""
        lines = [line for line in self.page_errors if not re.search(r"status of (400|404|409)", line)]
        self.page_errors.clear()
        assert lines == []


@contextmanager
def entered(top: Path, browser: Browser) -> Iterator[OpenDashboard]:
    site = Site(top)
    with serving(site) as dashboard:
        context = browser.new_context(accept_downloads=True)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=dashboard.origin)
        ui = OpenDashboard(site, dashboard, context)
        ui.page.goto(dashboard.address)
        yield ui
        context.close()


def git_in(where: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org", "HOME": str(where),
    }  # fmt: skip
    return subprocess.run(["git", *words], cwd=where, env=env, capture_output=True, text=True, check=True).stdout


def repository(place: Path) -> Path:
    git_in(place, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A"), ("user.email", "a@example.org")):
        git_in(place, "config", name, value)
    (place / "README.md").write_text("first\n")
    git_in(place, "add", ".")
    git_in(place, "commit", "-q", "-m", "first")
    return place
