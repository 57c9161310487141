"""Words are parsed into a command and its values, or one clear error."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli import table
from holdfast.cli.grammar import GLOBALS, Argument, Command, Option, Parsed, parse, wants_json
from holdfast.cli.help import help_text, usage
from holdfast.cli.paint import Paint
from holdfast.cli.spelling import similar_words
from holdfast.core.errors import HoldfastError, Invalid, Usage
from tests.cli.table_checks import faults

MODES = ("debug", "default", "optimize", "release")
START = Command(
    "start",
    "begin a session",
    (
        Argument("goal", "what the session is for"),
        Option(("--mode",), "how carefully", choices=MODES),
        Option(("--tag",), "a word to find it by", many=True),
        Option(("--limit",), "how many", kind="int"),
        Option(("--progress",), "how far", kind="float"),
        Option(("--since",), "from when", kind="date"),
        Option(("--expires",), "how long", kind="span"),
        Option(("--no-sync",), "stay here", kind="flag"),
        Option(("-o", "--output"), "where to", kind="path"),
        Option(("-b",), "a short one", kind="flag", name="brief"),
    ),
    "lifecycle:start",
    writes=True,
    group="Sessions",
)
COMMANDS = (
    START,
    Command("status", "show the session", (Argument("session", "which", required=False),), "x:run", group="Sessions"),
    Command(
        "stop",
        "complete the session",
        (Option(("--keep",), "the branch", kind="flag"), Option(("--discard",), "the branch", kind="flag")),
        "x:run",
        group="Sessions",
        either=(("--keep", "--discard"),),
    ),
    Command("note", "write something down", (Argument("text", "what"),), "x:run", group="Sessions"),
    Command(
        "agent",
        "agents of the session",
        verbs=(
            Command(
                "start",
                "one begins",
                (Argument("id", "its id"), Option(("--type",), "what kind", required=True)),
                "x:run",
            ),
            Command(
                "progress",
                "one advances",
                (Argument("id", "which"), Argument("share", "0 to 1", kind="float")),
                "x:run",
            ),
        ),
        group="Work",
    ),
    Command(
        "device",
        "this device",
        (Argument("name", "which", required=False), Option(("--long",), "everything", kind="flag")),
        "x:run",
        verbs=(Command("list", "all devices", (), "x:run"),),
        group="Devices",
    ),
    Command(
        "validate", "check files", (Argument("path", "files", many=True, kind="path"),), "x:run", group="Formats"
    ),
    Command(
        "run", "run a command", (Option(("--timeout",), "seconds", kind="float"),), "x:run", rest=True, group="Work"
    ),
)


def read(*argv: str) -> Parsed:
    return parse(argv, COMMANDS)


def refused(*argv: str) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        read(*argv)
    return caught.value


def test_parsed_values_are_complete_and_typed() -> None:
    """A missing value is None, False or empty."""
    parsed = read("start", "ship it", "--limit", "7", "--progress=0.65", "--tag", "a", "--tag=b", "--no-sync")
    assert parsed.path == ("start",)
    assert parsed.command is START
    assert parsed.values == {
        "goal": "ship it",
        "mode": None,
        "tag": ["a", "b"],
        "limit": 7,
        "progress": 0.65,
        "since": None,
        "expires": None,
        "no_sync": True,
        "output": None,
        "brief": False,
    }


def test_accessors_return_the_declared_types() -> None:
    parsed = read("start", "x", "--limit=3", "--progress", "1", "--tag", "t", "-b", "--expires", "7d")
    assert parsed.need("goal") == "x"
    assert parsed.text("mode") is None
    assert parsed.texts("tag") == ["t"]
    assert parsed.integer("limit") == 3
    assert parsed.number("progress") == 1.0
    assert parsed.flag("brief") is True
    assert parsed.integer("expires") == 7 * 86_400_000


@pytest.mark.parametrize("words", [["-o", "f"], ["-of"], ["-o=f"], ["--output", "f"], ["--output=f"], ["-bof"]])
def test_option_accepts_every_spelling(words: list[str]) -> None:
    """Long and short, separate, attached, with an equals sign, after a flag in the same word."""
    assert read("start", "x", *words).text("output") == "f"


def test_last_of_a_repeated_option_wins() -> None:
    """A person may override a shell alias."""
    assert read("start", "x", "--mode", "debug", "--mode", "release").text("mode") == "release"


def test_verb_is_parsed_after_its_command() -> None:
    """It has parameters of its own, and options may stand between its words."""
    parsed = read("agent", "--json", "start", "--type", "builder", "a1")
    assert parsed.path == ("agent", "start")
    assert parsed.values == {"id": "a1", "type": "builder"}


def test_verb_is_optional_when_the_command_has_a_handler() -> None:
    """Another word is then an argument."""
    assert read("device").path == ("device",)
    assert read("device", "laptop").text("name") == "laptop"
    assert read("device", "--long", "list").path == ("device", "list")
    assert read("device", "list", "--long").flag("long") is True


def test_words_after_two_dashes_are_verbatim() -> None:
    """Also a second `--`."""
    assert read("note", "--", "--json").need("text") == "--json"
    assert read("validate", "a", "--", "-x", "--", "--help").texts("path") == ["a", "-x", "--", "--help"]
    assert not read("note", "--", "--json").globals.json


def test_run_passes_on_all_words_after_two_dashes() -> None:
    """Also options, and bytes outside UTF-8."""
    parsed = read("run", "--timeout", "5", "--", "pytest", "-q", "--json", "--", "\udcff")
    assert parsed.rest == ["pytest", "-q", "--json", "--", "\udcff"]
    assert parsed.number("timeout") == 5.0
    assert not parsed.globals.json


def test_single_dash_and_negative_numbers_are_values() -> None:
    assert read("start", "-", "-o", "-").text("output") == "-"
    assert read("start", "x", "--limit", "-3").integer("limit") == -3
    assert read("agent", "progress", "a", "-.5").number("share") == -0.5


def test_empty_text_is_accepted() -> None:
    """Commands decide whether it is allowed."""
    assert read("note", "").need("text") == ""
    assert read("start", "x", "--mode=default", "--output=").text("output") == ""


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        ([], "no command was given", "holdfast --help"),
        (["--json"], "no command was given", "holdfast --help"),
        (["strat", "x"], "unknown command 'strat'", "Did you mean start?"),
        (["stat"], "unknown command 'stat'", "start or status"),
        (["agent", "progres"], "unknown verb of agent 'progres'", "Did you mean progress?"),
        (["agent"], "agent needs one of: start, progress", "holdfast agent --help"),
        (["start", "x", "--mdoe", "debug"], "start has no option '--mdoe'", "Did you mean --mode?"),
        (["--mode", "debug", "start"], "holdfast has no option '--mode'", "It belongs to start"),
        (["agent", "--type", "x", "start"], "agent has no option '--type'", "It belongs to start"),
        (["note", "-x marks"], "note has no option '-x'", "holdfast note -- '-x marks'"),
        (["start"], "GOAL is missing", "holdfast start --help"),
        (["agent", "start", "a"], "--type is missing", "holdfast agent start --help"),
        (["validate"], "PATH is missing", ""),
        (["note", "two", "words"], "unexpected argument 'words'", "in quotes"),
        (["run", "pytest"], "unexpected argument 'pytest'", "holdfast run -- COMMAND"),
        (["run"], "the command to run is missing", "holdfast run -- COMMAND"),
        (["start", "x", "--mode"], "--mode needs a value", ""),
        (["start", "x", "--tag", "--json"], "--tag needs a value, and '--json' looks like an option", "--tag=VALUE"),
        (["start", "x", "-o", "--"], "-o needs a value", "-oVALUE"),
        (["status", "--json=yes"], "--json takes no value", ""),
        (["stop", "--keep", "--discard"], "--keep and --discard cannot be used together", ""),
    ],
)
def test_wrong_usage_is_exit_2_with_a_hint(argv: list[str], message: str, hint: str) -> None:
    error = refused(*argv)
    assert isinstance(error, Usage)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "argv",
    [
        ["start", "x", "--mode", "fast"],
        *(
            ["start", "x", f"--limit={bad}"]
            for bad in ("x", "", "1.5", "1_000", "٣", "nan", "inf", " 1", "+", "1" * 16)
        ),
        *(["start", "x", f"--progress={bad}"] for bad in ("x", "", "nan", "-inf", "1e999", "1_0", "٣", "1 ", "--1")),
        *(["start", "x", f"--expires={bad}"] for bad in ("7", "d", "7y", "-7d", "1.5h", "٣d", "9999999d", "7dd")),
        *(["start", "x", f"--since={bad}"] for bad in ("x", "2026-13-01", "2026-1-1", "٢٠٢٦-١١-١٥")),
        *(["status", f"--at={bad}"] for bad in ("now", "25:00", "٠٩:٣٠", "2026-11-15")),
        ["note", "bad\udcff"],
        ["note", "--", "bad\ud800"],
        ["\udcff"],
        ["start", "x", "--tag", "\udcff"],
        ["note", "a\0b"],
        ["run", "--", "a\0b"],
        ["run", "--", "\ud800"],
    ],
)
def test_wrong_values_are_exit_4(argv: list[str]) -> None:
    error = refused(*argv)
    assert isinstance(error, Invalid)
    error.message.encode()


@pytest.mark.parametrize("good", ["2026-11-15", "2026-11-15T09:30:00Z", "09:30"])
def test_date_is_a_day_or_a_time(good: str) -> None:
    """It is kept as text, since its meaning depends on the clock."""
    assert read("start", "x", f"--since={good}").text("since") == good


def test_error_of_an_invalid_choice_lists_the_valid_ones() -> None:
    """The most likely one first."""
    error = refused("start", "x", "--mode", "relaese")
    assert error.message == "--mode: invalid value 'relaese'"
    assert error.hint == "Did you mean release? Valid values: debug, default, optimize, release."
    assert error.operation == "start"


def test_error_of_undecodable_bytes_does_not_repeat_them() -> None:
    """It can be printed and put into JSON."""
    error = refused("note", "caf\udce9\x1b")
    assert error.message == r"'caf\udce9\x1b' is not valid UTF-8"


def test_leftmost_mistake_is_reported() -> None:
    assert "--limit" in refused("start", "--limit", "x", "--mode", "y", "--nope").message
    assert "--nope" in refused("start", "--nope", "--limit", "x").message


def test_help_ignores_mistakes_after_it() -> None:
    """Not those before it."""
    assert read("--help").command is None
    assert read("start", "-h").path == ("start",)
    assert read("--help", "agent", "start").path == ("agent", "start")
    assert read("start", "--help", "--nonsense").globals.help
    assert read("--version").globals.version
    assert isinstance(refused("nonsense", "--help"), Usage)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["status", "--json"], True),
        (["--nonsense", "--json"], True),
        (["start", "--mode", "--json"], True),
        (["note", "--", "--json"], False),
        (["note", "--json is nice"], False),
        ([], False),
    ],
)
def test_json_is_detected_when_parsing_fails(argv: list[str], expected: bool) -> None:
    """Exactly if it stands before `--`."""
    assert wants_json(argv) is expected


VALID = st.sampled_from(
    [
        ["start", "goal", "--mode", "debug", "--tag", "a"],
        ["status"],
        ["agent", "start", "a1", "--type", "t"],
        ["agent", "progress", "a1", "-0.5"],
        ["device", "list"],
        ["validate", "a", "b"],
        ["run", "--timeout", "3", "--", "x", "--json"],
        ["note", "--", "-dash"],
    ]
)
GLOBAL_WORDS = st.lists(
    st.sampled_from(
        [["--json"], ["--quiet"], ["--no-color"], ["--project", "dir"], ["--store=url"], ["--at", "09:30"]]
    ),
    max_size=4,
)


@given(VALID, GLOBAL_WORDS, st.data())
def test_global_options_work_at_any_place(line: list[str], extra: list[list[str]], data: st.DataObject) -> None:
    expected = read(*[word for words in extra for word in words], *line)
    value_options = {"--mode", "--tag", "--type", "--timeout"}
    end = line.index("--") if "--" in line else len(line)
    places = [place for place in range(end + 1) if not (place and line[place - 1] in value_options)]
    moved: list[str] = []
    chosen = sorted(data.draw(st.sampled_from(places)) for _ in extra)
    for place in range(len(line) + 1):
        moved += [word for words, at in zip(extra, chosen, strict=True) if at == place for word in words]
        moved += line[place : place + 1]
    result = read(*moved)
    assert (result.path, result.values, result.rest) == (expected.path, expected.values, expected.rest)
    assert result.globals.values == expected.globals.values


WORDS = st.one_of(
    st.sampled_from(
        [
            "start",
            "agent",
            "device",
            "list",
            "run",
            "note",
            "--",
            "-",
            "--json",
            "--help",
            "--mode",
            "--mode=debug",
            "--limit",
            "--progress",
            "--since",
            "--expires",
            "--at",
            "-o",
            "-b",
            "-bo",
            "-1",
            "1e5",
            "=",
            "--=",
            "---",
        ]
    ),
    st.text(st.characters(), max_size=8),
    st.builds(
        "{}={}".format,
        st.sampled_from(["--at", "--since", "--limit", "--progress", "--expires"]),
        st.text(max_size=12),
    ),
    st.builds(
        "--at={:04}-{:02}-{:02}T{:02}:00:60{}".format,
        st.integers(0, 9999),
        st.integers(0, 13),
        st.integers(0, 32),
        st.integers(0, 25),
        st.sampled_from(["Z", "+23:59", "-2359", ""]),
    ),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(WORDS, max_size=7))
def test_any_words_are_parsed_or_refused(argv: list[str]) -> None:
    """Always with the same result, and a printable error of ours."""
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(repr(read(*argv).values))
        except HoldfastError as error:
            (error.message + (error.hint or "")).encode()
            outcomes.append(f"{error.kind} {error.message} {error.hint}")
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].startswith(("{", "usage ", "invalid "))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_can_be_given_after_two_dashes(text: str) -> None:
    assert read("note", "--", text).need("text") == text


@given(st.integers(-(10**15) + 1, 10**15 - 1))
def test_integers_are_parsed_exactly(number: int) -> None:
    """Up to 15 digits, as every JSON reader keeps them."""
    assert read("start", "x", f"--limit={number}").integer("limit") == number


def test_suggestions_are_close_and_the_closest_comes_first() -> None:
    """For swapped, missing and wrong letters and for beginnings."""
    names = ["start", "status", "stats", "stop"]
    assert similar_words("statsu", names)[0] == "status"
    assert similar_words("st", names) == ["start", "status", "stats"]
    assert similar_words("stpo", names)[0] == "stop"
    assert similar_words("elephant", names) == []
    assert similar_words("x" * 10_000, names) == []


def test_table_of_these_tests_has_no_faults() -> None:
    assert faults(COMMANDS) == []


def test_program_table_has_no_faults_and_existing_handlers() -> None:
    """Each handler is a function of its module in `cli/commands`."""
    assert faults(table.COMMANDS) == []
    pending = list(table.COMMANDS)
    for command in pending:
        pending += command.verbs
        if command.handler:
            module, _, function = command.handler.partition(":")
            assert callable(getattr(import_module(f"holdfast.cli.commands.{module}"), function)), command.handler


def test_faults_of_a_table_are_detected() -> None:
    """One sentence each."""
    table = (
        Command("a", "", (Argument("x", "", many=True), Argument("x", "", kind="flag")), group="g"),
        Command("a", "s", (Argument("x", "", required=False), Argument("y", "")), "no-colon"),
        Command("-b", "s", (Option(("--json",), ""), Option(("no",), "", kind="flag", many=True)), "x:y", group="g"),
        Command(
            "c", "s", (Option(("--k",), ""), Option(("--k",), "", name="other")), "x:y", either=(("--l",),), group="g"
        ),
    )
    assert faults(table) == [
        "a stands twice in the program",
        "a: x stands twice in its parameters",
        "a: it has no summary",
        "a: nothing runs it",
        "a: X takes all, and X follows",
        "a: X is an argument and cannot be a flag",
        "a: handler 'no-colon' is not module:function",
        "a: it has no group",
        "a: X may be left out, and Y after it not",
        "-b: its name cannot be typed",
        "-b: --json is a global option",
        "-b: 'no' is not a flag",
        "-b: no is a flag and has no value to choose, repeat or require",
        "c: --k stands twice in its options",
        "c: either names --l, which it has not",
        "c: '--k' is not a flag",
        "c: '--k' is not a flag",
    ]


def test_usage_line_has_the_contracts_notation() -> None:
    """Required parts bare, optional ones in brackets, alternatives with a bar."""
    by_name = {command.name: command for command in COMMANDS}
    agent_start = by_name["agent"].verbs[0]
    assert usage(["agent", "start"], agent_start) == "holdfast agent start ID --type TYPE"
    assert usage(["stop"], by_name["stop"]) == "holdfast stop [--keep | --discard]"
    assert usage(["run"], by_name["run"]) == "holdfast run [--timeout N] -- COMMAND…"
    assert usage(["device"], by_name["device"]) == "holdfast device [list] [NAME] [--long]"
    assert usage(["validate"], by_name["validate"]) == "holdfast validate PATH…"
    assert "[--mode debug|default|optimize|release] [--tag TAG…]" in usage(["start"], START)


def test_program_help_lists_all_commands_and_global_options() -> None:
    """Each under its heading."""
    text = help_text(COMMANDS, (), Paint(80))
    lines = text.split("\n")
    for command in COMMANDS:
        assert any(line.split()[:1] == [command.name] and command.summary in line for line in lines)
    assert lines.index("Sessions") < lines.index("Work") < lines.index("Formats")
    assert all(option.label in text for option in GLOBALS)


@pytest.mark.parametrize("path", [(), ("start",), ("agent",), ("agent", "start"), ("run",), ("device", "list")])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_fits_the_terminal_with_and_without_colour(path: tuple[str, ...], width: int) -> None:
    plain = help_text(COMMANDS, path, Paint(width))
    assert max(len(line) for line in plain.split("\n")) <= width
    coloured = help_text(COMMANDS, path, Paint(width, colour=True))
    assert "\x1b[" in coloured
    stripped = "".join(part.split("m", 1)[1] if n else part for n, part in enumerate(coloured.split("\x1b[")))
    assert stripped == plain


def test_help_shows_what_each_option_accepts() -> None:
    """Choices, repetition, whether it is required, and the type of its value."""
    text = help_text(COMMANDS, ("start",), Paint(100))
    assert "debug|default|optimize|release" in text
    assert "a word to find it by (may be repeated)" in text
    assert "-o, --output FILE" in text
    assert "(required)" in help_text(COMMANDS, ("agent", "start"), Paint(100))
    assert help_text(COMMANDS, ("start",), Paint(80, ascii_only=True)).isascii()
