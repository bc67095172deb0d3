"""Responses that are kept here, each for its own caller."""

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.request import Transcript
from router.contract.stores import StoredResponse
from tests.tools.http import call

ITEMS = [{"id": f"msg_{n}", "type": "message", "role": "user", "content": str(n)} for n in range(3)]


def stored(caller: Caller = LOCAL, response_id: str = "resp_1") -> StoredResponse:
    history = Transcript(ITEMS, ["" for _ in ITEMS])
    return StoredResponse.write(caller, "sage", 0.0, history, {"id": response_id, "object": "response", "output": []})


@pytest.fixture
async def road(road):
    for response in (stored(), stored(Caller("other"), "resp_theirs")):
        road.state.responses.kept[(response.id, response.caller)] = response
    return road


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_response_is_read_by_its_id(port, prefix):
    reply = await call(port, f"{prefix}/responses/resp_1")

    assert (reply.status, reply.json["id"]) == (200, "resp_1")
    assert reply.headers["x-tandem-request-id"].startswith("req_")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_anothers_response_is_not_found_and_not_deleted(road, port, method):
    reply = await call(port, "/v1/responses/resp_theirs", method=method)

    assert (reply.status, reply.json["error"]["param"]) == (404, "response_id")
    assert ("resp_theirs", Caller("other")) in road.state.responses.kept


async def test_a_deleted_response_is_gone(port):
    deleted = await call(port, "/v1/responses/resp_1", method="DELETE")
    again = await call(port, "/v1/responses/resp_1", method="DELETE")

    assert deleted.json == {"id": "resp_1", "object": "response", "deleted": True}
    assert again.status == 404


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_nothing_runs_in_the_background_so_nothing_can_be_cancelled(port, prefix):
    reply = await call(port, f"{prefix}/responses/resp_1/cancel", method="POST")

    assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
    assert reply.json["error"]["message"].startswith("Cannot cancel a synchronous response.")


@pytest.mark.parametrize("response_id", ["resp_none", "resp_theirs"])
async def test_what_is_not_kept_for_this_caller_cannot_be_cancelled_either(port, response_id):
    reply = await call(port, f"/v1/responses/{response_id}/cancel", b"{}")

    assert (reply.status, reply.json["error"]["param"]) == (404, "response_id")


async def test_a_finished_response_is_not_streamed_again(port):
    assert (await call(port, "/v1/responses/resp_1?stream=true")).status == 400
    assert (await call(port, "/v1/responses/resp_1?stream=false")).status == 200


async def test_input_items_come_in_the_order_that_was_asked_for(port):
    newest = await call(port, "/v1/responses/resp_1/input_items")
    oldest = await call(port, "/v1/responses/resp_1/input_items?order=asc&limit=2")

    assert [item["id"] for item in newest.json["data"]] == ["msg_2", "msg_1", "msg_0"]
    assert [item["id"] for item in oldest.json["data"]] == ["msg_0", "msg_1"]
    assert oldest.json["has_more"]


@pytest.mark.parametrize(
    ("query", "param"), [("order=up", "order"), ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit")]
)
async def test_a_wrong_page_is_named(port, query, param):
    reply = await call(port, f"/v1/responses/resp_1/input_items?{query}")

    assert (reply.status, reply.json["error"]["param"]) == (400, param)
