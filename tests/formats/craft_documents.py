"""Craft documents for the tests: arbitrary valid ones, what an agent makes of one, and the text's own example."""

from __future__ import annotations

import copy
import json
import random

from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.times import format_time as written
from holdfast.formats.base import Document
from tests.support import spec_examples

START = 1_768_660_200_000  # 2026-01-17T14:30:00Z
HOUR = 3_600_000

# Words that tell nothing but are text; now and then none at all, or text that programs trip over. No NUL: the store
# refuses that, and says so.
words = st.one_of(
    st.sampled_from(["Design the flow", "Add tests", "Update docs", "JWT", "Zürich – 東京 👍", "a\nb", "", " "]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
)
nonblank = words.filter(lambda text: bool(text.strip()))
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,8}", fullmatch=True)
counts = st.one_of(st.integers(0, 50), st.sampled_from([25_000, 2**53 - 1]))
fractions = st.one_of(st.sampled_from([0, 1, 0.0, 1.0, 0.65]), st.floats(0, 1, allow_nan=False))
hashes = st.one_of(st.none(), st.sampled_from(["a" * 64, "0123456789abcdef" * 4]))
paths = st.sampled_from(["src/a.py", "./b.py", "docs/ä b.md", ".github/ci.yml", "src\\win.c", "Makefile"])
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), words
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2), max_leaves=4
)


def lists(of: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[Json]]:
    return st.lists(of, max_size=most).map(list[Json])


uuids = st.uuids(version=4).map(str)


def moments(low: int = 0, high: int = 4 * HOUR) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from([low, high, (low + high) // 2]), st.integers(low, high)).map(
        lambda ms: START + ms
    )


@st.composite
def spelled(draw: st.DrawFn, ms: int) -> str:
    """A time in one of the spellings in which documents are taken as they are."""
    plain = written(ms)
    ways = [plain, plain, plain[:-1] + "000Z"]
    if ms % 1000 == 0:
        ways.append(plain[:19] + "Z")
    return draw(st.sampled_from(ways))


@st.composite
def odd(draw: st.DrawFn, part: Document, optional: tuple[str, ...] = ()) -> Document:
    """The same, as another program might write it: keys of its own, optional ones left out, another order."""
    made = dict(part)
    for key in optional:
        if made.get(key) is None and draw(st.booleans()):
            made.pop(key, None)
    if draw(st.integers(0, 3)) == 0:
        more = draw(st.dictionaries(st.sampled_from(["x-tool", "extra", "note!", "ünïcode"]), anything, max_size=2))
        made.update({key: value for key, value in more.items() if key not in part})
    if draw(st.integers(0, 3)) == 0:
        keys = list(made)
        random.Random(draw(st.integers(0, 99))).shuffle(keys)
        made = {key: made[key] for key in keys}
    return made


@st.composite
def errors(draw: st.DrawFn) -> Document:
    made: Document = {
        "category": draw(st.sampled_from(["transient", "resource", "configuration", "logical", "permanent"])),
        "message": draw(words),
        "retry_count": draw(st.one_of(st.integers(0, 3), st.just(30))),
        "last_retry_at": draw(st.one_of(st.none(), moments().flatmap(spelled))),
    }
    return draw(odd(made, ("last_retry_at",)))


@st.composite
def agents(draw: st.DrawFn, name: str, others: list[str]) -> Document:
    status = draw(st.sampled_from(["pending", "running", "completed", "error", "timeout"]))
    started = draw(st.one_of(st.none(), moments()))
    over = status in ("completed", "error", "timeout")
    completed = draw(st.one_of(st.none(), moments())) if over else None
    if started is not None and completed is not None:
        completed = max(started, completed)
    seconds = draw(st.one_of(st.none(), st.integers(0, 5000)))
    if started is not None and completed is not None and seconds is not None:
        seconds = (completed - started) // 1000 + (draw(st.booleans()) and (completed - started) % 1000 > 0)
    result = {"completed": ["success", None], "error": ["failure", "aborted", None], "timeout": ["timeout", None]}
    made: Document = {
        "id": name,
        "type": draw(st.one_of(st.sampled_from(["feature-dev", "doc-writer"]), nonblank)),
        "status": status,
        "started_at": None if started is None else draw(spelled(started)),
        "completed_at": None if completed is None else draw(spelled(completed)),
        "duration_seconds": seconds,
        "progress": draw(st.one_of(st.none(), fractions)),
        "result": draw(st.sampled_from(result.get(status, [None]))),
        "blocking_on": draw(st.one_of(st.none(), st.sampled_from(others))) if others else None,
        "error": draw(st.one_of(st.none(), errors())),
        "output_summary": draw(st.one_of(st.none(), words)),
        "artifacts": draw(
            odd(
                {
                    "files_created": draw(lists(paths, 2)),
                    "files_modified": draw(lists(paths, 2)),
                    "files_deleted": draw(lists(paths, 1)),
                }
            )
        ),
    }
    nullable = (
        "started_at", "completed_at", "duration_seconds", "progress", "result", "blocking_on", "error",
        "output_summary",
    )  # fmt: skip
    return draw(odd(made, nullable))


@st.composite
def decisions(draw: st.DrawFn) -> Document:
    made: Document = {
        "timestamp": draw(moments(-HOUR, 5 * HOUR).flatmap(spelled)),
        "context": draw(words),
        "options": draw(lists(words, 3)),
        "chosen": draw(words),
        "reasoning": draw(st.one_of(st.none(), words)),
    }
    return draw(odd(made, ("reasoning",)))


@st.composite
def files(draw: st.DrawFn, crew: list[str]) -> Document:
    made: Document = {
        "path": draw(paths),
        "action": draw(st.sampled_from(["created", "modified", "deleted"])),
        "agent_id": draw(st.one_of(st.just("person"), names, *([st.sampled_from(crew)] if crew else []))),
        "timestamp": draw(moments(-HOUR, 5 * HOUR).flatmap(spelled)),
        "lines_added": draw(st.one_of(st.none(), counts)),
        "lines_removed": draw(st.one_of(st.none(), counts)),
        "hash_before": draw(hashes),
        "hash_after": draw(hashes),
    }
    return draw(odd(made, ("lines_added", "lines_removed", "hash_before", "hash_after")))


@st.composite
def _metadata(draw: st.DrawFn) -> Document:
    made: Document = {
        "git_branch": draw(st.one_of(st.none(), st.just("feature/auth"))),
        "git_commit": draw(st.one_of(st.none(), st.just("a1" * 20))),
        "craft_version": "1.23.0",
        "tags": draw(lists(words, 3)),
        "notes": draw(st.one_of(st.none(), words)),
    }
    made = {key: value for key, value in made.items() if draw(st.booleans())}
    return draw(odd(made))


@st.composite
def documents(draw: st.DrawFn, statuses: tuple[str, ...] = ()) -> Document:
    """An arbitrary valid document."""
    created = draw(moments(0, HOUR))
    updated = max(created, draw(moments(HOUR, 4 * HOUR)))
    crew = draw(st.lists(names, max_size=3, unique=True))
    status = draw(st.sampled_from(statuses or ("in_progress", "paused", "completed", "error", "aborted")))
    # Each may wait for one before it: so there is no circle.
    team = [draw(agents(name, crew[:place])) for place, name in enumerate(crew)]
    made: Document = {
        "schema_version": "1.0.0",
        "session_id": draw(uuids),
        "created_at": draw(spelled(created)),
        "updated_at": draw(spelled(updated)),
        "device": draw(st.one_of(st.sampled_from(["MacBook Pro", "workbench"]), nonblank)),
        "project": draw(st.sampled_from(["/home/ada/holdfast", "/Users/dt/projects/my-app", "C:\\work\\app"])),
        "goal": draw(nonblank),
        "mode": draw(st.sampled_from(["debug", "default", "optimize", "release"])),
        "status": status,
        "progress": draw(fractions),
        "agents": list[Json](team),
        "completed_work": draw(lists(words, 3)),
        "pending_tasks": draw(lists(words, 3)),
        "decisions_made": list[Json](draw(st.lists(decisions(), max_size=2))),
        "files_modified": list[Json](draw(st.lists(files(crew), max_size=3))),
        "context_usage": draw(
            odd(
                {
                    "estimated_tokens": draw(counts),
                    "compression_count": draw(st.one_of(st.integers(0, 3), st.just(80))),
                    "last_compression": draw(st.one_of(st.none(), moments().flatmap(spelled))),
                    "by_agent": dict[str, Json](
                        draw(st.dictionaries(st.sampled_from([*crew, "test-1", "not a name"]), counts, max_size=3))
                    ),
                },
                ("last_compression",),
            )
        ),
        "teleportation": draw(
            odd(
                {
                    "enabled": draw(st.booleans()),
                    "last_sync": draw(st.one_of(st.none(), moments().flatmap(spelled))),
                    "sync_status": draw(st.sampled_from([None, "success", "pending", "error"])),
                    "sync_error": draw(st.one_of(st.none(), words)),
                    "devices": draw(lists(words, 2)),
                    "storage_backend": draw(st.sampled_from(["claude-desktop", "local", "s3"])),
                    "encrypted": draw(st.booleans()),
                    "shared_with": draw(st.one_of(st.none(), lists(st.just("ana@example.org"), 1))),
                },
                ("last_sync", "sync_status", "sync_error", "shared_with"),
            )
        ),
    }
    if draw(st.booleans()):
        made["$schema"] = "https://data-wise.github.io/craft/schemas/session-state-v1.json"
    if draw(st.booleans()):
        made["metadata"] = draw(_metadata())
    return draw(odd(made))


# ── what an agent makes of a document ────────────────────────────────────────────────────────────────────

# Where an agent may go from where it is.
_NEXT: dict[str, list[tuple[str, str | None]]] = {
    "pending": [("running", None), ("completed", "success"), ("error", "failure"), ("timeout", "timeout")],
    "running": [
        ("completed", "success"), ("error", "failure"), ("timeout", None), ("error", "aborted"), ("pending", None),
    ],
    "error": [("running", None), ("completed", None), ("timeout", "timeout")],
    "timeout": [("running", None), ("completed", "success"), ("error", None)],
}  # fmt: skip


@st.composite
def _agent_moved(draw: st.DrawFn, agent: Document, later: int) -> Document:
    made = copy.deepcopy(agent)
    status, result = agent["status"], agent.get("result")
    if status == "completed" or result == "aborted":
        made["output_summary"] = draw(nonblank)
        return made
    assert isinstance(status, str)
    made["status"], made["result"] = draw(st.sampled_from(_NEXT[status]))
    made["progress"] = draw(fractions)
    made["duration_seconds"] = None
    over = made["status"] in ("completed", "error", "timeout")
    made["completed_at"] = written(later) if over and draw(st.booleans()) else None
    if made["status"] == "running" and made.get("started_at") is None:
        made["started_at"] = written(later)
    if draw(st.booleans()):
        made["error"] = draw(errors())
    return made


@st.composite
def edits(draw: st.DrawFn) -> tuple[Document, Document]:
    """A document, and the same after an agent that keeps it by hand has worked on it."""
    before = draw(documents(statuses=("in_progress", "paused", "error")))
    after = copy.deepcopy(before)
    later = START + 6 * HOUR + draw(st.integers(0, HOUR))
    if draw(st.booleans()):
        after["updated_at"] = written(later)
    if draw(st.booleans()):
        after["goal"] = draw(nonblank)
    if draw(st.booleans()):
        after["progress"] = draw(fractions)
    team = after["agents"]
    assert isinstance(team, list)
    for place, agent in enumerate(team):
        if draw(st.booleans()):
            assert isinstance(agent, dict)
            team[place] = draw(_agent_moved(agent, later))
    if draw(st.booleans()):
        taken = {agent["id"] for agent in team if isinstance(agent, dict)}
        name = draw(names.filter(lambda name: name not in taken))
        team.append(draw(agents(name, [])))
    pending, done = after["pending_tasks"], after["completed_work"]
    assert isinstance(pending, list)
    assert isinstance(done, list)
    if draw(st.booleans()) and pending:
        done.append(pending.pop(0))
    done.extend(draw(lists(words, 1)))
    pending.extend(draw(lists(words, 1)))
    for key, new in (("decisions_made", decisions()), ("files_modified", files(["arch-1"]))):
        more = after[key]
        assert isinstance(more, list)
        if draw(st.booleans()):
            more.append(draw(new))
    usage = after["context_usage"]
    assert isinstance(usage, dict)
    usage["estimated_tokens"] = draw(counts)
    usage["compression_count"] = draw(st.integers(0, 5))
    if draw(st.booleans()):
        after["metadata"] = {**_object(after.get("metadata")), "tags": ["new"], "notes": draw(words)}
    ways = {"in_progress": ["paused", "completed", "error", "aborted"], "paused": ["in_progress", "completed"]}
    if draw(st.booleans()):
        after["status"] = draw(st.sampled_from(ways.get(str(before["status"]), ["in_progress", "aborted"])))
    return before, after


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


# ── the text's own example ───────────────────────────────────────────────────────────────────────────────


def example() -> Document:
    """The complete example of the craft text, to the letter: an id that is not hexadecimal, a hash of 40 digits."""
    document: Document = json.loads(spec_examples.CRAFT)
    return document
