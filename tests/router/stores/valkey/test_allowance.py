"""Parts of limits in a real server: never more than the limit together, whatever becomes of the server or of a router."""

import asyncio
import random

import pytest

pytest.importorskip("hiredis")

from router.contract.allowance import Use
from router.contract.shared import OnStoreOutage
from router.stores.valkey.allowance import ValkeyAllowance
from router.stores.valkey.allowance_scripts import FORGET_SECONDS, LEAVE_SECONDS
from tests.tools.unreliable import FAULTS, UnreliableLink
from tests.tools.waiting import until

NAME = ("target", "spark", "requests_per_minute")


class Member:
    """A router with one part of a limit of 60."""

    def __init__(self, server, terms, on_store_outage=OnStoreOutage.SHARE, limit=60, ledger="", recorded=0, fault="") -> None:
        self.server, self.link, self.used, self.woken = server, UnreliableLink(terms, fault), 0, 0
        self.allowance = ValkeyAllowance(self.link, on_store_outage, "router", lambda: ledger)
        self._limit, self._ledger, self._recorded = limit, ledger, recorded

    async def start(self) -> "Member":
        await self.link.open()
        make = self.allowance.budget if self._ledger else self.allowance.part
        self.part = make(NAME, self._limit, lambda: Use(self.used), self._wake)
        if self._ledger:
            self.part.recall(self._recorded)
        await until(lambda: not self.allowance.is_blind)
        return self

    async def take(self, units: int) -> int:
        """Use this many more, as far as there are; answers how many there were."""
        taken = 0
        while taken < units:
            if self.used < self.part.allowed:
                self.used, taken = self.used + 1, taken + 1
                continue
            self.part.ask(1, min(self.part.slice, units - taken - 1))
            if not await self.part.answered():
                break
        return taken

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
async def make(valkey):
    """Makes routers that share a server which has been there for a while."""
    terms, members = valkey.terms(), list[Member]()
    valkey.send("HSET", f"{terms.prefix}:a:#routers", "#epoch", "1", "#told", "1")

    async def begin(**more) -> Member:
        members.append(await Member(valkey, terms, **more).start())
        return members[-1]

    yield begin
    for member in members:
        await member.link.close()


@pytest.mark.parametrize("fault", ["", *FAULTS, "never"])
async def test_all_parts_together_are_never_more_than_the_limit(make, fault):
    members, chance = [await make(fault=fault) for _ in range(3)], random.Random(1)

    async def use(member: Member) -> None:
        for _ in range(60):
            await member.take(chance.randint(0, 3))

    await asyncio.gather(*map(use, members))

    assert sum(member.part.held for member in members) <= 60
    for member in members:
        member.link.fault = ""
    await until(lambda: sum(member.used for member in members) >= 60 or any(later_take(member) for member in members))
    assert sum(member.used for member in members) <= 60


def later_take(member: Member) -> bool:
    """Use what there is, and ask for more; False, since it is not known yet what comes of it."""
    while member.used < member.part.allowed:
        member.used += 1
    member.part.ask(1)
    return False


async def test_a_strange_name_in_the_set_of_wanted_limits_ends_no_heartbeat(make, valkey):
    one = await make()
    valkey.send("ZADD", one.link.key("a", "#wanted"), "inf", b"\xff\xfe")
    beats = one.allowance._beats

    await until(lambda: one.allowance._beats >= beats + 2)


async def test_what_one_router_does_not_use_is_given_to_another_that_wants_it(make):
    one, other = await make(), await make()
    assert await one.take(60) == 60
    assert await other.take(1) == 0
    one.used = 20

    await until(lambda: later_take(other) or other.used == 40)

    assert one.part.held == 20


async def test_who_has_more_than_an_equal_part_gives_way_as_soon_as_it_is_free(make):
    one, other = await make(), await make()
    assert await one.take(60) == 60
    await until(lambda: later_take(other) or one.part.allowed < 60)

    one.used = 59  # the first is a minute old, and another waits at this router

    assert one.part.allowed < 60
    await until(lambda: later_take(other) or other.used == 1)


async def test_nobody_who_lost_the_server_has_more_than_before(make, valkey):
    one = await make()
    await one.take(10)
    held = one.part.held
    one.link._wire.end("the test cuts it")

    assert one.part.is_blind
    assert one.part.allowed == held >= 10
    assert not await one.part.answered()


@pytest.mark.parametrize(("on_store_outage", "allowed"), [(OnStoreOutage.STOP, 0), (OnStoreOutage.OPEN, 60)])
async def test_the_config_may_say_otherwise_of_routers_that_lost_the_server(make, on_store_outage, allowed):
    one = await make(on_store_outage=on_store_outage)
    await one.take(10)

    one.link._wire.end("the test cuts it")

    assert one.part.allowed == allowed


async def test_a_server_that_answers_with_an_error_counts_as_away_and_is_asked_again_later(make, valkey):
    one = await make()
    await one.take(10)
    held = one.part.held
    valkey.send("SET", key_of(one), "of another program")

    one.part.ask(50)
    await one.part.answered()

    assert one.part.is_blind
    assert not one.allowance.is_blind
    assert one.part.allowed == held
    assert one.part.asks_in_seconds > 0.5
    assert not await one.part.answered()
    trips = one.link.trips
    one.part.ask(50)
    assert one.link.blind["limits"] == 1
    assert one.link.trips == trips
    valkey.send("DEL", key_of(one))
    await until(lambda: later_take(one) or one.used == 60)


async def test_a_server_that_lost_everything_has_it_back_before_it_gives_anything_away(make, valkey):
    one, other = await make(), await make()
    await one.take(40)
    await other.take(20)
    await until(lambda: one.allowance.replicas == other.allowance.replicas == 2)
    valkey.send("FLUSHALL")

    for _ in range(20):
        later_take(one)
        await asyncio.sleep(0)
    await until(lambda: one.part.held + other.part.held == 60 and not one.allowance.is_blind and not other.allowance.is_blind)
    await until(lambda: later_take(one) or valkey.send("HGET", key_of(one), f"o:{me(other)}") == b"$2\r\n20\r\n")

    assert (one.used, other.used) == (40, 20)


async def test_all_routers_whose_connections_outlive_the_records_state_their_parts_again(make, valkey):
    members = [await make() for _ in range(3)]
    for member in members:
        assert await member.take(10) == 10
    await until(lambda: all(member.allowance.replicas == 3 for member in members))

    valkey.send("FLUSHALL")
    members[0].allowance.rejoin()  # as with its next beat: it names the others, which have noticed nothing
    await until(lambda: not members[0].allowance.is_blind)

    await until(lambda: later_take(members[0]) or members[0].used == 40)
    assert [member.part.held for member in members] == [40, 10, 10]


@pytest.mark.parametrize("is_named", [False, True])
async def test_records_that_are_lost_while_a_router_states_its_parts_are_stated_once_more(make, valkey, is_named):
    one, other, run, lost = await make(), await make(), UnreliableLink.run, []

    def lose_before_done(script, keys, *words):
        if "done" in words and not lost:
            lost.append(one.link.ask("FLUSHALL"))  # after all that the router has sent
            if is_named:
                epoch = ("#epoch", "1", "#told", "1")
                lost.append(one.link.ask("HSET", keys[0], *epoch, me(one), f"?{read_clock(valkey):.0f}"))
        return run(one.link, script, keys, *words)

    assert await one.take(40) == 40
    one.link.run = lose_before_done
    one.allowance.rejoin()
    await until(lambda: not one.allowance.is_blind and not other.allowance.is_blind)

    await until(lambda: later_take(other) or other.used == 60 - one.part.held)
    assert valkey.send("HGET", key_of(one), f"o:{me(one)}") == b"$2\r\n%d\r\n" % one.part.held
    assert lost


async def test_a_router_that_others_named_after_a_loss_names_those_that_only_it_knows(make, valkey):
    one, killed = await make(), await make()
    await until(lambda: one.allowance.replicas == 2)
    await killed.link.close()

    routers = one.link.key("a", "#routers")
    valkey.send("FLUSHALL")
    valkey.send("HSET", routers, "#epoch", "1", "#told", "1", me(one), f"?{read_clock(valkey):.0f}")

    await until(lambda: valkey.send("HEXISTS", routers, me(killed)) == b":1\r\n")


async def test_while_a_router_that_should_be_back_is_missing_nobody_knows_what_is_left(make, valkey):
    one = await make()
    await one.take(10)
    now = read_clock(valkey)
    valkey.send("HSET", one.link.key("a", "#routers"), "router:1:killed", f"?{now - LEAVE_SECONDS * 500:.0f}")

    assert await one.take(60) == one.part.held - 10
    assert one.part.is_blind
    assert one.part.asks_in_seconds > 0.1

    valkey.send("HSET", one.link.key("a", "#routers"), "router:1:killed", f"?{now - LEAVE_SECONDS * 1_000:.0f}")
    await until(lambda: later_take(one) or one.used == 60)


async def test_what_the_others_had_goes_from_one_to_another_while_a_router_is_missing_and_nothing_else(make, valkey):
    one, other, killed = await make(), await make(), await make()
    assert await one.take(30) == 30
    assert await killed.take(20) == 20
    await until(lambda: one.allowance.replicas == other.allowance.replicas == 3)
    await killed.link.close()
    known = one.part.held + other.part.held
    valkey.send("FLUSHALL")
    await until(lambda: valkey.send("HEXISTS", one.link.key("a", "#routers"), me(killed)) == b":1\r\n")
    await until(lambda: not one.allowance.is_blind and not other.allowance.is_blind)

    one.used = 5
    await until(lambda: later_take(other) or other.used == known - 5)
    for _ in range(20):
        later_take(other)
        await other.link.ask("PING")  # answered after what was asked before it

    assert one.part.held + other.part.held == known <= 60 - 20


async def test_a_router_that_was_killed_a_while_ago_is_not_waited_for(make, valkey):
    one, other = await make(), await make()
    await until(lambda: one.allowance.replicas == 2)
    await other.link.close()
    valkey.send("HSET", one.link.key("a", "#routers"), me(other), "!1")
    await until(lambda: one.allowance.replicas == 1)

    valkey.send("FLUSHALL")

    await until(lambda: later_take(one) or one.used == 60)


def key_of(member: Member) -> str:
    return member.link.key("a", ":".join(NAME))


def me(member: Member) -> str:
    return member.allowance._me


def read_clock(server) -> float:
    """The milliseconds of the server."""
    return float(server.send("TIME").split(b"\r\n")[2]) * 1_000


async def test_what_a_router_had_that_left_is_free_a_minute_later_and_not_before(make, valkey):
    one, other = await make(), await make()
    await one.take(60)
    await one.allowance.close()
    assert await other.take(1) == 0

    valkey.send("HSET", other.link.key("a", "#routers"), me(one), "-1")

    await until(lambda: later_take(other) or other.used == 60)


async def test_a_router_that_is_silent_for_long_while_others_are_heard_is_forgotten(make, valkey):
    one, other = await make(), await make()
    await one.take(60)
    await one.link.close()
    now = read_clock(valkey)
    valkey.send("HSET", other.link.key("a", "#routers"), me(one), f"!{now - FORGET_SECONDS * 500:.0f}")
    assert await other.take(1) == 0

    valkey.send("HSET", other.link.key("a", "#routers"), me(one), f"!{now - FORGET_SECONDS * 1_000:.0f}")

    await until(lambda: later_take(other) or other.used == 60)


async def test_a_limit_that_is_lowered_takes_back_what_is_more(make):
    one, other = await make(), await make()
    await one.take(30)
    await other.take(30)

    one.part.limit = other.part.limit = 20
    one.used = other.used = 0

    await until(lambda: one.part.ask(1) or other.part.ask(1) or one.part.held + other.part.held <= 20)
    assert one.part.allowed + other.part.allowed <= 20


async def test_a_grant_on_its_way_counts_once_where_something_is_stated_at_the_same_time(make):
    one, other = await make(ledger="a"), await make(ledger="b")
    await one.take(10)
    one.used = 0

    one.part.ask(20)
    one.part.spend(5)
    one.allowance._give([])  # a beat comes
    await one.part.answered()
    one.part.ask(20)
    one.part.limit = 59
    await one.part.answered()
    await other.take(60)

    assert one.part.held + 5 + other.part.held <= 60


async def test_a_grant_that_a_statement_has_overtaken_is_not_counted(make):
    one, other = await make(), await make()

    one.part.ask(20)
    await one.part.state()
    await other.take(60)

    assert one.part.held + other.part.held <= 60


async def test_a_router_that_was_forgotten_takes_nothing_from_what_others_were_given(make, valkey):
    one, other = await make(), await make()
    await one.take(60)
    one.link._wire.end("the test cuts it")
    valkey.send("HDEL", other.link.key("a", "#routers"), me(one))
    assert await other.take(60) == 60
    await until(lambda: not one.allowance.is_blind)

    await until(lambda: one.part.allowed == 0 or other.part.allowed == 0)


async def test_nothing_is_given_at_the_very_beginning_until_routers_that_may_be_there_had_time_to_come_back(valkey):
    member = await Member(valkey, valkey.terms()).start()
    began = asyncio.get_running_loop().time()

    assert await member.take(1) == 1

    assert asyncio.get_running_loop().time() - began > 1.0
    await member.link.close()


async def test_what_is_spent_does_not_come_back_and_is_known_to_all(make):
    one, other = await make(ledger="a"), await make(ledger="b", recorded=7)
    await one.take(20)
    one.used, _ = 0, one.part.spend(20)
    assert await other.take(40) == 33

    await until(lambda: other.part.ask(1) or other.part.spent == 27)
    await until(lambda: one.part.ask(1) or one.part.spent == 27)
    assert await one.take(1) == 0


async def test_what_is_spent_while_a_statement_is_on_its_way_is_not_taken_from_what_others_spent(make):
    one, _ = await make(ledger="a"), await make(ledger="b", recorded=7)
    await one.take(20)
    await until(lambda: one.part.ask(1) or one.part.spent == 7)
    await one.part.answered()
    asking = one.part.state()

    one.part.spend(5)
    await asking

    assert one.part.spent == 12


async def test_a_router_that_asks_before_it_spends_knows_what_another_went_over_by(make):
    one, other = await make(ledger="a"), await make(ledger="a")
    await one.take(20)
    assert await other.take(20) == 20
    one.used, other.used = 90, 0
    assert other.part.allowed >= 20

    await one.part.confirm()
    await other.part.confirm()
    assert other.part.allowed == 0
    one.used, _ = 0, one.part.spend(90)
    await other.part.confirm()
    await until(lambda: other.part.ask(1) or other.part.spent == 90)

    assert other.part.allowed == 0


async def test_what_the_ledger_says_while_a_statement_is_on_its_way_is_stated_next(make):
    one = await make(limit=1_000, ledger="one", recorded=10)
    asking = one.part.state()

    one.part.recall(40)
    await asking
    await one.part.state()

    await until(lambda: one.part.spent == 40)


async def test_of_routers_with_one_ledger_what_it_says_is_counted_once(make):
    one = await make(ledger="a", recorded=10)
    await one.take(20)
    one.used, _ = 0, one.part.spend(20)
    await one.take(1)
    other = await make(ledger="a", recorded=30)

    await other.take(1)

    assert other.part.spent == 30


async def test_what_was_spent_is_known_again_after_the_server_lost_it(make, valkey):
    one = await make(ledger="a", recorded=10)
    await one.take(20)
    one.used, _ = 0, one.part.spend(20)
    await one.take(1)

    valkey.send("FLUSHALL")

    await until(lambda: valkey.send("HGET", one.link.key("b", ":".join(NAME)), "l:a") == b"$2\r\n10\r\n")
    assert one.part.spent == 30


async def test_what_a_router_spent_that_has_left_is_known_again_from_another_after_the_server_lost_it(make, valkey):
    one, other = await make(ledger="a", recorded=10), await make(ledger="b")
    await one.take(20)
    one.used, _ = 0, one.part.spend(20)
    await until(lambda: other.part.ask(1) or other.part.spent == 30)
    await one.allowance.close()
    await one.link.close()
    await until(lambda: other.allowance.replicas == 1)

    valkey.send("FLUSHALL")
    await until(lambda: valkey.send("HGET", other.link.key("b", ":".join(NAME)), "k:a") == b"$2\r\n30\r\n")
    back = await make(ledger="a", recorded=35)
    await until(lambda: back.part.ask(1) or back.part.held)

    await until(lambda: other.part.ask(1) or other.part.spent == 35)
    assert back.part.spent == 35


async def test_parts_that_were_made_before_there_is_a_connection_are_stated_with_it(valkey):
    member = Member(valkey, valkey.terms(), ledger="a")
    part = member.allowance.budget(NAME, 60, lambda: Use(0), lambda: None)
    part.recall(7)

    await member.link.open()

    await until(lambda: valkey.send("HGET", member.link.key("b", ":".join(NAME)), "l:a") == b"$1\r\n7\r\n")
    await member.link.close()


async def test_all_of_many_parts_are_stated_with_a_connection(valkey):
    member = Member(valkey, valkey.terms())
    for number in range(250):
        member.allowance.part(("caller", str(number)), 60, lambda: Use(0), lambda: None)

    await member.link.open()
    await until(lambda: not member.allowance.is_blind)

    assert len(valkey.send("KEYS", member.link.key("a", "caller", "*")).split(b"caller")) == 251
    await member.link.close()
