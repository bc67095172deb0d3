"""The Anthropic SDK's tool runner, which uses message threads by default, against a running Tandem: it sends everything again."""

import json
from contextlib import asynccontextmanager

import anthropic
import pytest
from anthropic import AsyncAnthropic

from tests.tools.running import one_dialect
from tests.tools.speech import Speech, ToolCall, speak

DIALECTS = ["chat", "responses", "messages"]
WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
READ = ToolCall("call_1", "read_file", json.dumps({"path": "README.md"}))
READ_MORE = ToolCall("call_2", "read_file", json.dumps({"path": "LICENSE"}))

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        not hasattr(AsyncAnthropic(api_key="x").beta.messages, "thread"),
        reason=f"anthropic {anthropic.__version__} has no message threads: 2.4 or newer is needed",
    ),
]


@asynccontextmanager
async def client_of(tandem):
    async with AsyncAnthropic(base_url=tandem.url, api_key="sk-ant-test", max_retries=0) as client:
        yield client


def read_file():
    """The tool that a runner calls, and the paths that it was asked for."""
    asked: list[str] = []

    @anthropic.beta_async_tool
    async def read_file(path: str) -> str:
        """Read a file.

        Args:
            path: Where it is.
        """
        asked.append(path)
        return f"words of {path}"

    return read_file, asked


def bodies(upstream) -> list[str]:
    return [json.dumps(seen.json) for seen in upstream.seen]


@pytest.mark.parametrize("dialect", DIALECTS)
@WAYS
async def test_a_tool_runner_runs_to_its_end_whatever_its_upstream_speaks(start, upstream, dialect, stream):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    speeches = Speech("I look.", (READ,)), Speech("And there.", (READ_MORE,)), Speech("It is fixed.")
    upstream.scripts = [speak(dialect, speech) for speech in speeches]
    tool, asked = read_file()

    async with client_of(tandem) as client:
        runner = client.beta.messages.tool_runner(
            model="auto",
            max_tokens=200,
            system="Be brief.",
            messages=[{"role": "user", "content": "Fix the typo in line 3 of README.md"}],
            tools=[tool],
            stream=stream,
        )
        answer = await runner.until_done()

    assert [block.text for block in answer.content if block.type == "text"] == ["It is fixed."]
    assert asked == ["README.md", "LICENSE"]
    last = bodies(upstream)[2]
    for words in ("Be brief.", "Fix the typo", "words of README.md", "words of LICENSE", "And there."):
        assert words in last
    entries = await tandem.entries(5)
    assert [entry["status"] for entry in entries] == [200, 404, 200, 404, 200]
    served = [entry for entry in entries if entry["status"] == 200]
    assert len({entry["session"] for entry in served}) == len({entry["tier"] for entry in served}) == 1
