"""The savings in the ledger: whose, since when, and how often it is worked out."""

import asyncio
import threading

import orjson
import pytest

from router.contract.caller import Caller
from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.rights import Rights
from router.contract.stores import StoreUnusable
from router.edge.control.panel import Asked
from router.edge.control.savings import Looks, SavingsFigures

NOW = 1_000_000.0

PLAIN = Rights()


class Ledger:
    """Notes who asked, and since when."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str | None]] = []
        self.threads: set[int] = set()
        self.trouble: Exception | None = None

    def look_back(self, since, caller, **of):
        self.of = of
        self.asked.append((since, caller))
        self.threads.add(threading.get_ident())
        if self.trouble is not None:
            raise self.trouble
        return {"turns": len(self.asked)}


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def show(ledger, clock):
    page, _ = SavingsFigures(Looks(ledger.look_back, clock), clock).pages

    async def ask(rights=PLAIN, name="ann", **query):
        answer = await page.answer(Asked("req_1", Caller(name), {}, query, {}, None, rights))
        return orjson.loads(answer.body)

    return ask


async def test_a_caller_sees_its_own_figures_and_an_admin_those_of_all(show, ledger):
    await show(since="2h")
    await show(Rights(is_admin=True), since="2h")

    assert ledger.asked == [(NOW - 7_200, "ann"), (NOW - 7_200, None)]


async def test_a_week_is_looked_at_unless_asked_otherwise_and_never_on_the_loop(show, ledger):
    await show()

    assert ledger.asked == [(NOW - 7 * 86_400, "ann")]
    assert threading.get_ident() not in ledger.threads


@pytest.mark.parametrize("since", ["", "yesterday", "7", "-1d", "1e9d", "2026-11-01"])
async def test_a_time_that_is_not_understood_is_refused_with_what_would_be(show, ledger, since):
    with pytest.raises(BadRequest, match="30m, 2h or 7d"):
        await show(since=since)

    assert ledger.asked == []


async def test_many_who_ask_at_once_share_one_look_at_the_ledger_for_a_few_seconds(show, ledger, clock):
    shown = await asyncio.gather(*(show(since="1h") for _ in range(9)))
    clock.now += 3.1
    later = await show(since="1h")

    assert (shown, later) == ([{"turns": 1}] * 9, {"turns": 2})


async def test_one_caller_is_never_shown_what_was_worked_out_for_another(show, ledger):
    await show(name="ann")
    await show(name="bob")

    assert [caller for _, caller in ledger.asked] == ["ann", "bob"]


async def test_a_ledger_that_cannot_be_read_is_no_defect_and_its_path_stays_here(show, ledger):
    ledger.trouble = StoreUnusable("/secret/path: not a usable ledger")

    with pytest.raises(Unavailable) as refused:
        await show()

    assert "/secret" not in str(refused.value)


async def test_without_a_ledger_there_is_nothing_to_look_back_at(clock):
    page, _ = SavingsFigures(None, clock).pages

    with pytest.raises(NotFound, match=r"ledger\.path"):
        await page.answer(Asked("req_1", Caller("ann"), {}, {}, {}, None, Rights()))


async def test_an_admin_may_ask_for_one_caller_and_everybody_for_a_client_or_a_target(show, ledger):
    await show(Rights(is_admin=True), caller="bob", client="codex")
    await show(caller="bob", target="spark", other="x")

    assert ([caller for _, caller in ledger.asked], ledger.of) == (["bob", "ann"], {"target": "spark"})


async def test_a_look_that_took_long_is_shown_for_longer(ledger, clock):
    def look_slowly(since, caller):
        clock.now += 2.0
        return ledger.look_back(since, caller)

    looks = Looks(look_slowly, clock)
    await looks.find(5.0, None)
    clock.now += 39.0

    assert await looks.find(5.0, None) == {"turns": 1}
    clock.now += 1.1
    assert await looks.find(5.0, None) == {"turns": 2}
