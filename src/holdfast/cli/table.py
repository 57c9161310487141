"""The commands: every word, option and verb of the public contract, and which function runs it."""

from __future__ import annotations

from holdfast.cli.declaration import Argument, Command, Option

SESSIONS, WORK, LOOKING, FORMATS, AGENTS = "Sessions", "Work", "Looking", "Formats", "Agents"
CONVERSATIONS, DEVICES, KEEPING = "Conversations", "Devices and people", "Keeping"
MODES = ("debug", "default", "optimize", "release")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
FORMAT_NAMES = ("orchestrator", "timer", "contract", "craft")
AGENT_NAMES = ("claude", "codex", "gemini", "opencode", "copilot", "cursor", "goose", "cline")
STATUSES = ("created", "in_progress", "paused", "completed", "error", "aborted")


_ID = Argument("id", "a session: UUID, unique prefix, alias, or @ for the current one", required=False)
_AGENT = Argument("id", "the agent's id")
_TASK = Argument("id", "the task's id")
_OUTCOME = Option(("--outcome",), "what came of it")
_FORMAT = Argument("format", "which of the four formats", choices=FORMAT_NAMES)
_OUT = Option(("-o", "--out"), "where to write it (default: standard output)", kind="path", metavar="OUT")
_PROGRAM = Argument("agent", "which agent", choices=AGENT_NAMES)
_PROGRAMS = Argument(
    "agents", "which agents", many=True, choices=(*AGENT_NAMES, "claude-desktop", "git"), metavar="AGENT"
)
_SCOPE = Option(("--scope",), "for everything you do, or for this project alone", choices=("user", "project"))
_REMOTE = Option(("--remote",), "only this one", metavar="NAME")
_PERSON = Argument("person", "their role on the server")
_MEMBER = Argument("person", "one member: their role on the server", required=False)
_EVERYONE = Option(("--everyone",), "every member of the vault", kind="flag")
_ARTIFACT = Option(("--artifact",), "a file it made", many=True, name="artifacts", metavar="F")


def _agent(name: str, summary: str, *params: Argument | Option) -> Command:
    return Command(name, summary, (_AGENT, *params), f"work:agent_{name}", writes=True)


def _task(name: str, summary: str) -> Command:
    return Command(name, summary, (_TASK, _OUTCOME, _ARTIFACT), f"work:task_{name}", writes=True)


def _contract(name: str, summary: str) -> Command:
    spec = Option(("--spec",), "the text of the contract", kind="path", required=True)
    agent = Option(("--agent",), "which agent", metavar="NAME")
    return Command(name, summary, (spec, agent), f"mirrors:contract_{name}")


COMMANDS: tuple[Command, ...] = (
    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────────────
    Command("start", "begin a session and make it current", (
        Argument("goal", "what is to be achieved"),
        Option(("--scope",), "the part of the project it belongs to"),
        Option(("--task",), "the task in two to four words"),
        Option(("--mode",), "how agents work", choices=MODES),
        Option(("--feature",), "the feature's slug", metavar="SLUG"),
        Option(("--branch",), "work on a git branch of its own", kind="flag"),
        Option(("--tag",), "a tag", many=True, name="tags", metavar="T"),
        Option(("--model",), "the model in use"),
        Option(("--replace",), "put the current session away first", kind="flag"),
        Option(("--continues",), "the session this one goes on from", metavar="ID"),
    ), "lifecycle:start", group=SESSIONS, writes=True),
    Command("status", "where things stand", (_ID,), "views:status", group=SESSIONS),
    Command("pause", "stop the clock", (Argument("reason", "why", required=False),), "lifecycle:pause",
            group=SESSIONS, writes=True),
    Command("resume", "go on with a session, here", (
        _ID,
        Option(("--device",), "go on from this device's state", metavar="NAME"),
        Option(("--no-sync",), "do not ask remotes first", kind="flag"),
        Option(("--force",), "go on even if this place differs", kind="flag"),
    ), "lifecycle:resume", group=SESSIONS, writes=True),
    Command("continue", "go on with the latest unfinished session", (), "lifecycle:continue_",
            group=SESSIONS, writes=True),
    Command("save", "mark that everything is saved", (), "lifecycle:save", group=SESSIONS, writes=True),
    Command("stop", "complete the session", (
        Option(("--keep",), "merge its branch as one commit", kind="flag"),
        Option(("--discard",), "delete its branch", kind="flag"),
        Option(("--reason",), "why it was discarded"),
    ), "lifecycle:stop", group=SESSIONS, writes=True, either=(("--keep", "--discard"),)),
    Command("abort", "give the session up", (Argument("reason", "why", required=False),), "lifecycle:abort",
            group=SESSIONS, writes=True),
    Command("fail", "say that the session cannot go on", (Argument("message", "what went wrong"),), "lifecycle:fail",
            group=SESSIONS, writes=True),
    Command("edit", "change facts about the session", (
        Option(("--goal",), "what is to be achieved"),
        Option(("--mode",), "how agents work", choices=MODES),
        Option(("--progress",), "how far it is, 0 to 1", kind="float"),
        Option(("--scope",), "the part of the project it belongs to"),
        Option(("--summary",), "one line on what was done"),
        Option(("--tag",), "add a tag", many=True, name="tags", metavar="T"),
    ), "lifecycle:edit", group=SESSIONS, writes=True),
    Command("note", "write something down", (Argument("text", "the note"),), "work:note",
            group=SESSIONS, writes=True),
    Command("message", "a sign of activity", (
        Option(("--role",), "who spoke", choices=("user", "assistant")),
    ), "work:message", group=SESSIONS, writes=True),
    Command("away", "a pause nobody recorded at the time", (
        Option(("--from",), "when it began", kind="time", name="since", required=True),
        Option(("--to",), "when it ended", kind="time", name="until", required=True),
        Option(("--session",), "which session, finished ones too", metavar="ID"),
        Argument("reason", "why", required=False),
    ), "lifecycle:away", group=SESSIONS, writes=True),
    Command("worked", "work that was counted as a pause", (
        Option(("--from",), "when it began", kind="time", name="since", required=True),
        Option(("--to",), "when it ended", kind="time", name="until", required=True),
        Option(("--session",), "which session, finished ones too", metavar="ID"),
        Argument("reason", "why", required=False),
    ), "lifecycle:worked", group=SESSIONS, writes=True),
    Command("briefing", "the text that lets someone go on", (
        _ID,
        Option(("--for",), "who reads it", choices=("person", "agent"), name="reader"),
        Option(("--max-chars",), "at most this long", kind="int"),
    ), "lifecycle:briefing", group=SESSIONS),
    # ── Work ─────────────────────────────────────────────────────────────────────────────────────────────
    Command("agent", "the agents at work", group=WORK, verbs=(
        _agent("add", "an agent that is to begin later",
               Option(("--type",), "what kind of agent", required=True),
               Option(("--task",), "what it does"),
               Option(("--blocking-on",), "the agent it waits for", metavar="A")),
        _agent("start", "an agent begins",
               Option(("--type",), "what kind of agent", required=True),
               Option(("--task",), "what it does"),
               Option(("--blocking-on",), "the agent it waits for", metavar="A"),
               Option(("--pid",), "its process", kind="int"),
               Option(("--background",), "it does not hold the person up", kind="flag")),
        _agent("progress", "how far it is", Argument("fraction", "0 to 1", kind="float")),
        _agent("done", "it finished",
               Option(("--summary",), "what it did"), Option(("--tokens",), "tokens used", kind="int")),
        _agent("fail", "it failed",
               Option(("--category",), "what kind of failure", choices=CATEGORIES, required=True),
               Option(("--message",), "what went wrong", required=True)),
        _agent("retry", "it is tried again", Option(("--pid",), "its new process", kind="int")),
        _agent("pause", "it pauses"),
        _agent("resume", "it goes on", Option(("--pid",), "its new process", kind="int")),
        _agent("abort", "it is given up"),
        Command("list", "all agents", (), "work:agent_list"),
    )),
    Command("task", "the tasks of the plan", group=WORK, verbs=(
        Command("add", "add a task", (
            Argument("text", "what is to be done"),
            Option(("--id",), "its id, if you want to choose"),
            Option(("--phase",), "the phase it belongs to"),
            Option(("--agent",), "who does it"),
        ), "work:task_add", writes=True),
        _task("start", "work on it begins"),
        _task("done", "it is done"),
        _task("block", "it cannot go on"),
        _task("reopen", "it is to be done after all"),
        _task("drop", "it will not be done"),
        Command("list", "all tasks", (), "work:task_list"),
    )),
    Command("plan", "the plan: phases and tasks", group=WORK, verbs=(
        Command("import", "add the tasks of a plan file (YAML, JSON or a Markdown checklist)",
                (Argument("file", "the plan", kind="path"),), "work:plan_import", writes=True),
        Command("show", "the plan by phase", (), "work:plan_show"),
    )),
    Command("decide", "record a decision", (
        Argument("chosen", "what was chosen"),
        Option(("--context",), "what it was about"),
        Option(("--option",), "something that could have been chosen", many=True, name="options", metavar="O"),
        Option(("--why",), "the reason"),
    ), "work:decide", group=WORK, writes=True),
    Command("file", "record a change to a file", (
        Argument("path", "the file", kind="path"),
        Option(("--action",), "what happened to it", choices=("created", "modified", "deleted"), required=True),
        Option(("--agent",), "who did it"),
    ), "work:file", group=WORK, writes=True),
    Command("context", "record how full the context is", (
        Option(("--tokens",), "tokens in use", kind="int", required=True),
        Option(("--window",), "size of the window", kind="int"),
        Option(("--agent",), "of this agent alone"),
    ), "work:context", group=WORK, writes=True),
    Command("compress", "record that the context was compressed", (
        Option(("--to",), "tokens left", kind="int"),
    ), "work:compress", group=WORK, writes=True),
    Command("hill", "move a scope on its hill", (
        Argument("scope", "the scope"), Argument("position", "0 not started, 5 the crest, 10 done", kind="int"),
    ), "work:hill", group=WORK, writes=True),
    Command("run", "run a command as an agent of the session", (
        Option(("--agent",), "the agent's id"),
        Option(("--type",), "what kind of agent"),
        Option(("--task",), "what it does"),
        Option(("--timeout",), "interrupt it after this many seconds", kind="float", metavar="S"),
        Option(("--retries",), "try again this often after a transient failure", kind="int"),
        Option(("--category",), "the category of an exit code", many=True, metavar="CODE=KIND", name="categories"),
    ), "run:run", rest=True, group=WORK, writes=True),
    # ── Looking ──────────────────────────────────────────────────────────────────────────────────────────
    Command("history", "past and present sessions", (
        Option(("--limit",), "how many", kind="int"),
        Option(("--search",), "words to look for", metavar="TEXT"),
        Option(("--status",), "only of this status", choices=STATUSES),
        Option(("--since",), "not older than this", kind="date"),
        Option(("--all-projects",), "of every project", kind="flag"),
    ), "history:history", group=LOOKING),
    Command("show", "everything about a session", (_ID,), "views:show", group=LOOKING),
    Command("log", "the events, oldest first", (
        _ID, Option(("--type",), "only of this type"), Option(("--limit",), "only the last N", kind="int"),
    ), "history:log", group=LOOKING),
    Command("timeline", "agents and pauses over time", (_ID,), "views:timeline", group=LOOKING),
    Command("budget", "context used, by agent", (_ID,), "views:budget", group=LOOKING),
    Command("report", "the session as a document", (
        _ID, Option(("--format",), "md or html", choices=("md", "html")),
    ), "history:report", group=LOOKING),
    Command("stats", "hours worked", (
        Option(("--by",), "what to add up by", choices=("scope", "day", "project", "agent")),
        Option(("--csv",), "as comma-separated values", kind="flag"),
    ), "history:stats", group=LOOKING),
    Command("why", "which session and conversation made a commit, a file or a line", (
        Argument("what", "a commit, or a file, perhaps with :LINE", metavar="COMMIT | FILE[:LINE]"),
    ), "history:why", group=LOOKING),
    Command("watch", "the sessions, live in the terminal", (_ID,), "views:watch", group=LOOKING),
    Command("project", "projects, and one that was moved", group=LOOKING, verbs=(
        Command("list", "every project that there are sessions of", (), "history:project_list"),
        Command("reconnect", "this project was moved here, or renamed", (
            Argument("old_path", "where it was"),
        ), "history:project_reconnect", writes=True),
    )),
    Command("archive", "put a session away", (Argument("id", _ID.help),),
            "history:archive", group=LOOKING, writes=True),
    Command("unarchive", "take it out again", (Argument("id", _ID.help),), "history:unarchive",
            group=LOOKING, writes=True),
    Command("delete", "erase a session for good", (
        Argument("id", _ID.help), Option(("--confirm",), "really", kind="flag"),
        Option(("--force",), "even if it is unfinished", kind="flag"),
    ), "history:delete", group=LOOKING, writes=True),
    # ── Conversations ────────────────────────────────────────────────────────────────────────────────────
    Command("conversation", "the conversations of agents", group=CONVERSATIONS, verbs=(
        Command("list", "those of a session, with model, tokens and cost", (_ID,), "conversations:conversation_list"),
        Command("move", "let a conversation belong to another session from now on", (
            Argument("conversation", "its native id, a unique prefix of that, or agent:id"),
            Option(("--to",), "the session it belongs to", required=True, metavar="SESSION"),
        ), "conversations:conversation_move", writes=True),
    )),
    # ── Formats ──────────────────────────────────────────────────────────────────────────────────────────
    Command("validate", "check session files against their specifications", (
        Argument("paths", "files and directories; - for standard input", required=False, many=True, kind="path",
                 metavar="PATH"),
        Option(("--format",), "the format they must have (default: found out)", choices=FORMAT_NAMES, metavar="F"),
        Option(("--lenient",), "tell only what import could not cope with", kind="flag"),
        Option(("--schema",), "print the JSON Schema of a format, or of one kind of its files", metavar="F",
               choices=(*FORMAT_NAMES, "contract-state", "contract-plan", "contract-registry", "contract-history",
                        "craft-index")),
        Option(("--draft",), "the version of JSON Schema it is printed in (default: 2020-12)", metavar="D",
               choices=("7", "2020-12")),
    ), "documents:validate", group=FORMATS),
    Command("convert", "a file in another format", (
        Argument("path", "the file or feature directory; - for standard input", kind="path"),
        Option(("--to",), "the format to convert to", choices=FORMAT_NAMES, required=True, metavar="F"),
        Option(("--from",), "the format it has (else found out)", choices=FORMAT_NAMES, metavar="F", name="from_"),
        _OUT,
        Option(("--carry",), "let what the other format cannot say ride along", kind="flag"),
    ), "documents:convert", group=FORMATS),
    Command("import", "files of other programs become sessions", (
        Option(("--format",), "the format they have (default: found out)", choices=FORMAT_NAMES, metavar="F"),
        Option(("--salvage",), "take what can be recognised in hand-made files", kind="flag"),
        Argument("paths", "files or directories; - for standard input", kind="path", many=True, metavar="PATH"),
    ), "documents:import_", group=FORMATS, writes=True),
    Command("export", "the session in one of the four formats", (
        _ID, Option(("--format",), "which", choices=FORMAT_NAMES, required=True, metavar="F"), _OUT,
    ), "documents:export", group=FORMATS),
    Command("recover", "what can still be read of damaged session files", (
        Argument("path", "the file, or a directory of them; - for standard input", kind="path"),
        Option(("--start",), "make a session of it", kind="flag"),
    ), "documents:recover", group=FORMATS),
    Command("migrate", "documents of older versions, written anew beside them", (
        Argument("path", "a file, a feature directory, or a project", kind="path"),
        Option(("--back",), "bring back what was there before", kind="flag"),
    ), "documents:migrate", group=FORMATS),
    Command("mirror", "live files in the project", group=FORMATS, verbs=(
        Command("on", "begin to mirror the project's sessions", (
            _FORMAT,
            Option(("--gitignore",), "add what must not be committed to .gitignore too (timer)", kind="flag"),
        ), "mirrors:mirror_on", writes=True),
        Command("off", "stop; the files stay", (_FORMAT,), "mirrors:mirror_off", writes=True),
        Command("status", "what is mirrored, and whether someone else changed it", (), "mirrors:mirror_status"),
    )),
    Command("cycle", "the sessions of a cycle and their hours by scope, as Markdown", (
        Option(("-o", "--out"), "the file to write or to update (default: standard output)", kind="path",
               metavar="FILE"),
        Option(("--start",), "a day on which a cycle began (default: the Monday before the first session)",
               metavar="DAY"),
        Option(("--weeks",), "how long a cycle is (default: 6)", kind="int"),
    ), "mirrors:cycle", group=FORMATS),
    Command("contract", "the binding contract of the project's agents", group=FORMATS, verbs=(
        _contract("acknowledge", "an agent has read it and keeps to it"),
        _contract("verify", "whether every acknowledgment is of this text"),
        _contract("summary", "what the contract and its directory hold, as Markdown"),
    )),
    # ── Agents ───────────────────────────────────────────────────────────────────────────────────────────
    Command("connect", "let agents' sessions record themselves", (
        _PROGRAMS, _SCOPE,
        Option(("--no-mcp",), "without the MCP server", kind="flag"),
    ), "connect:connect", group=AGENTS),
    Command("disconnect", "take Holdfast out of agents' settings again", (_PROGRAMS,), "connect:disconnect",
            group=AGENTS),
    Command("agents", "which agents were found, which are connected", (), "connect:agents", group=AGENTS),
    Command("uninstall", "take every trace out of all agents; what was recorded stays", (), "connect:uninstall",
            group=AGENTS),
    Command("hook", "what an agent's hook calls, with its payload on standard input", (_PROGRAM,),
            "conversations:hook",
            group=AGENTS),
    Command("statusline", "the line an agent shows about the session", (
        Argument("agent", "which agent", choices=("claude",)),
    ), "conversations:statusline", group=AGENTS),
    Command("backfill", "past conversations of agents become history", (
        Argument("agents", "which agents (default: all)", required=False, many=True, choices=AGENT_NAMES,
                 metavar="AGENT"),
        Option(("--since",), "not older than this", kind="date"),
    ), "conversations:backfill", group=AGENTS),
    # ── Devices and people ───────────────────────────────────────────────────────────────────────────────
    Command("device", "this device, and those it belongs with", group=DEVICES, verbs=(
        Command("show", "its name, its keys, and the vaults it has met", (), "devices:device_show"),
        Command("list", "the devices of each vault, and who asks to join", (), "devices:device_list"),
        Command("rename", "call this device something else", (Argument("name", "what to call it"),),
                "devices:device_rename", writes=True),
        Command("approve", "let a device in", (
            Argument("fingerprint", "its words, as it shows them itself: compare all of them"),
            Option(("--admin",), "it may let others in and take them out, too", kind="flag"),
        ), "devices:device_approve", writes=True),
        Command("remove", "take a device out, or decline its request", (
            Argument("name", "its name or fingerprint"),
        ), "devices:device_remove", writes=True),
        Command("admit", "take in what a removed device wrote and nobody has accepted", (
            Argument("name", "its name or fingerprint"),
        ), "devices:device_admit", writes=True),
        Command("recovery-code", "a code on paper that lets a device in when all others are gone", (_REMOTE,),
                "devices:device_recovery_code", writes=True),
    )),
    Command("remote", "the places that sessions travel by", group=DEVICES, verbs=(
        Command("add", "found the vault there, or ask to join it", (
            Argument("name", "what to call it here"),
            Argument("url", "folder:PATH, s3://BUCKET/PREFIX, git:URL or claude-desktop:"),
            Option(("--all-projects",), "sessions of every project (the default)", kind="flag"),
            Option(("--this-project",), "only sessions of this project", kind="flag"),
            Option(("--vault",), "the words of the vault you expect there", metavar="WORDS"),
            Option(("--recover",), "let this device in with a recovery code, asked for or on standard input",
                   kind="flag"),
        ), "remotes:remote_add", writes=True, either=(("--all-projects", "--this-project"),)),
        Command("list", "all remotes, and how this device stands there", (), "remotes:remote_list"),
        Command("confirm", "the vault there is yours: earlier sessions may be sent", (
            Argument("name", "the remote"),
            Argument("words", "the vault's words, as another of your devices shows them", required=False),
        ), "remotes:remote_confirm", writes=True),
        Command("remove", "forget a remote; what lies there stays", (Argument("name", "the remote"),),
                "remotes:remote_remove", writes=True),
    )),
    Command("sync", "send and receive what is new", (
        _REMOTE,
        Option(("--put-back",), "the remote lost something: send again all that is here", kind="flag"),
    ), "remotes:sync", group=DEVICES, writes=True),
    Command("conflicts", "what devices said without knowing of each other", (_ID,),
            "remotes:conflicts", group=DEVICES),
    Command("resolve", "let one value of a conflict stand", (
        Argument("conflict", "its id, as conflicts shows it"),
        Option(("--take",), "the number of the value", kind="int", required=True),
        _ID,
    ), "remotes:resolve", group=DEVICES, writes=True),
    Command("fork", "go on separately, with a session of your own", (_ID,),
            "lifecycle:fork", group=DEVICES, writes=True),
    Command("people", "whom sessions can be shared with", group=DEVICES, verbs=(
        Command("add", "a person, or one more key of theirs", (
            Argument("email", "their address"),
            Argument("key", "their public key, in quotes: age1… or ssh-ed25519 AAAA…; or the words of a device whose"
                     " offers you trust"),
        ), "devices:people_add", writes=True),
        Command("list", "all people, with their keys", (), "devices:people_list"),
    )),
    Command("share", "let a person read a session, and go on with it", (
        Argument("id", _ID.help),
        Option(("--with",), "whom", metavar="EMAIL", name="with_", required=True),
        Option(("--read-only",), "they may not write", kind="flag"),
        Option(("--expires",), "until when: 7d, 12h, 30m, 2w, a day or a time", metavar="WHEN"),
        _REMOTE,
    ), "sharing:share", group=DEVICES, writes=True),
    Command("accept", "take part in sessions that were shared with you", (
        Argument("url", "where they were shared (default: the remotes you have)", required=False),
        Argument("offer", "the offer to take, by its name", required=False),
        Option(("--list",), "only show who offers what", kind="flag"),
        Option(("--identity",), "the secret key they were shared with: an age identity, an SSH key, or - for stdin",
               kind="path"),
    ), "sharing:accept", group=DEVICES, writes=True),
    Command("revoke", "take a shared session back", (
        Argument("id", _ID.help),
        Option(("--from",), "from whom", metavar="EMAIL", name="from_", required=True),
    ), "sharing:revoke", group=DEVICES, writes=True),
    Command("redact", "what would leave this device, before it does", (Argument("id", _ID.help),), "sharing:redact",
            group=DEVICES),
    # ── Keeping ──────────────────────────────────────────────────────────────────────────────────────────
    Command("init", "set up a project in a minute", (
        Option(("--connect",), "connect this agent, or none", many=True, metavar="AGENT"),
        _SCOPE,
        Option(("--mirror",), "switch this mirror on, or none", many=True, metavar="FORMAT",
               choices=(*FORMAT_NAMES, "none")),
        Option(("--backfill",), "whether to take in past conversations", choices=("yes", "no")),
    ), "setup:init", group=KEEPING),
    Command("tour", "the main job, end to end, in a scratch directory", (), "tour:tour", group=KEEPING),
    Command("ui", "the sessions, live in the browser", (
        Option(("--port",), "which port (default: one that is free)", kind="int"),
        Option(("--no-open",), "only print the address", kind="flag"),
    ), "views:ui", group=KEEPING),
    Command("mcp", "serve agents that speak MCP, on standard input and output", (),
            "conversations:mcp", group=KEEPING),
    Command("doctor", "check everything, and repair it", (
        Option(("--repair",), "rebuild what is derived, set damage aside", kind="flag"),
    ), "setup:doctor", group=KEEPING),
    Command("backup", "copy the whole store into a file", (Argument("file", "where to", kind="path"),),
            "store:backup",
            group=KEEPING),
    Command("restore", "take in a backup; nothing here is lost", (Argument("file", "the backup", kind="path"),),
            "store:restore", group=KEEPING, writes=True),
    Command("store", "where sessions are kept, and the team that keeps them there", group=KEEPING, verbs=(
        Command("show", "what and where the store in use is", (), "store:store_show"),
        Command("init", "make a store, or bring it up to date", (
            Argument("url", "postgresql://USER@HOST/DATABASE, or sqlite:///PATH"),
            Option(("--vault",), "the team within the database (default: team)", metavar="NAME"),
            Option(("--admit",), "let this person in: a role of the server", many=True, metavar="PERSON"),
            Option(("--partitions",), "into how many parts the log is divided", kind="int"),
        ), "store:store_init", writes=True),
        Command("admit", "let a person into the vault", (_PERSON,), "store:store_admit", writes=True),
        Command("dismiss", "take a person out of the vault; what they made stays", (
            _PERSON, Option(("--hand-over-to",), "a member who gets their sessions", metavar="PERSON"),
        ), "store:store_dismiss", writes=True),
        Command("share", "let members of the vault read a session, and write to it", (
            Argument("id", _ID.help), _MEMBER, _EVERYONE, Option(("--read-only",), "they may not write", kind="flag"),
        ), "store:store_share", writes=True),
        Command("unshare", "take that back", (Argument("id", _ID.help), _MEMBER, _EVERYONE),
                "store:store_unshare", writes=True),
        Command("copy", "everything of one store into another, verified; goes on where it was cut off", (
            Argument("source", "its URL, or home for the home's own store", metavar="FROM"),
            Argument("target", "the same", metavar="TO"),
        ), "store:store_copy", writes=True),
        Command("partition", "divide the log on the server anew; nobody can write meanwhile", (
            Argument("parts", "into how many parts", kind="int", metavar="N"),
        ), "store:store_partition", writes=True),
    )),
    Command("config", "settings", group=KEEPING, verbs=(
        Command("get", "one setting", (Argument("name", "its name"),), "setup:config_get"),
        Command("set", "change one", (Argument("name", "its name"), Argument("value", "its value")),
                "setup:config_set", writes=True),
        Command("unset", "back to the default", (Argument("name", "its name"),), "setup:config_unset", writes=True),
        Command("list", "all settings", (), "setup:config_list"),
    )),
    Command("completion", "completion for your shell", (
        Argument("shell", "which", choices=("bash", "zsh", "fish")),
    ), "setup:completion", group=KEEPING),
)  # fmt: skip
