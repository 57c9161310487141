"""Listings, search, and what belongs to this machine alone."""

from __future__ import annotations

from typing import Any

from holdfast.core.events import (
    AliasGiven,
    DecisionMade,
    ProjectFacts,
    SessionAborted,
    SessionArchived,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
)
from holdfast.core.times import parse_time
from holdfast.store.conformance.fixtures import (
    DAY,
    OTHER,
    PROJECT,
    SESSION,
    START,
    THIRD,
    StoreFixture,
    assert_sound,
    note,
    put,
    started,
)
from holdfast.store.interface import Filter, Store


class ListingConformance(StoreFixture):
    def shelf(self) -> Store:
        """Five sessions of two projects, a day apart, in several states."""
        store = self.store()
        elsewhere = ProjectFacts(id="project-2", name="house", path="/home/me/house")
        for number in range(5):
            session = f"{number}aaaaaaa-0000-4000-8000-00000000000{number}"
            project = PROJECT if number % 2 == 0 else elsewhere
            put(store, session, started(f"Goal {number}", project=project), at=START + number * DAY)
            if number == 1:
                put(store, session, SessionPaused(), at=START + number * DAY + 5)
            if number == 2:
                put(store, session, SessionCompleted(summary="Done and dusted"), at=START + number * DAY + 5)
            if number == 3:
                put(store, session, SessionArchived(), at=START + number * DAY + 5)
        return store

    def goals(self, store: Store, **which: object) -> list[str]:
        return [row.goal[-1] for row in store.rows(Filter(**which))]  # type: ignore[arg-type]

    def test_search_finds_an_alias(self) -> None:
        """The id by which a format knows a session finds it, within the filter, and so do a part of it and the
        beginning of the session's own; what is shorter than four characters is too little.
        """
        store = self.shelf()
        session = "2aaaaaaa-0000-4000-8000-000000000002"
        put(store, session, AliasGiven(format="orchestrator", id="2025-12-27-abc123"))
        assert self.goals(store, search="2025-12-27-abc123") == ["2"]
        assert self.goals(store, search=" 2025-12-27-abc123 ", projects=("project-1",), limit=1) == ["2"]
        assert self.goals(store, search="2025-12-27-abc123", projects=("project-2",)) == []
        assert self.goals(store, search="2025-12-27-abc124") == []
        for part in ("abc123", "ABC123", "2025-12", "27-abc1", "2aaaaaaa", "2AAAAAAA-0000", "2aaa"):
            assert self.goals(store, search=part) == ["2"], part
        assert self.goals(store, search="abc123", projects=("project-2",)) == []
        assert self.goals(store, search="c12") == []

    def test_listings_come_newest_first_and_filtered(self) -> None:
        """By creation, then by id; by project, status, age and number, alone and together."""
        store = self.shelf()
        assert self.goals(store) == ["4", "3", "2", "1", "0"]
        assert self.goals(store, limit=2) == ["4", "3"]
        assert self.goals(store, projects=("project-1",)) == ["4", "2", "0"]
        assert self.goals(store, projects=("project-2",), limit=1) == ["3"]
        assert self.goals(store, projects=("project-9",)) == self.goals(store, projects=()) == []
        assert self.goals(store, projects=("project-1", "project-2"), limit=3) == ["4", "3", "2"]
        assert self.goals(store, status="paused") == ["1"]
        assert self.goals(store, status="completed", projects=("project-2",)) == []
        assert self.goals(store, since=START + 3 * DAY) == ["4", "3"]
        assert self.goals(store, since=START + 3 * DAY + 1) == ["4"]
        assert self.goals(store, search="goal", since=START + DAY, projects=("project-1",), limit=1) == ["4"]
        assert self.goals(store, search="dusted") == ["2"]

    def test_listings_show_what_is_unfinished_of_a_name_or_archived(self) -> None:
        """Alone and together with everything else; by age too, where a moment and an age are given."""
        store = self.shelf()
        put(store, THIRD, started("Goal 9"), SessionAborted(), at=START - DAY)
        assert self.goals(store, unfinished=True) == ["4", "3", "1", "0"]
        assert self.goals(store, unfinished=True, status="paused") == ["1"]
        assert self.goals(store, unfinished=True, status="completed") == []
        assert self.goals(store, name="house") == ["3", "1"]
        assert self.goals(store, name="") == self.goals(store, name="hous") == []
        assert self.goals(store, archived=True) == ["3"]
        assert self.goals(store, archived=False) == ["4", "2", "1", "0", "9"]
        aged = {"now": START + 3 * DAY, "archive_after": DAY // 2}
        assert self.goals(store, archived=True, **aged) == ["3", "2", "9"]
        assert self.goals(store, archived=False, **aged) == ["4", "1", "0"]
        assert self.goals(store, archived=False, unfinished=True, name="house", search="goal", limit=1) == ["1"]
        assert [project.name for project in store.projects()] == ["house", "shop"]

    def test_a_listing_goes_on_where_it_stopped(self) -> None:
        """Page by page everything comes once, in the order of the whole, whatever else is asked for."""
        store = self.shelf()
        for session in (OTHER, SESSION, THIRD):
            put(store, session, started("Goal same"), at=START + 2 * DAY)
        asked: list[dict[str, Any]] = [
            {}, {"unfinished": True}, {"name": "shop"}, {"search": "goal"}, {"projects": ("project-1",)},
        ]  # fmt: skip
        for which in asked:
            whole = store.rows(Filter(**which))
            for size in (1, 2, 3):
                shown: list[str] = []
                before: tuple[int, str] | None = None
                while page := store.rows(Filter(**which, before=before, limit=size)):
                    shown += [row.id for row in page]
                    before = (parse_time(page[-1].created_at), page[-1].id)
                assert shown == [row.id for row in whole], (which, size)
        assert self.goals(store, before=(START + 2 * DAY, "0")) == ["1", "0"]

    def test_equal_times_are_ordered_by_id(self) -> None:
        """Sessions created in the same millisecond come in a fixed order, the larger id first."""
        store = self.store()
        for session in (OTHER, SESSION, THIRD):
            put(store, session, started(session[:4]))
        assert [row.id for row in store.rows(Filter())] == [THIRD, OTHER, SESSION]
        assert list(store.sessions()) == [SESSION, OTHER, THIRD]

    def test_a_row_shows_what_the_log_adds_up_to(self) -> None:
        """Goal, status, progress, project, device, times and working time are those of the state."""
        store = self.store()
        put(store, SESSION, started(), at=START)
        put(store, SESSION, SessionEdited(progress=0.5, goal="Sell the shop"), at=START + 60_000)
        row = store.rows(Filter())[0]
        assert (row.id, row.goal, row.status, row.progress) == (SESSION, "Sell the shop", "in_progress", 0.5)
        assert (row.project, row.device, row.archived) == ("shop", "laptop", False)
        assert (row.created_at, row.updated_at) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z")
        assert row.working_ms == 60_000

    def test_sessions_count_as_archived_by_event_and_by_age(self) -> None:
        """With a moment and an age given, sessions that ended longer ago count as archived; nothing is recorded."""
        store = self.shelf()
        events = sum(len(list(store.events(session))) for session in store.sessions())

        def archived(**which: object) -> list[str]:
            return [row.goal[-1] for row in store.rows(Filter(**which)) if row.archived]  # type: ignore[arg-type]

        ended = START + 2 * DAY + 5
        assert archived() == ["3"]
        assert archived(now=ended + DAY, archive_after=DAY) == ["3"]
        assert archived(now=ended + DAY + 1, archive_after=DAY) == ["3", "2"]
        assert sum(len(list(store.events(session))) for session in store.sessions()) == events

    def test_search_finds_words_whole_and_the_last_one_begun(self) -> None:
        """Every word must be there; the last may be unfinished; case and accents do not count; order as listings."""
        store = self.store()
        put(store, SESSION, started("Façade für das Geschäft"), note("naïve DOOR_handle 42"), at=START)
        put(store, OTHER, started("日本語の計画"), note("door hinges"), at=START + 1)
        put(store, THIRD, started("Ledger"), DecisionMade(chosen="Oak", options=("Pine", "Elm"), why="hard"))
        for text, due in {
            "door": [OTHER, SESSION], "DOO": [OTHER, SESSION], "handle door": [SESSION], "doo handle": [],
            "facade": [SESSION], "FUR das gesch": [SESSION], "naive 4": [SESSION], "日": [OTHER], "語計": [OTHER],
            "pine": [THIRD], "hard oak el": [THIRD], "oak zebra": [], "": [], "!?": [], "_": [], "%": [],
        }.items():  # fmt: skip
            assert [row.id for row in store.rows(Filter(search=text))] == due, text
        assert [row.id for row in store.rows(Filter(search="door", limit=1))] == [OTHER]

    def test_finding_by_id_prefix_and_alias(self) -> None:
        """A reference means every session whose id begins with it or that has it as an alias."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        put(store, OTHER, started("Other"), AliasGiven(format="timer", id="7777"))
        put(store, THIRD, started("Third"), AliasGiven(format="craft", id="Alias_Two%"))
        assert store.find(SESSION) == store.find(SESSION.upper()) == [SESSION]
        assert store.find("1111") == [SESSION, OTHER]
        assert store.find("11111") == [SESSION]
        assert store.find("alias-one") == [SESSION]
        assert store.find("7777") == [OTHER, THIRD]
        assert store.find("Alias_Two%") == [THIRD]
        assert store.find("alias") == store.find("Alias%") == store.find("1%") == store.find("zzzz") == []

    def test_an_alias_given_anew_replaces_the_old_one(self) -> None:
        """Per format a session has one alias, the last in the log: the one before finds it no longer."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        put(store, SESSION, AliasGiven(format="craft", id="alias-two"))
        assert store.find("alias-one") == []
        assert store.find("alias-two") == [SESSION]
        assert_sound(store)

    # ── what belongs to this machine ─────────────────────────────────────────────────────────────────────

    def test_each_place_has_its_own_current_session(self) -> None:
        """A work tree points at one session until it is pointed elsewhere or nowhere; the log knows nothing of it."""
        store = self.store()
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.set_current("/home/me/shop-2", OTHER)
        assert (store.current("/home/me/shop"), store.current("/home/me/shop-2")) == (SESSION, OTHER)
        assert store.places(OTHER) == ["/home/me/shop-2"]
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", OTHER)
            transaction.set_current("/home/me/shop-2", None)
            transaction.set_current("/nowhere", None)
        assert (store.current("/home/me/shop"), store.current("/home/me/shop-2")) == (OTHER, None)
        assert (store.places(SESSION), store.places(OTHER)) == ([], ["/home/me/shop"])
        assert len(list(store.events(SESSION))) == 1

    def test_projects_are_found_by_their_evidence(self) -> None:
        """Path, remote and root commits find a project; two may share a piece of evidence."""
        store = self.store()
        shop = ProjectFacts(id="p1", name="shop", path="/a", remote="github.com/x/shop", roots=("r1", "r2"))
        fork = ProjectFacts(id="p2", name="fork", path="/b", roots=("r1",))
        with store.transaction() as transaction:
            transaction.remember_project(shop)
            transaction.remember_project(fork)
            transaction.remember_project(shop)
        assert store.projects_with("path", "/a") == ["p1"]
        assert store.projects_with("path", "/b") == ["p2"]
        assert store.projects_with("remote", "github.com/x/shop") == ["p1"]
        assert store.projects_with("root", "r1") == ["p1", "p2"]
        assert store.projects_with("root", "r2") == ["p1"]
        assert store.projects_with("root", "/a") == store.projects_with("path", "r1") == []
        assert store.evidence("p1") == [
            ("path", "/a"), ("remote", "github.com/x/shop"), ("root", "r1"), ("root", "r2"),
        ]  # fmt: skip
        assert store.evidence("p9") == []

    def test_the_latest_time_is_that_of_the_event_recorded_last(self) -> None:
        """Not the largest: a machine whose clock was wrong for a while must not go on from that."""
        store = self.store()
        put(store, SESSION, started(), at=START + 99)
        put(store, OTHER, started("Other"), at=START + 5)
        assert store.latest_time() == START + 5
        assert self.reopened(store).latest_time() == START + 5
