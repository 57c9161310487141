"""How pages are rendered: the templates, and the formats they share.

Everything put into a template is escaped, except `Markup` from our own code. Recorded text comes from others:
characters that hide or reorder text are spelled out first (`wording.visible`).
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Final

import jinja2
import msgspec
from markupsafe import Markup, escape

from holdfast.core import wording
from holdfast.core.lifecycle import session_allows
from holdfast.core.times import MINUTE, SECOND, format_duration, parse_time
from holdfast.machine.wall import local_offset


def _made_visible(value: object) -> object:
    if value is None:
        return ""
    return value if isinstance(value, Markup) or not isinstance(value, str) else wording.visible(value, lines=True)


# The word of the answering server (`Secrets.word`), which its forms carry.
FORM_WORD: ContextVar[str] = ContextVar("word", default="")

_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("holdfast.web", "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
    # What a template shows as {{ … }} is made visible first.
    finalize=_made_visible,
)


def render(template: str, /, **words: object) -> Markup:
    return Markup(_TEMPLATES.get_template(template).render(**words))  # noqa: S704 (escaped by the template)


def word_field() -> Markup:
    """The hidden field every form carries; it works without scripts too."""
    return Markup('<input type="hidden" name="word" value="{}">').format(FORM_WORD.get())


def encoded(content: object) -> bytes:
    """JSON in which pieces of pages are plain text."""
    return msgspec.json.encode(content, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Markup):
        return str.__str__(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────


def local(moment: int) -> datetime:
    """A time on the person's own clock: server and browser run on one machine."""
    offset: timedelta = local_offset(moment)
    return datetime.fromtimestamp(moment / 1000, UTC) + offset


def moment_of(when: str | int | None) -> int | None:
    return parse_time(when) if isinstance(when, str) else when


def clock(when: str | int | None) -> str:
    """`14:05`"""
    moment = moment_of(when)
    return "" if moment is None else f"{local(moment):%H:%M}"


def day(when: str | int | None) -> str:
    """`Sun 15 Nov 2026`"""
    moment = moment_of(when)
    return "" if moment is None else f"{local(moment):%a} {local(moment).day} {local(moment):%b %Y}"


def stamp(when: str | int | None) -> str:
    """`15 Nov 2026, 14:05:09`"""
    moment = moment_of(when)
    return "" if moment is None else f"{local(moment).day} {local(moment):%b %Y, %H:%M:%S}"


def time_ago(moment: str | int | None) -> Markup:
    """A time that the browser keeps up to date: `5 minutes ago`, with the exact time as a tooltip."""
    at = moment_of(moment)
    if at is None:
        return Markup("")
    iso = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(iso, stamp(at), stamp(at))


def counting(ms: int, *, now: int, running: bool) -> Markup:
    """A length of time; while it grows, the browser counts on from the moment at which it was zero."""
    if not running:
        return Markup("<span>{}</span>").format(format_duration(ms))
    return Markup('<span data-since="{}">{}</span>').format(
        now - ms, format_duration(ms // MINUTE * MINUTE if ms > MINUTE else ms)
    )


# ── amounts ──────────────────────────────────────────────────────────────────────────────────────────────


def bar(fraction: float | None, label: str, kind: str = "") -> Markup:
    """How much of something, as a drawn bar: inline styles are forbidden here."""
    width = round(min(max(fraction or 0.0, 0.0), 1.0) * 100, 1)
    return Markup(
        '<svg class="bar {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="rail" width="100" height="6"/><rect class="fill" width="{}" height="6"/></svg>'
    ).format(kind, label, width)


def clocked(ms: int) -> str:
    """`4:12:31`, for a column; fractions of a second are left out."""
    minutes, seconds = divmod(ms // SECOND, 60)
    return f"{minutes // 60:,}:{minutes % 60:02d}:{seconds:02d}"


def table_bar(fraction: float) -> Markup:
    """A bar in a row of a table, next to its number."""
    width = round(min(max(fraction, 0.0), 1.0) * 100, 1)
    return Markup('<svg class="length" aria-hidden="true"><rect width="{}%" height="100%"/></svg>').format(width)


_TEMPLATES.filters |= {
    "ago": time_ago,
    "clock": clock,
    "count": wording.count,
    "day": day,
    "escape": escape,
    "one_line": wording.one_line,
    "changed_by": wording.changed_by,
    "made_by": wording.made_by,
    "percent": wording.percent,
    "span": format_duration,
    "stamp": stamp,
    "open_pause": wording.open_pause,
    "paused_and_away": wording.paused_and_away,
    "time_words": wording.time_words,
}
_TEMPLATES.globals |= {"allows": session_allows, "word_field": word_field}
_TEMPLATES.globals |= {
    "bar": bar,
    "clocked": clocked,
    "counting": counting,
    "length": table_bar,
    "pause_words": wording.pause_words,
}
_TEMPLATES.globals |= {"ABSENCE": wording.ABSENCE, "STATUS": wording.STATUS}
