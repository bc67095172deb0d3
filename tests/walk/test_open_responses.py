"""The Open Responses compliance suite over a WebSocket, restated for every kind of target."""

import contextlib
import json

import pytest

from tests.conformance.measure import shapes_of
from tests.conformance.reading import check
from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.running import one_dialect, running
from tests.tools.sockets import TERMINAL, Socket, open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import answer_json

PATHS = ["chat", "responses", "messages", "simulated"]
EACH = pytest.mark.parametrize("path", PATHS)
ORPHAN = [{"type": "function_call_output", "call_id": "call_missing", "output": "no such call"}]


@contextlib.asynccontextmanager
async def tandem_on(path: str, upstream, tmp_path):
    upstream.scripts = [speak(path, Speech("OK"))] if path != "simulated" else []
    config = SIMULATED if path == "simulated" else one_dialect(path, upstream.base_url)
    async with running(config, tmp_path) as tandem:
        yield tandem


async def turn(socket: Socket, given: object, **more: object) -> dict:
    """A turn of a strict client: every event has the API's shape. Returns the last one."""
    await socket.send({"type": "response.create", "model": "auto", "store": False, "input": given, **more})
    events = await socket.until(*TERMINAL)
    for event in events:
        if event["type"] != "error":
            assert event["type"] in shapes_of("responses"), event["type"]
            check("responses", event["type"], event)
    return events[-1]


def id_of(event: dict) -> str:
    assert event["type"] == "response.completed", event
    assert event["response"]["output"][-1]["type"] == "message"
    return event["response"]["id"]


@EACH
async def test_turns_follow_one_another_and_go_on_from_one_another(upstream, tmp_path, path):
    async with tandem_on(path, upstream, tmp_path) as tandem, open_socket(tandem.port) as socket:
        first, second = await turn(socket, "first"), await turn(socket, "remember: copper")
        third = await turn(socket, "what was it?", previous_response_id=id_of(second))

    assert all(map(id_of, (first, second, third)))
    if path != "simulated":
        assert "copper" in json.dumps(upstream.seen[-1].json)


@EACH
async def test_after_a_reconnect_a_response_that_was_not_stored_is_not_found_and_the_whole_history_is_taken(
    upstream, tmp_path, path
):
    async with tandem_on(path, upstream, tmp_path) as tandem:
        async with open_socket(tandem.port) as socket:
            first = id_of(await turn(socket, "remember: copper"))
        async with open_socket(tandem.port) as socket:
            lost = await turn(socket, "go on", previous_response_id=first)
            history = [{"type": "message", "role": "user", "content": "remember: copper"}]
            recovered = await turn(socket, history)

    assert lost["error"]["code"] == "previous_response_not_found"
    assert id_of(recovered)


@EACH
async def test_a_continuation_that_fails_takes_its_previous_response_with_it(upstream, tmp_path, path):
    async with tandem_on(path, upstream, tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = id_of(await turn(socket, "remember: ember"))
        if path == "responses":
            upstream.scripts[:] = [answer_json({"error": {"message": "No tool call found", "code": None}}, 400)] * 2
        failed = await turn(socket, ORPHAN, previous_response_id=first)
        retried = await turn(socket, "what was it?", previous_response_id=first)

    assert failed["type"] == "error"
    assert retried["error"]["code"] == "previous_response_not_found"


@EACH
async def test_a_compacted_conversation_begins_a_new_chain(upstream, tmp_path, path):
    asked = {"model": "auto", "input": [{"type": "message", "role": "user", "content": "remember: amber"}]}
    async with tandem_on(path, upstream, tmp_path) as tandem, open_socket(tandem.port) as socket:
        compacted = (await call(tandem.port, "/v1/responses/compact", asked)).json["output"]
        question = {"type": "message", "role": "user", "content": "what was it?"}
        answered = id_of(await turn(socket, [*compacted, question]))

    assert answered.startswith("resp_")
