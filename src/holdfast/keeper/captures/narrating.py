"""Into which sessions a story goes. A conversation of the past is one session, whose id follows from the
conversation, named as a conversation that hooks report; what it gained after a person had ended that session is
another one that continues it. Left alone for long enough, it is closed, and its session is over by itself. What hooks
heard themselves is not told a second time, and what a person deleted stays deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.capture.plain import goal_of, plain
from holdfast.capture.signals import Prompted
from holdfast.capture.transcripts import Story
from holdfast.core import agents, tasks, view
from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError
from holdfast.core.lifecycle import AGENT, FINAL, FINISHED, TASK, allows
from holdfast.core.state import State
from holdfast.core.times import HOUR, MINUTE
from holdfast.core.vocabulary import (
    TYPE_OF,
    ConversationUpdated,
    Data,
    DeviceJoined,
    NativeClosed,
    NativeLinked,
    NativeMoved,
    OfAgent,
    OfTask,
    Project,
    SessionEdited,
    SessionStarted,
    TaskReopened,
    Timer,
)
from holdfast.keeper import projects
from holdfast.keeper.captures import gone, links
from holdfast.keeper.captures.belonging import named, placeholder
from holdfast.keeper.captures.conversations import as_we_counted, described, is_news, mark_of, share
from holdfast.keeper.captures.stories import Line, Part, Window, interrupted, part
from holdfast.keeper.captures.story_files import disk, settle
from holdfast.keeper.documents.importing import session_id
from holdfast.machine import worktree
from holdfast.store import origin
from holdfast.store.interface import Draft, Transaction

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

TAG: Final = "backfilled"
_HOOKS: Final = "hook:"
_MOMENT: Final = MINUTE


class Ground(NamedTuple):
    """The project a story is of, and the directories its files are told from."""

    project: Project
    roots: tuple[str, ...]
    # Of these, the ones that are on this machine.
    here: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What became of a story: its sessions that are new, those that grew, events, and milliseconds worked."""

    new: int = 0
    grown: int = 0
    events: int = 0
    worked: int = 0


class Narrator:
    """Records stories; looks up each project once."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._grounds: dict[str, Ground] = {}
        self._device = keeper.device()
        self._timer: Timer = keeper.settings.timer
        self._now = keeper.now()
        self._gone = gone.those(keeper.home.path)
        self._join = round(keeper.settings.number("capture.join_hours") * HOUR)

    def over(self, story: Story) -> bool:
        """Whether nobody has touched the conversation for so long that it counts as closed."""
        return self._now - story.ended > self._join

    def look_around(self, story: Story) -> None:
        """Ask git about the story's project and the disk about its files, before anybody waits for us."""
        ground = self._ground(story.cwd)
        settle(story, ground.roots, disk(ground.here))

    def tell(self, transaction: Transaction, story: Story) -> Outcome:
        store = self._keeper.store()
        story.conversation = plain(story.conversation, 200)
        name = view.native_name(story.agent, story.conversation)
        if gone.stays_away(name, self._gone):
            return Outcome()
        found = {one: transaction.state(one) for one in store.find(name)}
        chain, window, last = self._chain(transaction, story)
        if last is not None and last.deleted:
            return Outcome()
        first = transaction.state(chain[0])
        inherited = first.continues is not None and story.began < (first.created_at or 0)
        if inherited:
            # What it was forked from is gone by now, and so it seems to be all its own. That was told then.
            window = Window(max(window.after, (first.created_at or 0) - 1))
            story.cost_usd = None
        heard_in = [
            state
            for one, state in found.items()
            if one not in chain and (state.deleted or links.was_linked(self._keeper, state, name))
        ]
        self._name(transaction, story, heard_in)
        self._describe(transaction, story, heard_in, [transaction.state(one) for one in chain])
        cut = min((_linked(state, story) for state in heard_in), default=None)
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
        ground = self._ground(story.cwd)
        told = part(story, window, roots=ground.roots, timer=self._timer, now=self._now)
        if told is None or not (told.lines or told.goal) or (not known and not told.goal and cut is not None):
            return Outcome()
        if not known and told.goal is None and not _worth(told):
            return Outcome()
        goes_on_in = heard_in[0].session if heard_in else None
        return self._record(
            transaction, story, chain, told, ground, known, goes_on_in=goes_on_in,
            counted=cut is None and not inherited,
        )  # fmt: skip

    def _name(self, transaction: Transaction, story: Story, heard_in: list[State]) -> None:
        """A session that heard work and no prompt (some hooks tell none) has its goal from what the agent noted; one
        that the conversation began has the agent's own title.
        """
        goal = next(
            (found for one in story.told if isinstance(one.signal, Prompted) and (found := goal_of(one.signal.text))),
            None,
        )
        for state in heard_in:
            edits = [*named(state, story.agent, story.conversation, story.title)]
            unnamed = view.word(state, "goal") == placeholder(story.agent)
            if goal is not None and not edits and unnamed and view.status_of(state) not in FINISHED:
                edits = [SessionEdited(goal=goal)]
            for edit in edits:
                said = f"{_key(story)}named:{digest(msgspec.json.encode(edit))[:16]}"
                draft = Draft(self._keeper.recorder.prepare(edit), state.updated_at, story.agent, said)
                transaction.record(state.session, draft)

    def _describe(self, transaction: Transaction, story: Story, heard_in: list[State], own: list[State]) -> None:
        """Of a conversation that hooks reported, the latest of its sessions says what the transcript says of it."""
        name = f"{story.agent}\n{story.conversation}"
        linked = [state for state in heard_in if name in state.native and not state.deleted]
        if not linked:
            return
        spelled = view.native_name(story.agent, story.conversation)
        latest = max(linked, key=lambda state: (links.is_linked(self._keeper, state, spelled), state.created_at or 0))
        others = [state for state in (*linked, *own) if state.session != latest.session]
        updated = self._keeper.recorder.prepare(self._share(story, others))
        assert isinstance(updated, ConversationUpdated)
        if is_news(latest, updated) and not self._keeper.upkeep.reads_only(latest.session):
            transaction.record(latest.session, Draft(updated, latest.updated_at, story.agent))

    def _share(self, story: Story, others: Iterable[State]) -> ConversationUpdated:
        """What the transcript says of the conversation, without what these sessions have of it."""
        return share(described(story), as_we_counted(self._keeper, others, story.agent, story.conversation))

    def _chain(self, transaction: Transaction, story: Story) -> tuple[list[str], Window, State | None]:
        """The sessions of this conversation, the last of which takes what is new; where that begins."""
        chain: list[str] = []
        after = Window().after
        while True:
            session = session_id(self._keeper, f"story {story.agent}", story.conversation, 0 if not chain else after)
            state = transaction.state(session)
            chain.append(session)
            if not state.count:
                return chain, Window(after), None
            ended = view.ended_at(state)
            if state.deleted or view.status_of(state) not in FINISHED or ended is None or ended <= after:
                return chain, Window(after), state
            after = ended

    def _record(
        self, transaction: Transaction, story: Story, chain: list[str], told: Part, ground: Ground,
        known: set[str | None], *, goes_on_in: str | None, counted: bool,
    ) -> Outcome:  # fmt: skip
        session, fresh = chain[-1], not known
        key = _key(story)
        events = 0
        state = transaction.state(session)
        before = 0 if fresh else view.worktime(state, state.updated_at).working

        def record(line: Line) -> None:
            nonlocal events
            name = key + _bounded(line.mark)
            if name in known:
                return
            here = transaction.state(session)
            for data, more in _fitting(here, line):
                if here.count and transaction.writer() not in here.heads:
                    joined = DeviceJoined(device=self._device)
                    transaction.record(session, Draft(joined, line.at, story.agent))
                draft = Draft(self._keeper.recorder.prepare(data), line.at, story.agent, name + more)
                events += transaction.record(session, draft) is not None

        if fresh:
            earlier = chain[-2] if len(chain) > 1 else self._origin(transaction, story)
            record(Line(told.began, self._start(story, earlier, told, ground), "start"))
            resume = None if story.resume is None else plain(story.resume, 500)
            linked = NativeLinked(agent=story.agent, id=story.conversation, resume=resume)
            record(Line(told.began, linked, "native"))
            transaction.know_project(ground.project)
        for data in named(transaction.state(session), story.agent, story.conversation, story.title):
            record(Line(told.began if fresh else told.ended, data, f"named:{digest(msgspec.json.encode(data))[:16]}"))
        for line in told.lines:
            record(line)
        if counted:
            updated = self._share(story, (transaction.state(one) for one in chain[:-1]))
            record(Line(told.ended, updated, mark_of(updated)))
        heard = any(one is not None and one.startswith(_HOOKS) for one in known)
        # Whoever hears a session knows best whether it goes on.
        if not heard and (goes_on_in is not None or self._now - told.ended > self._join):
            for line in interrupted(told):
                record(line)
            native: Data = NativeClosed(agent=story.agent, id=story.conversation)
            if goes_on_in is not None:
                native = NativeMoved(agent=story.agent, id=story.conversation, to=goes_on_in)
            record(Line(told.ended, native, f"closed:{told.ended}"))
        if not events:
            return Outcome()
        state = transaction.state(session)
        worked = view.worktime(state, state.updated_at).working - before
        return Outcome(int(fresh), int(not fresh), events, worked)

    def _origin(self, transaction: Transaction, story: Story) -> str | None:
        """The session of the conversation this one was forked from, if there is one."""
        parent = plain(story.parent or "", 200)
        if not parent or parent == story.conversation:
            return None
        own = session_id(self._keeper, f"story {story.agent}", parent, 0)
        if transaction.state(own).count:
            return own
        heard = links.session_of(self._keeper, view.native_name(story.agent, parent))
        return None if heard is None else heard.session

    def _start(self, story: Story, earlier: str | None, told: Part, ground: Ground) -> SessionStarted:
        title = None if story.title is None else plain(story.title, 200).strip()
        # What git says today is nothing about then.
        branch = plain(story.branch, 200) if story.branch else None
        project = msgspec.structs.replace(ground.project, git_branch=branch, git_commit=None)
        return SessionStarted(
            goal=told.goal or title or placeholder(story.agent), project=project, device=self._device,
            timer=self._timer, tags=(TAG,), continues=earlier,
        )  # fmt: skip

    def _ground(self, cwd: str | None) -> Ground:
        if (cwd or "") not in self._grounds:
            self._grounds[cwd or ""] = self._looked(cwd)
        return self._grounds[cwd or ""]

    def _looked(self, cwd: str | None) -> Ground:
        if not cwd or "\0" in cwd or len(cwd) > 4096 or not (os.path.isabs(cwd) or cwd[1:3] in (":\\", ":/")):
            return Ground(Project(id=digest(b"no project")[:16], name="unknown"), ())
        path = plain(cwd, 4096)
        try:
            # Looking at `\\host\share` would already tell the host who we are.
            place = worktree.locate(cwd) if cwd[:2] not in ("\\\\", "//") and os.path.isdir(cwd) else None
        except HoldfastError:
            place = None
        if place is None:
            name = path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
            return Ground(self._united(Project(id="", name=name, path=path)), (path,))
        for known in self._grounds.values():
            if known.project.path == place.main and place.root in known.roots:
                return Ground(known.project, tuple(dict.fromkeys((*known.roots, path))), known.here)
        seen = self._united(projects.observe(place, ""))
        roots = tuple(dict.fromkeys((place.root, place.main)))
        return Ground(seen, roots, roots)

    def _united(self, seen: Project) -> Project:
        for known in self._grounds.values():  # looked up in this run, and perhaps not stored yet
            same = known.project.path == seen.path or (seen.remote and known.project.remote == seen.remote)
            if seen.path and same:
                return msgspec.structs.replace(seen, id=known.project.id)
        return projects.found(self._keeper.store(), seen)


def _fitting(state: State, line: Line) -> Iterator[tuple[Data, str]]:
    """The event, if it says something that the state does not know better; before it, what makes room for it.

    With each, what its key has besides the line's.
    """
    data, kind = line.data, TYPE_OF[type(line.data)].name
    if isinstance(data, OfTask):
        task = tasks.find(state, data.id)
        status = "" if task is None else tasks.status_of(task)
        if status in FINAL["task"] and kind not in ("task.reopened", f"task.{status}"):
            yield TaskReopened(id=data.id), ":reopened"
            status = "pending"
        if allows(TASK, status, kind):
            yield data, ""
    elif isinstance(data, OfAgent):
        agent = agents.find(state, data.id)
        if agent is not None and allows(AGENT, agents.status_of(agent), kind):
            yield data, ""
    else:
        yield data, ""


def _key(story: Story) -> str:
    """What the key of everything that is told of a story begins with."""
    return f"story:{story.agent}:{digest(story.conversation.encode())[:16]}:"


def _bounded(mark: str) -> str:
    """Marks are ids of the agents' own: of any length, in any alphabet."""
    if len(mark) <= 100 and mark.isascii():
        return mark
    return f"x{digest(mark.encode(errors='surrogatepass'))[:32]}"


def _linked(state: State, story: Story) -> int:
    """Since when another session hears this conversation. Agents note a prompt a moment before hooks hear it."""
    for one in state.native.values():
        if one.agent == story.agent and one.id == story.conversation:
            return one.linked_at - _MOMENT
    return (state.created_at or 0) - _MOMENT


def _worth(told: Part) -> bool:
    """Without a prompt, only what left a trace in the project makes a session."""
    return any(
        TYPE_OF[type(line.data)].name in ("file.changed", "command.ran", "agent.started") for line in told.lines
    )
