"""Answer which session and conversation made a commit, a file or a line, and how sure that is.

Only from what is recorded: commits with their names, trees and author times, files with their hashes, and the
commit's own trailers. `certain` is what a record of the very thing says; `likely` what follows from records of
something equal; `uncertain` what is only near in time, or one of several. Where nothing is recorded, nothing is
answered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.model import Certainty
from holdfast.core.state import CommitState, FileState, State
from holdfast.core.times import text
from holdfast.machine import files
from holdfast.machine.git_history import TRAILER, Commit, GitHistory

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_MOST_FILES: Final = 50  # of a commit, whose content is compared
_MOST_COMMITS: Final = 20  # of a file
_LARGEST: Final = 16 << 20  # bytes of a file
_RANK: Final[dict[str, int]] = {"certain": 0, "likely": 1, "uncertain": 2}
_NAME: Final = re.compile(r"[0-9a-f]{4,64}")


class Answer(NamedTuple):
    """A session, its goal, the conversation, how sure it is, and what says so."""

    id: str
    goal: str
    conversation: str | None
    certainty: Certainty
    because: str


class Found(NamedTuple):
    """What was asked about, and the answers, the surest first."""

    about: str
    commit: str | None
    file: str | None
    line: int | None
    sessions: list[Answer]


def why(keeper: Keeper, what: str) -> Found:
    """Who made this: a commit by any name, a file by its path in the project, or a line of it (`FILE:LINE`)."""
    asked = _Asked(keeper)
    path, _, number = what.rpartition(":")
    if path and number.isdecimal() and len(number) < 10 and asked.is_file(path):
        return asked.about_line(path, int(number))
    if asked.is_file(what):
        return asked.about_file(what)
    found = asked.commit(what)
    if found is not None:
        return Found(_titled(found), found.sha, None, None, _best(asked.of_commit(found)))
    recorded = [one for state in asked.states for one in state.commits.values() if one.sha.startswith(what)]
    names = {one.sha for one in recorded} if _NAME.fullmatch(what) else set()
    if len(names) == 1:
        # It is in no repository here: rewritten, or made on another machine.
        answers = list(asked.recorded_as(names.pop()))
        return Found(f"{recorded[0].sha[:12]} {recorded[0].subject}", recorded[0].sha, None, None, _best(answers))
    if asked.is_recorded(what):
        return asked.about_file(what)
    raise NotFound(
        f"{what[:80]!a} is neither a commit nor a file of this project",
        hint="Give the name of a commit, or a path relative to the project, perhaps with :LINE.",
    )


class _Asked:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._git = GitHistory(keeper.place.root) if keeper.place.git else None
        rows = keeper.history(limit=None)
        found = [keeper.state(row.id) for row in rows]
        # The latest first: of two that say the same, it is the nearer one.
        self.states = sorted(found, key=lambda state: state.updated_at, reverse=True)

    # ── commits ──────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, name: str) -> Commit | None:
        if self._git is None or name.startswith("-"):
            return None
        try:
            found = self._git.commit(name)
        except HoldfastError:
            return None
        return None if found is None else self._git.precisely(found)

    def of_commit(self, commit: Commit, path: str | None = None) -> list[Answer]:
        """Every session that something recorded connects with a commit; `path`: with a file in it."""
        found = [*self.recorded_as(commit.sha), *self._named(commit), *self._rewritten(commit)]
        return found or list(self._with_content(commit, path)) or list(self._at_that_time(commit))

    def recorded_as(self, sha: str, seen: frozenset[str] = frozenset()) -> Iterator[Answer]:
        """What is recorded of a commit, or of the one that it was made of by an amend or a rebase."""
        for state in self.states:
            record = state.commits.get(sha)
            if record is None:
                continue
            origin = [] if record.replaces is None or sha in seen else list(
                self.recorded_as(record.replaces, seen | {sha})
            )  # fmt: skip
            for one in origin:
                how = f"{sha[:12]} was made of {(record.replaces or '')[:12]} by an amend or a rebase; {one.because}"
                yield one._replace(because=how)
            if not any(one.id == state.session for one in origin):
                yield _of_record(state, record)

    def _named(self, commit: Commit) -> Iterator[Answer]:
        for state in self.states:
            if state.session in commit.sessions:
                yield _answer(state, _only(state), "certain", f"the commit says so: {TRAILER}: {state.session}")

    def _rewritten(self, commit: Commit) -> Iterator[Answer]:
        """Rebased or amended where nobody recorded it: by its tree, or by author time and first line."""
        for state in self.states:
            for record in state.commits.values():
                if record.sha == commit.sha or record.authored != commit.authored:
                    continue
                same_words = record.subject == commit.subject
                if record.tree == commit.tree or same_words:
                    what = "the same tree" if record.tree == commit.tree else "the same first line"
                    because = f"it has the author time and {what} of {record.sha[:12]}, which is recorded"
                    yield _of_record(state, record)._replace(certainty="likely", because=because)
                    break

    def _with_content(self, commit: Commit, path: str | None) -> Iterator[Answer]:
        """Sessions that left files exactly as the commit has them."""
        if self._git is None:
            return
        listed = [one for one in self._git.files_of(commit.sha) if path is None or one[1] == path]
        hashes = {
            name: None if action == "deleted" else self._git.blob_hash(commit.sha, name)
            for action, name in listed[:_MOST_FILES]
        }
        holds: list[tuple[State, set[str], FileState]] = []
        for state in self.states:
            left = {
                change.path: change for change in state.files
                if change.hash_after is not None and hashes.get(change.path) == change.hash_after
                and change.at <= commit.until
            }  # fmt: skip
            if left:
                holds.append((state, set(left), max(left.values(), key=lambda change: change.at)))
        whole = [state.session for state, held, _ in holds if len(held) == len(listed)]
        for state, held, change in holds:
            certainty: Certainty = "likely" if whole == [state.session] else "uncertain"
            many = f"{len(held)} of its {len(listed)} files" if len(listed) > 1 else f"{change.path}"
            yield _answer(
                state, _conversation(state, change), certainty, f"it holds {many} exactly as this session left it"
            )

    def _at_that_time(self, commit: Commit) -> Iterator[Answer]:
        for state in self.states:
            if any(run.since <= commit.until and commit.at <= (run.until or run.since) for run in state.time.active):
                yield _answer(
                    state, None, "uncertain",
                    f"this session was at work when it was made, at {text(commit.at)}; nothing says more",
                )  # fmt: skip

    # ── files and lines ──────────────────────────────────────────────────────────────────────────────────

    def is_file(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def is_recorded(self, path: str) -> bool:
        return any(change.path == path for state in self.states for change in state.files)

    def _full(self, path: str) -> str:
        return os.path.join(self._keeper.place.root, *path.split("/")) if "\0" not in path else os.devnull

    def about_file(self, path: str) -> Found:
        return Found(path, None, path, None, _best([*self._of_content(path), *self._of_history(path)]))

    def about_line(self, path: str, line: int) -> Found:
        about = f"{path}:{line}"
        if self._git is None:
            return Found(about, None, path, line, _best(list(self._of_content(path))))
        blamed = self._git.blame(path, line)
        commit = None if blamed.commit is None else self.commit(blamed.commit)
        if commit is None:
            return Found(f"{about}, not committed", None, path, line, _best(list(self._of_content(path))))
        answers = self.of_commit(commit, blamed.path)
        return Found(f"{about} {_titled(commit)}", commit.sha, path, line, _best(answers))

    def _of_content(self, path: str) -> Iterator[Answer]:
        """Sessions that changed a file: certain for the one that left it as it is."""
        try:
            now = files.hash_file(self._full(path), _LARGEST)
        except (OSError, ValueError, HoldfastError):
            now = None
        as_it_is = True
        for state in self.states:
            changes = [change for change in state.files if change.path == path]
            if not changes:
                continue
            last = next((one for one in reversed(changes) if now is not None and one.hash_after == now), None)
            if last is not None and as_it_is:
                as_it_is = False
                unsure = last.by in ("unknown", None) and len(last.among) > 1
                yield _answer(
                    state, _conversation(state, last), "uncertain" if unsure else "certain",
                    f"{_how(last)} at {text(last.at)}, and the file is still as it left it"
                    + (f"; {_or(last.among)} may have done it" if unsure else ""),
                )  # fmt: skip
            else:
                last = changes[-1]
                yield _answer(
                    state, _conversation(state, last), "likely" if now is None else "uncertain",
                    f"{_how(last)} at {text(last.at)}; the file is another one by now",
                )  # fmt: skip

    def _of_history(self, path: str) -> Iterator[Answer]:
        """Sessions that made commits that changed a file."""
        if self._git is None:
            return
        try:
            commits = self._git.files_changed_by(path, _MOST_COMMITS)
        except HoldfastError:
            return
        for commit in commits:
            for one in (*self.recorded_as(commit.sha), *self._named(commit)):
                yield one._replace(because=f"{commit.sha[:12]} changed it; {one.because}")


def _of_record(state: State, record: CommitState) -> Answer:
    certainty: Certainty = "certain" if record.certainty == "certain" else (
        "likely" if record.certainty == "likely" else "uncertain"
    )  # fmt: skip
    if record.conversation is not None:
        because = {
            "certain": f"{record.conversation} ran the command that made it",
            "likely": f"{record.conversation} was at work when it was made",
        }.get(certainty, f"{record.conversation} may have made it")
        if record.among:
            because += f"; {_or(record.among)} were at work at once"
    elif record.among:
        because = f"{_or(record.among)} may have made it: all of them, or the person, were at work then"
    else:
        because = "a person made it while the session was open; no conversation was at work"
    return _answer(state, record.conversation, certainty, f"{because} ({text(record.at)})")


def _answer(state: State, conversation: str | None, certainty: Certainty, because: str) -> Answer:
    name = None if conversation is None else conversation.partition(":")[2]
    return Answer(state.session, view.word(state, "goal") or "", name, certainty, because)


def _conversation(state: State, change: FileState) -> str | None:
    if change.by == "person":
        return None
    return change.among[0] if len(change.among) == 1 else None if change.among else _only(state)


def _only(state: State) -> str | None:
    """The conversation of a session that has only one."""
    names = [view.native_name(one.agent, one.id) for one in state.native.values()]
    return names[0] if len(names) == 1 else None


def _how(change: FileState) -> str:
    how = {"tool": "an agent's tool", "command": "a command", "person": "a person"}.get(change.by or "", "somebody")
    return f"{how} {change.action} it"


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _titled(commit: Commit) -> str:
    return f"{commit.sha[:12]} {commit.subject}"


def _best(answers: list[Answer]) -> list[Answer]:
    """Of each session and conversation the surest answer; the surest first."""
    found: dict[str, Answer] = {}
    for one in answers:
        known = found.get(one.id)
        if known is None or _RANK[one.certainty] < _RANK[known.certainty]:
            found[one.id] = one
    return sorted(found.values(), key=lambda one: _RANK[one.certainty])
