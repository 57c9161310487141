"""`holdfast ui`: the dashboard in the browser, until Ctrl-C."""

from __future__ import annotations

from importlib.util import find_spec

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call, put
from holdfast.core import extras
from holdfast.keeper.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.workspace.agent_dirs import AgentDirs


def run(call: Call) -> None:
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2")):
        raise extras.missing_extra("the dashboard needs", "ui")
    from holdfast.web.serve import Dashboard

    where = places(call)
    with call.open_keeper() as keeper:
        # What cannot be read is said here, in the terminal: a page would only be empty.
        keeper.home.refuse_impossible()
        keeper.existing_store()
    dashboard = Dashboard(lambda: _keeper(call, where), call.parsed.integer("port"))
    if call.json:
        api, token = f"{dashboard.plain}/api/v1", dashboard.secrets.token
        call.answer({"url": dashboard.address, "api": api, "token": token}, lambda _: "")
    else:
        put(f"Holdfast's dashboard: {dashboard.address}\n")
        call.note("The address is yours alone. Ctrl-C ends it.")
    if call.parsed.flag("no_open"):
        dashboard.serve()
        return
    from holdfast.web import browser

    with browser.opened(dashboard, call.keeper.home.path, call.note):
        dashboard.serve()


def _keeper(call: Call, where: AgentDirs) -> Keeper:
    """One more keeper of the same place; it looks at mirrored files before everything it does."""
    keeper = call.open_keeper()
    keeper.collects = "each"
    keeper.agent_dirs = where
    return keeper
