"""Holdfast keeps the sessions of AI coding agents.

Programs import everything from here: the keeper and its handles, errors, documents, and the words in them as enums.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core import model
    from holdfast.core.errors import (
        Busy,
        Conflict,
        Damaged,
        Failed,
        HoldfastError,
        Interrupted,
        Invalid,
        NotFound,
        Refused,
        Unreachable,
        Usage,
    )
    from holdfast.core.model import Agent, Decision, Row, Session, Task, Time
    from holdfast.core.statuses import (
        AgentStatus,
        ErrorCategory,
        FileAction,
        SessionMode,
        SessionStatus,
        TaskStatus,
    )
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import SessionHandle
    from holdfast.machine.wall import Wall
    from holdfast.sessions.agents import AgentHandle
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.recorder import Notice

__version__ = "0.1.0"
__all__ = [
    "Agent", "AgentDirs", "AgentHandle", "AgentStatus", "Busy", "Conflict", "Damaged", "Decision", "ErrorCategory",
    "Failed", "FileAction", "HoldfastError", "Interrupted", "Invalid", "Keeper", "NotFound", "Notice", "Refused",
    "Row", "Session", "SessionHandle", "SessionMode", "SessionStatus", "Task", "TaskStatus", "Time", "Unreachable",
    "Usage", "Wall", "__version__", "model",
]  # fmt: skip

# Where the names are; the first that has one counts. Those that load little come first.
_MODULES = (
    "core.errors", "core.statuses", "core.model", "machine.wall", "workspace.agent_dirs", "workspace.recorder",
    "sessions.agents", "keeper.session", "keeper.keeper",
)  # fmt: skip


def __getattr__(name: str) -> object:
    # Lazily: `holdfast --version` need not load the store.
    from importlib import import_module

    if name == "model":
        return import_module("holdfast.core.model")
    for module in _MODULES if name in __all__ else ():
        value = getattr(import_module(f"holdfast.{module}"), name, None)
        if value is not None:
            globals()[name] = value
            return value
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
