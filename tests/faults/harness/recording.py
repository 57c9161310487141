"""Turns a trace of system calls into the changes of a disk, in order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

WORKLOAD: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workload.py")
_CALLS: Final = (
    "openat,creat,write,pwrite64,writev,pwritev,pwritev2,lseek,close,fsync,fdatasync,sync_file_range,rename,renameat,"
    "renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,ftruncate,truncate,fallocate,mkdir,mkdirat,"
    "copy_file_range,sendfile,sync,syncfs"
)
_LINE: Final = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
_FD: Final = re.compile(r"^(\d+|AT_FDCWD)<([^>]*)>(\(deleted\))?")
_HEX: Final = re.compile(r"\\x([0-9a-f]{2})")


class Op(NamedTuple):
    """One change of the disk.

    `write` (path, offset, data), `size` (path, offset), `sync` (path), `create`, `mkdir`, `unlink` (path), `rename`,
    `link` (path, other); or `ack`, with what was acknowledged.
    """

    kind: str
    path: str
    other: str = ""
    offset: int = 0
    data: bytes = b""
    promise: Mapping[str, Any] = MappingProxyType({})


def record(root: str, *, synchronous: str | None = None, workload: str = WORKLOAD) -> list[Op]:
    """Run a workload under strace in the empty directory `root`, and return what it did to the disk.

    A workload is a script that is called with ROOT and ACKS.
    """
    os.mkdir(os.path.join(root, "project"))
    trace, acks = root + ".trace", root + ".acks"
    subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", "10000000", "-o", trace, "-e", f"trace={_CALLS}",
         sys.executable, workload, root, acks, *([synchronous] if synchronous else [])],
        check=True, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    try:
        with open(trace, encoding="ascii") as file:
            return list(_ops(file, root, acks))
    finally:
        os.unlink(trace)
        os.unlink(acks)


def _joined_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines; a call that strace split because of another process is joined again."""
    begun: dict[str, str] = {}
    for line in lines:
        pid, _, rest = line.partition(" ")
        if rest.rstrip().endswith("<unfinished ...>"):
            begun[pid] = line.rstrip().removesuffix("<unfinished ...>").rstrip()
        elif "resumed>" in rest:
            yield begun.pop(pid) + rest.partition("resumed>")[2]
        else:
            yield line


def _ops(lines: Iterable[str], root: str, acks: str) -> Iterator[Op]:
    existing: set[str] = {root, os.path.join(root, "project")}
    offsets: dict[tuple[str, str], int] = {}
    for line in _joined_lines(lines):
        match = _LINE.match(line)
        if match is None or match[4].startswith("-"):
            continue
        pid, name, arguments, result = match.groups()
        first = _FD.match(arguments)
        path = _text(first[2]) if first else ""
        if path == acks and name == "write":
            yield Op("ack", "", promise=json.loads(_bytes(arguments.split(", ")[1])))
            continue
        op = _op(name, arguments, path, int(result), offsets, pid)
        if op is None or not (op.path + "/").startswith(root + "/") or op.path.endswith("-shm"):
            continue
        assert first is None or not first[3], f"a file without a name is written: {line[:200]}"
        for item in (op,) if op.kind != "open" else _opened(op, existing):
            _follow(item, existing)
            yield item


def _op(
    name: str, arguments: str, path: str, result: int, offsets: dict[tuple[str, str], int], pid: str
) -> Op | None:
    parts = arguments.split(", ")
    here = (pid, parts[0])
    match name:
        case "pwrite64":
            return Op("write", path, offset=int(parts[3]), data=_bytes(parts[1])[:result])
        case "write":
            at = offsets.get(here, 0)
            offsets[here] = at + result
            return Op("write", path, offset=at, data=_bytes(parts[1])[:result])
        case "lseek":
            offsets[here] = result
        case "close":
            offsets.pop(here, None)
        case "fsync" | "fdatasync":
            return Op("sync", path)
        case "ftruncate":
            return Op("size", path, offset=int(parts[1]))
        case "openat":
            flags = parts[2].split("|")
            if "O_CREAT" in flags or "O_TRUNC" in flags:
                return Op("open", _at(parts[0], parts[1]), other="O_TRUNC" if "O_TRUNC" in flags else "")
        case "mkdir":
            return Op("mkdir", _bytes(parts[0]).decode())
        case "unlink":
            return Op("unlink", _bytes(parts[0]).decode())
        case "unlinkat":
            return Op("unlink", _at(parts[0], parts[1]))
        case "rename" | "link":
            return Op(name, _bytes(parts[0]).decode(), _bytes(parts[1]).decode())
        case "renameat" | "renameat2" | "linkat":
            return Op(name.removesuffix("2").removesuffix("at"), _at(parts[0], parts[1]), _at(parts[2], parts[3]))
        case _:
            assert not path, f"a call that is not modelled: {name}({arguments[:200]}"
    return None


def _opened(op: Op, existing: set[str]) -> Iterator[Op]:
    if op.path not in existing:
        yield Op("create", op.path)
    elif op.other:
        yield Op("size", op.path, offset=0)


def _follow(op: Op, existing: set[str]) -> None:
    if op.kind in ("create", "mkdir"):
        existing.add(op.path)
    elif op.kind == "unlink":
        existing.discard(op.path)
    elif op.kind in ("rename", "link"):
        existing.add(op.other)
        if op.kind == "rename":
            existing.discard(op.path)


def _at(folder: str, name: str) -> str:
    match = _FD.match(folder)
    assert match is not None
    return os.path.join(_text(match[2]), _bytes(name).decode())


def _bytes(quoted: str) -> bytes:
    """What strace wrote as "\\x68\\x69"."""
    assert quoted[:1] + quoted[-1:] == '""', quoted[:80]
    return bytes.fromhex(quoted[1:-1].replace("\\x", ""))


def _text(hexed: str) -> str:
    return bytes.fromhex("".join(_HEX.findall(hexed))).decode()
