"""Documents from outside, broken in every way: an error of ours or an answer, never a traceback, in
limited memory.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.formats import registry
from holdfast.formats.recovery.parse import recover_document
from holdfast.formats.text import read
from holdfast.formats.text.nodes import MAX_LEVELS
from tests.faults.fuzz import document_path
from tests.support import spec_examples
from tests.support.scale import scale

FILES = spec_examples.files()
MIB = 1 << 20


def path_of(name: str) -> str:
    return name if "." in name else f"{name}.json"


def sample(count: int, wanted: int, seed: str) -> list[int]:
    """All positions, or a reproducible sample of them."""
    if wanted >= count:
        return list(range(count))
    return sorted(random.Random(seed).sample(range(count), wanted))


@pytest.mark.parametrize("name", FILES)
def test_document_truncated_at_any_byte_is_handled(name: str) -> None:
    raw = FILES[name]
    for cut in sample(len(raw) + 1, scale(60, 600, 10**9), name):
        document_path.process_file(raw[:cut], path_of(name))


@pytest.mark.parametrize("name", FILES)
def test_document_with_any_byte_changed_is_handled(name: str) -> None:
    raw = FILES[name]
    rng = random.Random(name)
    for at in sample(len(raw), scale(60, 600, 10**9), name):
        changed = bytearray(raw)
        changed[at] = rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 0x22, 0x7B))
        document_path.process_file(bytes(changed), path_of(name))


def documents() -> dict[str, Any]:
    """Every document with its format; the contract's files also in their combined form."""
    state, plan, registry_ = (read.read_yaml(raw, name).value for name, raw in spec_examples.YAML_FILES.items())
    line = json.loads(spec_examples.CONTRACT_HISTORY)
    assert isinstance(registry_, dict)
    entries = registry_["active_features"]
    assert isinstance(entries, list)
    together = {"state": state, "plan": plan, "entry": entries[0], "history": [line]}
    return {**spec_examples.documents(), "contract": together, "contract state": state, "contract plan": plan}


ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**18, 2**53, "", "x", "2025-02-30T00:00:00Z", "9999-12-31T23:59:60Z",
    "0001-01-01T00:00:00+14:00", [], {}, [None], [[]], {"": None}, ["x", "x"], {"id": {}}, "a" * 5000,
    "\u202e\U0001f600", "../../etc/passwd", "\x1b[2J",
]  # fmt: skip


def swapped(value: Any, odd: list[Any]) -> Iterator[Any]:
    """The document with each of its parts replaced by another value, one at a time."""
    yield from odd
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {other: item for other, item in value.items() if other != key}
            yield from ({**value, key: other} for other in swapped(inner, odd))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from ([*value[:position], other, *value[position + 1 :]] for other in swapped(inner, odd))


@pytest.mark.parametrize("name", documents())
def test_document_with_any_part_replaced_is_handled(name: str) -> None:
    """The format repairs it, or refuses it with a message."""
    rules = registry.format_named(name.split(maxsplit=1)[0])
    every = list(swapped(documents()[name], ODD))
    for number in sample(len(every), scale(300, 3000, 10**9), name):
        document_path.process(every[number], rules)
        document_path.salvage(every[number])


@pytest.mark.parametrize("name", spec_examples.JSON_FILES)
def test_duplicate_keys_are_refused_when_read_and_recovered(name: str) -> None:
    raw = spec_examples.JSON_FILES[name]
    twice = raw.replace(b'"status"', b'"status": "x", "status"', 1)
    with pytest.raises(Invalid, match="duplicate key"):
        read.read_json(twice, "x.json")
    assert recover_document(twice).value == json.loads(raw)


def test_deep_nesting_is_refused() -> None:
    for depth in (MAX_LEVELS + 2, 1000, 100_000):
        for raw in (
            b"[" * depth + b"]" * depth,
            b'{"agents":' * depth + b"1" + b"}" * depth,
            b"- " * min(depth, 1000) + b"x",
        ):
            with pytest.raises(Invalid, match="nested too deeply"):
                read.read(raw, "x.yaml" if raw.startswith(b"-") else "x.json")
            document_path.recover(raw)


def test_size_limit_is_reported() -> None:
    raw = b'{"goal": "' + b"x" * (64 * MIB) + b'"}'
    for attempt in (read.read_json, read.read_yaml, recover_document):
        with pytest.raises(Invalid, match="4 MiB"):
            attempt(raw, "x.json")


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: !!python/object/apply:os.system ['true']\n",
        "a: !thing {}\n",
        "a: 1\na: 2\n",
        "? [a]\n: 1\n",
        "--- 1\n--- 2\n",
        "a: .nan\n",
        "%YAML 9.9\n---\na: 1\n",
        "<<: {a: 1}\n",
        "a: |\n  x\n b\n",
        "x: " + "&a [" * 20 + "]" * 20,
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
    ],
)
def test_yaml_with_unsupported_features_is_handled(text: str) -> None:
    document_path.process_file(text.encode(), "state.yaml")
    for part in range(0, len(text), 7):
        document_path.process_file(text[:part].encode(), "state.yaml")


NASTY = {
    "empty lists": b'{"a":[' + b"[]," * (MIB * 4 // 3 - 10),
    "empty objects": b"[" + b"{}," * (MIB * 4 // 3 - 10),
    "short keys": b"{" + b",".join(b'"%d":0' % number for number in range(MIB * 4 // 12)),
    "open brackets": b"[" * (MIB * 4),
    "quotes": b'"\\' * (MIB * 2),
    "escaped": b'{"a":"' + b"\\u00e9" * (MIB * 4 // 6 - 10),
    "mojibake": b'{"a":"' + "Ã©".encode() * (MIB - 10) + b'"',
    "within a string": json.dumps('{"a":"' + "\\" * (MIB - 10)).encode(),
    "zeros": b'{"a":1,' + b"\0" * (MIB * 4 - 20) + b'"b":2}',
    "zeros here and there": b'{"a":1,' + b"\0x" * (MIB * 2 - 20),
    "small documents": b'{"a":1}\n' * (MIB // 2 - 1) + b"x",
    "yaml": b"a: b\n" * 50_000 + b"x: [",
    "long text": b'{"a": "' + b"x" * (4 * MIB - 20) + b'"}',
}
# Those that do not take seconds; the one that takes the most memory is among them.
QUICK = ("short keys", "quotes", "escaped", "mojibake", "within a string", "zeros", "long text")


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory a process had is read from /proc")
@pytest.mark.parametrize("name", list(NASTY) if scale(0, 1, 1) else QUICK)
def test_any_4_mib_document_is_processed_in_256_mib(name: str, tmp_path: Path) -> None:
    """A process that reads and recovers it, including the interpreter."""
    file = tmp_path / ("nasty.yaml" if name == "yaml" else "nasty.json")
    file.write_bytes(NASTY[name])
    program = textwrap.dedent(
        """
        import sys
        from holdfast.core.errors import HoldfastError
        from holdfast.formats.text import read
        from holdfast.formats.recovery.parse import recover_document
        raw = open(sys.argv[1], "rb").read()
        try:
            read.read(raw, sys.argv[1])
        except HoldfastError:
            pass
        document = recover_document(raw, sys.argv[1])
        assert document.whole or document.notes
        # What `getrusage` says includes the process we were forked from.
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
        """
    )
    words = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) * 1024 < 256 * MIB
