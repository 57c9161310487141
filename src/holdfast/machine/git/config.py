"""Parse git configuration without git, render the settings that name no program, and normalise addresses of remotes.

A repository's own configuration can name programs for git to run, in dozens of keys and in sections of any name. So
none is disabled by name: git never sees that file. It sees one that Holdfast writes, with the few settings listed
here, by which git understands a repository's files and knows the author of commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_BLANK: Final = re.compile(r"(?:\s+|[#;][^\n]*)*")
_HEADER: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?[ \t]*\]')
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)")
_PART: Final = re.compile(r'"|\\(\r?\n|[ntb"\\])|[#;]|\r?\n|[^"\\#;\r\n]+|\r')
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}

_WORD: Final = re.compile(r"[A-Za-z0-9-]{0,40}")
# A word each: how files are compared with what is committed, and how commits are made.
_WORDS: Final = frozenset((
    *("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode"),
    *("core.protecthfs", "core.protectntfs", "core.longpaths", "core.trustctime", "core.checkstat"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse", "core.sharedrepository"),
    *("commit.gpgsign", "gpg.format", "user.useconfigonly", "i18n.commitencoding", "merge.conflictstyle"),
))  # fmt: skip
# Text that git puts into commits, hands to the signing program of the person, or prints.
_TEXTS: Final = frozenset((
    *("user.name", "user.email", "user.signingkey", "author.name", "author.email"),
    *("committer.name", "committer.email"),
))  # fmt: skip
# With a name between section and key. Addresses are only shown: nothing is fetched.
_NAMED: Final = frozenset((("remote", "url"), ("remote", "fetch"), ("url", "insteadof"), ("branch", "remote"),
                           ("branch", "merge")))  # fmt: skip
# Paths of lists that the person has everywhere. A repository has `.gitignore` and `.gitattributes` for that.
_PERSONAL: Final = frozenset(("core.excludesfile", "core.attributesfile"))
# How a repository is laid out. The first must be understood; the others make no difference here.
_LAYOUT: Final = ("objectformat", "refstorage")
_EXTENSIONS: Final = frozenset((
    *("noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "submodulepathconfig"),
    "worktreeconfig",
))  # fmt: skip


class GitSetting(NamedTuple):
    """One line of a configuration. `name` is the quoted subsection, if there is one."""

    section: str
    name: str | None
    key: str
    value: str

    @property
    def path(self) -> str:
        """Section and key in lower case, as in `core.eol`."""
        return f"{self.section}.{self.key}"


def parse(text: str) -> list[GitSetting]:
    """Every setting of a file in order, or `ValueError`. What it includes is not followed."""
    settings: list[GitSetting] = []
    section, name = "", None
    text = text.removeprefix("\ufeff")
    at, end = 0, len(text)
    while (at := _matched(_BLANK, text, at).end()) < end:
        if text[at] == "[":
            header = _matched(_HEADER, text, at)
            section, _, dotted = header[1].lower().partition(".")
            name = re.sub(r"\\(.)", r"\1", header[2]) if header[2] is not None else dotted or None
            at = header.end()
            continue
        key = _matched(_KEY, text, at)
        value, at = _value(text, key.end()) if key[2] else ("true", key.end())
        settings.append(GitSetting(section, name, key[1].lower(), value))
    return settings


def parse_list(output: str) -> list[GitSetting]:
    """The settings in the output of `git config --null --list`."""
    settings: list[GitSetting] = []
    for entry in output.split("\0"):
        full, equals, value = entry.partition("\n")
        section, dot, rest = full.partition(".")
        name, named, key = rest.rpartition(".")
        if dot:
            settings.append(GitSetting(section, name if named else None, key, value if equals else "true"))
    return settings


def harmless_settings(settings: Iterable[GitSetting], *, personal: bool = False) -> list[GitSetting]:
    """The settings that name no program. `personal`: they come from the person's own files as well."""
    return [setting for setting in settings if _is_harmless(setting, personal=personal)]


def render(settings: Iterable[GitSetting]) -> str:
    """The text of a file that holds just these settings."""
    lines: list[str] = []
    for setting in settings:
        name = "" if setting.name is None else f' "{_escaped(setting.name)}"'
        value = _escaped(setting.value).replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
        lines += [f"[{setting.section}{name}]", f'\t{setting.key} = "{value}"']
    return "\n".join([*lines, ""])


def layout(settings: Sequence[GitSetting]) -> list[GitSetting] | str:
    """The settings that define a repository's layout, or the reason why the layout is not supported."""
    version = last_value(settings, "core.repositoryformatversion") or "0"
    if version not in ("0", "1"):
        return f"the repository's format has version {version[:20]!a}"
    settings_to_keep = [GitSetting("core", None, "repositoryformatversion", version)]
    for setting in settings if version == "1" else ():
        if setting.section != "extensions" or setting.name is not None or setting.key in _EXTENSIONS:
            continue
        if setting.key not in _LAYOUT or _WORD.fullmatch(setting.value) is None:
            return f"the repository's format has the extension {setting.key}"
        settings_to_keep.append(setting)
    return settings_to_keep


def last_value(settings: Iterable[GitSetting], path: str) -> str | None:
    """The value in force of a setting without a name."""
    value = None
    for setting in settings:
        if setting.name is None and setting.path == path:
            value = setting.value
    return value


def is_true(value: str | None) -> bool:
    return value is not None and value.lower() in ("true", "yes", "on", "1")


def _is_harmless(setting: GitSetting, *, personal: bool) -> bool:
    if "\0" in setting.value or (setting.name is not None and not setting.name.isprintable()):
        return False
    if setting.name is not None:
        return (setting.section, setting.key) in _NAMED
    if setting.path in _WORDS:
        return _WORD.fullmatch(setting.value) is not None
    return setting.path in _TEXTS or (personal and setting.path in _PERSONAL)


def _value(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    quoted, length = False, 0  # blanks after the last quoted or visible character do not count
    while at < len(text) and text[at] in " \t":
        at += 1
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or (quoted and part[0] in ("\n", "\r\n")):
            raise ValueError(f"a value that does not end, in line {text.count(chr(10), 0, at) + 1}")
        if part[0] in ("\n", "\r\n"):
            break
        if part[0] in "#;" and not quoted:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            break
        at = part.end()
        if part[0] == '"':
            quoted = not quoted
            length = len(parts)
        elif part[1] is not None:
            parts.append(_ESCAPES.get(part[1], ""))
            length = len(parts)
        elif quoted:
            parts.append(part[0])
            length = len(parts)
        else:
            plain = part[0].rstrip(" \t\r")
            parts += [plain, part[0][len(plain) :]]
            length = len(parts) - 1 if plain else length
    if quoted:
        raise ValueError("a value that does not end, in the last line")
    return "".join(parts[:length]), at


def _matched(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"something that is not a setting, in line {text.count(chr(10), 0, at) + 1}")
    return match


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────

_BRACKETED = re.compile(r"(?:[^/]*@)?\[([^\]/]+)\]:(.*)")  # [user@host:port]:path, user@[::1]:path
_ABBREVIATED = re.compile(r"[A-Za-z0-9_+-]{2,}:(?!:).*", re.DOTALL)  # no dot, no user: hardly a host
_SCHEMES = ("https://", "http://", "ssh://", "git://", "file://", "ftp://", "ftps://", "git+ssh://", "ssh+git://")
_PORTS = {"https": "443", "http": "80", "ssh": "22", "git": "9418"}


def normalise_remote(url: str) -> str:
    """`github.com/o/r`, however the address is written, and never with credentials.

    >>> normalise_remote("https://me:secret@GitHub.com/o/r.git")
    'github.com/o/r'
    >>> normalise_remote("git@github.com:o/r")
    'github.com/o/r'
    """
    url = "".join(char for char in url.strip() if char.isprintable())
    helper, double, rest = url.partition("::")
    if double and helper.replace("-", "").isalnum():
        if "://" not in rest:
            return ""  # `ext::` and its like hold whole commands
        url = rest
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower().removeprefix("git+").removesuffix("+git").removesuffix("+ssh")
    if mark and scheme != "file":
        return _from_url(scheme, rest)
    if mark:
        return _trimmed(rest)
    bracketed = _BRACKETED.fullmatch(url)
    if bracketed is not None:
        host = bracketed[1].rpartition("@")[2]
        return _joined(f"[{host}]" if host.count(":") > 1 else host.removesuffix(":22"), bracketed[2])
    before, colon, path = url.partition(":")
    # A single letter is a drive. A slash before the colon makes it a path that has a colon in it.
    if colon and len(before) > 1 and not {*before} & {*"/\\"}:
        if "@" in path.partition("/")[0] and "@" not in before:
            before, _, path = path.rpartition("@")[2].partition(":")  # user:password@host:path
        return _joined(before.rpartition("@")[2], path)
    return _trimmed(url)


def is_abbreviated(url: str) -> bool:
    """Whether it may be short for something that only this person's git knows.

    >>> is_abbreviated("gh:o/r"), is_abbreviated("git@github.com:o/r"), is_abbreviated("https://github.com/o/r")
    (True, False, False)
    """
    return _ABBREVIATED.fullmatch(url) is not None and not url.lower().startswith(_SCHEMES)


def _from_url(scheme: str, rest: str) -> str:
    rest = rest.partition("#")[0].partition("?")[0]
    authority, _, path = rest.partition("/")
    if "@" not in authority and not authority.rpartition(":")[2].isdigit() and ":" in authority and "@" in rest:
        # A password with a slash in it: everything up to the last @ may be secret.
        authority, _, path = rest.rpartition("@")[2].partition("/")
    host = authority.rpartition("@")[2]
    return _joined(host.removesuffix(":" + _PORTS.get(scheme, "")), path)


def _joined(host: str, path: str) -> str:
    path = _trimmed(path.lstrip("/"))
    return f"{host.lower()}/{path}" if path else host.lower()


def _trimmed(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
