"""The command `completion`: scripts for bash, zsh and fish, written from the declarations.

Each script is a table and a walk. The table answers a key, such as `value agent start --type`, with words
and what they mean; the walk finds out from the words before the cursor which key to ask. The scripts are
static: pressing Tab never starts Holdfast. Words a shell must find itself are `@files`, `@dirs`, `@commands`.
"""

from __future__ import annotations

from holdfast.cli.call import Call, write_output
from holdfast.cli.grammar import GLOBALS, PROGRAM, Argument, Command, Option
from holdfast.cli.table import COMMANDS
from holdfast.core.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    # A shell pattern, and the words with their meaning that answer every key it fits.
    Entry: TypeAlias = tuple[str, list[tuple[str, str]]]

SHELLS = ("bash", "zsh", "fish")


def completion(call: Call) -> None:
    shell = call.parsed.need("shell")
    text = script(shell, COMMANDS)
    if call.json:
        call.answer({"shell": shell, "script": text}, lambda _: "")
    else:
        write_output(text)


def script(shell: str, commands: Sequence[Command]) -> str:
    """The script to be sourced by the shell."""
    entries = list(_table(commands))
    if shell == "bash":
        return _fill(_BASH, "\n".join(_bash_entry(entry) for entry in entries))
    if shell == "zsh":
        return _fill(_ZSH, "\n".join(_zsh_entry(entry) for entry in entries))
    if shell == "fish":
        return _fill(_FISH, "\n".join(_fish_entry(entry) for entry in entries))
    raise Invalid(f"there is no completion for {shell!r}", hint=f"There is for {', '.join(SHELLS)}.")


def _fill(frame: str, table: str) -> str:
    return frame.replace("@TABLE@", table).replace("@PROGRAM@", PROGRAM)


def _table(commands: Sequence[Command]) -> Iterator[Entry]:
    """Keys in the order of asking. A path is its names joined by blanks; the program's is empty."""
    yield from _command_entries("", commands, (), (), rest=False)
    yield from _verb_entries("", commands, ())


def _verb_entries(path: str, commands: Sequence[Command], inherited: tuple[Option, ...]) -> Iterator[Entry]:
    for command in commands:
        full_path = f"{path} {command.name}".strip()
        options = (*inherited, *command.options)
        yield from _command_entries(full_path, command.verbs, options, command.arguments, rest=command.rest)
        yield from _verb_entries(full_path, command.verbs, options)


def _command_entries(
    path: str, verbs: Sequence[Command], options: Sequence[Option], arguments: Sequence[Argument], *, rest: bool
) -> Iterator[Entry]:
    all_options = (*options, *GLOBALS)
    yield f"options:{path}", [(flag, option.help) for option in all_options for flag in option.flags]
    if verbs:
        yield f"verbs:{path}", [(verb.name, verb.summary) for verb in verbs]
    for option in all_options:
        if option.kind != "flag":
            for flag in option.flags:
                yield f"value:{path}:{flag}", _words(option)
    for index, argument in enumerate(arguments):
        if words := _words(argument):
            yield f"argument:{path}:{'*' if argument.many else index}", words
    if rest:
        yield f"rest:{path}:0", [("@commands", "")]
        yield f"rest:{path}:*", [("@files", "")]


def _words(param: Argument | Option) -> list[tuple[str, str]]:
    """An empty answer still says that the option takes a value."""
    if param.choices:
        return [(choice, "") for choice in param.choices]
    return {"path": [("@files", "")], "dir": [("@dirs", "")]}.get(param.kind, [])


def _pattern(key: str, quote: str) -> str:
    """A key as a shell pattern: quoted, but for the star of an argument that takes many."""
    return f"{quote}{key[:-1]}{quote}*" if key.endswith(":*") else f"{quote}{key}{quote}"


def _quoted(text: str) -> str:
    """In single quotes for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _bash_entry(entry: Entry) -> str:
    key, words = entry
    return f"        {_pattern(key, chr(39))}) printf '%s\\n' {_quoted(' '.join(word for word, _ in words))} ;;"


def _zsh_entry(entry: Entry) -> str:
    key, words = entry
    described = []
    for word, meaning in words:
        plain = word.replace("\\", "\\\\").replace(":", "\\:")
        described.append(_quoted(f"{plain}:{meaning}" if meaning else plain))
    return f"        {_pattern(key, chr(39))}) reply=({' '.join(described)}) ;;"


def _fish_entry(entry: Entry) -> str:
    key, words = entry
    quoted = " ".join(
        "'" + "\t".join(filter(None, word)).replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words
    )
    pattern = f"'{key}'"
    return f"        case {pattern}\n            printf '%s\\n' {quoted}" if words else f"        case {pattern}"


# bash splits words at "=" and macOS still ships bash 3.2: no associative arrays, compopt only if it is there.
_BASH = r"""# Completion of @PROGRAM@ for bash. Load it with:  source <(@PROGRAM@ completion bash)

_@PROGRAM@_table() {
    case "$1" in
@TABLE@
        *) return 1 ;;
    esac
}

_@PROGRAM@() {
    local cur="${COMP_WORDS[COMP_CWORD]}" path="" want="" ended="" place=0 i word key words line prefix=""
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if [[ -n $want ]]; then
            [[ $word == "=" ]] || want=""
        elif [[ -n $ended || $word != -* ]]; then
            words=" $(_@PROGRAM@_table "verbs:$path") "
            if [[ $word == "=" ]]; then
                :
            elif [[ $place == 0 && -n $word && $words == *" $word "* ]]; then
                path="${path:+$path }$word"
            else
                place=$((place + 1))
            fi
        elif [[ $word == -- ]]; then
            ended=1
        elif _@PROGRAM@_table "value:$path:$word" >/dev/null; then
            want="$word"
        fi
    done
    if [[ -n $want ]]; then
        [[ $cur == "=" ]] && cur=""
        key="value:$path:$want"
    elif [[ -z $ended && $cur == --*=* ]]; then
        prefix="${cur%%=*}="
        key="value:$path:${cur%%=*}"
        cur="${cur#*=}"
    elif [[ -z $ended && $cur == -* ]]; then
        key="options:$path"
    elif [[ $place == 0 ]] && _@PROGRAM@_table "verbs:$path" >/dev/null; then
        key="verbs:$path"
    elif [[ -n $ended ]] && _@PROGRAM@_table "rest:$path:$place" >/dev/null; then
        key="rest:$path:$place"
    else
        key="argument:$path:$place"
    fi
    words="$(_@PROGRAM@_table "$key")"
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("$prefix$line")
    done < <(
        case "$words" in
            @files) compgen -f -- "$cur" ;;
            @dirs) compgen -d -- "$cur" ;;
            @commands) compgen -c -- "$cur" ;;
            *) compgen -W "$words" -- "$cur" ;;
        esac
    )
    case "$words" in
        @files | @dirs) type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null ;;
    esac
    return 0
}

complete -F _@PROGRAM@ @PROGRAM@
"""

# No `emulate` here: the completion system runs us with the options that its own functions need. And no
# `_describe -o`: it offers nothing at all until a dash has been typed.
_ZSH = r"""#compdef @PROGRAM@
# Completion of @PROGRAM@ for zsh. Load it with:  source <(@PROGRAM@ completion zsh)

_@PROGRAM@_table() {
    reply=()
    case "$1" in
@TABLE@
        *) return 1 ;;
    esac
}

_@PROGRAM@() {
    local cur="${words[CURRENT]}" place_path="" want="" ended="" word key
    local -i place=0 i
    local -a reply
    for ((i = 2; i < CURRENT; i++)); do
        word="${words[i]}"
        if [[ -n $want ]]; then
            want=""
        elif [[ -n $ended || $word != -* ]]; then
            _@PROGRAM@_table "verbs:$place_path"
            if ((place == 0)) && [[ -n ${(M)reply:#$word(|:*)} ]]; then
                place_path="${place_path:+$place_path }$word"
            else
                place+=1
            fi
        elif [[ $word == -- ]]; then
            ended=1
        elif _@PROGRAM@_table "value:$place_path:$word"; then
            want="$word"
        fi
    done
    if [[ -n $want ]]; then
        key="value:$place_path:$want"
    elif [[ -z $ended && $cur == --*=* ]]; then
        key="value:$place_path:${cur%%=*}"
        compset -P '*='
    elif [[ -z $ended && $cur == -* ]]; then
        key="options:$place_path"
    elif ((place == 0)) && _@PROGRAM@_table "verbs:$place_path"; then
        key="verbs:$place_path"
    elif [[ -n $ended ]] && _@PROGRAM@_table "rest:$place_path:$place"; then
        key="rest:$place_path:$place"
    else
        key="argument:$place_path:$place"
    fi
    _@PROGRAM@_table "$key" || return 1
    case "${reply[1]}" in
        '') return 1 ;;
        @files) _files ;;
        @dirs) _files -/ ;;
        @commands) _command_names -e ;;
        *) _describe '@PROGRAM@' reply ;;
    esac
}

if [[ ${funcstack[1]} == _@PROGRAM@ ]]; then
    _@PROGRAM@ "$@"
else
    compdef _@PROGRAM@ @PROGRAM@
fi
"""

_FISH = r"""# Completion of @PROGRAM@ for fish. Load it with:  @PROGRAM@ completion fish | source

function __@PROGRAM@_table
    switch "$argv[1]"
@TABLE@
        case '*'
            return 1
    end
    return 0
end

function __@PROGRAM@_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l path ''
    set -l want ''
    set -l ended ''
    set -l place 0
    set -l prefix ''
    for word in $words[2..-1]
        if test -n "$want"
            set want ''
        else if test -n "$ended"; or not string match -q -- '-*' "$word"
            set -l verbs (__@PROGRAM@_table "verbs:$path" | string replace -r '\t.*' '')
            if test $place = 0; and contains -- "$word" $verbs
                set path (string trim -- "$path $word")
            else
                set place (math $place + 1)
            end
        else if test "$word" = --
            set ended 1
        else if __@PROGRAM@_table "value:$path:$word" >/dev/null
            set want "$word"
        end
    end
    set -l key "argument:$path:$place"
    if test -n "$want"
        set key "value:$path:$want"
    else if test -z "$ended"; and string match -q -- '--*=*' "$cur"
        set -l parts (string split -m 1 = -- "$cur")
        set key "value:$path:$parts[1]"
        set prefix "$parts[1]="
        set cur "$parts[2]"
    else if test -z "$ended"; and string match -q -- '-*' "$cur"
        set key "options:$path"
    else if test $place = 0; and __@PROGRAM@_table "verbs:$path" >/dev/null
        set key "verbs:$path"
    else if test -n "$ended"; and __@PROGRAM@_table "rest:$path:$place" >/dev/null
        set key "rest:$path:$place"
    end
    set -l found (__@PROGRAM@_table "$key")
    switch "$found[1]"
        case ''
            return
        case @files
            set found (__fish_complete_path "$cur")
        case @dirs
            set found (__fish_complete_directories "$cur" '')
        case @commands
            set found (complete -C "$cur")
    end
    for line in $found
        printf '%s\n' "$prefix$line"
    end
end

complete -c @PROGRAM@ -f -a '(__@PROGRAM@_complete)'
"""
