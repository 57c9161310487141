"""Listings and search, and the local state: of one machine, or of several machines on one store."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import (
    AliasGiven,
    DecisionMade,
    ProjectFacts,
    SessionAborted,
    SessionArchived,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
)
from holdfast.core.times import parse_time
from holdfast.store import origin
from holdfast.store.conformance.fixtures import (
    BEN,
    DAY,
    OTHER,
    PROJECT,
    SESSION,
    START,
    THIRD,
    StoreFixture,
    Ticks,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
)
from holdfast.store.interface import UNSEEN, Filter, ShareGrant, Store

# ── listings and search ──────────────────────────────────────────────────────────────────────────────────


class ListingConformance(StoreFixture):
    def five_sessions(self) -> Store:
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
        store = self.five_sessions()
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
        store = self.five_sessions()
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
        """Each filter alone and combined; archived ones also by age, if a time and an age are given."""
        store = self.five_sessions()
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
        """Pages together have every session once, in the order of the whole list, with any other criteria."""
        store = self.five_sessions()
        for session in (OTHER, SESSION, THIRD):
            put(store, session, started("Goal same"), at=START + 2 * DAY)
        criteria: list[dict[str, Any]] = [
            {}, {"unfinished": True}, {"name": "shop"}, {"search": "goal"}, {"projects": ("project-1",)},
        ]  # fmt: skip
        for criterion in criteria:
            all_rows = store.rows(Filter(**criterion))
            for size in (1, 2, 3):
                shown: list[str] = []
                before: tuple[int, str] | None = None
                while page := store.rows(Filter(**criterion, before=before, limit=size)):
                    shown += [row.id for row in page]
                    before = (parse_time(page[-1].created_at), page[-1].id)
                assert shown == [row.id for row in all_rows], (criterion, size)
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
        """With a time and an age given, sessions that ended longer ago count as archived; nothing is recorded."""
        store = self.five_sessions()
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
        """A session has one alias per format, the last in the log; earlier ones no longer find it."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        put(store, SESSION, AliasGiven(format="craft", id="alias-two"))
        assert store.find("alias-one") == []
        assert store.find("alias-two") == [SESSION]
        assert_sound(store)

    # ── what belongs to this machine ─────────────────────────────────────────────────────────────────────

    def test_each_place_has_its_own_current_session(self) -> None:
        """A work tree has one current session until it is changed or cleared; the log has nothing of it."""
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

    def test_projects_are_looked_up_by_evidence(self) -> None:
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
        """Not the largest one: a clock that was wrong for a while must not affect later times."""
        store = self.store()
        put(store, SESSION, started(), at=START + 99)
        put(store, OTHER, started("Other"), at=START + 5)
        assert store.latest_time() == START + 5
        assert self.reopened(store).latest_time() == START + 5


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────


NAMES = [
    "vault/a", "vault/a/", "vault/a/1", "vault/a/10", "vault/a/2", "vault/ab", "vault/a%", "vault/a_", "vault/A",
    "vault/aé", "vault/a日本", "vault/a\U0010fffd", "vault/a\U0010ffff/x", "vault/a\0b", "vault", "", "clock",
    "place", "aside:1", "' OR 1=1 --", "*", "vault/[a]",
]  # fmt: skip


def keep(store: Store, **values: bytes | None) -> None:
    with store.transaction() as transaction:
        for name, value in values.items():
            transaction.remember(name, value)


class Remembering(StoreFixture):
    def test_nothing_is_remembered_at_first(self) -> None:
        """A name without a value gives None, in a transaction and outside."""
        store = self.store()
        assert store.remembered("cursor") is None
        assert store.remembered_under("") == {}
        with store.transaction() as transaction:
            assert transaction.remembered("cursor") is None
            transaction.remember("cursor", None)

    def test_memory_stays_until_it_is_replaced_or_removed(self) -> None:
        """Values survive closing and are seen by other connections, empty and large ones; the last one counts."""
        store, other = self.store(), self.store()
        large = bytes(range(256)) * 20_000
        keep(store, one=b"1", empty=b"", large=large)
        assert other.remembered_under("") == {"empty": b"", "large": large, "one": b"1"}
        keep(other, one=b"\0two", empty=None)
        assert (store.remembered("one"), store.remembered("empty")) == (b"\0two", None)
        store = self.reopened(store)
        assert store.remembered_under("") == {"large": large, "one": b"\0two"}
        assert_sound(store)

    def test_memory_is_visible_to_others_after_the_transaction(self) -> None:
        """Within the transaction the new value counts; elsewhere the old one, until the commit."""
        store, other = self.store(), self.store()
        keep(store, one=b"1")
        with store.transaction() as transaction:
            transaction.remember("one", b"2")
            transaction.remember("two", b"3")
            assert (transaction.remembered("one"), transaction.remembered("two")) == (b"2", b"3")
            assert (other.remembered("one"), other.remembered("two")) == (b"1", None)
            transaction.remember("two", None)
            assert transaction.remembered("two") is None
        assert (other.remembered("one"), other.remembered("two")) == (b"2", None)

    def test_memory_is_atomic_with_the_events_of_its_transaction(self) -> None:
        """A transaction that ends with an exception changes no value and records nothing."""
        store = self.store()
        keep(store, old=b"stays", other=b"stays too")
        put(store, SESSION, started())
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.remember("new", b"x")
            transaction.record(SESSION, draft(note("x")))
            transaction.remember("old", b"changed")
            transaction.remember("other", None)
            raise RuntimeError
        assert store.remembered_under("") == {"old": b"stays", "other": b"stays too"}
        with store.transaction() as transaction:
            assert transaction.remembered("new") is None
            transaction.record(SESSION, draft(note("y")))
            transaction.remember("new", b"y")
        store = self.reopened(store)
        assert store.remembered("new") == b"y"
        assert len(list(store.events(SESSION))) == 2

    def test_memory_is_listed_by_prefix_whatever_the_names(self) -> None:
        """Exactly the names with the prefix, in order; wildcards, quotes and NUL have no special meaning."""
        store = self.store()
        keep(store, **{name: name.encode() for name in NAMES})
        for prefix in [*NAMES, "vault/", "vault/a\U0010ffff", "v", "nobody", "aside", "vault/a/1"]:
            due = sorted((name for name in NAMES if name.startswith(prefix)), key=str.encode)
            assert list(store.remembered_under(prefix).items()) == [(name, name.encode()) for name in due], prefix
        for name in NAMES:
            assert store.remembered(name) == name.encode()
        put(store, SESSION, started())
        assert_sound(store)

    def test_a_backup_says_nothing_of_remotes(self) -> None:
        """Restored elsewhere or opened directly, a copy has no names under `vault/`, nor their bytes."""
        store = self.store()
        put(store, SESSION, started())
        keep(store, **{"vault/1/cursor": b"how far we asked", "vault/1/more": b"x" * 9000, "mine": b"kept"})
        with store.transaction() as transaction:
            origin.record_own(transaction, SESSION, "the vault it came from", "its writer")
        path = self.place / "copy.backup"
        store.backup(str(path))
        assert b"how far we asked" not in path.read_bytes()
        assert b"the vault it came from" not in path.read_bytes()
        fresh = self.store("fresh")
        assert fresh.restore(str(path)).events == 1
        assert origin.owned(fresh, SESSION) == origin.Owned()
        assert fresh.remembered_under("vault/") == {}
        assert fresh.remembered("mine") is None
        assert fresh.remembered(UNSEEN) == b"0"
        assert store.remembered("vault/1/cursor") == b"how far we asked"

    def test_repairing_and_erasing_forget_nothing_while_the_log_is_whole(self) -> None:
        """Without damage every name is still there after a repair, and after a session was deleted for good."""
        from holdfast.core.events import SessionDeleted

        store = self.store()
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        keep(store, **{"vault/1/cursor": b"2", "mine": b"kept"})
        store.repair()
        store.erase(OTHER, draft(SessionDeleted()))
        assert store.remembered_under("") == {"mine": b"kept", "vault/1/cursor": b"2"}


# ── what a store is ──────────────────────────────────────────────────────────────────────────────────────


class Describing(StoreFixture):
    def test_store_says_what_it_is(self) -> None:
        """Its tables and its size; a server, its people, and who shares what with whom."""
        store = self.store()
        put(store, SESSION, started())
        info, team = store.describe(), store.team
        assert (info.version or 0) >= 1
        assert (info.bytes or 0) > 0
        assert not store.is_read_only(SESSION)
        if team is None:
            assert (info.events, info.server, info.vault, info.person) == (store.latest_place(), None, None, None)
            return
        assert all((info.server, info.vault))
        assert info.person in team.people()
        team.share(SESSION, None, writes=False)
        assert team.shares(SESSION) == [ShareGrant(None, writes=False)]
        team.unshare(SESSION, None)
        assert team.shares(SESSION) == []


# ── several installations ────────────────────────────────────────────────────────────────────────────────


SHOP = ProjectFacts(id="p1", name="shop", path="/home/me/shop", remote="github.com/x/shop", roots=("r1",))


class Installations(StoreFixture):
    @pytest.fixture
    def two(self) -> tuple[Store, Store]:
        """One store, opened by two installations."""
        if not self.shared:
            pytest.skip("a store of this kind is of one installation")
        return self.store(machine="laptop"), self.store(machine="desktop", writer=BEN)

    def test_sessions_are_shared(self, two: tuple[Store, Store]) -> None:
        """Events that one records are shown, found and continued by the other."""
        laptop, desktop = two
        put(laptop, SESSION, started(aliases={"craft": "alias-one"}), note("blue paint"))
        assert [row.id for row in desktop.rows(Filter(search="blue"))] == desktop.find("alias-one") == [SESSION]
        put(desktop, SESSION, note("from the desktop"))
        assert everything(laptop) == everything(desktop)
        assert [event.writer for event in laptop.events(SESSION)][-1] == BEN
        assert [arrival.event for arrival in laptop.arrived(0, 10)] == [
            arrival.event for arrival in desktop.arrived(0, 10)
        ]
        assert_sound(laptop)
        assert_sound(desktop)

    def test_each_has_work_trees_of_its_own(self, two: tuple[Store, Store]) -> None:
        """The same path is another place on another machine; only a deleted session is left by all."""
        laptop, desktop = two
        put(laptop, SESSION, started())
        put(laptop, OTHER, started("Other"))
        for store, session in ((laptop, SESSION), (desktop, OTHER)):
            with store.transaction() as transaction:
                transaction.set_current("/home/me/shop", session)
        assert (laptop.current("/home/me/shop"), desktop.current("/home/me/shop")) == (SESSION, OTHER)
        assert (laptop.places(SESSION), laptop.places(OTHER)) == (["/home/me/shop"], [])
        assert desktop.local_state().places == {"/home/me/shop": OTHER}
        with desktop.transaction() as transaction:
            transaction.set_current("/home/me/shop", None)
        assert laptop.current("/home/me/shop") == SESSION
        with desktop.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
        desktop.erase(SESSION, draft(SessionDeleted()))
        assert laptop.current("/home/me/shop") is None
        assert desktop.current("/home/me/shop") is None

    def test_each_has_a_memory_of_its_own(self, two: tuple[Store, Store]) -> None:
        """Names of one do not exist for the other, and its local state does not change."""
        laptop, desktop = two
        before = desktop.local_state_version()
        with laptop.transaction() as transaction:
            transaction.remember("cursor", b"1")
        assert (desktop.remembered("cursor"), desktop.remembered_under("")) == (None, {})
        assert desktop.local_state_version() == before
        with desktop.transaction() as transaction:
            assert transaction.remembered("cursor") is None
            transaction.remember("cursor", b"2")
        with desktop.transaction() as transaction:
            transaction.remember("cursor", None)
        assert laptop.remembered("cursor") == b"1"

    def test_paths_are_evidence_on_their_own_machine_and_repositories_everywhere(
        self, two: tuple[Store, Store]
    ) -> None:
        """A project is found by remote and root commit on both, by a path only where that path is."""
        laptop, desktop = two
        put(laptop, SESSION, started(project=SHOP))
        with laptop.transaction() as transaction:
            transaction.remember_project(SHOP)
        assert laptop.projects_with("path", "/home/me/shop") == ["p1"]
        assert desktop.projects_with("path", "/home/me/shop") == []
        for store in two:
            assert store.projects_with("remote", "github.com/x/shop") == store.projects_with("root", "r1") == ["p1"]
        assert desktop.evidence("p1") == [("remote", "github.com/x/shop"), ("root", "r1")]
        assert ("path", "/home/me/shop") in laptop.local_state().projects[0].evidence
        assert ("path", "/home/me/shop") not in desktop.local_state().projects[0].evidence

    def test_events_of_two_installations_are_in_the_order_they_were_recorded(self, two: tuple[Store, Store]) -> None:
        """Events of a session have growing clocks, however the machines' clocks differ."""
        laptop, desktop = two
        ahead = self.store(machine="ahead", wall=Ticks(Ticks().micros * 2))
        first = put(ahead, SESSION, started())[0]
        made = [put(store, SESSION, note(str(number)))[0] for number, store in enumerate((desktop, laptop, desktop))]
        assert list(laptop.events(SESSION)) == [first, *made]
        assert_sound(desktop)

    def test_both_may_write_at_once(self, two: tuple[Store, Store]) -> None:
        """Transactions on different sessions do not wait for each other, and see only committed events."""
        laptop, desktop = two
        with laptop.transaction() as transaction:
            transaction.record(SESSION, draft(started()))
            put(desktop, OTHER, started("Other"))
            assert desktop.state(SESSION) is None
            place = desktop.latest_place()
        assert {arrival.event.session for arrival in desktop.arrived(0, 10)} == {SESSION, OTHER}
        assert SESSION in {arrival.event.session for arrival in desktop.arrived(place, 10)}, (
            "nothing slips in behind a cursor"
        )
        assert_sound(laptop)
