"""Which store a waiting payload is meant for: the one that was in force where its hook ran.

A process takes in only what is meant for the store that it has open. Everything else stays for a process that opens
the other store, and `doctor` shows it. A payload without a word on its store, as earlier versions wrote them, and one
that names something which is not a store, are meant for the store that hooks here are connected with.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.machine import files
from holdfast.sessions import run_deferred
from holdfast.store.address import Address, SqliteAddress, address
from holdfast.workspace import spool

if TYPE_CHECKING:
    from holdfast.workspace.home import Home
    from holdfast.workspace.workspace import Workspace


def for_this_store(ws: Workspace, waiting: list[spool.SpoolEntry]) -> list[spool.SpoolEntry]:
    """The payloads that this keeper's store is to have, in their order."""
    home, own = ws.home, ws.spool_tag
    usual = ""
    chosen: list[spool.SpoolEntry] = []
    for entry in waiting:
        store, named = entry.store, None
        if store == spool.NAMED or (store == own and entry.names_store):
            url = entry.store_url()
            if url is None:  # being written, or left by a hook that was killed: whoever reads it finds out
                if os.path.lexists(entry.path):
                    chosen.append(entry)
                continue
            named = _address(url)
            store = "" if named is None else home.spool_tag(named.key)
        if not store:
            store = usual = usual or home.spool_tag(configured(home).key)
        # What became of a command says itself which store it is for, and did before names of files did.
        if store == own or (entry.agent == run_deferred.OWN and not entry.store):
            chosen.append(entry)
        elif named is not None:
            spool.tag_entry(entry, store)
    return chosen


def elsewhere(ws: Workspace) -> dict[str, list[spool.SpoolEntry]]:
    """What waits for other stores, by the URLs of these as they may be shown."""
    home = ws.home
    found: dict[str, list[spool.SpoolEntry]] = {}
    for entry in spool.list_entries(home.path):
        if entry.store == spool.HOME:
            where: Address | None = SqliteAddress(home.store)
        else:
            where = _address(entry.store_url() or "") if entry.names_store else None
        where = where or configured(home)
        if where.key != ws.address.key:
            found.setdefault(where.url, []).append(entry)
    return found


def configured(home: Home) -> Address:
    """The store that hooks use where no variable names one."""
    from holdfast.conversations.hooks import script  # seldom needed, and hooks are in a hurry

    path = os.path.join(home.path, script.DIRECTORY, script.STORE)
    try:
        named = files.read_limited(path, 4096, what="the store of hooks") if os.path.lexists(path) else b""
    except HoldfastError:
        named = b""
    return _address(os.fsdecode(named)) or SqliteAddress(home.store)


def _address(url: str) -> Address | None:
    try:
        return address(url)
    except HoldfastError:
        return None
