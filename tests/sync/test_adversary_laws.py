"""Random moves of a hostile remote over any history of three devices: reported or harmless, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.sync.protocol import sealing
from holdfast.sync.remotes.base import ObjectInfo
from tests.support.scale import scale
from tests.sync.adversary import Three

# RELIABILITY F16.
COUNT = scale(10, 1_000, 10_000)


class Adversary:
    """Moves on a shelf. The remote keeps every object it ever received, and can show any of them."""

    def __init__(self, three: Three, seed: int) -> None:
        self.three = three
        self.random = Random(seed)
        self.ever: dict[str, bytes] = dict(three.shelf.objects)
        self.snapshots = [dict(three.shelf.objects)]

    def observe(self) -> None:
        self.ever |= self.three.shelf.objects
        self.snapshots.append(dict(self.three.shelf.objects))

    def _some(self, *prefixes: str) -> str | None:
        names = sorted(name for name in self.three.shelf.objects if name.startswith(prefixes))
        return self.random.choice(names) if names else None

    def _change(self, change: Callable[[bytes], bytes]) -> None:
        name = self._some("h/", "p/", "m/", "k/")
        if name is not None:
            self.three.shelf.objects[name] = change(self.three.shelf.objects[name])

    def flip(self) -> None:
        def one(data: bytes) -> bytes:
            place = self.random.randrange(max(1, len(data)))
            rejection_reasons = (data[place] if data else 0) ^ 1 << self.random.randrange(8)
            return data[:place] + bytes([rejection_reasons]) + data[place + 1 :]

        self._change(one)

    def truncate(self) -> None:
        self._change(lambda data: data[: self.random.randrange(len(data) + 1)])

    def extend(self) -> None:
        self._change(lambda data: data + self.random.randbytes(self.random.randrange(1, 40)))

    def exchange(self) -> None:
        one, other = self._some("h/", "p/", "m/", "k/"), self._some("h/", "p/", "m/", "k/")
        if one and other:
            objects = self.three.shelf.objects
            objects[one], objects[other] = objects[other], objects[one]

    def delete(self) -> None:
        name = self._some("h/", "p/", "m/", "k/", "vault")
        if name is not None:
            del self.three.shelf.objects[name]

    def replay(self) -> None:
        """Put an old object back, under its own or another name."""
        data = self.ever[self.random.choice(sorted(self.ever))]
        name = self.random.choice(sorted(self.ever))
        if self.random.random() < 0.5:
            data = self.ever[name]
        self.three.shelf.objects[name] = data

    def rename(self) -> None:
        """Give a head a wrong number."""
        name = self._some("h/")
        if name is not None and "join" not in name:
            number = self.random.choice([1, 7, 500, 10**12 - 1, self.random.randrange(40)])
            self.three.shelf.objects[f"{name[:-12]}{number:012}"] = self.three.shelf.objects[name]

    def roll_back(self) -> None:
        self.three.shelf.objects = dict(self.random.choice(self.snapshots))

    def empty(self) -> None:
        self.three.shelf.objects.clear()

    def plant(self) -> None:
        """Plant garbage under names of every form."""
        vault = self.three.anna.vault()
        device = self.random.choice(self.three.everybody)
        life = sealing.life_tag(vault.id, device.writer)
        name = self.random.choice(
            [
                f"h/{vault.tag}.{life}-{self.random.randrange(60):012}",
                f"h/{vault.tag}.{os.urandom(10).hex()}-{1:012}", f"h/join-{os.urandom(16).hex()}",
                f"p/{vault.tag}/{os.urandom(20).hex()}",
                f"k/{sealing.recipient_tag(device.keys.public.age)}-{os.urandom(8).hex()}",
                f"m/{vault.tag}/{os.urandom(20).hex()}",
            ]
        )  # fmt: skip
        self.three.shelf.objects[name] = self.random.choice(
            [b"", b"HFS1", b"HFS1" + bytes(100), b"age-encryption.org/v1\n"]
        )

    def hide(self) -> None:
        """Hide some objects from one device."""
        names = sorted(self.three.shelf.objects)
        hidden = set(self.random.sample(names, self.random.randrange(len(names) + 1)))
        self.random.choice(list(self.three.windows.values())).hidden = hidden.__contains__

    def show_old(self) -> None:
        """Show an old state to one device only: the devices are forked."""
        self.random.choice(list(self.three.windows.values())).old = dict(self.random.choice(self.snapshots))

    def lie(self) -> None:
        vault = self.three.anna.vault()
        life = sealing.life_tag(vault.id, self.three.anna.writer)
        names = [f"h/{vault.tag}.{life}-{self.random.randrange(99):012}", "h/../x", "h/join-", *self.ever]
        window = self.random.choice(list(self.three.windows.values()))
        window.listed = [ObjectInfo(self.random.choice(names), self.random.randrange(-9, 1 << 40)) for _ in range(5)]

    def behave(self) -> None:
        self.three.show_everything()


MOVES = [name for name in vars(Adversary) if not name.startswith("_") and name != "observe"]
STEP = st.one_of(
    st.tuples(st.just("note"), st.integers(0, 2)),
    st.tuples(st.just("sync"), st.integers(0, 2)),
    st.tuples(st.sampled_from(MOVES), st.just(0)),
)


@settings(
    max_examples=COUNT, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(steps=st.lists(STEP, min_size=3, max_size=25), seed=st.integers(0, 2**32))
def test_moves_of_a_remote_lose_and_forge_nothing(steps: list[tuple[str, int]], seed: int) -> None:
    """No device ever gets a note nobody wrote; once the remote behaves and all sync again, all have all notes."""
    directory = tempfile.mkdtemp()
    three = Three(directory)
    try:
        adversary = Adversary(three, seed)
        for what, which in steps:
            device = three.everybody[which]
            if what == "note":
                three.note(device, f"{device.name} {len(three.written)}")
            elif what == "sync":
                try:
                    device.sync(put_back=True)
                except HoldfastError as error:
                    raise AssertionError(f"a sync failed: {error}") from error
                own = [item for item in three.written if device.name in item]
                assert set(own) <= set(device.notes("s1")) <= set(three.written)
                adversary.observe()
            else:
                getattr(adversary, what)()
        three.show_everything()
        for device in three.everybody:
            three.note(device, f"{device.name} at last")
        for _ in range(8):
            for device in three.everybody:
                device.sync(put_back=True)
        three.assert_complete()
        states = [device.state("s1") for device in three.everybody]
        assert states[0] == states[1] == states[2]
    finally:
        three.close()
        shutil.rmtree(directory)
