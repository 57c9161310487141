"""The addresses of the API: what each is asked, what it answers, and how it finds that out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.envelope import event_document
from holdfast.core.errors import NotFound
from holdfast.core.times import format_time
from holdfast.machine.wall import local_offset
from holdfast.sessions import history, overview
from holdfast.sessions.hours import cache as all_hours
from holdfast.sessions.hours import table as hours_table
from holdfast.web.api import documents as d
from holdfast.web.api import parameters
from holdfast.web.api.parameters import given, moment

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

Path = Mapping[str, str]
_memo: Final = all_hours.HoursMemo()


class Endpoint(NamedTuple):
    name: str
    summary: str
    asked: type[parameters.Parameters]
    answers: tuple[type[d.Document], ...]
    work: Callable[[Keeper, Path, parameters.Parameters], d.Document]


def sessions(keeper: Keeper, _: Path, words: parameters.Parameters) -> d.SessionList:
    """As `holdfast history --json`, of all projects unless told otherwise; `next` goes on where it ends."""
    assert isinstance(words, parameters.SessionsParameters)
    rows = keeper.history(
        limit=words.limit + 1, search=given(words.search), status=given(words.status), since=moment(words.since),
        all_projects=words.all_projects, at=moment(words.at), before=given(words.cursor),
        unfinished=words.unfinished, project=given(words.project), archived=given(words.archived),
    )  # fmt: skip
    more = len(rows) > words.limit
    return d.SessionList(sessions=rows[: words.limit], next=rows[words.limit - 1].id if more else None)


def session(keeper: Keeper, path: Path, words: parameters.Parameters) -> d.OneSession:
    """As `holdfast show --json`."""
    assert isinstance(words, parameters.At)
    at = moment(words.at)
    return d.OneSession(session=keeper.session(path["id"], at=at).document(at=at))


def events(keeper: Keeper, path: Path, words: parameters.Parameters) -> d.EventList:
    """As `holdfast log --json`: oldest first."""
    assert isinstance(words, parameters.Events)
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
    return d.EventList(
        events=msgspec.convert([event_document(event) for event in log], decodable(list[d.LoggedEvent]))
    )


def briefing(keeper: Keeper, path: Path, words: parameters.Parameters) -> d.BriefingText:
    """As `holdfast briefing --json`."""
    assert isinstance(words, parameters.Briefing)
    at = moment(words.at)
    found = keeper.session(path["id"], at=at)
    told = found.briefing(reader=words.for_, max_chars=words.max_chars, at=at)
    return d.BriefingText(briefing=told, for_=words.for_, id=found.id)


def now(keeper: Keeper, _: Path, __: parameters.Parameters) -> d.NowList:
    """Every unfinished session of all projects: what waits for the person first."""
    return d.NowList(now=[
        d.Unfinished(
            session=card.session, attention=list(card.attention), gone=sorted(card.gone), places=list(card.places),
            here=card.here, resume=card.resume,
        )
        for card in overview.now(keeper)
    ])  # fmt: skip


def hours(keeper: Keeper, _: Path, words: parameters.Parameters) -> d.HoursTable | d.AgentTable:
    """As `holdfast stats --json`, of all projects or those of a name."""
    assert isinstance(words, parameters.HoursParameters)
    project, since = given(words.project), moment(words.since)
    if words.by != "agent":
        found = all_hours.hours(keeper, _memo, project=project, since=since)
        tables = {"day": found.days, "scope": found.scopes, "project": found.projects}
        return d.HoursTable(by=words.by, lines=tables[words.by], total=found.total)
    rows = keeper.history(limit=None, all_projects=True, project=project, since=since, aliases=False)
    states = history.states_of(keeper, rows)
    table = hours_table.table(states, words.by, now=keeper.now(), offset=local_offset)
    lines = cast("list[hours_table.AgentLine]", table.lines)
    return d.AgentTable(by=words.by, lines=lines, total=cast("hours_table.AgentLine", table.total))


def hills(keeper: Keeper, _: Path, __: parameters.Parameters) -> d.HillList:
    """Where the scopes of all projects stand."""
    return d.HillList(hills=[
        d.HillPlace(
            project=hill.project, scope=hill.scope, position=hill.position, session=hill.session,
            moved_at=None if hill.moved_at is None else format_time(hill.moved_at),
        )
        for hill in overview.hills(keeper)
    ])  # fmt: skip


def devices(keeper: Keeper, _: Path, __: parameters.Parameters) -> d.OneDevice:
    """As `holdfast device show --json`: what this device knows, without asking any remote."""
    from holdfast.sync import remote_setup
    from holdfast.workspace.keys import key_files

    keys = key_files.public(keeper.home.path)
    vaults = [
        d.VaultMet(
            remote=met.remote.name, id=met.remote.vault, words=met.words, status=met.status, confirmed=met.confirmed,
            last_sync=None if met.last_sync is None else format_time(met.last_sync), error=met.error, held=met.held,
        )
        for met in remote_setup.all_met(keeper)
    ]  # fmt: skip
    fingerprint, age, signing = (None,) * 3 if keys is None else (keys.words, keys.age, keys.signing.hex())
    return d.OneDevice(
        device=d.ThisDevice(name=keeper.device(), fingerprint=fingerprint, age=age, signing=signing, vaults=vaults)
    )


BASE: Final = "/api/v1"
ENDPOINTS: Final[dict[str, Endpoint]] = {
    f"{BASE}/sessions": Endpoint(
        "sessions", "Sessions, newest first", parameters.SessionsParameters, (d.SessionList,), sessions
    ),
    f"{BASE}/sessions/{{id}}": Endpoint(
        "session", "Everything about a session", parameters.At, (d.OneSession,), session
    ),
    f"{BASE}/sessions/{{id}}/events": Endpoint(
        "events", "What happened in it", parameters.Events, (d.EventList,), events
    ),
    f"{BASE}/sessions/{{id}}/briefing": Endpoint(
        "briefing", "The text that lets somebody go on with it", parameters.Briefing, (d.BriefingText,), briefing
    ),
    f"{BASE}/now": Endpoint(
        "now", "What is in progress, and what waits for you", parameters.Parameters, (d.NowList,), now
    ),
    f"{BASE}/hours": Endpoint(
        "hours", "Hours worked", parameters.HoursParameters, (d.HoursTable, d.AgentTable), hours
    ),
    f"{BASE}/hills": Endpoint("hills", "How far scopes are", parameters.Parameters, (d.HillList,), hills),
    f"{BASE}/devices": Endpoint(
        "devices", "This device and its vaults", parameters.Parameters, (d.OneDevice,), devices
    ),
}
