"""Place past conversations: decide which sessions they belong to, and record them there. Hashes are recorded only
where they are reliable. Agents report files with line ends and encodings that the files may not have, and a
transcript does not say so. Reliable are files that the agent created, its edits of those, and what still is on disk
as reported.
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
from holdfast.conversations.backfill.events import KeyedEvent, TranscriptPart, Window, inside, interrupted, part
from holdfast.conversations.details import as_we_counted, described, is_news, mark_of, share
from holdfast.conversations.ingest.routing import named, placeholder
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


_LARGEST: Final = 16 << 20  # bytes: larger files are not hashed


def settle(story: Transcript, roots: tuple[str, ...], on_disk: Callable[[str], str | None]) -> None:
    """Remove unreliable hashes from a transcript; `on_disk` gives the present hashes of files in the project."""
    changes: dict[str, list[int]] = {}
    for place, line in enumerate(story.signals):
        if isinstance(line.signal, Edited):
            path = inside(line.signal.path, story.cwd, roots)
            if path is not None:
                changes.setdefault(path, []).append(place)
    for path, places in changes.items():
        edits = [line.signal for place in places if isinstance((line := story.signals[place]).signal, Edited)]
        for place, settled in zip(places, _settled(edits, path, on_disk), strict=True):
            story.signals[place] = story.signals[place]._replace(signal=settled)


def _settled(edits: list[Edited], path: str, on_disk: Callable[[str], str | None]) -> list[Edited]:
    # Whether an edit started from what the previous one left, as the agent reported.
    linked = [False, *(two.before is not None and two.before == edited.after for edited, two in pairwise(edits))]
    sure = [False] * len(edits)
    for place, edit in enumerate(edits):
        sure[place] = edit.action == "created" or (linked[place] and sure[place - 1])
    last = edits[-1].after
    if not sure[-1] and last is not None:
        sure[-1] = on_disk(path) == last
    for place in range(len(edits) - 1, 0, -1):
        sure[place - 1] |= linked[place] and sure[place]
    return [
        msgspec.structs.replace(
            edit,
            before=edit.before if linked[place] and sure[place - 1] else None,
            after=edit.after if sure[place] else None,
        )
        for place, edit in enumerate(edits)
    ]


def disk(roots: tuple[str, ...]) -> Callable[[str], str | None]:
    """A function that hashes files in these work trees, but follows no link out of them."""
    bases = [os.path.realpath(root) for root in roots]

    def real_path(path: str) -> str | None:
        for base in bases:
            full = os.path.join(base, *path.split("/"))
            try:
                status = os.lstat(full)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                    continue
                if os.path.realpath(full) != full:
                    continue
                return files.hash_file(full, _LARGEST)
            except (OSError, ValueError, HoldfastError):
                continue
        return None

    return real_path


TAG: Final = "backfilled"
_HOOKS: Final = "hook:"
_MOMENT: Final = MINUTE


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

    def over(self, story: Transcript) -> bool:
        """Whether the conversation had no activity for so long that it counts as closed."""
        return self._now - story.ended > self._join

    def look_around(self, story: Transcript) -> None:
        """Read git and the disk for a transcript, before the transaction."""
        project = self._project_at(story.cwd)
        settle(story, project.roots, disk(project.here))

    def tell(self, transaction: Transaction, story: Transcript) -> BackfillOutcome:
        store = self._ws.store()
        story.conversation = plain(story.conversation, 200)
        name = view.native_name(story.agent, story.conversation)
        if is_deleted(name, self._deleted):
            return BackfillOutcome()
        states = {item: transaction.state(item) for item in store.find(name)}
        chain, window, last = self._chain(transaction, story)
        if last is not None and last.deleted:
            return BackfillOutcome()
        first = transaction.state(chain[0])
        inherited = first.continues is not None and story.began < (first.created_at or 0)
        if inherited:
            # Its parent was deleted since, so all of it looks new, but the parent's part was recorded then.
            window = Window(max(window.after, (first.created_at or 0) - 1))
            story.cost_usd = None
        linked = [
            state
            for item, state in states.items()
            if item not in chain and (state.deleted or ownership.was_linked(self._ws, state, name))
        ]
        self._name(transaction, story, linked)
        self._describe(transaction, story, linked, [transaction.state(name) for name in chain])
        cut = min((_linked(state, story) for state in linked), default=None)
        known: set[str | None] = set()
        session = chain[-1]
        if last is not None and last.count:
            guests = origin.guests(store, session)  # who could have told anything beforehand
            for event in store.events(session):
                if event.writer in guests:
                    continue
                known.add(event.key)
                if event.key is not None and event.key.startswith(_HOOKS):
                    cut = event.at if cut is None else min(cut, event.at)
        if cut is not None:
            window = Window(window.after, cut)
        project = self._project_at(story.cwd)
        part_here = part(story, window, roots=project.roots, timer=self._timer, now=self._now)
        if (
            part_here is None
            or not (part_here.lines or part_here.goal)
            or (not known and not part_here.goal and cut is not None)
        ):
            return BackfillOutcome()
        if not known and part_here.goal is None and not _worth(part_here):
            return BackfillOutcome()
        goes_on_in = linked[0].session if linked else None
        return self._record(
            transaction, story, chain, part_here, project, known, goes_on_in=goes_on_in,
            counted=cut is None and not inherited,
        )  # fmt: skip

    def _name(self, transaction: Transaction, story: Transcript, linked: list[State]) -> None:
        """Name linked sessions: one without a reported prompt after the transcript's first prompt, one that the
        conversation started after the agent's title.
        """
        prompts = (line.signal.text for line in story.signals if isinstance(line.signal, Prompted))
        goal = next((goal for goal in map(goal_of, prompts) if goal), None)
        for state in linked:
            edits = [*named(state, story.agent, story.conversation, story.title)]
            unnamed = view.text_value(state, "goal") == placeholder(story.agent)
            if goal is not None and not edits and unnamed and view.status_of(state) not in FINISHED:
                edits = [SessionEdited(goal=goal)]
            for edit in edits:
                key = f"{_key(story)}named:{digest(msgspec.json.encode(edit))[:16]}"
                draft = Draft(self._ws.recorder.prepare(edit), state.updated_at, story.agent, key)
                transaction.record(state.session, draft)

    def _describe(self, transaction: Transaction, story: Transcript, sessions: list[State], own: list[State]) -> None:
        """Record the details of a conversation that hooks reported, in the latest of its sessions."""
        name = f"{story.agent}\n{story.conversation}"
        linked = [state for state in sessions if name in state.native and not state.deleted]
        if not linked:
            return
        spelled = view.native_name(story.agent, story.conversation)
        latest = max(linked, key=lambda state: (ownership.is_linked(self._ws, state, spelled), state.created_at or 0))
        others = [state for state in (*linked, *own) if state.session != latest.session]
        updated = self._ws.recorder.prepare(self._share(story, others))
        assert isinstance(updated, ConversationUpdated)
        if is_news(latest, updated) and not self._ws.is_read_only(latest.session):
            transaction.record(latest.session, Draft(updated, latest.updated_at, story.agent))

    def _share(self, story: Transcript, others: Iterable[State]) -> ConversationUpdated:
        """The details from the transcript, without what these sessions have."""
        return share(described(story), as_we_counted(self._ws, others, story.agent, story.conversation))

    def _chain(self, transaction: Transaction, story: Transcript) -> tuple[list[str], Window, State | None]:
        """The sessions of this conversation, the last of which takes what is new, and where new content begins."""
        chain: list[str] = []
        after = Window().after
        while True:
            session = session_id(self._ws, f"story {story.agent}", story.conversation, 0 if not chain else after)
            state = transaction.state(session)
            chain.append(session)
            if not state.count:
                return chain, Window(after), None
            ended = view.ended_at(state)
            if state.deleted or view.status_of(state) not in FINISHED or ended is None or ended <= after:
                return chain, Window(after), state
            after = ended

    def _record(
        self,
        transaction: Transaction,
        story: Transcript,
        chain: list[str],
        content: TranscriptPart,
        project: TranscriptProject,
        known: set[str | None],
        *,
        goes_on_in: str | None,
        counted: bool,
    ) -> BackfillOutcome:
        session, fresh = chain[-1], not known
        key = _key(story)
        events = 0
        state = transaction.state(session)
        before = 0 if fresh else view.worktime(state, state.updated_at).working

        def record(line: KeyedEvent) -> None:
            nonlocal events
            name = key + _bounded(line.mark)
            if name in known:
                return
            here = transaction.state(session)
            for data, more in _fitting(here, line):
                if here.count and transaction.writer() not in here.heads:
                    joined = DeviceJoined(device=self._device)
                    transaction.record(session, Draft(joined, line.at, story.agent))
                draft = Draft(self._ws.recorder.prepare(data), line.at, story.agent, name + more)
                events += transaction.record(session, draft) is not None

        if fresh:
            earlier = chain[-2] if len(chain) > 1 else self._origin(transaction, story)
            record(KeyedEvent(content.began, self._start(story, earlier, content, project), "start"))
            resume = None if story.resume is None else plain(story.resume, 500)
            linked = NativeLinked(agent=story.agent, id=story.conversation, resume=resume)
            record(KeyedEvent(content.began, linked, "native"))
            transaction.remember_project(project.project)
        for data in named(transaction.state(session), story.agent, story.conversation, story.title):
            record(
                KeyedEvent(
                    content.began if fresh else content.ended, data, f"named:{digest(msgspec.json.encode(data))[:16]}"
                )
            )
        for line in content.lines:
            record(line)
        if counted:
            updated = self._share(story, (transaction.state(name) for name in chain[:-1]))
            record(KeyedEvent(content.ended, updated, mark_of(updated)))
        reported = any(name is not None and name.startswith(_HOOKS) for name in known)
        # A session with hooks knows itself whether it goes on.
        if not reported and (goes_on_in is not None or self._now - content.ended > self._join):
            for line in interrupted(content):
                record(line)
            native: EventData = NativeClosed(agent=story.agent, id=story.conversation)
            if goes_on_in is not None:
                native = NativeMoved(agent=story.agent, id=story.conversation, to=goes_on_in)
            record(KeyedEvent(content.ended, native, f"closed:{content.ended}"))
        if not events:
            return BackfillOutcome()
        state = transaction.state(session)
        worked = view.worktime(state, state.updated_at).working - before
        return BackfillOutcome(int(fresh), int(not fresh), events, worked)

    def _origin(self, transaction: Transaction, story: Transcript) -> str | None:
        """The session of the conversation that this one was forked from, if any."""
        parent = plain(story.parent or "", 200)
        if not parent or parent == story.conversation:
            return None
        own = session_id(self._ws, f"story {story.agent}", parent, 0)
        if transaction.state(own).count:
            return own
        state = ownership.session_of(self._ws, view.native_name(story.agent, parent))
        return None if state is None else state.session

    def _start(
        self, story: Transcript, earlier: str | None, content: TranscriptPart, place: TranscriptProject
    ) -> SessionStarted:
        title = None if story.title is None else plain(story.title, 200).strip()
        # The present commit says nothing about that time.
        branch = plain(story.branch, 200) if story.branch else None
        project = msgspec.structs.replace(place.project, git_branch=branch, git_commit=None)
        return SessionStarted(
            goal=content.goal or title or placeholder(story.agent), project=project, device=self._device,
            timer=self._timer, tags=(TAG,), continues=earlier,
        )  # fmt: skip

    def _project_at(self, cwd: str | None) -> TranscriptProject:
        if (cwd or "") not in self._projects:
            self._projects[cwd or ""] = self._looked(cwd)
        return self._projects[cwd or ""]

    def _looked(self, cwd: str | None) -> TranscriptProject:
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
            return TranscriptProject(self._united(ProjectFacts(id="", name=name, path=path)), (path,))
        for known in self._projects.values():
            if known.project.path == place.main and place.root in known.roots:
                return TranscriptProject(known.project, tuple(dict.fromkeys((*known.roots, path))), known.here)
        seen = self._united(projects.observe(place, ""))
        roots = tuple(dict.fromkeys((place.root, place.main)))
        return TranscriptProject(seen, roots, roots)

    def _united(self, seen: ProjectFacts) -> ProjectFacts:
        for known in self._projects.values():  # looked up in this run, perhaps not stored yet
            same = known.project.path == seen.path or (seen.remote and known.project.remote == seen.remote)
            if seen.path and same:
                return msgspec.structs.replace(seen, id=known.project.id)
        return projects.find_project(self._ws.store(), seen)


def _fitting(state: State, line: KeyedEvent) -> Iterator[tuple[EventData, str]]:
    """The event, unless the state already has better; before it, events that it requires.

    Each with an addition to the line's key.
    """
    data, kind = line.data, TYPE_OF[type(line.data)].name
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


def _key(story: Transcript) -> str:
    """The prefix of the keys of a transcript's events."""
    return f"story:{story.agent}:{digest(story.conversation.encode())[:16]}:"


def _bounded(mark: str) -> str:
    """Marks are agents' own ids, of any length and alphabet."""
    if len(mark) <= 100 and mark.isascii():
        return mark
    return f"x{digest(mark.encode(errors='surrogatepass'))[:32]}"


def _linked(state: State, story: Transcript) -> int:
    """Since when another session gets this conversation from hooks. Agents write a prompt just before hooks report
    it.
    """
    for native in state.native.values():
        if native.agent == story.agent and native.id == story.conversation:
            return native.linked_at - _MOMENT
    return (state.created_at or 0) - _MOMENT


def _worth(content: TranscriptPart) -> bool:
    """Whether it makes a session: it has a prompt, or left a trace in the project."""
    return any(
        TYPE_OF[type(line.data)].name in ("file.changed", "command.ran", "agent.started") for line in content.lines
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
        return set(files.read_limited(path, _MAX_DELETED_LIST, what="the deleted conversations").decode().split())
    except (HoldfastError, UnicodeDecodeError):
        return set()
