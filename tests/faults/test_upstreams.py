"""Breaking targets (rows U), over real sockets: what callers get, and who is asked instead."""

import asyncio
import json
import time
from email.utils import formatdate

import pytest

from tests.faults.rig import BRIDGED, GOOD, STRAIGHT, check_refusal, spread
from tests.tools.ports import silent_port
from tests.tools.speech import speak, write_whole
from tests.tools.toxic import Toxics, deaf_port
from tests.tools.upstream import answer_json, silent

WAYS = pytest.mark.parametrize("is_streaming", [True, False], ids=["streamed", "whole"])
PAIRS = pytest.mark.parametrize(("caller", "target"), STRAIGHT + BRIDGED)
ALONE = "spill_over: false"
QUICK = "timeouts: {connect_seconds: 0.2, first_byte_seconds: 0.2, stall_seconds: 0.3},"
REFUSAL = {"error": {"message": "their own words", "type": "some_error", "code": "some_code"}}


@pytest.fixture
def unreachable(request):
    """An unreachable address of some kind."""
    if request.param == "refused":
        with silent_port() as port:
            yield f"http://127.0.0.1:{port}/v1"
    elif request.param == "no such name":
        yield "http://nowhere.invalid/v1"
    elif request.param == "a label too long":
        yield f"http://{'x' * 64}.invalid/v1"
    else:
        with deaf_port() as port:
            yield f"{'https' if request.param == 'TLS, black hole' else 'http'}://127.0.0.1:{port}/v1"


@pytest.mark.parametrize(
    "unreachable", ["refused", "no such name", "a label too long", "black hole", "TLS, black hole"], indirect=True
)
async def test_u1_an_unreachable_target_is_followed_by_the_next_and_named_without_its_address(set_up, unreachable):
    rig = await set_up(fast_url=unreachable, fast_extra=QUICK)

    served = await rig.ask()
    pinned = await rig.ask(headers={"x-tandem-tier": "fast"})

    assert (served.status, served.headers["x-tandem-target"]) == (200, "sage")
    message = check_refusal(pinned, "chat", 502, "upstream_unreachable")
    assert 'target "spark" could not be reached' in message
    assert "invalid" not in message
    rig.expect("SERVED", attempts=[("spark", None), ("sage", 200)])
    rig.expect("FAILED", "upstream_unreachable", attempts=[("spark", None)])


async def test_u1_a_target_that_does_not_speak_tls_is_unreachable(set_up, upstream):
    upstream.scripts = [silent]
    rig = await set_up(fast_url=upstream.base_url.replace("http:", "https:"), fast_extra=QUICK)

    reply = await rig.ask(headers={"x-tandem-tier": "fast"})

    assert "TLS failed" in check_refusal(reply, "chat", 502, "upstream_unreachable") or "no connection within" in str(
        reply.body
    )
    rig.expect("FAILED", "upstream_unreachable")


@pytest.mark.parametrize(("caller", "target"), [("responses", "responses"), ("messages", "chat"), ("chat", "messages")])
async def test_u2_a_stream_that_never_begins_goes_to_the_next_target_and_else_ends_in_time(set_up, caller, target):
    rig = await set_up(target, fast_extra=QUICK)
    rig.toxic.toxics = Toxics(is_black_hole=True)

    served = await rig.ask(caller, stream=True)
    alone = await rig.ask(caller, stream=True, headers={"x-tandem-tier": "fast"})

    assert served.headers["x-tandem-target"] == "sage"
    check_refusal(alone, caller, 504, "upstream_timeout")
    rig.expect("SERVED", attempts=[("spark", None), ("sage", 200)])
    rig.expect("FAILED", "upstream_timeout", attempts=[("spark", None)])


async def test_u2_a_whole_answer_has_only_the_deadline_unless_its_target_has_a_limit_of_its_own(set_up, tmp_path):
    patient = await set_up(extra="limits: {first_byte_timeout_seconds: 0.1, deadline_seconds: 3}")
    patient.toxic.toxics = Toxics(latency_seconds=0.25)
    late = await patient.ask()
    patient.toxic.toxics = Toxics(is_black_hole=True)
    patient.toxic.reset_all()
    never = await patient.ask(headers={"x-tandem-tier": "fast"})

    assert (late.status, late.headers["x-tandem-target"]) == (200, "spark")
    check_refusal(never, "chat", 504, "upstream_timeout")
    patient.expect("SERVED")
    patient.expect("FAILED", "upstream_timeout")


async def test_u2_a_targets_own_limit_counts_for_whole_answers_too(set_up):
    rig = await set_up(fast_extra=QUICK)
    rig.toxic.toxics = Toxics(is_black_hole=True)

    reply = await rig.ask()

    assert reply.headers["x-tandem-target"] == "sage"
    rig.expect("SERVED", attempts=[("spark", None), ("sage", 200)])


@pytest.mark.parametrize(("caller", "target", "status"), spread(500, 502, 503, 529))
@pytest.mark.usefixtures("long_rests")
async def test_u3_a_failing_target_is_followed_by_the_next_and_rests_after_five(set_up, caller, target, status):
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(REFUSAL, status)]

    replies = [await rig.ask(caller) for _ in range(6)]

    assert {reply.headers["x-tandem-target"] for reply in replies} == {"sage"}
    assert "spark rests after 5 failures in a row" in replies[5].headers["x-tandem-because"]
    assert len(rig.fast.seen) == 5
    for _ in range(5):
        rig.expect("SERVED", attempts=[("spark", status), ("sage", 200)])
    rig.expect("SERVED", attempts=[("sage", 200)])


@pytest.mark.parametrize(("caller", "target", "status"), spread(400, 413, 422))
async def test_u4_what_blames_the_request_is_the_callers_to_see_and_speaks_against_no_target(set_up, caller, target, status):
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(REFUSAL, status)]

    replies = [await rig.ask(caller) for _ in range(6)]

    assert {reply.status for reply in replies} == {status}
    for reply in replies:
        assert "their own words" in reply.body.decode()
        assert reply.headers["x-should-retry"] == "false"
        if caller == target:
            assert reply.json == REFUSAL
        else:
            check_refusal(reply, caller, status, "some_code")
        rig.expect("REFUSED", "upstream_refused", attempts=[("spark", status)])
    assert len({reply.headers["x-tandem-request-id"] for reply in replies}) == len(rig.fast.seen) == 6
    assert not rig.deep.seen


@pytest.mark.parametrize(("caller", "target", "status"), spread(401, 402, 403, 404))
async def test_u5_what_only_the_operator_can_mend_is_not_shown_and_the_target_is_ejected(set_up, caller, target, status):
    rig = await set_up(target)
    code = "upstream_model" if status == 404 else "upstream_auth"
    rig.fast.scripts = [answer_json({"error": {"message": "bad key sk-hidden of org-hidden"}}, status)]

    alone = await rig.ask(caller, headers={"x-tandem-tier": "fast"})
    after = await rig.ask(caller)

    check_refusal(alone, caller, 502, code)
    assert b"hidden" not in alone.body
    assert alone.headers["x-should-retry"] == "false"
    assert (after.status, after.headers["x-tandem-target"], len(rig.fast.seen)) == (200, "sage", 1)
    rig.expect("FAILED", code, attempts=[("spark", status)])
    rig.expect("SERVED", attempts=[("sage", 200)])


@PAIRS
async def test_u6_a_time_that_a_target_names_is_honoured_by_going_elsewhere_and_told_where_nobody_else_is(
    set_up, caller, target
):
    rig = await set_up(target)
    rig.names_a_time = True
    soon = formatdate(time.time() + 30, usegmt=True)
    rig.fast.scripts = [answer_json(REFUSAL, 429, {"retry-after": soon})]
    spilled = await rig.ask(caller)
    rig.deep.scripts = [answer_json(REFUSAL, 429, {"retry-after": "2"})]
    both = await rig.ask(caller)
    neither = await rig.ask(caller)

    assert spilled.headers["x-tandem-target"] == "sage"
    for reply in (both, neither):
        check_refusal(reply, caller, 429, "tiers_busy")
        assert 1 <= int(reply.headers["retry-after"]) <= 2
    assert (len(rig.fast.seen), len(rig.deep.seen)) == (1, 2)
    rig.expect("SERVED", attempts=[("spark", 429), ("sage", 200)])
    rig.expect("REFUSED", "tiers_busy", attempts=[("sage", 429)])
    rig.expect("REFUSED", "tiers_busy", attempts=[])


async def test_u6_a_429_without_a_time_goes_on_and_is_told_with_a_second(set_up):
    rig = await set_up()
    rig.fast.scripts = [answer_json(REFUSAL, 429)]
    spilled = await rig.ask()
    rig.deep.scripts = [answer_json(REFUSAL, 429)]
    both = await rig.ask()

    assert spilled.headers["x-tandem-target"] == "sage"
    check_refusal(both, "chat", 429, "tiers_busy")
    assert both.headers["retry-after"] == "1"


TOO_LONG = {
    "chat": {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens, you sent 9000"}},
    "responses": {
        "error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens, you sent 9000"}
    },
    "messages": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8192 maximum"},
    },
}


@PAIRS
@WAYS
async def test_u7_a_request_that_is_too_long_goes_once_to_a_target_that_fits_and_else_keeps_its_numbers(
    set_up, caller, target, is_streaming
):
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(TOO_LONG[target], 400)]
    fits = await rig.ask(caller, stream=is_streaming)
    rig.deep.scripts = [answer_json(TOO_LONG[target], 400)]
    nobody = await rig.ask(caller, stream=is_streaming)

    assert (fits.status, fits.headers["x-tandem-target"]) == (200, "sage")
    assert nobody.status == 400
    assert b"9000" in nobody.body
    assert b"8192" in nobody.body
    rig.expect("SERVED", attempts=[("spark", 400), ("sage", 200)])
    rig.expect("REFUSED", "upstream_refused")


NO_ANSWERS = {
    "html": (b"<html>Sign in to the guest network</html>", "text/html"),
    "html as json": (b"<html>Sign in to the guest network</html>", "application/json"),
    "empty": (b"", "application/json"),
    "other JSON": (b'{"hello": "world"}', "application/json"),
    "a list": (b"[]", "application/json"),
    "too deep": (b"[" * 100_000, "application/json"),
    "an error": (b'{"error": {"message": "no"}}', "application/json"),
}


@PAIRS
@WAYS
async def test_u8_a_200_that_is_no_answer_is_a_failure_like_any_other(set_up, listen, caller, target, is_streaming):
    rig = await set_up(target)
    pinned = {"x-tandem-tier": "fast"}
    for body, kind in NO_ANSWERS.values():
        rig.fast.scripts = [answer_json(body, 200, {"content-type": kind})]
        reply = await rig.ask(caller, stream=is_streaming, headers=pinned)
        check_refusal(reply, caller, 502, "upstream_malformed")
        assert b"guest" not in reply.body
        rig.expect("FAILED", "upstream_malformed", attempts=[("spark", 200)])

    spared = await rig.ask(caller)

    assert "spark rests after 7 failures" in spared.headers["x-tandem-because"]


@pytest.mark.parametrize(("caller", "target", "difference"), spread(-3, 3, 3))
async def test_u9_a_body_of_another_length_is_no_answer_and_its_connection_is_not_used_again(
    set_up, caller, target, difference
):
    rig = await set_up(target)
    raw = json.dumps(write_whole(target, GOOD)).encode()

    async def lies(wire, seen):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        await wire.send(head % (len(raw) + difference) + raw)
        if difference > 0:
            wire.writer.close()

    rig.fast.scripts = [lies]
    broken = await rig.ask(caller, headers={"x-tandem-tier": "fast"})
    calls = len(rig.fast.seen)
    rig.fast.scripts = [speak(target, GOOD)]
    good = await rig.ask(caller)

    check_refusal(broken, caller, 502, "upstream_malformed" if difference < 0 else "upstream_cut")
    assert (good.status, rig.toxic.connections) == (200, calls + 1)


@PAIRS
async def test_u10_an_answer_without_end_is_cut_at_the_limit(set_up, caller, target):
    rig = await set_up(target, extra="limits: {max_response_bytes: 100000}")
    sent = 0

    async def endless(wire, seen):
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        await wire.chunk(b'{"text": "')
        while True:
            await wire.chunk(b"x" * 10_000)
            sent += 10_000

    rig.fast.scripts = [endless]
    reply = await rig.ask(caller, headers={"x-tandem-tier": "fast"})
    await asyncio.wait_for(rig.fast.seen[0].left.wait(), 30)

    assert "more than 100000 bytes" in check_refusal(reply, caller, 502, "upstream_malformed")
    assert sent < 8_000_000
    rig.expect("FAILED", "upstream_malformed")


@PAIRS
async def test_u12_with_all_fast_targets_down_deep_serves_and_says_why_and_without_it_the_caller_is_told_to_wait(
    set_up, caller, target
):
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(REFUSAL, 503)]
    spilled = await rig.ask(caller)
    pinned = await rig.ask(caller, headers={"x-tandem-tier": "fast"})

    assert spilled.headers["x-tandem-because"].startswith("spark failed (503), so sage answers: ")
    assert "spark (503)" in check_refusal(pinned, caller, 503, "unavailable")
    assert int(pinned.headers["retry-after"]) >= 1
    rig.expect("SERVED", attempts=[("spark", 503), ("sage", 200)])
    rig.expect("FAILED", "unavailable", attempts=[("spark", 503), ("spark", 503)])


@PAIRS
@WAYS
async def test_u13_an_idle_connection_that_its_target_closes_as_we_send_is_no_failure(set_up, caller, target, is_streaming):
    rig = await set_up(target)
    await rig.ask(caller)

    async def hang_up(wire, seen):
        wire.reset()

    rig.fast.scripts = [hang_up, speak(target, GOOD)]
    reply = await rig.ask(caller, stream=is_streaming)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert len(rig.fast.seen) == 3
    rig.expect("SERVED")
    rig.expect("SERVED", attempts=[("spark", 200)])


@PAIRS
@WAYS
async def test_u14_interim_answers_are_skipped_and_bounded(set_up, caller, target, is_streaming):
    rig = await set_up(target)
    good = speak(target, GOOD)

    def after(raw):
        async def script(wire, seen):
            await wire.send(raw)
            await good(wire, seen)

        return script

    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
    rig.fast.scripts = [after(hints * 50)]
    skipped = await rig.ask(caller, stream=is_streaming)
    rig.fast.scripts = [after(hints * 5_000)]
    endless = await rig.ask(caller, stream=is_streaming, headers={"x-tandem-tier": "fast"})

    assert skipped.status == 200
    assert "too many interim" in check_refusal(endless, caller, 502, "upstream_malformed")
    rig.expect("SERVED", attempts=[("spark", 200)])
    rig.expect("FAILED", "upstream_malformed")
