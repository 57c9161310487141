"""Decide which sessions past conversations belong to, and record them there.

Hashes of files are recorded only where they are reliable: for files that the agent created, its edits of those, and
what is still on disk as reported. Agents report others with line ends and encodings that the files may not have.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.transcript import Transcript
from holdfast.conversations.backfill.events import (
    KeyedEvent,
    TranscriptPart,
    Window,
    end_open_agents,
    make_part,
    project_path,
)
from holdfast.conversations.details import describe, differs_from_state, key_suffix, own_share, with_our_counts
from holdfast.conversations.ingest.routing import name_after_title, placeholder
from holdfast.conversations.signals import Edited, Prompted
from holdfast.core import agents, tasks, view
from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError
from holdfast.core.events import (
    TYPE_OF,
    AgentEvent,
    ConversationUpdated,
    DeviceJoined,
    EventData,
    NativeClosed,
    NativeLinked,
    NativeMoved,
    ProjectFacts,
    SessionEdited,
    SessionStarted,
    TaskEvent,
    TaskReopened,
    TimerRules,
)
from holdfast.core.lifecycle import AGENT, FINAL, FINISHED, TASK, allows
from holdfast.core.state import State
from holdfast.core.times import HOUR, MINUTE
from holdfast.machine import files
from holdfast.machine.git import worktree
from holdfast.sessions import ownership
from holdfast.sessions.format_names import session_id
from holdfast.store import origin
from holdfast.store.interface import Draft, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


_MAX_HASHED: Final = 16 << 20  # bytes: larger files are not hashed


def drop_unreliable_hashes(
    transcript: Transcript, roots: tuple[str, ...], on_disk: Callable[[str], str | None]
) -> None:
    """Remove unreliable hashes from a transcript; `on_disk` gives the present hashes of files in the project."""
    changes: dict[str, list[int]] = {}
    for place, timed in enumerate(transcript.signals):
        if isinstance(timed.signal, Edited):
            path = project_path(timed.signal.path, transcript.cwd, roots)
            if path is not None:
                changes.setdefault(path, []).append(place)
    for path, places in changes.items():
        edits = [timed.signal for place in places if isinstance((timed := transcript.signals[place]).signal, Edited)]
        for place, corrected in zip(places, _with_reliable_hashes(edits, path, on_disk), strict=True):
            transcript.signals[place] = transcript.signals[place]._replace(signal=corrected)


def _with_reliable_hashes(edits: list[Edited], path: str, on_disk: Callable[[str], str | None]) -> list[Edited]:
    # Whether an edit started from what the previous one left, as the agent reported.
    linked = [False, *(two.before is not None and two.before == edited.after for edited, two in pairwise(edits))]
    is_reliable = [False] * len(edits)
    for place, edit in enumerate(edits):
        is_reliable[place] = edit.action == "created" or (linked[place] and is_reliable[place - 1])
    last = edits[-1].after
    if not is_reliable[-1] and last is not None:
        is_reliable[-1] = on_disk(path) == last
    for place in range(len(edits) - 1, 0, -1):
        is_reliable[place - 1] |= linked[place] and is_reliable[place]
    return [
        msgspec.structs.replace(
            edit,
            before=edit.before if linked[place] and is_reliable[place - 1] else None,
            after=edit.after if is_reliable[place] else None,
        )
        for place, edit in enumerate(edits)
    ]


def file_hasher(roots: tuple[str, ...]) -> Callable[[str], str | None]:
    """A function that hashes files in these work trees, but follows no link out of them."""
    bases = [os.path.realpath(root) for root in roots]

    def hash_of(path: str) -> str | None:
        for base in bases:
            full = os.path.join(base, *path.split("/"))
            try:
                status = os.lstat(full)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_HASHED:
                    continue
                if os.path.realpath(full) != full:
                    continue
                return files.hash_file(full, _MAX_HASHED)
            except (OSError, ValueError, HoldfastError):
                continue
        return None

    return hash_of


TAG: Final = "backfilled"
_HOOK_KEYS: Final = "hook:"
_PROMPT_DELAY: Final = MINUTE


class TranscriptProject(NamedTuple):
    """The project of a transcript, and the directories that its paths refer to."""

    project: ProjectFacts
    roots: tuple[str, ...]
    # Those of them that are on this machine.
    here: tuple[str, ...] = ()


class BackfillOutcome(NamedTuple):
    """What one transcript added: new sessions, grown sessions, events, and milliseconds worked."""

    new: int = 0
    grown: int = 0
    events: int = 0
    worked: int = 0


class TranscriptRecorder:
    """Records transcripts; looks up each project once."""

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._projects: dict[str, TranscriptProject] = {}
        self._device = ws.device()
        self._timer: TimerRules = ws.settings.timer
        self._now = ws.now()
        self._deleted = deleted_marks(ws.home.path)
        self._join = round(ws.settings.number("capture.join_hours") * HOUR)

    def is_closed(self, transcript: Transcript) -> bool:
        """Whether the conversation had no activity for so long that it counts as closed."""
        return self._now - transcript.ended > self._join

    def prepare(self, transcript: Transcript) -> None:
        """Read git and the disk for a transcript, before the transaction."""
        project = self._project_at(transcript.cwd)
        drop_unreliable_hashes(transcript, project.roots, file_hasher(project.here))

    def record(self, transaction: Transaction, transcript: Transcript) -> BackfillOutcome:
        """Record what is new in a transcript, in a new session or in the one made of it earlier."""
        transcript.conversation = plain(transcript.conversation, 200)
        name = view.native_name(transcript.agent, transcript.conversation)
        if is_deleted(name, self._deleted):
            return BackfillOutcome()
        states = {session: transaction.state(session) for session in self._ws.store().find(name)}
        chain, after, last = self._chain(transaction, transcript)
        if last is not None and last.deleted:
            return BackfillOutcome()
        first = transaction.state(chain[0])
        inherited = first.continues is not None and transcript.began < (first.created_at or 0)
        if inherited:
            # Its parent was deleted since, so all of it looks new, but the parent's part was recorded then.
            after = max(after, (first.created_at or 0) - 1)
            transcript.cost_usd = None
        linked = [
            state
            for session, state in states.items()
            if session not in chain and (state.deleted or ownership.was_linked(self._ws, state, name))
        ]
        self._name(transaction, transcript, linked)
        self._describe(transaction, transcript, linked, [transaction.state(session) for session in chain])
        known, hooked_since = self._recorded_keys(last)
        reported_since = [_linked_since(state, transcript) for state in linked]
        reported_since += [] if hooked_since is None else [hooked_since]
        content = self._new_part(transcript, after, min(reported_since, default=None), is_new=not known)
        if content is None:
            return BackfillOutcome()
        return self._record(
            transaction, transcript, chain, content, known, moved_to=linked[0].session if linked else None,
            counted=not reported_since and not inherited,
        )  # fmt: skip

    def _recorded_keys(self, state: State | None) -> tuple[set[str | None], int | None]:
        """The keys of a session's events, without those of guests, and the time of the first event from a hook."""
        known: set[str | None] = set()
        hooked_since: int | None = None
        if state is not None and state.count:
            store = self._ws.store()
            guests = origin.guests(store, state.session)  # they could have recorded any key beforehand
            for event in store.events(state.session):
                if event.writer not in guests:
                    known.add(event.key)
                    if event.key is not None and event.key.startswith(_HOOK_KEYS):
                        hooked_since = event.at if hooked_since is None else min(hooked_since, event.at)
        return known, hooked_since

    def _new_part(
        self, transcript: Transcript, after: int, reported_since: int | None, *, is_new: bool
    ) -> TranscriptPart | None:
        """The part between the last session's end and the first report by a hook; None if not worth recording."""
        window = Window(after) if reported_since is None else Window(after, reported_since)
        roots = self._project_at(transcript.cwd).roots
        content = make_part(transcript, window, roots=roots, timer=self._timer, now=self._now)
        if content is None or content.goal:
            return content
        if not content.events or (is_new and (reported_since is not None or not _has_work(content))):
            return None
        return content

    def _name(self, transaction: Transaction, transcript: Transcript, linked: list[State]) -> None:
        """Name linked sessions: one without a reported prompt after the transcript's first prompt, one that the
        conversation started after the agent's title.
        """
        prompts = (timed.signal.text for timed in transcript.signals if isinstance(timed.signal, Prompted))
        goal = next((goal for goal in map(goal_of, prompts) if goal), None)
        for state in linked:
            edits = [*name_after_title(state, transcript.agent, transcript.conversation, transcript.title)]
            unnamed = view.text_value(state, "goal") == placeholder(transcript.agent)
            if goal is not None and not edits and unnamed and view.status_of(state) not in FINISHED:
                edits = [SessionEdited(goal=goal)]
            for edit in edits:
                key = f"{_key(transcript)}named:{digest(msgspec.json.encode(edit))[:16]}"
                draft = Draft(self._ws.recorder.prepare(edit), state.updated_at, transcript.agent, key)
                transaction.record(state.session, draft)

    def _describe(
        self, transaction: Transaction, transcript: Transcript, sessions: list[State], own: list[State]
    ) -> None:
        """Record the details of a conversation that hooks reported, in the latest of its sessions."""
        name = f"{transcript.agent}\n{transcript.conversation}"
        linked = [state for state in sessions if name in state.native and not state.deleted]
        if not linked:
            return
        native_name = view.native_name(transcript.agent, transcript.conversation)
        latest = max(
            linked, key=lambda state: (ownership.is_linked(self._ws, state, native_name), state.created_at or 0)
        )
        others = [state for state in (*linked, *own) if state.session != latest.session]
        updated = self._ws.recorder.prepare(self._unshared_details(transcript, others))
        assert isinstance(updated, ConversationUpdated)
        if differs_from_state(latest, updated) and not self._ws.is_read_only(latest.session):
            transaction.record(latest.session, Draft(updated, latest.updated_at, transcript.agent))

    def _unshared_details(self, transcript: Transcript, others: Iterable[State]) -> ConversationUpdated:
        """The details from the transcript, without what these sessions have."""
        return own_share(
            describe(transcript), with_our_counts(self._ws, others, transcript.agent, transcript.conversation)
        )

    def _chain(self, transaction: Transaction, transcript: Transcript) -> tuple[list[str], int, State | None]:
        """The sessions made of this conversation, when the last but one ended, and the state of the last, if any.

        A session that was finished, by a person too, gets no more events: later ones go to the next in the chain.
        """
        chain: list[str] = []
        after = Window().after
        while True:
            session = session_id(
                self._ws, f"story {transcript.agent}", transcript.conversation, 0 if not chain else after
            )
            state = transaction.state(session)
            chain.append(session)
            if not state.count:
                return chain, after, None
            ended = view.ended_at(state)
            if state.deleted or view.status_of(state) not in FINISHED or ended is None or ended <= after:
                return chain, after, state
            after = ended

    def _record(
        self,
        transaction: Transaction,
        transcript: Transcript,
        chain: list[str],
        content: TranscriptPart,
        known: set[str | None],
        *,
        moved_to: str | None,
        counted: bool,
    ) -> BackfillOutcome:
        session, is_new = chain[-1], not known
        state = transaction.state(session)
        before = 0 if is_new else view.worktime(state, state.updated_at).working
        keyed_events = self._opening_events(transaction, transcript, chain, content) if is_new else iter(())
        events = self._append(transaction, session, transcript, keyed_events, known)
        names = name_after_title(
            transaction.state(session), transcript.agent, transcript.conversation, transcript.title
        )
        named_at = content.began if is_new else content.ended
        rest = [KeyedEvent(named_at, data, f"named:{digest(msgspec.json.encode(data))[:16]}") for data in names]
        rest += content.events
        if counted:
            updated = self._unshared_details(transcript, (transaction.state(name) for name in chain[:-1]))
            rest.append(KeyedEvent(content.ended, updated, key_suffix(updated)))
        reported = any(name is not None and name.startswith(_HOOK_KEYS) for name in known)
        # Where hooks report the session, they also report its end.
        if not reported and (moved_to is not None or self._now - content.ended > self._join):
            rest += _closing_events(transcript, content, moved_to)
        events += self._append(transaction, session, transcript, rest, known)
        if not events:
            return BackfillOutcome()
        state = transaction.state(session)
        worked = view.worktime(state, state.updated_at).working - before
        return BackfillOutcome(int(is_new), int(not is_new), events, worked)

    def _opening_events(
        self, transaction: Transaction, transcript: Transcript, chain: list[str], content: TranscriptPart
    ) -> Iterator[KeyedEvent]:
        project = self._project_at(transcript.cwd).project
        earlier = chain[-2] if len(chain) > 1 else self._origin(transaction, transcript)
        yield KeyedEvent(content.began, self._start(transcript, earlier, content, project), "start")
        resume = None if transcript.resume is None else plain(transcript.resume, 500)
        linked = NativeLinked(agent=transcript.agent, id=transcript.conversation, resume=resume)
        yield KeyedEvent(content.began, linked, "native")
        transaction.remember_project(project)

    def _append(
        self,
        transaction: Transaction,
        session: str,
        transcript: Transcript,
        keyed_events: Iterable[KeyedEvent],
        known: set[str | None],
    ) -> int:
        """Record the events whose keys are not known; gives their number."""
        appended = 0
        for keyed in keyed_events:
            key = _key(transcript) + _bounded_mark(keyed.mark)
            if key in known:
                continue
            state = transaction.state(session)
            for data, suffix in _adapt_event(state, keyed):
                if state.count and transaction.writer() not in state.heads:
                    joined = DeviceJoined(device=self._device)
                    transaction.record(session, Draft(joined, keyed.at, transcript.agent))
                draft = Draft(self._ws.recorder.prepare(data), keyed.at, transcript.agent, key + suffix)
                appended += transaction.record(session, draft) is not None
        return appended

    def _origin(self, transaction: Transaction, transcript: Transcript) -> str | None:
        """The session of the conversation that this one was forked from, if any."""
        parent = plain(transcript.parent or "", 200)
        if not parent or parent == transcript.conversation:
            return None
        own = session_id(self._ws, f"story {transcript.agent}", parent, 0)
        if transaction.state(own).count:
            return own
        state = ownership.session_of(self._ws, view.native_name(transcript.agent, parent))
        return None if state is None else state.session

    def _start(
        self, transcript: Transcript, earlier: str | None, content: TranscriptPart, facts: ProjectFacts
    ) -> SessionStarted:
        title = None if transcript.title is None else plain(transcript.title, 200).strip()
        # The present commit says nothing about that time.
        branch = plain(transcript.branch, 200) if transcript.branch else None
        project = msgspec.structs.replace(facts, git_branch=branch, git_commit=None)
        return SessionStarted(
            goal=content.goal or title or placeholder(transcript.agent), project=project, device=self._device,
            timer=self._timer, tags=(TAG,), continues=earlier,
        )  # fmt: skip

    def _project_at(self, cwd: str | None) -> TranscriptProject:
        if (cwd or "") not in self._projects:
            self._projects[cwd or ""] = self._find_project(cwd)
        return self._projects[cwd or ""]

    def _find_project(self, cwd: str | None) -> TranscriptProject:
        if not cwd or "\0" in cwd or len(cwd) > 4096 or not (os.path.isabs(cwd) or cwd[1:3] in (":\\", ":/")):
            return TranscriptProject(ProjectFacts(id=digest(b"no project")[:16], name="unknown"), ())
        path = plain(cwd, 4096)
        try:
            # Accessing `\\host\share` would already send our identity to the host.
            place = worktree.locate(cwd) if cwd[:2] not in ("\\\\", "//") and os.path.isdir(cwd) else None
        except HoldfastError:
            place = None
        if place is None:
            name = path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
            return TranscriptProject(self._with_known_id(ProjectFacts(id="", name=name, path=path)), (path,))
        for known in self._projects.values():
            if known.project.path == place.main and place.root in known.roots:
                return TranscriptProject(known.project, tuple(dict.fromkeys((*known.roots, path))), known.here)
        facts = self._with_known_id(projects.observe(place, ""))
        roots = tuple(dict.fromkeys((place.root, place.main)))
        return TranscriptProject(facts, roots, roots)

    def _with_known_id(self, facts: ProjectFacts) -> ProjectFacts:
        for known in self._projects.values():  # looked up in this run, perhaps not stored yet
            same = known.project.path == facts.path or (facts.remote and known.project.remote == facts.remote)
            if facts.path and same:
                return msgspec.structs.replace(facts, id=known.project.id)
        return projects.find_project(self._ws.store(), facts)


def _adapt_event(state: State, keyed: KeyedEvent) -> Iterator[tuple[EventData, str]]:
    """The event, unless the state already has better; before it, events that it requires.

    Each with an addition to the line's key.
    """
    data, kind = keyed.data, TYPE_OF[type(keyed.data)].name
    if isinstance(data, TaskEvent):
        task = tasks.find(state, data.id)
        status = "" if task is None else tasks.status_of(task)
        if status in FINAL["task"] and kind not in ("task.reopened", f"task.{status}"):
            yield TaskReopened(id=data.id), ":reopened"
            status = "pending"
        if allows(TASK, status, kind):
            yield data, ""
    elif isinstance(data, AgentEvent):
        agent = agents.find(state, data.id)
        if agent is not None and allows(AGENT, agents.status_of(agent), kind):
            yield data, ""
    else:
        yield data, ""


def _closing_events(transcript: Transcript, content: TranscriptPart, moved_to: str | None) -> Iterator[KeyedEvent]:
    yield from end_open_agents(content)
    closed: EventData = NativeClosed(agent=transcript.agent, id=transcript.conversation)
    if moved_to is not None:
        closed = NativeMoved(agent=transcript.agent, id=transcript.conversation, to=moved_to)
    yield KeyedEvent(content.ended, closed, f"closed:{content.ended}")


def _key(transcript: Transcript) -> str:
    """The prefix of the keys of a transcript's events."""
    return f"story:{transcript.agent}:{digest(transcript.conversation.encode())[:16]}:"


def _bounded_mark(mark: str) -> str:
    """Marks are agents' own ids, of any length and alphabet."""
    if len(mark) <= 100 and mark.isascii():
        return mark
    return f"x{digest(mark.encode(errors='surrogatepass'))[:32]}"


def _linked_since(state: State, transcript: Transcript) -> int:
    """Since when another session gets this conversation from hooks. Agents write a prompt just before hooks report
    it.
    """
    for native in state.native.values():
        if native.agent == transcript.agent and native.id == transcript.conversation:
            return native.linked_at - _PROMPT_DELAY
    return (state.created_at or 0) - _PROMPT_DELAY


def _has_work(content: TranscriptPart) -> bool:
    """Whether something was changed or run. A conversation without that and without a prompt makes no session."""
    return any(
        TYPE_OF[type(keyed.data)].name in ("file.changed", "command.ran", "agent.started") for keyed in content.events
    )


# ── conversations of deleted sessions ──────────────────────────────────────────────────────────────────


_MAX_DELETED_LIST = 1 << 24


def remember_deleted(home: str, names: Iterable[str]) -> None:
    """Note that these conversations, as `agent:id`, must not be imported again. Call it before the erasure."""
    marks = _read_deleted(home) | {_conversation_mark(name) for name in names}
    files.write_atomic(_deleted_path(home), ("\n".join(sorted(marks)) + "\n").encode())


def deleted_marks(home: str) -> frozenset[str]:
    """The marks of conversations that must not be imported; see `is_deleted`."""
    return frozenset(_read_deleted(home))


def is_deleted(name: str, marks: frozenset[str]) -> bool:
    return bool(marks) and _conversation_mark(name) in marks


def _conversation_mark(name: str) -> str:
    return digest(b"conversation\n", name.encode(errors="surrogatepass"))


def _deleted_path(home: str) -> str:
    return os.path.join(home, "deleted-conversations")


def _read_deleted(home: str) -> set[str]:
    path = _deleted_path(home)
    if not os.path.lexists(path):
        return set()
    try:
        return set(files.read_limited(path, _MAX_DELETED_LIST, subject="the deleted conversations").decode().split())
    except (HoldfastError, UnicodeDecodeError):
        return set()
