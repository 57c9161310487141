"""Secrets in whole documents: in any text, in keys, and in values under a telling key such as `password`."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.secrets.patterns import redact_document
from tests.support.secret_corpus import SHAPED, Sample, benign, secrets

SAMPLES = secrets(seed=44)
# Secrets that need no surrounding text: in a document they are values, not text that looks like a document.
BARE = [(kind, make(random.Random(7))) for kind, make in SHAPED.items()]
NAMED = ("password", "db_password", "api_key", "client_secret", "access_token", "passphrase")


def value(seed: int = 1) -> str:
    """A secret that only its key reveals."""
    return "Tr0ub4dor" + str(random.Random(seed).randrange(10, 99_999))


def everywhere(document: Json) -> str:
    """Every text of a document, keys included."""
    if isinstance(document, dict):
        return "\n".join(f"{key}\n{everywhere(item)}" for key, item in document.items())
    if isinstance(document, list):
        return "\n".join(everywhere(item) for item in document)
    return document if isinstance(document, str) else ""


def nested(text: str) -> Json:
    return {"goal": "Add login", "agents": [{"id": "a1", "own": [{"deep": ["before", text]}]}], "n": 1}


@pytest.mark.parametrize("sample", SAMPLES[::5], ids=lambda sample: sample.kind)
def test_secret_is_removed_from_any_text(sample: Sample) -> None:
    document = nested(sample.text)
    clean, kinds = redact_document(document)
    assert sample.secret not in everywhere(clean)
    assert sum(kinds.values()) >= 1
    assert isinstance(clean, dict)
    assert (clean["goal"], clean["n"]) == ("Add login", 1)


@pytest.mark.parametrize(("kind", "secret"), BARE, ids=[kind for kind, _ in BARE])
def test_secret_is_removed_from_keys(kind: str, secret: str) -> None:
    clean, kinds = redact_document({"env": {secret: "x", "other": [1]}})
    assert secret not in everywhere(clean)
    assert kinds == {kind: 1}
    assert isinstance(clean, dict)
    assert clean["env"] == {f"[redacted:{kind}]": "x", "other": [1]}


def test_redacted_keys_keep_their_separate_values() -> None:
    kind, make = next(iter(SHAPED.items()))
    chance = random.Random(3)
    one, other = make(chance), make(chance)
    mark = f"[redacted:{kind}]"
    clean, kinds = redact_document({one: "first", other: "second", mark: "third"})
    assert kinds == {kind: 2}
    assert clean == {f"{mark} 2": "first", f"{mark} 3": "second", mark: "third"}
    assert redact_document(clean).value is clean


@pytest.mark.parametrize("key", NAMED)
def test_value_is_removed_because_of_its_key(key: str) -> None:
    secret = value()
    for document in ({key: secret}, {"config": [{key: secret}]}, {key: [secret, "x"]}, {key: {"x": {key: secret}}}):
        clean, kinds = redact_document(document)  # type: ignore[arg-type]
        assert secret not in everywhere(clean)
        assert sum(kinds.values()) == 1
        assert list(clean) == list(document)  # type: ignore[arg-type]


def test_same_value_without_such_a_key_is_kept() -> None:
    document: Json = {"name": value(), "words": [value()]}
    assert redact_document(document).value is document


@pytest.mark.parametrize("harmless", ["", "null", "true", "see the vault", "required", "x\ny: z"])
def test_harmless_value_under_a_password_key_is_kept(harmless: str) -> None:
    document: Json = {"password": harmless}
    clean = redact_document(document)
    assert clean.value is document
    assert clean.counts == {}


def test_numbers_and_booleans_under_a_password_key_are_kept() -> None:
    document: Json = {"tokens": 1500, "password": None, "secret": True, "api_key": {"set": False}}
    assert redact_document(document).value is document


@pytest.mark.parametrize("sample", SAMPLES[::17], ids=lambda sample: sample.kind)
def test_redacting_a_document_again_changes_nothing(sample: Sample) -> None:
    once = redact_document({"text": sample.text, "password": value(), "list": [sample.text]})
    again = redact_document(once.value)
    assert again.value is once.value
    assert again.counts == {}


def test_secrets_of_a_document_are_counted_by_kind() -> None:
    kind, make = next(iter(SHAPED.items()))
    chance = random.Random(5)
    document: Json = {"a": make(chance), "b": [make(chance), {"c": f"with {make(chance)} and {make(chance)}"}]}
    assert redact_document(document).counts == {kind: 4}


_WORDS = st.sampled_from(["goal", "a", "note", "Add login", "x: y", "", "é", "2026-01-01T00:00:00Z", "t1"])
_DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=15,
)  # fmt: skip


@given(_DOCUMENTS)
def test_document_without_secrets_is_returned_unchanged(document: Json) -> None:
    before = copy.deepcopy(document)
    clean = redact_document(document)
    assert clean.value is document
    assert clean.counts == {}
    assert document == before


def test_harmless_texts_in_a_document_are_kept() -> None:
    document: Json = [item.text for item in benign()]
    clean = redact_document(document)
    assert clean.value is document, clean.counts


@given(_DOCUMENTS, st.sampled_from(BARE), st.data())
def test_redaction_does_not_change_its_input(document: Json, bare: tuple[str, str], data: st.DataObject) -> None:
    whole: Json = {"inner": document, "list": [document, bare[1]], data.draw(_WORDS): bare[1]}
    before = copy.deepcopy(whole)
    clean = redact_document(whole)
    assert whole == before
    assert bare[1] not in everywhere(clean.value)
    assert isinstance(clean.value, dict)
    assert clean.value["inner"] is document
