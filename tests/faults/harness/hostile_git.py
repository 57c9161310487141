"""A git repository that names a program wherever git's documentation allows it; each program leaves a trace if it
runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

# Every key whose value is a program, a command line, or the name by which git finds one. `TRAP` becomes a script of
# the key's own, `HOOKS` a directory of hooks. Names in angle brackets are as in git's documentation.
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "alias.*": ("alias.status=!TRAP", "alias.hostile=!TRAP"),
    "alias.*.command": ("alias.switch.command=!TRAP",),
    "browser.<tool>.cmd": ("browser.hostile.cmd=TRAP",),
    "browser.<tool>.path": ("browser.hostile.path=TRAP",),
    "core.alternateRefsCommand": ("core.alternateRefsCommand=TRAP",),
    "core.askPass": ("core.askPass=TRAP",),
    "core.editor": ("core.editor=TRAP",),
    "core.fsmonitor": ("core.fsmonitor=TRAP",),
    "core.gitProxy": ("core.gitProxy=TRAP",),
    "core.hooksPath": ("core.hooksPath=HOOKS",),
    "core.pager": ("core.pager=TRAP",),
    "core.sshCommand": ("core.sshCommand=TRAP",),
    "credential.helper": ("credential.helper=!TRAP", "credential.https://example.org.helper=!TRAP"),
    "diff.<driver>.command": ("diff.hostile.command=TRAP",),
    "diff.<driver>.textconv": ("diff.hostile.textconv=TRAP",),
    "diff.external": ("diff.external=TRAP",),
    "diff.guitool": ("diff.guitool=hostile",),
    "diff.tool": ("diff.tool=hostile",),
    "difftool.<tool>.cmd": ("difftool.hostile.cmd=TRAP",),
    "difftool.<tool>.path": ("difftool.hostile.path=TRAP",),
    "filter.<driver>.clean": ("filter.hostile.clean=TRAP", "filter.a=b.clean=TRAP"),
    "filter.<driver>.process": ("filter.process.process=TRAP",),
    "filter.<driver>.smudge": ("filter.hostile.smudge=TRAP", "filter.a=b.smudge=TRAP"),
    "gc.recentObjectsHook": ("gc.recentObjectsHook=TRAP",),
    "gpg.<format>.program": ("gpg.openpgp.program=TRAP", "gpg.ssh.program=TRAP", "gpg.x509.program=TRAP"),
    "gpg.program": ("gpg.program=TRAP",),
    "gpg.ssh.defaultKeyCommand": ("gpg.ssh.defaultKeyCommand=TRAP",),
    "guitool.<name>.cmd": ("guitool.hostile.cmd=TRAP",),
    "help.browser": ("help.browser=hostile",),
    "hook.<friendly-name>.command": tuple(
        f"hook.hostile-{event}.{what}"
        for event in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "post-commit")
        for what in ("command=TRAP", f"event={event}")
    ),
    "imap.tunnel": ("imap.tunnel=TRAP",),
    "include.path": ("include.path=INCLUDED",),
    "includeIf.<condition>.path": ("includeIf.gitdir:/**.path=INCLUDED",),
    "instaweb.browser": ("instaweb.browser=hostile",),
    "instaweb.httpd": ("instaweb.httpd=TRAP",),
    "interactive.diffFilter": ("interactive.diffFilter=TRAP",),
    "man.<tool>.cmd": ("man.hostile.cmd=TRAP",),
    "man.<tool>.path": ("man.hostile.path=TRAP",),
    "man.viewer": ("man.viewer=hostile",),
    "merge.<driver>.driver": ("merge.hostile.driver=TRAP",),
    "merge.guitool": ("merge.guitool=hostile",),
    "merge.tool": ("merge.tool=hostile",),
    "mergetool.<tool>.cmd": ("mergetool.hostile.cmd=TRAP",),
    "mergetool.<tool>.path": ("mergetool.hostile.path=TRAP",),
    "pager.<cmd>": tuple(f"pager.{verb}=TRAP" for verb in ("branch", "config", "diff", "log", "remote", "status")),
    "protocol.<name>.allow": ("protocol.ext.allow=always",),
    "protocol.allow": ("protocol.allow=always",),
    "receive.procReceiveRefs": ("receive.procReceiveRefs=refs",),
    "remote.<name>.proxy": ("remote.origin.proxy=TRAP",),
    "remote.<name>.receivepack": ("remote.origin.receivepack=TRAP",),
    "remote.<name>.uploadpack": ("remote.origin.uploadpack=TRAP",),
    "remote.<name>.url": ("remote.origin.url=ext::TRAP",),
    "remote.<name>.vcs": ("remote.hostile.vcs=ext", "remote.hostile.url=TRAP"),
    "sendemail.ccCmd": ("sendemail.ccCmd=TRAP",),
    "sendemail.headerCmd": ("sendemail.headerCmd=TRAP",),
    "sendemail.sendmailCmd": ("sendemail.sendmailCmd=TRAP",),
    "sendemail.smtpServer": ("sendemail.smtpServer=TRAP",),
    "sendemail.toCmd": ("sendemail.toCmd=TRAP",),
    "sequence.editor": ("sequence.editor=TRAP",),
    "submodule.<name>.update": ("submodule.inner.update=!TRAP",),
    "tar.<format>.command": ("tar.hostile.command=TRAP",),
    "trailer.<key-alias>.cmd": ("trailer.hostile.cmd=TRAP", "trailer.hostile.ifmissing=add"),
    "trailer.<key-alias>.command": ("trailer.other.command=TRAP", "trailer.other.ifmissing=add"),
    "uploadpack.packObjectsHook": ("uploadpack.packObjectsHook=TRAP",),
    "url.<base>.insteadOf": ("url.ext::TRAP .insteadOf=https://",),
    "web.browser": ("web.browser=hostile",),
}
# Settings that make git use the above more often than by default.
SWITCHES: Final = (
    *("commit.gpgSign=true", "tag.gpgSign=true", "push.gpgSign=true", "user.signingKey=hostile"),
    *("log.showSignature=true", "merge.verifySignatures=true", "commit.verbose=true"),
    *("status.submoduleSummary=true", "diff.submodule=log", "submodule.recurse=true", "diff.ignoreSubmodules=none"),
    *("gc.auto=1", "gc.autoDetach=false", "maintenance.auto=true", "filter.hostile.required=true"),
    *("core.untrackedCache=true", "color.ui=always", "credential.useHttpPath=true"),
)
HOOKS: Final = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit"),
    *("post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update", "pre-applypatch"),
    *("pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive"),
    *("prepare-commit-msg", "proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate"),
    *("update", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)
# Keys whose documentation mentions programs although the value names none, by what the value is.
NO_PROGRAM: Final[dict[str, tuple[str, ...]]] = {
    "says whether, when or how often git itself does something": (
        *("advice.*", "add.interactive.*", "branch.*", "checkout.*", "clone.*", "color.*", "commit.status"),
        *("core.bare", "core.fsync*", "core.preferSymlinkRefs", "core.quotePath", "core.useReplaceRefs"),
        *("credential.interactive", "credential.username", "diff.autoRefreshIndex", "diff.stat*", "fetch.*"),
        *("gc.*", "grep.*", "gui.*", "help.autoCorrect", "hook.*.enabled", "hook.*.parallel", "hook.*.jobs"),
        *("hook.jobs", "index.*", "interactive.singleKey", "log.date", "maintenance.*", "pack.*", "pull.*"),
        *("push.*", "rebase.*", "receive.*", "repack.*", "replay.*", "stash.*", "status.*", "tag.*", "transfer.*"),
        *("submodule.propagateBranches", "submodule.recurse", "uploadpack.*", "versionsort.*", "format.*"),
        *("core.fileMode", "core.bigFileThreshold", "core.compression", "core.looseCompression", "http.minSessions"),
        *("http.proactiveAuth", "http.sslTry", "feature.*", "trace2.*", "core.fsmonitorHookVersion", "core.pack*"),
        *("mailinfo.*", "merge.renormalize", "notes.*", "protocol.version", "safe.*", "core.untrackedCache"),
        *("difftool.prompt", "mergetool.prompt", "guitool.*.prompt", "core.splitIndex", "column.*"),
    ),
    "says what becomes of the exit code or the files of a program that another key names": (
        *("diff.*trustExitCode", "difftool.trustExitCode", "mergetool.*trustExitCode", "guitool.*.no*"),
        *("mergetool.keep*", "mergetool.hideResolved", "mergetool.*.hideResolved", "mergetool.writeToTemp"),
        *("filter.*.required", "merge.*.name", "hook.*.event", "trailer.*", "guitool.*", "mergetool.vimdiff.layout"),
    ),
    "chooses among drivers that other keys define": ("merge.*.recursive", "merge.default", "diff.*.binary"),
    "is a word, a number, a file or an address": (
        *(
            "extensions.*",
            "gitcvs.*",
            "ssh.variant",
            "remote.*.serverOption",
            "init.templateDir",
            "core.excludesFile",
        ),
        *(
            "sendemail.*",
            "core.attributesFile",
            "attr.tree",
            "http.*",
            "imap.*",
            "instaweb.*",
            "i18n.*",
            "core.worktree",
        ),
        *(
            "commit.template",
            "submodule.*.url",
            "core.commentChar",
            "core.commentString",
            "blame.*",
            "am.*",
            "user.*",
        ),
        *("remote.*.mirror", "remote.*.prune", "remote.*.partialclonefilter", "apply.*", "gitweb.*", "bundle.*"),
        *("diff.*.wordRegex", "diff.*.xfuncname", "diff.*.cachetextconv", "core.notesRef", "init.default*"),
    ),
}


class Traps:
    """Scripts outside the repository, one for each place that names a program."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.triggered = root / "triggered"
        self.triggered.mkdir(parents=True)

    def script(self, name: str) -> Path:
        path = self.root / "".join(c if c.isalnum() else "-" for c in name)
        if not path.exists():
            path.write_text(f"#!/bin/sh\n: > '{self.triggered}/{path.name}'\ncat 2>/dev/null\nexit 0\n")
            path.chmod(0o755)
        return path

    def names(self) -> list[str]:
        """The places whose program ran."""
        return sorted(os.listdir(self.triggered))

    def plant(self, repository: Path, *, without: Iterable[str] = ()) -> None:
        """Make the repository name every program there is, except for some keys."""
        git_dir = repository / ".git"
        hooks = self.root / "hooks"
        for folder in (hooks, git_dir / "hooks"):
            folder.mkdir(parents=True, exist_ok=True)
            for name in HOOKS:
                (folder / name).write_text(self.script(f"hook {folder.parent.name} {name}").read_text())
                (folder / name).chmod(0o755)
        included = self.root / "included"
        included.write_text(f'[filter "included"]\n\tclean = {self.script("included clean")}\n')
        lines: list[str] = []
        for key, settings in PROGRAMS.items():
            for setting in () if key in without else settings:
                lines += _lines(setting.replace("HOOKS", str(hooks)).replace("INCLUDED", str(included)), self)
        for setting in SWITCHES:
            lines += _lines(setting, self) if setting not in without else []
        with (git_dir / "config").open("ab") as config:
            config.write("\n".join(["", *lines, ""]).encode())
            # A name that is not UTF-8 cannot be overridden on a command line.
            config.write(b'[filter "\xff"]\n\tclean = %s\n' % os.fsencode(self.script("bytes clean")))
        attributes = (
            b"* filter=hostile diff=hostile merge=hostile\n*.eq filter=a=b\n*.raw filter=\xff\n"
            b"*.proc filter=process\n*.inc filter=included\n"
        )
        (repository / ".gitattributes").write_bytes(attributes)
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info/attributes").write_bytes(attributes)


def is_covered(key: str) -> bool:
    """Whether a key of git's documentation is in the table, or is known to name no program."""
    key = "".join(key.split())
    patterns = [*PROGRAMS, *(pattern for patterns in NO_PROGRAM.values() for pattern in patterns)]
    return any(fnmatch(_plain(key), _plain(pattern)) for pattern in patterns)


def _plain(key: str) -> str:
    """`filter.<driver>.clean` as `filter.*.clean`."""
    parts = [part if "<" not in part else "*" for part in key.lower().split(".")]
    return ".".join(parts)


def _lines(setting: str, traps: Traps) -> list[str]:
    """`section.name.key=value` as lines of a configuration file."""
    path, _, value = _split(setting)
    section, _, rest = path.partition(".")
    name, _, key = rest.rpartition(".")
    value = value.replace("TRAP", str(traps.script(path)))
    name = name.replace("TRAP", str(traps.script(path)))
    return [f'[{section} "{name}"]' if name else f"[{section}]", f'\t{key} = "{value}"']


def _split(setting: str) -> tuple[str, str, str]:
    """The value begins after the last `=` that follows a key: names may contain one as well."""
    at = setting.index("=", setting.index(".", setting.index("=")) if setting.startswith("filter.a=b") else 0)
    return setting[:at], "=", setting[at + 1 :]


def git(where: Path, *words: str) -> str:
    """The user's own git, before the repository is hostile."""
    environ = {
        **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
    }  # fmt: skip
    done = subprocess.run(["git", *words], cwd=where, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()
