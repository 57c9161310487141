"""The commands: every word, option and verb of the public contract, and which function runs it."""

from __future__ import annotations

from holdfast.cli.declaration import Argument, Command, Option
from holdfast.core.agent_programs import AGENT_PROGRAMS, MCP_ONLY, with_status_line

SESSIONS, WORK, HISTORY, FORMATS, AGENTS = "Sessions", "Work", "History and reports", "Formats", "Agents"
CONVERSATIONS, DEVICES, SETUP = "Conversations", "Devices and people", "Setup and maintenance"
MODES = ("debug", "default", "optimize", "release")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
FORMAT_NAMES = ("orchestrator", "timer", "contract", "craft")
AGENT_NAMES = tuple(AGENT_PROGRAMS)
STATUSES = ("created", "in_progress", "paused", "completed", "error", "aborted")


_ID = Argument("id", "a session: UUID, unique prefix, alias, or @ for the current one", required=False)
_AGENT = Argument("id", "the agent's id")
_TASK = Argument("id", "the task's id")
_OUTCOME = Option(("--outcome",), "the outcome")
_FORMAT = Argument("format", "which of the four formats", choices=FORMAT_NAMES)
_OUT = Option(("-o", "--out"), "where to write it (default: standard output)", kind="path", metavar="OUT")
_PROGRAM = Argument("agent", "which agent", choices=AGENT_NAMES)
_PROGRAMS = Argument("agents", "which agents", many=True, choices=(*AGENT_NAMES, *MCP_ONLY, "git"), metavar="AGENT")
_SCOPE = Option(("--scope",), "for all your projects, or for this project only", choices=("user", "project"))
_REMOTE = Option(("--remote",), "only this remote", metavar="NAME")
_PERSON = Argument("person", "their role on the server")
_MEMBER = Argument("person", "one member: their role on the server", required=False)
_EVERYONE = Option(("--everyone",), "every member of the vault", kind="flag")
_ARTIFACT = Option(("--artifact",), "a file it made", many=True, name="artifacts", metavar="F")


def _agent(name: str, summary: str, *params: Argument | Option) -> Command:
    return Command(name, summary, (_AGENT, *params), f"work:agent_{name}", writes=True)


def _task(name: str, summary: str) -> Command:
    return Command(name, summary, (_TASK, _OUTCOME, _ARTIFACT), f"work:task_{name}", writes=True)


def _contract(name: str, summary: str) -> Command:
    spec = Option(("--spec",), "the file with the text of the contract", kind="path", required=True)
    agent = Option(("--agent",), "which agent", metavar="NAME")
    return Command(name, summary, (spec, agent), f"mirrors:contract_{name}")


COMMANDS: tuple[Command, ...] = (
    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────
    Command("start", "start a session and make it current", (
        Argument("goal", "what the session is to achieve"),
        Option(("--scope",), "the part of the project it belongs to"),
        Option(("--task",), "the task in two to four words"),
        Option(("--mode",), "how agents work", choices=MODES),
        Option(("--feature",), "the feature's slug", metavar="SLUG"),
        Option(("--branch",), "work on a new git branch", kind="flag"),
        Option(("--tag",), "a tag", many=True, name="tags", metavar="T"),
        Option(("--model",), "the model in use"),
        Option(("--replace",), "set the current session aside first; it can be resumed", kind="flag"),
        Option(("--continues",), "the session that this one continues", metavar="ID"),
    ), "lifecycle:start", group=SESSIONS, writes=True),
    Command("status", "show the current session, or another one", (_ID,), "views:status", group=SESSIONS),
    Command("pause", "pause the session: no time is counted until it is resumed", (Argument("reason",
            "why", required=False),), "lifecycle:pause",
            group=SESSIONS, writes=True),
    Command("resume", "resume a session, here", (
        _ID,
        Option(("--device",), "take the state from this device", metavar="NAME"),
        Option(("--no-sync",), "do not sync first", kind="flag"),
        Option(("--force",), "resume even if this working tree differs", kind="flag"),
    ), "lifecycle:resume", group=SESSIONS, writes=True),
    Command("continue", "resume the latest unfinished session", (), "lifecycle:continue_",
            group=SESSIONS, writes=True),
    Command("save", "record a save point", (), "lifecycle:save", group=SESSIONS, writes=True),
    Command("stop", "complete the session", (
        Option(("--keep",), "merge its branch as one commit", kind="flag"),
        Option(("--discard",), "delete its branch", kind="flag"),
        Option(("--reason",), "why it ends, or why its branch is discarded"),
    ), "lifecycle:stop", group=SESSIONS, writes=True, either=(("--keep", "--discard"),)),
    Command("abort", "abort the session", (Argument("reason", "why", required=False),), "lifecycle:abort",
            group=SESSIONS, writes=True),
    Command("fail", "mark the session as failed", (Argument("message", "what went wrong"),), "lifecycle:fail",
            group=SESSIONS, writes=True),
    Command("edit", "change the goal, mode, progress, scope, summary or tags", (
        Option(("--goal",), "what the session is to achieve"),
        Option(("--mode",), "how agents work", choices=MODES),
        Option(("--progress",), "progress, 0 to 1", kind="float"),
        Option(("--scope",), "the part of the project it belongs to"),
        Option(("--summary",), "one line on what was done"),
        Option(("--tag",), "add a tag", many=True, name="tags", metavar="T"),
    ), "lifecycle:edit", group=SESSIONS, writes=True),
    Command("note", "add a note", (Argument("text", "the note"),), "work:note",
            group=SESSIONS, writes=True),
    Command("message", "record that somebody wrote a message", (
        Option(("--role",), "who wrote it", choices=("user", "assistant")),
    ), "work:message", group=SESSIONS, writes=True),
    Command("away", "record a pause afterwards", (
        Option(("--from",), "when it started", kind="time", name="since", required=True),
        Option(("--to",), "when it ended", kind="time", name="until", required=True),
        Option(("--session",), "which session; may be a finished one", metavar="ID"),
        Argument("reason", "why", required=False),
    ), "lifecycle:away", group=SESSIONS, writes=True),
    Command("worked", "record work that was counted as a pause", (
        Option(("--from",), "when it started", kind="time", name="since", required=True),
        Option(("--to",), "when it ended", kind="time", name="until", required=True),
        Option(("--session",), "which session; may be a finished one", metavar="ID"),
        Argument("reason", "why", required=False),
    ), "lifecycle:worked", group=SESSIONS, writes=True),
    Command("briefing", "print what a person or an agent needs to continue", (
        _ID,
        Option(("--for",), "who will read it", choices=("person", "agent"), name="reader"),
        Option(("--max-chars",), "maximum length", kind="int"),
    ), "lifecycle:briefing", group=SESSIONS),
    # ── Work ─────────────────────────────────────────────────────────────────────────────────────────────
    Command("agent", "record what agents do", group=WORK, verbs=(
        _agent("add", "add an agent that starts later",
               Option(("--type",), "the type of agent", required=True),
               Option(("--task",), "its task"),
               Option(("--blocking-on",), "the agent it waits for", metavar="A")),
        _agent("start", "record that an agent started",
               Option(("--type",), "the type of agent", required=True),
               Option(("--task",), "its task"),
               Option(("--blocking-on",), "the agent it waits for", metavar="A"),
               Option(("--pid",), "its process id", kind="int"),
               Option(("--background",), "the person does not wait for it", kind="flag")),
        _agent("progress", "record an agent's progress", Argument("fraction", "0 to 1", kind="float")),
        _agent("done", "record that an agent finished",
               Option(("--summary",), "what it did"), Option(("--tokens",), "tokens used", kind="int")),
        _agent("fail", "record that an agent failed",
               Option(("--category",), "the category of the failure", choices=CATEGORIES, required=True),
               Option(("--message",), "what went wrong", required=True)),
        _agent("retry", "record that an agent was started again",
               Option(("--pid",), "its new process id", kind="int")),
        _agent("pause", "record that an agent paused"),
        _agent("resume", "record that an agent resumed", Option(("--pid",), "its new process id", kind="int")),
        _agent("abort", "record that an agent was aborted"),
        Command("list", "list the agents", (), "work:agent_list"),
    )),
    Command("task", "add tasks to the plan and record their status", group=WORK, verbs=(
        Command("add", "add a task", (
            Argument("text", "what has to be done"),
            Option(("--id",), "its id (default: generated)"),
            Option(("--phase",), "the phase it belongs to"),
            Option(("--agent",), "the agent that does it"),
        ), "work:task_add", writes=True),
        _task("start", "mark a task as started"),
        _task("done", "mark a task as done"),
        _task("block", "mark a task as blocked"),
        _task("reopen", "reopen a task"),
        _task("drop", "drop a task from the plan"),
        Command("list", "list the tasks", (), "work:task_list"),
    )),
    Command("plan", "import or show the plan: phases and tasks", group=WORK, verbs=(
        Command("import", "add the tasks of a plan file (YAML, JSON or a Markdown checklist)",
                (Argument("file", "the plan", kind="path"),), "work:plan_import", writes=True),
        Command("show", "show the plan by phase", (), "work:plan_show"),
    )),
    Command("decide", "record a decision", (
        Argument("chosen", "what was chosen"),
        Option(("--context",), "what the decision was about"),
        Option(("--option",), "an option that was considered", many=True, name="options", metavar="O"),
        Option(("--why",), "the reason"),
    ), "work:decide", group=WORK, writes=True),
    Command("file", "record a change to a file", (
        Argument("path", "the file", kind="path"),
        Option(("--action",), "what happened to it", choices=("created", "modified", "deleted"), required=True),
        Option(("--agent",), "the agent that did it"),
    ), "work:file", group=WORK, writes=True),
    Command("context", "record how much of the context window is used", (
        Option(("--tokens",), "tokens in use", kind="int", required=True),
        Option(("--window",), "size of the window", kind="int"),
        Option(("--agent",), "of this agent only"),
    ), "work:context", group=WORK, writes=True),
    Command("compress", "record that the context was compressed", (
        Option(("--to",), "tokens left", kind="int"),
    ), "work:compress", group=WORK, writes=True),
    Command("hill", "set the position of a scope on its hill", (
        Argument("scope", "the scope"), Argument("position", "0 not started, 5 the crest, 10 done", kind="int"),
    ), "work:hill", group=WORK, writes=True),
    Command("run", "run a command as an agent of the session", (
        Option(("--agent",), "the agent's id"),
        Option(("--type",), "the type of agent"),
        Option(("--task",), "its task"),
        Option(("--timeout",), "seconds after which it is interrupted", kind="float", metavar="S"),
        Option(("--retries",), "how often to retry after a transient failure", kind="int"),
        Option(("--category",), "the failure category of an exit code", many=True, metavar="CODE=KIND",
                name="categories"),
    ), "run:run", rest=True, group=WORK, writes=True),
    # ── History and reports ──────────────────────────────────────────────────────────────────────────────────
    Command("history", "list past and present sessions", (
        Option(("--limit",), "how many", kind="int"),
        Option(("--search",), "words to search for", metavar="TEXT"),
        Option(("--status",), "only sessions with this status", choices=STATUSES),
        Option(("--since",), "no older than this", kind="date"),
        Option(("--all-projects",), "sessions of all projects", kind="flag"),
    ), "history:history", group=HISTORY),
    Command("show", "show everything about a session", (_ID,), "views:show", group=HISTORY),
    Command("log", "list the events, oldest first", (
        _ID, Option(("--type",), "only events of this type"), Option(("--limit",), "only the last N", kind="int"),
    ), "history:log", group=HISTORY),
    Command("timeline", "show agents and pauses over time", (_ID,), "views:timeline", group=HISTORY),
    Command("budget", "show the context used, by agent", (_ID,), "views:budget", group=HISTORY),
    Command("report", "print a report of the session", (
        _ID, Option(("--format",), "md or html", choices=("md", "html")),
    ), "history:report", group=HISTORY),
    Command("stats", "add up working time", (
        Option(("--by",), "group by", choices=("scope", "day", "project", "agent")),
        Option(("--csv",), "as comma-separated values", kind="flag"),
    ), "history:stats", group=HISTORY),
    Command("why", "find which session and conversation made a commit, a file or a line", (
        Argument("what", "a commit, or a file, perhaps with :LINE", metavar="COMMIT | FILE[:LINE]"),
    ), "history:why", group=HISTORY),
    Command("watch", "watch sessions live in the terminal", (_ID,), "views:watch", group=HISTORY),
    Command("project", "list projects, or reconnect one that was moved", group=HISTORY, verbs=(
        Command("list", "list every project that has sessions", (), "history:project_list"),
        Command("reconnect", "connect the sessions of a moved or renamed project to this directory", (
            Argument("old_path", "where it was"),
        ), "history:project_reconnect", writes=True),
    )),
    Command("archive", "archive a session", (Argument("id", _ID.help),),
            "history:archive", group=HISTORY, writes=True),
    Command("unarchive", "take a session out of the archive", (Argument("id", _ID.help),), "history:unarchive",
            group=HISTORY, writes=True),
    Command("delete", "delete a session permanently", (
        Argument("id", _ID.help), Option(("--confirm",), "delete without asking", kind="flag"),
        Option(("--force",), "even if it is unfinished", kind="flag"),
    ), "history:delete", group=HISTORY, writes=True),
    # ── Conversations ────────────────────────────────────────────────────────────────────────────────────
    Command("conversation", "list or move the conversations of agents", group=CONVERSATIONS, verbs=(
        Command("list", "list the conversations of a session, with model, tokens and cost", (_ID,),
                "conversations:conversation_list"),
        Command("move", "assign a conversation to another session from now on", (
            Argument("conversation", "its native id, a unique prefix of that, or agent:id"),
            Option(("--to",), "the session it belongs to", required=True, metavar="SESSION"),
        ), "conversations:conversation_move", writes=True),
    )),
    # ── Formats ──────────────────────────────────────────────────────────────────────────────────────────
    Command("validate", "check session files against their specifications", (
        Argument("paths", "files and directories; - for standard input", required=False, many=True, kind="path",
                 metavar="PATH"),
        Option(("--format",), "the format they must have (default: detected)", choices=FORMAT_NAMES, metavar="F"),
        Option(("--lenient",), "report only what import could not repair", kind="flag"),
        Option(("--schema",), "print the JSON Schema of a format, or of one kind of its files", metavar="F",
               choices=(*FORMAT_NAMES, "contract-state", "contract-plan", "contract-registry", "contract-history",
                        "craft-index")),
        Option(("--draft",), "the version of JSON Schema to print (default: 2020-12)", metavar="D",
               choices=("7", "2020-12")),
    ), "documents:validate", group=FORMATS),
    Command("convert", "convert a file to another format", (
        Argument("path", "the file or feature directory; - for standard input", kind="path"),
        Option(("--to",), "the format to convert to", choices=FORMAT_NAMES, required=True, metavar="F"),
        Option(("--from",), "the format it has (default: detected)", choices=FORMAT_NAMES, metavar="F", name="from_"),
        _OUT,
        Option(("--carry",), "carry along what the other format cannot express", kind="flag"),
    ), "documents:convert", group=FORMATS),
    Command("import", "turn files of other programs into sessions", (
        Option(("--format",), "the format they have (default: detected)", choices=FORMAT_NAMES, metavar="F"),
        Option(("--salvage",), "import what can be recognised in hand-made files", kind="flag"),
        Argument("paths", "files or directories; - for standard input", kind="path", many=True, metavar="PATH"),
    ), "documents:import_", group=FORMATS, writes=True),
    Command("export", "write the session in one of the four formats", (
        _ID, Option(("--format",), "which", choices=FORMAT_NAMES, required=True, metavar="F"), _OUT,
    ), "documents:export", group=FORMATS),
    Command("recover", "read what is left of damaged session files", (
        Argument("path", "the file, or a directory of them; - for standard input", kind="path"),
        Option(("--start",), "start a session from it", kind="flag"),
    ), "documents:recover", group=FORMATS),
    Command("migrate", "convert documents of older versions to the current one, and keep the old files", (
        Argument("path", "a file, a feature directory, or a project", kind="path"),
        Option(("--back",), "restore the old files", kind="flag"),
    ), "documents:migrate", group=FORMATS),
    Command("mirror", "mirror sessions to live files in the project", group=FORMATS, verbs=(
        Command("on", "start mirroring the project's sessions", (
            _FORMAT,
            Option(("--gitignore",), "also add what must not be committed to .gitignore (timer)", kind="flag"),
        ), "mirrors:mirror_on", writes=True),
        Command("off", "stop mirroring; the files stay", (_FORMAT,), "mirrors:mirror_off", writes=True),
        Command("status", "show what is mirrored, and whether it was changed outside Holdfast", (),
                "mirrors:mirror_status"),
    )),
    Command("cycle", "write the sessions of a cycle and their hours by scope, as Markdown", (
        Option(("-o", "--out"), "the file to write or update (default: standard output)", kind="path",
               metavar="FILE"),
        Option(("--start",), "a day on which a cycle started (default: the Monday before the first session)",
               metavar="DAY"),
        Option(("--weeks",), "the length of a cycle (default: 6)", kind="int"),
    ), "mirrors:cycle", group=FORMATS),
    Command("contract", "acknowledge, verify or summarise the contract of the project's agents", group=FORMATS,
            verbs=(
        _contract("acknowledge", "record that an agent read it and will follow it"),
        _contract("verify", "check that every acknowledgment is of this text"),
        _contract("summary", "print what the contract and its directory contain, as Markdown"),
    )),
    # ── Agents ───────────────────────────────────────────────────────────────────────────────────────────
    Command("connect", "connect agents, so that their sessions are recorded", (
        _PROGRAMS, _SCOPE,
        Option(("--no-mcp",), "without the MCP server", kind="flag"),
    ), "connect:connect", group=AGENTS),
    Command("disconnect", "remove Holdfast from agents' settings", (_PROGRAMS,), "connect:disconnect",
            group=AGENTS),
    Command("agents", "list the agents on this machine, and which are connected", (), "connect:agents", group=AGENTS),
    Command("uninstall", "remove Holdfast from all agents; recorded sessions stay", (), "connect:uninstall",
            group=AGENTS),
    Command("hook", "receive what an agent's hook sends on standard input", (_PROGRAM,),
            "conversations:hook",
            group=AGENTS),
    Command("statusline", "print the status line that an agent shows", (
        Argument("agent", "which agent", choices=with_status_line()),
    ), "conversations:statusline", group=AGENTS),
    Command("backfill", "add past conversations of agents to the history", (
        Argument("agents", "which agents (default: all)", required=False, many=True, choices=AGENT_NAMES,
                 metavar="AGENT"),
        Option(("--since",), "no older than this", kind="date"),
    ), "conversations:backfill", group=AGENTS),
    # ── Devices and people ───────────────────────────────────────────────────────────────────────────────
    Command("device", "manage this device and those it syncs with", group=DEVICES, verbs=(
        Command("show", "show its name, its keys and its vaults", (), "devices:device_show"),
        Command("list", "list the devices of each vault, and requests to join", (), "devices:device_list"),
        Command("rename", "rename this device", (Argument("name", "its new name"),),
                "devices:device_rename", writes=True),
        Command("approve", "approve a device that asks to join", (
            Argument("fingerprint", "its fingerprint: compare all words with those that the device shows"),
            Option(("--admin",), "it may approve and remove devices, too", kind="flag"),
        ), "devices:device_approve", writes=True),
        Command("remove", "remove a device, or decline its request", (
            Argument("name", "its name or fingerprint"),
        ), "devices:device_remove", writes=True),
        Command("admit", "accept what a removed device wrote and nobody has accepted yet", (
            Argument("name", "its name or fingerprint"),
        ), "devices:device_admit", writes=True),
        Command("recovery-code", "make a recovery code, in case all devices are lost", (_REMOTE,),
                "devices:device_recovery_code", writes=True),
    )),
    Command("remote", "manage remotes: the places through which devices sync", group=DEVICES, verbs=(
        Command("add", "create a vault there, or ask to join it", (
            Argument("name", "what to call it here"),
            Argument("url", "folder:PATH, s3://BUCKET/PREFIX, git:URL or claude-desktop:"),
            Option(("--all-projects",), "sync sessions of all projects (the default)", kind="flag"),
            Option(("--this-project",), "sync only sessions of this project", kind="flag"),
            Option(("--vault",), "the words of the vault that you expect there", metavar="WORDS"),
            Option(("--recover",), "join with a recovery code, asked for or read from standard input",
                   kind="flag"),
        ), "remotes:remote_add", writes=True, either=(("--all-projects", "--this-project"),)),
        Command("list", "list remotes, and the status of this device there", (), "remotes:remote_list"),
        Command("confirm", "confirm that the vault is yours: earlier sessions may be sent", (
            Argument("name", "the remote"),
            Argument("words", "the vault's words, as another of your devices shows them", required=False),
        ), "remotes:remote_confirm", writes=True),
        Command("remove", "remove a remote; the data there stays", (Argument("name", "the remote"),),
                "remotes:remote_remove", writes=True),
    )),
    Command("sync", "send and receive what is new", (
        _REMOTE,
        Option(("--put-back",), "send everything again, because the remote lost something", kind="flag"),
    ), "remotes:sync", group=DEVICES, writes=True),
    Command("conflicts", "show where devices changed the same thing independently", (_ID,),
            "remotes:conflicts", group=DEVICES),
    Command("resolve", "choose one value of a conflict", (
        Argument("conflict", "its id, as `holdfast conflicts` shows it"),
        Option(("--take",), "the number of the value", kind="int", required=True),
        _ID,
    ), "remotes:resolve", group=DEVICES, writes=True),
    Command("fork", "continue in a separate session of your own", (_ID,),
            "lifecycle:fork", group=DEVICES, writes=True),
    Command("people", "manage people to share sessions with", group=DEVICES, verbs=(
        Command("add", "add a person, or another key of theirs", (
            Argument("email", "their address"),
            Argument("key", "their public key, in quotes: age1… or ssh-ed25519 AAAA…; or the words of a device whose"
                     " offers you trust"),
        ), "devices:people_add", writes=True),
        Command("list", "list people, with their keys", (), "devices:people_list"),
    )),
    Command("share", "share a session with a person, to read and continue", (
        Argument("id", _ID.help),
        Option(("--with",), "the person", metavar="EMAIL", name="with_", required=True),
        Option(("--read-only",), "they may only read", kind="flag"),
        Option(("--expires",), "when the share ends: 7d, 12h, 30m, 2w, a day or a time", metavar="WHEN"),
        _REMOTE,
    ), "sharing:share", group=DEVICES, writes=True),
    Command("accept", "accept sessions that were shared with you", (
        Argument("url", "where they were shared (default: your remotes)", required=False),
        Argument("offer", "the name of the offer", required=False),
        Option(("--list",), "only list the offers", kind="flag"),
        Option(("--identity",), "the secret key they were shared with: an age identity, an SSH key, or - for stdin",
               kind="path"),
    ), "sharing:accept", group=DEVICES, writes=True),
    Command("revoke", "stop sharing a session", (
        Argument("id", _ID.help),
        Option(("--from",), "the person", metavar="EMAIL", name="from_", required=True),
    ), "sharing:revoke", group=DEVICES, writes=True),
    Command("redact", "show what would leave this device with the next sync", (Argument("id", _ID.help),),
            "sharing:redact",
            group=DEVICES),
    # ── Setup and maintenance ────────────────────────────────────────────────────────────────────────────────
    Command("init", "set up a project", (
        Option(("--connect",), "connect this agent, or `none`", many=True, metavar="AGENT"),
        _SCOPE,
        Option(("--mirror",), "switch this mirror on, or `none`", many=True, metavar="FORMAT",
               choices=(*FORMAT_NAMES, "none")),
        Option(("--backfill",), "whether to add past conversations", choices=("yes", "no")),
    ), "setup:init", group=SETUP),
    Command("tour", "see Holdfast at work, end to end, in a scratch directory", (), "tour:tour", group=SETUP),
    Command("ui", "open the dashboard in the browser", (
        Option(("--port",), "the port (default: a free one)", kind="int"),
        Option(("--no-open",), "only print the address", kind="flag"),
    ), "views:ui", group=SETUP),
    Command("mcp", "run the MCP server on standard input and output", (),
            "conversations:mcp", group=SETUP),
    Command("doctor", "check everything, and repair what is damaged", (
        Option(("--repair",), "rebuild derived data, move damaged data aside", kind="flag"),
    ), "setup:doctor", group=SETUP),
    Command("backup", "back up the whole store to a file", (Argument("file", "the file to write", kind="path"),),
            "store:backup",
            group=SETUP),
    Command("restore", "merge a backup into the store; nothing here is lost", (Argument("file",
            "the backup", kind="path"),),
            "store:restore", group=SETUP, writes=True),
    Command("store", "manage the store, and the team that uses it", group=SETUP, verbs=(
        Command("show", "show which store is in use", (), "store:store_show"),
        Command("init", "create a store, or upgrade it", (
            Argument("url", "postgresql://USER@HOST/DATABASE, or sqlite:///PATH"),
            Option(("--vault",), "the name of the team's vault in the database (default: team)", metavar="NAME"),
            Option(("--admit",), "admit this person: a role of the server", many=True, metavar="PERSON"),
            Option(("--partitions",), "the number of partitions of the log", kind="int"),
        ), "store:store_init", writes=True),
        Command("admit", "admit a person to the vault", (_PERSON,), "store:store_admit", writes=True),
        Command("dismiss", "remove a person from the vault; what they made stays", (
            _PERSON, Option(("--hand-over-to",), "a member who gets their sessions", metavar="PERSON"),
        ), "store:store_dismiss", writes=True),
        Command("share", "share a session with members of the vault, to read and write", (
            Argument("id", _ID.help), _MEMBER, _EVERYONE, Option(("--read-only",), "they may only read", kind="flag"),
        ), "store:store_share", writes=True),
        Command("unshare", "stop sharing a session with members of the vault",
                (Argument("id", _ID.help), _MEMBER, _EVERYONE),
                "store:store_unshare", writes=True),
        Command("copy", "copy one store into another, and verify the copy; can be continued if interrupted", (
            Argument("source", "the URL of the source, or `home` for the home's own store", metavar="FROM"),
            Argument("target", "the URL of the target, or `home`", metavar="TO"),
        ), "store:store_copy", writes=True),
        Command("partition", "change the number of partitions on the server; nobody can write meanwhile", (
            Argument("parts", "the number of partitions", kind="int", metavar="N"),
        ), "store:store_partition", writes=True),
    )),
    Command("config", "read and change settings", group=SETUP, verbs=(
        Command("get", "print one setting", (Argument("name", "its name"),), "setup:config_get"),
        Command("set", "change one setting", (Argument("name", "its name"), Argument("value", "its value")),
                "setup:config_set", writes=True),
        Command("unset", "reset one setting to its default", (Argument("name", "its name"),),
                "setup:config_unset", writes=True),
        Command("list", "list all settings", (), "setup:config_list"),
    )),
    Command("completion", "print the completion script for your shell", (
        Argument("shell", "which", choices=("bash", "zsh", "fish")),
    ), "completion:completion", group=SETUP),
)  # fmt: skip
