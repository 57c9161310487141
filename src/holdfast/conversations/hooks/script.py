"""What agents call: the text of the hook script and of its Python, and the command lines in agents' settings.

The script spools a payload with nothing but the shell and one `dd`; only a hook that waits for an answer starts
Python. After Holdfast has been removed, all of it does nothing, at once and silently.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.conversations.adapters.index import NAMES
from holdfast.workspace import spool

if TYPE_CHECKING:
    from holdfast.conversations.connect.agent_settings import Command, HookMode
    from holdfast.workspace.agent_dirs import AgentDirs

# The configuration that a hook is in.
Source = Literal["user", "project", "plugin"]
DIRECTORY: Final = "hooks"  # below the home
SCRIPT: Final = "hook"
WINDOWS_SCRIPT: Final = "hook.cmd"
ASK_SCRIPT: Final = "ask.py"
STORE: Final = "store"  # next to the script: the store's URL, where it is not the home's own
BLOCKED: Final = 86  # Python's exit code to block; a broken Python exits with 2

_HOOK_MODES: Final = "tell|stir|ask|status"
_CALL: Final = re.compile(
    rf"hooks[/\\]+hook(?:\.cmd)?[\"'\\]* +(?:{'|'.join(NAMES)}) +(?:{_HOOK_MODES}) +(?:user|project|plugin)\b"
)
# Up to the script; quotes inside are those of `quote`.
_ABSOLUTE: Final = re.compile(r"test -x '((?:[^']|'\\'')*)/hooks/hook'|if exist \"([^\"]*)\\hooks\\hook\.cmd\"")


class ScriptSetup(NamedTuple):
    """What the scripts are made from: paths of this machine."""

    home: str
    python: str
    # The directories of holdfast, msgspec, apsw and the others that hooks need.
    paths: tuple[str, ...]
    # A file that exists as long as Holdfast is installed.
    package: str
    # The URL, without a password, of the store that hooks use where no variable names one; empty for the home's own.
    store: str = ""


# ── command lines ────────────────────────────────────────────────────────────────────────────────────────


def command(home: str, agent: str, source: Source, *, shared: str | None = None, system: str = "linux") -> Command:
    """The command lines of an agent's hooks. `shared` is the home as any person's shell finds it, for files that
    are shared through git.
    """

    def line(mode: HookMode) -> str:
        return _line(home, f"{agent} {mode} {source}", shared, system)

    return line


def status_line(home: str, agent: str, source: Source, *, shared: str | None = None, system: str = "linux") -> str:
    return _line(home, f"{agent} status {source}", shared, system)


def _line(home: str, words: str, shared: str | None, system: str) -> str:
    if system == "win32":
        script = f'"{home}\\{DIRECTORY}\\{WINDOWS_SCRIPT}"'
        return f"if exist {script} call {script} {words}"
    script = quote(f"{home}/{DIRECTORY}/{SCRIPT}") if shared is None else f'"{shared}/{DIRECTORY}/{SCRIPT}"'
    # The last word does nothing; it shows people, and programs that list hooks, whose this is.
    return f"test -x {script} && exec {script} {words} || : holdfast"


def shared_home(places: AgentDirs, home: str) -> str | None:
    """The home as the shell of any person finds it; None when this home is not in its usual place."""
    if places.system == "win32":
        return None
    if places.system == "darwin":
        usual = places.in_home("Library", "Application Support", "holdfast")
        default = "$HOME/Library/Application Support/holdfast"
    else:
        usual, default = places.data("holdfast"), "${XDG_DATA_HOME:-$HOME/.local/share}/holdfast"
    if os.path.normcase(home) != os.path.normcase(usual):
        return None
    return f"${{HOLDFAST_HOME:-{default}}}"


def quote(text: str) -> str:
    """The text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def is_call(line: str) -> bool:
    """Whether a text is the command line of one of Holdfast's hooks, of whatever home."""
    return _CALL.search(line) is not None


def home_of(line: str) -> str | None:
    """The home whose script a command line calls; None where every person's own is meant."""
    match = _ABSOLUTE.search(line)
    if match is None:
        return None
    return match[1].replace("'\\''", "'") if match[1] is not None else match[2]


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────

_SCRIPT: Final = r"""#!/bin/sh
# Holdfast's hook, made by `holdfast connect`: hook AGENT tell|stir|ask|status SOURCE, with the payload on stdin.
# It ends with 0 whatever happens, but for an answer that blocks.
umask 077
PATH=${PATH:+$PATH:}/usr/bin:/bin
here=@here@
python=@python@
{ [ -x "$python" ] && [ -f "$here/ask.py" ] && [ -e @package@ ]; } || exit 0
case $1.$3 in *[!a-z.]*|.*|*.) exit 0 ;; esac
parent=${CLAUDE_PID:-$PPID}
case $parent in *[!0-9]*|???????????*) parent=$PPID ;; esac

keep() {
@keep@
}

case $2 in
tell)
  keep "$1" "$3"
  ;;
stir)
  keep "$1" "$3"
  ulimit -S -f unlimited 2>/dev/null || ulimit -S -f "$(ulimit -H -f)" 2>/dev/null
  "$python" -I -S "$here/ask.py" drain @format@ </dev/null >/dev/null 2>&1 &
  ;;
ask)
  "$python" -I -S "$here/ask.py" "$1" "$3" "$parent" 3>&2 2>/dev/null
  [ $? -ne @blocked@ ] || exit 2
  ;;
status)
  "$python" -I -S "$here/ask.py" status "$1" 2>/dev/null
  ;;
esac
exit 0
"""

_TO_PYTHON: Final = r"""  "$python" -I -S "$here/ask.py" tell "$1" "$2" "$parent" >/dev/null 2>&1"""

# One process besides the shell. `set -C` makes a file only where none is; `made` says whether it did, because nothing
# between the braces runs otherwise. A URL that may hold a password is not written here: either it is the one in the
# file next to the script, or Python writes it without the password. The limit on files, which counts blocks of 512
# bytes (in old versions of bash, 1024), cuts off what is larger than a payload may be.
_KEEP_BY_DD: Final = rf"""  spool=@spool@ store=@store@
  [ ! -L "$spool" ] || return 0
  [ -d "$spool" ] || mkdir "$spool" 2>/dev/null
  if [ -n "$HOLDFAST_STORE" ]; then
    case $HOLDFAST_STORE in
    *%*|*\&*|*//*:*@*|*=*=*|*"
"*) secret=1 ;;
    sqlite://*) secret= ;;
    postgres*://*[?]vault=*) secret= ;;
    postgres*://*[?]*) secret=1 ;;
    postgres*://*) secret= ;;
    *) secret=1 ;;
    esac
    known=
    [ -z "$secret" ] || [ ! -f "$here/store" ] || IFS= read -r known <"$here/store"
    if [ -z "$secret" ]; then
      store=$HOLDFAST_STORE
    elif [ "$HOLDFAST_STORE" != "$known" ]; then
    {_TO_PYTHON}
      return 0
    fi
  fi
  set -C
  file=$spool/$1.$2.$parent.$$.{spool.HOME}
  [ -z "$store" ] || file=$spool/$1.$2.$parent.$$.{spool.NAMED}
  name=$file again=0
  while [ -e "$file" ] || [ -L "$file" ]; do
    again=$((again + 1))
    [ $again -lt 100 ] || return 0
    file=$name.$again
  done
  made=
  trap '' XFSZ
  if {{ ulimit -S -f {(spool.MAX_PAYLOAD_SIZE + spool.MAX_URL_LENGTH) // 512}
    {{ made=1; {{ [ -z "$store" ] || printf '%s\n' "$store"; }} && dd bs=262144 conv=fsync; }} >"$file"
  }} 2>/dev/null; then
    [ -s "$file" ] || rm -f "$file" 2>/dev/null
    return 0
  fi
  [ -n "$made" ] || return 0
  "$python" -I -S "$here/ask.py" unkept "$1" "$file" >/dev/null 2>&1
  rm -f "$file" 2>/dev/null"""


def hook_script(setup: ScriptSetup, *, by_dd: bool = True) -> str:
    """The script for POSIX shells; without a `dd` that can sync, all payloads go through Python."""
    values = {"@spool@": quote(os.path.join(setup.home, spool.DIRECTORY)), "@store@": quote(setup.store)}
    keep = _KEEP_BY_DD if by_dd else _TO_PYTHON
    words = {
        "keep": re.sub("@[a-z]+@", lambda match: values[match[0]], keep),
        "here": quote(os.path.join(setup.home, DIRECTORY)),
        "python": quote(setup.python),
        "package": quote(setup.package),
        "blocked": str(BLOCKED),
        "format": spool.FORMAT,
    }
    return re.sub("@([a-z]+)@", lambda match: words[match[1]], _SCRIPT)


_WINDOWS: Final = """@echo off
rem Holdfast's hook, made by `holdfast connect`: hook AGENT tell|stir|ask|status SOURCE, with the payload on stdin.
setlocal DisableDelayedExpansion
if not exist "{python}" exit /b 0
if not exist "{package}" exit /b 0
if "%~2"=="ask" goto ask
if "%~2"=="status" goto status
"{python}" -I -S "{here}\\ask.py" tell %~1 %~3 0 >nul 2>nul
if "%~2"=="stir" start "" /b "{python}" -I -S "{here}\\ask.py" drain {format} <nul >nul 2>nul
exit /b 0
:ask
"{python}" -I -S "{here}\\ask.py" %~1 %~3 0
if %errorlevel%=={blocked} exit /b 2
exit /b 0
:status
"{python}" -I -S "{here}\\ask.py" status %~1 2>nul
exit /b 0
"""


def windows_script(setup: ScriptSetup) -> str:
    """The script for Windows' cmd, where everything goes through Python."""
    text = _WINDOWS.format(
        python=setup.python.replace("%", "%%"),
        package=setup.package.replace("%", "%%"),
        here=f"{setup.home}\\{DIRECTORY}".replace("%", "%%"),
        blocked=BLOCKED,
        format=spool.FORMAT,
    )
    return text.replace("\n", "\r\n")


# ── its Python ───────────────────────────────────────────────────────────────────────────────────────────

_ASK_SCRIPT: Final = '''"""Made by `holdfast connect`: hands words over to Holdfast, and does nothing without it."""

import gc
import os
import sys


def _main():
    gc.disable()  # it is over before there is anything to collect
    words = sys.argv[1:]
    if words[:1] == ["drain"]:
        # It outlives the hook: nothing of the agent's may be kept open, and its signals are not for us.
        os.closerange(3, 256)
        if hasattr(os, "setsid"):
            try:
                os.setsid()
            except OSError:
                pass
    sys.path[:0] = @paths@
    try:
        from holdfast.cli import hooking
    except BaseException:
        return 0
    if words[:1] not in (["drain"], ["tell"], ["status"], ["unkept"]):
        # Until here nobody should see what a broken Python says; an answer that blocks has its words from now on.
        try:
            os.dup2(3, 2)
            os.close(3)
        except OSError:
            pass
    try:
        return hooking.main(words, @home@)
    except BaseException:
        return 0


code = _main()
try:
    sys.stdout.flush()
    sys.stderr.flush()
except BaseException:
    pass
os._exit(code if code == @blocked@ else 0)
'''


def ask_script(setup: ScriptSetup) -> str:
    """The text of `ask.py`, in ASCII: other characters in paths are escaped."""
    words = {"paths": ascii(list(setup.paths)), "home": ascii(setup.home), "blocked": str(BLOCKED)}
    return re.sub("@([a-z]+)@", lambda match: words[match[1]], _ASK_SCRIPT)
