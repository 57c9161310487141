"""Secrets are removed completely, harmless text is kept, and neither takes quadratic time."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core.secrets.patterns import SECRET_KINDS, redact
from tests.support import secret_corpus as corpus

SECRETS = corpus.secrets()
BENIGN = corpus.benign()
MARK = re.compile(r"\[redacted:([a-z0-9_]+)\]")
MIB = 1 << 20


# --- the corpus


def test_corpus_has_500_secrets_of_25_kinds_and_2000_harmless_texts() -> None:
    """And is the same in every run."""
    assert len({sample.text for sample in SECRETS}) >= 500
    assert len({sample.kind for sample in SECRETS}) >= 25
    assert len({line.text for line in BENIGN}) >= 2000
    assert corpus.secrets() == SECRETS
    assert corpus.benign() == BENIGN


def test_secrets_of_the_corpus_are_removed() -> None:
    """Of every kind, in every context."""
    survivors = [(sample.kind, sample.text) for sample in SECRETS if sample.secret in redact(sample.text).text]
    assert survivors == []


def test_removed_secrets_leave_less_than_a_third_behind() -> None:
    """At neither edge."""
    survivors = []
    for sample in SECRETS:
        kept = MARK.sub("\0", redact(sample.text).text)
        size = max(8, len(sample.secret) // 3)
        pieces = {sample.secret[at : at + size] for at in range(len(sample.secret) - size + 1)}
        if any(piece in kept for piece in pieces):
            survivors.append((sample.kind, sample.text, kept))
    assert survivors == []


def test_tokens_with_a_known_prefix_are_counted_under_their_kind() -> None:
    misnamed = Counter(
        (sample.kind, *redact(sample.text).counts)
        for sample in SECRETS
        if sample.kind in corpus.SHAPED and sample.kind not in redact(sample.text).counts
    )
    assert misnamed == {}


def test_harmless_texts_are_changed_in_at_most_2_percent() -> None:
    hits = [line.text for line in BENIGN if redact(line.text).text != line.text]
    assert len(hits) <= len(BENIGN) * 0.02, hits


@pytest.mark.parametrize("family", corpus.KEPT)
def test_hashes_ids_and_paths_are_kept(family: str) -> None:
    assert [line.text for line in BENIGN if line.family == family and redact(line.text).text != line.text] == []


@pytest.mark.parametrize(
    "text",
    [
        "password=***",
        "$PASSWORD",
        "PASSWORD=${PASSWORD}",
        "token: <your-token>",
        'token = os.environ["TOKEN"]',
        "password: str",
        "token = None",
        "max_tokens=4096",
        "tokens used: 25000",
        "password reset flow",
        "password=password",
        "password == confirmation",
        "the --password option",
        "PWD=/home/bob/work/2024",
        "after login the password is asked for",
        "see -----BEGIN " + "PRIVATE KEY----- and -----END " + "PRIVATE KEY-----",
        "http://localhost:8080/a@b",
    ],
)
def test_placeholders_types_and_prose_are_kept(text: str) -> None:
    """Text that stands for a secret, or is about one."""
    assert redact(text) == (text, {})


# --- what exactly is taken


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("postgres://user:{}@host/db", "postgres://user:[redacted:connection_password]@host/db"),
        ("https://bob:{}@example.com/x?mail=a@b.c", "https://bob:[redacted:url_password]@example.com/x?mail=a@b.c"),
        ("PASSWORD={} make", "PASSWORD=[redacted:password] make"),
        ("psql --password {} --host h", "psql --password [redacted:password] --host h"),
        ('{{"password": "{}", "n": 1}}', '{{"password": "[redacted:password]", "n": 1}}'),
        ("/x?password={}&page=2", "/x?password=[redacted:password]&page=2"),
        ("Server=db;Password={};Timeout=3", "Server=db;Password=[redacted:password];Timeout=3"),
        ("<password>{}</password>", "<password>[redacted:password]</password>"),
        ('password: str = "{}"', 'password: str = "[redacted:password]"'),
        ("the password is {}.", "the password is [redacted:password]."),
    ],
)
def test_text_around_a_secret_is_kept(before: str, after: str) -> None:
    secret = "hunter" + "2"
    result = redact(before.format(secret))
    assert result.text == after.replace("{{", "{").replace("}}", "}")
    assert sum(result.counts.values()) == 1


def test_secrets_are_counted_by_kind() -> None:
    """Two tokens of one kind and one of another are three."""
    rng = random.Random(1)
    github, slack = corpus.SHAPED["github_token"], corpus.SHAPED["slack_token"]
    result = redact(f"{github(rng)} {slack(rng)} {github(rng)}")
    assert result.counts == {"github_token": 2, "slack_token": 1}


def test_quoted_password_with_an_escaped_quote_is_removed_completely() -> None:
    """The quote inside a JSON string does not end the secret."""
    assert redact(r'{"password": "abc\"def", "n": 1}').text == '{"password": "[redacted:password]", "n": 1}'


def test_positions_are_right_after_a_character_that_lowercases_to_two() -> None:
    """As `İ` does."""
    assert redact("İİİ PASSWORD=" + "hunter" + "2 İ").text == "İİİ PASSWORD=[redacted:password] İ"


def test_token_of_any_length_is_removed_completely() -> None:
    """100,000 characters like 40."""
    assert redact("ghp" + "_" + "a1" * 50_000).text == "[redacted:github_token]"
    assert redact("token=" + "a1" * 50_000).text == "token=[redacted:token]"
    assert redact('token="' + "a1" * 50_000 + '"').text == 'token="[redacted:token]"'


# --- laws

_fragments = st.sampled_from(
    [
        *(hint for kind in SECRET_KINDS for hint in kind.hints),
        *[sample.text for sample in SECRETS[::23]],
        *[
            "password",
            "=",
            ":",
            " ",
            "\n",
            '"',
            "'",
            "\\",
            "[redacted:",
            "]",
            "[redacted:jwt]",
            "@",
            "://",
            "--",
            "&",
        ],
        *[
            "a",
            "Z9",
            "x" * 40,
            "0f" * 20,
            "-----END PRIVATE KEY-----",
            "İ",
            "\0",
            "\ud800",
            "<",
            ">",
            "$",
            "{",
            ".",
            " is ",
        ],
    ]
)
_texts = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=200),
    st.lists(_fragments, max_size=14).map("".join),
)


@settings(max_examples=400, deadline=None)
@given(_texts)
@example("\ud800 password=\udfff\0abc1")
def test_redacting_again_changes_nothing(text: str) -> None:
    """For any text, including lone surrogates and NUL."""
    once = redact(text)
    assert redact(once.text) == (once.text, {})
    assert set(once.counts) <= {kind.name for kind in SECRET_KINDS}


@settings(max_examples=200, deadline=None)
@given(_texts)
def test_count_is_zero_exactly_when_nothing_changed(text: str) -> None:
    result = redact(text)
    assert bool(result.counts) == (result.text != text)
    assert not result.counts or MARK.search(result.text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=" \nbcdfghijlmnqruvxyz0123456789ABCÄß漢.,!?", max_size=400))
def test_text_without_any_hint_of_a_secret_is_returned_unchanged(text: str) -> None:
    """It is not even copied."""
    words = " ".join(word[:19] for word in text.split())
    assert redact(words).text is words


# --- the table


def test_kinds_are_fit_for_the_documentation() -> None:
    """Names are unique snake_case, descriptions one sentence, and there are at least 25."""
    names = [kind.name for kind in SECRET_KINDS]
    assert len(set(names)) == len(names) >= 25
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in names)
    assert all(re.fullmatch(r"[A-Z].{10,120}\.", kind.description) for kind in SECRET_KINDS)
    assert {sample.kind for sample in SECRETS} <= set(names)


# --- time


_UNITS = [
    "a", "=", " ", "\\", '"', "'", "[", "<", "password=", "password=<", "password: ", 'password="',
    "password='", 'password=\\"', "token=$", "PASSWORD=", "--password ", "secret=[redacted:", "api_key: {",
    "-----BEGIN", "-----BEGIN " + "PRIVATE KEY-----", "-----BEGIN " + "PRIVATE KEY-----\n" + "A" * 64 + "\n",
    "-----END PRIVATE KEY-----", "-", "eyJ", "eyJaaaaaaaa.", "eyJ.", ":@", "://", "://:@", "://a:",
    "postgres://a:b", "://a:b@", "sk-", "ghp" + "_", "xox" + "b-", "AKIA", "SG.", "dp.pt.", "glp" + "at-",
    "Bearer ", "authorization: ", "cookie: a=", "curl ", "curl -u ", "mysql ", "machine ",
    "identified by '", "aws ", "aws/", "0f", "0f-", "M.", "key-", "pass ", "pwd>", "<password>",
    "password is ", "secret_", "1//0", "Q~", "AccountKey=", "Private-Lines: 1\n", ".atlasv1.",
    "hooks.slack.com/services/", 'token="\\', "token=`", 'password: str="', "sha256~",
    "b3BlbnNzaC1rZXktdjEA", "aA1", "İ", "[redacted:jwt]",
]  # fmt: skip


@pytest.mark.parametrize("unit", _UNITS)
def test_redaction_of_64_kib_of_hard_beginnings_finishes(unit: str) -> None:
    """With quadratic time it would not."""
    text = unit * (MIB // 32 // len(unit))
    assert redact(redact(text).text).counts == {}


@pytest.mark.parametrize("unit", ["a", "=", "password=", "-----BEGIN", "eyJ", ":@"])
def test_redaction_of_a_mebibyte_finishes(unit: str) -> None:
    """And redacting again changes nothing."""
    once = redact(unit * (MIB // len(unit))).text
    assert redact(once).text == once


def test_import_compiles_no_pattern() -> None:
    """A process that never redacts pays only for the table."""
    code = (
        "import re; real = re.compile; calls = []\n"
        "re.compile = lambda *a: calls.append(a) or real(*a)\n"
        "import holdfast.core.secrets.patterns, holdfast.core.secrets.values as s\n"
        "print(len(calls), len(s._compiled))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["0", "0"]
