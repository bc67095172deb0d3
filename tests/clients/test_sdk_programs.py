"""Programs that people write with the vendors' Python SDKs, over every kind of upstream: what they get, and which error is raised."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.conftest import SIMULATED
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, ToolCall, speak, write_whole
from tests.tools.upstream import answer_json

DIALECTS = ["chat", "responses", "messages"]
EVERY = pytest.mark.parametrize("kind", [*DIALECTS, "simulated"])
SPOKEN = pytest.mark.parametrize("kind", DIALECTS)
WAYS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streaming"])
HELLO, CUT = Speech("Hello there."), Speech("Once upon a", is_cut=True)
LOOK = ToolCall("call_1", "look", '{"path": "a.py"}')
TOOL = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}
QUESTION: list[Any] = [{"role": "user", "content": "Say hello."}]

pytestmark = pytest.mark.clients


class Verdict(BaseModel):
    """What an answer is parsed into."""

    word: str


@pytest.fixture
def house_of(start, upstream):
    """A Tandem whose targets speak one dialect and say these things, or are simulated."""

    async def build(kind: str, *speeches: Speech):
        if kind == "simulated":
            return await start(SIMULATED)
        upstream.scripts = [speak(kind, speech) for speech in speeches or (HELLO,)]
        return await start(one_dialect(kind, upstream.base_url))

    return build


@asynccontextmanager
async def openai_of(tandem, **more: Any) -> AsyncIterator[AsyncOpenAI]:
    options = {"max_retries": 0, "_strict_response_validation": True, **more}
    async with AsyncOpenAI(base_url=f"{tandem.url}/v1", api_key="sk-test", **options) as client:
        yield client


@asynccontextmanager
async def anthropic_of(tandem, **more: Any) -> AsyncIterator[AsyncAnthropic]:
    options = {"max_retries": 0, "_strict_response_validation": True, **more}
    async with AsyncAnthropic(base_url=tandem.url, api_key="sk-ant-test", **options) as client:
        yield client


@EVERY
async def test_raw_answers_have_ids_and_parse(house_of, kind):
    tandem = await house_of(kind)

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        chat = await client.chat.completions.with_raw_response.create(model="auto", messages=QUESTION)
        response = await client.responses.with_raw_response.create(model="auto", input="Say hello.")
        message = await other.messages.with_raw_response.create(model="auto", max_tokens=99, messages=QUESTION)

    assert all((chat.request_id, response.request_id, message.request_id))
    assert chat.parse().choices[0].message.content
    assert response.parse().output_text
    said = await message.parse()
    assert (said.content[0].type, said._request_id) == ("text", message.request_id)


@EVERY
async def test_the_blocking_clients_work_too(house_of, kind):
    tandem = await house_of(kind)

    def ask() -> tuple[str, str, str]:
        with (
            OpenAI(base_url=f"{tandem.url}/v1", api_key="x", max_retries=0) as client,
            Anthropic(base_url=tandem.url, api_key="x", max_retries=0) as other,
        ):
            chunks = client.chat.completions.create(model="auto", messages=QUESTION, stream=True)
            chat = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            with client.responses.stream(model="auto", input="Say hello.") as stream:
                response = stream.get_final_response().output_text
            with other.messages.stream(model="auto", max_tokens=99, messages=QUESTION) as said:
                message = "".join(said.text_stream)
        return chat, response, message

    answers = await asyncio.to_thread(ask)

    assert all(answers)
    assert kind == "simulated" or set(answers) == {"Hello there."}


@EVERY
async def test_usage_comes_in_a_chunk_of_its_own_and_only_when_it_is_asked_for(house_of, kind):
    tandem = await house_of(kind)

    async with openai_of(tandem) as client:
        plain = [chunk async for chunk in await client.chat.completions.create(model="auto", messages=QUESTION, stream=True)]
        options = {"include_usage": True}
        asked = await client.chat.completions.create(model="auto", messages=QUESTION, stream=True, stream_options=options)
        counted = [chunk async for chunk in asked]

    if kind != "chat":  # a chat host's own chunks pass as they come
        assert all(len(chunk.choices) == 1 and chunk.usage is None for chunk in plain)
        assert [bool(chunk.choices) for chunk in counted] == [True] * (len(counted) - 1) + [False]
    assert counted[-1].usage.total_tokens == counted[-1].usage.prompt_tokens + counted[-1].usage.completion_tokens
    for chunks in (plain, counted):
        said = [chunk.choices[0] for chunk in chunks if chunk.choices]
        assert said[0].delta.role == "assistant"
        assert [bool(choice.finish_reason) for choice in said] == [False] * (len(said) - 1) + [True]


@SPOKEN
@WAYS
async def test_an_answer_that_reached_its_limit_says_so_in_every_sdk(house_of, kind, streams):
    tandem = await house_of(kind, CUT)

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        if streams:
            async with client.responses.stream(model="auto", input="Go on.", max_output_tokens=16) as stream:
                response = [event async for event in stream][-1].response  # the helper itself takes no other end than completed
            async with other.messages.stream(model="auto", max_tokens=3, messages=QUESTION) as said:
                message = await said.get_final_message()
        else:
            response = await client.responses.create(model="auto", input="Go on.", max_output_tokens=16)
            message = await other.messages.create(model="auto", max_tokens=3, messages=QUESTION)
        with pytest.raises(openai.LengthFinishReasonError):
            await client.chat.completions.parse(model="auto", messages=QUESTION, response_format=Verdict)

    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert kind == "responses" or response.output[0].status == "incomplete"
    assert response.output_text == "Once upon a"
    assert (message.stop_reason, message.content[0].text) == ("max_tokens", "Once upon a")


@EVERY
async def test_a_chain_of_responses_forks_is_listed_and_is_deleted(house_of, kind):
    tandem = await house_of(kind, *[HELLO] * 4)

    async with openai_of(tandem) as client:
        first = await client.responses.create(model="auto", input="My name is Ada.", metadata={"team": "blue"})
        left = await client.responses.create(model="auto", input="Who am I?", previous_response_id=first.id)
        right = await client.responses.create(model="auto", input="Spell it.", previous_response_id=first.id)
        again = await client.responses.retrieve(first.id)
        items = [item async for item in client.responses.input_items.list(left.id, order="asc", limit=1)]
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        if kind != "responses":
            await client.responses.create(model="auto", input="And now?", previous_response_id=right.id)

    assert again.output_text == first.output_text
    assert len({item.id for item in items}) == len(items)
    if kind != "responses":  # the scripted host gives every response one id
        assert (again.metadata, left.previous_response_id) == ({"team": "blue"}, first.id)
        assert [item.role for item in items] == ["user", "assistant", "user"]


@EVERY
async def test_what_is_not_kept_or_not_done_here_is_refused_as_what_it_is(house_of, kind):
    tandem = await house_of(kind)

    async with openai_of(tandem) as client:
        loose = await client.responses.create(model="auto", input="hi", store=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(loose.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel(loose.id)
        if kind != "responses":
            with pytest.raises(openai.BadRequestError):
                await client.responses.create(model="auto", input="hi", conversation="conv_1")
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="auto", input="hi", background=True, store=False)


@SPOKEN
async def test_a_limit_is_raised_as_one_with_an_id(start, upstream, kind):
    tandem = await start(one_dialect(kind, upstream.base_url))
    error = {"type": "rate_limit_error", "message": "Slow down."}
    refusal = answer_json({"type": "error", "error": error}, status=429, headers={"retry-after-ms": "5"})
    upstream.scripts = [refusal] * 3

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        with pytest.raises(openai.RateLimitError) as told:
            await client.chat.completions.create(model="auto", messages=QUESTION)
        with pytest.raises(anthropic.RateLimitError):
            await other.messages.create(model="auto", max_tokens=9, messages=QUESTION)

    assert told.value.request_id


@EVERY
async def test_counts_of_tokens_come_whole(house_of, kind, upstream):
    tandem = await house_of(kind)
    if kind == "messages":
        upstream.scripts = [answer_json({"input_tokens": 9})]

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        counted = await other.messages.count_tokens(model="auto", messages=QUESTION, system="Be brief.")
        tokens = await client.responses.input_tokens.count(model="auto", input="Say hello.")

    assert counted.input_tokens > 0
    assert tokens.input_tokens > 0


@SPOKEN
@WAYS
async def test_system_prompts_in_every_form_reach_the_target(house_of, upstream, kind, streams):
    tandem = await house_of(kind)
    forms: list[Any] = ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]]

    async with anthropic_of(tandem) as client, openai_of(tandem) as other:
        for system in forms:
            asked = {"model": "auto", "max_tokens": 99, "system": system, "messages": QUESTION}
            if streams:
                async with client.messages.stream(**asked) as stream:
                    await stream.until_done()
            else:
                await client.messages.create(**asked)
        for role in ("system", "developer"):
            messages: list[Any] = [{"role": role, "content": [{"type": "text", "text": "Be brief."}]}, *QUESTION]
            await other.chat.completions.create(model="auto", messages=messages)
            items: list[Any] = [{"role": role, "content": "Be brief."}, *QUESTION]
            await other.responses.create(model="auto", input=items)
        await other.responses.create(model="auto", instructions="Be brief.", input="Say hello.")

    assert len(upstream.seen) == 7
    assert all("Be brief." in json.dumps(seen.json) for seen in upstream.seen)


@SPOKEN
async def test_fields_of_one_vendor_pass_to_its_own_hosts_and_are_dropped_elsewhere(house_of, upstream, kind):
    tandem = await house_of(kind)

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        await client.chat.completions.create(model="auto", messages=QUESTION, extra_body={"min_p": 0.1}, logprobs=True, seed=7)
        await client.responses.create(model="auto", input="hi", extra_body={"min_p": 0.1})
        await other.messages.create(model="auto", max_tokens=9, messages=QUESTION, extra_body={"min_p": 0.1})

    assert ["min_p" in seen.json for seen in upstream.seen] == [kind == dialect for dialect in DIALECTS]


@SPOKEN
async def test_more_than_one_answer_comes_from_a_chat_host_and_is_refused_elsewhere(start, upstream, kind):
    tandem = await start(one_dialect(kind, upstream.base_url))
    choice = write_whole("chat", HELLO)["choices"][0]
    upstream.scripts = [answer_json({**write_whole("chat", HELLO), "choices": [choice, {**choice, "index": 1}]})]

    async with openai_of(tandem) as client:
        if kind == "chat":
            answer = await client.chat.completions.create(model="auto", messages=QUESTION, n=2)
            assert [each.index for each in answer.choices] == [0, 1]
        else:
            with pytest.raises(openai.BadRequestError, match="n"):
                await client.chat.completions.create(model="auto", messages=QUESTION, n=2)


@SPOKEN
async def test_a_stream_helper_adds_thinking_text_and_a_call_up(house_of, kind):
    tandem = await house_of(kind, Speech("I look.", (LOOK,), thinking="Where is it?"))
    tools: list[Any] = [{"name": "look", "input_schema": TOOL}]
    thinking: Any = {"type": "enabled", "budget_tokens": 1_024}

    async with anthropic_of(tandem) as client:
        asked = {"model": "auto", "max_tokens": 2_000, "messages": QUESTION, "tools": tools, "thinking": thinking}
        async with client.messages.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            message = await stream.get_final_message()

    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[2].input == {"path": "a.py"}
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 12)


@EVERY
async def test_structured_answers_are_parsed_by_each_sdk(house_of, kind):
    tandem = await house_of(kind, Speech('{"word": "typo"}'))
    form: Any = {"type": "json_schema", "schema": {**Verdict.model_json_schema(), "additionalProperties": False}}

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        chat = await client.chat.completions.parse(model="auto", messages=QUESTION, response_format=Verdict)
        response = await client.responses.parse(model="auto", input="What?", text_format=Verdict)
        message = await other.messages.create(model="auto", max_tokens=99, messages=QUESTION, output_config={"format": form})

    assert isinstance(chat.choices[0].message.parsed, Verdict)
    assert isinstance(response.output_parsed, Verdict)
    assert Verdict.model_validate_json(message.content[0].text)


@EVERY
async def test_stop_sequences_are_no_error(house_of, kind):
    tandem = await house_of(kind)

    async with openai_of(tandem) as client, anthropic_of(tandem) as other:
        chat = await client.chat.completions.create(model="auto", messages=QUESTION, stop=["\n\n", "END"])
        message = await other.messages.create(model="auto", max_tokens=99, messages=QUESTION, stop_sequences=["END"])

    assert chat.choices[0].finish_reason == "stop"
    assert message.stop_reason in ("end_turn", "stop_sequence")


@WAYS
async def test_a_key_makes_a_retry_of_openais_sdk_safe(house_of, upstream, streams):
    tandem = await house_of("chat")
    said = []

    async with openai_of(tandem) as client:
        for _ in range(2):
            ask = {"model": "auto", "messages": QUESTION, "extra_headers": {"Idempotency-Key": "order-1"}}
            if streams:
                raw = await client.chat.completions.with_raw_response.create(stream=True, **ask)
                text = "".join([chunk.choices[0].delta.content or "" async for chunk in raw.parse() if chunk.choices])
            else:
                raw = await client.chat.completions.with_raw_response.create(**ask)
                text = raw.parse().choices[0].message.content
            said.append((text, raw.headers.get("x-tandem-replayed")))
        with pytest.raises(openai.ConflictError) as raised:
            await client.with_options(max_retries=2).responses.create(
                model="auto", input="another", extra_headers={"Idempotency-Key": "order-1"}
            )

    assert said == [("Hello there.", None), ("Hello there.", "true")]
    assert raised.value.code == "idempotency_mismatch"
    assert len(upstream.seen) == 1
    assert len(await tandem.entries(3)) == 3  # the SDK retries a 409, unless it is told not to


@WAYS
async def test_a_key_makes_a_retry_of_anthropics_sdk_safe(house_of, upstream, streams):
    tandem = await house_of("messages")
    said = []

    async with anthropic_of(tandem) as client:
        for _ in range(2):
            ask = {"model": "auto", "max_tokens": 99, "messages": QUESTION, "extra_headers": {"Idempotency-Key": "order-1"}}
            if streams:
                async with client.messages.stream(**ask) as stream:
                    message = await stream.get_final_message()
                    headers = stream.response.headers
            else:
                raw = await client.messages.with_raw_response.create(**ask)
                message, headers = await raw.parse(), raw.headers
            said.append((message.id, message.content[0].text, headers.get("x-tandem-replayed")))
        with pytest.raises(anthropic.ConflictError):
            await client.messages.create(
                model="auto", max_tokens=9, messages=QUESTION, extra_headers={"Idempotency-Key": "order-1"}
            )

    (first, text, fresh), (again, same, replayed) = said
    assert (first, text, fresh, replayed) == (again, same, None, "true")
    assert len(upstream.seen) == 1


async def test_two_programs_that_send_the_same_key_at_once_make_one_call(house_of, upstream):
    tandem = await house_of("responses")

    async with openai_of(tandem) as client:
        ask = {"model": "auto", "input": "Say hello.", "extra_headers": {"Idempotency-Key": "order-1"}}
        told = await asyncio.gather(*(client.responses.create(**ask) for _ in range(4)))

    assert len({response.id for response in told}) == 1
    assert len(upstream.seen) == 1
