"""Background work by the OpenAI SDKs as they are published, over every kind of upstream."""

import asyncio

import openai
import pytest
from openai import AsyncOpenAI

from tests.tools.background import SPEECH, speak_in_steps
from tests.tools.clients import installed, make_scratch, run_client
from tests.tools.running import one_dialect
from tests.tools.speech import speak

pytestmark = pytest.mark.clients
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
WAITING = ("queued", "in_progress")
PROGRAM = """
import OpenAI from 'openai';
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'any', maxRetries: 3 });
const ask = { model: 'auto', input: 'plan the migration', background: true };
let made = await client.responses.create(ask);
console.log('created', made.status, made.background);
while (['queued', 'in_progress'].includes(made.status)) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  made = await client.responses.retrieve(made.id);
}
console.log('polled', made.status, made.output_text);
const numbers = [];
for await (const event of await client.responses.create({ ...ask, stream: true })) numbers.push(event.sequence_number);
console.log('streamed', numbers.every((number, index) => number === index));
const rest = [];
for await (const event of await client.responses.retrieve(made.id, { stream: true, starting_after: 3 })) rest.push(event);
console.log('resumed', rest[0].sequence_number, rest.at(-1).type);
console.log('cancelled', (await client.responses.cancel(made.id)).status);
await client.responses.delete(made.id);
try { await client.responses.retrieve(made.id); } catch (error) { console.log('deleted', error.status); }
"""
CANCELLING = """
import OpenAI from 'openai';
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'any', maxRetries: 0 });
const made = await client.responses.create({ model: 'auto', input: 'plan the migration', background: true });
const stream = client.responses.stream({ response_id: made.id });
let last;
for await (const event of stream) {
  if (!last) await client.responses.cancel(made.id);
  last = event;
}
const final = await stream.finalResponse();
const kept = await client.responses.retrieve(made.id);
const [told, read] = [final, kept].map((response) => [response.output_text, ...response.output.map((item) => item.id)].join());
console.log(last.type, last.response.status, final.status, told === read);
"""


@DIALECTS
async def test_openai_python_creates_polls_streams_resumes_cancels_and_deletes(start, upstream, dialect):
    steps = asyncio.Semaphore(0)
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH), speak(dialect, SPEECH), speak_in_steps(dialect, SPEECH, steps)]

    async with AsyncOpenAI(base_url=f"{tandem.url}/v1", api_key="sk-test") as client:
        made = polled = await client.responses.create(model="auto", input="plan it", background=True)
        while polled.status in WAITING:
            polled = await client.responses.retrieve(made.id)
        async with client.responses.stream(model="auto", input="plan it", background=True) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        async with client.responses.stream(response_id=final.id, starting_after=4) as stream:
            rest = [event async for event in stream]
        running = await client.responses.create(model="auto", input="plan it", background=True)
        cancelled = await client.responses.cancel(running.id)
        again = await client.responses.cancel(running.id)
        finished = await client.responses.cancel(made.id)
        await client.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)

    assert (made.status, made.background, polled.status, polled.output_text) == ("queued", True, "completed", SPEECH.text)
    assert final.output_text == SPEECH.text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.sequence_number for event in rest] == list(range(5, len(events)))
    assert (cancelled.status, again.status, finished.status) == ("cancelled", "cancelled", "completed")


@DIALECTS
async def test_openai_node_does_the_same(start, upstream, tmp_path, dialect):
    modules = installed("openai")
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH)]
    scratch = make_scratch(tmp_path)
    (scratch / "node_modules").symlink_to(modules)
    (scratch / "run.mjs").write_text(PROGRAM)

    said = await run_client(["node", str(scratch / "run.mjs")], scratch, {"BASE_URL": f"{tandem.url}/v1"})

    assert said.splitlines() == [
        "created queued true",
        f"polled completed {SPEECH.text}",
        "streamed true",
        "resumed 4 response.completed",
        "cancelled completed",
        "deleted 404",
    ]


@DIALECTS
async def test_openai_node_follows_a_job_that_is_cancelled_to_its_end(start, upstream, tmp_path, dialect):
    modules, steps = installed("openai"), asyncio.Semaphore(4)
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak_in_steps(dialect, SPEECH, steps)]
    scratch = make_scratch(tmp_path)
    (scratch / "node_modules").symlink_to(modules)
    (scratch / "run.mjs").write_text(CANCELLING)

    said = await run_client(["node", str(scratch / "run.mjs")], scratch, {"BASE_URL": f"{tandem.url}/v1"})

    assert said.split() == ["response.incomplete", "cancelled", "cancelled", "true"]
