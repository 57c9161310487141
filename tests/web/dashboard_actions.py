"""A dashboard, a browser that has entered it, and a keeper that sees what came of everything that is done there."""

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
from tests.web.samples import rich


class Room:
    """A dashboard, a browser that has entered it, and a keeper that sees what came of everything."""

    def __init__(self, site: Site, dashboard: Dashboard, context: BrowserContext) -> None:
        self.site = site
        self.dashboard = dashboard
        self.context = context
        self.page = context.new_page()
        self.page_errors: list[str] = []
        self.page.on("console", lambda message: self.page_errors.append(message.text))
        self.page.on("pageerror", lambda error: self.page_errors.append(str(error)))

    def begin(self, project: str) -> str:
        """A session of its own, looked at."""
        session = rich(self.site, project, f"Work in {project}")
        self.look(session)
        return session

    def look(self, session: str) -> None:
        self.page.goto(f"{self.dashboard.origin}/session/{session}")
        expect(self.page.locator("#pulse")).to_have_text("live")

    def seen(self, session: str) -> Session:
        with self.site.keeper() as keeper:
            return keeper.session(session).document()

    def button(self, name: str) -> Locator:
        return self.page.locator(".actions").get_by_role("button", name=name, exact=True).first

    def dialog(self, name: str) -> Locator:
        """The dialog, from the menu if it is in there."""
        button = self.page.locator(f".actions [data-dialog={name}]").first
        if not button.is_visible():
            self.page.locator(".actions details.more summary").first.click()
        button.click()
        shown = self.page.locator("dialog[open]")
        expect(shown).to_be_visible()
        return shown

    def shows_error(self, words: str) -> None:
        """Trouble with what a dialog asked for, in the dialog; then that is given up."""
        expect(self.page.locator("dialog[open] [role=alert]")).to_contain_text(words)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("dialog[open]")).to_have_count(0)

    def shows(self, words: str, *, bad: bool = False) -> None:
        """A sentence in the corner; then it is put away."""
        toast = self.page.locator(".toast.bad" if bad else ".toast:not(.bad)").filter(has_text=words)
        expect(toast.first).to_be_visible()
        for _ in range(self.page.locator(".toast").count()):
            self.page.locator(".toast").first.get_by_role("button", name="Close").click()

    def quiet(self) -> None:
        """Nothing went wrong in the browser. A refusal is an answer with such a code: the browser notes that."""
        lines = [line for line in self.page_errors if not re.search(r"status of (400|404|409)", line)]
        self.page_errors.clear()
        assert lines == []


@contextmanager
def entered(top: Path, browser: Browser) -> Iterator[Room]:
    site = Site(top)
    with serving(site) as dashboard:
        context = browser.new_context(accept_downloads=True)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=dashboard.origin)
        room = Room(site, dashboard, context)
        room.page.goto(dashboard.address)
        yield room
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
