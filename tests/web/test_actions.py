"""What a person does on a page, in a real browser: each action is checked by a keeper, each refusal has a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from holdfast.core.times import MINUTE, parse_time
from holdfast.formats import registry
from holdfast.formats.text.read import read
from holdfast.web.actions import _form_time as written
from holdfast.web.actions import answer
from holdfast.workspace.recorder import LimitReached
from tests.web.dashboard import Site
from tests.web.dashboard_actions import OpenDashboard, entered, git_in, repository
from tests.web.sample_sessions import LONG, rich

TOKEN = "ghp_" + "c4n4ry0" * 5 + "x"


@pytest.fixture(scope="module")
def opened_once(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[OpenDashboard]:
    with entered(tmp_path_factory.mktemp("actions"), browser) as ui:
        yield ui


@pytest.fixture
def ui(opened_once: OpenDashboard) -> Iterator[OpenDashboard]:
    yield opened_once
    opened_once.assert_no_browser_errors()


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────


def test_pause_button_becomes_resume(ui: OpenDashboard) -> None:
    """Without a reload."""
    session = ui.open_new_session("pausing")
    ui.button("Pause").click()
    ui.expect_toast("Paused.")
    expect(ui.button("Resume")).to_be_visible()
    assert ui.session_document(session).status == "paused"
    ui.button("Resume").click()
    ui.expect_toast("Resumed.")
    expect(ui.button("Pause")).to_be_visible()
    assert ui.session_document(session).status == "in_progress"
    with ui.site.keeper("pausing") as keeper:  # it is current where its project is
        current = keeper.current()
        assert current is not None
        assert current.id == session


def test_pause_with_a_reason_works_by_keyboard(ui: OpenDashboard) -> None:
    """The menu opens, the field has the focus, Enter sends it, the focus returns."""
    session = ui.open_new_session("reasons")
    summary = ui.page.locator(".actions details.more summary")
    summary.focus()
    ui.page.keyboard.press("Enter")
    ui.page.keyboard.press("Tab")
    ui.page.keyboard.press("Enter")
    expect(ui.page.locator("#pause-reason")).to_be_focused()
    ui.page.keyboard.type("the dentist")
    ui.page.keyboard.press("Enter")
    expect(ui.button("Resume")).to_be_visible()
    expect(ui.page.locator("dialog[open]")).to_have_count(0)
    expect(summary).to_be_focused()
    ui.expect_toast("Paused.")
    assert ui.session_document(session).time.pauses[-1].reason == "the dentist"


def test_escape_closes_menu_and_dialog(ui: OpenDashboard) -> None:
    """Nothing is done, and the focus returns."""
    session = ui.open_new_session("escaping")
    before = ui.session_document(session)
    summary = ui.page.locator(".actions details.more summary")
    summary.click()
    expect(ui.page.locator(".menu")).to_be_visible()
    ui.page.keyboard.press("Escape")
    expect(ui.page.locator(".menu")).not_to_be_visible()
    expect(summary).to_be_focused()
    ui.button("Note").click()
    expect(ui.page.locator("#note-text")).to_be_focused()
    ui.page.keyboard.type("never mind")
    ui.page.keyboard.press("Escape")
    expect(ui.page.locator("dialog[open]")).to_have_count(0)
    expect(ui.button("Note")).to_be_focused()
    assert ui.session_document(session).notes == before.notes


def test_action_on_an_outdated_page_is_refused_with_a_reason(ui: OpenDashboard) -> None:
    """Somebody acted in a terminal meanwhile; nothing is recorded."""
    session = ui.open_new_session("behind")
    shown = ui.open_dialog("pause")
    with ui.site.keeper("behind") as keeper:
        keeper.session(session).pause("from a terminal")
    expect(ui.button("Resume")).to_be_visible()
    shown.get_by_role("button", name="Pause").click()
    ui.expect_dialog_error("the session is paused already")
    reasons = [pause.reason for pause in ui.session_document(session).time.pauses if pause.kind == "manual"]
    assert reasons[-1] == "from a terminal"


# ── hours ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hours_are_corrected_to_work_and_back(ui: OpenDashboard) -> None:
    """The form starts with the latest pause; a refusal has a reason and records nothing."""
    session = ui.open_new_session("hours")
    before = ui.session_document(session).time
    pause = max(before.pauses, key=lambda pause: pause.started_at)
    shown = ui.open_dialog("hours")
    expect(shown.get_by_label("From")).to_be_focused()
    shown.get_by_label("Why? (optional)").fill("no lunch")
    shown.get_by_role("button", name="I worked").click()
    ui.expect_toast("Worked for ")
    worked = ui.session_document(session).time
    assert [item for item in worked.pauses if item.started_at == pause.started_at and item.duration_ms >= 1000] == []
    assert worked.working_ms > before.working_ms
    assert worked.working_ms + worked.paused_ms == worked.elapsed_ms
    shown = ui.open_dialog("hours")
    shown.get_by_label("From").fill(written(parse_time(pause.started_at)))
    shown.get_by_label("To").fill(written(parse_time(pause.started_at) + 4 * MINUTE))
    shown.get_by_role("button", name="I was away").click()
    ui.expect_toast("Away for 4 min")
    later = ui.session_document(session).time
    since = later.elapsed_ms - worked.elapsed_ms  # an agent is at work: the clock is stopped meanwhile
    assert later.paused_ms - worked.paused_ms in range(4 * MINUTE - 1000, 4 * MINUTE + since + 1)
    shown = ui.open_dialog("hours")
    shown.get_by_label("From").fill("2020-01-01T09:00:00")
    shown.get_by_role("button", name="I worked").click()
    ui.expect_dialog_error("the session began at")


def test_hours_of_a_finished_session_are_corrected_without_scripts(ui: OpenDashboard, browser: Browser) -> None:
    session = rich(ui.site, "late", "Work that is over")
    with ui.site.keeper("late") as keeper:
        keeper.session(session).complete()
    before = ui.session_document(session).time
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(ui.dashboard.address)
    page.goto(f"{ui.dashboard.origin}/session/{session}/dialog/hours")
    page.get_by_role("button", name="I worked").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Worked for ")
    context.close()
    assert ui.session_document(session).time.working_ms > before.working_ms


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


def test_note_is_stored_without_its_secrets(ui: OpenDashboard) -> None:
    """The page reports the removal; line breaks stay."""
    session = ui.open_new_session("noting")
    ui.button("Note").click()
    ui.page.locator("#note-text").fill(f"First line\nthe key is {TOKEN}")
    ui.page.get_by_role("button", name="Keep").click()
    ui.expect_toast("Removed secrets before storing: 1 github_token.")
    assert ui.session_document(session).notes[-1].text == "First line\nthe key is [redacted:github_token]"
    ui.button("Note").click()
    ui.page.locator("#note-text").fill("   ")
    ui.page.get_by_role("button", name="Keep").click()
    ui.expect_dialog_error("the note is empty")


def test_edit_records_only_changed_fields(ui: OpenDashboard) -> None:
    """The others may have changed since."""
    session = ui.open_new_session("editing")
    shown = ui.open_dialog("edit")
    expect(shown.get_by_label("Goal")).to_be_focused()
    with ui.site.keeper("editing") as keeper:
        keeper.session(session).edit(progress=0.8)
    shown.get_by_label("Goal").fill(LONG)
    shown.get_by_label("Scope").fill("billing")
    shown.get_by_label("Mode").select_option("release")
    shown.get_by_label("Add tags, separated by commas").fill("urgent, for Tove")
    shown.get_by_role("button", name="Change").click()
    ui.expect_toast("Changed.")
    session_now = ui.session_document(session)
    assert (session_now.goal, session_now.scope, session_now.mode, session_now.progress) == (
        LONG,
        "billing",
        "release",
        0.8,
    )
    assert session_now.summary == "Passkeys instead of passwords"
    assert session_now.tags == ["web", "security", "urgent", "for Tove"]
    shown = ui.open_dialog("edit")
    shown.get_by_label("Progress, in percent").fill("95")
    shown.get_by_role("button", name="Change").click()
    ui.expect_toast("Changed.")
    assert ui.session_document(session).progress == 0.95
    shown = ui.open_dialog("edit")
    shown.get_by_role("button", name="Change").click()
    ui.expect_dialog_error("there is nothing to change")


def test_edit_does_not_overwrite_a_concurrent_change(ui: OpenDashboard) -> None:
    """The refusal shows the current value, the dialog keeps the typed text, and nothing is recorded."""
    session = ui.open_new_session("meanwhile")
    shown = ui.open_dialog("edit")
    with ui.site.keeper("meanwhile") as keeper:
        keeper.session(session).edit(goal="What an agent found out", summary="The same in both")
    shown.get_by_label("Goal").fill("What I think")
    shown.get_by_label("Summary").fill("The same in both")
    shown.get_by_role("button", name="Change").click()
    expect(shown.get_by_label("Goal")).to_have_value("What I think")
    ui.expect_dialog_error("the goal was changed while you wrote; it is now: What an agent found out")
    assert ui.session_document(session).goal == "What an agent found out"
    shown = ui.open_dialog("edit")
    expect(shown.get_by_label("Goal")).to_have_value("What an agent found out")
    shown.get_by_label("Goal").fill("What I think")
    shown.get_by_role("button", name="Change").click()
    ui.expect_toast("Changed.")
    assert ui.session_document(session).goal == "What I think"


def test_other_notices_are_shown_once(tmp_path: Path) -> None:
    """Problems with mirrored files and reminders appear with the action that met them, not with the next."""
    with Site(tmp_path).keeper() as keeper:
        keeper.notices.append("A mirrored file was left alone.")
        keeper.recorder.tally.reached.append(LimitReached("break_40", 40 * MINUTE, pauses=False, only_resume=False))
        first, second = answer("Noted.", keeper, keeper), answer("Noted.", keeper)
    assert first.more == ("A mirrored file was left alone.", "40 minutes of work: a good moment for a break.")
    assert second.more == ()


# ── stop and archive ─────────────────────────────────────────────────────────────────────────────────────


def test_stop_completes_the_session(ui: OpenDashboard) -> None:
    """After a confirmation; then only possible actions are offered."""
    session = ui.open_new_session("stopping")
    shown = ui.open_dialog("stop")
    shown.get_by_label("Why?").fill("it works")
    shown.get_by_role("button", name="Complete").click()
    ui.expect_toast("Completed: ")
    assert ui.session_document(session).status == "completed"
    expect(ui.button("Pause")).to_have_count(0)
    expect(ui.button("Note")).to_have_count(0)
    ui.page.locator(".actions details.more summary").click()
    expect(ui.page.locator(".menu [data-dialog=edit]")).to_have_count(0)
    ui.page.keyboard.press("Escape")


def test_archive_dialog_offers_the_possible_direction(ui: OpenDashboard) -> None:
    """Archive or take out of the archive."""
    session = ui.open_new_session("archiving")

    def archived() -> bool:
        with ui.site.keeper("archiving") as keeper:
            return keeper.is_archived(keeper.state(session))

    ui.open_dialog("archive").get_by_role("button", name="Archive").click()
    ui.expect_toast("Archived.")
    assert archived()
    ui.open_dialog("archive").get_by_role("button", name="Unarchive").click()
    ui.expect_toast("Unarchived.")
    assert not archived()


@pytest.mark.parametrize("what", ["keep", "discard"])
def test_stop_keeps_or_discards_the_branch(ui: OpenDashboard, what: str) -> None:
    """As one commit, or discarded after a confirmation; also from another work tree."""
    place = repository(ui.site.project(f"branch-{what}"))
    with ui.site.keeper(f"branch-{what}") as keeper:
        session = keeper.start("Branch off", branch=True).id
    (place / "work.txt").write_text("work\n")
    git_in(place, "add", ".")
    git_in(place, "commit", "-q", "-m", "work")
    ui.open_session(session)
    shown = ui.open_dialog("stop")
    shown.locator(f"[name=branch][value={what}]").check()
    if what == "discard":
        ui.page.once("dialog", lambda asked: asked.dismiss())
        shown.get_by_role("button", name="Complete").click()
        expect(shown).to_be_visible()
        assert ui.session_document(session).status == "in_progress"
        ui.page.once("dialog", lambda asked: asked.accept())
    shown.get_by_role("button", name="Complete").click()
    ui.expect_toast("Merged as " if what == "keep" else "brings it back.")
    assert ui.session_document(session).status == "completed"
    assert git_in(place, "branch", "--format=%(refname:short)").split() == ["main"]
    assert (place / "work.txt").exists() == (what == "keep")


def test_resume_command_can_be_copied(ui: OpenDashboard) -> None:
    """It works in any terminal."""
    session = ui.open_new_session("copying it's")
    ui.button("Copy the resume command").click()
    ui.expect_toast("Copied.")
    place = ui.site.project("copying it's")
    quoted = "'" + str(place).replace("'", "'\"'\"'") + "'"
    copied = ui.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"cd {quoted} && HOLDFAST_HOME={ui.site.home} holdfast resume {session[:8]}"


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_formats_and_reports_are_downloaded(ui: OpenDashboard) -> None:
    """Each equals what the command writes."""
    session = ui.open_new_session("saving")
    for form in (*registry.NAMES, "md", "html"):
        kind = "report" if form in ("md", "html") else "export"
        ui.page.locator(".actions details.more summary").click()
        with ui.page.expect_download() as session_now:
            ui.page.locator(f".menu a[href='/session/{session}/{kind}?format={form}']").click()
        content = Path(session_now.value.path()).read_bytes()
        end = {"md": "report.md", "html": "report.html", "contract": "contract.yaml"}.get(form, f"{form}.json")
        assert session_now.value.suggested_filename == f"session-{session}-{end}"
        if kind == "report":
            assert "Work in saving" in content.decode()
        else:
            rules = registry.format_named(form)
            value = read(content, end).value
            shape = rules.detects(value)
            assert shape is not None
            assert [problem for problem in rules.problems(value, shape) if problem.severity == "error"] == []
        expect(ui.page.locator(".menu")).not_to_be_visible()


# ── without scripts ──────────────────────────────────────────────────────────────────────────────────────


def test_everything_works_without_scripts(ui: OpenDashboard, browser: Browser) -> None:
    """A dialog is a page with a form, an action reports its result, a refusal is a page with the reason."""
    session = rich(ui.site, "plain", "Work without scripts")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(ui.dashboard.address)
    here = f"{ui.dashboard.origin}/session/{session}"
    page.goto(here)
    page.get_by_role("button", name="Pause", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Paused.")
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(here)
    assert ui.session_document(session).status == "paused"
    page.get_by_role("button", name="Note", exact=True).first.click()
    page.wait_for_url(f"{here}/dialog/note?")
    page.get_by_label("What do you want to remember?").fill(f"two\nlines {TOKEN}")
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_text("Removed secrets before storing")).to_be_visible()
    assert ui.session_document(session).notes[-1].text == "two\nlines [redacted:github_token]"
    page.get_by_role("link", name="Back", exact=True).click()
    page.wait_for_url(here)
    page.locator("details.more summary").first.click()
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("That did not work")
    expect(page.get_by_text("there is nothing to change")).to_be_visible()
    context.close()
