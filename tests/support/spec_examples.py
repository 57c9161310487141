"""The examples of the four specifications, as they are in their files, with their spelling.

The contract's plan and registry are given there as layouts only; here they are filled in for the same feature.
"""

from __future__ import annotations

import json
from typing import Any

ORCHESTRATOR = b"""\
{
  "schema_version": "1.0",
  "session_id": "2025-12-27-abc123",
  "created": "2025-12-27T10:30:00Z",
  "updated": "2025-12-27T11:45:00Z",
  "project": {
    "name": "aiterm",
    "path": "/Users/dt/projects/dev-tools/aiterm",
    "git_branch": "dev"
  },
  "goal": "Add sensitivity analysis to RMediation::medci()",
  "mode": "default",
  "status": "in_progress",
  "agents": [
    {
      "id": "arch-1",
      "type": "arch",
      "task": "Design sensitivity API",
      "status": "complete",
      "started": "2025-12-27T10:30:00Z",
      "completed": "2025-12-27T10:32:00Z",
      "result_summary": "3 methods proposed: bootstrap, delta, MCMC",
      "context_tokens": 1500
    },
    {
      "id": "code-1",
      "type": "code",
      "task": "Implement primary method",
      "status": "in_progress",
      "started": "2025-12-27T10:32:00Z",
      "progress": 60,
      "context_tokens": 3200
    }
  ],
  "completed_work": [
    {
      "task": "Architecture design",
      "outcome": "3 methods proposed",
      "files": ["R/sensitivity.R"]
    }
  ],
  "pending_tasks": [
    "Complete code-1 implementation",
    "Add unit tests",
    "Update documentation"
  ],
  "decisions_made": [
    {
      "decision": "Use bootstrap for confidence intervals",
      "rationale": "Best balance of accuracy and performance",
      "timestamp": "2025-12-27T10:31:00Z"
    }
  ],
  "context_usage": {
    "estimated_tokens": 25000,
    "percentage": 20,
    "last_compression": null
  },
  "errors": []
}
"""

TIMER_ONE_PAUSE = b"""\
{
  "sessionId": "20251104-domain-databasename",
  "scope": "Domain Layer Foundation",
  "task": "Create DatabaseName value object",
  "branchName": "session/20251104-domain-databasename",
  "status": "IN_PROGRESS",
  "startTime": "2025-11-04T10:23:15Z",
  "lastMessageTime": "2025-11-04T10:58:42Z",
  "actualWorkingMs": 2100000,
  "totalPausedMs": 120000,
  "pauses": [
    {
      "type": "AUTO_TASK",
      "reason": "Task agent: Search for validation patterns",
      "startTime": "2025-11-04T10:35:00Z",
      "endTime": "2025-11-04T10:47:00Z",
      "durationMs": 720000
    }
  ],
  "reminders": {
    "break40min": false,
    "warning60min": false,
    "timeout90min": false
  },
  "summary": "Creating DatabaseName value object with validation"
}
"""

TIMER_SEVERAL_PAUSES = b"""\
{
  "sessionId": "20251105-infrastructure-filesystem",
  "scope": "Filesystem Adapter",
  "task": "Implement directory provisioning",
  "branchName": "session/20251105-infrastructure-filesystem",
  "status": "PAUSED",
  "startTime": "2025-11-05T14:15:30Z",
  "lastMessageTime": "2025-11-05T15:48:10Z",
  "actualWorkingMs": 3600000,
  "totalPausedMs": 900000,
  "pauses": [
    {
      "type": "AUTO_TASK",
      "reason": "Task agent: Explore filesystem adapter patterns",
      "startTime": "2025-11-05T14:25:00Z",
      "endTime": "2025-11-05T14:38:00Z",
      "durationMs": 780000
    },
    {
      "type": "MANUAL",
      "reason": "coffee break",
      "startTime": "2025-11-05T15:05:00Z",
      "endTime": "2025-11-05T15:12:00Z",
      "durationMs": 420000
    },
    {
      "type": "MANUAL",
      "reason": "meeting",
      "startTime": "2025-11-05T15:48:10Z",
      "endTime": null,
      "durationMs": 0
    }
  ],
  "reminders": {
    "break40min": true,
    "warning60min": true,
    "timeout90min": false
  },
  "summary": "Implementing directory provisioning with permission handling"
}
"""

TIMER_TIMED_OUT = b"""\
{
  "sessionId": "20251106-cli-install-wiring",
  "scope": "CLI Layer",
  "task": "Wire install command to use cases",
  "branchName": "session/20251106-cli-install-wiring",
  "status": "PAUSED",
  "startTime": "2025-11-06T16:20:00Z",
  "lastMessageTime": "2025-11-06T17:53:15Z",
  "actualWorkingMs": 5400000,
  "totalPausedMs": 180000,
  "pauses": [
    {
      "type": "AUTO_IDLE",
      "reason": "User idle",
      "startTime": "2025-11-06T16:55:00Z",
      "endTime": "2025-11-06T17:01:00Z",
      "durationMs": 360000
    },
    {
      "type": "AUTO_TASK",
      "reason": "Timeout enforced at 90 min working time",
      "startTime": "2025-11-06T17:53:15Z",
      "endTime": null,
      "durationMs": 0
    }
  ],
  "reminders": {
    "break40min": true,
    "warning60min": true,
    "timeout90min": true
  },
  "summary": "Wiring install command - TIMEOUT enforced, take break"
}
"""

TIMER_JUST_STARTED = b"""\
{
  "sessionId": "20251104-domain-task",
  "scope": "Domain Layer Foundation",
  "task": "Create value object",
  "branchName": "session/20251104-domain-task",
  "status": "IN_PROGRESS",
  "startTime": "2025-11-04T10:00:00Z",
  "lastMessageTime": "2025-11-04T10:00:00Z",
  "actualWorkingMs": 0,
  "totalPausedMs": 0,
  "pauses": [],
  "reminders": {
    "break40min": false,
    "warning60min": false,
    "timeout90min": false
  },
  "summary": "Starting work on value object"
}
"""

CRAFT = """\
{
  "$schema": "https://data-wise.github.io/craft/schemas/session-state-v1.json",
  "schema_version": "1.0.0",
  "session_id": "abc12345-def6-7890-ghij-klmnopqrstuv",
  "created_at": "2026-01-17T14:30:00.000Z",
  "updated_at": "2026-01-17T14:45:23.142Z",
  "device": "MacBook Pro",
  "project": "/Users/dt/projects/my-app",
  "goal": "Add OAuth 2.0 authentication system with PKCE flow",
  "mode": "default",
  "status": "in_progress",
  "progress": 0.65,
  "agents": [
    {
      "id": "arch-1",
      "type": "backend-architect",
      "status": "completed",
      "started_at": "2026-01-17T14:30:15.000Z",
      "completed_at": "2026-01-17T14:32:30.000Z",
      "duration_seconds": 135,
      "progress": 1.0,
      "result": "success",
      "blocking_on": null,
      "error": null,
      "output_summary": "OAuth 2.0 architecture designed with PKCE flow",
      "artifacts": {
        "files_created": ["docs/auth-architecture.md"],
        "files_modified": [],
        "files_deleted": []
      }
    },
    {
      "id": "code-1",
      "type": "feature-dev",
      "status": "running",
      "started_at": "2026-01-17T14:33:00.000Z",
      "completed_at": null,
      "duration_seconds": null,
      "progress": 0.6,
      "result": null,
      "blocking_on": null,
      "error": null,
      "output_summary": null,
      "artifacts": {
        "files_created": ["src/auth/oauth.ts"],
        "files_modified": ["src/middleware/auth.ts"],
        "files_deleted": []
      }
    }
  ],
  "completed_work": [
    "Architecture design (OAuth 2.0 with PKCE)",
    "Code stubs created (src/auth/oauth.ts)"
  ],
  "pending_tasks": [
    "Complete code-1 implementation (60% → 100%)",
    "Add unit tests (test-1)",
    "Update documentation (doc-1)"
  ],
  "decisions_made": [
    {
      "timestamp": "2026-01-17T14:32:45.000Z",
      "context": "Authentication method selection",
      "options": ["JWT", "Session Cookies", "Hybrid (JWT + refresh tokens)"],
      "chosen": "Hybrid (JWT + refresh tokens)",
      "reasoning": "Balance of scalability and security"
    }
  ],
  "files_modified": [
    {
      "path": "src/auth/oauth.ts",
      "action": "created",
      "agent_id": "code-1",
      "timestamp": "2026-01-17T14:35:00.000Z",
      "lines_added": 127,
      "lines_removed": 0,
      "hash_before": null,
      "hash_after": "a1b2c3d4e5f6789012345678901234567890abcd"
    }
  ],
  "context_usage": {
    "estimated_tokens": 25000,
    "compression_count": 0,
    "last_compression": null,
    "by_agent": {
      "arch-1": 8000,
      "code-1": 12000,
      "test-1": 5000
    }
  },
  "teleportation": {
    "enabled": true,
    "last_sync": "2026-01-17T14:45:00.000Z",
    "sync_status": "success",
    "sync_error": null,
    "devices": ["MacBook Pro", "iMac"],
    "storage_backend": "claude-desktop",
    "encrypted": true,
    "shared_with": null
  },
  "metadata": {
    "git_branch": "feature/auth",
    "git_commit": "a1b2c3d4e5f6789012345678901234567890abcd",
    "craft_version": "1.23.0",
    "tags": ["authentication", "oauth2"],
    "notes": "Using PKCE flow per security team recommendation"
  }
}
""".encode()

CONTRACT_STATE = b"""\
version: "1.0"
feature_id: "ai-orchestrator-2025-01-09"
current_state:
  active_task: "impl-core-commands"
  model_in_use: "opus"
  started_at: "2025-01-09T10:00:00Z"
  last_updated: "2025-01-09T15:30:45Z"
"""

CONTRACT_PLAN = b"""\
feature:
  id: "ai-orchestrator-2025-01-09"
  name: "AI orchestrator"
  description: "Commands that plan and implement features"
  created_at: "2025-01-09T10:00:00Z"

phases:
  - phase_id: "core"
    name: "Core commands"
    tasks:
      - task_id: "impl-core-commands"
        description: "Implement the core commands"
        agent: "agent-1"
        status: "in_progress"
        started_at: "2025-01-09T10:05:00Z"
        completed_at: null
        artifacts: ["src/commands.py"]
      - task_id: "write-tests"
        description: "Write tests for them"
        agent: "agent-2"
        status: "pending"
        started_at: null
        completed_at: null
        artifacts: []
"""

CONTRACT_REGISTRY = b"""\
active_features:
  - feature_id: "ai-orchestrator-2025-01-09"
    started_at: "2025-01-09T10:00:00Z"
    last_active: "2025-01-09T15:30:00Z"
    status: "active"
"""

CONTRACT_HISTORY = (
    b'{"timestamp":"2025-01-09T10:00:00Z","command":"plan","arguments":"Create AI orchestrator","model":"gemini",'
    b'"agent":"agent-1","task_id":null,"status":"success","duration_ms":5234}\n'
)

# Every JSON document, by name.
JSON_FILES: dict[str, bytes] = {
    "orchestrator": ORCHESTRATOR,
    "timer one pause": TIMER_ONE_PAUSE,
    "timer several pauses": TIMER_SEVERAL_PAUSES,
    "timer timed out": TIMER_TIMED_OUT,
    "timer just started": TIMER_JUST_STARTED,
    "craft": CRAFT,
}
# The contract's files, by the names they have in a feature's directory.
YAML_FILES: dict[str, bytes] = {
    "state.yaml": CONTRACT_STATE,
    "implementation-plan.yaml": CONTRACT_PLAN,
    "active-features.yaml": CONTRACT_REGISTRY,
}


def documents() -> dict[str, dict[str, Any]]:
    """Every JSON document as data; a new copy each time."""
    return {name: json.loads(raw) for name, raw in JSON_FILES.items()}


def files() -> dict[str, bytes]:
    """Every file: JSON, YAML and the history's lines."""
    return {**JSON_FILES, **YAML_FILES, "history.jsonl": CONTRACT_HISTORY}
