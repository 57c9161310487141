"""The agent programs that Holdfast knows: all that must be known of one before its adapter is loaded.

Hooks and status lines read it, and have a few milliseconds: this module imports nothing when it is loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias

    Occasion: TypeAlias = Literal["start", "prompt", "compact"]


class AgentProgram:
    __slots__ = ("directory", "has_status_line", "headless", "occasions", "resume", "title", "variable")

    def __init__(
        self,
        title: str,
        resume: str,
        occasions: dict[str, Occasion],
        *,
        directory: str | None = None,
        headless: tuple[str, ...] = (),
        variable: str | None = None,
        has_status_line: bool = False,
    ) -> None:
        # What people call it.
        self.title = title
        # The command that reopens a conversation; its id replaces the braces.
        self.resume = resume
        # Its events that may be answered, and when each of them comes. A hook only spools the others.
        self.occasions = occasions
        # Where it keeps its conversations unless a variable leads elsewhere: `.name` in the home directory, `name` in
        # the directory for data. None: only its reader knows.
        self.directory = directory
        # Options and subcommands with which prompts come from the command line or a program.
        self.headless = headless
        # The variable that tells the commands it runs the id of the conversation.
        self.variable = variable
        self.has_status_line = has_status_line


AGENT_PROGRAMS: Final[dict[str, AgentProgram]] = {
    "claude": AgentProgram(
        "Claude Code", "claude --resume {}",
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact"},
        directory=".claude", headless=("-p", "--print", "--input-format"),
        variable="CLAUDE_CODE_SESSION_ID", has_status_line=True,
    ),
    "codex": AgentProgram(
        "Codex", "codex resume {}",
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact"},
        directory=".codex", headless=("exec", "e", "app-server", "mcp-server", "proto"), variable="CODEX_THREAD_ID",
    ),
    "gemini": AgentProgram(
        "Gemini CLI", "gemini --resume {}",
        {"SessionStart": "start", "BeforeAgent": "prompt", "PreCompress": "compact"},
        directory=".gemini", headless=("-p", "--prompt"),
    ),
    "opencode": AgentProgram(
        "opencode", "opencode --session {}",
        {
            "session.created": "start", "session.resumed": "start", "chat.message": "prompt",
            "session.compacting": "compact",
        },
        directory="opencode", headless=("run", "serve", "acp"),
    ),
    "copilot": AgentProgram(
        # It ignores answers before a compression.
        "Copilot CLI", "copilot --resume={}", {"SessionStart": "start", "UserPromptSubmit": "prompt"},
        directory=".copilot", headless=("-p", "--prompt"),
    ),
    "cursor": AgentProgram(
        "Cursor", "cursor-agent --resume={}",
        {"sessionStart": "start", "beforeSubmitPrompt": "prompt", "preCompact": "compact"},
        directory=".cursor", headless=("-p", "--print"),
    ),
    "goose": AgentProgram(
        # It takes no answer to a prompt, but a reminder may reach the person outside of the terminal.
        "Goose", "goose session --resume --session-id {}", {"SessionStart": "start", "UserPromptSubmit": "prompt"},
        directory="goose", headless=("run",),
    ),
    "cline": AgentProgram(
        "Cline", "cline --id {}",
        {"TaskStart": "start", "TaskResume": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact"},
        directory=".cline",
    ),
}  # fmt: skip
# Programs that run no hooks and leave no transcripts: they only get the MCP server.
MCP_ONLY: Final = {"claude-desktop": "Claude Desktop"}


def with_status_line() -> tuple[str, ...]:
    """The agents that show a status line."""
    return tuple(name for name, program in AGENT_PROGRAMS.items() if program.has_status_line)


def asking_events() -> set[tuple[str, Occasion]]:
    """The events of all agents that may be answered: programs read each other's settings."""
    return {item for program in AGENT_PROGRAMS.values() for item in program.occasions.items()}


def resume_command(agent: str, conversation: str) -> str | None:
    """The command that reopens a conversation; none where its id could be taken for an option."""
    program = AGENT_PROGRAMS.get(agent)
    if program is None or conversation.startswith("-"):
        return None
    from shlex import quote  # noqa: PLC0415 (hooks that are not answered need none)

    return program.resume.format(quote(conversation))
