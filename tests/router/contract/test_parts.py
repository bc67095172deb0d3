"""Large JSON in parts: each result is that of one call, and no call is long."""

import json
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract import parts
from router.contract.digits import as_written, parse_exactly
from router.contract.parts import LARGE_BYTES, PART_BYTES, is_in, parse_parts, parts_of, write_parts

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=30,
)
SIXTEEN_MB = "x " * (8 << 20)
SHAPES = {
    "one text": {"input": SIXTEEN_MB},
    "escapes": {"input": 'say "hi"\n' * (1 << 20)},
    "messages": {"messages": [{"role": "user", "content": "line\n" * 4_000} for _ in range(400)]},
    "an image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "A" * (6 << 20)}}]}]},
    "crowded": {"messages": [{"role": "user", "content": "hi"}] * 100_000},
    "fields": {"metadata": {str(number): "x" * 20 for number in range(150_000)}},
}


def in_small_parts():
    return mock.patch.multiple(parts, LARGE_BYTES=24, PART_BYTES=16, _PART_ITEMS=3, _FEW=2, _TURN_SECONDS=0)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]), st.sampled_from(["", " \n"]))
def test_any_json_is_read_as_one_call_reads_it(value, is_ascii, indent, blanks):
    raw = (blanks + json.dumps(value, ensure_ascii=is_ascii, indent=indent) + blanks).encode()

    with in_small_parts():
        assert parse_parts(raw) == orjson.loads(raw)


@given(VALUES)
def test_any_json_is_written_as_one_call_writes_it(value):
    with in_small_parts():
        assert write_parts(value) == orjson.dumps(value)


@pytest.mark.parametrize("unit", ["😀", "é", "日本", "\\", '"', "\\ud83d", "\n\\", "a\\😀", "\x00"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_text_is_never_cut_within_a_character_or_an_escape(unit, is_ascii):
    for shift in range(14):
        raw = json.dumps("x" * shift + unit * 40, ensure_ascii=is_ascii).encode()
        with in_small_parts():
            assert parse_parts(raw) == json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [b'{"a":"' + b"x" * 90, b'["' + b"\\ud800" * 20 + b'"]', b'["' + b"\xe3" * 90 + b'"]', b"[1,2," + b"3," * 60 + b"x]"],
)
def test_malformed_json_raises_what_one_call_raises(raw):
    with pytest.raises(orjson.JSONDecodeError) as expected:
        orjson.loads(raw)

    with in_small_parts(), pytest.raises(orjson.JSONDecodeError) as caught:
        parse_parts(raw)

    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("name", SHAPES)
def test_no_call_reads_or_writes_much_at_once(name, monkeypatch):
    value = SHAPES[name]
    raw, calls, whole = orjson.dumps(value), list[int](), orjson.dumps

    def loads(part: bytes):
        calls.append(len(part))
        return orjson.loads(part)

    def dumps(part: object, **more):
        calls.append(len(written := whole(part, **more)))
        return written

    assert parse_parts(raw, loads) == value
    monkeypatch.setattr(orjson, "dumps", dumps)
    assert write_parts(value) == raw

    assert max(calls) <= LARGE_BYTES
    assert len(raw) > LARGE_BYTES


def test_numbers_keep_their_digits():
    raw = b'{"a":[%b1.00000000000000000000e5],"b":%d}' % (b"1," * 40, 10**30)

    with in_small_parts():
        assert write_parts(parse_parts(raw, parse_exactly), as_written) == raw


def test_an_object_left_open_takes_another_field():
    assert write_parts({"a": [1]}, is_open=True) + b',"b":2}' == b'{"a":[1],"b":2}'


def test_parts_overlap_so_that_nothing_is_lost_at_a_border():
    raw = b"x" * (PART_BYTES - 2) + b"mark" + b"x" * PART_BYTES

    assert b"".join(parts_of(raw)) == raw
    assert any(b"mark" in part for part in parts_of(raw, overlap=3))
    assert not any(b"mark" in part for part in parts_of(raw))
    assert is_in(raw.decode(), "mark")
    assert not is_in(raw.decode(), "marks")
