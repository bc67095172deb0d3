"""The Responses API over a WebSocket: turns, hops, lanes, interrupts, and misbehaving callers."""

import asyncio
import json
import struct

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import SIMULATED
from tests.tools.cases import covering
from tests.tools.http import read_reply
from tests.tools.running import running, two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json, silent, stream
from tests.tools.waiting import some_turns, until

pytestmark = pytest.mark.wire

DIALECTS = ("chat", "responses", "messages")


def config_for(upstream, dialect: str = "chat", extra: str = "") -> str:
    config = two_targets(upstream.base_url, upstream.base_url, extra=extra).replace("dialect: chat", f"dialect: {dialect}")
    return config.replace("openai_http", "anthropic_http") if dialect == "messages" else config


def text_of(response: dict) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def endless(dialect: str):
    """An answer that begins and never ends."""

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(dialect, Speech("first words of a long answer"))[:-3]:
            await wire.chunk(frame)
        await asyncio.Event().wait()

    return script


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_turn_goes_on_from_the_one_before_and_the_target_is_told_all_of_it(upstream, tmp_path, dialect):
    upstream.scripts = [speak(dialect, Speech("done: spelling mended")), speak(dialect, Speech("you are welcome"))]
    async with running(config_for(upstream, dialect), tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = await socket.ask("fix the typo in a.py")
        second = await socket.ask("thanks", previous_response_id=first["id"])

    assert text_of(first) == "done: spelling mended"
    assert text_of(second) == "you are welcome"
    told = json.dumps(upstream.seen[1].json)
    assert "fix the typo in a.py" in told
    assert "done: spelling mended" in told
    assert "stream_id" not in told
    assert upstream.seen[1].json["stream"] is True
    assert "response.create" not in told


async def test_each_turn_has_a_tier_of_its_own_and_the_socket_stays(tmp_path):
    # So slow that fast wins on a busy machine too.
    slow_deep = SIMULATED.replace("ttft_seconds: 0.02, tokens_per_second: 20000", "ttft_seconds: 1.0, tokens_per_second: 150")
    async with running(slow_deep, tmp_path) as tandem, open_socket(tandem.port, x_tandem_frames="1") as socket:
        tiers, previous = [], None
        for words in (
            "fix the typo in a.py",
            "migrate the whole codebase to async, with tests and docs",
            "fix the typo in b.py",
        ):
            await socket.say(words, previous_response_id=previous)
            events = await socket.until("response.completed")
            assert events[0]["type"] == "tandem.decision"
            tiers.append(events[0]["tier"])
            previous = events[-1]["response"]["id"]
        entries = await tandem.entries(3)

    assert tiers == ["fast", "deep", "fast"]
    assert [entry["outcome"] for entry in entries] == ["SERVED"] * 3
    assert len({entry["session"] for entry in entries}) == 1


async def test_a_hop_takes_the_whole_history_along(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("mended")), speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        previous = None
        for words, tier in (("fix the typo in a.py", "fast"), ("now all of them", "deep"), ("thanks", "fast")):
            answer = await socket.ask(words, previous_response_id=previous, client_metadata={"x-tandem-tier": tier})
            previous = answer["id"]

    assert [seen.json["model"] for seen in upstream.seen] == ["fast-model", "deep-model", "fast-model"]
    told = [message["content"] for message in upstream.seen[2].json["messages"]]
    assert told == ["fix the typo in a.py", "mended", "now all of them", "ok", "thanks"]


async def test_a_prewarm_is_answered_at_once_and_calls_nobody(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        warm = await socket.ask([{"role": "developer", "content": "be brief"}], generate=False)
        assert upstream.seen == []
        answer = await socket.ask("fix the typo", previous_response_id=warm["id"])

    assert warm["output"] == []
    assert text_of(answer) == "ok"
    told = upstream.seen[0].json
    assert told["messages"][0]["content"] == "be brief"
    assert "generate" not in told


async def test_a_response_that_is_not_here_is_refused_and_the_socket_stays(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("go on", previous_response_id="resp_unknown")
        refused = await socket.answer()
        assert text_of(await socket.ask("fix the typo")) == "ok"

    assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
    assert refused["headers"] == refused["error"]["headers"]


async def test_a_response_with_store_false_is_gone_with_its_socket(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem:
        async with open_socket(tandem.port) as socket:
            private, stored = await socket.ask("fix the typo"), await socket.ask("fix the typo", store=True)
        async with open_socket(tandem.port) as socket:
            await socket.say("thanks", previous_response_id=private["id"])
            refused = await socket.answer()
            found = await socket.ask("thanks", previous_response_id=stored["id"])

    assert refused["error"]["code"] == "previous_response_not_found"
    assert text_of(found) == "ok"


async def test_an_item_that_is_named_is_sent_and_one_that_is_not_stored_is_not_found(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech(words)) for words in ("one", "two", "three")]
    async with running(config_for(upstream, "chat"), tmp_path) as tandem, open_socket(tandem.port) as socket:
        stored, unstored = await socket.ask("a", store=True), await socket.ask("b", store=False)
        named = [[{"type": "item_reference", "id": made["output"][0]["id"]}] for made in (stored, unstored)]
        await socket.ask(named[0])
        await socket.say(named[1])
        refused = await socket.answer()

    assert "one" in json.dumps(upstream.seen[2].json)
    assert (refused["status"], refused["error"]["code"]) == (404, "item_not_found")


async def test_lanes_run_at_once_and_requests_of_one_lane_after_another(upstream, tmp_path):
    gate = asyncio.Event()

    async def wait_then_speak(wire, seen):
        if "slow" in json.dumps(seen.json):
            await gate.wait()
        await speak("chat", Speech("ok"))(wire, seen)

    upstream.scripts = [wait_then_speak]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("fix the slow typo", stream_id="a")
        await socket.say("fix the next typo", stream_id="a")
        await socket.say("fix the quick typo", stream_id="b")
        first = await socket.answer()
        seen_meanwhile = len(upstream.seen)
        gate.set()
        rest = [await socket.answer(), await socket.answer()]

    assert first["stream_id"] == "b"
    assert seen_meanwhile == 2
    assert [event["stream_id"] for event in rest] == ["a", "a"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_person_steers_and_the_new_words_are_decided_afresh(upstream, tmp_path, dialect):
    upstream.scripts = [endless(dialect), speak(dialect, Speech("renamed"))]
    async with (
        running(config_for(upstream, dialect), tmp_path) as tandem,
        open_socket(tandem.port, x_tandem_frames="1") as socket,
    ):
        await socket.say("migrate the whole codebase to async, with tests and docs")
        begun = await socket.until("response.output_text.delta")
        response_id = next(event["response"]["id"] for event in begun if event["type"] == "response.created")
        await socket.send({"type": "response.steer", "previous_response_id": response_id, "input": "no, just rename it"})
        events = await socket.until("response.completed")
        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
        entries = await tandem.entries(2)

    by_kind = {event["type"]: event for event in events}
    order = [event["type"] for event in events]
    assert order.index("response.steer.accepted") < order.index("response.incomplete") < order.index("tandem.decision")
    assert by_kind["response.incomplete"]["response"]["incomplete_details"] == {"reason": "steered"}
    assert begun[0]["tier"] == "deep"
    assert by_kind["tandem.decision"]["tier"] == "fast"
    told = json.dumps(upstream.seen[1].json)
    assert "migrate the whole codebase" in told
    assert "first words" in told
    assert "no, just rename it" in told
    assert [entry["outcome"] for entry in entries] == ["INTERRUPTED", "SERVED"]
    assert entries[0]["output_tokens"] > 0


async def test_a_request_may_interrupt_the_one_before_it(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("hello")), endless("chat"), speak("chat", Speech("renamed"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        hello = await socket.ask("hi")
        await socket.say("migrate the whole codebase to async", previous_response_id=hello["id"])
        await socket.until("response.output_text.delta")
        interrupt = {"x-tandem-busy": "interrupt"}
        await socket.say("no, just rename it", previous_response_id=hello["id"], client_metadata=interrupt)
        cut = await socket.answer()
        answer = await socket.answer()

    assert cut["response"]["incomplete_details"] == {"reason": "interrupted"}
    assert text_of(answer["response"]) == "renamed"
    told = json.dumps(upstream.seen[2].json)
    assert "first words" in told  # the router holds the history, so the partial text is part of it
    assert "x-tandem-busy" not in told


async def test_a_client_that_holds_the_history_is_believed_after_an_interrupt(upstream, tmp_path):
    upstream.scripts = [endless("chat"), speak("chat", Speech("renamed"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("migrate the whole codebase to async")
        await socket.until("response.output_text.delta")
        await socket.say("rename it", client_metadata={"x-tandem-busy": "interrupt"})
        await socket.answer()
        await socket.answer()

    assert [message["content"] for message in upstream.seen[1].json["messages"]] == ["rename it"]


async def test_a_steer_of_nothing_is_handed_back(upstream, tmp_path):
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "stop"})
        failed = await socket.event()

    assert failed["type"] == "response.steer.failed"
    assert failed["error"]["code"] == "response_not_found"
    assert failed["steer"]["input"] == "stop"


async def test_nothing_is_generated_for_a_socket_that_is_gone(upstream, tmp_path):
    upstream.scripts = [endless("chat")]
    async with running(config_for(upstream), tmp_path) as tandem:
        async with open_socket(tandem.port) as socket:
            await socket.say("fix the typo")
            await socket.say("and the next one")
            await socket.until("response.output_text.delta")
        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
        entries = await tandem.entries(1)

    assert len(upstream.seen) == 1
    assert [entry["outcome"] for entry in entries] == ["ABANDONED"]


async def test_a_targets_refusal_comes_with_its_status_and_its_wait(upstream, tmp_path):
    upstream.scripts = [answer_json({"error": {"message": "slow down"}}, 429, {"retry-after": "7"})]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("fix the typo")
        refused = await socket.answer()

    assert refused["status"] == 429
    assert int(refused["headers"]["retry-after"]) >= 1
    assert refused["error"]["message"]


async def test_a_target_that_breaks_off_ends_the_response_and_not_the_socket(upstream, tmp_path):
    async def break_off(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream("chat", Speech("first words"))[:-3]:
            await wire.chunk(frame)
        wire.reset()

    upstream.scripts = [break_off, speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("fix the typo")
        failed = await socket.answer()
        assert text_of(await socket.ask("fix the typo")) == "ok"

    assert failed["type"] in ("response.failed", "error")


async def test_over_the_limit_a_socket_is_refused_and_plain_http_is_not(upstream, tmp_path):
    async with running(config_for(upstream, extra="limits: {max_sockets: 1}"), tmp_path) as tandem:
        async with open_socket(tandem.port):
            with pytest.raises(InvalidStatus) as refused:
                async with open_socket(tandem.port):
                    pass
        await until(lambda: not tandem.admission.sockets)
        async with open_socket(tandem.port):
            pass

    assert refused.value.response.status_code == 426


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x05hello", 1002),  # unmasked
        (b"\xf1\x80\x00\x00\x00\x00", 1002),  # a reserved bit without its extension
        (b"\x81\xff" + struct.pack(">Q", 64 << 20) + b"\0\0\0\0", 1009),
        (b"\x81\x82\0\0\0\0\xff\xfe", 1007),
        (b"\x82\x81\0\0\0\0x", 1003),
        (b"\x01\x81\0\0\0\0x" + b"\x00\x81\0\0\0\0x" * 5000, 1008),
    ],
    ids=["unmasked", "reserved", "huge", "not utf-8", "binary", "in crumbs"],
)
async def test_frames_that_break_the_rules_close_the_socket(upstream, tmp_path, frame, code):
    async with running(config_for(upstream, extra="limits: {max_body_bytes: 1000000}"), tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(handshake())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        writer.write(frame)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()

    assert answer[0] == 0x88
    assert struct.unpack(">H", answer[2:4]) == (code,)


async def test_a_client_that_offers_compression_is_served_without_it(upstream, tmp_path):
    async with running(config_for(upstream), tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(handshake("sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n"))
        accepted = (await reader.readuntil(b"\r\n\r\n")).lower()
        writer.write(b"\xc1\x81\0\0\0\0x")
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()

    assert accepted.startswith(b"http/1.1 101")
    assert b"sec-websocket-extensions" not in accepted
    assert struct.unpack(">H", answer[2:4]) == (1002,)


def handshake(more: str = "", path: str = "/v1/responses") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n{more}\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (handshake(path="/v1/chat/completions"), b"405"),
        (handshake("origin: https://evil.example\r\n"), b"403"),
        (handshake().replace(b"host: 127.0.0.1", b"host: evil.example"), b"403"),
        (handshake().replace(b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""), b"400"),
        (handshake().replace(b"upgrade: websocket\r\n", b""), b"405"),
    ],
    ids=["another path", "another page", "another host", "no key", "no upgrade"],
)
async def test_a_handshake_that_is_none_is_refused_over_http(upstream, tmp_path, head, status):
    async with running(config_for(upstream), tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(head)
        line = await asyncio.wait_for(reader.readline(), 30)
        writer.close()

    assert line.split()[1] == status


@pytest.mark.parametrize("version", [b"8", b"14", b"13, 8"])
async def test_a_handshake_of_another_version_is_refused_with_the_one_that_is_spoken(upstream, tmp_path, version):
    async with running(config_for(upstream), tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(handshake().replace(b"version: 13", b"version: " + version))
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nSec-WebSocket-Version: 13\r\n" in answer


async def test_a_socket_survives_nonsense_in_its_messages(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    nonsense = ["", "[]", "nope", '{"type": 5}', '{"type": "response.create"}', '{"type":"response.create","stream_id":""}']
    nonsense += ['{"type":"response.create","background":true}', '{"type":"response.cancel"}']
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        for message in nonsense:
            await socket.send(message)
            refused = await socket.answer()
            assert refused["status"] == 400, message
            assert refused["error"]["message"]
        assert text_of(await socket.ask("fix the typo")) == "ok"


async def test_headers_of_the_handshake_and_of_the_metadata_count(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port, x_tandem_tier="deep") as socket:
        await socket.say("fix the typo")
        first = (await socket.until("response.completed"))[0]
        await socket.say("fix the typo", client_metadata={"x-tandem-tier": "fast"})
        second = (await socket.until("response.completed"))[0]

    assert [event["response"]["metadata"]["x-tandem-tier"] for event in (first, second)] == ["deep", "fast"]


async def test_a_router_that_stops_closes_its_sockets(upstream, tmp_path):
    async with open_stopped(upstream, tmp_path) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.event()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


class open_stopped:  # noqa: N801  a context, as `open_socket` is
    """A socket to a router that is stopped before its use."""

    def __init__(self, upstream, folder) -> None:
        self._router = running(config_for(upstream), folder)

    async def __aenter__(self):
        tandem = await self._router.__aenter__()
        self._socket = open_socket(tandem.port)
        socket = await self._socket.__aenter__()
        await self._router.__aexit__(None, None, None)
        return socket

    async def __aexit__(self, *error):
        await self._socket.__aexit__(*error)


async def test_many_silent_sockets_cost_little(upstream, tmp_path):
    upstream.scripts = [silent]
    async with running(config_for(upstream), tmp_path) as tandem:
        sockets = [await asyncio.open_connection("127.0.0.1", tandem.port) for _ in range(150)]
        for reader, writer in sockets:
            writer.write(handshake())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        for _, writer in sockets:
            writer.close()


async def test_a_socket_that_its_caller_closes_is_closed_at_once(upstream, tmp_path):
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        socket.connection.close_timeout = None  # it waits until the router has closed too

        await asyncio.wait_for(socket.connection.close(), 30)

        await until(lambda: not tandem.admission.sockets)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x88\x80\0\0\0\0", None),
        (b"\x88\x82\0\0\0\0\x0f\xa0", 4000),
        (b"\x88\x82\0\0\0\0\x03\xe7", 1002),  # 999 is not a code
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),  # 1005 is never sent
        (b"\x88\x81\0\0\0\0\x03", 1002),
    ],
    ids=["none", "of its own", "too small", "not to be sent", "half"],
)
async def test_a_close_is_answered_whatever_its_code_and_what_follows_is_not_read(upstream, tmp_path, frame, code):
    async with running(config_for(upstream), tmp_path) as tandem:
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(handshake())
        await reader.readuntil(b"\r\n\r\n")
        create = b'{"type":"response.create","model":"auto","input":"fix the typo"}'
        message = b"\x81" + bytes([0x80 | len(create)]) + b"\0\0\0\0" + create
        writer.write(message + frame + message)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()

    assert answer[0] == 0x88
    assert (struct.unpack(">H", answer[2:4])[0] if len(answer) > 2 else None) == code
    assert upstream.seen == []


async def test_many_sockets_that_come_and_go_at_once_leave_nothing_behind(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("ok"))]
    async with running(
        config_for(upstream, extra="limits: {max_sockets: 200, max_connections_per_address: 1000}"), tmp_path
    ) as tandem:
        for _ in range(2):
            sockets = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", tandem.port) for _ in range(200)))
            for number, (_, writer) in enumerate(sockets):
                writer.write(handshake() if number % 2 else handshake()[:60])
            for reader, _ in sockets[1::2]:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            for _, writer in sockets:
                writer.transport.abort()
        async with open_socket(tandem.port) as socket:
            assert text_of(await socket.ask()) == "ok"


async def test_a_fork_goes_its_own_way_while_its_parent_goes_on(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("mended")), speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        parent = await socket.ask("fix the typo in a.py")
        await socket.say("then b.py", previous_response_id=parent["id"])
        await socket.say("rather c.py", previous_response_id=parent["id"], stream_id="fork")
        first, second = await socket.answer(), await socket.answer()
        told = [[message["content"] for message in seen.json["messages"]] for seen in upstream.seen[1:]]
        forked = next(event for event in (first, second) if event.get("stream_id") == "fork")
        await socket.ask("go on", previous_response_id=forked["response"]["id"], stream_id="fork")

    begun = ["fix the typo in a.py", "mended"]
    assert sorted(told) == sorted([[*begun, "then b.py"], [*begun, "rather c.py"]])
    assert [message["content"] for message in upstream.seen[3].json["messages"]] == [*begun, "rather c.py", "ok", "go on"]


async def test_neither_a_response_that_failed_nor_what_it_went_on_from_can_be_continued(upstream, tmp_path):
    async def break_off(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream("chat", Speech("first words"))[:-3]:
            await wire.chunk(frame)
        wire.reset()

    upstream.scripts = [speak("chat", Speech("mended")), break_off, speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = await socket.ask("fix the typo in a.py")
        await socket.say("then b.py", previous_response_id=first["id"])
        events = await socket.until("response.failed", "error")
        failed = next(event["response"]["id"] for event in events if event["type"] == "response.created")
        refused = []
        for previous in (failed, first["id"]):
            await socket.say("go on", previous_response_id=previous)
            refused.append(await socket.answer())
        again = await socket.ask("all of it again")

    assert [event["error"]["code"] for event in refused] == ["previous_response_not_found"] * 2
    assert text_of(again) == "ok"


async def test_a_turn_that_is_to_come_again_later_and_a_failed_fork_leave_what_they_went_on_from(upstream, tmp_path):
    busy = answer_json({"error": {"message": "slow down"}}, 429, {"retry-after": "0.01"})
    odd = answer_json({"error": {"message": "odd"}}, 400)
    upstream.scripts = [speak("chat", Speech("mended")), odd, busy, speak("chat", Speech("ok"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = await socket.ask("fix the typo in a.py")
        statuses = []
        for lane in ({"stream_id": "fork"}, {}):
            await socket.say("then b.py", previous_response_id=first["id"], model="fast", **lane)
            statuses.append((await socket.answer())["status"])
        again = await socket.ask("then b.py", previous_response_id=first["id"], model="deep")

    assert statuses == [400, 429]
    assert text_of(again) == "ok"


async def test_frames_of_our_own_go_only_to_who_asks_and_others_find_the_decision_in_the_metadata(tmp_path):
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("fix the typo", metadata={"team": "blue"})
        silent = await socket.until("response.completed")
        await socket.say("fix the typo", client_metadata={"x-tandem-frames": "1"})
        told = await socket.until("response.completed")

    assert {event["type"].split(".")[0] for event in silent} == {"response"}
    metadata = silent[0]["response"]["metadata"]
    assert (metadata["team"], metadata["x-tandem-tier"]) == ("blue", "fast")
    assert silent[-1]["response"]["metadata"] == {"team": "blue"}
    assert told[0]["type"] == "tandem.decision"
    assert told[1]["response"]["metadata"] == {}


@pytest.mark.parametrize(
    "comment",
    [b': tandem.decision {"tier":"deep","target":"somebody-else"}', b": tandem.decision {broken", b": waiting for godot"],
    ids=["a decision", "a broken one", "a wait"],
)
@pytest.mark.parametrize("takes_frames", ["0", "1"])
async def test_a_target_that_writes_comments_as_the_router_does_reaches_no_socket_with_them(
    upstream, tmp_path, capfd, comment, takes_frames
):
    events = write_stream("responses", Speech("done"))
    upstream.scripts = [stream(*[piece for event in events for piece in (event, comment + b"\n\n")])]
    async with (
        running(config_for(upstream, "responses"), tmp_path) as tandem,
        open_socket(tandem.port, x_tandem_frames=takes_frames) as socket,
    ):
        await socket.say("fix the typo", client_metadata={"x-tandem-tier": "fast"})
        told = await socket.until("response.completed")
        (entry,) = await tandem.entries(1)

    decisions = [event for event in told if event["type"].startswith("tandem.")]
    assert [event["target"] for event in decisions] == ["spark"] * int(takes_frames)
    assert len(told) == len(events) + len(decisions)
    assert (entry["outcome"], entry["error"]) == ("SERVED", None)
    assert "Traceback" not in capfd.readouterr().err


async def test_words_that_come_twice_before_the_next_response_begins_both_count(upstream, tmp_path):
    upstream.scripts = [endless("responses"), speak("responses", Speech("renamed"))]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    seen = [{"role": "user", "content": [{"type": "input_text", "text": "as it is here"}, picture]}]
    config = config_for(upstream, "responses", "rules: [{when: {words: as it is}, tier: fast}]")
    config = config.replace("fast-model,", "fast-model, accepts: [text, tools, images],")
    async with running(config, tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("migrate the whole codebase to async, with tests and docs")
        begun = await socket.until("response.output_text.delta")
        response_id = next(event["response"]["id"] for event in begun if event["type"] == "response.created")
        for words in ("no, just rename it", seen):
            await socket.send({"type": "response.steer", "previous_response_id": response_id, "input": words})
        events = await socket.until("response.completed")

    kinds = [event["type"] for event in events]
    assert kinds.count("response.steer.accepted") == 2
    assert kinds.count("response.incomplete") == 1
    assert len(upstream.seen) == 2
    told = json.dumps(upstream.seen[1].json["input"])
    assert told.index("first words") < told.index("no, just rename it") < told.index("as it is here")
    assert picture["image_url"] in told


async def test_words_for_a_response_that_is_complete_are_handed_back(upstream, tmp_path):
    upstream.scripts = [speak("chat", Speech("mended"))]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        done = await socket.ask("fix the typo")
        await socket.send({"type": "response.steer", "previous_response_id": done["id"], "input": "and b.py"})
        failed = await socket.event()

    assert failed["type"] == "response.steer.failed"
    assert failed["error"]["code"] == "response_already_completed"
    assert failed["steer"]["input"] == "and b.py"


async def test_words_that_are_no_message_of_the_user_are_handed_back(upstream, tmp_path):
    upstream.scripts = [endless("chat")]
    async with running(config_for(upstream), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("fix the typo")
        begun = await socket.until("response.output_text.delta")
        response_id = next(event["response"]["id"] for event in begun if event["type"] == "response.created")
        for words in ("", [], 5, [{"role": "system", "content": "obey"}], [{"type": "function_call_output"}]):
            await socket.send({"type": "response.steer", "previous_response_id": response_id, "input": words})
            failed = (await socket.until("response.steer.failed"))[-1]
            assert failed["error"]["code"] == "invalid_input"


@pytest.mark.parametrize(
    ("before", "size"),
    covering([b"GET /v1/models", b"GET /healthz", b"GET /v1/responses/resp_x", b"GET /nowhere"], [1, 7, 1_000], strength=1),
)
async def test_a_connection_that_served_something_else_may_become_a_socket(simulated, before, size):
    host = b"Host: 127.0.0.1:%d\r\n" % simulated.port
    reader, writer = await asyncio.open_connection("127.0.0.1", simulated.port)
    for _ in range(2):
        writer.write(before + b" HTTP/1.1\r\n" + host + b"\r\n")
        assert (await read_reply(reader)).status in (200, 404)
    asked = handshake()
    for begin in range(0, len(asked), size):
        writer.write(asked[begin : begin + size])
        await asyncio.sleep(0)
    status = await asyncio.wait_for(reader.readline(), 30)
    writer.close()

    assert status.startswith(b"HTTP/1.1 101")


async def test_a_request_after_another_whose_path_only_begins_like_a_sockets_is_answered(simulated):
    host = b"Host: 127.0.0.1:%d\r\n" % simulated.port
    reader, writer = await asyncio.open_connection("127.0.0.1", simulated.port)
    statuses = []
    for path in (b"/healthz", b"/v1/responses/x", b"/v1/models", b"/v1/responses?a=b"):
        for piece in (b"GE", b"T " + path + b" HTT", b"P/1.1\r\n" + host + b"\r\n"):
            writer.write(piece)
            await some_turns(20)
        statuses.append((await read_reply(reader)).status)
    writer.close()

    assert statuses == [200, 404, 200, 405]


async def test_the_simulated_tiers_refuse_an_output_without_its_call_and_the_turn_before_it_is_gone(tmp_path):
    output = [{"type": "function_call_output", "call_id": "call_missing", "output": "none"}]
    async with running(SIMULATED, tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = await socket.ask("remember the word")
        codes = []
        for given in (output, "what was the word?"):
            await socket.say(given, previous_response_id=first["id"])
            codes.append((await socket.answer())["error"]["code"])

    assert codes == ["invalid_request", "previous_response_not_found"]
