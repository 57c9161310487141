"""The page of a session, in a real browser: its content, live and at any past moment."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from holdfast.core.display_names import value_devices
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.events import (
    AgentCompleted,
    AgentFailed,
    AgentStarted,
    CommitRecorded,
    EventData,
    FileChanged,
    MessageExchanged,
    NoteAdded,
    TaskAdded,
)
from holdfast.core.model import Session
from holdfast.core.registers import disputes
from holdfast.core.times import DAY, HOUR, MINUTE, format_time, parse_time
from holdfast.keeper.change_feed import Changes
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.sessions.report import phases
from holdfast.store.interface import Draft
from holdfast.web.actions import resolve_values
from holdfast.web.live import difference
from holdfast.web.pages import PageRequest
from holdfast.web.pages.now import NOW
from holdfast.web.pages.session import SESSION, as_of, earlier, event_text
from holdfast.web.pages.session_regions import bounded_plan
from holdfast.web.render import render, stamp
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import warm
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import LONG, rich

Browse = Callable[[str], "Opened"]
WIDE: Final[ViewportSize] = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("session"))


@pytest.fixture(scope="module")
def dashboard(site: Site) -> Iterator[Dashboard]:
    with serving(site) as made:
        yield made


@pytest.fixture(scope="module")
def sample(site: Site) -> str:
    """The rich session, which no test changes."""
    return rich(site)


@pytest.fixture(scope="module")
def context(browser: Browser, dashboard: Dashboard) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=WIDE)
    made.set_default_timeout(10_000)
    warm(made)
    made.request.get(dashboard.address, max_redirects=0)  # sets the cookie
    yield made
    made.close()


class Opened:
    """A page and its browser errors."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def live(self) -> Page:
        self.page.locator("#pulse[data-state=live]").wait_for()
        return self.page


@pytest.fixture
def browse(context: BrowserContext, dashboard: Dashboard) -> Iterator[Callable[[str], Opened]]:
    """Opens pages; fails if any of them had a browser error."""
    made: list[Opened] = []

    def opened(path: str) -> Opened:
        made.append(Opened(context, dashboard.origin + path))
        return made[-1]

    yield opened
    for item in made:
        assert item.complaints == []
        assert item.page.evaluate("window.hurt") is None
        item.page.close()


def _slide(page: Page, number: int) -> None:
    page.locator("#moment").evaluate(
        "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }", number
    )


# ── content ──────────────────────────────────────────────────────────────────────────────────────────────


def test_page_shows_everything_about_its_session(browse: Browse, site: Site, sample: str) -> None:
    """Goal, facts, what waits, agents, time, plan, decisions, files and hashes, context, notes, errors, events."""
    page = browse(f"/session/{sample}").live()
    expect(page).to_have_title(re.compile("Add sign-in with passkeys"))
    expect(page.locator("h1")).to_have_text("Add sign-in with passkeys")
    head = page.locator("#head")
    for words in ("in progress", "harbour", "desk", "auth", "optimize", "web", "security", "55%", "Passkeys instead"):
        expect(head).to_contain_text(words)
    expect(head.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(page.locator("#attention")).to_contain_text("Agent test-1 failed")
    expect(page.locator("#gantt svg")).to_have_attribute("aria-label", re.compile("3 agents"))
    assert page.locator("#gantt .bar-run, #gantt .bar-failed, #gantt .bar-done").count() == 3
    assert page.locator("#gantt .now-line").count() == 1
    assert page.locator("#strip .pause-manual").count() == 1
    page.get_by_text("Agents in words").click()
    for words in ("backend-architect", "The flow has four steps", "the browser did not start", "31,000"):
        expect(page.locator("#agents")).to_contain_text(words)
    page.get_by_text("Pauses in words").click()
    expect(page.locator("#pauses")).to_contain_text("paused (lunch)")
    expect(page.locator("#plan")).to_contain_text("py_webauthn it is")
    expect(page.locator("#plan h3")).to_have_text(["Design", "Build"])
    expect(page.locator("#decisions li li")).to_have_text(["✓ py_webauthn", "fido2", "own code"])
    expect(page.locator("#decisions")).to_contain_text("Kept well, and small")
    expect(page.locator("#files .landing")).to_have_text(["✓ as recorded"] * 3)
    with site.keeper() as keeper:
        document = keeper.session(sample).document()
        events = keeper.events(sample)
    copied = page.locator("#files button.hash").first
    assert copied.get_attribute("data-copy") == document.files[-1].hash_after
    expect(copied).to_have_text(str(document.files[-1].hash_after)[:10])
    expect(page.locator("#context")).to_contain_text("131,000 tokens")
    expect(page.locator("#notes")).to_contain_text("ask Tove")
    expect(page.locator("#errors")).to_contain_text("transient")
    expect(page.locator("#conflicts-title")).to_be_hidden()
    expect(page.locator("#events > li")).to_have_count(len(events))
    expect(page.locator("#events > li").last).to_contain_text("session.started")


def test_worked_and_paused_always_add_up_to_elapsed(browse: Browse, sample: str) -> None:
    """Read repeatedly while the three clocks run."""
    page = browse(f"/session/{sample}").live()
    seen = set()
    for _ in range(8):
        worked, paused, elapsed = (
            sum(int(part.replace(",", "")) * unit for part, unit in zip(words.split(":"), (3600, 60, 1), strict=True))
            for words in page.evaluate("[...document.querySelectorAll('.law b')].map((one) => one.textContent)")
        )
        assert worked + paused == elapsed
        seen.add(elapsed)
        page.wait_for_timeout(200)
    assert len(seen) > 1


def test_opened_event_shows_its_json(browse: Browse, site: Site, sample: str) -> None:
    """Loaded on demand, and equal to `log --json`."""
    page = browse(f"/session/{sample}").live()
    row = page.locator("#events > li").filter(has_text="decision.made")
    row.locator("summary").click()
    expect(row.locator("pre")).to_contain_text('"type": "decision.made"')
    shown = msgspec.json.decode(row.locator("pre").inner_text())
    with site.keeper() as keeper:
        assert shown["hash"] in {event.hash for event in keeper.events(sample)}


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_session_page_is_never_wider_than_the_window(browse: Browse, site: Site, width: int) -> None:
    """With a goal of 300 characters, on a phone and a wide screen."""
    session = rich(site, f"wide{width}", LONG)
    page = browse(f"/session/{session}").live()
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.locator("h1")).to_have_text(LONG)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_empty_session_suggests_next_steps(browse: Browse, site: Site) -> None:
    """Each empty part names the command that would fill it."""
    with site.keeper("empty") as keeper:
        session = keeper.start("Begin")
    page = browse(f"/session/{session.id}").live()
    for words in ("holdfast task add", "holdfast decide", "holdfast note", "holdfast context", "holdfast run"):
        expect(page.locator("main")).to_contain_text(words)
    expect(page.locator("#moment")).to_be_disabled()


def test_very_long_goal_is_shortened(browse: Browse, site: Site) -> None:
    """Heading and title have its start; the rest can be opened."""
    with site.keeper("endless") as keeper:
        session = keeper.start("To the end of the world and back. " * 150).id
    page = browse(f"/session/{session}").live()
    assert len(page.title()) < 150
    box = page.locator("h1").bounding_box()
    assert box is not None
    assert box["height"] < 220
    expect(page.locator("#whole-goal p")).to_be_hidden()
    page.locator("#whole-goal summary").click()
    assert len(page.locator("#whole-goal p").inner_text()) > 5000


def test_each_file_shows_whether_its_change_landed(browse: Browse, site: Site) -> None:
    """Unchanged since, changed, or missing; earlier changes are listed below."""
    with site.keeper("landing") as keeper:
        session = keeper.start("Change files")
        place = site.project("landing")
        for name in ("kept.txt", "changed.txt", "lost.txt"):
            (place / name).write_text("one")
            session.changed(name, "created")
        (place / "kept.txt").write_text("two")
        session.changed("kept.txt", "modified")
        (place / "changed.txt").write_text("other")
        (place / "lost.txt").unlink()
    page = browse(f"/session/{session.id}").live()
    expect(page.locator("#files > li")).to_have_count(3)
    for name, words in (("kept", "✓ as recorded"), ("changed", "≠ changed since"), ("lost", "✗ missing")):
        row = page.locator("#files > li").filter(has_text=f"{name}.txt")
        expect(row.locator(".landing")).to_have_text(words)
        expect(row.locator(".landing")).to_have_attribute("title", re.compile("on this disk", re.IGNORECASE))
    expect(page.locator("#files details")).to_have_count(1)


def test_unknown_hash_differs_from_a_missing_file(site: Site) -> None:
    """A changed file existed before; a new file did not."""
    with site.keeper("hashes") as keeper:
        session = keeper.start("Change files")
        for name, action in (("a.txt", "modified"), ("b.txt", "created"), ("c.txt", "deleted")):
            with keeper.transaction() as transaction:
                transaction.record(session.id, Draft(FileChanged(path=name, action=action), keeper.now(), "ada"))
        shot = SESSION.content(keeper, PageRequest({"id": session.id}))
        shown = {name: re.sub(r"<[^>]*>", "", shot.regions[name]) for name in shot.lists["files"]}
    words = ["".join(re.findall(r"(nothing|unknown) →became (nothing|unknown)", text)[0]) for text in shown.values()]
    assert sorted(words) == ["nothingunknown", "unknownnothing", "unknownunknown"]


def test_file_changed_by_somebody_else_is_noticed(site: Site) -> None:
    """The cached status is only valid while the file is unchanged."""
    with site.keeper("noticed") as keeper:
        session = keeper.start("Change a file")
        place = site.project("noticed") / "a.txt"
        place.write_text("one")
        os.utime(place, (1_700_000_000, 1_700_000_000))
        session.changed("a.txt", "created")

        def landing() -> str:
            shot = SESSION.content(keeper, PageRequest({"id": session.id}))
            return shot.regions[shot.lists["files"][0]]

        assert "✓ as recorded" in landing()
        assert "✓ as recorded" in landing()
        place.write_text("two")
        os.utime(place, (1_700_000_000, 1_700_000_000))
        assert "≠ changed since" in landing()
        place.unlink()
        assert "✗ missing" in landing()


def test_commits_and_who_changed_files_are_shown(site: Site) -> None:
    """Uncertain ones too, and the text of commits is escaped."""
    with site.keeper("commits") as keeper:
        session = keeper.start("Change a file")
        message: list[EventData] = [
            FileChanged(path="a.txt", action="modified", by="command", among=("claude:1",)),
            FileChanged(path="b.txt", action="modified", by="unknown", among=("claude:1", "codex:2")),
            CommitRecorded(sha="a" * 40, message="Fix <b>it</b>", branch="main", conversation="claude:1"),
            CommitRecorded(sha="b" * 40, message="Whose", certainty="uncertain", among=("claude:1", "codex:2")),
        ]
        keeper.recorder.record(session.id, lambda _: message)
        shot = SESSION.content(keeper, PageRequest({"id": session.id}))
    files = "".join(shot.regions[name] for name in shot.lists["files"])
    commits = "".join(shot.regions[name] for name in shot.lists["commits"])
    assert "modified by command" in files
    assert "modified by unknown (claude:1 or codex:2)" in files
    assert "Fix &lt;b&gt;it&lt;/b&gt;" in commits
    assert "on main · by 1 ·" in commits
    assert "by uncertain (claude:1 or codex:2)" in commits


def test_long_plan_leaves_out_done_tasks_first(site: Site) -> None:
    """Open tasks stay as long as there is room, and hidden ones are counted."""
    with site.keeper("plan") as keeper:
        session = keeper.start("Plan")
        for number in range(6):
            session.add_task(f"Task {number}", task_id=f"t{number}", phase="One" if number < 4 else "Two")
        for name in ("t0", "t2", "t5"):
            session.finish_task(name)
        groups = phases(session.document())
    answer = [
        (phase.title, [task.id for task in phase.tasks], phase.over, phase.open)
        for most in (6, 4, 2)
        for phase in bounded_plan(groups, most)
    ]
    assert answer == [
        ("One", ["t0", "t1", "t2", "t3"], 0, 0), ("Two", ["t4", "t5"], 0, 0),
        ("One", ["t1", "t3"], 2, 0), ("Two", ["t4", "t5"], 0, 0),
        ("One", ["t1", "t3"], 2, 0), ("Two", [], 1, 1),
    ]  # fmt: skip


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_part_is_updated_live(browse: Browse, site: Site) -> None:
    """Region by region, without a reload."""
    with site.keeper("live") as keeper:
        session = keeper.start("Watch me")
        page = browse(f"/session/{session.id}").live()
        page.evaluate("window.same = true")
        session.edit(goal="Watch me closely", scope="eyes", progress=0.25)
        expect(page.locator("h1")).to_have_text("Watch me closely")
        agent = session.agent("a-1", type="coder", task="Look", pid=None)
        expect(page.locator("#gantt .bar-run")).to_have_count(1)
        agent.fail("nothing to see", category="logical")
        expect(page.locator("#gantt .bar-failed")).to_have_count(1)
        expect(page.locator("#attention")).to_contain_text("nothing to see")
        expect(page.locator("#errors")).to_contain_text("nothing to see")
        session.add_task("Blink", task_id="t1", phase="Eyes")
        expect(page.locator("#plan")).to_contain_text("Blink")
        session.finish_task("t1", outcome="both eyes")
        expect(page.locator("#plan li.completed")).to_contain_text("both eyes")
        session.decide("Left", options=["Left", "Right"], why="nearer")
        expect(page.locator("#decisions")).to_contain_text("nearer")
        (site.project("live") / "seen.txt").write_text("seen")
        session.changed("seen.txt", "created", agent="a-1")
        expect(page.locator("#files")).to_contain_text("seen.txt")
        session.measure_context(50_000, window=200_000, agent="a-1")
        expect(page.locator("#context")).to_contain_text("50,000")
        session.note("Look twice")
        expect(page.locator("#notes")).to_contain_text("Look twice")
        expect(page.locator("#events > li").first).to_contain_text("note.added")
        session.pause("rest")
        expect(page.locator("#strip .pause-manual")).to_have_count(1)
        expect(page.locator("#head .status")).to_have_text("paused")
        assert page.evaluate("window.same") is True


def test_note_sends_only_its_rows_and_counts(site: Site) -> None:
    session_id = rich(site, "little")
    with site.keeper("little") as keeper:
        asked = PageRequest({"id": session_id})
        before = SESSION.content(keeper, asked)
        again = difference(before, SESSION.content(keeper, asked))
        keeper.session(session_id).note("one more")
        news = difference(before, SESSION.content(keeper, asked))
    assert again is None, "nothing happened, and yet something would be sent"
    assert news is not None
    put = news["put"]
    assert isinstance(put, dict)
    allowed = {"head", "travel", "law", "strip", "gantt", "notes-heading", "note-1", "events-heading"}
    assert {name for name in put if not name.startswith("event-")} <= allowed
    assert sum(name.startswith("event-") for name in put) == 1


def test_night_is_shown_as_away_and_not_paused(site: Site) -> None:
    """In the sums, the strip's key, the list of pauses and the card on Now, as in `show`."""
    with site.keeper("left for a night") as keeper:
        start = keeper.now() - 30 * HOUR
        session = keeper.start("Left for a night", at=start)
        session.message("user", at=start + 20 * MINUTE)
        regions = SESSION.content(keeper, PageRequest({"id": session.id})).regions
        card = str(NOW.content(keeper, PageRequest()).regions[f"card-{session.id}"])
    law = re.sub(r"<[^>]*>|\s", " ", str(regions["law"]))
    sums = " ".join(law.split())
    assert re.match(r"0:00:00 worked \+ 0:20:00 paused \+ 29:40:00 away = 30:00:00 elapsed", sums), sums
    assert sums.endswith("idle 0:20:00"), sums
    assert "<td>away</td>" in regions["pauses"]
    assert re.search(r"20 min</span> paused.*29 h 40 min</span> away", card, re.DOTALL), card


def test_passing_time_sends_nothing(site: Site) -> None:
    """Working, paused or idle: a second later every region is unchanged."""
    with site.keeper("works") as one, site.keeper("idles") as two, site.keeper("pauses") as three:
        start = one.now() - 5 * HOUR - 20_000
        working = one.start("Works", at=start).message("user", at=one.now() - MINUTE)
        idle = two.start("Idles", at=start)
        paused = three.start("Pauses", at=start).pause("rain", at=start + HOUR)
        asked = [PageRequest({"id": kept.id}) for kept in (working, idle, paused)]
        before = [SESSION.content(one, words) for words in asked]
        time.sleep(1.1)
        again = [difference(then, SESSION.content(one, words)) for then, words in zip(before, asked, strict=True)]
    assert again == [None, None, None]


def test_change_concerns_only_the_page_of_its_session() -> None:
    """Past pages never change; a name that is no id may be any session."""
    session, other = "a" * 36, "b" * 36

    def concerned(name: str, who: str, at: str = "", *, other_changes: bool = False) -> bool:
        return SESSION.concerns(
            Changes(1, frozenset({who}), other_changes), PageRequest({"id": name}, {"at": at} if at else {})
        )

    assert concerned(session, session)
    assert not concerned(session, other)
    assert concerned(session, other, other_changes=True)
    assert not concerned(session, session, "2026-11-15T09:00:00Z")
    assert concerned("alias", other)


# ── conflicts ────────────────────────────────────────────────────────────────────────────────────────────


def _session_with_conflict(site: Site, top: Path, other: str = "laptop", project: str = "disputed") -> str:
    """A session whose goal two devices changed concurrently."""
    elsewhere = Site(top / "elsewhere")
    with (
        site.keeper(project) as here,
        Keeper.open(str(elsewhere.project(project)), home=str(elsewhere.home), actor="ben", device=other) as there,
    ):
        session = here.start("Ship it").id
        _carry(here, there, session)
        SessionHandle(here, session).edit(goal="Ship on Friday")
        SessionHandle(there, session).edit(goal="Ship on Monday", progress=0.4)
        _carry(there, here, session)
    return session


def _carry(source: Keeper, target: Keeper, session: str) -> None:
    with target.store().transaction() as transaction:
        transaction.receive(source.events(session))


def test_conflict_shows_both_sides_and_can_be_resolved(browse: Browse, site: Site, tmp_path: Path) -> None:
    """Every value, its device and which one counts."""
    session = _session_with_conflict(site, tmp_path)
    page = browse(f"/session/{session}").live()
    conflict = page.locator("#conflicts article")
    expect(conflict).to_have_count(1)
    expect(conflict.locator("h3")).to_contain_text("open")
    sides = conflict.locator(".sides > li")
    expect(sides).to_have_count(2)
    for words in ("Ship on Friday", "Ship on Monday", "desk", "laptop", "40% done there"):
        expect(conflict).to_contain_text(words)
    other = sides.filter(has_not_text="current value")
    chosen = other.locator(".words").inner_text()
    other.get_by_role("button").click()
    expect(conflict.locator("h3")).to_contain_text("settled")
    expect(page.locator("h1")).to_have_text(chosen)
    expect(conflict).to_be_focused()  # the button is removed: the focus is here now


def test_devices_of_one_name_are_distinguished(site: Site, tmp_path: Path) -> None:
    """By the first characters of their writer ids."""
    session = _session_with_conflict(site, tmp_path, "desk", project="twins")
    with site.keeper("twins") as keeper:
        state = keeper.state(session)
        (dispute,) = disputes(state)
        sides = value_devices(state, dispute)
        assert sorted(sides) == sorted(f"desk ({writer[:6]})" for writer in state.devices)
        shot = SESSION.content(keeper, PageRequest({"id": session}))
        html = shot.regions[shot.lists["conflicts"][0]] + render_dialog(keeper, session)
    assert all(html.count(side) == 2 for side in sides)


def render_dialog(keeper: Keeper, session: str) -> str:
    return render("dialog-resolve.html", **resolve_values(keeper, session))


# ── time travel ──────────────────────────────────────────────────────────────────────────────────────────


def _moments(site: Site, session: str) -> list[int]:
    with site.keeper() as keeper:
        return sorted({event.at for event in keeper.events(session)})


def test_slider_shows_the_whole_page_as_of_a_past_event(browse: Browse, site: Site, sample: str) -> None:
    """A banner says so, actions are unavailable there; then back to now."""
    page = browse(f"/session/{sample}").live()
    total = page.locator("#events > li").count()
    _slide(page, 10)
    banner = page.locator("#travel")
    expect(banner).to_contain_text(f"of {total} events")
    expect(banner).to_contain_text("As of")
    expect(page.locator("#events > li")).to_have_count(10)
    expect(page.locator("#decisions > li")).to_have_count(0)
    expect(page.locator("#files > li")).to_have_count(0)
    expect(page.locator("#gantt .bar-run")).to_have_count(1)
    expect(page.locator("#head .actions")).to_have_count(0)
    assert "at=" in page.url
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator("#events > li")).to_have_count(total)
    expect(page.locator("#decisions > li")).to_have_count(1)
    expect(page.locator("#head .actions")).to_have_count(1)
    assert page.url.endswith(f"/session/{sample}")


def test_arrow_keys_step_by_one_event(browse: Browse, site: Site, sample: str) -> None:
    """On the slider, and anywhere during time travel; Escape returns."""
    page = browse(f"/session/{sample}").live()
    moments = _moments(site, sample)
    slider, banner = page.locator("#moment"), page.locator("#travel")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(banner).to_contain_text(stamp(moments[-2]))
    page.keyboard.press("ArrowLeft")
    expect(banner).to_contain_text(stamp(moments[-3]))
    page.keyboard.press("ArrowRight")
    expect(banner).to_contain_text(stamp(moments[-2]))
    page.locator("#main").focus()
    page.keyboard.press("ArrowLeft")
    expect(banner).to_contain_text(stamp(moments[-3]))
    page.keyboard.press("Escape")
    expect(banner).to_contain_text("Move back to see")
    expect(slider).to_have_value(str(page.locator("#events > li").count()))


def test_address_can_name_a_moment(browse: Browse, site: Site, sample: str) -> None:
    """In RFC 3339 or milliseconds; such a page is not live, and links to one that is."""
    at = _moments(site, sample)[8]
    for written in (format_time(at), str(at)):
        page = browse(f"/session/{sample}?at={written}").page
        expect(page.locator("#travel")).to_contain_text(f"As of {stamp(at)}")
        expect(page.locator("#pulse")).to_be_hidden()
    page.locator("#main").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#travel")).to_contain_text(stamp(_moments(site, sample)[9]))
    page.get_by_role("link", name="Back to now").click()
    page.locator("#pulse[data-state=live]").wait_for()


def test_new_events_do_not_disturb_a_past_page(browse: Browse, site: Site) -> None:
    """They appear on return."""
    session_id = rich(site, "waits")
    page = browse(f"/session/{session_id}").live()
    other = browse(f"/session/{session_id}").live()
    _slide(page, 10)
    expect(page.locator("#events > li")).to_have_count(10)
    with site.keeper("waits") as keeper:
        keeper.session(session_id).note("While you were away")
    expect(other.locator("#notes")).to_contain_text("While you were away")
    expect(page.locator("#notes")).not_to_contain_text("While you were away")
    expect(page.locator("#events > li")).to_have_count(10)
    expect(page.locator("#missed")).to_have_text("1 new since")
    _slide(page, 8)
    expect(page.locator("#events > li")).to_have_count(8)
    expect(page.locator("#missed")).to_have_text("1 new since")
    page.keyboard.press("Escape")
    expect(page.locator("#notes")).to_contain_text("While you were away")
    expect(page.locator("#missed")).to_have_text("")


def test_back_button_returns_to_the_present(browse: Browse, site: Site, sample: str) -> None:
    """After any number of steps; forward returns to the past moment."""
    page = browse(f"/session/{sample}").live()
    for number in (10, 9, 8):
        _slide(page, number)
        expect(page.locator("#events > li")).to_have_count(number)
    page.wait_for_url("**?at=*")
    page.go_back()
    expect(page.locator(".travelling")).not_to_have_class(re.compile("past"))
    assert page.url.endswith(f"/session/{sample}")
    page.go_forward()
    expect(page.locator("#events > li")).to_have_count(8)
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator(".travelling")).not_to_have_class(re.compile("past"))
    page.wait_for_url(f"**/session/{sample}")


def test_every_step_of_the_slider_shows_another_moment(site: Site) -> None:
    """From end to start and back, even though events share moments; none is skipped."""
    with site.keeper("steps") as keeper:
        start = keeper.now() - HOUR
        session = keeper.start("Steps", at=start)
        for number in range(6):
            session.note(f"{number}", at=start + number // 3 * MINUTE)
        moments = sorted({event.at for event in keeper.events(session.id)})
        total = len(keeper.events(session.id))

        def step(number: int, come_from: int) -> tuple[int | None, int]:
            answer = msgspec.json.decode(
                as_of(keeper, PageRequest({"id": session.id}, {"n": str(number), "from": str(come_from)})).content
            )
            return None if answer["at"] is None else parse_time(answer["at"]), answer["n"]

        place, seen = total, []
        while True:
            at, reached = step(place - 1, place)
            if reached == place:
                break
            assert at is not None
            seen.append(at)
            place = reached
        assert seen == moments[-2::-1]
        forth = []
        while (previous := step(place + 1, place))[0] is not None:
            forth.append(previous[0])
            place = previous[1]
        assert forth == moments[1:-1]


def test_invalid_moment_is_explained(site: Site, sample: str) -> None:
    """Non-times, and times before the session's start."""
    with site.keeper() as keeper:
        for written in ("soon", "99999999999999999", "2026-13-01T00:00:00Z"):
            with pytest.raises(Invalid):
                SESSION.content(keeper, PageRequest({"id": sample}, {"at": written}))
        with pytest.raises(NotFound):
            SESSION.content(keeper, PageRequest({"id": sample}, {"at": "2001-01-01T00:00:00Z"}))
        with pytest.raises(NotFound):
            SESSION.content(keeper, PageRequest({"id": sample}, {"at": "1999-01-01"}))  # a day means its first moment
        with pytest.raises(Invalid):
            SESSION.content(keeper, PageRequest({"id": sample}, {"at": "1999-13-01"}))
        with pytest.raises(NotFound):
            event_text(keeper, PageRequest({"id": sample, "hash": "0" * 64}))


# ── a long session ───────────────────────────────────────────────────────────────────────────────────────


def _long(site: Site) -> str:
    """10,000 events, 300 agents, 1,000 files."""
    with site.keeper("haul") as keeper:
        start = keeper.now() - 10 * DAY
        session = keeper.start("A long haul", at=start).id
        made: list[EventData] = []
        for number in range(300):
            name = f"agent-{number}"
            made.append(AgentStarted(id=name, type="coder", task=f"Piece {number} of the work"))
            made.append(
                AgentFailed(id=name, category="logical", message="it did not work out")
                if number % 5 == 0
                else AgentCompleted(id=name, summary="It is done, and well", tokens=100 * number)
            )
            made.append(TaskAdded(id=f"t{number}", text=f"Task {number} of the plan"))
            made.append(NoteAdded(text=f"Note {number}: something to remember"))
        made += [
            FileChanged(
                path=f"src/part{number % 7}/file{number}.py", action="modified", agent=f"agent-{number % 300}",
                lines_added=3, lines_removed=1, hash_before="ab" * 32, hash_after="cd" * 32,
            )
            for number in range(1000)
        ]  # fmt: skip
        made += [MessageExchanged(role="user")] * (10_000 - 1 - len(made))
        with keeper.transaction() as transaction:
            for number, data in enumerate(made, start=1):
                transaction.record(session, Draft(data, start + number * DAY // 1000, "ada"))
    return session


def test_page_of_ten_thousand_events_is_bounded_and_says_so(browse: Browse, site: Site) -> None:
    """Under 200 kB; lists say how much they omit, earlier events load on demand, and time travel works."""
    session = _long(site)
    page = browse(f"/session/{session}").live()
    assert len(page.request.get(page.url).body()) < 200_000
    expect(page.locator("#events-title")).to_contain_text("latest 100 of 10,000")
    expect(page.locator("#agents-title")).to_contain_text("60 of 300")
    expect(page.locator("#gantt .rest")).to_contain_text("and 240 more agents")
    expect(page.locator("#files-title")).to_contain_text("50 changed last of 1,000")
    expect(page.locator("#notes-title")).to_contain_text("latest 30 of 300")
    more = page.get_by_role("button", name="Show earlier events (9,900 more)")
    more.click()
    expect(page.locator("#earlier > li")).to_have_count(100)
    expect(page.locator("#more-events")).to_contain_text("9,800 more")
    with site.keeper("haul") as keeper:
        keeper.session(session).note("one more")
        log = [event.hash for event in sorted(keeper.events(session), key=lambda event: event.written, reverse=True)]
        new = len(log) - 10_000
        expect(page.locator("#events")).to_contain_text("one more")
        expect(page.locator("#earlier > li")).to_have_count(100 + new)
        expect(page.locator("#more-events")).to_contain_text("9,800 more")
        shown = page.evaluate("[...document.querySelectorAll('[data-event]')].map((one) => one.dataset.event)")
    assert shown == log[: 200 + new]
    _slide(page, 5000)
    expect(page.locator("#travel")).to_contain_text(f"5,000 of {10_000 + new:,} events")
    expect(page.locator("#earlier > li")).to_have_count(0)


def test_earlier_events_load_page_by_page(site: Site, sample: str) -> None:
    """Each event once, in the order of the log."""
    with site.keeper() as keeper:
        events = sorted(keeper.events(sample), key=lambda event: event.written, reverse=True)
        answer = msgspec.json.decode(
            earlier(keeper, PageRequest({"id": sample}, {"before": events[4].hash})).content, type=dict[str, object]
        )
        rows = answer["rows"]
        assert isinstance(rows, list)
        assert len(rows) == len(events) - 5
        assert answer["left"] == 0
        assert all(event.hash in row for event, row in zip(events[5:], rows, strict=True))
        with pytest.raises(NotFound):
            earlier(keeper, PageRequest({"id": sample}, {"before": "nothing"}))


def test_past_page_agrees_with_the_keeper(site: Site, sample: str) -> None:
    """At every moment, the page's counts equal those of that moment's document."""
    with site.keeper() as keeper:
        for at in _moments(site, sample)[::5]:
            document: Session = keeper.session(sample).document(at=at)
            lists = SESSION.content(keeper, PageRequest({"id": sample}, {"at": str(at)})).lists
            assert len(lists["decisions"]) == len(document.decisions)
            assert len(lists["notes"]) == len(document.notes)
            assert len(lists["agents"]) == len(document.agents)
            assert len(lists["files"]) == len({change.path for change in document.files})
