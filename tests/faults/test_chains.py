"""Conversations that change routers with every step, in short: see `chains`."""

import contextlib

import pytest

pytest.importorskip("asyncpg")
pytest.importorskip("hiredis")

from tests.faults.chains import CONFIG, POSTGRES, VALKEY, Chains, Host, hosts_of, repeat_everywhere, share
from tests.tools.http import call
from tests.tools.running import running
from tests.tools.waiting import until

CHAINS, STEPS, KEYS = 10, 4, 10


@pytest.fixture
async def routers_on(tmp_path, monkeypatch, patient_answers):
    """Three routers on one store, and the hosts that they call."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(valkey=None, postgres=None, **more):
            if valkey is not None:
                monkeypatch.setenv("TANDEM_VALKEY_URL", valkey.url())
            if postgres is not None:
                monkeypatch.setenv("TANDEM_POSTGRES_URL", await postgres.create_used())
            stores = [*([VALKEY] if valkey is not None else []), *([POSTGRES] if postgres is not None else [])]
            hosts = [Host("chat"), Host("responses")]
            config = CONFIG.format(*await stack.enter_async_context(hosts_of(hosts))) + share(*stores)
            routers = []
            for number in range(3):
                (folder := tmp_path / str(number)).mkdir()
                routers.append(await stack.enter_async_context(running(config, folder, **more)))
            return routers, hosts

        yield begin


async def test_a_conversation_goes_on_at_any_router_with_all_its_history(valkey, postgres, routers_on):
    routers, _ = await routers_on(valkey, postgres)
    chains = Chains([router.port for router in routers])

    await chains.run(CHAINS, STEPS)

    assert (chains.faults, chains.steps) == ([], CHAINS * STEPS)


async def test_a_stored_conversation_goes_on_at_any_router_that_shares_only_a_database(postgres, routers_on):
    routers, _ = await routers_on(postgres=postgres)
    chains = Chains([router.port for router in routers], only_stored=True)

    await chains.run(4, STEPS)

    assert (chains.faults, chains.steps) == ([], 4 * STEPS)


async def test_a_key_that_reaches_all_routers_at_once_is_one_call_of_a_target(valkey, routers_on):
    routers, hosts = await routers_on(valkey)

    faults = await repeat_everywhere([router.port for router in routers], KEYS)

    assert (faults, sum(host.calls for host in hosts)) == ([], KEYS)


async def test_the_response_of_a_background_job_is_continued_at_another_router_and_deleted_at_a_third(postgres, routers_on):
    (one, other, third), _ = await routers_on(postgres=postgres)
    job = (await call(one.port, "/v1/responses", {"model": "auto", "input": "chain0step0", "background": True})).json["id"]
    path = f"/v1/responses/{job}"
    await call(one.port, f"{path}?stream=true", method="GET")  # to its end
    follow = {"model": "auto", "input": "chain0step1", "previous_response_id": job, "store": True}

    replies = [await call(router.port, "/v1/responses", follow) for router in (one, other, third)]
    deleted = await call(third.port, path, method="DELETE")
    after = [await call(router.port, "/v1/responses", follow) for router in (one, other, third)]

    assert [reply.status for reply in replies] == [200, 200, 200]
    assert all("which is step 1 of 2" in reply.body.decode() for reply in replies)
    assert all(reply.json["error"]["code"] == "previous_response_not_found" for reply in after)
    assert (deleted.status, [reply.status for reply in after]) == (200, [400, 400, 400])


async def test_while_the_server_is_away_the_maker_serves_and_others_ask_to_come_back(own_valkey, routers_on):
    (maker, other, _), _ = await routers_on(own_valkey)
    made = (await call(maker.port, "/v1/responses", {"model": "auto", "input": "chain0step0"})).json["id"]
    follow = {"model": "auto", "input": "chain0step1", "previous_response_id": made}

    own_valkey.kill()
    await until(lambda: not any(router.house.state.shared.link.is_up for router in (maker, other)))
    replies = [await call(router.port, "/v1/responses", follow) for router in (maker, other)]
    keyed = await call(other.port, "/v1/responses", {"model": "auto", "input": "x"}, {"idempotency-key": "k"})
    deletion = await call(maker.port, f"/v1/responses/{made}", method="DELETE")

    assert [reply.status for reply in replies] == [200, 503]
    refused = (replies[1], keyed, deletion)
    assert [(reply.json["error"]["code"], reply.headers["retry-after"]) for reply in refused] == [
        ("store_unavailable", "1")
    ] * 3

    own_valkey.start()
    while (again := await call(other.port, "/v1/responses", follow)).status == 503:
        pass
    assert again.status == 200, "the maker writes what the server has lost before anyone takes it for gone"
