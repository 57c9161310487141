"""The verbs by address, and the dialogs by name. Each is in the module of its kind."""

from __future__ import annotations

from typing import Final

from holdfast.web.actions import correcting, going, hilling, putting_away, settling, sharing, syncing, writing
from holdfast.web.actions.said import Look, Verb

VERBS: Final[dict[str, Verb]] = {
    "/session/{id}/pause": going.pause,
    "/session/{id}/resume": going.resume,
    "/session/{id}/stop": going.stop,
    "/session/{id}/note": writing.note,
    "/session/{id}/edit": writing.edit,
    "/session/{id}/hours": correcting.correct,
    "/session/{id}/hill": hilling.move,
    "/session/{id}/archive": putting_away.archive,
    "/session/{id}/unarchive": putting_away.unarchive,
    "/session/{id}/resolve": settling.resolve,
    "/session/{id}/share": sharing.share,
    "/devices/sync": syncing.sync,
}

# Of `templates/dialog-NAME.html`: what it shows.
DIALOGS: Final[dict[str, Look]] = {
    "pause": writing.of_session,
    "resume": going.before_resuming,
    "stop": going.before_stopping,
    "note": writing.of_session,
    "edit": writing.before_editing,
    "hours": correcting.before_correcting,
    "archive": putting_away.before_putting_away,
    "resolve": settling.before_settling,
    "share": sharing.before_sharing,
}
