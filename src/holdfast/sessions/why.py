"""Answer which session and conversation made a commit, a file or a line, and how sure that is.

Answers come only from what is recorded: commits with their names, trees and author times, files with their hashes,
and the commit's own trailers. `certain`: a record of this very commit or file says so; `likely`: it follows from
records of equal content; `uncertain`: it is only near in time, or one of several. Without records, no answer.
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
from holdfast.machine import files
from holdfast.machine.git.history import TRAILER, GitCommit, GitHistory
from holdfast.machine.wall import local_text
from holdfast.sessions import history

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_MAX_FILES: Final = 50  # files of a commit whose content is compared
_MAX_COMMITS: Final = 20  # of a file
_MAX_FILE_SIZE: Final = 16 << 20  # bytes of a file
_RANK: Final[dict[str, int]] = {"certain": 0, "likely": 1, "uncertain": 2}
_NAME: Final = re.compile(r"[0-9a-f]{4,64}")


class ChangeOrigin(NamedTuple):
    """A session with its goal and conversation, how certain it is, and why."""

    id: str
    goal: str
    conversation: str | None
    certainty: Certainty
    because: str


class WhyAnswer(NamedTuple):
    """The commit or file that was asked about, and the answers, the most certain first."""

    about: str
    commit: str | None
    file: str | None
    line: int | None
    sessions: list[ChangeOrigin]


class _Recorded(NamedTuple):
    """A recorded change to a file, with its session."""

    state: State
    change: FileState


def why(ws: Workspace, reference: str) -> WhyAnswer:
    """Say who made a commit (by any name), a file (by its path in the project) or a line of it (`FILE:LINE`)."""
    result = _find_origins(ws, reference)
    answers = [_weaken_if_shared(ws, session) for session in result.sessions]
    ranked = sorted(answers, key=lambda entry: (_RANK[entry[0].certainty], entry[1]))
    return result._replace(sessions=[answer for answer, _ in ranked])


def _weaken_if_shared(ws: Workspace, answer: ChangeOrigin) -> tuple[ChangeOrigin, bool]:
    """Weaken an answer if others write in its session: what they record proves nothing."""
    from holdfast.sessions.ownership import own_test

    is_own = own_test(ws, answer.id)
    if all(map(is_own, ws.state(answer.id).heads)):
        return answer, False
    return _at_most_likely(answer, "others also write to this session"), True


def _find_origins(ws: Workspace, reference: str) -> WhyAnswer:
    search = _Search(ws)
    path, _, number = reference.rpartition(":")
    if path and number.isdecimal() and len(number) < 10 and search.is_file(path):
        return search.about_line(path, int(number))
    if search.is_file(reference):
        return search.about_file(reference)
    git_commit = search.commit(reference)
    if git_commit is not None:
        return WhyAnswer(_titled(git_commit), git_commit.sha, None, None, _best(search.of_commit(git_commit)))
    recorded = [
        commit for state in search.states for commit in state.commits.values() if commit.sha.startswith(reference)
    ]
    names = {commit.sha for commit in recorded} if _NAME.fullmatch(reference) else set()
    if len(names) == 1:
        # The commit is not in this repository: rewritten, or made on another machine.
        answers = list(search.recorded_as(names.pop()))
        return WhyAnswer(f"{recorded[0].sha[:12]} {recorded[0].subject}", recorded[0].sha, None, None, _best(answers))
    if search.is_recorded(reference):
        return search.about_file(reference)
    raise NotFound(
        f"{reference[:80]!a} is neither a commit nor a file of this project",
        hint="Give the name of a commit, or a path relative to the project, perhaps with :LINE.",
    )


class _Search:
    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._git = GitHistory(ws.place.root) if ws.place.git else None
        states = history.states_of(ws, history.history(ws, limit=None))
        # Newest first: of two equal records, the newer one is more likely.
        self.states = sorted(states, key=lambda state: state.updated_at, reverse=True)

    # ── commits ──────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, name: str) -> GitCommit | None:
        if self._git is None or name.startswith("-"):
            return None
        try:
            entry = self._git.commit(name)
        except HoldfastError:
            return None
        return None if entry is None else self._git.with_exact_time(entry)

    def of_commit(self, commit: GitCommit) -> list[ChangeOrigin]:
        """Every session that a record connects with the commit."""
        origins = [*self.recorded_as(commit.sha), *self._named(commit), *self._rewritten(commit)]
        return origins or list(self._with_content(commit)) or list(self._at_that_time(commit))

    def recorded_as(
        self, sha: str, path: str | None = None, visited: frozenset[str] = frozenset()
    ) -> Iterator[ChangeOrigin]:
        """The records of a commit, or of the commit that an amend or rebase made it from; for a file, the one that
        introduced it.
        """
        for state in self.states:
            record = state.commits.get(sha)
            if record is None:
                continue
            earlier_origins: list[ChangeOrigin] = []
            for earlier in () if sha in visited else self._predecessors(record, path):
                reason = f"{sha[:12]} was made from {earlier[:12]} by an amend or a rebase"
                earlier_origins += [
                    origin._replace(because=f"{reason}; {origin.because}")
                    for origin in self.recorded_as(earlier, path, visited | {sha})
                ]
            yield from earlier_origins
            if not any(origin.id == state.session for origin in earlier_origins):
                yield _of_record(state, record)

    def _predecessors(self, record: CommitState, path: str | None) -> list[str]:
        """The commits that a commit replaces; for a file, those that have it unchanged or changed it."""
        if record.replaces is None or path is None or self._git is None:
            return [] if record.replaces is None else [record.replaces]
        replaced = self._git.commit(record.replaces)
        if replaced is None or self._has_same_content(record, replaced, path):
            return [record.replaces]
        return [sha for sha in record.folded if any(path == changed for _, changed in self._git.files_of(sha))]

    def _has_same_content(self, record: CommitState, replaced: GitCommit, path: str) -> bool:
        """Whether a replaced commit has the file exactly as its replacement has it."""
        assert self._git is not None
        if record.parents == replaced.parents:
            return self._git.blob_hash(record.sha, path) == self._git.blob_hash(replaced.sha, path)
        # After a rebase the file may have changes of others.
        return any(path == changed for _, changed in self._git.files_of(replaced.sha))

    def _named(self, commit: GitCommit) -> Iterator[ChangeOrigin]:
        for state in self.states:
            if state.session in commit.sessions:
                yield _answer(state, _only(state), "certain", f"the commit says so: {TRAILER}: {state.session}")

    def _rewritten(self, commit: GitCommit) -> Iterator[ChangeOrigin]:
        """Rebased or amended without a record: matched by tree, or by author time and first line."""
        if any(commit.sha in state.commits for state in self.states):
            return
        for state in self.states:
            for record in state.commits.values():
                if record.sha == commit.sha or record.authored != commit.authored:
                    continue
                same_words = record.subject == commit.subject
                if record.tree == commit.tree or same_words:
                    likeness = "the same tree" if record.tree == commit.tree else "the same first line"
                    because = f"it has the author time and {likeness} of {record.sha[:12]}, which is recorded"
                    yield _of_record(state, record)._replace(certainty="likely", because=because)
                    break

    def _with_content(self, commit: GitCommit) -> Iterator[ChangeOrigin]:
        """Sessions that left files exactly as the commit has them."""
        if self._git is None:
            return
        listed = self._git.files_of(commit.sha)
        hashes = {
            name: None if action == "deleted" else self._git.blob_hash(commit.sha, name)
            for action, name in listed[:_MAX_FILES]
        }
        matches: list[tuple[State, set[str], FileState]] = []
        for state in self.states:
            matching = {
                change.path: change for change in state.files
                if change.hash_after is not None and hashes.get(change.path) == change.hash_after
                and change.at <= commit.until
            }  # fmt: skip
            if matching:
                matches.append((state, set(matching), max(matching.values(), key=lambda change: change.at)))
        complete = [state.session for state, lines, _ in matches if len(lines) == len(listed)]
        for state, lines, change in matches:
            is_likely = complete == [state.session] and not _is_unsure(change)
            subject = f"{len(lines)} of its {len(listed)} files" if len(listed) > 1 else f"{change.path}"
            agreement = "exactly as this session left it"
            if change.by == "person" or _is_unsure(change):
                agreement = f"exactly as recorded in this session: {_describe_change(change)}"
            yield _answer(
                state,
                _conversation(state, change),
                "likely" if is_likely else "uncertain",
                f"it holds {subject} {agreement}",
            )

    def _at_that_time(self, commit: GitCommit) -> Iterator[ChangeOrigin]:
        for state in self.states:
            if any(run.since <= commit.until and commit.at <= (run.until or run.since) for run in state.time.active):
                yield _answer(
                    state, None, "uncertain",
                    f"the session was active when it was made, at {local_text(commit.at)}; no other evidence",
                )  # fmt: skip

    # ── files and lines ──────────────────────────────────────────────────────────────────────────────────

    def is_file(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def is_recorded(self, path: str) -> bool:
        return any(change.path == path for state in self.states for change in state.files)

    def _full(self, path: str) -> str:
        return os.path.join(self._ws.place.root, *path.split("/")) if "\0" not in path else os.devnull

    def about_file(self, path: str) -> WhyAnswer:
        return WhyAnswer(path, None, path, None, _best([*self._of_content(path), *self._of_history(path)]))

    def about_line(self, path: str, line: int) -> WhyAnswer:
        about = f"{path}:{line}"
        if self._git is None:
            return WhyAnswer(about, None, path, line, _best(list(self._of_content(path))))
        blamed = self._git.blame(path, line)
        commit = None if blamed.commit is None else self.commit(blamed.commit)
        if commit is None:
            return WhyAnswer(f"{about}, not committed", None, path, line, _best(list(self._of_content(path))))
        answers = self._of_line(commit, blamed.path) or list(self._at_that_time(commit))
        return WhyAnswer(f"{about} {_titled(commit)}", commit.sha, path, line, _best(answers))

    def _of_line(self, commit: GitCommit, path: str) -> list[ChangeOrigin]:
        """Sessions that changed a file to what the commit has, and those that committed it."""
        committed = [*self.recorded_as(commit.sha, path), *self._named(commit), *self._rewritten(commit)]
        changes, complete = self._changes_into(commit, path)
        if not changes:
            return [_at_most_likely(origin, f"nothing recorded says who changed {path}") for origin in committed]
        writers = {
            None if change.by == "person" or _is_unsure(change) else _conversation(state, change)
            for state, change in changes
        }  # fmt: skip
        writer = writers.pop() if len(writers) == 1 else None
        words = "; ".join(dict.fromkeys(_describe_change(change) for _, change in reversed(changes)))
        origins: list[ChangeOrigin] = []
        for origin in committed:
            if writer is None or origin.conversation != _id_of(writer):
                changed_it = any(state.session == origin.id for state, _ in changes)
                origins.append(origin._replace(
                    conversation=_id_of(writer) if changed_it else None,
                    certainty="likely" if writer and changed_it else "uncertain",
                    because=f"{words}; about the commit: {origin.because}",
                ))  # fmt: skip
            elif complete:
                origins.append(origin)
            else:
                origins.append(_at_most_likely(origin, f"not everything that changed {path} before it is recorded"))
        known = {origin.id for origin in committed}
        for state, _ in changes:
            if state.session not in known:
                origins.append(_answer(state, writer, "likely" if writer else "uncertain", words))
        return origins

    def _changes_into(self, commit: GitCommit, path: str) -> tuple[list[_Recorded], bool]:
        """The recorded changes from the parent's content to the commit's, newest first, and whether they are
        complete.
        """
        if self._git is None:
            return [], False
        parents = [item for item in map(self._git.commit, commit.parents) if item is not None]
        before = {self._git.blob_hash(parent.sha, path) for parent in parents} or {None}
        since = max((parent.at for parent in parents), default=0)
        content = self._git.blob_hash(commit.sha, path)
        recorded = self._changes_to(path)
        changes: list[_Recorded] = []
        visited: set[str] = set()
        while content is not None and content not in before and content not in visited:
            visited.add(content)
            matching = [item for item in recorded if item.change.hash_after == content]
            if not matching:
                return changes, False
            nearest = min(matching, key=lambda record: abs(record.change.at - commit.at)).change
            changes += [
                recorded._replace(change=nearest) for recorded in matching if _is_same(recorded.change, nearest)
            ]
            content = nearest.hash_before
            if content is None and nearest.action != "created":
                earlier = [item.change for item in recorded if since < item.change.at < nearest.at]
                if not earlier:
                    # Changes found by comparing work trees have no hash of a file that was as committed before.
                    return changes, nearest.by != "tool"
                content = max(earlier, key=lambda change: change.at).hash_after
        return changes, content is None or content in before

    def _changes_to(self, path: str) -> list[_Recorded]:
        return [_Recorded(state, change) for state in self.states for change in state.files if change.path == path]

    def _of_content(self, path: str) -> Iterator[ChangeOrigin]:
        """Sessions that changed a file; certain is the one that left it as it is now."""
        full = self._full(path)
        try:
            now = files.hash_file(full, _MAX_FILE_SIZE)
        except (OSError, ValueError, HoldfastError):
            now = None
        since = "it has been changed since"
        if now is None:
            since = "it cannot be compared" if os.path.lexists(full) else "it no longer exists"
        recorded = self._changes_to(path)
        as_now = [change for _, change in recorded if now is not None and change.hash_after == now]
        latest = max(as_now, key=lambda change: change.at, default=None)
        for state in self.states:
            changes = [change for change in state.files if change.path == path]
            if not changes:
                continue
            certainty: Certainty
            if latest is not None and any(_is_same(change, latest) for change in changes):
                # Several sessions may have recorded one change: all of them get the same answer.
                last, certainty = latest, "uncertain" if _is_unsure(latest) else "certain"
                because = f"{_describe_change(last)}, and the file is exactly as it was then"
            else:
                last = changes[-1]
                certainty = "likely" if now is None and not _is_unsure(last) else "uncertain"
                because = f"{_describe_change(last)}; {since}"
            yield _answer(state, _conversation(state, last), certainty, because)

    def _of_history(self, path: str) -> Iterator[ChangeOrigin]:
        """Sessions whose commits changed a file."""
        if self._git is None:
            return
        try:
            commits = self._git.files_changed_by(path, _MAX_COMMITS)
        except HoldfastError:
            return
        for commit in commits:
            # Only commits: changes that are not committed are answered by content.
            made = {origin.id for origin in (*self.recorded_as(commit.sha), *self._named(commit))}
            for origin in (origin for origin in self._of_line(commit, path) if origin.id in made) if made else ():
                yield origin._replace(because=f"{commit.sha[:12]} changed it; {origin.because}")


def _of_record(state: State, record: CommitState) -> ChangeOrigin:
    certainty: Certainty = "certain" if record.certainty == "certain" else (
        "likely" if record.certainty == "likely" else "uncertain"
    )  # fmt: skip
    if record.conversation is not None:
        because = {
            "certain": f"{record.conversation} ran the command that made it",
            "likely": f"{record.conversation} was at work when it was made",
        }.get(certainty, f"{record.conversation} may have made it")
        if record.among:
            because += f"; {_or(record.among)} were at work at the same time"
    elif record.among:
        because = f"{_or(record.among)} may have made it, or the person: all of them were at work then"
    else:
        because = "a person made it while the session was open; no conversation was at work"
    return _answer(state, record.conversation, certainty, f"{because} ({local_text(record.at)})")


def _at_most_likely(origin: ChangeOrigin, doubt: str) -> ChangeOrigin:
    return origin._replace(
        certainty="likely" if origin.certainty == "certain" else origin.certainty,
        because=f"{origin.because}; {doubt}",
    )


def _answer(state: State, conversation: str | None, certainty: Certainty, because: str) -> ChangeOrigin:
    return ChangeOrigin(state.session, view.text_value(state, "goal") or "", _id_of(conversation), certainty, because)


def _id_of(conversation: str | None) -> str | None:
    return None if conversation is None else conversation.partition(":")[2]


def _conversation(state: State, change: FileState) -> str | None:
    if change.by == "person" or (change.by == "unknown" and not change.among):
        return None
    return change.among[0] if len(change.among) == 1 else None if change.among else _only(state)


def _only(state: State) -> str | None:
    """The conversation of a session with exactly one."""
    names = [view.native_name(native.agent, native.id) for native in state.native.values()]
    return names[0] if len(names) == 1 else None


def _maker(change: FileState) -> str:
    maker = {"tool": "an agent's tool", "command": "a command", "person": "a person"}.get(change.by or "", "somebody")
    return f"{maker} {change.action} it"


def _describe_change(change: FileState) -> str:
    """A recorded change in words, with everybody who may have made it."""
    words = f"{_maker(change)} at {local_text(change.at)}"
    if not _is_unsure(change) or not change.among:
        return words
    return f"{words} ({_or(change.among if len(change.among) > 1 else (*change.among, 'a person'))} may have done it)"


def _is_unsure(change: FileState) -> bool:
    return change.by == "unknown" or (change.by is None and len(change.among) > 1)


def _is_same(change: FileState, other: FileState) -> bool:
    """Whether two records are one change: of several candidates, each session records it."""
    return change is other or (
        change.by == other.by == "unknown"
        and len(change.among) > 1
        and (change.path, change.among, change.hash_before, change.hash_after)
        == (other.path, other.among, other.hash_before, other.hash_after)
    )


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _titled(commit: GitCommit) -> str:
    return f"{commit.sha[:12]} {commit.subject}"


def _best(answers: list[ChangeOrigin]) -> list[ChangeOrigin]:
    """The most certain answer for each session and conversation, the most certain first."""
    best: dict[str, ChangeOrigin] = {}
    for answer in answers:
        known = best.get(answer.id)
        if known is None or _RANK[answer.certainty] < _RANK[known.certainty]:
            best[answer.id] = answer
    return sorted(best.values(), key=lambda origin: _RANK[origin.certainty])
