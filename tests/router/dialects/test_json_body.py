import json
from collections.abc import Callable

import pytest

from router.contract.errors import BadRequest, TooDeep, WrongMediaType
from router.contract.parts import LARGE_BYTES
from router.dialects import json_body
from router.dialects.json_body import check_numbers, locate, parse_body, parse_request
from tests.tools.houses import arrive
from tests.tools.work import cost_ratio


@pytest.mark.parametrize("raw", [b"", b"  ", b"null", b"[]", b'"x"', b"7"])
def test_a_body_that_is_no_object_is_refused_with_what_would_be_right(raw):
    with pytest.raises(BadRequest, match="JSON object"):
        parse_body(raw)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"messages": [{"content": "a"}, {"content": "\\ud800"}]}', "messages[1].content"),
        (b'{"a": NaN}', "a"),
        (b'{"a": {"b": 1e999}}', "a.b"),
        (b'{"a": [1, Infinity]}', "a[1]"),
    ],
)
def test_a_fault_is_named_by_its_path_and_byte(raw, path):
    with pytest.raises(BadRequest) as caught:
        parse_body(raw)

    assert caught.value.param == path
    assert "byte" in caught.value.message


@pytest.mark.parametrize("raw", [b'{"a": 1', b'{"a": 1} {"b": 2}', b'{"a": 1} x', b'{"a": "\xff"}', b"\xef\xbb\xbf{}"])
def test_truncated_doubled_and_badly_encoded_json_is_a_400(raw):
    with pytest.raises(BadRequest):
        parse_body(raw)


def test_another_encoding_is_an_unsupported_media_type():
    with pytest.raises(WrongMediaType):
        parse_body('{"a": 1}'.encode("utf-16"))


def refuse(raw: bytes, kind: type[Exception] = BadRequest) -> Callable[[], None]:
    def parse() -> None:
        with pytest.raises(kind):
            parse_body(raw)

    return parse


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize("depth", [1_100, 100_000])
def test_deep_nesting_is_refused(depth):
    refuse(nested(depth), TooDeep)()


def test_deep_nesting_is_refused_at_a_cost_in_proportion_to_its_length():
    assert cost_ratio(refuse(nested(800_000)), refuse(nested(100_000))) < 24


def test_a_cut_off_body_full_of_escapes_is_refused_at_a_cost_in_proportion_to_its_length():
    def cut_off(count: int) -> bytes:
        return b'{"model":"auto","messages":[{"role":"user","content":"' + b'\\"' * count

    raw = cut_off(40_000)
    with pytest.raises(BadRequest, match="byte"):
        parse_body(raw)

    assert cost_ratio(refuse(cut_off(80_000)), refuse(cut_off(10_000))) < 24
    assert cost_ratio(lambda: locate(cut_off(80_000), 160_054), lambda: locate(cut_off(10_000), 20_054)) < 24


def test_a_path_too_far_in_is_not_searched_for():
    assert locate(b"[" * 300_000, 300_000) == ""


PAD = "x" * 20_000
LONG_LIST = json.dumps([{"role": "user", "content": f"{number} {'y' * 5_000}"} for number in range(6)])


def test_a_field_that_matters_is_refused_when_it_comes_twice(subtests):
    for raw, name in [
        ('{"model":"a","messages":[1],"messages":[2]}', "messages"),
        ('{"model":"a","messages":[1],"messages":[1]}', "messages"),
        ('{"model":"a","messages":[],"max_tokens":5,"max_tokens":99}', "max_tokens"),
        ('{ "stream" : true , "model" : "a" , "stream" : false }', "stream"),
        ('{"model":"a","mess\\u0061ges":[1],"messages":[2]}', "messages"),
        (f'{{"model":"a","max_tokens":1e5,"messages":["{PAD}"],"max_tokens":1}}', "max_tokens"),
        (f'{{"model":"a","messages":["{PAD}"],"messages":["{PAD}y"]}}', "messages"),
        (f'{{"messages":["{PAD}"],"model":"a","stream":true,"stream":false}}', "stream"),
        (f'{{"model":"a","input":"short","tools":[],"input":["{PAD}"],"tools":[1]}}', "input"),
        (f'{{"model":"a","messages":\n[1],"pad":"{PAD}","messages":[2]}}', "messages"),
        (f'{{"model":"a","m\\u0065ssages":[1],"pad":"{PAD}","messages":[2]}}', "messages"),
        (f'{{"model":"a","messages":[2],"pad":"{PAD}","messages":"x","pod":"{PAD}"}}', "messages"),
        (f'{{"model":"a","pad":"{PAD}","max_tokens":1,"messages":{LONG_LIST},"max_tokens":9,"end":"{PAD}"}}', "max_tokens"),
        (f'{{"model":"a","messages":{LONG_LIST},"tools":[1],"pad":"{PAD}","t\\u006fols":[2],"end":"{PAD}"}}', "tools"),
        (f'{{"model":"a","pad":"{PAD}","metadata":{{}},"messages":{LONG_LIST},"metadata":{{"a":1}}}}', "metadata"),
    ]:
        with subtests.test(raw=raw, name=name):
            with pytest.raises(BadRequest, match=f'^duplicate key "{name}". Send it once$') as caught:
                parse_request(arrive(raw=raw.encode()))

            assert caught.value.param == name


@pytest.mark.parametrize(
    "raw",
    [
        '{"model":"a","messages":[{"messages":1,"tools":[{"tools":2}]}],"tools":[]}',
        ' {\n"model" : "a" ,\n "messages" : [ {"messages" : 1 } ] , "tools" : [ {"stream": 1} ], "stream":true } ',
        f'{{"model":"a","input":[{{"type":"custom_tool_call","input":"{PAD}"}}],"stream":true,"tools":[{{"stream":1}}]}}',
        f'{{"model":"a","messages":[{{"messages":["{PAD}"]}}]}}',
        f'{{"model":"a","tools":[{{"messages":[{{"stream":1}}]}}],"messages":{LONG_LIST},"stream":true}}',
        f'{{ "model" : "a", "messages" : {LONG_LIST}, "stream" : true }}',
        "{}",
    ],
)
def test_a_field_that_comes_again_inside_another_is_fine(raw):
    assert parse_request(arrive(raw=raw.encode()))[0] == json.loads(raw)


LARGE = "z" * (LARGE_BYTES + 1)


def test_a_large_body_is_read_in_parts_as_any_other():
    raw = f' {{"model":"a","input":["{LARGE}",{{"input":1}}],"n":1,"pad":"\\u00e9{PAD}"}}\n'.encode()

    body, has_one_model, _ = parse_request(arrive(raw=raw))

    assert body == json.loads(raw)
    assert has_one_model


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ('"n":1,"n":2}', 'duplicate key "n"'),
        ('"inp\\u0075t":[1]}', 'duplicate key "input"'),
        ('"n":NaN}', "byte 2097169"),
        ('"n":1', "byte"),
        ('"n":1} x', "byte"),
        (",".join(f'"{number}":1' for number in range(1_001)) + "}", "too many fields: 1,002"),
    ],
)
def test_a_large_body_is_refused_for_what_a_small_one_is(end, words):
    with pytest.raises(BadRequest, match=words):
        parse_request(arrive(raw=f'{{"input":"{LARGE}",{end}'.encode()))


def test_a_large_body_with_two_models_has_not_one():
    raw = f'{{"model":"a","input":"{LARGE}","model":"b"}}'.encode()

    body, has_one_model, _ = parse_request(arrive(raw=raw))

    assert body["model"] == "b"
    assert not has_one_model


@pytest.mark.parametrize("value", ["[]", "1", '{"role":"user","content":"y"}'])
def test_a_body_of_millions_of_values_is_refused_before_it_is_parsed(value, monkeypatch):
    crowded = '{"model":"a","messages":[' + ",".join([value] * 1_300_000) + "]}"
    monkeypatch.setattr(json_body, "parse_members", None)

    with pytest.raises(BadRequest, match="too many values"):
        parse_request(arrive(raw=crowded.encode()))


def test_names_count_as_values_in_a_crowded_body():
    names = ",".join(f'"{n}":1' for n in range(450_000))

    with pytest.raises(BadRequest, match="too many values"):
        parse_request(arrive(raw=f'{{"model":"a","messages":[],"metadata":{{{names}}}}}'.encode()))


def test_a_body_of_thousands_of_fields_is_refused():
    names = ",".join(f'"field-{n}":1' for n in range(2_000))

    with pytest.raises(BadRequest, match="too many fields: 2,002"):
        parse_request(arrive(raw=f'{{"model":"a","messages":[],{names}}}'.encode()))


def test_a_large_body_of_few_values_is_parsed():
    raw = json.dumps({"model": "a", "messages": [{"role": "user", "content": "x" * (4 << 20)}]}).encode()

    assert parse_request(arrive(raw=raw))[0] == json.loads(raw)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"n": 129}, "n"),
        ({"n": 8.0}, "n"),
        ({"best_of": 8e0}, "best_of"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": True}, "max_tokens"),
        ({"top_p": -3}, "top_p"),
    ],
)
def test_a_number_that_no_host_takes_is_named(body, field):
    with pytest.raises(BadRequest) as caught:
        check_numbers(body)

    assert caught.value.param == field


def test_numbers_that_were_not_sent_are_fine():
    check_numbers({"n": None, "temperature": 0.7, "max_tokens": 5, "other": "x"})
