"""Generated conversations of every agent: hooks and transcripts give the same sessions.

Each is recorded twice, from payloads as the program sends them and from a transcript as it writes it, with equal
times. Sessions, names, prompts, files, commands and times must agree.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from holdfast.conversations.adapters.cursor.transcript import slug_of
from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.backfill.run import backfill
from holdfast.core.model import Session
from holdfast.core.times import DAY, MINUTE, format_time
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs
from tests.conversations import test_cline_transcripts as cline
from tests.conversations import test_copilot_transcripts as copilot
from tests.conversations import test_cursor_transcripts as cursor
from tests.conversations import test_gemini_transcripts as gemini
from tests.conversations import test_goose_transcripts as goose
from tests.conversations import test_opencode_transcripts as opencode
from tests.support import codex_rollouts

START = 1_794_733_200_000  # 2026-11-15T09:00:00Z
NOW = START + 3 * DAY
PAYLOADS = Path(__file__).parent / "payloads"
# By agent: the payloads of a prompt, a command, a new file, the end of a turn and the end of the conversation.
PAYLOAD_NAMES = {
    "claude": ("prompt", "bash", "write_new", "stop", "session_end"),
    "codex": ("prompt", "shell", "patch_add", "stop", "session_end"),
    "gemini": ("before_agent", "after_tool_shell", "after_tool_write_new", "after_agent", "session_end"),
    "copilot": ("prompt", "after-bash", "after-write", "stop", "session-end"),
    "cursor": ("before_submit_prompt", "post_tool_use_shell", "after_file_edit", "stop", "session_end"),
    "cline": ("prompt", "after-commands", "after-create", "complete", "shutdown"),
    "goose": ("prompt", "shell", "write", "stop", "session_end"),
    "opencode": ("prompt", "after-bash", "after-write", "idle", "closed"),
}
# Ids that a program creates for each event.
OWN_IDS = frozenset({
    "id", "prompt_id", "tool_use_id", "turn_id", "tool_call_id", "call_id", "message_id", "event_id", "generation_id",
})  # fmt: skip


class Step(NamedTuple):
    """Something in a conversation, with its time: a `prompt`, a `command`, a new `file`, a `reply`."""

    at: int
    kind: str
    words: str


class Conversation(NamedTuple):
    name: str
    steps: list[Step]

    @property
    def ended(self) -> int:
        return self.steps[-1].at


def generated(agent: str, seed: int) -> list[Conversation]:
    """Two concurrent conversations in one project."""
    chosen = random.Random(f"{agent} {seed}")
    talks = [Conversation(_name(agent, number), []) for number in (1, 2)]
    # Cursor's transcripts have minutes only, and only for prompts.
    moment = START + chosen.randrange(60) * MINUTE
    for turn in range(chosen.randint(2, 4)):
        talk = talks[turn] if turn < 2 else chosen.choice(talks)
        subject = chosen.choice(("carts", "invoices", "letters", "the search", "a sitemap"))
        talk.steps.append(Step(moment, "prompt", f"{chosen.choice(('Mend', 'Add', 'Test'))} {subject} {turn}{seed}"))
        for number in range(chosen.randrange(4)):
            moment += chosen.randint(1, 50) * 1_000
            kind = chosen.choice(("command", "file"))
            words = f"make target-{turn}-{number}" if kind == "command" else f"src/file_{seed}_{turn}_{number}.py"
            talk.steps.append(Step(moment, kind, words))
        moment += chosen.randint(1, 50) * 1_000
        talk.steps.append(Step(moment, "reply", "All done."))
        moment += MINUTE * chosen.choice((1, 2, 30))
        moment -= moment % MINUTE
    return talks


def _name(agent: str, number: int) -> str:
    names = {"goose": f"20261115_{number}", "opencode": f"ses_{number}", "cline": f"179475882258{number}_r8r2z"}
    return names.get(agent, f"01a1de6f-1111-7000-8000-00000000000{number}")


# ── as hooks report it ───────────────────────────────────────────────────────────────────────────────────


class Live:
    def __init__(self, where: Path, agent: str) -> None:
        self._where = where
        self._agent = agent
        self._number = 0

    def hand_over(self, talk: str, step: Step, payload: str) -> None:
        self._number += 1
        content = self._payload(talk, step, payload)
        path = Path(spool.add_payload(str(self._where / "live"), self._agent, "user", 1, content))
        target = path.with_name(f"{self._agent}.user.1.{2**30 + self._number}")
        path.rename(target)
        os.utime(target, ns=(step.at * 1_000_000, step.at * 1_000_000))

    def _payload(self, talk: str, step: Step, name: str) -> bytes:
        """A recorded payload with this text in place of the recorded one."""
        recorded = json.loads((PAYLOADS / self._agent / f"{name}.json").read_text())
        payload = recorded["payload"]
        own = (payload.get("sessionContext") or {}).get("rootSessionId")
        own = own or payload.get("conversation_id") or payload.get("session_id")
        if "timestamp" in payload:
            payload["timestamp"] = format_time(step.at)
        written = json.dumps(_with_own_ids(payload, self._number)).replace(own, talk)
        field = {"prompt": "text", "command": "command", "file": "path"}.get(step.kind)
        for signal in recorded["signals"] if field is not None else ():
            if field in signal:
                before = json.dumps(signal[field])[1:-1]
                above = "/home/anna/shop/" if step.kind == "file" and before.startswith("/") else ""
                written = written.replace(before, above + step.words)
                break
        return written.replace("/home/anna/shop", str(self._where / "project")).encode()


def _with_own_ids(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {
            key: f"{item}-{number}" if key in OWN_IDS and isinstance(item, str) else _with_own_ids(item, number)
            for key, item in value.items()
        }
    return [_with_own_ids(item, number) for item in value] if isinstance(value, list) else value


# ── as the program writes it down ────────────────────────────────────────────────────────────────────────


def _claude(home: Path, project: str, talk: Conversation) -> None:
    lines = []
    for number, step in enumerate(talk.steps):
        call = f"toolu_{number}"
        about = {
            "uuid": f"{talk.name}-{number}", "timestamp": format_time(step.at), "cwd": project,
            "sessionId": talk.name,
        }  # fmt: skip
        given = {"file_path": f"{project}/{step.words}", "content": "one\n"} if step.kind == "file" else {
            "command": step.words
        }  # fmt: skip
        used = {"type": "tool_use", "id": call, "name": "Write" if step.kind == "file" else "Bash", "input": given}
        done = {"type": "create", "filePath": f"{project}/{step.words}"} if step.kind == "file" else {"stdout": ""}
        result = {"type": "tool_result", "tool_use_id": call, "content": "done"}
        match step.kind:
            case "prompt":
                lines.append({**about, "type": "user", "message": {"role": "user", "content": step.words}})
            case "reply":
                content = [{"type": "text", "text": step.words}]
                lines.append(
                    {
                        **about,
                        "type": "assistant",
                        "message": {"id": call, "role": "assistant", "content": content, "model": "m"},
                    }
                )
            case _:
                lines.append(
                    {
                        **about,
                        "type": "assistant",
                        "message": {"id": call, "role": "assistant", "content": [used], "model": "m"},
                    }
                )
                lines.append(
                    {
                        **about,
                        "uuid": f"{about['uuid']}-r",
                        "type": "user",
                        "toolUseResult": done,
                        "message": {"role": "user", "content": [result]},
                    }
                )
    _put(home / ".claude" / "projects" / "-shop" / f"{talk.name}.jsonl", lines)


def _codex(home: Path, project: str, talk: Conversation) -> None:
    records = [codex_rollouts.meta(cwd=project, id=talk.name, session_id=talk.name)]
    for number, step in enumerate(talk.steps):
        call = f"call_{number}"
        match step.kind:
            case "prompt":
                made = [codex_rollouts.asked(0, step.words, call)]
            case "command":
                made = [
                    codex_rollouts.called(0, "shell", call, {"command": ["bash", "-lc", step.words]}),
                    codex_rollouts.output(0, call, json.dumps({"output": "", "metadata": {"exit_code": 0}})),
                ]
            case "file":
                patch = f"*** Begin Patch\n*** Add File: {step.words}\n+one\n+two\n*** End Patch\n"
                used = {"type": "custom_tool_call", "name": "apply_patch", "call_id": call, "input": patch}
                came = {"type": "custom_tool_call_output", "call_id": call, "output": "Exit code: 0\nSuccess."}
                made = [codex_rollouts.line(0, "response_item", used), codex_rollouts.line(0, "response_item", came)]
            case _:
                item = {"type": "message", "role": "assistant", "content": []}
                made = [codex_rollouts.line(0, "response_item", item)]
        records += [{**record, "timestamp": format_time(step.at)} for record in made]
    records[0] = {**records[0], "timestamp": format_time(talk.steps[0].at)}
    records[0]["payload"]["timestamp"] = format_time(talk.steps[0].at)
    name = f"rollout-2026-11-15T09-00-00-{talk.name}.jsonl"
    _put(home / ".codex" / "sessions" / "2026" / "11" / "15" / name, records)


def _gemini(home: Path, project: str, talk: Conversation) -> None:
    records: list[Any] = [
        {"sessionId": talk.name, "projectHash": "0" * 64, "startTime": format_time(talk.steps[0].at), "kind": "main"}
    ]
    for number, step in enumerate(talk.steps):
        match step.kind:
            case "prompt":
                record = gemini.user(0, step.words, f"u{number}")
            case "command":
                call = gemini.call(0, "run_shell_command", {"command": step.words})
                record = gemini.model(
                    0, {**call, "id": f"c{number}", "timestamp": format_time(step.at)}, name=f"g{number}"
                )
            case "file":
                path = f"{project}/{step.words}"
                shown: Any = {**gemini.SHOWN, "filePath": path}  # type: ignore[dict-item]
                call = gemini.call(0, "write_file", {"file_path": path, "content": "one\n"}, resultDisplay=shown)
                record = gemini.model(
                    0, {**call, "id": f"c{number}", "timestamp": format_time(step.at)}, name=f"g{number}"
                )
            case _:
                record = gemini.model(0, name=f"g{number}")
        records.append({**record, "timestamp": format_time(step.at)})
    gemini.store(home, gemini.lines(*records), f"session-2026-11-15T09-00-{talk.name[:8]}{talk.name[-1]}.jsonl")
    (home / ".gemini" / "tmp" / "shop" / ".project_root").write_text(project)


def _copilot(home: Path, project: str, talk: Conversation) -> None:
    began = {"selectedModel": "m1", "context": {"cwd": project}}
    records = [{**copilot.line(0, "session.start", began), "timestamp": format_time(talk.steps[0].at)}]
    for number, step in enumerate(talk.steps):
        call = f"t{number}"
        match step.kind:
            case "prompt":
                made = [copilot.line(0, "user.message", {"content": step.words, "messageId": call})]
            case "reply":
                made = [copilot.line(0, "assistant.message", {"model": "m2", "content": "x", "toolRequests": []})]
            case _:
                given = {"command": step.words} if step.kind == "command" else {
                    "path": f"{project}/{step.words}", "file_text": "hi\n"
                }  # fmt: skip
                tool = "bash" if step.kind == "command" else "create"
                started = {"toolCallId": call, "toolName": tool, "arguments": given}
                ended = {"toolCallId": call, "success": True, "result": {"content": "Created"}}
                made = [
                    copilot.line(0, "tool.execution_start", started),
                    copilot.line(0, "tool.execution_complete", ended),
                ]
        records += [
            {**record, "id": f"e{number}-{place}", "timestamp": format_time(step.at)}
            for place, record in enumerate(made)
        ]
    directory = home / ".copilot" / "session-state" / talk.name
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(copilot.text(records))


def _cursor(home: Path, project: str, talk: Conversation) -> None:
    from datetime import UTC, datetime

    records: list[Any] = []
    for step in talk.steps:
        match step.kind:
            case "prompt":
                moment = datetime.fromtimestamp(step.at / 1000, UTC)
                when = f"{moment:%A, %b} {moment.day}, {moment:%Y}, {moment.hour % 12 or 12}{moment:%M %p}"
                when = when.replace(f"{moment:%M} ", f":{moment:%M} ")
                records.append(cursor.prompt(f"{when} (UTC+0)", step.words))
            case "command":
                records.append(cursor.used("Shell", command=step.words, working_directory=project))
            case "file":
                path = f"{project}/{step.words}"
                records.append(cursor.used("StrReplace", path=path, old_string="getUser(", new_string="fetchUser("))
            case _:
                records.append({"type": "turn_ended", "status": "success"})
    top = home / ".cursor" / "projects" / slug_of(project) / "agent-transcripts"
    _put(top / talk.name / f"{talk.name}.jsonl", records)
    os.utime(top / talk.name / f"{talk.name}.jsonl", (talk.ended / 1000, talk.ended / 1000))


def _cline(home: Path, project: str, talk: Conversation) -> None:
    messages = []
    for number, step in enumerate(talk.steps):
        call = f"c{number}"
        match step.kind:
            case "prompt":
                made = [cline.asked(number, cline.text_block(f'<user_input mode="act">{step.words}</user_input>'))]
            case "reply":
                made = [cline.answered(number, cline.text_block(step.words))]
            case "command":
                made = [
                    cline.answered(number, cline.use(call, "run_commands", {"commands": [step.words]})),
                    cline.asked(number, cline.result(call, [{"success": True}])),
                ]
            case _:
                path = f"{project}/{step.words}"
                created = json.dumps({"result": f"File created successfully at: {path}", "success": True})
                made = [
                    cline.answered(number, cline.use(call, "editor", {"path": path, "new_text": "hi\n"})),
                    cline.asked(number, cline.result(call, created)),
                ]
        messages += [{**entry, "id": f"m{number}-{place}", "ts": step.at} for place, entry in enumerate(made)]
    manifest = {
        **cline.MANIFEST, "session_id": talk.name, "started_at": format_time(talk.steps[0].at),
        "ended_at": format_time(talk.ended),
        "cwd": project, "metadata": {},
    }  # fmt: skip
    directory = home / ".cline" / "data" / "sessions" / talk.name
    directory.mkdir(parents=True)
    (directory / f"{talk.name}.json").write_text(json.dumps(manifest))
    (directory / f"{talk.name}.messages.json").write_text(json.dumps({"version": 1, "messages": messages}))


def _goose(home: Path, project: str, talk: Conversation) -> None:
    directory = home / ".local" / "share" / "goose" / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    is_new = not (directory / "sessions.db").exists()
    with closing(apsw.Connection(str(directory / "sessions.db"))) as database:
        if is_new:
            database.execute(goose.SCHEMA)
        goose.session(database, talk.name, working_dir=project)
        for number, step in enumerate(talk.steps):
            call, at = f"{talk.name}-{number}", step.at // 1000
            match step.kind:
                case "prompt":
                    goose.says(database, talk.name, at, "user", goose.text(step.words))
                case "reply":
                    goose.says(database, talk.name, at, "assistant", goose.text(step.words))
                case "command":
                    used = goose.calls("developer__shell", call, command=step.words)
                    goose.says(database, talk.name, at, "assistant", used)
                    goose.says(database, talk.name, at, "user", goose.came(call))
                case _:
                    used = goose.calls("developer__write", call, path=step.words, content="x\n")
                    goose.says(database, talk.name, at, "assistant", used)
                    goose.says(database, talk.name, at, "user", goose.came(call))


def _opencode(home: Path, project: str, talk: Conversation) -> None:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with closing(apsw.Connection(str(path))) as database:
        if is_new:
            database.execute(opencode.SCHEMA)
        row = (talk.name, "global", None, project, "", "1.18", None, talk.steps[0].at, talk.ended)
        database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for number, step in enumerate(talk.steps):
            own = f"msg_{talk.name}_{number}"
            data = {"role": "user", "time": {"created": step.at}} if step.kind == "prompt" else {
                **opencode.answer(step.at), "time": {"created": step.at, "completed": step.at}
            }  # fmt: skip
            match step.kind:
                case "command":
                    part = opencode.tool("bash", {"command": step.words}, step.at, metadata={"exit": 0})
                case "file":
                    given = {"filePath": f"{project}/{step.words}", "content": "hi\n"}
                    part = opencode.tool("write", given, step.at, metadata={"exists": False})
                case _:
                    part = {"type": "text", "text": step.words}
            if "state" in part:
                part["state"]["time"] = {"start": step.at, "end": step.at}
            message = (own, talk.name, step.at, step.at, json.dumps(data))
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", message)
            written = (f"prt_{own}", own, talk.name, step.at, json.dumps(part))
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", written)


def _put(path: Path, records: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


WRITES: dict[str, Callable[[Path, str, Conversation], None]] = {
    "claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot, "cursor": _cursor, "cline": _cline,
    "goose": _goose, "opencode": _opencode,
}  # fmt: skip


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────


def _open(where: Path, name: str) -> Keeper:
    wall = Wall(lambda: NOW * 1_000_000)
    keeper = Keeper.open(str(where / "project"), home=str(where / name), actor="anna", wall=wall)
    keeper.agent_dirs = AgentDirs(str(where / "person"), str(where / "project"))
    return keeper


def _visible_facts(keeper: Keeper, *, times: bool) -> dict[str, Any]:
    """What a person sees of each session, by conversation."""
    sessions = [keeper.session(row.id).document() for row in keeper.history(limit=None, all_projects=True)]
    return {session.conversations[0].id: _facts(session, times=times) for session in sessions}


def _facts(session: Session, *, times: bool) -> dict[str, Any]:
    return {
        "goal": session.goal, "status": (session.status, session.over), "continues": session.continues,
        "conversations": [(talk.id, talk.agent, talk.title, talk.prompts) for talk in session.conversations],
        "files": [(file.path, file.action) for file in session.files], "commands": session.commands.total,
        "times": (session.created_at, session.time.working_ms) if times else None,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12 if os.environ.get("HOLDFAST_TORTURE") else 1))
@pytest.mark.parametrize("agent", NAMES)
def test_sessions_are_the_same_when_recorded_live_and_by_backfill(tmp_path: Path, agent: str, seed: int) -> None:
    """Two concurrent conversations are two sessions, alike except for the transcripts' own limits."""
    (tmp_path / "project").mkdir()
    project, talks, live = str(tmp_path / "project"), generated(agent, seed), Live(tmp_path, agent)
    prompt, command, file, reply, close = PAYLOAD_NAMES[agent]
    payloads = {"prompt": prompt, "command": command, "file": file, "reply": reply}
    steps = sorted(((step.at, talk.name, step) for talk in talks for step in talk.steps), key=lambda one: one[0])
    for _, name, step in steps:
        live.hand_over(name, step, payloads[step.kind])
    for talk in talks:
        live.hand_over(talk.name, Step(talk.ended, "end", ""), close)
        WRITES[agent](tmp_path / "person", project, talk)
    times = agent != "cursor"  # its transcripts have no times between two prompts
    with _open(tmp_path, "live") as keeper:
        keeper.compare()
        recorded = _visible_facts(keeper, times=times)
    with _open(tmp_path, "backfilled") as keeper:
        reports = backfill(keeper, AgentDirs(str(tmp_path / "person"), project), [agent])
        assert [backfilled.problems for backfilled in reports] == [[]]
        read = _visible_facts(keeper, times=times)
    assert recorded == read
    assert {name: facts["goal"] for name, facts in read.items()} == {
        talk.name: talk.steps[0].words for talk in talks
    }  # fmt: skip
    for talk in talks:
        wanted = [step.words for step in talk.steps if step.kind == "file"]
        assert [path for path, _ in read[talk.name]["files"]] == wanted
        assert read[talk.name]["commands"] == sum(step.kind == "command" for step in talk.steps)
