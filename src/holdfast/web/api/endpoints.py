"""The addresses of the API: what each is asked, what it answers, and how it finds that out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from holdfast.core.decoding import decodable
from holdfast.core.errors import NotFound
from holdfast.core.event import public
from holdfast.core.times import text
from holdfast.keeper import hills as hill_chart
from holdfast.keeper import hours as all_hours
from holdfast.keeper import overview, statistics
from holdfast.machine.wall import local_offset
from holdfast.web.api import asked
from holdfast.web.api import documents as d
from holdfast.web.api.asked import given, moment

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

Path = Mapping[str, str]
_memo: Final = all_hours.HoursMemo()


class Endpoint(NamedTuple):
    name: str
    summary: str
    asked: type[asked.Asked]
    answers: tuple[type[d.Document], ...]
    work: Callable[[Keeper, Path, asked.Asked], d.Document]


def sessions(keeper: Keeper, _: Path, words: asked.Asked) -> d.SessionList:
    """As `holdfast history --json`, of all projects unless told otherwise; `next` goes on where it ends."""
    assert isinstance(words, asked.Sessions)
    rows = keeper.history(
        limit=words.limit + 1, search=given(words.search), status=given(words.status), since=moment(words.since),
        all_projects=words.all_projects, at=moment(words.at), before=given(words.cursor),
        unfinished=words.unfinished, project=given(words.project), archived=given(words.archived),
    )  # fmt: skip
    more = len(rows) > words.limit
    return d.SessionList(sessions=rows[: words.limit], next=rows[words.limit - 1].id if more else None)


def session(keeper: Keeper, path: Path, words: asked.Asked) -> d.OneSession:
    """As `holdfast show --json`."""
    assert isinstance(words, asked.At)
    at = moment(words.at)
    return d.OneSession(session=keeper.session(path["id"], at=at).document(at=at))


def events(keeper: Keeper, path: Path, words: asked.Asked) -> d.EventList:
    """As `holdfast log --json`: oldest first."""
    assert isinstance(words, asked.Events)
    at, kind, after, limit = moment(words.at), given(words.type), given(words.after), given(words.limit)
    found = keeper.session(path["id"], at=at)
    found.state(at=at)  # one that is erased, or had not begun, is not found
    log = keeper.events(found.id)
    if after is not None:
        place = next((number for number, event in enumerate(log, 1) if event.hash == after), None)
        if place is None:
            raise NotFound("the session has no event of this hash", session=found.id)
        log = log[place:]
    log = [event for event in log if kind in (None, event.type) and (at is None or event.at <= at)]
    if limit is not None:
        log = log[-limit:] if after is None else log[:limit]
    return d.EventList(events=msgspec.convert([public(event) for event in log], decodable(list[d.LoggedEvent])))


def briefing(keeper: Keeper, path: Path, words: asked.Asked) -> d.BriefingText:
    """As `holdfast briefing --json`."""
    assert isinstance(words, asked.Briefing)
    at = moment(words.at)
    found = keeper.session(path["id"], at=at)
    told = found.briefing(reader=words.for_, max_chars=words.max_chars, at=at)
    return d.BriefingText(briefing=told, for_=words.for_, id=found.id)


def now(keeper: Keeper, _: Path, __: asked.Asked) -> d.NowList:
    """Every unfinished session of all projects: what waits for the person first."""
    return d.NowList(now=[
        d.Unfinished(
            session=one.session, attention=list(one.attention), gone=sorted(one.gone), places=list(one.places),
            here=one.here, resume=one.resume,
        )
        for one in overview.now(keeper)
    ])  # fmt: skip


def hours(keeper: Keeper, _: Path, words: asked.Asked) -> d.HoursTable | d.AgentTable:
    """As `holdfast stats --json`, of all projects or those of a name."""
    assert isinstance(words, asked.Hours)
    project, since = given(words.project), moment(words.since)
    if words.by != "agent":
        found = all_hours.hours(keeper, _memo, project=project, since=since)
        tables = {"day": found.days, "scope": found.scopes, "project": found.projects}
        return d.HoursTable(by=words.by, lines=tables[words.by], total=found.total)
    rows = keeper.history(limit=None, all_projects=True, project=project, since=since, aliases=False)
    states = (keeper.state(row.id) for row in rows)
    table = statistics.table(states, words.by, now=keeper.now(), offset=local_offset)
    lines = cast("list[statistics.AgentLine]", table.lines)
    return d.AgentTable(by=words.by, lines=lines, total=cast("statistics.AgentLine", table.total))


def hills(keeper: Keeper, _: Path, __: asked.Asked) -> d.HillList:
    """Where the scopes of all projects stand."""
    return d.HillList(hills=[
        d.HillPlace(
            project=one.project, scope=one.scope, position=one.position, session=one.session,
            moved_at=None if one.moved_at is None else text(one.moved_at),
        )
        for one in hill_chart.hills(keeper)
    ])  # fmt: skip


def devices(keeper: Keeper, _: Path, __: asked.Asked) -> d.OneDevice:
    """As `holdfast device show --json`: what this device knows, without asking any remote."""
    from holdfast.keeper.teleports import standing  # noqa: PLC0415 (loads what seals and signs)
    from holdfast.teleport import key_files  # noqa: PLC0415

    keys = key_files.public(keeper.home.path)
    vaults = [
        d.VaultMet(
            remote=one.remote.name, id=one.remote.vault, words=one.words, status=one.status, confirmed=one.confirmed,
            last_sync=None if one.last_sync is None else text(one.last_sync), error=one.error, held=one.held,
        )
        for one in standing.all_met(keeper)
    ]  # fmt: skip
    fingerprint, age, signing = (None,) * 3 if keys is None else (keys.words, keys.age, keys.signing.hex())
    return d.OneDevice(
        device=d.ThisDevice(name=keeper.device(), fingerprint=fingerprint, age=age, signing=signing, vaults=vaults)
    )


BASE: Final = "/api/v1"
ENDPOINTS: Final[dict[str, Endpoint]] = {
    f"{BASE}/sessions": Endpoint("sessions", "Sessions, newest first", asked.Sessions, (d.SessionList,), sessions),
    f"{BASE}/sessions/{{id}}": Endpoint("session", "Everything about a session", asked.At, (d.OneSession,), session),
    f"{BASE}/sessions/{{id}}/events": Endpoint("events", "What happened in it", asked.Events, (d.EventList,), events),
    f"{BASE}/sessions/{{id}}/briefing": Endpoint(
        "briefing", "The text that lets somebody go on with it", asked.Briefing, (d.BriefingText,), briefing
    ),
    f"{BASE}/now": Endpoint("now", "What is in progress, and what waits for you", asked.Asked, (d.NowList,), now),
    f"{BASE}/hours": Endpoint("hours", "Hours worked", asked.Hours, (d.HoursTable, d.AgentTable), hours),
    f"{BASE}/hills": Endpoint("hills", "How far scopes are", asked.Asked, (d.HillList,), hills),
    f"{BASE}/devices": Endpoint("devices", "This device and its vaults", asked.Asked, (d.OneDevice,), devices),
}
