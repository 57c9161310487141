"""Tests that every kind of store passes: its test class derives from `StoreConformance` and implements two hooks.

    class TestMyStore(StoreConformance):
        def open_store(self, name="one", *, writer=ANNA, wall=None, machine="one"): ...
        def make_newer(self, name): ...

They use only `holdfast.store.interface` and the copying between stores, and do not depend on how a store saves data.
`self.place` is a directory of the test. If several machines share one store of this kind, set `shared = True`.
Stores that were opened through `self.store` are closed after the test.
"""

from __future__ import annotations

from holdfast.store.conformance.clocks import Clocks
from holdfast.store.conformance.copies import Carrying, Copying
from holdfast.store.conformance.erasing import Withdrawing
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    DAY,
    OTHER,
    PROJECT,
    SESSION,
    START,
    THIRD,
    Ticks,
    assert_sound,
    draft,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.conformance.listings import Describing, Installations, ListingConformance, Remembering
from holdfast.store.conformance.log import Chains, Receiving, Streaming
from holdfast.store.conformance.transactions import Durability, Noticing

__all__ = [
    "ANNA", "BEN", "CARO", "DAY", "OTHER", "PROJECT", "SESSION", "START", "THIRD", "StoreConformance", "Ticks",
    "assert_sound", "draft", "everything", "foreign", "note", "put", "started", "take",
]  # fmt: skip


class StoreConformance(
    Durability,
    Chains,
    Clocks,
    Receiving,
    ListingConformance,
    Copying,
    Remembering,
    Streaming,
    Withdrawing,
    Noticing,
    Carrying,
    Describing,
    Installations,
):
    """All tests of a store. Those of copies include those of erasing: what was deleted stays deleted in copies."""
