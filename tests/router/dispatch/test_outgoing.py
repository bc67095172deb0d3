"""A request as one target gets it: byte for byte in its own dialect, written anew in another."""

import json

import pytest

from router.contract.errors import BadRequest
from router.contract.words import Dialect, Operation
from router.dialects.fitting import Fit
from router.dialects.hosts import Quirks, quirks_of
from router.dispatch.outgoing import prepare
from tests.tools.scripted import reach
from tests.tools.values import make_target, make_view

CHAT = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0.5}


def test_in_the_same_dialect_only_the_models_name_changes():
    view = make_view(CHAT)

    outgoing = prepare(view, reach(make_target()), 10)

    assert outgoing.body == view.raw.replace(b'"auto"', b'"spark-model"')
    assert (outgoing.dialect, outgoing.dropped, outgoing.answer) == (Dialect.CHAT, (), None)


def test_what_a_host_refuses_is_left_out_and_named():
    outgoing = prepare(make_view(CHAT), reach(make_target(), fit=Fit(Quirks(refuses=frozenset({"temperature"})))), 10)

    assert "temperature" not in json.loads(outgoing.body)
    assert outgoing.dropped == ("temperature",)


def test_in_another_dialect_the_body_is_written_anew_and_the_answer_has_a_translator():
    target = make_target(speaks=frozenset({Dialect.MESSAGES}))

    outgoing = prepare(make_view(CHAT), reach(target), 10)

    body = json.loads(outgoing.body)
    assert outgoing.dialect is Dialect.MESSAGES
    assert (body["model"], body["messages"][0]["role"]) == ("spark-model", "user")
    assert body["max_tokens"] > 0
    assert outgoing.answer is not None


def test_a_tiers_own_instructions_go_along_in_either_dialect():
    fit = Fit(instructions="Be brief.")

    same = prepare(make_view(CHAT), reach(make_target(), fit=fit), 10)
    other = prepare(make_view(CHAT), reach(make_target(speaks=frozenset({Dialect.MESSAGES})), fit=fit), 10)

    assert b"Be brief." in same.body
    assert b"Be brief." in other.body


def test_a_request_that_the_other_dialect_could_only_misunderstand_is_refused_before_any_call():
    view = make_view({"input": "x", "previous_response_id": "resp_1"}, Dialect.RESPONSES)

    with pytest.raises(BadRequest):
        prepare(view, reach(make_target()), 10)


def test_a_target_that_speaks_the_callers_dialect_counts_itself():
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    messages = reach(make_target(speaks=frozenset({Dialect.MESSAGES})))
    count = make_view(body, Dialect.MESSAGES, operation=Operation.COUNT_TOKENS)

    assert prepare(count, reach(make_target()), 10).is_counted_here
    assert not prepare(count, messages, 10).is_counted_here
    assert not prepare(make_view(CHAT), messages, 10).is_counted_here


def test_what_one_request_gives_no_reason_to_change_another_does():
    target = reach(make_target(), fit=Fit(Quirks(refuses=frozenset({"temperature"}))))
    calm = make_view({"messages": CHAT["messages"]})

    assert prepare(calm, target, 10).body == calm.raw.replace(b'"auto"', b'"spark-model"')
    assert b"temperature" not in prepare(make_view(CHAT), target, 10).body


STREAM = {**CHAT, "stream": True}
ASKED = b'"spark-model","stream_options":{"include_usage":true}'


def test_a_stream_is_asked_for_usage_and_every_other_byte_stays_as_it_was():
    view = make_view(STREAM)

    outgoing = prepare(view, reach(make_target()), 10)

    assert outgoing.body == view.raw.replace(b'"auto"', ASKED)
    assert (outgoing.asks_usage, outgoing.dropped) == (True, ())


def test_the_callers_own_options_are_kept_in_the_question():
    view = make_view({**STREAM, "stream_options": {"include_obfuscation": False}})

    outgoing = prepare(view, reach(make_target()), 10)

    assert json.loads(outgoing.body)["stream_options"] == {"include_obfuscation": False, "include_usage": True}
    assert outgoing.asks_usage


def test_who_asks_for_usage_gets_it_and_a_whole_answer_is_not_asked_for_it():
    asked = make_view({**STREAM, "stream_options": {"include_usage": True}})

    for view in (asked, make_view(CHAT), make_view({"prompt": "x", "stream": True}, Dialect.COMPLETIONS)):
        outgoing = prepare(view, reach(make_target()), 10)
        assert outgoing.body == view.raw.replace(b'"auto"', b'"spark-model"')
        assert not outgoing.asks_usage


def test_a_host_that_refuses_the_question_is_never_asked_over_a_bridge_or_without():
    reachable = reach(make_target(), fit=Fit(quirks_of("https://api.mistral.ai/v1")))
    theirs = make_view({"input": "x", "stream": True}, Dialect.RESPONSES)

    for view in (make_view(STREAM), theirs):
        outgoing = prepare(view, reachable, 10)
        assert "stream_options" not in json.loads(outgoing.body)
        assert (outgoing.asks_usage, outgoing.dropped) == (False, ())


def test_an_engine_that_says_what_it_used_by_itself_is_asked_no_longer_until_it_does_not():
    reachable = reach(make_target())

    reachable.asking.note_end(tells_unasked=True)
    assert not prepare(make_view(STREAM), reachable, 10).asks_usage
    reachable.asking.note_end(tells_unasked=False)
    assert prepare(make_view(STREAM), reachable, 10).asks_usage


def test_a_target_that_refused_the_question_is_never_asked_again():
    reachable = reach(make_target())
    reachable.asking.refuse()
    reachable.asking.note_end(tells_unasked=False)

    assert not prepare(make_view(STREAM), reachable, 10).asks_usage
    bridged = prepare(make_view({"input": "x", "stream": True}, Dialect.RESPONSES), reachable, 10)
    assert "stream_options" not in json.loads(bridged.body)
