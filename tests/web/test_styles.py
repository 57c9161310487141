"""The style sheets: every class they name is one that pages use."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast import web

SOURCE = Path(web.__file__).parent


def test_every_class_in_a_style_sheet_is_used_by_a_page() -> None:
    """A class that is renamed in a template alone would lose its style without any error."""
    users = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html"), *SOURCE.rglob("*.js")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in users)
    # A word in a comment or a docstring is no use of a class.
    code = re.sub(r'"""[^"]*"""', "", text)
    quoted = re.findall(r"""["'`]([^"'`\n]*)["'`]""", code) + re.findall(r'class="([^"]+)"', text)
    used = {word for words in quoted for word in re.findall(r"[A-Za-z][\w-]*", words)}
    used |= {words.replace(" ", "-") for words in re.findall(r'"([a-z]+ [a-z]+)"', text)}  # "not landed"
    composed = tuple(re.findall(r'class="(?:[\w -]* )?([a-z]+-?)\{', text))  # pause-{}, with the kind of pause
    orphans = {
        f"{sheet.name}: .{name}"
        for sheet in SOURCE.rglob("*.css")
        for selector in re.findall(
            r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        )
        for name in re.findall(r"\.([A-Za-z][\w-]*)", selector)
        if name not in used and not name.startswith(composed)
    }
    assert orphans == set()
