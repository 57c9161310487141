"""Starting a session: room is made for it, its branch if it wants one, then the event that begins it.

Git is asked and changed outside of the store's transaction: its hooks may take minutes, and may call Holdfast. What
is about to be done to the branch is written down first, so that a start that died in between is undone by the next.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import own_words, view
from holdfast.core.canonical import digest
from holdfast.core.errors import Conflict, HoldfastError, Invalid
from holdfast.core.modes import MODES
from holdfast.core.text import LONGEST_NAME, clean, shorten, slug
from holdfast.core.vocabulary import Project, SessionStarted
from holdfast.formats.naming import feature_name, timer_name
from holdfast.keeper import projects
from holdfast.keeper.own_devices import own_test
from holdfast.keeper.replacing import put_away
from holdfast.machine import files
from holdfast.store.interface import Draft, Transaction

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.keeper.branches import Opened
    from holdfast.keeper.keeper import Keeper


ANNOUNCED = "starting-"


def start(keeper: Keeper, wanted: SessionStarted, *, branch: bool, replace: bool, at: int | None) -> str:
    """Begin a session as `wanted` says; gives its id."""
    _check(wanted)
    keeper.existing_store()  # which knows the time where the machine's clock does not
    moment = keeper.recorder.moment(at, None)
    if os.path.lexists(_announcement(keeper)):
        _undo_what_died(keeper)
    _refuse_unless(keeper, replace=replace)
    seen = projects.observe(keeper.place, "", keeper.told)
    if wanted.feature is not None:
        feature_id = feature_name(wanted.feature, moment)
        wanted = msgspec.structs.replace(wanted, aliases={"contract": feature_id})
        # Whoever gives the whole id of a feature that is there means that one.
        for meant in dict.fromkeys((wanted.feature, feature_id)):
            assert meant is not None
            _refuse_existing_feature(keeper, meant, projects.found(keeper.store(), seen))
    data = keeper.recorder.prepare(msgspec.structs.replace(wanted, project=seen))
    assert isinstance(data, SessionStarted)
    opened: Opened | None = None
    try:
        if branch:
            # From the text as it may be stored: a name must not hold what was cut out of the goal.
            alias = timer_name(moment, data.scope or data.project.name, data.task or data.goal)
            opened = _open(keeper, f"session/{alias}")
            data = msgspec.structs.replace(
                data, branch=opened.branch, came_from=opened.came_from, came_commit=opened.commit,
                aliases={**data.aliases, "timer": alias},
            )  # fmt: skip
        session = new_id()
        with keeper.transaction() as transaction:
            _make_room(keeper, transaction, replace=replace, at=at)
            project = projects.found(keeper.store(), seen)
            if "contract" in data.aliases:
                _refuse_existing_feature(keeper, data.aliases["contract"], project)
            begins = msgspec.structs.replace(data, project=project)
            transaction.record(session, Draft(begins, moment, keeper.recorder.actor))
            keeper.recorder.matters = True
            if begins.continues is not None:
                from holdfast.keeper.forking import carried

                plan = carried(transaction.state(begins.continues), transaction.writer(), keeper.device())
                keeper.recorder.within(transaction, session, lambda _: plan, at=at)
            transaction.know_project(project)
            keeper.make_current(transaction, session)
            if keeper.conversation is not None:
                from holdfast.keeper.captures.moving import move_within

                move_within(keeper, transaction, keeper.conversation, session)
    except BaseException:
        if opened is not None:
            with suppress(HoldfastError):  # what went wrong first is told; the next start undoes what is left
                _undo(keeper, opened)
        raise
    if opened is not None:
        with suppress(OSError, HoldfastError):  # the session is there; the next start takes the note away
            _forget(keeper)
    if replace:
        from holdfast.keeper.project_files import set_unreadable_aside

        keeper.told += set_unreadable_aside(keeper)
    return session


def _check(wanted: SessionStarted) -> None:
    if wanted.mode not in MODES:
        raise Invalid(f"there is no mode {shorten(wanted.mode, 40)!a}", hint=f"Modes are {', '.join(MODES)}.")
    if wanted.feature is not None and wanted.feature != slug(wanted.feature, 99):
        raise Invalid(
            "the feature must be lower-case words joined by dashes", hint=f"Perhaps: {slug(wanted.feature)}"
        )
    for name in ("goal", "scope", "task", "model"):
        value = getattr(wanted, name)
        if value is not None:
            clean(value, f"the {name}")
    for tag in wanted.tags:
        clean(tag, "the tag", longest=LONGEST_NAME)


def new_id() -> str:
    """A random UUID (version 4)."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    name = raw.hex()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


# ── room for it ──────────────────────────────────────────────────────────────────────────────────────────


def _refuse_unless(keeper: Keeper, *, replace: bool) -> None:
    current = keeper.current()
    if current is not None and not replace and not _gives_way(keeper, current.state()):
        goal = shorten(view.word(current.state(), "goal") or "", 60)
        raise Conflict(
            f"there is an unfinished session here: {goal!r} ({current.id[:8]})",
            hint="Finish it (holdfast stop), go on with it (holdfast resume), or: holdfast start GOAL --replace",
            session=current.id,
        )


def _gives_way(keeper: Keeper, state: State) -> bool:
    """Whether another session begins without putting this one away: it is over, or it began by itself with the very
    conversation that begins another one now.
    """
    if keeper.is_over(state):
        return True
    if keeper.conversation is None or not state.captured:
        return False
    return own_words.taken_up_at(state, own_test(keeper, state.session)) is None


def _make_room(keeper: Keeper, transaction: Transaction, *, replace: bool, at: int | None) -> None:
    """Put the current session away, resumable; asked again now that nobody else can start one."""
    _refuse_unless(keeper, replace=replace)
    current = keeper.current()
    if current is None or keeper.upkeep.reads_only(current.id) or _gives_way(keeper, current.state()):
        return
    keeper.recorder.within(transaction, current.id, put_away, at=at)


def _refuse_existing_feature(keeper: Keeper, feature_id: str, project: Project) -> None:
    """Raise `Conflict` where the project has a feature of this id: as a session, or in its `.ai-session`."""
    from holdfast.mirror.contract import layout, registry

    store = keeper.store()
    states = (store.state(session) for session in store.find(feature_id))
    # What is found by the beginning of its id has no feature of this name.
    named = (state for state in states if state is not None and feature_id in state.aliases.values())
    taken = next((state for state in named if state.project is not None and state.project.id == project.id), None)
    root = layout.root_of(keeper.place.root)
    path = os.path.join(root, feature_id)
    there = os.path.lexists(path)
    if not there and os.path.isdir(root):
        with suppress(HoldfastError):  # a registry that cannot be read is reported where it is used
            there = registry.entry(root, feature_id) is not None
    if taken is not None or there:
        raise Conflict(
            f"there is a feature {feature_id} already",
            hint="Go on with that one, or choose another slug; without --feature, the id gets a number.",
            operation="create", file=path if there else None, feature_id=feature_id,
            session=None if taken is None else taken.session,
        )  # fmt: skip


# ── its branch ───────────────────────────────────────────────────────────────────────────────────────────


def _open(keeper: Keeper, name: str) -> Opened:
    from holdfast.keeper.branches import open_branch
    from holdfast.machine.git import Git

    def announce(opened: Opened) -> None:
        keeper.home.prepare()
        files.write_atomic(_announcement(keeper), msgspec.json.encode(opened._asdict()) + b"\n")

    try:
        return open_branch(Git(keeper.place.root), name, announce)
    except BaseException:
        with suppress(HoldfastError):
            _undo_what_died(keeper)
        raise


def _undo(keeper: Keeper, opened: Opened) -> None:
    from holdfast.keeper.branches import undo_open
    from holdfast.machine.git import Git

    undo_open(Git(keeper.place.root), opened)
    _forget(keeper)


def _undo_what_died(keeper: Keeper) -> None:
    """A start announced a branch here and did not get to the end: go back, unless somebody has moved on since."""
    from holdfast.keeper.branches import Opened
    from holdfast.machine.git import Git

    path = _announcement(keeper)
    if not os.path.lexists(path):
        return
    try:
        opened = Opened(**msgspec.json.decode(files.read_limited(path, 1 << 16, what="an announced branch")))
    except (msgspec.MsgspecError, TypeError):
        _forget(keeper)
        return
    store = keeper.existing_store()
    owned = store is not None and bool(store.find(opened.branch.removeprefix("session/")))
    git = Git(keeper.place.root)
    untouched = git.is_repository() and git.branch() == opened.branch and git.commit_id() == opened.commit
    if untouched and not owned:
        _undo(keeper, opened)
    else:
        _forget(keeper)


def _announcement(keeper: Keeper) -> str:
    place = digest(keeper.place.root.encode(errors="surrogateescape"))[:16]
    return os.path.join(keeper.home.path, f"{ANNOUNCED}{place}.json")


def _forget(keeper: Keeper) -> None:
    path = _announcement(keeper)
    if os.path.lexists(path):
        os.unlink(path)
        files.sync_directory(keeper.home.path)
