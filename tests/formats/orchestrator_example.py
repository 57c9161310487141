"""The specification's own example of the orchestrator format, and changes to it."""

from __future__ import annotations

import json

from holdfast.core.canonical import Json
from holdfast.formats import registry
from holdfast.formats.interface import Document

RULES = registry.named("orchestrator")

# The schema of the specification, which is an example.
EXAMPLE: Document = json.loads("""{
  "schema_version": "1.0",
  "session_id": "2025-12-27-abc123",
  "created": "2025-12-27T10:30:00Z",
  "updated": "2025-12-27T11:45:00Z",
  "project": {"name": "aiterm", "path": "/Users/dt/projects/dev-tools/aiterm", "git_branch": "dev"},
  "goal": "Add sensitivity analysis to RMediation::medci()",
  "mode": "default",
  "status": "in_progress",
  "agents": [
    {"id": "arch-1", "type": "arch", "task": "Design sensitivity API", "status": "complete",
     "started": "2025-12-27T10:30:00Z", "completed": "2025-12-27T10:32:00Z",
     "result_summary": "3 methods proposed: bootstrap, delta, MCMC", "context_tokens": 1500},
    {"id": "code-1", "type": "code", "task": "Implement primary method", "status": "in_progress",
     "started": "2025-12-27T10:32:00Z", "progress": 60, "context_tokens": 3200}
  ],
  "completed_work": [
    {"task": "Architecture design", "outcome": "3 methods proposed", "files": ["R/sensitivity.R"]}
  ],
  "pending_tasks": ["Complete code-1 implementation", "Add unit tests", "Update documentation"],
  "decisions_made": [
    {"decision": "Use bootstrap for confidence intervals",
     "rationale": "Best balance of accuracy and performance", "timestamp": "2025-12-27T10:31:00Z"}
  ],
  "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": null},
  "errors": []
}""")


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
    return [(".".join(map(str, one.place)), one.severity) for one in RULES.problems(document, "orchestrator")]
