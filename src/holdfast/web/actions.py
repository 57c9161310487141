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
from holdfast.sessions.work_trees import at_its_place
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
Look = Callable[["Keeper", str], dict[str, object]]


class AskFirst(Exception):
    """The action was refused; the dialog of this name shows why, and how to continue."""

    def __init__(self, dialog: str, error: HoldfastError) -> None:
        super().__init__(error.message)
        self.dialog = dialog
        self.error = error


def at_work_tree(keeper: Keeper, reference: str) -> tuple[Keeper, str]:
    """The keeper of the session's work tree, if that is on this machine, and the session's id."""
    session = keeper.session(reference).id
    try:
        there = at_its_place(keeper, session)
    except Refused:
        return keeper, session
    there.agent_dirs = keeper.agent_dirs
    return there, session


def answer(text: str, *keepers: Keeper, command: str | None = None, more: tuple[str, ...] = ()) -> ActionAnswer:
    """The answer of a verb, with what these keepers have to report: removed secrets, breaks due, mirrors."""
    besides = list(more)
    for keeper in {id(keeper): keeper for keeper in keepers}.values():
        besides += [*keeper.take_notices(), *keeper.recorder.tally.take_sentences()]
        forget(keeper)
    return ActionAnswer(text, tuple(besides), command)


def forget(keeper: Keeper) -> None:
    """Clear a keeper's notices: keepers are shared, and one request's notices do not concern the next."""
    keeper.notices.clear()
    keeper.recorder.tally.redacted.clear()
    keeper.recorder.tally.reached.clear()
    keeper.outcome.begin()


def correct_hours(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    kind = form.get("what", "")
    if kind not in ("worked", "away"):
        raise Invalid("hours can be corrected to worked or to away")
    there, session = at_work_tree(keeper, reference)
    kept = there.session(session)
    since, until = _moment(form.get("from", "")), _moment(form.get("to", ""))
    start = kept.state().time.start
    if start - SECOND < since < start:  # the form has no fractions of a second
        since = start
    record = kept.worked if kind == "worked" else kept.away
    record(since, until, form.get("reason", "").strip() or None)
    time = kept.document().time
    return answer(f"{kind.capitalize()} for {format_duration(until - since)}: {time_words(time)}.", there)


def _moment(written: str) -> int:
    """A time on this machine's clock, in the format of a browser's form."""
    try:
        return local_moment(written)
    except Invalid as error:
        error.hint = "Give a day and a time, for example 2026-11-15T09:30."
        raise


def before_correcting(keeper: Keeper, reference: str) -> dict[str, object]:
    """The form filled with the latest pause, which is most often the wrong one."""
    session = keeper.session(reference).document()
    began, end = session.started_at or session.created_at, session.ended_at
    ended = keeper.now() if end is None else parse_time(end)
    pause = session.time.pauses[-1] if session.time.pauses else None
    since = parse_time(began if pause is None else pause.started_at)
    until = ended if pause is None or pause.ended_at is None else parse_time(pause.ended_at)
    return {"session": session, "began": began, "ended": ended, "since": _written(since), "until": _written(until)}


def _written(moment: int) -> str:
    return f"{local(moment):%Y-%m-%dT%H:%M:%S}"


def pause(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    there, session = at_work_tree(keeper, reference)
    there.session(session).pause(form.get("reason", "").strip() or None)
    return answer("Paused.", there)


def resume(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    session = keeper.session(reference).id
    sync_notes = keeper.sync_first()
    there = at_its_place(keeper, session)
    there.agent_dirs = keeper.agent_dirs
    try:
        resumed = there.session(session).resume(force=form.get("force") == "yes")
    except Refused as error:
        if any(difference.blocking for difference in _differences(there, session)):
            raise AskFirst("resume", error) from None
        raise
    more = [*sync_notes, *(f"This place differs: {difference.detail}." for difference in resumed.differences)]
    if resumed.interrupted:
        more.append(f"{count(len(resumed.interrupted), 'agent')} had been interrupted.")
    return answer("Resumed.", keeper, there, more=tuple(more))


def _differences(there: Keeper, session: str) -> tuple[ResumeDifference, ...]:
    state = there.state(session)
    files = preview(state, there.place.root).files
    return resume_check.check(there, state, files, foreign=resume_check.left_by_another(there, state))


def before_resuming(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    there = at_its_place(keeper, session.id)
    there.agent_dirs = keeper.agent_dirs
    return {"session": session.document(), "differences": _differences(there, session.id)}


def stop(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    branch = form.get("branch", "")
    if branch not in ("", "keep", "discard"):
        raise Invalid("expected keep or discard for the branch", hint="Or leave it alone.")
    there, session = at_work_tree(keeper, reference)
    if branch:
        there = at_its_place(keeper, session)  # raises with the reason if it is not here
    kept = there.session(session)
    done = kept.stop(
        keep=branch == "keep", discard=branch == "discard", reason=form.get("reason", "").strip() or None
    )
    time = kept.document().time
    more: tuple[str, ...] = ()
    if done.commit is not None:
        more = (f"Merged as {done.commit[:12]}; {done.branch} is deleted.",)
    elif done.tip is not None:
        more = (f"{done.branch} is deleted; git branch {done.branch} {done.tip[:12]} brings it back.",)
    if done.at_work:
        names = agent_names(kept.document().agents)
        running = ", ".join(names.get(id_, id_) for id_ in done.at_work)
        more = (*more, f"Still running, and not stopped by this: {running}.")
    return answer(f"Completed: {time_words(time)}.", keeper, there, more=more)


def before_stopping(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "came_from": session.state().came_from}


def move(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    there, session = at_work_tree(keeper, reference)
    scope, position = form.get("scope", "").strip(), _position(form.get("position", ""))
    overview.move_scope(there, session, scope, position)
    return answer(f"{one_line(scope)[:60]}: {position} of {LAST}, {WORDS[position]}.", there)


def _position(written: str) -> int:
    text = written.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and int(text) <= LAST):
        raise Invalid("not a position on the hill", hint=f"A whole number from 0, not started, to {LAST}, done.")
    return int(text)


def archive(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:  # noqa: ARG001 (every verb is given the form)
    there, session = at_work_tree(keeper, reference)
    there.archive(session)
    return answer("Archived. History still finds it.", there)


def unarchive(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:  # noqa: ARG001
    there, session = at_work_tree(keeper, reference)
    there.unarchive(session)
    return answer("Taken out of the archive.", there)


def before_putting_away(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "archived": keeper.is_archived(session.state())}


def resolve(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    take = form.get("take", "")
    if not (take.isascii() and take.isdigit() and len(take) < 6):
        raise Invalid("no value was chosen", hint="Choose one of the values shown.")
    there, session = at_work_tree(keeper, reference)
    conflict = there.session(session).resolve(form.get("conflict", ""), int(take))
    return answer(f"Settled: {conflict.field}.", there)


def before_settling(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    conflicts = session.conflicts()
    return {
        "session": session.document(), "disagreements": conflicts,
        "whose": {conflict.conflict.id: conflict.devices for conflict in conflicts},
    }  # fmt: skip


_MAX_SHARE_DAYS = 3_650  # days


def share(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    session = keeper.session(reference).id
    days = _days(form.get("days", ""))
    if form.get("sure") != "yes":
        raise Invalid("sharing was not confirmed", hint="Tick the box: the session may leave this device.")
    done = shares.share(
        keeper, session, form.get("email", "").strip(), write=form.get("read_only") != "yes",
        expires=None if days is None else keeper.now() + days * DAY, name=form.get("remote") or None,
    )  # fmt: skip
    how = "to read and write" if done.write else "to read"
    return answer(
        f"Shared with {one_line(done.email)}, {how}. Send them this:", keeper, command=f"holdfast accept {done.url}",
        more=("If their key is an SSH key, they add: --identity FILE",),
    )  # fmt: skip


def _days(written: str) -> int | None:
    if not written:
        return None
    if not (written.isascii() and written.isdigit() and 0 < int(written[:6]) <= _MAX_SHARE_DAYS):
        raise Invalid("not a number of days", hint=f"From 1 to {_MAX_SHARE_DAYS:,}, or empty for no end.")
    return int(written)


def before_sharing(keeper: Keeper, reference: str) -> dict[str, object]:
    return {
        "session": keeper.session(reference).document(),
        "people": [item.email for item in people.load(keeper.home)],
        "remotes": [item.name for item in remote_list.load(keeper.home) if item.kind == "vault"],
    }


_SYNC_TIMEOUT: Final = 20.0  # seconds; after that the page shows the result


def sync(keeper: Keeper, _: str, __: Form) -> ActionAnswer:
    begun = background.begin(keeper)
    if begun is None:
        return ActionAnswer("A sync is already running. This page will show the result.")
    outcome = begun.outcome(_SYNC_TIMEOUT)
    if outcome is None:
        return ActionAnswer("This takes a while. This page will show the result.")
    if isinstance(outcome, HoldfastError):
        raise outcome
    if outcome.failed and not outcome.reached:
        name, error = next(iter(outcome.failed.items()))
        error.message = f"{name}: {error.message}"
        raise error
    return _sync_answer(outcome)


def _sync_answer(done: SyncResult) -> ActionAnswer:
    report = done.report
    parts = [f"sent {count(report.pushed, 'event')}"] if report.pushed else []
    parts += [f"received {count(report.pulled, 'event')}"] if report.pulled else []
    more = [f"{one_line(name)}: {one_line(error.message)}." for name, error in done.failed.items()]
    more += report.notes
    if report.rejected:
        more.append(f"{count(len(report.rejected), 'object')} at the remote not accepted: see below.")
    if done.conflicts:
        more.append(f"{count(done.conflicts, 'conflict')} to resolve.")
    return ActionAnswer(f"Synced: {' and '.join(parts)}." if parts else "Synced: nothing new.", tuple(more))


def note(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    there, session = at_work_tree(keeper, reference)
    there.session(session).note(form.get("text", ""))
    return answer("Noted.", there)


def edit(keeper: Keeper, reference: str, form: Form) -> ActionAnswer:
    """Record only what the person changed: an agent may have changed the rest since the form was shown."""
    changed = {name: value for name, value in form.items() if value != form.get(f"was-{name}", "")}
    there, session = at_work_tree(keeper, reference)
    kept = there.session(session)
    _refuse_changed_meanwhile(kept.document(), form, changed)
    kept.edit(
        goal=changed.get("goal"),
        mode=changed.get("mode"),
        progress=_fraction(changed.get("progress")),
        scope=changed.get("scope"),
        summary=changed.get("summary"),
        tags=[tag for written in changed.get("tags", "").split(",") if (tag := written.strip())],
    )
    return answer("Changed.", there)


def _refuse_changed_meanwhile(session: Session, form: Form, changed: Form) -> None:
    """Refuse if a value was changed elsewhere since the form was shown: that change would be lost unnoticed."""
    for name, value in _shown(session).items():
        present = visible(value, lines=True)  # as the form spells it
        if name in changed and f"was-{name}" in form and present not in (form[f"was-{name}"], changed[name]):
            raise Refused(
                f"the {name} was changed while you wrote; it is now: {shorten(one_line(value), 200) or '(nothing)'}",
                hint="Nothing was recorded. Open the form again to continue from there.",
            )


def _shown(session: Session) -> dict[str, str]:
    """The values the form shows, by field."""
    return {
        "goal": session.goal, "summary": session.summary or "", "scope": session.scope or "", "mode": session.mode,
        "progress": f"{session.progress * 100:.4g}",
    }  # fmt: skip


def _fraction(percent: str | None) -> float | None:
    if percent is None:
        return None
    try:
        return float(percent.strip().removesuffix("%")) / 100
    except ValueError:
        raise Invalid("the progress is not a number", hint="Give it in percent, from 0 to 100.") from None


def of_session(keeper: Keeper, reference: str) -> dict[str, object]:
    return {"session": keeper.session(reference).document()}


def before_editing(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference).document()
    # A mode of a later version stays selectable.
    modes = MODES if session.mode in MODES else (*MODES, session.mode)
    return {"session": session, "modes": modes, "progress": _shown(session)["progress"]}


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
DIALOGS: Final[dict[str, Look]] = {
    "pause": of_session,
    "resume": before_resuming,
    "stop": before_stopping,
    "note": of_session,
    "edit": before_editing,
    "hours": before_correcting,
    "archive": before_putting_away,
    "resolve": before_settling,
    "share": before_sharing,
}
