"""The history that a request left out: what each target is given of it."""

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL
from router.contract.errors import BadRequest, ResponseForgotten
from router.contract.stores import StoredResponse
from router.contract.words import Dialect, Operation, Tier
from tests.router.responses.kept import CALL, REASONING, SAID, ask, kept, restore
from tests.tools.values import make_target, make_view

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


async def test_a_thread_of_another_dialect_means_nothing():
    for view in (ask(thread={"type": "create"}), make_view({"messages": [{"role": "user", "content": "x"}], "thread": "t"})):
        assert await restore(view) is view


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
