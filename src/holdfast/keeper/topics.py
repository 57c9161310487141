"""What a keeper does besides sessions, by topic: `keeper.documents`, `keeper.devices`, and so on.

Each method is a use case and loads its code when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.core.times import Moment
from holdfast.machine.wall import as_ms, local_offset

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import Scope
    from holdfast.conversations.backfill.run import BackfillResult
    from holdfast.conversations.connect.apply import ConnectResult
    from holdfast.conversations.connect.detect import AgentSetup
    from holdfast.conversations.connect.disconnect import UninstallResult
    from holdfast.formats.base import FormatNote
    from holdfast.formats.contract.commands import ContractSummary
    from holdfast.formats.convert import Conversion
    from holdfast.formats.cycle import Cycle
    from holdfast.formats.import_ import Imported
    from holdfast.formats.migrate import Migrated
    from holdfast.formats.mirror.contract.acknowledgment import Acknowledgment
    from holdfast.formats.recover_files import RecoveredFile
    from holdfast.formats.validate import FileVerdict
    from holdfast.keeper.store_admin import MoveResult, SetUpResult, StoreShares, StoreStatus
    from holdfast.store.store_copy import Progress
    from holdfast.sync.accept_late import LateAcceptance
    from holdfast.sync.devices import ApprovedDevice, DeviceList, DeviceRemoval, RecoveryCode
    from holdfast.sync.people import Person
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.sync.remote_setup import AddedRemote, RemoteStatus
    from holdfast.sync.shares import AcceptedShare, Offers
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.keys.device_keys import PublicKeys
    from holdfast.workspace.workspace import Workspace


class Topic:
    def __init__(self, ws: Workspace) -> None:
        self._ws = ws


class Documents(Topic):
    """Session files of other programs."""

    def import_files(
        self, paths: Sequence[str], format_name: str | None = None, *, salvage: bool = False
    ) -> list[Imported]:
        """Turn files into sessions; with `salvage`, hand-made ones too. A file that fails has its error."""
        from holdfast.formats.import_ import import_files

        return import_files(self._ws, paths, format_name, salvage=salvage)

    def convert(
        self, path: str, to: str, *, source: str | None = None, carry: bool = False, one_file: bool = True
    ) -> Conversion:
        """A file in another format, with notes; `source` is the format that it has, if not detected."""
        from holdfast.formats import registry
        from holdfast.formats.convert import convert
        from holdfast.formats.discover import single_source

        target = registry.format_named(to)
        return convert(self._ws, single_source(path, source), target, carry=carry, one_file=one_file)

    def validate(
        self, paths: Sequence[str], format_name: str | None = None, *, lenient: bool = False
    ) -> list[FileVerdict]:
        """Check files against their specifications; `lenient`: only what an import could not repair."""
        from holdfast.formats.validate import Validator

        now = self._ws.now()
        return Validator(format_name=format_name, lenient=lenient, now=now, offset=local_offset).check(paths)

    def schema(self, name: str, draft: str = "2020-12") -> bytes:
        """The JSON Schema of a format, or of one kind of its files."""
        from holdfast.formats.published_schemas import schema_of

        return schema_of(name, draft)

    def recover(self, path: str) -> list[RecoveredFile]:
        """Read what is left of a damaged file, or of every session file in a directory."""
        from holdfast.formats.recover_files import recover

        return recover(self._ws, path)

    def start_recovered(self, recovered: RecoveredFile) -> tuple[str, list[FormatNote]]:
        """Start a session from a recovered file; returns its id, with notes."""
        from holdfast.formats.recover_files import start

        return start(self._ws, recovered)

    def migrate(self, path: str, *, back: bool = False) -> list[Migrated]:
        """Convert documents of older versions, and keep the old files; or go `back` to those."""
        from holdfast.formats import migrate

        return migrate.undo(path) if back else migrate.migrate(self._ws, path)

    def cycle(self, *, start: str | None = None, weeks: int | None = None, at: Moment | None = None) -> Cycle:
        """The sessions of a cycle, and their hours by scope."""
        from holdfast.formats.cycle import cycle

        return cycle(self._ws, start=start, weeks=weeks, at=as_ms(at))

    def acknowledge_contract(
        self, spec: str, agent: str | None = None, *, at: Moment | None = None
    ) -> Acknowledgment:
        """Record that an agent, by default the acting one, read the contract in a file and will follow it."""
        from holdfast.formats.contract import commands

        return commands.acknowledge(self._ws, spec, agent, at=as_ms(at))

    def verify_contract(self, spec: str, agent: str | None = None) -> list[Acknowledgment]:
        """The valid acknowledgments, of all agents or of one; raises for one of another text."""
        from holdfast.formats.contract import commands

        return commands.verify(self._ws, spec, agent)

    def contract_summary(self, spec: str, agent: str | None = None) -> ContractSummary:
        from holdfast.formats.contract import commands

        return commands.summary(self._ws, spec, agent)


class AgentPrograms(Topic):
    """The agent programs on this machine. Needs `Keeper.open(agent_dirs=…)`: where they keep their files."""

    @property
    def _dirs(self) -> AgentDirs:
        if self._ws.agent_dirs is None:
            raise Invalid(
                "it is not known where agent programs keep their files", hint="Keeper.open(agent_dirs=AgentDirs(…))"
            )
        return self._ws.agent_dirs

    def list(self) -> Sequence[AgentSetup]:
        """Every supported agent: whether it is here, and connected."""
        from holdfast.conversations.connect.detect import find

        return find(self._ws, self._dirs)

    def connect(
        self, names: Sequence[str], scope: Scope | None = None, *, server: bool = True
    ) -> Sequence[ConnectResult]:
        """Install the hooks of these agents, or of `git`, and register the MCP server."""
        from holdfast.conversations.connect import git_trailer
        from holdfast.conversations.connect.apply import connect

        agents = [name for name in names if name != "git"]
        done = connect(self._ws, self._dirs, agents, scope or "user", server=server) if agents else []
        return [*done, git_trailer.connect(self._ws, self._dirs, scope)] if "git" in names else done

    def disconnect(self, names: Sequence[str]) -> Sequence[ConnectResult]:
        from holdfast.conversations.connect import git_trailer
        from holdfast.conversations.connect.disconnect import disconnect

        agents = [name for name in names if name != "git"]
        done = disconnect(self._ws, self._dirs, agents) if agents else []
        return [*done, git_trailer.disconnect(self._ws)] if "git" in names else done

    def uninstall(self) -> UninstallResult:
        """Disconnect everything and remove the scripts; recorded sessions stay."""
        from holdfast.conversations.connect.disconnect import uninstall

        return uninstall(self._ws, self._dirs)

    def backfill(
        self,
        names: Sequence[str] = (),
        *,
        since: Moment | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> Sequence[BackfillResult]:
        """Add past conversations of these agents, or of all."""
        from holdfast.conversations.backfill.run import backfill

        return backfill(self._ws, self._dirs, names, since=as_ms(since), progress=progress)


class VaultDevices(Topic):
    """This device, and those of its vaults."""

    def keys(self) -> PublicKeys:
        """This device's public keys, with its fingerprint in words."""
        from holdfast.sync import devices

        return devices.public_keys(self._ws)

    def list(self) -> DeviceList:
        """The devices of each vault, and requests to join."""
        from holdfast.sync import devices

        return devices.list_devices(self._ws)

    def rename(self, name: str) -> Sequence[str]:
        """Rename this device; returns the remotes that could not be reached."""
        from holdfast.sync import devices

        return devices.rename(self._ws, name)

    def approve(self, fingerprint: str, *, admin: bool = False) -> ApprovedDevice:
        """Let in the device with this whole fingerprint; an `admin` may approve and remove devices, too."""
        from holdfast.sync import devices

        return devices.approve(self._ws, fingerprint, admin=admin)

    def remove(self, name: str) -> DeviceRemoval:
        """Remove a device, by name or fingerprint; a request to join is declined."""
        from holdfast.sync import devices

        return devices.remove(self._ws, name)

    def admit(self, name: str) -> LateAcceptance:
        """Accept what a removed device wrote and nobody has accepted yet."""
        from holdfast.sync import accept_late

        return accept_late.admit(self._ws, name)

    def recovery_code(self, remote: str | None = None) -> RecoveryCode:
        """A new code for the day when all devices are lost; older ones become void."""
        from holdfast.sync import devices

        return devices.recovery_code(self._ws, remote)


class Remotes(Topic):
    """The places through which devices sync."""

    def list(self) -> Sequence[RemoteStatus]:
        from holdfast.sync import remote_setup

        return remote_setup.all_statuses(self._ws)

    def add(
        self, name: str, url: str, *, this_project: bool = False, expected: str | None = None, code: str | None = None
    ) -> AddedRemote:
        """Create a vault there, or ask to join it. `expected`: the vault's words; `code`: a recovery code."""
        from holdfast.sync import remote_setup

        return remote_setup.add(self._ws, name, url, this_project=this_project, expected=expected, code=code)

    def confirm(self, name: str, expected: str | None = None) -> int:
        """Confirm that the vault is yours; returns how many earlier sessions may be sent now."""
        from holdfast.sync import remote_setup

        return remote_setup.confirm(self._ws, name, expected)

    def remove(self, name: str) -> KnownRemote:
        """Forget a remote; the data there stays."""
        from holdfast.sync import remote_setup

        return remote_setup.remove(self._ws, name)


class People(Topic):
    """People to share sessions with, and what they offer."""

    def list(self) -> Sequence[Person]:
        from holdfast.sync import people

        return people.load(self._ws.home)

    def add(self, email: str, key: str) -> Person:
        """Add a person, or another key of theirs, or the words of a device whose offers are trusted."""
        from holdfast.sync import people

        return people.add(self._ws.home, email, key)

    def offers(self, *, url: str | None = None, keys: Sequence[str | bytes] = ()) -> Offers:
        """What is offered to this device, and to the holder of these secret keys."""
        from holdfast.sync import shares

        return shares.offers(self._ws, url=url, keys=keys)

    def accept(
        self, name: str | None = None, *, url: str | None = None, keys: Sequence[str | bytes] = ()
    ) -> Sequence[AcceptedShare]:
        """Accept the offer of this name; without one, all from trusted senders."""
        from holdfast.sync import shares

        return shares.accept(self._ws, url=url, keys=keys, name=name)


class Stores(Topic):
    """The store in use, and the team that uses it."""

    def show(self) -> StoreStatus:
        from holdfast.keeper import store_admin

        return store_admin.show(self._ws)

    def create(
        self, url: str, *, vault: str | None = None, admit: Sequence[str] = (), partitions: int | None = None
    ) -> SetUpResult:
        """Create or upgrade the store that a URL names."""
        from holdfast.keeper import store_admin

        return store_admin.init(self._ws.home, url, vault=vault, admit=admit, partitions=partitions)

    def copy(self, source: str, target: str, progress: Callable[[Progress], None] = lambda _: None) -> MoveResult:
        """Copy one store into another, by their URLs or `home`, and verify the copy."""
        from holdfast.keeper import store_admin

        return store_admin.copy(self._ws.home, source, target, progress)

    def admit(self, person: str) -> bool:
        """Admit a person to the team's vault; False when they are in it already."""
        from holdfast.keeper import store_admin

        return store_admin.admit(self._ws, person)

    def dismiss(self, person: str, successor: str | None = None) -> int:
        """Remove a person from the vault; returns how many sessions the successor was given."""
        from holdfast.keeper import store_admin

        return store_admin.dismiss(self._ws, person, successor)

    def share(self, reference: str, person: str | None, *, writes: bool = True) -> StoreShares:
        """Share a session with a member, or with everyone (None)."""
        from holdfast.keeper import store_admin

        return store_admin.share(self._ws, reference, person, writes=writes)

    def unshare(self, reference: str, person: str | None) -> StoreShares:
        from holdfast.keeper import store_admin

        return store_admin.unshare(self._ws, reference, person)

    def partition(self, parts: int) -> int:
        """Divide the log on the server; returns how many partitions there were."""
        from holdfast.keeper import store_admin

        return store_admin.partition(self._ws, parts)


class Config(Topic):
    """The settings of the home; this keeper reads changed ones when it is opened again."""

    def get(self, name: str) -> int | float | str | bool:
        """The value in effect here. What the time limit does depends on the timer's mirror, unless it is set."""
        from holdfast.workspace.settings import find_setting

        if find_setting(name).name == "timer.timeout_action":
            return "pause" if self._ws.limit_rule().pauses else "remind"
        return self._ws.settings[name]

    def list(self) -> dict[str, int | float | str | bool]:
        from holdfast.workspace.settings import SETTINGS

        return {setting.name: self.get(setting.name) for setting in SETTINGS}

    def set(self, name: str, value: float | str | bool) -> None:
        from holdfast.workspace import settings

        setting = settings.find_setting(name)
        settings.change(self._ws.home.config, setting, settings.parse(setting, str(value)))

    def unset(self, name: str) -> None:
        """Reset one setting to its default."""
        from holdfast.workspace import settings

        settings.change(self._ws.home.config, settings.find_setting(name), None)
