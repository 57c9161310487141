"""A file and a server give the same results: for any history, and for any damage."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.canonical import digest
from holdfast.core.events import AliasGiven, EventErased, NoteAdded, SessionDeleted
from holdfast.core.times import MINUTE, format_time
from holdfast.machine.wall import BUILD_DATE, Wall
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import ANNA, BEN, DAY, Ticks, draft, put, started
from holdfast.store.interface import Damage, Store
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import admin as postgres_admin
from holdfast.store.sqlite import SqliteStore
from tests.postgres import store_histories
from tests.postgres.team import Team
from tests.support.command_line import Calling
from tests.support.postgres.server import Server
from tests.support.scale import scale

SESSION = store_histories.SESSIONS[0]
_numbers = iter(range(10**9))


class Both(NamedTuple):
    """The same user's store, as a file and on a server; and how to damage both."""

    file: SqliteStore
    served: PostgresStore
    server: Server
    database: str

    def each(self) -> Iterator[Store]:
        yield self.file
        yield self.served

    def run(self, sql: str, *values: object) -> tuple[int, int]:
        """The same statement in both, bypassing every rule; the numbers of changed rows."""
        connection = apsw.Connection(self.file.path)
        connection.execute(sql, values)
        changed = connection.changes()
        connection.close()
        with self.server.connect(self.database) as line:
            line.execute("SET search_path = holdfast")
            line.execute("SET session_replication_role = replica")
            theirs = line.execute(sql.replace("?", "%s").encode(), values).rowcount
        return changed, theirs


@pytest.fixture(scope="module")
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


@contextmanager
def both(team: Team) -> Iterator[Both]:
    """Two new stores with the same clock, the same writer and the same random bytes."""
    vault = f"{team.vault}-{next(_numbers)}"
    database = urlsplit(team.url()).path.removeprefix("/")
    admin = PostgresAddress(f"{team.server.url(database)}&vault={vault}")
    with postgres_admin.connected(admin, "make a vault") as line:
        postgres_admin.admit_to_vault(line, postgres_admin.make_vault(line, vault), team.person)
    address = PostgresAddress(f"{team.server.url(database, team.person)}&vault={vault}")
    with tempfile.TemporaryDirectory() as place:
        file = SqliteStore(f"{place}/store.db", writer=lambda: ANNA, wall=Ticks(), salt=store_histories.Salts())
        served = PostgresStore(
            address, writer=lambda: ANNA, wall=Ticks(), installation=lambda _: "here", salt=store_histories.Salts()
        )  # fmt: skip
        try:
            yield Both(file, served, team.server, database)
        finally:
            file.close()
            served.close()


def assert_same(some: Both) -> None:
    assert store_histories.differences(store_histories.shown(some.file), store_histories.shown(some.served)) == {}


@settings(max_examples=scale(3, 100, 3000))
@given(st.integers(0, 2**32), st.integers(20, 60))
def test_both_stores_have_the_same_result_for_any_history(team: Team, seed: int, length: int) -> None:
    """Events byte by byte, states, every listing, search, order and page, and local state."""
    with both(team) as some:
        for store in some.each():
            store_histories.play_history(store, seed, length)
        assert_same(some)
        for which in store_histories.searches(seed):
            assert some.file.rows(which) == some.served.rows(which)


def test_both_stores_have_the_same_result_for_a_long_session(team: Team) -> None:
    """With snapshots, late events before them, repeated keys across them, and an erasure of the first note."""
    with both(team) as some:
        for store in some.each():
            first = put(store, SESSION, started(), *(NoteAdded(text=f"word{number}") for number in range(90)))[1]
            store_histories.play_history(store, 7, 20)
            put(store, SESSION, EventErased(hashes=(first.hash,)))
        assert_same(some)


# ── broken ───────────────────────────────────────────────────────────────────────────────────────────────


def fill_both(some: Both, *sessions: str) -> list[bytes]:
    """The same sessions in both, with snapshots; returns the hash of an event in the middle of each."""
    chosen: list[bytes] = []
    for store in some.each():
        chosen.clear()
        for session in sessions:
            notes = [NoteAdded(text=f"note {number}") for number in range(40)]
            made = put(store, session, started(aliases={"craft": f"of {session}"}), *notes)
            put(store, session, AliasGiven(format="timer", id="two"), key="hook:1")
            put(store, session, NoteAdded(text="more"))
            chosen.append(bytes.fromhex(made[20].hash))
    return chosen


def findings(store: Store) -> list[Damage]:
    """What is wrong, except for where each store keeps what was set aside."""
    damage = [damage for damage in store.check() if "was set aside by a repair" not in damage.detail]
    return sorted(damage, key=repr)


OF_EVENT = "(SELECT session FROM events WHERE hash = ?)"
DAMAGES: dict[str, str] = {
    "a hash that the next event repeats": "UPDATE events SET hash = body WHERE hash = ?",
    "data": "UPDATE events SET data = salt WHERE hash = ?",
    "data that is gone": "UPDATE events SET data = NULL WHERE hash = ?",
    "salt": "UPDATE events SET salt = data WHERE hash = ?",
    "a digest": "UPDATE events SET body = hash WHERE hash = ?",
    "what it follows": "UPDATE events SET prev = hash WHERE hash = ?",
    "an actor": "UPDATE events SET actor = 'eve' WHERE hash = ?",
    "a type": "UPDATE events SET type = 'session.deleted' WHERE hash = ?",
    "a clock": "UPDATE events SET clock = clock + 1 WHERE hash = ?",
    "a number": "UPDATE events SET seq = seq + 1000 WHERE hash = ?",
    "a key": "UPDATE events SET key = 'hook:1' WHERE hash = ?",
    "a missing event": "DELETE FROM events WHERE hash = ?",
    "counted twice": "UPDATE events SET double = 1 WHERE hash = ?",
    "a goal": f"UPDATE sessions SET goal = 'Another' WHERE ref = {OF_EVENT}",
    "a status": f"UPDATE sessions SET status = 'completed' WHERE ref = {OF_EVENT}",
    "working time": f"UPDATE sessions SET working_ms = 5 WHERE ref = {OF_EVENT}",
    "progress": f"UPDATE sessions SET progress = 0.25 WHERE ref = {OF_EVENT}",
    "archived": f"UPDATE sessions SET archived = 1 WHERE ref = {OF_EVENT}",
    "created": f"UPDATE sessions SET created_at = 5 WHERE ref = {OF_EVENT}",
    "deleted": f"UPDATE sessions SET deleted = 1 WHERE ref = {OF_EVENT}",
    "not listed": f"UPDATE sessions SET version = 0 WHERE ref = {OF_EVENT}",
    "taken out, it says": f"UPDATE sessions SET version = -3 WHERE ref = {OF_EVENT}",
    "a word": f"UPDATE words SET word = 'zzz' WHERE word = 'note' AND session = {OF_EVENT}",
    "no words": f"DELETE FROM words WHERE session = {OF_EVENT}",
    "an alias": f"UPDATE aliases SET alias = 'three' WHERE alias = 'two' AND session = {OF_EVENT}",
    "no aliases": f"DELETE FROM aliases WHERE session = {OF_EVENT}",
    "a snapshot": f"UPDATE snapshots SET state = 'broken' WHERE session = {OF_EVENT}",
}


def test_both_stores_report_and_repair_the_same_damage(team: Team) -> None:
    """The same findings before, the same report of the repair, and the same findings afterwards."""
    sessions = [f"{number:08x}-2222-4333-8444-555555555555" for number in range(len(DAMAGES))]
    with both(team) as some:
        for what, chosen in zip(DAMAGES, fill_both(some, *sessions), strict=True):
            changed, theirs = some.run(DAMAGES[what], chosen)
            assert changed == theirs > 0, what
        damage = findings(some.file)
        assert damage == findings(some.served)
        unseen = [
            what
            for what, session in zip(DAMAGES, sessions, strict=True)
            if session not in {each.session for each in damage}
        ]
        assert unseen == []
        report, other_report = (_session_lines(store.repair()) for store in some.each())
        assert report == other_report
        assert findings(some.file) == findings(some.served)
        assert {finding.check for finding in findings(some.file)} <= {"aside"}
        shown, served = (_without_asides(store_histories.shown(store)) for store in some.each())
        assert store_histories.differences(shown, served) == {}
        assert [_session_lines(store.repair()) for store in some.each()] == [[], []]


def _session_lines(report: list[str]) -> list[str]:
    """Without rebuilt listings: a file is rebuilt as a whole, and reports it once."""
    anew = ("rebuilt from the log.", "that was still there was removed.")
    return sorted(item for item in report if item.startswith("Session ") and not item.endswith(anew))


def _without_asides(shown: dict[str, Any]) -> dict[str, Any]:
    return shown | {"check": [item for item in shown["check"] if "was set aside by a repair" not in item[2]]}


def test_deletion_removes_what_was_set_aside_of_a_session(team: Team) -> None:
    """The quarantine has the text of a damaged event."""
    with both(team) as some:
        (chosen,) = fill_both(some, SESSION)
        some.run("UPDATE events SET actor = 'eve' WHERE hash = ?", chosen)
        for store in some.each():
            store.repair()
            assert any("was set aside by a repair" in damage.detail for damage in store.check())
            store.erase(SESSION, draft(SessionDeleted()))
            assert not any("was set aside by a repair" in damage.detail for damage in store.check())
        assert_same(some)


def test_repair_by_a_writer_reports_damage_that_only_the_owner_can_repair(team: Team) -> None:
    """The writer's repair rebuilds derived data only."""
    with both(team) as some:
        (chosen,) = fill_both(some, SESSION)
        some.run(DAMAGES["a digest"], chosen)
        some.run(DAMAGES["a goal"], chosen)
        ben = team.server.role(f"ben_{next(_numbers)}")
        vault = PostgresAddress(some.served.url).parameters["vault"]
        with postgres_admin.connected(
            PostgresAddress(some.served.url.replace(team.person, "postgres")), "admit"
        ) as line:
            postgres_admin.admit_to_vault(line, postgres_admin.make_vault(line, vault), ben)
        some.served.team.share(SESSION, ben, writes=True)
        url = some.served.url.replace(f"{team.person}@", f"{ben}@", 1)
        bens = PostgresStore(PostgresAddress(url), writer=lambda: BEN, wall=Ticks(), installation=lambda _: "ben")
        with closing(bens):
            (report_line,) = _session_lines(bens.repair())
            assert report_line.endswith("only its owner can repair that.")
            assert {damage.check for damage in bens.check()} == {"chain"}
        assert len(_session_lines(some.served.repair())) == 1
        some.file.repair()
        assert list(some.served.check()) == []
        same = ("rows", SESSION, "in portions", "sessions")
        shown, served = (store_histories.shown(store) for store in some.each())
        assert [shown[name] for name in same] == [served[name] for name in same]


# ── the program ──────────────────────────────────────────────────────────────────────────────────────────

MORNING = BUILD_DATE + 8 * DAY
GOAL = "Pay with 100% “İstanbul” O'Brien's café_card"
SECRET = "AKIA" + "QWERTYUIOPASDFGH"
WRITE_COMMANDS = (
    ("start", GOAL, "--tag", "payments"), ("note", "It's \U0001f642 50% done; see C:\\new", "--json"),
    ("agent", "start", "a1", "--type", "builder", "--json"), ("agent", "progress", "a1", "0.5"),
    ("task", "add", "Write the parser", "--json"), ("task", "add", "Test it"), ("task", "start", "t1"),
    ("task", "done", "t1"), ("task", "list"), ("decide", "SQLite", "--option", "files", "--why", "it's there"),
    ("file", "src/café.py", "--action", "modified"), ("context", "--tokens", "90000", "--window", "128000"),
    ("pause", "lunch"), ("resume", "@"), ("away", "a call", "--from", "{8}", "--to", "{10}"), ("message",),
    ("agent", "fail", "a1", "--category", "transient", "--message", "no luck"), ("agent", "retry", "a1"),
    ("agent", "done", "a1"), ("hill", "pay", "4"), ("note", f"the key is {SECRET}"), ("compress",),
    ("edit", "--progress", "0.7", "--scope", "till", "--summary", "nearly"), ("note", "too late", "--at", "{3}"),
    ("note", "said when it was", "--at", "{24}"), ("save",), ("status", "--json"), ("stop",),
    ("start", "Ship it", "--json"), ("note", "shipping paint"), ("start", "Refused"), ("fail", "no ship"),
    ("start", "Paint the shop"), ("stop",), ("start", "To be erased"), ("note", "forget me"),
)  # fmt: skip
READ_COMMANDS = (
    ("status",), ("status", "--json"), ("history",), ("history", "--json"), ("history", "--search", "istanbul o"),
    ("history", "--search", "paint", "--json"), ("history", "--search", "forget", "--json"),
    ("history", "--status", "error"), ("history", "--limit", "1", "--json"), ("history", "--since", "2026-11-10"),
    ("history", "--all-projects"), ("show", "{first}"), ("show", "{first}", "--json"), ("log", "{first}", "--json"),
    ("show", "{first}", "--json", "--at", "{12}"), ("log", "{first}", "--type", "note.added"),
    ("timeline", "{first}"),
    ("budget", "{first}"), ("briefing", "{first}"), ("briefing", "{first}", "--at", "{9}"), ("report", "{first}"),
    ("stats", "--by", "day", "--json"), ("stats", "--by", "scope", "--csv"), ("stats", "--by", "project"),
    ("stats", "--by", "agent"), ("redact", "{first}"), ("redact", "{first}", "--json"), ("conflicts", "{first}"),
    *(("export", "{first}", "--format", name) for name in ("orchestrator", "timer", "contract", "craft")),
    *(("export", "{first}", "--format", name, "--json") for name in ("orchestrator", "timer", "contract", "craft")),
    ("status", "--at", "{5}", "--json"), ("show", "nobody"), ("show", "nobody", "--json"), ("doctor", "--json"),
)  # fmt: skip
ERASE_COMMANDS = (("archive", "{first}", "--json"), ("delete", "@", "--confirm", "--force", "--json"))
# Checks of the doctor about the store or the machine rather than its data.
OWN = ("home", "store", "sqlite", "server", "file", "modes", "space", "writer", "role", "rights", "line")


class RepeatableRandom:
    """Random bytes that are the same each time, independently of other callers."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def __call__(self, size: int) -> bytes:
        frame = sys._getframe(1)
        module = str(frame.f_globals["__name__"])
        is_salt = module.startswith("holdfast.store") and frame.f_code.co_name == "<lambda>"
        whose = "salt" if is_salt else f"{module} {frame.f_code.co_name}"
        self._asked[whose] = self._asked.get(whose, 0) + 1
        return bytes.fromhex(digest(f"{whose} {self._asked[whose]}".encode()))[:size]


def run_commands(calling: Calling, moment: list[int]) -> dict[str, Any]:
    """The output of every command, each a minute after the one before."""
    outputs: dict[str, Any] = {}
    first = ""
    for number, words in enumerate((*WRITE_COMMANDS, *READ_COMMANDS, *ERASE_COMMANDS, *READ_COMMANDS)):
        moment[0] = MORNING + (number + 1) * MINUTE
        filled = [
            re.sub(r"\{(\d+)\}", lambda match: format_time(MORNING + int(match[1]) * MINUTE), word).replace(
                "{first}", first
            )
            for word in words
        ]
        answer = outputs[f"{number} {' '.join(words)}"] = calling(*filled)
        assert answer.code != 2, answer
        if words[0] == "doctor":
            checks = json.loads(answer.out)["checks"]
            outputs[f"{number} doctor --json"] = [check for check in checks if check["name"] not in OWN]
        first = first or calling.document("status")["session"]["id"]
    return outputs


def test_commands_print_the_same_for_both_stores(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that show, export, archive and erase: equal to the letter."""
    moment = [MORNING]
    monkeypatch.setattr(Wall.__init__, "__defaults__", (lambda: moment[0] * 1_000_000, lambda: 0))
    monkeypatch.setenv("TZ", "UTC")
    outputs = []
    for url in (None, team.url()):
        monkeypatch.setattr(os, "urandom", RepeatableRandom())
        root = tmp_path / "root"
        root.mkdir()
        calling = Calling(root, monkeypatch, capsys)
        monkeypatch.setenv("HOLDFAST_ACTOR", "ada")
        if url is not None:
            monkeypatch.setenv("HOLDFAST_STORE", url)
        outputs.append(run_commands(calling, moment))
        monkeypatch.chdir(tmp_path)
        root.rename(tmp_path / f"root-{len(outputs)}")
    assert store_histories.differences(*outputs) == {}
