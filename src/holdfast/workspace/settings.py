"""Settings: their defaults and ranges, the files that set them, and changing them.

`config.toml` in the home is read first, then `.holdfast.toml` in the project. A project's file comes with the
repository, so it may set only what can do no harm, such as the timer and listings.

An unreadable file stops no command: its settings have their defaults, and the problem is reported by
surfaces and `doctor`. But nothing leaves Holdfast by itself while it is unknown whether the person allowed it: see
`Setting.unread`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.core import limits
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.events import TimerRules
from holdfast.core.reminders import LIMITS, NEVER
from holdfast.core.times import DAY, MINUTE
from holdfast.machine import files
from holdfast.machine.private_paths import refuse_leading_outside

PROJECT_FILE = ".holdfast.toml"
OFF_VALUE = "off"
_LEFT_OUT = "Correct the file, or move it away; until then its settings are ignored."


class Setting(NamedTuple):
    name: str
    default: int | float | str | bool
    about: str
    low: float = 0
    high: float = 0
    project: bool = True
    choices: tuple[str, ...] = ()
    # Whether it can be switched off: the value is then OFF_VALUE.
    can_be_off: bool = False
    # The value while a file that may set it cannot be read; None: as without that file. A project's file may set such
    # a setting only to this value.
    unread: bool | None = None


SETTINGS: tuple[Setting, ...] = (
    Setting("timer.idle_minutes", 5, "a longer gap between two signs of activity is a pause", 0.01, 1440),
    Setting("timer.task_minutes", 10, "an agent's longer run in the foreground is a pause", 0.01, 1440),
    Setting("timer.break_minutes", 40, "working time at which a break is suggested", 0.01, 10080, can_be_off=True),
    Setting("timer.warning_minutes", 60, "working time at which a break is urged", 0.01, 10080, can_be_off=True),
    Setting(
        "timer.timeout_minutes",
        90,
        "working time at which you are reminded a last time, or the session pauses",
        0.01,
        10080,
        can_be_off=True,
    ),
    Setting(
        "timer.timeout_action",
        "remind",
        "at the time limit: `remind` says so, and counts since your last break; `pause` pauses the session, and "
        "counts all its working time (the default where the timer mirror is on)",
        choices=("pause", "remind"),
    ),
    Setting("timer.message_resumes", True, "your next prompt or message ends a pause"),
    Setting("history.archive_after_days", 7, "finished sessions count as archived after this many days", 0, 36500),
    Setting("history.limit", 20, "how many sessions `history` shows", 1, 100_000),
    Setting(
        "contract.model",
        "sonnet",
        "the name in contract files of a model that contract 1.0 does not list",
        choices=("gemini", "opus", "sonnet"),
    ),
    Setting("capture.join_hours", 12, "new conversations join what you started or resumed, if active since", 0, 8760),
    Setting(
        "capture.briefing",
        True,
        "brief an agent on the project's unfinished session when it starts",
        unread=False,
    ),
    Setting("capture.block_at_timeout", False, "block prompts while the time limit's pause lasts", project=False),
    Setting("capture.notify", True, "reminders are shown as desktop notifications", project=False, unread=False),
    Setting("sync.background", True, "sync by itself after something was recorded", project=False, unread=False),
    Setting(
        "device.keys",
        "file",
        "where this device keeps its secret keys, once they are made",
        project=False,
        choices=("file", "keyring"),
    ),
    Setting("device.name", "", "what this device is called (default: its host name)", project=False),
)
_YES_OR_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
BY_NAME = {setting.name: setting for setting in SETTINGS}


class Settings:
    """The values in force, and the problems of the files they come from.

    `unread` maps each setting with an unknown value to the problem that hides it.
    """

    def __init__(
        self,
        values: dict[str, int | float | str | bool],
        problems: tuple[HoldfastError, ...] = (),
        unread: dict[str, HoldfastError] | None = None,
    ) -> None:
        self._values = values
        self._unread = unread or {}
        self.problems = problems

    def __getitem__(self, name: str) -> int | float | str | bool:
        fallback = BY_NAME[name].unread
        if fallback is not None and name in self._unread:
            return fallback
        return self._values.get(name, BY_NAME[name].default)

    def is_set(self, name: str) -> bool:
        """Whether a file sets it."""
        return name in self._values

    def known_value(self, name: str) -> int | float | str | bool:
        """The value, for an action that cannot be undone; raises the problem that hides it."""
        if name in self._unread:
            raise self._unread[name]
        return self[name]

    def number(self, name: str) -> float:
        value = self[name]
        assert isinstance(value, (int, float))
        return value

    @property
    def timer(self) -> TimerRules:
        def ms(name: str) -> int:
            value = self[f"timer.{name}_minutes"]
            return NEVER if value == OFF_VALUE else round(self.number(f"timer.{name}_minutes") * MINUTE)

        return TimerRules(
            idle=ms("idle"), task=ms("task"), break_40=ms("break"), warning_60=ms("warning"), timeout_90=ms("timeout")
        )

    @property
    def limits_off(self) -> frozenset[str]:
        """The limits of working time that are switched off."""
        timer = self.timer
        return frozenset(line for line in LIMITS if getattr(timer, line) == NEVER)

    @property
    def archive_after(self) -> int:
        return round(self.number("history.archive_after_days") * DAY)


def load(config: str, project: str | None) -> Settings:
    """The settings of a home and a project. Never raises: unreadable files are among the problems."""
    values: dict[str, int | float | str | bool] = {}
    problems: list[HoldfastError] = []
    unread: dict[str, HoldfastError] = {}
    sources: list[tuple[str, str | None]] = [(config, None)]
    if project is not None:
        sources.append((os.path.join(project, PROJECT_FILE), project))
    for path, root in sources:
        allowed = [item for item in SETTINGS if item.project or root is None]
        try:
            document = _document(path, root)
        except HoldfastError as error:
            problems.append(error)
            unread.update({item.name: error for item in allowed})
            continue
        # Unknown settings are those of another version. They, and settings that a project may not set, are ignored.
        for item in allowed:
            try:
                raw = _value_in(document, item, path)
                if raw is not None:
                    value = _checked(item, raw, path)
                    if root is None or item.unread is None or value == item.unread:
                        values[item.name] = value
                        unread.pop(item.name, None)
            except Invalid as error:
                error.hint = _LEFT_OUT
                unread[item.name] = error
                if all(error.message != other.message for other in problems):
                    problems.append(error)
    return Settings(values, tuple(problems), unread)


def describe_problem(problem: HoldfastError) -> str:
    """The message of a problem, with its file."""
    file = files.display_path(problem.file or "")
    return problem.message if file in problem.message else f"{file}: {problem.message}"


def find_setting(name: str) -> Setting:
    setting = BY_NAME.get(name)
    if setting is None:
        raise NotFound(f"unknown setting {name[:60]!a}", hint="holdfast config list shows all settings.")
    return setting


def parse(setting: Setting, text: str) -> int | float | str | bool:
    """A value as typed on the command line."""
    if isinstance(setting.default, str):
        return _checked(setting, text, setting.name)
    if isinstance(setting.default, bool):
        return _checked(setting, _YES_OR_NO.get(text.strip().lower(), text), setting.name)
    if setting.can_be_off and text.strip().lower() == OFF_VALUE:
        return OFF_VALUE
    try:
        # float() alone would also accept nan, 1_000, surrounding blanks and the digits of every script.
        if set(text) - set("+-.0123456789eE"):
            raise ValueError
        value: int | float = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        alternative = f" or {OFF_VALUE}" if setting.can_be_off else ""
        raise Invalid(f"{setting.name} must be a number{alternative}, not {text[:40]!a}") from None
    return _checked(setting, value, setting.name)


def change(config: str, setting: Setting, value: float | str | bool | None) -> None:
    """Set one value, or remove it with None; comments and order of the file stay."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    from holdfast.core import toml_text

    try:
        old = _text(config) if os.path.lexists(config) else ""
        toml_text.loads(old)  # checks limits, which tomlkit does not
        document = tomlkit.parse(old)
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise _unreadable(config, error) from None
    table, _, key = setting.name.partition(".")
    if value is None and key not in document.get(table, {}):
        return
    if table not in document:
        document[table] = tomlkit.table()
    if not isinstance(document[table], dict):
        raise Invalid(f"{table!r} in the settings is not a table", hint="Correct the file.", file=config)
    if value is None:
        del document[table][key]
        if not document[table]:
            del document[table]
    else:
        document[table][key] = value
    files.make_private_dir(os.path.dirname(config))
    files.write_atomic(config, tomlkit.dumps(document).encode(), follow_own_link=True)


def _unreadable(path: str, error: Exception) -> Invalid:
    return Invalid(f"the settings in {files.display_path(path)} cannot be read: {error}", hint=_LEFT_OUT, file=path)


def _text(path: str) -> str:
    return files.read_limited(path, limits.MAX_SETTINGS_SIZE, subject="the settings").decode("utf-8-sig")


def _document(path: str, root: str | None) -> dict[str, object]:
    """The content of a settings file; `root` is the project that contains it."""
    if not os.path.lexists(path):
        return {}
    from holdfast.core import toml_text

    try:
        if root is not None:
            refuse_leading_outside(path, root, "read")
        return toml_text.loads(_text(path))
    except ValueError as error:
        raise _unreadable(path, error) from None
    except HoldfastError as error:
        error.hint = _LEFT_OUT
        raise


def _value_in(document: dict[str, object], setting: Setting, path: str) -> object:
    """The value of a setting in a file; None if it is not set."""
    table, _, key = setting.name.partition(".")
    entries = document.get(table, {})
    if not isinstance(entries, dict):
        raise Invalid(f"{table!r} in the settings is not a table", file=path)
    return entries.get(key)


def _checked(setting: Setting, value: object, file: str) -> int | float | str | bool:
    if setting.choices:
        if isinstance(value, str) and value in setting.choices:
            return value
        raise Invalid(f"{setting.name} must be one of {', '.join(setting.choices)}", file=file)
    if isinstance(setting.default, bool):
        if isinstance(value, bool):
            return value
        raise Invalid(f"{setting.name} must be true or false", file=file)
    if isinstance(setting.default, str):
        if isinstance(value, str) and len(value) <= 100 and value.isprintable():
            return value
        raise Invalid(f"{setting.name} must be a short text", file=file)
    if setting.can_be_off and value == OFF_VALUE:
        return OFF_VALUE
    if isinstance(value, (int, float)) and not isinstance(value, bool) and setting.low <= value <= setting.high:
        return value
    alternative = f", or {OFF_VALUE}" if setting.can_be_off else ""
    raise Invalid(f"{setting.name} must be a number from {setting.low:g} to {setting.high:g}{alternative}", file=file)
