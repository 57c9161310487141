"""`conflicts`, `resolve` and `fork`, and `resume` after another device worked on the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.workspace import projects
from tests.support.command_line import Calling


class Pair(Calling):
    """Two homes on one machine, each a device with a work tree of its own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.repository()
        self.git("remote", "add", "origin", "https://example.org/shop.git")
        self.there = root / "elsewhere"
        self.git("clone", "-q", str(self.project), str(self.there), where=root)
        self.git("remote", "set-url", "origin", "https://example.org/shop.git", where=self.there)
        self.homes = {"laptop": root / "home", "desktop": root / "other-home"}
        self.places = {"laptop": self.project, "desktop": self.there}
        for device in ("desktop", "laptop"):
            self.at(device)
            self("config", "set", "device.name", device)

    def at(self, device: str) -> None:
        """Switches to this device."""
        self.patch.setenv("HOLDFAST_HOME", str(self.homes[device]))
        self.patch.chdir(self.places[device])

    def meet(self) -> None:
        keepers = {
            name: Keeper.open(str(self.places[name]), home=str(home), device=name)
            for name, home in self.homes.items()
        }
        with keepers["laptop"] as laptop, keepers["desktop"] as desktop:
            for source, target in ((laptop, desktop), (desktop, laptop)):
                sessions = list(source.store().sessions())
                with target.store().transaction() as transaction:
                    transaction.receive(event for session in sessions for event in source.store().events(session))
                    for session in sessions:
                        projects.learn_project(target, transaction, transaction.state(session))


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pair:
    return Pair(tmp_path, monkeypatch, capsys)


def conflicting_goals(pair: Pair) -> str:
    """A session that is current on both devices, which set different goals; the laptop is the current device."""
    session = str(pair.session("start", "Build the shop")["id"])
    pair.meet()
    pair.at("desktop")
    pair.session("resume", session)
    pair.session("edit", "--goal", "Ship on Monday")
    pair.session("agent", "start", "arch-1", "--type", "architect")
    pair.at("laptop")
    pair.session("edit", "--goal", "Ship on Friday", "--progress", "0.4")
    pair.meet()
    return session


def open_conflict(pair: Pair) -> dict[str, Any]:
    (conflict,) = pair.document("conflicts")["conflicts"]
    return dict(conflict)


def test_conflicts_json_has_the_conflicts_and_each_side(pair: Pair) -> None:
    session = conflicting_goals(pair)
    document = pair.document("conflicts")
    assert document["session"] == session
    assert document["conflicts"] == pair.session("status")["conflicts"]
    (conflict,) = document["conflicts"]
    assert set(conflict) == {"id", "field", "values", "chosen"}
    (sides,) = document["sides"]
    assert sides["conflict"] == conflict["id"]
    assert conflict["values"][sides["stands"] - 1]["value"] == pair.session("status")["goal"]
    shown = {
        item["device"]: (item["value"], side["progress"], side["agents"])
        for item, side in zip(conflict["values"], sides["values"], strict=True)
    }
    assert shown == {"laptop": ("Ship on Friday", 0.4, []), "desktop": ("Ship on Monday", 0.0, ["arch-1"])}
    assert pair.document("conflicts", session[:8]) == document


def test_conflicts_lists_numbered_values_and_the_command(pair: Pair) -> None:
    """With device, time, progress and agents of each, and which one counts."""
    conflicting_goals(pair)
    out = pair("conflicts")
    name = open_conflict(pair)["id"]
    assert out.code == 0
    for words in (name, "goal", "open", "1. Ship on", "2. Ship on", "in effect", "laptop", "desktop",
                  "40% done there", "arch-1 at work", "just now"):  # fmt: skip
        assert words in out.out, words
    assert f"holdfast resolve {name} --take N" in out.err
    assert "holdfast fork" in out.err
    pair.session("resolve", name, "--take", "1")
    settled = pair("conflicts")
    assert "settled" in settled.out
    assert "chosen" in settled.out
    assert settled.err == ""


def test_conflicts_of_a_session_without_any_is_an_empty_list(pair: Pair) -> None:
    """Without a session, exit code 3."""
    pair.refused(3, "conflicts")
    pair.session("start", "G")
    assert (pair.document("conflicts")["conflicts"], pair("conflicts").out) == ([], "No conflicts.\n")


def test_conflicts_shows_a_session_completed_on_another_device(pair: Pair) -> None:
    """It is not current any more; `status` names it, and elsewhere a hint does."""
    session = conflicting_goals(pair)
    pair.at("desktop")
    pair.session("agent", "done", "arch-1")
    pair.session("stop")
    pair.meet()
    pair.at("laptop")
    assert pair.document("status") == {"holdfast": 1, "session": None}
    assert f"holdfast conflicts {session[:8]}" in pair("status").out
    result = pair("conflicts")
    assert "goal" in result.out
    assert f"--take N {session[:8]}" in result.err
    for conflict in pair.document("conflicts")["conflicts"]:
        pair.document("resolve", conflict["id"], "--take", "1")
    assert "conflicts" not in pair("status").out


def test_conflicts_names_other_sessions_with_open_conflicts(pair: Pair) -> None:
    """When the session has none."""
    session = conflicting_goals(pair)
    pair.session("start", "Something else", "--replace")
    result = pair("conflicts")
    assert result.out == "No conflicts.\n"
    assert f"holdfast conflicts {session[:8]}" in result.err
    with (
        Keeper.open(str(pair.project), home=str(pair.homes["laptop"])) as keeper,
        keeper.transaction() as transaction,
    ):
        transaction.set_current(keeper.place.root, None)
    assert session[:8] in pair.refused(3, "conflicts")["hint"]


def test_resolve_sets_the_value_of_the_number(pair: Pair) -> None:
    """An unknown conflict is 3, a wrong number 4, the same choice again 5."""
    session = conflicting_goals(pair)
    conflict = open_conflict(pair)
    pair.refused(2, "resolve", conflict["id"])
    pair.refused(3, "resolve", "00000000", "--take", "1")
    pair.refused(4, "resolve", conflict["id"], "--take", "0")
    pair.refused(4, "resolve", conflict["id"], "--take", "3")
    pair.refused(4, "resolve", conflict["id"], "--take", "x")
    document = pair.document("resolve", conflict["id"], "--take", "2", session)
    assert document["session"]["goal"] == conflict["values"][1]["value"]
    assert document["conflict"] == {**conflict, "chosen": 2} == open_conflict(pair)
    assert pair.refused(5, "resolve", conflict["id"], "--take", "2")["session"] == session
    out = pair("resolve", conflict["id"], "--take", "1")
    assert (out.code, out.out) == (0, f"Settled {conflict['id']}  goal: {conflict['values'][0]['value']}\n")
    pair.meet()
    pair.at("desktop")
    assert pair.session("status")["goal"] == conflict["values"][0]["value"]


def test_fork_starts_a_session_with_this_devices_values(pair: Pair) -> None:
    """It is current and continues the other."""
    session = conflicting_goals(pair)
    pair.session("task", "add", "Later")
    before = pair.document("log", session)
    fork = pair.session("fork")
    assert (fork["continues"], fork["goal"], fork["device"]) == (session, "Ship on Friday", "laptop")
    assert [task["text"] for task in fork["tasks"]] == ["Later"]
    assert pair.session("status")["id"] == fork["id"]
    assert pair.document("log", session) == before
    pair.refused(3, "fork", "0000aaaa")
    pair.at("desktop")
    out = pair("fork", session)
    assert out.code == 0
    assert "Ship on Monday" in out.out
    assert f"from {session[:8]}" in out.out


def test_resume_reports_differences_and_refuses_unsafe_ones(pair: Pair) -> None:
    """With the commands that resolve them."""
    session = str(pair.session("start", "Build the shop")["id"])
    (pair.project / "a.py").write_text("x\n")
    pair.session("file", "a.py", "--action", "created")
    pair.meet()
    pair.at("desktop")
    (pair.there / "mess.txt").write_text("x")
    error = pair.refused(1, "resume", session)
    assert "a.py" in error["message"]
    assert f"holdfast resume {session[:8]} --force" in error["hint"]
    pair.refused(1, "continue")
    assert pair.document("status")["session"] is None
    (pair.there / "a.py").write_text("x\n")
    document = pair.document("resume", session)
    assert [set(item) for item in document["ground"]] == [{"what", "detail", "fix", "blocking"}]
    assert (document["ground"][0]["what"], document["ground"][0]["blocking"]) == ("dirty", False)
    assert pair.document("resume", session)["ground"] == []  # by now this device was the last to work on it


def test_resume_prints_differences_on_stderr(pair: Pair) -> None:
    """Next to the briefing on standard output."""
    session = str(pair.session("start", "Build the shop")["id"])
    pair.meet()
    pair.at("desktop")
    (pair.there / "mess.txt").write_text("x")
    out = pair("resume", session)
    assert out.code == 0
    assert out.out.startswith("RESUMING SESSION")
    assert "mess.txt" in out.err
    assert "git stash" in out.err


def test_resume_force_continues_with_all_differences_reported(pair: Pair) -> None:
    session = str(pair.session("start", "Build the shop")["id"])
    (pair.project / "a.py").write_text("x\n")
    pair.session("file", "a.py", "--action", "created")
    pair.meet()
    pair.at("desktop")
    document = pair.document("resume", session, "--force")
    assert [(item["what"], item["blocking"]) for item in document["ground"]] == [("files", True)]
    assert document["session"]["status"] == "in_progress"


def test_resume_device_chooses_that_devices_values(pair: Pair) -> None:
    """With an id or without."""
    session = conflicting_goals(pair)
    pair.refused(3, "resume", session, "--device", "phone")
    pair.refused(3, "resume", "--device", "phone")
    assert pair.session("resume", "--device", "desktop")["goal"] == "Ship on Monday"
    assert [item["chosen"] is None for item in pair.session("status")["conflicts"]] == [False]
    other = pair.session("start", "Another", "--replace")["id"]
    assert pair.session("resume", "--device", "desktop")["id"] == session
    assert pair.session("resume", "--device", "laptop")["id"] in (session, other)


def test_choice_is_shown_in_the_log(pair: Pair) -> None:
    conflicting_goals(pair)
    pair.session("resolve", open_conflict(pair)["id"], "--take", "1")
    out = pair("log", "--type", "conflict.resolved", "--json")
    (event,) = json.loads(out.out)["events"]
    assert event["data"]["field"] == "goal"
    assert event["data"]["value"]
