"""Message threads, which no router between several hosts can keep: clients send everything again."""

import pytest

from tests.tools.http import call
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, speak

BETA = {"anthropic-beta": "files-api-2025-04-14, message-threads-2026-08-12"}
ASK = {"model": "auto", "max_tokens": 200, "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_thread_is_not_created_and_the_answer_says_so(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("Hi."))]

    reply = await call(tandem.port, "/v1/messages", {**ASK, "thread": {"type": "create"}}, BETA)

    assert (reply.status, reply.headers["x-tandem-dropped"]) == (200, "thread")
    (seen,) = upstream.seen
    assert "thread" not in seen.json
    assert seen.headers.get("anthropic-beta", "files-api-2025-04-14") == "files-api-2025-04-14"


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_a_thread_is_refused_with_the_code_on_which_clients_send_everything_again(simulated, path):
    thread = {"type": "continue", "previous_message_id": "msg_1"}

    for stream in (False, True):
        reply = await call(simulated.port, path, {**ASK, "thread": thread, "stream": stream}, BETA)

        assert (reply.status, reply.json["type"], reply.json["error"]["type"]) == (404, "error", "not_found_error")
        assert reply.json["error"]["details"] == {"error_code": "thread_not_found"}
