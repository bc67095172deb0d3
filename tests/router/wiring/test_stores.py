"""Which stores a config opens."""

from contextlib import ExitStack
from types import SimpleNamespace

from router.stores.memory.responses import MemoryResponses
from router.stores.memory.sessions import NoSessions
from router.stores.sqlite.damage import find_damage
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.sessions import SqliteSessions
from router.wiring.stores import hold_files, open_ledger, open_responses, open_sessions
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


async def test_without_a_ledger_sessions_live_in_memory_alone():
    assert isinstance(open_sessions(None), NoSessions)


async def test_sessions_are_kept_where_other_routers_find_them_before_anywhere_else(tmp_path):
    store = object()

    assert open_sessions(None, SimpleNamespace(sessions=store)) is store
    assert isinstance(open_sessions(None, SimpleNamespace(sessions=None)), NoSessions)


async def test_sessions_are_kept_in_the_file_of_the_ledger(tmp_path):
    loaded = load_text(SIMULATED.replace("{path: test.db}", "{path: kept.db}"), tmp_path)
    sessions = open_sessions(open_ledger(loaded, ""))

    assert isinstance(sessions, SqliteSessions)
    await sessions.close()
    assert (tmp_path / "kept.db").exists()


async def test_responses_stay_in_memory_unless_a_path_is_set(tmp_path):
    responses = open_responses(load_text(SIMULATED, tmp_path), "", on_disk=True)

    assert isinstance(responses, MemoryResponses)
    await responses.close()


def test_files_that_workers_write_to_are_made_and_held_once_for_all(tmp_path):
    loaded = load_text(f"{SIMULATED}store: {{path: responses.db}}\n", tmp_path)
    names = ("test.db", "responses.db", "jobs.db")

    with ExitStack() as stack:
        hold_files(loaded, "http://127.0.0.1:4000", stack)
        owners = [find_owner(tmp_path / name) for name in names]

    assert [owner.address for owner in owners] == ["http://127.0.0.1:4000"] * 3
    assert [find_owner(tmp_path / name) for name in names] == [None] * 3
    assert all(find_damage(tmp_path / name) == "" for name in names)
