"""Sample sessions: a typical day, one long session with everything in it, thousands of sessions, and hostile ones."""

from __future__ import annotations

from typing import Final

from holdfast.core.events import AgentCompleted, AgentStarted, ProjectFacts, SessionCompleted, SessionStarted
from holdfast.core.times import DAY, HOUR, MINUTE
from holdfast.keeper.session import SessionHandle
from holdfast.store.interface import Draft
from tests.web.dashboard import Site

LONG: Final = (
    "Move the whole billing pipeline from the old message broker to the new one without losing or doubling a single "
    "invoice, while the nightly exports keep running, the three consumers that nobody owns any more are found and "
    "moved too, and the person on call can switch back within a minute if anything looks odd at all (300 or so)"
)
HOSTILE: Final = (
    "<script>window.hurt=1</script>",
    '<img src=x onerror="window.hurt=1">',
    '"><svg onload=window.hurt=1>',
    "{{ 7*7 }}{% raise %}",
    "javascript:window.hurt=1",
    "</textarea></dialog><script>window.hurt=1</script>",
    "a\u202eb\u200bc\x1b[31mred",
    "' onmouseover='window.hurt=1",
    '<a href="javascript:window.hurt=1">x</a>',
)


def rich(site: Site, project: str = "harbour", goal: str = "Add sign-in with passkeys") -> str:
    """One session in progress: agents, pauses, plan, decisions, files, context."""
    with site.keeper(project) as keeper:
        now = keeper.now()
        start = now - 5 * HOUR
        session = keeper.start(goal, scope="auth", mode="optimize", tags=["web", "security"], at=start)
        clock = iter(range(start + MINUTE, now, 2 * MINUTE))
        for number, words in enumerate(
            ("Choose a library", "Design the flow", "Write the endpoints", "Try it on a phone")
        ):
            session.add_task(
                words, task_id=f"t{number + 1}", phase="Design" if number < 2 else "Build", at=next(clock)
            )
        architect = session.agent(
            "arch-1", type="backend-architect", task="Design the flow", pid=None, at=next(clock)
        )
        session.start_task("t1", at=next(clock))
        architect.progress(0.5, at=next(clock))
        session.measure_context(48_000, window=200_000, agent="arch-1", at=next(clock))
        session.decide(
            "py_webauthn", context="Library", options=["py_webauthn", "fido2", "own code"],
            why="Kept well, and small", at=next(clock),
        )  # fmt: skip
        session.finish_task("t1", outcome="py_webauthn it is", at=next(clock))
        architect.done(summary="The flow has four steps", tokens=31_000, at=next(clock))
        for _ in range(10):
            next(clock)
        session.pause("lunch", at=next(clock))
        for _ in range(18):
            next(clock)
        session.resume(at=next(clock))
        builder = session.agent("build-1", type="coder", task="Write the endpoints", pid=None, at=next(clock))
        tester = session.agent("test-1", type="tester", task="Write the tests", pid=None, at=next(clock))
        session.start_task("t3", at=next(clock))
        for path in ("src/passkeys.py", "src/routes.py", "tests/test_passkeys.py"):
            place = site.project(project) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"# {path}\n" * 30)
            session.changed(path, "created", agent="build-1", at=next(clock))
        tester.fail("the browser did not start", category="transient", at=next(clock))
        session.measure_context(131_000, window=200_000, agent="build-1", at=next(clock))
        builder.progress(0.6, at=next(clock))
        session.note("The phone needs a certificate it trusts: ask Tove.", at=next(clock))
        session.hill("auth", 4, at=next(clock))
        session.hill("exports", 8, at=next(clock))
        session.edit(progress=0.55, summary="Passkeys instead of passwords", at=next(clock))
        session.message("assistant", at=now - 3 * MINUTE)
        return session.id


def typical(site: Site) -> str:
    """Several projects, some sessions in progress, some done; returns the id of the rich one."""
    rich_session = rich(site)
    for number, (project, goal) in enumerate((
        ("lighthouse", "Make the nightly export restartable"),
        ("lighthouse", "Find out why the map is blank on Safari"),
        ("harbour-docs", "Rewrite the page on backups"),
    )):  # fmt: skip
        with site.keeper(project) as keeper:
            start = keeper.now() - (5 - number) * DAY
            session = keeper.start(goal, scope="docs" if "docs" in project else "export", replace=True, at=start)
            agent = session.agent("writer", type="coder", task="First draft", pid=None, at=start + 5 * MINUTE)
            agent.done(summary="Drafted", tokens=9_000, at=start + 40 * MINUTE)
            if number == 1:
                session.complete(summary="It was a cache header", at=start + HOUR)
            else:
                session.edit(progress=0.3 + number / 5, at=start + HOUR)
                session.pause("for today", at=start + HOUR + MINUTE)
    return rich_session


def hostile(site: Site) -> list[str]:
    """Sessions in which every text attempts an injection."""
    made: list[str] = []
    for number, words in enumerate(HOSTILE):
        with site.keeper(f"evil{number}") as keeper:
            session = keeper.start(words, scope=words, task=words, tags=[words], model=words)
            _fill(session, words)
            made.append(session.id)
    return made


def _fill(session: SessionHandle, words: str) -> None:
    agent = session.agent("a-1", type=words, task=words, pid=None)
    agent.fail(words, category="logical")
    other = session.agent("a-2", type=words, task=words, pid=None)
    other.done(summary=words)
    session.add_task(words, task_id="t1", phase=words)
    session.finish_task("t1", outcome=words, artifacts=[words.replace("\x1b", "")])
    session.decide(words, context=words, options=[words], why=words)
    session.note(words)
    session.hill(words, 3)
    session.edit(summary=words)
    session.pause(words)


def many(site: Site, count: int, project: str = "harbour", unfinished: int = 30) -> None:
    """Thousands of sessions over two years, most of them done."""
    with site.keeper(project) as keeper:
        first = keeper.now() - count * HOUR * 12 // 10
        where = ProjectFacts(id="p" * 32, name=project)
        with keeper.transaction() as transaction:
            for number in range(count):
                session = f"{number:08x}-0000-7000-8000-{number:012x}"
                at = first + number * HOUR * 12 // 10
                scope = ("auth", "export", "map", None)[number % 4]
                verb = ("mend", "add", "move", "measure")[number % 4]
                goal = f"Piece of work number {number}: {verb} the {scope or 'rest'}"
                started = SessionStarted(goal=goal, project=where, device="desk", scope=scope)
                transaction.record(session, Draft(started, at, "ada"))
                transaction.record(
                    session, Draft(AgentStarted(id="a1", type="coder", task="Do it"), at + MINUTE, "ada")
                )
                transaction.record(session, Draft(AgentCompleted(id="a1"), at + 20 * MINUTE, "ada"))
                if number < count - unfinished:
                    transaction.record(session, Draft(SessionCompleted(), at + 30 * MINUTE, "ada"))
