"""Files that cannot be used, each for itself: what they hold is never reported as missing, no accepted job is lost, the cause is
named in answers and figures, and each recovers by itself.

| fault | at the start | while running |
|---|---|---|
| full | a file system without room | a limit on file sizes, for all files at once |
| read-only | a file system mounted so | files and folder made immutable: Linux mounts nothing read-only under open files |
| gone, blocked, locked | ledger alone; responses and jobs | ledger alone; responses and jobs |

Each is asked by a caller with a budget and by one without. The key file is only read, so it can be gone,
blocked or spoilt. The records of `tandem connect` are used by that command alone.
"""

import asyncio
import contextlib
import copy
import re
import resource
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from tests.faults.places import (
    CANNOT_MOUNT,
    CAUSES,
    FILES,
    GROUPS,
    READING,
    RUNNING,
    STARTING,
    Kept,
    Place,
    Router,
    check_away,
    check_back,
    check_reported,
)
from tests.tools.http import chat
from tests.tools.waiting import until


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Kept:
    """What a router has kept in the files of its folder."""
    (place := Place(tmp_path_factory.mktemp("filled"))).prepare()
    kept = Kept(place)

    async def fill() -> None:
        async with place.serve(kept.headers) as router:
            await kept.add(router)
            await until(lambda: kept.are_jobs_over(router))

    asyncio.run(fill())
    return kept


@pytest.fixture
def kept(filled) -> Kept:
    return copy.deepcopy(filled)


@pytest.fixture
def place(tmp_path, request, filled) -> Iterator[Place]:
    """On file systems of its own, where the test asks for that."""
    if getattr(request, "param", None) not in ("full", "read-only"):
        (found := Place(tmp_path)).prepare(filled.folder)
        yield found
        return
    if CANNOT_MOUNT:
        pytest.skip("no file system can be mounted here")
    mounts = [f"mkdir {tmp_path / store} && mount -t tmpfs -o size=4m none {tmp_path / store}" for store in (*FILES, "state")]
    script = " && ".join([*mounts, "echo ready", "exec sleep 600"])
    with subprocess.Popen(["unshare", "-rm", "sh", "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        own = ("nsenter", "-t", str(holder.pid), "-U", "-m", "--preserve-credentials")
        (found := Place(tmp_path, own, f"/proc/{holder.pid}/root")).prepare(filled.folder)
        yield found
        holder.kill()


@pytest.mark.parametrize("broken", GROUPS, ids="+".join)
@pytest.mark.parametrize(("place", "fault"), [(name, name) for name in STARTING], indirect=["place"], ids=list(STARTING))
async def test_a_router_starts_without_files_that_cannot_be_used_and_takes_each_once_it_can_be(place, kept, fault, broken):
    with contextlib.ExitStack() as stack:
        for store in broken:
            stack.enter_context(STARTING[fault](place, store))
        async with place.serve(kept.headers) as router:
            await check_away(router, kept, broken, CAUSES[fault], is_new=True)
            stack.close()

            await check_back(router)
            await kept.check_whole(router, place)


@pytest.mark.parametrize("fault", RUNNING)
async def test_a_running_router_goes_on_without_files_that_cannot_be_used(place, kept, fault):
    async with place.serve(kept.headers) as router:
        for broken in GROUPS:
            with contextlib.ExitStack() as stack:
                for store in broken:
                    stack.enter_context(RUNNING[fault](place, store))
                await check_away(router, kept, broken, CAUSES[fault], is_new=False)

            await check_back(router)
            await kept.check_whole(router, place)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux only")
async def test_a_running_router_without_any_room_serves_and_records_everything_once_there_is_room(place, kept):
    async with place.serve(kept.headers) as router:
        _, hard = resource.prlimit(router.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(router.pid, resource.RLIMIT_FSIZE, (1, hard))
        await check_away(router, kept, FILES, CAUSES["limited"], is_new=False)

        resource.prlimit(router.pid, resource.RLIMIT_FSIZE, (hard, hard))

        await check_back(router)
        await kept.check_whole(router, place)


async def test_a_running_router_keeps_the_keys_that_it_read_until_their_file_can_be_used_again(place, kept):
    causes = {"gone": "does not exist", "blocked": "is a folder", "spoilt": "keys.yaml line 1"}
    async with place.serve(kept.headers) as router:
        for fault, cause in causes.items():
            with READING[fault](place, "keys"):
                await check_reported(router, ["keys"], f"the keys read before still count: .*{cause}")
                status = await asyncio.to_thread(place.run_tandem, "status")
                assert re.search(f"the key file cannot be used.*{cause}", status.stdout), status
                assert (await router.ask("/v1/chat/completions", chat(), "ann")).status == 200

            await check_back(router)
        place.write_keys()

        await until(lambda: is_refused(router))


async def is_refused(router: Router) -> bool:
    return (await router.ask("/v1/chat/completions", chat())).status == 401


@pytest.mark.parametrize("fault", READING)
def test_no_router_starts_without_its_key_file(place, fault):
    with READING[fault](place, "keys"):
        done = place.run_tandem("serve", "--port", "0")

    assert done.returncode == 2
    assert re.search("keys.yaml.*(does not exist|is a folder|line 1)", done.stderr, re.DOTALL), done.stderr


@pytest.mark.parametrize(("place", "fault"), [("full", "full"), ("read-only", "read-only")], indirect=["place"])
def test_connect_changes_nothing_while_it_cannot_record_what_it_changes(place, fault):
    (place.folder / ".claude").mkdir()
    (settings := place.folder / ".claude" / "settings.json").write_text('{"model": "opus"}')
    connect = partial(place.run_tandem, "connect", "claude-code", "--key-env", "KEY", "--yes", KEY="tdm_x")
    with STARTING[fault](place, "state"):
        refused = connect()

    assert refused.returncode == 1
    assert re.search(r"(No space left on device|Read-only file system)\nnothing was changed", refused.stderr), refused.stderr
    assert settings.read_text() == '{"model": "opus"}'
    assert connect().returncode == 0
    assert settings.read_text() != '{"model": "opus"}'
