"""Every verb that changes something, with a state in which it has something to do."""

from __future__ import annotations

from typing import NamedTuple

Steps = tuple[tuple[str, ...], ...]


class Verb(NamedTuple):
    argv: tuple[str, ...]
    before: Steps
    # A verb of several transactions may stop between them; each is atomic, and running it again finishes it.
    in_parts: bool = False

    @property
    def name(self) -> str:
        return " ".join(self.argv[:3])


_STARTED: Steps = (
    ("start", "an earlier goal", "--scope", "store"),
    ("note", "from the first session"),
    ("stop",),
    ("start", "the goal", "--scope", "api", "--task", "write it", "--tag", "one"),
    ("agent", "start", "a1", "--type", "coder", "--task", "write"),
    ("agent", "start", "a2", "--type", "tester"),
    ("agent", "fail", "a2", "--category", "transient", "--message", "it broke"),
    ("agent", "start", "a3", "--type", "reader"),
    ("agent", "pause", "a3"),
    ("task", "add", "first task", "--id", "t1"),
    ("task", "add", "second task", "--id", "t2"),
    ("task", "start", "t2"),
    ("task", "add", "third task", "--id", "t3"),
    ("task", "done", "t3"),
    ("write", "made.txt", "a file\n"),
    ("write", "plan.md", "- [ ] one\n- [x] two\n"),
)
_PAUSED: Steps = (*_STARTED, ("pause", "lunch"))
_STOPPED: Steps = (*_STARTED, ("stop",))
_BACKED_UP: Steps = (*_STARTED, ("backup", "copy.db"))
_LOST: Steps = (*_BACKED_UP, ("lose",))
_MOVED: Steps = (
    *_STARTED,
    ("write", "../old/work.txt", "work\n"),
    ("start", "begun where it was", "--project", "../old"),
    ("remove", "../old"),
)
_LONG_AGO: Steps = (("start", "the goal", "--at", "2026-01-01T00:00:00Z"),)
_DOCUMENT = (
    '{"schema_version": "1.0", "session_id": "2026-11-01-abc123", "created": "2026-11-01T10:00:00Z", "goal": "x",'
    ' "status": "paused", "agents": [], "pending_tasks": ["one"], "own": {"field": 1.0}}'
)
_WITH_DOCUMENTS: Steps = (*_STARTED, ("write", "given.json", _DOCUMENT), ("write", "torn.json", _DOCUMENT[:-30]))
_WITH_SPEC: Steps = (*_STARTED, ("write", "spec.md", "# A contract\n\n**Version**: 1.0\n"))
_MIRRORED: Steps = (
    *_STARTED,
    ("mirror", "on", "orchestrator"),
    ("mirror", "on", "timer"),
    ("mirror", "on", "contract"),
    ("mirror", "on", "craft"),
)
_GIT: Steps = (
    ("git", "init", "-q", "-b", "main"),
    ("write", "base.txt", "base\n"),
    ("git", "add", "."),
    ("git", "commit", "-q", "-m", "base"),
)
_BRANCHED: Steps = (
    *_GIT,
    ("start", "on a branch", "--branch", "--scope", "api", "--task", "write it"),
    ("write", "work.txt", "work\n"),
    ("git", "add", "."),
    ("git", "commit", "-q", "-m", "work"),
)
# Users' settings with unusual comments, line ends and blanks, all of which must be restored.
_SETTINGS: Steps = (
    ("write", "../.claude/settings.json", '{\n\t"model":  "opus",\n\t"hooks": {"Stop": [] }\n}  \n'),
    ("write", "../.claude.json", '{"numStartups": 3, "mcpServers": {}}'),
    ("write", "../.codex/config.toml", 'model = "gpt"\r\n# mine'),
    ("write", "../.gemini/settings.json", '// mine\r\n{\r\n  "theme": "x", // so\r\n}'),
)
AGENTS = ("claude", "codex", "gemini", "opencode", "claude-desktop")
_CONNECTED: Steps = (*_SETTINGS, ("connect", *AGENTS))
_TRANSCRIPT = "".join(
    f'{{"type": "{role}", "uuid": "u{number}", "timestamp": "2026-01-0{number}T10:00:00Z", "sessionId": "talk",'
    f' "cwd": "/nowhere", "message": {{"role": "{role}", "id": "m{number}", "content": "Add login"}}}}\n'
    for number, role in enumerate(("user", "assistant", "user", "assistant"), 1)
)
_TRANSCRIPTS: Steps = (
    *_STARTED,
    ("write", "../.claude/projects/-nowhere/talk.jsonl", _TRANSCRIPT),
    ("write", "../.claude/projects/-nowhere/other.jsonl", _TRANSCRIPT.replace('"talk"', '"other"')),
)

VERBS: tuple[Verb, ...] = (
    Verb(("start", "the very first goal"), ()),
    Verb(("note", "a note with some words"), _STARTED),
    Verb(("delete", "@", "--confirm", "--force"), _STARTED),
    Verb(("backup", "fresh.db"), _STARTED),
    Verb(("config", "set", "history.limit", "30"), _STARTED),
    Verb(("config", "unset", "history.limit"), (*_STARTED, ("config", "set", "history.limit", "30"))),
    Verb(("project", "reconnect", "../old"), _MOVED),
    Verb(("start", "another goal", "--replace"), _STARTED),
    Verb(("start", "the next goal"), _STOPPED),
    Verb(("pause", "lunch"), _STARTED),
    Verb(("resume",), _PAUSED),
    Verb(("continue",), _PAUSED),
    Verb(("save",), _STARTED),
    Verb(("stop",), _STARTED),
    Verb(("abort", "no use"), _STARTED),
    Verb(("fail", "it cannot go on"), _STARTED),
    Verb(("edit", "--goal", "a better goal", "--progress", "0.5", "--tag", "two"), _STARTED),
    Verb(("message", "--role", "user"), _STARTED),
    Verb(("away", "--from", "2026-01-01T00:10:00Z", "--to", "2026-01-01T00:20:00Z"), _LONG_AGO),
    Verb(("worked", "--from", "2026-01-01T00:10:00Z", "--to", "2026-01-01T00:20:00Z"), _LONG_AGO),
    Verb(("agent", "add", "a5", "--type", "coder", "--blocking-on", "a1"), _STARTED),
    Verb(("agent", "start", "a4", "--type", "coder"), _STARTED),
    Verb(("agent", "progress", "a1", "0.5"), _STARTED),
    Verb(("agent", "done", "a1", "--summary", "written", "--tokens", "9"), _STARTED),
    Verb(("agent", "fail", "a1", "--category", "logical", "--message", "wrong"), _STARTED),
    Verb(("agent", "retry", "a2"), _STARTED),
    Verb(("agent", "pause", "a1"), _STARTED),
    Verb(("agent", "resume", "a3"), _STARTED),
    Verb(("agent", "abort", "a1"), _STARTED),
    Verb(("task", "add", "one more"), _STARTED),
    Verb(("task", "start", "t1"), _STARTED),
    Verb(("task", "done", "t2", "--outcome", "fine"), _STARTED),
    Verb(("task", "block", "t2"), _STARTED),
    Verb(("task", "reopen", "t3"), _STARTED),
    Verb(("task", "drop", "t1"), _STARTED),
    Verb(("plan", "import", "plan.md"), _STARTED),
    Verb(("decide", "SQLite", "--option", "files", "--why", "one file"), _STARTED),
    Verb(("file", "made.txt", "--action", "created"), _STARTED),
    Verb(("context", "--tokens", "90000", "--window", "200000"), _STARTED),
    Verb(("compress", "--to", "20000"), _STARTED),
    Verb(("hill", "api", "5"), _STARTED),
    Verb(("run", "--", "true"), _STARTED, in_parts=True),
    Verb(("archive", "@"), _STARTED),
    Verb(("unarchive", "@"), (*_STARTED, ("archive", "@"))),
    Verb(("restore", "copy.db"), _LOST),
    Verb(("import", "given.json"), _WITH_DOCUMENTS),
    Verb(("recover", "torn.json", "--start"), _WITH_DOCUMENTS),
    Verb(("mirror", "on", "craft"), _STARTED, in_parts=True),
    Verb(("mirror", "off", "craft"), _MIRRORED),
    Verb(("note", "with four mirrors on"), _MIRRORED, in_parts=True),
    Verb(("stop",), _MIRRORED, in_parts=True),
    Verb(("contract", "acknowledge", "--spec", "spec.md", "--agent", "a"), _WITH_SPEC),
    Verb(("start", "on a branch", "--branch"), _GIT),
    Verb(("stop", "--keep"), _BRANCHED, in_parts=True),
    Verb(("stop", "--discard"), _BRANCHED, in_parts=True),
    Verb(("connect", "claude"), (*_STARTED, *_SETTINGS), in_parts=True),
    Verb(("connect", *AGENTS), _SETTINGS, in_parts=True),
    Verb(("disconnect", "claude"), _CONNECTED, in_parts=True),
    Verb(("disconnect", *AGENTS), _CONNECTED, in_parts=True),
    Verb(("uninstall",), _CONNECTED, in_parts=True),
    Verb(("init", "--connect", "claude", "--mirror", "craft", "--backfill", "no"), _SETTINGS, in_parts=True),
    Verb(("backfill", "claude"), _TRANSCRIPTS, in_parts=True),
    Verb(("conversation", "move", "claude:other", "--to", "@"), (*_TRANSCRIPTS, ("backfill", "claude"))),
    Verb(("store", "init", "sqlite:///{project}/fresh.db"), _STARTED, in_parts=True),
    Verb(("store", "copy", "home", "sqlite:///{project}/fresh.db", "--quiet"), _STARTED, in_parts=True),
)

# These change nothing here; tests/cli/test_store_command.py runs them with a server.
SERVER_VERBS = {("store", verb) for verb in ("admit", "dismiss", "share", "unshare", "partition")}
