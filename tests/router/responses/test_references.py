"""Items that a request names by their ids: what is put in their places, and what is refused."""

import asyncio
import json

import pytest

from router.contract.errors import ItemForgotten
from router.contract.words import Dialect, Operation, Tier
from router.responses.keep import record_response
from tests.router.responses.kept import CALL, REASONING, SAID, SPARK, ask, holding, kept, restore
from tests.tools.values import make_target, make_view
from tests.tools.waiting import later

SPEAKS = frozenset({Dialect.RESPONSES})
QUESTION = {"role": "user", "content": "What was it?"}


def named(item_id: object) -> dict:
    return {"type": "item_reference", "id": item_id}


async def test_items_of_several_responses_are_found_each_once():
    other = record_response(ask("more"), SPARK, 1.0, {"id": "resp_2", "output": [CALL]})

    found = await restore(ask([named("msg_1"), named("fc_1"), named("msg_1")]), holding(kept(SAID), other))

    assert found.continued.transcript().items == [SAID, CALL, SAID]


async def test_others_have_a_turn_between_the_responses_that_are_read_for_one_request():
    many = [record_response(ask(), SPARK, 1.0, {"id": f"resp_{n}", "output": [{**SAID, "id": f"msg_{n}"}]}) for n in range(20)]
    search = later(restore(ask([named(f"msg_{n}") for n in range(20)]), holding(*many)))
    turns = 0

    while not search.done():
        await asyncio.sleep(0)
        turns += 1

    assert len(search.result().body["input"]) == 20
    assert turns >= 19


@pytest.mark.parametrize("name", ["msg_none", "", None, 7])
async def test_an_item_that_is_not_kept_is_not_found_and_the_first_such_is_named(name):
    with pytest.raises(ItemForgotten, match="^Item with id '.*' not found") as refused:
        await restore(ask([named("msg_1"), named(name)]), holding(kept(SAID)))

    assert (refused.value.status, refused.value.param) == (404, "input[1].id")


async def test_words_about_references_are_no_references():
    view = ask([{"role": "user", "content": "what is an item_reference?"}])

    assert await restore(view, holding()) is view


async def test_another_dialects_request_may_hold_the_word():
    view = make_view({"messages": [{"role": "user", "content": "item_reference"}]}, Dialect.CHAT)

    assert await restore(view, holding()) is view


async def test_the_request_is_read_with_its_named_items_and_kept_with_them():
    view = await restore(ask([named("msg_1"), QUESTION]), holding(kept(SAID)))

    assert [message.texts for message in view.conversation] == [("done",), ("What was it?",)]
    assert json.loads(view.raw) == view.body
    later = record_response(view, SPARK, 2.0, {"id": "resp_2", "output": []})
    assert later.item_ids == {"msg_1"}
    assert "previous_response_id" not in later.read()[1]


async def test_its_maker_gets_an_item_unchanged_and_another_target_what_it_can_take():
    view = await restore(ask([named("rs_1"), named("fc_1"), QUESTION]), holding(kept(REASONING, CALL)))
    seen = [
        view.continued.view_for(view, target).body["input"]
        for target in (make_target(speaks=SPEAKS), make_target("sage", Tier.DEEP, speaks=SPEAKS))
    ]

    assert seen[0] == [REASONING, CALL, QUESTION]
    assert seen[1] == [{name: value for name, value in CALL.items() if name != "id"}, QUESTION]


async def test_the_target_that_keeps_the_response_is_sent_its_id_and_the_items_themselves():
    store = holding(kept(SAID, store=True))
    view = await restore(ask([named("msg_1"), QUESTION], previous_response_id="resp_1"), store)

    own = view.continued.view_for(view, make_target(speaks=SPEAKS))
    other = view.continued.view_for(view, make_target("sage", Tier.DEEP, speaks=SPEAKS))

    assert (own.body["previous_response_id"], own.body["input"]) == ("resp_1", [SAID, QUESTION])
    assert json.loads(own.raw) == own.body
    assert len(other.body["input"]) == 4


async def test_items_are_looked_up_before_a_response_that_only_its_host_knows_is_passed_on():
    view = ask([named("msg_1")], previous_response_id="resp_theirs")

    passed = await restore(view, holding(kept(SAID)), make_target(speaks=SPEAKS))

    assert passed.body["previous_response_id"] == "resp_theirs"
    assert passed.body["input"][0]["content"] == SAID["content"]
    with pytest.raises(ItemForgotten):
        await restore(view, holding(), make_target(speaks=SPEAKS))


async def test_a_compaction_reads_the_named_items():
    view = make_view({"input": [named("msg_1")]}, Dialect.RESPONSES, operation=Operation.COMPACT)

    asked = await restore(view, holding(kept(SAID)))

    assert asked.body["input"][0]["content"] == SAID["content"]
