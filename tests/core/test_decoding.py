"""Threads decode safely because each type is prepared once, under a lock."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
# Eight threads decode into a type that is new to all of them, again and again.
THREADS = """
import sys, threading
import msgspec
from holdfast.core.decode import decodable
sys.setswitchinterval(1e-6)

def nested():
    kind = None
    for number in range(40):
        fields = [("a", int), ("b", "list[int]")] + ([("c", kind)] if kind else [])
        kind = msgspec.defstruct(f"Kind{number}", fields)
    return kind

def decode(kind):
    try:
        msgspec.json.Decoder(decodable(kind)).decode(b'{"a":1,"b":[1],"c":{"a":1,"b":[1],"c":{}}}')
    except msgspec.ValidationError:
        pass

for _ in range(20):
    kind = nested()
    threads = [threading.Thread(target=decode, args=(kind,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_can_decode_a_new_type_at_once() -> None:
    """Without `decodable` the interpreter crashes here."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_decoder_in_the_code_uses_decodable() -> None:
    """Every call of msgspec that takes a type gets it from `decodable`."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in SOURCE.rglob("*.py")
        if path.name != "decode.py"
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and not all(_uses_decodable(kind) for kind in _types(call))
    ]
    assert wrong == []


def _types(call: ast.Call) -> list[ast.expr]:
    """The types that a call of msgspec decodes into."""
    name = ast.unparse(call.func)
    if name in ("msgspec.json.Decoder", "msgspec.msgpack.Decoder"):
        return call.args[:1]
    if name == "msgspec.convert":
        return call.args[1:2]
    if name in ("msgspec.json.decode", "msgspec.msgpack.decode"):
        return [word.value for word in call.keywords if word.arg == "type"]
    return []


def _uses_decodable(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Call) and ast.unparse(kind.func) == "decodable"
