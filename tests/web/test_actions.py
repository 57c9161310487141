"""What a person does from a page, in a real browser: each action is seen through a keeper, each refusal says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from holdfast.core.times import MINUTE, parse_time
from holdfast.formats import registry
from holdfast.formats.text.read import read
from holdfast.web.actions import _written as written
from holdfast.web.actions import answer
from holdfast.workspace.recorder import LimitReached
from tests.web.dashboard import Site
from tests.web.dashboard_actions import Room, entered, git_in, repository
from tests.web.samples import LONG, rich

TOKEN = "ghp_" + "c4n4ry0" * 5 + "x"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Room]:
    with entered(tmp_path_factory.mktemp("actions"), browser) as room:
        yield room


@pytest.fixture
def room(made: Room) -> Iterator[Room]:
    yield made
    made.quiet()


# ── pausing and going on ─────────────────────────────────────────────────────────────────────────────────


def test_pause_and_resume(room: Room) -> None:
    """One press each; the button becomes the other by itself."""
    session = room.begin("pausing")
    room.button("Pause").click()
    room.shows("Paused.")
    expect(room.button("Resume")).to_be_visible()
    assert room.seen(session).status == "paused"
    room.button("Resume").click()
    room.shows("Resumed.")
    expect(room.button("Pause")).to_be_visible()
    assert room.seen(session).status == "in_progress"
    with room.site.keeper("pausing") as keeper:  # it is current where its project is
        current = keeper.current()
        assert current is not None
        assert current.id == session


def test_pause_with_a_reason_by_keyboard(room: Room) -> None:
    """The menu opens with the keyboard, the field has the focus, Enter sends it, the focus comes back."""
    session = room.begin("reasons")
    summary = room.page.locator(".actions details.more summary")
    summary.focus()
    room.page.keyboard.press("Enter")
    room.page.keyboard.press("Tab")
    room.page.keyboard.press("Enter")
    expect(room.page.locator("#pause-reason")).to_be_focused()
    room.page.keyboard.type("the dentist")
    room.page.keyboard.press("Enter")
    expect(room.button("Resume")).to_be_visible()
    expect(room.page.locator("dialog[open]")).to_have_count(0)
    expect(summary).to_be_focused()
    room.shows("Paused.")
    assert room.seen(session).time.pauses[-1].reason == "the dentist"


def test_escape_closes_menu_and_dialog(room: Room) -> None:
    """Nothing is done, and the focus is where it was."""
    session = room.begin("escaping")
    before = room.seen(session)
    summary = room.page.locator(".actions details.more summary")
    summary.click()
    expect(room.page.locator(".menu")).to_be_visible()
    room.page.keyboard.press("Escape")
    expect(room.page.locator(".menu")).not_to_be_visible()
    expect(summary).to_be_focused()
    room.button("Note").click()
    expect(room.page.locator("#note-text")).to_be_focused()
    room.page.keyboard.type("never mind")
    room.page.keyboard.press("Escape")
    expect(room.page.locator("dialog[open]")).to_have_count(0)
    expect(room.button("Note")).to_be_focused()
    assert room.seen(session).notes == before.notes


def test_action_on_an_outdated_page_says_why_not(room: Room) -> None:
    """What somebody did meanwhile in a terminal is refused with a reason, and nothing is recorded."""
    session = room.begin("behind")
    shown = room.dialog("pause")
    with room.site.keeper("behind") as keeper:
        keeper.session(session).pause("from a terminal")
    expect(room.button("Resume")).to_be_visible()
    shown.get_by_role("button", name="Pause").click()
    room.shows_error("the session is paused already")
    reasons = [pause.reason for pause in room.seen(session).time.pauses if pause.kind == "manual"]
    assert reasons[-1] == "from a terminal"


# ── hours ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hours_are_corrected_to_work_and_back(room: Room) -> None:
    """The form comes with the latest pause; what is refused says why and records nothing."""
    session = room.begin("hours")
    before = room.seen(session).time
    pause = max(before.pauses, key=lambda pause: pause.started_at)
    shown = room.dialog("hours")
    expect(shown.get_by_label("From")).to_be_focused()
    shown.get_by_label("Why? (optional)").fill("no lunch")
    shown.get_by_role("button", name="I worked").click()
    room.shows("Worked for ")
    worked = room.seen(session).time
    assert [item for item in worked.pauses if item.started_at == pause.started_at and item.duration_ms >= 1000] == []
    assert worked.working_ms > before.working_ms
    assert worked.working_ms + worked.paused_ms == worked.elapsed_ms
    shown = room.dialog("hours")
    shown.get_by_label("From").fill(written(parse_time(pause.started_at)))
    shown.get_by_label("To").fill(written(parse_time(pause.started_at) + 4 * MINUTE))
    shown.get_by_role("button", name="I was away").click()
    room.shows("Away for 4 min")
    later = room.seen(session).time
    since = later.elapsed_ms - worked.elapsed_ms  # an agent is at work: the clock stands meanwhile
    assert later.paused_ms - worked.paused_ms in range(4 * MINUTE - 1000, 4 * MINUTE + since + 1)
    shown = room.dialog("hours")
    shown.get_by_label("From").fill("2020-01-01T09:00:00")
    shown.get_by_role("button", name="I worked").click()
    room.shows_error("the session began at")


def test_hours_of_a_finished_session_are_corrected_without_scripts(room: Room, browser: Browser) -> None:
    session = rich(room.site, "late", "Work that is over")
    with room.site.keeper("late") as keeper:
        keeper.session(session).complete()
    before = room.seen(session).time
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(room.dashboard.address)
    page.goto(f"{room.dashboard.origin}/session/{session}/dialog/hours")
    page.get_by_role("button", name="I worked").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Worked for ")
    context.close()
    assert room.seen(session).time.working_ms > before.working_ms


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_note_is_kept_without_its_secrets(room: Room) -> None:
    """What was cut out is said; lines stay lines."""
    session = room.begin("noting")
    room.button("Note").click()
    room.page.locator("#note-text").fill(f"First line\nthe key is {TOKEN}")
    room.page.get_by_role("button", name="Keep").click()
    room.shows("Removed secrets before storing: 1 github_token.")
    assert room.seen(session).notes[-1].text == "First line\nthe key is [redacted:github_token]"
    room.button("Note").click()
    room.page.locator("#note-text").fill("   ")
    room.page.get_by_role("button", name="Keep").click()
    room.shows_error("the note is empty")


def test_edit_changes_what_was_changed(room: Room) -> None:
    """Only what the person touched is recorded: the rest may have moved on since."""
    session = room.begin("editing")
    shown = room.dialog("edit")
    expect(shown.get_by_label("Goal")).to_be_focused()
    with room.site.keeper("editing") as keeper:
        keeper.session(session).edit(progress=0.8)
    shown.get_by_label("Goal").fill(LONG)
    shown.get_by_label("Scope").fill("billing")
    shown.get_by_label("Mode").select_option("release")
    shown.get_by_label("Add tags, separated by commas").fill("urgent, for Tove")
    shown.get_by_role("button", name="Change").click()
    room.shows("Changed.")
    session_now = room.seen(session)
    assert (session_now.goal, session_now.scope, session_now.mode, session_now.progress) == (
        LONG,
        "billing",
        "release",
        0.8,
    )
    assert session_now.summary == "Passkeys instead of passwords"
    assert session_now.tags == ["web", "security", "urgent", "for Tove"]
    shown = room.dialog("edit")
    shown.get_by_label("Progress, in percent").fill("95")
    shown.get_by_role("button", name="Change").click()
    room.shows("Changed.")
    assert room.seen(session).progress == 0.95
    shown = room.dialog("edit")
    shown.get_by_role("button", name="Change").click()
    room.shows_error("nothing was given to change")


def test_edit_overwrites_nothing_that_was_written_meanwhile(room: Room) -> None:
    """The refusal shows what is so now, the dialog stays with what was typed, and nothing was recorded."""
    session = room.begin("meanwhile")
    shown = room.dialog("edit")
    with room.site.keeper("meanwhile") as keeper:
        keeper.session(session).edit(goal="What an agent found out", summary="The same in both")
    shown.get_by_label("Goal").fill("What I think")
    shown.get_by_label("Summary").fill("The same in both")
    shown.get_by_role("button", name="Change").click()
    expect(shown.get_by_label("Goal")).to_have_value("What I think")
    room.shows_error("the goal was changed while you wrote; it is now: What an agent found out")
    assert room.seen(session).goal == "What an agent found out"
    shown = room.dialog("edit")
    expect(shown.get_by_label("Goal")).to_have_value("What an agent found out")
    shown.get_by_label("Goal").fill("What I think")
    shown.get_by_role("button", name="Change").click()
    room.shows("Changed.")
    assert room.seen(session).goal == "What I think"


def test_further_notices_are_shown_once(tmp_path: Path) -> None:
    """Trouble with mirrored files and reminders are told with the action that met them, and not with the next."""
    with Site(tmp_path).keeper() as keeper:
        keeper.notices.append("A mirrored file was left alone.")
        keeper.recorder.tally.reached.append(LimitReached("break_40", 40 * MINUTE, pauses=False, only_resume=False))
        first, second = answer("Noted.", keeper, keeper), answer("Noted.", keeper)
    assert first.more == ("A mirrored file was left alone.", "40 minutes of work: a good moment for a break.")
    assert second.more == ()


# ── stopping and putting away ────────────────────────────────────────────────────────────────────────────


def test_stop_completes(room: Room) -> None:
    """After a look at what that means; then only what may follow is offered."""
    session = room.begin("stopping")
    shown = room.dialog("stop")
    shown.get_by_label("Why?").fill("it works")
    shown.get_by_role("button", name="Complete").click()
    room.shows("Completed: ")
    assert room.seen(session).status == "completed"
    expect(room.button("Pause")).to_have_count(0)
    expect(room.button("Note")).to_have_count(0)
    room.page.locator(".actions details.more summary").click()
    expect(room.page.locator(".menu [data-dialog=edit]")).to_have_count(0)
    room.page.keyboard.press("Escape")


def test_archive_and_take_out(room: Room) -> None:
    """The dialog offers the one that can be done."""
    session = room.begin("archiving")

    def archived() -> bool:
        with room.site.keeper("archiving") as keeper:
            return keeper.is_archived(keeper.state(session))

    room.dialog("archive").get_by_role("button", name="Archive").click()
    room.shows("Archived.")
    assert archived()
    room.dialog("archive").get_by_role("button", name="Unarchive").click()
    room.shows("Taken out of the archive.")
    assert not archived()


@pytest.mark.parametrize("what", ["keep", "discard"])
def test_stop_with_a_branch(room: Room, what: str) -> None:
    """It is kept as one commit, or discarded once the person has confirmed that; also elsewhere than here."""
    place = repository(room.site.project(f"branch-{what}"))
    with room.site.keeper(f"branch-{what}") as keeper:
        session = keeper.start("Branch off", branch=True).id
    (place / "work.txt").write_text("work\n")
    git_in(place, "add", ".")
    git_in(place, "commit", "-q", "-m", "work")
    room.look(session)
    shown = room.dialog("stop")
    shown.locator(f"[name=branch][value={what}]").check()
    if what == "discard":
        room.page.once("dialog", lambda asked: asked.dismiss())
        shown.get_by_role("button", name="Complete").click()
        expect(shown).to_be_visible()
        assert room.seen(session).status == "in_progress"
        room.page.once("dialog", lambda asked: asked.accept())
    shown.get_by_role("button", name="Complete").click()
    room.shows("Merged as " if what == "keep" else "brings it back.")
    assert room.seen(session).status == "completed"
    assert git_in(place, "branch", "--format=%(refname:short)").split() == ["main"]
    assert (place / "work.txt").exists() == (what == "keep")


def test_copy_the_resume_command(room: Room) -> None:
    """The command that goes on with it, for a terminal anywhere."""
    session = room.begin("copying it's")
    room.button("Copy the resume command").click()
    room.shows("Copied.")
    place = room.site.project("copying it's")
    quoted = "'" + str(place).replace("'", "'\"'\"'") + "'"
    copied = room.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"cd {quoted} && HOLDFAST_HOME={room.site.home} holdfast resume {session[:8]}"


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_files_to_keep(room: Room) -> None:
    """Each format and report is saved as what the command would write."""
    session = room.begin("saving")
    for form in (*registry.NAMES, "md", "html"):
        kind = "report" if form in ("md", "html") else "export"
        room.page.locator(".actions details.more summary").click()
        with room.page.expect_download() as session_now:
            room.page.locator(f".menu a[href='/session/{session}/{kind}?format={form}']").click()
        content = Path(session_now.value.path()).read_bytes()
        end = {"md": "report.md", "html": "report.html", "contract": "contract.yaml"}.get(form, f"{form}.json")
        assert session_now.value.suggested_filename == f"session-{session}-{end}"
        if kind == "report":
            assert "Work in saving" in content.decode()
        else:
            rules = registry.named(form)
            value = read(content, end).value
            shape = rules.detects(value)
            assert shape is not None
            assert [problem for problem in rules.problems(value, shape) if problem.severity == "error"] == []
        expect(room.page.locator(".menu")).not_to_be_visible()


# ── without scripts ──────────────────────────────────────────────────────────────────────────────────────


def test_everything_works_without_scripts(room: Room, browser: Browser) -> None:
    """Forms are forms: a dialog is a page, an action says what came of it, a refusal is a page that says why."""
    session = rich(room.site, "plain", "Work without scripts")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(room.dashboard.address)
    here = f"{room.dashboard.origin}/session/{session}"
    page.goto(here)
    page.get_by_role("button", name="Pause", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Paused.")
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(here)
    assert room.seen(session).status == "paused"
    page.get_by_role("button", name="Note", exact=True).first.click()
    page.wait_for_url(f"{here}/dialog/note?")
    page.get_by_label("What do you want to remember?").fill(f"two\nlines {TOKEN}")
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_text("Removed secrets before storing")).to_be_visible()
    assert room.seen(session).notes[-1].text == "two\nlines [redacted:github_token]"
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(here)
    page.locator("details.more summary").first.click()
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("That did not work")
    expect(page.get_by_text("nothing was given to change")).to_be_visible()
    context.close()
