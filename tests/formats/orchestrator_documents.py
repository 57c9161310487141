"""Documents of the orchestrator format for property tests: arbitrary valid ones, and what agents make of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TypeAlias

from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.times import format_time
from holdfast.formats import registry
from holdfast.formats.base import Document
from tests.support import spec_examples

Entry: TypeAlias = dict[str, Json]

# 2025-12-27T10:30:00Z, the day of the specification's example.
BEGIN = 1_766_831_400_000
_ENDED = ("complete", "failed", "aborted", "interrupted")
_CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")

_words = st.one_of(
    st.sampled_from(
        ["Add unit tests", "add unit tests", "Update documentation", "Größe prüfen ✓", "t1", "a\nb", " x "]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
        lambda one: bool(one.strip())
    ),
)
_any_text = st.one_of(st.just(""), _words)
_json: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-2, 2, width=16), _any_text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_any_text, inner, max_size=3),
    max_leaves=4,
)
# Keys nobody knows: no name of this format, and none that is read as one where that is missing.
_unknown = st.dictionaries(
    st.sampled_from(["priority", "x-own", "notes", "", "paused_at", "ü", "Status"]), _json, max_size=2
)


def spelled(ms: int) -> st.SearchStrategy[str]:
    """One moment as programs spell it in UTC: whole seconds, tenths, milliseconds, microseconds, nanoseconds."""
    whole = format_time(ms)[:19]
    return st.sampled_from([f"{whole}{more}Z" for more in ("", ".5", f".{ms % 1000:03d}", ".123456", ".123456789")])


@st.composite
def _time(draw: st.DrawFn, least: int = BEGIN, most: int = BEGIN + 7_200_000) -> str:
    # Few seconds, so that many things happen at once; and sometimes far away.
    step = draw(st.sampled_from([0, 1, 2, 3, 60, 600, 3600]))
    return draw(spelled(min(least + step * 1000, most)))


@st.composite
def _mixed(draw: st.DrawFn, entry: Entry) -> Entry:
    """With keys nobody knows, in any order."""
    whole = {**draw(_unknown), **entry}
    return {key: whole[key] for key in draw(st.permutations(list(whole)))}


@st.composite
def agents(draw: st.DrawFn, name: str) -> Entry:
    status = draw(st.sampled_from(["pending", "in_progress", "paused", *_ENDED]))
    entry: Entry = {"id": name, "type": draw(_words), "task": draw(_any_text), "status": status}
    if draw(st.booleans()):
        start = BEGIN + draw(st.sampled_from([-60, 0, 1, 2, 120])) * 1000
        entry["started"] = draw(st.none() if draw(st.integers(0, 5)) == 0 else spelled(start))
        if status in _ENDED and draw(st.booleans()):
            entry["completed"] = draw(spelled(start + draw(st.sampled_from([1, 2, 120])) * 1000))
    elif status in _ENDED and draw(st.booleans()):
        entry["completed"] = draw(st.none() | _time())
    if draw(st.booleans()):
        entry["progress"] = draw(st.none() | st.integers(0, 100))
    if draw(st.booleans()):
        entry["context_tokens"] = draw(st.none() | st.integers(0, 200_000))
    if draw(st.booleans()):
        entry["result_summary"] = draw(st.none() | _any_text)
    return draw(_mixed(entry))


@st.composite
def _done(draw: st.DrawFn) -> Entry:
    entry: Entry = {"task": draw(_words)}
    if draw(st.booleans()):
        entry["outcome"] = draw(st.none() | _any_text)
    if draw(st.booleans()):
        entry["files"] = list(draw(st.lists(st.sampled_from(["a.py", "src/b.py", "ü.md"]), max_size=3)))
    return draw(_mixed(entry))


@st.composite
def _decision(draw: st.DrawFn) -> Entry:
    entry: Entry = {"decision": draw(_words), "timestamp": draw(_time())}
    if draw(st.booleans()):
        entry["rationale"] = draw(st.none() | _any_text)
    return draw(_mixed(entry))


@st.composite
def _error(draw: st.DrawFn, names: list[str]) -> Json:
    if draw(st.booleans()):
        return draw(_any_text)
    entry: Entry = {}
    for key, values in {
        "timestamp": _time(), "agent": st.sampled_from([*names, "gone", None]), "message": _any_text,
        "category": st.sampled_from([*_CATEGORIES, "odd", None]),
    }.items():  # fmt: skip
        if draw(st.booleans()):
            entry[key] = draw(values)
    return draw(_mixed(entry))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Arbitrary valid documents: unknown fields anywhere, keys in any order, times in many spellings."""
    updated = BEGIN + draw(st.sampled_from([0, 1, 3, 600, 4500, 10**9])) * 1000
    names = draw(st.lists(st.sampled_from(["arch-1", "code-1", "code-2", "_x.y"]), unique=True, max_size=3))
    tokens = draw(st.one_of(st.just(0), st.integers(0, 1_100_000)))
    usage: Entry = {
        "estimated_tokens": tokens,
        "percentage": draw(st.one_of(st.integers(0, 100), st.floats(0, 100), st.just(min(100, tokens // 2000)))),
    }
    if draw(st.booleans()):
        usage["last_compression"] = draw(st.none() | _time())
    project: Entry = {"name": draw(_words), "path": draw(st.none() | st.sampled_from(["/w/p", "", "C:\\p"]))}
    if draw(st.booleans()):
        project["git_branch"] = draw(st.none() | st.sampled_from(["main", "dev"]))
    document: Document = {
        "schema_version": "1.0",
        "session_id": draw(st.sampled_from(["2025-12-27-abc123", "2025-12-27-0ff1ce", "2025-12-26-abc123"])),
        "created": draw(spelled(BEGIN)),
        "updated": draw(spelled(updated + 1000)),
        "project": draw(_mixed(project)),
        "goal": draw(_words),
        "mode": draw(st.sampled_from(["debug", "default", "optimize", "release"])),
        "status": draw(st.sampled_from(["created", "in_progress", "paused", "complete", "aborted"])),
        "agents": [draw(agents(name)) for name in names],
        "completed_work": list(draw(st.lists(_done(), max_size=3))),
        "pending_tasks": list(draw(st.lists(_words, max_size=4))),
        "decisions_made": list(draw(st.lists(_decision(), max_size=3))),
        "context_usage": draw(_mixed(usage)),
        "errors": list(draw(st.lists(_error(names), max_size=3))),
    }
    return draw(_mixed(document))


# ── what an agent does to the file ───────────────────────────────────────────────────────────────────────

_FORWARD: dict[str, tuple[str, ...]] = {
    "pending": ("in_progress", "complete", "failed", "aborted", "paused", "interrupted"),
    "in_progress": ("complete", "failed", "aborted", "paused", "interrupted"),
    "paused": ("in_progress", "complete", "failed", "aborted", "interrupted"),
    "failed": ("in_progress", "complete", "aborted"),
    "interrupted": ("in_progress", "complete", "failed", "aborted"),
    "complete": (),
    "aborted": (),
}
_SESSION_FORWARD: dict[str, tuple[str, ...]] = {
    "created": ("in_progress", "paused", "complete", "aborted"),
    "in_progress": ("paused", "complete", "aborted"),
    "paused": ("in_progress", "complete", "aborted"),
}


def _list(document: Document, key: str) -> list[Json]:
    value = document[key]
    assert isinstance(value, list)
    return value


def _move_an_agent(draw: st.DrawFn, document: Document) -> None:
    for agent in _list(document, "agents"):
        assert isinstance(agent, dict)
        ways = _FORWARD[str(agent["status"])]
        if draw(st.booleans()) and ways:
            agent["status"] = draw(st.sampled_from(ways))
            agent.pop("completed", None)
            if agent["status"] in _ENDED and draw(st.booleans()):
                agent["completed"] = draw(spelled(BEGIN + 7_200_000))
            if agent["status"] == "complete":
                agent["result_summary"] = draw(_any_text)
            if agent["status"] == "failed" and draw(st.booleans()):
                _list(document, "errors").append(
                    {"agent": agent["id"], "message": draw(_words), "category": draw(st.sampled_from(_CATEGORIES))}
                )


def _get_on(draw: st.DrawFn, document: Document) -> None:
    for agent in _list(document, "agents"):
        assert isinstance(agent, dict)
        if draw(st.booleans()):
            agent["progress"] = draw(st.integers(0, 100))
        if draw(st.booleans()):
            agent["context_tokens"] = draw(st.integers(0, 9999))


def _add_an_agent(draw: st.DrawFn, document: Document) -> None:
    _list(document, "agents").append(draw(agents("new-1")))


def _plan(draw: st.DrawFn, document: Document) -> None:
    _list(document, "pending_tasks").insert(0, draw(_words))


def _finish(draw: st.DrawFn, document: Document) -> None:
    """A pending task becomes completed work."""
    left = _list(document, "pending_tasks")
    if left:
        text = left.pop(draw(st.integers(0, len(left) - 1)))
        _list(document, "completed_work").append({"task": text, "outcome": draw(_any_text), "files": ["done.py"]})


def _do_more(draw: st.DrawFn, document: Document) -> None:
    work = _list(document, "completed_work")
    if draw(st.booleans()) and work:
        assert isinstance(work[0], dict)
        work[0]["outcome"] = draw(_any_text)
        work[0]["files"] = ["more.py"]
    else:
        work.append(draw(_done()))


def _decide(draw: st.DrawFn, document: Document) -> None:
    _list(document, "decisions_made").append(draw(_decision()))


def _rename(draw: st.DrawFn, document: Document) -> None:
    document["goal"] = draw(_words)
    document["mode"] = draw(st.sampled_from(["debug", "default", "optimize", "release"]))


def _err(draw: st.DrawFn, document: Document) -> None:
    _list(document, "errors").append(draw(_error(["arch-1"])))


def _use(draw: st.DrawFn, document: Document) -> None:
    usage = document["context_usage"]
    assert isinstance(usage, dict)
    usage["estimated_tokens"] = draw(st.integers(0, 128_000))
    if draw(st.booleans()):
        usage["last_compression"] = draw(spelled(BEGIN + 7_200_000))


def _move_the_session(draw: st.DrawFn, document: Document) -> None:
    document["status"] = draw(st.sampled_from(_SESSION_FORWARD[str(document["status"])]))


EDITS: tuple[Callable[[st.DrawFn, Document], None], ...] = (
    _move_an_agent, _get_on, _add_an_agent, _plan, _finish, _do_more, _decide, _rename, _err, _use, _move_the_session,
)  # fmt: skip


@st.composite
def edits(draw: st.DrawFn) -> tuple[Document, Document]:
    """A document, and what an agent that works on the session makes of it."""
    before = draw(documents().filter(lambda one: one["status"] in _SESSION_FORWARD))
    after = copy.deepcopy(before)
    chosen = draw(st.lists(st.sampled_from(range(len(EDITS))), min_size=1, max_size=4, unique=True))
    for position in sorted(chosen):
        EDITS[position](draw, after)
    if draw(st.booleans()):
        after["updated"] = draw(spelled(BEGIN + 10**12 // 1000))
    return before, after


RULES = registry.format_named("orchestrator")

# The schema of the specification, which is an example.
EXAMPLE: Document = json.loads(spec_examples.ORCHESTRATOR)


def changed(**parts: Json) -> Document:
    """The example with parts replaced."""
    return {**json.loads(json.dumps(EXAMPLE)), **parts}


def with_agent(position: int, **parts: Json) -> Document:
    document = changed()
    agents = document["agents"]
    assert isinstance(agents, list)
    agent = agents[position]
    assert isinstance(agent, dict)
    agent.update(parts)
    return document


def messages(document: Document) -> list[tuple[str, str]]:
    return [
        (".".join(map(str, problem.place)), problem.severity) for problem in RULES.problems(document, "orchestrator")
    ]
