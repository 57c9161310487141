"""The errors, as one small tree. The exit codes are a public contract.

HoldfastError
├── Failed        1  the operation failed
│   ├── Refused   1  the current state does not allow it
│   └── Busy      1  another process held the store too long; trying again helps
├── Usage         2  the command line is wrong
├── NotFound      3  there is no such session, agent, task, file
├── Invalid       4  invalid input
├── Conflict      5  it already exists, is already in progress, or someone else changed it
├── Damaged       6  stored data is damaged
├── Unreachable   7  a remote or server could not be reached
└── Interrupted 130  the person stopped it
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class HoldfastError(Exception):
    """What happened in one sentence, where, and what to do next."""

    kind: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1
    retry_helps: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        operation: str | None = None,
        file: str | None = None,
        session: str | None = None,
        feature_id: str | None = None,
        details: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.operation = operation
        self.file = file
        self.session = session
        self.feature_id = feature_id
        # The original text of the system or a parser, if the message rewords it.
        self.details = details
        # In milliseconds; None: the time at which the error is shown.
        self.timestamp: int | None = None


class Failed(HoldfastError):
    pass


class Refused(Failed):
    kind = "refused"


class Busy(Failed):
    """Another process held the store for too long."""

    kind = "busy"
    retry_helps = True


class Usage(HoldfastError):
    kind = "usage"
    exit_code = 2


class NotFound(HoldfastError):
    kind = "not_found"
    exit_code = 3


class Invalid(HoldfastError):
    kind = "invalid"
    exit_code = 4


class Conflict(HoldfastError):
    kind = "conflict"
    exit_code = 5


class Damaged(HoldfastError):
    kind = "damaged"
    exit_code = 6


class Unreachable(HoldfastError):
    kind = "unreachable"
    exit_code = 7
    retry_helps = True


class Interrupted(HoldfastError):
    kind = "interrupted"
    exit_code = 130


def install_command(extra: str) -> str:
    """How to install an extra: from the package index, or from a clone."""
    return f"pip install 'holdfast[{extra}]' (from a clone: pip install '.[{extra}]')"


def missing_extra(subject: str, extra: str, *, otherwise: str = "", operation: str | None = None) -> Failed:
    """The error if `subject` needs an extra that is not installed; `otherwise` is what to do without it."""
    instead = f", or {otherwise}" if otherwise else ""
    return Failed(
        f"{subject} needs an extra that is not installed: holdfast[{extra}]",
        hint=f"Install it: {install_command(extra)}{instead}",
        operation=operation,
    )
