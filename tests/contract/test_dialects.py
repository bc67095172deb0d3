"""What every dialect must hold to. A newcomer is one entry of `SPECS`, and finds itself in here."""

import json
from typing import get_args

import pytest

from router.config.target_settings import TargetSettings
from router.contract.errors import BadRequest, TooLong, UpstreamMalformed
from router.contract.usage import Usage
from router.contract.words import Dialect, Feature, Operation
from router.dialects.answers import read_whole_answer
from router.dialects.composer import Answer, ComposedCall, Finish, write_call
from router.dialects.fitting import Fit, fields_to_change
from router.dialects.hosts import says_too_long
from router.dialects.refusals import failure_event, refusal_body
from router.dialects.requests import guess_dialect
from router.dialects.spec import DialectSpec
from router.dialects.sse import split_frames
from router.dialects.table import SPECS
from router.dialects.translate.context import WriteContext
from router.dialects.translate.frames import FrameSplitter
from tests.tools.values import EVERYTHING, make_target, make_view

WORDS = "Fix the typo"
ANSWER = Answer("x", "auto", 1)
USAGE = Usage(11, 5, cached_tokens=2)
CALL = ComposedCall("call_1", "ls", '{"path":"."}')
BRIDGED = [name for name, spec in SPECS.items() if spec.translation is not None]


@pytest.fixture(params=list(Dialect))
def spec(request) -> DialectSpec:
    return SPECS[request.param]


@pytest.fixture(params=BRIDGED)
def bridged(request) -> DialectSpec:
    return SPECS[request.param]


def read(spec: DialectSpec, body: dict):
    return make_view(body, spec.name)


def write_stream(spec: DialectSpec, finish: Finish = Finish.STOP, *, with_call: bool = False) -> list[bytes]:
    """An answer's frames, one after another."""
    composer = spec.composer(ANSWER)
    pieces = [composer.open(), composer.text("one "), composer.text("two"), write_call(composer, CALL) if with_call else b""]
    stream = b"".join([*pieces, composer.close(finish, USAGE)])
    return [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]


def test_every_dialect_is_in_the_table_under_its_own_name():
    assert set(SPECS) == set(Dialect)
    assert all(spec.name is name for name, spec in SPECS.items())


def test_no_field_may_be_forgotten():
    assert DialectSpec.__struct_defaults__ == ()


def test_a_field_is_empty_only_where_its_type_says_so(spec):
    empty = [name for name in DialectSpec.__struct_fields__ if getattr(spec, name) is None]

    assert [name for name in empty if type(None) not in get_args(DialectSpec.__annotations__[name])] == []


def test_no_two_paths_are_the_same():
    paths = [path for spec in SPECS.values() for path in spec.paths.values()]

    assert len(paths) == len(set(paths))


def test_answers_are_asked_for_under_a_path_without_its_version(spec):
    assert Operation.CREATE in spec.paths
    for path in spec.paths.values():
        assert path.startswith("/")
        assert not path.startswith("/v1")
        assert not path.endswith("/")


def test_its_example_is_a_request_that_it_reads(spec):
    view = read(spec, {**spec.write_example(WORDS), **spec.stream_fields})

    assert view.conversation[0].texts == (WORDS,)
    assert (view.conversation[0].role == "user") is spec.is_conversation
    assert view.is_streaming


def test_its_example_is_known_without_a_path(spec):
    headers = {spec.own_header: "1"} if spec.own_header else {}

    assert guess_dialect(spec.write_example(WORDS), headers) is spec.name


@pytest.mark.parametrize("bad", [None, 7, {}])
def test_a_request_without_its_conversation_is_refused_naming_the_field(spec, bad):
    with pytest.raises(BadRequest) as caught:
        read(spec, {**spec.write_example(WORDS), spec.list_field: bad})

    assert caught.value.param == spec.list_field


def test_a_path_for_every_operation_leads_to_a_request_that_is_read(spec):
    for operation in spec.paths:
        view = make_view(spec.write_example(WORDS), spec.name, operation=operation)

        assert view.operation is operation


def test_instructions_become_the_end_of_the_system_prompt_and_nothing_else_changes(spec):
    changes: dict = {}
    body = spec.write_example(WORDS)

    spec.add_instructions(body, "Small edits.", changes)

    view = read(spec, {**body, **changes})
    assert view.system == ("Small edits." if spec.is_conversation else "")
    assert view.conversation[-1].texts == (WORDS,)
    assert body == spec.write_example(WORDS)


def test_effort_is_read_where_it_is_written_and_goes_where_no_reasoning_is_taken(spec):
    if not spec.is_conversation:
        assert spec.reasoning_fields == ()
        return
    effort = {spec.effort_holder: {"effort": "xhigh"}} if spec.effort_holder else {"reasoning_effort": "xhigh"}
    body = {**spec.write_example(WORDS), **effort}
    view = read(spec, body)

    assert view.effort == "xhigh"
    mapped, _ = fields_to_change(view, make_target(), Fit(efforts={"xhigh": "high"}))
    assert read(spec, {**body, **mapped}).effort == "high"
    dropped, lost = fields_to_change(view, make_target(accepts=EVERYTHING - {Feature.REASONING}), Fit())
    assert lost
    assert Feature.REASONING not in read(spec, {**body, **dropped}).needs


def test_a_plain_request_holds_no_hidden_state_and_loses_nothing(spec):
    items = spec.write_example(WORDS)[spec.list_field]
    items = items if isinstance(items, list) else [items]

    assert [key for item in items if isinstance(item, dict) for key in spec.opaque_keys(item)] == []
    assert spec.without_opaque(items, lambda key: True) == items
    assert spec.without_wrapped is None or spec.without_wrapped(items) == items


def test_a_whole_stream_is_complete_and_tells_its_usage(spec):
    end = spec.read_end(split_frames(b"".join(write_stream(spec))))

    assert (end.is_complete, end.has_failed, end.usage) == (True, False, USAGE)


def test_a_stream_that_is_cut_is_neither_complete_nor_failed(spec):
    frames = write_stream(spec)
    ends = [spec.read_end(split_frames(b"".join(frames[:count]))) for count in range(len(frames))]
    first_whole = next((count for count, end in enumerate(ends) if end.is_complete), len(frames))

    assert not any(end.has_failed for end in ends)
    assert b"two" in b"".join(frames[:first_whole])  # what it said is there before it may count as ended


def test_its_failure_event_is_a_failure_to_its_own_reader(spec):
    begun = b"".join(write_stream(spec)[:2])

    for event in (
        failure_event(UpstreamMalformed("t", "x"), spec.name, "req_1"),
        spec.composer(ANSWER).fail(502, "upstream_malformed", "it broke"),
    ):
        end = spec.read_end(split_frames(begun + event))
        assert (end.is_complete, end.has_failed) == (False, True)
        assert len(split_frames(event)) == 1


def test_its_refusal_is_json_with_the_words_and_is_not_an_answer(spec):
    raw = refusal_body(BadRequest("model: missing", param="model"), spec.name, "req_1")

    assert json.loads(raw)["error"]["message"] == "model: missing. (request req_1)"
    with pytest.raises(ValueError, match="answer"):
        read_whole_answer(spec.name, raw)


def test_a_refusal_for_length_stays_one_and_is_worded_once(spec):
    worded = spec.word_too_long("This model's maximum context length is 8000 tokens, you asked for 9000")

    assert says_too_long(worded)
    assert spec.word_too_long(worded) == worded
    assert TooLong.code in json.dumps(spec.write_refusal(400, worded, TooLong.code, None, "req_1"))


def test_the_mark_of_a_first_token_is_in_every_delta_and_in_nothing_that_is_not_the_models(spec):
    composer = spec.composer(ANSWER)
    composer.open()

    assert spec.first_token_mark in composer.text("one")
    assert spec.first_token_mark in composer.text("two")
    assert spec.first_token_mark not in composer.beat()
    assert spec.first_token_mark not in spec.write_failure(502, "it broke", "upstream_malformed", "req_1")


def test_a_whole_answer_of_its_composer_is_an_answer_with_its_usage(spec):
    composer = spec.composer(ANSWER)
    composer.open()
    composer.text("one two")
    composer.close(Finish.STOP, USAGE)

    assert read_whole_answer(spec.name, json.dumps(composer.whole()).encode()) == USAGE
    with pytest.raises(ValueError, match="answer"):
        read_whole_answer(spec.name, b'{"id": "x"}')


@pytest.mark.parametrize("finish", list(Finish))
def test_what_its_composer_streams_its_parser_reads(bridged, finish):
    told = bridged.composer(ANSWER)
    told.open()
    parser = bridged.translation.parser(told, "spark", "x")
    splitter = FrameSplitter()

    for payload in splitter.feed(b"".join(write_stream(bridged, finish, with_call=True))):
        if payload != b"[DONE]":
            parser.parse(json.loads(payload))
    parser.finish()

    assert parser.is_complete
    assert parser.end.usage == USAGE
    assert told.whole() == written_whole(bridged, finish)


@pytest.mark.parametrize("finish", list(Finish))
def test_what_its_composer_writes_whole_its_parser_reads(bridged, finish):
    told = bridged.composer(ANSWER)
    told.open()
    parser = bridged.translation.parser(told, "spark", "x")

    parser.parse_whole(written_whole(bridged, finish))

    assert parser.is_complete
    assert told.whole() == written_whole(bridged, finish)


def written_whole(spec: DialectSpec, finish: Finish) -> dict:
    composer = spec.composer(ANSWER)
    composer.open()
    composer.text("one ")
    composer.text("two")
    write_call(composer, CALL)
    composer.close(finish, USAGE)
    return composer.whole()


def test_its_failure_event_is_a_failure_to_its_parser(bridged):
    parser = bridged.translation.parser(bridged.composer(ANSWER), "spark", "x")

    for payload in FrameSplitter().feed(bridged.write_failure(502, "it broke", "server_error", "req_1")):
        parser.parse(json.loads(payload))

    assert parser.failure is not None
    assert parser.failure.message == "it broke"


def test_a_request_goes_through_a_draft_and_back_with_its_words(bridged):
    body = {**bridged.write_example(WORDS), **bridged.stream_fields}
    context = WriteContext(make_target(), "auto")

    draft = bridged.translation.read_draft(body)
    written = bridged.translation.write_draft(draft, context)

    view = read(bridged, written)
    assert view.conversation[-1].texts == (WORDS,)
    assert view.is_streaming
    assert not draft.dropped


def test_the_config_offers_a_target_every_dialect_that_can_be_bridged():
    offered = get_args(get_args(TargetSettings.model_fields["dialect"].annotation)[0])

    assert set(offered) == set(BRIDGED)
