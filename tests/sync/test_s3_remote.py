"""An S3 remote with real servers: SeaweedFS honours conditions, rclone's server does not."""

from __future__ import annotations

import secrets
import subprocess
import sys
from datetime import timedelta
from typing import Final
from urllib.parse import quote

import pytest

from holdfast.core.errors import Failed, HoldfastError, NotFound, Refused
from holdfast.sync.remotes.base import Missing, ObjectInfo
from holdfast.sync.remotes.conformance import RemoteConformance
from holdfast.sync.remotes.s3 import S3Remote
from tests.sync.seaweed import S3Server, rclone, seaweed

RUN: Final = secrets.token_hex(8)


class TestS3Remote(RemoteConformance):
    """The suite of all remotes, in a real bucket."""

    def open_remote(self, where: str = "one") -> S3Remote:
        server = seaweed()
        return S3Remote.open(self._url(server, where), server.environ)

    def plant(self, name: str, data: bytes, where: str = "one") -> bool:
        """Signed by hand: the client sends only keys that are paths."""
        import httpx
        import obstore

        server = seaweed()
        remote = S3Remote.open(self._url(server, where), server.environ)
        place = remote._place
        address = f"{place.endpoint}/{place.bucket}/{quote(f'{place.prefix}/{name}')}?x-id="
        signed = obstore.sign(remote._client_for(address), "PUT", "x", timedelta(minutes=5))
        return httpx.put(signed, content=data, trust_env=False).is_success

    def _url(self, server: S3Server, where: str) -> str:
        return server.url(f"{RUN}/{self.place.name}/{where}")


@pytest.fixture
def server() -> S3Server:
    return seaweed()


@pytest.fixture
def remote(server: S3Server) -> S3Remote:
    return S3Remote.open(server.fresh(), server.environ, create=True)


def test_prefixes_are_separate(server: S3Server) -> None:
    """Two remotes in one bucket see nothing of each other, whatever characters the prefixes contain."""
    odd = server.fresh().replace("?", "/a%20b=c+(d)!'@/.e?")
    one, two = S3Remote.open(odd, server.environ), S3Remote.open(server.fresh(), server.environ)
    one.put([("vault", b"one")])
    assert one.list("") == [ObjectInfo("vault", 3)]
    assert one.get("vault", 3) == b"one"
    assert two.list("") == []
    assert S3Remote.open(one.url, server.environ).get("vault", 3) == b"one"


def test_probe_leaves_no_objects(remote: S3Remote) -> None:
    remote.probe()
    assert remote.list("") == []


def test_s3_server_is_refused_when_it_overwrites() -> None:
    """rclone's server ignores conditions: adding the remote detects it and leaves no objects."""
    with rclone() as server:
        with pytest.raises(Refused, match="overwrites") as caught:
            S3Remote.open(server.fresh(), server.environ, create=True)
        assert "conditional writes" in (caught.value.hint or "")
        assert S3Remote.open(server.url(), server.environ).list("") == []


def test_missing_bucket_is_named(server: S3Server) -> None:
    """It is never created, and not mistaken for a missing object."""
    remote = S3Remote.open(server.url("x", bucket="nobodys-bucket"), server.environ)
    calls = (
        remote.probe,
        lambda: remote.list(""),
        lambda: remote.get("vault", 1),
        lambda: remote.put([("vault", b"")]),
        lambda: remote.put([], remove=["vault"]),
    )
    for call in calls:
        with pytest.raises(NotFound, match="nobodys-bucket") as caught:
            call()
        assert not isinstance(caught.value, Missing)
        assert caught.value.hint


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_keys_are_a_permanent_error(server: S3Server, name: str) -> None:
    """The hint says what to check, and no key is shown."""
    environ = {**server.environ, name: "wrongwrongwrong"}
    remote = S3Remote.open(server.fresh(), environ)
    for call in (remote.probe, lambda: remote.list("h/"), lambda: remote.get("vault", 1)):
        with pytest.raises(Failed) as caught:
            call()
        assert "AWS_ACCESS_KEY_ID" in (caught.value.hint or "")
        assert not caught.value.retry_helps
        for secret in ("wrongwrong", server.key, server.secret):
            assert secret not in _full_text(caught.value)


def test_client_is_loaded_only_when_a_remote_is_opened() -> None:
    code = "import sys, holdfast.sync.remotes.s3; sys.exit(any(n.split('.')[0] == 'obstore' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _full_text(error: HoldfastError) -> str:
    assert error.__suppress_context__
    return f"{error!r} {error} {error.hint} {error.__cause__!r}"
