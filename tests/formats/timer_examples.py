"""The specification's own documents: its three complete examples, and the state a session begins in."""

from __future__ import annotations

from holdfast.formats.interface import Document

TYPICAL: Document = {
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
            "durationMs": 720000,
        }
    ],
    "reminders": {"break40min": False, "warning60min": False, "timeout90min": False},
    "summary": "Creating DatabaseName value object with validation",
}

COMPLEX: Document = {
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
            "durationMs": 780000,
        },
        {
            "type": "MANUAL",
            "reason": "coffee break",
            "startTime": "2025-11-05T15:05:00Z",
            "endTime": "2025-11-05T15:12:00Z",
            "durationMs": 420000,
        },
        {
            "type": "MANUAL",
            "reason": "meeting",
            "startTime": "2025-11-05T15:48:10Z",
            "endTime": None,
            "durationMs": 0,
        },
    ],
    "reminders": {"break40min": True, "warning60min": True, "timeout90min": False},
    "summary": "Implementing directory provisioning with permission handling",
}

TIMEOUT: Document = {
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
            "durationMs": 360000,
        },
        {
            "type": "AUTO_TASK",
            "reason": "Timeout enforced at 90 min working time",
            "startTime": "2025-11-06T17:53:15Z",
            "endTime": None,
            "durationMs": 0,
        },
    ],
    "reminders": {"break40min": True, "warning60min": True, "timeout90min": True},
    "summary": "Wiring install command - TIMEOUT enforced, take break",
}

INITIAL: Document = {
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
    "reminders": {"break40min": False, "warning60min": False, "timeout90min": False},
    "summary": "Starting work on value object",
}
