"""The exact count, for prompts near a limit."""

import asyncio
import json
import threading

import pytest

from router.contract.words import Dialect
from router.sense import exact
from tests.tools.values import ask, make_view


async def test_special_tokens_in_a_prompt_are_plain_text(encoding):
    counter = exact.ExactCounter(pytest.fail)

    count = await counter.count(ask("<|endoftext|> <|im_start|>system"))

    counter.close()
    assert count.is_exact
    assert 8 < count.tokens < 40


async def test_an_exact_count_reads_the_arguments_of_calls(encoding):
    counter = exact.ExactCounter(pytest.fail)
    arguments = json.dumps({"text": "word " * 3_000})
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}
    chat = make_view(
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]}
    )
    used = {"type": "tool_use", "id": "c", "name": "write", "input": {"text": "word " * 3_000}}
    messages = make_view({"max_tokens": 1, "messages": [{"role": "assistant", "content": [used]}]}, Dialect.MESSAGES)

    counts = [await counter.count(view) for view in (chat, messages)]

    counter.close()
    assert all(3_000 <= count.tokens <= 3_100 for count in counts)


async def test_an_exact_count_reads_system_tools_and_results(encoding):
    counter = exact.ExactCounter(pytest.fail)
    body = {
        "max_tokens": 1,
        "system": "word " * 100,
        "tools": [{"name": "x", "description": "word " * 100, "input_schema": {}}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "word " * 100}]}],
    }

    count = await counter.count(make_view(body, Dialect.MESSAGES))

    counter.close()
    assert 300 <= count.tokens <= 340


async def test_without_a_vocabulary_counts_stay_estimates_and_one_warning_says_so(monkeypatch):
    warnings = []
    monkeypatch.setattr(exact, "find_vocabulary", lambda: None)
    counter = exact.ExactCounter(warnings.append)

    assert await counter.count(ask()) is None
    assert await counter.count(ask()) is None

    counter.close()
    assert len(warnings) == 1


def test_a_damaged_vocabulary_is_not_handed_to_a_library_that_would_fetch_another(tmp_path, monkeypatch):
    (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").write_bytes(b"damaged")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    assert exact.find_vocabulary() != tmp_path


class SlowEncoding:
    """An encoding that is not done before somebody says so."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def encode_ordinary(self, text: str) -> list[int]:
        self.began.set()
        assert self.may_end.wait(10), "nobody could say so: the loop was held up"
        return [0] * len(text)


@pytest.fixture
def slow(monkeypatch, encoding):
    import tiktoken

    found = SlowEncoding()
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: found)
    return found


async def test_the_loop_runs_on_while_a_prompt_is_counted(slow):
    counter = exact.ExactCounter(pytest.fail)
    counting = asyncio.gather(counter.count(ask("four")))

    await asyncio.to_thread(slow.began.wait, 10)
    slow.may_end.set()

    assert [count.tokens for count in await counting] == [len("four") + len("content") + 4]
    counter.close()


async def test_while_eight_wait_for_a_count_a_ninth_gets_none(slow):
    counter = exact.ExactCounter(pytest.fail)
    counting = asyncio.gather(*(counter.count(ask("x")) for _ in range(8)))
    await asyncio.to_thread(slow.began.wait, 10)

    assert await counter.count(ask("x")) is None

    slow.may_end.set()
    assert all(count.is_exact for count in await counting)
    assert await counter.count(ask("x")) is not None
    counter.close()


async def test_300_000_letters_without_a_space_are_counted(encoding):
    counter = exact.ExactCounter(pytest.fail)

    assert (await counter.count(ask("a" * 300_000))).tokens > 10_000
    counter.close()
