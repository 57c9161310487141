"""Parse the command line, run the command, and turn errors into a sentence and an exit code."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call, discard_rest, write_output
from holdfast.cli.grammar import parse, wants_json
from holdfast.cli.table import COMMANDS
from holdfast.core.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    json = wants_json(words)
    call: Call | None = None
    try:
        if not words:
            words = ["--help"]
        elif words[0] == "help":
            words = [*words[1:], "--help"]
        call = Call(parse(words, COMMANDS), dict(os.environ))
        if call.parsed.globals.version or call.parsed.globals.help or call.parsed.command is None:
            from holdfast.cli.help import show

            return show(call)
        code = _run(call)
        write_output()
        return code
    except HoldfastError as error:
        return _report_error(error, call, json=json)
    except KeyboardInterrupt:
        from holdfast.core.errors import Interrupted

        return _report_error(Interrupted("interrupted"), call, json=json)
    except BrokenPipeError:
        # The reader has ended (`| head`): no message would be read.
        discard_rest(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 (the last line of defence: a person never sees a traceback)
        from holdfast.cli.errors import unexpected

        return _report_error(unexpected(error, call), call, json=json)
    finally:
        if call is not None:
            _close(call)


def _run(call: Call) -> int:
    from importlib import import_module

    assert call.parsed.command is not None
    # Only the module of the command's topic is loaded. Completion is a script of the declarations alone.
    if call.parsed.command.name != "completion":
        import holdfast.cli.fast_msgspec_import  # noqa: F401 (first: it makes the other imports cheaper)
    module, _, function = call.parsed.command.handler.partition(":")
    run = getattr(import_module(f"holdfast.cli.commands.{module}"), function)
    code = run(call)
    call.print_notices()
    call.print_settings_problems()
    return int(code) if code is not None else 0


def _report_error(error: HoldfastError, call: Call | None, *, json: bool) -> int:
    from holdfast.cli.errors import report_error

    if call is not None and error.kind == "unreachable":
        error = call.explain_outage(error)
    if "postgres" in error.message:
        from holdfast.cli.passwords import redact

        error.message = redact(error.message)
    for as_json in (True, False) if json else (False,):
        try:
            report_error(error, call, json=as_json)
            break
        except (HoldfastError, OSError, ValueError, MemoryError):
            continue  # the exit code remains
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            discard_rest(stream)
    return error.exit_code


def _close(call: Call) -> None:
    try:
        call.close()
    except HoldfastError:
        return  # everything that was acknowledged is on the disk already


def _prepare_streams() -> None:
    """Make printing safe with any encoding of the terminal, and where the parent process closed a stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each takes its own number again, and no file of ours can end up under it.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
