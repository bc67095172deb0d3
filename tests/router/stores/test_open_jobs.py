"""When the store of jobs is opened, and where."""

import asyncio
import subprocess
import sys

import pytest

from router.contract.secret import Secret
from router.contract.shared import PostgresTerms
from router.contract.stores import StoreUnusable
from router.stores.memory.jobs import MemoryJobs
from router.stores.open_jobs import JOBS_FILE, open_jobs
from router.stores.sqlite.jobs import SqliteJobs
from tests.tools.jobs import MANY, make_job
from tests.tools.kept import ANN


async def test_a_file_comes_with_the_first_job(tmp_path):
    opener = open_jobs(tmp_path / "tandem.db", keep_seconds=60.0)
    before = (opener.store, list(tmp_path.iterdir()))

    store = await opener.open()
    await store.add(make_job(), MANY)
    await opener.close()

    assert before == (None, [])
    assert isinstance(store, SqliteJobs)
    assert (tmp_path / JOBS_FILE).stat().st_mode & 0o777 == 0o600


async def test_jobs_that_were_left_are_there_from_the_start(tmp_path):
    opener = open_jobs(tmp_path / "tandem.db", keep_seconds=60.0)
    await (await opener.open()).add(make_job(), MANY)
    await opener.close()

    again = open_jobs(tmp_path / "tandem.db", keep_seconds=60.0)

    assert again.store is not None
    assert await again.store.find("resp_1", ANN) is not None
    await again.close()


async def test_many_first_jobs_at_once_open_one_store(tmp_path):
    opener = open_jobs(tmp_path / "tandem.db", keep_seconds=60.0)

    opened = await asyncio.gather(*(opener.open() for _ in range(5)))

    assert len(set(map(id, opened))) == 1
    await opener.close()


async def test_a_file_of_another_router_is_left_to_it_and_keeps_no_router_from_starting(tmp_path):
    first = open_jobs(tmp_path / "one.db", keep_seconds=60.0, address="http://127.0.0.1:1")
    await first.open()

    second = open_jobs(tmp_path / "two.db", keep_seconds=60.0)

    assert second.store is None
    with pytest.raises(StoreUnusable, match=r"in use by another Tandem router \(http://127.0.0.1:1"):
        await second.open()
    await second.close()
    await first.close()


async def test_without_a_ledger_jobs_are_kept_in_memory(tmp_path):
    opener = open_jobs(None, keep_seconds=60.0)

    assert isinstance(await opener.open(), MemoryJobs)
    await opener.close()


def test_a_shared_database_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for name in [name for name in sys.modules if name.startswith("router.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(StoreUnusable, match=r"not installed: asyncpg\n  hint: pip install 'tandem-router\[shared\]'"):
        open_jobs(None, keep_seconds=60.0, postgres=PostgresTerms(Secret("postgresql://h/d")))


def test_nothing_of_a_store_is_loaded_before_it_is_opened(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\nfrom router.stores.open_jobs import open_jobs\n"
        f"open_jobs(Path({str(tmp_path)!r}) / 'tandem.db', keep_seconds=60.0)\n"
        "print([name for name in sys.modules if name.endswith(('job_rows', '.jobs')) or 'asyncpg' in name])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
