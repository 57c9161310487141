"""Start a session: archive the current one if asked to, create a branch, record the first event.

Git runs outside of the store's transaction: its hooks may take minutes, and may call Holdfast. The branch to be
created is noted in a file first, so that the next start undoes one that was killed in between.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import own_events, view
from holdfast.core.canonical import digest
from holdfast.core.errors import Conflict, HoldfastError, Invalid
from holdfast.core.events import EventData, ProjectFacts, SessionArchived, SessionPaused, SessionStarted
from holdfast.core.modes import MODES
from holdfast.core.state import PauseMark, State
from holdfast.core.text import MAX_NAME_LENGTH, check_text, shorten, slug
from holdfast.machine import files
from holdfast.sessions.format_names import feature_name, timer_name
from holdfast.sessions.history import current_session
from holdfast.sessions.ownership import own_test
from holdfast.sessions.work_trees import make_current
from holdfast.store.interface import Draft, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.sessions.branches import OpenedBranch
    from holdfast.workspace.workspace import Workspace

ANNOUNCED = "starting-"


def start(ws: Workspace, request: SessionStarted, *, branch: bool, replace: bool, at: int | None) -> str:
    """Start a session as `request` describes; returns its id."""
    _check(request)
    ws.existing_store()  # opening the store corrects a wrong clock
    moment = ws.recorder.moment(at, None)
    if os.path.lexists(_announcement(ws)):
        _undo_interrupted_start(ws)
    _refuse_if_unfinished(ws, replace=replace)
    observed = projects.observe(ws.place, "", ws.notices)
    if request.feature is not None:
        feature_id = feature_name(request.feature, moment)
        request = msgspec.structs.replace(request, aliases={"contract": feature_id})
        # A name that is the id of an existing feature means that feature.
        for meant in dict.fromkeys((request.feature, feature_id)):
            assert meant is not None
            _refuse_existing_feature(ws, meant, projects.find_project(ws.store(), observed))
    data = ws.recorder.prepare(msgspec.structs.replace(request, project=observed))
    assert isinstance(data, SessionStarted)
    opened: OpenedBranch | None = None
    try:
        if branch:
            # From the redacted text: a name must not hold a secret that was removed from the goal.
            alias = timer_name(moment, data.scope or data.project.name, data.task or data.goal)
            opened = _open(ws, f"session/{alias}")
            data = msgspec.structs.replace(
                data, branch=opened.branch, came_from=opened.came_from, came_commit=opened.commit,
                aliases={**data.aliases, "timer": alias},
            )  # fmt: skip
        session = new_id()
        with ws.transaction() as transaction:
            _set_current_aside(ws, transaction, replace=replace, at=at)
            project = projects.find_project(ws.store(), observed)
            if "contract" in data.aliases:
                _refuse_existing_feature(ws, data.aliases["contract"], project)
            begins = msgspec.structs.replace(data, project=project)
            transaction.record(session, Draft(begins, moment, ws.recorder.actor))
            ws.recorder.tally.needs_sync = True
            if begins.continues is not None:
                from holdfast.sessions.fork import open_plan_events

                plan = open_plan_events(transaction.state(begins.continues), transaction.writer(), ws.device())
                ws.recorder.within(transaction, session, lambda _: plan, at=at)
            transaction.remember_project(project)
            make_current(ws, transaction, session)
            for follower in ws.followers:
                follower.starting(ws, transaction, session)
    except BaseException:
        if opened is not None:
            with suppress(HoldfastError):  # the first error is reported; the next start undoes the rest
                _undo(ws, opened)
        raise
    if opened is not None:
        with suppress(OSError, HoldfastError):  # the session is recorded; the next start removes the note
            _forget(ws)
    return session


def _check(data: SessionStarted) -> None:
    if data.mode not in MODES:
        raise Invalid(f"unknown mode {shorten(data.mode, 40)!a}", hint=f"Modes are {', '.join(MODES)}.")
    if data.feature is not None and data.feature != slug(data.feature, 99):
        raise Invalid("the feature must be lower-case words joined by dashes", hint=f"Perhaps: {slug(data.feature)}")
    for name in ("goal", "scope", "task", "model"):
        value = getattr(data, name)
        if value is not None:
            check_text(value, f"the {name}")
    for tag in data.tags:
        check_text(tag, "the tag", max_length=MAX_NAME_LENGTH)


def new_id() -> str:
    """A random UUID (version 4)."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    name = raw.hex()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


# ── the current session ──────────────────────────────────────────────────────────────────────────────────────────


def _refuse_if_unfinished(ws: Workspace, *, replace: bool) -> None:
    current = current_session(ws)
    if current is not None and not replace and not _can_be_left(ws, ws.state(current)):
        goal = shorten(view.text_value(ws.state(current), "goal") or "", 60)
        raise Conflict(
            f"there is an unfinished session here: {goal!r} ({current[:8]})",
            hint="Finish it (holdfast stop), resume it (holdfast resume), or: holdfast start GOAL --replace",
            session=current,
        )


def _can_be_left(ws: Workspace, state: State) -> bool:
    """Whether a session can be left without archiving it: it is over, or it started by itself with the conversation
    that now starts another one.
    """
    if ws.is_over(state):
        return True
    if ws.conversation is None or not state.captured:
        return False
    return own_events.started_or_resumed_at(state, own_test(ws, state.session)) is None


def _set_current_aside(ws: Workspace, transaction: Transaction, *, replace: bool, at: int | None) -> None:
    """Archive the current session, so that it can be resumed. Checks again, within the transaction."""
    _refuse_if_unfinished(ws, replace=replace)
    current = current_session(ws)
    if current is None or ws.is_read_only(current) or _can_be_left(ws, ws.state(current)):
        return
    ws.recorder.within(transaction, current, replacement_events, at=at)


def _refuse_existing_feature(ws: Workspace, feature_id: str, project: ProjectFacts) -> None:
    """Raise `Conflict` if the project has a feature with this id: as a session, or in `.ai-session`."""
    store = ws.store()
    states = (store.state(session) for session in store.find(feature_id))
    # `find` also matches prefixes of ids.
    named = (state for state in states if state is not None and feature_id in state.aliases.values())
    taken = next((state for state in named if state.project is not None and state.project.id == project.id), None)
    paths = (follower.feature_path(ws, feature_id) for follower in ws.followers)
    path = next((path for path in paths if path is not None), None)
    if taken is not None or path is not None:
        raise Conflict(
            f"feature {feature_id} already exists",
            hint="Continue that one, or choose another slug; without --feature, the id gets a number.",
            operation="create", file=path, feature_id=feature_id,
            session=None if taken is None else taken.session,
        )  # fmt: skip


# ── its branch ───────────────────────────────────────────────────────────────────────────────────────────


def _open(ws: Workspace, name: str) -> OpenedBranch:
    from holdfast.machine.git.branches import GitBranches
    from holdfast.sessions.branches import open_branch

    def announce(opened: OpenedBranch) -> None:
        ws.home.prepare()
        files.write_atomic(_announcement(ws), msgspec.json.encode(opened._asdict()) + b"\n")

    try:
        return open_branch(GitBranches(ws.place.root), name, announce)
    except BaseException:
        with suppress(HoldfastError):
            _undo_interrupted_start(ws)
        raise


def _undo(ws: Workspace, opened: OpenedBranch) -> None:
    from holdfast.machine.git.branches import GitBranches
    from holdfast.sessions.branches import undo_open

    undo_open(GitBranches(ws.place.root), opened)
    _forget(ws)


def _undo_interrupted_start(ws: Workspace) -> None:
    """Undo a start that noted a branch here and was killed, unless the branch was worked on since."""
    from holdfast.machine.git.branches import GitBranches
    from holdfast.sessions.branches import OpenedBranch

    path = _announcement(ws)
    if not os.path.lexists(path):
        return
    try:
        opened = OpenedBranch(**msgspec.json.decode(files.read_limited(path, 1 << 16, subject="an announced branch")))
    except (msgspec.MsgspecError, TypeError):
        _forget(ws)
        return
    store = ws.existing_store()
    owned = store is not None and bool(store.find(opened.branch.removeprefix("session/")))
    git = GitBranches(ws.place.root)
    untouched = git.is_repository() and git.branch() == opened.branch and git.commit_id() == opened.commit
    if untouched and not owned:
        _undo(ws, opened)
    else:
        _forget(ws)


def _announcement(ws: Workspace) -> str:
    place = digest(ws.place.root.encode(errors="surrogateescape"))[:16]
    return os.path.join(ws.home.path, f"{ANNOUNCED}{place}.json")


def _forget(ws: Workspace) -> None:
    path = _announcement(ws)
    if os.path.lexists(path):
        os.unlink(path)
        files.sync_directory(ws.home.path)


REPLACED: Final = "Replaced by another session"


def replacement_events(state: State) -> list[EventData]:
    """The events of an unfinished session that another one replaces: a pause, and the archiving."""
    paused: list[EventData] = [SessionPaused(reason=REPLACED)] if view.status_of(state) == "in_progress" else []
    return [*paused, SessionArchived()]


def was_replaced(state: State) -> bool:
    """Whether it is paused because another session replaced it."""
    return view.status_of(state) == "paused" and is_replacement(view.latest_mark(state))


def is_replacement(mark: PauseMark | None) -> bool:
    """Whether this is the pause of a session that another one replaced."""
    return mark is not None and mark.kind == "manual" and mark.reason == REPLACED
