"""F11: hostile ids and paths as every argument that takes one: documented codes, no traceback, no file
anywhere else.
"""

from __future__ import annotations

import random
from pathlib import Path

from holdfast.core.text import _ID
from tests.faults.sandbox import Sandbox, tree
from tests.support.scale import scale

PARTS = [
    "..", "../", "../../", "/", "//", "\\", "..\\", "~", "~root", "/etc/passwd", "/dev/null", "C:\\",
    "\\\\host\\share", "file:///etc/passwd",
    "%2e%2e%2f", "%00", "..%c0%af", "....//", "./", ".", ".git", ".git/config", "-rf", "--help", "-", "$HOME",
    "`id`", "$(id)", "|id", ";id",
    "&&id", "> x", "<x", "'", '"', "' OR 1=1 --", "); DROP TABLE events; --", "UNION SELECT", "*", "?", "[a]",
    "{a,b}", "\n", "\r", "\t", "\x1b[2J",
    "\x07", "\u202e", "\ufeff", "ａ", "é", "e\u0301", "𝒶", "CON", "NUL", "aux.txt", "COM1", "a:b", "a::$DATA", " ",
    "", "\u2024\u2024\u2215",
    "store.db", "../home/store.db", "writer.json", "config.toml", "@", "@@", "null", "None", "undefined", "0", "-1",
    "NaN", "1e9", "true",
    "<script>", "javascript:x", "{{7*7}}", "${jndi:ldap://x}", "%s%n", "A" * 101, "A" * 255, "A" * 5000,
    "../" * 50 + "etc/passwd",
]  # fmt: skip
ENTRIES: dict[str, list[str]] = {
    "agent start": ["agent", "start", "--type=t", "--", "ID"], "agent done": ["agent", "done", "--", "ID"],
    "agent progress": ["agent", "progress", "--", "ID", "0.5"], "agent retry": ["agent", "retry", "--", "ID"],
    "agent fail": ["agent", "fail", "--category=logical", "--message=m", "--", "ID"],
    "blocking": ["agent", "start", "x", "--type=t", "--blocking-on=ID"],
    "task add": ["task", "add", "x", "--id=ID"], "task done": ["task", "done", "--", "ID"], "task agent": ["task",
    "add", "x", "--agent=ID"],
    "artifact": ["task", "done", "t1", "--artifact=ID"], "phase": ["task", "add", "x", "--phase=ID"],
    "file": ["file", "--action=modified", "--", "ID"], "file agent": ["file", "f", "--action=deleted", "--agent=ID"],
    "context": ["context", "--tokens=1", "--agent=ID"], "show": ["show", "--", "ID"], "status": ["status", "--",
    "ID"],
    "resume": ["resume", "--", "ID"], "log": ["log", "--", "ID"], "log type": ["log", "--type=ID"],
    "archive": ["archive", "--", "ID"],
    "delete": ["delete", "--confirm", "--force", "--", "ID"], "briefing": ["briefing", "--", "ID"],
    "continues": ["start", "x",
    "--replace", "--continues=ID"],
    "feature": ["start", "x", "--replace", "--feature=ID"], "hill": ["hill", "--", "ID", "3"], "project": ["status",
    "--project=ID"],
    "search": ["history", "--search=ID"], "config get": ["config", "get", "--", "ID"], "config set": ["config",
    "set", "--", "ID", "1"],
    "plan": ["plan", "import", "--", "ID"], "restore": ["restore", "--", "ID"], "run agent": ["run", "--agent=ID",
    "--", "true"],
}  # fmt: skip
# Ids of agents and tasks: anything outside the allowed alphabet is exit code 4.
RESTRICTED = {"agent start", "agent done", "agent progress", "agent retry", "agent fail", "blocking", "task add",
    "task done",
          "task agent", "file agent", "context", "run agent"}  # fmt: skip


def hostile_ids() -> list[str]:
    """At least 500: every part, combinations of parts, parts around a harmless name."""
    rng = random.Random(11)
    ids = list(PARTS)
    ids += [f"a{part}b" for part in PARTS] + [part + "a" for part in PARTS] + ["a" + part for part in PARTS]
    while len(set(ids)) < 520:
        ids.append("".join(rng.choices(PARTS, k=rng.randrange(2, 4)))[:6000])
    return list(dict.fromkeys(ids))


def test_commands_refuse_hostile_ids_without_touching_other_files(tmp_path: Path) -> None:
    """Documented codes, 4 outside the alphabet, and no file outside home and project."""
    ids = hostile_ids()
    assert len(ids) >= 500
    wanted = scale(26, 520, len(ids))
    chosen = (
        ids
        if wanted >= len(ids)
        else [*random.Random(1).sample(PARTS, wanted // 2), *random.Random(2).sample(ids, wanted // 2)]
    )
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("precious")
    before = {name: body for name, body in tree(tmp_path).items() if not name.startswith("home/")}
    for identity in chosen:
        for entry, words in ENTRIES.items():
            answer = sandbox.call(*[word.replace("ID", identity) if "ID" in word else word for word in words])
            assert not {name for name in answer.out + answer.err if ord(name) < 32 and name != "\n"}, (
                entry,
                ascii(identity),
            )
            if entry in RESTRICTED and not _ID.match(identity):
                assert answer.code == 4, (entry, ascii(identity), answer)
            if entry == "delete" and answer.code == 0:
                assert sandbox.call("start", "G").code == 0  # `@` is a valid id, and was deleted
    after = {name: body for name, body in tree(tmp_path).items() if not name.startswith("home/")}
    assert after == before
    known = {"store.db", "store.db-wal", "store.db-shm", "writer.json", "config.toml"}
    assert {path.name for path in sandbox.home.iterdir()} <= known
    sandbox.assert_sound()


def test_commands_refuse_hostile_store_urls_without_touching_other_files(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    (tmp_path / "precious").write_text("precious")
    for identity in hostile_ids()[: scale(60, 520, 10_000)]:
        if "\0" in identity:
            continue
        # Nothing listens at that port of this machine, so a valid name ends there.
        for url in (identity, f"sqlite://{identity}", f"postgresql://127.0.0.1:9/{identity}"):
            if url.startswith("sqlite:///"):
                continue  # a valid path that the user asked for
            answer = sandbox.call("note", "x", f"--store={url}")
            assert answer.code in (1, 2, 3, 4) or (answer.code == 7 and url.startswith("postgresql:")), (
                ascii(url),
                answer,
            )
    assert {path.name for path in tmp_path.iterdir()} == {"project", "precious"}
