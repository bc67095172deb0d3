"""Numbers in tools, arguments and histories arrive digit for digit on every road."""

import json
import re

import pytest

from tests.tools.cases import covering
from tests.tools.http import call
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, ToolCall, speak

WEI, RATIO = "115792089237316195423570985008687907853269984665640564039457584007913129639935", "0.1234567890123456789012345"
INPUT = f'{{"wei":{WEI},"ratio":{RATIO}}}'
PAY = ToolCall("call_1", "pay", f'{{"wei":{WEI}}}')
SCHEMA = f'{{"type":"object","properties":{{"wei":{{"type":"integer","maximum":{WEI}}}}}}}'
DIALECTS = ["chat", "responses", "messages"]
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "paid"}
BODIES = {
    "chat": (
        "/v1/chat/completions",
        '{"model":"auto","messages":[{"role":"user","content":"pay"},{"role":"assistant","tool_calls":[{"id":"call_1",'
        f'"type":"function","function":{{"name":"pay","arguments":{json.dumps(INPUT)}}}}}]}},'
        '{"role":"tool","tool_call_id":"call_1","content":"paid"}],'
        f'"tools":[{{"type":"function","function":{{"name":"pay","parameters":{SCHEMA}}}}}]}}',
    ),
    "responses": (
        "/v1/responses",
        '{"model":"auto","input":[{"role":"user","content":"pay"},{"type":"function_call","call_id":"call_1","name":"pay",'
        f'"arguments":{json.dumps(INPUT)}}},{{"type":"function_call_output","call_id":"call_1","output":"paid"}}],'
        f'"tools":[{{"type":"function","name":"pay","parameters":{SCHEMA}}}]}}',
    ),
    "messages": (
        "/v1/messages",
        '{"model":"auto","max_tokens":99,"messages":[{"role":"user","content":"pay"},{"role":"assistant","content":['
        f'{{"type":"tool_use","id":"call_1","name":"pay","input":{INPUT}}}]}},'
        f'{{"role":"user","content":[{json.dumps(RESULT)}]}}],"tools":[{{"name":"pay","input_schema":{SCHEMA}}}]}}',
    ),
}


def digits_in(raw: bytes) -> tuple[int, int]:
    """Counts of the two numbers; other long ones fail."""
    text = raw.decode()
    assert set(re.findall(r"(?<![\w.])[0-9.]{16,}(?:e[0-9]+)?", text)) <= {WEI, RATIO}
    return text.count(WEI), text.count(RATIO)


@pytest.mark.parametrize("caller", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
async def test_a_history_and_its_tools_reach_every_target_with_their_digits(start, upstream, caller, target):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("Done."))]
    path, body = BODIES[caller]

    reply = await call(tandem.port, path, body.encode())

    assert reply.status == 200
    assert digits_in(upstream.seen[0].body) == (2, 1)


@pytest.mark.parametrize(("caller", "target", "is_cut"), covering(DIALECTS, DIALECTS, [False, True]))
async def test_a_whole_answer_reaches_every_caller_with_the_digits_of_its_calls(start, upstream, caller, target, is_cut):
    tandem = await start(one_dialect(target, upstream.base_url))
    call_made = ToolCall("call_1", "pay", f'{{"wei":{WEI},"note":"') if is_cut and target != "messages" else PAY
    upstream.scripts = [speak(target, Speech("", (call_made,), is_cut=is_cut))]
    path, body = BODIES[caller]

    reply = await call(tandem.port, path, body.replace(WEI, "5").replace(RATIO, "0.5").encode())

    assert reply.status == 200
    assert digits_in(reply.body) == (1, 0)


@pytest.mark.parametrize("target", DIALECTS)
async def test_a_response_that_is_continued_keeps_the_digits_of_its_history(start, upstream, target):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("Done.")), speak(target, Speech("Again."))]
    path, body = BODIES["responses"]
    shell = f'{{"type":"custom_x","value":{WEI}}},' if target == "responses" else ""
    made = await call(tandem.port, path, body.replace('"input":[', f'"input":[{shell}').encode())
    listed = await call(tandem.port, f"/v1/responses/{made.json['id']}/input_items", method="GET")
    kept = await call(tandem.port, f"/v1/responses/{made.json['id']}", method="GET")

    again = f'{{"model":"auto","previous_response_id":"{made.json["id"]}","input":"more","metadata":{{}},"x":{WEI}}}'
    reply = await call(tandem.port, path, again.encode())

    assert (reply.status, listed.status, kept.status) == (200, 200, 200)
    assert digits_in(upstream.seen[1].body)[0] >= 1
    assert digits_in(listed.body)[0] == 1 + bool(shell)


async def test_a_compaction_shows_the_conversation_with_its_digits(start, upstream):
    tandem = await start(one_dialect("responses", upstream.base_url))
    upstream.scripts = [speak("responses", Speech("What was said."))]
    path, body = BODIES["responses"]

    reply = await call(
        tandem.port, f"{path}/compact", body.replace('"input":[', f'"input":[{{"type":"custom_x","v":{WEI}}},').encode()
    )

    assert reply.status == 200
    assert digits_in(upstream.seen[0].body) == (2, 1)


@pytest.mark.parametrize(("caller", "path"), [(caller, path) for caller, (path, _) in BODIES.items()])
@pytest.mark.parametrize("target", DIALECTS)
async def test_a_large_number_where_a_text_belongs_is_refused_by_its_place_over_a_bridge(start, upstream, caller, path, target):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("Done."))]
    _, body = BODIES[caller]

    reply = await call(tandem.port, path, body.replace('"content":"pay"', f'"content":{WEI}').encode())

    assert reply.status == (200 if caller == target else 400)
    assert caller == target or "content: must be a string or a list of parts, not a number" in reply.json["error"]["message"]
