"""The specification's own example of the orchestrator format, and changes to it."""

from __future__ import annotations

import json

from holdfast.core.canonical import Json
from holdfast.formats import registry
from holdfast.formats.base import Document
from tests.support import spec_examples

RULES = registry.named("orchestrator")

# The schema of the specification, which is an example.
EXAMPLE: Document = json.loads(spec_examples.ORCHESTRATOR)


def changed(**parts: Json) -> Document:
    """The example with parts replaced."""
    return {**json.loads(json.dumps(EXAMPLE)), **parts}


def with_agent(position: int, **parts: Json) -> Document:
    document = changed()
    agents = document["agents"]
    assert isinstance(agents, list)
    agent = agents[position]
    assert isinstance(agent, dict)
    agent.update(parts)
    return document


def messages(document: Document) -> list[tuple[str, str]]:
    return [
        (".".join(map(str, problem.place)), problem.severity) for problem in RULES.problems(document, "orchestrator")
    ]
