"""What a person can do from a page: each verb calls the keeper and answers with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.display_names import agent_names
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.modes import MODES
from holdfast.core.text import shorten
from holdfast.core.times import DAY, SECOND, format_duration, parse_time
from holdfast.core.wording import count, one_line, time_words, visible
from holdfast.machine.wall import local_moment
from holdfast.sessions import overview, resume_check
from holdfast.sessions.resume import preview
from holdfast.sessions.work_trees import workspace_of_session
from holdfast.sync import background, people, remote_list, shares
from holdfast.web.charts.hill import LAST, WORDS
from holdfast.web.render import local

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.keeper.keeper import Keeper
    from holdfast.sync.sync import SyncResult
    from holdfast.workspace.followers import ResumeDifference

Form = Mapping[str, str]


class ActionAnswer(NamedTuple):
    text: str
    # Sentences about what else happened.
    more: tuple[str, ...] = ()
    # A command to copy: it stays visible until the person closes it.
    command: str | None = None


# What a form does to a session (an empty name if it concerns no single session).
Verb = Callable[["Keeper", str, Form], "ActionAnswer | str"]
# What a dialog shows of a session.
DialogValues = Callable[["Keeper", str], dict[str, object]]


class NeedsDialog(Exception):
    """The action was refused; the dialog of this name shows why, and how to continue."""

    def __init__(self, dialog: str, error: HoldfastError) -> None:
        super().__init__(error.message)
        self.dialog = dialog
        self.error = error


def in_work_tree(keeper: Keeper, reference: str) -> tuple[Keeper, str]:
    """The keeper of the session's work tree, if that is on this machine, and the session's id."""
    session = keeper.session(reference).id
    try:
        local_keeper = workspace_of_session(keeper, session)
    except Refused:
        return keeper, session
    local_keeper.agent_dirs = keeper.agent_dirs
    return local_keeper, session


def answer(text: str, *keepers: Keeper, command: str | None = None, more: tuple[str, ...] = ()) -> ActionAnswer:
    """The answer of a verb, with what these keepers have to report: removed secrets, breaks due, mirrors."""
    sentences = list(more)
    for keeper in {id(keeper): keeper for keeper in keepers}.values():
        sentences += map(str, keeper.take_notices())
        clear_notices(keeper)
    return ActionAnswer(text, tuple(sentences), command)


def clear_notices(keeper: Keeper) -> None:
    """Clear a keeper's notices: keepers are shared, and one request's notices do not concern the next."""
    keeper.drop_notices()
    keeper.outcome.begin()


def correct_hours(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    kind = form.get("what", "")
    if kind not in ("worked", "away"):
        raise Invalid("hours can be corrected to worked or to away")
    work_tree, session = in_work_tree(keeper, reference)
    handle = work_tree.session(session)
    since, until = _parse_moment(form.get("from", "")), _parse_moment(form.get("to", ""))
    start = handle.state().time.start
    if start - SECOND < since < start:  # the form has no fractions of a second
        since = start
    record = handle.worked if kind == "worked" else handle.away
    record(since, until, form.get("reason", "").strip() or None)
    time = handle.document().time
    return answer(f"{kind.capitalize()} for {format_duration(until - since)}: {time_words(time)}.", work_tree)


def _parse_moment(text: str) -> int:
    """A time on this machine's clock, in the format of a browser's form."""
    try:
        return local_moment(text)
    except Invalid as error:
        error.hint = "Give a day and a time, for example 2026-11-15T09:30."
        raise


def hours_values(keeper: Keeper, reference: str) -> dict[str, object]:
    """The form filled in with the latest pause, the one most often corrected."""
    session = keeper.session(reference).document()
    began, end = session.started_at or session.created_at, session.ended_at
    ended = keeper.now() if end is None else parse_time(end)
    pause = session.time.pauses[-1] if session.time.pauses else None
    since = parse_time(began if pause is None else pause.started_at)
    until = ended if pause is None or pause.ended_at is None else parse_time(pause.ended_at)
    return {
        "session": session,
        "began": began,
        "ended": ended,
        "since": _form_time(since),
        "until": _form_time(until),
    }


def _form_time(moment: int) -> str:
    return f"{local(moment):%Y-%m-%dT%H:%M:%S}"


def pause(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    work_tree, session = in_work_tree(keeper, reference)
    work_tree.session(session).pause(form.get("reason", "").strip() or None)
    return answer("Paused.", work_tree)


def resume(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    session = keeper.session(reference).id
    sync_notes = keeper.sync_first()
    work_tree = workspace_of_session(keeper, session)
    work_tree.agent_dirs = keeper.agent_dirs
    try:
        resumed = work_tree.session(session).resume(force=form.get("force") == "yes")
    except Refused as error:
        if any(difference.blocking for difference in _differences(work_tree, session)):
            raise NeedsDialog("resume", error) from None
        raise
    more = [*sync_notes, *(f"This work tree differs: {difference.detail}." for difference in resumed.differences)]
    if resumed.interrupted:
        more.append(f"{count(len(resumed.interrupted), 'agent')} had been interrupted.")
    return answer("Resumed.", keeper, work_tree, more=tuple(more))


def _differences(work_tree: Keeper, session: str) -> tuple[ResumeDifference, ...]:
    state = work_tree.state(session)
    files = preview(state, work_tree.place.root).files
    return resume_check.check(work_tree, state, files, foreign=resume_check.left_by_another(work_tree, state))


def resume_values(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    work_tree = workspace_of_session(keeper, session.id)
    work_tree.agent_dirs = keeper.agent_dirs
    return {"session": session.document(), "differences": _differences(work_tree, session.id)}


def stop(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    branch = form.get("branch", "")
    if branch not in ("", "keep", "discard"):
        raise Invalid("expected keep or discard for the branch", hint="Or leave it alone.")
    work_tree, session = in_work_tree(keeper, reference)
    if branch:
        work_tree = workspace_of_session(keeper, session)  # raises with the reason if it is not here
    handle = work_tree.session(session)
    outcome = handle.stop(
        keep=branch == "keep", discard=branch == "discard", reason=form.get("reason", "").strip() or None
    )
    time = handle.document().time
    more: tuple[str, ...] = ()
    if outcome.commit is not None:
        more = (f"Merged as {outcome.commit[:12]}; {outcome.branch} is deleted.",)
    elif outcome.tip is not None:
        more = (f"{outcome.branch} is deleted; git branch {outcome.branch} {outcome.tip[:12]} brings it back.",)
    if outcome.at_work:
        names = agent_names(handle.document().agents)
        running = ", ".join(names.get(id_, id_) for id_ in outcome.at_work)
        more = (*more, f"Still running, and not stopped by this: {running}.")
    return answer(f"Completed: {time_words(time)}.", keeper, work_tree, more=more)


def stop_values(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "came_from": session.state().came_from}


def move(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    work_tree, session = in_work_tree(keeper, reference)
    scope, position = form.get("scope", "").strip(), _parse_position(form.get("position", ""))
    overview.move_scope(work_tree, session, scope, position)
    return answer(f"{one_line(scope)[:60]}: {position} of {LAST}, {WORDS[position]}.", work_tree)


def _parse_position(number_text: str) -> int:
    text = number_text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and int(text) <= LAST):
        raise Invalid("not a position on the hill", hint=f"A whole number from 0, not started, to {LAST}, done.")
    return int(text)


def archive(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:  # noqa: ARG001 (every verb is given the form)
    work_tree, session = in_work_tree(keeper, reference)
    work_tree.archive(session)
    return answer("Archived. History still finds it.", work_tree)


def unarchive(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:  # noqa: ARG001
    work_tree, session = in_work_tree(keeper, reference)
    work_tree.unarchive(session)
    return answer("Unarchived.", work_tree)


def archive_values(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "archived": keeper.is_archived(session.state())}


def resolve(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    choice = form.get("take", "")
    if not (choice.isascii() and choice.isdigit() and len(choice) < 6):
        raise Invalid("no value was chosen", hint="Choose one of the values shown.")
    work_tree, session = in_work_tree(keeper, reference)
    conflict = work_tree.session(session).resolve(form.get("conflict", ""), int(choice))
    return answer(f"Settled: {conflict.field}.", work_tree)


def resolve_values(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    conflicts = session.conflicts()
    return {
        "session": session.document(), "disagreements": conflicts,
        "whose": {conflict.conflict.id: conflict.devices for conflict in conflicts},
    }  # fmt: skip


_MAX_SHARE_DAYS = 3_650  # days


def share(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    session = keeper.session(reference).id
    days = _parse_days(form.get("days", ""))
    if form.get("sure") != "yes":
        raise Invalid("sharing was not confirmed", hint="Tick the box: the session may leave this device.")
    result = shares.share(
        keeper, session, form.get("email", "").strip(), write=form.get("read_only") != "yes",
        expires=None if days is None else keeper.now() + days * DAY, name=form.get("remote") or None,
    )  # fmt: skip
    how = "to read and write" if result.write else "to read"
    return answer(
        f"Shared with {one_line(result.email)}, {how}. Send them this:", keeper,
        command=f"holdfast accept {result.url}", more=("If their key is an SSH key, they add: --identity FILE",),
    )  # fmt: skip


def _parse_days(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= _MAX_SHARE_DAYS):
        raise Invalid("not a number of days", hint=f"From 1 to {_MAX_SHARE_DAYS:,}, or empty for no end.")
    return int(text)


def share_values(keeper: Keeper, reference: str) -> dict[str, object]:
    return {
        "session": keeper.session(reference).document(),
        "people": [item.email for item in people.load(keeper.home)],
        "remotes": [item.name for item in remote_list.load(keeper.home) if item.kind == "vault"],
    }


_SYNC_TIMEOUT: Final = 20.0  # seconds; after that the page shows the result


def sync(keeper: Keeper, _: str, __: Form) -> ActionAnswer:
    started = background.start_sync(keeper)
    if started is None:
        return ActionAnswer("A sync is already running. This page will show the result.")
    outcome = started.outcome(_SYNC_TIMEOUT)
    if outcome is None:
        return ActionAnswer("This takes a while. This page will show the result.")
    if isinstance(outcome, HoldfastError):
        raise outcome
    if outcome.failed and not outcome.reached:
        name, error = next(iter(outcome.failed.items()))
        error.message = f"{name}: {error.message}"
        raise error
    return _sync_answer(outcome)


def _sync_answer(result: SyncResult) -> ActionAnswer:
    report = result.report
    parts = [f"sent {count(report.pushed, 'event')}"] if report.pushed else []
    parts += [f"received {count(report.pulled, 'event')}"] if report.pulled else []
    more = [f"{one_line(name)}: {one_line(error.message)}." for name, error in result.failed.items()]
    more += report.notes
    if report.rejected:
        more.append(f"{count(len(report.rejected), 'object')} at the remote not accepted: see below.")
    if result.conflicts:
        more.append(f"{count(result.conflicts, 'conflict')} to resolve.")
    return ActionAnswer(f"Synced: {' and '.join(parts)}." if parts else "Synced: nothing new.", tuple(more))


def note(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    work_tree, session = in_work_tree(keeper, reference)
    work_tree.session(session).note(form.get("text", ""))
    return answer("Noted.", work_tree)


def edit(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    """Record only what the person changed: an agent may have changed the rest since the form was shown."""
    changed = {name: value for name, value in form.items() if value != form.get(f"was-{name}", "")}
    work_tree, session = in_work_tree(keeper, reference)
    handle = work_tree.session(session)
    _refuse_changed_meanwhile(handle.document(), form, changed)
    handle.edit(
        goal=changed.get("goal"),
        mode=changed.get("mode"),
        progress=_parse_percent(changed.get("progress")),
        scope=changed.get("scope"),
        summary=changed.get("summary"),
        tags=[tag for tag_text in changed.get("tags", "").split(",") if (tag := tag_text.strip())],
    )
    return answer("Changed.", work_tree)


def _refuse_changed_meanwhile(session: Session, form: Form, changed: Form) -> None:
    """Refuse if a value was changed elsewhere since the form was shown: that change would be lost unnoticed."""
    for name, value in _form_values(session).items():
        present = visible(value, lines=True)  # as the form spells it
        if name in changed and f"was-{name}" in form and present not in (form[f"was-{name}"], changed[name]):
            raise Refused(
                f"the {name} was changed while you wrote; it is now: {shorten(one_line(value), 200) or '(nothing)'}",
                hint="Nothing was recorded. Open the form again to continue from there.",
            )


def _form_values(session: Session) -> dict[str, str]:
    """The values the form shows, by field."""
    return {
        "goal": session.goal, "summary": session.summary or "", "scope": session.scope or "", "mode": session.mode,
        "progress": f"{session.progress * 100:.4g}",
    }  # fmt: skip


def _parse_percent(percent: str | None) -> float | None:
    if percent is None:
        return None
    try:
        return float(percent.strip().removesuffix("%")) / 100
    except ValueError:
        raise Invalid("the progress is not a number", hint="Give it in percent, from 0 to 100.") from None


def session_values(keeper: Keeper, reference: str) -> dict[str, object]:
    return {"session": keeper.session(reference).document()}


def edit_values(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference).document()
    # A mode of a later version stays selectable.
    modes = MODES if session.mode in MODES else (*MODES, session.mode)
    return {"session": session, "modes": modes, "progress": _form_values(session)["progress"]}


VERBS: Final[dict[str, Verb]] = {
    "/session/{id}/pause": pause,
    "/session/{id}/resume": resume,
    "/session/{id}/stop": stop,
    "/session/{id}/note": note,
    "/session/{id}/edit": edit,
    "/session/{id}/hours": correct_hours,
    "/session/{id}/hill": move,
    "/session/{id}/archive": archive,
    "/session/{id}/unarchive": unarchive,
    "/session/{id}/resolve": resolve,
    "/session/{id}/share": share,
    "/devices/sync": sync,
}

# For `templates/dialog-NAME.html`: the values it shows.
DIALOGS: Final[dict[str, DialogValues]] = {
    "pause": session_values,
    "resume": resume_values,
    "stop": stop_values,
    "note": session_values,
    "edit": edit_values,
    "hours": hours_values,
    "archive": archive_values,
    "resolve": resolve_values,
    "share": share_values,
}
