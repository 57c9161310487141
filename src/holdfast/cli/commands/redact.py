"""`holdfast redact ID`: what would leave this device with the next sync, before it does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from holdfast.cli.call import Call
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.wording import count

if TYPE_CHECKING:
    from holdfast.sync.outgoing import Leaving, OutgoingText

# In the order in which a person wants to see them; the rest follows.
_ORDER: Final = (
    "goal", "session", "notes", "decisions", "tasks", "agents", "commands", "files", "project", "device", "actor",
    "native", "extra",
)  # fmt: skip
_MOST: Final = 20  # of one kind; --json has all


def run(call: Call) -> None:
    from holdfast.sync.outgoing import NEVER, leaving

    session = call.keeper.session(call.parsed.text("id") or "@")
    call.keeper.state(session.id)  # one that is erased is not found
    found = leaving(call.keeper, session.id)
    call.answer(
        {
            "session": found.session, "events": found.events, "texts": [text._asdict() for text in found.texts],
            "found": [secret._asdict() for secret in found.found], "never": NEVER,
        },
        lambda paint: _all(paint, found),
    )  # fmt: skip
    for remote, reason in found.held.items():
        call.note(f"Nothing of it goes to {remote}: {reason}.")
    call.note(f"Sent too: times, numbers, ids, hashes of files. Never: {', '.join(NEVER)}.")


def _all(paint: Paint, found: Leaving) -> Painted:
    news = sum(not text.sent for text in found.texts)
    lines = [
        paint.plain(
            f"{count(found.events, 'event')} would leave this device with the next sync,"
            f" with {count(news, 'new text')}."
            if found.events
            else "Nothing new would leave this device with the next sync."
        )
    ]
    rows = [row for texts in _grouped(found.texts) for row in _rows(texts)]
    titles = ("What", "", "Text") if paint.tty else ("", "", "")
    columns = [Column(titles[0], style="dim"), Column(titles[1]), Column(titles[2], weight=1)]
    if rows:
        lines.append(paint.table(rows, columns))
    if found.found:
        places = Counter(found.found)
        told = ", ".join(f"{number} {place.kind} in {place.where}" for place, number in sorted(places.items()))
        lines.append(paint.join(paint.yellow("Would be cut out first: "), told))
    return Painted("\n".join(lines))


def _grouped(texts: list[OutgoingText]) -> list[list[OutgoingText]]:
    groups: dict[str, list[OutgoingText]] = {name: [] for name in _ORDER}
    for text in texts:
        groups.setdefault(text.where.partition(".")[0], []).append(text)
    return [group for group in groups.values() if group]


def _rows(texts: list[OutgoingText]) -> list[list[str]]:
    # The new ones are why somebody looks.
    ordered = sorted(texts, key=lambda one: one.sent)
    rows = [[text.where, "sent" if text.sent else "new", " ".join(text.text.split())] for text in ordered[:_MOST]]
    if len(ordered) > _MOST:
        rows.append([ordered[-1].where.partition(".")[0], "", f"and {len(ordered) - _MOST:,} more (--json has all)"])
    return rows
