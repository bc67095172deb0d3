"""What the router answers itself, in every dialect, as clients read it."""

import json
from types import SimpleNamespace

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import NotPermitted, UnknownModel
from router.contract.facts import AnsweredHere, Ending
from router.contract.rights import BOTH_TIERS, Rights
from router.contract.signals import TokenCount
from router.contract.words import Dialect, Operation, Outcome, Tier
from router.dialects.answers import read_whole_answer
from router.responses.local import answer_locally
from router.sense.models import ModelNames
from router.sessions.turns import read_turn
from router.stores.memory.responses import MemoryResponses
from router.stores.memory.socket_responses import SocketResponses
from tests.tools.exchanges import RecordingSink, make_exchange
from tests.tools.values import ask, make_view

SERVED = Ending(Outcome.SERVED, 200)
WORDS = "Your next message goes to fast."
USER = {"role": "user", "content": "tier: fast"}
BODIES = {
    Dialect.CHAT: {"messages": [USER]},
    Dialect.MESSAGES: {"messages": [USER], "max_tokens": 9},
    Dialect.RESPONSES: {"input": [USER]},
}


class Counter:
    def __init__(self) -> None:
        self.asked = 0

    async def count_or_estimate(self, view):
        self.asked += 1
        return TokenCount(42, 42, 42)


class Local:
    """A request that came, and what is answered without a target."""

    def __init__(self, given, socket_store=None, rights=None) -> None:
        self.given, self.sink = given, RecordingSink()
        self.plan = SimpleNamespace(models=ModelNames({}, ("spark",)), rules=SimpleNamespace(rights=rights))
        self.exchange = make_exchange(dialect=given.dialect, operation=given.operation, responses=socket_store)
        self.kept = SimpleNamespace(counter=Counter(), responses=MemoryResponses())

    async def answer(self) -> Ending | None:
        turn = read_turn(self.given)
        local = answer_locally(self.exchange, self.given, turn, self.plan, self.kept, self.sink)
        return await local if local is not None else None

    @property
    def json(self):
        return json.loads(self.sink.body)


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_tier_line_alone_is_confirmed_in_a_complete_answer(dialect, is_streaming):
    local = Local(make_view({**BODIES[dialect], "stream": is_streaming}, dialect))

    assert await local.answer() == SERVED

    headers = dict(local.sink.headers)
    assert WORDS.encode() in local.sink.body
    assert headers["x-tandem-request-id"] == "req_test"
    assert "x-tandem-target" not in headers
    assert local.exchange.journal == [AnsweredHere(read_turn(local.given))]
    if is_streaming:
        assert headers["content-type"].startswith("text/event-stream")
        assert b"data: " in local.sink.body
    else:
        assert read_whole_answer(dialect, local.sink.body).output_tokens == 0


async def test_a_tier_line_under_a_name_that_is_not_known_is_refused_and_not_answered():
    local = Local(make_view({**BODIES[Dialect.CHAT], "model": "nobody"}))

    with pytest.raises(UnknownModel):
        await local.answer()

    assert (local.exchange.journal, local.sink.told) == ([], [])


@pytest.mark.parametrize(
    ("may_force", "is_served"), [(BOTH_TIERS, True), ({Tier.FAST}, True), ({Tier.DEEP}, False), ((), False)]
)
async def test_a_tier_line_alone_needs_the_right_to_force_its_tier(may_force, is_served):
    local = Local(make_view(BODIES[Dialect.CHAT]), rights={LOCAL.name: Rights(may_force=frozenset(may_force))})

    if is_served:
        assert await local.answer() == SERVED
    else:
        with pytest.raises(NotPermitted, match=r"asks for fast, and this key .* force fast .may_force.. .* `tier: auto`"):
            await local.answer()
        assert (local.exchange.journal, local.sink.told) == ([], [])


async def test_a_tier_line_for_auto_needs_no_right():
    body = {"messages": [{"role": "user", "content": "tier: auto"}]}
    local = Local(make_view(body), rights={LOCAL.name: Rights(may_force=frozenset())})

    assert await local.answer() == SERVED
    assert b"Tandem chooses the tier of your next message." in local.sink.body


@pytest.mark.parametrize("store", [None, True, False])
async def test_a_response_can_be_gone_on_from_unless_it_is_not_to_be_stored(store):
    local = Local(make_view({**BODIES[Dialect.RESPONSES], **({} if store is None else {"store": store})}, Dialect.RESPONSES))

    await local.answer()
    found = await local.kept.responses.find(local.json["id"], local.given.caller)

    assert (found is not None) is (store is not False)
    if found is not None:
        history, response = found.read()
        assert (history.items, found.target) == ([USER], "")
        assert WORDS in json.dumps(response["output"])


async def test_on_a_socket_a_prewarm_is_answered_and_kept_for_what_goes_on_from_it():
    view = make_view({"input": "hi", "generate": False, "store": False}, Dialect.RESPONSES)
    over_http, on_socket = Local(view), Local(view, SocketResponses(MemoryResponses()))

    assert await over_http.answer() is None
    assert await on_socket.answer() == SERVED

    assert on_socket.json["output"] == []
    assert await on_socket.exchange.arrival.responses.find(on_socket.json["id"], view.caller) is not None


async def test_a_count_of_responses_is_answered_and_no_target_is_asked():
    local = Local(make_view({"input": "hello"}, Dialect.RESPONSES, operation=Operation.COUNT_TOKENS))

    assert await local.answer() == SERVED

    assert local.json == {"object": "response.input_tokens", "input_tokens": 42}
    assert dict(local.sink.headers)["x-tandem-request-id"] == "req_test"
    assert dict(local.sink.headers)["content-length"] == str(len(local.sink.body))
    assert local.exchange.journal == [AnsweredHere(read_turn(local.given))]


@pytest.mark.parametrize(
    "view",
    [
        make_view({"input": "hello"}, Dialect.RESPONSES),
        ask(),
        make_view({"messages": [{"role": "user", "content": "x"}]}, Dialect.MESSAGES, operation=Operation.COUNT_TOKENS),
        make_view({"messages": [{"role": "user", "content": "tier: fast\nfix it"}]}),
    ],
    ids=["a create", "chat", "a count of messages", "a tier line with more"],
)
async def test_all_else_is_a_targets_to_answer(view):
    local = Local(view)

    assert await local.answer() is None

    assert (local.sink.told, local.exchange.journal, local.kept.counter.asked) == ([], [], 0)
