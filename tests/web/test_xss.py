"""Texts that try to do something stay texts: on every page and dialog, in live updates, in the past."""

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
from holdfast.web.app import ADDRESSES
from holdfast.web.serve import Dashboard
from holdfast.workspace import projects
from tests.web.browser_pages import warm
from tests.web.dashboard import Site, serving
from tests.web.samples import HOSTILE, hostile

MARKUP: Final = HOSTILE[0]


class Den:
    """A dashboard full of hostile sessions, and a browser that looks at it."""

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

    def look(self, path: str) -> None:
        self.page.goto(self.dashboard.origin + path)
        self.unhurt()

    def unhurt(self) -> None:
        """Nothing ran, nothing was loaded, nothing was made of the texts that could run later."""
        assert self.page.evaluate("window.hurt") is None
        assert self.page.evaluate(PLANTED) == []
        assert self.page.locator("form[method=post]:not(:has([name=word]))").count() == 0
        assert self.page_errors == []


# Elements that no template of ours has, attributes that are scripts or styles, links that lead anywhere else.
PLANTED: Final = """[...document.querySelectorAll("*")].filter((one) =>
  ["IMG", "IFRAME", "OBJECT", "EMBED", "BASE"].includes(one.tagName) && !one.closest(".brand")
  || one.tagName === "SCRIPT" && !one.src.startsWith(location.origin + "/static/")
  || [...one.attributes].some((name) => /^on/i.test(name.name) || name.name === "style"
     || ["href", "src", "action", "formaction", "xlink:href"].includes(name.name)
        && /^\\\\s*(javascript|data|https?|\\/\\/)/i.test(name.value))
).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Den]:
    site = Site(tmp_path_factory.mktemp("xss"))
    sessions = hostile(site)
    for number, (session, words) in enumerate(zip(sessions, HOSTILE, strict=True)):
        with site.keeper(f"evil{number}") as keeper:
            _waits_and_disputes(site, keeper, session, words)
    with serving(site) as dashboard:
        context = browser.new_context()
        warm(context)
        yield Den(site, dashboard, context, sessions)
        context.close()


def _waits_and_disputes(site: Site, keeper: Keeper, session: str, words: str) -> None:
    """Somebody waits, and another device with such a name says something else."""
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
def den(made: Den) -> Iterator[Den]:
    yield made
    made.unhurt()


PLAIN: Final = [where for where in ADDRESSES if "{" not in where]


@pytest.mark.parametrize("where", PLAIN)
def test_pages_show_texts_as_texts(den: Den, where: str) -> None:
    """Every page that is not about one session."""
    den.look(where)
    if where in ("/now", "/history"):
        for words in HOSTILE:
            expect(den.page.locator("#main")).to_contain_text(wording.one_line(words))


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_session_shows_texts_as_texts(den: Den, number: int) -> None:
    """Its page, now and as it was, and every dialog about it; sending back what a dialog shows changes nothing."""
    session, words = den.sessions[number], HOSTILE[number]
    den.look(f"/session/{session}")
    shown = wording.one_line(words)
    expect(den.page.locator("h1")).to_contain_text(shown)
    assert den.page.locator("#main").inner_text().count(shown) >= 5
    den.page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    den.unhurt()
    den.page.locator(".actions details.more").evaluate("one => { one.open = false }")
    for name in DIALOGS if number < 1 else ("edit",):  # one template each, whatever the words
        den.page.evaluate(ASK, [name, session])
        expect(den.page.locator("dialog[open]")).to_be_visible()
        den.unhurt()
        if name == "edit":
            _send_back(den, words)
        den.page.keyboard.press("Escape")
        expect(den.page.locator("dialog[open]")).to_have_count(0)
    with den.site.keeper() as keeper:
        began = keeper.session(session).document().created_at
    den.look(f"/session/{session}?at={began}")


def _send_back(den: Den, words: str) -> None:
    expect(den.page.get_by_label("Goal")).to_have_value(wording.visible(words, lines=True))
    den.page.get_by_role("button", name="Change").click()
    expect(den.page.locator("dialog[open] [role=alert]")).to_contain_text("nothing was given to change")
    den.page_errors[:] = [line for line in den.page_errors if "status of 400" not in line]


# A button as the pages have it, pressed.
ASK: Final = """([name, session]) => {
  const button = Object.assign(document.createElement("button"), { type: "button" });
  Object.assign(button.dataset, { dialog: name, session });
  document.body.append(button);
  button.click();
  button.remove();
}"""


def test_live_updates_show_texts_as_texts(den: Den) -> None:
    """What arrives while a page is open is put there as text, and what is said of it too."""
    session = den.sessions[0]
    den.look(f"/session/{session}")
    expect(den.page.locator("#pulse")).to_have_text("live")
    with den.site.keeper("evil0") as keeper:
        for words in HOSTILE:
            keeper.session(session).note(f"live {words}")
    for words in HOSTILE:
        expect(den.page.locator("#main")).to_contain_text(f"live {wording.one_line(words)}")
    den.page.locator(".actions form[action$='/resume'] button").first.click()
    expect(den.page.locator(".toast").first).to_contain_text("Resumed.")


def test_time_travel_shows_texts_as_texts(den: Den) -> None:
    """The page as of each event, as the slider asks for it."""
    session = den.sessions[0]
    den.look(f"/session/{session}")
    count = den.page.evaluate(TRAVEL, session)
    assert count > 4


# Every moment of the session, shown as the slider shows it.
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


def test_texts_in_addresses_are_texts(den: Den) -> None:
    """What stands in an address is shown, if at all, as text: also where it leads nowhere."""
    paths = itertools.cycle(("/history", "/hours", "/hill", "/nothing", "/session/none"))
    for words in HOSTILE:
        query = urlencode(dict.fromkeys(("search", "project", "status", "at", "q"), words))
        for path in (next(paths), next(paths), f"/session/{quote(words, safe='')}"):
            den.page.goto(f"{den.dashboard.origin}{path}?{query}")
            assert den.page.evaluate("window.hurt") is None
            assert den.page.evaluate(PLANTED) == []
    den.page_errors[:] = [line for line in den.page_errors if "status of 4" not in line]


def test_a_script_that_got_in_all_the_same_does_not_run(den: Den) -> None:
    """Were a text ever taken for HTML, the policy still stops it: a canary for that second wall."""
    page = den.context.new_page()
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.goto(f"{den.dashboard.origin}/now")
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


def test_a_report_that_is_opened_does_nothing(den: Den) -> None:
    """The HTML report holds the texts, too: it is saved and not shown, and nothing in it could run."""
    for session in den.sessions[:3]:
        answer = httpx.get(
            f"{den.dashboard.origin}/session/{session}/report?format=html",
            headers={"Authorization": f"Bearer {den.dashboard.secrets.token}"},
        )
        assert answer.headers["content-disposition"].startswith("attachment")
        page = den.context.new_page()
        page.on("pageerror", lambda error: den.page_errors.append(str(error)))
        page.set_content(answer.text)
        assert page.evaluate("window.hurt") is None
        page.close()
