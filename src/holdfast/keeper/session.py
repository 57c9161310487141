"""The session handle: the verbs a person, a program or an agent uses on a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from holdfast.core import view
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    AwayRecorded,
    EventData,
    MessageExchanged,
    NoteAdded,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    WorkedRecorded,
)
from holdfast.core.model import short_repr
from holdfast.core.modes import MODES
from holdfast.core.state import State
from holdfast.core.text import MAX_NAME_LENGTH, check_text, shorten
from holdfast.core.times import Moment
from holdfast.machine.wall import as_ms, local_text
from holdfast.sessions.work import Work, fraction, number

if TYPE_CHECKING:
    from holdfast.conversations.move import MovedConversation
    from holdfast.core.failures import Category
    from holdfast.core.model import Conflict
    from holdfast.formats.base import Document, FormatNote
    from holdfast.formats.plan_import import ImportedPlan
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.conflicts import ShownConflict
    from holdfast.sessions.resume import ResumeResult
    from holdfast.sessions.run import RunResult
    from holdfast.sessions.stop import StopResult
    from holdfast.sync.outgoing import OutgoingPreview
    from holdfast.sync.shares import ShareResult


class ContinuedSession(NamedTuple):
    """The session to work in: the one asked for, or a new one that continues it, with a message about that."""

    session: SessionHandle
    resumed: ResumeResult
    message: str | None = None


class SessionHandle(Work):
    """One session, by its id. It holds no state: every question is answered from the store.

    Verbs record and return the handle; `document` shows the result.
    """

    def __init__(self, keeper: Keeper, session: str) -> None:
        super().__init__(keeper, session)
        self.keeper = keeper

    def __repr__(self) -> str:
        state = self.keeper.known_state(self.id)
        known = (None, None) if state is None else (view.text_value(state, "goal"), view.shown_status(state))
        return short_repr(self, self.id[:8], *known)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def briefing(self, *, reader: str = "agent", max_chars: int = 10_000, at: Moment | None = None) -> str:
        """The text that lets a person or an agent continue where the session stopped."""
        from holdfast.sessions.briefing import brief

        return brief(self.keeper, self.id, reader=reader, max_chars=max_chars, at=as_ms(at))

    def other_names(self) -> tuple[str, ...]:
        """The names, besides its ids in formats, by which commands find the session."""
        return view.other_names(self.state())

    def guests(self) -> frozenset[str]:
        """The writers of the session's guests, other than this device."""
        from holdfast.store import origin

        return origin.guests(self.keeper.store(), self.id)

    def report(self, form: str = "md", *, at: Moment | None = None) -> str:
        """The session as a document to hand over: Markdown (`md`) or one self-contained page (`html`)."""
        from holdfast.sessions import report

        if form not in ("md", "html"):
            raise Invalid(f"unknown report format {shorten(form, 40)!a}", hint="It is md or html.")
        return (report.html if form == "html" else report.markdown)(self.document(at=at))

    def conflicts(self, *, at: Moment | None = None) -> list[ShownConflict]:
        """Values that devices set without knowing of each other: each value, whose it is, and which one counts."""
        from holdfast.sessions.conflicts import list_conflicts

        return list_conflicts(self.keeper, self.id, at=as_ms(at))

    def check_resume(self) -> ResumeResult:
        """What became of the agents and files of the session; records nothing."""
        from holdfast.sessions.resume import preview

        return preview(self.state(), self.keeper.place.root)

    def export(
        self, format_name: str, path: str | None = None, *, at: Moment | None = None
    ) -> tuple[Document, list[FormatNote]]:
        """The session as a document of one of the four formats, written to `path` if given; with notes."""
        from holdfast.formats import registry
        from holdfast.formats.export import export_document, write_document
        from holdfast.formats.import_context import configured, models

        rules = configured(registry.format_named(format_name), models(self.keeper))
        document, notes = export_document(self.keeper, self.state(at=at), rules)
        if path is not None:
            write_document(path, document, rules)
        return document, notes

    # ── sharing and sending ──────────────────────────────────────────────────────────────────────────────

    def share(
        self, email: str, *, write: bool = True, expires: Moment | None = None, remote: str | None = None
    ) -> ShareResult:
        """Let a person read this session, and write unless `write` is false."""
        from holdfast.sync import shares

        return shares.share(self.keeper, self.id, email, write=write, expires=as_ms(expires), name=remote)

    def revoke(self, email: str) -> list[str]:
        """Stop sharing the session with a person; returns the remotes."""
        from holdfast.sync import shares

        return shares.revoke(self.keeper, self.id, email)

    def preview_sync(self) -> OutgoingPreview:
        """What would leave this device with the next sync, and the secrets that would be removed."""
        from holdfast.sync.outgoing import preview

        return preview(self.keeper, self.id)

    def take_conversation(self, conversation: str, *, at: Moment | None = None) -> MovedConversation:
        """Assign a conversation (`agent:id`, a native id, or a unique prefix of it) to this session from now on."""
        from holdfast.conversations.move import move

        return move(self.keeper, conversation, self.id, at=as_ms(at))

    # ── the session itself ───────────────────────────────────────────────────────────────────────────────

    def pause(self, reason: str | None = None, *, at: Moment | None = None) -> Self:
        return self._record(SessionPaused(reason=reason), at=at)

    def resume(
        self, *, device: str | None = None, force: bool = False, gathers: bool = True, at: Moment | None = None
    ) -> ResumeResult:
        """Continue here: settle what a crash left behind, and make the session current. Conversations that begin here
        join it, unless an agent resumes it for itself: then it `gathers` nothing more.

        With `device`, that device's values win wherever devices disagree. Refused, unless `force`, where this place
        differs so much from what another device left that continuing is not safe.
        """
        from holdfast.sessions.changes.tree_state import note_beginning
        from holdfast.sessions.resume import resume

        gathers, at = gathers and self.keeper.conversation is None, as_ms(at)
        resumed = resume(self.keeper, self.id, device=device, force=force, gathers=gathers, at=at)
        note_beginning(self.keeper, at)
        return resumed

    def go_on(self, *, at: Moment | None = None) -> Self:
        """End its pause only: it does not become current, and conversations that begin here do not join it."""
        return self._record(SessionResumed(gathers=False), at=at)

    def take_up(
        self, *, device: str | None = None, force: bool = False, gathers: bool = True, at: Moment | None = None
    ) -> ContinuedSession:
        """Resume the session; if it has ended, start one that continues it, with its open tasks."""
        from holdfast.sessions.changes.tree_state import note_beginning
        from holdfast.sessions.resume import take_up

        gathers, at = gathers and self.keeper.conversation is None, as_ms(at)
        session, resumed, message = take_up(self.keeper, self.id, device=device, force=force, gathers=gathers, at=at)
        note_beginning(self.keeper, at)
        return ContinuedSession(SessionHandle(self.keeper, session), resumed, message)

    def import_plan(self, plan: ImportedPlan | str, *, at: Moment | None = None) -> Self:
        """Add the phases and tasks of a plan, or of its file; existing ones stay as they are."""
        if isinstance(plan, str):
            from holdfast.formats import plan_import

            plan = plan_import.read(plan)
        return self._record_with(plan.missing_from, at=at)

    def resolve(self, conflict: str, take: int, *, at: Moment | None = None) -> Conflict:
        """Choose one value of a conflict, by the number that `conflicts` gives it."""
        from holdfast.sessions.conflicts import resolve

        return resolve(self.keeper, self.id, conflict, take, at=as_ms(at))

    def fork(self, *, gathers: bool = True, at: Moment | None = None) -> SessionHandle:
        """Start a session that continues from here, current in this work tree; this one stays as it is."""
        from holdfast.sessions.changes.tree_state import note_beginning
        from holdfast.sessions.fork import fork

        gathers, at = gathers and self.keeper.conversation is None, as_ms(at)
        begun = SessionHandle(self.keeper, fork(self.keeper, self.id, gathers=gathers, at=at))
        note_beginning(self.keeper, at)
        return begun

    def save(self, *, at: Moment | None = None) -> Self:
        return self._record(SessionSaved(), at=at)

    def complete(
        self,
        *,
        summary: str | None = None,
        outcome: str | None = None,
        reason: str | None = None,
        at: Moment | None = None,
    ) -> Self:
        return self._end(SessionCompleted(summary=summary, outcome=outcome, reason=reason), at)

    def stop(
        self, *, keep: bool = False, discard: bool = False, reason: str | None = None, at: Moment | None = None
    ) -> StopResult:
        """Complete the session; keep or discard its branch, if it has one; returns what became of it."""
        from holdfast.sessions.stop import stop

        return stop(self.keeper, self.id, keep=keep, discard=discard, reason=reason, at=as_ms(at))

    def abort(self, reason: str | None = None, *, at: Moment | None = None) -> Self:
        return self._end(SessionAborted(reason=reason), at)

    def fail(self, message: str, *, category: str | None = None, at: Moment | None = None) -> Self:
        if category is not None:
            from holdfast.sessions.agents import known_category

            known_category(category)
        return self._record(SessionFailed(message=check_text(message, "the message"), category=category), at=at)

    def _end(self, data: EventData, at: Moment | None) -> Self:
        from holdfast.sessions.stop import end_session

        end_session(self.keeper, self.id, data, as_ms(at))
        return self

    def edit(
        self,
        *,
        goal: str | None = None,
        mode: str | None = None,
        progress: float | None = None,
        scope: str | None = None,
        summary: str | None = None,
        tags: Sequence[str] = (),
        model: str | None = None,
        cost_usd: float | None = None,
        at: Moment | None = None,
    ) -> Self:
        if mode is not None and mode not in MODES:
            raise Invalid(f"unknown mode {shorten(mode, 40)!a}", hint=f"Modes are {', '.join(MODES)}.")
        for name, value in (("goal", goal), ("scope", scope), ("summary", summary), ("model", model)):
            if value is not None:
                check_text(value, f"the {name}")
        for tag in tags:
            check_text(tag, "the tag", max_length=MAX_NAME_LENGTH)
        edited = SessionEdited(
            goal=goal, mode=mode, progress=None if progress is None else fraction(progress), scope=scope,
            summary=summary, tags=tuple(tags), model=model,
            cost_usd=None if cost_usd is None else number(cost_usd, "the cost", 0, 1e9),
        )  # fmt: skip
        if edited == SessionEdited():
            raise Invalid("there is nothing to change", hint="For example: holdfast edit --progress 0.5")
        return self._record(edited, at=at)

    def note(self, words: str, *, at: Moment | None = None) -> Self:
        return self._record(NoteAdded(text=check_text(words, "the note")), at=at)

    def message(self, role: str = "user", *, at: Moment | None = None) -> Self:
        if role not in ("user", "assistant"):
            raise Invalid(f"unknown role {shorten(role, 40)!a}", hint="It is user or assistant.")

        def build(state: State) -> list[EventData]:
            # A person who writes a message is at work.
            resumes = role == "user" and view.status_of(state) == "paused" and self.keeper.message_ends_pause(state)
            ended = [SessionResumed(gathers=False)] if resumes else []
            return [*ended, MessageExchanged(role=role)]

        return self._record_with(build, at=at)

    def away(self, since: Moment, until: Moment, reason: str | None = None, *, at: Moment | None = None) -> Self:
        """Record a pause afterwards."""
        since, until = as_ms(since), as_ms(until)
        correction = AwayRecorded(since=since, until=until, reason=reason, activity=False)
        return self._correct(correction, since, until, "the pause", at=at)

    def worked(self, since: Moment, until: Moment, reason: str | None = None, *, at: Moment | None = None) -> Self:
        """Record work that was counted as a pause: the opposite of `away`. Of the two, the later one counts."""
        since, until = as_ms(since), as_ms(until)
        correction = WorkedRecorded(since=since, until=until, reason=reason, activity=False)
        return self._correct(correction, since, until, "the work", at=at)

    def _correct(self, correction: EventData, since: int, until: int, subject: str, *, at: Moment | None) -> Self:
        def build(state: State) -> list[EventData]:
            if since >= until:
                raise Invalid(f"{subject} must end after it begins")
            start, end = state.time.start, view.ended_at(state)
            if since < start:
                raise Invalid(
                    f"the session began at {local_text(start)}; {subject} must lie within it", session=self.id
                )
            if end is not None and until > end:
                raise Invalid(
                    f"the session ended at {local_text(end)}; {subject} must lie within it", session=self.id
                )
            if until > max(self.keeper.now(), state.updated_at, as_ms(at) or 0):
                hint = "Use holdfast pause for one that begins now." if subject == "the pause" else None
                raise Invalid(f"{subject} would end in the future", hint=hint)
            return [correction]

        return self._record_with(build, at=at)

    def run(
        self,
        argv: Sequence[str],
        *,
        agent_id: str | None = None,
        type: str | None = None,  # noqa: A002 (the contract's word)
        task: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        categories: Mapping[int, Category] | None = None,
        announce: Callable[[str], None] = lambda _: None,
        environ: Mapping[str, str] | None = None,
    ) -> RunResult:
        """Run a command as an agent of the session; see `holdfast.sessions.run`."""
        from holdfast.sessions.run import run

        return run(
            self.keeper, self.id, argv, agent_id=agent_id, type=type, task=task, timeout=timeout, retries=retries,
            categories=categories, announce=announce, environ=environ,
        )  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "KeptSession":
        import warnings

        warnings.warn("KeptSession is called SessionHandle now", DeprecationWarning, stacklevel=2)
        return SessionHandle
    raise AttributeError(f"module 'holdfast.keeper.session' has no attribute {name!r}")
