"""What is kept of an answer, and which answers are."""

import pytest
from msgspec.structs import replace

from router.contract.exchange import work_here
from router.contract.facts import Read, ResponseCompleted
from router.contract.parts import LARGE_BYTES
from router.contract.words import Operation
from router.responses.keep import ResponseKeeper, is_kept, record_response, write_ahead, write_history
from tests.router.responses.kept import CALL, SAID, SPARK, ask, holding, kept, restore
from tests.tools.exchanges import make_exchange
from tests.tools.values import make_view


class Known:
    """A store that has one response, and keeps others."""

    def __init__(self, stored=None) -> None:
        self._stored, self.kept = stored, []

    async def find(self, response_id, caller):
        return self._stored

    def keep(self, response, *, for_long):
        self.kept.append((response.id, response.target, response.at, for_long))


def complete(view, response: dict, job: str | None = None) -> list[tuple]:
    """What a store is handed once a request is answered so."""
    known = Known()
    exchange = make_exchange(ResponseKeeper(known, lambda: 5.0))
    exchange.arrival = replace(exchange.arrival, job=job)
    exchange.note(Read(view))
    exchange.note(ResponseCompleted(SPARK, response))
    return known.kept


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, True),
        ({"store": None}, True),
        ({"store": True}, True),
        ({"store": False}, False),
        ({"previous_response_id": "resp_unknown"}, False),
        ({"conversation": "conv_1"}, False),
    ],
)
def test_a_response_is_kept_unless_it_must_not_be_or_its_beginning_is_unknown(body, expected):
    assert is_kept(ask(**body)) is expected


def test_nothing_of_other_dialects_and_operations_is_kept():
    assert not is_kept(make_view({"messages": [{"role": "user", "content": "x"}], "store": True}))
    assert not is_kept(replace(ask(), operation=Operation.COUNT_TOKENS))


RESPONSE = {"id": "resp_7", "output": [SAID]}


@pytest.mark.parametrize(
    ("store", "job", "name", "for_long"),
    [(None, None, "resp_7", False), (True, None, "resp_7", True), (None, "resp_job", "resp_job", True)],
)
def test_a_completed_response_is_handed_to_the_store_that_of_a_job_under_the_id_that_its_caller_knows(
    store, job, name, for_long
):
    assert complete(ask(store=store), RESPONSE, job) == [(name, "spark", 5.0, for_long)]


def test_a_response_that_is_nested_too_deeply_to_be_written_is_not_kept():
    deep: list = []
    for _ in range(300):
        deep = [deep]

    assert complete(ask(), {"id": "resp_7", "output": deep}) == []


@pytest.mark.parametrize("given", ["hello", [{**SAID, "wei": 10**20}, CALL]])
async def test_a_conversation_written_ahead_is_stored_as_one_that_is_not(given):
    continuing = await restore(ask(given, previous_response_id="resp_1"), holding(kept(CALL)))

    for view in (ask(given), continuing):
        response = {"id": "resp_2", "output": [SAID]}
        at_once = record_response(view, SPARK, 1.0, response)
        ahead = record_response(view, SPARK, 1.0, response, written=write_history(view))

        assert ahead.read() == at_once.read()
        assert ahead == at_once


async def test_only_a_large_conversation_is_written_ahead_and_off_the_loop():
    ran = []

    async def off_loop(work, *given):
        ran.append(work)
        return await work_here(work, *given)

    for words in ("small", "x" * LARGE_BYTES):
        exchange = make_exchange()
        exchange.off_loop = off_loop
        write_ahead(exchange, view := ask(words))

        assert (exchange.written is not None) is (len(words) >= LARGE_BYTES)
    assert ran == [write_history]
    assert exchange.written == write_history(view)
