"""Addresses of S3 remotes, and their credentials."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.errors import Failed, HoldfastError, Invalid, Refused
from holdfast.sync.remotes.s3 import S3Remote
from holdfast.sync.remotes.s3_server import (
    S3Keys,
    read_certificates,
    read_keys,
    read_place,
    refuse_endpoint_elsewhere,
)

ENV = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "verysecret"}


def test_address_has_bucket_prefix_endpoint_and_region() -> None:
    """Without an endpoint it is Amazon's, of the region."""
    place = read_place("s3://my-bucket/team/one/?region=eu-central-1", {})
    assert place[1:] == (
        "my-bucket", "team/one", "https://s3.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com",
        "eu-central-1",
    )  # fmt: skip
    assert place.url == "s3://my-bucket/team/one?region=eu-central-1"
    place = read_place("s3://b-1?endpoint=https://s3.example.org:9000/base/", {"AWS_REGION": "here"})
    assert place[1:] == ("b-1", "", "https://s3.example.org:9000/base", "s3.example.org", "here")
    assert read_place("s3://b-1", {"AWS_DEFAULT_REGION": "cn-north-1"}).host == "s3.cn-north-1.amazonaws.com.cn"
    assert read_place("s3://b-1", {}).region == "us-east-1"


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///x",
        "http://bucket/x",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket/ü",
        "s3://bucket/a%00b",
        "s3://bucket#x",
        "s3://bucket/x?endpoint=ftp://x",
        "s3://bucket/x?endpoint=https://",
        "s3://bucket/x?endpoint=https://[bad",
        "s3://bucket/x?endpoint=https://x:99999",
        "s3://bucket/x?endpoint=https://a?b",
        "s3://bucket/x?insecure=no",
        "s3://bucket/x?region=a/b",
        "s3://bucket/x?region=a&region=b",
        "s3://bucket/x?region=",
    ],
)
def test_invalid_address_is_refused(url: str) -> None:
    """The hint shows a valid one."""
    with pytest.raises(Invalid) as caught:
        read_place(url, {})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "message"),
    [("s3:///p", "names no bucket"), ("s3://b/p", "too short"), ("s3://b_!/p", "forbidden characters")],
)
def test_bucket_name_error_says_what_is_wrong(url: str, message: str) -> None:
    """No name, a short name and invalid characters have different errors."""
    with pytest.raises(Invalid, match=message):
        read_place(url, {})


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIDEXAMPLE:verysecret@bucket/x",
        "s3://bucket/x?secret_access_key=verysecret",
        "s3://bucket/x?endpoint=https://AKIDEXAMPLE:verysecret@host",
    ],
)
def test_s3_address_is_refused_with_keys(url: str) -> None:
    """The error does not repeat them."""
    with pytest.raises(Invalid) as caught:
        read_place(url, {})
    assert "verysecret" not in f"{caught.value} {caught.value.hint}"


def test_plain_http_is_refused_except_on_this_machine() -> None:
    """Elsewhere it needs an explicit option; names that only resemble this machine's do not count."""
    for host in ("127.0.0.1:8333", "localhost:8333", "[::1]:8333"):
        assert read_place(f"s3://bucket?endpoint=http://{host}", {}).endpoint == f"http://{host}"
    for host in ("10.0.0.1", "localhost.example.org", "127.0.0.1.example.org", "0.0.0.0"):
        with pytest.raises(Refused) as caught:
            read_place(f"s3://bucket?endpoint=http://{host}", {})
        assert "https" in (caught.value.hint or "")
    place = read_place("s3://bucket?endpoint=http://10.0.0.1&insecure=yes", {})
    assert read_place(place.url, {}) == place


def test_endpoint_of_the_environment_is_refused() -> None:
    """Ignoring it, or following it, would both surprise."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        environ = {name: "https://elsewhere.example.org"}
        assert "elsewhere" not in read_place("s3://bucket", environ).endpoint
        with pytest.raises(Invalid, match=name):
            refuse_endpoint_elsewhere(read_place("s3://bucket", environ), environ)
        refuse_endpoint_elsewhere(read_place("s3://bucket?endpoint=https://here.example.org", environ), environ)


def test_keys_of_the_environment_come_first(tmp_path: Path) -> None:
    """Half of them is an error, not a mixture."""
    home = _aws(tmp_path, "[default]\naws_access_key_id = other\naws_secret_access_key = other\n")
    assert read_keys({**ENV, "HOME": home}) == S3Keys("AKIDEXAMPLE", "verysecret", None)
    assert read_keys({**ENV, "AWS_SESSION_TOKEN": "t"}).token == "t"
    with pytest.raises(Failed, match="only one"):
        read_keys({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "HOME": home})


def test_keys_come_from_the_profile(tmp_path: Path) -> None:
    """The default or named profile, with its region; no token is taken from elsewhere."""
    home = _aws(
        tmp_path,
        "[default]\naws_access_key_id=k1\naws_secret_access_key=s1%x\n"
        "[work]\naws_access_key_id=k2\naws_secret_access_key=s2\naws_session_token=t2\n",
        "[default]\nregion=eu-west-1\n[profile work]\nregion=eu-west-2\n",
    )
    assert read_keys({"HOME": home, "AWS_SESSION_TOKEN": "stale"}) == S3Keys("k1", "s1%x", None)
    assert read_keys({"HOME": home, "AWS_PROFILE": "work"}) == S3Keys("k2", "s2", "t2")
    assert read_place("s3://bucket", {"HOME": home}).region == "eu-west-1"
    assert read_place("s3://bucket", {"HOME": home, "AWS_PROFILE": "work"}).region == "eu-west-2"
    elsewhere = {"AWS_SHARED_CREDENTIALS_FILE": f"{home}/.aws/credentials", "HOME": "/nowhere"}
    assert read_keys(elsewhere).key == "k1"


def test_profile_without_keys_is_refused_with_a_hint(tmp_path: Path) -> None:
    """Single sign-on and roles need the AWS program, which can export keys."""
    home = _aws(tmp_path, "", "[profile work]\nsso_session=corp\n")
    with pytest.raises(Failed, match="work") as caught:
        read_keys({"HOME": home, "AWS_PROFILE": "work"})
    assert "export-credentials" in (caught.value.hint or "")
    for environ in ({"HOME": home}, {}, {"HOME": home, "AWS_PROFILE": "nobody"}):
        with pytest.raises(Failed, match="no keys"):
            read_keys(environ)


def test_broken_settings_are_reported_without_contents(tmp_path: Path) -> None:
    """An invalid file, and a missing bundle of certificates."""
    home = _aws(tmp_path, "aws_secret_access_key = verysecret\n")
    with pytest.raises(Failed) as caught:
        read_keys({"HOME": home})
    assert "verysecret" not in f"{caught.value!r} {caught.value.hint}"
    assert caught.value.__suppress_context__
    with pytest.raises(Failed, match="AWS_CA_BUNDLE"):
        read_certificates({"AWS_CA_BUNDLE": str(tmp_path / "none.pem")})


def test_repr_shows_no_keys() -> None:
    assert "verysecret" not in repr(S3Keys("a", "verysecret", "b"))


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The S3 client is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(HoldfastError) as caught:
        S3Remote.open("s3://bucket", ENV)
    assert caught.value.hint == "Install it: pip install 'holdfast[s3]' (from a clone: pip install '.[s3]')"


def _aws(tmp_path: Path, keys: str, settings: str = "") -> str:
    os.makedirs(tmp_path / ".aws")
    (tmp_path / ".aws" / "credentials").write_text(keys)
    (tmp_path / ".aws" / "config").write_text(settings)
    return str(tmp_path)
