"""Everything that earlier versions wrote opens, shows the same facts, and can be continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from tests.fixtures.generations.facts import Program, facts
from tests.fixtures.generations.files import NAMES, TEAM, Generation, differences, unexpected

DEVICES = ("laptop", "desk")
HOMES = (*DEVICES, "lost", "guest", "reader", "former", "damaged")


@pytest.fixture(params=NAMES)
def generation(request: pytest.FixtureRequest, tmp_path: Path) -> Generation:
    return Generation(request.param, tmp_path)


def notes(program: Program, session: str) -> list[str]:
    return [note["text"] for note in program("show", session)["session"]["notes"]]


def hashes(program: Program, session: str) -> list[str]:
    return [event["hash"] for event in program("log", session)["events"]]


def failed(program: Program) -> list[Any]:
    return [check for check in program("doctor", codes=(0, 6))["checks"] if check["status"] == "failed"]


def test_generations_exist() -> None:
    assert NAMES


def test_facts_are_unchanged(generation: Generation) -> None:
    """Sessions, logs, conflicts, hours, people and settings of every home; nothing is damaged."""
    for home in HOMES:
        program = generation.program(home)
        # Waiting payloads have become a session; a test below checks it.
        current = facts(program, generation.said["moment"])
        waited = {row["id"] for row in current["history"]} - {row["id"] for row in generation.facts(home)["history"]}
        assert len(waited) == (home == "laptop")
        current["history"] = [row for row in current["history"] if row["id"] not in waited]
        current["sessions"] = {id_: session for id_, session in current["sessions"].items() if id_ not in waited}
        assert unexpected(differences(generation.facts(home), current)) == [], home
        assert failed(program) == [], home
    quarantined = [
        check["status"] for check in generation.program("damaged")("doctor")["checks"] if check["name"] == "aside"
    ]
    assert quarantined == ["warning"]


def test_generation_contains_every_type_of_event(generation: Generation) -> None:
    """Every type that its version could record, and a deleted session."""
    with Keeper.open(str(generation.root), home=str(generation.root / "homes" / "laptop")) as keeper:
        store = keeper.store()
        types = {event.type for session in store.sessions() for event in store.events(session)}
        deleted = list(store.events(generation.session("deleted")))
        long = list(store.events(generation.session("long")))
    assert set(generation.said["types"]) - types == set()
    assert {event.type for event in deleted if event.data is not None} <= {"session.deleted"}
    assert len(long) > 500


def test_waiting_payloads_become_events(generation: Generation) -> None:
    """The first call drains them, each at its own time."""
    known = {row["id"] for row in generation.facts("laptop")["history"]}
    program = generation.program("laptop", "waiting")
    session = program("status")["session"]
    assert session["id"] not in known
    assert session["goal"] == "Waits in the spool"
    assert [(native["agent"], native["id"]) for native in session["native"]] == [("claude", "waiting-talk")]
    assert session["created_at"] < generation.said["moment"]


def test_recording_continues_as_a_new_writer(generation: Generation) -> None:
    """Each home is a copy."""
    for home in HOMES:
        program = generation.program(home)
        for row in generation.facts(home)["history"][:3]:
            before = program("log", row["id"])["events"]
            allowed = home != "reader" and row["status"] in ("paused", "in_progress")
            program("resume", row["id"], "--force", "--no-sync", codes=(0,) if allowed else (0, 1))
            if not allowed:
                continue
            program("note", "Recorded by a later version")
            after = program("log", row["id"])["events"]
            assert [event["hash"] for event in after[: len(before)]] == [event["hash"] for event in before], home
            assert after[-1]["writer"] not in {event["writer"] for event in before}, home
            assert notes(program, row["id"])[-1] == "Recorded by a later version"
        program("start", "Begun by a later version", "--replace", codes=(0, 1))
        assert failed(program) == [], home


def test_work_trees_know_their_sessions(generation: Generation) -> None:
    """The main work tree and its linked one have sessions of their own."""
    tree = generation.program("laptop", "shop-tree")
    assert tree("status")["session"]["id"] == generation.session("work tree")
    assert generation.program("laptop", "long")("status")["session"]["id"] == generation.session("long")


def test_devices_and_guests_converge(generation: Generation) -> None:
    """All write and sync in both vaults; members and guests receive everything shared with them and nothing more."""
    people = {home: generation.program(home) for home in HOMES}
    shared, by_git = generation.session("travel: shared"), generation.session("travel: by-git")
    for home in (*DEVICES, "guest", "lost"):
        for session in (shared, by_git) if home != "lost" else (shared,):
            people[home]("resume", session, "--force", "--no-sync")
            people[home]("note", f"Later, by {home}")
    for session in ("read-only", "revoked"):
        people["laptop"]("resume", generation.session(f"travel: {session}"), "--force", "--no-sync")
        people["laptop"]("note", "Later, by the owner")
    for home in (*DEVICES, "guest", *DEVICES, "guest", "reader", "former", "lost", "laptop"):
        people[home]("sync")
    written = {f"Later, by {home}" for home in (*DEVICES, "guest")}
    for session in (shared, by_git):
        for home in (*DEVICES, "guest"):
            assert {note for note in notes(people[home], session) if note.startswith("Later")} == written, home
    everything = [{row["id"]: hashes(people[home], row["id"]) for row in _all(people[home])} for home in DEVICES]
    assert everything[0] == everything[1]
    for home, session, sees in (("reader", "read-only", True), ("former", "revoked", False)):
        seen = "Later, by the owner" in notes(people[home], generation.session(f"travel: {session}"))
        assert seen is sees, home
    assert _all(people["guest"]) != _all(people["laptop"])
    for home in HOMES:
        assert failed(people[home]) == [], home


def _all(program: Program) -> list[dict[str, Any]]:
    return list(program("history", "--all-projects", "--limit", "1000")["sessions"])


def test_recovery_code_opens_the_vault_for_a_new_device(generation: Generation) -> None:
    program = generation.program("new", "shop-of-desk")
    code = (generation.root / "recovery-code.txt").read_text()
    joined = program("remote", "add", "home", f"folder:{generation.root / 'vault'}", "--recover", stdin=code)
    assert joined["what"] == "member"
    program("sync")
    known = {row["id"] for row in generation.facts("desk")["history"]}
    assert {row["id"] for row in _all(program)} == known


def test_backup_is_restored(generation: Generation) -> None:
    """Completely into an empty home; nothing changes in its own."""
    file = str(generation.root / "backup.holdfast")
    fresh = generation.program("fresh", "shop")
    fresh("restore", file)
    earlier = generation.facts("laptop")
    assert {row["id"] for row in _all(fresh)} == {row["id"] for row in earlier["history"]}
    for session, known in earlier["sessions"].items():
        assert hashes(fresh, session) == [line.split()[1] for line in known["log"]]
    laptop = generation.program("laptop")
    before = {session: hashes(laptop, session) for session in earlier["sessions"]}
    laptop("restore", file)
    assert {session: hashes(laptop, session) for session in earlier["sessions"]} == before
    assert failed(fresh) == []


def test_mirrors_settle_without_a_change(generation: Generation) -> None:
    """Files of all four formats are what the present version would write; files in quarantine are still there."""
    project = generation.root / "projects" / "mirrored"
    program = generation.program("laptop", "mirrored")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file() and ".git/" not in str(path)}
    assert sum(".rejected-" in path.name for path in before) == 1
    session = program("status")["session"]["id"]
    log = hashes(program, session)
    mirrors = {item["format"]: item for item in program("mirror", "status")["mirrors"]}
    assert set(mirrors) == {"orchestrator", "timer", "contract", "craft"}
    assert all(mirror["paths"] and not mirror["changed_outside"] for mirror in mirrors.values()), mirrors
    assert {path: path.read_bytes() for path in before} == before
    assert hashes(program, session) == log == [
        line.split()[1] for line in generation.facts("laptop")["sessions"][session]["log"]
    ]  # fmt: skip
    program("note", "Shown by a later version")
    changed = {path.name for path in before if path.read_bytes() != before[path]}
    assert {"orchestrator-session.json", "session-state.json", "state.yaml"} & changed
    assert not program("mirror", "status")["mirrors"][0]["changed_outside"]


def test_backfill_finds_nothing_new(generation: Generation) -> None:
    """Transcripts of all eight agents are recognized, even without the record of how far they were read."""
    program = generation.program("laptop")
    assert [entry["events"] for entry in program("backfill")["backfill"]] == [0] * 8
    for path in (generation.root / "homes" / "laptop" / "backfilled").iterdir():
        path.unlink()
    known = {row["id"] for row in _all(program)}
    assert [entry["events"] for entry in program("backfill")["backfill"]] == [0] * 8
    assert {row["id"] for row in _all(program)} == known


def test_generation_contains_a_team(generation: Generation) -> None:
    """`tests/postgres/test_earlier_teams.py` opens the dump of its database."""
    assert all(generation.facts(role)["history"] for role in TEAM)
    assert (generation.root / "team.sql").stat().st_size > 0
