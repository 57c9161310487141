"""The hill chart."""

from __future__ import annotations

from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.web.charts import hill
from holdfast.web.charts.hill import NARROW, WIDE, Dot, HillSize, drawing

NAMES = st.text(min_size=1, max_size=60) | st.sampled_from(
    ("<script>hurt()</script>", '"><svg onload=x>', "名前" * 40)
)
SCOPES = st.lists(st.tuples(NAMES, st.integers(0, 10)), min_size=1, max_size=40)
LANDS = st.sampled_from((WIDE, NARROW))
Box = tuple[float, float, float, float]


def dots_of(scopes: list[tuple[str, int]]) -> list[Dot]:
    return [Dot(f"k{n}", name, at, "s-1", n + 1) for n, (name, at) in enumerate(scopes)]


def place(one: ET.Element) -> tuple[float, float]:
    x, y = one.attrib["transform"].removeprefix("translate(").removesuffix(")").split()
    return float(x), float(y)


def drawn(scopes: list[tuple[str, int]], land: HillSize) -> tuple[ET.Element, list[ET.Element]]:
    root = ET.fromstring(str(drawing(dots_of(scopes), land, "<Hill> & \x07")).replace("\x07", ""))
    return root, [element for element in root.iter("g") if "dot" in element.attrib["class"]]


@given(SCOPES, LANDS)
def test_every_scope_is_a_slider_inside_the_chart(scopes: list[tuple[str, int]], land: HillSize) -> None:
    """Well-formed for any names; each dot gives its position and the unchanged name."""
    root, dots = drawn(scopes, land)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert len(dots) == len(scopes)
    by_key = {dot.attrib["id"].partition("-")[2]: dot for dot in dots}
    for number, (name, at) in enumerate(scopes):
        one = by_key[f"k{number}"]
        x, y = place(one)
        assert 11 <= x <= width - 11
        assert 11 - 4 <= y <= height - 11
        assert one.attrib["role"] == "slider"
        assert one.attrib["aria-valuenow"] == str(at)
        assert one.attrib["aria-valuetext"] == f"{at} of 10, {hill.WORDS[at]}"
        assert unquote(one.attrib["data-scope"]) == name.encode(errors="replace").decode()


@given(SCOPES, LANDS)
def test_dots_and_names_do_not_overlap(scopes: list[tuple[str, int]], land: HillSize) -> None:
    """Dots at one position are fanned out; names without room are only in the list."""
    _, dots = drawn(scopes, land)
    places = [place(element) for element in dots]
    for number, (x, y) in enumerate(places):
        for other_x, other_y in places[:number]:
            assert max(abs(x - other_x), abs(y - other_y)) >= 22
    if land.named:
        boxes = [box for element in dots if (box := written(element)) is not None]
        for number, box in enumerate(boxes):
            assert box[0] >= 0
            assert box[2] <= land.width
            assert not any(overlap(box, other) for other in boxes[:number])
            assert not any(overlap(box, (x - 11, y - 11, x + 11, y + 11)) for x, y in places)


def written(one: ET.Element) -> Box | None:
    text = next((part for part in one.iter("text") if part.attrib.get("class") == "name"), None)
    if text is None:
        return None
    x, y = place(one)
    wide = hill._text_width(text.text or "")
    start = x + float(text.attrib["x"]) - (wide if text.attrib["text-anchor"] == "end" else 0)
    return start, y - 8, start + wide, y + 8


def overlap(one: Box, other: Box) -> bool:
    slack = 0.2  # places are written with one digit
    return (
        one[0] + slack < other[2]
        and other[0] + slack < one[2]
        and one[1] + slack < other[3]
        and other[1] + slack < one[3]
    )


@pytest.mark.parametrize("land", [WIDE, NARROW])
def test_hill_is_symmetric_and_highest_in_the_middle(land: HillSize) -> None:
    """Up to 5, then down, with flat ends."""
    heights = [hill.height_at(at, land.rise) for at in range(11)]
    assert heights[5] == max(heights) == land.rise
    assert heights[:6] == sorted(heights[:6])
    assert [round(item, 6) for item in heights] == [round(item, 6) for item in reversed(heights)]
    assert heights[0] == 0


def test_few_scopes_are_all_labelled() -> None:
    """The usual case needs no list."""
    _, dots = drawn([("auth", 4), ("exports", 8), ("search", 4), ("billing", 0), ("map", 10)], WIDE)
    assert all(written(element) is not None for element in dots)
