"""A key that one router revokes is revoked at all, also at those that were away or come later."""

import pytest

pytest.importorskip("hiredis")

from router.contract.shared import SharedTerms
from router.stores.shared import Shared
from tests.tools.waiting import until

ONE, TWO = b"\x01" * 32, b"\x02" * 32


class Router(Shared):
    def __init__(self, terms, name):
        super().__init__(SharedTerms(name, terms))
        self.heard = []
        self.revoked_keys.subscribe(self.heard.append)

    @property
    def revoked(self):
        return self.heard[-1]


@pytest.fixture
async def start(own_valkey):
    terms, started = own_valkey.terms(), []

    async def start_one(name="a"):
        started.append(router := Router(terms, name))
        await router.connect()
        return router

    yield start_one
    for router in started:
        await router.close()


async def test_a_key_that_was_revoked_or_put_back_is_heard_of_everywhere(start):
    here, there = await start("a"), await start("b")
    assert there.heard == [frozenset()]

    here.revoked_keys.report({ONE, TWO}, set())
    await until(lambda: there.revoked == {ONE, TWO} and here.revoked == {ONE, TWO})
    here.revoked_keys.report(set(), {TWO})

    await until(lambda: there.revoked == {ONE})


async def test_a_router_that_is_started_later_learns_of_it(start):
    here = await start("a")
    here.revoked_keys.report({ONE}, set())
    await until(lambda: here.revoked == {ONE})

    there = await start("b")

    await until(lambda: there.revoked == {ONE})


async def test_what_could_not_be_told_is_told_when_the_server_is_back(start, own_valkey):
    here, there = await start("a"), await start("b")
    own_valkey.kill()
    await until(lambda: not here.link.is_up and not there.link.is_up)

    here.revoked_keys.report({ONE}, set())
    own_valkey.start()

    await until(lambda: there.revoked == {ONE})


async def test_a_server_that_lost_the_list_has_it_back_from_the_routers(start, own_valkey):
    here, there = await start("a"), await start("b")
    here.revoked_keys.report({ONE}, set())
    there.revoked_keys.report({TWO}, set())
    await until(lambda: here.revoked == there.revoked == {ONE, TWO})
    await here.close()

    own_valkey.kill()
    own_valkey.start()
    await until(lambda: there.link.losses and there.link.is_up)
    later = await start("c")

    await until(lambda: later.revoked == {ONE, TWO})
    assert there.revoked == {ONE, TWO}


async def test_a_key_that_was_put_back_while_a_router_was_away_works_there_too(start):
    here, there = await start("a"), await start("b")
    here.revoked_keys.report({ONE, TWO}, set())
    await until(lambda: there.revoked == {ONE, TWO})

    there.link._wire.end("the test cuts it")
    here.revoked_keys.report(set(), {ONE})

    await until(lambda: there.revoked == here.revoked == {TWO})


async def test_a_key_that_a_full_server_did_not_take_is_revoked_here_at_once_and_everywhere_later(start, own_valkey):
    here, there = await start("a"), await start("b")
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")

    here.revoked_keys.report({ONE}, set())
    before = here.link.trips
    await until(lambda: here.link.trips > before + 3)
    assert here.revoked == {ONE}, "the list that the server still answers with does not count"
    own_valkey.send("CONFIG", "SET", "maxmemory", "0")

    await until(lambda: there.revoked == {ONE})


async def test_members_of_the_list_that_no_router_wrote_are_passed_over(start, own_valkey):
    here = await start("a")
    own_valkey.send("SADD", here.link.key("p", "revoked"), "words", b"\xff\xfe", "abcd")

    here.revoked_keys.report({ONE}, set())

    await until(lambda: here.revoked == {ONE})


async def test_a_value_of_another_program_in_its_place_leaves_what_is_known(start, own_valkey):
    here = await start("a")
    here.revoked_keys.report({ONE}, set())
    await until(lambda: here.revoked == {ONE})

    own_valkey.send("SET", here.link.key("p", "revoked"), "words")
    before = here.link.trips
    here.revoked_keys.report({TWO}, set())
    await until(lambda: here.link.trips > before + 2)

    assert here.revoked == {ONE, TWO}
    assert here.link.is_up
