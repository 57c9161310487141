"""Files that people and agents make up for themselves: what their keys usually mean, and how entries are written.

No two are alike, so keys are compared without regard to case and separators (`nextSteps`, `next-steps`), entries
may be text, objects or lines of one text, and a status may be a word, a tick or the name of the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import LONGEST_TEXT, relative_path
from holdfast.formats.interface import Ground
from holdfast.formats.moments import read

_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_BULLET: Final = re.compile(
    r"\s*(?:[-*+•]\s+|\d+[.)]\s+)?(?:\[(?P<tick>[ xX✓-])\]\s*|(?P<sign>[✅✓☑❌☐⬜])\ufe0f?\s*)?(?P<text>.*\S)"
)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_THIS_CENTURY: Final = 946_684_800_000
_DONE_SIGNS: Final = "xX✓✅☑"


def _names(meaning: str, words: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), meaning)


# What a key means. The order within `goal` does not matter here: `GOALS` says which one counts.
MEANINGS: Final[Mapping[str, str]] = {
    **_names("goal", "goal goals objective mission working_on current_focus focus title feature feature_name purpose "
             "current_work project_goal what"),
    **_names("doing", "current_task task active_task in_progress current wip doing current_step currently_working_on "
             "in_progress_tasks active"),
    **_names("pending", "next_steps next_step next pending pending_tasks pending_work todo todos to_do remaining "
             "remaining_tasks remaining_work next_tasks next_actions next_action backlog upcoming tasks task_list "
             "steps plan items checklist action_items open_items"),
    **_names("done", "completed completed_tasks completed_task completed_work completed_steps completed_items done "
             "finished accomplished accomplishments what_was_done done_tasks achievements recently_completed"),
    **_names("blocked", "blocker blockers blocked blocked_by blocked_on blocking waiting_for blocked_tasks"),
    **_names("error", "error errors last_error failures failed problems"),
    **_names("decision", "decision decisions key_decisions decisions_made choices architecture_decisions "
             "design_decisions"),
    **_names("note", "note notes remarks observations learnings lessons findings handoff handoff_notes "
             "progress_notes important warnings gotchas reminders comments comment open_questions questions issues "
             "known_issues session_notes"),
    **_names("summary", "summary description overview session_summary"),
    **_names("progress", "progress percent percentage percent_complete completion completion_percentage "
             "progress_percent overall_progress"),
    **_names("status", "status state session_status"),
    **_names("branch", "git_branch branch branch_name current_branch"),
    **_names("files", "files files_modified modified_files files_changed changed_files files_touched files_edited "
             "recent_files"),
    **_names("created files", "files_created created_files new_files"),
    **_names("deleted files", "files_deleted deleted_files removed_files"),
    **_names("began", "started started_at start_time start session_start session_started created created_at date "
             "session_date"),
    **_names("updated", "last_updated updated updated_at last_update timestamp last_modified modified modified_at "
             "saved_at last_saved last_activity last_active ended_at end_time time"),
    **_names("id", "session_id id session_name"),
    **_names("model", "model model_name"),
    **_names("scope", "scope area component module"),
    **_names("tags", "tags labels"),
}  # fmt: skip

# Of several keys that may be the goal, the first one here counts.
GOALS: Final = ("goal", "objective", "mission", "project_goal", "working_on", "current_focus", "focus",
                "current_work", "title", "feature_name", "feature", "purpose", "goals", "what")  # fmt: skip

STATUSES: Final[Mapping[str, str]] = {
    **_names("done", "done complete completed finished closed success passed merged shipped resolved true yes"),
    **_names("doing", "in_progress inprogress active doing started working wip ongoing current running"),
    **_names("pending", "pending todo to_do open not_started planned queued new false no next"),
    **_names("blocked", "blocked waiting stuck on_hold"),
    **_names("dropped", "dropped cancelled canceled skipped abandoned removed wontfix"),
}

_TEXT: Final = ("text", "task", "title", "name", "content", "description", "subject", "step", "item", "what",
                "decision", "chosen", "choice", "message", "note", "error", "issue", "summary", "goal")  # fmt: skip


class Item(NamedTuple):
    """One entry of a list of things: its words, what is said of it, and where it stands."""

    text: str
    status: str | None
    more: Mapping[str, Json]
    place: tuple[str | int, ...]


def plain_key(key: str) -> str:
    """`nextSteps`, `Next Steps` and `next-steps` are one key."""
    return "_".join(part for part in _BREAK.split(key[:100]) if part).lower()


def words(value: Json) -> str | None:
    """Text that can be stored, of text or of a number; None of anything else, or of nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    found = _UNSTORABLE.sub("", str(value)).strip()
    return found[: LONGEST_TEXT - 1] or None


def status_word(value: Json) -> str | None:
    """What a status means, if it is one anybody would understand."""
    if isinstance(value, bool):
        return "done" if value else "pending"
    return STATUSES.get(plain_key(value)) if isinstance(value, str) else None


def items(value: Json, place: tuple[str | int, ...]) -> Iterator[Item]:
    """The entries of whatever holds several: a list, an object, or the lines of a text."""
    if isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            yield from _item(entry, (*place, position))
    elif isinstance(value, dict):
        if any(key in value for key in _TEXT):
            yield from _item(value, place)
            return
        for key, entry in value.items():
            status = status_word(entry)
            told = words(entry)
            if status is not None or entry is None:
                yield from _line(key, status, {}, (*place, key))
            elif told is not None:
                yield from _line(f"{key}: {told}", None, {}, (*place, key))
            else:
                yield from _item(entry, (*place, key), named=key)
    elif isinstance(value, str):
        for line in value.splitlines():
            yield from _line(line, None, {}, place)


def _item(entry: Json, place: tuple[str | int, ...], named: str = "") -> Iterator[Item]:
    if isinstance(entry, str):
        yield from _line(" ".join(entry.split()), None, {}, place)
    elif isinstance(entry, dict):
        plain = {plain_key(key): value for key, value in entry.items()}
        found = next((text for key in _TEXT if (text := words(plain.get(key))) is not None), None) or words(named)
        said = (status_word(plain.get(key)) for key in ("status", "state", "done", "completed", "complete"))
        status = next((word for word in said if word is not None), None)
        yield from _line(found or _as_json(entry), status, plain, place)
    elif entry is not None:
        yield from _line(words(entry) or _as_json(entry), None, {}, place)


def _line(written: str, status: str | None, more: Mapping[str, Json], place: tuple[str | int, ...]) -> Iterator[Item]:
    found = _BULLET.match(written)
    text = words(found["text"]) if found else None
    if found is None or text is None:
        return
    sign = found["tick"] or found["sign"]
    if status is None and sign:
        status = "done" if sign in _DONE_SIGNS else "pending"
    yield Item(text, status, more, place)


def _as_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def moment(value: Json, ground: Ground) -> int | None:
    """A time as text, or as a number of seconds or milliseconds since 1970, of this century and not to come."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return next((int(value * by) for by in (1, 1000) if _THIS_CENTURY <= value * by <= ground.now), None)
    if not isinstance(value, str):
        return None
    try:
        return read(value, ground).ms
    except Invalid:
        return None


def fraction(value: Json) -> float | None:
    """`0.6`, `60`, `"60%"` and `"3/5"` are progress."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        plain = value.strip().rstrip("%").strip()
        done, slash, all_of = plain.partition("/")
        try:
            number = float(done) / float(all_of) if slash else float(plain)
        except (ValueError, ZeroDivisionError):
            return None
        value = number / 100 if "%" in value and not slash else number
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 (NaN is the number unlike itself)
        return None
    share = value / 100 if 1 < value <= 100 else value
    return float(share) if 0 <= share <= 1 else None


def path_of(named: str, ground: Ground) -> str | None:
    """A path in the project; None when it points elsewhere, or is no path."""
    inside = named
    root = (ground.project.path or "").rstrip("/\\")
    if root and named.startswith(root + "/"):
        inside = named[len(root) + 1 :]
    try:
        return relative_path(inside)
    except Invalid:
        return None
