"""F21: too little memory: a command may fail, the store may not be damaged."""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

import pytest

from tests.faults.sandbox import Sandbox
from tests.support.scale import scale

MIB = 1 << 20
VALUES = [value * MIB for value in range(64, 513, 4)]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")


def chosen() -> list[int]:
    count = scale(4, 20, len(VALUES))
    return (
        VALUES
        if count >= len(VALUES)
        else sorted({VALUES[0], VALUES[-1], *random.Random(21).sample(VALUES, count - 2)})
    )


def test_store_stays_sound_under_any_memory_limit(tmp_path: Path) -> None:
    """RLIMIT_AS from 64 to 512 MiB: what was acknowledged is there, nothing is partial, the next command works."""
    sandbox = Sandbox(tmp_path)
    assert sandbox.call("start", "G").code == 0
    acknowledged: list[str] = []
    tried: list[str] = []
    for limit in chosen():

        def limited(most: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        for number in range(2):
            text = f"{limit} {number} " + "x" * 100_000
            tried.append(text)
            if sandbox.run("note", text, preexec_fn=limited).code == 0:
                acknowledged.append(text)
        sandbox.run("status", preexec_fn=limited)
        sandbox.assert_sound()
        with sandbox.keeper() as keeper:
            keeper.session().note(f"unlimited {limit}")
            texts = [note.text for note in keeper.session().document().notes]
        kept = [text for text in texts if not text.startswith("unlimited")]
        assert kept == [text for text in tried if text in kept], limit  # each whole, once, in order
        assert set(acknowledged) <= set(kept), limit
    assert acknowledged  # with 512 MiB it works


def test_transaction_has_no_effect_when_memory_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it fails: exit code 1."""
    from holdfast.store.journal import Journal
    from holdfast.store.sqlite.tables import SqliteTables

    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")

    def out_of_memory(*_: object, **__: object) -> None:
        raise MemoryError

    for place, name in ((Journal, "flush"), (SqliteTables, "insert"), (SqliteTables, "save"), (Journal, "record")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, out_of_memory)
            answer = sandbox.call("note", "x")
            assert answer.code == 1
            assert "memory" in answer.err
    with sandbox.keeper() as keeper:
        assert keeper.session().document().notes == []
    sandbox.assert_sound()
