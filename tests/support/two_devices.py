"""Two devices that work separately and sync now and then: events are carried over as by a remote."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from holdfast import Keeper
from holdfast.core.envelope import Event
from holdfast.core.model import Session
from holdfast.workspace import projects


class Devices:
    """A laptop and a desktop, each with a home and a copy of the project."""

    def __init__(self, root: Path, *, git: bool = False, remote: str | None = "https://example.org/shop.git") -> None:
        self.root = root
        self.here, self.there = root / "laptop" / "shop", root / "desktop" / "work" / "shop"
        for place in (self.here, self.there):
            place.parent.mkdir(parents=True)
        if git:
            self.here.mkdir()
            git_at(self.here, "init", "-q", "-b", "main")
            (self.here / "README.md").write_text("shop\n")
            git_at(self.here, "add", ".")
            git_at(self.here, "commit", "-q", "-m", "first")
            git_at(root, "clone", "-q", str(self.here), str(self.there))
            git_at(self.there, "remote", "remove", "origin")
            for place in (self.here, self.there) if remote else ():
                git_at(place, "remote", "add", "origin", str(remote))
        else:
            self.here.mkdir()
            self.there.mkdir()
        self.laptop, self.desktop = self.opened("laptop", self.here), self.opened("desktop", self.there)

    def opened(self, device: str, place: Path) -> Keeper:
        return Keeper.open(str(place), home=str(self.root / device / "home"), actor="ada", device=device)

    def meet(self) -> None:
        carry(self.laptop, self.desktop)
        carry(self.desktop, self.laptop)

    def documents(self, session: str) -> tuple[Session, Session]:
        """The session as each device has it, as of one time."""
        at = max(keeper.state(session).updated_at for keeper in (self.laptop, self.desktop))
        return self.laptop.session(session).document(at=at), self.desktop.session(session).document(at=at)


def carry(source: Keeper, target: Keeper) -> None:
    """Gives everything that one device has to the other."""
    store = source.existing_store()
    if store is None:
        return
    sessions = list(store.sessions())
    events: list[Event] = [event for session in sessions for event in store.events(session)]
    with target.store().transaction() as transaction:
        transaction.receive(events)
        for session in sessions:
            projects.learn_project(target, transaction, transaction.state(session))


def git_at(where: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org", "HOME": str(where),
    }  # fmt: skip
    done = subprocess.run(["git", *words], cwd=where, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
