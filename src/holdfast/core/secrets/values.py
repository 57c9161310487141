"""Decide whether the value after a name, as in `password = …`, is a secret, or a word, a variable, an example.

`patterns` finds secrets by their shape, this module by the name in front of them.
"""

from __future__ import annotations

import re

MARK = "[redacted:"

_compiled: dict[str, re.Pattern[str]] = {}


def pattern(source: str) -> re.Pattern[str]:
    pattern = _compiled.get(source)
    if pattern is None:
        pattern = _compiled[source] = re.compile(source, re.ASCII)
    return pattern


def replace_spans(text: str, spans: list[tuple[int, int, str]], counts: dict[str, int]) -> str:
    if not spans:
        return text
    pieces: list[str] = []
    last = 0
    for start, end, name in spans:
        pieces += (text[last:start], f"{MARK}{name}]")
        counts[name] = counts.get(name, 0) + 1
        last = end
    pieces.append(text[last:])
    return "".join(pieces)


_NAME = (
    r"password|passwd|passphrase|passcode|pass|pwd|secret(?:[_-]?(?:access[_-]?)?(?:key(?:[_-]?base)?|token|value))?"
    r"|token|key|credentials?|auth"
)
_BEFORE_KEY = (
    r"(?:api|app|access|account|auth|admin|aes|cipher|client|consumer|deploy|encrypt(?:ion)?|hmac|jwt|license"
    r"|master|private|rsa|service|shared|sign(?:ing)?|ssh|storage|subscription|webhook)[_\- ]?$"
)
# Words before "token" that give it another meaning: a piece of text, a page, a flag.
_HARMLESS_BEFORE = (
    r"(?:eos|bos|pad|unk|sep|cls|mask|stop|first|last|start|end|next|prev|page|sync|cancel|cancellation|continuation"
    r"|per|each|has|is|no|require|reset|forgot|public|special)[_\- ]?$"
)
_SEPARATOR = (
    r"[0-9]{0,2}(?:\\{0,3}[\"'`]\]?)?(?:"
    r"[ \t]{0,4}(?::[ \t]{0,2}(?:str|string|bytes|&str|secretstr|optional\[str\]|str \| none)[ \t]{0,2}=(?!=)"
    r"|={1,3}>?|:=?|!==?)[ \t]{0,4}"
    r"|[ \t]{1,2}(?:is|was|to)[ \t]{1,2}"
    r"|[ \t]{1,3}|>)"
)
_QUOTED = (
    r"[bBrRuU]?(?:\"((?:[^\"\\\n]++|\\.)++)\"|'((?:[^'\\\n]++|\\.)++)'|`([^`\n]++)`"
    r"|\\{1,3}([\"'])(.{1,1024}?)\\{1,3}\4)"
)
_CUT_OFF = r"\\{0,3}[\"'`]([^\s\"'`]++)"
_PLAIN = r"[^\s\"'`,;&<>(){}\]\\|]*+(?:[\[({<][^\s\"'`,;&]*+)?"
_PLAIN_SHELL = r"[^\s\"'`;\\]++"
_REDACTED = r"\\{0,3}[\"'`]?\[redacted:[a-z0-9_]{1,40}\](?=[\s\"'`\\,;&<)}]|$)"
_MIXED_CHARS = r"(?=[^a-z]*+[a-z])(?=[^A-Z]*+[A-Z])[^0-9]*+[0-9]"
_IN_TAGS = r"[^<>\s]++(?=</)"

_PLACEHOLDER = (
    r"[*xX.•…#?_:\-]+$"  # a mask
    r"|\$[A-Za-z_]\w*$|\$[{(]|\$[0-9@*]$|\$env:|%\w{1,64}%|%\(|%[sdrv]$|\{|<[^<>]{1,80}>?$|\[\w|[:@][A-Za-z_:]+$|\([A-Za-z]|![A-Za-z]+\b"
    r"|(?:[A-Za-z_]\w{0,64}(?:\.|::|->))*[A-Za-z_]\w{0,64}[\[(]"  # a call, an index
    r"|(?i:env|file|vault|op|ref|secret|arn|keychain|ssm|https?)(?::|://)"  # a pointer to where it is kept
)
_PLACEHOLDER_WORDS = (
    r"(?:none|null|nil|undefined|true|false|yes|no|on|off|str|string|text|bytes|int|integer|number|bool|boolean|any"
    r"|object|optional|required|missing|invalid|valid|expired|empty|unset|set|hidden|masked|redacted|removed|omitted"
    r"|filtered|unknown|default|self|this|value|prompt|stdin|ask|n/a|na|tbd|todo|secretstr|password|passwd|token"
    r"|secret|apikey|api_key)[?!|;]*$"
)
_EXAMPLE = (
    r"(?:^|[\-_. ])(?:your|example|placeholder|dummy|sample|fake|insert|replace|xxxx?|redacted|here)(?:$|[\-_. ])"
)
_MESSAGE = (
    r"(?i)(?<![\w'])(?:the|an?|is|are|was|be|must|should|cannot|can't|not|your|please|enter|at|for|of|to|in|and|or|with"
    r"|required|invalid|missing|expired|provided)(?![\w'])"
)
_TECHNICAL = r"(?i)(?:sha[0-9]{1,3}|base[0-9]{2}|argon2(?:id)?|pbkdf2|bcrypt|scrypt|utf-?8|oauth2|ed25519)\b"
_FILE = r"[\w\-./]{1,200}\.(?:pem|key|json|txt|ya?ml|toml|env|py|ts|js|go|rs|md|crt|pub)$"
_WORDY = r"(?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,4})?(?:[_.\-/:]+(?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,4}))*[_.\-/:]*$"


def redact_named_values(text: str, low: str, counts: dict[str, int]) -> str:
    spans: list[tuple[int, int, str]] = []
    find = pattern(f"({_NAME})({_SEPARATOR})").search
    is_done = pattern(_REDACTED).match
    position = 0
    while (match := find(low, position)) is not None:
        name, separator = match.groups()
        start, position = match.span(1)
        value_at = match.end()
        # Most words followed by a space are prose, and marked values are done: skip both quickly.
        if separator.isspace() and "-" not in low[max(0, start - 40) : start]:
            continue
        if is_done(text, value_at):
            continue
        kind = _kind_of(name, low[max(0, start - 16) : start])
        context = kind and _context_of(text, start, position, separator)
        if not kind or not context:
            continue
        first, last, quoted = _value_at(text, value_at, context)
        if (
            context == "code"
            and text[last : last + 1] == " "
            and text[first : last + 2].replace(" ", "", 1).isalpha()
        ):
            continue  # two plain words: a sentence with a colon
        if first < last and _is_secret(text[first:last], name, kind, context, quoted=quoted):
            spans.append((first, last, kind))
            position = max(position, last)
        elif last - first > 256:  # do not look at it again: this keeps the time linear
            position = max(position, last)
    return replace_spans(text, spans, counts)


def _kind_of(name: str, before: str) -> str | None:
    """The kind of secret that the name announces, given the text before it."""
    if name.startswith("pass") or name == "pwd":
        if name == "pass" and before[-1:].isalnum():
            return None
        kind = "password"
    elif name.startswith("secret"):
        kind = "secret"
    elif name == "token":
        kind = "token"
    elif name == "key":
        return "api_key" if pattern(_BEFORE_KEY).search(before) else None
    elif name == "auth":
        return "api_key" if before[-1:] in ("_", '"') else None
    else:
        kind = "api_key"
    return None if pattern(r"(?<![a-z])" + _HARMLESS_BEFORE).search(before) else kind


def _context_of(text: str, start: int, end: int, separator: str) -> str | None:
    """The context of the value: after a flag, in a shell line, a query, a tag, a sentence, or in code."""
    before = text[max(0, start - 40) : start]
    bare = separator.strip(" \t0123456789")
    if bare == "":
        # Only after a flag is the value separated by a space alone.
        return "flag" if pattern(r"(?<![\w\-])--?[A-Za-z0-9\-]{0,38}$").search(before) else None
    if bare in ("is", "was", "to"):
        return "sentence"
    if bare == ">":
        return "tag" if pattern(r"<[\w.:\-]{0,38}$").search(before) else None
    if bare.endswith("==") or bare.startswith("!="):
        return "comparison"
    if separator == "=":
        if pattern(r"[?&;][\w.\-]{0,38}$").search(before):
            return "query"
        if text[start:end].isupper() or pattern(r"(?<![\w\-])--?[A-Za-z0-9\-]{0,38}$").search(before):
            return "shell"
    return "code"


def _value_at(text: str, position: int, context: str) -> tuple[int, int, bool]:
    """Where the value begins and ends, and whether it is quoted."""
    if context == "tag":
        tagged = pattern(_IN_TAGS).match(text, position)
        return (*tagged.span(), True) if tagged else (position, position, False)
    for source in (_QUOTED, _CUT_OFF):
        quoted = pattern(source).match(text, position)
        if quoted is not None:
            return (*quoted.span(quoted.lastindex or 0), True)
    plain = pattern(_PLAIN_SHELL if context in ("shell", "flag") else _PLAIN).match(text, position)
    if plain is None:
        return position, position, False
    start, end = plain.span()
    # The full stop of a sentence, or the comma of a list, is not part of the value.
    end = start + len(text[start:end].rstrip(".,:)"))
    return start, end, False


def _is_secret(value: str, name: str, kind: str, context: str, *, quoted: bool) -> bool:
    """Whether the value is a literal secret, not a variable, a type, an example or a word of a sentence."""
    if is_placeholder(value) or _is_path(value) or (context == "comparison" and not quoted):
        return False
    password = kind == "password" and name != "pass"
    if value.replace(".", "").isdigit():
        return len(value) >= (4 if password else 20)
    if name == "auth":
        return quoted and len(value) >= 12 and changes_in(value) * 3 >= min(len(value), 64)
    wordy = is_wordy(value)
    digits = any(char.isdigit() for char in value)
    if " " in value:
        return password and pattern(_MESSAGE).search(value) is None
    if context == "sentence":
        if not password or pattern(_TECHNICAL).match(value) or "/" in value:
            return not wordy and len(value) >= 16 and digits
        return digits and len(value) >= 6 and value[0].isalnum() and any(char.isalpha() for char in value)
    if not password:
        if len(value) < (6 if context in ("shell", "query") else 8):
            return False
        if wordy:
            return _is_worded_secret(value, kind, context, quoted=quoted)
        return (
            digits or quoted or context not in ("code", "comparison") or changes_in(value) * 4 >= min(len(value), 64)
        )
    if quoted or context in ("shell", "query"):
        return len(value) >= 2
    if context == "flag":
        return not value.startswith("-") and (not value.isalpha() or not value.islower() or len(value) >= 20)
    if wordy and not digits:
        # `password: SecretStr` and `password=user_password` are code; a long plain word or a chain of words is not.
        return (value.isalpha() and value.islower() and len(value) >= 12) or value.count("-") >= 2
    return len(value) >= 4 and not pattern(r"(?i)\w*(?:pass|pwd|pw)\w{0,8}$").match(value)


def _is_worded_secret(value: str, kind: str, context: str, *, quoted: bool) -> bool:
    """Whether joined words are a secret: far more often they are a name, except where only values occur."""
    if context in ("shell", "query"):
        return True
    if value.isalpha() and value.islower():
        return len(value) >= 20
    written_out = context == "flag" or (len(value) >= 12 and (quoted or "-" in value))
    if written_out and pattern(_MIXED_CHARS).match(value):
        return True
    return quoted and kind != "token" and pattern(r"(?i)token|secret|key|cred|pass").search(value) is None


def is_placeholder(value: str) -> bool:
    """Whether the value is a placeholder for a secret."""
    if is_marked(value) or pattern(_PLACEHOLDER).match(value):
        return True
    low = value[:400].lower()
    if pattern(_PLACEHOLDER_WORDS).match(low) or pattern(r"[$#]?\{[a-z_][^{}\n]{0,80}\}|\$\(").search(low):
        return True
    return len(value) <= 80 and pattern(_EXAMPLE).search(low) is not None


def is_marked(value: str) -> bool:
    """Whether the value is already redacted, apart from at most three characters."""
    if MARK not in value:
        return False
    return len(pattern(r"\[redacted:[a-z0-9_]{1,40}\]?").sub("", value)) < 4


def _is_path(value: str) -> bool:
    if pattern(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]").match(value):
        return not _is_random(value)
    return pattern(_FILE).match(value) is not None


def is_wordy(value: str) -> bool:
    """Whether the value is made of words and small numbers: `snake_case`, `CamelCase`, `step-2`, `app.config`."""
    return len(value) <= 200 and pattern(_WORDY).match(value) is not None and not _is_random(value)


def _is_random(value: str) -> bool:
    """Whether letters and digits alternate as in random text. Separators do not count."""
    return changes_in(pattern(r"[\W_]+").sub("", value[:64])) * 3 >= min(len(value), 64)


def changes_in(value: str) -> int:
    """How often neighbouring characters differ in class: rarely in words, often in random text."""
    changes = 0
    last = ""
    for char in value[:64]:
        char_class = "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-"
        changes += char_class != last
        last = char_class
    return changes - 1
