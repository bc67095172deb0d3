"""Requests with an idempotency key, against a road that does as it is told."""

import asyncio
import itertools

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.errors import BadRequest, IdempotencyMismatch, InProgress, StoreUnavailable, UpstreamCut
from router.contract.exchange import Deadline, Exchange
from router.contract.facts import Ending, Replayed
from router.contract.sinks import Serving, Waiting
from router.contract.stores import HeldKey, StoreUnusable
from router.contract.words import Dialect, Operation, Outcome
from router.responses.kept_answers import MAX_ANSWER_BYTES, KeptAnswers
from router.responses.repeats import Repeats
from router.stores.memory.socket_responses import SocketResponses
from tests.tools.exchanges import RecordingSink, Told
from tests.tools.houses import arrive
from tests.tools.waiting import later

pytestmark = pytest.mark.jumping_clock

SERVED = Ending(Outcome.SERVED, 200)
HEADERS = (
    ("x-tandem-request-id", "req_1"),
    ("x-tandem-because", "looks like a quick edit"),
    ("x-tandem-overhead-ms", "0.30"),
    ("x-tandem-target", "spark"),
    ("content-type", "application/json"),
    ("x-ratelimit-remaining-requests", "9"),
    ("x-request-id", "upstream-1"),
)

QUEUED_HEAD = (("x-tandem-target", "queued"), ("x-tandem-score", "0.007"))


class Road:
    """Repeats, and what comes after them. Its answer may be held back."""

    def __init__(self, *endings, pieces=(b"one ", b"two"), waits: bool = False, **shared) -> None:
        clock = asyncio.get_running_loop().time
        self.repeats = Repeats(KeptAnswers(clock=clock), clock, **shared)
        self.endings, self.pieces, self.waits = list(endings) or [SERVED], pieces, waits
        self.calls = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._names = itertools.count(1)

    async def answer(self, exchange, sink) -> Ending:
        self.calls += 1
        ending = self.endings.pop(0) if len(self.endings) > 1 else self.endings[0]
        sink.feed_from(None)
        sink.start(200, HEADERS if not self.waits else QUEUED_HEAD)
        if self.waits:
            sink.tell(Waiting("spark", 1, 1, 4.0))
            sink.tell(Serving(HEADERS))
        await self.go_on.wait()
        if isinstance(ending, Exception):
            raise ending
        for piece in self.pieces:
            sink.write(piece)
        sink.end()
        return ending

    async def ask(self, key="k", *, headers=None, seconds=600.0, caller=None, responses=None, **arrival):
        arrived = arrive(f"req_{next(self._names)}", headers={"idempotency-key": key, **(headers or {})}, **arrival)
        arrived = replace(arrived, responses=responses, **({"caller": caller} if caller else {}))
        began = asyncio.get_running_loop().time()
        exchange, sink = Exchange(arrived, began, Deadline(began + seconds), Told()), RecordingSink()
        sink.ending, sink.exchange = await self.repeats.serve(self.answer, exchange, sink), exchange
        return sink


@pytest.fixture
async def road():
    return Road()


async def test_an_answer_that_waited_for_a_quota_comes_again_as_if_it_had_not():
    waited, at_once = Road(waits=True), Road()
    first = await waited.ask()
    await at_once.ask()
    again, expected = await waited.ask(), await at_once.ask()

    assert (first.headers, len(first.facts)) == (QUEUED_HEAD, 2)
    assert again.told == expected.told
    assert again.headers == expected.headers


async def test_it_has_the_headers_of_the_answer_and_its_own_of_the_request(road):
    await road.ask()
    again = await road.ask()

    assert (road.calls, again.body, again.ending) == (1, b"one two", SERVED)
    assert dict(again.headers) == {
        "x-tandem-request-id": "req_2",
        "x-tandem-because": "replayed from req_1 (same idempotency-key)",
        "x-tandem-replayed": "true",
        "x-tandem-target": "spark",
        "content-type": "application/json",
        "x-request-id": "upstream-1",
    }
    assert again.exchange.last(Replayed).because == dict(again.headers)["x-tandem-because"]


@pytest.mark.parametrize(
    "more",
    [{"n": 2}, {"stream": True}, {"dialect": Dialect.RESPONSES}, {"headers": {"x-tandem-tier": "deep"}}],
    ids=["body", "stream", "route", "override"],
)
async def test_the_key_of_another_request_is_a_mismatch(road, more):
    await road.ask()

    with pytest.raises(IdempotencyMismatch) as raised:
        await road.ask(**more)

    assert (raised.value.status, raised.value.code, raised.value.param) == (409, "idempotency_mismatch", "idempotency-key")
    assert road.calls == 1


async def test_what_an_sdk_counts_up_by_itself_makes_no_other_request_of_it(road):
    await road.ask(headers={"x-stainless-retry-count": "0"})
    await road.ask(headers={"x-stainless-retry-count": "1"})

    assert road.calls == 1


@pytest.mark.parametrize(
    "more",
    [
        {"caller": Caller("ann")},
        {"headers": {"authorization": "Bearer other"}},
        {"headers": {"x-tandem-upstream-key": "other"}},
        {"key": "K"},
    ],
    ids=["caller", "credential", "upstream key", "key"],
)
async def test_a_key_is_its_callers_own(road, more):
    await road.ask()
    await road.ask(**more)

    assert road.calls == 2


async def test_one_that_comes_while_the_first_runs_waits_and_gets_its_answer(road):
    road.go_on.clear()
    asking = [later(road.ask()) for _ in range(3)]
    await asyncio.sleep(60)
    assert (road.calls, [task.done() for task in asking]) == (1, [False] * 3)

    road.go_on.set()
    sinks = await asyncio.gather(*asking)

    assert {sink.body for sink in sinks} == {b"one two"}
    assert road.calls == 1
    assert [sink.exchange.last(Replayed) is not None for sink in sinks] == [False, True, True]


async def test_while_the_first_runs_one_that_differs_is_refused_and_one_whose_deadline_comes_first_is_to_come_again(road):
    road.go_on.clear()
    first = later(road.ask())
    await asyncio.sleep(0)

    with pytest.raises(IdempotencyMismatch):
        await road.ask(n=2)
    with pytest.raises(InProgress) as raised:
        await road.ask(seconds=30.0)

    assert (raised.value.status, raised.value.code, raised.value.retry_after_seconds) == (409, "in_progress", 5.0)
    road.go_on.set()
    await first
    assert road.calls == 1


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SERVED])
async def test_only_what_was_served_is_kept(outcome):
    road = Road(Ending(outcome, 200), SERVED)
    first, second = await road.ask(), await road.ask()

    assert (first.ending.outcome, second.ending.outcome, road.calls) == (outcome, Outcome.SERVED, 2)


async def test_a_failure_frees_the_key_for_one_of_those_who_wait_and_the_others_wait_for_that():
    road = Road(UpstreamCut("spark", "x"), SERVED)
    road.go_on.clear()
    asking = [later(road.ask()) for _ in range(3)]
    await asyncio.sleep(1)
    road.go_on.set()

    told = await asyncio.gather(*asking, return_exceptions=True)

    assert isinstance(told[0], UpstreamCut)
    assert [sink.body for sink in told[1:]] == [b"one two"] * 2
    assert road.calls == 2


async def test_a_caller_who_leaves_frees_the_key(road):
    road.go_on.clear()
    first = later(road.ask())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    road.go_on.set()

    assert (await road.ask()).body == b"one two"
    assert road.calls == 2


async def test_one_who_leaves_while_waiting_disturbs_nobody(road):
    road.go_on.clear()
    asking = [later(road.ask()) for _ in range(3)]
    await asyncio.sleep(0)
    asking[1].cancel()
    await asyncio.wait([asking[1]])
    road.go_on.set()

    assert [(await asking[number]).body for number in (0, 2)] == [b"one two"] * 2
    assert road.calls == 1


@pytest.mark.parametrize(("size", "calls"), [(MAX_ANSWER_BYTES, 1), (MAX_ANSWER_BYTES + 1, 2)], ids=["a MiB", "more"])
async def test_an_answer_of_more_than_a_mebibyte_is_sent_whole_and_not_kept(size, calls):
    road = Road(pieces=(b"x" * 1_000, b"y" * (size - 1_000)))
    first, second = await road.ask(), await road.ask()

    assert len(first.body) == len(second.body) == size
    assert road.calls == calls


async def test_after_ten_minutes_the_key_is_free(road):
    await road.ask()
    await asyncio.sleep(601)
    await road.ask(n=2)

    assert road.calls == 2


@pytest.mark.parametrize(
    "more",
    [{"operation": Operation.COUNT_TOKENS}, {"operation": Operation.COMPACT}, {"responses": SocketResponses(None)}],
    ids=["count", "compaction", "socket"],
)
async def test_only_create_calls_over_http_have_keys(road, more):
    await road.ask(**more)
    await road.ask(**more)

    assert road.calls == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "a\x7fb"], ids=["empty", "long", "not ASCII", "control"])
async def test_a_key_that_is_none_is_refused_with_words(road, key):
    with pytest.raises(BadRequest, match="idempotency-key: send it once, with 1 to 255 printable ASCII characters"):
        await road.ask(key)

    assert road.calls == 0


async def test_a_large_body_is_compared_off_the_loop_and_all_the_same(road):
    large = b'{"model": "auto", "messages": [{"role": "user", "content": "%s"}]}' % (b"x" * 600_000)
    await road.ask(raw=large)
    await road.ask(raw=large)
    with pytest.raises(IdempotencyMismatch):
        await road.ask(raw=large.replace(b"auto", b"deep"))

    assert road.calls == 1


async def test_nothing_is_left_of_a_key_but_its_answer(road):
    await road.ask()

    assert road.repeats._running == {}
    road.repeats.close()
    assert road.repeats.kept.kept_bytes == 0


class SharedSlots:
    """Slots that several routers share, and that may be away."""

    def __init__(self) -> None:
        self.held, self.is_away, self.changed, self.waits = {}, False, asyncio.Event(), asyncio.Event()

    def restore_from(self, list_answers) -> None:
        self.list_answers = list_answers

    async def claim(self, slot, asked):
        if self.is_away:
            raise StoreUnusable("away")
        if slot in self.held:
            return self.held[slot]
        self.held[slot] = HeldKey(asked, None)
        return None

    def finish(self, slot, answer) -> None:
        held = self.held.pop(slot, None)
        if answer is not None and held is not None:
            self.held[slot] = held._replace(answer=answer)
        self.changed.set()

    async def wait(self, slot, seconds) -> None:
        self.changed.clear()
        self.waits.set()
        await asyncio.wait([asyncio.get_running_loop().create_task(self.changed.wait())], timeout=min(seconds, 5))

    def close(self) -> None: ...


async def test_what_was_answered_can_be_given_back_to_a_store_that_lost_it():
    one, other = Road(shared=(slots := SharedSlots())), Road(shared=(emptied := SharedSlots()))
    first = await one.ask()

    emptied.held = {slot: held for slot, held, seconds in slots.list_answers() if seconds > 0}
    again = await other.ask()

    assert (other.calls, again.body) == (0, first.body)


async def test_what_another_router_answered_is_said_again_and_nobody_is_called():
    one, other = Road(shared=(slots := SharedSlots())), Road(shared=slots)
    first, again = await one.ask(), await other.ask()

    assert (one.calls, other.calls, again.body, again.ending) == (1, 0, first.body, SERVED)
    assert ("x-tandem-replayed", "true") in again.headers
    assert ("x-tandem-target", "spark") in again.headers


async def test_a_request_waits_for_the_same_one_at_another_router_and_is_the_first_if_that_fails():
    one, other = Road(UpstreamCut("spark", "cut"), shared=(slots := SharedSlots())), Road(shared=slots)
    one.go_on.clear()
    async with asyncio.TaskGroup() as group:
        first, again = group.create_task(_fails(one)), group.create_task(other.ask())
        await slots.waits.wait()
        assert (one.calls, other.calls) == (1, 0)
        one.go_on.set()

    assert (first.result(), again.result().body, other.calls) == ("UpstreamCut", b"one two", 1)


async def _fails(road) -> str:
    try:
        await road.ask()
    except UpstreamCut as error:
        return type(error).__name__
    return ""


async def test_a_key_that_another_request_has_at_another_router_is_refused():
    one, other = Road(shared=(slots := SharedSlots())), Road(shared=slots)
    await one.ask()

    with pytest.raises(IdempotencyMismatch):
        await other.ask(raw=b'{"other": true}')
    assert other.calls == 0


async def test_a_request_whose_deadline_comes_before_the_end_at_another_router_is_told_so():
    one, other = Road(shared=(slots := SharedSlots())), Road(shared=slots)
    one.go_on.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(one.ask())
        await asyncio.sleep(0)
        with pytest.raises(InProgress):
            await other.ask(seconds=12.0)
        one.go_on.set()


async def test_while_other_routers_cannot_be_asked_a_key_is_refused_unless_it_is_known_here():
    road = Road(shared=(slots := SharedSlots()))
    await road.ask("known")
    slots.is_away = True

    again = await road.ask("known")
    with pytest.raises(StoreUnavailable) as raised:
        await road.ask("new")

    assert (road.calls, again.body, raised.value.retry_after_seconds) == (1, b"one two", 1.0)


async def test_a_router_that_goes_on_blind_answers_each_key_once_by_itself():
    road = Road(shared=(slots := SharedSlots()), goes_on_blind=True)
    slots.is_away = True

    await road.ask()
    await road.ask()

    assert road.calls == 1


async def test_an_answer_that_this_router_cannot_read_is_not_asked_for_twice():
    road = Road(shared=(slots := SharedSlots()))
    await road.ask()
    (slot,) = slots.held
    slots.held[slot] = slots.held[slot]._replace(answer=b"of a newer Tandem")
    road.repeats.kept.close()

    with pytest.raises(StoreUnavailable):
        await road.ask()
    assert road.calls == 1
