"""The estimate against the real tokenizer, on kinds of text that prompts hold."""

import base64
import inspect
import json
import random
import time

import pytest

from router.contract.words import Dialect
from router.sense import exact
from router.sense.tokens import HIGH, LOW, estimate_prompt, estimate_tokens
from tests.tools.values import ask, make_view

PROSE = (
    "Tandem sends every turn to the tier that will have the developer finished sooner. It counts the time in the queue, "
    "the warm cache, the speed of each model and the risk of doing the work twice, and it says why in one sentence. "
) * 60
CODE = "\n".join(inspect.getsource(module) for module in (json, random, base64))
CHINESE = (
    "每个请求都会交给更快完成的层级。系统会计算排队时间、缓存、模型速度以及返工的风险，然后用一句话说明原因。请修复这个函数中的错误并补充测试。"
    * 80
)
LOG = "\n".join(
    f"2026-11-15T02:{n % 60:02d}:07.{n:06d}Z INFO worker-{n % 7} request id={n * 7919:08x} took {n}.3ms" for n in range(400)
)
SAMPLES = {
    "code": CODE,
    "prose": PROSE,
    "json": json.dumps(
        [{"id": n, "name": f"item-{n}", "tags": ["a", "b"], "price": n * 1.5, "ok": n % 2 == 0} for n in range(300)]
    ),
    "chinese": CHINESE,
    "base64": base64.b64encode(random.Random(7).randbytes(20_000)).decode(),
    "log": LOG,
}


@pytest.fixture(scope="module")
def encoding():
    folder = exact.find_vocabulary()
    if folder is None:
        pytest.skip("no tiktoken vocabulary on this machine: the band was not measured")
    import os

    import tiktoken

    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    return tiktoken.get_encoding("o200k_base")


@pytest.mark.parametrize("escaped", [False, True], ids=["utf-8", "escaped"])
@pytest.mark.parametrize("kind", list(SAMPLES))
def test_the_true_count_lies_inside_the_band(kind, escaped, encoding):
    text = SAMPLES[kind]
    raw = json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}]}, ensure_ascii=escaped).encode()

    estimate, truth = estimate_tokens(raw), len(encoding.encode_ordinary(text))

    assert LOW <= truth / estimate <= HIGH


def test_an_estimate_of_two_megabytes_costs_no_more_than_one_of_a_page():
    page, book = b"def f(x): return x + 1\n" * 100, b"def f(x): return x + 1\n" * 90_000

    def cost(raw: bytes) -> float:
        return min(_timed(raw) for _ in range(50))

    def _timed(raw: bytes) -> float:
        began = time.perf_counter()
        estimate_tokens(raw)
        return time.perf_counter() - began

    assert cost(book) < 10 * cost(page) + 0.0005


def test_an_image_counts_as_an_image_and_not_as_its_base64():
    url = "data:image/png;base64," + "A" * 400_000
    view = make_view(
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": url}}]}
            ]
        }
    )

    assert 1_000 <= estimate_prompt(view).tokens < 1_100


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


def test_an_image_does_not_hide_a_large_tool_result():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, image]},
        {"role": "tool", "tool_call_id": "c", "content": "def f(x): return x + 1\n" * 10_000},
    ]

    assert estimate_prompt(make_view({"messages": messages})).tokens > 50_000


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


async def test_300_000_letters_without_a_space_are_counted_off_the_loop(encoding):
    import asyncio

    counter = exact.ExactCounter(pytest.fail)
    await counter.count(ask())
    late = 0.0

    async def watch():
        nonlocal late
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            late = max(late, time.perf_counter() - began - 0.005)

    watcher = asyncio.ensure_future(watch())  # noqa: TID251
    await asyncio.sleep(0.02)
    assert (await counter.count(ask("a" * 300_000))).tokens > 10_000

    watcher.cancel()
    counter.close()
    assert late < 0.05
