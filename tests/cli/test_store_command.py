"""`store`: setting up a team's store, its members, and whom sessions are shared with, on a real server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("only POSIX systems run the server", allow_module_level=True)

from tests.cli.team_server import Member, Town
from tests.support.postgres.fixtures import made_once, postgres
from tests.support.postgres.server import Server

__all__ = ["made_once", "postgres"]
SECRET = "hunter2-wonders"


@pytest.fixture(scope="module")
def town(postgres: Server) -> Iterator[Town]:
    """An empty database: the first test sets it up."""
    town = Town(postgres)
    yield town
    town.close()


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], town: Town) -> Member:
    return Member(tmp_path, monkeypatch, capsys, town)


@pytest.fixture
def settled(member: Member) -> Member:
    """With Ada and Ben in the vault."""
    member.document("store", "init", member.town.owner, "--admit", member.town.ada, "--admit", member.town.ben)
    return member


def test_store_init_sets_up_the_database(member: Member) -> None:
    """Nothing works before; repeating it is harmless, and it says what it did."""
    town = member.town
    member.be(town.ada)
    assert "holdfast store init" in member.refused(3, "status")["hint"]
    assert member.refused(3, "store", "init", town.owner, "--admit", "nobody-here")["kind"] == "not_found"
    made = member.document("store", "init", town.owner, "--admit", town.ada, "--partitions", "2")
    assert made["store"] == {"kind": "postgresql", "url": town.owner, "vault": "team"}
    assert made["done"][-1] == f"admitted {town.ada}"
    assert member.document("store", "init", town.owner, "--admit", town.ada)["done"] == []
    again = member("store", "init", town.owner)
    assert again.out == f"The store is already set up: {town.owner}\n"
    assert f"export HOLDFAST_STORE='{town.url('PERSON')}'" in again.err
    assert member("store", "init", town.owner, "--quiet").out == ""
    assert member.session("start", "Build the shop")["goal"] == "Build the shop"


def test_store_url_and_option_name_the_vault(member: Member, postgres: Server) -> None:
    """They must not differ; members of several vaults have to name one."""
    member.town = town = Town(postgres)
    member.document("store", "init", town.owner, "--admit", town.ada)
    made = member.document("store", "init", town.owner, "--vault", "blue team", "--admit", town.ada)
    assert (made["store"]["vault"], made["store"]["url"]) == ("blue team", f"{town.owner}&vault=blue%20team")
    assert member.document("store", "init", f"{town.owner}&vault=blue%20team", "--vault", "blue team")["done"] == []
    member.refused(4, "store", "init", f"{town.owner}&vault=red", "--vault", "blue team")
    for name in ("", " ", "x" * 64, "a\nb"):
        member.refused(4, "store", "init", town.owner, "--vault", name)
    member.be(town.ada)
    assert "?vault=NAME" in member.refused(4, "status")["hint"]
    member.at(f"{town.url(town.ada)}&vault=blue%20team")
    assert member.document("store", "show")["store"]["vault"] == "blue team"
    member.at(town.owner)
    assert "?vault=NAME" in member.refused(4, "store", "admit", town.ben)["hint"]
    town.close()


def test_store_show_describes_a_server(settled: Member) -> None:
    """Owner, current person, and rules; a superuser is warned."""
    town = settled.town
    settled.be(town.ada)
    shown = settled.document("store", "show")["store"]
    assert (shown["kind"], shown["url"], shown["there"]) == ("postgresql", town.url(town.ada), True)
    assert (shown["vault"], shown["person"]) == ("team", town.ada)
    assert {town.ada, town.ben, "postgres"} <= set(shown["people"])
    assert shown["partitions"] >= 1
    assert shown["bytes"] > 0
    assert (shown["bypasses_security"], shown["local"], shown["warnings"]) == (False, True, [])
    result = settled("store", "show")
    assert result.out.splitlines()[0] == town.url(town.ada)
    assert result.err == ""
    settled.at(town.owner)
    assert settled.document("store", "show")["store"]["bypasses_security"] is True
    assert "everybody's sessions" in settled("store", "show").err


def test_store_show_describes_a_file(member: Member) -> None:
    """And creates none."""
    shown = member.document("store", "show")["store"]
    assert (shown["kind"], shown["there"], shown["sessions"]) == ("sqlite", False, 0)
    assert not member.home.exists()
    assert "There is no store yet" in member("store", "show").out
    member.session("start", "Build the shop")
    shown = member.document("store", "show")["store"]
    assert (shown["url"], shown["sessions"], shown["events"]) == (f"sqlite:///{member.home}/store.db", 1, 1)
    assert shown["bytes"] > 0
    assert (shown["people"], shown["vault"], shown["encrypted"]) == ([], None, None)


def test_store_init_creates_a_file_without_people(member: Member, tmp_path: Path) -> None:
    """Team commands are refused, with a hint."""
    url = f"sqlite:///{tmp_path}/other.db"
    assert member.document("store", "init", url)["done"] == [f"made {tmp_path}/other.db"]
    assert member.document("store", "init", url)["done"] == []
    assert "postgresql://" in member.refused(1, "store", "init", url, "--vault", "team")["hint"]
    member.session("start", "Build the shop")
    for words in (
        ("admit", "ben"), ("dismiss", "ben"), ("share", "@", "ben"), ("unshare", "@", "--everyone"),
        ("partition", "4"),
    ):  # fmt: skip
        error = member.refused(1, "store", *words)
        assert error["kind"] == "refused"
        assert "store copy" in error["hint"]


def test_store_members_are_added_and_removed_by_the_owner_only(settled: Member) -> None:
    """A removed member sees nothing any more."""
    town = settled.town
    settled.be(town.eve)
    assert "store admit" in settled.refused(1, "status")["hint"]
    settled.at(town.url(town.ada))
    for words in (("admit", town.eve), ("dismiss", town.ben), ("partition", "3")):
        assert "owner of the tables" in settled.refused(1, "store", *words)["hint"]
    settled.at(town.owner)
    assert settled.document("store", "admit", town.eve) == {"holdfast": 1, "admitted": town.eve, "new": True}
    assert settled.document("store", "admit", town.eve)["new"] is False
    settled.refused(3, "store", "admit", "nobody-here")
    settled.be(town.eve)
    assert settled.goals() == []
    settled.at(town.owner)
    assert settled.document("store", "dismiss", town.eve)["dismissed"] == town.eve
    settled.refused(3, "store", "dismiss", town.eve)
    left = settled.document("store", "dismiss", town.eve, "--hand-over-to", town.ben)
    assert left == {"holdfast": 1, "dismissed": town.eve, "handed_over": 0}
    settled.be(town.eve)
    settled.refused(1, "history")


def test_store_share_grants_and_revokes_rights(settled: Member) -> None:
    """To one person to read, then to write, then to everyone, then to nobody."""
    town = settled.town
    settled.be(town.ada)
    goal = "Paint the shop"
    session = settled.session("start", goal, "--replace")["id"]

    def shared(*words: str) -> list[tuple[str | None, bool]]:
        settled.be(town.ada)
        document = settled.document("store", *words)
        assert document["session"] == session
        settled.be(town.ben)
        return [(match["person"], match["write"]) for match in document["shares"]]

    settled.be(town.ben)
    assert goal not in settled.goals()
    assert shared("share", session, town.ben, "--read-only") == [(town.ben, False)]
    assert goal in settled.goals()
    assert settled("show", session).code == 0
    settled.refused(1, "store", "share", session, town.ada)
    settled.refused(1, "resume", session)
    assert shared("share", session, town.ben) == [(town.ben, True)]
    assert settled("resume", session).code == 0
    assert settled("note", "blue").code == 0
    assert shared("unshare", session, town.ben) == []
    assert goal not in settled.goals()
    assert shared("share", "@", "--everyone", "--read-only") == [(None, False)]
    assert goal in settled.goals()
    assert shared("unshare", "@", "--everyone") == []
    assert goal not in settled.goals()
    settled.be(town.ada)
    assert settled("store", "share", "@", town.ben).out == f"{goal} is shared with {town.ben} (reads and writes)\n"
    assert "blue" in settled("show", session).out


def test_store_share_requires_a_member_or_everyone(settled: Member) -> None:
    town = settled.town
    settled.be(town.ada)
    settled.session("start", "Sell the shop", "--replace")
    settled.refused(2, "store", "share", "@")
    settled.refused(2, "store", "share", "@", town.ben, "--everyone")
    assert settled("store", "share", "@", "nobody-here").code in (1, 3)
    settled.refused(3, "store", "share", "ffffffff", town.ben)


def test_store_partition_keeps_every_event(settled: Member) -> None:
    """Impossible numbers are refused."""
    town = settled.town
    settled.be(town.ada)
    session = settled.session("start", "Divide the shop", "--replace")["id"]
    settled.at(town.owner)
    done = settled.document("store", "partition", "3")
    assert done["partitions"] == 3
    assert settled.document("store", "partition", "3")["before"] == 3
    assert "already" in settled("store", "partition", "3").out
    settled.refused(4, "store", "partition", "0")
    settled.at(town.url(town.ada))
    assert settled.session("show", session)["goal"] == "Divide the shop"
    assert settled.document("store", "show")["store"]["partitions"] == 3


def test_password_is_never_printed(settled: Member, tmp_path: Path) -> None:
    """Neither by success nor by failure."""
    town = settled.town
    url = town.url(town.ada, password=SECRET)
    away = f"postgresql://ada:{SECRET}@127.0.0.1:1/work"
    odd = f"postgresql://ada:{SECRET}@nowhere:port/work"
    settled.be(town.ada)
    settled.at(url)
    entries = [
        settled(*words, *how)
        for how in ((), ("--json",))
        for words in (
            ("store", "show"), ("store", "init", url), ("store", "admit", town.ben), ("store", "partition", "2"),
            ("store", "share", "@", town.ben), ("store", "copy", url, f"sqlite:///{tmp_path}/copy.db"),
            ("store", "copy", f"sqlite:///{tmp_path}/copy.db", url), ("--store", away, "store", "show"),
            ("store", "init", away), ("store", "copy", away, "home"), ("store", "init", odd),
        )
    ]  # fmt: skip
    assert {out.code for out in entries} >= {0, 1, 4, 7}
    assert SECRET not in " ".join(out.out + out.err for out in entries)


def test_missing_extra_is_named_by_every_server_command(settled: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    settled.be(settled.town.ada)
    for words in (("show",), ("init", settled.town.owner), ("admit", "ben"), ("copy", "home", settled.town.owner)):
        if words[0] == "copy":
            settled.at(None)
            settled.session("start", "Build the shop")
        assert "holdfast[postgres]" in settled.refused(1, "store", *words)["hint"]
