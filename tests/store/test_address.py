"""Addresses of stores: what is read as what, and that nothing secret of one is ever shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.core.errors import Failed, Invalid
from holdfast.store.address import PostgresAddress, SqliteAddress, address, open_store
from holdfast.store.sqlite import SqliteStore


def of_server(url: str) -> PostgresAddress:
    parsed = address(url)
    assert isinstance(parsed, PostgresAddress)
    return parsed


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX systems")
@pytest.mark.parametrize("url", ["sqlite:////a/b.db", "sqlite:///a/b.db", "sqlite://///a/./b.db"])
def test_a_file_has_one_address(url: str) -> None:
    """However it was written; and its own URL leads to it again."""
    parsed = address(url)
    assert parsed == SqliteAddress("/a/b.db")
    assert (parsed.kind, parsed.url, parsed.secret) == ("sqlite", "sqlite:////a/b.db", "sqlite:////a/b.db")
    assert (parsed.key, parsed.path) == ("/a/b.db", "/a/b.db")
    assert address(parsed.url) == parsed


def test_a_drive_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slash before the drive belongs to the URL."""
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os.path, "abspath", lambda path: path)
    parsed = address(r"sqlite:///C:\me\holdfast.db")
    assert parsed.path == r"C:\me\holdfast.db"
    assert address(parsed.url) == parsed


def test_a_file_that_was_replaced_has_another_stamp(tmp_path: Path) -> None:
    """It says which file is there, not what it is called; nothing is known of one that is gone."""
    file, other = tmp_path / "one.db", tmp_path / "two.db"
    parsed = SqliteAddress(str(file))
    assert (parsed.is_there(), parsed.stamp()) == (False, None)
    file.touch()
    first = parsed.stamp()
    assert parsed.is_there()
    assert first is not None
    other.touch()
    os.replace(other, file)
    assert parsed.stamp() not in (None, first)


def test_a_store_in_a_file_is_opened(tmp_path: Path) -> None:
    """The installation is not asked for: a file is of one home."""

    def never(_: bool) -> str | None:
        pytest.fail("nobody needs it")

    where = SqliteAddress(str(tmp_path / "store.db"))
    store = open_store(where, writer=lambda: "a" * 20, wall=lambda: 1, here=never)
    assert isinstance(store, SqliteStore)
    store.close()


# ── servers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://", "postgresql://"),
        ("postgres://ada:hunter2@db.example:5433/team", "postgresql://ada@db.example:5433/team"),
        ("postgresql://ada:@db/team", "postgresql://ada@db/team"),
        ("postgresql://:hunter2@db/team", "postgresql://db/team"),
        ("postgresql:///team?host=/var/run/pg&user=ada", "postgresql://ada@/team?host=/var/run/pg"),
        ("postgresql://%2Fvar%2Frun%2Fpg/team", "postgresql:///team?host=/var/run/pg"),
        ("postgresql://ada:hunter2@[::1]:5432,b:5433/team", "postgresql://ada@[::1]:5432,b:5433/team"),
        ("postgresql://a,b/team?port=7", "postgresql://a:7,b:7/team"),
        ("postgresql://a%40b:hunter2?/#@db/t", None),
        ("postgresql://a%40b:hunter2?#@db/t", "postgresql://a%40b@db/t"),
        ("postgresql://db/team?sslmode=require&password=hunter2", "postgresql://db/team?sslmode=require"),
        ("postgresql://db/t?pass%77ord=hunter2&sslpassword=hunter2&passfile=/hunter2", "postgresql://db/t"),
        ("postgresql://db/t?options=-c%20my.key%3Dhunter2", "postgresql://db/t"),
        (
            "postgresql://db/t?vault=crew&application_name=x%0Ay",
            "postgresql://db/t?application_name=x%0Ay&vault=crew",
        ),
        ("postgresql://é:hunter2@db/tëam", "postgresql://%C3%A9@db/t%C3%ABam"),
    ],
)
def test_what_is_shown_of_a_server(url: str, shown: str | None) -> None:
    """Without a password and in one way of writing, which leads to the same address."""
    if shown is None:
        with pytest.raises(Invalid) as caught:
            address(url)
        assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
        return
    parsed = of_server(url)
    assert (parsed.kind, parsed.url, parsed.key, parsed.path) == ("postgresql", shown, shown, None)
    assert (parsed.secret, parsed.is_there(), parsed.stamp()) == (url, True, 0)
    assert "hunter2" not in f"{parsed} {parsed!r} {[parsed]} {parsed.url}"
    assert parsed.hides == ("hunter2" in url)
    assert of_server(shown).url == shown
    assert not of_server(shown).hides


@pytest.mark.parametrize(
    "url",
    [
        "mysql://hunter2@x", "hunter2", "", "sqlite:hunter2", "/hunter2", "sqlite://", "sqlite:///", "sqlite:///\0",
        "postgresql:hunter2", "postgresql://a:b@hunter2@db/t", "postgresql://a:hunter2/b@db/t",
        "postgresql://a:5/hunter2@db/t", "postgresql://db:hunter2/t", "postgresql://db/t?hunter2",
        "postgresql://db/t?hunter2=1", "postgresql://db/t?user=a=hunter2", "postgresql://a:%hunter2@db",
        "postgresql://a:%00hunter2@db", "postgresql://a:%ffhunter2@db", "postgresql://a b hunter2/t",
        "postgresql://a:hunter2\n@db", "postgresql://[::1hunter2/t", "postgresql://[::1]hunter2/t",
        "postgresql://a:5/b?user=hunter2@db", "postgresql://hunter2 /", "postgresql://\udcffhunter2@db",
        "postgresql://db/" + "hunter2" * 600,
    ],
)  # fmt: skip
def test_what_is_refused_is_not_repeated(url: str) -> None:
    """Nobody knows which part of it is the password."""
    with pytest.raises(Invalid) as caught:
        address(url)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint} {caught.value.file}"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
HOSTS = st.sampled_from(["", "db", "db.example", "10.0.0.1", "[::1]", "%2Fvar%2Frun", "a,b", "a,[::2]"])
SECRET = st.text(st.sampled_from("hunter2@/:?#%&= é\n"), min_size=1, max_size=12)


@given(user=WORDS, password=SECRET, host=HOSTS, port=st.sampled_from(["", ":1", ":65535"]), database=WORDS)
def test_url_with_escaped_password_is_parsed(user: str, password: str, host: str, port: str, database: str) -> None:
    """Any name and any password, if what is special in them is spelled out: read as meant, shown without it."""
    before = f"postgresql://{quote(user, safe='')}"
    after = f"@{host}{port if ',' not in host else ''}/{quote(database, safe='')}"
    parsed = of_server(f"{before}:{quote(password, safe='')}{after}")
    assert (parsed.parameters.get("user", ""), parsed.parameters["password"]) == (user, password)
    assert parsed.parameters.get("dbname", "") == database
    assert parsed.hides
    # The password leaves no trace: shown is what would be shown without it.
    assert parsed.url == of_server(before + after).url
    assert of_server(parsed.url).url == parsed.url
    assert parsed.url.isascii()
    assert parsed.url.isprintable()


@given(st.text(st.sampled_from("ab1:@/?#&=%20[],.é"), max_size=24))
@example("a:b@c/d?host=/e&port=5")
@example("a:p?w#@b")
@example("a:b/c@d")
@example("a,b:1,c:2/d?user=x")
@example("[::1]:2/d")
@example("[]")
def test_url_is_parsed_as_libpq_parses_it(rest: str) -> None:
    """Stricter than libpq, but never otherwise: no part of a password is taken for something else."""
    conninfo = pytest.importorskip("psycopg.conninfo")
    url = f"postgresql://{rest}"
    try:
        parsed = of_server(url)
    except Invalid:
        return
    assume("vault" not in parsed.parameters)
    theirs = conninfo.conninfo_to_dict(url)
    assert _something(parsed.parameters) == _something(theirs)
    shown = conninfo.conninfo_to_dict(parsed.url)
    assert _something(shown) == {name: value for name, value in _something(theirs).items() if name != "password"}


def _something(parameters: Mapping[str, object]) -> dict[str, str]:
    """Hosts and ports are told with a comma between them, even where there are none; one port is of all hosts."""
    present = {name: str(value) for name, value in parameters.items() if str(value).strip(",")}
    if "port" in present and len(set(present["port"].split(","))) == 1:
        present["port"] = present["port"].split(",")[0]
    return present


def test_nothing_of_postgresql_is_loaded_before_it_is_needed() -> None:
    """Reading an address and opening a file must not cost what a server costs."""
    code = (
        "import sys\n"
        "from holdfast.store.address import address\n"
        "address('postgresql://u:p@h/d').url\n"
        "print(sorted({'psycopg', 'psycopg_pool', 'holdfast.store.postgres'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_missing_extra_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not in the words of Python."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Failed, match=r"holdfast\[postgres\]") as caught:
        open_store(of_server("postgresql://u:p@h/d"), writer=str, wall=int, here=lambda _: None)
    assert "pip install 'holdfast[postgres]'" in str(caught.value.hint)
