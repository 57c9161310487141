"""`holdfast tour`: the main job, end to end, for real, in a scratch directory that is gone afterwards.

Everything in it is done by the public commands, each a process of its own, and one of them is killed. What the
tour says about the result it has checked; it exits with 0 only if everything held.
"""

from __future__ import annotations

import os
import tempfile

from holdfast.cli.call import Call
from holdfast.cli.tour import Ended, Tour
from holdfast.machine.wall import monotonic

GOAL = "Add search to the notes"
PLAN = """\
## Design
- [ ] Choose the index (id: choose)

## Build
- [ ] Write the search (id: search)
- [ ] Test it (id: test)
"""
# The agents: programs that really write files.
INDEXER = '''\
"""Writes the search."""
code = """\\
def search(notes, words):
    return [name for name, text in notes.items() if all(word in text for word in words.split())]
"""
with open("search.py", "w") as file:
    file.write(code)
print("indexer: wrote search.py")
'''
TESTER = '''\
"""Writes the tests and runs them; the first time it is stopped half-way."""
import os, time
first = "from search import search\\n\\nassert search({'a': 'red fish'}, 'fish') == ['a']\\n"
rest = "assert search({'a': 'red fish'}, 'cat') == []\\n"
signs = os.environ["TOUR_SIGNS"]
if not os.path.exists("test_search.py"):
    with open("test_search.py", "w") as file:
        file.write(first)
    while not os.path.exists(os.path.join(signs, "go")):
        time.sleep(0.01)
    with open("test_search.py", "a") as file:
        file.write(rest[:20])
    open(os.path.join(signs, "half"), "w").close()
    time.sleep(600)
with open("test_search.py", "w") as file:
    file.write(first + rest)
exec(compile(first + rest, "test_search.py", "exec"))
print("tester: wrote test_search.py, 2 checks passed")
'''


def run(call: Call) -> int:
    begun = monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-tour-", ignore_cleanup_errors=True) as scratch:
        tour = Tour(call, os.path.realpath(scratch))
        try:
            tour.prepare(("plan.md", PLAN), ("indexer.py", INDEXER), ("tester.py", TESTER))
            _walk(tour)
        except Ended as ended:
            tour.tell(str(ended), held=False)
        finally:
            tour.close()
    return tour.sum_up(monotonic() - begun)


# ── the walk ─────────────────────────────────────────────────────────────────────────────────────────────


def _walk(tour: Tour) -> None:
    at = tour.minutes_ago
    tour.say("A session begins with a goal. All of this is real, in a scratch directory.")
    tour.holdfast("start", GOAL, "--scope", "search", *at(75))
    tour.say("Its plan is a checklist in Markdown; YAML and JSON do as well.")
    tour.holdfast("plan", "import", "plan.md", *at(74))
    tour.say("Agents report what they do, and decisions are kept with their reasons.")
    tour.holdfast("agent", "start", "scout", "--type", "reader", "--task", "Read the code", *at(73))
    tour.holdfast("agent", "done", "scout", "--summary", "Notes are plain files", *at(69))
    tour.holdfast("decide", "Plain search", "--option", "FTS5", "--why", "Few notes", *at(68))
    tour.holdfast("task", "done", "choose", *at(67))
    tour.say("Lunch is a pause, not work; --at lets the hour pass in a moment.")
    tour.holdfast("pause", "Lunch", *at(66))
    tour.holdfast("resume", "--quiet", *at(3))
    tour.say("An agent that joins now reads the briefing and knows where things stand.")
    tour.holdfast("briefing", "--for", "agent", "--max-chars", "800")
    tour.say("`run` makes any command an agent: its output, its exit code, a record of both.")
    tour.holdfast("run", "--agent", "indexer", "--task", "Write it", "--", tour.python, "indexer.py")
    tour.holdfast("file", "search.py", "--action", "created", "--agent", "indexer")
    tour.holdfast("task", "done", "search", "--artifact", "search.py")
    _crash(tour)
    tour.say("The work goes on where it stopped.")
    tour.holdfast("run", "--agent", "tester-2", "--task", "Test it", "--", tour.python, "tester.py")
    tour.holdfast("file", "test_search.py", "--action", "modified", "--agent", "tester-2")
    tour.holdfast("task", "done", "test", "--artifact", "test_search.py")
    tour.say("Where the time went.")
    tour.holdfast("timeline")
    tour.say("Every event holds the hash of the one before it; doctor follows the chain.")
    tour.holdfast("doctor")
    tour.check(
        "the whole log verifies", held=all(item["status"] != "failed" for item in tour.ask("doctor")["checks"])
    )
    tour.say("The session is done, and stays in history.")
    tour.holdfast("stop")
    last = tour.shown()
    spent = last["time"]
    tour.check(
        "working and paused time add up to the time that passed",
        held=last["status"] == "completed" and spent["working_ms"] + spent["paused_ms"] == spent["elapsed_ms"],
    )
    _by_itself(tour)


def _by_itself(tour: Tour) -> None:
    tour.say("With an agent connected, nobody has to say any of this. Claude Code, for instance:")
    tour.holdfast("connect", "claude", "--quiet")
    tour.hook("SessionStart", source="startup", model="claude-opus")
    tour.hook("UserPromptSubmit", prompt="Let search ignore case")
    with open(tour.inside("search.py"), "rb") as file:
        before = file.read().decode()
    after = before.replace("word in text", "word.lower() in text.lower()")
    with open(tour.inside("search.py"), "w", encoding="utf-8", newline="") as file:
        file.write(after)
    tour.hook(
        "PostToolUse", tool_name="Edit", tool_use_id="t1",
        tool_input={"file_path": tour.inside("search.py"), "old_string": "word in text",
                    "new_string": "word.lower() in text.lower()"},
        tool_response={"filePath": tour.inside("search.py"), "originalFile": before},
    )  # fmt: skip
    tour.hook("PostToolUse", tool_name="Bash", tool_use_id="t2", tool_input={"command": "python test_search.py"})
    tour.hook("Stop", last_assistant_message="Done.")
    tour.holdfast("status")
    heard = tour.ask("status")["session"]
    tour.check(
        "the session recorded itself: goal, file with its hashes, command",
        held=heard["goal"] == "Let search ignore case"
        and [item["hash_before"] is not None for item in heard["files"]] == [True]
        and heard["commands"]["total"] == 1,
    )
    told = tour.answered("SessionStart", session_id="tomorrow", source="startup")
    context = told["hookSpecificOutput"]["additionalContext"]
    tour.check(
        "opened again tomorrow, the agent is told where things stand",
        held="Let search ignore case" in context and "claude --resume tour" in context,
    )
    tour.holdfast("disconnect", "claude", "--quiet")
    tour.check("its settings are as they were", held=not os.path.exists(tour.persons(".claude/settings.json")))


def _crash(tour: Tour) -> None:
    tour.say("Now the worst case: kill -9 ends an agent in the middle, and Holdfast with it.")
    victim = tour.begin("run", "--agent", "tester", "--task", "Test it", "--", tour.python, "tester.py")
    tour.wait(lambda: os.path.exists(tour.inside("test_search.py")), "the agent's file")
    tour.holdfast("file", "test_search.py", "--action", "created", "--agent", "tester")
    tour.sign("go")
    tour.wait(lambda: os.path.exists(os.path.join(tour.signs, "half")), "the agent's second write")
    before = tour.hashes()
    tour.kill(victim, int(tour.agent("tester")["pid"] or 0))
    tour.say("Nobody could write anything down. Going on, Holdfast finds out by itself.")
    resumed = tour.holdfast("resume").splitlines()
    after = tour.hashes()
    tour.lost = len(set(before) - set(after))
    tour.check(
        f"{len(before)} events before the crash, the same {len(before)} after it", held=after[: len(before)] == before
    )
    tour.check(
        "the agent that was killed is known to be interrupted", held=tour.agent("tester")["status"] == "interrupted"
    )
    tour.check(
        "search.py is whole; test_search.py changed after it was recorded",
        held=any("test_search.py" in line and "changed" in line for line in resumed)
        and not any(" search.py" in line and "changed" in line for line in resumed),
    )
