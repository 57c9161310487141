"""F2, F3 and F13 for `connect`, `disconnect`, `uninstall` and `init`, which edit files of other programs.

Killed or refused at any call, each settings file is the old or the new one as a whole; another run finishes it; and
disconnecting restores every byte and every directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.machine import files
from tests.faults.harness import invariants
from tests.faults.harness.figures import record_figures
from tests.faults.harness.tracing import WATCH, injected, require_strace
from tests.faults.harness.verb_checks import (
    assert_no_traceback,
    assert_old_or_new,
    assert_recovers,
    record_baseline,
    sampled,
)
from tests.faults.harness.verbs import AGENTS, VERBS, Verb
from tests.faults.harness.warm_sandbox import WarmSandbox
from tests.faults.sandbox import Sandbox, tree
from tests.faults.test_errno import assert_exit_code_matches_state, faults
from tests.support.scale import scale

CONNECTING = ("connect", "disconnect", "uninstall", "init")
CHOSEN = [pytest.param(verb, id=" ".join(verb.argv)) for verb in VERBS if verb.argv[0] in CONNECTING]
KILLS = scale(3, 10_000, 10_000)
FAULTS = scale(3, 60, 10_000)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


def agent_files(sandbox: WarmSandbox) -> dict[str, bytes | None]:
    """The agents' directories, temporary files included."""
    contents: dict[str, bytes | None] = {}
    for own in invariants.AGENTS:
        path = Path(sandbox.root, own)
        if path.exists():
            contents |= {own: None, **{f"{own}/{name}": content for name, content in tree(path).items()}}
    contents |= {
        own: Path(sandbox.root, own).read_bytes()
        for own in invariants.SINGLE_FILES
        if Path(sandbox.root, own).is_file()
    }
    return contents


def before_holdfast(sandbox: WarmSandbox, verb: Verb) -> dict[str, bytes | None]:
    sandbox.prepare([step for step in verb.before if step[0] == "write"])
    return agent_files(sandbox)


def assert_disconnect_restores(sandbox: WarmSandbox, original: dict[str, bytes | None]) -> None:
    """No temporary file, no directory and no byte is left."""
    answer = sandbox.run(("disconnect", *AGENTS))
    assert answer.code == 0, answer.err
    assert agent_files(sandbox) == original
    assert sandbox.run(("uninstall",)).code == 0
    assert agent_files(sandbox) == original
    assert not [name for name in os.listdir(sandbox.home) if "trial" in name]
    for own in ("hooks", "connections"):
        # Temporary files of a killed writer may still be there.
        left = [path.name for path in Path(sandbox.home, own).glob("*")]
        assert all(name.startswith(files.PREFIX) for name in left), left


@pytest.mark.parametrize("verb", CHOSEN)
def test_verb_survives_a_kill_at_any_call(sandbox: WarmSandbox, verb: Verb) -> None:
    """Killed at any call that changes a disk."""
    original = before_holdfast(sandbox, verb)
    baseline = record_baseline(sandbox, verb)
    chosen = sampled(baseline.calls, KILLS, seed=len(verb.name))
    for call in chosen:
        sandbox.prepare(verb.before)
        answer = sandbox.run(verb.argv, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        try:
            assert answer.code == -9, f"the kill was not injected: {answer.code} {answer.err}"
            assert_files_whole(sandbox, baseline.before, baseline.after)
            assert_recovers(sandbox, baseline, assert_old_or_new(sandbox, baseline))
            assert_disconnect_restores(sandbox, original)
        except Exception as error:
            error.add_note(f"{verb.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb=" ".join(verb.argv), kills=len(chosen))


@pytest.mark.parametrize("verb", CHOSEN)
def test_verb_survives_any_failed_call(sandbox: WarmSandbox, verb: Verb) -> None:
    """Whatever call fails, once or permanently: an error message, and no torn file."""
    original = before_holdfast(sandbox, verb)
    baseline = record_baseline(sandbox, verb)
    # An empty directory that cannot be removed is no reason to fail.
    injectable = [fault for fault in faults(baseline) if fault.call.name != "rmdir"]
    chosen = sampled(injectable, FAULTS, seed=len(verb.name))
    for fault in chosen:
        sandbox.prepare(verb.before)
        answer = sandbox.run(verb.argv, strace=("-e", WATCH, "-e", fault.option))
        try:
            assert injected(answer.trace), "the error was not injected"
            assert_files_whole(sandbox, baseline.before, baseline.after)
            assert_no_traceback(answer, silent=True)
            assert_recovers(
                sandbox, baseline, assert_exit_code_matches_state(sandbox, baseline, answer, to_person=True)
            )
            assert_disconnect_restores(sandbox, original)
        except Exception as error:
            error.add_note(f"{verb.name}, {fault.option}: {fault.call.line}")
            error.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    record_figures(fault="F3", verb=" ".join(verb.argv), injections=len(chosen))


def assert_files_whole(sandbox: WarmSandbox, before: invariants.View, after: invariants.View) -> None:
    """Each file by itself is what it was, or what it becomes."""
    old, new = dict(before.agents), dict(after.agents)
    for name, content in invariants.agents_files(sandbox.root):
        assert content in (old.get(name, content if name not in new else None), new.get(name)), f"{name} is torn"
        assert name in old or name in new, f"{name} was not expected"


# ── planted links ────────────────────────────────────────────────────────────────────────────────────────


def test_connect_follows_a_users_symlink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dotfiles: the link stays, the file it points to is edited, and restored by `disconnect`."""
    sandbox = Sandbox(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    kept = tmp_path / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text('{"model": "opus"}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").symlink_to(kept)
    assert sandbox.call("connect", "claude").code == 0
    assert (tmp_path / ".claude" / "settings.json").is_symlink()
    assert "holdfast" in kept.read_text()
    assert sandbox.call("disconnect", "claude").code == 0
    assert kept.read_text() == '{"model": "opus"}'
    assert (tmp_path / ".claude" / "settings.json").is_symlink()


@pytest.mark.parametrize("spot", ["hooks/hook", "hooks/ask.py", "connections/claude-user.json", "connections/.lock"])
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_connect_never_writes_through_what_is_planted_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spot: str, kind: str
) -> None:
    """It is refused with a message or replaced; its target and the settings are unchanged."""
    sandbox = Sandbox(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude" / "settings.json"
    settings.write_text('{"model": "opus"}')
    path = sandbox.home / spot
    path.parent.mkdir(mode=0o700, parents=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "hard link":
        os.link(victim, path)
    else:
        os.mkfifo(path)
    for _ in range(2):
        answer = sandbox.run("connect", "claude", timeout=30)  # a process of its own: a hang can be ended
        assert answer.code in (0, 1, 4, 6), answer
        assert victim.read_bytes() == b"precious"
        assert json.loads(settings.read_text())["model"] == "opus"
        if answer.code:
            assert settings.read_text() == '{"model": "opus"}'
        sandbox.call("disconnect", "claude")
        sandbox.call("uninstall")
        assert victim.read_bytes() == b"precious"
    assert files.temporaries(str(tmp_path / ".claude")) == []
    path.unlink(missing_ok=True)
    assert sandbox.call("connect", "claude").code == 0
    assert sandbox.call("disconnect", "claude").code == 0
    assert settings.read_text() == '{"model": "opus"}'
