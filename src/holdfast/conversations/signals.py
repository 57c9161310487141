"""What agent programs report, in one vocabulary: every hook and every transcript line becomes some signals, or none.

Signals say what happened, not what is recorded of it: that depends on the session, and `ingest` decides it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.core.canonical import Json

TodoStatus = Literal["pending", "in_progress", "completed", "dropped"]


class Signal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that an agent program reported. `agent` is the program's own id of the subagent concerned, if any."""

    agent: str | None = None


class Opened(Signal, frozen=True, kw_only=True):
    """A conversation was opened, for the first time or again (`resume`, `fork`, `clear`, `compact`)."""

    how: Literal["startup", "resume", "clear", "compact", "fork"] = "startup"
    title: str | None = None


class Prompted(Signal, frozen=True, kw_only=True):
    """Somebody asked for something; `person` is false when a program or a timer did."""

    text: str = ""
    person: bool = True


class Replied(Signal, frozen=True, kw_only=True):
    """The agent has answered, and its turn is over."""

    text: str | None = None


class Active(Signal, frozen=True, kw_only=True):
    """The agent did something that leaves no other trace: it read, searched, thought."""


class Called(Signal, frozen=True, kw_only=True):
    """The agent asks for a subagent: only here its task is known.

    The subagent has not begun yet, unless its program never reports beginnings: then it `begins` here.
    """

    call: str
    type: str
    task: str | None = None
    background: bool = False
    begins: bool = False


class AgentBegan(Signal, frozen=True, kw_only=True):
    """A subagent (`agent`) begins. Where its `call` returned that, the call is known."""

    type: str
    task: str | None = None
    background: bool = False
    call: str | None = None


class AgentEnded(Signal, frozen=True, kw_only=True):
    """A subagent has ended: the one named by `agent`, or the one that `call` asked for.

    `took_ms` is how long it ran, where its beginning was not reported. `failed` is why it has no result; `stopped`
    says that this is no failure: somebody ended it early.
    """

    call: str | None = None
    type: str | None = None
    task: str | None = None
    summary: str | None = None
    tokens: int | None = None
    took_ms: int | None = None
    failed: str | None = None
    # The person stopped it: no failure.
    stopped: bool = False


class Edited(Signal, frozen=True, kw_only=True):
    """A file was changed. The path is as the agent wrote it: absolute, or relative to the working directory.

    `before` and `after` are SHA-256 of the content where the agent reported enough to know it. `old` and `new` are
    the replaced and the new text; with the file on the disk, they lead to `before`. Neither is kept.
    """

    path: str
    action: Literal["created", "modified", "deleted"] = "modified"
    before: str | None = None
    after: str | None = None
    old: str | None = None
    new: str | None = None
    lines_added: int | None = None
    lines_removed: int | None = None


class Ran(Signal, frozen=True, kw_only=True):
    """A shell command was executed. Where its exit code is not known, `code` is 0 for a success, 1 for a failure, and
    None when not even that is known.
    """

    command: str
    code: int | None = 0
    took_ms: int | None = None


class Todo(msgspec.Struct, frozen=True, gc=False):
    text: str
    status: TodoStatus = "pending"
    id: str | None = None


class Planned(Signal, frozen=True, kw_only=True):
    """The agent's to-dos: the `whole` list, or some entries that changed."""

    todos: tuple[Todo, ...]
    whole: bool = True


class Compacting(Signal, frozen=True, kw_only=True):
    """The context is about to be compressed. Not `surely` if that may be refused; its end is reported then, too."""

    surely: bool = True


class Compacted(Signal, frozen=True, kw_only=True):
    """The context was compressed; `tokens` is what is left of it."""

    tokens: int | None = None


class Chosen(Signal, frozen=True, kw_only=True):
    """The model in use, the permission mode, or both."""

    model: str | None = None
    permission: str | None = None


class Waits(Signal, frozen=True, kw_only=True):
    """The agent waits for the person: for a `permission` or for `input`. The next signal ends it."""

    what: Literal["permission", "input"] = "input"
    text: str | None = None


class Limited(Signal, frozen=True, kw_only=True):
    """The usage limit of the account is reached; work continues when it is lifted."""

    reason: str


class Erred(Signal, frozen=True, kw_only=True):
    """Something failed; the category is one of `core.failures.CATEGORIES`."""

    message: str
    category: str = "logical"


class Measured(Signal, frozen=True, kw_only=True):
    """How full the context is, what the conversation has cost, how much of the account's limits is used."""

    tokens: int | None = None
    window: int | None = None
    cost_usd: float | None = None
    limits: dict[str, Json] | None = None


class Closed(Signal, frozen=True, kw_only=True):
    """The conversation was closed. A hint: crashes say nothing."""

    reason: str | None = None


AnySignal: TypeAlias = (
    Opened | Prompted | Replied | Active | Called | AgentBegan | AgentEnded | Edited | Ran | Planned | Compacting
    | Compacted | Chosen | Waits | Limited | Erred | Measured | Closed
)  # fmt: skip
