"""Moving a scope on its hill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.keeper import hills
from holdfast.keeper.wording import one_line
from holdfast.web.actions.said import Form, Said, nearest, said
from holdfast.web.charts.hill import LAST, WORDS

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def move(keeper: Keeper, reference: str, form: Form) -> Said:
    there, session = nearest(keeper, reference)
    scope, position = form.get("scope", "").strip(), _position(form.get("position", ""))
    hills.move(there, session, scope, position)
    return said(f"{one_line(scope)[:60]}: {position} of {LAST}, {WORDS[position]}.", there)


def _position(written: str) -> int:
    text = written.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and int(text) <= LAST):
        raise Invalid("that is no position on the hill", hint=f"A whole number from 0, not started, to {LAST}, done.")
    return int(text)
