"""`holdfast agent …`: the life of an agent, as it tells it."""

from __future__ import annotations

from holdfast.cli import ambiguous_ids
from holdfast.cli.call import Call
from holdfast.core import agents, duplicates
from holdfast.core.model import Agent
from holdfast.core.modes import limits
from holdfast.core.short_names import readable
from holdfast.sessions.agents import AgentHandle


def _find(call: Call) -> AgentHandle:
    return call.keeper.session().find_agent(call.parsed.need("id"))


def _done(call: Call, agent_: AgentHandle, event: str | None = None) -> None:
    session = agent_.session
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    place = ambiguous_ids.place_of(state.agents.values(), agent_.id, agent_.ref)
    agent = document.agents[place]
    name = readable(document).agents[place].id
    call.done(document, lambda paint: paint.join(paint.bold(name), "  ", _status(agent)), agent=agent)
    if event is not None:
        ambiguous_ids.tell(call, state, state.agents.values(), place, event, agents.status_of)


def _status(agent: Agent) -> str:
    return agent.status if agent.progress is None else f"{agent.status} {agent.progress:.0%}"


def add(call: Call) -> None:
    words = call.parsed
    agent = call.keeper.session().add_agent(
        words.need("id"), type=words.need("type"), task=words.text("task"), blocking_on=words.text("blocking_on"),
        at=call.at,
    )  # fmt: skip
    _done(call, agent)


def start(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    agent = session.agent(
        words.need("id"),
        type=words.need("type"),
        task=words.text("task"),
        blocking_on=words.text("blocking_on"),
        background=words.flag("background"),
        pid=words.integer("pid"),
        at=call.at,
    )
    _done(call, agent)
    document = session.document(at=call.at)
    running = sum(agent.status == "running" for agent in document.agents)
    allowed = limits(document.mode).agents
    if running > allowed:
        call.note(f"{running} agents are running; mode {document.mode} is meant for {allowed}.")


def progress(call: Call) -> None:
    _done(call, _find(call).progress(call.parsed.number("fraction") or 0.0, at=call.at), "agent.progressed")


def done(call: Call) -> None:
    words = call.parsed
    _done(
        call,
        _find(call).done(summary=words.text("summary"), tokens=words.integer("tokens"), at=call.at),
        "agent.completed",
    )


def fail(call: Call) -> None:
    words = call.parsed
    _done(call, _find(call).fail(words.need("message"), category=words.need("category"), at=call.at), "agent.failed")


def retry(call: Call) -> None:
    _done(call, _find(call).retry(pid=call.parsed.integer("pid"), at=call.at), "agent.retried")


def pause(call: Call) -> None:
    _done(call, _find(call).pause(at=call.at), "agent.paused")


def resume(call: Call) -> None:
    _done(call, _find(call).resume(pid=call.parsed.integer("pid"), at=call.at), "agent.resumed")


def abort(call: Call) -> None:
    _done(call, _find(call).abort(at=call.at), "agent.aborted")


def list_(call: Call) -> None:
    from holdfast.cli.session_parts import agents_table

    session = call.session_to_read()
    state = session.state(at=call.at)
    document = session.described(state, call.keeper.now() if call.at is None else call.at)
    apart = duplicates.disambiguating_labels(state, state.agents.values())
    call.answer({"agents": document.agents}, lambda paint: agents_table(paint, readable(document).agents, apart))
