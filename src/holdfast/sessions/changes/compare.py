"""Compare work trees with their snapshots, and record changed files and new commits.

A tree is compared after a turn began or ended: by the process that drains after a hook, and by commands that show
files, never by a hook itself. Agents report the edits of their tools; other changes within a turn were made by a
command, and changes outside of turns by the person (`core.attribution`). Events get the time of the turn's boundary,
which already is a sign of activity: late detection changes no hours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from holdfast.core import limits, view
from holdfast.core.attribution import AgentTurn, Attribution, attribute, maker_of
from holdfast.core.canonical import MAX_SAFE_INTEGER, digest
from holdfast.core.errors import Busy, HoldfastError, Unreachable
from holdfast.core.events import CommitRecorded, EventData, ExtraKept, FileChanged
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import FileState, State
from holdfast.core.text import shorten
from holdfast.machine import error_log
from holdfast.machine.git.history import GitCommit, GitHistory
from holdfast.machine.process import ProcessIdentity, liveness
from holdfast.sessions.changes import tree_snapshot, tree_state
from holdfast.sessions.changes.tree_snapshot import FileDifference, NewCommit, TreeComparison
from holdfast.sessions.changes.tree_state import AS_COMMITTED, LogMark, TreeEntry, TreeSnapshot, names_of
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace

NOT_COMPARED: Final = "work_tree"  # in a session's `extra`
_MAX_ROUNDS: Final = 3  # rounds: a turn may begin or end during a comparison
_MAX_REPORT_LEAD: Final = 10  # ms by which a report may be dated before its edit
_MAX_REPORT_DELAY: Final = 2_000  # ms within which an edit is reported
_MAX_SUBJECT_LENGTH: Final = 300
_MAX_NAME_LENGTH: Final = 250
_MAX_PARENTS: Final = 20
_ID: Final = 36  # characters of a session's id


def compare_due(ws: Workspace, *, only_here: bool = False, patience: float = 5.0) -> None:
    """Compare every work tree in which a turn began or ended since the last comparison; `only_here`: only this one.

    Never raises for a broken repository or a busy store: the next call tries again.
    """
    store = ws.existing_store()
    if store is None:
        return
    for _ in range(_MAX_ROUNDS):
        try:
            due = [tree for tree in tree_state.trees_due(store) if not only_here or tree.root == ws.place.root]
        except HoldfastError:
            return  # the caller's own access to the store reports it
        if not due:
            return
        for tree in due:
            _compare_or_postpone(ws, tree.root, patience)


def compare_at_end(ws: Workspace, session: str, at: int | None = None) -> None:
    """Compare this work tree because a session ends: changes since its last turn are the person's."""
    store = ws.existing_store()
    if store is None or store.remembered(tree_state.snapshot_name(ws.place.root)) is None:
        return  # without an earlier snapshot there is nothing to compare with
    _compare_or_postpone(ws, ws.place.root, 5.0, TurnEnd(session, ws.now() if at is None else at))


def forget(ws: Workspace, session: str) -> None:
    """Forget the snapshots of a deleted session's work trees: they hold its paths too."""
    store = ws.store()
    names = {name for root in (ws.place.root, *store.places(session)) for name in names_of(root)}
    for value in store.remembered_under(tree_state.TURNS_PREFIX).values():
        tree = tree_state.decode_turns(value, "")
        if any(turn.session == session for turn in tree.turns):
            names.update(names_of(tree.root))
    project = ws.state(session).project
    names.update(names_of(project.path) if project is not None and project.path is not None else ())
    known = {*store.remembered_under(tree_state.TURNS_PREFIX), *store.remembered_under(tree_state.SNAPSHOT_PREFIX)}
    if names & known:
        with ws.transaction() as transaction:
            for name in sorted(names & known):
                transaction.remember(name, None)


def commit_of(ws: Workspace, sha: str, branch: str | None) -> CommitRecorded:
    """The event of a commit that Holdfast made itself, even if git fails now."""
    try:
        commit = GitHistory(ws.place.root).commit(sha)
    except HoldfastError:
        commit = None
    return CommitRecorded(sha=sha) if commit is None else _recorded(commit, branch)


class TurnEnd(NamedTuple):
    session: str
    at: int


def _compare_or_postpone(ws: Workspace, root: str, patience: float, ending: TurnEnd | None = None) -> None:
    try:
        tree_ws = ws if root == ws.place.root else ws.at(root)
        _compare(tree_ws, patience, ending)
    except (Busy, Unreachable):
        return
    except Exception as error:  # noqa: BLE001 (a repository must not stop the verb)
        message = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
        error_log.note(ws.home.path, "compare", f"{root}: {message}")
        with suppress(HoldfastError):
            _postpone(ws, root, patience, ending, message)


def _postpone(ws: Workspace, root: str, patience: float, ending: TurnEnd | None, reason: str) -> None:
    """Try again at the next turn; a session that ends records that it was not compared."""
    with ws.transaction(patience=patience) as transaction:
        tree = tree_state.decode_turns(transaction.remembered(tree_state.turns_name(root)), root)
        if ending is not None:
            _Recording(ws, transaction, [], TreeSnapshot(ws.now()), ending).not_compared(reason)
            return
        tree.due = None
        tree_state.keep_turns(transaction, tree)


def _compare(ws: Workspace, patience: float, ending: TurnEnd | None) -> None:
    root, store = ws.place.root, ws.store()
    value = store.remembered(tree_state.snapshot_name(root))
    tree = tree_state.decode_turns(store.remembered(tree_state.turns_name(root)), root)
    began = min((turn.began for turn in tree.turns), default=ws.now())
    before = tree_state.decode_snapshot(value) or TreeSnapshot(began)
    comparison: TreeComparison | None = None
    reason = ""
    if os.path.isdir(root) and ws.place.git:
        mirrored = ws.own_paths()
        try:
            comparison = tree_snapshot.compare_tree(GitHistory(root), before, ws.now(), mirrored)
        except HoldfastError as error:
            reason = error.message
    with ws.transaction(patience=patience) as transaction:
        if transaction.remembered(tree_state.snapshot_name(root)) != value:
            return  # another process has compared it meanwhile
        current = tree_state.decode_turns(transaction.remembered(tree_state.turns_name(root)), root)
        if current.due == tree.due:
            current.due = None
        if comparison is None:
            if reason:
                _Recording(ws, transaction, current.turns, before, ending).not_compared(reason)
                current.not_before = ws.now() + limits.TREE_REST
            current.turns = [turn for turn in current.turns if turn.ended is None]
        else:
            recording = _Recording(ws, transaction, current.turns, before, ending)
            snapshot = recording.record(comparison)
            transaction.remember(tree_state.snapshot_name(root), msgspec.msgpack.encode(snapshot))
            oldest = min((entry.since for entry in snapshot.entries.values() if entry.since), default=snapshot.at)
            current.turns = [turn for turn in current.turns if turn.ended is None or turn.ended >= oldest]
        tree_state.keep_turns(transaction, current)


class _Recording:
    """Records the result of one comparison in the sessions that were active."""

    def __init__(
        self,
        ws: Workspace,
        transaction: Transaction,
        known: list[AgentTurn],
        before: TreeSnapshot,
        ending: TurnEnd | None,
    ) -> None:
        self._ws = ws
        self._transaction = transaction
        self._before = before
        self._ending = ending
        self._turns = [self._with_end(turn) for turn in known]
        self._sessions = list(dict.fromkeys(turn.session for turn in known))
        self._left_out: dict[str, int] = {}
        self._recorded: dict[str, int] = {}

    def record(self, comparison: TreeComparison) -> TreeSnapshot:
        """Record what can be attributed; gives the next snapshot, in which the rest is unchanged."""
        snapshot = comparison.snapshot
        waiting = self._record_commits(comparison.commits)
        if waiting is not None:
            snapshot.log, snapshot.head = waiting
        reports = self._reports()
        for difference in comparison.differences:
            if _is_reported(difference, reports.get(difference.path, ())):
                continue
            if not self._record_file(difference, snapshot.at):
                _keep_entry(snapshot, difference, self._before)
        for session, count in self._left_out.items():
            words = f"{count:,} more files changed at once than the {limits.MAX_TREE_CHANGES:,} that are recorded"
            at = snapshot.at if self._ending is None else min(snapshot.at, self._ending.at)
            self._record_events(session, [(at, _note(words))], "")
        return snapshot

    def not_compared(self, reason: str) -> None:
        for session in dict.fromkeys([*self._sessions, *([self._ending.session] if self._ending else [])]):
            state = self._transaction.state(session)
            note = _note(shorten(f"not compared: {reason}", 300))
            if state.extra.get(NOT_COMPARED) != note.value:
                self._record_events(session, [(self._ws.now(), note)], "")

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def _record_file(self, difference: FileDifference, now: int) -> bool:
        """Record a change; False if that has to wait, because a turn that may have made the change has not ended."""
        attribution = attribute(self._turns, difference.since, difference.until)
        running = [turn for turn in attribution.among if turn.ended is None]
        if attribution.by == "person":
            if self._agents_at_work(difference.until):
                attribution = Attribution("unknown")
            return self._record_for_person(difference, attribution)
        conversations = {turn.conversation for turn in attribution.among}
        # With several agents, later reports do not decide, except on an edit made a moment ago.
        if running and (len(conversations) == 1 or now - difference.until < _MAX_REPORT_DELAY):
            return False
        for session in dict.fromkeys(turn.session for turn in attribution.among):
            turn = next(turn for turn in attribution.among if turn.session == session)
            self._append(session, difference, attribution, turn.ended or turn.began)
        return True

    def _record_for_person(self, difference: FileDifference, attribution: Attribution) -> bool:
        """Record it in the session whose prompt came next, unless that session started after the change."""
        following = next((turn for turn in self._turns if turn.began >= difference.until), None)
        if following is not None:
            session, at = following.session, following.began
        elif self._ending is not None and difference.since <= self._ending.at:
            session, at = self._ending
        else:
            return False
        if difference.until >= self._transaction.state(session).time.start:
            self._append(session, difference, attribution, at)
        return True

    def _append(self, session: str, difference: FileDifference, attribution: Attribution, at: int) -> None:
        if self._recorded.get(session, 0) >= limits.MAX_TREE_CHANGES:
            self._left_out[session] = self._left_out.get(session, 0) + 1
            return
        self._recorded[session] = self._recorded.get(session, 0) + 1
        lines = difference.lines or (None, None)
        data = FileChanged(
            path=difference.path, action=difference.action, lines_added=lines[0], lines_removed=lines[1],
            hash_before=difference.hash_before, hash_after=difference.hash_after,
            by=attribution.by, among=attribution.conversations,
        )  # fmt: skip
        key = digest(
            f"{difference.path}\n{difference.action}\n{difference.hash_after}\n{difference.until}".encode(
                errors="surrogatepass"
            )
        )
        moment = _within_signs(self._transaction.state(session), at)
        self._record_events(session, [(moment, data)], f"tree:{self._before.at}:{key[:24]}")

    def _reports(self) -> dict[str, list[FileState]]:
        """The changes recorded for each file since the last comparison."""
        current = self._ws.store().current(self._ws.place.root)
        since = min([self._before.at, *(entry.since for entry in self._before.entries.values() if entry.since)])
        reports: dict[str, list[FileState]] = {}
        for session in {*self._sessions, *([current] if current else [])}:
            for change in self._transaction.state(session).files:
                if change.at >= since - _MAX_REPORT_LEAD:
                    reports.setdefault(change.path, []).append(change)
        return reports

    def _agents_at_work(self, at: int) -> bool:
        """Whether a background agent was running at that moment."""
        return any(
            run.since <= at and (run.until is None or at <= run.until)
            for session in self._sessions
            for agent in self._transaction.state(session).agents.values()
            for run in agent.runs
        )

    def _with_end(self, turn: AgentTurn) -> AgentTurn:
        """End a turn whose program has ended without a report."""
        if turn.ended is not None:
            return turn
        agent, _, conversation = turn.conversation.partition(":")
        native = self._transaction.state(turn.session).native.get(f"{agent}\n{conversation}")
        process = None if native is None else native.process
        if self._ending is not None and self._ending.session == turn.session:
            turn.ended, turn.broken_off = max(self._ending.at, turn.began), True
        elif process and liveness(ProcessIdentity(*astuple(process))) == "dead":
            turn.ended, turn.broken_off = turn.last_report, True
        return turn

    # ── commits ──────────────────────────────────────────────────────────────────────────────────────────

    def _record_commits(self, commits: list[NewCommit]) -> tuple[LogMark | None, str | None] | None:
        """Record commits; gives where to continue from if one has to wait for the end of a turn."""
        last, head = self._before.log or LogMark("", self._before.at, ""), self._before.head
        for commit in commits:
            if not self._record_commit(commit):
                return last, head
            last, head = tree_snapshot.mark_of(commit.commit), commit.commit.sha
        return None

    def _record_commit(self, new: NewCommit) -> bool:
        commit = new.commit
        active = [turn for turn in self._turns if turn.began <= commit.until and turn.ended is None]
        if active:
            return False
        maker = maker_of(self._turns, commit.since, commit.until)
        named_sessions = [session for session in commit.sessions if self._is_here(session)]
        if named_sessions:
            sessions = named_sessions[:1]
        elif maker.conversation is not None:
            sessions = [turn.session for turn in self._turns if turn.conversation == maker.conversation][-1:]
        elif maker.among:
            sessions = list(dict.fromkeys(turn.session for turn in self._turns if turn.conversation in maker.among))
        else:
            sessions = self._session_at(commit)
        data = msgspec.structs.replace(
            _recorded(commit, new.branch),
            conversation=maker.conversation, certainty=maker.certainty, among=maker.among, replaces=new.replaces,
            folded=new.folded,
        )  # fmt: skip
        for session in sessions:
            self._record_events(session, [(commit.at, data)], f"commit:{commit.sha}")
        return True

    def _session_at(self, commit: GitCommit) -> list[str]:
        """The current session of the work tree, if it was open when the commit was made."""
        if self._ending is not None and commit.since > self._ending.at:
            return []
        current = self._ending.session if self._ending else self._ws.store().current(self._ws.place.root)
        if current is None or not self._is_here(current):
            return []
        return [current] if self._transaction.state(current).time.start <= commit.until else []

    def _is_here(self, session: str) -> bool:
        """Whether it is a session of this project: a commit's trailer may name any session."""
        if session in self._sessions:
            return True
        store = self._ws.store()
        state = store.state(session) if len(session) == _ID else None
        if state is None or state.deleted or state.project is None:
            return False
        return state.project.id in projects.project_ids(store, self._ws.place)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────

    def _record_events(self, session: str, events: list[tuple[int, EventData]], key: str) -> None:
        """Record events in a session, unless it has ended or is read-only here."""
        state = self._transaction.state(session)
        if not state.count or state.deleted or view.status_of(state) in FINISHED:
            return
        if self._ws.is_read_only(session) or (key and self._transaction.knows(session, key)):
            return
        self._ws.recorder.append_reported(
            self._transaction, session, events, keys=iter([key]) if key else None, actor="holdfast"
        )


def _recorded(commit: GitCommit, branch: str | None) -> CommitRecorded:
    is_valid = branch is not None and len(branch) <= _MAX_NAME_LENGTH and branch.isprintable()
    return CommitRecorded(
        sha=commit.sha, message=shorten(commit.subject, _MAX_SUBJECT_LENGTH), branch=branch if is_valid else None,
        tree=commit.tree, parents=commit.parents[:_MAX_PARENTS],
        authored=commit.authored if abs(commit.authored) <= MAX_SAFE_INTEGER else None,
    )  # fmt: skip


def _note(words: str) -> ExtraKept:
    return ExtraKept(name=NOT_COMPARED, value=words)


def _within_signs(state: State, at: int) -> int:
    """The last sign of activity up to a moment: late detection adds nothing to the hours."""
    run = next((run for run in reversed(state.time.active) if run.since <= at), None)
    return at if run is None else min(at, run.since if run.until is None else run.until)


def _is_reported(difference: FileDifference, reports: Iterable[FileState]) -> bool:
    """Whether the change was reported: with its present hash or, without one, after the change."""
    return any(
        report.hash_after == difference.hash_after
        if report.hash_after and difference.hash_after
        else report.at + _MAX_REPORT_LEAD >= difference.until or report.action == difference.action == "deleted"
        for report in reports
    )


def _keep_entry(snapshot: TreeSnapshot, difference: FileDifference, before: TreeSnapshot) -> None:
    """Leave the entry as it was, so that the next comparison detects the change again."""
    since = (difference.before.since if difference.before is not None else 0) or before.at
    entry = difference.before or TreeEntry(0, 0, 0, None, AS_COMMITTED)
    entry.since = since
    snapshot.entries[difference.path] = entry
