"""One long story: some days of two people, three computers and nine agents, played with the installed program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.table import AGENT_NAMES, COMMANDS, FORMAT_NAMES
from tests.golden.stage import ROOT

if TYPE_CHECKING:
    from tests.golden.stage import Stage

PAYLOADS = Path(__file__).parents[1] / "conversations" / "payloads"
FOLDER = f"folder:{ROOT}/folder"
LEAVES = [
    f"{command.name} {verb.name}" if verb else command.name
    for command in COMMANDS
    for verb in command.verbs or (None,)
]
SHOWN_IN_BOTH = (
    "status", "show @", "log", "timeline", "budget", "history", "stats", "briefing", "agent list", "task list",
    "plan show", "conflicts", "report", "project list", "mirror status", "conversation list", "why cart.py", "cycle",
    "redact @", "watch", "config list", "config get history.limit", "agents", "device show", "device list",
    "remote list", "people list", "store show", "completion bash", "doctor",
)  # fmt: skip
NOT_OF_AGENTS = r"/(wild|other|bread)/|/kept/(?!hooks/)|/shop/(?!\.git/hooks/)|\.sample$"
SCHEMAS = (*FORMAT_NAMES, "contract-state", "contract-plan", "contract-registry", "contract-history", "craft-index")
TRANSCRIPT = "".join(
    json.dumps({
        "type": role, "uuid": f"u{number}", "timestamp": f"2027-02-0{number}T10:00:00Z", "sessionId": "talk",
        "cwd": f"{ROOT}/ada/shop", "message": {"role": role, "id": f"m{number}", "content": "Add a login page"},
    }) + "\n"
    for number, role in enumerate(("user", "assistant", "user", "assistant"), 1)
)  # fmt: skip

TOOL_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("start_session", {"goal": "Asked for by an agent", "replace": True}),
    ("start_session", {"goal": "Once more"}),
    ("record", {"notes": ["A note"], "tasks": [{"event": "added", "text": "A task"}], "progress": 0.5}),
    (
        "record",
        {"agents": [{"id": "helper", "event": "started", "type": "coder"}], "decisions": [{"chosen": "this"}]},
    ),
    ("record", {"files": [{"path": "cart.py", "action": "modified"}], "context": [{"tokens": 5000}]}),
    ("record", {"agents": [{"id": "nobody", "event": "completed"}]}),
    ("record", {"progress": 7}),
    ("get_status", {}),
    ("get_status", {"session": "abcd"}),
    ("search_history", {"query": "invoices"}),
    ("search_history", {"since": "soon"}),
    ("pause_session", {"reason": "Tea"}),
    ("pause_session", {}),
    ("resume_session", {}),
    ("resume_session", {"session": "abcd"}),
    ("share_session", {"email": "bob@example.org"}),
    ("share_session", {"email": "nobody@example.org"}),
    ("sync", {}),
    ("sync", {"remote": "nowhere"}),
    ("finish_session", {"outcome": "completed", "summary": "Done"}),
    ("finish_session", {"outcome": "completed"}),
    ("nothing", {}),
)


def play(stage: Stage) -> None:
    for chapter in (
        begin, helps, mistakes, work, look, correct, formats, damaged_files, connect, hooks, travel, mcp, dashboard,
        keep, homes,
    ):  # fmt: skip
        stage.chapter(chapter.__name__)
        chapter(stage)


def begin(stage: Stage) -> None:
    stage.play("""
        08:50 holdfast --version
        holdfast
        holdfast help
        holdfast status
        holdfast status --json
        holdfast nonsense
        holdfast start
        holdfast start "" --json
        holdfast show abcd --json
        holdfast device rename laptop
        holdfast device rename laptop --json
        git init -q -b main . && printf 'total = 1\\n' > cart.py && git add . && git commit -qm Begin
        git remote add origin https://example.org/shop.git
        08:55 holdfast init --yes
        holdfast init --connect none --mirror none --backfill no --json
        holdfast config set sync.background false
        holdfast config set timer.idle_minutes 5 --json
        holdfast config get timer.idle_minutes
        holdfast config unset timer.idle_minutes
        holdfast config unset timer.idle_minutes --json
        holdfast config set timer.idle_minutes soon
        holdfast config get nothing --json
        holdfast tour
        holdfast tour --json
    """)


def helps(stage: Stage) -> None:
    for name in sorted({*LEAVES, *(command.name for command in COMMANDS)}):
        stage.run(f"holdfast {name} --help")


def mistakes(stage: Stage) -> None:
    for name in LEAVES:
        stage.run(f"holdfast {name} --nonsense")
        stage.run(f"holdfast {name} --nonsense --json")


def work(stage: Stage) -> None:
    plan = "# Plan\n\n- [x] Ask the client\n- [ ] Print one page\n  - [ ] Choose the paper\n"
    (stage.place() / "plan.md").write_text(plan)
    stage.play("""
        09:00 holdfast pause
        holdfast note "Too early" --json
        holdfast start "Invoices as PDF" --scope billing --task pdf-invoices --tag client-a --mode debug
        holdfast start "Another"
        09:02 holdfast plan show
        holdfast plan import plan.md
        holdfast plan import plan.md --json
        holdfast plan import nothing.md
        holdfast task add "Choose a library" --id choose --phase design
        holdfast task add "Write the template" --id template --json
        holdfast task start choose
        holdfast task start nothing
        09:05 holdfast decide weasyprint --context "Which library?" --option weasyprint --option reportlab --why "CSS"
        holdfast decide A4 --json
        holdfast task done choose --outcome "weasyprint it is"
        09:08 holdfast agent add later --type reviewer --blocking-on nobody
        holdfast agent start builder --type coder --task "Write the template"
        holdfast agent start builder --type coder
        holdfast agent add later --type reviewer --blocking-on builder
        holdfast agent progress builder 0.5
        holdfast agent progress builder 5
        09:11 printf 'total = 2\\n' > cart.py
        holdfast file cart.py --action modified --agent builder
        holdfast file cart.py --action modified --json
        holdfast file ../../elsewhere --action modified
        holdfast agent done builder --summary "Template written" --tokens 1200
        holdfast agent start check --type tester --json
        09:12 holdfast agent fail check --category transient --message "Network is down"
        holdfast agent retry check
        holdfast agent pause check
        holdfast agent resume check
        holdfast agent abort check
        holdfast agent done nobody
        holdfast agent add proof --type tester --json
        holdfast agent start proof --type tester
        holdfast agent progress proof 0.1 --json
        holdfast agent pause proof --json
        holdfast agent resume proof --json
        holdfast agent fail proof --category logical --message "Wrong sum" --json
        holdfast agent retry proof --json
        holdfast agent done proof --json
        holdfast agent start spare --type tester
        holdfast agent abort spare --json
        holdfast agent pause spare
        09:14 holdfast context --tokens 90000
        holdfast context --tokens 120000 --window 200000 --agent builder --json
        holdfast context --tokens -1
        holdfast compress --to 20000
        holdfast compress --json
        holdfast hill billing 3
        holdfast hill billing 4 --json
        holdfast hill billing 40
        holdfast note "The client wants A5"
        holdfast note "Call 555" --json
        holdfast note "The key is AKIAIOSFODNN7EXAMPLE"
        holdfast message
        holdfast message --role user --json
        09:16 holdfast run --agent suite --type tests -- sh -c 'echo fine'
        holdfast run --agent suite2 --type tests -- sh -c 'echo no >&2; exit 3'
        holdfast run --agent suite3 --category 7=transient --retries 1 --json -- sh -c 'exit 7'
        holdfast run --agent suite4 --json -- sh -c 'echo fine'
        holdfast run
        09:20 holdfast pause Lunch
        holdfast pause
        holdfast status
        10:05 holdfast resume
        holdfast pause --json
        holdfast resume --json
        holdfast resume abcd
        holdfast edit --progress 0.4 --summary "Half way" --tag client-a --tag urgent
        holdfast edit --mode release --json
        holdfast edit
        holdfast save
        holdfast save --json
        10:08 git commit -qam "Double the total"
        holdfast fail "The printer is on fire"
        holdfast resume
        holdfast fail "Again" --json
        holdfast continue
        holdfast continue --json
        10:10 holdfast task block template
        holdfast task reopen template
        holdfast task drop template
        holdfast task add "Send it" --id send
        holdfast task start send --json
        holdfast task block send --json
        holdfast task reopen send --json
        holdfast task done send --json
        holdfast task reopen send
        holdfast task drop send --json
    """)


def look(stage: Stage) -> None:
    stage.time = "10:12"
    for words in SHOWN_IN_BOTH:
        stage.run(f"holdfast {words}")
        stage.run(f"holdfast {words} --json")
    stage.play("""
        holdfast report --format html
        holdfast report --format pdf
        holdfast report --format html --json
        holdfast briefing --for person
        holdfast briefing --max-chars 600
        holdfast briefing abcd
        holdfast history --search invoices
        holdfast history --status paused --json
        holdfast history --since yesterday
        holdfast stats --by day --csv
        holdfast stats --by agent --json
        holdfast why HEAD
        holdfast why cart.py:1 --json
        holdfast why nothing.py
        holdfast status --at 09:10
        holdfast status --at soon
        holdfast status --project /nowhere --json
        holdfast log --type session.paused
        holdfast log --limit 2 --json
        holdfast timeline abcd --json
        holdfast completion zsh
        holdfast completion fish
        holdfast completion tcsh --json
    """)


def correct(stage: Stage) -> None:
    stage.play("""
        10:30 holdfast away --from 10:12 --to 10:20 "Telephone"
        holdfast away --from 10:21 --to 10:22 --json
        holdfast worked --from 09:30 --to 09:45 "Read the standard"
        holdfast worked --from 09:50 --to 09:55 --json
        holdfast worked --from 07:00 --to 07:10
        holdfast away --from 10:20 --to 10:10 --json
        holdfast show @
        holdfast stop --json
        holdfast stop
        holdfast resume @
        10:40 holdfast start "Second thoughts" --branch
        printf 'total = 3\\n' > cart.py && git commit -qam "Triple the total"
        holdfast stop --keep
        rm plan.md
        holdfast stop --keep
        holdfast start "Third thoughts" --branch --json
        printf 'total = 4\\n' > cart.py && git commit -qam "Fourfold"
        holdfast stop --discard --reason "Too expensive" --json
        holdfast stop --keep --discard
        10:43 holdfast start "Nothing comes of it"
        holdfast abort "No reason"
        holdfast abort
        holdfast start "Nothing comes of this either"
        holdfast abort --json
        10:45 holdfast start "To be deleted"
        holdfast delete @
        holdfast delete @ --confirm
        holdfast delete @ --confirm --force
        holdfast start "To be deleted too"
        holdfast delete @ --confirm --force --json
        holdfast start "Put away" && holdfast stop --quiet
        holdfast history
        holdfast archive @
        holdfast start "Kept in view"
        holdfast archive @
        holdfast unarchive @
        holdfast archive @ --json
        holdfast archive @
        holdfast unarchive @ --json
        holdfast archive abcd
        holdfast stop
        holdfast history --json
    """)
    stage.directory = "bakery"
    stage.play("""
        10:50 holdfast start "Bread" && holdfast stop
        mv ../bakery ../bread
    """)
    stage.directory = "bread"
    stage.play("""
        holdfast project reconnect ../bakery
        holdfast project reconnect ../bakery --json
        holdfast project reconnect ../nowhere
        holdfast project list
        holdfast history
    """)
    stage.directory = "shop"


def formats(stage: Stage) -> None:
    stage.time = "11:00"
    for schema in SCHEMAS:
        stage.run(f"holdfast validate --schema {schema}")
    stage.play("""
        holdfast validate --schema timer --draft 7
        holdfast validate --schema nothing --json
        holdfast start 'Four formats' --scope docs --task four-formats
        holdfast task add 'Describe them'
        holdfast mirror on nothing
    """)
    for number, name in enumerate(FORMAT_NAMES):
        stage.time = f"11:{number * 5 + 5:02d}"
        stage.play(f"""
            holdfast mirror on {name}{" --json" * (number > 1)}
            holdfast note "Mirrored as {name}"
            holdfast export --format {name}
            holdfast export --format {name} -o {name}.out
            holdfast export --format {name} --json
            holdfast validate {name}.out
            holdfast validate {name}.out --json
        """)
        for other in FORMAT_NAMES:
            stage.run(f"holdfast convert {name}.out --to {other}{' --json' * (other == 'timer')}")
    stage.play("""
        11:30 holdfast mirror status
        holdfast mirror status --json
        holdfast export --format timer -o timer.out
        holdfast export abcd --format timer
        holdfast convert cart.py --to timer
        holdfast convert nothing.json --to timer --json
        holdfast cycle
        holdfast cycle -o cycle.md --json
        holdfast cycle --weeks 0
        holdfast validate cart.py
        holdfast validate cart.py --json
        holdfast validate nothing.json
        printf '# Contract\\n\\n**Version**: 1.0\\n' > spec.md
        holdfast contract summary --spec spec.md
        holdfast contract acknowledge --spec spec.md --agent builder
        holdfast contract acknowledge --spec spec.md --agent tester --json
        holdfast contract verify --spec spec.md
        holdfast contract verify --spec spec.md --json
        holdfast contract summary --spec spec.md --json
        holdfast contract summary --spec nothing.md
        printf '# Contract\\n\\n**Version**: 2.0\\n' > spec.md
        holdfast contract verify --spec spec.md
    """)
    stage.files("shop", but=r"/\.git/")
    for number, name in enumerate(FORMAT_NAMES):
        stage.run(f"holdfast mirror off {name}{' --json' * (number > 1)}")
    stage.run("holdfast mirror off timer")
    stage.run("holdfast stop")
    stage.directory = "other"
    for number, name in enumerate(FORMAT_NAMES):
        stage.time = f"11:{32 + number}"
        stage.run(f"holdfast import ../shop/{name}.out{' --json' * (number > 1)}")
        stage.run(f"holdfast import ../shop/{name}.out --format {FORMAT_NAMES[number - 1]}")
    stage.play("""
        holdfast import nothing.json --json
        holdfast history
        holdfast history --json
    """)
    stage.directory = "shop"


def damaged_files(stage: Stage) -> None:
    stage.directory = "wild"
    place = stage.place()
    (place / ".claude").mkdir()
    torn = '{"schema_version": "1.0", "session_id": "2027-03-01-a1b2c3", "goal": "Torn", "pending_tasks": ["One", "Tw'
    made = {"working_on": "Search page", "next_steps": ["Index"], "completed_tasks": ["Form"], "blocker": "API key"}
    old = {
        "session_id": "2027-03-01-abc123", "created": "2027-03-01T10:30:00Z", "goal": "Old", "mode": "default",
        "updated": "2027-03-01T11:00:00Z", "status": "completed", "agents": [], "pending_tasks": [],
    }  # fmt: skip
    (place / ".claude" / "orchestrator-session.json").write_text(torn)
    (place / "notes.json").write_text(json.dumps(made))
    (place / "old.json").write_text(json.dumps(old))
    (place / "newer.json").write_text(json.dumps({**old, "schema_version": "9.0"}))
    stage.play("""
        11:40 holdfast status
        holdfast continue
        holdfast validate .claude/orchestrator-session.json
        holdfast validate --lenient .claude/orchestrator-session.json
        holdfast recover .claude/orchestrator-session.json
        holdfast recover .claude/orchestrator-session.json --json
        holdfast recover .claude/orchestrator-session.json --start
        holdfast recover nothing.json
        holdfast import notes.json
        holdfast import notes.json --salvage
        holdfast import newer.json
        holdfast migrate notes.json
        holdfast migrate old.json
        holdfast migrate old.json --json
        holdfast migrate old.json --back
        holdfast migrate old.json --back --json
        holdfast migrate newer.json --json
        holdfast history
        holdfast stop
    """)
    stage.files("wild")
    stage.directory = "shop"


def connect(stage: Stage) -> None:
    home = stage.home()
    for name, text in (
        (".claude/settings.json", '{\n\t"model":  "opus",\n\t"hooks": {"Stop": [] }\n}  \n'),
        (".claude/projects/-shop/talk.jsonl", TRANSCRIPT),
        (".codex/config.toml", 'model = "gpt"\r\n# mine'),
        (".gemini/settings.json", '// mine\r\n{\r\n  "theme": "x", // so\r\n}'),
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    stage.day = "2027-03-03"
    names = (*AGENT_NAMES, "claude-desktop", "git")
    stage.time = "08:00"
    stage.run("holdfast agents")
    stage.run("holdfast connect nobody")
    for number, name in enumerate(names):
        stage.run(f"holdfast connect {name}{' --json' * (number % 2)}")
    stage.play("""
        holdfast agents
        holdfast agents --json
        holdfast disconnect nobody --json
    """)
    stage.files("", but=NOT_OF_AGENTS)
    for number, name in enumerate(names):
        stage.run(f"holdfast disconnect {name}{' --json' * (number % 2)}")
    stage.run("holdfast disconnect claude")
    stage.files("", but=NOT_OF_AGENTS)
    stage.play("""
        holdfast connect claude codex gemini --scope project --no-mcp
        holdfast disconnect claude codex gemini
        holdfast connect claude --quiet
        holdfast backfill codex
        holdfast backfill
        holdfast backfill claude --json
        holdfast backfill nobody
        holdfast conversation list --json
        holdfast history
    """)


def hooks(stage: Stage) -> None:
    """Every payload that an agent is known to send, a minute apart, an agent a day."""
    for day, agent in enumerate(AGENT_NAMES, 4):
        stage.day = f"2027-03-{day:02d}"
        for number, path in enumerate(sorted((PAYLOADS / agent).glob("*.json"))):
            stage.time = f"{9 + number // 60:02d}:{number % 60:02d}"
            payload = json.dumps(json.loads(path.read_text())["payload"])
            payload = payload.replace("/home/anna/shop", str(stage.place())).replace("/home/anna", str(stage.home()))
            stage.run(f"holdfast hook {agent}", payload)
        stage.time = "16:00"
        stage.play("""
            holdfast status
            holdfast log
            holdfast conversation list
            holdfast history --json
        """)
    for path in sorted((PAYLOADS / "claude" / "statusline").glob("*.json")):
        stage.run("holdfast statusline claude", path.read_text())
        stage.run("holdfast statusline claude --json", path.read_text())
    stage.run("holdfast hook claude", "no payload")
    stage.run("holdfast hook nobody", "{}")
    stage.run("holdfast statusline nobody", "{}")
    stage.play("""
        16:30 holdfast start "A home for conversations" --replace
        holdfast conversation move nothing --to @
        holdfast conversation move claude:talk --to @
        holdfast start "Another home" --replace --json
        holdfast conversation move claude:talk --to @ --json
        holdfast conversation list
        holdfast conversation list --json
        holdfast conversation list abcd
    """)


def travel(stage: Stage) -> None:
    stage.day = "2027-03-15"
    stage.play(f"""
        09:00 holdfast start "Shared work" --replace
        holdfast note "Begun on the laptop"
        holdfast sync
        holdfast remote add home ftp://example.org
        holdfast remote add home {FOLDER}
        holdfast remote add home {FOLDER} --json
        holdfast remote list
        holdfast sync
        holdfast sync --json
        holdfast sync --remote nowhere
        holdfast device recovery-code
        holdfast device recovery-code --remote home --json
        holdfast remote confirm home
        git clone -q . ../../office/shop && git -C ../../office/shop remote set-url origin https://example.org/shop.git
        09:05 office: holdfast device rename office
        holdfast config set sync.background false
        holdfast remote add home {FOLDER}
        holdfast sync
        holdfast device show
    """)
    device = stage.answer("device", "show")["device"]
    vault = stage.answer("remote", "list")["remotes"][0]["words"]
    stage.play(f"""
        09:06 ada: holdfast device list
        holdfast device list --json
        holdfast device approve no-such-words
        holdfast device approve {device["fingerprint"]}
        09:10 office: holdfast sync
        holdfast sync --json
        holdfast remote confirm home {vault}
        holdfast remote confirm home {vault} --json
        holdfast remote confirm nowhere
        holdfast history
        holdfast resume @
        holdfast continue --json
        holdfast edit --goal "Shared work at the office"
        09:11 ada: holdfast edit --goal "Shared work on the laptop" --mode release
        09:12 office: holdfast edit --mode optimize
        holdfast sync
        09:13 ada: holdfast sync
        holdfast status
        holdfast conflicts
        holdfast conflicts --json
        holdfast resolve nothing --take 1
    """)
    session = stage.answer("status")["session"]["id"]
    for number, conflict in enumerate(stage.answer("conflicts")["conflicts"]):
        stage.run(f"holdfast resolve {conflict['id']} --take 1{' --json' * (number % 2)}")
    stage.play(f"""
        holdfast fork {session}
        holdfast fork {session} --json
        holdfast fork abcd
        holdfast sync
    """)
    stage.who = "bob"
    key = stage.answer("device", "show")["device"]["age"]
    stage.play(f"""
        10:00 ada: holdfast people add bob@example.org {key}
        holdfast people add bob@example.org {key} --json
        holdfast people add carol@example.org {device["age"]} --json
        holdfast people add bob@example.org nonsense
        holdfast people list
        holdfast people list --json
        holdfast redact @
        holdfast redact @ --json
        holdfast share @ --with bob@example.org
        holdfast share {session} --with bob@example.org --read-only --expires 7d --json
        holdfast share @ --with nobody@example.org
        holdfast sync
        10:05 bob: holdfast config set sync.background false
        holdfast accept --list {FOLDER}
        holdfast accept --list {FOLDER} --json
        holdfast accept folder:/nowhere
        holdfast accept {FOLDER} --yes
        holdfast accept {FOLDER} --yes --json
        holdfast history --all-projects
        holdfast history --all-projects --json
        holdfast log {session}
        holdfast resume {session}
        10:10 ada: holdfast revoke @ --from bob@example.org
        holdfast revoke {session} --from bob@example.org --json
        holdfast revoke @ --from nobody@example.org
        holdfast sync
        bob: holdfast sync
        holdfast status
        11:00 ada: holdfast device remove nobody
        holdfast device remove office
        11:05 office: holdfast note "Written after the removal"
        holdfast sync
        11:10 ada: holdfast sync
        holdfast device list
        holdfast device admit office
        holdfast device admit office --json
        holdfast device admit nobody
        holdfast doctor
        bob: holdfast device rename tablet
        holdfast remote add theirs {FOLDER} --json
    """)
    words = stage.answer("device", "show")["device"]["fingerprint"]
    stage.play(f"""
        11:15 ada: holdfast device approve {words} --admin --json
        holdfast device remove {words} --json
        bob: holdfast remote remove theirs
        holdfast remote remove theirs
        office: holdfast remote remove home --json
        holdfast status
    """)
    stage.who = "ada"


def mcp(stage: Stage) -> None:
    stage.day, stage.time = "2027-03-16", "09:00"
    session = stage.answer("history")["sessions"][0]["id"]
    uris = (
        "session/current",
        "briefing/current",
        "history",
        f"session/{session}",
        f"briefing/{session}",
        "session/abcd",
    )
    calls: list[tuple[str, dict[str, Any]]] = [
        *((f"{kind}/list", {}) for kind in ("tools", "prompts", "resources", "resources/templates")),
        *(("resources/read", {"uri": f"holdfast://{uri}"}) for uri in uris),
        *(("prompts/get", {"name": name}) for name in ("continue", "hand_over", "wrap_up", "nothing")),
        *(("tools/call", {"name": name, "arguments": arguments}) for name, arguments in TOOL_CALLS),
    ]
    client = {"name": "story", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": client}
    stage.serve([
        {"id": 0, "method": "initialize", "params": opening},
        {"method": "notifications/initialized"},
        *({"id": number, "method": method, "params": params} for number, (method, params) in enumerate(calls, 1)),
    ])  # fmt: skip


def dashboard(stage: Stage) -> None:
    stage.day, stage.time = "2027-03-17", "09:00"
    stage.run('holdfast start "In the browser" --scope billing --replace')
    session = f"/session/{stage.answer('status')['session']['id']}"
    first = stage.answer("log")["events"][0]["hash"]
    api = "/api/v1"
    dialogs = ("pause", "resume", "stop", "note", "edit", "hours", "archive", "resolve", "share", "nothing")
    stage.browse([
        "/", "/now", "/history", "/history?search=invoices", "/history/rows", "/hours", "/hours.csv", "/hill",
        "/devices", "/nothing", "HEAD /live",
        f"POST {session}/note text=Typed+in+the+browser", f"POST {session}/note text=",
        f"POST {session}/edit goal=In+a+browser&was-goal=In+the+browser",
        f"POST {session}/edit goal=Late&was-goal=Old",
        f"POST {session}/hill scope=billing&position=7", f"POST {session}/hill scope=billing&position=70",
        f"POST {session}/pause reason=Coffee", f"POST {session}/pause",
        f"POST {session}/resume", f"POST {session}/resume",
        f"POST {session}/hours what=away&from=2027-03-17T08:00&to=2027-03-17T08:10",
        f"POST {session}/hours what=nothing",
        f"POST {session}/resolve conflict=none&take=1", f"POST {session}/share email=bob@example.org&sure=yes",
        f"POST {session}/share email=bob@example.org", "POST /devices/sync",
        session, f"{session}/as-of?at=2027-03-17T09:00:00Z", f"{session}/events", f"{session}/events/{first}",
        *(f"{session}/dialog/{name}" for name in dialogs),
        *(f"{session}/export?format={name}" for name in (*FORMAT_NAMES, "nothing")),
        f"{session}/report", f"{session}/report?format=html",
        *(f"{api}/{name}" for name in ("sessions?limit=5", "now", "hours", "hours?by=agent", "hills", "devices")),
        f"{api}/openapi.json",
        *(f"{api}/sessions{session.removeprefix('/session')}{part}" for part in ("", "/events", "/briefing")),
        f"{api}/sessions?limit=0", f"{api}/sessions/abcd", f"{api}/nothing",
        f"POST {session}/stop", f"POST {session}/stop", f"POST {session}/archive", f"POST {session}/unarchive",
    ])  # fmt: skip


def keep(stage: Stage) -> None:
    stage.day = "2027-03-18"
    stage.play(f"""
        09:00 holdfast doctor
        holdfast doctor --json
        holdfast doctor --repair
        holdfast backup kept.backup
        holdfast backup kept.backup
        holdfast backup second.backup --json
        holdfast restore kept.backup
        holdfast restore second.backup --json
        holdfast restore cart.py
        holdfast store show --json
        holdfast store init sqlite:///{ROOT}/ada/fresh.db
        holdfast store init sqlite:///{ROOT}/ada/other.db --json
        holdfast store init nonsense
        holdfast store copy home sqlite:///{ROOT}/ada/fresh.db
        holdfast store copy home sqlite:///{ROOT}/ada/fresh.db --json
        holdfast store copy home nonsense
        holdfast history --store sqlite:///{ROOT}/ada/fresh.db
        holdfast store admit eve
        holdfast store admit eve --json
        holdfast store dismiss eve
        holdfast store share @ eve
        holdfast store unshare @ eve
        holdfast store partition 4
        holdfast uninstall
        holdfast uninstall --json
        bob: cp ../../ada/shop/kept.backup . && holdfast restore kept.backup
        holdfast history --all-projects
        printf 'timer = [' > $HOLDFAST_HOME/config.toml
        holdfast status
        holdfast status --json
        holdfast doctor
        holdfast doctor --json
    """)


def homes(stage: Stage) -> None:
    for stage.who in ("ada", "office", "bob"):
        stage.files("kept")
