"""The estimate against the real tokenizer, on kinds of text that prompts hold."""

import base64
import inspect
import json
import json.decoder
import random

import pytest

from router.contract.caller import Caller, SessionKey
from router.contract.signals import TokenCount
from router.contract.words import Dialect
from router.sense.exact import ExactCounter
from router.sense.tokens import HIGH, LOW, Calibration, estimate_prompt, estimate_tokens, texts_of
from tests.tools.http import call, chat
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
    content = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": url}}]

    assert 1_000 <= estimate_prompt(make_view({"messages": [{"role": "user", "content": content}]})).tokens < 1_100


def test_an_image_does_not_hide_a_large_tool_result():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, image]},
        {"role": "tool", "tool_call_id": "c", "content": "def f(x): return x + 1\n" * 10_000},
    ]

    assert estimate_prompt(make_view({"messages": messages})).tokens > 50_000


URL = "data:image/png;base64," + "A" * 5_000


def texts(body: dict, dialect: Dialect = Dialect.CHAT) -> set[str]:
    return set(texts_of(make_view(body, dialect)))


def test_messages_calls_results_and_tools_are_read_with_the_names_of_their_fields():
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": '{"a": 1}'}}
    body = {
        "messages": [
            {"role": "user", "content": "please"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "written"},
        ],
        "tools": [{"type": "function", "function": {"name": "write", "description": "to a file"}}],
    }

    found = texts(body)

    assert {"please", '{"a": 1}', "write", "written", "to a file", "arguments", "description"} <= found
    assert not {"user", "assistant", "tool", "c", "function call"} & found


@pytest.mark.parametrize(
    ("body", "dialect", "text"),
    [
        ({"input": "the input", "instructions": "x"}, Dialect.RESPONSES, "the input"),
        ({"input": "x", "instructions": "the instructions"}, Dialect.RESPONSES, "the instructions"),
        ({"prompt": "the prompt"}, Dialect.COMPLETIONS, "the prompt"),
        (
            {
                "max_tokens": 1,
                "messages": [{"role": "user", "content": "x"}],
                "system": [{"type": "text", "text": "the system"}],
            },
            Dialect.MESSAGES,
            "the system",
        ),
    ],
)
def test_each_dialects_own_fields_are_read(body, dialect, text):
    assert text in texts(body, dialect)


def test_an_image_is_left_out_and_a_plain_address_is_read():
    def with_url(url: str) -> set[str]:
        return texts({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]})

    assert URL not in with_url(URL)
    assert "http://host/a.png" in with_url("http://host/a.png")


def test_long_text_under_another_name_is_read_whole():
    text = "word " * 2_000

    assert text in texts({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]})


def test_what_no_model_reads_is_left_out():
    assert texts({"messages": [{"role": "user", "content": "x"}], "user": "me", "metadata": {"a": "b"}}) == {"content", "x"}


def test_a_list_in_a_list_that_is_nested_deeply_ends():
    value: object = "deep inside"
    for _ in range(200):
        value = [value]

    assert "deep inside" in texts({"messages": [{"role": "user", "content": [{"type": "text", "text": value}]}]})


def estimate(tokens: int) -> TokenCount:
    return TokenCount(tokens, int(tokens * LOW), int(tokens * HIGH))


ME = SessionKey(Caller("me"), "s")


def calibrated(estimated: int, counted: int) -> Calibration:
    calibration = Calibration()
    calibration.note(ME, estimated, counted)
    return calibration


def test_a_prompt_counted_before_is_known_to_half_a_percent():
    calibration = calibrated(110_000, 123_066)

    again = calibration.narrow(ME, estimate(110_000))

    assert (again.tokens, again.low > 122_000, again.high < 124_000) == (123_066, True, True)


def test_what_a_session_grew_by_is_estimated_and_widens_the_band():
    calibration = calibrated(100_000, 110_000)

    grown = calibration.narrow(ME, estimate(120_000))

    assert grown.tokens == 130_000
    assert grown.high - grown.low > 10_000
    assert grown.high - grown.low < estimate(120_000).high - estimate(120_000).low


def test_a_session_that_shrank_or_is_anothers_is_estimated_afresh():
    calibration = calibrated(100_000, 110_000)

    assert calibration.narrow(ME, estimate(50_000)) == estimate(50_000)
    assert calibration.narrow(SessionKey(Caller("you"), "s"), estimate(100_000)) == estimate(100_000)
    assert calibration.narrow(SessionKey(Caller("me"), "t"), estimate(100_000)) == estimate(100_000)


async def test_a_session_near_a_limit_is_counted_once_and_not_at_every_call(simulated, monkeypatch):
    counted = []
    count = ExactCounter.count

    async def counting(self, view, *how):
        counted.append(view.id)
        return await count(self, view, *how)

    monkeypatch.setattr(ExactCounter, "count", counting)
    source = inspect.getsource(json.decoder)
    body = chat(source * (410_000 // len(source))) | {"model": "fast"}
    replies = [await call(simulated.port, "/tandem/explain", body) for _ in range(4)]

    assert len(counted) == 1
    assert {reply.json["prompt_tokens"] for reply in replies[1:]} == {replies[0].json["prompt_tokens"]}
