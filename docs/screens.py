"""Photographs the dashboard for the documentation: the real server over made-up sessions, in a real Chromium.

`python docs/screens.py` writes `docs/images/now.png` and `docs/images/session.png`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from holdfast import Keeper
from holdfast.core.times import DAY, HOUR, MINUTE
from holdfast.keeper.session import SessionHandle
from holdfast.web.serve import Dashboard

IMAGES = Path(__file__).parent / "images"
WIDE, HIGH = 1200, 800


def main() -> int:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("there is no Chromium on the PATH")
    with tempfile.TemporaryDirectory(prefix="holdfast-screens-") as scratch:
        top = Path(scratch)
        session = _fill(top)
        dashboard = Dashboard(lambda: _keeper(top, "webshop"))
        thread = threading.Thread(target=dashboard.serve, daemon=True)
        thread.start()
        time.sleep(1)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name, path, scheme in (("now", "/now", "light"), ("session", f"/session/{session}", "dark")):
                page = browser.new_page(
                    viewport={"width": WIDE, "height": HIGH}, color_scheme="dark" if scheme == "dark" else "light"
                )
                _photograph(page, dashboard, path, IMAGES / f"{name}.png", top)
            browser.close()
        dashboard.stop()
        thread.join(10)
    return 0


def _photograph(page: Page, dashboard: Dashboard, path: str, where: Path, top: Path) -> None:
    page.goto(dashboard.address)
    page.goto(dashboard.origin + path)
    page.locator("#pulse[data-state=live]").wait_for()
    page.wait_for_timeout(300)
    # The scratch directory stands for somebody's home.
    page.evaluate(
        """top => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replace(top, "~"); }""",
        str(top),
    )
    page.screenshot(path=where)


def _keeper(top: Path, project: str) -> Keeper:
    place = top / project
    place.mkdir(exist_ok=True)
    return Keeper.open(str(place), home=str(top / "home"), actor="ada", device="desk")


# ── a working day ────────────────────────────────────────────────────────────────────────────────────────


def _fill(top: Path) -> str:
    with _keeper(top, "webshop") as keeper:
        session = _login(keeper, top / "webshop")
    with _keeper(top, "atlas") as keeper:
        at = keeper.now() - 50 * MINUTE
        other = keeper.start("Make the nightly export restartable", scope="export", mode="optimize", at=at)
        agent = other.agent(
            "export-1", type="backend", task="Checkpoint after each table", background=True, pid=None, at=at + MINUTE
        )
        for minutes in range(4, 24, 4):
            other.message("user", at=at + minutes * MINUTE)
        agent.progress(0.4, at=at + 24 * MINUTE)
        other.measure_context(52_000, window=200_000, at=at + 44 * MINUTE)
        other.edit(progress=0.35, at=at + 46 * MINUTE)
        other.message("user", at=at + 49 * MINUTE)
    with _keeper(top, "handbook") as keeper:
        at = keeper.now() - DAY
        docs = keeper.start("Rewrite the page on backups", scope="docs", at=at)
        docs.measure_context(18_000, window=200_000, at=at + 10 * MINUTE)
        docs.edit(progress=0.7, at=at + 30 * MINUTE)
        docs.pause("for today", at=at + 31 * MINUTE)
    return session


def _login(keeper: Keeper, project: Path) -> str:
    start = keeper.now() - 2 * HOUR - 20 * MINUTE

    def moments() -> Iterator[int]:
        yield from range(start + MINUTE, keeper.now(), 90_000)

    clock = moments()

    def later(steps: int) -> int:
        for _ in range(steps - 1):
            next(clock)
        return next(clock)

    session = keeper.start(
        "Add OAuth with PKCE to the login", scope="auth", mode="optimize", tags=["security"], at=start
    )
    for number, (phase, words) in enumerate((
        ("Design", "Choose the kind of token"), ("Design", "Draw the flow"),
        ("Build", "Token endpoint with rotation"), ("Build", "Login page"), ("Build", "Migrate the old sessions"),
    )):  # fmt: skip
        session.add_task(words, task_id=f"t{number + 1}", phase=phase, at=next(clock))
    session.start_task("t1", at=next(clock))
    architect = session.agent("arch-1", type="architect", task="Draw the flow", pid=None, at=next(clock))
    session.message("user", at=later(3))
    session.decide(
        "Hybrid", context="Token kind", options=["JWT", "Cookie", "Hybrid"], why="Scales, and can be revoked",
        at=next(clock),
    )  # fmt: skip
    session.finish_task("t1", outcome="Hybrid", at=next(clock))
    architect.done(summary="Four steps, one redirect", tokens=18_400, at=later(2))
    session.finish_task("t2", at=next(clock))
    session.start_task("t3", at=next(clock))
    builder = session.agent(
        "api-1", type="backend", task="Token endpoint with rotation", background=True, pid=None, at=next(clock)
    )
    page = session.agent("ui-1", type="frontend", task="Login page", background=True, pid=None, at=next(clock))
    session.message("user", at=later(2))
    _changed(session, project, "src/auth/tokens.py", "api-1", next(clock))
    _changed(session, project, "src/auth/routes.py", "api-1", next(clock))
    reviewer = session.agent(
        "review-1", type="reviewer", task="Review the design", background=True, pid=None, at=next(clock)
    )
    reviewer.fail("No answer from the model", category="transient", at=later(2))
    session.pause("Stand-up", at=next(clock))
    session.resume(at=later(10))
    for _ in range(16):
        session.message("user", at=later(2))
    _changed(session, project, "src/pages/login.html", "ui-1", next(clock))
    page.progress(0.65, at=next(clock))
    builder.progress(0.8, at=next(clock))
    session.measure_context(61_000, window=200_000, agent="api-1", at=next(clock))
    session.measure_context(118_000, window=200_000, at=next(clock))
    session.hill("auth", 6, at=next(clock))
    session.note("The old mobile app still sends cookies: keep that path until March.", at=next(clock))
    session.edit(progress=0.6, at=next(clock))
    session.message("user", at=keeper.now() - MINUTE)
    return session.id


def _changed(session: SessionHandle, project: Path, path: str, agent: str, at: int) -> None:
    place = project / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("# made up\n" * 40)
    session.changed(path, "created", agent=agent, at=at)


if __name__ == "__main__":
    sys.exit(main())
