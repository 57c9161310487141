"""The API's addresses: their parameters and answers, the routes, and the OpenAPI description of it all."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.core.decode import decodable
from holdfast.core.envelope import event_document
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.text import MAX_NAME_LENGTH
from holdfast.core.times import format_time, parse_time
from holdfast.machine.wall import local_offset, midnight
from holdfast.sessions import history, overview
from holdfast.sessions.hours import cache as all_hours
from holdfast.sessions.hours import table as hours_table
from holdfast.web import responses
from holdfast.web.api import documents as d

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.pool import KeeperPool

T = TypeVar("T", bound="Parameters")
V = TypeVar("V")

Status = Literal["created", "in_progress", "paused", "completed", "error", "aborted"]
_MOMENT: Final[dict[str, Any]] = {"format": "date-time"}
_DAY: Final[dict[str, Any]] = {"anyOf": [{"format": "date"}, {"format": "date-time"}]}
_AT = Annotated[str, Meta(description="As it was at this moment.", extra_json_schema=_MOMENT)]
_PROJECT = Annotated[str, Meta(description="Only projects of this name.", max_length=1000)]
_SINCE = Annotated[str, Meta(description="Only from this day or moment on.", extra_json_schema=_DAY)]


class Parameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """No parameters, unless a subclass has some."""


class At(Parameters, kw_only=True):
    at: _AT | UnsetType = UNSET


class SessionsParameters(Parameters, kw_only=True):
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=1000)] = 20
    search: Annotated[str, Meta(description="Words to search for.", max_length=1000)] | UnsetType = UNSET
    status: Annotated[Status, Meta(description="Only sessions of this status.")] | UnsetType = UNSET
    since: _SINCE | UnsetType = UNSET
    all_projects: Annotated[
        bool, Meta(description="Of all projects, or only of the one where `holdfast ui` runs.")
    ] = True
    project: _PROJECT | UnsetType = UNSET
    unfinished: Annotated[bool, Meta(description="Only unfinished sessions.")] = False
    archived: Annotated[bool, Meta(description="Only archived sessions, or only the others.")] | UnsetType = UNSET
    cursor: Annotated[str, Meta(description="`next` of the previous answer.", max_length=64)] | UnsetType = UNSET
    at: _AT | UnsetType = UNSET


class Events(Parameters, kw_only=True):
    type: Annotated[str, Meta(description="Only events of this type.", max_length=100)] | UnsetType = UNSET
    limit: (
        Annotated[int, Meta(description="How many: the latest, or those after `after`.", ge=1, le=100_000)]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[str, Meta(description="The hash of an event: what follows it in the log.", max_length=64)]
        | UnsetType
    ) = UNSET
    at: _AT | UnsetType = UNSET


class Briefing(Parameters, kw_only=True):
    for_: Annotated[Literal["person", "agent"], Meta(description="Who reads it.")] = msgspec.field(
        default="person", name="for"
    )
    max_chars: Annotated[int, Meta(description="How long at most.", ge=200, le=1_000_000)] = 10_000
    at: _AT | UnsetType = UNSET


class HoursParameters(Parameters, kw_only=True):
    by: Annotated[Literal["scope", "day", "project", "agent"], Meta(description="What to group by.")] = "scope"
    project: _PROJECT | UnsetType = UNSET
    since: _SINCE | UnsetType = UNSET


def read_parameters(kind: type[T], pairs: Iterable[tuple[str, str]]) -> T:
    """Parse the query of an address."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise Invalid(f"{name[:40]!a} is given twice")
        values[name] = value
    try:
        return msgspec.convert(values, decodable(kind), strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(kind.__struct_encode_fields__) or "nothing"
        raise Invalid(f"invalid query: {error}", hint=f"This address takes {names}.") from None


def moment(value: str | UnsetType) -> int | None:
    """The time in RFC 3339, or a day's first moment here."""
    if value is UNSET:
        return None
    return midnight(value) if len(value) == 10 else parse_time(value)


def or_none(value: V | UnsetType) -> V | None:
    return None if value is UNSET else value


# ── what each address answers ────────────────────────────────────────────────────────────────────────────

Path = Mapping[str, str]
_memo: Final = all_hours.HoursMemo()


class Endpoint(NamedTuple):
    name: str
    summary: str
    parameters: type[Parameters]
    answers: tuple[type[d.Document], ...]
    answer: Callable[[Keeper, Path, Parameters], d.Document]


def sessions(keeper: Keeper, _: Path, parameters: Parameters) -> d.SessionList:
    """As `holdfast history --json`, of all projects by default; `next` continues where it ends."""
    assert isinstance(parameters, SessionsParameters)
    rows = keeper.history(
        limit=parameters.limit + 1, search=or_none(parameters.search), status=or_none(parameters.status),
        since=moment(parameters.since), all_projects=parameters.all_projects, at=moment(parameters.at),
        before=or_none(parameters.cursor), unfinished=parameters.unfinished, project=or_none(parameters.project),
        archived=or_none(parameters.archived),
    )  # fmt: skip
    more = len(rows) > parameters.limit
    return d.SessionList(sessions=rows[: parameters.limit], next=rows[parameters.limit - 1].id if more else None)


def session(keeper: Keeper, path: Path, parameters: Parameters) -> d.OneSession:
    """As `holdfast show --json`."""
    assert isinstance(parameters, At)
    at = moment(parameters.at)
    return d.OneSession(session=keeper.session(path["id"], at=at).document(at=at))


def events(keeper: Keeper, path: Path, parameters: Parameters) -> d.EventList:
    """As `holdfast log --json`: oldest first."""
    assert isinstance(parameters, Events)
    at, kind, after, limit = (
        moment(parameters.at),
        or_none(parameters.type),
        or_none(parameters.after),
        or_none(parameters.limit),
    )
    handle = keeper.session(path["id"], at=at)
    handle.state(at=at)  # raises if it is erased or had not begun
    log = keeper.events(handle.id)
    if after is not None:
        place = next((number for number, event in enumerate(log, 1) if event.hash == after), None)
        if place is None:
            raise NotFound("the session has no event of this hash", session=handle.id)
        log = log[place:]
    log = [event for event in log if kind in (None, event.type) and (at is None or event.at <= at)]
    if limit is not None:
        log = log[-limit:] if after is None else log[:limit]
    return d.EventList(
        events=msgspec.convert([event_document(event) for event in log], decodable(list[d.LoggedEvent]))
    )


def briefing(keeper: Keeper, path: Path, parameters: Parameters) -> d.BriefingText:
    """As `holdfast briefing --json`."""
    assert isinstance(parameters, Briefing)
    at = moment(parameters.at)
    handle = keeper.session(path["id"], at=at)
    text = handle.briefing(reader=parameters.for_, max_chars=parameters.max_chars, at=at)
    return d.BriefingText(briefing=text, for_=parameters.for_, id=handle.id)


def now(keeper: Keeper, _: Path, __: Parameters) -> d.NowList:
    """Every unfinished session of all projects: what waits for the person first."""
    return d.NowList(now=[
        d.Unfinished(
            session=card.session, attention=list(card.attention), gone=sorted(card.lost), places=list(card.places),
            here=card.here, resume=card.resume,
        )
        for card in overview.current_cards(keeper)
    ])  # fmt: skip


def hours(keeper: Keeper, _: Path, parameters: Parameters) -> d.HoursTable | d.AgentTable:
    """As `holdfast stats --json`, of all projects or those of a name."""
    assert isinstance(parameters, HoursParameters)
    project, since = or_none(parameters.project), moment(parameters.since)
    if parameters.by != "agent":
        cached = all_hours.hours(keeper, _memo, project=project, since=since)
        tables = {"day": cached.days, "scope": cached.scopes, "project": cached.projects}
        return d.HoursTable(by=parameters.by, lines=tables[parameters.by], total=cached.total)
    rows = keeper.history(limit=None, all_projects=True, project=project, since=since, aliases=False)
    states = history.states_of(keeper, rows)
    table = hours_table.table(states, parameters.by, now=keeper.now(), offset=local_offset)
    lines = cast("list[hours_table.AgentLine]", table.lines)
    return d.AgentTable(by=parameters.by, lines=lines, total=cast("hours_table.AgentLine", table.total))


def hills(keeper: Keeper, _: Path, __: Parameters) -> d.HillList:
    """The positions of the scopes of all projects."""
    return d.HillList(hills=[
        d.HillPlace(
            project=hill.project, scope=hill.scope, position=hill.position, session=hill.session,
            moved_at=None if hill.moved_at is None else format_time(hill.moved_at),
        )
        for hill in overview.hills(keeper)
    ])  # fmt: skip


def devices(keeper: Keeper, _: Path, __: Parameters) -> d.OneDevice:
    """As `holdfast device show --json`: what this device knows, without asking any remote."""
    from holdfast.sync import remote_setup
    from holdfast.workspace.keys import key_files

    keys = key_files.public(keeper.home.path)
    vaults = [
        d.VaultMet(
            remote=status.remote.name, id=status.remote.vault, words=status.words, status=status.status,
            confirmed=status.confirmed, last_sync=None if status.last_sync is None else format_time(status.last_sync),
            error=status.error, held=status.waiting,
        )
        for status in remote_setup.all_statuses(keeper)
    ]  # fmt: skip
    fingerprint, age, signing = (None,) * 3 if keys is None else (keys.words, keys.age, keys.signing.hex())
    return d.OneDevice(
        device=d.ThisDevice(name=keeper.device(), fingerprint=fingerprint, age=age, signing=signing, vaults=vaults)
    )


BASE: Final = "/api/v1"
ENDPOINTS: Final[dict[str, Endpoint]] = {
    f"{BASE}/sessions": Endpoint(
        "sessions", "Sessions, newest first", SessionsParameters, (d.SessionList,), sessions
    ),
    f"{BASE}/sessions/{{id}}": Endpoint("session", "Everything about a session", At, (d.OneSession,), session),
    f"{BASE}/sessions/{{id}}/events": Endpoint("events", "What happened in it", Events, (d.EventList,), events),
    f"{BASE}/sessions/{{id}}/briefing": Endpoint(
        "briefing", "The text that a person or an agent needs to continue it", Briefing, (d.BriefingText,), briefing
    ),
    f"{BASE}/now": Endpoint("now", "What is in progress, and what waits for you", Parameters, (d.NowList,), now),
    f"{BASE}/hours": Endpoint("hours", "Hours worked", HoursParameters, (d.HoursTable, d.AgentTable), hours),
    f"{BASE}/hills": Endpoint("hills", "How far along the scopes are", Parameters, (d.HillList,), hills),
    f"{BASE}/devices": Endpoint("devices", "This device and its vaults", Parameters, (d.OneDevice,), devices),
}


# ── routes and the OpenAPI description ───────────────────────────────────────────────────────────────────

_NAME: Final = "^[^\\s/\\u0000-\\u001f\\u007f-\\u00a0]+$"
_REF: Final = "#/components/schemas/{name}"
_FAILURES: Final = {
    "400": "A parameter is invalid",
    "401": "The token of this run is missing or wrong",
    "404": "There is no such session, or it had not begun",
    "405": "The API is read-only",
    "500": "Stored data is damaged, or something unexpected happened",
    "502": "The store's server cannot be reached; try again when it is back",
    "503": "Another process locked the store for too long; try again",
}


@cache
def description() -> dict[str, Any]:
    kinds = [kind for endpoint in ENDPOINTS.values() for kind in (*endpoint.answers, endpoint.parameters)]
    _, schemas = msgspec.json.schema_components([*kinds, d.ErrorDocument], ref_template=_REF)
    paths = {path: {"get": _operation(path, endpoint, schemas)} for path, endpoint in ENDPOINTS.items()}
    for endpoint in ENDPOINTS.values():
        schemas.pop(endpoint.parameters.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "The data of the dashboard, read-only. `holdfast ui --json --no-open` prints the token.",
        },
        "paths": {
            **paths,
            f"{BASE}/openapi.json": {"get": {
                "operationId": "openapi", "summary": "This description",
                "responses": {"200": {"description": "The description", "content": {"application/json": {"schema": {
                    "type": "object"}}}}, **_failures({"400", "401", "405"})},
            }},
        },
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }  # fmt: skip


def _operation(path: str, endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    kinds = [{"$ref": _REF.format(name=kind.__name__)} for kind in endpoint.answers]
    answer = _content(kinds[0] if len(kinds) == 1 else {"oneOf": kinds})
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": " ".join((endpoint.answer.__doc__ or "").split()),
        "parameters": [*_in_path(path), *_in_query(schemas[endpoint.parameters.__name__])],
        "responses": {"200": {"description": endpoint.summary, "content": answer}, **_failures(set(_FAILURES))},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": _NAME}
    about = "The id of a session, a unique prefix of it, an alias, or @ for the current one"
    return [
        {"name": name, "in": "path", "required": True, "description": about, "schema": schema}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _in_query(struct: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "description": schema.get("description", ""),
         "schema": {key: value for key, value in schema.items() if key != "description"}}
        for name, schema in struct["properties"].items()
    ]  # fmt: skip


def _failures(codes: set[str]) -> dict[str, Any]:
    content = _content({"$ref": _REF.format(name=d.ErrorDocument.__name__)})
    return {code: {"description": about, "content": content} for code, about in _FAILURES.items() if code in codes}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def routes(keepers: KeeperPool) -> list[Route]:
    def handler_for(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            parameters = read_parameters(endpoint.parameters, request.query_params.multi_items())
            return responses.document(
                await keepers.ask(lambda keeper: endpoint.answer(keeper, request.path_params, parameters))
            )

        return answer

    async def openapi(request: Request) -> Response:
        read_parameters(Parameters, request.query_params.multi_items())
        return responses.document(description())

    return [
        Route(f"{BASE}/openapi.json", openapi),
        *(Route(path, handler_for(endpoint)) for path, endpoint in ENDPOINTS.items()),
    ]
