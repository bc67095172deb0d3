"""Which stores a config opens."""

import asyncio
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from router import stores
from router.contract.extras import how_to_install
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms
from router.contract.stores import StoreUnusable
from router.sessions.ended_jobs import EndedJobs
from router.stores.memory.entries import NoSessions
from router.stores.sqlite.jobs import MemoryJobs, SqliteJobs
from router.stores.sqlite.sessions import SqliteSessions
from router.wiring.stores import JOBS_FILE, open_jobs, open_ledger, open_responses, open_sessions
from tests.conftest import SIMULATED
from tests.tools.configs import load_text
from tests.tools.houses import make_house
from tests.tools.jobs import MANY, make_job
from tests.tools.kept import ANN, make_response
from tests.tools.waiting import until


async def test_without_a_ledger_sessions_live_in_memory_alone():
    assert isinstance(open_sessions(None), NoSessions)


async def test_sessions_are_kept_where_other_routers_find_them_before_anywhere_else(tmp_path):
    store = object()

    assert open_sessions(None, SimpleNamespace(sessions=store)) is store
    assert isinstance(open_sessions(None, SimpleNamespace(sessions=None)), NoSessions)


async def test_sessions_are_kept_in_the_file_of_the_ledger(tmp_path):
    loaded = load_text(SIMULATED.replace("{path: test.db}", "{path: kept.db}"), tmp_path)
    sessions = open_sessions(open_ledger(loaded, "", {}))

    assert isinstance(sessions, SqliteSessions)
    await sessions.close()
    assert (tmp_path / "kept.db").exists()


async def test_responses_stay_in_memory_unless_a_path_is_set(tmp_path):
    responses = open_responses(load_text(SIMULATED, tmp_path), "", {}, on_disk=True)
    responses.keep(make_response(), for_long=True)
    await responses.close()

    assert list(tmp_path.glob("*.db")) == []


async def test_a_file_of_jobs_comes_with_the_first_job_and_is_read_at_the_next_start(tmp_path):
    loaded = load_text(SIMULATED, tmp_path)
    jobs = open_jobs(loaded, "", EndedJobs(), {}, on_disk=True)
    before = (jobs.store, list(tmp_path.glob("jobs*")))

    store = await jobs.open(make_house())
    await store.add(make_job(), MANY)
    await jobs.close()
    again = open_jobs(loaded, "", EndedJobs(), {}, on_disk=True)

    assert before == (None, [])
    assert isinstance(store, SqliteJobs)
    assert (tmp_path / JOBS_FILE).stat().st_mode & 0o777 == 0o600
    assert await again.store.find("resp_1", ANN) is not None
    await again.close()


async def test_many_first_jobs_at_once_open_one_store(tmp_path):
    jobs = open_jobs(load_text(SIMULATED, tmp_path), "", EndedJobs(), {}, on_disk=True)

    opened = await asyncio.gather(*(jobs.open(make_house()) for _ in range(5)))

    assert len(set(map(id, opened))) == 1
    await jobs.close()


async def test_a_file_of_another_router_is_left_to_it_and_keeps_no_router_from_starting(tmp_path):
    first = open_jobs(load_text(SIMULATED, tmp_path), "http://127.0.0.1:1", EndedJobs(), {}, on_disk=True)
    await first.open(make_house())

    second = open_jobs(load_text(SIMULATED.replace("test.db", "two.db"), tmp_path), "", EndedJobs(), {}, on_disk=True)

    assert second.store is None
    with pytest.raises(StoreUnusable, match=r"in use by another Tandem router \(http://127.0.0.1:1"):
        await second.open(make_house())
    await second.close()
    await first.close()


async def test_a_file_of_jobs_that_cannot_be_opened_is_tried_again_until_it_can_be(tmp_path, listen):
    (tmp_path / JOBS_FILE).mkdir()
    read, files = listen(), {}

    jobs = open_jobs(load_text(SIMULATED, tmp_path), "", EndedJobs(), files, on_disk=True)

    assert [(line["event"], line["reason"]) for line in read()] == [("jobs.failed", "Is a directory")]
    with pytest.raises(StoreUnusable, match=r"jobs\.db cannot be opened: Is a directory"):
        await jobs.store.add(make_job(), MANY)
    with pytest.raises(StoreUnusable, match=r"jobs\.db cannot be read"):
        await jobs.store.find("resp_1", ANN)
    (tmp_path / JOBS_FILE).rmdir()
    await until(lambda: files["jobs"].failing is None)
    assert await jobs.store.add(make_job(), MANY)
    await jobs.close()


async def test_jobs_are_refused_rather_than_unknown_where_nobody_can_look_for_their_file(tmp_path):
    (tmp_path / "folder").touch()

    jobs = open_jobs(load_text(SIMULATED.replace("test.db", "folder/test.db"), tmp_path), "", EndedJobs(), {}, on_disk=True)

    with pytest.raises(StoreUnusable):
        await jobs.store.find("resp_1", ANN)
    await jobs.close()


async def test_without_a_ledger_jobs_are_kept_in_memory(tmp_path):
    jobs = open_jobs(load_text(SIMULATED, tmp_path), "", EndedJobs(), {}, on_disk=False)

    assert isinstance(await jobs.open(make_house()), MemoryJobs)
    await jobs.close()


def test_a_shared_database_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.setattr(
        stores, "postgres", None, raising=False
    )  # the import below sets another, which later tests must not get
    for name in [name for name in sys.modules if name.startswith("router.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    shared = SharedTerms("one", postgres=PostgresTerms(Secret("postgresql://h/d")))

    with pytest.raises(StoreUnusable, match=rf"not installed: asyncpg\n  hint: {re.escape(how_to_install('shared'))}$"):
        open_jobs(replace(load_text(SIMULATED, tmp_path), shared=shared), "", EndedJobs(), {}, on_disk=True)


def test_nothing_of_a_store_of_jobs_is_loaded_before_it_is_opened(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\nfrom router.wiring.stores import open_jobs\nfrom tests.conftest import SIMULATED\n"
        "from tests.tools.configs import load_text\nfrom router.sessions.ended_jobs import EndedJobs\n"
        f"open_jobs(load_text(SIMULATED, Path({str(tmp_path)!r})), '', EndedJobs(), {{}}, on_disk=True)\n"
        "print([name for name in sys.modules if 'stores' in name and name.endswith(('job_rows', '.jobs')) or 'asyncpg' in name])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
