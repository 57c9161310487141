"""`holdfast config get|set|unset|list`: settings."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Column
from holdfast.workspace import settings


def get(call: Call) -> None:
    which = settings.find_setting(call.parsed.need("name"))
    value = _in_force(call, which.name)
    call.answer({"name": which.name, "value": value}, lambda paint: paint.plain(str(value)))


def _in_force(call: Call, name: str) -> int | float | str | bool:
    """The value that holds here. What the time limit does depends on the timer's mirror, unless it is set."""
    if name == "timer.timeout_action":
        return "pause" if call.keeper.limit_rule().pauses else "remind"
    return call.keeper.settings[name]


def set_(call: Call) -> None:
    which = settings.find_setting(call.parsed.need("name"))
    value = settings.parse(which, call.parsed.need("value"))
    settings.change(call.keeper.home.config, which, value)
    call.answer(
        {"name": which.name, "value": value},
        lambda paint: "" if call.quiet else paint.plain(f"{which.name} = {value}"),
    )


def unset(call: Call) -> None:
    which = settings.find_setting(call.parsed.need("name"))
    settings.change(call.keeper.home.config, which, None)
    call.answer(
        {"name": which.name, "value": which.default},
        lambda paint: "" if call.quiet else paint.plain(f"{which.name} = {which.default}, the default"),
    )


def list_(call: Call) -> None:
    chosen = {setting.name: _in_force(call, setting.name) for setting in settings.SETTINGS}
    found = [
        {"name": setting.name, "value": chosen[setting.name], "default": setting.default, "about": setting.about}
        for setting in settings.SETTINGS
    ]
    problems = [
        {"file": error.file, "message": error.message, "hint": error.hint}
        for error in call.keeper.settings_problems()
    ]
    rows = [(setting.name, str(chosen[setting.name]), setting.about) for setting in settings.SETTINGS]
    columns = [Column("Setting", least=26), Column("Value", "right"), Column("", weight=1, style="dim")]
    call.answer({"settings": found, "problems": problems}, lambda paint: paint.table(rows, columns))
