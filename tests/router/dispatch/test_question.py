"""One question to one target: its words, its answer, and every way in which there is none."""

import asyncio

import pytest

from router.contract.errors import CallerKey, UpstreamUnreachable
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.fitting import Fit
from router.dialects.hosts import quirks_of
from router.dispatch.question import ask
from tests.tools.exchanges import make_exchange
from tests.tools.scripted import answers, fails, hangs, names_of, reach
from tests.tools.upstream import CHAT_ANSWER
from tests.tools.values import make_target
from tests.tools.waiting import later, until


async def put(reachable, words="quick or long?", within_seconds=5.0, exchange=None):
    loop = asyncio.get_running_loop()
    exchange = exchange or make_exchange(began=loop.time())
    asked = await ask(exchange, reachable, words, within_seconds, loop.time, max_tokens=64)
    assert names_of(exchange.journal) == ["QuestionEnded"]
    assert asked.ended is exchange.journal[0]
    return asked


async def test_the_answers_text_and_its_usage_come_back():
    asked = await put(reach(make_target()))

    assert asked.text == "hi"
    assert asked.ended.usage == Usage(5, 2)
    row = asked.ended.attempt
    assert (row.target, row.status, row.error, row.is_question) == ("spark", 200, None, True)
    assert asked.ended.at >= asked.ended.opened_at


async def test_it_is_a_short_request_without_anything_of_the_callers():
    reachable = reach(make_target())

    await put(reachable)

    (body,), (request,) = reachable.adapter.bodies, reachable.adapter.opened
    assert body == {"model": "spark-model", "messages": [{"role": "user", "content": "quick or long?"}], "max_tokens": 64}
    assert (request.view.headers, request.session, request.view.is_streaming) == ({}, None, False)


async def test_a_hosts_own_name_for_the_limit_and_the_configs_word_for_effort_are_used():
    fit = Fit(quirks_of("https://api.openai.com/v1"), {"low": "minimal"})
    reachable = reach(make_target(), fit=fit)

    await put(reachable)

    (body,) = reachable.adapter.bodies
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (64, "minimal")


async def test_a_target_of_another_dialect_is_asked_in_its_own():
    answer = {
        "type": "message",
        "content": [{"type": "text", "text": "LONG"}],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    reachable = reach(make_target(speaks=frozenset({Dialect.MESSAGES})), answers({**answer, "stop_reason": "end_turn"}))

    asked = await put(reachable)

    assert (asked.text, asked.ended.usage.input_tokens) == ("LONG", 3)
    assert reachable.adapter.bodies[0]["max_tokens"] == 64


async def test_a_late_answer_is_not_waited_for_and_its_call_is_closed():
    reachable = reach(make_target(), hangs)

    asked = await put(reachable, within_seconds=0.02)

    assert (asked.text, asked.ended.error, asked.ended.attempt.error) == ("", None, "late")
    assert asked.ended.usage == Usage(3, 0, is_estimated=True)  # the question was read by then
    assert asked.ended.at - asked.ended.opened_at >= 0.018
    assert reachable.adapter.calls[0].is_cancelled


async def test_nobody_waits_beyond_the_requests_own_deadline():
    exchange = make_exchange(began=asyncio.get_running_loop().time(), seconds=0.02)

    asked = await put(reach(make_target(), hangs), exchange=exchange)

    assert asked.ended.attempt.error == "late"


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (fails(UpstreamUnreachable("spark", "gone")), None, "upstream_unreachable"),
        (answers({"error": {"message": "no"}}, 503), 503, "upstream_refused"),
        (answers({"error": {"message": "no"}}, 403), 403, "upstream_auth"),
        (answers({"error": {"message": "no"}}), 200, "upstream_malformed"),
        (answers(b"<html>"), 200, "upstream_malformed"),
        (answers(b"[1]"), 200, "upstream_malformed"),
        (answers(b"x" * 200_000), 200, "upstream_malformed"),
    ],
)
async def test_what_is_no_answer_is_an_error_of_the_question_alone(script, status, code):
    asked = await put(reach(make_target(), script))

    assert (asked.text, asked.ended.attempt.status, asked.ended.attempt.error) == ("", status, code)
    assert asked.ended.error.code == code
    assert (asked.ended.usage is not None) is (status == 200)  # who answers bills it, whatever it says


async def test_an_answer_that_does_not_end_is_cut_off():
    def talks(sink) -> None:
        sink.start(200, ())
        for _ in range(3):
            sink.write(b" " * 50_000)

    reachable = reach(make_target(), talks)

    asked = await put(reachable)

    assert asked.ended.attempt.error == "upstream_malformed"
    assert reachable.adapter.calls[0].is_cancelled


async def test_an_answer_without_words_is_empty():
    message = {"role": "assistant", "content": None}
    answer = {**CHAT_ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}

    assert (await put(reach(make_target(), answers(answer)))).text == ""


async def test_a_call_that_cannot_be_opened_is_a_failed_question():
    asked = await put(reach(make_target(), CallerKey("no key")))

    assert (asked.ended.attempt.error, asked.text) == ("caller_key", "")


async def test_who_is_cancelled_closes_the_call_and_the_fact_of_it_is_noted():
    reachable, exchange = reach(make_target(), hangs), make_exchange(began=asyncio.get_running_loop().time())
    task = later(put(reachable, exchange=exchange))
    await until(lambda: reachable.adapter.calls)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert reachable.adapter.calls[0].is_cancelled
    assert [fact.attempt.error for fact in exchange.journal] == ["abandoned"]
