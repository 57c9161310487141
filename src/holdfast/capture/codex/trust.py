"""What Codex's own files say about whether it runs a hook: its switches, the trust in a project, and the trust in
each hook, which is given in Codex by `/hooks` and kept as a hash of the hook in `config.toml`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from holdfast.capture.interface import Payload
from holdfast.capture.payload import part, parts, word
from holdfast.capture.settings import content, settings_in
from holdfast.core.canonical import Json
from holdfast.formats.text import toml

_OURS: Final = "holdfast"
_USUAL_TIMEOUT: Final = 600


class Hook(NamedTuple):
    """One of our hooks, as it stands in a `hooks.json`."""

    key: tuple[str, str, str]  # event, number of its group, number within the group
    hash: str


def settings(path: str) -> Payload:
    """A TOML file of Codex; what cannot be read as such holds nothing."""
    try:
        return toml.loads(content(path).decode("utf-8-sig"))
    except ValueError:
        return {}


def switched_off(config: Payload) -> bool:
    """Whether hooks are off altogether; the older name of the switch still holds."""
    features = part(config, "features")
    return features.get("hooks") is False or features.get("codex_hooks") is False


def project_trusted(config: Payload, project: str) -> bool:
    """Whether a project, or the repository it is in, is trusted: otherwise its `.codex` is passed over."""
    wanted = {os.path.normcase(one) for one in _upwards(os.path.realpath(project))}
    for name, entry in part(config, "projects").items():
        trusted = type(entry) is dict and entry.get("trust_level") == "trusted"
        if trusted and os.path.normcase(os.path.realpath(name)) in wanted:
            return True
    return False


def standing(config: Payload, hooks_file: str) -> Literal["absent", "untrusted", "disabled", "trusted"]:
    """How all of our hooks in a file stand: as the worst of them does."""
    ours = list(_hooks(hooks_file))
    if not ours:
        return "absent"
    states: dict[tuple[str, str, str], Payload] = {}
    here = os.path.normcase(os.path.realpath(hooks_file))
    for name, state in part(part(config, "hooks"), "state").items():
        pieces = name.rsplit(":", 3)
        if len(pieces) == 4 and type(state) is dict and os.path.normcase(os.path.realpath(pieces[0])) == here:
            states[pieces[1], pieces[2], pieces[3]] = state
    if any(states.get(hook.key, {}).get("trusted_hash") != hook.hash for hook in ours):
        return "untrusted"
    return "disabled" if any(states[hook.key].get("enabled") is False for hook in ours) else "trusted"


def hook_hash(event: str, handler: Payload, matcher: str | None = None) -> str:
    """The hash by which Codex knows a hook: that of its canonical JSON, with all that is usual written out."""
    timeout = handler.get("timeout")
    hook: dict[str, Json] = {
        "type": "command", "command": handler.get("command"), "async": False,
        "timeout": timeout if type(timeout) is int else _USUAL_TIMEOUT,
    }  # fmt: skip
    whole: dict[str, Json] = {"event_name": event, "hooks": [hook]}
    if matcher is not None:
        whole["matcher"] = matcher
    written = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(written.encode(errors='replace')).hexdigest()}"


def label(event: str) -> str:
    """`PreToolUse` as it is written in keys and hashes: `pre_tool_use`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("_")


def _hooks(path: str) -> Iterator[Hook]:
    events = part(settings_in(path), "hooks")
    for event in events:
        for group, entry in enumerate(parts(events, event)):
            for place, handler in enumerate(parts(entry, "hooks")):
                if _OURS in (word(handler, "command") or "").lower():
                    found = hook_hash(label(event), handler, word(entry, "matcher"))
                    yield Hook((label(event), str(group), str(place)), found)


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above
