"""Correcting the hours of a session: work that was counted as a pause, and a pause that nobody recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.core.times import SECOND, millis, span
from holdfast.keeper.wording import time_words
from holdfast.machine.wall import local_moment
from holdfast.web.actions.said import Form, Said, nearest, said
from holdfast.web.rendering import local

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def correct(keeper: Keeper, reference: str, form: Form) -> Said:
    what = form.get("what", "")
    if what not in ("worked", "away"):
        raise Invalid("the hours are corrected to worked or away")
    there, session = nearest(keeper, reference)
    kept = there.session(session)
    since, until = _moment(form.get("from", "")), _moment(form.get("to", ""))
    start = kept.state().time.start
    if start - SECOND < since < start:  # the form knows whole seconds
        since = start
    record = kept.worked if what == "worked" else kept.away
    record(since, until, form.get("reason", "").strip() or None)
    time = kept.document().time
    return said(f"{what.capitalize()} for {span(until - since)}: {time_words(time)}.", there)


def _moment(written: str) -> int:
    """A moment on this machine's clock, as a browser's form writes it."""
    try:
        return local_moment(written)
    except Invalid as error:
        error.hint = "Give a day and a time, for instance 2026-11-15T09:30."
        raise


def before_correcting(keeper: Keeper, reference: str) -> dict[str, object]:
    """The form with the latest pause in it: most often that is the one that was wrong."""
    session = keeper.session(reference).document()
    began, end = session.started_at or session.created_at, session.ended_at
    ended = keeper.now() if end is None else millis(end)
    pause = session.time.pauses[-1] if session.time.pauses else None
    since = millis(began if pause is None else pause.started_at)
    until = ended if pause is None or pause.ended_at is None else millis(pause.ended_at)
    return {"session": session, "began": began, "ended": ended, "since": _written(since), "until": _written(until)}


def _written(moment: int) -> str:
    return f"{local(moment):%Y-%m-%dT%H:%M:%S}"
