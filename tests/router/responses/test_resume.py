"""The history that a request left out: what each target is given of it."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL
from router.contract.errors import BadRequest, ItemForgotten, ResponseForgotten
from router.contract.stores import StoredResponse
from router.contract.words import Dialect, Operation, Tier
from router.responses.keep import record_response
from tests.router.responses.kept import CALL, REASONING, SAID, SPARK, ask, holding, kept, restore
from tests.tools.values import make_target, make_view
from tests.tools.waiting import later

SPEAKS = frozenset({Dialect.RESPONSES})


class Store:
    """A store with one response, and ids that are not to be used."""

    def __init__(self, stored: StoredResponse | None = None, denied: tuple[str, ...] = ()) -> None:
        self._stored, self._denied = stored, denied

    async def find(self, response_id, caller):
        return self._stored if self._stored and (response_id, caller) == (self._stored.id, LOCAL) else None

    async def is_denied(self, response_id, caller):
        return response_id in self._denied


async def goes_on(stored: StoredResponse, given: object = "go on", **more: object):
    return await restore(ask(given, previous_response_id=stored.id, **more), Store(stored))


def view_for(view, target):
    return view.continued.view_for(view, target)


async def test_instructions_are_not_inherited():
    transcript = kept(SAID, view=ask(instructions="Be rude."))

    assert (await goes_on(transcript)).system == ""


async def test_another_target_gets_no_hidden_items_and_no_ids_that_lead_to_them():
    view = view_for(await goes_on(kept(REASONING, CALL, SAID)), make_target("sage", Tier.DEEP, speaks=SPEAKS))

    _, call, said, _ = view.body["input"]
    assert call == {name: value for name, value in CALL.items() if name != "id"}
    assert said["content"] == SAID["content"]
    assert said["id"].startswith("msg_")
    assert said["id"] != SAID["id"]


async def test_what_another_target_gets_is_the_same_each_time_so_that_its_cache_fits():
    transcript = kept(REASONING, SAID)

    assert (await goes_on(transcript)).raw == (await goes_on(transcript)).raw


async def test_a_response_that_was_written_here_is_stored_by_nobody_else_whatever_it_says():
    stored = kept(SAID, store=True)
    ours = stored._replace(id="resp_" + "0" * 27)

    assert (await goes_on(ours)).continued.stored_by == ""


async def test_a_target_that_does_not_speak_responses_never_gets_the_id():
    view = view_for(await goes_on(kept(SAID, store=True)), make_target("spark"))

    assert "previous_response_id" not in view.body


async def test_a_request_that_continues_nothing_stays_as_it_is():
    for view in (ask(), ask(previous_response_id=""), ask(previous_response_id=None)):
        assert await restore(view, Store()) is view


async def test_an_id_of_another_dialect_is_left_alone():
    view = make_view({"messages": [{"role": "user", "content": "x"}], "previous_response_id": "resp_9"})

    assert await restore(view, Store()) is view


async def test_a_previous_id_that_is_no_text_is_named():
    with pytest.raises(BadRequest, match="previous_response_id"):
        await restore(ask(previous_response_id=5), Store())


async def test_a_request_that_leaves_nothing_out_stays_as_it_is():
    for view in (ask(), make_view({"messages": [{"role": "user", "content": "x"}]})):
        assert await restore(view) is view


@pytest.mark.parametrize("value", [5, "resp_1"])
async def test_a_previous_id_of_any_kind_is_looked_at(value):
    with pytest.raises(BadRequest if value == 5 else ResponseForgotten):
        await restore(ask(previous_response_id=value))


async def test_an_unknown_id_may_be_known_to_a_target_of_the_dialect():
    view, responses, chat = ask(previous_response_id="resp_9"), make_target(speaks=SPEAKS), make_target()

    assert await restore(view, Store(), chat, responses) is view
    for store, targets in ((Store(), (chat,)), (Store(denied=("resp_9",)), (responses,))):
        with pytest.raises(ResponseForgotten, match="resp_9"):
            await restore(view, store, *targets)
    with pytest.raises(ResponseForgotten):
        await restore(replace(view, operation=Operation.COUNT_TOKENS), Store(), responses)


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
