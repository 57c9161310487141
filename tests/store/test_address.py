"""Store addresses: how URLs are parsed, and that no secret in one is ever shown."""

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


def postgres_address(url: str) -> PostgresAddress:
    parsed = address(url)
    assert isinstance(parsed, PostgresAddress)
    return parsed


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX systems")
@pytest.mark.parametrize("url", ["sqlite:////a/b.db", "sqlite:///a/b.db", "sqlite://///a/./b.db"])
def test_file_address_is_normalized(url: str) -> None:
    """However the path is written; and the address's own URL parses to the same address."""
    parsed = address(url)
    assert parsed == SqliteAddress("/a/b.db")
    assert (parsed.kind, parsed.url, parsed.secret) == ("sqlite", "sqlite:////a/b.db", "sqlite:////a/b.db")
    assert (parsed.key, parsed.path) == ("/a/b.db", "/a/b.db")
    assert address(parsed.url) == parsed


def test_windows_drive_address_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slash before the drive letter belongs to the URL."""
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os.path, "abspath", lambda path: path)
    parsed = address(r"sqlite:///C:\me\holdfast.db")
    assert parsed.path == r"C:\me\holdfast.db"
    assert address(parsed.url) == parsed


def test_stamp_changes_when_the_file_is_replaced(tmp_path: Path) -> None:
    """It identifies the file, not its name; a missing file has none."""
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


def test_open_store_opens_a_file_without_an_installation_id(tmp_path: Path) -> None:

    def never(_: bool) -> str | None:
        pytest.fail("nobody needs it")

    where = SqliteAddress(str(tmp_path / "store.db"))
    store = open_store(where, writer=lambda: "a" * 20, wall=lambda: 1, installation=never)
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
def test_server_url_is_normalized_and_hides_the_password(url: str, shown: str | None) -> None:
    """The shown URL parses to the same shown URL."""
    if shown is None:
        with pytest.raises(Invalid) as caught:
            address(url)
        assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
        return
    parsed = postgres_address(url)
    assert (parsed.kind, parsed.url, parsed.key, parsed.path) == ("postgresql", shown, shown, None)
    assert (parsed.secret, parsed.is_there(), parsed.stamp()) == (url, True, 0)
    assert "hunter2" not in f"{parsed} {parsed!r} {[parsed]} {parsed.url}"
    assert parsed.hides == ("hunter2" in url)
    assert postgres_address(shown).url == shown
    assert not postgres_address(shown).hides


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
def test_invalid_url_is_not_quoted_in_the_error(url: str) -> None:
    """Any part of it may be the password."""
    with pytest.raises(Invalid) as caught:
        address(url)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint} {caught.value.file}"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
HOSTS = st.sampled_from(["", "db", "db.example", "10.0.0.1", "[::1]", "%2Fvar%2Frun", "a,b", "a,[::2]"])
SECRET = st.text(st.sampled_from("hunter2@/:?#%&= é\n"), min_size=1, max_size=12)


@given(user=WORDS, password=SECRET, host=HOSTS, port=st.sampled_from(["", ":1", ":65535"]), database=WORDS)
def test_url_with_escaped_password_is_parsed(user: str, password: str, host: str, port: str, database: str) -> None:
    """Any user, password and database name parse as meant when special characters are escaped."""
    before = f"postgresql://{quote(user, safe='')}"
    after = f"@{host}{port if ',' not in host else ''}/{quote(database, safe='')}"
    parsed = postgres_address(f"{before}:{quote(password, safe='')}{after}")
    assert (parsed.parameters.get("user", ""), parsed.parameters["password"]) == (user, password)
    assert parsed.parameters.get("dbname", "") == database
    assert parsed.hides
    # The shown URL is the same as without a password.
    assert parsed.url == postgres_address(before + after).url
    assert postgres_address(parsed.url).url == parsed.url
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
    """Stricter than libpq, but it never parses a URL differently: no part of a password is taken for
    something else.
    """
    conninfo = pytest.importorskip("psycopg.conninfo")
    url = f"postgresql://{rest}"
    try:
        parsed = postgres_address(url)
    except Invalid:
        return
    assume("vault" not in parsed.parameters)
    theirs = conninfo.conninfo_to_dict(url)
    assert _normalized(parsed.parameters) == _normalized(theirs)
    shown = conninfo.conninfo_to_dict(parsed.url)
    assert _normalized(shown) == {name: value for name, value in _normalized(theirs).items() if name != "password"}


def _normalized(parameters: Mapping[str, object]) -> dict[str, str]:
    """libpq lists hosts and ports with commas even where there are none; a single port applies to all hosts."""
    present = {name: str(value) for name, value in parameters.items() if str(value).strip(",")}
    if "port" in present and len(set(present["port"].split(","))) == 1:
        present["port"] = present["port"].split(",")[0]
    return present


def test_parsing_an_address_imports_no_postgresql_module() -> None:
    """Only commands that use a server pay for loading it."""
    code = (
        "import sys\n"
        "from holdfast.store.address import address\n"
        "address('postgresql://u:p@h/d').url\n"
        "print(sorted({'psycopg', 'psycopg_pool', 'holdfast.store.postgres'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_missing_extra_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Failed, match=r"holdfast\[postgres\]") as caught:
        open_store(postgres_address("postgresql://u:p@h/d"), writer=str, wall=int, installation=lambda _: None)
    assert "pip install 'holdfast[postgres]'" in str(caught.value.hint)
