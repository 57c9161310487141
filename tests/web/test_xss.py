"""Injected markup stays text: on every page and dialog, in live updates, and in the past."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request, expect

from holdfast.core import wording
from holdfast.core.events import WaitingStarted
from holdfast.keeper.keeper import Keeper
from holdfast.web.actions import DIALOGS
from holdfast.web.app import PAGES
from holdfast.web.serve import Dashboard
from holdfast.workspace import projects
from tests.web.browser_pages import warm
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import HOSTILE, hostile

MARKUP: Final = HOSTILE[0]


class HostileDashboard:
    """A dashboard full of hostile sessions, and a browser that visits it."""

    def __init__(self, site: Site, dashboard: Dashboard, context: BrowserContext, sessions: list[str]) -> None:
        self.site = site
        self.dashboard = dashboard
        self.context = context
        self.sessions = sessions
        self.page_errors: list[str] = []
        self.page = self.opened()
        self.page.goto(dashboard.address)

    def opened(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda message: self.page_errors.append(message.text))
        page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        page.on("dialog", self._asked)
        page.on("request", self._sent)
        return page

    def _asked(self, dialog: Dialog) -> None:
        self.page_errors.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _sent(self, request: Request) -> None:
        if not request.url.startswith(self.dashboard.origin):
            self.page_errors.append(request.url)

    def visit(self, path: str) -> None:
        self.page.goto(self.dashboard.origin + path)
        self.assert_harmless()

    def assert_harmless(self) -> None:
        """Nothing ran or was loaded, and no element was created that could run later."""
        assert self.page.evaluate("window.hurt") is None
        assert self.page.evaluate(PLANTED) == []
        assert self.page.locator("form[method=post]:not(:has([name=word]))").count() == 0
        assert self.page_errors == []


# Elements that no template has, attributes with scripts or styles, and links to other sites.
PLANTED: Final = """[...document.querySelectorAll("*")].filter((one) =>
  ["IMG", "IFRAME", "OBJECT", "EMBED", "BASE"].includes(one.tagName) && !one.closest(".brand")
  || one.tagName === "SCRIPT" && !one.src.startsWith(location.origin + "/static/")
  || [...one.attributes].some((name) => /^on/i.test(name.name) || name.name === "style"
     || ["href", "src", "action", "formaction", "xlink:href"].includes(name.name)
        && /^\\\\s*(javascript|data|https?|\\/\\/)/i.test(name.value))
).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def opened_once(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[HostileDashboard]:
    site = Site(tmp_path_factory.mktemp("xss"))
    sessions = hostile(site)
    for number, (session, words) in enumerate(zip(sessions, HOSTILE, strict=True)):
        with site.keeper(f"evil{number}") as keeper:
            _add_wait_and_conflict(site, keeper, session, words)
    with serving(site) as dashboard:
        context = browser.new_context()
        warm(context)
        yield HostileDashboard(site, dashboard, context, sessions)
        context.close()


def _add_wait_and_conflict(site: Site, keeper: Keeper, session: str, words: str) -> None:
    """A wait, and a conflict with another device of a hostile name."""
    keeper.recorder.record(session, lambda _: [WaitingStarted(id="w1", for_=words, text=words)])
    place = site.top / "elsewhere"
    place.mkdir(exist_ok=True)
    with Keeper.open(str(place), home=str(site.top / "other"), actor=words, device=words[:60]) as other:
        _carry(keeper, other, session)
        keeper.session(session).edit(scope=f"here {words}")
        other.session(session).edit(scope=f"there {words}")
        _carry(other, keeper, session)


def _carry(source: Keeper, target: Keeper, session: str) -> None:
    with target.store().transaction() as transaction:
        transaction.receive(source.events(session))
        projects.learn_project(target, transaction, transaction.state(session))


@pytest.fixture
def hostile_dashboard(opened_once: HostileDashboard) -> Iterator[HostileDashboard]:
    yield opened_once
    opened_once.assert_harmless()


PLAIN: Final = [where for where in PAGES if "{" not in where]


@pytest.mark.parametrize("where", PLAIN)
def test_pages_escape_texts(hostile_dashboard: HostileDashboard, where: str) -> None:
    """Every page that is not about one session."""
    hostile_dashboard.visit(where)
    if where in ("/now", "/history"):
        for words in HOSTILE:
            expect(hostile_dashboard.page.locator("#main")).to_contain_text(wording.one_line(words))


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_session_page_and_dialogs_escape_texts(hostile_dashboard: HostileDashboard, number: int) -> None:
    """Now and in the past; sending an unchanged dialog back changes nothing."""
    session, words = hostile_dashboard.sessions[number], HOSTILE[number]
    hostile_dashboard.visit(f"/session/{session}")
    shown = wording.one_line(words)
    expect(hostile_dashboard.page.locator("h1")).to_contain_text(shown)
    assert hostile_dashboard.page.locator("#main").inner_text().count(shown) >= 5
    hostile_dashboard.page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    hostile_dashboard.assert_harmless()
    hostile_dashboard.page.locator(".actions details.more").evaluate("one => { one.open = false }")
    for name in DIALOGS if number < 1 else ("edit",):  # one template each, whatever the texts
        hostile_dashboard.page.evaluate(ASK, [name, session])
        expect(hostile_dashboard.page.locator("dialog[open]")).to_be_visible()
        hostile_dashboard.assert_harmless()
        if name == "edit":
            _send_back(hostile_dashboard, words)
        hostile_dashboard.page.keyboard.press("Escape")
        expect(hostile_dashboard.page.locator("dialog[open]")).to_have_count(0)
    with hostile_dashboard.site.keeper() as keeper:
        began = keeper.session(session).document().created_at
    hostile_dashboard.visit(f"/session/{session}?at={began}")


def _send_back(hostile_dashboard: HostileDashboard, words: str) -> None:
    expect(hostile_dashboard.page.get_by_label("Goal")).to_have_value(wording.visible(words, lines=True))
    hostile_dashboard.page.get_by_role("button", name="Change").click()
    expect(hostile_dashboard.page.locator("dialog[open] [role=alert]")).to_contain_text("there is nothing to change")
    hostile_dashboard.page_errors[:] = [line for line in hostile_dashboard.page_errors if "status of 400" not in line]


# Presses a button as the pages contain it.
ASK: Final = """([name, session]) => {
  const button = Object.assign(document.createElement("button"), { type: "button" });
  Object.assign(button.dataset, { dialog: name, session });
  document.body.append(button);
  button.click();
  button.remove();
}"""


def test_live_updates_escape_texts(hostile_dashboard: HostileDashboard) -> None:
    """Including messages about them."""
    session = hostile_dashboard.sessions[0]
    hostile_dashboard.visit(f"/session/{session}")
    expect(hostile_dashboard.page.locator("#pulse")).to_have_text("live")
    with hostile_dashboard.site.keeper("evil0") as keeper:
        for words in HOSTILE:
            keeper.session(session).note(f"live {words}")
    for words in HOSTILE:
        expect(hostile_dashboard.page.locator("#main")).to_contain_text(f"live {wording.one_line(words)}")
    hostile_dashboard.page.locator(".actions form[action$='/resume'] button").first.click()
    expect(hostile_dashboard.page.locator(".toast").first).to_contain_text("Resumed.")


def test_time_travel_escapes_texts(hostile_dashboard: HostileDashboard) -> None:
    """The page as of each event, loaded by the slider."""
    session = hostile_dashboard.sessions[0]
    hostile_dashboard.visit(f"/session/{session}")
    count = hostile_dashboard.page.evaluate(TRAVEL, session)
    assert count > 4


# Shows every moment of the session as the slider does.
TRAVEL: Final = """async (session) => {
  const { show } = await import("/static/live.js");
  let shown = 0;
  for (let n = 1; n <= 40; n += 3) {
    const answer = await fetch(`/session/${session}/as-of?n=${n}`);
    if (!answer.ok) break;
    show(await answer.json());
    shown += 1;
  }
  return shown;
}"""


def test_texts_in_addresses_are_escaped(hostile_dashboard: HostileDashboard) -> None:
    """Even for addresses that do not exist."""
    paths = itertools.cycle(("/history", "/hours", "/hill", "/nothing", "/session/none"))
    for words in HOSTILE:
        query = urlencode(dict.fromkeys(("search", "project", "status", "at", "q"), words))
        for path in (next(paths), next(paths), f"/session/{quote(words, safe='')}"):
            hostile_dashboard.page.goto(f"{hostile_dashboard.dashboard.origin}{path}?{query}")
            assert hostile_dashboard.page.evaluate("window.hurt") is None
            assert hostile_dashboard.page.evaluate(PLANTED) == []
    hostile_dashboard.page_errors[:] = [line for line in hostile_dashboard.page_errors if "status of 4" not in line]


def test_content_policy_blocks_injected_scripts(hostile_dashboard: HostileDashboard) -> None:
    """Were a text ever taken for HTML: a check of the second line of defence."""
    page = hostile_dashboard.context.new_page()
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.goto(f"{hostile_dashboard.dashboard.origin}/now")
    page.evaluate(
        """() => {
      const script = document.createElement("script");
      script.textContent = "window.hurt = 1";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", `<img src="/static/none" onerror="window.hurt = 2">`);
      document.body.insertAdjacentHTML("beforeend", `<iframe srcdoc="<script>parent.hurt = 3</script>"></iframe>`);
      document.body.insertAdjacentHTML("beforeend", `<p id="canary" style="color: red">x</p>`);
      const other = document.createElement("script");
      other.src = "https://example.invalid/hurt.js";
      document.body.append(other);
    }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hurt") is None
    assert page.evaluate("getComputedStyle(document.getElementById('canary')).color") != "rgb(255, 0, 0)"
    assert sum("Content Security Policy" in line for line in blocked) >= 4
    page.close()


def test_html_report_escapes_texts(hostile_dashboard: HostileDashboard) -> None:
    """It is downloaded, not shown, and nothing in it can run."""
    for session in hostile_dashboard.sessions[:3]:
        answer = httpx.get(
            f"{hostile_dashboard.dashboard.origin}/session/{session}/report?format=html",
            headers={"Authorization": f"Bearer {hostile_dashboard.dashboard.secrets.token}"},
        )
        assert answer.headers["content-disposition"].startswith("attachment")
        page = hostile_dashboard.context.new_page()
        page.on("pageerror", lambda error: hostile_dashboard.page_errors.append(str(error)))
        page.set_content(answer.text)
        assert page.evaluate("window.hurt") is None
        page.close()
