"""The estimate against the real tokenizer, on kinds of text that prompts hold."""

import base64
import inspect
import json
import random

import pytest

from router.sense.tokens import HIGH, LOW, estimate_prompt, estimate_tokens
from tests.tools.values import make_view

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


@pytest.mark.parametrize("escaped", [False, True], ids=["utf-8", "escaped"])
@pytest.mark.parametrize("kind", list(SAMPLES))
def test_the_true_count_lies_inside_the_band(kind, escaped, encoding):
    text = SAMPLES[kind]
    raw = json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}]}, ensure_ascii=escaped).encode()

    estimate, truth = estimate_tokens(raw), len(encoding.encode_ordinary(text))

    assert LOW <= truth / estimate <= HIGH


class Watched(bytes):
    """Bytes that count how many of them are cut out to be looked at."""

    read = 0

    def __getitem__(self, index):
        piece = super().__getitem__(index)
        self.read += len(piece)
        return piece


@pytest.mark.parametrize("lines", [100, 90_000])
def test_an_estimate_of_two_megabytes_reads_no_more_than_one_of_a_page(lines):
    raw = Watched(b"def f(x): return x + 1\n" * lines)

    estimate_tokens(raw)

    assert raw.read == 16 * 128


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


def test_an_image_does_not_hide_a_large_tool_result():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, image]},
        {"role": "tool", "tool_call_id": "c", "content": "def f(x): return x + 1\n" * 10_000},
    ]

    assert estimate_prompt(make_view({"messages": messages})).tokens > 50_000
