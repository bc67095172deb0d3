"""JSON numbers that keep their digits."""

import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.digits import as_written, keep_large, may_lose_digits, parse_exactly, with_digits
from router.contract.parts import LARGE_BYTES, PART_BYTES

WEI = b"115792089237316195423570985008687907853269984665640564039457584007913129639935"
LONG = b"0.1234567890123456789012345"


def rewritten(raw: bytes) -> bytes:
    return orjson.dumps(parse_exactly(raw), default=as_written)


def test_a_number_comes_out_as_it_went_in(subtests):
    for number, around in itertools.product(
        [WEI, b"-" + WEI, LONG, b"12345678.123456789", b"1.00000000000000000000e5", b"9007199254740993"],
        [b"%b", b"[%b]", b'{"a":{"b":[1,%b]}}'],
    ):
        with subtests.test(number=number, around=around):
            assert rewritten(around % number) == around % number


def test_a_number_with_digits_is_still_a_number():
    value = parse_exactly(b"[%b]" % LONG)[0]

    assert isinstance(value, float)
    assert value == pytest.approx(0.123456789)


@given(st.recursive(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists, max_leaves=6))
def test_whatever_json_there_is_keeps_its_value(value):
    raw = orjson.dumps(value, default=str) if not isinstance(value, list | int) else repr_json(value)

    assert rewritten(raw) == raw or orjson.loads(rewritten(raw)) == orjson.loads(raw)


def repr_json(value: object) -> bytes:
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(repr_json, value))
    return str(value).encode() if isinstance(value, int) else orjson.dumps(value)


@pytest.mark.parametrize(
    "raw", [b'{"a":0.7,"b":1234567890}', b'{"t":"at 192.168.100.200 ..... ok"}', b'{"id":"x1234567890123456789"}']
)
def test_an_ordinary_text_is_parsed_once(raw):
    assert not may_lose_digits(raw)
    assert with_digits(raw, body := orjson.loads(raw)) is body


def test_what_is_no_json_is_refused_as_ever():
    with pytest.raises(orjson.JSONDecodeError):
        parse_exactly(b"[12345678901234567890123")


def test_what_is_nested_too_deeply_for_an_exact_parse_is_parsed_as_far_as_it_can_be():
    raw = b"[" * 1_000 + WEI + b"]" * 1_000

    assert isinstance(parse_exactly(raw), list)


def test_only_numbers_are_written_by_their_text():
    with pytest.raises(TypeError, match="not JSON: object"):
        as_written(object())


def test_large_integers_of_another_parser_can_be_written():
    assert orjson.dumps(keep_large({"a": [int(WEI), 5, True, "x"]}), default=as_written) == b'{"a":[%b,5,true,"x"]}' % WEI


@pytest.mark.parametrize("before", range(PART_BYTES - 40, PART_BYTES + 20, 3))
def test_a_number_in_a_large_body_keeps_its_digits_wherever_it_is(before):
    raw = b'{"a":"%b","n":%b,"b":"%b"}' % (b"x" * before, WEI, b"y" * LARGE_BYTES)

    exact = with_digits(raw, orjson.loads(raw))

    assert orjson.dumps(exact, default=as_written) == raw
