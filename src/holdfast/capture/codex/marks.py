"""Marks for what is told in a story: the ids an agent gave things, made unique where it gave one twice."""

from __future__ import annotations


class Marks:
    def __init__(self) -> None:
        self._given: set[str] = set()
        self._again: dict[str, int] = {}

    def mark(self, name: str) -> str:
        """The name itself, or one with a number; the same for the same names in the same order."""
        mark = name
        while mark in self._given:
            count = self._again[name] = self._again.get(name, 0) + 1
            mark = f"{name}#{count}"
        self._given.add(mark)
        return mark
