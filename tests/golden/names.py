"""Replaces random and machine-dependent values by placeholders, numbered in order of appearance.

Every run of the story has the same randomness, but a change of the program may draw it in another order, which must
not show. Placeholders are as long as the values they replace, so that tables stay aligned.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHECKOUT = str(Path(__file__).parents[2])
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HEX = r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{16,}"
AGE_KEY = r"age1[0-9a-z]{50,}"
BASE64 = r"(?=[A-Za-z0-9_+/-]*[0-9])(?=[a-z0-9_+/-]*[A-Z])(?=[A-Z0-9_+/-]*[a-z])[0-9A-Za-z_+-]{22,}={0,2}"
SECRET = r"AGE-SECRET-KEY-1[0-9A-Z]+|[0-9A-Za-z+/]{43}="
WORDS = r"[a-z]{3,8}(?:-[a-z]{3,8}){11,}"
RANDOM = re.compile(rf"(?<![0-9A-Za-z_+/-])(?:{UUID}|{AGE_KEY}|{SECRET}|{HEX}|{BASE64}|{WORDS})(?![0-9A-Za-z_+-])")
SHORT = re.compile(r"(?<![0-9A-Za-z_-])[0-9a-f]{6,15}(?![0-9A-Za-z_-])")
# The same within other text: parts of file names and of longer words.
WITHIN = re.compile(rf"{UUID}|(?<![0-9a-f])[0-9a-f]{{32,}}(?![0-9a-f])")
MEASURED = (
    (re.compile(r"'[^']*/site-packages'"), "'<site-packages>'"),
    (re.compile(r'("(?:pid|parent|inode|home|store|size)": ?)\d+'), r"\1<number>"),
    (re.compile(r'("store": ?"\w+\.)\d+'), r"\1<number>"),
    (re.compile(r'("command": .*\n.*"duration_ms": )\d+'), r"\1<number>"),
    (re.compile(r"(process\.started(?: +new +|\",\n.*\"text\": \"))\d+"), r"\1<ticks>"),
    (re.compile(r'("bytes": )\d{6,}|[\d,]{7,}(?= bytes)'), r"\1<number>"),
    (re.compile(r"pid:\[\d+\]"), "pid:[<number>]"),
    (re.compile(r"(/spool/\S*?)\.\d+\.\d+\.(?=home)"), r"\1.<parent>.<pid>."),
    (re.compile(r"\b1\d{18}\b(?<!0{9})"), "<nanoseconds>"),
    (re.compile(r'("started": ?)"\d+"'), r'\1"<ticks>"'),
    (re.compile(r'("keys": ?)"[0-9a-f]+-[0-9a-f]+-\d+"'), r'\1"<file>"'),
    (re.compile(r'("boot": ?)"[^"]*"'), r'\1"<boot>"'),
    (re.compile(r'("print": ?\[)[^]]*'), r"\1<numbers>"),
    (re.compile(r"[\d,]+ [KMG]iB are free"), "<number> MiB are free"),
    (re.compile(r'(data-(?:version|run|word)|name="word" value)="[^"]*"'), r'\1="<random>"'),
    (re.compile(r"kill -9 \d+ \d+"), "kill -9 <number> <number>"),
    (re.compile(r"\b\d+\.\d s, (?=\d+ commands)"), "<number> s, "),
    (re.compile(r'("seconds": ?)[\d.]+'), r"\1<number>"),
    (re.compile(r"(\.localhost|127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"(holdfast|pass|hf)[-_]?\d{4,5}(?=\b|=)"), r"\1<port>"),
    (re.compile(r"/tmp/holdfast-tour-\w+"), "/tmp/holdfast-tour-<random>"),
)


def stable(chapters: dict[str, str]) -> dict[str, str]:
    """The same record for every run; one placeholder means the same in all chapters."""
    whole = "\0".join(chapters.values())
    for path, stands_for in ((CHECKOUT, "<checkout>"), (sys.prefix, "<venv>"), (sys.base_prefix + "/", "<python>/")):
        whole = whole.replace(path, stands_for)
    names: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        random = match.group()
        if random not in names:
            names[random] = _placeholder(random, len(names) + 1)
        return names[random]

    whole = WITHIN.sub(named, RANDOM.sub(named, whole))
    beginnings = {random[:end]: name[:end] for random, name in reversed(names.items()) for end in range(6, 16)}

    def short(match: re.Match[str]) -> str:
        """The same beginning of a placeholder; some ids are shown by their beginning only, and begin with a 0."""
        beginning = match.group()
        if beginning not in beginnings and len(beginning) == 8 and beginning.startswith("0"):
            names[beginning] = beginnings[beginning] = f"{len(names) + 1:08d}"
        return beginnings.get(beginning, beginning)

    whole = SHORT.sub(short, whole)
    for pattern, text in MEASURED:
        whole = pattern.sub(text, whole)
    return dict(zip(chapters, whole.split("\0"), strict=True))


def _placeholder(random: str, number: int) -> str:
    if re.fullmatch(UUID, random):
        return f"{number:08d}-0000-4000-8000-{number:012d}"
    if re.fullmatch(HEX, random):
        return f"{number:08d}".ljust(len(random), "x")
    kind = "age1" if random.startswith("age1") else "words-" if re.fullmatch(WORDS, random) else "key-"
    return f"{kind}{number:05d}".ljust(len(random), "x")
