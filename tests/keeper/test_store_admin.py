"""Administration of a store without a server: status, store names, addresses, and copies from file to file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.core.events import EventData, EventErased, SessionAborted, SessionDeleted
from holdfast.keeper import store_admin
from holdfast.machine.wall import Wall
from holdfast.store import store_copy
from holdfast.store.address import PostgresAddress, SqliteAddress, address
from holdfast.store.interface import Draft, NotCopied, StoreInfo
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import Progress
from holdfast.workspace.home import Home

SERVER = PostgresAddress("postgresql://ada:hunter2@db.example.org/work")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


def _keeper(home: Home, project: Path, store: str | None = None) -> Keeper:
    return Keeper.open(str(project), home=home.path, store=store, actor="ada")


def test_store_status_warns_of_superusers_and_open_connections() -> None:
    """One sentence each; a connection within one machine needs no encryption."""
    fine = StoreInfo(person="ada", above=False, local=False, encrypted=True, proven=True)

    def warnings(info: StoreInfo) -> list[str]:
        return store_admin.StoreStatus(SERVER, there=True, info=info).warnings

    assert warnings(fine) == []
    assert store_admin.StoreStatus(SqliteAddress("/store.db"), there=True).warnings == []
    assert "BYPASSRLS" in warnings(fine._replace(above=True))[0]
    assert "not encrypted" in warnings(fine._replace(encrypted=False, proven=False))[0]
    assert "sslmode=verify-full" in warnings(fine._replace(proven=False))[0]
    assert warnings(fine._replace(local=True, encrypted=False, proven=False)) == []


def test_store_option_accepts_the_default_store(home: Home) -> None:
    """`home` is the home's own store; anything else is a URL, or refused without being repeated."""
    assert store_admin.named(home, "home") == SqliteAddress(home.store)
    assert store_admin.named(home, SERVER.secret) == SERVER
    with pytest.raises(Invalid) as caught:
        store_admin.named(home, "hunter2")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@given(st.text(alphabet=st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=63))
def test_vault_name_round_trips_through_the_address(name: str) -> None:
    """In any spelling."""
    for plain in (SERVER, PostgresAddress(f"{SERVER.secret}?sslmode=require")):
        named = store_admin._of_vault(plain, name)
        assert named.parameters == {**plain.parameters, "vault": name}
        assert store_admin._of_vault(named, name) == named
        assert store_admin._of_vault(named, None) == named


def test_address_for_others_has_no_name_and_password() -> None:
    for written, shown in (
        ("postgresql://ada:hunter2@db.example.org/work", "postgresql://PERSON@db.example.org/work"),
        ("postgresql://db.example.org/work?user=ada&vault=x", "postgresql://PERSON@db.example.org/work?vault=x"),
        ("postgresql:///work?host=/tmp", "postgresql://PERSON@/work?host=/tmp"),
    ):
        where = address(written)
        assert isinstance(where, PostgresAddress)
        assert store_admin.url_for_members(where) == shown


def test_team_commands_are_refused_for_a_file_store(home: Home, tmp_path: Path) -> None:
    """And create nothing."""
    with _keeper(home, tmp_path) as keeper:
        for act in (
            lambda: store_admin.admit(keeper, "ben"),
            lambda: store_admin.dismiss(keeper, "ben"),
            lambda: store_admin.partition(keeper, 2),
            lambda: store_admin.share(keeper, "@", "ben", writes=True),
            lambda: store_admin.unshare(keeper, "@", None),
            lambda: store_admin.init(home, SqliteAddress(home.store).url, admit=["ben"]),
        ):
            with pytest.raises(Refused):
                act()
        assert store_admin.show(keeper) == store_admin.StoreStatus(keeper.address, there=False)
    assert not Path(home.path).exists()


def test_copy_continues_where_it_was_interrupted(home: Home, tmp_path: Path) -> None:
    """The work tree keeps its session in the other store, and this home becomes a new writer there."""
    target = f"sqlite:///{tmp_path}/other.db"
    with pytest.raises(NotFound):
        store_admin.copy(home, "home", target)
    with _keeper(home, tmp_path) as keeper:
        session = keeper.start("Build the shop")
        session.note("blue")
    reported: list[Progress] = []
    done = store_admin.copy(home, "home", target, reported.append)
    assert (done.source.path, done.target.url) == (home.store, target)
    assert {line.doing for line in reported} == {"checking", "copying", "comparing"}
    assert all(0 <= line.done <= line.of for line in reported)
    with _keeper(home, tmp_path, target) as keeper:
        there = keeper.current()
        assert there is not None
        assert there.id == session.id
        there.note("green")
        assert len({event.writer for event in keeper.store().events(session.id)}) == 2
    assert store_admin.copy(home, target, "home").copied.sessions == 1
    with _keeper(home, tmp_path) as keeper:
        assert [note.text for note in keeper.session(session.id).document().notes] == ["blue", "green"]
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    for same in (target, f"sqlite:///{tmp_path}/again/other.db"):
        with pytest.raises(Invalid):
            store_admin.copy(home, target, same)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("data", [SessionDeleted(), SessionAborted(), EventErased(hashes=())])
def test_copy_of_a_file_leaves_an_own_session_unchanged_when_its_owner_there_is_another(
    home: Home, tmp_path: Path, data: EventData, *, known: bool
) -> None:
    """Anybody can have written the file, with the session's id or with its first event too."""
    with _keeper(home, tmp_path) as keeper:
        session = keeper.start("Build the shop").id
        made = list(keeper.store().events(session))
    path = str(tmp_path / "theirs.db")
    with closing(SqliteStore(path, writer=lambda: "b0b" + "0" * 29, wall=Wall().micros)) as theirs:
        with theirs.transaction() as transaction:
            if known:
                transaction.receive(made)
        with theirs.transaction() as transaction:
            if isinstance(data, EventErased):
                data = EventErased(hashes=tuple(event.hash for event in made))
            transaction.record(session, Draft(data, made[-1].at, "bob"))
    for _ in range(2):
        (left,) = store_admin.copy(home, f"sqlite:///{path}", "home").copied.left_out
        assert left.session == session
    with _keeper(home, tmp_path) as keeper:
        assert list(keeper.store().events(session)) == made


def test_copy_of_a_file_merges_into_an_own_session_that_this_home_owns_there(home: Home, tmp_path: Path) -> None:
    """Moved to a file, ended there, and moved back."""
    target = f"sqlite:///{tmp_path}/other.db"
    with _keeper(home, tmp_path) as keeper:
        session = keeper.start("Build the shop").id
    store_admin.copy(home, "home", target)
    with _keeper(home, tmp_path, target) as keeper:
        keeper.session(session).complete()
    assert store_admin.copy(home, target, "home").copied.left_out == ()
    with _keeper(home, tmp_path) as keeper:
        assert keeper.session(session).document().status == "completed"


@pytest.mark.parametrize(
    ("reason", "asked"),
    [
        (
            f"an event is missing; {store_copy.OWNER_REPAIRS}",
            "Ask the owner to repair it, with holdfast doctor --repair",
        ),
        (store_copy.ANOTHER, "Each is named with its reason"),
        (store_copy.IS_OTHERS, "Each is named with its reason"),
    ],
)
def test_incomplete_copy_names_what_is_missing(reason: str, asked: str) -> None:
    error = store_admin.incomplete_error(
        [NotCopied("s1", reason, None)], "copied", "run the same command again", file="there"
    )
    assert error is not None
    assert error.hint is not None
    assert asked in error.hint
